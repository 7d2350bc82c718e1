//! Who is there: the leases of all peers, and who of them is silent.
//!
//! A lease is renewed from time to time. A peer that misses renewals, or whose
//! connection broke, is *suspect*: still a member, until it either refutes the
//! suspicion by a newer lease or is *dead*. The dead and those who said farewell are
//! remembered for a while, so that an old lease of theirs does not bring them back, unless
//! one of the dead brings it itself.
//! Leases are ordered by the author's own run and sequence number and their age is
//! measured from their arrival, so clocks that differ do no harm here.
//!
//! Anybody can say anything, so each author has an allowance of leases and of suspicions,
//! and each neighbour one of authors that nobody here has heard of. A suspicion is a
//! member's word about the very lease that is held: its author refutes it with the next one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Now;
use crate::envelope::LONGEST_LIFE_MS;
use crate::lease::{Lease, Suspicion, Version};
use crate::pace::{Allowance, Pace, Paces};
use crate::{Member, PeerId, Role};

/// Members at most; later ones are not heard.
const MOST_MEMBERS: usize = 10_000;
/// Up to so many members, leases are renewed at the full rate.
const FULL_RATE_MEMBERS: u64 = 64;
/// Silent for so many renewals: suspect.
const MISSED_RENEWALS: u64 = 3;
/// However many members there are, leases are renewed so often.
const LONGEST_RENEWAL_MS: u64 = 300_000;
/// How many renewals a lease outlives.
const LEASE_RENEWALS: u64 = 10;
/// Leases of one author. A peer that joins has much to say in its first seconds.
const LEASES: Allowance = Allowance {
    at_once: 20,
    each_minute: 120,
};
/// Suspicions of one author. Many members may vanish with one line, and all whom a neighbour
/// names may be made up: one peer alone finds that out.
const SUSPICIONS: Allowance = Allowance {
    at_once: 640,
    each_minute: 300,
};
/// Authors that a neighbour is the first to name. Whoever joins hears of all at once.
const NEW_AUTHORS: Allowance = Allowance {
    at_once: 512,
    each_minute: 256,
};
/// A member that cannot be reached is accused of it so often by one peer: those who
/// live refute it, and behind a router they would have to again and again.
const ACCUSED_AGAIN_MS: u64 = 300_000;

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
    Suspect {
        since_ms: u64,
    },
    Gone {
        since_ms: u64,
        /// It was not heard of any more. Nobody has said farewell, or put it out.
        is_missed: bool,
    },
}

struct Entry {
    lease: Lease,
    /// What the lease says for the layers above, once for all lists of members.
    facts: Arc<[u8]>,
    /// The same of the way to its author.
    via: Arc<[PeerId]>,
    version: Version,
    /// The signed lease, to pass on.
    bytes: Arc<[u8]>,
    heard_ms: u64,
    state: State,
    /// When this peer last accused it because it could not be reached.
    accused_ms: Option<u64>,
    /// How many more leases it may write.
    leases: Pace,
    /// How many more suspicions it may write.
    suspicions: Pace,
}

impl Entry {
    fn is_live(&self) -> bool {
        !matches!(self.state, State::Gone { .. })
    }

    fn is_missed(&self) -> bool {
        match self.state {
            State::Gone { is_missed, .. } => is_missed,
            State::Alive | State::Suspect { .. } => false,
        }
    }
}

/// A lease as it came in.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// Whose lease it is.
    pub author: PeerId,
    /// Who brought it.
    pub from: PeerId,
    /// What it says.
    pub lease: Lease,
    /// Which of its author's leases it is.
    pub version: Version,
    /// Its envelope.
    pub bytes: Arc<[u8]>,
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
    /// Nothing: it is old, one too many, or of somebody who cannot be a member.
    Nothing,
}

impl News {
    /// Whether the members may be others than before, or say something else.
    pub fn is_change(self) -> bool {
        matches!(self, Self::Joined | Self::Changed | Self::Left)
    }
}

/// See the module.
pub struct Membership {
    timing: Timing,
    entries: BTreeMap<PeerId, Entry>,
    /// How many more unknown authors each neighbour may name.
    introductions: Paces,
}

