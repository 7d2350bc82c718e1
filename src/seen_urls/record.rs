//! The bytes of a set: the same on every platform, and trusted from nobody.
//!
//! ```text
//! version   1 byte    1
//! form      1 byte    0: exact, 1: layers
//! exact:    up to 65,536 fingerprints of 8 bytes, each greater than the one before
//! layers:   expected losses, 8 bytes (an IEEE 754 double, finite, not negative), then for
//!           each filter, by ascending level:
//!   level   1 byte    0 to 15
//!   count   8 bytes   how many fingerprints were inserted
//!   words   8 bytes each, 2^(15 + level) of them; see `bloom` for the meaning of a bit
//! ```
//!
//! All numbers are little-endian. For serde the whole is one byte string, so that
//! the form does not depend on the format around it. Memory is taken only for what
//! the record really holds, after its length has been checked.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::bloom::{Filter, MAX_LEVEL, word_count};
use super::layers::Layers;
use super::{EXACT_LIMIT, Form, LIST_LIMIT, SeenUrls};

const VERSION: u8 = 1;
const EXACT: u8 = 0;
const LAYERS: u8 = 1;

/// Why bytes are not a set of seen URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A version or form that this program does not know.
    #[error("seen URLs are in a form that this version does not know")]
    UnknownForm,
    /// The bytes end in the middle of something, or go on after the end.
    #[error("the record of seen URLs is cut short or has bytes to spare")]
    Length,
    /// Exact fingerprints that are too many, repeated or out of order.
    #[error("fingerprints of seen URLs are too many, repeated or out of order")]
    Fingerprints,
    /// Filters that would take too many URLs for seen, or figures that cannot be.
    #[error("filters of seen URLs are overfull, too many or out of order")]
    Filters,
}

impl SeenUrls {
    /// The set as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let layers = match &self.form {
            Form::List(list) => return exact_bytes(list.clone()),
            Form::Set(set) => return exact_bytes(set.iter().copied().collect()),
            Form::Layers(layers) => layers,
        };
        let mut bytes = vec![VERSION, LAYERS];
        bytes.extend(layers.expected_losses().to_le_bytes());
        for filter in layers.filters() {
            bytes.push(filter.level());
            bytes.extend(filter.count().to_le_bytes());
            bytes.extend(filter.words().iter().flat_map(|w| w.to_le_bytes()));
        }
        bytes
    }

    /// The set that these bytes are.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let form = match *bytes {
            [VERSION, EXACT, ref rest @ ..] => exact(rest)?,
            [VERSION, LAYERS, ref rest @ ..] => Form::Layers(layers(rest)?),
            _ => return Err(Malformed::UnknownForm),
        };
        Ok(Self { form })
    }
}

fn exact_bytes(mut fingerprints: Vec<u64>) -> Vec<u8> {
    fingerprints.sort_unstable();
    let mut bytes = vec![VERSION, EXACT];
    bytes.extend(fingerprints.iter().flat_map(|f| f.to_le_bytes()));
    bytes
}

fn exact(bytes: &[u8]) -> Result<Form, Malformed> {
    if bytes.len() > EXACT_LIMIT * 8 {
        return Err(Malformed::Fingerprints);
    }
    let list = words(bytes)?;
    if !list.is_sorted_by(|a, b| a < b) {
        return Err(Malformed::Fingerprints);
    }
    Ok(if list.len() <= LIST_LIMIT {
        Form::List(list)
    } else {
        Form::Set(list.into_iter().collect())
    })
}

fn layers(mut bytes: &[u8]) -> Result<Layers, Malformed> {
    let losses = f64::from_le_bytes(take(&mut bytes)?);
    if !losses.is_finite() || losses < 0.0 {
        return Err(Malformed::Filters);
    }
    let mut filters = Vec::new();
    while !bytes.is_empty() {
        let [level] = take(&mut bytes)?;
        if level > MAX_LEVEL {
            return Err(Malformed::Filters);
        }
        let count = u64::from_le_bytes(take(&mut bytes)?);
        let (own, rest) = bytes
            .split_at_checked(word_count(level) * 8)
            .ok_or(Malformed::Length)?;
        filters.push(Filter::from_words(level, count, words(own)?));
        bytes = rest;
    }
    Layers::from_filters(filters, losses).ok_or(Malformed::Filters)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (first, rest) = bytes.split_first_chunk().ok_or(Malformed::Length)?;
    *bytes = rest;
    Ok(*first)
}

fn words(bytes: &[u8]) -> Result<Vec<u64>, Malformed> {
    let (words, spare) = bytes.as_chunks();
    if !spare.is_empty() {
        return Err(Malformed::Length);
    }
    Ok(words.iter().map(|w| u64::from_le_bytes(*w)).collect())
}

impl Serialize for SeenUrls {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.to_bytes())
    }
}

impl<'de> Deserialize<'de> for SeenUrls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = SeenUrls;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a byte string that holds a set of seen URLs")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<SeenUrls, E> {
                SeenUrls::from_bytes(bytes).map_err(E::custom)
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}
