//! How much data has been moved in the current thirty days, and when the limit for them
//! will be reached.
//!
//! Bytes and the time go in; what is left comes out. The account can be saved as bytes,
//! and goes on from them after a restart.

use serde::{Deserialize, Serialize};

use crate::clock::Millis;

/// The days after which the account starts anew, in milliseconds.
pub const PERIOD_MS: Millis = 30 * 24 * 3_600_000;
/// The pace of about the last hour tells when the limit will be reached.
const PACE_MS: f64 = 3_600_000.0;
/// The pace of a shorter time tells nothing: the first page may be a large one.
const LEAST_PACE_MS: f64 = 60_000.0;
/// Longer gaps than this were not spent running.
const LONGEST_GAP_MS: Millis = 60_000;
/// The first byte of a saved account.
const VERSION: u8 = 1;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Quota {
    /// When the current thirty days began; 0 before the first count.
    began_ms: Millis,
    used_bytes: u64,
    counted_ms: Millis,
    /// Bytes and time of the recent past, older ones fading.
    recent_bytes: f64,
    recent_ms: f64,
}

/// The account as a person wants to see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaState {
    /// Moved in the current thirty days, both ways together.
    pub used_bytes: u64,
    /// Allowed in thirty days; 0 for no limit.
    pub limit_bytes: u64,
    /// When the next thirty days begin.
    pub renews_ms: Millis,
    /// When the limit will be reached if it goes on like this; `None`: not before it
    /// renews. Now, if it has been reached.
    pub reached_ms: Option<Millis>,
    /// Whether it is known how fast it goes: without that, nothing is said by `reached_ms`.
    pub is_pace_known: bool,
}

impl QuotaState {
    /// Whether nothing is left.
    pub fn is_used_up(&self) -> bool {
        self.limit_bytes > 0 && self.used_bytes >= self.limit_bytes
    }
}

impl Quota {
    /// Counts bytes that have been moved since the last count.
    pub fn count(&mut self, bytes: u64, now_ms: Millis) {
        self.renew(now_ms);
        self.used_bytes += bytes;
        let passed_ms = now_ms.saturating_sub(self.counted_ms).min(LONGEST_GAP_MS) as f64;
        self.counted_ms = now_ms;
        let fading = (-passed_ms / PACE_MS).exp();
        self.recent_bytes = self.recent_bytes * fading + bytes as f64;
        self.recent_ms = self.recent_ms * fading + passed_ms;
    }

    /// Begins the first thirty days, or the next ones if the current ones are over. Those
    /// that began while the clock was ahead begin now, or they would last for longer.
    fn renew(&mut self, now_ms: Millis) {
        if self.began_ms == 0 || self.began_ms > now_ms {
            self.began_ms = now_ms;
            self.counted_ms = now_ms;
        }
        let periods = now_ms.saturating_sub(self.began_ms) / PERIOD_MS;
        if periods > 0 {
            self.began_ms += periods * PERIOD_MS;
            self.used_bytes = 0;
        }
    }

    /// How the account stands against this limit; 0 for no limit. It may be long since
    /// anything was counted.
    pub fn state(&self, limit_bytes: u64, now_ms: Millis) -> QuotaState {
        let mut account = self.clone();
        account.renew(now_ms);
        let renews_ms = account.began_ms + PERIOD_MS;
        let left = limit_bytes.saturating_sub(account.used_bytes);
        let is_pace_known = account.recent_ms >= LEAST_PACE_MS;
        let reached_ms = match limit_bytes {
            0 => None,
            _ if left == 0 => Some(now_ms),
            _ if is_pace_known && account.recent_bytes > 0.0 => {
                let needed_ms = left as f64 * account.recent_ms / account.recent_bytes;
                // A float that is too large becomes the largest number there is.
                Some(now_ms.saturating_add(needed_ms as Millis)).filter(|&at| at < renews_ms)
            }
            _ => None,
        };
        QuotaState {
            used_bytes: account.used_bytes,
            limit_bytes,
            renews_ms,
            reached_ms,
            is_pace_known,
        }
    }

    /// The account as bytes.
    pub fn save(&self) -> Vec<u8> {
        // Encoding numbers into memory does not fail.
        postcard::to_stdvec(&(VERSION, self)).unwrap_or_default()
    }

