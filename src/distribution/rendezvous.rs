//! Weighted rendezvous hashing: the member that scores highest with a key owns it.

use peercrawl_overlay::PeerId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Distribution, Key, MAX_CAPACITY, Member, canonical};

/// Seeds the hash of an id. Part of what all peers must agree on.
const MEMBER_SEED: u64 = 0x5265_6e64_657a_766f;

/// A number that every capacity divides: the least common multiple of 1 to 16.
const CAPACITY_MULTIPLE: u64 = 720_720;

/// Highest random weight over members of whole-number capacities.
///
/// A key and a member hash to a uniform `u` in (0, 1). If the member of least
/// `-log(u) / capacity` owns the key, its chance is exactly its part of the
/// capacities, no member's place depends on another's, and there is nothing to
/// balance. Two things make that cheap and the same on every machine:
///
/// - Among members of equal capacity the least cost is the greatest `u`. So a
///   look-up is one multiply-and-compare loop over the members, class by class, and
///   takes a logarithm only of the sixteen winners at most. (The other exact way,
///   one hash for each unit of capacity, would be up to sixteen times the loop.)
/// - The logarithm is a table and a straight line between its entries, all in
///   integers: the last bit of a platform's `ln` may differ, and two peers would
///   then both fetch a host, or neither.
pub struct Rendezvous {
    /// By descending capacity; none is empty.
    classes: Vec<Class>,
}

/// The members of one capacity.
struct Class {
    /// What a winner's logarithm is multiplied with, in place of dividing by the capacity.
    factor: u64,
    /// One hash for each of `ids`, computed once so that a look-up reads only these.
    seeds: Vec<u64>,
    /// Ascending.
    ids: Vec<PeerId>,
}

impl Rendezvous {
    /// The function over these members.
    pub fn new(members: &[Member]) -> Self {
        let members = canonical(members);
        let class = |capacity: u8| {
            let ids: Vec<PeerId> = members
                .iter()
                .filter(|m| m.capacity == capacity)
                .map(|m| m.id)
                .collect();
            Class {
                factor: CAPACITY_MULTIPLE / u64::from(capacity),
                seeds: ids
                    .iter()
                    .map(|id| xxh3_64_with_seed(&id.0, MEMBER_SEED))
                    .collect(),
                ids,
            }
        };
        let classes = (1..=MAX_CAPACITY).rev().map(class);
        Self {
            classes: classes.filter(|c| !c.ids.is_empty()).collect(),
        }
    }
}

impl Distribution for Rendezvous {
    fn owner(&self, key: Key) -> Option<PeerId> {
        // Members are ranked by (cost, capacity, hash, id), a total order in which
        // each one's place depends on itself alone: that is what makes the function
        // contravariant to the last bit. `<` keeps the greater capacity among equal
        // costs, so that gaining capacity never loses a key.
        let mut best: Option<(u64, PeerId)> = None;
        for class in &self.classes {
            let (hash, at) = class.winner(key);
            let cost = negative_log2(hash) * class.factor;
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, class.ids[at]));
            }
        }
        best.map(|(_, id)| id)
    }
}

impl Class {
    /// The greatest hash of a member with `key`, and whose it is; of equal ones `>`
    /// keeps the lower id.
    #[inline]
    fn winner(&self, key: Key) -> (u64, usize) {
        let mut best = (0, 0);
        for (at, &seed) in self.seeds.iter().enumerate() {
            let hash = fold(key.0 ^ seed);
            if hash > best.0 {
                best = (hash, at);
            }
        }
        best
    }
}

/// Mixes a word with one multiplication: both halves of the product, folded. Keys and
/// seeds are good hashes already, so this is enough to make the ranks of any two
/// members independent, at half the cost of a finaliser with two multiplications.
/// Part of what all peers must agree on.
#[inline]
fn fold(x: u64) -> u64 {
    let product = u128::from(x) * 0xbf58_476d_1ce4_e5b9;
    (product >> 64) as u64 ^ product as u64
}

/// Binary places of a fixed-point logarithm. The greatest cost, 64 × 2^36 × 720,720,
/// still fits 64 bits.
const FRACTION_BITS: u32 = 36;

