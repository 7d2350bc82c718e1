//! Distribution: which peer is responsible for a key.
//!
//! A host name or a page's content becomes a 64-bit [`Key`]; the live members of the
//! network, as the overlay's leases list them, become a [`Distribution`]; asking it
//! for the owner of a key is arithmetic and no message. Two peers that see the same
//! members therefore agree on every owner, whatever their platform and whatever order
//! the members came in: all arithmetic is on integers, and all hash seeds are
//! constants in these files. Changing one of them splits the network, so the
//! handshake must compare them.
//!
//! - [`Ownership`] is what the crawler holds: one view of the members, asked for
//!   "me, that peer, or nobody".
//! - [`StaticRanges`] cuts the key space into equal ranges with fixed numbers.
//! - [`ConsistentRing`] puts identifier-seeded replicas on a ring (DCrawler, UbiCrawler).
//! - [`Rendezvous`] gives a key to the member whose hash with it is greatest; the
//!   default (`docs/decisions/0001-distribution-function.md`).
//!
//! Another function is one more file here and one more arm in [`build`].

mod consistent;
mod key;
mod ownership;
mod rendezvous;
mod static_ranges;

#[cfg(test)]
mod properties;

use std::num::{NonZeroU16, NonZeroU32};

use peercrawl_overlay::PeerId;

pub use consistent::ConsistentRing;
pub use key::Key;
pub use ownership::{Owner, Ownership};
pub use rendezvous::Rendezvous;
pub use static_ranges::StaticRanges;

/// The greatest capacity that counts; a lease that claims more is read as this.
pub const MAX_CAPACITY: u8 = 16;

/// What a distribution function knows of a live peer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name, from which its place in the key space is derived.
    pub id: PeerId,
    /// Its weight, 1 to [`MAX_CAPACITY`]; 0 means paused, and owns nothing.
    pub capacity: u8,
    /// Its number among static ranges; the other functions ignore it.
    pub index: Option<u32>,
}

/// A map from keys to owners: a pure function of the members it was built from.
pub trait Distribution: Send + Sync {
    /// The member responsible for `key`, or `None` if no live member is.
    fn owner(&self, key: Key) -> Option<PeerId>;
}

/// Which distribution function a network uses, with the parameters that all its
/// peers must share.
///
/// The number of a peer's own static range is not one of them: it is in the
/// peer's [`Member`] record.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum DistributionKind {
    /// Equal ranges with fixed numbers, one for each of `peers`.
    Static {
        /// How many ranges the key space is cut into.
        peers: NonZeroU32,
    },
    /// A ring of replicas.
    Consistent {
        /// Replicas of a member, for each unit of its capacity.
        replicas: NonZeroU16,
    },
    /// Weighted highest random weight.
    #[default]
    Rendezvous,
}

/// The distribution function of this kind over these members.
pub fn build(kind: DistributionKind, members: &[Member]) -> Box<dyn Distribution> {
    match kind {
        DistributionKind::Static { peers } => Box::new(StaticRanges::new(peers, members)),
        DistributionKind::Consistent { replicas } => {
            Box::new(ConsistentRing::new(replicas, members))
        }
        DistributionKind::Rendezvous => Box::new(Rendezvous::new(members)),
    }
}

/// The members in the one form that every peer computes from the same leases: by
/// ascending id, each once, capacities within their bound.
///
/// An id listed twice counts with its greatest capacity, then its lowest index, so
/// that the order of the list decides nothing.
fn canonical(members: &[Member]) -> Vec<Member> {
    let mut list: Vec<Member> = members
        .iter()
        .map(|m| Member {
            capacity: m.capacity.min(MAX_CAPACITY),
            ..*m
        })
        .collect();
    list.sort_unstable_by_key(|m| (m.id, MAX_CAPACITY - m.capacity, m.index));
    list.dedup_by_key(|m| m.id);
    list
}
