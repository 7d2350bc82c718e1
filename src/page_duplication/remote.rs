//! Block 9: the remote page-duplication interface.

use std::sync::Arc;

use peercrawl_overlay::PeerId;

use crate::content_processor::ContentProcessor;
use crate::content_range_validator::ContentRangeValidator;
use crate::distribution::Owner;
use crate::fingerprint::ContentFingerprint;
use crate::seen_content::{Answer, Claim};

/// See the module.
pub struct RemotePageDuplication {
    /// Block 6.
    pub range: ContentRangeValidator,
    /// Block 7.
    pub processor: Arc<ContentProcessor>,
}

impl RemotePageDuplication {
    /// Answers another peer's claims, in order. What is not of our range is said so:
    /// no verdict is better than a wrong one.
    pub fn answer(&self, claims: &[Claim], claimant: PeerId) -> Vec<Answer> {
        let answer = |claim: &Claim| match self.range.owner(claim.fingerprint) {
            Owner::Me => self.processor.claim(claim, claimant),
            Owner::Peer(_) | Owner::Nobody => Answer::NotMine,
        };
        claims.iter().map(answer).collect()
    }

    /// Another peer has kept the pages of its claims.
    pub fn confirm(&self, fingerprints: &[ContentFingerprint], claimant: PeerId) {
        for &fingerprint in fingerprints {
            self.processor.confirm(fingerprint, claimant);
        }
    }
}
