//! How fast bytes go through at present: counts and the time go in, a rate comes out.

use std::collections::VecDeque;

use crate::clock::Millis;

/// The rate is that of about the last so many milliseconds.
const SPAN_MS: Millis = 1_000;

/// Bytes a second, both ways.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Received.
    pub down_bytes_per_sec: f64,
    /// Sent.
    pub up_bytes_per_sec: f64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct RateMeter {
    /// When, and how much in all: received and sent.
    counts: VecDeque<(Millis, u64, u64)>,
}

impl RateMeter {
    /// Takes the counts as they are now.
    pub fn count(&mut self, down: u64, up: u64, now_ms: Millis) {
        while self.counts.len() > 1 && self.counts[1].0 + SPAN_MS <= now_ms {
            self.counts.pop_front();
        }
        self.counts.push_back((now_ms, down, up));
    }

    /// The rates between the oldest and the newest count.
    pub fn rates(&self) -> Rates {
        let (Some(old), Some(new)) = (self.counts.front(), self.counts.back()) else {
            return Rates::default();
        };
        let secs = new.0.saturating_sub(old.0) as f64 / 1_000.0;
        if secs <= 0.0 {
            return Rates::default();
        }
        Rates {
            // What was granted and then given back makes a count go down for a moment.
            down_bytes_per_sec: new.1.saturating_sub(old.1) as f64 / secs,
            up_bytes_per_sec: new.2.saturating_sub(old.2) as f64 / secs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_flow_is_seen_and_its_end_too() {
        let mut meter = RateMeter::default();
        for quarter in 0..40 {
            meter.count(quarter * 250, quarter * 25, quarter * 250);
        }
        let rates = meter.rates();
        assert_eq!(rates.down_bytes_per_sec, 1_000.0);
        assert_eq!(rates.up_bytes_per_sec, 100.0);
        for quarter in 40..46 {
            meter.count(39 * 250, 39 * 25, quarter * 250);
        }
        assert_eq!(meter.rates(), Rates::default());
        assert!(meter.counts.len() < 8);
    }
}
