//! Which messages have been seen: a message counts once, however often it arrives.
//!
//! An author may give two messages one number and send them by two ways, and one message may
//! come by two ways while leases change. Those who bring them cannot know, so it is remembered
//! who brought a number: only who brings it again is to blame.

use std::collections::BTreeMap;

use crate::PeerId;

/// Sequence numbers remembered of each author.
const WINDOW: usize = 4_096;
/// Sequence numbers remembered of all authors together.
const NUMBERS: usize = 1 << 18;
/// Authors remembered.
const AUTHORS: usize = 10_000;

/// What a message is to a peer that gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// It has not been seen.
    New,
    /// It has been seen, through no known fault of whoever brings it.
    Again,
    /// It has been seen, and whoever brings it has brought it before.
    Replayed,
}

#[derive(Default)]
struct Seen {
    /// Everything up to here counts as seen.
    floor: u64,
    /// The others, and who brought each of them last.
    above: BTreeMap<u64, PeerId>,
    /// When the author was last heard, in calls, so that the stalest can go.
    last_use: u64,
}

impl Seen {
    /// Remembers so many numbers, the highest; tells how many others went. They still count
    /// as seen.
    fn keep(&mut self, most: usize) -> usize {
        let before = self.above.len();
        while self.above.len() > most
            && let Some((lowest, _)) = self.above.pop_first()
        {
            self.floor = lowest;
        }
        before - self.above.len()
    }
}

/// See the module.
#[derive(Default)]
pub struct ReplayWindow {
    authors: BTreeMap<PeerId, Seen>,
    /// Sequence numbers in them.
    numbers: usize,
    uses: u64,
}

impl ReplayWindow {
    /// Marks a message that somebody brings as seen; tells what it was before. One that
    /// comes later than the author's next 4,096 messages, or fewer if many authors have much
    /// to say, counts as seen, since that is no longer known.
    pub fn see(&mut self, author: PeerId, sequence: u64, from: PeerId) -> Sight {
        self.uses += 1;
        if !self.authors.contains_key(&author) && self.authors.len() >= AUTHORS {
            self.forget_stalest();
        }
        let seen = self.authors.entry(author).or_default();
        seen.last_use = self.uses;
        if sequence <= seen.floor {
            return Sight::Again;
        }
        if let Some(before) = seen.above.insert(sequence, from) {
            return match before == from {
                true => Sight::Replayed,
                false => Sight::Again,
            };
        }
        self.numbers += 1;
        self.numbers -= seen.keep(WINDOW);
        if self.numbers > NUMBERS {
            self.thin_out();
        }
        Sight::New
    }

    /// Whether a message is older than what is remembered of its author.
    pub fn is_too_old(&self, author: PeerId, sequence: u64) -> bool {
        let seen = self.authors.get(&author);
        seen.is_some_and(|seen| sequence <= seen.floor)
    }

    fn forget_stalest(&mut self) {
        let stalest = self.authors.iter().min_by_key(|(_, seen)| seen.last_use);
        let stalest = stalest.map(|(&id, _)| id);
        if let Some(seen) = stalest.and_then(|id| self.authors.remove(&id)) {
            self.numbers -= seen.above.len();
        }
    }

    /// Whoever has said most is remembered half as far back, so that one who says very much
    /// is nobody else's loss.
    fn thin_out(&mut self) {
        let longest = self.authors.values_mut().max_by_key(|s| s.above.len());
        if let Some(longest) = longest {
            let half = longest.above.len() / 2;
            self.numbers -= longest.keep(half);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId::repeat(1);
    const B: PeerId = PeerId::repeat(2);
    const C: PeerId = PeerId::repeat(3);

    fn is_new(window: &mut ReplayWindow, author: PeerId, sequence: u64) -> bool {
        window.see(author, sequence, C) == Sight::New
    }

    fn name(number: usize) -> PeerId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&(number as u64).to_be_bytes());
        PeerId(id)
    }

    #[test]
    fn each_message_counts_once_in_any_order() {
        let mut window = ReplayWindow::default();
        for sequence in [5, 3, 9] {
            assert!(is_new(&mut window, A, sequence));
            assert!(!is_new(&mut window, A, sequence));
            assert!(is_new(&mut window, B, sequence));
        }
    }

    /// Two messages with one number, over two honest neighbours, made an offender of one.
    #[test]
    fn only_who_brings_a_number_again_replays_it() {
        let mut window = ReplayWindow::default();
        assert_eq!(window.see(A, 1, B), Sight::New);
        assert_eq!(window.see(A, 1, C), Sight::Again, "it cannot know");
        assert_eq!(window.see(A, 1, C), Sight::Replayed);
        assert_eq!(window.see(A, 2, A), Sight::New);
        assert_eq!(window.see(A, 2, A), Sight::Replayed, "an author, too");
    }

    #[test]
    fn what_is_too_old_to_be_known_counts_as_seen_and_memory_is_bounded() {
        let mut window = ReplayWindow::default();
        for sequence in 1..=3 * WINDOW as u64 {
            assert!(is_new(&mut window, A, sequence));
        }
        assert!(!is_new(&mut window, A, 1));
        assert!(!is_new(&mut window, A, 2 * WINDOW as u64));
        assert!(!is_new(&mut window, A, 2 * WINDOW as u64 + 1));
        assert!(window.is_too_old(A, 1) && window.is_too_old(A, 2 * WINDOW as u64));
        assert!(!window.is_too_old(A, 2 * WINDOW as u64 + 1), "only seen");
        assert!(!window.is_too_old(B, 1));
        assert_eq!(window.authors[&A].above.len(), WINDOW);
        assert_eq!(window.numbers, WINDOW);
    }

    /// Ten thousand authors could be remembered with four thousand numbers each.
    #[test]
    fn all_authors_together_are_bounded_and_those_who_say_little_lose_nothing() {
        let mut window = ReplayWindow::default();
        assert!(is_new(&mut window, name(0), 1) && is_new(&mut window, name(0), 3));
        for author in 1..=80 {
            for sequence in 1..=WINDOW as u64 {
                assert!(is_new(&mut window, name(author), sequence));
            }
        }
        let held = window.authors.values().map(|seen| seen.above.len());
        assert_eq!(held.sum::<usize>(), window.numbers);
        assert!(window.numbers <= NUMBERS, "{}", window.numbers);
        assert!(!is_new(&mut window, name(1), 1));
        assert!(is_new(&mut window, name(0), 2) && !is_new(&mut window, name(0), 3));
    }

    #[test]
    fn the_stalest_author_goes_first() {
        let mut window = ReplayWindow::default();
        for number in 0..=AUTHORS {
            assert!(is_new(&mut window, name(number), 1));
        }
        assert_eq!(window.authors.len(), AUTHORS);
        assert!(!is_new(&mut window, name(1), 1), "remembered");
        assert!(is_new(&mut window, name(0), 1), "forgotten");
        assert_eq!(window.numbers, AUTHORS);
    }
}
