//! Block 2: the crawl-job queues, one for each host.
//!
//! The preprocessor puts URLs into a site's queue and `submit`s the site. A site that
//! has work waits in the [`ReadyOrder`] until its time has come; an idle downloader
//! [`CrawlJobs::lease`]s the first that is ready, fetches one thing from it, and
//! [`CrawlJobs::settle`]s the lease, whereupon the site waits again if it has more.
//!
//! Invariants: a site is in the ready order exactly while its phase is `Waiting`, and
//! with a downloader exactly while it is `Leased`, so a host is never fetched from
//! twice at once; locks are taken in the order site, then ready order.
//!
//! - [`site`]: the record of a host
//! - [`cell`]: a site at work
//! - [`ready_order`]: who is next
//! - [`outstanding`]: how much is left to do, which tells when a crawl is over

pub mod cell;
pub mod outstanding;
pub mod ready_order;
pub mod site;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

pub use cell::{Addresses, Phase, SiteCell, SiteState};
pub use outstanding::{Outstanding, Unfinished};
pub use ready_order::{Group, ReadyOrder};
pub use site::{CrawlJob, Site, SiteRecordError, Task, TurnedAway};

use crate::activity::How;
use crate::clock::{Clock, Millis};
use crate::counters::{Counters, ErrorKind};
use crate::record::UrlRecord;
use crate::resolver::ResolveQueue;

/// A site that a downloader may fetch from; it must be settled.
#[must_use]
pub struct Lease {
    /// The site.
    pub cell: Arc<SiteCell>,
    group: Group,
}

/// See the module.
pub struct CrawlJobs {
    clock: Clock,
    counters: Arc<Counters>,
    ready: Mutex<Ready>,
    /// Wakes an idle downloader.
    changed: Condvar,
    /// Wakes whoever waits for leases to end, once the queues are closed.
    settled: Condvar,
    resolve: Arc<ResolveQueue>,
    /// Whether hosts that share a private address share its delay.
    private_per_address: bool,
    /// URLs that wait in all queues together.
    queued: AtomicUsize,
    /// URLs taken in and not yet done with.
    pub outstanding: Arc<Outstanding>,
}

#[derive(Default)]
struct Ready {
    order: ReadyOrder<Arc<SiteCell>>,
    leased: usize,
    /// The time that an idle downloader waits for. One of them is enough: if all did,
    /// all would wake for the same site.
    timekeeper_ms: Option<Millis>,
    is_paused: bool,
    /// Whether sites are awaited that others may still be fetching from.
    is_held: bool,
    is_closed: bool,
}

/// What the queues are doing, for whoever decides that a crawl is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Sites that downloaders work on.
    pub leased: usize,
    /// Sites that wait.
    pub waiting: usize,
    /// When the first of them will be ready.
    pub next_ms: Option<Millis>,
}

impl CrawlJobs {
    /// No sites yet. Sites whose name must be looked up go to `resolve`.
    pub fn new(
        clock: Clock,
        counters: Arc<Counters>,
        resolve: Arc<ResolveQueue>,
        private_per_address: bool,
    ) -> Self {
        Self {
            clock,
            counters,
            ready: Mutex::default(),
            changed: Condvar::new(),
            settled: Condvar::new(),
            resolve,
            private_per_address,
            queued: AtomicUsize::new(0),
            outstanding: Arc::default(),
        }
    }

    /// URLs that wait in all queues together.
    pub fn queued(&self) -> usize {
        self.queued.load(Relaxed)
    }

    /// Takes a URL into its site's queue.
    pub fn push(&self, state: &mut SiteState, record: UrlRecord) {
        self.queued.fetch_add(1, Relaxed);
        self.outstanding.add(1);
        state.site.push(record);
    }

    /// A site's queue has grown (or shrunk, if negative) by a record from elsewhere.
    pub fn gained(&self, urls: isize) {
        if urls >= 0 {
            self.queued.fetch_add(urls as usize, Relaxed);
            self.outstanding.add(urls as u64);
        } else {
            self.queued.fetch_sub(urls.unsigned_abs(), Relaxed);
            self.outstanding.done(urls.unsigned_abs() as u64);
        }
    }

