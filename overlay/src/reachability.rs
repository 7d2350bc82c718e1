//! Whether others can reach a peer, and who helps one that they cannot.
//!
//! Others are asked to call back (AutoNAT); their verdict counts. Until there is one, a
//! connection that somebody made to this peer is the best sign. Only a peer that can be
//! reached serves others as a relay or as a supernode; one that cannot reserves a place
//! at one or two relays and is called through them.

use crate::PeerId;

/// Relays at which a peer that cannot be reached reserves a place.
pub const MOST_RELAYS: usize = 2;

/// Whether others can connect to a peer, as far as it has been tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Reachability {
    /// Nobody has tried yet.
    #[default]
    Unknown,
    /// They can.
    Public,
    /// They cannot: a router or a firewall is in between.
    Private,
}

impl Reachability {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Public => "public",
            Self::Private => "private",
        }
    }

    /// Whether to count on it that others can connect, given whether somebody has.
    pub fn is_likely(self, has_inbound: bool) -> bool {
        match self {
            Self::Unknown => has_inbound,
            Self::Public => true,
            Self::Private => false,
        }
    }
}

/// The relays that should be asked for a place now: those of the links that offer one, the
/// oldest first, until there are enough with those that have given one.
pub fn relays_to_ask(
    reachability: Reachability,
    links: &[PeerId],
    reserved: &[PeerId],
    offers: impl Fn(PeerId) -> bool,
) -> Vec<PeerId> {
    if reachability != Reachability::Private {
        return Vec::new();
    }
    let is_new = |peer: &PeerId| !reserved.contains(peer) && offers(*peer);
    let missing = MOST_RELAYS.saturating_sub(reserved.len());
    links.iter().copied().filter(is_new).take(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId::repeat(1);
    const B: PeerId = PeerId::repeat(2);
    const C: PeerId = PeerId::repeat(3);
    const D: PeerId = PeerId::repeat(4);

    #[test]
    fn a_verdict_counts_more_than_a_sign() {
        for (reachability, has_inbound, is_likely) in [
            (Reachability::Unknown, false, false),
            (Reachability::Unknown, true, true),
            (Reachability::Public, false, true),
            (Reachability::Private, true, false),
        ] {
            assert_eq!(reachability.is_likely(has_inbound), is_likely);
        }
    }

    #[test]
    fn two_relays_are_enough_and_only_a_private_peer_asks() {
        let links = [A, B, C, D];
        let but_b = |peer| peer != B;
        let asked =
            |reserved: &[PeerId]| relays_to_ask(Reachability::Private, &links, reserved, but_b);
        assert_eq!(asked(&[]), [A, C]);
        assert_eq!(asked(&[A]), [C]);
        assert_eq!(asked(&[D]), [A]);
        assert_eq!(asked(&[A, D]), []);
        for reachability in [Reachability::Unknown, Reachability::Public] {
            assert_eq!(relays_to_ask(reachability, &links, &[], but_b), []);
        }
    }
}
