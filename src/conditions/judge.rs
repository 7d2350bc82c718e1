//! From readings to a verdict.
//!
//! A condition that comes and goes must last a while before it counts, and must be gone a
//! while before it does not, so that the crawl does not flap; what costs the volunteer
//! money or battery counts at once.

use super::local_time::minute_of_week;
use super::schedule::minutes_until_open;
use super::{Reading, Reason, Verdict};
use crate::clock::Millis;
use crate::config;

/// How long a battery or a metered connection must be gone.
const SAFE_MS: Millis = 10_000;
/// How long the processor must be busy, and then be at rest.
const BUSY_MS: Millis = 15_000;
const CALM_MS: Millis = 30_000;

/// See the module.
#[derive(Debug, Default)]
pub struct Judge {
    battery: Steady,
    metered: Steady,
    busy: Steady,
}

/// A fact that changes only after its opposite has lasted.
#[derive(Debug, Default)]
struct Steady {
    is_true: bool,
    /// Since when it has looked otherwise.
    differs_ms: Option<Millis>,
}

impl Steady {
    fn settle(&mut self, seems: bool, enter_ms: Millis, leave_ms: Millis, now_ms: Millis) -> bool {
        if seems == self.is_true {
            self.differs_ms = None;
            return self.is_true;
        }
        // A clock that was set back begins anew.
        let since_ms = self.differs_ms.map_or(now_ms, |ms| ms.min(now_ms));
        self.differs_ms = Some(since_ms);
        let patience_ms = if seems { enter_ms } else { leave_ms };
        if now_ms.saturating_sub(since_ms) >= patience_ms {
            self.is_true = seems;
            self.differs_ms = None;
        }
        self.is_true
    }
}

impl Judge {
    /// The verdict on a reading, at a time, for a clock that is ahead of UTC by so much.
    pub fn judge(
        &mut self,
        schedule: &config::Schedule,
        pause: &config::Pause,
        reading: &Reading,
        now_ms: Millis,
        utc_offset_minutes: i32,
    ) -> Verdict {
        let is_metered = reading.is_metered == Some(true);
        let is_metered = self.metered.settle(is_metered, 0, SAFE_MS, now_ms);
        let is_on_battery = reading.is_on_battery == Some(true);
        let is_on_battery = self.battery.settle(is_on_battery, 0, SAFE_MS, now_ms);
        // Once busy, it is at rest only when half of that is gone.
        let most = f64::from(pause.busy_percent) / if self.busy.is_true { 2.0 } else { 1.0 };
        let seems_busy = reading.others_percent.is_some_and(|share| share > most);
        let is_busy = self.busy.settle(seems_busy, BUSY_MS, CALM_MS, now_ms);
        let is_used = reading
            .unused_for
            .is_some_and(|time| time.as_secs() < u64::from(pause.unused_minutes) * 60);

        let mut reasons = [
            (pause.on_metered && is_metered).then_some(Reason::Metered),
            closed(schedule, now_ms, utc_offset_minutes),
            (pause.on_battery && is_on_battery).then_some(Reason::OnBattery),
            (pause.while_used && is_used).then_some(Reason::InUse),
            (pause.when_busy && is_busy).then_some(Reason::Busy),
        ]
        .into_iter()
        .flatten();
        reasons.next().map_or(Verdict::Run, Verdict::Pause)
    }
}

