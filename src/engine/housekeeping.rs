//! What must be done now and then: snapshots, idle connections, the overflow state,
//! rates and quota, pauses, the memory budget, the reputation, and the block list, whose
//! file may change.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use crossbeam_channel::RecvTimeoutError;

use super::memory::MemoryBudget;
use super::pausing::Pausing;
use super::{Snapshot, StopSignal};
use crate::blocklist::BlockList;
use crate::clock::Clock;
use crate::counters::Counters;
use crate::crawl::{CrawlId, Crawls};
use crate::crawl_jobs::CrawlJobs;
use crate::downloader::IdleConnections;
use crate::handing_on::Outbox;
use crate::handover::Arrivals;
use crate::ledger::{Ledger, queued_job};
use crate::limits::Limits;
use crate::preprocessor::Preprocessor;
use crate::report::Report;
use crate::reputation::ReputationGuard;

/// How old a snapshot may become.
const PERIOD: Duration = Duration::from_millis(250);
/// How often crawls are looked for that are over, while there are too many.
const LOOK_FOR_CRAWLS: Duration = Duration::from_secs(30);

/// Forgets what is blocked by now, step by step: in memory, and then on disk.
#[derive(Default)]
struct Sweep {
    /// The version of the block list that is carried out.
    version: u64,
    /// The one that is being carried out on disk, and the host that it has come to.
    on_disk: Option<(u64, String)>,
}

impl Sweep {
    fn go_on(&mut self, blocklist: &BlockList, preprocessor: &Preprocessor) {
        let version = blocklist.version();
        if self.version == version {
            return;
        }
        let is_begun = |(begun, _): &(u64, String)| *begun == version;
        if !self.on_disk.as_ref().is_some_and(is_begun) {
            self.on_disk = preprocessor
                .forget_blocked()
                .then(|| (version, String::new()));
        }
        if let Some((_, after)) = &mut self.on_disk
            && preprocessor.forget_blocked_on_disk(after)
        {
            (self.version, self.on_disk) = (version, None);
        }
    }
}

/// See the module.
pub struct Housekeeper {
    /// What has been done.
    pub counters: Arc<Counters>,
    /// The crawls that this peer takes part in.
    pub crawls: Arc<Crawls>,
    /// What waits.
    pub jobs: Arc<CrawlJobs>,
    /// How full it is.
    pub preprocessor: Arc<Preprocessor>,
    /// What waits for receipts.
    pub outbox: Arc<Outbox>,
    /// Sites that are becoming ours.
    pub arrivals: Arc<Arrivals>,
    /// Sites that are not visited.
    pub blocklist: Arc<BlockList>,
    /// What sites think of us.
    pub reputation: Arc<ReputationGuard>,
    /// Connections that nobody uses at the moment.
    pub idle: Arc<IdleConnections>,
    /// The volunteer's limits.
    pub limits: Arc<Limits>,
    /// Pauses that begin and end.
    pub pausing: Arc<Pausing>,
    /// The memory of all blocks.
    pub memory: MemoryBudget,
    /// What is kept, and whether that works.
    pub ledger: Arc<Ledger>,
    /// Pages that earlier runs have fetched.
    pub resumed_pages: u64,
    /// The time.
    pub clock: Clock,
    /// Where snapshots are put.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// Tells when to end.
    pub stop: StopSignal,
}

impl Housekeeper {
    /// Works until the engine stops.
    pub fn run(mut self) {
        let mut sweep = Sweep::default();
        let mut looked_for_crawls: Option<Instant> = None;
        while self.stop.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
            let now_ms = self.clock.now_ms();
            self.idle.sweep(now_ms);
            // The volunteer may have lowered the limit.
            self.idle.trim(self.jobs.room_for_idle());
            self.clock.notice_sleep();
            self.limits.tick(now_ms);
            self.pausing.tick();
            self.arrivals.drop_silent();
            self.blocklist.reload(now_ms);
            sweep.go_on(&self.blocklist, &self.preprocessor);
            let is_rested = |at: Instant| at.elapsed() >= LOOK_FOR_CRAWLS;
            if self.crawls.is_crowded() && looked_for_crawls.is_none_or(is_rested) {
                self.forget_crawls();
                looked_for_crawls = Some(Instant::now());
            }
            let (reputation_step, reputation_notice) = self.reputation.consider();
            self.memory.keep();
            let activity = self.jobs.activity();
            let mut report = Report::new(&self.counters, self.memory.limit_bytes());
            report.resumed_pages = self.resumed_pages;
            report.set_elapsed(self.clock.elapsed());
            self.snapshot.store(Arc::new(Snapshot {
                report,
                queued_urls: self.jobs.queued(),
                sites_waiting: activity.waiting,
                sites_fetching: activity.leased,
                outbox_urls: self.outbox.len(),
                reputation_step,
                reputation_notice,
                urls_on_disk: self.jobs.on_disk(),
                archive_bytes: self.ledger.archive_bytes(),
                trouble: self.ledger.trouble().map(|trouble| trouble.text),
                pressure: self.preprocessor.pressure(),
            }));
        }
    }

    /// Forgets strangers' crawls of which nothing is left. Looks through the queues on
    /// disk.
    fn forget_crawls(&self) {
        let mut in_use: HashSet<CrawlId> = self.outbox.crawls();
        for cell in self.preprocessor.sites() {
            in_use.extend(cell.lock().site.crawls());
        }
        let note = |_, _, bytes: &[u8]| in_use.extend(queued_job(bytes).map(|j| j.record.crawl));
        if let Some(Err(error)) = self.ledger.store().map(|store| store.for_each_queued(note)) {
            // What cannot be read may belong to any of them.
            return tracing::error!("cannot look which crawls are over: {error}");
        }
        self.crawls.forget_unused(&in_use);
    }
}
