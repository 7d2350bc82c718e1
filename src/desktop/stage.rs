//! What the crawl does, and why: from facts to the one sentence of the status bar.

use peercrawl_ui::model::{PauseReason, RunState, WaitReason};
use serde::{Deserialize, Serialize};

/// What the volunteer wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wish {
    /// Nothing.
    #[default]
    Stopped,
    /// To crawl.
    Crawl,
    /// To pause, for a time or until they say otherwise.
    Pause {
        /// When it goes on by itself, in milliseconds since 1970.
        until_ms: Option<u64>,
    },
}

/// How far the engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// There is none.
    Absent,
    /// It starts.
    Starting,
    /// It is there.
    Present,
    /// It completes what is under way.
    Finishing,
    /// It leaves.
    Ending,
}

/// What is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The time.
    pub now_ms: u64,
    /// What the volunteer wants.
    pub wish: Wish,
    /// How far the engine is.
    pub stage: Stage,
    /// What keeps it from running, besides the volunteer.
    pub hold: Option<PauseReason>,
    /// What it cannot go on with without the volunteer.
    pub trouble: Option<String>,
    /// Whether it tries by itself to start in spite of that.
    pub tries_again: bool,
    /// Fetches under way.
    pub fetching: usize,
    /// URLs that are not done with.
    pub outstanding: u64,
    /// When the first host may be visited.
    pub next_ms: Option<u64>,
    /// How long no page has come although nothing kept it from fetching.
    pub idle_ms: u64,
    /// How long not a byte has come, from anybody.
    pub silent_ms: u64,
    /// Whether no host that was tried can be reached.
    pub all_fail: bool,
    /// How long it has been out of the network although nothing keeps it from joining.
    pub away_ms: u64,
    /// Whether it fetches nothing yet because others may still be at hosts that become its own.
    pub is_catching_up: bool,
    /// Whether every crawl has fetched as many pages as it may.
    pub has_all_pages: bool,
    /// Whether the volunteer's limits may keep a host waiting that could be visited.
    pub is_limited: bool,
}

/// Nothing for so long is worth a word; less is the usual pause between two pages.
pub const WORTH_SAYING_MS: u64 = 5_000;
/// A computer to which nobody says anything for so long has no connection.
const OFFLINE_MS: u64 = 60_000;

impl Facts {
    /// What it does, and why.
    pub fn state(&self) -> RunState {
        match self.stage {
            Stage::Absent => match (&self.trouble, self.wish) {
                (Some(trouble), _) => self.cannot_start(trouble),
                (None, Wish::Crawl) => RunState::Starting,
                _ => RunState::Stopped,
            },
            // One that leaves although it is wanted starts again; one that has failed to start
            // and tries again is no news until it works.
            Stage::Starting | Stage::Ending => match (&self.trouble, self.wish) {
                (_, Wish::Stopped) => RunState::Finishing { fetches_left: 0 },
                (Some(trouble), _) => self.cannot_start(trouble),
                (None, Wish::Pause { until_ms }) => paused(until_ms),
                (None, Wish::Crawl) => RunState::Starting,
            },
            Stage::Finishing => RunState::Finishing {
                fetches_left: u32::try_from(self.fetching).unwrap_or(u32::MAX),
            },
            Stage::Present => self.state_of_engine(),
        }
    }

    fn cannot_start(&self, trouble: &str) -> RunState {
        RunState::NeedsYou {
            text: trouble.to_owned(),
            is_running: false,
            tries_again: self.tries_again,
        }
    }

    fn state_of_engine(&self) -> RunState {
        match (self.wish, self.hold, &self.trouble) {
            (Wish::Pause { until_ms }, ..) => paused(until_ms),
            (_, Some(reason), _) => RunState::Paused(reason),
            (_, None, Some(trouble)) => needs_you(trouble),
            // It fetches nothing before it is back.
            _ if self.away_ms >= WORTH_SAYING_MS => RunState::Waiting(WaitReason::CannotJoin),
            _ if self.has_all_pages && self.fetching == 0 => {
                RunState::Waiting(WaitReason::AllFetched)
            }
            _ if self.idle_ms < WORTH_SAYING_MS => RunState::Crawling,
            _ if self.all_fail && self.silent_ms >= OFFLINE_MS => {
                RunState::Waiting(WaitReason::Offline)
            }
            _ if self.fetching > 0 => RunState::Crawling,
            _ if self.is_catching_up && self.outstanding > 0 => {
                RunState::Waiting(WaitReason::CatchingUp)
            }
            _ => match self.next_ms {
                Some(until_ms) if until_ms > self.now_ms => {
                    RunState::Waiting(WaitReason::HostsRest { until_ms })
                }
                Some(_) if self.is_limited => RunState::Waiting(WaitReason::Limits),
                None if self.outstanding == 0 => RunState::Waiting(WaitReason::NoAddresses),
                _ => RunState::Crawling,
            },
        }
    }
}

