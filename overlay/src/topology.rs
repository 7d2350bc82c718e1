//! Who should have links to whom: the shape of a flat and of a supernode overlay.

use std::net::IpAddr;

use crate::lease::{Lease, MOST_VIA};
use crate::membership::Membership;
use crate::{PeerId, Role};

/// Links that a peer of a flat overlay tries to have.
const FLAT_LINKS: usize = 8;

/// One network gets one of so many places.
const PLACES_SHARED: u32 = 10;
/// And so many at least: a household, or a school.
const FEWEST_PLACES: usize = 4;

/// How a network of peers is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Every peer is in the gossip mesh, and what is handed on is broadcast.
    Flat = 0,
    /// Supernodes form the mesh and route for their leaves.
    Supernode = 1,
}

impl Kind {
    /// Its name, as a person would say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Supernode => "supernode",
        }
    }
}

/// Orders others differently for each peer, so that not all choose the same ones.
fn rank(me: PeerId, other: PeerId) -> [u8; 8] {
    let hash = blake3::Hasher::new()
        .update(&me.0)
        .update(&other.0)
        .finalize();
    let mut rank = [0; 8];
    rank.copy_from_slice(&hash.as_bytes()[..8]);
    rank
}

/// The members that `me` should make links to, the best first, given those that it has. Those
/// that may not be dialled now stand in nobody's way.
pub fn wanted(
    kind: Kind,
    me: PeerId,
    role: Role,
    links: &[PeerId],
    members: &Membership,
    may_dial: &dyn Fn(PeerId) -> bool,
) -> Vec<PeerId> {
    let is_new = |&(id, _): &(PeerId, &Lease)| id != me && !links.contains(&id) && may_dial(id);
    if is_lost(kind, role, links, members) {
        let mut anybody = anybody(me, links, members);
        anybody.retain(|&id| may_dial(id));
        return anybody;
    }
    let mut wanted: Vec<_> = match (kind, role) {
        (Kind::Flat, _) if links.len() >= FLAT_LINKS => return Vec::new(),
        (Kind::Flat, _) => members.leases().filter(is_new).collect(),
        (Kind::Supernode, Role::Leaf) if supernodes_of(links, members).len() >= MOST_VIA => {
            return Vec::new();
        }
        (Kind::Supernode, _) => members.with_role(Role::Supernode).filter(is_new).collect(),
    };
    // A supernode with fewer leaves has more time for one more; the difference must be
    // worth it, or all would run to the same one.
    wanted.sort_by_cached_key(|&(id, lease)| (lease.leaves / 4, rank(me, id)));
    let missing = match (kind, role) {
        (Kind::Flat, _) => FLAT_LINKS - links.len(),
        (Kind::Supernode, Role::Leaf) => MOST_VIA - supernodes_of(links, members).len(),
        (Kind::Supernode, _) => wanted.len(),
    };
    // Some will fail: a few more are named than are missing.
    wanted
        .into_iter()
        .map(|(id, _)| id)
        .take(missing * 2)
        .collect()
}

/// Whether a peer of a supernode overlay has no way into the mesh. What it knows about
/// the roles of others may be out of date: its last supernode may have died before it
/// could tell who else is one.
fn is_lost(kind: Kind, role: Role, links: &[PeerId], members: &Membership) -> bool {
    kind == Kind::Supernode
        && match role {
            Role::Leaf => supernodes_of(links, members).is_empty(),
            _ => links.is_empty(),
        }
}

/// Everybody without a link, supernodes first: whoever answers knows the others.
fn anybody(me: PeerId, links: &[PeerId], members: &Membership) -> Vec<PeerId> {
    let mut all: Vec<_> = members
        .leases()
        .filter(|(id, _)| *id != me && !links.contains(id))
        .collect();
    all.sort_by_cached_key(|&(id, lease)| {
        let is_leaf = lease.role != Role::Supernode;
        (is_leaf, lease.leaves / 4, rank(me, id))
    });
    all.into_iter().map(|(id, _)| id).collect()
}

