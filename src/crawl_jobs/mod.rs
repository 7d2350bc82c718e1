//! Block 2: the crawl-job queues, one for each host.
//!
//! The preprocessor puts URLs into a site's queue and `submit`s the site. A site that
//! has work waits in the [`ReadyOrder`] until its time has come; an idle downloader
//! [`CrawlJobs::lease`]s the first that is ready, fetches one thing from it, and
//! [`CrawlJobs::settle`]s the lease, whereupon the site waits again if it has more. When
//! memory is short, sites that are not needed soon go [`away`], queue and all: they are
//! neither here nor in the ready order until they are brought back.
//!
//! Invariants: a site is in the ready order exactly while its phase is `Waiting`, and
//! with a downloader exactly while it is `Leased`, so a host is never fetched from
//! twice at once; locks are taken in the order site, then ready order.
//!
//! - [`away`]: sites that are on disk alone, although something waits for them
//! - [`site`]: the record of a host
//! - [`cell`]: a site at work
//! - [`ready_order`]: who is next
//! - `leasing`: who gets it
//! - [`outstanding`]: how much is left to do, which tells when a crawl is over

pub mod away;
pub mod cell;
mod leasing;
pub mod outstanding;
pub mod ready_order;
pub mod site;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::{Condvar, Mutex};

use away::Away;
pub use away::{AWAY_BYTES, AwayQueue};
pub use cell::{Addresses, Phase, SiteCell, SiteState};
use leasing::Ready;
pub use leasing::{Activity, Lease, LeaseNote};
pub use outstanding::{Outstanding, Unfinished};
pub use ready_order::{Group, ReadyOrder};
pub use site::{CrawlJob, OnDisk, Site, SiteHead, SiteRecordError, Task, TurnedAway, United};

use crate::clock::{Clock, Millis};
use crate::counters::{Counters, ErrorKind};
use crate::distribution::Key;
use crate::ledger::{Done, Ledger, queued_job};
use crate::limits::Gate;
use crate::record::UrlRecord;
use crate::resolver::ResolveQueue;
use crate::store::StoreError;

/// So much of a site's queue is kept in memory, however little there is.
const LEAST_IN_MEMORY: usize = 8;
/// More URLs are not brought from disk at a time.
const MOST_BROUGHT: usize = 256;
/// When a site is due that an earlier run has left: its record tells.
const UNKNOWN_MS: Millis = 0;

/// See the module.
pub struct CrawlJobs {
    clock: Clock,
    counters: Arc<Counters>,
    ready: Mutex<Ready>,
    /// No other lock is taken while this one is held.
    away: Mutex<Away>,
    /// Wakes an idle downloader.
    changed: Condvar,
    /// Wakes whoever waits for leases to end, once the queues are closed.
    settled: Condvar,
    resolve: Arc<ResolveQueue>,
    /// Whether hosts that share a private address share its delay.
    private_per_address: bool,
    /// Whether the volunteer's limits let one more fetch begin.
    gate: Arc<Gate>,
    ledger: Arc<Ledger>,
    /// URLs that may wait in memory; the rest waits on disk, if anything is kept there.
    memory_urls: AtomicUsize,
    /// The number of the next lease.
    next_lease: AtomicU64,
    /// URLs that wait in all queues together.
    queued: AtomicUsize,
    /// Those of them that wait on disk alone.
    on_disk: AtomicUsize,
    /// URLs taken in and not yet done with.
    pub outstanding: Arc<Outstanding>,
}

/// A URL as the ledger knows it once it is done.
fn done(site: Key, job: &CrawlJob) -> Done {
    Done {
        site,
        number: job.number,
    }
}

