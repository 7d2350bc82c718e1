//! A downloader thread: one site after the other, one fetch at a time.
//!
//! It leases the site that is due. Is this a moment to fetch (reputation, a disk that keeps
//! up)? Is the queue here, the site still ours, not blocked, its name looked up? Whatever
//! fails gives the lease back, with a time to come again. Then comes the site's next task:
//! its robots rules, or a page. What has been fetched is noted in the ledger and goes on to
//! block 8; the site learns how long that took, and is given back with its next time.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;

use super::answers::status_kind;
use super::connection::{Connection, IdleConnections, Kept};
use super::fetch::{BodyLimit, FetchError, Fetcher, receipt};
use super::lane::{Lane, QUICK};
use super::robots_fetch::{RobotsFetch, RobotsOutcome, RobotsWay, Step};
use crate::activity::{How, Watched};
use crate::blocklist::BlockList;
use crate::canonical::CanonicalForm;
use crate::clock::{Clock, Millis};
use crate::config::Settings;
use crate::counters::{Counters, ErrorKind};
use crate::crawl::page_budget::Reservation;
use crate::crawl::{Crawl, Crawls, Unwanted};
use crate::crawl_jobs::{
    Addresses, CrawlJob, CrawlJobs, Lease, LeaseNote, SiteCell, SiteState, Task, TurnedAway,
    Unfinished,
};
use crate::distribution::{Key, Owner};
use crate::extractor::RobotsMeta;
use crate::ledger::{Capture, Captures, Ledger};
use crate::limits::Stopwatch;
use crate::page::PageRoom;
use crate::page_duplication::LocalPageDuplication;
use crate::politeness::{Courtesy, Outage, retry_after};
use crate::receipts::{Receipts, RobotsVerdict};
use crate::record::UrlRecord;
use crate::reputation::ReputationGuard;
use crate::resolver::NameService;
use crate::shield::shielded;
use crate::url_range_validator::UrlRangeValidator;

/// How long a site waits when all pages that may still be fetched are under way.
const BUDGET_PAUSE_MS: u64 = 20;

/// How long a site waits where all pages that may be fetched at all are complete: that does
/// not change while the crawl stays the same.
const SPENT_PAUSE_MS: u64 = 60_000;

/// How long a site waits that is another peer's by now.
const FOREIGN_PAUSE_MS: u64 = 100;

/// How long a site waits whose queue is on its way to the disk.
const DISK_PAUSE_MS: u64 = 60;

/// After so many waits it is clear that it is not.
const MOST_DISK_WAITS: u32 = 200;

/// What a downloader works with.
pub struct Downloader {
    /// Where work comes from.
    pub jobs: Arc<CrawlJobs>,
    /// Where pages go.
    pub duplication: Arc<LocalPageDuplication>,
    /// Where redirects go.
    pub range: Arc<UrlRangeValidator>,
    /// The crawls and their budgets.
    pub crawls: Arc<Crawls>,
    /// The canonical form of redirects.
    pub form: Arc<CanonicalForm>,
    /// Sends requests.
    pub fetcher: Fetcher,
    /// Knows names, for robots.txt that leads elsewhere.
    pub names: Arc<dyn NameService>,
    /// Connections that nobody uses at the moment.
    pub idle: Arc<IdleConnections>,
    /// Tells the handover thread of a site that is another peer's.
    pub foreign: Sender<()>,
    /// Memory for pages that wait.
    pub room: Arc<PageRoom>,
    /// Room for sites that are slow or unknown.
    pub lane: Arc<Lane>,
    /// What sites think of us.
    pub reputation: Arc<ReputationGuard>,
    /// Whether it is our line that fails.
    pub outage: Arc<Outage>,
    /// Sites that are not visited.
    pub blocklist: Arc<BlockList>,
    /// Where each request is written down.
    pub receipts: Receipts,
    /// The bounds.
    pub settings: Arc<Settings>,
    /// What has been done.
    pub counters: Arc<Counters>,
    /// What is kept of it.
    pub ledger: Arc<Ledger>,
    /// Hears whether a page may be archived.
    pub robots_meta: Arc<RobotsMeta>,
    /// Names exchanges that are archived.
    pub captures: Arc<Captures>,
    /// The time.
    pub clock: Clock,
}

