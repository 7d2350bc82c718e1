//! Who is next: addresses by the time of their next fetch, and hosts within.
//!
//! A host waits in the group of its address (or in one of its own, where addresses do
//! not bind). A group is leased as a whole, so that hosts which share an address are
//! never fetched from at once, and it has a time of its own before which none of its
//! hosts is ready. The head of the order is ready if anything is.
//!
//! Every step costs the logarithm of the number of groups. An entry of the outer heap
//! that no longer tells the truth is left in place and skipped when it comes up.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

use crate::clock::Millis;

/// What hosts are kept apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// All hosts at this address.
    Address(IpAddr),
    /// One host alone, by its key.
    Host(u64),
}

/// How soon to ask again for a group that is leased.
const LEASED_PAUSE_MS: Millis = 250;

/// See the module. `T` is what waits.
#[derive(Debug)]
pub struct ReadyOrder<T> {
    groups: HashMap<Group, Waiting<T>>,
    order: BinaryHeap<Reverse<(Millis, u64, Group)>>,
    /// Numbers entries, so that ties are first come, first served.
    entries: u64,
    hosts: usize,
}

#[derive(Debug)]
struct Waiting<T> {
    /// No host of the group is ready before.
    next_ms: Millis,
    hosts: BinaryHeap<Host<T>>,
    is_leased: bool,
    /// The one entry of the outer heap that tells the truth about this group.
    entry: u64,
}

impl<T> Waiting<T> {
    fn new() -> Self {
        Self {
            next_ms: 0,
            hosts: BinaryHeap::new(),
            is_leased: false,
            entry: 0,
        }
    }
}

#[derive(Debug)]
struct Host<T> {
    rank: Reverse<(Millis, u64)>,
    item: T,
}

impl<T> PartialEq for Host<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}
impl<T> Eq for Host<T> {}
impl<T> PartialOrd for Host<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Host<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl<T> Default for ReadyOrder<T> {
    fn default() -> Self {
        Self {
            groups: HashMap::new(),
            order: BinaryHeap::new(),
            entries: 0,
            hosts: 0,
        }
    }
}

impl<T> ReadyOrder<T> {
    /// A host begins to wait for `at_ms`.
    pub fn insert(&mut self, group: Group, at_ms: Millis, item: T) {
        self.entries += 1;
        self.hosts += 1;
        let rank = Reverse((at_ms, self.entries));
        let waiting = self.groups.entry(group).or_insert_with(Waiting::new);
        waiting.hosts.push(Host { rank, item });
        self.enter(group);
    }

    /// When the head will be ready; `None` if nothing waits.
    pub fn next_ms(&mut self) -> Option<Millis> {
        while let Some(&Reverse((at_ms, entry, group))) = self.order.peek() {
            match self.groups.get(&group).filter(|w| w.entry == entry) {
                // An address at rest where nobody waits is no head.
                Some(waiting) if waiting.hosts.is_empty() => return self.next_of_many(),
                Some(_) => return Some(at_ms),
                None => self.order.pop(),
            };
        }
        None
    }

    /// As above, past addresses at rest: rare, and only asked when a crawl runs dry.
    fn next_of_many(&self) -> Option<Millis> {
        let waiting = self.groups.values().filter(|w| !w.is_leased);
        waiting
            .filter_map(|w| Some(w.hosts.peek()?.rank.0.0.max(w.next_ms)))
            .min()
    }

    /// Leases the group at the head and takes its first host, or says when to look
    /// again; `None` if there is nothing to look for.
    pub fn take(&mut self, now_ms: Millis) -> Result<(Group, T), Option<Millis>> {
        while let Some(&Reverse((at_ms, entry, group))) = self.order.peek() {
            let Some(waiting) = self.groups.get_mut(&group).filter(|w| w.entry == entry) else {
                self.order.pop();
                continue;
            };
            if at_ms > now_ms {
                return Err(Some(at_ms));
            }
            self.order.pop();
            let Some(host) = waiting.hosts.pop() else {
                // Nobody waits and the address has had its rest: nothing to remember.
                self.groups.remove(&group);
                continue;
            };
            waiting.is_leased = true;
            waiting.entry = 0;
            self.hosts -= 1;
            return Ok((group, host.item));
        }
        Err(None)
    }