impl CrawlJobs {
    /// No sites yet. Sites whose name must be looked up go to `resolve`.
    pub fn new(
        clock: Clock,
        counters: Arc<Counters>,
        resolve: Arc<ResolveQueue>,
        private_per_address: bool,
        gate: Arc<Gate>,
        ledger: Arc<Ledger>,
    ) -> Self {
        Self {
            clock,
            counters,
            ready: Mutex::default(),
            away: Mutex::default(),
            changed: Condvar::new(),
            settled: Condvar::new(),
            resolve,
            private_per_address,
            gate,
            ledger,
            memory_urls: AtomicUsize::new(usize::MAX),
            next_lease: AtomicU64::new(0),
            queued: AtomicUsize::new(0),
            on_disk: AtomicUsize::new(0),
            outstanding: Arc::default(),
        }
    }

    /// URLs that wait in all queues together.
    pub fn queued(&self) -> usize {
        self.queued.load(Relaxed)
    }

    /// URLs that wait on disk alone.
    pub fn on_disk(&self) -> usize {
        self.on_disk.load(Relaxed)
    }

    /// So many URLs may wait in memory from now on.
    pub fn set_memory_urls(&self, urls: usize) {
        self.memory_urls.store(urls, Relaxed);
    }

    /// URLs that wait in memory.
    pub fn in_memory(&self) -> usize {
        self.queued().saturating_sub(self.on_disk())
    }

    /// How many more URLs may wait in memory while so many wait in all.
    fn room(&self, queued: usize) -> usize {
        let in_memory = queued.saturating_sub(self.on_disk.load(Relaxed));
        self.memory_urls.load(Relaxed).saturating_sub(in_memory)
    }

    /// Takes a URL into its site's queue.
    pub fn push(&self, state: &mut SiteState, record: UrlRecord) {
        // In this order: what is queued is outstanding, at every moment.
        self.outstanding.add(1);
        let queued = self.queued.fetch_add(1, Relaxed);
        let spills =
            self.ledger.keeps() && self.room(queued) == 0 && state.site.queued() >= LEAST_IN_MEMORY;
        let before = state.site.on_disk();
        if state.has_head && state.site.counters.admitted == 0 {
            // What has a queue on disk is found there by its record.
            self.ledger.site(state.site.host(), &state.site.head());
        }
        // The site is locked: numbers are given in the order of the ledger.
        let job = state.site.number(record);
        self.ledger.queued(state.key, &job);
        state.site.push(job, spills);
        state.is_touched = true;
        self.on_disk
            .fetch_add(state.site.on_disk() - before, Relaxed);
    }

    /// A site is away, as an earlier run has left it.
    pub fn continue_queue(&self, key: Key, queue: AwayQueue) {
        let urls = queue.on_disk.urls;
        self.queued.fetch_add(urls, Relaxed);
        self.on_disk.fetch_add(urls, Relaxed);
        self.outstanding.add(urls as u64);
        self.away.lock().insert(key, UNKNOWN_MS, queue);
    }

    /// What waits for a site waits on disk alone from now on. All of it must be there.
    pub fn spill(&self, state: &mut SiteState) {
        self.on_disk.fetch_add(state.site.spill(), Relaxed);
    }

    /// A site leaves memory. If anything waits for it, it is away until it is due. All of
    /// it must be on disk.
    pub fn send_away(&self, state: &mut SiteState) {
        self.spill(state);
        let queue = state.site.take_queue();
        if queue.on_disk.urls > 0 {
            // Those that are ready come back in the order in which they left: hosts that were
            // never visited would otherwise always be before the others.
            let due_ms = state.site.pace.next_fetch_ms.max(state.spent_until_ms);
            let due_ms = due_ms.max(self.clock.now_ms());
            self.away.lock().insert(state.key, due_ms, queue);
        }
    }

    /// The queue of a site, if it is away.
    pub fn away(&self, key: Key) -> Option<AwayQueue> {
        self.away.lock().get(key)
    }

    /// How many sites are away.
    pub fn sites_away(&self) -> usize {
        self.away.lock().count()
    }

    /// Every site that is away: when it is due, and its queue.
    pub fn all_away(&self) -> Vec<(Key, Millis, AwayQueue)> {
        self.away.lock().all().collect()
    }