/// A page on its way in, with what ends when it does.
pub(super) struct PageFetch {
    pub job: CrawlJob,
    pub crawl: Arc<Crawl>,
    pub unfinished: Unfinished,
    pub reservation: Reservation,
    pub watched: Watched,
    pub robots: RobotsVerdict,
    /// The hash of its host.
    pub key: u64,
}

/// A site at hand: leased, and its connection taken out.
struct AtHand {
    lease: Lease,
    connection: Connection,
    is_public: bool,
    /// How long it took to ask its server; none if it was not asked.
    took: Option<Duration>,
}

/// How a host failed.
#[derive(Clone, Copy)]
struct Failure {
    kind: ErrorKind,
    /// How long it asks to be left alone, if it says so.
    asked: Option<Duration>,
    took: Duration,
    /// How long it rests without blame, if it is our line that fails.
    outage: Option<Duration>,
}

impl Downloader {
    /// Works until the crawl-job queues are closed.
    pub fn run(&self) {
        while let Some(lease) = self.jobs.lease() {
            let (cell, note) = (lease.cell.clone(), lease.note());
            let host = || cell.lock().site.host().to_owned();
            if shielded(host, || self.work(lease)).is_none() {
                self.after_fault(&cell, note);
            }
        }
    }

    /// A fault of our own has cost a URL, if it was one that we were at. Its host rests as
    /// if it had failed, for the next URL may meet the same fault.
    fn after_fault(&self, cell: &SiteCell, note: LeaseNote) {
        let mut state = cell.lock();
        let Some(lease) = self.jobs.recover(note, &state) else {
            self.counters.error(ErrorKind::Fault).add(1);
            return;
        };
        let courtesy = Courtesy {
            settings: &self.settings.politeness,
            is_public: state.addresses.as_ref().is_none_or(|known| known.is_public),
        };
        let failure = Failure {
            kind: ErrorKind::Fault,
            asked: None,
            took: Duration::ZERO,
            outage: None,
        };
        // A host that is given up is one such error by itself.
        if self.rest(&mut state, failure, courtesy, self.clock.now_ms()) {
            self.counters.error(ErrorKind::Fault).add(1);
        }
        self.jobs.settle(lease, &mut state);
    }

