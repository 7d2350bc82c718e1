//! Block 7: the content processor, which decides about content of our own range.
//!
//! Both page-duplication interfaces, the local and the remote one, ask it; it asks the
//! store of seen content.

use std::sync::Arc;

use peercrawl_overlay::PeerId;

use crate::clock::Clock;
use crate::fingerprint::ContentFingerprint;
use crate::ledger::Ledger;
use crate::seen_content::{Answer, Claim, SeenContent};

/// See the module.
pub struct ContentProcessor {
    seen: SeenContent,
    clock: Clock,
}

impl ContentProcessor {
    /// Nothing seen yet.
    pub fn new(claim_secs: u64, clock: Clock, ledger: Arc<Ledger>) -> Arc<Self> {
        Arc::new(Self {
            seen: SeenContent::new(claim_secs * 1_000, ledger),
            clock,
        })
    }

    /// The store of seen content.
    pub fn seen(&self) -> &SeenContent {
        &self.seen
    }

    /// Whether this content is new; if so, it is the claimant's now.
    pub fn claim(&self, claim: &Claim, claimant: PeerId) -> Answer {
        self.seen.claim(claim, claimant, self.clock.now_ms())
    }

    /// The claimant has kept the page.
    pub fn confirm(&self, fingerprint: ContentFingerprint, claimant: PeerId) {
        self.seen.confirm(fingerprint, claimant);
    }
}
