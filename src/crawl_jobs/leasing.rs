//! Who is fetched from next, and by whom: sites begin to wait, are leased to a downloader when
//! their time has come, and are given back.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{Addresses, CrawlJobs, Group, Phase, ReadyOrder, SiteCell, SiteState};
use crate::activity::How;
use crate::clock::Millis;
use crate::counters::ErrorKind;

/// A site that a downloader may fetch from; it must be settled.
#[must_use]
pub struct Lease {
    /// The site.
    pub cell: Arc<SiteCell>,
    /// The group that is leased with it.
    pub group: Group,
    /// No other lease has it.
    number: u64,
}

impl Lease {
    /// A note of the lease, with which it can be found again.
    pub fn note(&self) -> LeaseNote {
        LeaseNote(Lease {
            cell: self.cell.clone(),
            ..*self
        })
    }
}

/// A lease that somebody else holds, and may have settled.
pub struct LeaseNote(Lease);

#[derive(Default)]
pub(super) struct Ready {
    order: ReadyOrder<Arc<SiteCell>>,
    leased: usize,
    /// The time that an idle downloader waits for. One of them is enough: if all did,
    /// all would wake for the same site.
    timekeeper_ms: Option<Millis>,
    is_paused: bool,
    /// Whether what would be fetched could not be kept.
    is_stalled: bool,
    /// Whether sites are awaited that others may still be fetching from.
    is_held: bool,
    is_closed: bool,
}

/// What the queues are doing, for whoever decides that a crawl is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Sites that downloaders work on.
    pub leased: usize,
    /// Sites that wait, here or away.
    pub waiting: usize,
    /// When the first of them will be ready.
    pub next_ms: Option<Millis>,
}

