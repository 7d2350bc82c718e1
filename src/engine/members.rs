//! What peers say about themselves, and who owns what by it.

use std::collections::VecDeque;
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use peercrawl_overlay::{Overlay, PeerId};
use serde::{Deserialize, Serialize};

use crate::config::{self, DistributionChoice};
use crate::distribution::{DistributionKind, Key, Member, Owner, Ownership};

/// What a member says about itself, as it travels: what a distribution function needs of
/// it, and which program it runs.
#[derive(Default, Serialize, Deserialize)]
struct Facts {
    offer: Offer,
    index: Option<u32>,
    version: [u16; 3],
}

/// The part of the web that a peer offers to take care of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Its weight; 0 means that it pauses.
    pub capacity: u8,
    /// Another one for each offer of a peer, so that an answer can name what it answers.
    pub number: u16,
}

impl Offer {
    /// The first one of a run. It seldom has the number of one of an earlier run.
    pub fn first(capacity: u8) -> Self {
        Self {
            capacity,
            // At worst, a welcome to an earlier run is taken for one to this.
            number: getrandom::u32().unwrap_or(0) as u16,
        }
    }

    /// Another one after this.
    pub fn next(self, capacity: u8) -> Self {
        Self {
            capacity,
            number: self.number.wrapping_add(1),
        }
    }
}

/// This program's version.
const VERSION: [u16; 3] = [
    number(env!("CARGO_PKG_VERSION_MAJOR")),
    number(env!("CARGO_PKG_VERSION_MINOR")),
    number(env!("CARGO_PKG_VERSION_PATCH")),
];

/// The number that these digits spell.
const fn number(digits: &str) -> u16 {
    let (digits, mut at, mut number) = (digits.as_bytes(), 0, 0u16);
    while at < digits.len() {
        number = number * 10 + (digits[at] - b'0') as u16;
        at += 1;
    }
    number
}

/// What this peer says about itself.
pub fn announcement(settings: &config::Distribution, offer: Offer) -> Arc<[u8]> {
    let is_static = settings.kind == DistributionChoice::Static;
    let facts = Facts {
        offer,
        index: is_static.then_some(settings.index),
        version: VERSION,
    };
    // Encoding a few numbers into memory does not fail.
    postcard::to_stdvec(&facts).unwrap_or_default().into()
}

fn kind(settings: &config::Distribution) -> DistributionKind {
    match settings.kind {
        DistributionChoice::Static => DistributionKind::Static {
            peers: NonZeroU32::new(settings.peers).unwrap_or(NonZeroU32::MIN),
        },
        DistributionChoice::Consistent => {
            let replicas = u16::try_from(settings.replicas).unwrap_or(u16::MAX);
            DistributionKind::Consistent {
                replicas: NonZeroU16::new(replicas).unwrap_or(NonZeroU16::MIN),
            }
        }
        DistributionChoice::Rendezvous => DistributionKind::Rendezvous,
    }
}

/// Who owns what, as the members are now.
pub struct View {
    overlay: Arc<dyn Overlay>,
    current: ArcSwap<Ownership>,
    /// The views before it, the latest first, and when each ended.
    recent: Mutex<VecDeque<(Instant, Arc<Ownership>)>>,
}

/// Views that are remembered.
const MOST_RECENT: usize = 16;
/// And for how long.
const RECENT: Duration = Duration::from_secs(600);

impl View {
    /// The view of the overlay's members.
    pub fn new(overlay: Arc<dyn Overlay>, settings: &config::Distribution) -> Self {
        let members = members(&overlay.members());
        let current = Ownership::new(overlay.me(), kind(settings), &members);
        Self {
            overlay,
            current: ArcSwap::from_pointee(current),
            recent: Mutex::default(),
        }
    }