    fn work(&self, lease: Lease) {
        let cell = lease.cell.clone();
        let has_turn = self.reputation.wait_for_turn();
        if !has_turn {
            self.jobs.settle(lease, &mut cell.lock());
            return;
        }
        self.ledger.wait_for_writer();
        match self.jobs.bring(&cell) {
            Ok(true) => {}
            Ok(false) => return self.wait_for_disk(lease),
            Err(error) => {
                tracing::error!("a queue cannot be read back: {error}");
                return self.wait_for_disk(lease);
            }
        }
        let mut state = cell.lock();
        (state.disk_waits, state.missed_at) = (0, None);
        let now_ms = self.clock.now_ms();
        if !state.stays && self.range.view.owner(Key(cell.key)) != Owner::Me {
            // It came in while its owner changed: it is the handover's to move.
            state.site.pace.next_fetch_ms = now_ms + FOREIGN_PAUSE_MS;
            self.jobs.settle(lease, &mut state);
            // Full means that the handover thread knows already.
            let _known = self.foreign.try_send(());
            return;
        }
        if self.blocklist.is_blocked(state.site.host()) {
            self.range.preprocessor.drop_blocked(&mut state);
            self.jobs.settle(lease, &mut state);
            return;
        }
        let _place = match (!state.is_quick).then(|| self.lane.enter(now_ms)) {
            Some(Err(at_ms)) => {
                state.site.pace.next_fetch_ms = at_ms;
                self.jobs.settle(lease, &mut state);
                return;
            }
            place => place,
        };
        let lifetime_ms = self.settings.network.dns_lifetime_secs * 1_000;
        let Some(addresses) = state
            .addresses
            .clone()
            .filter(|known| now_ms < known.resolved_ms + lifetime_ms)
        else {
            self.jobs.resolve(lease, &mut state);
            return;
        };
        let refuses = |record: &UrlRecord| {
            self.refuses_port(record, &addresses) || self.unwanted(record).is_some()
        };
        let turned_away = |job: CrawlJob, why| match why {
            TurnedAway::Robots => {
                self.counters.blocked_robots.add(1);
                let url = job.record.url.as_str();
                self.counters.activity.turned_away(url, How::Robots, "");
            }
            TurnedAway::Refused => match self.unwanted(&job.record) {
                Some(Unwanted::OutOfScope) => self.counters.out_of_scope.add(1),
                Some(Unwanted::Trap(trap)) => self.counters.trap(trap).add(1),
                None => self.counters.blocked_port.add(1),
            },
        };
        let (task, unfinished) = self.jobs.next_task(&mut state, refuses, turned_away);
        let at_hand = |lease, kept: Option<Kept>| AtHand {
            lease,
            connection: match kept {
                Some(kept) => self.idle.take(kept),
                None => self.fetcher.dialer.connection(addresses.allowed.clone()),
            },
            is_public: addresses.is_public,
            took: None,
        };
        match (task, unfinished) {
            (Task::Robots { origin }, _) => {
                let kept = state.connection.take();
                let way = state.robots_way.take();
                let fetch = RobotsFetch {
                    fetcher: &self.fetcher,
                    jobs: &self.jobs,
                    names: &self.names,
                    settings: &self.settings,
                    blocklist: &self.blocklist,
                    reputation: &self.reputation,
                    outage: &self.outage,
                    counters: &self.counters,
                    receipts: &self.receipts,
                    asked_by: state.site.first_asker(),
                    group: lease.group,
                    addresses: addresses.clone(),
                    clock: self.clock,
                };
                drop(state);
                let at_hand = at_hand(lease, kept);
                self.trim_idle();
                self.fetch_robots(at_hand, &fetch, &origin, way);
            }
            (Task::Page(mut job), Some(unfinished)) => {
                let Some(crawl) = self.crawls.in_force(job.record.crawl) else {
                    // A record from elsewhere whose crawl we take no part in.
                    self.counters.out_of_scope.add(1);
                    self.jobs.settle(lease, &mut state);
                    return;
                };
                // From here on it is that crawl's, and so are the links of its page.
                job.record.crawl = crawl.id;
                match crawl.budget.reserve() {
                    Some(reservation) => {
                        let kept = state.connection.take();
                        let robots = state.site.verdict(job.record.url.origin());
                        drop(state);
                        let at_hand = at_hand(lease, kept);
                        self.trim_idle();
                        let fetch = PageFetch {
                            watched: self.counters.activity.begin(job.record.url.as_str()),
                            robots,
                            key: cell.key,
                            job,
                            crawl,
                            unfinished,
                            reservation,
                        };
                        self.fetch_page(at_hand, fetch);
                    }
                    None => {
                        self.jobs.push_again(&mut state, job, unfinished);
                        match crawl.budget.is_spent() {
                            true => state.spent_until_ms = now_ms + self.spent_pause_ms(),
                            false => state.site.pace.next_fetch_ms = now_ms + BUDGET_PAUSE_MS,
                        }
                        self.jobs.settle(lease, &mut state);
                    }
                }
            }
            _ => self.jobs.settle(lease, &mut state),
        }
    }

    /// To wait for longer than the engine's patience would have it give up what waits, which
    /// is to be there when the crawl may fetch more.
    fn spent_pause_ms(&self) -> u64 {
        let patience_ms = self.settings.crawl.patience_secs * 1_000;
        patience_ms.clamp(BUDGET_PAUSE_MS, SPENT_PAUSE_MS)
    }

    /// What waits for a site is on its way to the disk, and cannot be read yet. If it
    /// does not come at all, the disk has lost it.
    fn wait_for_disk(&self, lease: Lease) {
        let cell = lease.cell.clone();
        let mut state = cell.lock();
        // What was on its way when it was first missed is what is waited for, however long
        // that takes.
        let noted = *state.missed_at.get_or_insert_with(|| self.ledger.noted());
        if self.ledger.has_written(noted) {
            state.disk_waits += 1;
        }
        if state.disk_waits > MOST_DISK_WAITS {
            let lost = self.jobs.lose_on_disk(&mut state);
            tracing::error!("{lost} URLs of {} are not on disk", state.site.host());
            self.counters.given_up.add(lost);
        }
        state.site.pace.next_fetch_ms = self.clock.now_ms() + DISK_PAUSE_MS;
        self.jobs.settle(lease, &mut state);
    }

