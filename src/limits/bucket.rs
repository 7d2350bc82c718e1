//! A bucket of bytes: it fills at the rate of a limit, and whoever moves bytes takes them
//! out of it first.
//!
//! Time goes in as an argument, grants come out. Over any stretch of time no more is
//! granted than the rate allows for it, plus what a tenth of a second allows: the bucket
//! holds no more, and grants are small, so that many can share it.
//!
//! A part of the rate is kept for the overlay, since its members would think a peer dead
//! that a download keeps silent. The overlay takes from its part first, whoever else
//! waits, and from the rest only while nobody waits for it; what it takes is taken from
//! the whole all the same. So neither can starve the other, and together they keep the
//! limit.

use std::time::Duration;

/// The bucket holds what this part of a second brings in.
const BURSTS_PER_SEC: f64 = 10.0;
/// A grant is at most what this part of a second brings in.
const GRANTS_PER_SEC: f64 = 30.0;
/// A grant can be this large, however low the limit is.
const LEAST_GRANT: f64 = 512.0;
/// The part of the rate that is kept for the overlay.
const KEPT_SHARE: f64 = 0.25;
/// Membership needs about this much, in bytes a second, however low the limit is.
const KEPT_LEAST: f64 = 2_048.0;
/// The overlay's part holds what this part of a second brings into it.
const KEPT_BURSTS_PER_SEC: f64 = 5.0;
/// Smaller grants than this are not worth a system call, unless no more is wanted.
const WORTHWHILE: usize = 256;

/// See the module.
#[derive(Debug, Clone)]
pub struct Bucket {
    bytes_per_sec: f64,
    /// What may be taken; below zero, something is still being paid for.
    left: f64,
    /// What the overlay may take even if others wait.
    kept: f64,
    filled: Duration,
}

impl Bucket {
    /// An empty bucket that fills at this rate, from `now` on.
    pub fn new(bytes_per_sec: u64, now: Duration) -> Self {
        Self {
            bytes_per_sec: bytes_per_sec.max(1) as f64,
            left: 0.0,
            kept: 0.0,
            filled: now,
        }
    }

    /// From `now` on it fills at another rate.
    pub fn set_rate(&mut self, bytes_per_sec: u64, now: Duration) {
        self.fill(now);
        self.bytes_per_sec = bytes_per_sec.max(1) as f64;
        self.left = self.left.min(self.burst());
        self.kept = self.kept.min(self.kept_burst());
    }

    /// The most that is granted at once.
    pub fn most_granted(&self) -> usize {
        (self.bytes_per_sec / GRANTS_PER_SEC).max(LEAST_GRANT) as usize
    }

    /// Takes what is wanted, or as much of it as is granted at once; else tells how long
    /// it will take until that is there.
    pub fn take(&mut self, wanted: usize, now: Duration) -> Result<usize, Duration> {
        self.fill(now);
        let granted = wanted.min(self.most_granted());
        if self.left >= granted as f64 {
            self.left -= granted as f64;
            return Ok(granted);
        }
        Err(until(granted as f64 - self.left, self.bytes_per_sec))
    }

    /// The same for the overlay. `is_free` tells that nobody else waits.
    pub fn take_for_overlay(
        &mut self,
        wanted: usize,
        is_free: bool,
        now: Duration,
    ) -> Result<usize, Duration> {
        self.fill(now);
        let most = wanted.min(self.most_granted());
        let least = most.min(WORTHWHILE) as f64;
        if self.kept >= least {
            let granted = most.min(self.kept as usize);
            self.kept -= granted as f64;
            self.left -= granted as f64;
            return Ok(granted);
        }
        if is_free && self.left >= least {
            let granted = most.min(self.left as usize);
            self.left -= granted as f64;
            return Ok(granted);
        }
        let kept = until(least - self.kept, self.kept_per_sec());
        let rest = until(least - self.left, self.bytes_per_sec);
        Err(if is_free { kept.min(rest) } else { kept })
    }

    /// Takes bytes that have been moved already: who comes next pays for them.
    pub fn charge(&mut self, bytes: usize, now: Duration) {
        self.fill(now);
        self.left -= bytes as f64;
    }

    /// Puts back what was granted and not used.
    pub fn put_back(&mut self, unused: usize) {
        self.left = (self.left + unused as f64).min(self.burst());
    }

    /// The same for the overlay.
    pub fn put_back_for_overlay(&mut self, unused: usize) {
        self.put_back(unused);
        self.kept = (self.kept + unused as f64).min(self.kept_burst());
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.filled).as_secs_f64();
        self.filled = self.filled.max(now);
        self.left = (self.left + passed * self.bytes_per_sec).min(self.burst());
        self.kept = (self.kept + passed * self.kept_per_sec()).min(self.kept_burst());
    }

    fn burst(&self) -> f64 {
        (self.bytes_per_sec / BURSTS_PER_SEC).max(LEAST_GRANT)
    }

    fn kept_per_sec(&self) -> f64 {
        let least = KEPT_LEAST.min(self.bytes_per_sec * 0.9);
        (self.bytes_per_sec * KEPT_SHARE).max(least)
    }

    fn kept_burst(&self) -> f64 {
        (self.kept_per_sec() / KEPT_BURSTS_PER_SEC).max(LEAST_GRANT)
    }
}

