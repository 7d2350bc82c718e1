//! This peer's weight among the members: how much of the web it offers to take care of.
//!
//! It is a whole number from 1 to 16 and follows the volunteer's download limit, unless
//! the settings name a number. Limits go in, and what is to be announced comes out.
//!
//! Sites move to other peers when it changes. So a limit that has hardly changed changes
//! nothing, one that is still being changed is waited for, and an hour passes between
//! two changes. Slow mode comes and goes, and is not followed.

use crate::clock::Millis;
use crate::config;
use crate::distribution::MAX_CAPACITY;

/// What each unit stands for.
const UNIT_KIB: f64 = 64.0;
/// How far the limit must be from what is announced, in units.
const WORTH_A_MOVE: f64 = 0.75;
/// A limit is followed once it has stayed for so long.
const SETTLE_MS: Millis = 5_000;
/// Between two changes.
const BETWEEN_MS: Millis = 3_600_000;

/// See the module.
#[derive(Debug)]
pub struct Capacity {
    is_fixed: bool,
    current: u8,
    /// When it last changed, if it has.
    changed_ms: Option<Millis>,
    /// What the limit asks for, and since when.
    wanted: Option<(u8, Millis)>,
}

impl Capacity {
    /// The capacity of a peer that starts, with this download limit; 0 for none.
    pub fn new(settings: &config::Distribution, limit_kib: u32) -> Self {
        let is_fixed = settings.capacity > 0;
        let current = match is_fixed {
            true => settings.capacity.min(MAX_CAPACITY),
            false => units(limit_kib).round() as u8,
        };
        Self {
            is_fixed,
            current,
            changed_ms: None,
            wanted: None,
        }
    }

    /// What is announced.
    pub fn current(&self) -> u8 {
        self.current
    }

    /// Looks at the limit; tells the new capacity if it changes now. To be called every
    /// second or so.
    pub fn follow(&mut self, limit_kib: u32, now_ms: Millis) -> Option<u8> {
        let units = units(limit_kib);
        if self.is_fixed || (units - f64::from(self.current)).abs() < WORTH_A_MOVE {
            self.wanted = None;
            return None;
        }
        let target = units.round() as u8;
        let since_ms = match self.wanted {
            Some((wanted, since_ms)) if wanted == target => since_ms,
            _ => now_ms,
        };
        self.wanted = Some((target, since_ms));
        let is_too_soon = |changed_ms| now_ms < changed_ms + BETWEEN_MS;
        if now_ms < since_ms + SETTLE_MS || self.changed_ms.is_some_and(is_too_soon) {
            return None;
        }
        (self.current, self.changed_ms) = (target, Some(now_ms));
        Some(target)
    }
}

/// A limit in units, within what can be announced; without a limit, the most.
fn units(limit_kib: u32) -> f64 {
    match limit_kib {
        0 => f64::from(MAX_CAPACITY),
        kib => (f64::from(kib) / UNIT_KIB).clamp(1.0, MAX_CAPACITY.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Millis = 1_000;
    const HOUR: Millis = 3_600 * SECOND;
    const NOTHING: [u8; 0] = [];

    fn at(limit_kib: u32) -> Capacity {
        Capacity::new(&config::Distribution::default(), limit_kib)
    }

    /// Looks each second at a limit, for so many of them, beginning with this one.
    fn look(capacity: &mut Capacity, limit_kib: u32, from: Millis, seconds: u64) -> Vec<u8> {
        let looks = (0..seconds).map(|second| from + second * SECOND);
        looks
            .filter_map(|now_ms| capacity.follow(limit_kib, now_ms))
            .collect()
    }

    #[test]
    fn each_64_kib_count_and_no_limit_counts_most() {
        let start = |kib| at(kib).current();
        assert_eq!(start(256), 4);
        assert_eq!([start(1), start(64), start(100), start(800)], [1, 1, 2, 13]);
        assert_eq!([start(1_024), start(1 << 20), start(0)], [16, 16, 16]);
    }

    #[test]
    fn another_limit_is_followed_once_it_has_stayed() {
        let mut capacity = at(256);
        // While somebody moves a slider, nothing moves.
        for (second, kib) in [300, 350, 400, 450, 512].into_iter().enumerate() {
            assert_eq!(capacity.follow(kib, second as u64 * SECOND), None);
        }
        assert_eq!(look(&mut capacity, 512, 5 * SECOND, 20), [8]);
        assert_eq!(capacity.current(), 8);
    }

    #[test]
    fn small_changes_move_nothing_and_great_ones_wait_for_an_hour() {
        let mut capacity = at(256);
        for kib in [240, 300, 210, 256] {
            assert_eq!(look(&mut capacity, kib, 0, 60), NOTHING);
        }
        assert_eq!(look(&mut capacity, 512, HOUR, 60), [8]);
        assert_eq!(look(&mut capacity, 0, HOUR + 60 * SECOND, 3_000), NOTHING);
        assert_eq!(look(&mut capacity, 0, 2 * HOUR, 60), [16]);
    }

    #[test]
    fn a_number_in_the_settings_stays() {
        let settings = config::Distribution {
            capacity: 3,
            ..config::Distribution::default()
        };
        let mut capacity = Capacity::new(&settings, 1_024);
        assert_eq!(capacity.current(), 3);
        assert_eq!(look(&mut capacity, 64, 0, 60), NOTHING);
    }
}