    /// Public hosts are visited at the ports of the list only.
    fn refuses_port(&self, record: &UrlRecord, addresses: &Addresses) -> bool {
        addresses.is_public && !self.settings.network.ports.contains(&record.url.port())
    }

    /// Why a URL is no longer wanted, if the user has changed the rules of its crawl since
    /// it was queued.
    fn unwanted(&self, record: &UrlRecord) -> Option<Unwanted> {
        let crawl = self.crawls.in_force(record.crawl)?;
        if crawl.id == record.crawl {
            return None;
        }
        let rules = &crawl.rules;
        let judgement = rules.judge(&record.url, record.depth, record.redirects);
        judgement.err()
    }

    fn fetch_robots(
        &self,
        mut at_hand: AtHand,
        fetch: &RobotsFetch<'_>,
        origin: &str,
        way: Option<RobotsWay>,
    ) {
        let begun = Stopwatch::start();
        let step = fetch.step(origin, way, &mut at_hand.connection);
        let took = begun.elapsed();
        let outcome = match step {
            Step::Wait(way, at_ms) => {
                return self.settle(at_hand, |state, _, _| {
                    state.robots_way = Some(way);
                    state.site.pace.next_fetch_ms = at_ms;
                });
            }
            Step::Further(way) => {
                at_hand.took = Some(took);
                return self.settle(at_hand, |state, courtesy, now_ms| {
                    state.robots_way = Some(way);
                    let delay = state.site.crawl_delay(origin);
                    let pace = &mut state.site.pace;
                    pace.after_step(now_ms, took, delay, courtesy);
                });
            }
            Step::End(outcome) => outcome,
        };
        at_hand.took = Some(took);
        self.tell_of_robots(origin, &outcome);
        self.settle(at_hand, |state, courtesy, now_ms| match outcome {
            RobotsOutcome::Rules(rules) => {
                tracing::debug!("{origin}: robots.txt is read");
                state.site.set_rules(origin, rules, now_ms);
                let delay = state.site.crawl_delay(origin);
                let pace = &mut state.site.pace;
                pace.after_answer(now_ms, took, delay, courtesy);
                state.is_quick = took < QUICK;
            }
            RobotsOutcome::Busy {
                status,
                retry_after: header,
            } => {
                let asked = header
                    .as_deref()
                    .and_then(|value| retry_after(value, now_ms));
                let kind = status_kind(status);
                let failure = self.failure(state.key.0, kind, asked, took);
                let goes_on = self.rest(state, failure, courtesy, now_ms);
                self.counters.retries.add(goes_on.into());
            }
            // It will be asked for again.
            RobotsOutcome::Failed(FetchError::CutOff) => {
                state.site.pace.after_cut(now_ms, courtesy);
            }
            RobotsOutcome::Failed(error) => {
                tracing::debug!("{origin}/robots.txt: {error}");
                match error.kind() {
                    None => {
                        let drained = self.jobs.drain(state);
                        self.counters.blocked_address.add(drained);
                    }
                    // It will not prove who it is a moment later either. The host may
                    // still have other origins.
                    Some(ErrorKind::Tls) => {
                        self.counters.error(ErrorKind::Tls).add(1);
                        state.site.counters.errors += 1;
                        let dropped = self.jobs.drop_origin(state, origin);
                        self.counters.given_up.add(dropped);
                        let pace = &mut state.site.pace;
                        pace.after_answer(now_ms, took, None, courtesy);
                    }
                    Some(kind) => {
                        let failure = self.failure(state.key.0, kind, None, took);
                        let goes_on = self.rest(state, failure, courtesy, now_ms);
                        self.counters.retries.add(goes_on.into());
                    }
                }
            }
        });
    }

