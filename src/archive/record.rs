//! Records as bytes: header lines, block and digests in one gzip member each.
//!
//! The payload of a response is everything after its header block, as sent: a body
//! that came in chunks is digested with the chunks' own framing. The standard would
//! have the framing removed first, but the tools that check archives do not remove it,
//! and an archive that they call damaged helps nobody.

use std::fmt;
use std::io::Write as _;
use std::net::IpAddr;

use libdeflater::{CompressionLvl, Compressor};
use memchr::memchr_iter;

use super::date::{timestamp, warc_date};
use super::digest::Digest;
use super::index::{Pending, sort_key};
use super::read::Original;
use super::writer::Settings;
use crate::clock::Millis;

/// Fast rather than small: see `docs/decisions/0005-archive-compression.md`.
const LEVEL: i32 = 1;
/// A record below this size that is no answer is put into its member as it is: before the
/// compressor looks at one byte it clears 128 KiB of tables.
const SMALL_BYTES: usize = 1 << 10;
/// What each buffer of a builder may keep: one huge page must not hold its memory for good.
const MOST_KEPT_BYTES: usize = 256 << 10;
const SAME_PAYLOAD: &str = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";

/// The name of a record, `<urn:uuid:…>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordId([u8; 16]);

impl RecordId {
    /// The id that follows from these bytes and the kind of record: the same bytes give
    /// the same id, so the caller has to give bytes that it gives only once.
    pub fn derive(bytes: &[u8], kind: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("peercrawl archive record id 1");
        hasher.update(kind.as_bytes()).update(&[0]).update(bytes);
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        // Version 8 of RFC 9562: made by a rule of our own.
        id[6] = id[6] & 0x0f | 0x80;
        id[8] = id[8] & 0x3f | 0x80;
        Self(id)
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = *b"<urn:uuid:00000000-0000-0000-0000-000000000000>";
        let places = text.iter_mut().skip(10).filter(|letter| **letter == b'0');
        let halves = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        for (place, half) in places.zip(halves) {
            *place = DIGITS[usize::from(half)];
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

/// Why a record does not hold all that the server would have sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncated {
    /// It was larger than we take.
    Length,
    /// It took longer than we wait.
    Time,
    /// The connection broke.
    Disconnect,
    /// Anything else.
    Unspecified,
}

impl Truncated {
    fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Time => "time",
            Self::Disconnect => "disconnect",
            Self::Unspecified => "unspecified",
        }
    }
}

/// What a server sent, with the digest of its payload.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    bytes: &'a [u8],
    head_bytes: usize,
    payload_digest: Digest,
}

impl<'a> Response<'a> {
    /// Takes the bytes of one answer as they came: status line, headers, body.
    pub fn new(bytes: &'a [u8]) -> Self {
        let head_bytes = head_bytes(bytes);
        Self {
            bytes,
            head_bytes,
            payload_digest: Digest::of(&bytes[head_bytes..]),
        }
    }

    /// The same, with a digest that is known already. A revisit needs no more of the
    /// bytes than the header block.
    pub fn with_digest(bytes: &'a [u8], payload_digest: Digest) -> Self {
        Self {
            bytes,
            head_bytes: head_bytes(bytes),
            payload_digest,
        }
    }

    /// The digest by which duplicates are recognised in archives.
    pub fn payload_digest(&self) -> Digest {
        self.payload_digest
    }

    /// What follows the header block.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.head_bytes..]
    }

    pub(super) fn status(&self) -> &'a str {
        let line = self.bytes.split(|b| *b == b'\n').next().unwrap_or_default();
        let word = line.split(|b| *b == b' ').nth(1).unwrap_or_default();
        str::from_utf8(word.trim_ascii()).unwrap_or_default()
    }

    /// The media type without its parameters.
    pub(super) fn media_type(&self) -> Option<&'a str> {
        let value = self.header("content-type")?;
        let value = value.split(|b| *b == b';').next().unwrap_or_default();
        str::from_utf8(value.trim_ascii())
            .ok()
            .filter(|v| !v.is_empty())
    }

    /// Whether the server compressed the payload: to do it again would gain nothing.
    fn is_compressed(&self) -> bool {
        self.header("content-encoding")
            .is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity"))
    }

    fn header(&self, name: &str) -> Option<&'a [u8]> {
        let mut lines = self.bytes[..self.head_bytes].split(|b| *b == b'\n');
        lines.find_map(|line| {
            let (found, value) = line.split_at_checked(name.len())?;
            let value = value.strip_prefix(b":")?;
            found
                .eq_ignore_ascii_case(name.as_bytes())
                .then(|| value.trim_ascii())
        })
    }
}

