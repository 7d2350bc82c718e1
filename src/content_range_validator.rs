//! Block 6: the content range validator, which knows whose a page's content is.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::distribution::{Key, Owner, Ownership};
use crate::fingerprint::ContentFingerprint;

/// See the module.
#[derive(Clone)]
pub struct ContentRangeValidator(pub Arc<ArcSwap<Ownership>>);

impl ContentRangeValidator {
    /// Who is responsible for content of this fingerprint.
    pub fn owner(&self, fingerprint: ContentFingerprint) -> Owner {
        self.0.load().owner(Key::of_content(&fingerprint.0))
    }
}