    /// Tells whoever looks on why nothing of an origin is fetched: no page of it will.
    fn tell_of_robots(&self, origin: &str, outcome: &RobotsOutcome) {
        let (how, detail) = match outcome {
            RobotsOutcome::Rules(_) | RobotsOutcome::Failed(FetchError::CutOff) => return,
            RobotsOutcome::Busy { status, .. } => (
                How::Failed(status_kind(*status)),
                format!("robots.txt: {status}"),
            ),
            RobotsOutcome::Failed(error) => (
                error.kind().map_or(How::Private, How::Failed),
                format!("robots.txt: {error}"),
            ),
        };
        let url = format!("{origin}/");
        self.counters.activity.turned_away(&url, how, &detail);
    }

    /// How the host failed whose name hashes to `key`.
    fn failure(
        &self,
        key: u64,
        kind: ErrorKind,
        asked: Option<Duration>,
        took: Duration,
    ) -> Failure {
        Failure {
            kind,
            asked,
            took,
            outage: self.outage.failed(key, kind, self.clock.now_ms()),
        }
    }

    /// The host failed as a whole: it rests, and is given up when it has failed too
    /// often. Tells whether it will be asked again.
    fn rest(
        &self,
        state: &mut SiteState,
        failure: Failure,
        courtesy: Courtesy<'_>,
        now_ms: Millis,
    ) -> bool {
        let Failure {
            kind, asked, took, ..
        } = failure;
        let jitter = jitter(state);
        state.site.mark_changed();
        if let Some(rest) = failure.outage {
            state.site.pace.after_outage(now_ms, rest, jitter);
            state.failing = Some(kind);
            tracing::debug!("{} rests: no site answers at present", state.site.host());
            return true;
        }
        let pace = &mut state.site.pace;
        pace.after_failure(now_ms, took, asked, jitter, courtesy);
        state.failing = Some(kind);
        state.is_quick = false;
        let is_given_up = pace.is_given_up(&self.settings.politeness);
        if is_given_up {
            tracing::info!("giving up {}: {}", state.site.host(), kind.name());
            self.jobs.give_up(state, kind);
        } else {
            tracing::debug!("{} rests: {}", state.site.host(), kind.name());
        }
        !is_given_up
    }

    fn fetch_page(&self, mut at_hand: AtHand, fetch: PageFetch) {
        let limit = BodyLimit::Whole(self.settings.network.max_body_bytes);
        let url = fetch.job.record.url.as_str();
        let begun = Stopwatch::start();
        let at_ms = self.clock.now_ms();
        if self.ledger.archives() {
            at_hand.connection.tape.start();
        }
        let result = self.fetcher.get(&mut at_hand.connection, url, limit);
        let took = begun.elapsed();
        if result.is_ok() {
            self.outage.answered();
        }
        at_hand.took = Some(took);
        self.receipts.give(|| {
            let asked_by = fetch.job.record.from.as_deref().copied();
            let what = (at_hand.connection.heard, result.as_ref().err());
            receipt(at_ms, url, what, fetch.robots, asked_by)
        });
        let capture = self.capture(&at_hand.connection, at_ms, result.as_ref().err());
        match result {
            Ok(answer) if matches!(answer.status, 429 | 503) => {
                let asked = answer.retry_after.as_deref();
                let asked = asked.and_then(|value| retry_after(value, self.clock.now_ms()));
                let kind = status_kind(answer.status);
                let detail = || format!("{}: asks to wait", answer.status);
                fetch.watched.end(How::Failed(kind), detail, 0);
                self.note_treatment(&fetch, answer.status, &answer.body);
                let failure = self.failure(fetch.key, kind, asked, took);
                self.try_again(at_hand, fetch, failure, capture);
            }
            Ok(answer) => {
                self.settle(at_hand, |state, courtesy, now_ms| {
                    let delay = state.site.crawl_delay(fetch.job.record.url.origin());
                    if state.site.pace.failures > 0 {
                        state.site.mark_changed();
                    }
                    let pace = &mut state.site.pace;
                    pace.after_answer(now_ms, took, delay, courtesy);
                    state.is_quick = took < QUICK;
                    match answer.status {
                        200..=299 => state.site.counters.fetched += 1,
                        300..=399 => {}
                        _ => state.site.counters.errors += 1,
                    }
                });
                self.take_answer(fetch, answer, capture);
            }
            Err(FetchError::AddressRefused(why)) => {
                tracing::warn!("{url}: {why}");
                self.counters.blocked_address.add(1);
                fetch.watched.end(How::Private, String::new, 0);
                self.settle(at_hand, |state, courtesy, now_ms| {
                    let delay = state.site.crawl_delay(fetch.job.record.url.origin());
                    let pace = &mut state.site.pace;
                    pace.after_answer(now_ms, took, delay, courtesy);
                });
            }
            // The page waits again, as if it had not been begun.
            Err(FetchError::CutOff) => {
                let PageFetch {
                    job, unfinished, ..
                } = fetch;
                self.settle(at_hand, |state, courtesy, now_ms| {
                    state.site.pace.after_cut(now_ms, courtesy);
                    self.jobs.push_again(state, job, unfinished);
                });
            }
            Err(FetchError::Failed(kind, why)) => {
                tracing::debug!("{url}: {why}");
                fetch.watched.end(How::Failed(kind), || why.to_string(), 0);
                match kind {
                    // The server answered, and would answer the same again.
                    ErrorKind::TooLarge | ErrorKind::Tls | ErrorKind::ContentType => {
                        self.archive(&fetch.job, capture);
                        self.counters.error(kind).add(1);
                        self.settle(at_hand, |state, courtesy, now_ms| {
                            state.site.counters.errors += 1;
                            let delay = state.site.crawl_delay(fetch.job.record.url.origin());
                            let pace = &mut state.site.pace;
                            pace.after_answer(now_ms, took, delay, courtesy);
                        });
                    }
                    _ => {
                        let failure = self.failure(fetch.key, kind, None, took);
                        self.try_again(at_hand, fetch, failure, capture);
                    }
                }
            }
        }
    }