/// Those of the links that lead to supernodes, in the same order.
pub fn supernodes_of(links: &[PeerId], members: &Membership) -> Vec<PeerId> {
    let is_supernode = |&&id: &&PeerId| {
        let lease = members.lease(id);
        lease.is_some_and(|lease| lease.role == Role::Supernode)
    };
    links.iter().filter(is_supernode).copied().collect()
}

/// Through whom a peer says that it can be reached, given its links, the oldest first.
/// A flat peer that can be dialled needs nobody for that.
pub fn via(
    kind: Kind,
    role: Role,
    is_reachable: bool,
    links: &[PeerId],
    members: &Membership,
) -> Vec<PeerId> {
    let mut via = match (kind, role) {
        (Kind::Flat, _) if is_reachable => Vec::new(),
        (Kind::Flat, _) => links.to_vec(),
        (Kind::Supernode, Role::Leaf) => supernodes_of(links, members),
        (Kind::Supernode, _) => Vec::new(),
    };
    via.truncate(MOST_VIA);
    via
}

/// Whether there is a place for somebody who came from this network, given those from which
/// the others came and how many connections there may be. One network does not take all
/// places, or it could decide whom a peer meets.
pub fn has_place(
    near: Option<IpAddr>,
    others: impl Iterator<Item = Option<IpAddr>>,
    connections: u32,
) -> bool {
    let most = (connections / PLACES_SHARED) as usize;
    let from_there = || others.filter(|other| *other == near).count();
    near.is_none() || from_there() < most.max(FEWEST_PLACES)
}