/// The length of an HTTP header block with its empty line; all of it if there is none.
pub(super) fn head_bytes(http: &[u8]) -> usize {
    // Line by line: a search for either ending alone would go through the body.
    for at in memchr_iter(b'\n', http) {
        // Servers that end lines with a bare line feed exist, also some lines alone.
        match &http[at + 1..] {
            [b'\r', b'\n', ..] => return at + 3,
            [b'\n', ..] => return at + 2,
            _ => {}
        }
    }
    http.len()
}

/// The length of the interim answers (`103 Early Hints`) that a server sent before the answer
/// itself, of which they are no part. Where nothing follows, the last one is the answer.
pub(crate) fn interim_bytes(http: &[u8]) -> usize {
    let mut at = 0;
    while is_interim(&http[at..]) {
        let next = at + head_bytes(&http[at..]);
        if next == http.len() {
            break;
        }
        at = next;
    }
    at
}

/// Whether the answer that begins here is followed by another one: not so after `101`.
fn is_interim(http: &[u8]) -> bool {
    let status = http
        .strip_prefix(b"HTTP/1.")
        .and_then(|rest| rest.get(1..5));
    status.is_some_and(|status| status.starts_with(b" 1") && status != b" 101")
}

/// One request and its answer.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// What was asked for.
    pub url: &'a str,
    /// When it was asked for.
    pub at_ms: Millis,
    /// Where the answer came from.
    pub address: Option<IpAddr>,
    /// The request as sent.
    pub request: &'a [u8],
    /// The answer as sent.
    pub response: Response<'a>,
    /// Why the answer is not whole, if it is not.
    pub truncated: Option<Truncated>,
    /// Bytes that no other exchange has; record ids are made from them.
    pub unique: &'a [u8],
}

impl Exchange<'_> {
    /// The id of the record that holds the answer.
    pub fn response_id(&self) -> RecordId {
        RecordId::derive(self.unique, "response")
    }
}

/// The links of a page, on their way into its metadata record.
#[derive(Debug, Default)]
pub struct Outlinks {
    block: Vec<u8>,
}

impl Outlinks {
    /// One more, behind the others.
    pub fn add(&mut self, link: &str) {
        add_field(&mut self.block, "outlink", link);
    }
}

impl<'l> FromIterator<&'l str> for Outlinks {
    fn from_iter<I: IntoIterator<Item = &'l str>>(links: I) -> Self {
        let mut all = Self::default();
        links.into_iter().for_each(|link| all.add(link));
        all
    }
}

/// Records that are ready to be appended: whole gzip members and their index lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prepared {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: Vec<Pending>,
}

impl Prepared {
    /// How many bytes they will take in the archive.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The same with what they add to the index, at most.
    pub(super) fn most_bytes(&self) -> usize {
        let lines: usize = self.lines.iter().map(Pending::most_bytes).sum();
        self.bytes.len() + lines
    }

    /// Whether there is nothing to append.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds the records of another behind these.
    pub fn join(&mut self, other: Self) {
        let shift = self.bytes.len() as u64;
        self.bytes.reserve_exact(other.bytes.len());
        self.bytes.extend(other.bytes);
        self.lines.extend(other.lines.into_iter().map(|mut line| {
            line.offset += shift;
            line
        }));
    }
}

/// Builds records, one at a time, since its buffers are used again.
pub struct RecordBuilder {
    compressor: Compressor,
    /// Makes members of what is compressed already, or small, without trying.
    wrapper: Compressor,
    /// The record before compression.
    plain: Vec<u8>,
    /// Finished members, and room behind them that is not cleared each time.
    packed: Vec<u8>,
    /// How much of that the members are.
    packed_bytes: usize,
}

impl Default for RecordBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordBuilder {
    /// With buffers of its own.
    pub fn new() -> Self {
        let level = |level| CompressionLvl::new(level).unwrap_or_default();
        Self {
            compressor: Compressor::new(level(LEVEL)),
            wrapper: Compressor::new(level(0)),
            plain: Vec::new(),
            packed: Vec::new(),
            packed_bytes: 0,
        }
    }

