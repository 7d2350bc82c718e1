//! Time as a server may be judged by it: what this thread spent waiting for its own
//! limits does not count.
//!
//! A fetch runs on one thread from its beginning to its end, so the time that the limits
//! have held a thread up is kept for each thread.

use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    static HELD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// This thread was held up by the limits for so long.
pub(super) fn add_held(time: Duration) {
    HELD.set(HELD.get() + time);
}

/// Counts the time of its thread that was not spent waiting for the limits.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    begun: Instant,
    held: Duration,
}

impl Stopwatch {
    /// Begins now, on this thread.
    pub fn start() -> Self {
        Self {
            begun: Instant::now(),
            held: HELD.get(),
        }
    }

    /// The time that counts. To be asked on the thread that started it.
    pub fn elapsed(&self) -> Duration {
        let held = HELD.get().saturating_sub(self.held);
        self.begun.elapsed().saturating_sub(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_limits_took_does_not_count() {
        let watch = Stopwatch::start();
        add_held(Duration::from_secs(3_600));
        assert_eq!(watch.elapsed(), Duration::ZERO);
        let other = std::thread::spawn(|| HELD.get());
        assert_eq!(other.join().unwrap(), Duration::ZERO);
        let watch = Stopwatch::start();
        while watch.elapsed().is_zero() {
            std::thread::yield_now();
        }
    }
}