/// The links that a peer should give up: a leaf has none but to its supernodes.
pub fn unwanted(kind: Kind, role: Role, links: &[PeerId], members: &Membership) -> Vec<PeerId> {
    if kind == Kind::Flat || role != Role::Leaf {
        return Vec::new();
    }
    let via = via(kind, role, false, links, members);
    if via.is_empty() {
        // Better a link to another leaf than none at all.
        return Vec::new();
    }
    links
        .iter()
        .filter(|id| !via.contains(id))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::Now;
    use crate::lease::Version;
    use crate::membership::{Arrival, Timing};

    const ME: PeerId = PeerId::repeat(0);
    const ANY: fn(PeerId) -> bool = |_| true;

    fn members(roles: &[(u8, Role)]) -> Membership {
        let mut members = Membership::new(Timing::default());
        for &(number, role) in roles {
            let lease = Lease {
                incarnation: 1,
                role,
                offers: false,
                leaves: number,
                is_farewell: false,
                addresses: vec![],
                via: vec![],
                facts: vec![],
            };
            let version = Version {
                incarnation: 1,
                sequence: 1,
            };
            let now = Now {
                wall_ms: 0,
                since_start_ms: 0,
            };
            let arrival = Arrival {
                author: PeerId::repeat(number),
                from: PeerId::repeat(number),
                lease,
                version,
                bytes: Arc::new([]),
            };
            members.apply(arrival, now);
        }
        members
    }

    fn ids(numbers: &[u8]) -> Vec<PeerId> {
        numbers.iter().map(|&n| PeerId::repeat(n)).collect()
    }

    #[test]
    fn flat_peers_link_to_anybody_until_they_have_enough() {
        let roles: Vec<_> = (0..40).map(|n| (n, Role::Peer)).collect();
        let members = members(&roles);
        let wants = wanted(Kind::Flat, ME, Role::Peer, &[], &members, &ANY);
        assert_eq!(wants.len(), 2 * FLAT_LINKS);
        assert!(!wants.contains(&ME));
        let enough = &wants[..FLAT_LINKS];
        assert_eq!(
            wanted(Kind::Flat, ME, Role::Peer, enough, &members, &ANY),
            []
        );
        assert_eq!(unwanted(Kind::Flat, Role::Peer, &wants, &members), []);
        let via_of = |is_reachable| via(Kind::Flat, Role::Peer, is_reachable, &wants, &members);
        assert_eq!(via_of(false), wants[..3]);
        assert_eq!(via_of(true), []);
    }

    #[test]
    fn a_leaf_wants_three_supernodes_and_nobody_else() {
        use Role::{Leaf, Supernode};
        let members = members(&[
            (0, Leaf),
            (1, Supernode),
            (2, Supernode),
            (3, Supernode),
            (4, Supernode),
            (5, Leaf),
        ]);
        let kind = Kind::Supernode;
        let links = ids(&[5, 1, 2]);
        let mut more = wanted(kind, ME, Leaf, &links, &members, &ANY);
        more.sort();
        assert_eq!(more, ids(&[3, 4]));
        assert_eq!(unwanted(kind, Leaf, &links, &members), ids(&[5]));
        let links = ids(&[5, 1, 2, 4, 3]);
        assert_eq!(wanted(kind, ME, Leaf, &links, &members, &ANY), []);
        assert_eq!(via(kind, Leaf, false, &links, &members), ids(&[1, 2, 4]));
        assert_eq!(unwanted(kind, Leaf, &links, &members), ids(&[5, 3]));
        assert_eq!(unwanted(kind, Leaf, &ids(&[5]), &members), []);
    }

    #[test]
    fn whoever_has_lost_the_mesh_asks_anybody_supernodes_first() {
        use Role::{Leaf, Supernode};
        let kind = Kind::Supernode;
        let all = members(&[(0, Leaf), (1, Leaf), (2, Supernode), (3, Leaf)]);
        let wants = wanted(kind, ME, Leaf, &[], &all, &ANY);
        assert_eq!((wants[0], wants.len()), (PeerId::repeat(2), 3));
        let leaves = members(&[(0, Leaf), (1, Leaf), (3, Leaf)]);
        assert_eq!(wanted(kind, ME, Leaf, &ids(&[1]), &leaves, &ANY), ids(&[3]));
        assert_eq!(wanted(kind, ME, Supernode, &[], &leaves, &ANY).len(), 2);
        assert_eq!(wanted(kind, ME, Supernode, &ids(&[1]), &leaves, &ANY), []);
    }

    #[test]
    fn a_supernode_wants_all_supernodes() {
        use Role::{Leaf, Supernode};
        let members = members(&[(0, Supernode), (1, Supernode), (2, Supernode), (3, Leaf)]);
        let wants = wanted(Kind::Supernode, ME, Supernode, &ids(&[1]), &members, &ANY);
        assert_eq!(wants, ids(&[2]));
        assert_eq!(
            unwanted(Kind::Supernode, Supernode, &ids(&[3]), &members),
            []
        );
    }

    #[test]
    fn a_leaf_prefers_supernodes_with_few_leaves() {
        use Role::{Leaf, Supernode};
        let members = members(&[(0, Leaf), (1, Supernode), (25, Supernode), (29, Supernode)]);
        let wants = wanted(Kind::Supernode, ME, Leaf, &[], &members, &ANY);
        assert_eq!(wants[0], PeerId::repeat(1));
    }

    #[test]
    fn one_network_does_not_take_all_places() {
        let school: IpAddr = [8, 8, 8, 0].into();
        let crowd = |count| std::iter::repeat_n(Some(school), count);
        assert!(has_place(Some(school), crowd(19), 200));
        assert!(!has_place(Some(school), crowd(20), 200));
        assert!(has_place(Some([8, 8, 9, 0].into()), crowd(20), 200));
        assert!(
            has_place(None, std::iter::repeat_n(None, 500), 200),
            "at home"
        );
        assert!(has_place(Some(school), crowd(3), 1) && !has_place(Some(school), crowd(4), 1));
    }

    /// A few that could not be reached were tried for ever, and the others never.
    #[test]
    fn those_that_rest_stand_in_nobodys_way() {
        let roles: Vec<_> = (0..40).map(|number| (number, Role::Peer)).collect();
        let members = members(&roles);
        let first = wanted(Kind::Flat, ME, Role::Peer, &[], &members, &ANY);
        let is_other = |id| !first.contains(&id);
        let others = wanted(Kind::Flat, ME, Role::Peer, &[], &members, &is_other);
        assert_eq!(others.len(), first.len());
        assert!(others.iter().all(|&id| is_other(id)));
    }
}
