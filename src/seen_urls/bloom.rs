//! One Bloom filter, laid out so that two peers agree on every bit.
//!
//! A filter of level `n` has 2^(21 + n) bits and asks for 16 + n of them. Bit `b` is
//! bit `b mod 64`, from the lowest, of word `b / 64`. The `i`-th bit of a fingerprint,
//! `i` from 0, is the top 21 + n bits of `first + i × step` modulo 2^64, where `first`
//! and `step` come from the fingerprint as [`Probe::of`] says.
//!
//! A filter is full once half of its bits are set. Then an absent fingerprint finds
//! all its bits set with probability 2^-(16 + n), whatever was inserted: the bound is
//! in the bits themselves, and a filter from a stranger can be held to it.

/// Whiten a fingerprint for its first bit and for its step: the first 128 binary places
/// of pi. They differ in many bits, because two fingerprints that differ just as they
/// do swap first bit and step, and share a bit. Part of what all peers must agree on.
const SEEDS: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];

const FIRST_BITS_LOG2: u32 = 21;
const FIRST_HASHES: u32 = 16;

/// The greatest level: 2^36 bits, for six thousand million URLs of one site.
pub(super) const MAX_LEVEL: u8 = 15;

/// Where a fingerprint's bits are, in a filter of any level.
#[derive(Copy, Clone)]
pub(super) struct Probe {
    first: u64,
    step: u64,
}

impl Probe {
    /// Each part is the finaliser of SplitMix64 over the fingerprint XOR a seed; the
    /// step is made odd, so that no two of the bits coincide by its being zero.
    pub fn of(fingerprint: u64) -> Self {
        let [first, step] = SEEDS.map(|seed| {
            let mut x = fingerprint ^ seed;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        });
        Self {
            first,
            step: step | 1,
        }
    }

    /// The bits of this probe in a filter of `level`.
    #[inline]
    fn bits(self, level: u8) -> impl Iterator<Item = u64> {
        let shift = 64 - FIRST_BITS_LOG2 - u32::from(level);
        let mut at = self.first;
        (0..hashes(level)).map(move |_| {
            let bit = at >> shift;
            at = at.wrapping_add(self.step);
            bit
        })
    }
}

/// How many bits a filter of `level` asks for.
fn hashes(level: u8) -> u32 {
    FIRST_HASHES + u32::from(level)
}

/// The false-positive rate of a full filter of `level`.
pub(super) fn full_rate(level: u8) -> f64 {
    0.5f64.powi(hashes(level) as i32)
}

/// How many words a filter of `level` has.
pub(super) fn word_count(level: u8) -> usize {
    1 << (FIRST_BITS_LOG2 - 6 + u32::from(level))
}

/// A Bloom filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    level: u8,
    /// How many fingerprints were inserted.
    count: u64,
    /// How many bits are set.
    ones: u64,
    words: Vec<u64>,
}

impl Filter {
    /// An empty filter of a level up to [`MAX_LEVEL`].
    pub fn new(level: u8) -> Self {
        Self::from_words(level, 0, vec![0; word_count(level)])
    }

    /// The filter of [`word_count`] words that holds `count` fingerprints.
    pub fn from_words(level: u8, count: u64, words: Vec<u64>) -> Self {
        let ones = words.iter().map(|w| u64::from(w.count_ones())).sum();
        Self {
            level,
            count,
            ones,
            words,
        }
    }

    /// Sets the bits of a fingerprint that the set does not contain yet.
    pub fn insert(&mut self, probe: Probe) {
        for bit in probe.bits(self.level) {
            let word = &mut self.words[(bit / 64) as usize];
            let mask = 1 << (bit % 64);
            self.ones += u64::from(*word & mask == 0);
            *word |= mask;
        }
        self.count += 1;
    }

    #[inline]
    pub fn contains(&self, probe: Probe) -> bool {
        probe
            .bits(self.level)
            .all(|bit| self.words[(bit / 64) as usize] & (1 << (bit % 64)) != 0)
    }