    /// The account out of bytes that [`save`](Self::save) made; `None` if they are not.
    pub fn load(bytes: &[u8]) -> Option<Self> {
        let (version, quota): (u8, Self) = postcard::from_bytes(bytes).ok()?;
        let is_sound = quota.recent_bytes.is_finite() && quota.recent_ms.is_finite();
        (version == VERSION && is_sound).then_some(quota)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: Millis = 3_600_000;
    const GB: u64 = 1_000_000_000;
    const START_MS: Millis = 1_800_000_000_000;

    /// Runs at a steady pace, one count a second.
    fn run(quota: &mut Quota, from_ms: Millis, hours: u64, bytes_per_sec: u64) -> Millis {
        quota.count(0, from_ms);
        for second in 1..=hours * 3_600 {
            quota.count(bytes_per_sec, from_ms + second * 1_000);
        }
        from_ms + hours * HOUR_MS
    }

    #[test]
    fn a_steady_pace_tells_when_the_limit_is_reached() {
        let mut quota = Quota::default();
        let now_ms = run(&mut quota, START_MS, 5, 10_000);
        let state = quota.state(10 * GB, now_ms);
        assert_eq!(state.used_bytes, 5 * 3_600 * 10_000);
        assert_eq!(state.renews_ms, START_MS + PERIOD_MS);
        // 10 GB at 10,000 bytes a second take a million seconds.
        let reached_ms = state.reached_ms.unwrap();
        let expected_ms = START_MS + 1_000_000_000;
        assert!(reached_ms.abs_diff(expected_ms) < HOUR_MS, "{reached_ms}");
        assert!(!state.is_used_up());
        // Ten times as much lasts beyond the thirty days.
        assert_eq!(quota.state(100 * GB, now_ms).reached_ms, None);
        assert_eq!(quota.state(0, now_ms).reached_ms, None);
    }

    /// The first minute was said to be enough for the whole month, whatever it moved.
    #[test]
    fn without_a_pace_nothing_is_known() {
        let mut quota = Quota::default();
        quota.count(0, START_MS);
        quota.count(GB / 2, START_MS + 30_000);
        let state = quota.state(GB, START_MS + 30_000);
        assert_eq!((state.reached_ms, state.is_pace_known), (None, false));
        quota.count(1, START_MS + 65_000);
        let state = quota.state(GB, START_MS + 65_000);
        assert!(state.is_pace_known && state.reached_ms.is_some());
        // It goes slowly enough.
        assert!(quota.state(1_000_000 * GB, START_MS + 65_000).is_pace_known);
    }

    #[test]
    fn a_new_pace_counts_more_than_an_old_one() {
        let mut quota = Quota::default();
        let now_ms = run(&mut quota, START_MS, 2, 100_000);
        let fast = quota.state(10 * GB, now_ms).reached_ms.unwrap() - now_ms;
        let now_ms = run(&mut quota, now_ms, 4, 10_000);
        let slow = quota.state(10 * GB, now_ms).reached_ms.unwrap() - now_ms;
        assert!(slow > 5 * fast, "{slow} {fast}");
    }

    #[test]
    fn a_used_up_quota_renews_after_thirty_days_and_not_before() {
        let mut quota = Quota::default();
        quota.count(GB, START_MS);
        let state = |quota: &Quota, now_ms| quota.state(GB, now_ms);
        assert!(state(&quota, START_MS).is_used_up());
        assert_eq!(state(&quota, START_MS).reached_ms, Some(START_MS));
        quota.count(0, START_MS + PERIOD_MS - 1);
        assert!(state(&quota, START_MS + PERIOD_MS - 1).is_used_up());
        quota.count(0, START_MS + PERIOD_MS);
        assert!(!state(&quota, START_MS + PERIOD_MS).is_used_up());
        // A computer that was off for long starts anew in step.
        quota.count(7, START_MS + 5 * PERIOD_MS + 1);
        let late = state(&quota, START_MS + 5 * PERIOD_MS + 1);
        assert_eq!(late.used_bytes, 7);
        assert_eq!(late.renews_ms, START_MS + 6 * PERIOD_MS);
    }

    /// While nothing ran, the window told of thirty days that were over.
    #[test]
    fn an_account_that_nobody_counts_in_renews_all_the_same() {
        let mut quota = Quota::default();
        quota.count(0, START_MS);
        quota.count(GB / 2, START_MS + HOUR_MS);
        let later_ms = START_MS + 20 * HOUR_MS;
        assert!(quota.state(GB, later_ms).reached_ms.unwrap() > later_ms);
        quota.count(GB / 2, later_ms);
        assert!(quota.state(GB, later_ms).is_used_up());
        let renewed = quota.state(GB, START_MS + PERIOD_MS);
        assert!(!renewed.is_used_up());
        assert_eq!(renewed.used_bytes, 0);
        assert_eq!(renewed.renews_ms, START_MS + 2 * PERIOD_MS);
    }

    #[test]
    fn an_account_survives_a_restart_and_nonsense_does_not_pass_for_one() {
        let mut quota = Quota::default();
        let now_ms = run(&mut quota, START_MS, 1, 1_234);
        let mut again = Quota::load(&quota.save()).unwrap();
        assert_eq!(again, quota);
        // The hours that the computer was off do not change the pace.
        again.count(0, now_ms + 10 * HOUR_MS);
        let before = quota.state(GB, now_ms).reached_ms.unwrap() - now_ms;
        let after = again.state(GB, now_ms).reached_ms.unwrap() - now_ms;
        assert!(after.abs_diff(before) < before / 20, "{before} {after}");
        assert_eq!(Quota::load(b""), None);
        assert_eq!(Quota::load(&[9; 40]), None);
    }

    #[test]
    fn a_clock_that_was_set_back_does_no_harm() {
        let mut quota = Quota::default();
        quota.count(5, START_MS);
        quota.count(5, START_MS - HOUR_MS);
        assert_eq!(quota.state(GB, START_MS - HOUR_MS).used_bytes, 10);
    }

    /// A clock that had been a year ahead left an account that was not over for a year.
    #[test]
    fn thirty_days_that_began_in_the_future_begin_now() {
        let mut quota = Quota::default();
        quota.count(GB, START_MS + 12 * PERIOD_MS);
        let state = quota.state(GB, START_MS);
        assert!(state.is_used_up(), "what was used is used");
        assert_eq!(state.renews_ms, START_MS + PERIOD_MS);
        quota.count(0, START_MS);
        assert!(!quota.state(GB, START_MS + PERIOD_MS).is_used_up());
        let now_ms = run(&mut quota, START_MS + PERIOD_MS, 1, 10_000);
        assert!(
            quota.state(GB, now_ms).reached_ms.is_some(),
            "its pace is known"
        );
    }
}
