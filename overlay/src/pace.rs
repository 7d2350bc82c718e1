//! How often something may happen: some times at once, and then at a pace.

use std::collections::BTreeMap;

use crate::PeerId;

/// A number of times, and how many more there are each minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// So often at once.
    pub at_once: u32,
    /// So often each minute after that.
    pub each_minute: u32,
}

/// What is left of an allowance. Counted in minutes' parts, so that nothing is rounded away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    allowance: Allowance,
    left: u64,
    counted_ms: u64,
}

const MINUTE_MS: u64 = 60_000;

impl Pace {
    /// All of it is left.
    pub fn new(allowance: Allowance, now_ms: u64) -> Self {
        Self {
            allowance,
            left: u64::from(allowance.at_once) * MINUTE_MS,
            counted_ms: now_ms,
        }
    }

    fn count(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.counted_ms);
        let more = passed_ms.saturating_mul(u64::from(self.allowance.each_minute));
        let most = u64::from(self.allowance.at_once) * MINUTE_MS;
        self.left = self.left.saturating_add(more).min(most);
        self.counted_ms = self.counted_ms.max(now_ms);
    }

    /// Takes one time; tells whether it was left.
    pub fn take(&mut self, now_ms: u64) -> bool {
        self.count(now_ms);
        let is_left = self.left >= MINUTE_MS;
        if is_left {
            self.left -= MINUTE_MS;
        }
        is_left
    }

    /// Whether all of it is left, so that it need not be remembered.
    pub fn is_full(mut self, now_ms: u64) -> bool {
        self.count(now_ms);
        self.left == u64::from(self.allowance.at_once) * MINUTE_MS
    }
}

/// Peers whose pace is remembered.
const MOST_PEERS: usize = 1_024;

/// The same allowance for each of many peers.
#[derive(Debug)]
pub struct Paces {
    allowance: Allowance,
    of: BTreeMap<PeerId, Pace>,
}

impl Paces {
    /// All of it is left to everybody.
    pub fn new(allowance: Allowance) -> Self {
        Self {
            allowance,
            of: BTreeMap::new(),
        }
    }

    /// Takes one time of a peer's; tells whether it was left. Whoever is one too many to be
    /// remembered has none.
    pub fn take(&mut self, peer: PeerId, now_ms: u64) -> bool {
        if !self.of.contains_key(&peer) && self.of.len() >= MOST_PEERS {
            self.of.retain(|_, pace| !pace.is_full(now_ms));
            if self.of.len() >= MOST_PEERS {
                return false;
            }
        }
        let pace = self.of.entry(peer);
        let pace = pace.or_insert(Pace::new(self.allowance, now_ms));
        pace.take(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_has_an_allowance_and_memory_is_bounded() {
        let allowance = Allowance {
            at_once: 2,
            each_minute: 60,
        };
        let mut paces = Paces::new(allowance);
        let name = |number: u16| {
            let mut id = [0; 32];
            id[..2].copy_from_slice(&number.to_be_bytes());
            PeerId(id)
        };
        let mut taken = |number, ms| (0..5).filter(|_| paces.take(name(number), ms)).count();
        for number in 0..MOST_PEERS as u16 {
            assert_eq!(taken(number, 0), 2);
        }
        assert_eq!(taken(5_000, 1_999), 0, "one too many");
        assert_eq!(taken(7, 1_000), 1);
        assert_eq!(taken(5_000, 2_000), 2, "the others need not be remembered");
        assert!(paces.of.len() < 5, "{}", paces.of.len());
    }

    #[test]
    fn some_at_once_and_then_at_a_pace() {
        let allowance = Allowance {
            at_once: 3,
            each_minute: 120,
        };
        let mut pace = Pace::new(allowance, 1_000);
        let taken = |pace: &mut Pace, ms| (0..10).filter(|_| pace.take(ms)).count();
        assert_eq!(taken(&mut pace, 1_000), 3);
        assert_eq!(taken(&mut pace, 1_499), 0);
        assert_eq!(taken(&mut pace, 1_500), 1);
        assert!(!pace.is_full(2_999));
        assert!(pace.is_full(3_000));
        assert_eq!(taken(&mut pace, 100_000), 3, "no more than at once");
        assert_eq!(
            taken(&mut pace, 0),
            0,
            "a clock that goes back gives nothing"
        );
    }
}
