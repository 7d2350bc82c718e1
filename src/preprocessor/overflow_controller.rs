//! Whether the peer can take in one more URL.
//!
//! As the queues fill, admission first asks for shallow URLs only, then refuses all.
//! Such a state is left only when the queues have drained well below the point where
//! it was entered, so that it does not flicker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::config;
use crate::counters::Counters;

/// How full the queues are, as admission sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Pressure {
    /// There is room.
    #[default]
    Normal,
    /// There is room for shallow URLs.
    Shallow,
    /// There is none.
    Refusing,
}

impl Pressure {
    /// The state that follows at this fill. Pure.
    pub fn next(self, fill_percent: u64, settings: &config::Queues) -> Self {
        let reached = if fill_percent >= settings.refuse_percent.into() {
            Self::Refusing
        } else if fill_percent >= settings.shallow_percent.into() {
            Self::Shallow
        } else {
            Self::Normal
        };
        if fill_percent <= settings.leave_percent.into() {
            reached
        } else {
            self.max(reached)
        }
    }

    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Normal,
            1 => Self::Shallow,
            _ => Self::Refusing,
        }
    }
}

/// See the module.
pub struct OverflowController {
    settings: config::Queues,
    counters: Arc<Counters>,
    pressure: AtomicU8,
}

impl OverflowController {
    /// Nothing is queued yet.
    pub fn new(settings: config::Queues, counters: Arc<Counters>) -> Self {
        Self {
            settings,
            counters,
            pressure: AtomicU8::new(Pressure::Normal as u8),
        }
    }

    /// Whether a URL of this depth may come in while so many are queued.
    pub fn has_room(&self, queued: usize, depth: u16) -> bool {
        match self.observe(queued) {
            Pressure::Normal => true,
            Pressure::Shallow => depth <= self.settings.shallow_depth,
            Pressure::Refusing => false,
        }
    }

    /// The state, now that so many are queued.
    pub fn observe(&self, queued: usize) -> Pressure {
        let fill_percent = queued as u64 * 100 / self.settings.total_urls as u64;
        let before = Pressure::from_number(self.pressure.load(Relaxed));
        let after = before.next(fill_percent, &self.settings);
        if after != before {
            // Two threads may see the same change; the one that makes it counts it.
            let made = self.pressure.swap(after as u8, Relaxed) != after as u8;
            match (made, before, after) {
                (true, Pressure::Normal, _) => self.counters.overflow_entered.add(1),
                (true, _, Pressure::Normal) => self.counters.overflow_left.add(1),
                _ => {}
            }
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> config::Queues {
        config::Queues {
            total_urls: 100,
            ..Default::default()
        }
    }

    #[test]
    fn entered_in_two_steps_and_left_well_below() {
        let mut pressure = Pressure::Normal;
        for (fill, expected) in [
            (74, Pressure::Normal),
            (75, Pressure::Shallow),
            (94, Pressure::Shallow),
            (95, Pressure::Refusing),
            (80, Pressure::Refusing),
            (61, Pressure::Refusing),
            (60, Pressure::Normal),
            (74, Pressure::Normal),
            (75, Pressure::Shallow),
            (61, Pressure::Shallow),
            (60, Pressure::Normal),
            (100, Pressure::Refusing),
        ] {
            pressure = pressure.next(fill, &settings());
            assert_eq!(pressure, expected, "at {fill} %");
        }
    }

    #[test]
    fn shallow_urls_are_taken_longer_than_deep_ones() {
        let counters = Arc::new(Counters::default());
        let overflow = OverflowController::new(settings(), counters.clone());
        assert!(overflow.has_room(74, 50));
        assert!(overflow.has_room(80, 3) && !overflow.has_room(80, 4));
        assert!(!overflow.has_room(95, 0));
        assert!(!overflow.has_room(70, 0), "not left yet");
        assert!(overflow.has_room(60, 50));
        assert_eq!(counters.overflow_entered.get(), 1);
        assert_eq!(counters.overflow_left.get(), 1);
    }
}