    /// Ends a lease: no host of the group is ready before `next_ms`, whether one waits
    /// already or not.
    pub fn release(&mut self, group: Group, next_ms: Millis, now_ms: Millis) {
        if let Some(waiting) = self.groups.get_mut(&group) {
            waiting.is_leased = false;
            waiting.next_ms = next_ms;
            if waiting.hosts.is_empty() && next_ms <= now_ms {
                // Nothing to remember.
                self.groups.remove(&group);
            } else {
                self.enter(group);
            }
        }
    }

    /// Leases a group for a host that does not wait in it, or says when to ask again.
    pub fn reserve(&mut self, group: Group, now_ms: Millis) -> Result<(), Millis> {
        let waiting = self.groups.entry(group).or_insert_with(Waiting::new);
        if waiting.is_leased {
            return Err(now_ms + LEASED_PAUSE_MS);
        }
        if waiting.next_ms > now_ms {
            return Err(waiting.next_ms);
        }
        waiting.is_leased = true;
        waiting.entry = 0;
        Ok(())
    }

    /// Lets go of hosts that are not to wait any more. Costs as much as there are.
    pub fn retain(&mut self, stays: impl Fn(&T) -> bool, now_ms: Millis) {
        let mut changed = Vec::new();
        self.groups.retain(|&group, waiting| {
            let before = waiting.hosts.len();
            waiting.hosts.retain(|host| stays(&host.item));
            if waiting.hosts.len() < before {
                waiting.hosts.shrink_to_fit();
                self.hosts -= before - waiting.hosts.len();
                changed.push(group);
            }
            waiting.is_leased || !waiting.hosts.is_empty() || waiting.next_ms > now_ms
        });
        changed.into_iter().for_each(|group| self.enter(group));
        // The time of a host that was let go may be far off: its entry would stay till then.
        let groups = &self.groups;
        self.order.retain(|Reverse((_, entry, group))| {
            groups.get(group).is_some_and(|known| known.entry == *entry)
        });
    }

