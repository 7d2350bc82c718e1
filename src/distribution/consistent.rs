//! Identifier-seeded consistent hashing (DCrawler §4.1.5, UbiCrawler).

use std::num::NonZeroU16;

use peercrawl_overlay::PeerId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::key::mix;
use super::{Distribution, Key, Member, canonical};

/// Seeds the hash of an id from which its replicas are generated. Part of what all
/// peers must agree on.
const REPLICA_SEED: u64 = 0x5265_706c_6963_6173;

/// The step of SplitMix64, the generator of replicas.
const GENERATOR_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A ring of 64-bit points; a key belongs to the member whose replica is the first
/// at or after it, going round.
///
/// A member's replicas are the first `replicas × capacity` outputs of a generator
/// seeded with its id, so all peers place them alike, and a member that gains
/// capacity keeps the points it had. Where the paper makes a peer choose another id
/// if one of its replicas hits a point that is taken, here the lower id has the
/// point: that too is the same for all, and nobody has to talk.
pub struct ConsistentRing {
    /// Ascending and distinct; apart from `owners` so that a search touches less memory.
    points: Vec<u64>,
    /// For each point, a place in `ids`.
    owners: Vec<u32>,
    ids: Vec<PeerId>,
}

impl ConsistentRing {
    /// The ring of these members. It takes 12 bytes for each replica: ten thousand
    /// members of capacity 1 with a thousand replicas fill 120 MB.
    pub fn new(replicas: NonZeroU16, members: &[Member]) -> Self {
        let members = canonical(members);
        let mut ring: Vec<(u64, u32)> = Vec::new();
        for (place, member) in (0..).zip(&members) {
            let mut state = xxh3_64_with_seed(&member.id.0, REPLICA_SEED);
            let count = usize::from(replicas.get()) * usize::from(member.capacity);
            ring.extend((0..count).map(|_| {
                state = state.wrapping_add(GENERATOR_STEP);
                (mix(state), place)
            }));
        }
        Self::of(ring, members.iter().map(|m| m.id).collect())
    }

    /// The ring of these points, each with its owner's place in the ascending `ids`.
    fn of(mut ring: Vec<(u64, u32)>, ids: Vec<PeerId>) -> Self {
        // Places follow ids, so the first of equal points is the lowest id's.
        ring.sort_unstable();
        ring.dedup_by_key(|&mut (point, _)| point);
        Self {
            points: ring.iter().map(|&(point, _)| point).collect(),
            owners: ring.iter().map(|&(_, place)| place).collect(),
            ids,
        }
    }

    /// How many points the ring has.
    pub fn points(&self) -> usize {
        self.points.len()
    }

    /// The exact part of the key space that each member owns, by ascending id.
    pub fn shares(&self) -> Vec<(PeerId, f64)> {
        let mut arcs = vec![0u128; self.ids.len()];
        let mut previous = self.points.last().copied().unwrap_or(0);
        for (&point, &place) in self.points.iter().zip(&self.owners) {
            let arc = u128::from(point.wrapping_sub(previous));
            // A lone point owns the whole circle, which has no 64-bit length.
            arcs[place as usize] += if arc == 0 { 1 << 64 } else { arc };
            previous = point;
        }
        let whole = 2f64.powi(64);
        let of_whole = arcs.iter().map(|&arc| arc as f64 / whole);
        self.ids.iter().copied().zip(of_whole).collect()
    }
}

impl Distribution for ConsistentRing {
    fn owner(&self, key: Key) -> Option<PeerId> {
        let at = self.points.partition_point(|&point| point < key.0);
        let place = self.owners.get(at).or_else(|| self.owners.first())?;
        Some(self.ids[*place as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(points: &[(u64, u32)]) -> ConsistentRing {
        ConsistentRing::of(points.to_vec(), (0..4).map(PeerId::repeat).collect())
    }

    #[test]
    fn a_key_belongs_to_the_next_point_going_round() {
        let ring = ring(&[(200, 1), (100, 0)]);
        for (key, owner) in [
            (0, 0),
            (100, 0),
            (101, 1),
            (200, 1),
            (201, 0),
            (u64::MAX, 0),
        ] {
            assert_eq!(ring.owner(Key(key)), Some(PeerId::repeat(owner)), "{key}");
        }
    }

    #[test]
    fn a_contested_point_goes_to_the_lower_id() {
        for points in [[(50, 2), (50, 1), (90, 3)], [(90, 3), (50, 1), (50, 2)]] {
            let ring = ring(&points);
            assert_eq!(ring.points(), 2);
            assert_eq!(ring.owner(Key(7)), Some(PeerId::repeat(1)));
        }
    }

    #[test]
    fn shares_are_arc_lengths() {
        let quarter = 1 << 62;
        let two = ring(&[(quarter, 0), (2 * quarter, 1), (3 * quarter, 0)]);
        let shares: Vec<f64> = two.shares().iter().map(|s| s.1).collect();
        assert_eq!(shares, [0.75, 0.25, 0.0, 0.0]);
        assert_eq!(ring(&[(5, 2)]).shares()[2].1, 1.0);
        assert!(ring(&[]).shares().iter().all(|s| s.1 == 0.0));
    }

    #[test]
    fn replicas_follow_capacity() {
        let member = |byte, capacity| Member {
            id: PeerId::repeat(byte),
            capacity,
            index: None,
        };
        let members = [member(1, 1), member(2, 3), member(3, 0), member(4, 200)];
        let ring = ConsistentRing::new(NonZeroU16::new(50).unwrap(), &members);
        // 200 is no capacity: it counts as 16.
        assert_eq!(ring.points(), 50 + 150 + 16 * 50);
    }
}
