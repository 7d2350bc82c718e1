//! Room for sites that are slow, or that nobody knows yet.
//!
//! A fetch holds a downloader until it ends. Sites that never answer, or answer as
//! slowly as they may, would hold all of them before long, and healthy sites would wait.
//! So a site has to prove itself by a quick answer; until then it may be fetched from
//! only if there is room in the lane, which holds three quarters of the downloaders.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::clock::Millis;

/// A site that answers faster has proven itself.
pub const QUICK: Duration = Duration::from_secs(2);
/// Sites that found no room come back one after the other, so many milliseconds apart,
/// however many they are.
const SPACING_MS: u64 = 1;
/// None comes back sooner.
const PAUSE_MS: u64 = 20;

/// See the module.
#[derive(Debug)]
pub struct Lane {
    most: usize,
    used: AtomicUsize,
    /// When the last of those that found no room comes back.
    last_ms: AtomicU64,
}

/// A place in the lane, until it is dropped.
#[derive(Debug)]
pub struct Place(Arc<Lane>);

impl Lane {
    /// The lane beside so many downloaders.
    pub fn new(downloaders: usize) -> Arc<Self> {
        Arc::new(Self {
            most: (downloaders * 3 / 4).max(1),
            used: AtomicUsize::new(0),
            last_ms: AtomicU64::new(0),
        })
    }

    /// Takes a place, or says when to come back.
    pub fn enter(self: &Arc<Self>, now_ms: Millis) -> Result<Place, Millis> {
        let take = |used: usize| (used < self.most).then_some(used + 1);
        if self.used.fetch_update(Relaxed, Relaxed, take).is_ok() {
            return Ok(Place(self.clone()));
        }
        let next = |last: Millis| Some((last + SPACING_MS).max(now_ms + PAUSE_MS));
        let last = self.last_ms.fetch_update(Relaxed, Relaxed, next);
        let last = last.unwrap_or_else(|last| last);
        Err(next(last).unwrap_or(now_ms + PAUSE_MS))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_given_back() {
        let lane = Lane::new(8);
        let places: Vec<_> = (0..6).map(|_| lane.enter(0).unwrap()).collect();
        assert_eq!(lane.enter(1_000).unwrap_err(), 1_020);
        assert_eq!(lane.enter(1_000).unwrap_err(), 1_021, "one after the other");
        assert_eq!(lane.enter(5_000).unwrap_err(), 5_020);
        drop(places);
        assert!(lane.enter(0).is_ok());
        for few in 0..3 {
            assert!(Lane::new(few).enter(0).is_ok(), "{few} downloaders");
        }
    }
}
