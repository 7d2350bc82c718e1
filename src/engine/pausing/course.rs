//! The way from what is done to what is wanted, step by step: pure, so that a test can go
//! through a day of pauses in a millisecond.
//!
//! In go the reason why this peer should not run, if there is one ([`why`]), what is still
//! under way, and the time; out come the [`Act`]s that are due. A course is at one
//! [`Standing`] at a time, and whoever steers by it does each act once.

use crate::clock::Millis;
use crate::conditions::{Reason, Verdict};
use crate::limits::QuotaState;

/// What is under way when a pause begins has so long to end.
const GRACE_MS: Millis = 4_000;
/// What was cut has ended after this time, or holds nobody up any more.
const CUT_MS: Millis = 750;
/// URLs that wait for receipts have so long to get them before this peer leaves.
const RECEIPTS_MS: Millis = 5_000;
/// Goodbye is said within this time; before, nothing is shut, and nobody joins again.
const GOODBYE_MS: Millis = 3_000;
/// A pause that lasts longer is not short any more.
const LONG_PAUSE_MS: Millis = 10 * 60_000;

/// What the volunteer wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wish {
    /// Crawl.
    #[default]
    Run,
    /// Stop fetching, stay in the network.
    Pause,
    /// Complete what is under way, then leave the network.
    Finish,
}

/// What the engine does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// It fetches.
    #[default]
    Running,
    /// It begins no fetch any more; some are still under way.
    Stopping,
    /// It is a member, and fetches nothing.
    Paused,
    /// It has left the network, and sends nothing. It joins again when it may run.
    Left,
}

/// Why it does not fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyStopped {
    /// The data of the thirty days is used up.
    QuotaUsed {
        /// When the next thirty days begin.
        until_ms: Millis,
    },
    /// The volunteer wants it to finish.
    Finish,
    /// The volunteer wants a pause.
    Volunteer,
    /// This is no moment to crawl.
    Conditions(Reason),
}

/// What the engine does, and why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunState {
    /// What it does.
    pub standing: Standing,
    /// Why it does not fetch, or should not.
    pub why: Option<WhyStopped>,
    /// Fetches that are under way.
    pub fetches: usize,
}

/// What is still being worked on.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnderWay {
    pub(super) fetches: usize,
    /// URLs that are neither in a queue nor in the outbox: their pages are being read.
    pub(super) pages: u64,
    pub(super) receipts: usize,
}

/// One step on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Begin no fetch any more.
    Hold,
    /// Begin fetches again.
    Release,
    /// Cut what is under way.
    Cut,
    /// Tell the others that we own nothing, and keep what we have for now.
    Retire,
    /// Tell the others that we own our part again.
    Return,
    /// Hand what we have over to the others.
    HandOver,
    /// Leave the network.
    Leave,
    /// Join it again.
    Join,
    /// Let nothing pass the limits.
    Shut,
    /// Let everything pass that is within them.
    Open,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Course {
    pub(super) standing: Standing,
    since_ms: Millis,
    is_cut: bool,
    is_handed_over: bool,
    is_shut: bool,
    /// Whether somebody is about to join again.
    is_joining: bool,
}

/// The strongest reason not to run.
pub(super) fn why(wish: Wish, verdict: Verdict, quota: &QuotaState) -> Option<WhyStopped> {
    if quota.is_used_up() {
        return Some(WhyStopped::QuotaUsed {
            until_ms: quota.renews_ms,
        });
    }
    match (wish, verdict) {
        (Wish::Finish, _) => Some(WhyStopped::Finish),
        (Wish::Pause, _) => Some(WhyStopped::Volunteer),
        (Wish::Run, Verdict::Pause(reason)) => Some(WhyStopped::Conditions(reason)),
        (Wish::Run, Verdict::Run) => None,
    }
}

impl WhyStopped {
    /// How long what is under way has before it is cut; `None` for as long as it takes.
    fn grace_ms(self) -> Option<Millis> {
        match self {
            Self::QuotaUsed { .. } => Some(0),
            Self::Finish => None,
            Self::Volunteer | Self::Conditions(_) => Some(GRACE_MS),
        }
    }