    /// Sites that are away and due by then, so many at most, the first of them first.
    pub fn due_away(&self, by_ms: Millis, most: usize) -> Vec<Key> {
        self.away.lock().due(by_ms, most)
    }

    /// A site comes into memory, with its queue if it is away.
    pub fn come_back(&self, key: Key, site: &mut Site) -> bool {
        let Some((due_ms, queue)) = self.away.lock().remove(key) else {
            return false;
        };
        site.continue_from(queue.on_disk, queue.next_number);
        // Its record may still be on its way to the disk, and knows this no better.
        site.pace.next_fetch_ms = due_ms;
        true
    }

    /// What waits for a site that is away is not wanted any more; tells how much it was.
    pub fn drop_away(&self, key: Key) -> u64 {
        let Some((_, queue)) = self.away.lock().remove(key) else {
            return 0;
        };
        let urls = queue.on_disk.urls;
        self.ledger.queue_cleared(key);
        self.queued.fetch_sub(urls, Relaxed);
        self.on_disk.fetch_sub(urls, Relaxed);
        self.outstanding.done(urls as u64);
        urls as u64
    }

    /// Brings a part of a site's queue from disk, if there is nothing of it in memory.
    /// Reads from the disk: the site must not be locked. False if there was something to
    /// bring and it is not there yet: it is still on its way to the disk.
    pub fn bring(&self, cell: &SiteCell) -> Result<bool, StoreError> {
        let Some(store) = self.ledger.store() else {
            return Ok(true);
        };
        let Some(asked) = cell.lock().site.missing() else {
            return Ok(true);
        };
        // A small part of the room, as all sites with a queue on disk want some.
        let most = (self.room(self.queued()) / 64).clamp(LEAST_IN_MEMORY, MOST_BROUGHT);
        let mut from = asked.from;
        let jobs: Vec<_> = loop {
            let segment = store.queue_segment(Key(cell.key), from, most)?;
            let entries = segment.iter();
            let jobs: Vec<_> = entries.filter_map(|(_, bytes)| queued_job(bytes)).collect();
            match segment.last() {
                // What cannot be read is passed over.
                Some((last, _)) if jobs.is_empty() => from = last + 1,
                _ => break jobs,
            }
        };
        let is_there = !jobs.is_empty();
        let brought = cell.lock().site.bring(asked, jobs);
        self.on_disk.fetch_sub(brought, Relaxed);
        Ok(is_there)
    }

    /// Brings all of a site's queue from disk, behind what is in memory.
    pub fn bring_all(&self, cell: &SiteCell) -> Result<(), StoreError> {
        let Some(store) = self.ledger.store() else {
            return Ok(());
        };
        let asked = cell.lock().site.end_on_disk();
        if asked.urls == 0 {
            return Ok(());
        }
        let segment = store.queue_segment(Key(cell.key), asked.from, usize::MAX)?;
        let jobs = segment.iter().filter_map(|(_, bytes)| queued_job(bytes));
        let brought = cell.lock().site.bring(asked, jobs.collect());
        self.on_disk.fetch_sub(brought, Relaxed);
        Ok(())
    }

    /// What waits on disk for this site cannot be had: it is given up.
    pub fn lose_on_disk(&self, state: &mut SiteState) -> u64 {
        let lost = state.site.lose_on_disk();
        self.queued.fetch_sub(lost, Relaxed);
        self.on_disk.fetch_sub(lost, Relaxed);
        self.outstanding.done(lost as u64);
        lost as u64
    }

    /// Puts a URL back that was tried in vain.
    pub fn push_again(&self, state: &mut SiteState, job: CrawlJob, unfinished: Unfinished) {
        self.queued.fetch_add(1, Relaxed);
        self.ledger.queued(state.key, &job);
        unfinished.requeued();
        state.site.push_again(job);
        state.is_touched = true;
    }

