//! The time, as the state machines are told it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A moment. Peers compare wall clocks, which differ and jump; a peer measures its own
/// delays by the time since its start, which does neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970, by this machine's clock.
    pub wall_ms: u64,
    /// Milliseconds since this peer started.
    pub since_start_ms: u64,
}

/// Reads the machine's clocks.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The present moment.
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        Now {
            // A machine set to before 1970 is out of step with everybody anyway.
            wall_ms: wall.map_or(0, |wall| wall.as_millis() as u64),
            since_start_ms: self.0.elapsed().as_millis() as u64,
        }
    }
}