/// Whether it goes on only when the volunteer does something, or much later: worth a word also
/// outside of the window.
pub fn waits_for_the_volunteer(state: &RunState) -> bool {
    use PauseReason::{ArchiveFull, QuotaUsed};
    matches!(
        state,
        RunState::NeedsYou { .. } | RunState::Paused(QuotaUsed { .. } | ArchiveFull)
    )
}

/// The volunteer paused it, perhaps for a time.
fn paused(until_ms: Option<u64>) -> RunState {
    RunState::Paused(match until_ms {
        None => PauseReason::ByYou,
        Some(at_ms) => PauseReason::Until { at_ms },
    })
}

fn needs_you(trouble: &str) -> RunState {
    RunState::NeedsYou {
        text: trouble.to_owned(),
        is_running: true,
        tries_again: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            now_ms: 1_000_000,
            wish: Wish::Crawl,
            stage: Stage::Present,
            hold: None,
            trouble: None,
            tries_again: false,
            fetching: 3,
            outstanding: 100,
            next_ms: Some(1_000_000),
            idle_ms: 0,
            silent_ms: 0,
            all_fail: false,
            away_ms: 0,
            is_catching_up: false,
            has_all_pages: false,
            is_limited: false,
        }
    }

    /// It said that it crawled, and fetched nothing.
    #[test]
    fn who_cannot_come_back_into_the_network_says_so() {
        let away = |away_ms, hold| Facts {
            away_ms,
            hold,
            idle_ms: 60_000,
            ..facts()
        };
        let waits = RunState::Waiting(WaitReason::CannotJoin);
        assert_eq!(away(WORTH_SAYING_MS, None).state(), waits);
        assert_eq!(
            away(3_000, None).state(),
            RunState::Crawling,
            "it is on its way"
        );
        let metered = Some(PauseReason::Metered);
        let held = away(WORTH_SAYING_MS, metered).state();
        assert_eq!(held, RunState::Paused(PauseReason::Metered));
    }

    #[test]
    fn a_limit_that_keeps_hosts_waiting_is_the_reason() {
        let ready = Facts {
            fetching: 0,
            idle_ms: 9_000,
            is_limited: true,
            ..facts()
        };
        let limits = RunState::Waiting(WaitReason::Limits);
        assert_eq!(ready.state(), limits);
        let until_ms = ready.now_ms + 1_000;
        let resting = Facts {
            next_ms: Some(until_ms),
            ..ready.clone()
        };
        let rest = RunState::Waiting(WaitReason::HostsRest { until_ms });
        assert_eq!(resting.state(), rest, "no limit does that");
        let fetching = Facts {
            fetching: 1,
            ..ready.clone()
        };
        assert_eq!(fetching.state(), RunState::Crawling);
        let looking_up = Facts {
            next_ms: None,
            ..ready
        };
        assert_eq!(looking_up.state(), RunState::Crawling);
    }

    /// Its limits were blamed while it waited for other peers.
    #[test]
    fn who_waits_for_others_to_let_go_of_hosts_says_so() {
        let held = |fetching, idle_ms| Facts {
            is_catching_up: true,
            is_limited: true,
            fetching,
            idle_ms,
            ..facts()
        };
        let waits = RunState::Waiting(WaitReason::CatchingUp);
        assert_eq!(held(0, WORTH_SAYING_MS).state(), waits);
        assert_eq!(held(0, 900).state(), RunState::Crawling);
        assert_eq!(held(1, WORTH_SAYING_MS).state(), RunState::Crawling);
    }

    /// It said that it crawled, or that hosts had asked for a pause.
    #[test]
    fn a_crawl_that_has_all_its_pages_says_so() {
        let spent = |fetching| Facts {
            has_all_pages: true,
            fetching,
            next_ms: Some(1_060_000),
            silent_ms: 600_000,
            all_fail: true,
            ..facts()
        };
        let waits = RunState::Waiting(WaitReason::AllFetched);
        assert_eq!(spent(0).state(), waits);
        assert_eq!(spent(1).state(), RunState::Crawling);
    }

    #[test]
    fn the_reason_is_the_one_that_the_volunteer_would_name_first() {
        assert_eq!(facts().state(), RunState::Crawling);
        let paused = Facts {
            wish: Wish::Pause { until_ms: None },
            hold: Some(PauseReason::OnBattery),
            ..facts()
        };
        assert_eq!(paused.state(), RunState::Paused(PauseReason::ByYou));
        let held = Facts {
            hold: Some(PauseReason::OnBattery),
            trouble: Some("no room".into()),
            ..facts()
        };
        assert_eq!(held.state(), RunState::Paused(PauseReason::OnBattery));
        let troubled = Facts {
            trouble: Some("no room".into()),
            ..facts()
        };
        assert_eq!(troubled.state(), needs_you("no room"));
        let paused = Facts {
            wish: Wish::Pause { until_ms: None },
            ..troubled
        };
        assert_eq!(paused.state(), RunState::Paused(PauseReason::ByYou));
    }

    #[test]
    fn a_short_silence_is_part_of_crawling_and_a_long_one_is_explained() {
        let quiet = |idle_ms, next_ms, outstanding| {
            Facts {
                fetching: 0,
                idle_ms,
                next_ms,
                outstanding,
                ..facts()
            }
            .state()
        };
        assert_eq!(quiet(900, Some(1_005_000), 9), RunState::Crawling);
        let until_ms = 1_005_000;
        let rest = RunState::Waiting(WaitReason::HostsRest { until_ms });
        assert_eq!(quiet(9_000, Some(until_ms), 9), rest);
        let nothing = RunState::Waiting(WaitReason::NoAddresses);
        assert_eq!(quiet(9_000, None, 0), nothing);
        // Names are being looked up, or receipts are awaited.
        assert_eq!(quiet(9_000, None, 9), RunState::Crawling);
    }

    #[test]
    fn silence_of_everybody_is_a_missing_connection() {
        let silent = Facts {
            idle_ms: 70_000,
            silent_ms: 60_000,
            all_fail: true,
            ..facts()
        };
        let offline = RunState::Waiting(WaitReason::Offline);
        assert_eq!(silent.state(), offline, "even while it tries");
        let peers_talk = Facts {
            silent_ms: 900,
            ..silent.clone()
        };
        assert_eq!(peers_talk.state(), RunState::Crawling);
        let nothing_tried = Facts {
            all_fail: false,
            ..silent
        };
        assert_eq!(nothing_tried.state(), RunState::Crawling);
    }

    #[test]
    fn without_an_engine_it_is_stopped_starting_or_in_trouble() {
        let absent = |wish, trouble: Option<&str>| {
            Facts {
                stage: Stage::Absent,
                wish,
                trouble: trouble.map(str::to_owned),
                ..facts()
            }
            .state()
        };
        assert_eq!(absent(Wish::Stopped, None), RunState::Stopped);
        assert_eq!(absent(Wish::Crawl, None), RunState::Starting);
        let trouble = |tries_again| RunState::NeedsYou {
            text: "no threads".to_owned(),
            is_running: false,
            tries_again,
        };
        assert_eq!(absent(Wish::Crawl, Some("no threads")), trouble(false));
        let pause = Wish::Pause { until_ms: None };
        // The status flickered at each attempt, and nothing could end them.
        for (stage, wish) in [
            (Stage::Absent, Wish::Crawl),
            (Stage::Starting, Wish::Crawl),
            (Stage::Absent, pause),
            (Stage::Starting, pause),
        ] {
            let retried = Facts {
                stage,
                wish,
                trouble: Some("no threads".to_owned()),
                tries_again: true,
                ..facts()
            };
            assert_eq!(retried.state(), trouble(true), "{stage:?}, {wish:?}");
            assert!(retried.state().can_finish() && retried.state().can_start());
        }
        let finishing = Facts {
            stage: Stage::Finishing,
            ..facts()
        };
        assert_eq!(finishing.state(), RunState::Finishing { fetches_left: 3 });
    }

    /// An engine that had to start again was said to leave the network for good, and the window
    /// closed without a question.
    #[test]
    fn an_engine_that_comes_or_goes_is_told_of_by_what_is_wanted() {
        for stage in [Stage::Starting, Stage::Ending] {
            let wanted = |wish| {
                Facts {
                    wish,
                    stage,
                    fetching: 0,
                    ..facts()
                }
                .state()
            };
            assert_eq!(wanted(Wish::Crawl), RunState::Starting, "{stage:?}");
            let pause = Wish::Pause { until_ms: None };
            let paused = RunState::Paused(PauseReason::ByYou);
            assert_eq!(wanted(pause), paused, "{stage:?}");
            let finishing = RunState::Finishing { fetches_left: 0 };
            assert_eq!(wanted(Wish::Stopped), finishing, "{stage:?}");
        }
    }

    #[test]
    fn what_waits_for_the_volunteer_is_told_outside_of_the_window_and_nothing_else() {
        let needs = |is_running, tries_again| RunState::NeedsYou {
            text: "no room".to_owned(),
            is_running,
            tries_again,
        };
        for state in [
            needs(true, false),
            needs(false, false),
            needs(false, true),
            RunState::Paused(PauseReason::ArchiveFull),
            RunState::Paused(PauseReason::QuotaUsed { until_ms: 9 }),
        ] {
            assert!(waits_for_the_volunteer(&state), "{state:?}");
        }
        for state in [
            RunState::Starting,
            RunState::Crawling,
            RunState::Waiting(WaitReason::Offline),
            RunState::Paused(PauseReason::ByYou),
            RunState::Paused(PauseReason::OnBattery),
            RunState::Paused(PauseReason::Schedule { until_ms: None }),
            RunState::Finishing { fetches_left: 1 },
            RunState::Stopped,
        ] {
            assert!(!waits_for_the_volunteer(&state), "{state:?}");
        }
    }
}