/// How long a rate takes for so many bytes. Never quite nothing, so that nobody spins.
fn until(bytes: f64, bytes_per_sec: f64) -> Duration {
    Duration::from_secs_f64((bytes / bytes_per_sec).clamp(0.000_5, 60.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1_024;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Runs a bucket for 30 s, one step a millisecond, with greedy downloads and an
    /// overlay that wants so much each millisecond; gives what each got in each 10 s.
    fn run(rate: u64, downloads: usize, overlay: usize) -> Vec<(u64, u64)> {
        let mut bucket = Bucket::new(rate, at(0));
        let mut got = vec![(0, 0); 30_000];
        for ms in 0..30_000 {
            let (mut down, mut over) = (0, 0);
            let is_free = downloads == 0;
            if overlay > 0
                && let Ok(bytes) = bucket.take_for_overlay(overlay, is_free, at(ms))
            {
                over += bytes as u64;
            }
            while downloads > 0
                && let Ok(bytes) = bucket.take(downloads, at(ms))
            {
                down += bytes as u64;
            }
            got[ms as usize] = (down, over);
        }
        let sum = |window: &[(u64, u64)]| {
            window
                .iter()
                .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
        };
        got.windows(10_000).step_by(97).map(sum).collect()
    }

    #[test]
    fn over_any_ten_seconds_the_limit_is_kept_and_used() {
        for rate in [64 * KIB, 100 * KIB, 256 * KIB, 10_240 * KIB] {
            for (downloads, overlay) in [(4_096, 0), (4_096, 9_999), (0, 9_999), (100_000, 300)] {
                if downloads == 0 && overlay * 1_000 < rate as usize {
                    continue;
                }
                for (down, over) in run(rate, downloads, overlay) {
                    let share = (down + over) as f64 / (10 * rate) as f64;
                    assert!((0.97..=1.03).contains(&share), "{rate}: {share}");
                }
            }
        }
    }

    #[test]
    fn neither_the_overlay_nor_the_downloads_starve() {
        for (down, over) in run(64 * KIB, 4_096, 9_999) {
            let whole = (640 * KIB) as f64;
            assert!(over as f64 > 0.2 * whole, "the overlay got {over}");
            assert!(down as f64 > 0.7 * whole, "the downloads got {down}");
        }
        // Membership lives even where the limit is very low.
        for (down, over) in run(4 * KIB, 4_096, 9_999) {
            assert!(over >= 18 * KIB && down >= 18 * KIB, "{over}, {down}");
        }
    }

    #[test]
    fn what_nobody_else_wants_the_overlay_may_have() {
        for (_, over) in run(64 * KIB, 0, 9_999) {
            assert!(over as f64 > 0.97 * 640.0 * KIB as f64, "{over}");
        }
    }

    #[test]
    fn what_was_put_back_or_charged_is_accounted_for() {
        let mut bucket = Bucket::new(64 * KIB, at(0));
        let granted = bucket.take(2_000, at(1_000)).unwrap();
        assert_eq!(granted, 2_000);
        bucket.put_back(2_000);
        let mut granted = 0;
        while let Ok(bytes) = bucket.take(1_000, at(1_000)) {
            granted += bytes;
        }
        assert_eq!(granted, 6_000, "a tenth of a second's worth");
        bucket.charge(64 * KIB as usize, at(1_000));
        assert!(bucket.take(1, at(1_900)).is_err());
        assert!(bucket.take(1, at(2_000)).is_ok());
    }

    #[test]
    fn the_time_to_wait_is_the_time_it_takes() {
        let mut bucket = Bucket::new(100_000, at(0));
        let wait = bucket.take(3_000, at(0)).unwrap_err();
        assert!((wait.as_secs_f64() - 0.03).abs() < 0.000_1, "{wait:?}");
        assert_eq!(bucket.take(3_000, wait), Ok(3_000));
        let mut overlay = || bucket.take_for_overlay(1 << 20, false, wait);
        assert_eq!(overlay(), Ok(750), "a quarter is kept");
        let wait = overlay().unwrap_err();
        assert!(
            (wait.as_secs_f64() - 256.0 / 25_000.0).abs() < 0.000_1,
            "{wait:?}"
        );
    }

    #[test]
    fn a_lower_rate_holds_at_once() {
        let mut bucket = Bucket::new(10 << 20, at(0));
        bucket.take(1, at(1_000)).unwrap();
        bucket.set_rate(64 * KIB, at(1_000));
        let mut granted = 0;
        while let Ok(bytes) = bucket.take(4_096, at(1_000)) {
            granted += bytes as u64;
        }
        assert!(granted <= 64 * KIB / 10, "{granted}");
    }
}
