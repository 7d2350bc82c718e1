//! What peers say about themselves, and who owns what by it.

use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;

use arc_swap::ArcSwap;
use peercrawl_overlay::Overlay;
use serde::{Deserialize, Serialize};

use crate::config::{self, DistributionChoice};
use crate::distribution::{DistributionKind, Key, Member, Owner, Ownership};

/// The facts that a distribution function needs of a member, as they travel.
#[derive(Serialize, Deserialize)]
struct Facts {
    capacity: u8,
    index: Option<u32>,
}

/// What this peer says about itself; a capacity of 0 means that it pauses.
pub fn announcement(settings: &config::Distribution, capacity: u8) -> Arc<[u8]> {
    let is_static = settings.kind == DistributionChoice::Static;
    let facts = Facts {
        capacity,
        index: is_static.then_some(settings.index),
    };
    // Encoding two numbers into memory does not fail.
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
}

impl View {
    /// The view of the overlay's members.
    pub fn new(overlay: Arc<dyn Overlay>, settings: &config::Distribution) -> Self {
        let members = members(&overlay.members());
        let current = Ownership::new(overlay.me(), kind(settings), &members);
        Self {
            overlay,
            current: ArcSwap::from_pointee(current),
        }
    }

    /// Looks at the members again: events can be missed, and several threads take them.
    pub fn refresh(&self) {
        self.current.rcu(|current| {
            let members = members(&self.overlay.members());
            match current.changed(&members) {
                Some(next) => Arc::new(next),
                None => current.clone(),
            }
        });
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

/// The members as the distribution functions know them. One whose facts cannot be
/// read, or that has not announced any yet, owns nothing.
fn members(list: &[peercrawl_overlay::Member]) -> Vec<Member> {
    let member = |member: &peercrawl_overlay::Member| {
        let facts = postcard::from_bytes(&member.facts).unwrap_or(Facts {
            capacity: 0,
            index: None,
        });
        Member {
            id: member.id,
            capacity: facts.capacity,
            index: facts.index,
        }
    };
    list.iter().map(member).collect()
}
