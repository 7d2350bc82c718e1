//! Sites that move: frozen here, taken in there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::crawl::{Crawl, CrawlId};
use crate::crawl_jobs::{Phase, Site, SiteRecordError, United};
use crate::distribution::Key;
use crate::fingerprint::url_fingerprint;
use crate::record::UrlRecord;

use super::{Preprocessor, Pressure, rate_throttle};

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

impl Frozen {
    /// Its host.
    pub fn host(&self) -> &str {
        &self.host
    }
}

impl Preprocessor {
    /// Takes a site out of this peer once no fetch is under way on it; `None` if it is
    /// not here. Its URLs stay outstanding until the record has arrived elsewhere.
    pub fn freeze(&self, host: &str) -> Option<Result<Frozen, SiteRecordError>> {
        self.freeze_unless(host, || self.jobs.is_closed())
    }

    /// The same, but waits for nothing: a site on which a fetch is under way, or whose name
    /// is being looked up, stays as it is, which is `None` as well.
    pub fn freeze_at_once(&self, host: &str) -> Option<Result<Frozen, SiteRecordError>> {
        self.freeze_unless(host, || true)
    }

    /// Freezes a site once nobody is at work on it, unless that wait is given up.
    fn freeze_unless(
        &self,
        host: &str,
        gives_up: impl Fn() -> bool,
    ) -> Option<Result<Frozen, SiteRecordError>> {
        let key = Key::of_host(host);
        let cell = match self.classifier.find(host) {
            Some(cell) => cell,
            // It may have been put away.
            None => match self.ledger.more()?.site(host) {
                Ok(Some(_)) => {
                    let new = || self.new_cell(host, key);
                    self.classifier.site(host, key, true, new)?
                }
                Ok(None) => return None,
                Err(error) => return Some(Err(error.into())),
            },
        };
        let mut state = cell.lock();
        if state.phase == Phase::Moved {
            return None;
        }
        state.is_freezing = true;
        if !cell.wait_for_lease_end(&mut state, gives_up) {
            // It stays here, as it is.
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

    /// A frozen site comes back before it could leave.
    pub fn take_back(&self, frozen: &Frozen) -> Result<(), SiteRecordError> {
        let key = Key::of_host(&frozen.host);
        if self.site(&frozen.host, key).is_none() {
            return Err(SiteRecordError::NoRoom(frozen.host.clone()));
        }
        // Its URLs get new numbers.
        self.ledger.queue_cleared(key);
        self.thaw(&frozen.bytes)?;
        self.jobs.outstanding.done(frozen.urls);
        Ok(())
    }

    /// A site is fetched from here although it is another peer's, or no more.
    pub fn set_stays(&self, host: &str, stays: bool) {
        if let Some(cell) = self.classifier.find(host) {
            let mut state = cell.lock();
            state.stays = stays;
            self.jobs.submit(&cell, &mut state);
        }
    }

    /// Takes in a site that another peer had, and what it says of it. It is turned away as
    /// a whole if there is no room now. Its URLs are wanted by these crawls.
    pub fn take_in(
        &self,
        mut arrived: Site,
        crawls: &HashMap<CrawlId, Arc<Crawl>>,
    ) -> Result<(), SiteRecordError> {
        let host = arrived.host().to_owned();
        if self.blocklist.is_blocked(&host) {
            self.counters.blocked_list.add(arrived.queued() as u64);
            return Ok(());
        }
        let mut met = HashSet::new();
        arrived.retain(|record| met.insert(url_fingerprint(record.url.as_str())));
        let cell = self.site(&host, Key::of_host(&host));
        let cell = cell.ok_or_else(|| SiteRecordError::NoRoom(host.as_str().into()))?;
        let (queued, delay_ms) = {
            let state = cell.lock();
            (state.site.queued(), state.site.pace.delay_ms)
        };
        let has_room = |queued| rate_throttle::has_room(queued, delay_ms, &self.settings);
        if arrived.queued() > 0 && !has_room(queued) {
            // What waits here is worked off first.
            return Err(SiteRecordError::Busy(host.into()));
        }
        // Both queues were let in by the same rule, each for itself. What would not be let
        // into an empty one never will: this peer's bounds are narrower than its sender's.
        let urls = arrived.queued();
        let room = (1..=urls).rev().find(|&urls| has_room(urls - 1));
        let cut = arrived.cut(room.unwrap_or(0));
        self.counters.refused_overflow.add(cut as u64);
        let most = self.settings.total_urls.saturating_sub(self.jobs.queued());
        let is_refusing = self.is_stalled() || self.pressure() == Pressure::Refusing;
        if arrived.queued() > most || is_refusing {
            return Err(SiteRecordError::Busy(host.into()));
        }
        for crawl in crawls.values() {
            crawl.keep(&self.ledger);
        }
        self.unite(arrived)
    }

    /// Takes in a frozen site. What is here of the same host already is kept: its URLs and
    /// what it has seen are added to the record.
    pub fn thaw(&self, bytes: &[u8]) -> Result<(), SiteRecordError> {
        self.unite(Site::thaw(bytes)?)
    }

    fn unite(&self, arrived: Site) -> Result<(), SiteRecordError> {
        let key = Key::of_host(arrived.host());
        let Some(cell) = self.site(arrived.host(), key) else {
            return Err(SiteRecordError::NoRoom(arrived.host().into()));
        };
        self.make_whole(&cell)?;
        let mut state = cell.lock();
        if state.phase == Phase::Moved {
            // Put away since it was found.
            return Err(SiteRecordError::Busy(arrived.host().into()));
        }
        self.ledger
            .seen_elsewhere(arrived.host(), key, &arrived.seen);
        state.is_touched = true;
        let fingerprint = |record: &UrlRecord| url_fingerprint(record.url.as_str());
        let United { arrived, known } = state.site.unite(arrived, self.jobs.now_ms(), fingerprint);
        for job in &known {
            self.jobs.known_elsewhere(&state, job);
        }
        for job in arrived {
            let fingerprint = fingerprint(&job.record);
            if !state.is_seen(fingerprint) {
                // An honest record says so itself.
                state.site.seen.insert(fingerprint);
            }
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