    /// Puts a URL back that was tried in vain.
    pub fn push_again(&self, state: &mut SiteState, job: CrawlJob, unfinished: Unfinished) {
        self.queued.fetch_add(1, Relaxed);
        unfinished.requeued();
        state.site.push_again(job);
    }

    /// What to do next for a leased site. URLs that are not to be fetched after all
    /// are done with, and given to `turned_away`.
    pub fn next_task(
        &self,
        state: &mut SiteState,
        refuses: impl Fn(&UrlRecord) -> bool,
        mut turned_away: impl FnMut(CrawlJob, TurnedAway),
    ) -> (Task, Option<Unfinished>) {
        let mut away = 0;
        let task = state
            .site
            .next_task(self.clock.now_ms(), refuses, |job, why| {
                away += 1;
                turned_away(job, why);
            });
        let unfinished = matches!(task, Task::Page(_)).then(|| Unfinished::new(&self.outstanding));
        self.queued
            .fetch_sub(away + usize::from(unfinished.is_some()), Relaxed);
        self.outstanding.done(away as u64);
        (task, unfinished)
    }

    /// Empties a site's queue, and is done with what was in it; tells how much that was.
    pub fn drain(&self, state: &mut SiteState) -> u64 {
        let drained = self.take_out(state);
        self.outstanding.done(drained);
        drained
    }

    /// Empties the queue of a site that leaves; tells how much was in it. That stays
    /// outstanding until whoever moves the site says that it has arrived.
    pub fn take_out(&self, state: &mut SiteState) -> u64 {
        let taken = state.site.drain().len();
        self.queued.fetch_sub(taken, Relaxed);
        taken as u64
    }

    /// Drops what waits for one origin of a site, and what will come for it until its
    /// robots rules are asked for again; tells how much that was.
    pub fn drop_origin(&self, state: &mut SiteState, origin: &str) -> u64 {
        let dropped = state.site.drop_origin(origin, self.clock.now_ms());
        self.queued.fetch_sub(dropped, Relaxed);
        self.outstanding.done(dropped as u64);
        dropped as u64
    }

    /// Gives a site up: one error for the site, and its URLs are counted as given up.
    pub fn give_up(&self, state: &mut SiteState, error: ErrorKind) {
        state.phase = Phase::GivenUp;
        state.site.counters.errors += 1;
        self.counters.error(error).add(1);
        let drained = self.drain(state);
        self.counters.given_up.add(drained);
    }

    /// A site may have got work: if it was idle and has some, it begins to wait.
    pub fn submit(&self, cell: &Arc<SiteCell>, state: &mut SiteState) {
        if state.phase != Phase::Idle || state.site.queued() == 0 || state.is_freezing {
            return;
        }
        match &state.addresses {
            None => {
                state.phase = Phase::Resolving;
                self.resolve.push(cell.clone());
            }
            Some(addresses) if addresses.allowed.is_empty() => {
                let url = format!("http://{}/", state.site.host());
                let activity = &self.counters.activity;
                activity.turned_away(&url, How::Private, "its whole site");
                let drained = self.drain(state);
                self.counters.blocked_address.add(drained);
            }
            Some(_) => self.wait(cell, state),
        }
    }

    /// A site begins to wait for its next fetch, or for its next name look-up.
    fn wait(&self, cell: &Arc<SiteCell>, state: &mut SiteState) {
        state.phase = Phase::Waiting;
        let group = self.group(cell, state.addresses.as_ref());
        let at_ms = state.site.pace.next_fetch_ms;
        self.ready.lock().order.insert(group, at_ms, cell.clone());
        self.changed.notify_one();
    }

    fn group(&self, cell: &SiteCell, addresses: Option<&Addresses>) -> Group {
        match addresses.and_then(|a| Some((a, *a.allowed.first()?))) {
            Some((addresses, first)) if addresses.is_public || self.private_per_address => {
                Group::Address(first)
            }
            _ => Group::Host(cell.key),
        }
    }

    /// The name of a site that was `Resolving` has been looked up.
    pub fn resolved(&self, cell: &Arc<SiteCell>, state: &mut SiteState, addresses: Addresses) {
        state.addresses = Some(addresses);
        // It led to where the name led before.
        state.connection = None;
        state.phase = Phase::Idle;
        self.submit(cell, state);
        cell.lease_ended();
    }

