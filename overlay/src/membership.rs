//! Who is there: the leases of all peers, and who of them is silent.
//!
//! A lease is renewed from time to time. A peer that misses renewals, or whose
//! connection broke, is *suspect*: still a member, until it either refutes the
//! suspicion by a newer lease or is *dead*. The dead and those who said farewell are
//! remembered for a while, so that an old lease of theirs does not bring them back.
//! Leases are ordered by the author's own run and sequence number and their age is
//! measured from their arrival, so clocks that differ do no harm here.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Now;
use crate::lease::{Lease, Suspicion, Version};
use crate::{Member, PeerId, Role};

/// Members at most; later ones are not heard.
const MOST_MEMBERS: usize = 10_000;
/// Up to so many members, leases are renewed at the full rate.
const FULL_RATE_MEMBERS: u64 = 64;
/// Silent for so many renewals: suspect.
const MISSED_RENEWALS: u64 = 3;

/// How fast members are missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// A lease is renewed so often, in a small network.
    pub renewal_ms: u64,
    /// How long a suspect has to refute.
    pub refute_ms: u64,
    /// How long those who have gone are remembered.
    pub memory_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            renewal_ms: 30_000,
            refute_ms: 5_000,
            memory_ms: 600_000,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Alive,
    Suspect { since_ms: u64 },
    Gone { since_ms: u64 },
}

struct Entry {
    lease: Lease,
    version: Version,
    /// The signed lease, to pass on.
    bytes: Arc<[u8]>,
    heard_ms: u64,
    state: State,
}

/// What a lease changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Its author has come, or come back.
    Joined,
    /// Its author says something else than before.
    Changed,
    /// Its author is still there.
    Renewed,
    /// Its author has left.
    Left,
    /// Nothing: it is old, or of somebody who cannot be a member.
    Nothing,
}

/// See the module.
pub struct Membership {
    timing: Timing,
    entries: BTreeMap<PeerId, Entry>,
}

