//! How full the outbox is, in all and by the URLs of each owner.
//!
//! One owner's URLs take half of it at most: otherwise one peer that never gives a receipt
//! would take the room of all the others. Whoever finds no room may wait for it, but only
//! once: after a wait in vain nobody waits until an eighth is free again, or each URL would
//! cost the crawl such a wait.

use std::collections::HashMap;

use peercrawl_overlay::PeerId;

/// One owner's URLs may take this part of all.
const PART_OF_ONE: usize = 2;
/// This part must be free before it is worth waiting again.
const PART_TO_BE_FREE: usize = 8;

/// See the module. An owner that is away, or not known yet, is `None`.
pub struct Levels {
    most: usize,
    most_of_one: usize,
    all: Level,
    of_owners: HashMap<Option<PeerId>, Level>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Level {
    urls: usize,
    /// Whether somebody has waited in vain since it was full.
    is_stuck: bool,
}

impl Level {
    /// One URL less, of so many at most.
    fn sink(&mut self, most: usize) {
        self.urls = self.urls.saturating_sub(1);
        if self.urls <= most - most / PART_TO_BE_FREE {
            self.is_stuck = false;
        }
    }
}

impl Levels {
    /// Empty, and so many URLs at most.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            most_of_one: (most / PART_OF_ONE).max(1),
            all: Level::default(),
            of_owners: HashMap::new(),
        }
    }

    /// Whether there is room for one more URL of this owner.
    pub fn has_room(&self, owner: Option<PeerId>) -> bool {
        self.all.urls < self.most && self.of(owner).urls < self.most_of_one
    }

    /// Whether it is known that room for this owner, which there is not, is waited for in
    /// vain.
    pub fn is_stuck(&self, owner: Option<PeerId>) -> bool {
        let one = self.of(owner);
        (self.all.urls >= self.most && self.all.is_stuck)
            || (one.urls >= self.most_of_one && one.is_stuck)
    }

    /// Somebody has waited in vain for room for this owner.
    pub fn waited_in_vain(&mut self, owner: Option<PeerId>) {
        self.all.is_stuck |= self.all.urls >= self.most;
        if let Some(one) = self.of_owners.get_mut(&owner) {
            one.is_stuck |= one.urls >= self.most_of_one;
        }
    }

    /// One more URL waits for this owner.
    pub fn add(&mut self, owner: Option<PeerId>) {
        self.all.urls += 1;
        self.of_owners.entry(owner).or_default().urls += 1;
    }

    /// One URL waits for this owner no more.
    pub fn remove(&mut self, owner: Option<PeerId>) {
        self.all.sink(self.most);
        if let Some(one) = self.of_owners.get_mut(&owner) {
            one.sink(self.most_of_one);
            if one.urls == 0 {
                self.of_owners.remove(&owner);
            }
        }
    }

    fn of(&self, owner: Option<PeerId>) -> Level {
        self.of_owners.get(&owner).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Option<PeerId> = Some(PeerId::repeat(1));
    const B: Option<PeerId> = Some(PeerId::repeat(2));

    #[test]
    fn one_owner_takes_half_and_two_take_all() {
        let mut levels = Levels::new(16);
        (0..8).for_each(|_| levels.add(A));
        assert!(!levels.has_room(A));
        assert!(levels.has_room(B) && levels.has_room(None));
        (0..8).for_each(|_| levels.add(B));
        assert!(!levels.has_room(None), "it is full");
        levels.remove(A);
        assert!(levels.has_room(A) && levels.has_room(None));
        assert!(!levels.has_room(B));
    }

    #[test]
    fn it_is_waited_for_once_until_an_eighth_is_free() {
        let mut levels = Levels::new(32);
        (0..16).for_each(|_| levels.add(A));
        assert!(!levels.is_stuck(A));
        levels.waited_in_vain(A);
        assert!(levels.is_stuck(A));
        assert!(!levels.is_stuck(B));
        levels.remove(A);
        levels.add(A);
        assert!(levels.is_stuck(A), "it was hardly less");
        (0..2).for_each(|_| levels.remove(A));
        (0..2).for_each(|_| levels.add(A));
        assert!(!levels.has_room(A) && !levels.is_stuck(A));
        (0..16).for_each(|_| levels.add(B));
        levels.waited_in_vain(None);
        assert!(levels.is_stuck(None), "no room for anybody");
        (0..32).for_each(|n| levels.remove(if n < 16 { A } else { B }));
        assert!(levels.of_owners.is_empty(), "nobody is remembered");
    }
}
