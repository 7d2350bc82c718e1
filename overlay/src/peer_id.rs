//! The name of a peer: its Ed25519 public key.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who a peer is, in this network and for as long as it keeps its key.
///
/// Distribution functions hash these 32 bytes, so they are part of what all
/// peers must agree on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PeerId(pub [u8; 32]);

impl PeerId {
    /// A peer id made of one repeated byte, to name peers in tests.
    pub const fn repeat(byte: u8) -> Self {
        Self([byte; 32])
    }

    /// All of it in hexadecimal.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The peer id of 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut id = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(id))
    }
}

impl fmt::Display for PeerId {
    /// The first eight bytes in hexadecimal: enough to tell peers apart in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerId({self})")
    }
}
