//! Keys, and the mixing that spreads them and the members over the key space.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Seeds the hash of a host name. Part of what all peers must agree on.
const HOST_SEED: u64 = 0x5065_6572_486f_7374;

/// A point in the key space: a well-mixed 64-bit hash of what is to be owned.
#[derive(Copy, Clone, Eq, PartialEq, Ord, PartialOrd, Hash, Debug)]
pub struct Key(pub u64);

impl Key {
    /// The key of a host: XXH3-64 of its canonical (lower-case ASCII) name.
    ///
    /// One host has one key, so one peer is polite to it on behalf of all.
    pub fn of_host(host: &str) -> Self {
        Self(xxh3_64_with_seed(host.as_bytes(), HOST_SEED))
    }

    /// The key of a page's content: the first 64 bits of its fingerprint, which is
    /// a cryptographic hash already, read as a big-endian number.
    pub fn of_content(fingerprint: &[u8; 16]) -> Self {
        let mut first = [0; 8];
        first.copy_from_slice(&fingerprint[..8]);
        Self(u64::from_be_bytes(first))
    }
}

/// The finaliser of SplitMix64: a bijection in which every input bit reaches every
/// output bit. Part of what all peers must agree on.
#[inline]
pub(super) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Literal values: a change here is a change of protocol, on any platform.
    #[test]
    fn keys_are_fixed_for_ever() {
        assert_eq!(Key::of_host("example.org"), Key(0x5f7a_bbc3_ab5a_a6c4));
        assert_eq!(
            Key::of_content(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9]),
            Key(0x0102_0304_0506_0708)
        );
        // The first output of SplitMix64 seeded with 0, as its author publishes it.
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }
}
