//! Which messages have been seen: a message counts once, however often it arrives.

use std::collections::{BTreeMap, BTreeSet};

use crate::PeerId;

/// Sequence numbers remembered of each author.
const WINDOW: usize = 4_096;
/// Authors remembered.
const AUTHORS: usize = 10_000;

#[derive(Default)]
struct Seen {
    /// Everything up to here counts as seen.
    floor: u64,
    above: BTreeSet<u64>,
    /// When the author was last heard, in calls, so that the stalest can go.
    last_use: u64,
}

/// See the module.
#[derive(Default)]
pub struct ReplayWindow {
    authors: BTreeMap<PeerId, Seen>,
    uses: u64,
}

impl ReplayWindow {
    /// Marks a message as seen; tells whether it was new. One that comes later than
    /// the author's next 4,096 messages counts as seen, since that is no longer known.
    pub fn is_new(&mut self, author: PeerId, sequence: u64) -> bool {
        self.uses += 1;
        if !self.authors.contains_key(&author) && self.authors.len() >= AUTHORS {
            let stalest = self.authors.iter().min_by_key(|(_, seen)| seen.last_use);
            if let Some(stalest) = stalest.map(|(&id, _)| id) {
                self.authors.remove(&stalest);
            }
        }
        let seen = self.authors.entry(author).or_default();
        seen.last_use = self.uses;
        if sequence <= seen.floor || !seen.above.insert(sequence) {
            return false;
        }
        if seen.above.len() > WINDOW
            && let Some(lowest) = seen.above.pop_first()
        {
            seen.floor = lowest;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId::repeat(1);
    const B: PeerId = PeerId::repeat(2);

    #[test]
    fn each_message_counts_once_in_any_order() {
        let mut window = ReplayWindow::default();
        for sequence in [5, 3, 9] {
            assert!(window.is_new(A, sequence));
            assert!(!window.is_new(A, sequence));
            assert!(window.is_new(B, sequence));
        }
    }

    #[test]
    fn what_is_too_old_to_be_known_counts_as_seen_and_memory_is_bounded() {
        let mut window = ReplayWindow::default();
        for sequence in 1..=3 * WINDOW as u64 {
            assert!(window.is_new(A, sequence));
        }
        assert!(!window.is_new(A, 1));
        assert!(!window.is_new(A, 2 * WINDOW as u64 + 1));
        assert_eq!(window.authors[&A].above.len(), WINDOW);
    }

    #[test]
    fn the_stalest_author_goes_first() {
        let mut window = ReplayWindow::default();
        let name = |number: usize| {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&(number as u64).to_be_bytes());
            PeerId(id)
        };
        for number in 0..=AUTHORS {
            assert!(window.is_new(name(number), 1));
        }
        assert_eq!(window.authors.len(), AUTHORS);
        assert!(!window.is_new(name(1), 1), "remembered");
        assert!(window.is_new(name(0), 1), "forgotten");
    }
}