/// Whether the schedule says no.
fn closed(schedule: &config::Schedule, now_ms: Millis, utc_offset_minutes: i32) -> Option<Reason> {
    if !schedule.enabled {
        return None;
    }
    let minute = minute_of_week(now_ms, utc_offset_minutes);
    match minutes_until_open(&schedule.days(), minute) {
        Some(0) => None,
        Some(minutes) => Some(Reason::Schedule {
            until_ms: Some(now_ms / 60_000 * 60_000 + u64::from(minutes) * 60_000),
        }),
        None => Some(Reason::Schedule { until_ms: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::DayHours;
    use std::time::Duration;

    /// Monday, 16 November 2026, 00:00 UTC.
    const MONDAY_MS: Millis = 1_794_787_200_000;

    fn all() -> config::Pause {
        config::Pause {
            on_battery: true,
            on_metered: true,
            when_busy: true,
            while_used: true,
            ..config::Pause::default()
        }
    }

    fn calm() -> Reading {
        Reading {
            is_on_battery: Some(false),
            is_metered: Some(false),
            others_percent: Some(3.0),
            unused_for: Some(Duration::from_secs(3_600)),
        }
    }

    /// Verdicts on readings at times in seconds.
    fn verdicts(pause: &config::Pause, readings: &[(u64, Reading)]) -> Vec<Verdict> {
        let mut judge = Judge::default();
        let schedule = config::Schedule::default();
        let verdict = |(secs, reading): &(u64, Reading)| {
            judge.judge(&schedule, pause, reading, MONDAY_MS + secs * 1_000, 0)
        };
        readings.iter().map(verdict).collect()
    }

    #[test]
    fn the_battery_counts_at_once_and_must_be_gone_a_while() {
        let on = Reading {
            is_on_battery: Some(true),
            ..calm()
        };
        let paused = Verdict::Pause(Reason::OnBattery);
        let readings = [
            (0, calm()),
            (2, on),
            (4, calm()),
            (6, on),
            (8, calm()),
            (18, calm()),
        ];
        let expected = [Verdict::Run, paused, paused, paused, paused, Verdict::Run];
        assert_eq!(verdicts(&all(), &readings), expected);
        assert_eq!(paused.to_string(), "Paused: on battery");
        let indifferent = config::Pause {
            on_battery: false,
            ..all()
        };
        assert_eq!(verdicts(&indifferent, &[(0, on)]), [Verdict::Run]);
    }

    /// What had to be gone for ten seconds would have had to be gone for an hour.
    #[test]
    fn a_clock_set_back_delays_nothing_but_once() {
        let on = Reading {
            is_on_battery: Some(true),
            ..calm()
        };
        let readings = [(3_600, on), (3_602, calm()), (4, calm()), (14, calm())];
        let paused = Verdict::Pause(Reason::OnBattery);
        let expected = [paused, paused, paused, Verdict::Run];
        assert_eq!(verdicts(&all(), &readings), expected);
    }

    #[test]
    fn a_short_burst_of_work_is_no_reason() {
        let busy = |percent| Reading {
            others_percent: Some(percent),
            ..calm()
        };
        let paused = Verdict::Pause(Reason::Busy);
        let readings = [
            (0, busy(90.0)),
            (10, busy(90.0)),
            (12, busy(10.0)),
            (14, busy(90.0)),
            (29, busy(90.0)),
            // Below the mark, but not by half: still busy.
            (60, busy(40.0)),
            (100, busy(40.0)),
            (110, busy(10.0)),
            (139, busy(10.0)),
            (140, busy(10.0)),
        ];
        let run = Verdict::Run;
        let expected = [
            run, run, run, run, paused, paused, paused, paused, paused, run,
        ];
        assert_eq!(verdicts(&all(), &readings), expected);
    }

    #[test]
    fn it_runs_only_while_nobody_uses_the_computer() {
        let used = |secs| Reading {
            unused_for: Some(Duration::from_secs(secs)),
            ..calm()
        };
        let paused = Verdict::Pause(Reason::InUse);
        let readings = [(0, used(0)), (2, used(299)), (3, used(300)), (4, used(1))];
        assert_eq!(
            verdicts(&all(), &readings),
            [paused, paused, Verdict::Run, paused]
        );
    }

    #[test]
    fn a_metered_line_is_the_first_reason_and_what_cannot_be_told_is_none() {
        let metered = Reading {
            is_on_battery: Some(true),
            is_metered: Some(true),
            ..calm()
        };
        assert_eq!(
            verdicts(&all(), &[(0, metered)]),
            [Verdict::Pause(Reason::Metered)]
        );
        assert_eq!(verdicts(&all(), &[(0, Reading::default())]), [Verdict::Run]);
        assert_eq!(
            Reading::default().abilities(),
            crate::conditions::Abilities::default()
        );
        assert!(metered.abilities().metered);
    }

    #[test]
    fn the_schedule_tells_when_it_goes_on() {
        let mut schedule = config::Schedule {
            enabled: true,
            monday: DayHours::Hours(9, 17),
            ..config::Schedule::default()
        };
        let at = |schedule: &config::Schedule, ms, offset| {
            Judge::default().judge(schedule, &all(), &calm(), ms, offset)
        };
        let paused_until = |ms| Verdict::Pause(Reason::Schedule { until_ms: Some(ms) });
        let nine_ms = MONDAY_MS + 9 * 3_600_000;
        assert_eq!(at(&schedule, MONDAY_MS + 1_234, 0), paused_until(nine_ms));
        assert_eq!(at(&schedule, nine_ms, 0), Verdict::Run);
        // Where it is an hour later, nine o'clock comes an hour earlier.
        assert_eq!(at(&schedule, nine_ms - 3_600_000, 60), Verdict::Run);
        // Tuesday is open all day.
        let five_ms = MONDAY_MS + 17 * 3_600_000;
        assert_eq!(
            at(&schedule, five_ms, 0),
            paused_until(MONDAY_MS + 24 * 3_600_000)
        );
        schedule.enabled = false;
        assert_eq!(at(&schedule, MONDAY_MS, 0), Verdict::Run);
    }
}
