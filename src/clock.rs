//! Time as the engine counts it: milliseconds since 1970, never running backwards.
//!
//! Site records carry times to other peers and across restarts, so they count from an
//! epoch that all share; the schedule needs time that does not jump when somebody sets
//! the clock. This one reads the wall clock once and counts on from there.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time, in milliseconds since 1970.
pub type Millis = u64;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    started_ms: Millis,
}

impl Clock {
    /// A clock that agrees with the wall clock now.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: Instant::now(),
            started_ms: since_epoch.as_millis() as Millis,
        }
    }

    /// Now.
    pub fn now_ms(&self) -> Millis {
        self.started_ms + self.started.elapsed().as_millis() as Millis
    }

    /// How long this clock has run.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
