//! Block 1: the URL preprocessor, where a URL of our own range is taken in or turned
//! away.
//!
//! URLs come in by host, from the range validator. The domain classifier finds the
//! host's site; the duplicate detector drops what the site has seen, unless its crawl
//! begins again with it; the bounds on a site's pages and on the queries of a path cut
//! traps that grow with what came before; the rate throttle and the overflow controller
//! turn away what there is no room for. Only then is a URL marked as seen and queued:
//! nothing that was admitted is ever evicted, and a URL that was turned away can come
//! again.
//!
//! - [`domain_classifier`]: which site a URL belongs to
//! - [`duplicate_detector`]: whether the site has seen it
//! - [`rate_throttle`]: whether the site can work off one more
//! - [`overflow_controller`]: whether the peer can
//! - `on_disk`: what is known of sites on disk
//! - `moving`: sites that leave and arrive

pub mod domain_classifier;
pub mod duplicate_detector;
mod moving;
mod on_disk;
pub mod overflow_controller;
pub mod rate_throttle;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

pub use domain_classifier::DomainClassifier;
pub use moving::Frozen;
pub use overflow_controller::{OverflowController, Pressure};

use crate::blocklist::BlockList;
use crate::clock::Millis;
use crate::config;
use crate::counters::Counters;
use crate::crawl::{Crawl, Trap};
use crate::crawl_jobs::{CrawlJobs, Phase, SiteCell, SiteState};
use crate::distribution::Key;
use crate::ledger::Ledger;
use crate::record::UrlRecord;

/// A URL at the door.
pub struct Candidate {
    /// The hash of its host, which decides its owner and groups it with its kin.
    pub key: Key,
    /// The hash of the URL, by which the duplicate detector knows it.
    pub fingerprint: u64,
    /// The URL.
    pub record: UrlRecord,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Taken into its site's queue.
    Queued,
    /// Seen before.
    Duplicate,
    /// Refused for good, for a reason that is counted.
    Refused,
    /// No room now; it may come again.
    NoRoom,
}

/// See the module.
pub struct Preprocessor {
    classifier: DomainClassifier,
    overflow: OverflowController,
    jobs: Arc<CrawlJobs>,
    settings: config::Queues,
    max_host_failures: u8,
    counters: Arc<Counters>,
    blocklist: Arc<BlockList>,
    ledger: Arc<Ledger>,
    /// Whether there is room in memory for what is on disk of sites.
    is_roomy: AtomicBool,
    /// When this run began.
    started_ms: Millis,
}

impl Preprocessor {
    /// A preprocessor that fills `jobs`.
    pub fn new(
        settings: &config::Settings,
        jobs: Arc<CrawlJobs>,
        counters: Arc<Counters>,
        ledger: Arc<Ledger>,
        blocklist: Arc<BlockList>,
    ) -> Self {
        Self {
            started_ms: jobs.now_ms(),
            classifier: DomainClassifier::new(settings.queues.sites),
            overflow: OverflowController::new(settings.queues.clone(), counters.clone()),
            jobs,
            settings: settings.queues.clone(),
            max_host_failures: settings.politeness.max_host_failures,
            counters,
            blocklist,
            ledger,
            is_roomy: AtomicBool::new(true),
        }
    }

    /// Takes in URLs of one host, or turns them away; `outcome` is told of each, in
    /// order. One lock is taken for all of them; the disk, if it must be asked, is asked
    /// before.
    pub fn admit(
        &self,
        crawl: &Crawl,
        candidates: impl IntoIterator<Item = Candidate>,
        outcome: impl FnMut(Admission),
    ) {
        self.admit_or_wait(crawl, candidates, false, outcome);
    }

    /// The same for URLs that this peer has met itself, which nobody sends again: if there is
    /// no memory for their host, they wait for it. Who reads pages can be held back.
    pub fn admit_own(&self, crawl: &Crawl, candidates: impl IntoIterator<Item = Candidate>) {
        self.admit_or_wait(crawl, candidates, true, |_| {});
    }

