//! Static ranges: the key space cut into equal pieces with fixed numbers (PeerCrawl).

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use peercrawl_overlay::PeerId;

use super::{Distribution, Key, Member, canonical};

/// `peers` equal ranges; the member that carries a range's number owns it.
///
/// A range whose member is away or paused belongs to nobody: its URLs wait. For a
/// fixed set of machines that is wanted, for volunteers it is not.
pub struct StaticRanges {
    peers: NonZeroU32,
    /// By ascending index. Members are far fewer than ranges may be, so absent
    /// ranges take no room.
    present: Vec<(u32, PeerId)>,
}

impl StaticRanges {
    /// The ranges as these members fill them; of two members with one number the
    /// lower id has it.
    pub fn new(peers: NonZeroU32, members: &[Member]) -> Self {
        let mut present: Vec<(u32, PeerId)> = canonical(members)
            .iter()
            .filter(|m| m.capacity > 0)
            .filter_map(|m| Some((m.index?, m.id)))
            .filter(|&(index, _)| index < peers.get())
            .collect();
        present.sort_unstable();
        present.dedup_by_key(|&mut (index, _)| index);
        Self { peers, present }
    }

    /// The number of the range that holds `key`.
    pub fn index_of(&self, key: Key) -> u32 {
        // The high half of key × peers: always below peers, so it fits.
        ((u128::from(key.0) * u128::from(self.peers.get())) >> 64) as u32
    }

    /// The keys of range `index`, or `None` if there is no such range.
    pub fn range(&self, index: u32) -> Option<RangeInclusive<u64>> {
        let first_of = |i: u32| (u128::from(i) << 64).div_ceil(u128::from(self.peers.get()));
        // The last range ends at 2^64 - 1; every bound below it fits 64 bits.
        (index < self.peers.get())
            .then(|| first_of(index) as u64..=(first_of(index + 1) - 1) as u64)
    }
}

impl Distribution for StaticRanges {
    fn owner(&self, key: Key) -> Option<PeerId> {
        let index = self.index_of(key);
        let at = self.present.binary_search_by_key(&index, |&(i, _)| i);
        at.ok().map(|at| self.present[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::properties::fixed_cases;
    use proptest::prelude::*;

    fn ranges(peers: u32, members: &[Member]) -> StaticRanges {
        StaticRanges::new(NonZeroU32::new(peers).unwrap(), members)
    }

    fn member(byte: u8, capacity: u8, index: Option<u32>) -> Member {
        Member {
            id: PeerId::repeat(byte),
            capacity,
            index,
        }
    }

    #[test]
    fn an_absent_or_paused_number_is_nobodys() {
        let members = [member(1, 1, Some(0)), member(2, 0, Some(1))];
        let cut = ranges(3, &members);
        assert_eq!(cut.owner(Key(0)), Some(PeerId::repeat(1)));
        assert_eq!(cut.owner(Key(u64::MAX / 2)), None, "paused");
        assert_eq!(cut.owner(Key(u64::MAX)), None, "absent");
    }

    #[test]
    fn a_number_out_of_bounds_or_missing_owns_nothing() {
        let cut = ranges(1, &[member(1, 1, Some(1)), member(2, 1, None)]);
        assert_eq!(cut.owner(Key(0)), None);
        assert_eq!(cut.range(1), None);
    }

    #[test]
    fn of_two_claimants_the_lower_id_has_the_range() {
        let (low, high) = (member(1, 1, Some(0)), member(2, 1, Some(0)));
        for members in [[low, high], [high, low]] {
            assert_eq!(ranges(1, &members).owner(Key(7)), Some(low.id));
        }
    }

    proptest! {
        #![proptest_config(fixed_cases())]

        #[test]
        fn ranges_tile_the_space(peers in prop_oneof![1u32..200, any::<u32>().prop_map(|p| p.max(1))]) {
            let cut = ranges(peers, &[]);
            let bounds = |i| cut.range(i).unwrap();
            prop_assert_eq!(*bounds(0).start(), 0);
            prop_assert_eq!(*bounds(peers - 1).end(), u64::MAX);
            for i in [0, peers / 3, peers / 2, peers - 1] {
                prop_assert_eq!(cut.index_of(Key(*bounds(i).start())), i);
                prop_assert_eq!(cut.index_of(Key(*bounds(i).end())), i);
                if i + 1 < peers {
                    prop_assert_eq!(bounds(i).end() + 1, *bounds(i + 1).start());
                }
                // Equal to within one key.
                let length = u128::from(bounds(i).end() - bounds(i).start()) + 1;
                prop_assert!(length.abs_diff((1u128 << 64) / u128::from(peers)) <= 1);
            }
        }

        #[test]
        fn each_number_owns_exactly_its_range(peers in 1u32..100, key: u64) {
            let members: Vec<Member> =
                (0..peers).map(|i| member(i as u8, 1, Some(peers - 1 - i))).collect();
            let cut = ranges(peers, &members);
            let owner = cut.owner(Key(key)).unwrap();
            let index = members.iter().find(|m| m.id == owner).unwrap().index.unwrap();
            prop_assert!(cut.range(index).unwrap().contains(&key));
        }
    }
}