impl Membership {
    /// Nobody is there yet.
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            entries: BTreeMap::new(),
            introductions: Paces::new(NEW_AUTHORS),
        }
    }

    /// Takes a lease in.
    pub fn apply(&mut self, arrival: Arrival, now: Now) -> News {
        let now_ms = now.since_start_ms;
        let Arrival {
            author,
            from,
            lease,
            version,
            bytes,
        } = arrival;
        let is_known = self.entries.contains_key(&author);
        let is_heard = match self.entries.get_mut(&author) {
            // Who was taken for dead and comes itself lives, even if it has not heard of that.
            Some(old) if old.version == version && author == from => old.is_missed(),
            Some(old) if old.version >= version => false,
            Some(old) => may_follow(old, &lease, now_ms),
            None => self.may_enter(author, from, &lease, now_ms),
        };
        if !is_heard {
            return News::Nothing;
        }
        let old = self.entries.get(&author);
        let news = match old.filter(|old| old.is_live()) {
            Some(_) if lease.is_farewell => News::Left,
            Some(old) if old.lease == lease => News::Renewed,
            Some(_) => News::Changed,
            None if lease.is_farewell => News::Nothing,
            None => News::Joined,
        };
        let state = match lease.is_farewell {
            true => State::Gone {
                since_ms: now_ms,
                is_missed: false,
            },
            false => State::Alive,
        };
        if !is_known {
            self.make_room();
        }
        let before = self.entries.get(&author);
        let facts = match before {
            Some(old) if *old.facts == *lease.facts => old.facts.clone(),
            _ => lease.facts.as_slice().into(),
        };
        let via = match before {
            Some(old) if *old.via == *lease.via => old.via.clone(),
            _ => lease.via.as_slice().into(),
        };
        let entry = Entry {
            lease,
            facts,
            via,
            version,
            bytes,
            heard_ms: now_ms,
            state,
            accused_ms: before.and_then(|old| old.accused_ms),
            leases: before.map_or(Pace::new(LEASES, now_ms), |old| old.leases),
            suspicions: before.map_or(Pace::new(SUSPICIONS, now_ms), |old| old.suspicions),
        };
        self.entries.insert(author, entry);
        news
    }

    /// Whether somebody new may be heard. There must be a way to it, unless it came itself;
    /// and one neighbour does not fill the table.
    fn may_enter(&mut self, author: PeerId, from: PeerId, lease: &Lease, now_ms: u64) -> bool {
        let is_itself = author == from;
        let has_way = !lease.addresses.is_empty() || !lease.via.is_empty();
        let has_room = self.entries.len() < MOST_MEMBERS
            || self.entries.values().any(|entry| !entry.is_live());
        if !has_room || !(is_itself || has_way || lease.is_farewell) {
            return false;
        }
        is_itself || self.introductions.take(from, now_ms)
    }

    /// Of those who have gone, the first makes room for somebody new.
    fn make_room(&mut self) {
        if self.entries.len() < MOST_MEMBERS {
            return;
        }
        let gone = self.entries.iter().filter_map(|(&id, entry)| {
            let State::Gone { since_ms, .. } = entry.state else {
                return None;
            };
            Some((since_ms, id))
        });
        if let Some((_, first)) = gone.min() {
            self.entries.remove(&first);
        }
    }

    /// Takes in a member's suspicion; tells whether it is news. It counts for the very
    /// lease that is held: an older one is refuted already, and of one that has not come
    /// yet nobody here knows whether it was ever written. If it was, and its author is
    /// dead, the silence will tell.
    pub fn suspect(&mut self, by: PeerId, suspicion: Suspicion, now: Now) -> bool {
        let now_ms = now.since_start_ms;
        let accuser = self.entries.get_mut(&by).filter(|entry| entry.is_live());
        if !accuser.is_some_and(|accuser| accuser.suspicions.take(now_ms)) {
            return false;
        }
        let Some(entry) = self.entries.get_mut(&suspicion.peer) else {
            return false;
        };
        let is_news = entry.version == suspicion.version && entry.state == State::Alive;
        if is_news {
            entry.state = State::Suspect { since_ms: now_ms };
        }
        is_news
    }

    /// What to say of a member to which no way leads, unless that was said lately.
    pub fn unreachable(&mut self, peer: PeerId, now: Now) -> Option<Suspicion> {
        let now_ms = now.since_start_ms;
        let suspicion = self.suspicion(peer)?;
        let entry = self.entries.get_mut(&peer)?;
        let is_due = |ms: u64| now_ms >= ms + ACCUSED_AGAIN_MS;
        if !entry.accused_ms.is_none_or(is_due) {
            return None;
        }
        entry.accused_ms = Some(now_ms);
        Some(suspicion)
    }

    /// What was to be said of a member was not said after all.
    pub fn was_not_accused(&mut self, peer: PeerId) {
        if let Some(entry) = self.entries.get_mut(&peer) {
            entry.accused_ms = None;
        }
    }

    /// Somebody is no member any more, whatever its lease says; tells whether it was one.
    pub fn expel(&mut self, peer: PeerId, now: Now) -> bool {
        let entry = self.entries.get_mut(&peer).filter(|entry| entry.is_live());
        let Some(entry) = entry else {
            return false;
        };
        entry.state = State::Gone {
            since_ms: now.since_start_ms,
            is_missed: false,
        };
        true
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
                    entry.state = State::Gone {
                        since_ms: now_ms,
                        is_missed: true,
                    };
                    has_died = true;
                }
                _ => {}
            }
        }
        let memory_ms = self.timing.memory_ms;
        self.entries.retain(|_, entry| {
            !matches!(entry.state, State::Gone { since_ms, .. } if now_ms >= since_ms + memory_ms)
        });
        (suspicions, has_died)
    }

    /// How often leases are renewed: slower as members grow, so that the traffic for
    /// membership stays bounded.
    pub fn renewal_ms(&self) -> u64 {
        let members = self.live().count() as u64;
        let slower_ms = self.timing.renewal_ms * members.max(FULL_RATE_MEMBERS) / FULL_RATE_MEMBERS;
        slower_ms.min(LONGEST_RENEWAL_MS.max(self.timing.renewal_ms))
    }

    /// How long a lease that is written now is valid: no longer than others would believe.
    pub fn life_ms(&self) -> u64 {
        (LEASE_RENEWALS * self.renewal_ms()).min(LONGEST_LIFE_MS)
    }

    fn live(&self) -> impl Iterator<Item = (&PeerId, &Entry)> {
        self.entries.iter().filter(|(_, entry)| entry.is_live())
    }

    /// The members, ordered by id.
    pub fn members(&self) -> Arc<[Member]> {
        let member = |(&id, entry): (&PeerId, &Entry)| Member {
            id,
            role: entry.lease.role,
            facts: entry.facts.clone(),
            via: entry.via.clone(),
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

    /// The signed lease of a peer, if it is alive.
    pub fn signed_by(&self, peer: PeerId) -> Option<&Arc<[u8]>> {
        let entry = self.entries.get(&peer);
        let alive = entry.filter(|entry| entry.state == State::Alive);
        alive.map(|entry| &entry.bytes)
    }

    /// Whether a lease of a peer with this sequence number, or a later one, is held. Numbers
    /// rise from run to run, too.
    pub fn holds(&self, peer: PeerId, sequence: u64) -> bool {
        let entry = self.entries.get(&peer);
        entry.is_some_and(|entry| entry.version.sequence >= sequence)
    }

    /// Whether a member is suspect.
    pub fn suspects(&self, peer: PeerId) -> bool {
        let entry = self.entries.get(&peer);
        entry.is_some_and(|entry| matches!(entry.state, State::Suspect { .. }))
    }

    /// Whether a peer is taken for dead, and would come back with the lease that is held.
    pub fn misses(&self, peer: PeerId) -> bool {
        self.entries.get(&peer).is_some_and(Entry::is_missed)
    }

    /// The lease of a member.
    pub fn lease(&self, peer: PeerId) -> Option<&Lease> {
        let entry = self.entries.get(&peer)?;
        entry.is_live().then_some(&entry.lease)
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

/// Whether one more lease of somebody known is heard. A farewell is, and whatever refutes
/// a suspicion.
fn may_follow(old: &mut Entry, lease: &Lease, now_ms: u64) -> bool {
    let is_suspect = matches!(old.state, State::Suspect { .. });
    let has_more = old.leases.take(now_ms);
    has_more || is_suspect || lease.is_farewell
}

#[cfg(test)]
mod tests;