    /// Hosts that wait.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Puts a group where it belongs now.
    fn enter(&mut self, group: Group) {
        let Some(waiting) = self.groups.get_mut(&group).filter(|w| !w.is_leased) else {
            return;
        };
        let host_ms = waiting.hosts.peek().map_or(0, |host| host.rank.0.0);
        self.entries += 1;
        waiting.entry = self.entries;
        let at_ms = host_ms.max(waiting.next_ms);
        self.order.push(Reverse((at_ms, self.entries, group)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ONE: Group = Group::Address(IpAddr::V4(std::net::Ipv4Addr::new(1, 1, 1, 1)));

    #[test]
    fn the_head_is_ready_if_anything_is() {
        let mut order = ReadyOrder::default();
        assert_eq!(order.take(0), Err(None));
        order.insert(Group::Host(1), 50, "late");
        order.insert(Group::Host(2), 10, "early");
        assert_eq!(order.take(5), Err(Some(10)));
        assert_eq!(order.next_ms(), Some(10));
        assert_eq!(order.take(10), Ok((Group::Host(2), "early")));
        assert_eq!(order.take(10), Err(Some(50)));
        assert_eq!(order.take(50), Ok((Group::Host(1), "late")));
    }

    #[test]
    fn a_visitor_takes_its_turn_and_leaves_a_rest() {
        for group in [ONE, Group::Host(7)] {
            let mut order = ReadyOrder::default();
            assert_eq!(order.reserve(group, 0), Ok(()));
            assert_eq!(order.reserve(group, 0), Err(LEASED_PAUSE_MS));
            order.insert(group, 0, "a");
            assert_eq!(order.take(0), Err(None), "it is visited");
            order.release(group, 100, 0);
            assert_eq!(order.take(0), Err(Some(100)));
            assert_eq!(order.reserve(group, 50), Err(100));
            assert_eq!(order.take(100), Ok((group, "a")));
            assert_eq!(order.reserve(group, 100), Err(100 + LEASED_PAUSE_MS));
            order.release(group, 200, 100);
            // With nobody waiting the rest is kept as well.
            assert!(order.reserve(group, 200).is_ok());
            order.release(group, 300, 200);
            order.insert(group, 0, "b");
            assert_eq!(order.take(200), Err(Some(300)));
        }
    }

    #[test]
    fn hosts_of_one_address_take_turns_and_keep_its_delay() {
        let mut order = ReadyOrder::default();
        order.insert(ONE, 0, "a");
        order.insert(ONE, 0, "b");
        assert_eq!(order.take(0), Ok((ONE, "a")));
        assert_eq!(order.take(0), Err(None), "the address is leased");
        order.insert(ONE, 0, "c");
        assert_eq!(order.take(0), Err(None));
        order.release(ONE, 100, 0);
        assert_eq!(order.take(99), Err(Some(100)));
        assert_eq!(order.take(100), Ok((ONE, "b")));
        order.release(ONE, 200, 0);
        assert_eq!(order.take(200), Ok((ONE, "c")));
        order.release(ONE, 300, 0);
        order.insert(ONE, 0, "d");
        assert_eq!(
            order.take(250),
            Err(Some(300)),
            "an address is remembered while it rests"
        );
    }

    #[test]
    fn a_rested_address_is_forgotten() {
        let mut order = ReadyOrder::default();
        order.insert(ONE, 0, "a");
        order.take(0).unwrap();
        order.release(ONE, 100, 0);
        assert_eq!(order.next_ms(), None);
        order.insert(Group::Host(7), 500, "b");
        assert_eq!(order.next_ms(), Some(500), "past the address at rest");
        assert_eq!(order.take(499), Err(Some(500)));
        order.take(500).unwrap();
        order.release(Group::Host(7), 600, 600);
        assert!(order.groups.is_empty() && order.order.is_empty());
    }

    #[test]
    fn who_is_let_go_leaves_nothing_behind() {
        let mut order = ReadyOrder::default();
        order.insert(ONE, 0, "a");
        order.insert(ONE, 50, "b");
        order.insert(ONE, 90, "c");
        order.insert(Group::Host(7), 1_000, "d");
        order.retain(|host| !["a", "b", "d"].contains(host), 0);
        assert_eq!((order.hosts(), order.next_ms()), (1, Some(90)));
        assert_eq!((order.groups.len(), order.order.len()), (1, 1));
        assert_eq!(order.take(90), Ok((ONE, "c")));
        order.insert(ONE, 0, "e");
        order.retain(|_| false, 90);
        // Its address is leased, and then rests.
        order.release(ONE, 200, 90);
        order.retain(|_| false, 100);
        order.insert(ONE, 0, "f");
        assert_eq!(order.take(100), Err(Some(200)));
        assert_eq!(order.take(200), Ok((ONE, "f")));
    }

    proptest! {
        /// Against a plain list: what comes out is never early, never overlaps on a
        /// group, and is there whenever the list has something ready.
        #[test]
        fn equals_a_plain_list(steps in prop::collection::vec((0u8..3, 0u64..4, 0u64..20), 1..200)) {
            let mut order = ReadyOrder::default();
            let mut waiting: Vec<(u64, u64)> = Vec::new();
            let mut rests = HashMap::new();
            let mut leased = Vec::new();
            for (now, (action, group, time)) in steps.into_iter().enumerate() {
                let now = now as u64;
                match action {
                    0 => {
                        order.insert(Group::Address(std::net::Ipv4Addr::from(group as u32).into()), now + time, (group, now + time));
                        waiting.push((group, now + time));
                    }
                    1 => {
                        let ready = |&&(group, at): &&(u64, u64)| {
                            at <= now && !leased.contains(&group)
                                && rests.get(&group).is_none_or(|&rest| rest <= now)
                        };
                        let expected = waiting.iter().any(|w| ready(&w));
                        match order.take(now) {
                            Ok((_, taken)) => {
                                prop_assert!(ready(&&taken));
                                let at = waiting.iter().position(|w| *w == taken).unwrap();
                                waiting.remove(at);
                                leased.push(taken.0);
                            }
                            Err(_) => prop_assert!(!expected),
                        }
                    }
                    _ => if let Some(group) = leased.pop() {
                        order.release(Group::Address(std::net::Ipv4Addr::from(group as u32).into()), now + time, now);
                        rests.insert(group, now + time);
                    }
                }
                prop_assert_eq!(order.hosts(), waiting.len());
            }
        }
    }
}