impl CrawlJobs {
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
        let group = self.group(cell.key, state.addresses.as_ref());
        let at_ms = state.site.pace.next_fetch_ms.max(state.spent_until_ms);
        self.ready.lock().order.insert(group, at_ms, cell.clone());
        self.changed.notify_one();
    }

    /// Lets go of those who have left memory while they waited here.
    pub fn let_go(&self) {
        let now_ms = self.clock.now_ms();
        let is_here = |cell: &Arc<SiteCell>| !cell.has_left();
        self.ready.lock().order.retain(is_here, now_ms);
        self.resolve.retain(is_here);
    }

    /// What a host is kept apart by.
    pub fn group(&self, key: u64, addresses: Option<&Addresses>) -> Group {
        match addresses.and_then(|a| Some((a, *a.allowed.first()?))) {
            Some((addresses, first)) if addresses.is_public || self.private_per_address => {
                Group::Address(first)
            }
            _ => Group::Host(key),
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

    /// Tells whoever looks on that a host's name leads nowhere.
    pub fn tell_of_look_up(&self, host: &str, why: &str) {
        let url = format!("http://{host}/");
        let how = How::Failed(ErrorKind::Dns);
        self.counters.activity.turned_away(&url, how, why);
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
        state.lease = None;
        self.gate.was_no_page();
        self.resolve.push(lease.cell.clone());
        self.release(lease.group, 0);
    }

    /// Waits for a site that is ready; `None` once the queues are closed.
    pub fn lease(&self) -> Option<Lease> {
        loop {
            let (group, cell) = self.take()?;
            let mut state = cell.lock();
            if state.phase == Phase::Waiting && !state.is_freezing {
                let number = self.next_lease.fetch_add(1, Relaxed);
                state.phase = Phase::Leased;
                state.lease = Some(number);
                drop(state);
                return Some(Lease {
                    cell,
                    group,
                    number,
                });
            }
            // It has left, or is about to.
            if state.phase == Phase::Waiting {
                state.phase = Phase::Idle;
            }
            drop(state);
            self.gate.was_no_page();
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
            if ready.is_paused || ready.is_stalled || ready.is_held {
                self.changed.wait(&mut ready);
                continue;
            }
            let now_ms = self.clock.now_ms();
            // A gate that is shut is as if the head were not ready yet.
            let head = match self.gate.enter(ready.leased, now_ms) {
                Ok(()) => ready
                    .order
                    .take(now_ms)
                    .inspect_err(|_| self.gate.was_no_page()),
                Err(again_ms) => Err(Some(again_ms)),
            };
            match head {
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

    /// The time by which the queues go.
    pub fn now_ms(&self) -> Millis {
        self.clock.now_ms()
    }

    /// Takes the turn of a host that has no lease: no other host at its address is asked
    /// until [`Self::end_visit`]. Says when to come again if it is not its turn.
    pub fn visit(&self, group: Group) -> Result<(), Millis> {
        self.ready.lock().order.reserve(group, self.clock.now_ms())
    }

    /// The visit is over; the address rests until `next_ms`.
    pub fn end_visit(&self, group: Group, next_ms: Millis) {
        let now_ms = self.clock.now_ms();
        self.ready.lock().order.release(group, next_ms, now_ms);
        self.changed.notify_one();
    }

    fn release(&self, group: Group, next_ms: Millis) {
        let now_ms = self.clock.now_ms();
        let mut ready = self.ready.lock();
        ready.leased -= 1;
        ready.order.release(group, next_ms, now_ms);
        if ready.is_closed {
            self.settled.notify_all();
        }
        drop(ready);
        if matches!(group, Group::Address(_)) || self.gate.counts_fetches() {
            // Others may wait at that address, or for this fetch to end.
            self.changed.notify_one();
        }
    }

    /// Ends a lease. The site waits again if it has more to fetch; its group rests for
    /// as long as its address has to.
    pub fn settle(&self, lease: Lease, state: &mut SiteState) {
        if self.ledger.keeps()
            && let Some(head) = state.site.changed_head()
        {
            self.ledger.site(state.site.host(), &head);
            // It stays until the disk knows: what it asked for holds when it comes back.
            state.is_touched = true;
        }
        let next_ms = state.site.pace.next_fetch_ms.min(state.address_free_ms);
        state.lease = None;
        self.release(lease.group, next_ms);
        if state.phase == Phase::Leased {
            state.phase = Phase::Idle;
            self.submit(&lease.cell, state);
        }
        lease.cell.lease_ended();
    }

    /// The lease again, whose holder has been lost, unless it was settled before.
    pub fn recover(&self, note: LeaseNote, state: &SiteState) -> Option<Lease> {
        let LeaseNote(lease) = note;
        (state.lease == Some(lease.number)).then_some(lease)
    }

    /// What the queues are doing. A site whose name is being looked up counts as
    /// neither leased nor waiting.
    pub fn activity(&self) -> Activity {
        let (away, away_ms) = {
            let away = self.away.lock();
            (away.count(), away.next_ms())
        };
        let mut ready = self.ready.lock();
        let times = [ready.order.next_ms(), away_ms];
        Activity {
            leased: ready.leased,
            waiting: ready.order.hosts() + away,
            next_ms: times.into_iter().flatten().min(),
        }
    }

    /// Stops or resumes handing out sites; what is leased goes on.
    pub fn set_paused(&self, is_paused: bool) {
        self.ready.lock().is_paused = is_paused;
        self.changed.notify_all();
    }

    /// Stops or resumes handing out sites because what is fetched could not be kept.
    pub fn set_stalled(&self, is_stalled: bool) {
        self.ready.lock().is_stalled = is_stalled;
        self.changed.notify_all();
    }

    /// Holds all sites back, or lets them go, until others have let go of theirs.
    pub fn set_held(&self, is_held: bool) {
        self.ready.lock().is_held = is_held;
        self.changed.notify_all();
    }

    /// Whether all sites are held back.
    pub fn is_held(&self) -> bool {
        self.ready.lock().is_held
    }

    /// How many connections may be kept beside those that are fetched over.
    pub fn room_for_idle(&self) -> usize {
        let beside = |most: usize| most.saturating_sub(self.ready.lock().leased);
        self.gate.connections().map_or(usize::MAX, beside)
    }

    /// Waits until a lease ends, or for `limit`.
    pub fn wait_for_settle(&self, limit: Duration) {
        let mut ready = self.ready.lock();
        if ready.leased > 0 {
            self.settled.wait_for(&mut ready, limit);
        }
    }

    /// Whether no more leases begin.
    pub fn is_closed(&self) -> bool {
        self.ready.lock().is_closed
    }

    /// No more leases: idle downloaders end.
    pub fn close(&self) {
        self.ready.lock().is_closed = true;
        self.changed.notify_all();
    }
}