    /// Puts a page back to be tried again after a rest, unless it was tried often
    /// enough: then it is an error of this kind. If its host is given up, that is the
    /// error, and the page is one of those that are given up with it.
    fn try_again(
        &self,
        at_hand: AtHand,
        fetch: PageFetch,
        failure: Failure,
        capture: Option<Capture>,
    ) {
        let kind = failure.kind;
        let PageFetch {
            mut job,
            unfinished,
            ..
        } = fetch;
        if failure.outage.is_none() {
            job.attempts += 1;
        }
        if job.attempts >= self.settings.politeness.max_attempts {
            // The archive holds the answer with which a URL was done.
            self.archive(&job, capture);
        }
        self.settle(at_hand, |state, courtesy, now_ms| {
            if !self.rest(state, failure, courtesy, now_ms) {
                self.counters.given_up.add(1);
            } else if job.attempts >= self.settings.politeness.max_attempts {
                self.counters.error(kind).add(1);
                state.site.counters.errors += 1;
            } else {
                self.counters.retries.add(1);
                self.jobs.push_again(state, job, unfinished);
            }
        });
    }

    /// Puts the connection down, lets `update` change the site, and ends the lease.
    fn settle(&self, at_hand: AtHand, update: impl FnOnce(&mut SiteState, Courtesy<'_>, Millis)) {
        let AtHand {
            lease,
            connection,
            is_public,
            took,
        } = at_hand;
        let cell = lease.cell.clone();
        let now_ms = self.clock.now_ms();
        let courtesy = Courtesy {
            settings: &self.settings.politeness,
            is_public,
        };
        let keeps = connection.was_used && self.settings.network.idle_connections > 0;
        let mut state = cell.lock();
        state.connection = keeps.then(|| self.idle.keep(&cell, connection, now_ms));
        if let Some(took) = took {
            state.address_free_ms = now_ms + courtesy.delay_ms(took, None);
        }
        update(&mut state, courtesy, now_ms);
        self.jobs.settle(lease, &mut state);
        drop(state);
        self.trim_idle();
    }

    /// Keeps to the volunteer's limit of connections, in which those that nobody uses count.
    fn trim_idle(&self) {
        self.idle.trim(self.jobs.room_for_idle());
    }
}

/// So that hosts which failed together do not come back together.
fn jitter(state: &SiteState) -> u64 {
    let failures = u64::from(state.site.pace.failures);
    (state.key.0 ^ failures).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}
