//! The hashes that all peers agree on.
//!
//! A URL or a page is known (hosts: see [`Key`](crate::distribution::Key)) in the network by a number. Peers that
//! computed different numbers would fetch twice, or hand a URL to a peer that
//! does not own it, so algorithm and seeds are part of the protocol: changing
//! anything here makes a network of its own. The tests hold frozen values.

use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The seed of [`url_fingerprint`]: `PCurl` and a version, in ASCII.
pub const URL_SEED: u64 = u64::from_be_bytes(*b"PCurl\0\0\x01");

/// The number by which the duplicate detector knows a canonical URL.
pub fn url_fingerprint(canonical: &str) -> u64 {
    xxh3_64_with_seed(canonical.as_bytes(), URL_SEED)
}

/// The identity of a page's content: the first 128 bits of BLAKE3 over the
/// decoded body.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContentFingerprint(pub [u8; 16]);

impl ContentFingerprint {
    /// The fingerprint of a body.
    pub fn of(body: &[u8]) -> Self {
        let digest = blake3::hash(body);
        let mut first = [0; 16];
        first.copy_from_slice(&digest.as_bytes()[..16]);
        Self(first)
    }
}

impl fmt::Display for ContentFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentFingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, the protocol changed: old peers and new ones would
    /// disagree about every owner, and every stored set of seen URLs is void.
    #[test]
    fn frozen_values() {
        assert_eq!(url_fingerprint(""), 0xb9e6_3255_0f2b_9115);
        assert_eq!(
            url_fingerprint("http://example.com/"),
            0x542b_bed5_b0d1_3fde
        );
        let long = format!("https://example.com/{}", "path/".repeat(100));
        assert_eq!(url_fingerprint(&long), 0x250f_e40e_ab27_4476);
        assert_eq!(
            ContentFingerprint::of(b"<p>Hello</p>").to_string(),
            "fa3343cde3fc7b43c0b8fb9e15edfcf5"
        );
    }

    /// The one value that can be checked against BLAKE3's own publications.
    #[test]
    fn content_of_nothing_is_the_published_digest() {
        let empty = ContentFingerprint::of(b"");
        assert_eq!(empty.to_string(), "af1349b9f5f9a1a6a0404dea36dcc949");
    }
}
