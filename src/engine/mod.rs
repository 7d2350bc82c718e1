//! The engine: the thirteen blocks of one peer, wired together.
//!
//! [`Engine::start`] builds the blocks, connects them by bounded channels and starts
//! the threads; the [`Engine`] it gives back serves the window, the command line, the
//! tests and the benchmarks alike. [`Engine::shutdown`] ends and joins every thread.
//!
//! - `wiring`: how the blocks are connected
//! - `intake`: the threads that take in what other peers send
//! - `seeding`: the thread that routes the seeds of crawls
//! - `capacity`: how large a part this peer offers to take
//! - `housekeeping`: what must be done now and then, snapshots above all
//! - `memory`: what goes to disk when there is too much of it
//! - `members`: what peers say about themselves, and who owns what by it
//! - [`pausing`]: pausing, going on, finishing and leaving
//! - [`snapshot`]: what there is to look at
//! - [`tables`]: what there is to look at in large tables

mod capacity;
mod housekeeping;
mod intake;
mod members;
mod memory;
pub mod pausing;
mod seeding;
pub mod snapshot;
pub mod tables;
mod wiring;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, Sender};
use peercrawl_overlay::Overlay;

pub use members::{Offer, View, offer_of, version_of};
pub use pausing::{Pausing, RunState, Standing, WhyStopped, Wish};
pub use snapshot::Snapshot;
pub use wiring::most_fetches;

use crate::blocklist::{BlockList, NoPattern, Pattern};
use crate::canonical::{CanonicalForm, Refusal};
use crate::clock::Clock;
use crate::config::Settings;
use crate::counters::Counters;
use crate::crawl::{Crawl, CrawlDefinition, CrawlId, Crawls};
use crate::crawl_jobs::{CrawlJobs, Phase, SiteRecordError};
use crate::distribution::Ownership;
use crate::downloader::connection::Dialer;
use crate::handing_on::Outbox;
use crate::ledger::{Kept, Ledger};
use crate::limits::Limits;
use crate::message::can_travel;
use crate::preprocessor::{Preprocessor, Pressure};
use crate::report::Report;
use crate::reputation::ReputationGuard;
use crate::resolver::{NameService, ResolveQueue};
use crate::store::StoreError;
use crate::url_range_validator::UrlRangeValidator;

/// Tells threads to end: receiving from it fails once the engine stops.
pub type StopSignal = Receiver<Infallible>;

/// Fetches under way when the engine stops have so long to end before they are cut.
const GRACE: Duration = Duration::from_secs(5);

/// What an engine needs from outside.
pub struct Surroundings {
    /// The settings.
    pub settings: Settings,
    /// The network of peers; a network of one for a peer alone.
    pub overlay: Arc<dyn Overlay>,
    /// Who knows where host names lead.
    pub names: Arc<dyn NameService>,
    /// The volunteer's limits, which the overlay keeps, too.
    pub limits: Arc<Limits>,
    /// The folder where receipts are kept; none for a peer that keeps none.
    pub receipts: Option<PathBuf>,
    /// A data directory, if what is done is to be kept; what an earlier run has left in
    /// it goes on.
    pub kept: Option<Kept>,
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system has no threads to give.
    #[error("cannot start the engine's threads: {0}")]
    Threads(#[from] std::io::Error),
    /// The record of requests cannot be written.
    #[error("cannot keep receipts: {0}")]
    Receipts(std::io::Error),
    /// What an earlier run has left cannot be read.
    #[error("cannot go on where the last run ended: {0}")]
    Store(#[from] StoreError),
}

/// One running peer.
pub struct Engine {
    settings: Arc<Settings>,
    clock: Clock,
    counters: Arc<Counters>,
    form: Arc<CanonicalForm>,
    crawls: Arc<Crawls>,
    jobs: Arc<CrawlJobs>,
    resolve: Arc<ResolveQueue>,
    preprocessor: Arc<Preprocessor>,
    blocklist: Arc<BlockList>,
    reputation: Arc<ReputationGuard>,
    range: Arc<UrlRangeValidator>,
    outbox: Arc<Outbox>,
    overlay: Arc<dyn Overlay>,
    dialer: Dialer,
    limits: Arc<Limits>,
    pausing: Arc<Pausing>,
    snapshot: Arc<ArcSwap<Snapshot>>,
    ledger: Arc<Ledger>,
    /// Crawls whose seeds are to be routed.
    seeding: Sender<Arc<Crawl>>,
    /// Pages that earlier runs have fetched.
    resumed_pages: u64,
    /// Dropped to tell the threads to end.
    stop: Option<Sender<Infallible>>,
    threads: Vec<JoinHandle<()>>,
    /// The same for the thread that writes.
    stop_keeper: Option<Sender<Infallible>>,
    keeper: Vec<JoinHandle<()>>,
}

/// Why a crawl did not begin.
#[derive(Debug, thiserror::Error)]
pub enum CrawlError {
    /// A seed is no URL that can be crawled.
    #[error("seed {0:?}: {1}")]
    Seed(String, Refusal),
    /// There is nowhere to begin.
    #[error("there are no seeds: name a web address to begin with")]
    NoSeeds,
    /// It could not be told to other peers, who would never hear of its URLs.
    #[error("there are {0} seeds, too many to tell other peers of: begin with fewer")]
    TooManySeeds(usize),
    /// The seeds of many crawls before it still wait for room.
    #[error("what was begun before still waits for room: make some, then try again")]
    Busy,
}

/// How a crawl ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Nothing is left to fetch.
    Complete,
    /// As many pages as allowed were fetched.
    MaxPages,
    /// What is left could not be fetched within the crawl's patience.
    OutOfPatience,
}

impl Engine {
    /// Builds the blocks and starts their threads.
    pub fn start(surroundings: Surroundings) -> Result<Self, StartError> {
        wiring::start(surroundings)
    }

