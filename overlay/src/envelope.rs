//! Signed messages.
//!
//! Whatever a peer says to others travels in an envelope that its author signed, so that
//! those who pass it on can neither change it nor put words into anybody's mouth. Layout:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | network tag: the start of the agreement's hash |
//! | 1 | errand, in the upper half with the purpose of a crawler's message |
//! | 32 | author |
//! | 32 | receiver, or zeros for all |
//! | 8 | the author's sequence number, big-endian; greater in each envelope |
//! | 8 | when it expires, in milliseconds since 1970, big-endian |
//! | n | body |
//! | 64 | signature over a fixed prefix and everything before |

use std::sync::Arc;

use libp2p::identity::Keypair;

use crate::clock::Now;
use crate::{PeerId, Purpose, identity};

/// Signed along, so that a signature made for something else is none here.
const DOMAIN: &[u8] = b"peercrawl envelope 1";
const HEADER_BYTES: usize = 8 + 1 + 32 + 32 + 8 + 8;
const SIGNATURE_BYTES: usize = 64;
/// What an envelope adds to its body.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + SIGNATURE_BYTES;
/// How far two peers' clocks may differ.
pub const CLOCK_SKEW_MS: u64 = 120_000;
/// The longest that an envelope may be valid.
pub const LONGEST_LIFE_MS: u64 = 3_600_000;

/// Tells networks apart in every envelope.
pub type NetworkTag = [u8; 8];

/// What an envelope is for. What the crawler sends says what it is about, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Errand {
    /// A lease: its author is a member.
    Lease,
    /// A suspicion that a member is dead.
    Suspicion,
    /// Bytes that are handed on to their owner.
    HandOn(Purpose),
    /// Bytes for one peer.
    Send(Purpose),
    /// A question to one peer.
    Ask(Purpose),
    /// The answer to a question.
    Answer(Purpose),
}

impl Errand {
    fn byte(self) -> u8 {
        let (errand, purpose) = match self {
            Self::Lease => (1, None),
            Self::Suspicion => (2, None),
            Self::HandOn(purpose) => (3, Some(purpose)),
            Self::Send(purpose) => (4, Some(purpose)),
            Self::Ask(purpose) => (5, Some(purpose)),
            Self::Answer(purpose) => (6, Some(purpose)),
        };
        errand | purpose.map_or(0, |purpose| (purpose as u8 + 1) << 4)
    }

    fn from_byte(byte: u8) -> Option<Self> {
        let purpose = match byte >> 4 {
            0 => None,
            number => Some(*Purpose::ALL.get(usize::from(number) - 1)?),
        };
        match (byte & 0xf, purpose) {
            (1, None) => Some(Self::Lease),
            (2, None) => Some(Self::Suspicion),
            (3, Some(purpose)) => Some(Self::HandOn(purpose)),
            (4, Some(purpose)) => Some(Self::Send(purpose)),
            (5, Some(purpose)) => Some(Self::Ask(purpose)),
            (6, Some(purpose)) => Some(Self::Answer(purpose)),
            _ => None,
        }
    }

    /// What it is about, if the crawler sent it.
    pub fn purpose(self) -> Option<Purpose> {
        match self {
            Self::Lease | Self::Suspicion => None,
            Self::HandOn(purpose)
            | Self::Send(purpose)
            | Self::Ask(purpose)
            | Self::Answer(purpose) => Some(purpose),
        }
    }
}

/// What is wrong with an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// More bytes than any message may have.
    #[error("too large")]
    TooLarge,
    /// Not an envelope, or not of this version.
    #[error("undecodable")]
    Undecodable,
    /// Of another network.
    #[error("of another network")]
    WrongNetwork,
    /// Not signed by its author.
    #[error("forged")]
    Forged,
    /// Its time is over, or further away than any envelope's may be.
    #[error("expired")]
    Expired,
    /// It speaks of what has not happened yet.
    #[error("ahead of its time")]
    Ahead,
    /// Seen before.
    #[error("replayed")]
    Replayed,
}

/// What is written on an envelope. Before it is opened, anybody may have written that: it is
/// good for leaving an envelope unread, and for nothing that is to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// What it is for.
    pub errand: Errand,
    /// Who is said to have written it.
    pub author: PeerId,
    /// Whom it is for; `None` for all.
    pub to: Option<PeerId>,
    /// Greater in each envelope of the author.
    pub sequence: u64,
}

