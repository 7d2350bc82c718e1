//! Which way a message goes.
//!
//! Leases name the peers through which their authors can be reached: a leaf's supernodes,
//! or some neighbours of a peer in a flat overlay. So each peer on the way finds the
//! next one by itself: the receiver if there is a link to it, else one of those that
//! it names, else (for a leaf) any of its own supernodes.

use crate::PeerId;

/// Peers that a message may pass, its author not counted.
pub const MOST_HOPS: u8 = 4;

/// Where a message goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// It has arrived.
    Here,
    /// Over the link to this peer.
    Link(PeerId),
    /// A link to this peer must be made first.
    Dial(PeerId),
    /// Nowhere.
    None,
}

/// What a peer knows about the way to a receiver.
#[derive(Clone, Copy)]
pub struct Crossroads<'a> {
    /// Who decides.
    pub me: PeerId,
    /// Whether this peer speaks to its supernodes alone.
    pub is_leaf: bool,
    /// Whether the receiver speaks to its supernodes alone.
    pub is_to_leaf: bool,
    /// Those that the receiver names, the best first.
    pub via: &'a [PeerId],
    /// Who sent the message here; it does not go back there.
    pub from: Option<PeerId>,
    /// The peers with links.
    pub links: &'a [PeerId],
    /// Those that have just failed.
    pub is_unreachable: &'a dyn Fn(PeerId) -> bool,
}

/// The next peer on the way to `to`.
pub fn next_hop(to: PeerId, at: Crossroads<'_>) -> Hop {
    if to == at.me {
        return Hop::Here;
    }
    if Some(to) == at.from {
        return Hop::None;
    }
    let has_link = |peer: &PeerId| at.links.contains(peer);
    if has_link(&to) {
        return Hop::Link(to);
    }
    let may_pass = |peer: &&PeerId| **peer != at.me && Some(**peer) != at.from;
    if at.is_leaf {
        let named = at.via.iter().filter(may_pass).find(|peer| has_link(peer));
        // Any supernode knows the way.
        let any = || at.links.iter().find(may_pass);
        return named
            .or_else(any)
            .map_or(Hop::None, |&peer| Hop::Link(peer));
    }
    if !at.is_to_leaf && !(at.is_unreachable)(to) {
        return Hop::Dial(to);
    }
    if let Some(&peer) = at.via.iter().filter(may_pass).find(|peer| has_link(peer)) {
        return Hop::Link(peer);
    }
    let reachable = |peer: &&PeerId| !(at.is_unreachable)(**peer);
    let first_link = at.links.first();
    match (at.via.iter().filter(may_pass).find(reachable), first_link) {
        (Some(&peer), _) => Hop::Dial(peer),
        // A receiver that has just come names nobody yet, but a neighbour may have a
        // link to it. Only the author guesses, or a message could go in circles.
        (None, Some(&link)) if at.from.is_none() => Hop::Link(link),
        (None, _) => Hop::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: PeerId = PeerId::repeat(1);
    const TO: PeerId = PeerId::repeat(2);
    const S: PeerId = PeerId::repeat(3);
    const T: PeerId = PeerId::repeat(4);

    fn at<'a>(links: &'a [PeerId], via: &'a [PeerId]) -> Crossroads<'a> {
        Crossroads {
            me: ME,
            is_leaf: false,
            is_to_leaf: false,
            via,
            from: None,
            links,
            is_unreachable: &|_| false,
        }
    }

    #[test]
    fn a_link_is_the_shortest_way() {
        assert_eq!(next_hop(ME, at(&[], &[])), Hop::Here);
        assert_eq!(next_hop(TO, at(&[S, TO], &[S])), Hop::Link(TO));
    }

    /// Whoever sent itself large packets filled the memory for everybody's.
    #[test]
    fn nothing_goes_back_to_where_it_came_from() {
        let from_its_receiver = Crossroads {
            from: Some(TO),
            ..at(&[S, TO], &[S])
        };
        assert_eq!(next_hop(TO, from_its_receiver), Hop::None);
    }

    #[test]
    fn a_flat_peer_dials_and_goes_round_by_a_neighbour_if_that_fails() {
        assert_eq!(next_hop(TO, at(&[S], &[S])), Hop::Dial(TO));
        let blocked = |peer| peer == TO;
        let round = Crossroads {
            is_unreachable: &blocked,
            ..at(&[S], &[T, S])
        };
        assert_eq!(next_hop(TO, round), Hop::Link(S));
        let new_link = Crossroads {
            links: &[],
            ..round
        };
        assert_eq!(next_hop(TO, new_link), Hop::Dial(T));
        let unnamed = Crossroads { via: &[], ..round };
        assert_eq!(next_hop(TO, unnamed), Hop::Link(S), "a neighbour may know");
        let passed_on = Crossroads {
            from: Some(T),
            ..unnamed
        };
        assert_eq!(
            next_hop(TO, passed_on),
            Hop::None,
            "only its author guesses"
        );
    }

    #[test]
    fn a_supernode_goes_to_the_leafs_supernode_and_never_back() {
        let to_leaf = Crossroads {
            is_to_leaf: true,
            ..at(&[S, T], &[S, T])
        };
        assert_eq!(next_hop(TO, to_leaf), Hop::Link(S));
        let from_s = Crossroads {
            from: Some(S),
            ..to_leaf
        };
        assert_eq!(next_hop(TO, from_s), Hop::Link(T));
        let without_links = Crossroads {
            links: &[],
            ..from_s
        };
        assert_eq!(next_hop(TO, without_links), Hop::Dial(T));
    }

    #[test]
    fn a_leaf_speaks_to_its_supernodes_alone() {
        let leaf = Crossroads {
            is_leaf: true,
            ..at(&[S, T], &[T])
        };
        assert_eq!(
            next_hop(TO, leaf),
            Hop::Link(T),
            "the receiver's own, if shared"
        );
        let stranger = Crossroads { via: &[], ..leaf };
        assert_eq!(next_hop(TO, stranger), Hop::Link(S));
        let alone = Crossroads { links: &[], ..leaf };
        assert_eq!(next_hop(TO, alone), Hop::None, "it does not dial others");
    }
}