    /// The same, but it fetches nothing until [`let_go`](Self::let_go): whoever starts it
    /// tells it first who wants what.
    pub fn start_held(surroundings: Surroundings) -> Result<Self, StartError> {
        wiring::start_held(surroundings)
    }

    /// Ends what [`start_held`](Self::start_held) began, unless there is a reason to pause.
    pub fn let_go(&self) {
        self.pausing.let_go();
    }

    /// Takes part in a crawl that the user wants: its seeds are routed to where they belong,
    /// soon, by a thread of the engine. The crawl is outstanding from now on.
    ///
    /// If its scope or its bounds differ from what the user began before, in this run or an
    /// earlier one, it takes the place of that. What waits here is then judged by the new
    /// rules when its turn comes: it is dropped, or fetched for the new crawl. What was sent
    /// to other peers, or waits for them in the outbox, goes on under the rules it came with.
    ///
    /// Seeds that are new, or that come under new rules, are fetched once more although they
    /// were seen, so that links are found which were turned away before. Those of other
    /// owners are handed on as ever, and an owner who has seen one leaves it at that. No
    /// other page is fetched again: what was turned away there, for its host or its depth,
    /// comes in only where it is met again, and what was dropped stays seen.
    pub fn begin(&self, definition: CrawlDefinition) -> Result<CrawlId, CrawlError> {
        if !can_travel(&definition) {
            return Err(CrawlError::TooManySeeds(definition.seeds.len()));
        }
        self.begin_alone(definition)
    }

    /// The same for a crawl that other peers never hear of, however many seeds it has.
    pub fn begin_alone(&self, definition: CrawlDefinition) -> Result<CrawlId, CrawlError> {
        for seed in &definition.seeds {
            let url = self.form.parse(seed);
            url.map_err(|why| CrawlError::Seed(seed.clone(), why))?;
        }
        if definition.seeds.is_empty() {
            return Err(CrawlError::NoSeeds);
        }
        let crawl = self.crawls.add(definition, &self.form);
        let id = crawl.id;
        // First, so that the crawl does not look over before it has begun.
        self.jobs.outstanding.add(1);
        if self.seeding.try_send(crawl).is_err() {
            self.jobs.outstanding.done(1);
            return Err(CrawlError::Busy);
        }
        Ok(id)
    }

    /// Waits until the crawl is over, or for `limit`; `None` if it is not over then.
    ///
    /// A crawl is over when nothing is outstanding, when all pages that it may fetch
    /// were fetched, or when nothing can be fetched within its patience: what waits
    /// longer is then given up. While what was fetched cannot be written, it is not over.
    pub fn wait(&self, limit: Duration) -> Option<Ending> {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let ending = self.ending(left.min(POLL));
            if self.ledger.is_written(ending.is_some()) {
                if ending == Some(Ending::OutOfPatience) {
                    self.give_up_waiting();
                }
                return ending;
            }
            if left.is_zero() {
                return None;
            }
            if ending.is_some() {
                std::thread::sleep(left.min(POLL));
            }
        }
    }

    /// How the crawl would end now, or in a moment if nothing is left by then.
    fn ending(&self, moment: Duration) -> Option<Ending> {
        if self.jobs.outstanding.wait_for_none(moment) {
            return Some(Ending::Complete);
        }
        if self.crawls.all_spent() {
            return Some(Ending::MaxPages);
        }
        self.is_out_of_patience().then_some(Ending::OutOfPatience)
    }

    /// Whether everything that is left waits in queues, for longer than is bearable.
    pub fn is_out_of_patience(&self) -> bool {
        let activity = self.jobs.activity();
        let patience_ms = self.settings.crawl.patience_secs * 1_000;
        let soonest = activity.next_ms;
        activity.leased == 0
            && soonest.is_some_and(|at_ms| at_ms > self.clock.now_ms() + patience_ms)
            && self.jobs.outstanding.count() == self.jobs.queued() as u64
            && self.resolve.is_idle()
    }

