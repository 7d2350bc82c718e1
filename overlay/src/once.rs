//! What has been said lately, so that it is not said again and again.

use std::collections::BTreeMap;

/// It is said again after so long.
const AGAIN_MS: u64 = 3_600_000;
/// What is remembered at most.
const REMEMBERED: usize = 1_024;

/// See the module.
#[derive(Debug, Default)]
pub struct Once(BTreeMap<String, u64>);

impl Once {
    /// Whether something was not said lately; from now on it was. With very many things
    /// to say, nothing new is said until the old ones are over.
    pub fn is_news(&mut self, what: &str, now_ms: u64) -> bool {
        let is_over = |said_ms: u64| now_ms >= said_ms + AGAIN_MS;
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, said_ms| !is_over(*said_ms));
        }
        let was_said = self.0.get(what).is_some_and(|&ms| !is_over(ms));
        let has_room = self.0.len() < REMEMBERED || self.0.contains_key(what);
        if was_said || !has_room {
            return false;
        }
        self.0.insert(what.into(), now_ms);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_an_hour_and_memory_is_bounded() {
        let mut once = Once::default();
        assert!(once.is_news("a", 0) && !once.is_news("a", 1) && once.is_news("b", 1));
        assert!(!once.is_news("a", AGAIN_MS - 1) && once.is_news("a", AGAIN_MS));
        let said = (0..5_000).filter(|n| once.is_news(&format!("{n}"), AGAIN_MS));
        assert!(said.count() < REMEMBERED);
        assert_eq!(once.0.len(), REMEMBERED);
        assert!(once.is_news("late", 3 * AGAIN_MS));
    }
}
