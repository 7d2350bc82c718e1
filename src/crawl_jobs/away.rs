//! Sites that are away: on disk alone, although something waits for them.
//!
//! Of such a site memory keeps where its queue begins and when it is due, and not even its
//! name, which is in its URLs: enough to bring it back when its time has come and there is
//! room.

use std::collections::{BTreeMap, HashMap};

use super::OnDisk;
use crate::clock::Millis;
use crate::distribution::Key;

/// What one of them takes in memory.
pub const AWAY_BYTES: usize = 120;

/// The queue of a site that is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AwayQueue {
    /// All of it.
    pub on_disk: OnDisk,
    /// The number of the next URL.
    pub next_number: u64,
}

/// See the module.
#[derive(Default)]
pub struct Away {
    /// By the time when they are due.
    queues: BTreeMap<(Millis, u64), AwayQueue>,
    /// When each of them is.
    due_ms: HashMap<u64, Millis>,
}

impl Away {
    /// A site goes away until it is due.
    pub fn insert(&mut self, key: Key, due_ms: Millis, queue: AwayQueue) {
        self.due_ms.insert(key.0, due_ms);
        self.queues.insert((due_ms, key.0), queue);
    }

    /// The queue of a site, if it is away.
    pub fn get(&self, key: Key) -> Option<AwayQueue> {
        let due_ms = *self.due_ms.get(&key.0)?;
        self.queues.get(&(due_ms, key.0)).copied()
    }

    /// A site comes back, if it is away: when it is due, and its queue.
    pub fn remove(&mut self, key: Key) -> Option<(Millis, AwayQueue)> {
        let due_ms = self.due_ms.remove(&key.0)?;
        Some((due_ms, self.queues.remove(&(due_ms, key.0))?))
    }

    /// Those that are due by then, so many at most, the first of them first.
    pub fn due(&self, by_ms: Millis, most: usize) -> Vec<Key> {
        let due = self.queues.range(..=(by_ms, u64::MAX));
        due.take(most).map(|(&(_, key), _)| Key(key)).collect()
    }

    /// When the first of them is due; `None` if none is away.
    pub fn next_ms(&self) -> Option<Millis> {
        self.queues.keys().next().map(|&(due_ms, _)| due_ms)
    }

    /// All of them, and when they are due.
    pub fn all(&self) -> impl Iterator<Item = (Key, Millis, AwayQueue)> {
        let queues = self.queues.iter();
        queues.map(|(&(due_ms, key), &queue)| (Key(key), due_ms, queue))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.queues.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_known_by_their_key_and_come_back_in_the_order_of_their_times() {
        let queue = |urls| AwayQueue {
            on_disk: OnDisk { urls, from: 0 },
            next_number: urls as u64,
        };
        let mut away = Away::default();
        assert_eq!(away.next_ms(), None);
        away.insert(Key(u64::MAX), 20, queue(1));
        away.insert(Key(3), 30, queue(2));
        away.insert(Key(4), 10, queue(3));
        assert_eq!((away.count(), away.next_ms()), (3, Some(10)));
        assert_eq!(away.due(20, 9), [Key(4), Key(u64::MAX)]);
        assert_eq!(away.due(20, 1), [Key(4)]);
        assert_eq!(away.get(Key(3)), Some(queue(2)));
        assert_eq!(away.remove(Key(4)), Some((10, queue(3))));
        assert_eq!(away.remove(Key(4)), None);
        assert_eq!((away.count(), away.next_ms()), (2, Some(20)));
    }
}