    /// Gives up every site that waits.
    pub fn give_up_waiting(&self) {
        for cell in self.preprocessor.sites() {
            let mut state = cell.lock();
            if state.phase != Phase::Waiting {
                continue;
            }
            match state.failing {
                Some(kind) => self.jobs.give_up(&mut state, kind),
                None => {
                    let drained = self.jobs.drain(&mut state);
                    self.counters.given_up.add(drained);
                }
            }
        }
        self.jobs.give_up_away();
    }

    /// Whether nothing is fetched yet, because this peer looks for its network or others may
    /// still be fetching from hosts that become its own.
    pub fn is_catching_up(&self) -> bool {
        self.jobs.is_held()
    }

    /// Whether every crawl has fetched as many pages as it may.
    pub fn has_all_pages(&self) -> bool {
        self.crawls.all_spent()
    }

    /// URLs that are not done with: in queues, under way, or waiting for a receipt.
    pub fn outstanding(&self) -> u64 {
        self.jobs.outstanding.count()
    }

    /// How many members own a part of the web, as this peer sees it.
    pub fn owners(&self) -> usize {
        let ownership = self.ownership();
        let members = ownership.members().iter();
        members.filter(|member| member.capacity > 0).count()
    }

    /// Who owns what, as this peer sees it.
    pub fn ownership(&self) -> Arc<Ownership> {
        self.range.view.current()
    }

    /// URLs that wait in queues.
    pub fn queued(&self) -> u64 {
        self.jobs.queued() as u64
    }

    /// URLs that wait for their owners' receipts.
    pub fn handing_on(&self) -> u64 {
        self.outbox.len() as u64
    }

    /// Stops or resumes fetching, and tells nobody; what is under way goes on.
    pub fn set_paused(&self, is_paused: bool) {
        self.jobs.set_paused(is_paused);
    }

    /// Blocks and forgets the sites that an entry of a block list means: what is queued
    /// for them is dropped, and they are not visited from now on. Tells whether all of it
    /// is forgotten; a site that is being fetched from is forgotten soon after, and so is
    /// what is on disk alone.
    pub fn block(&self, entry: &str) -> Result<bool, NoPattern> {
        self.blocklist.block(Pattern::parse(entry)?);
        Ok(self.preprocessor.forget_blocked())
    }

    /// Takes such an entry back; tells whether there was one. Entries of the file stay.
    pub fn unblock(&self, entry: &str) -> Result<bool, NoPattern> {
        Ok(self.blocklist.unblock(&Pattern::parse(entry)?))
    }

    /// The volunteer's limits: they can be changed at any time, and tell what has gone
    /// through the sockets.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// Begins no fetch any more; what is under way ends or is cut within 5 s, and then
    /// only membership remains.
    pub fn pause(&self) {
        self.pausing.set_wish(Wish::Pause);
    }

    /// Goes on after [`pause`](Self::pause) or [`finish`](Self::finish); a peer that has
    /// left joins again.
    pub fn resume(&self) {
        self.pausing.set_wish(Wish::Run);
    }

    /// Completes what is under way, begins nothing new, and then leaves the overlay.
    pub fn finish(&self) {
        self.pausing.set_wish(Wish::Finish);
    }

    /// What the engine does, and why.
    pub fn run_state(&self) -> RunState {
        self.pausing.state()
    }

    /// Where wishes and verdicts of the conditions are told, for threads of their own.
    pub fn pausing(&self) -> &Arc<Pausing> {
        &self.pausing
    }

    /// Whether this peer may be a supernode, from now on.
    pub fn allow_supernode(&self, allowed: bool) {
        self.overlay.allow_supernode(allowed);
    }

    /// Takes a site out of this peer, as bytes; `None` if it is not here. What becomes
    /// of its URLs is the caller's affair from then on.
    pub fn freeze(&self, host: &str) -> Option<Result<Vec<u8>, SiteRecordError>> {
        let frozen = self.preprocessor.freeze(host)?;
        Some(frozen.and_then(|site| {
            self.preprocessor.has_left(&site)?;
            Ok(site.bytes)
        }))
    }

    /// Takes in a site that another peer froze.
    pub fn thaw(&self, bytes: &[u8]) -> Result<(), SiteRecordError> {
        self.preprocessor.thaw(bytes)
    }

    /// So many URLs may wait in memory; the rest waits on disk, if anything is kept.
    pub fn set_memory_urls(&self, urls: usize) {
        self.jobs.set_memory_urls(urls);
    }

    /// How full the queues are, as admission sees it.
    pub fn pressure(&self) -> Pressure {
        self.preprocessor.pressure()
    }