    /// The name of a site that was `Resolving` could not be looked up: it waits for
    /// another try.
    pub fn unresolved(&self, cell: &Arc<SiteCell>, state: &mut SiteState) {
        state.phase = Phase::Idle;
        if state.site.queued() > 0 && !state.is_freezing {
            self.wait(cell, state);
        }
        cell.lease_ended();
    }

    /// A leased site's name must be looked up (again) before it can be fetched from.
    pub fn resolve(&self, lease: Lease, state: &mut SiteState) {
        state.phase = Phase::Resolving;
        self.resolve.push(lease.cell.clone());
        self.release(lease.group, 0);
    }

    /// Waits for a site that is ready; `None` once the queues are closed.
    pub fn lease(&self) -> Option<Lease> {
        loop {
            let (group, cell) = self.take()?;
            let mut state = cell.lock();
            if state.phase == Phase::Waiting && !state.is_freezing {
                state.phase = Phase::Leased;
                drop(state);
                return Some(Lease { cell, group });
            }
            // It has left, or is about to.
            if state.phase == Phase::Waiting {
                state.phase = Phase::Idle;
            }
            drop(state);
            self.release(group, 0);
            cell.lease_ended();
        }
    }

    fn take(&self) -> Option<(Group, Arc<SiteCell>)> {
        let mut ready = self.ready.lock();
        loop {
            if ready.is_closed {
                return None;
            }
            if ready.is_paused || ready.is_held {
                self.changed.wait(&mut ready);
                continue;
            }
            let now_ms = self.clock.now_ms();
            match ready.order.take(now_ms) {
                Ok(taken) => {
                    ready.leased += 1;
                    if ready.timekeeper_ms.is_none() {
                        // Somebody must wait for the next head.
                        self.changed.notify_one();
                    }
                    return Some(taken);
                }
                Err(Some(at_ms)) if ready.timekeeper_ms.is_none_or(|kept| at_ms < kept) => {
                    ready.timekeeper_ms = Some(at_ms);
                    let wait = Duration::from_millis(at_ms - now_ms);
                    self.changed.wait_for(&mut ready, wait);
                    if ready.timekeeper_ms == Some(at_ms) {
                        ready.timekeeper_ms = None;
                    }
                }
                Err(_) => self.changed.wait(&mut ready),
            }
        }
    }

    fn release(&self, group: Group, next_ms: Millis) {
        let mut ready = self.ready.lock();
        ready.leased -= 1;
        ready.order.release(group, next_ms);
        if ready.is_closed {
            self.settled.notify_all();
        }
        drop(ready);
        if matches!(group, Group::Address(_)) {
            // Others may wait at that address.
            self.changed.notify_one();
        }
    }

    /// Ends a lease. The site waits again if it has more to fetch; its group rests
    /// until the site's next fetch.
    pub fn settle(&self, lease: Lease, state: &mut SiteState) {
        self.release(lease.group, state.site.pace.next_fetch_ms);
        if state.phase == Phase::Leased {
            state.phase = Phase::Idle;
            self.submit(&lease.cell, state);
        }
        lease.cell.lease_ended();
    }

    /// What the queues are doing. A site whose name is being looked up counts as
    /// neither leased nor waiting.
    pub fn activity(&self) -> Activity {
        let mut ready = self.ready.lock();
        Activity {
            leased: ready.leased,
            waiting: ready.order.hosts(),
            next_ms: ready.order.next_ms(),
        }
    }

    /// Stops or resumes handing out sites; what is leased goes on.
    pub fn set_paused(&self, is_paused: bool) {
        self.ready.lock().is_paused = is_paused;
        self.changed.notify_all();
    }

    /// Holds all sites back, or lets them go, until others have let go of theirs.
    pub fn set_held(&self, is_held: bool) {
        self.ready.lock().is_held = is_held;
        self.changed.notify_all();
    }

    /// Waits until a lease ends, or for `limit`.
    pub fn wait_for_settle(&self, limit: Duration) {
        let mut ready = self.ready.lock();
        if ready.leased > 0 {
            self.settled.wait_for(&mut ready, limit);
        }
    }

    /// No more leases: idle downloaders end.
    pub fn close(&self) {
        self.ready.lock().is_closed = true;
        self.changed.notify_all();
    }
}