impl Label {
    /// Reads what is written on an envelope.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let to = PeerId(array(bytes, 41)?);
        Some(Self {
            errand: Errand::from_byte(*bytes.get(8)?)?,
            author: PeerId(array(bytes, 9)?),
            to: (to.0 != [0; 32]).then_some(to),
            sequence: u64::from_be_bytes(array(bytes, 73)?),
        })
    }
}

/// An envelope whose signature and time have been checked.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// What it is for.
    pub errand: Errand,
    /// Who wrote it.
    pub author: PeerId,
    /// Whom it is for; `None` for all.
    pub to: Option<PeerId>,
    /// Greater in each envelope of the author.
    pub sequence: u64,
    /// All of it, to pass on.
    pub bytes: Arc<[u8]>,
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

impl Envelope {
    /// Checks an envelope that came in. Sizes and the network come first, since the
    /// signature is what costs time.
    pub fn open(
        bytes: Arc<[u8]>,
        network: NetworkTag,
        limit_bytes: usize,
        now: Now,
    ) -> Result<Self, Fault> {
        if bytes.len() > limit_bytes.saturating_add(OVERHEAD_BYTES) {
            return Err(Fault::TooLarge);
        }
        if bytes.len() < OVERHEAD_BYTES {
            return Err(Fault::Undecodable);
        }
        if bytes[..8] != network {
            return Err(Fault::WrongNetwork);
        }
        let label = Label::read(&bytes).ok_or(Fault::Undecodable)?;
        let expires_ms = u64::from_be_bytes(array(&bytes, 81).ok_or(Fault::Undecodable)?);
        let is_late = expires_ms.saturating_add(CLOCK_SKEW_MS) < now.wall_ms;
        if is_late || expires_ms > now.wall_ms + LONGEST_LIFE_MS + CLOCK_SKEW_MS {
            return Err(Fault::Expired);
        }
        let (signed, signature) = bytes.split_at(bytes.len() - SIGNATURE_BYTES);
        if !identity::verifies(label.author, &[DOMAIN, signed].concat(), signature) {
            return Err(Fault::Forged);
        }
        Ok(Self {
            errand: label.errand,
            author: label.author,
            to: label.to,
            sequence: label.sequence,
            bytes,
        })
    }

    /// What it says.
    pub fn body(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..self.bytes.len() - SIGNATURE_BYTES]
    }
}

/// Writes this peer's envelopes.
pub struct Sealer {
    keypair: Keypair,
    author: PeerId,
    network: NetworkTag,
    sequence: u64,
}

impl Sealer {
    /// A sealer whose sequence begins at the present time, so that it goes on where an
    /// earlier run of the same peer ended. `None` if the key is no Ed25519 key.
    pub fn new(keypair: Keypair, network: NetworkTag, now: Now) -> Option<Self> {
        Some(Self {
            author: identity::peer_of(&keypair)?,
            keypair,
            network,
            // In microseconds: no peer writes a million messages a second.
            sequence: now.wall_ms * 1_000,
        })
    }

    /// The author of these envelopes.
    pub fn author(&self) -> PeerId {
        self.author
    }