    /// What has been done so far.
    pub fn report(&self) -> Report {
        let mut report = Report::new(&self.counters, self.settings.memory.limit_bytes);
        report.resumed_pages = self.resumed_pages;
        report.set_elapsed(self.clock.elapsed());
        report
    }

    /// What is kept, and whether that works.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// What there is to look at: a quarter of a second old at most, or older while this peer
    /// joins its network again or looks through its queues on disk.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The other peers, and the way to them.
    pub fn overlay(&self) -> &Arc<dyn Overlay> {
        &self.overlay
    }

    /// Ends: no new fetch begins, those under way have a short while, and every thread
    /// is joined. Returns what has been done in all.
    pub fn shutdown(mut self) -> Report {
        self.end();
        Report {
            expected_losses: self.expected_losses(),
            ..self.report()
        }
    }

    /// How many new URLs all sites together have taken for seen, as an expectation.
    fn expected_losses(&self) -> f64 {
        let sites = self.preprocessor.sites();
        let losses = sites.iter().map(|cell| cell.lock().expected_losses());
        let losses: f64 = losses.sum();
        losses + *self.counters.losses_forgotten.lock()
    }

    fn end(&mut self) {
        self.jobs.close();
        self.resolve.close();
        self.reputation.close();
        let until = Instant::now() + GRACE;
        while self.jobs.activity().leased > 0 && Instant::now() < until {
            self.jobs.wait_for_settle(POLL);
        }
        self.dialer.cut_all();
        self.write_down(Instant::now() + GRACE);
        self.overlay.leave();
        self.stop = None;
        self.outbox.close();
        for thread in self.threads.drain(..) {
            join(thread);
        }
        let now_ms = self.clock.now_ms();
        self.limits.tick(now_ms);
        self.limits.save_quota(now_ms);
    }

    /// Lets pages that were fetched come to their end, and writes everything down.
    fn write_down(&mut self, until: Instant) {
        if self.ledger.keeps() {
            let waiting = || (self.jobs.queued() + self.outbox.len()) as u64;
            while self.jobs.outstanding.count() > waiting() && Instant::now() < until {
                std::thread::sleep(POLL);
            }
            for cell in self.preprocessor.sites() {
                let state = cell.lock();
                self.ledger.site(state.site.host(), &state.site.head());
            }
        }
        self.ledger.close();
        self.stop_keeper = None;
        self.keeper.drain(..).for_each(join);
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the engine panicked");
    }
}

/// How long the end of a crawl may go unnoticed where nobody tells of it.
const POLL: Duration = Duration::from_millis(20);

impl Drop for Engine {
    fn drop(&mut self) {
        if self.stop.is_some() {
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::crawl_jobs::Site;
    use crate::joining;
    use crate::resolver::SystemNames;
    use crate::seen_urls::EXACT_LIMIT;

    fn alone() -> Engine {
        let settings = Settings::default();
        let engine = Engine::start(Surroundings {
            overlay: joining::alone([7; 32]),
            names: Arc::new(SystemNames),
            limits: Limits::new(&settings.limits),
            receipts: None,
            kept: None,
            settings,
        });
        engine.unwrap()
    }

    #[test]
    fn who_tells_nobody_begins_with_any_number_of_seeds() {
        let engine = alone();
        let mut crawl = CrawlDefinition::from_settings(&config::Crawl::default());
        // Addresses that are not visited: nobody is asked for them.
        let seed = |number| format!("http://10.0.{}.{}/", number / 250, number % 250);
        crawl.seeds = (0..10_001).map(seed).collect();
        let refused = engine.begin(crawl.clone());
        assert!(matches!(refused, Err(CrawlError::TooManySeeds(10_001))));
        assert_eq!(engine.outstanding(), 0);
        engine.begin_alone(crawl).unwrap();
        // Not before all of them are dealt with.
        let ending = engine.wait(Duration::from_secs(60));
        assert_eq!(ending, Some(Ending::Complete));
        assert_eq!(engine.report().urls.blocked_address, 10_001);
    }

    #[test]
    fn what_large_sites_have_lost_is_told_at_the_end() {
        let engine = alone();
        let mut expected = 0.0;
        for host in ["a.example", "b.example"] {
            let mut site = Site::new(host);
            for number in 0..EXACT_LIMIT as u64 + 1_000 {
                let bytes = (host, number);
                let bytes = postcard::to_stdvec(&bytes).unwrap();
                site.seen
                    .insert(xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, 1));
            }
            expected += site.seen.expected_losses();
            engine.thaw(&site.freeze().unwrap()).unwrap();
        }
        let told = engine.shutdown().expected_losses;
        assert!(expected > 0.0 && (told - expected).abs() < 1e-9, "{told}");
    }
}