    /// URLs come back to the head of the queue that they left. They are on disk under the
    /// numbers that they have.
    pub fn put_back(&self, state: &mut SiteState, jobs: VecDeque<CrawlJob>) {
        self.outstanding.add(jobs.len() as u64);
        self.queued.fetch_add(jobs.len(), Relaxed);
        state.site.put_before(jobs);
        state.is_touched = true;
    }

    /// What to do next for a leased site. URLs that are not to be fetched after all
    /// are done with, and given to `turned_away`.
    pub fn next_task(
        &self,
        state: &mut SiteState,
        refuses: impl Fn(&UrlRecord) -> bool,
        mut turned_away: impl FnMut(CrawlJob, TurnedAway),
    ) -> (Task, Option<Unfinished>) {
        let key = state.key;
        let mut away = 0;
        let task = state
            .site
            .next_task(self.clock.now_ms(), refuses, |job, why| {
                away += 1;
                self.ledger.done(done(key, &job), None);
                turned_away(job, why);
            });
        let unfinished = match &task {
            Task::Page(job) => Some(Unfinished::new(
                &self.outstanding,
                &self.ledger,
                done(key, job),
            )),
            _ => None,
        };
        if unfinished.is_none() {
            self.gate.was_no_page();
        }
        self.queued
            .fetch_sub(away + usize::from(unfinished.is_some()), Relaxed);
        self.outstanding.done(away as u64);
        (task, unfinished)
    }

    /// Empties a site's queue, and is done with what was in it; tells how much that was.
    pub fn drain(&self, state: &mut SiteState) -> u64 {
        let urls = state.site.queued();
        let on_disk = state.site.on_disk();
        for job in state.site.drain() {
            self.ledger.done(done(state.key, &job), None);
        }
        if on_disk > 0 {
            self.ledger.queue_cleared(state.key);
        }
        self.queued.fetch_sub(urls, Relaxed);
        self.on_disk.fetch_sub(on_disk, Relaxed);
        self.outstanding.done(urls as u64);
        urls as u64
    }

    /// Empties the queue of a site that leaves; tells how much was in it. That stays
    /// outstanding until whoever moves the site says that it has arrived.
    pub fn take_out(&self, state: &mut SiteState) -> u64 {
        let taken = state.site.drain().len();
        self.queued.fetch_sub(taken, Relaxed);
        taken as u64
    }

    /// A URL that came back to a site is done here already: it waits on disk no more.
    pub fn known_here(&self, state: &SiteState, job: &CrawlJob) {
        self.ledger.done(done(state.key, job), None);
    }

    /// A URL of a site's queue is known elsewhere: it waits here no more.
    pub fn known_elsewhere(&self, state: &SiteState, job: &CrawlJob) {
        self.ledger.done(done(state.key, job), None);
        self.queued.fetch_sub(1, Relaxed);
        self.outstanding.done(1);
    }

    /// Drops what waits for one origin of a site, and what will come for it until its
    /// robots rules are asked for again; tells how much that was.
    pub fn drop_origin(&self, state: &mut SiteState, origin: &str) -> u64 {
        let dropped = state.site.drop_origin(origin, self.clock.now_ms());
        state.is_touched = true;
        for job in &dropped {
            self.ledger.done(done(state.key, job), None);
        }
        self.queued.fetch_sub(dropped.len(), Relaxed);
        self.outstanding.done(dropped.len() as u64);
        dropped.len() as u64
    }

    /// Gives a site up: one error for the site, and its URLs are counted as given up.
    pub fn give_up(&self, state: &mut SiteState, error: ErrorKind) {
        state.phase = Phase::GivenUp;
        state.site.pace.give_up(self.clock.now_ms());
        state.site.counters.errors += 1;
        self.counters.error(error).add(1);
        let drained = self.drain(state);
        self.counters.given_up.add(drained);
    }

    /// Gives up what waits for sites that are away.
    pub fn give_up_away(&self) {
        for key in self.due_away(Millis::MAX, usize::MAX) {
            self.counters.given_up.add(self.drop_away(key));
        }
    }
}