impl Membership {
    /// Nobody is there yet.
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            entries: BTreeMap::new(),
        }
    }

    /// Takes a lease in; `bytes` is its envelope.
    pub fn apply(
        &mut self,
        author: PeerId,
        lease: Lease,
        version: Version,
        bytes: Arc<[u8]>,
        now: Now,
    ) -> News {
        let old = self.entries.get(&author);
        let is_old = old.is_some_and(|old| old.version >= version);
        if is_old || (old.is_none() && self.entries.len() >= MOST_MEMBERS) {
            return News::Nothing;
        }
        let news = match old.filter(|old| !matches!(old.state, State::Gone { .. })) {
            Some(_) if lease.is_farewell => News::Left,
            Some(old) if old.lease == lease => News::Renewed,
            Some(_) => News::Changed,
            None if lease.is_farewell => News::Nothing,
            None => News::Joined,
        };
        let now_ms = now.since_start_ms;
        let state = match lease.is_farewell {
            true => State::Gone { since_ms: now_ms },
            false => State::Alive,
        };
        let entry = Entry {
            lease,
            version,
            bytes,
            heard_ms: now_ms,
            state,
        };
        self.entries.insert(author, entry);
        news
    }

    /// Takes in somebody's suspicion; tells whether it is news. One that is older than
    /// the suspect's last lease is refuted already.
    pub fn suspect(&mut self, suspicion: Suspicion, now: Now) -> bool {
        match self.entries.get_mut(&suspicion.peer) {
            Some(entry) if entry.state == State::Alive && entry.version <= suspicion.version => {
                let since_ms = now.since_start_ms;
                entry.state = State::Suspect { since_ms };
                true
            }
            _ => false,
        }
    }

    /// Lets time pass for all but `me`: gives the new suspects, and whether anybody died.
    pub fn tick(&mut self, me: PeerId, now: Now) -> (Vec<Suspicion>, bool) {
        let now_ms = now.since_start_ms;
        let silence_ms = MISSED_RENEWALS * self.renewal_ms();
        let (mut suspicions, mut has_died) = (Vec::new(), false);
        for (&peer, entry) in self.entries.iter_mut().filter(|&(&id, _)| id != me) {
            match entry.state {
                State::Alive if now_ms.saturating_sub(entry.heard_ms) > silence_ms => {
                    entry.state = State::Suspect { since_ms: now_ms };
                    suspicions.push(Suspicion {
                        peer,
                        version: entry.version,
                    });
                }
                State::Suspect { since_ms } if now_ms >= since_ms + self.timing.refute_ms => {
                    entry.state = State::Gone { since_ms: now_ms };
                    has_died = true;
                }
                _ => {}
            }
        }
        let memory_ms = self.timing.memory_ms;
        self.entries.retain(|_, entry| {
            !matches!(entry.state, State::Gone { since_ms } if now_ms >= since_ms + memory_ms)
        });
        (suspicions, has_died)
    }

    /// How often leases are renewed: slower as members grow, so that the traffic for
    /// membership stays bounded.
    pub fn renewal_ms(&self) -> u64 {
        let members = self.live().count() as u64;
        self.timing.renewal_ms * members.max(FULL_RATE_MEMBERS) / FULL_RATE_MEMBERS
    }

    fn live(&self) -> impl Iterator<Item = (&PeerId, &Entry)> {
        let is_live = |entry: &Entry| !matches!(entry.state, State::Gone { .. });
        self.entries.iter().filter(move |(_, entry)| is_live(entry))
    }

    /// The members, ordered by id.
    pub fn members(&self) -> Arc<[Member]> {
        let member = |(&id, entry): (&PeerId, &Entry)| Member {
            id,
            role: entry.lease.role,
            facts: entry.lease.facts.as_slice().into(),
        };
        self.live().map(member).collect()
    }

    /// The leases of all members, ordered by id.
    pub fn leases(&self) -> impl Iterator<Item = (PeerId, &Lease)> {
        self.live().map(|(&id, entry)| (id, &entry.lease))
    }

    /// The signed leases of all members, to pass on. Suspects are not praised.
    pub fn signed(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        let alive = self.entries.values().filter(|e| e.state == State::Alive);
        alive.map(|entry| &entry.bytes)
    }

    /// The lease of a member.
    pub fn lease(&self, peer: PeerId) -> Option<&Lease> {
        let entry = self.entries.get(&peer)?;
        (!matches!(entry.state, State::Gone { .. })).then_some(&entry.lease)
    }

    /// What to say when a member cannot be reached; `None` if it is suspect already.
    pub fn suspicion(&self, peer: PeerId) -> Option<Suspicion> {
        let entry = self
            .entries
            .get(&peer)
            .filter(|e| e.state == State::Alive)?;
        Some(Suspicion {
            peer,
            version: entry.version,
        })
    }

    /// The members with a role.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = (PeerId, &Lease)> {
        self.leases().filter(move |(_, lease)| lease.role == role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId::repeat(1);
    const B: PeerId = PeerId::repeat(2);
    const ME: PeerId = PeerId::repeat(9);
    const RENEWAL: u64 = 30_000;

    fn at(ms: u64) -> Now {
        Now {
            wall_ms: 0,
            since_start_ms: ms,
        }
    }

    fn lease(incarnation: u64) -> Lease {
        Lease {
            incarnation,
            role: Role::Peer,
            offers: false,
            leaves: 0,
            is_farewell: false,
            addresses: vec![],
            via: vec![],
            facts: vec![],
        }
    }

    fn apply(members: &mut Membership, id: PeerId, lease: Lease, sequence: u64, ms: u64) -> News {
        let version = Version {
            incarnation: lease.incarnation,
            sequence,
        };
        members.apply(id, lease, version, Arc::new([]), at(ms))
    }

    fn ids(members: &Membership) -> Vec<PeerId> {
        members.members().iter().map(|member| member.id).collect()
    }

    #[test]
    fn members_are_ordered_by_id_whatever_the_order_of_their_leases() {
        let mut members = Membership::new(Timing::default());
        assert_eq!(apply(&mut members, B, lease(1), 1, 0), News::Joined);
        assert_eq!(apply(&mut members, A, lease(1), 1, 0), News::Joined);
        assert_eq!(ids(&members), [A, B]);
        assert_eq!(apply(&mut members, A, lease(1), 1, 1), News::Nothing);
        assert_eq!(apply(&mut members, A, lease(1), 2, 1), News::Renewed);
        let changed = Lease {
            facts: vec![1],
            ..lease(1)
        };
        assert_eq!(apply(&mut members, A, changed, 3, 1), News::Changed);
        assert_eq!(members.members()[0].facts[..], [1]);
    }

    #[test]
    fn the_silent_become_suspect_then_die_unless_they_speak() {
        let mut members = Membership::new(Timing::default());
        apply(&mut members, A, lease(1), 1, 0);
        apply(&mut members, B, lease(1), 1, 0);
        assert_eq!(members.tick(ME, at(3 * RENEWAL)), (vec![], false));
        let (suspicions, _) = members.tick(ME, at(3 * RENEWAL + 1));
        assert_eq!(suspicions.len(), 2);
        assert_eq!(ids(&members), [A, B], "suspects are members");
        assert_eq!(
            apply(&mut members, A, lease(1), 2, 3 * RENEWAL + 2),
            News::Renewed
        );
        let (none, has_died) = members.tick(ME, at(3 * RENEWAL + 5_001));
        assert_eq!((none, has_died), (vec![], true));
        assert_eq!(ids(&members), [A]);
    }

    #[test]
    fn the_dead_come_back_by_a_newer_lease_alone() {
        let mut members = Membership::new(Timing::default());
        apply(&mut members, A, lease(1), 7, 0);
        let suspicion = members.suspicion(A).unwrap();
        assert!(members.suspect(suspicion, at(10)));
        assert!(!members.suspect(suspicion, at(10)), "no news");
        assert!(members.tick(ME, at(5_010)).1);
        assert_eq!(apply(&mut members, A, lease(1), 7, 5_011), News::Nothing);
        assert_eq!(ids(&members), []);
        assert_eq!(apply(&mut members, A, lease(2), 1, 5_012), News::Joined);
        assert!(!members.suspect(suspicion, at(5_013)), "refuted long ago");
        assert_eq!(ids(&members), [A]);
    }

    #[test]
    fn a_farewell_ends_membership_at_once_and_is_forgotten_later() {
        let mut members = Membership::new(Timing::default());
        apply(&mut members, A, lease(1), 1, 0);
        let farewell = Lease {
            is_farewell: true,
            ..lease(1)
        };
        assert_eq!(apply(&mut members, A, farewell, 2, 5), News::Left);
        assert_eq!(ids(&members), []);
        members.tick(ME, at(600_004));
        assert_eq!(members.entries.len(), 1);
        members.tick(ME, at(600_005));
        assert_eq!(members.entries.len(), 0);
    }

    #[test]
    fn nobody_suspects_oneself() {
        let mut members = Membership::new(Timing::default());
        apply(&mut members, ME, lease(1), 1, 0);
        assert_eq!(members.tick(ME, at(u64::MAX / 2)), (vec![], false));
    }

    #[test]
    fn renewals_slow_down_as_members_grow() {
        let mut members = Membership::new(Timing::default());
        assert_eq!(members.renewal_ms(), RENEWAL);
        for number in 0..128u8 {
            apply(&mut members, PeerId::repeat(number), lease(1), 1, 0);
        }
        assert_eq!(members.renewal_ms(), 2 * RENEWAL);
    }
}
