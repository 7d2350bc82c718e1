//! Pausing, going on, finishing and leaving: who wants what, and the way there.
//!
//! The volunteer has a [`Wish`], the conditions have a verdict, and the quota may be used
//! up. Together they make a goal, and a `Course` (`course`), which is told the time and touches
//! nothing, says which `Act`s lead there:
//!
//! - *Pause* begins no fetch any more, at once. What is under way has a few seconds and is
//!   then cut, to be fetched again later. Then this peer tells the others that it owns
//!   nothing, and membership is all that remains. A short pause hands nothing over; what
//!   waits at a peer that pauses for long goes to the others.
//! - *Finish* lets what is under way be completed, and its links be stored, and leaves.
//! - A metered line pauses, and then leaves. A used-up quota cuts and leaves at once. Once
//!   goodbye is said, nothing passes the limits any more.
//!
//! A peer that has left joins again when it may run again. That can take seconds, and is done
//! by nobody but the tick; who wants what meanwhile is looked at when it is done.

mod course;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crossbeam_channel::Sender;
use parking_lot::Mutex;
use peercrawl_overlay::Overlay;

use course::{Act, Course, UnderWay, why};
pub use course::{RunState, Standing, WhyStopped, Wish};

use super::capacity::Capacity;
use super::{View, members};
use crate::clock::Clock;
use crate::conditions::Verdict;
use crate::config;
use crate::crawl_jobs::CrawlJobs;
use crate::downloader::connection::Dialer;
use crate::handing_on::Outbox;
use crate::handover::Arrivals;
use crate::limits::Limits;
use crate::resolver::ResolveQueue;

/// What a course is steered with.
pub struct Pausing {
    /// Whose fetches begin or not.
    pub jobs: Arc<CrawlJobs>,
    /// Whose names are looked up or not.
    pub resolve: Arc<ResolveQueue>,
    /// What waits for receipts.
    pub outbox: Arc<Outbox>,
    /// Cuts what is under way.
    pub dialer: Dialer,
    /// The other peers.
    pub overlay: Arc<dyn Overlay>,
    /// Who owns what.
    pub view: Arc<View>,
    /// What waits when our part grows.
    pub arrivals: Arc<Arrivals>,
    /// What we say about ourselves.
    pub distribution: config::Distribution,
    /// How large a part we offer to take.
    pub capacity: Mutex<Capacity>,
    /// The quota, and what is shut when it is used up.
    pub limits: Arc<Limits>,
    /// Whether nothing is handed over or handed on although we own nothing.
    pub keeps_to_itself: Arc<AtomicBool>,
    /// Wakes the handover thread.
    pub changed: Sender<()>,
    /// The time.
    pub clock: Clock,
    /// Who wants what. Held while the acts are done, so that two changes of mind cannot
    /// overtake each other. None of them waits but the one that joins again: it is done while
    /// nobody holds this.
    pub mind: Mutex<Mind>,
}

/// Who wants what, and how far it has come.
#[derive(Debug, Default)]
pub struct Mind {
    wish: Wish,
    verdict: Verdict,
    course: Course,
}

impl Pausing {
    /// The volunteer wants something else; the first step is done at once.
    pub fn set_wish(&self, wish: Wish) {
        self.change(false, |mind| mind.wish = wish);
    }

    /// The conditions have changed; the first step is done at once.
    pub fn set_verdict(&self, verdict: Verdict) {
        self.change(false, |mind| mind.verdict = verdict);
    }

    /// Fetches, unless there is a reason not to.
    pub fn let_go(&self) {
        let mind = self.mind.lock();
        if mind.course.standing == Standing::Running {
            self.set_paused(false);
        }
    }

    /// Goes on; to be called a few times a second. Waits while this peer joins again.
    pub fn tick(&self) {
        self.change(true, |_| {});
        self.follow_limit();
        if self.keeps_to_itself.load(Relaxed) && self.owns_a_part() && self.is_running() {
            self.hand_over();
        }
    }

    /// From now on what is not ours goes to its owners.
    fn hand_over(&self) {
        self.keeps_to_itself.store(false, Relaxed);
        // Full means that the handover thread will look anyway.
        let _known = self.changed.try_send(());
    }