    /// The records of one exchange: its response, or a revisit that refers to
    /// `original` if that has the same payload, and then its request.
    pub fn exchange(&mut self, exchange: &Exchange<'_>, original: Option<&Original>) -> Prepared {
        let response = &exchange.response;
        // A decoded body may be a duplicate where the bytes sent were not. A revisit
        // would then name a payload that nobody has: such an answer is kept whole.
        let original = original.filter(|o| o.payload_digest == response.payload_digest);
        let (id, date) = (exchange.response_id(), warc_date(exchange.at_ms));

        let block = match original {
            Some(_) => &response.bytes[..response.head_bytes],
            None => response.bytes,
        };
        let kind = if original.is_some() {
            "revisit"
        } else {
            "response"
        };
        self.begin(kind, id, &date);
        self.field("WARC-Target-URI", exchange.url);
        self.address(exchange.address);
        if let Some(original) = original {
            self.field("WARC-Profile", SAME_PAYLOAD);
            self.field("WARC-Refers-To-Target-URI", &original.url);
            self.field("WARC-Refers-To-Date", warc_date(original.at_ms));
        }
        // All that is missing from a revisit is in the record that it refers to.
        match (exchange.truncated, original) {
            (Some(truncated), _) => self.field("WARC-Truncated", truncated.name()),
            (None, Some(_)) => self.field("WARC-Truncated", Truncated::Length.name()),
            (None, None) => {}
        }
        self.field("WARC-Payload-Digest", response.payload_digest);
        self.end_block("application/http; msgtype=response", block);
        self.pack(original.is_none() && response.is_compressed());
        let line = Pending {
            key: sort_key(exchange.url),
            timestamp: timestamp(exchange.at_ms),
            url: exchange.url.into(),
            media_type: match original {
                Some(_) => "warc/revisit".into(),
                None => response.media_type().unwrap_or("unk").into(),
            },
            status: response.status().into(),
            digest: response.payload_digest,
            offset: 0,
            bytes: self.packed_bytes as u64,
        };

        self.begin(
            "request",
            RecordId::derive(exchange.unique, "request"),
            &date,
        );
        self.field("WARC-Target-URI", exchange.url);
        self.address(exchange.address);
        self.field("WARC-Concurrent-To", id);
        self.end("application/http; msgtype=request", exchange.request);
        self.prepared(vec![line])
    }

    /// A metadata record with the links of a page, for the response of this id.
    pub fn links(
        &mut self,
        url: &str,
        at_ms: Millis,
        response: RecordId,
        unique: &[u8],
        links: &Outlinks,
    ) -> Prepared {
        self.begin(
            "metadata",
            RecordId::derive(unique, "metadata"),
            &warc_date(at_ms),
        );
        self.field("WARC-Target-URI", url);
        self.field("WARC-Concurrent-To", response);
        self.end("application/warc-fields", &links.block);
        self.prepared(Vec::new())
    }

    /// The record that every file begins with.
    pub(super) fn info(&mut self, name: &str, at_ms: Millis, settings: &Settings) -> Prepared {
        let mut block = Vec::new();
        for (field, value) in &settings.info {
            add_field(&mut block, field, value);
        }
        let unique = [&settings.unique, name.as_bytes()].concat();
        let id = RecordId::derive(&unique, "warcinfo");
        self.begin("warcinfo", id, &warc_date(at_ms));
        self.field("WARC-Filename", name);
        self.end("application/warc-fields", &block);
        self.prepared(Vec::new())
    }

    fn begin(&mut self, kind: &str, id: RecordId, date: &str) {
        self.plain.clear();
        self.plain.extend(b"WARC/1.1\r\n");
        self.field("WARC-Type", kind);
        self.field("WARC-Record-ID", id);
        self.field("WARC-Date", date);
    }

    fn address(&mut self, address: Option<IpAddr>) {
        if let Some(address) = address {
            self.field("WARC-IP-Address", address.to_canonical());
        }
    }

    fn field(&mut self, name: &str, value: impl fmt::Display) {
        add_field(&mut self.plain, name, value);
    }

    fn end(&mut self, content_type: &str, block: &[u8]) {
        self.end_block(content_type, block);
        self.pack(self.plain.len() < SMALL_BYTES);
    }

    fn end_block(&mut self, content_type: &str, block: &[u8]) {
        self.field("WARC-Block-Digest", Digest::of(block));
        self.field("Content-Type", content_type);
        self.field("Content-Length", block.len());
        self.plain.extend(b"\r\n");
        self.plain.extend(block);
        self.plain.extend(b"\r\n\r\n");
    }