/// The logarithm table has 2^8 steps from 1 to 2.
const STEP_BITS: u32 = 8;

/// `log2(1 + i / 256)` in fixed point.
static LOG2: [u64; (1 << STEP_BITS) + 1] = log2_table();

const fn log2_table() -> [u64; (1 << STEP_BITS) + 1] {
    let mut table = [0; (1 << STEP_BITS) + 1];
    let mut i = 0;
    while i < 1 << STEP_BITS {
        // Squaring doubles a logarithm, and its whole part is then the next bit.
        // Here 1 is 2^62.
        let mut x = ((1u128 << STEP_BITS) + i as u128) << (62 - STEP_BITS);
        let mut log = 0;
        let mut bit = 0;
        while bit < FRACTION_BITS {
            x = (x * x) >> 62;
            log <<= 1;
            if x >= 2 << 62 {
                x >>= 1;
                log |= 1;
            }
            bit += 1;
        }
        table[i] = log;
        i += 1;
    }
    table[1 << STEP_BITS] = 1 << FRACTION_BITS;
    table
}

/// `-log2(u / 2^64)` in fixed point, to within a hundred-thousandth. It never grows
/// with `u`, because the table ascends and the line between two entries stays
/// between them; the ranking above rests on that, not on its precision.
#[inline]
fn negative_log2(u: u64) -> u64 {
    let u = u.max(1);
    let shift = u.leading_zeros();
    // The bits after the leading one: first the step, then the way to the next.
    let mantissa = (u << shift) << 1;
    let step = (mantissa >> (64 - STEP_BITS)) as usize;
    let way = (mantissa << STEP_BITS) >> 32;
    let (from, to) = (LOG2[step], LOG2[step + 1]);
    let log = (u64::from(63 - shift) << FRACTION_BITS) + from + (((to - from) * way) >> 32);
    (64 << FRACTION_BITS) - log
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::key::mix;
    use crate::distribution::properties::fixed_cases;
    use proptest::prelude::*;

    #[test]
    fn the_logarithm_is_close_enough_to_weigh_with() {
        for i in 1..100_000u64 {
            let u = mix(i) >> (i % 40);
            let exact = 64.0 - (u as f64).log2();
            let ours = negative_log2(u) as f64 / 2f64.powi(36);
            assert!((ours - exact).abs() < 1e-5, "{u}: {ours} for {exact}");
        }
        assert_eq!(negative_log2(0), 64 << FRACTION_BITS);
        assert!(negative_log2(u64::MAX) <= 1);
        assert!(negative_log2(1).checked_mul(CAPACITY_MULTIPLE).is_some());
    }

    #[test]
    fn every_capacity_divides_the_multiple() {
        for capacity in 1..=u64::from(MAX_CAPACITY) {
            assert_eq!(CAPACITY_MULTIPLE % capacity, 0);
        }
    }

    proptest! {
        #![proptest_config(fixed_cases())]

        #[test]
        fn the_logarithm_never_turns_back(a: u64, by in 0u64..10_000, zeros in 0u32..63) {
            let a = a >> zeros;
            prop_assert!(negative_log2(a) >= negative_log2(a.saturating_add(by)));
        }
    }

    /// The chances themselves, free of any one choice of ids: over many keys, each
    /// capacity gets its part to within a few standard deviations of the sample.
    #[test]
    fn a_share_follows_capacity() {
        let members: Vec<Member> = (1..=16)
            .map(|c| Member {
                id: PeerId::repeat(c),
                capacity: c,
                index: None,
            })
            .collect();
        let function = Rendezvous::new(&members);
        let keys = 1_000_000u64;
        let mut owned = [0u32; 17];
        for key in 0..keys {
            let owner = function.owner(Key(mix(key))).unwrap();
            owned[usize::from(owner.0[0])] += 1;
        }
        for capacity in 1..=16 {
            let chance = f64::from(capacity) / 136.0;
            let fair = chance * keys as f64;
            let noise = (fair * (1.0 - chance)).sqrt();
            let off = f64::from(owned[capacity as usize]) - fair;
            assert!(off.abs() < 4.5 * noise, "capacity {capacity}: {off}");
        }
    }
}