    /// Signs a message; gives its sequence number and its bytes.
    pub fn seal(
        &mut self,
        errand: Errand,
        to: Option<PeerId>,
        body: &[u8],
        now: Now,
        life_ms: u64,
    ) -> Option<(u64, Arc<[u8]>)> {
        self.sequence += 1;
        let expires_ms = now.wall_ms + life_ms;
        let mut bytes = Vec::with_capacity(DOMAIN.len() + body.len() + OVERHEAD_BYTES);
        bytes.extend_from_slice(DOMAIN);
        bytes.extend_from_slice(&self.network);
        bytes.push(errand.byte());
        bytes.extend_from_slice(&self.author.0);
        bytes.extend_from_slice(&to.map_or([0; 32], |to| to.0));
        bytes.extend_from_slice(&self.sequence.to_be_bytes());
        bytes.extend_from_slice(&expires_ms.to_be_bytes());
        bytes.extend_from_slice(body);
        let signature = self.keypair.sign(&bytes).ok()?;
        bytes.extend_from_slice(&signature);
        Some((self.sequence, Arc::from(&bytes[DOMAIN.len()..])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: NetworkTag = *b"network1";
    const NOW: Now = Now {
        wall_ms: 1_800_000_000_000,
        since_start_ms: 0,
    };
    const LIMIT: usize = 100;
    const SEND: Errand = Errand::Send(Purpose::Content);

    fn sealer() -> Sealer {
        Sealer::new(identity::keypair([3; 32]).unwrap(), NETWORK, NOW).unwrap()
    }

    fn sealed(body: &[u8]) -> Arc<[u8]> {
        let to = Some(PeerId::repeat(9));
        sealer().seal(SEND, to, body, NOW, 60_000).unwrap().1
    }

    fn open(bytes: &[u8]) -> Result<Envelope, Fault> {
        Envelope::open(bytes.into(), NETWORK, LIMIT, NOW)
    }

    #[test]
    fn an_envelope_says_who_wrote_what_to_whom() {
        let envelope = open(&sealed(b"body")).unwrap();
        assert_eq!(envelope.body(), b"body");
        assert_eq!(envelope.author, sealer().author());
        assert_eq!(envelope.to, Some(PeerId::repeat(9)));
        assert_eq!(envelope.errand, SEND);
        let label = Label::read(&sealed(b"body")).unwrap();
        assert_eq!((label.author, label.to), (envelope.author, envelope.to));
        assert_eq!(
            (label.errand, label.sequence),
            (SEND, envelope.sequence),
            "so says its outside"
        );
    }

    #[test]
    fn a_byte_says_what_it_is_for_and_about() {
        let understood = (0..=255).filter_map(|byte| Some((byte, Errand::from_byte(byte)?)));
        let understood: Vec<_> = understood.collect();
        assert_eq!(understood.len(), 2 + 4 * Purpose::ALL.len());
        assert!(
            understood
                .iter()
                .all(|(byte, errand)| errand.byte() == *byte)
        );
    }

    #[test]
    fn no_byte_of_it_can_be_changed() {
        let sealed = sealed(b"body");
        for at in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert!(open(&changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn no_part_of_it_is_one() {
        let sealed = sealed(b"body");
        for length in 0..sealed.len() {
            assert!(open(&sealed[..length]).is_err(), "{length} bytes");
            assert_eq!(
                Label::read(&sealed[..length]).is_some(),
                length >= HEADER_BYTES - 8,
                "{length} bytes"
            );
        }
    }

    #[test]
    fn size_network_and_time_are_bounded() {
        let large = sealed(&[0; LIMIT + 1]);
        assert_eq!(open(&large).unwrap_err(), Fault::TooLarge);
        let bytes = sealed(b"");
        let other = Envelope::open(bytes.clone(), *b"network2", LIMIT, NOW);
        assert_eq!(other.unwrap_err(), Fault::WrongNetwork);
        let at = |wall_ms| Envelope::open(bytes.clone(), NETWORK, LIMIT, Now { wall_ms, ..NOW });
        let expiry = NOW.wall_ms + 60_000;
        assert!(at(expiry + CLOCK_SKEW_MS).is_ok());
        assert_eq!(at(expiry + CLOCK_SKEW_MS + 1).unwrap_err(), Fault::Expired);
        assert!(at(NOW.wall_ms - CLOCK_SKEW_MS).is_ok());
        let long_ago = NOW.wall_ms - 2 * LONGEST_LIFE_MS;
        assert_eq!(at(long_ago).unwrap_err(), Fault::Expired);
    }

    #[test]
    fn sequences_rise_within_a_run_and_from_run_to_run() {
        let mut first = sealer();
        let mut seal = || first.seal(SEND, None, b"", NOW, 0).unwrap().0;
        let (one, two) = (seal(), seal());
        assert!(two > one);
        let later = Now {
            wall_ms: NOW.wall_ms + 1,
            ..NOW
        };
        let keypair = identity::keypair([3; 32]).unwrap();
        let mut second = Sealer::new(keypair, NETWORK, later).unwrap();
        let next = second.seal(SEND, None, b"", later, 0).unwrap().0;
        assert!(next > two);
    }
}