    /// Makes one gzip member of the record, behind those that are finished.
    fn pack(&mut self, as_it_is: bool) {
        let packer = match as_it_is {
            true => &mut self.wrapper,
            false => &mut self.compressor,
        };
        let most = self.packed_bytes + packer.gzip_compress_bound(self.plain.len());
        if self.packed.len() < most {
            self.packed.resize(most, 0);
        }
        // Too little room is the only error there is, and the bound rules it out.
        let length = packer.gzip_compress(&self.plain, &mut self.packed[self.packed_bytes..]);
        self.packed_bytes += length.unwrap_or(0);
    }

    /// Gives the finished members out. What waits for the archive is counted by its
    /// length, so it holds no more than that.
    fn prepared(&mut self, lines: Vec<Pending>) -> Prepared {
        let bytes = self.packed[..self.packed_bytes].to_vec();
        self.packed_bytes = 0;
        for buffer in [&mut self.plain, &mut self.packed] {
            buffer.truncate(MOST_KEPT_BYTES);
            buffer.shrink_to(MOST_KEPT_BYTES);
        }
        Prepared { bytes, lines }
    }
}

/// One header line: a line break in a value would forge another field.
fn add_field(lines: &mut Vec<u8>, name: &str, value: impl fmt::Display) {
    lines.extend(name.as_bytes());
    lines.extend(b": ");
    let start = lines.len();
    // Writing to memory cannot fail.
    let _always_ok = write!(lines, "{value}");
    for byte in &mut lines[start..] {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    lines.extend(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_wait_hold_no_more_memory_than_is_counted() {
        let answer = format!("HTTP/1.1 200 OK\r\n\r\n{}", "word ".repeat(10_000));
        let exchange = Exchange {
            url: "http://a.example/",
            at_ms: 0,
            address: None,
            request: b"GET / HTTP/1.1\r\n\r\n",
            response: Response::new(answer.as_bytes()),
            truncated: None,
            unique: b"",
        };
        let mut builder = RecordBuilder::new();
        let mut prepared = builder.exchange(&exchange, None);
        assert_eq!(prepared.bytes.capacity(), prepared.len());
        let id = exchange.response_id();
        prepared.join(builder.links(
            exchange.url,
            0,
            id,
            b"",
            &["http://b.example/"].into_iter().collect(),
        ));
        assert_eq!(prepared.bytes.capacity(), prepared.len());
    }

    #[test]
    fn a_builder_keeps_no_huge_page() {
        let answer = "x".repeat(4 * MOST_KEPT_BYTES);
        let exchange = Exchange {
            url: "http://a.example/",
            at_ms: 0,
            address: None,
            request: b"",
            response: Response::new(answer.as_bytes()),
            truncated: None,
            unique: b"",
        };
        let mut builder = RecordBuilder::new();
        let first = builder.exchange(&exchange, None);
        assert!(builder.plain.capacity() + builder.packed.capacity() <= 2 * MOST_KEPT_BYTES);
        assert_eq!(builder.exchange(&exchange, None), first);
    }

    #[test]
    fn a_header_block_ends_at_its_first_empty_line() {
        for (http, length) in [
            (&b""[..], 0),
            (b"\n", 1),
            (b"\n\n", 2),
            (b"a\r\n\r\nbody\n\n", 5),
            (b"a\r\n\r\n\n", 5),
            (b"a\nb\n\nbody\r\n\r\n", 5),
            (b"a\n\r\nb", 4),
            (b"a: b\nc: d\n\r\nbody\n\n", 12),
            (b"a\r\nb\r\n", 6),
            (b"a\r\n\r", 4),
        ] {
            assert_eq!(head_bytes(http), length, "{http:?}");
        }
    }

    #[test]
    fn interim_answers_end_where_the_answer_begins() {
        for (interim, answer) in [
            (&b""[..], &b""[..]),
            (b"", b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 103 x\r\n\r\n"),
            (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 404"),
            (
                b"HTTP/1.1 103 x\r\nLink: </a>\r\n\r\nHTTP/1.1 103 x\r\n\r\n",
                b"HTTP/1.1 200 OK\r\n\r\n",
            ),
            // It broke off before there was an answer.
            (b"HTTP/1.1 103 x\r\n\r\n", b"HTTP/1.1 103 x\r\n\r\n"),
            (b"", b"HTTP/1.1 103 x\r\nLink"),
            (b"", b"HTTP/1.1 101 x\r\n\r\nnot HTTP"),
            (b"", b"HTTP/1.0 1"),
        ] {
            let http = [interim, answer].concat();
            assert_eq!(interim_bytes(&http), interim.len(), "{answer:?}");
        }
    }
}
