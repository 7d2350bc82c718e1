//! Gzip members and the records in them, read back. The bytes may be anything.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

use super::date::timestamp_of;
use super::digest::Digest;
use super::index::{Pending, sort_key};
use super::record::{Response, head_bytes};

/// A record larger than this is not one of ours.
const MOST_RECORD_BYTES: u64 = 1 << 30;

/// What is wrong with a member or the record in it.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// It could not be read at all.
    #[error("cannot be read: {0}")]
    Io(io::Error),
    /// The file ends inside of it.
    #[error("is cut off")]
    CutOff,
    /// It is not a whole gzip member.
    #[error("is not valid gzip: {0}")]
    Gzip(io::Error),
    /// It is unreasonably large when unpacked.
    #[error("is larger than {MOST_RECORD_BYTES} bytes")]
    TooLarge,
    /// What is packed in it is no WARC record.
    #[error("holds no WARC record: {0}")]
    NotARecord(&'static str),
    /// Its bytes have changed.
    #[error("does not match its {0}")]
    Digest(&'static str),
}

/// A record as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    fields: Vec<(String, String)>,
    /// What follows its header lines: for a response, the server's bytes as sent.
    pub block: Vec<u8>,
}

impl Record {
    /// The value of a header line.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }

    /// `response`, `revisit` and so on.
    pub fn kind(&self) -> &str {
        self.field("WARC-Type").unwrap_or_default()
    }

    /// The payload of an HTTP record: what follows the HTTP header block.
    pub fn payload(&self) -> &[u8] {
        &self.block[head_bytes(&self.block)..]
    }

    /// Takes a record apart.
    fn parse(plain: &[u8]) -> Result<Self, Damage> {
        let wrong = |what| move || Damage::NotARecord(what);
        let head = memchr::memmem::find(plain, b"\r\n\r\n").ok_or_else(wrong("no header"))?;
        let text = str::from_utf8(&plain[..head]).map_err(|_| wrong("header is not text")())?;
        let mut lines = text.split("\r\n");
        if !matches!(lines.next(), Some("WARC/1.1" | "WARC/1.0")) {
            return Err(Damage::NotARecord("no version line"));
        }
        let fields = lines
            .map(|line| {
                let (name, value) = line.split_once(':')?;
                Some((name.to_owned(), value.trim().to_owned()))
            })
            .collect::<Option<_>>()
            .ok_or_else(wrong("a header line has no name"))?;
        let mut record = Self {
            fields,
            block: Vec::new(),
        };
        let length = record
            .field("Content-Length")
            .and_then(|l| l.parse::<usize>().ok());
        let length = length.ok_or_else(wrong("no length"))?;
        let (block, end) = plain[head + 4..]
            .split_at_checked(length)
            .ok_or_else(wrong("shorter than its length"))?;
        if end != b"\r\n\r\n" {
            return Err(Damage::NotARecord("does not end where its length says"));
        }
        record.block = block.to_vec();
        Ok(record)
    }

    /// Whether the bytes are those that the digests were made of.
    pub(super) fn check_digests(&self) -> Result<(), Damage> {
        if let Some(digest) = self.field("WARC-Block-Digest")
            && digest != Digest::of(&self.block).to_string()
        {
            return Err(Damage::Digest("block digest"));
        }
        // A revisit's payload is elsewhere.
        if let Some(digest) = self.field("WARC-Payload-Digest")
            && self.kind() == "response"
            && digest != Digest::of(self.payload()).to_string()
        {
            return Err(Damage::Digest("payload digest"));
        }
        Ok(())
    }

    /// The index line that belongs to it, if it gets one.
    pub(super) fn pending(&self, bytes: u64) -> Option<Pending> {
        let is_revisit = match self.kind() {
            "response" => false,
            "revisit" => true,
            _ => return None,
        };
        let url = self.field("WARC-Target-URI")?;
        let digest = self.field("WARC-Payload-Digest")?.parse().ok()?;
        let response = Response::with_digest(&self.block, digest);
        Some(Pending {
            key: sort_key(url),
            timestamp: timestamp_of(self.field("WARC-Date")?),
            url: url.into(),
            media_type: match is_revisit {
                true => "warc/revisit".into(),
                false => response.media_type().unwrap_or("unk").into(),
            },
            status: response.status().into(),
            digest,
            offset: 0,
            bytes,
        })
    }
}

/// Counts the bytes that are taken from a reader, so that the ends of members show.
struct Counted<R> {
    inner: R,
    taken: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(to)?;
        self.taken += count as u64;
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.taken += count as u64;
        self.inner.consume(count);
    }
}

/// Reads the member that begins here: its record, and its length in bytes. `None` at
/// the end of the input.
pub(super) fn read_member(from: impl BufRead) -> Result<Option<(Record, u64)>, Damage> {
    let mut counted = Counted {
        inner: from,
        taken: 0,
    };
    match counted.fill_buf() {
        Ok([]) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(Damage::Io(error)),
    }
    let mut plain = Vec::new();
    let mut decoder = GzDecoder::new(&mut counted).take(MOST_RECORD_BYTES + 1);
    if let Err(error) = decoder.read_to_end(&mut plain) {
        return Err(match error.kind() {
            io::ErrorKind::UnexpectedEof => Damage::CutOff,
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => Damage::Gzip(error),
            _ => Damage::Io(error),
        });
    }
    if plain.len() as u64 > MOST_RECORD_BYTES {
        return Err(Damage::TooLarge);
    }
    Ok(Some((Record::parse(&plain)?, counted.taken)))
}
