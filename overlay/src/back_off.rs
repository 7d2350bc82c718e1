//! When to try again: sooner after one failure than after many.

use std::collections::BTreeMap;

/// Wait after a first failure.
const FIRST_MS: u64 = 1_000;
/// Wait after many.
const LONGEST_MS: u64 = 300_000;
/// Failures remembered.
const REMEMBERED: usize = 4_096;

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    retry_ms: u64,
}

/// Waits for things that failed, by their name.
#[derive(Debug)]
pub struct BackOff<K>(BTreeMap<K, Failures>);

impl<K: Ord + Clone> Default for BackOff<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> BackOff<K> {
    /// Counts a failure. `jitter` between 0 and 1 spreads the retries of many peers.
    pub fn failed(&mut self, name: K, now_ms: u64, jitter: f64) {
        if !self.0.contains_key(&name) && self.0.len() >= REMEMBERED {
            let soonest = self.0.iter().min_by_key(|(_, f)| f.retry_ms);
            if let Some(soonest) = soonest.map(|(name, _)| name.clone()) {
                self.0.remove(&soonest);
            }
        }
        let count = self.0.get(&name).map_or(0, |failures| failures.count);
        let wait_ms = FIRST_MS.saturating_mul(1 << count.min(16)).min(LONGEST_MS);
        let wait_ms = wait_ms / 2 + (wait_ms as f64 / 2.0 * jitter.clamp(0.0, 1.0)) as u64;
        let failures = Failures {
            count: count + 1,
            retry_ms: now_ms + wait_ms,
        };
        self.0.insert(name, failures);
    }

    /// Waits for a given time, whatever happened before.
    pub fn rest(&mut self, name: K, until_ms: u64) {
        self.failed(name.clone(), until_ms, 0.0);
        if let Some(failures) = self.0.get_mut(&name) {
            failures.retry_ms = until_ms;
        }
    }

    /// Forgets the failures.
    pub fn succeeded(&mut self, name: &K) {
        self.0.remove(name);
    }

    /// Whether it may be tried.
    pub fn is_due(&self, name: &K, now_ms: u64) -> bool {
        self.0
            .get(name)
            .is_none_or(|failures| failures.retry_ms <= now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_end_with_success() {
        let mut back_off = BackOff::default();
        let mut now_ms = 0;
        let mut waits = Vec::new();
        for _ in 0..12 {
            back_off.failed("x", now_ms, 1.0);
            let wait = (0..)
                .step_by(500)
                .find(|ms| back_off.is_due(&"x", now_ms + ms));
            waits.push(wait.unwrap());
            now_ms += waits.last().unwrap();
        }
        assert_eq!(waits[..4], [1_000, 2_000, 4_000, 8_000]);
        assert_eq!(waits[11], LONGEST_MS);
        back_off.succeeded(&"x");
        assert!(back_off.is_due(&"x", now_ms));
    }

    #[test]
    fn memory_is_bounded() {
        let mut back_off = BackOff::default();
        for number in 0..2 * REMEMBERED {
            back_off.failed(number, number as u64, 0.5);
        }
        assert_eq!(back_off.0.len(), REMEMBERED);
    }

    #[test]
    fn a_rest_ends_when_it_was_told_to() {
        let mut back_off = BackOff::default();
        back_off.rest(1, 5_000);
        assert!(!back_off.is_due(&1, 4_999));
        assert!(back_off.is_due(&1, 5_000));
    }
}