    fn admit_or_wait(
        &self,
        crawl: &Crawl,
        candidates: impl IntoIterator<Item = Candidate>,
        can_wait: bool,
        mut outcome: impl FnMut(Admission),
    ) {
        let mut candidates = candidates.into_iter().peekable();
        let Some(first) = candidates.peek() else {
            return;
        };
        let host = first.record.url.host();
        if self.blocklist.is_blocked(host) {
            let count = candidates.map(|_| outcome(Admission::Refused)).count();
            self.counters.blocked_list.add(count as u64);
            return;
        }
        let key = first.key;
        let mut candidates: Vec<Candidate> = candidates.collect();
        let mut since = None;
        loop {
            let Some(cell) = self.site_for(crawl, &candidates) else {
                let since = *since.get_or_insert_with(Instant::now);
                if can_wait && self.waits_for_room(crawl, key, &candidates, since) {
                    continue;
                }
                return self.turn_away(crawl, key, &candidates, &mut outcome);
            };
            let (is_whole, thinned) = {
                let state = cell.lock();
                (state.is_whole, state.thinned)
            };
            let on_disk = match is_whole {
                true => Vec::new(),
                false => self.seen_on_disk(key, &candidates),
            };
            let mut state = cell.lock();
            if state.thinned != thinned || state.phase == Phase::Moved {
                // It was thinned out or put away meanwhile: what was looked up is old.
                drop(state);
                std::thread::yield_now();
                continue;
            }
            let on_disk = on_disk.into_iter().chain(std::iter::repeat(false));
            for (candidate, is_on_disk) in candidates.drain(..).zip(on_disk) {
                outcome(self.admit_one(crawl, &mut state, candidate, is_on_disk));
            }
            self.jobs.submit(&cell, &mut state);
            return;
        }
    }

    fn admit_one(
        &self,
        crawl: &Crawl,
        state: &mut SiteState,
        url: Candidate,
        is_on_disk: bool,
    ) -> Admission {
        let is_seen = is_on_disk || duplicate_detector::is_seen(state, url.fingerprint);
        if is_seen && !duplicate_detector::comes_again(crawl, state, &url) {
            self.counters.duplicate.add(1);
            return Admission::Duplicate;
        }
        let now_ms = self.jobs.now_ms();
        match state.phase {
            Phase::GivenUp if !state.site.pace.is_still_given_up(now_ms) => {
                state.site.pace.failures = self.max_host_failures.saturating_sub(1);
                state.phase = Phase::Idle;
            }
            Phase::GivenUp => {
                self.counters.given_up.add(1);
                return Admission::Refused;
            }
            // It left between our finding it and our locking it. Whoever met the URL
            // will meet it again, or its sender sends it again.
            Phase::Moved => {
                self.counters.refused_overflow.add(1);
                return Admission::NoRoom;
            }
            _ => {}
        }
        let site = &mut state.site;
        let bounds = &crawl.rules.bounds;
        // What comes again was counted the first time.
        let path = duplicate_detector::path_of_query(&url.record.url).filter(|_| !is_seen);
        if !is_seen && site.counters.admitted >= u64::from(bounds.max_pages_per_site) {
            self.counters.trap(Trap::SitePages).add(1);
            return Admission::Refused;
        }
        if path.is_some_and(|path| site.queries_of(path) >= bounds.max_queries_per_path) {
            self.counters.trap(Trap::QueryVariations).add(1);
            return Admission::Refused;
        }
        let has_room = rate_throttle::has_room(site.queued(), site.pace.delay_ms, &self.settings)
            && self.overflow.has_room(self.jobs.queued(), url.record.depth);
        if !has_room {
            self.counters.refused_overflow.add(1);
            state.dropped += 1;
            return Admission::NoRoom;
        }
        if !is_seen {
            site.seen.insert(url.fingerprint);
        }
        if let Some(path) = path {
            site.count_query(path);
        }
        crawl.keep(&self.ledger);
        crawl.took_in(&url.record, url.fingerprint);
        self.jobs.push(state, url.record);
        Admission::Queued
    }

    /// How full the queues are, as admission sees it.
    pub fn pressure(&self) -> Pressure {
        self.overflow.observe(self.jobs.queued())
    }

    /// Every site that is here.
    pub fn sites(&self) -> Vec<Arc<SiteCell>> {
        self.classifier.sites()
    }

    /// Drops what is queued for sites that are on the block list, and forgets the sites
    /// themselves unless a fetch is under way on them. Tells whether all are forgotten.
    pub fn forget_blocked(&self) -> bool {
        let mut all_gone = true;
        for cell in self.classifier.sites() {
            let mut state = cell.lock();
            if !self.blocklist.is_blocked(state.site.host()) {
                continue;
            }
            self.drop_blocked(&mut state);
            match state.phase {
                Phase::Leased | Phase::Resolving => all_gone = false,
                Phase::Moved => {}
                Phase::Idle | Phase::Waiting | Phase::GivenUp => {
                    cell.leave(&mut state);
                    self.classifier.forget(state.site.host());
                    self.ledger.site_left(state.site.host(), Key(cell.key));
                }
            }
        }
        self.jobs.let_go();
        all_gone
    }

    /// Drops what is queued for a site that is on the block list.
    pub fn drop_blocked(&self, state: &mut SiteState) {
        // Counted before they are done with: then the crawl may be over.
        self.counters.blocked_list.add(state.site.queued() as u64);
        self.jobs.drain(state);
    }
}
