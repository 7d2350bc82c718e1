//! What a peer does for others, and what it does not let them make it do.

use std::sync::Arc;
use std::time::Duration;

use peercrawl_overlay::meter::{Direction, Meter};
use peercrawl_overlay::network::{Kind, NetworkOverlay, Options, start};
use peercrawl_overlay::{Overlay, PeerId, Role};

use crate::fleet::{eventually, options};

/// Lets everything through, and says that there is a limit.
#[derive(Debug)]
pub struct Limited(pub u64);

impl Meter for Limited {
    fn take(&self, _: Direction, wanted: usize) -> Result<usize, Duration> {
        Ok(wanted)
    }

    fn put_back(&self, _: Direction, _: usize) {}

    fn limit(&self, direction: Direction) -> Option<u64> {
        (direction == Direction::Up).then_some(self.0)
    }
}

fn supernodes(seen_by: &NetworkOverlay) -> Vec<PeerId> {
    let members = seen_by.members();
    let supernodes = members.iter().filter(|m| m.role == Role::Supernode);
    supernodes.map(|member| member.id).collect()
}

/// A peer with a limit of 1 KiB/s, or one that is paused, became a supernode like any other.
#[test]
fn who_is_limited_or_paused_becomes_no_supernode() {
    let first = start(Kind::Supernode, options(1, &[])).unwrap();
    eventually("there is a supernode", || supernodes(&first).len() == 1);
    let limited = Options {
        meter: Some(Arc::new(Limited(1 << 10))),
        ..options(2, &first.listening())
    };
    let limited = start(Kind::Supernode, limited).unwrap();
    let paused = start(Kind::Supernode, options(3, &first.listening())).unwrap();
    paused.serve_others(false);
    let roomy = Options {
        meter: Some(Arc::new(Limited(1 << 20))),
        ..options(4, &first.listening())
    };
    let roomy = start(Kind::Supernode, roomy).unwrap();
    let last = start(Kind::Supernode, options(5, &first.listening())).unwrap();
    let mut able = vec![first.me(), roomy.me(), last.me()];
    able.sort();
    eventually("those who can serve", || {
        let seen = supernodes(&first);
        assert!(!seen.contains(&limited.me()), "it is limited");
        assert!(!seen.contains(&paused.me()), "it is paused");
        seen == able
    });
    last.leave();
    paused.serve_others(true);
    able.retain(|&id| id != last.me());
    able.push(paused.me());
    able.sort();
    eventually("who goes on takes part again", || {
        supernodes(&first) == able
    });
}

#[test]
fn addresses_that_are_not_dialled_are_counted() {
    let careful = Options {
        allow_private: false,
        ..options(1, &[])
    };
    let careful = start(Kind::Flat, careful).unwrap();
    let other = start(Kind::Flat, options(2, &careful.listening())).unwrap();
    eventually("its address is refused", || {
        careful.members().len() == 2 && careful.statistics().addresses_refused > 0
    });
    assert_eq!(other.statistics().addresses_refused, 0);
    // Whatever else it says about itself, its address is refused once.
    let before = careful.statistics().addresses_refused;
    other.announce(Arc::new([1, 2, 3]));
    eventually("its facts have come", || {
        let members = careful.members();
        members.iter().any(|member| member.facts[..] == [1, 2, 3])
    });
    assert_eq!(careful.statistics().addresses_refused, before);
}
