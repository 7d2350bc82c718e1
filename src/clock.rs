//! Time as the engine counts it: milliseconds since 1970, never running backwards.
//!
//! Site records carry times to other peers and across restarts, so they count from an
//! epoch that all share; the schedule needs time that does not jump when somebody sets
//! the clock by a little. This one reads the wall clock once and counts on from there. A
//! computer that sleeps does not count: whoever keeps house looks at the wall clock now and
//! then, and what is missing is added. A clock that is set back is not followed: what is
//! about the hour of the day asks [`wall_ms`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time, in milliseconds since 1970.
pub type Millis = u64;

/// What this process has slept through: the same for all of its clocks.
static SLEPT_MS: AtomicU64 = AtomicU64::new(0);
/// Less than this is no sleep, but a clock that was set right.
const LEAST_SLEEP_MS: u64 = 10_000;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    started_ms: Millis,
    /// What had been slept through before.
    slept_ms: u64,
}

impl Clock {
    /// A clock that agrees with the wall clock now.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            started_ms: wall_ms(),
            slept_ms: SLEPT_MS.load(Relaxed),
        }
    }

    /// Now.
    pub fn now_ms(&self) -> Millis {
        self.after_sleep_of(SLEPT_MS.load(Relaxed))
    }

    fn after_sleep_of(&self, slept_ms: u64) -> Millis {
        let slept_ms = slept_ms.saturating_sub(self.slept_ms);
        self.started_ms + slept_ms + self.started.elapsed().as_millis() as Millis
    }

    /// Looks whether the computer has slept; to be called now and then.
    pub fn notice_sleep(&self) {
        let slept_ms = SLEPT_MS.load(Relaxed);
        let missed_ms = sleep_ms(self.after_sleep_of(slept_ms), wall_ms());
        if missed_ms > 0 {
            tracing::info!("the computer slept for {} s", missed_ms / 1_000);
            // Others of this process notice the same sleep.
            SLEPT_MS.fetch_max(slept_ms + missed_ms, Relaxed);
        }
    }

    /// How long this clock has run.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// What the computer's own clock shows now. It may be set, forward and back.
pub fn wall_ms() -> Millis {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.unwrap_or_default().as_millis() as Millis
}

/// What a clock that shows this has slept through, by the wall clock.
fn sleep_ms(shown_ms: Millis, wall_ms: Millis) -> u64 {
    let missed_ms = wall_ms.saturating_sub(shown_ms);
    if missed_ms < LEAST_SLEEP_MS {
        0
    } else {
        missed_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_night_counts_and_a_clock_set_right_does_not() {
        let now_ms = 1_000_000_000;
        assert_eq!(sleep_ms(now_ms, now_ms + 8 * 3_600_000), 8 * 3_600_000);
        assert_eq!(sleep_ms(now_ms, now_ms + 2_000), 0);
        assert_eq!(sleep_ms(now_ms, now_ms - 3_600_000), 0, "never backwards");
    }
}
