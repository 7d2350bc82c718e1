//! How full the outbox is, in all and by what each owner's URLs take in memory.
//!
//! One owner's URLs take no more than they leave to the others: half of it if nobody else has
//! any, and less otherwise. So peers that never give a receipt, however many, do not take the
//! room of all the others. Whoever finds no room may wait for it, but only
//! once: after a wait in vain nobody waits until an eighth is free again, or each URL would
//! cost the crawl such a wait.

use std::collections::HashMap;

use peercrawl_overlay::PeerId;

/// This part must be free before it is worth waiting again.
const PART_TO_BE_FREE: usize = 8;

/// See the module. An owner that is away, or not known yet, is `None`.
pub struct Levels {
    most_bytes: usize,
    all: Level,
    of_owners: HashMap<Option<PeerId>, Level>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Level {
    bytes: usize,
    /// Whether somebody has waited in vain since it was full.
    is_stuck: bool,
}

impl Levels {
    /// Empty, and so full at most.
    pub fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            all: Level::default(),
            of_owners: HashMap::new(),
        }
    }

    /// Whether there is room for one more URL of this owner.
    pub fn has_room(&self, owner: Option<PeerId>) -> bool {
        self.of(owner).bytes < self.free()
    }

    fn free(&self) -> usize {
        self.most_bytes.saturating_sub(self.all.bytes)
    }

    /// Whether it is known that room for this owner, which there is not, is waited for in
    /// vain.
    pub fn is_stuck(&self, owner: Option<PeerId>) -> bool {
        let (one, free) = (self.of(owner), self.free());
        (free == 0 && self.all.is_stuck) || (one.bytes >= free && one.is_stuck)
    }

    /// Somebody has waited in vain for room for this owner.
    pub fn waited_in_vain(&mut self, owner: Option<PeerId>) {
        let free = self.free();
        self.all.is_stuck |= free == 0;
        if let Some(one) = self.of_owners.get_mut(&owner) {
            one.is_stuck |= one.bytes >= free;
        }
    }

    /// One more URL waits for this owner, and takes so much.
    pub fn add(&mut self, owner: Option<PeerId>, bytes: usize) {
        // Others may have made room.
        self.settle(owner);
        self.all.bytes += bytes;
        self.of_owners.entry(owner).or_default().bytes += bytes;
    }

    /// A URL that takes so much waits for this owner no more.
    pub fn remove(&mut self, owner: Option<PeerId>, bytes: usize) {
        self.all.bytes = self.all.bytes.saturating_sub(bytes);
        if let Some(one) = self.of_owners.get_mut(&owner) {
            one.bytes = one.bytes.saturating_sub(bytes);
            if one.bytes == 0 {
                self.of_owners.remove(&owner);
            }
        }
        self.settle(owner);
    }

    /// Once enough is free, in all or for this owner, it is worth waiting again.
    fn settle(&mut self, owner: Option<PeerId>) {
        let (free, enough) = (self.free(), self.most_bytes / PART_TO_BE_FREE);
        self.all.is_stuck &= free < enough;
        if let Some(one) = self.of_owners.get_mut(&owner) {
            one.is_stuck &= free < one.bytes + enough;
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
    fn one_owner_takes_half_and_leaves_room_with_however_many_others() {
        let mut levels = Levels::new(16);
        let fill = |levels: &mut Levels, owner| {
            let mut urls = 0;
            while levels.has_room(owner) {
                levels.add(owner, 1);
                urls += 1;
            }
            urls
        };
        assert_eq!(fill(&mut levels, A), 8);
        assert_eq!(fill(&mut levels, B), 4, "two once took all");
        assert_eq!(fill(&mut levels, None), 2);
        let others = (3..6).map(|number| Some(PeerId::repeat(number)));
        let urls: Vec<usize> = others.map(|one| fill(&mut levels, one)).collect();
        assert_eq!(urls, [1, 1, 0], "it is full");
        (0..5).for_each(|_| levels.remove(A, 1));
        assert!(levels.has_room(A) && levels.has_room(B) && levels.has_room(None));
    }

    #[test]
    fn it_is_waited_for_once_until_an_eighth_is_free() {
        let mut levels = Levels::new(32);
        (0..16).for_each(|_| levels.add(A, 1));
        assert!(!levels.is_stuck(A));
        levels.waited_in_vain(A);
        assert!(levels.is_stuck(A));
        assert!(!levels.is_stuck(B));
        levels.remove(A, 1);
        levels.add(A, 1);
        assert!(levels.is_stuck(A), "it was hardly less");
        (0..2).for_each(|_| levels.remove(A, 1));
        (0..2).for_each(|_| levels.add(A, 1));
        assert!(!levels.has_room(A) && !levels.is_stuck(A));
        // More than it may take, as when owners change.
        (0..16).for_each(|_| levels.add(B, 1));
        levels.waited_in_vain(None);
        assert!(levels.is_stuck(None), "no room for anybody");
        (0..32).for_each(|n| levels.remove(if n < 16 { A } else { B }, 1));
        assert!(levels.of_owners.is_empty(), "nobody is remembered");
    }
}
