//! Digests as the world's tools write them: SHA-1 in base 32.
//!
//! SHA-1 is no protection against forgery, and nothing here takes it for one: whether
//! content was seen is decided by BLAKE3. It is what every index and every replay tool
//! compares.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// A SHA-1 digest; shown as `sha1:` and 32 letters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 20]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha1::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = *b"sha1:00000000000000000000000000000000";
        // 20 bytes are four times five, and five bytes are eight letters.
        for (bytes, letters) in self.0.chunks_exact(5).zip(text[5..].chunks_exact_mut(8)) {
            let bits = bytes
                .iter()
                .fold(0_u64, |bits, b| bits << 8 | u64::from(*b));
            for (place, letter) in letters.iter_mut().enumerate() {
                *letter = ALPHABET[(bits >> (35 - 5 * place)) as usize & 31];
            }
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// What is not `sha1:` and 32 letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-1 digest in base 32")]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let letters = text.strip_prefix("sha1:").ok_or(NotADigest)?.as_bytes();
        if letters.len() != 32 {
            return Err(NotADigest);
        }
        let mut digest = [0; 20];
        for (letters, bytes) in letters.chunks_exact(8).zip(digest.chunks_exact_mut(5)) {
            let mut bits = 0_u64;
            for letter in letters {
                let value = ALPHABET.iter().position(|l| l == letter);
                bits = bits << 5 | value.ok_or(NotADigest)? as u64;
            }
            bytes.copy_from_slice(&bits.to_be_bytes()[3..]);
        }
        Ok(Self(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_of_the_worlds_tools() {
        // Python: base64.b32encode(hashlib.sha1(b"").digest()), and of b"abc".
        for (bytes, text) in [
            (&b""[..], "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"),
            (b"abc", "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"),
        ] {
            let digest = Digest::of(bytes);
            assert_eq!(digest.to_string(), text);
            assert_eq!(text.parse(), Ok(digest));
        }
        for bad in [
            "",
            "sha1:",
            "sha1:3I42",
            "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBY1",
        ] {
            assert_eq!(bad.parse::<Digest>(), Err(NotADigest));
        }
    }
}
