//! What peers say to each other about URLs and pages.
//!
//! Encoded by postcard, and packed where that is worth it. What comes in is a stranger's: [`Message::decode`] refuses what
//! is too large or too much, and URLs are brought into canonical form again by whoever
//! takes them in.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use peercrawl_overlay::PeerId;
use serde::{Deserialize, Serialize};

use crate::canonical::URL_LIMIT_BYTES;
use crate::crawl::CrawlDefinition;
use crate::engine::Offer;
use crate::fingerprint::ContentFingerprint;
use crate::handover::transfers::SitePart;
use crate::seen_content::{Answer, Claim};

/// The most that a message may hold, in bytes.
const MOST_BYTES: usize = 1 << 20;
/// From this size on, a message is worth packing.
const DEFLATE_FROM_BYTES: usize = 512;
/// First byte of a message that is not packed.
const PLAIN: u8 = 0;
/// First byte of a message that is packed by deflate.
const DEFLATED: u8 = 1;
/// The most entries that its lists may have.
const MOST_ENTRIES: usize = 10_000;
/// The most seeds that a crawl may have which travels with it. They are counted apart: they
/// come with however many URLs.
const MOST_SEEDS: usize = 10_000;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// URLs of one crawl, for whoever owns them.
    Urls {
        /// The crawl, as it was defined: the receiver may not know it yet.
        crawl: CrawlDefinition,
        /// The URLs.
        urls: Vec<SentUrl>,
        /// Whether they were meant for the receiver alone: then it also says which are
        /// not its own.
        is_direct: bool,
    },
    /// What became of URLs that were sent, by their numbers.
    Receipt {
        /// Whose URLs they are: a receipt is for their sender alone.
        to: PeerId,
        /// Stored: their sender may forget them.
        stored: Vec<u64>,
        /// No room now: send them again later.
        busy: Vec<u64>,
        /// Somebody else's, as far as the receiver knows.
        not_mine: Vec<u64>,
    },
    /// Asks whether contents are new; answered by `Answers`.
    Claims(Vec<Claim>),
    /// One answer to each claim, in the same order.
    Answers(Vec<Answer>),
    /// The pages of earlier claims have been kept.
    Confirmed(Vec<ContentFingerprint>),
    /// A part of a site that is the receiver's by now; answered by `Taken`.
    Site(SitePart),
    /// All sites that became the receiver's by this offer have been sent; answered by `Taken`.
    Welcome(Offer),
    /// Whether it was taken in.
    Taken(bool),
    /// A crawl whose URLs are in the sites that follow; answered by `Taken`.
    Crawl(CrawlDefinition),
    /// It cannot be taken in, now or later: whoever sent it keeps it.
    Unfit,
}

/// A URL on its way to its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentUrl {
    /// Its number in the sender's outbox.
    pub number: u64,
    /// Its text.
    pub url: Box<str>,
    /// Links from a seed.
    pub depth: u16,
    /// Redirects in a row that led to it.
    pub redirects: u8,
}

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// Larger than any message may be.
    #[error("message of {0} bytes")]
    TooLarge(usize),
    /// More entries than any list may have.
    #[error("message with {0} entries")]
    TooMany(usize),
    /// A URL that is longer than any may be.
    #[error("message with a URL of {0} bytes")]
    UrlTooLong(usize),
    /// Packed in a way that this version does not know.
    #[error("message packed in unknown way {0}")]
    Packing(u8),
    /// It cannot be packed or unpacked.
    #[error("no message: {0}")]
    Deflate(#[from] io::Error),
    /// Not decodable, or not encodable.
    #[error("no message: {0}")]
    Encoding(#[from] postcard::Error),
}

/// Whether other peers can be told of a crawl, with room for its URLs beside it.
pub fn can_travel(crawl: &CrawlDefinition) -> bool {
    let is_short = |bytes: Vec<u8>| bytes.len() <= MOST_BYTES / 2;
    crawl.seeds.len() <= MOST_SEEDS && postcard::to_stdvec(crawl).is_ok_and(is_short)
}

impl Message {
    /// The message as bytes: how it is packed, then its fields in postcard's encoding. One
    /// that others would refuse is an error here: who sends it would be blamed.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        self.check_entries()?;
        let mut fields = postcard::to_stdvec(self)?;
        if fields.len() > MOST_BYTES {
            return Err(MessageError::TooLarge(fields.len()));
        }
        if fields.len() < DEFLATE_FROM_BYTES {
            fields.insert(0, PLAIN);
            return Ok(fields);
        }
        let mut packed = DeflateEncoder::new(vec![DEFLATED], Compression::fast());
        packed.write_all(&fields)?;
        Ok(packed.finish()?)
    }

    /// The message in these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        if bytes.len() > MOST_BYTES {
            return Err(MessageError::TooLarge(bytes.len()));
        }
        let message: Self = match bytes.split_first() {
            Some((&PLAIN, fields)) => postcard::from_bytes(fields)?,
            Some((&DEFLATED, packed)) => postcard::from_bytes(&inflate(packed)?)?,
            Some((&other, _)) => return Err(MessageError::Packing(other)),
            None => return Err(postcard::Error::DeserializeUnexpectedEnd.into()),
        };
        message.check_entries()?;
        message.with_bounded_urls()
    }

    fn check_entries(&self) -> Result<(), MessageError> {
        let seeds = match self {
            Self::Urls { crawl, .. } | Self::Crawl(crawl) => crawl.seeds.len(),
            _ => 0,
        };
        match self.entries() {
            entries if entries > MOST_ENTRIES => Err(MessageError::TooMany(entries)),
            _ if seeds > MOST_SEEDS => Err(MessageError::TooMany(seeds)),
            _ => Ok(()),
        }
    }

    /// The message, unless it names a URL that no canonical one is as long as. URLs that
    /// are to be crawled are looked at when they are parsed.
    fn with_bounded_urls(self) -> Result<Self, MessageError> {
        let longest = match &self {
            Self::Claims(claims) => claims.iter().map(|claim| claim.url.len()).max(),
            Self::Answers(answers) => answers.iter().map(Answer::url_bytes).max(),
            _ => None,
        };
        match longest {
            Some(bytes) if bytes > URL_LIMIT_BYTES => Err(MessageError::UrlTooLong(bytes)),
            _ => Ok(self),
        }
    }

    /// Whether it has nothing to say.
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    fn entries(&self) -> usize {
        match self {
            Self::Urls { urls, .. } => urls.len(),
            Self::Receipt {
                stored,
                busy,
                not_mine,
                ..
            } => stored.len() + busy.len() + not_mine.len(),
            Self::Claims(claims) => claims.len(),
            Self::Answers(answers) => answers.len(),
            Self::Confirmed(fingerprints) => fingerprints.len(),
            Self::Crawl(_) | Self::Site(_) | Self::Welcome(_) | Self::Taken(_) | Self::Unfit => 1,
        }
    }
}