    /// Half of the bits are set: the next fingerprint needs another filter.
    pub fn is_full(&self) -> bool {
        self.ones >= self.bits() / 2
    }

    /// More bits are set than one insertion into a filter that was not full can set.
    fn is_overfull(&self) -> bool {
        self.ones >= self.bits() / 2 + u64::from(hashes(self.level))
    }

    /// Whether insertions alone can have made it: not overfull, and every new
    /// fingerprint has set a bit at least.
    pub fn is_sound(&self) -> bool {
        !self.is_overfull() && self.count <= self.ones
    }

    /// The probability that it claims to contain an absent fingerprint.
    pub fn false_positive_rate(&self) -> f64 {
        (self.ones as f64 / self.bits() as f64).powi(hashes(self.level) as i32)
    }

    /// Takes in the bits of a filter of the same level, if the result is not
    /// overfull; false, and nothing changed, if it would be or the levels differ.
    pub fn absorb(&mut self, other: &Self) -> bool {
        if self.level != other.level {
            return false;
        }
        let pairs = self.words.iter().zip(&other.words);
        let words: Vec<u64> = pairs.map(|(mine, theirs)| mine | theirs).collect();
        let mut united = Self::from_words(self.level, 0, words);
        if united.is_overfull() {
            return false;
        }
        // What both hold is not known, but the bits tell how many there are in all.
        let most = self.count.saturating_add(other.count);
        let least = self.count.max(other.count);
        united.count = united.estimated_count().clamp(least, most);
        *self = united;
        true
    }

    /// How many fingerprints set this many bits, on average.
    fn estimated_count(&self) -> u64 {
        let bits = self.bits() as f64;
        let clear = (1.0 - self.ones as f64 / bits).ln();
        (-clear * bits / f64::from(hashes(self.level))).round() as u64
    }

    fn bits(&self) -> u64 {
        self.words.len() as u64 * 64
    }

    pub fn level(&self) -> u8 {
        self.level
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Literal bits: a change here is a change of protocol.
    #[test]
    fn bits_are_fixed_for_ever() {
        let bits = |level| {
            Probe::of(0x0123_4567_89ab_cdef)
                .bits(level)
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(0)[..4], [861_602, 437_085, 12_569, 1_685_204]);
        assert_eq!(bits(0).len(), 16);
        assert_eq!(bits(3)[..2], [6_892_820, 3_496_687]);
        assert_eq!(bits(3).len(), 19);
    }

    #[test]
    fn the_greatest_level_stays_in_bounds() {
        let bits = 64 * word_count(MAX_LEVEL) as u64;
        assert!(Probe::of(u64::MAX).bits(MAX_LEVEL).all(|bit| bit < bits));
    }

    #[test]
    fn a_filter_fills_by_its_bits() {
        let mut filter = Filter::new(0);
        let mut next = 0;
        while !filter.is_full() {
            filter.insert(Probe::of(next));
            next += 1;
        }
        // 2^21 bits × ln 2 / 16.
        assert!(next.abs_diff(90_852) < 500, "{next}");
        assert!(filter.is_sound());
        assert!(filter.estimated_count().abs_diff(next) < 500);
        assert!((filter.false_positive_rate() / full_rate(0) - 1.0).abs() < 0.01);
        assert!((0..next).all(|f| filter.contains(Probe::of(f))));
    }

    #[test]
    fn absorbing_keeps_to_half_of_the_bits() {
        let filled = |range: std::ops::Range<u64>| {
            let mut filter = Filter::new(0);
            range.for_each(|f| filter.insert(Probe::of(f)));
            filter
        };
        let mut filter = filled(0..40_000);
        assert!(filter.absorb(&filled(20_000..60_000)));
        assert!(filter.count().abs_diff(60_000) < 500, "{}", filter.count());
        assert!((0..60_000).all(|f| filter.contains(Probe::of(f))));
        let before = filter.clone();
        assert!(!filter.absorb(&filled(60_000..110_000)));
        assert!(!filter.absorb(&Filter::new(1)));
        assert_eq!(filter, before);
    }
}