    /// What the engine does, and why.
    pub fn state(&self) -> RunState {
        let quota = self.limits.quota(self.clock.now_ms());
        let mind = self.mind.lock();
        RunState {
            standing: mind.course.standing,
            why: why(mind.wish, mind.verdict, &quota),
            fetches: self.jobs.activity().leased,
        }
    }

    fn is_running(&self) -> bool {
        self.mind.lock().course.standing == Standing::Running
    }

    fn owns_a_part(&self) -> bool {
        let me = self.overlay.me();
        let ownership = self.view.current();
        let mut members = ownership.members().iter();
        members.any(|member| member.id == me && member.capacity > 0)
    }

    fn change(&self, may_wait: bool, change: impl FnOnce(&mut Mind)) {
        let now_ms = self.clock.now_ms();
        let quota = self.limits.quota(now_ms);
        let mut mind = self.mind.lock();
        change(&mut mind);
        let why = why(mind.wish, mind.verdict, &quota);
        let may_step = match mind.course.standing {
            Standing::Running => why.is_some(),
            // The next step is to join.
            Standing::Left => why.is_some() || may_wait,
            Standing::Stopping | Standing::Paused => true,
        };
        if !may_step {
            return;
        }
        let under_way = self.under_way();
        let acts = mind.course.step(why, under_way, now_ms);
        for &act in &acts {
            self.act(act);
        }
        drop(mind);
        if acts.contains(&Act::Join) {
            self.join();
        }
    }

    /// Joins again, and does what is wanted by then.
    fn join(&self) {
        let has_joined = self.overlay.rejoin();
        let now_ms = self.clock.now_ms();
        let quota = self.limits.quota(now_ms);
        let mut mind = self.mind.lock();
        if !has_joined {
            mind.course.join_failed(now_ms);
            return;
        }
        // Whatever was met so far does not count: what was ours has long been others', and
        // some of it was said by the overlay that was left. Nothing is fetched yet.
        self.arrivals.start_anew();
        self.arrivals.look_around(&*self.overlay);
        self.view.refresh();
        let _known = self.changed.try_send(());
        let why = why(mind.wish, mind.verdict, &quota);
        for act in mind.course.joined(why, now_ms) {
            self.act(act);
        }
    }

    /// Tells the others if the download limit has changed what we can take.
    fn follow_limit(&self) {
        let limit_kib = self.limits.values().download_kib;
        // Held, so that nobody retires between the question and the announcement.
        let mind = self.mind.lock();
        let changed = self.capacity.lock().follow(limit_kib, self.clock.now_ms());
        let is_there = matches!(mind.course.standing, Standing::Running | Standing::Stopping);
        if let Some(capacity) = changed.filter(|_| is_there) {
            tracing::info!("this peer's part follows its download limit: {capacity} of 16");
            self.announce(capacity);
        }
    }

    fn announce(&self, capacity: u8) {
        // Before anybody knows: what becomes ours may still be fetched from by others.
        let offer = self.arrivals.offer(capacity);
        let part = members::announcement(&self.distribution, offer);
        // Who rests owns nothing, and does nothing for others either.
        self.overlay.serve_others(capacity > 0);
        self.overlay.announce(part);
    }

    fn under_way(&self) -> UnderWay {
        let receipts = self.outbox.len();
        let waiting = (self.jobs.queued() + receipts) as u64;
        UnderWay {
            fetches: self.jobs.activity().leased,
            pages: self.jobs.outstanding.count().saturating_sub(waiting),
            receipts,
        }
    }

    fn set_paused(&self, is_paused: bool) {
        self.jobs.set_paused(is_paused);
        self.resolve.set_paused(is_paused);
    }

    fn act(&self, act: Act) {
        match act {
            Act::Hold => self.set_paused(true),
            Act::Release => self.set_paused(false),
            Act::Cut => self.dialer.cut_all(),
            Act::Retire => {
                self.keeps_to_itself.store(true, Relaxed);
                self.announce(0);
            }
            Act::Return => {
                let capacity = self.capacity.lock().current();
                self.announce(capacity);
            }
            Act::HandOver => self.hand_over(),
            Act::Leave => {
                self.keeps_to_itself.store(true, Relaxed);
                self.overlay.leave();
            }
            // Done by whoever looks at the acts, once nobody's mind is held.
            Act::Join => {}
            Act::Shut => self.limits.set_shut(true),
            Act::Open => self.limits.set_shut(false),
        }
    }
}
