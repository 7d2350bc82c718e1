//! Block 8: the local page-duplication interface.

use std::sync::Arc;

use crossbeam_channel::Sender;
use peercrawl_overlay::PeerId;

use crate::archive::Original;
use crate::content_processor::ContentProcessor;
use crate::content_range_validator::ContentRangeValidator;
use crate::counters::Counters;
use crate::distribution::Owner;
use crate::ledger::{Capture, Ledger, PageTotals};
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
    /// Where exchanges go that are to be archived.
    pub ledger: Arc<Ledger>,
    /// What has been done.
    pub counters: Arc<Counters>,
}

/// The claim that a page makes.
pub fn claim_of(page: &Page) -> Claim {
    Claim {
        fingerprint: page.fingerprint,
        url: page.record.url.as_str().into(),
        at_ms: page.fetched_ms,
        payload_digest: page.capture.as_ref().map(Capture::payload_digest),
    }
}

impl LocalPageDuplication {
    /// Decides about a page, or lets its owner decide. Waits where the queues are full.
    pub fn decide(&self, mut page: Page) {
        match self.range.owner(page.fingerprint) {
            Owner::Me => self.decide_own(page),
            Owner::Peer(owner) => {
                // Compressed here, by the many, and not by the one who asks the owners.
                if let Some(capture) = &mut page.capture {
                    capture.prepare(page.record.url.as_str());
                }
                let undecided = Undecided { page, owner };
                if let Err(closed) = self.processing.send(undecided) {
                    self.conclude(closed.0.page, None);
                }
            }
            Owner::Nobody => self.conclude(page, None),
        }
    }

    /// Decides about a page whose content is ours.
    pub fn decide_own(&self, page: Page) {
        let answer = self.processor.claim(&claim_of(&page), self.me);
        let is_mine = matches!(answer, Answer::New | Answer::Yours);
        let fingerprint = page.fingerprint;
        self.finish(page, Some(answer), || {
            if is_mine {
                self.processor.confirm(fingerprint, self.me);
            }
        });
    }

    /// Acts on the owner's answer; none means that nobody could say.
    pub fn conclude(&self, page: Page, answer: Option<Answer>) {
        self.finish(page, answer, || {});
    }

    /// The same; `confirm` is called once the page is on its way into the archive.
    fn finish(&self, mut page: Page, answer: Option<Answer>, confirm: impl FnOnce()) {
        let mut totals = PageTotals::default();
        let original = match answer {
            Some(Answer::New | Answer::Yours) => {
                self.counters.content_new.add(1);
                totals.new = 1;
                None
            }
            Some(Answer::DuplicateOf {
                url,
                at_ms,
                payload_digest,
            }) => {
                self.counters.content_duplicate.add(1);
                let activity = &self.counters.activity;
                activity.is_duplicate(page.record.url.as_str());
                totals.duplicate = 1;
                Some((url, at_ms, payload_digest))
            }
            Some(Answer::NotMine) | None => {
                self.counters.content_unknown.add(1);
                totals.unknown = 1;
                None
            }
        };
        page.unfinished.count(page.record.crawl, totals);
        let is_duplicate = original.is_some();
        if let Some(capture) = &mut page.capture {
            let original = original.and_then(|(url, at_ms, payload_digest)| {
                Some(Original {
                    url: url.into(),
                    at_ms,
                    payload_digest: payload_digest?,
                })
            });
            // A revisit of what was removed would leave the body nowhere.
            let since_ms = self.ledger.archived_since_ms();
            let original = original.filter(|original| original.at_ms >= since_ms);
            let records = capture.records(page.record.url.as_str(), original.as_ref());
            self.ledger.archive(records);
        }
        confirm();
        if page.has_links && !is_duplicate {
            // Closed only when the engine stops: then the page's links are not wanted.
            let _stopped = self.pending.send(page);
        }
    }
}