    /// Looks at the members again: events can be missed, and several threads take them.
    pub fn refresh(&self) {
        let before = self.current.rcu(|current| {
            let members = members(&self.overlay.members());
            match current.changed(&members) {
                Some(next) => Arc::new(next),
                None => current.clone(),
            }
        });
        if !Arc::ptr_eq(&before, &self.current.load()) {
            let mut recent = self.recent.lock();
            recent.truncate(MOST_RECENT - 1);
            recent.push_front((Instant::now(), before));
        }
    }

    /// Whether a peer may have something of a key that is ours: it owned it in a view not
    /// long ago, or would own it if we were not there.
    pub fn may_have_had(&self, peer: PeerId, key: Key) -> bool {
        let had = |view: &Ownership| {
            view.owner(key) == Owner::Peer(peer) || view.owner_without_me(key) == Some(peer)
        };
        if had(&self.current()) {
            return true;
        }
        let recent = self.recent.lock().clone();
        let mut recent = recent.iter().filter(|(ended, _)| ended.elapsed() < RECENT);
        recent.any(|(_, view)| had(view))
    }

    /// Who owns a key at present.
    pub fn owner(&self, key: Key) -> Owner {
        self.current.load().owner(key)
    }

    /// The present ownership, which does not change under whoever holds it.
    pub fn current(&self) -> Arc<Ownership> {
        self.current.load_full()
    }
}

fn facts(member: &peercrawl_overlay::Member) -> Option<Facts> {
    postcard::from_bytes(&member.facts).ok()
}

/// Which version of the program a member runs, if it says so.
pub fn version_of(member: &peercrawl_overlay::Member) -> Option<String> {
    let [major, minor, patch] = facts(member)?.version;
    Some(format!("{major}.{minor}.{patch}"))
}

/// What a member offers to take care of; nothing if it does not say.
pub fn offer_of(member: &peercrawl_overlay::Member) -> Offer {
    facts(member).unwrap_or_default().offer
}

/// The members as the distribution functions know them. One whose facts cannot be
/// read, or that has not announced any yet, owns nothing.
fn members(list: &[peercrawl_overlay::Member]) -> Vec<Member> {
    let member = |member: &peercrawl_overlay::Member| {
        let facts = facts(member).unwrap_or_default();
        Member {
            id: member.id,
            capacity: facts.offer.capacity,
            index: facts.index,
        }
    };
    list.iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use peercrawl_overlay::Role;

    #[test]
    fn who_had_a_key_not_long_ago_is_remembered() {
        let settings = config::Distribution::default();
        let network = peercrawl_overlay::memory::MemoryNetwork::new();
        let join = |number| {
            let overlay = Arc::new(network.join(PeerId::repeat(number)));
            overlay.announce(announcement(&settings, Offer::first(4)));
            overlay
        };
        let (me, had, never) = (join(1), join(2), join(3));
        never.announce(Arc::new([]));
        let view = View::new(me, &settings);
        let key = |number| Key::of_host(&format!("h{number}.example"));
        let keys: Vec<Key> = (0..100).map(key).collect();
        let of = |peer| {
            let had = keys.iter().filter(|&&key| view.may_have_had(peer, key));
            had.count()
        };
        assert_eq!(of(had.me()), 100, "all would be its own without us");
        assert_eq!(of(never.me()), 0, "it takes no part");
        had.leave();
        view.refresh();
        assert_eq!(of(had.me()), 100, "it has left just now");
        assert_eq!(of(never.me()), 0);
    }

    #[test]
    fn members_tell_their_version_and_who_tells_nothing_has_none() {
        let settings = config::Distribution::default();
        let mut member = peercrawl_overlay::Member {
            id: PeerId::repeat(1),
            role: Role::Peer,
            facts: announcement(&settings, Offer::first(3)),
            via: Arc::new([]),
        };
        assert_eq!(version_of(&member).unwrap(), env!("CARGO_PKG_VERSION"));
        assert_eq!(members(std::slice::from_ref(&member))[0].capacity, 3);
        member.facts = Arc::new([]);
        assert_eq!(version_of(&member), None);
        assert_eq!(members(&[member])[0].capacity, 0);
    }
}
