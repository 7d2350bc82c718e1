//! Whether it is our own line that fails.
//!
//! A host that cannot be reached rests, and is given up in the end. When no host can be
//! reached any more, after some could, that is nobody's fault but the line's: then hosts
//! rest without being blamed, the longer the longer it lasts, until anybody answers.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Millis;
use crate::counters::ErrorKind;

/// So many hosts in a row must have failed, with no answer from any other in between.
const HOSTS: usize = 8;
/// The shortest rest, and the longest.
const LEAST_MS: u64 = 30_000;
const MOST_MS: u64 = 10 * 60_000;

/// See the module.
#[derive(Debug, Default)]
pub struct Outage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    has_answered: bool,
    /// Hosts that have failed since the last answer; no more than are needed.
    failing: HashSet<u64>,
    since_ms: Millis,
}

impl Outage {
    /// Some host has answered.
    pub fn answered(&self) {
        let mut state = self.0.lock();
        state.has_answered = true;
        state.failing.clear();
    }

    /// A host, whose name hashes to `key`, could not be reached. Tells how long it should
    /// rest without blame, if it is the line that fails.
    pub fn failed(&self, key: u64, kind: ErrorKind, now_ms: Millis) -> Option<Duration> {
        if !matches!(
            kind,
            ErrorKind::Dns | ErrorKind::Connect | ErrorKind::Timeout
        ) {
            return None;
        }
        let mut state = self.0.lock();
        if state.failing.is_empty() {
            state.since_ms = now_ms;
        }
        if state.failing.len() < HOSTS {
            state.failing.insert(key);
        }
        let is_outage = state.has_answered && state.failing.len() >= HOSTS;
        is_outage.then(|| {
            let lasted_ms = now_ms.saturating_sub(state.since_ms);
            Duration::from_millis((lasted_ms / 2).clamp(LEAST_MS, MOST_MS))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_all_fail_at_once_are_not_to_blame() {
        let outage = Outage::default();
        let fail = |key, now_ms| outage.failed(key, ErrorKind::Connect, now_ms);
        for key in 0..100 {
            assert_eq!(fail(key, 0), None, "nobody has ever answered");
        }
        outage.answered();
        for key in 0..7 {
            assert_eq!(fail(key, 0), None);
        }
        assert_eq!(fail(0, 0), None, "the same host again");
        assert_eq!(outage.failed(50, ErrorKind::Http5xx, 0), None, "it answers");
        assert_eq!(fail(7, 1_000), Some(Duration::from_secs(30)));
        assert_eq!(fail(1, 600_000), Some(Duration::from_secs(300)));
        assert_eq!(fail(1, 86_400_000), Some(Duration::from_secs(600)));
        outage.answered();
        assert_eq!(fail(7, 1_000), None);
    }
}
