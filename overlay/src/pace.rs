//! How often something may happen: some times at once, and then at a pace.

/// A number of times, and how many more there are each minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// So often at once.
    pub at_once: u32,
    /// So often each minute after that.
    pub each_minute: u32,
}

/// What is left of an allowance. Counted in minutes' parts, so that nothing is rounded away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    allowance: Allowance,
    left: u64,
    counted_ms: u64,
}

const MINUTE_MS: u64 = 60_000;

impl Pace {
    /// All of it is left.
    pub fn new(allowance: Allowance, now_ms: u64) -> Self {
        Self {
            allowance,
            left: u64::from(allowance.at_once) * MINUTE_MS,
            counted_ms: now_ms,
        }
    }

    fn count(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.counted_ms);
        let more = passed_ms.saturating_mul(u64::from(self.allowance.each_minute));
        let most = u64::from(self.allowance.at_once) * MINUTE_MS;
        self.left = self.left.saturating_add(more).min(most);
        self.counted_ms = self.counted_ms.max(now_ms);
    }

    /// Takes one time; tells whether it was left.
    pub fn take(&mut self, now_ms: u64) -> bool {
        self.count(now_ms);
        let is_left = self.left >= MINUTE_MS;
        if is_left {
            self.left -= MINUTE_MS;
        }
        is_left
    }

    /// Whether all of it is left, so that it need not be remembered.
    pub fn is_full(mut self, now_ms: u64) -> bool {
        self.count(now_ms);
        self.left == u64::from(self.allowance.at_once) * MINUTE_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_at_once_and_then_at_a_pace() {
        let allowance = Allowance {
            at_once: 3,
            each_minute: 120,
        };
        let mut pace = Pace::new(allowance, 1_000);
        let taken = |pace: &mut Pace, ms| (0..10).filter(|_| pace.take(ms)).count();
        assert_eq!(taken(&mut pace, 1_000), 3);
        assert_eq!(taken(&mut pace, 1_499), 0);
        assert_eq!(taken(&mut pace, 1_500), 1);
        assert!(!pace.is_full(2_999));
        assert!(pace.is_full(3_000));
        assert_eq!(taken(&mut pace, 100_000), 3, "no more than at once");
        assert_eq!(
            taken(&mut pace, 0),
            0,
            "a clock that goes back gives nothing"
        );
    }
}
