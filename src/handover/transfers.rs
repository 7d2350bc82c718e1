//! Records that come in part by part.
//!
//! A peer sends one record of several parts at a time, so there is one transfer of each: the
//! first part of another replaces it. Records of one part come in between. All of them
//! together have one bound, and one record has a part of it. A transfer of which nothing came
//! for a while is dropped.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use peercrawl_overlay::PeerId;

/// A transfer is dropped when no part of it came for so long.
const SILENCE: Duration = Duration::from_secs(30);
/// And after so long in any case: the largest record over the slowest line that meets the
/// deadlines of its parts takes less.
const MOST_TIME: Duration = Duration::from_secs(45 * 60);

/// One part of a frozen site, as it travels.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SitePart {
    /// Tells records of one sender apart.
    pub transfer: u64,
    /// Which part this is, from 0 on; they come in order.
    pub part: u32,
    /// Whether it is the last one.
    pub is_last: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What became of a part.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// There are more to come.
    Begun,
    /// It was the last one: this is the record.
    Whole(Vec<u8>),
    /// Out of order, or there is no room now: it may be sent again from its beginning.
    Refused,
    /// The record is larger than any that this peer takes.
    TooLarge,
}

/// See the module.
pub struct Transfers {
    most_bytes: usize,
    of_peers: HashMap<PeerId, Transfer>,
}

struct Transfer {
    number: u64,
    parts: u32,
    bytes: Vec<u8>,
    begun: Instant,
    heard: Instant,
}

