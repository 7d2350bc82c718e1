//! Sites that move: frozen here, taken in there.

use std::collections::HashSet;

use crate::crawl::CrawlId;
use crate::crawl_jobs::{Phase, Site, SiteRecordError, United};
use crate::distribution::Key;
use crate::fingerprint::url_fingerprint;
use crate::record::UrlRecord;

use super::Preprocessor;

/// A site on its way to another peer.
pub struct Frozen {
    host: Box<str>,
    /// Its record.
    pub bytes: Vec<u8>,
    /// The crawls of the URLs in its queue.
    pub crawls: HashSet<CrawlId>,
    /// URLs in its queue.
    urls: u64,
}

impl Preprocessor {
    /// Takes a site out of this peer once no fetch is under way on it; `None` if it is
    /// not here. Its URLs stay outstanding until the record has arrived elsewhere.
    pub fn freeze(&self, host: &str) -> Option<Result<Frozen, SiteRecordError>> {
        let key = Key::of_host(host);
        let cell = match self.classifier.find(host) {
            Some(cell) => cell,
            // It may have been put away.
            None => match self.ledger.more()?.site(host) {
                Ok(Some(_)) => self.classifier.site(host, key, false)?,
                Ok(None) => return None,
                Err(error) => return Some(Err(error.into())),
            },
        };
        let mut state = cell.lock();
        if state.phase == Phase::Moved {
            return None;
        }
        state.is_freezing = true;
        if !cell.wait_for_lease_end(&mut state, || self.jobs.is_closed()) {
            // The engine ends: it stays here, as it is.
            state.is_freezing = false;
            return None;
        }
        drop(state);
        let is_whole = self.make_whole(&cell);
        let is_whole = is_whole.and_then(|()| self.jobs.bring_all(&cell));
        let mut state = cell.lock();
        let record = match is_whole {
            Ok(()) if state.site.on_disk() > 0 => Err(SiteRecordError::OnItsWay),
            Ok(()) => state.site.freeze(),
            Err(error) => Err(error.into()),
        };
        Some(match record {
            Ok(bytes) => {
                state.phase = Phase::Moved;
                state.connection = None;
                let crawls = state.site.crawls().collect();
                let urls = self.jobs.take_out(&mut state);
                self.classifier.forget(host);
                drop(state);
                let host = host.into();
                Ok(Frozen {
                    host,
                    bytes,
                    crawls,
                    urls,
                })
            }
            Err(error) => {
                state.is_freezing = false;
                self.jobs.submit(&cell, &mut state);
                Err(error)
            }
        })
    }

    /// A frozen site has arrived elsewhere: its URLs are done with here.
    pub fn has_left(&self, frozen: &Frozen) {
        let key = Key::of_host(&frozen.host);
        self.ledger.site_left(&frozen.host, key);
        self.jobs.outstanding.done(frozen.urls);
    }

    /// A frozen site is ours again before it could leave.
    pub fn take_back(&self, frozen: &Frozen) -> Result<(), SiteRecordError> {
        // Its URLs get new numbers.
        self.ledger.queue_cleared(Key::of_host(&frozen.host));
        self.thaw(&frozen.bytes)?;
        self.jobs.outstanding.done(frozen.urls);
        Ok(())
    }

    /// Takes in a site that another peer froze. What is here of the same host already
    /// is kept: its URLs and what it has seen are added to the record.
    pub fn thaw(&self, bytes: &[u8]) -> Result<(), SiteRecordError> {
        let arrived = Site::thaw(bytes)?;
        let key = Key::of_host(arrived.host());
        let Some(cell) = self.site(arrived.host(), key) else {
            return Err(SiteRecordError::NoRoom(arrived.host().into()));
        };
        self.make_whole(&cell)?;
        let mut state = cell.lock();
        self.ledger
            .seen_elsewhere(arrived.host(), key, &arrived.seen);
        let fingerprint = |record: &UrlRecord| url_fingerprint(record.url.as_str());
        let United { arrived, known } = state.site.unite(arrived, self.jobs.now_ms(), fingerprint);
        for job in &known {
            self.jobs.known_elsewhere(&state, job);
        }
        for job in arrived {
            self.jobs.push(&mut state, job.record);
        }
        if self.ledger.keeps()
            && let Some(head) = state.site.changed_head()
        {
            self.ledger.site(state.site.host(), &head);
        }
        self.jobs.submit(&cell, &mut state);
        Ok(())
    }
}