/// Unpacks, and no further than a message may be large: a bomb is an error.
fn inflate(packed: &[u8]) -> Result<Vec<u8>, MessageError> {
    let mut fields = Vec::new();
    let most = MOST_BYTES as u64 + 1;
    DeflateDecoder::new(packed)
        .take(most)
        .read_to_end(&mut fields)?;
    match fields.len() {
        length if length > MOST_BYTES => Err(MessageError::TooLarge(length)),
        _ => Ok(fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let one = Message::Confirmed(vec![ContentFingerprint::of(b"x")]);
        let many = Message::Confirmed(vec![ContentFingerprint::of(b"x"); MOST_ENTRIES]);
        for (message, most_bytes) in [(one, 20), (many, 2_000)] {
            let bytes = message.encode().unwrap();
            assert!(bytes.len() < most_bytes, "{} bytes", bytes.len());
            assert_eq!(Message::decode(&bytes).unwrap(), message);
        }
    }

    #[test]
    fn too_much_is_refused() {
        let many = Message::Confirmed(vec![ContentFingerprint::of(b"x"); MOST_ENTRIES + 1]);
        assert!(matches!(many.encode(), Err(MessageError::TooMany(_))));
        let mut bytes = postcard::to_stdvec(&many).unwrap();
        bytes.insert(0, PLAIN);
        assert!(matches!(
            Message::decode(&bytes),
            Err(MessageError::TooMany(_))
        ));
        let large = vec![0; MOST_BYTES + 1];
        assert!(matches!(
            Message::decode(&large),
            Err(MessageError::TooLarge(_))
        ));
        let mut bomb = DeflateEncoder::new(vec![DEFLATED], Compression::best());
        bomb.write_all(&vec![0; 100 << 20]).unwrap();
        let bomb = bomb.finish().unwrap();
        assert!(bomb.len() < MOST_BYTES, "it fits into a message");
        assert!(matches!(
            Message::decode(&bomb),
            Err(MessageError::TooLarge(_))
        ));
    }

    /// With 9,501 seeds, each full batch of URLs once made its sender an offender.
    #[test]
    fn the_seeds_of_a_crawl_leave_room_for_its_urls() {
        let message = |seeds: usize| {
            let settings = crate::config::Crawl {
                seeds: vec!["http://a.example/".into(); seeds],
                ..Default::default()
            };
            let url = SentUrl {
                number: 0,
                url: "http://a.example/".into(),
                depth: 0,
                redirects: 0,
            };
            Message::Urls {
                crawl: CrawlDefinition::from_settings(&settings),
                urls: vec![url; 500],
                is_direct: false,
            }
        };
        let most = message(MOST_SEEDS);
        assert_eq!(Message::decode(&most.encode().unwrap()).unwrap(), most);
        let more = message(MOST_SEEDS + 1).encode();
        assert!(matches!(more, Err(MessageError::TooMany(_))));
    }

    /// Claims with a URL of a megabyte each once took all memory.
    #[test]
    fn a_url_that_is_too_long_is_refused() {
        let claims = |bytes: usize| {
            let claim = Claim {
                fingerprint: ContentFingerprint::of(b"x"),
                url: "u".repeat(bytes).into(),
                at_ms: 0,
                payload_digest: None,
            };
            let answer = Answer::DuplicateOf {
                url: claim.url.clone(),
                at_ms: 0,
                payload_digest: None,
            };
            let both = [Message::Claims(vec![claim]), Message::Answers(vec![answer])];
            both.map(|message| Message::decode(&message.encode().unwrap()))
        };
        assert!(claims(URL_LIMIT_BYTES).iter().all(Result::is_ok));
        for refused in claims(URL_LIMIT_BYTES + 1) {
            assert!(matches!(refused, Err(MessageError::UrlTooLong(_))));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for nonsense in [&b""[..], b"\0\xff\xff", b"\x01\xff\xff", b"\x07abc"] {
            assert!(Message::decode(nonsense).is_err(), "{nonsense:?}");
        }
    }
}