impl Transfers {
    /// None yet, and never more than so many bytes.
    pub fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            of_peers: HashMap::new(),
        }
    }

    /// The bytes that are held.
    pub fn held_bytes(&self) -> usize {
        let transfers = self.of_peers.values();
        transfers.map(|transfer| transfer.bytes.capacity()).sum()
    }

    /// Takes a part in.
    pub fn take(&mut self, from: PeerId, part: SitePart, now: Instant) -> Progress {
        self.drop_silent(now);
        if part.part == 0 && part.is_last {
            return self.take_whole(part.bytes);
        }
        if part.part == 0 {
            let transfer = Transfer {
                number: part.transfer,
                parts: 0,
                bytes: Vec::new(),
                begun: now,
                heard: now,
            };
            self.of_peers.insert(from, transfer);
        }
        let has_room = self.held_bytes() + part.bytes.len() <= self.most_bytes;
        // Two at once, or one that has to move while it grows.
        let most_of_one = self.most_bytes / 2;
        let Some(mut transfer) = self.of_peers.remove(&from) else {
            return Progress::Refused;
        };
        let is_next = transfer.number == part.transfer && transfer.parts == part.part;
        // One without bytes would only hold the others up.
        if !is_next || (part.bytes.is_empty() && !part.is_last) {
            return Progress::Refused;
        }
        if transfer.bytes.len() + part.bytes.len() > most_of_one {
            return Progress::TooLarge;
        }
        if !has_room {
            return Progress::Refused;
        }
        transfer.parts += 1;
        transfer.heard = now;
        transfer.bytes.reserve_exact(part.bytes.len());
        transfer.bytes.extend_from_slice(&part.bytes);
        if part.is_last {
            return Progress::Whole(transfer.bytes);
        }
        self.of_peers.insert(from, transfer);
        Progress::Begun
    }

    /// Takes in a record of one part, which is in no other's way.
    fn take_whole(&self, bytes: Vec<u8>) -> Progress {
        if bytes.len() > self.most_bytes / 2 {
            return Progress::TooLarge;
        }
        match self.held_bytes() + bytes.len() <= self.most_bytes {
            true => Progress::Whole(bytes),
            false => Progress::Refused,
        }
    }

    /// Drops transfers of which nothing came for long, or that go on for too long.
    pub fn drop_silent(&mut self, now: Instant) {
        self.of_peers.retain(|_, transfer| {
            now.saturating_duration_since(transfer.heard) < SILENCE
                && now.saturating_duration_since(transfer.begun) < MOST_TIME
        });
    }

    /// Keeps those of these peers.
    pub fn retain(&mut self, is_there: impl Fn(&PeerId) -> bool) {
        self.of_peers.retain(|peer, _| is_there(peer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId::repeat(1);
    const B: PeerId = PeerId::repeat(2);
    const KIB: usize = 1 << 10;

    fn part(transfer: u64, part: u32, is_last: bool, size: usize) -> SitePart {
        SitePart {
            transfer,
            part,
            is_last,
            bytes: vec![part as u8; size],
        }
    }

    #[test]
    fn parts_in_order_become_a_record() {
        let (mut transfers, now) = (Transfers::new(10 * KIB), Instant::now());
        assert_eq!(
            transfers.take(A, part(7, 0, false, 2), now),
            Progress::Begun
        );
        assert_eq!(
            transfers.take(B, part(7, 0, true, 1), now),
            Progress::Whole(vec![0])
        );
        let whole = transfers.take(A, part(7, 1, true, 1), now);
        assert_eq!(whole, Progress::Whole(vec![0, 0, 1]));
        assert_eq!(transfers.held_bytes(), 0);
        assert_eq!(
            transfers.take(A, part(7, 2, true, 1), now),
            Progress::Refused
        );
    }

    /// After four transfers that broke off, no fifth was taken: its site stood still for
    /// ever.
    #[test]
    fn a_transfer_that_broke_off_is_in_nobodys_way() {
        let (mut transfers, now) = (Transfers::new(10 * KIB), Instant::now());
        for broken in 0..20 {
            let begun = transfers.take(A, part(broken, 0, false, 4 * KIB), now);
            assert_eq!(begun, Progress::Begun, "transfer {broken}");
        }
        assert_eq!(transfers.held_bytes(), 4 * KIB);
        assert_eq!(
            transfers.take(A, part(5, 1, true, 1), now),
            Progress::Refused
        );
        let whole = transfers.take(A, part(20, 0, true, 1), now);
        assert_eq!(whole, Progress::Whole(vec![0]));
    }

    #[test]
    fn a_transfer_is_not_held_open_for_nothing_nor_ended_by_a_small_record() {
        let (mut transfers, mut now) = (Transfers::new(10 * KIB), Instant::now());
        let begin = |transfers: &mut Transfers, now| {
            let begun = transfers.take(A, part(1, 0, false, KIB), now);
            assert_eq!(begun, Progress::Begun);
        };
        begin(&mut transfers, now);
        let small = transfers.take(A, part(2, 0, true, 1), now);
        assert_eq!(small, Progress::Whole(vec![0]));
        assert_eq!(transfers.held_bytes(), KIB, "the other goes on");
        let empty = transfers.take(A, part(1, 1, false, 0), now);
        assert_eq!(empty, Progress::Refused);
        assert_eq!(transfers.held_bytes(), 0);
        begin(&mut transfers, now);
        for at in 1..100 {
            now += SILENCE - Duration::from_secs(1);
            transfers.take(A, part(1, at, false, 1), now);
        }
        assert_eq!(transfers.held_bytes(), 0, "it took too long");
    }

    /// Members that each began four transfers of 64 MB once took all memory.
    #[test]
    fn all_together_are_bounded_and_silent_ones_are_dropped() {
        let (mut transfers, mut now) = (Transfers::new(100 * KIB), Instant::now());
        for number in 0..200 {
            let peer = PeerId::repeat(number);
            for at in 0..10 {
                transfers.take(peer, part(1, at, false, 4 * KIB), now);
            }
            assert!(transfers.held_bytes() <= 100 * KIB);
        }
        assert_eq!(
            transfers.take(A, part(2, 0, false, KIB), now),
            Progress::Begun
        );
        now += SILENCE;
        for at in 0..12 {
            let begun = transfers.take(B, part(3, at, false, 4 * KIB), now);
            assert_eq!(begun, Progress::Begun, "part {at}");
        }
        assert_eq!(transfers.held_bytes(), 48 * KIB, "the others are gone");
        let large = transfers.take(B, part(3, 12, false, 4 * KIB), now);
        assert_eq!(large, Progress::TooLarge);
        now += SILENCE;
        transfers.drop_silent(now);
        assert_eq!(transfers.held_bytes(), 0);
    }
}
