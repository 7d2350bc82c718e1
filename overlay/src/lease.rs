//! What a peer says about itself: it is a member for as long as it keeps saying so.

use serde::{Deserialize, Serialize};

use crate::clock::Now;
use crate::envelope::{CLOCK_SKEW_MS, Envelope, Errand};
use crate::{PeerId, Role};

/// Addresses in a lease.
pub const MOST_ADDRESSES: usize = 8;
/// Bytes of one address.
const ADDRESS_BYTES: usize = 256;
/// Peers that a lease names as the way to its author.
pub const MOST_VIA: usize = 3;
/// Bytes for the layers above.
pub const FACTS_BYTES: usize = 4_096;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// When the peer started, by its own clock in milliseconds since 1970. Greater in
    /// each run.
    pub incarnation: u64,
    /// What it does for the overlay.
    pub role: Role,
    /// Whether it would be a supernode; of one that is, whether it still can.
    pub offers: bool,
    /// How many leaves it serves, rounded down to fours.
    pub leaves: u8,
    /// Whether this is its farewell.
    pub is_farewell: bool,
    /// Where it can be reached, as binary multiaddresses.
    pub addresses: Vec<Vec<u8>>,
    /// Through whom it can be reached: a leaf's supernodes, the best first; in a flat
    /// overlay some of its neighbours.
    pub via: Vec<PeerId>,
    /// For the layers above.
    pub facts: Vec<u8>,
}

/// Orders the leases of one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// The peer's run.
    pub incarnation: u64,
    /// The envelope's sequence number.
    pub sequence: u64,
}

/// A version so far ahead of this peer's clock is no lease of a peer whose clock is right:
/// its author's may be ahead of a neighbour's, and that one's ahead of ours.
const AHEAD_MS: u64 = 3 * CLOCK_SKEW_MS;
/// Whoever speaks of such a version, by a clock that may again be ahead, has made it up.
const IMPOSSIBLE_MS: u64 = 6 * CLOCK_SKEW_MS;

impl Version {
    /// Both numbers begin at the present time of the author's clock, and no peer writes a
    /// million envelopes a second.
    fn is_later(self, wall_ms: u64) -> bool {
        self.incarnation > wall_ms || self.sequence / 1_000 > wall_ms
    }

    /// Whether it is of the future, further than clocks differ.
    pub fn is_ahead(self, now: Now) -> bool {
        self.is_later(now.wall_ms.saturating_add(AHEAD_MS))
    }

    /// Whether nobody can have seen it, whatever the clocks.
    pub fn is_impossible(self, now: Now) -> bool {
        self.is_later(now.wall_ms.saturating_add(IMPOSSIBLE_MS))
    }
}

/// A suspicion that a peer is dead, as it travels. A newer lease refutes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspicion {
    /// Who is suspected.
    pub peer: PeerId,
    /// The last that its accuser has heard of it.
    pub version: Version,
}

impl Lease {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        // Writing plain data into memory does not fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// The lease in an envelope, and its version; `None` if there is none or it is
    /// larger than leases may be.
    pub fn decode(envelope: &Envelope) -> Option<(Self, Version)> {
        if envelope.errand != Errand::Lease {
            return None;
        }
        let lease: Self = postcard::from_bytes(envelope.body()).ok()?;
        let is_bounded = lease.addresses.len() <= MOST_ADDRESSES
            && lease.addresses.iter().all(|a| a.len() <= ADDRESS_BYTES)
            && lease.via.len() <= MOST_VIA
            && lease.facts.len() <= FACTS_BYTES;
        let version = Version {
            incarnation: lease.incarnation,
            sequence: envelope.sequence,
        };
        is_bounded.then_some((lease, version))
    }
}

impl Suspicion {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        // Writing plain data into memory does not fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// The suspicion in an envelope.
    pub fn decode(envelope: &Envelope) -> Option<Self> {
        if envelope.errand != Errand::Suspicion {
            return None;
        }
        postcard::from_bytes(envelope.body()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_the_future_are_told_from_clocks_that_differ() {
        let now = Now {
            wall_ms: 1_800_000_000_000,
            since_start_ms: 5,
        };
        let started = |ahead_ms: u64| Version {
            incarnation: now.wall_ms + ahead_ms,
            sequence: (now.wall_ms + ahead_ms) * 1_000 + 7,
        };
        let minute = 60_000;
        let judged = [0, 5 * minute, 7 * minute, 11 * minute, 13 * minute].map(|ahead_ms| {
            (
                started(ahead_ms).is_ahead(now),
                started(ahead_ms).is_impossible(now),
            )
        });
        let (fine, odd, lie) = ((false, false), (true, false), (true, true));
        assert_eq!(judged, [fine, fine, odd, odd, lie]);
        let sequence = u64::MAX;
        let odd_number = Version {
            sequence,
            ..started(0)
        };
        assert!(odd_number.is_ahead(now) && odd_number.is_impossible(now));
    }
}
