//! When to say that nobody answers.
//!
//! A peer that is alone for a moment is no news, and one that stays alone for a week should
//! not fill the log.

/// Alone for so long, it is worth a word.
const PATIENCE_MS: u64 = 15_000;
/// How often it is said.
const AGAIN_MS: u64 = 3_600_000;

/// See the module.
#[derive(Debug, Default)]
pub struct Alone {
    since_ms: Option<u64>,
    said_ms: Option<u64>,
}

impl Alone {
    /// Takes in whether this peer is alone; tells whether to say so now.
    pub fn is_worth_saying(&mut self, is_alone: bool, now_ms: u64) -> bool {
        if !is_alone {
            self.since_ms = None;
            return false;
        }
        let since_ms = *self.since_ms.get_or_insert(now_ms);
        let is_due = self.said_ms.is_none_or(|said| now_ms >= said + AGAIN_MS);
        let is_worth_it = is_due && now_ms >= since_ms + PATIENCE_MS;
        if is_worth_it {
            self.said_ms = Some(now_ms);
        }
        is_worth_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(alone: &mut Alone, is_alone: impl Fn(u64) -> bool, seconds: u64) -> Vec<u64> {
        let seconds = 0..seconds;
        seconds
            .filter(|&second| alone.is_worth_saying(is_alone(second), second * 1_000))
            .collect()
    }

    #[test]
    fn it_is_said_once_and_then_at_each_hour() {
        let times = said(&mut Alone::default(), |_| true, 3 * 3_600);
        assert_eq!(times, [15, 3_615, 7_215]);
    }

    #[test]
    fn a_moment_is_no_news_and_coming_and_going_no_flood() {
        let times = said(&mut Alone::default(), |second| second % 15 != 0, 3_600);
        assert_eq!(times, []);
        let times = said(&mut Alone::default(), |second| second % 60 != 0, 7_200);
        assert_eq!(times.len(), 2, "{times:?}");
    }
}
