//! Block 13, seen URLs: which URLs of one site have been met before.
//!
//! The duplicate detector hashes a canonical URL to a 64-bit fingerprint and asks
//! [`SeenUrls::insert`], which answers whether it is new. Most sites have a handful
//! of URLs, some have thousands, and a few never end; so the set changes its form as
//! it grows, and never back:
//!
//! 1. up to 32 fingerprints: a plain list, searched from end to end;
//! 2. up to 65,536: a hash set; both forms are exact;
//! 3. beyond: layers of Bloom filters (Apoidea's idea), in a fifth of the memory that
//!    the hash set would take. At most one new URL in ten thousand is then taken for
//!    seen; how many that makes is counted in [`SeenUrls::expected_losses`].
//!
//! A set belongs to its site's record: it is stored, sent to another peer and united
//! with the set found there.
//!
//! - `bloom`: one filter, and which bits a fingerprint has in it.
//! - `layers`: filters that double in size, and the bound on their errors.
//! - `record`: the bytes that two peers agree on, and what is refused of them.

mod bloom;
mod layers;
mod record;

use std::collections::HashSet;
use std::mem;

use layers::Layers;
pub use record::Malformed;

/// The greatest number of URLs that are kept exactly.
pub const EXACT_LIMIT: usize = 65_536;

/// The greatest number for which searching a list beats hashing.
const LIST_LIMIT: usize = 32;

/// The set of URLs seen on one site, as fingerprints.
#[derive(Clone, Debug)]
pub struct SeenUrls {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// In the order of arrival.
    List(Vec<u64>),
    /// With the standard library's keyed hash and not the fingerprint itself as the
    /// hash: a site can choose its URLs, and thereby fingerprints that would all fall
    /// into one place.
    Set(HashSet<u64>),
    Layers(Layers),
}

impl Default for SeenUrls {
    fn default() -> Self {
        Self {
            form: Form::List(Vec::new()),
        }
    }
}

impl SeenUrls {
    /// Marks a URL as seen; true if it was new.
    pub fn insert(&mut self, fingerprint: u64) -> bool {
        if let Form::Layers(layers) = &mut self.form {
            return layers.insert_new_url(fingerprint);
        }
        self.add(fingerprint)
    }

    /// Whether a URL has been seen; wrong once in ten thousand at most, and then only
    /// past [`EXACT_LIMIT`] and only by saying yes.
    pub fn contains(&self, fingerprint: u64) -> bool {
        match &self.form {
            Form::List(list) => list.contains(&fingerprint),
            Form::Set(set) => set.contains(&fingerprint),
            Form::Layers(layers) => layers.contains(fingerprint),
        }
    }

    /// How many URLs have been seen. After a union of two large sets that overlap it
    /// is an estimate, otherwise a count of what was taken as new.
    pub fn len(&self) -> u64 {
        match &self.form {
            Form::List(list) => list.len() as u64,
            Form::Set(set) => set.len() as u64,
            Form::Layers(layers) => layers.len(),
        }
    }

    /// All of them, as long as they are kept exactly.
    pub fn exact(&self) -> Option<Vec<u64>> {
        match &self.form {
            Form::List(list) => Some(list.clone()),
            Form::Set(set) => Some(set.iter().copied().collect()),
            Form::Layers(_) => None,
        }
    }

    /// Whether they are kept exactly.
    pub fn is_exact(&self) -> bool {
        !matches!(self.form, Form::Layers(_))
    }

    /// Whether no URL has been seen.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many new URLs have been wrongly taken for seen so far, as an expectation.
    pub fn expected_losses(&self) -> f64 {
        match &self.form {
            Form::List(_) | Form::Set(_) => 0.0,
            Form::Layers(layers) => layers.expected_losses(),
        }
    }

    /// The memory that the set holds, itself included.
    pub fn memory_bytes(&self) -> usize {
        let held = match &self.form {
            Form::List(list) => list.capacity() * 8,
            // A power of two of places at most 7/8 full, each with one byte of its own.
            Form::Set(set) => (set.capacity() * 8 / 7).next_power_of_two() * 9,
            Form::Layers(layers) => layers.memory_bytes(),
        };
        mem::size_of::<Self>() + held
    }

    /// Takes in what another peer has seen of the same site. Nothing that this set
    /// holds is forgotten; of the other set only layers that would break the bound on
    /// errors are, which takes a fourth large set with no common history.
    pub fn union(&mut self, other: SeenUrls) {
        match (&mut self.form, other.form) {
            (_, Form::List(list)) => list.into_iter().for_each(|f| _ = self.add(f)),
            (_, Form::Set(set)) => set.into_iter().for_each(|f| _ = self.add(f)),
            (Form::Layers(mine), Form::Layers(theirs)) => mine.union(theirs),
            (_, theirs @ Form::Layers(_)) => {
                let mine = mem::replace(&mut self.form, theirs);
                self.union(SeenUrls { form: mine });
            }
        }
    }

    /// Adds a fingerprint and changes the form if it is time; true if it was new.
    fn add(&mut self, fingerprint: u64) -> bool {
        match &mut self.form {
            Form::List(list) => {
                if list.contains(&fingerprint) {
                    return false;
                }
                list.push(fingerprint);
                if list.len() > LIST_LIMIT {
                    self.form = Form::Set(list.drain(..).collect());
                }
                true
            }
            Form::Set(set) => {
                let new = set.insert(fingerprint);
                if set.len() > EXACT_LIMIT {
                    self.form = Form::Layers(Layers::from_distinct(set.drain()));
                }
                new
            }
            Form::Layers(layers) => layers.insert(fingerprint),
        }
    }
}

#[cfg(test)]
mod tests;