    fn leaves(self) -> bool {
        match self {
            Self::QuotaUsed { .. } | Self::Finish | Self::Conditions(Reason::Metered) => true,
            Self::Volunteer | Self::Conditions(_) => false,
        }
    }
}

impl Course {
    /// The next steps, given why it should not run, if it should not.
    pub(super) fn step(
        &mut self,
        why: Option<WhyStopped>,
        under_way: UnderWay,
        now_ms: Millis,
    ) -> Vec<Act> {
        let mut acts = Vec::new();
        match (self.standing, why) {
            (Standing::Running, None) => {}
            (Standing::Left, _) if self.is_joining => {}
            (Standing::Left, why) => self.stay_away(why, now_ms, &mut acts),
            (Standing::Running, Some(why)) => {
                self.enter(Standing::Stopping, now_ms);
                acts.push(Act::Hold);
                self.stop(why, under_way, now_ms, &mut acts);
            }
            (Standing::Stopping, Some(why)) => self.stop(why, under_way, now_ms, &mut acts),
            (Standing::Stopping, None) => {
                self.enter(Standing::Running, now_ms);
                acts.push(Act::Release);
            }
            (Standing::Paused, None) => {
                self.enter(Standing::Running, now_ms);
                acts.extend([Act::Return, Act::Release]);
            }
            (Standing::Paused, Some(why)) if why.leaves() => self.leave(now_ms, &mut acts),
            (Standing::Paused, Some(_)) => {
                let lasted_ms = now_ms.saturating_sub(self.since_ms);
                if lasted_ms >= LONG_PAUSE_MS && !self.is_handed_over {
                    self.is_handed_over = true;
                    acts.push(Act::HandOver);
                }
            }
        }
        acts
    }

    fn enter(&mut self, standing: Standing, now_ms: Millis) {
        *self = Self {
            standing,
            since_ms: now_ms,
            is_shut: self.is_shut,
            ..Self::default()
        };
    }

    fn stop(&mut self, why: WhyStopped, under_way: UnderWay, now_ms: Millis, acts: &mut Vec<Act>) {
        let lasted_ms = now_ms.saturating_sub(self.since_ms);
        let has_ended = match why.grace_ms() {
            Some(grace_ms) => {
                if under_way.fetches > 0 && lasted_ms >= grace_ms && !self.is_cut {
                    self.is_cut = true;
                    acts.push(Act::Cut);
                }
                under_way.fetches == 0 || lasted_ms >= grace_ms + CUT_MS
            }
            None => {
                let has_receipts = under_way.receipts == 0 || lasted_ms >= RECEIPTS_MS;
                under_way.fetches == 0 && under_way.pages == 0 && has_receipts
            }
        };
        if has_ended && why.leaves() {
            self.leave(now_ms, acts);
        } else if has_ended {
            self.enter(Standing::Paused, now_ms);
            acts.push(Act::Retire);
        }
    }

    fn leave(&mut self, now_ms: Millis, acts: &mut Vec<Act>) {
        self.enter(Standing::Left, now_ms);
        acts.push(Act::Leave);
    }

    /// Once goodbye is said: shuts the limits, or comes back.
    fn stay_away(&mut self, why: Option<WhyStopped>, now_ms: Millis, acts: &mut Vec<Act>) {
        if now_ms.saturating_sub(self.since_ms) < GOODBYE_MS {
            return;
        }
        match why {
            Some(_) if !self.is_shut => {
                self.is_shut = true;
                acts.push(Act::Shut);
            }
            Some(_) => {}
            None => {
                self.is_shut = false;
                self.is_joining = true;
                acts.extend([Act::Open, Act::Join]);
            }
        }
    }

