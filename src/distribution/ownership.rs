//! What the crawler asks: is this key mine, whose is it, or nobody's?

use std::sync::OnceLock;

use peercrawl_overlay::PeerId;

use super::{Distribution, DistributionKind, Key, Member, build, canonical};

/// Who is responsible for a key.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This peer.
    Me,
    /// Another live peer.
    Peer(PeerId),
    /// No live peer: what it names waits.
    Nobody,
}

/// One view of the members, and who owns what in it.
///
/// It never changes: when the members do, [`Ownership::changed`] makes the next view
/// with a higher [`epoch`](Ownership::epoch), and whoever shares the view puts that
/// in its place. An answer may be cached for as long as the epoch stays the same.
pub struct Ownership {
    me: PeerId,
    kind: DistributionKind,
    epoch: u64,
    members: Vec<Member>,
    /// No other member is there to take a key from us.
    sole: bool,
    function: Box<dyn Distribution>,
    /// The same without us, once somebody has asked.
    without_me: OnceLock<Box<dyn Distribution>>,
}

impl Ownership {
    /// The first view of a peer named `me`, which is one of `members` itself as soon
    /// as it has a lease.
    pub fn new(me: PeerId, kind: DistributionKind, members: &[Member]) -> Self {
        Self::at_epoch(0, me, kind, canonical(members))
    }

    /// The view of a peer without a network: every key is its own.
    pub fn alone(me: PeerId) -> Self {
        Self::new(me, DistributionKind::Rendezvous, &[])
    }

    fn at_epoch(epoch: u64, me: PeerId, kind: DistributionKind, members: Vec<Member>) -> Self {
        // A static range keeps its place for a peer that is away; otherwise whoever
        // is there alone owns all, even while paused: there is nobody to wait for.
        let sole =
            !matches!(kind, DistributionKind::Static { .. }) && members.iter().all(|m| m.id == me);
        Self {
            me,
            kind,
            epoch,
            sole,
            function: build(kind, &members),
            without_me: OnceLock::new(),
            members,
        }
    }

    /// The next view if these members differ from the ones it was made of. A lease
    /// that was merely renewed changes nothing, and gives `None`.
    pub fn changed(&self, members: &[Member]) -> Option<Self> {
        let members = canonical(members);
        (members != self.members)
            .then(|| Self::at_epoch(self.epoch + 1, self.me, self.kind, members))
    }

    /// Who owns `key` in this view.
    pub fn owner(&self, key: Key) -> Owner {
        if self.sole {
            return Owner::Me;
        }
        match self.function.owner(key) {
            Some(id) if id == self.me => Owner::Me,
            Some(id) => Owner::Peer(id),
            None => Owner::Nobody,
        }
    }

    /// Who would own `key` in this view if we were not there.
    pub fn owner_without_me(&self, key: Key) -> Option<PeerId> {
        let without_me = self.without_me.get_or_init(|| {
            let others = self.members.iter().filter(|member| member.id != self.me);
            build(self.kind, &others.copied().collect::<Vec<_>>())
        });
        without_me.owner(key)
    }

    /// The number of this view; it grows with every change of the members.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How keys are distributed.
    pub fn kind(&self) -> DistributionKind {
        self.kind
    }

    /// The members of this view, by ascending id.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    const ME: PeerId = PeerId::repeat(1);
    const OTHER: PeerId = PeerId::repeat(2);

    fn member(id: PeerId, capacity: u8) -> Member {
        Member {
            id,
            capacity,
            index: Some(u32::from(id.0[0]) - 1),
        }
    }

    #[test]
    fn a_peer_alone_owns_everything() {
        for view in [
            Ownership::alone(ME),
            Ownership::new(ME, DistributionKind::default(), &[member(ME, 0)]),
        ] {
            assert!((0..100).all(|k| view.owner(Key(k << 57)) == Owner::Me));
        }
    }

    #[test]
    fn a_lone_static_peer_owns_its_range_only() {
        let peers = NonZeroU32::new(2).unwrap();
        let view = Ownership::new(ME, DistributionKind::Static { peers }, &[member(ME, 1)]);
        assert_eq!(view.owner(Key(0)), Owner::Me);
        assert_eq!(view.owner(Key(u64::MAX)), Owner::Nobody);
    }

    #[test]
    fn two_peers_agree_without_talking() {
        let members = [member(OTHER, 1), member(ME, 1)];
        let mine = Ownership::new(ME, DistributionKind::default(), &members);
        let theirs = Ownership::new(OTHER, DistributionKind::default(), &members);
        let keys: Vec<Key> = (0..200)
            .map(|i| Key::of_host(&format!("h{i}.example")))
            .collect();
        for &key in &keys {
            match mine.owner(key) {
                Owner::Me => assert_eq!(theirs.owner(key), Owner::Peer(ME)),
                Owner::Peer(id) => {
                    assert_eq!(id, OTHER);
                    assert_eq!(theirs.owner(key), Owner::Me);
                }
                Owner::Nobody => panic!("{key:?} has no owner"),
            }
        }
        assert!(keys.iter().any(|&k| mine.owner(k) == Owner::Me));
        assert!(keys.iter().any(|&k| theirs.owner(k) == Owner::Me));
    }

    #[test]
    fn whoever_joins_knows_who_had_its_keys() {
        let third = PeerId::repeat(3);
        let others = [member(OTHER, 1), member(third, 1)];
        let before = Ownership::new(OTHER, DistributionKind::default(), &others);
        let after = before.changed(&[others[0], others[1], member(ME, 1)]);
        let mine = Ownership::new(ME, DistributionKind::default(), after.unwrap().members());
        let keys = (0..200).map(|i| Key::of_host(&format!("h{i}.example")));
        for key in keys.filter(|&key| mine.owner(key) == Owner::Me) {
            let had = match before.owner(key) {
                Owner::Me => OTHER,
                Owner::Peer(id) => id,
                Owner::Nobody => panic!("{key:?} has no owner"),
            };
            assert_eq!(mine.owner_without_me(key), Some(had));
        }
    }

    #[test]
    fn with_all_paused_nobody_owns() {
        let view = Ownership::new(
            ME,
            DistributionKind::default(),
            &[member(ME, 0), member(OTHER, 0)],
        );
        assert_eq!(view.owner(Key(9)), Owner::Nobody);
    }

    #[test]
    fn the_epoch_grows_only_when_members_change() {
        let view = Ownership::new(ME, DistributionKind::default(), &[member(ME, 1)]);
        assert!(view.changed(&[member(ME, 1)]).is_none());
        let joined = view.changed(&[member(ME, 1), member(OTHER, 1)]).unwrap();
        assert_eq!(joined.epoch(), view.epoch() + 1);
        assert!(joined.changed(&[member(OTHER, 1), member(ME, 1)]).is_none());
        let paused = joined.changed(&[member(ME, 1), member(OTHER, 0)]).unwrap();
        assert_eq!(paused.epoch(), joined.epoch() + 1);
        assert!((0..100).all(|k| paused.owner(Key(k << 57)) == Owner::Me));
    }
}
