//! Block 6: the content range validator, which knows whose a page's content is.

use std::sync::Arc;

use crate::distribution::{Key, Owner};
use crate::engine::View;
use crate::fingerprint::ContentFingerprint;

/// See the module.
#[derive(Clone)]
pub struct ContentRangeValidator(pub Arc<View>);

impl ContentRangeValidator {
    /// Who is responsible for content of this fingerprint.
    pub fn owner(&self, fingerprint: ContentFingerprint) -> Owner {
        self.0.owner(Key::of_content(&fingerprint.0))
    }
}