    /// It is a member again: the next steps, given why it should not run, if it should not by
    /// now.
    pub(super) fn joined(&mut self, why: Option<WhyStopped>, now_ms: Millis) -> Vec<Act> {
        match why {
            None => {
                self.enter(Standing::Running, now_ms);
                vec![Act::Return, Act::Release]
            }
            // From there it leaves, if it is to.
            Some(_) => {
                self.enter(Standing::Paused, now_ms);
                vec![Act::Retire]
            }
        }
    }

    /// To join again did not work: it is tried once more in a while.
    pub(super) fn join_failed(&mut self, now_ms: Millis) {
        self.enter(Standing::Left, now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: UnderWay = UnderWay {
        fetches: 3,
        pages: 3,
        receipts: 9,
    };
    const IDLE: UnderWay = UnderWay {
        fetches: 0,
        pages: 0,
        receipts: 0,
    };
    const PAUSE: Option<WhyStopped> = Some(WhyStopped::Volunteer);
    const QUOTA: Option<WhyStopped> = Some(WhyStopped::QuotaUsed { until_ms: 0 });

    #[test]
    fn a_pause_gives_fetches_a_while_and_then_cuts_them() {
        let mut course = Course::default();
        assert_eq!(course.step(PAUSE, BUSY, 1_000), [Act::Hold]);
        assert_eq!(course.step(PAUSE, BUSY, 4_999), []);
        assert_eq!(course.step(PAUSE, BUSY, 5_000), [Act::Cut]);
        assert_eq!(course.step(PAUSE, BUSY, 5_250), []);
        assert_eq!(course.step(PAUSE, IDLE, 5_500), [Act::Retire]);
        assert_eq!(course.standing, Standing::Paused);
        assert_eq!(course.step(None, IDLE, 9_000), [Act::Return, Act::Release]);
        assert_eq!(course.standing, Standing::Running);
    }

    #[test]
    fn a_fetch_that_cannot_be_cut_holds_nobody_up() {
        let mut course = Course::default();
        course.step(PAUSE, BUSY, 0);
        course.step(PAUSE, BUSY, 4_000);
        assert_eq!(course.step(PAUSE, BUSY, 4_999), [Act::Retire]);
    }

    #[test]
    fn a_change_of_mind_before_the_pause_is_there_tells_nobody() {
        let mut course = Course::default();
        course.step(PAUSE, BUSY, 0);
        assert_eq!(course.step(None, BUSY, 100), [Act::Release]);
        assert_eq!(course.step(None, BUSY, 9_000), []);
    }

    #[test]
    fn a_long_pause_hands_over_once() {
        let mut course = Course::default();
        assert_eq!(course.step(PAUSE, IDLE, 0), [Act::Hold, Act::Retire]);
        assert_eq!(course.step(PAUSE, IDLE, LONG_PAUSE_MS - 1), []);
        assert_eq!(course.step(PAUSE, IDLE, LONG_PAUSE_MS), [Act::HandOver]);
        assert_eq!(course.step(PAUSE, IDLE, 2 * LONG_PAUSE_MS), []);
    }

    #[test]
    fn to_finish_is_to_complete_and_then_to_leave() {
        let finish = Some(WhyStopped::Finish);
        let mut course = Course::default();
        assert_eq!(course.step(finish, BUSY, 0), [Act::Hold]);
        assert_eq!(course.step(finish, BUSY, 60_000), []);
        let reading = UnderWay { pages: 1, ..IDLE };
        assert_eq!(course.step(finish, reading, 61_000), []);
        assert_eq!(course.step(finish, IDLE, 61_001), [Act::Leave]);
        assert_eq!(course.standing, Standing::Left);
        // Receipts are waited for, but not forever.
        let mut course = Course::default();
        let unsure = UnderWay {
            receipts: 5,
            ..IDLE
        };
        assert_eq!(course.step(finish, unsure, 0), [Act::Hold]);
        assert_eq!(course.step(finish, unsure, RECEIPTS_MS), [Act::Leave]);
    }

    #[test]
    fn a_used_up_quota_leaves_at_once_and_shuts_after_goodbye() {
        let mut course = Course::default();
        assert_eq!(course.step(QUOTA, BUSY, 0), [Act::Hold, Act::Cut]);
        assert_eq!(course.step(QUOTA, IDLE, 250), [Act::Leave]);
        assert_eq!(course.step(QUOTA, IDLE, 3_249), []);
        assert_eq!(course.step(QUOTA, IDLE, 3_250), [Act::Shut]);
        assert_eq!(course.step(QUOTA, IDLE, 3_500), []);
        // Also out of a pause.
        let mut course = Course::default();
        course.step(PAUSE, IDLE, 0);
        assert_eq!(course.step(QUOTA, IDLE, 1), [Act::Leave]);
    }

    #[test]
    fn whoever_has_left_comes_back_and_tries_until_it_works() {
        let mut course = Course::default();
        course.step(QUOTA, IDLE, 0);
        course.step(QUOTA, IDLE, 5_000);
        let back = [Act::Open, Act::Join];
        assert_eq!(course.step(None, IDLE, 6_000), back);
        course.join_failed(6_000);
        assert_eq!(course.step(None, IDLE, 8_999), []);
        assert_eq!(course.step(None, IDLE, 9_000), back);
        assert_eq!(course.standing, Standing::Left, "not yet");
        assert_eq!(course.step(None, IDLE, 9_500), [], "somebody is about to");
        assert_eq!(course.joined(None, 10_000), [Act::Return, Act::Release]);
        assert_eq!(course.standing, Standing::Running);
        assert_eq!(course.step(None, IDLE, 20_000), []);
    }

    /// Nobody could change their mind, or ask what the engine does, while it joined again.
    #[test]
    fn whoever_joins_again_does_what_is_wanted_by_then() {
        let joining = || {
            let mut course = Course::default();
            course.step(QUOTA, IDLE, 0);
            assert_eq!(course.step(None, IDLE, 6_000), [Act::Open, Act::Join]);
            course
        };
        let mut course = joining();
        assert_eq!(course.step(PAUSE, IDLE, 7_000), []);
        assert_eq!(course.joined(PAUSE, 8_000), [Act::Retire]);
        assert_eq!(course.standing, Standing::Paused);
        let back = [Act::Return, Act::Release];
        assert_eq!(course.step(None, IDLE, 9_000), back);
        let mut course = joining();
        assert_eq!(course.step(QUOTA, IDLE, 7_000), []);
        assert_eq!(course.joined(QUOTA, 8_000), [Act::Retire]);
        assert_eq!(course.step(QUOTA, IDLE, 8_250), [Act::Leave]);
        assert_eq!(course.step(QUOTA, IDLE, 11_250), [Act::Shut]);
    }

    #[test]
    fn a_metered_line_pauses_and_then_leaves() {
        let metered = Some(WhyStopped::Conditions(Reason::Metered));
        let mut course = Course::default();
        assert_eq!(course.step(metered, BUSY, 0), [Act::Hold]);
        assert_eq!(course.step(metered, BUSY, 4_000), [Act::Cut]);
        assert_eq!(course.step(metered, BUSY, 4_750), [Act::Leave]);
    }

    #[test]
    fn the_strongest_reason_is_told() {
        let used = QuotaState {
            used_bytes: 2,
            limit_bytes: 1,
            renews_ms: 7,
            reached_ms: None,
            is_pace_known: true,
        };
        let free = QuotaState::default();
        let battery = Verdict::Pause(Reason::OnBattery);
        assert_eq!(why(Wish::Run, Verdict::Run, &free), None);
        let by_battery = Some(WhyStopped::Conditions(Reason::OnBattery));
        assert_eq!(why(Wish::Run, battery, &free), by_battery);
        assert_eq!(why(Wish::Pause, battery, &free), PAUSE);
        let by_quota = Some(WhyStopped::QuotaUsed { until_ms: 7 });
        assert_eq!(why(Wish::Finish, battery, &used), by_quota);
    }
}
