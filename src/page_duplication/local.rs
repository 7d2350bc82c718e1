//! Block 8: the local page-duplication interface.

use std::sync::Arc;

use crossbeam_channel::Sender;
use peercrawl_overlay::PeerId;

use crate::content_processor::ContentProcessor;
use crate::content_range_validator::ContentRangeValidator;
use crate::counters::Counters;
use crate::distribution::Owner;
use crate::page::Page;
use crate::processing_queue::Undecided;
use crate::seen_content::{Answer, Claim};

/// See the module.
pub struct LocalPageDuplication {
    /// Who this peer is.
    pub me: PeerId,
    /// Block 6.
    pub range: ContentRangeValidator,
    /// Block 7.
    pub processor: Arc<ContentProcessor>,
    /// Block 10, for pages that others must judge.
    pub processing: Sender<Undecided>,
    /// Block 11, for pages whose links are wanted.
    pub pending: Sender<Page>,
    /// What has been done.
    pub counters: Arc<Counters>,
}

/// The claim that a page makes.
pub fn claim_of(page: &Page) -> Claim {
    Claim {
        fingerprint: page.fingerprint,
        url: page.record.url.as_str().into(),
        at_ms: page.fetched_ms,
    }
}

impl LocalPageDuplication {
    /// Decides about a page, or lets its owner decide. Waits where the queues are full.
    pub fn decide(&self, page: Page) {
        match self.range.owner(page.fingerprint) {
            Owner::Me => {
                let answer = self.processor.claim(&claim_of(&page), self.me);
                if answer == Answer::New {
                    self.processor.confirm(page.fingerprint, self.me);
                }
                self.conclude(page, Some(answer));
            }
            Owner::Peer(owner) => {
                let undecided = Undecided { page, owner };
                if let Err(closed) = self.processing.send(undecided) {
                    self.conclude(closed.0.page, None);
                }
            }
            Owner::Nobody => self.conclude(page, None),
        }
    }

    /// Acts on the owner's answer; none means that nobody could say.
    pub fn conclude(&self, page: Page, answer: Option<Answer>) {
        match answer {
            Some(Answer::New | Answer::Yours) => self.counters.content_new.add(1),
            Some(Answer::DuplicateOf { .. }) => {
                self.counters.content_duplicate.add(1);
                let url = page.record.url.as_str();
                self.counters.activity.is_duplicate(url);
                return;
            }
            Some(Answer::NotMine) | None => self.counters.content_unknown.add(1),
        }
        if page.has_links {
            // Closed only when the engine stops: then the page's links are not wanted.
            let _stopped = self.pending.send(page);
        }
    }
}
