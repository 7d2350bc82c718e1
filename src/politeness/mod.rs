//! How long a server is left alone, and when a host is given up.
//!
//! The time, the server's behaviour and the settings come in, the time of the next fetch
//! comes out. [`Pace`] is part of a site's record, so back-off travels with the site and
//! survives a restart. [`Outage`] remembers who failed lately: it tells whether it is our
//! own line that fails, and no host.

mod outage;
mod retry_after;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::config;

pub use outage::Outage;
pub use retry_after::retry_after;

/// A public host is never asked more often than this, whatever a config says.
const LEAST_PUBLIC_DELAY_MS: u64 = 500;
/// The most that `Crawl-delay` may ask for.
const MOST_CRAWL_DELAY_MS: u64 = 5 * 60 * 1_000;
/// The most that `Retry-After` and doubling may come to.
const MOST_REST_MS: u64 = 24 * 60 * 60 * 1_000;

/// When a host may be asked again, and how it has behaved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// The earliest time of the next fetch.
    pub next_fetch_ms: Millis,
    /// The delay that follows each fetch at present.
    pub delay_ms: u64,
    /// Fetches in a row that brought no answer, or only "busy".
    pub failures: u8,
}

/// What the delays depend on: the settings, and whether the host is a public one.
#[derive(Debug, Clone, Copy)]
pub struct Courtesy<'a> {
    /// The settings.
    pub settings: &'a config::Politeness,
    /// Whether the host's address belongs to the public internet.
    pub is_public: bool,
}

impl Courtesy<'_> {
    /// The delay after an answer that took so long, with what robots.txt asked for.
    pub fn delay_ms(&self, response: Duration, crawl_delay: Option<Duration>) -> u64 {
        let asked = crawl_delay.map_or(0, |delay| {
            (delay.as_millis() as u64).min(MOST_CRAWL_DELAY_MS)
        });
        if !self.is_public {
            return self.settings.private_delay_ms.max(asked);
        }
        let adaptive = response.as_millis() as u64 * u64::from(self.settings.response_factor);
        let least = self.settings.delay_ms.max(LEAST_PUBLIC_DELAY_MS);
        adaptive
            .clamp(least, self.settings.max_delay_ms.max(least))
            .max(asked)
    }

    /// The rest after so many failures in a row: doubling, with up to a quarter more
    /// by `jitter` (any number), so that hosts which failed together do not come back
    /// together.
    fn rest_ms(&self, failures: u8, jitter: u64) -> u64 {
        let first = match self.is_public {
            true => self.settings.backoff_ms,
            false => self.settings.private_backoff_ms,
        };
        let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(32));
        let rest = doubled.min(MOST_REST_MS);
        rest + jitter % (rest / 4 + 1)
    }
}

impl Pace {
    /// The server answered.
    pub fn after_answer(
        &mut self,
        now_ms: Millis,
        response: Duration,
        crawl_delay: Option<Duration>,
        courtesy: Courtesy<'_>,
    ) {
        self.failures = 0;
        self.after_step(now_ms, response, crawl_delay, courtesy);
    }

    /// The server answered, and sent us elsewhere for what was asked. What comes of that
    /// decides whether it has failed.
    pub fn after_step(
        &mut self,
        now_ms: Millis,
        response: Duration,
        crawl_delay: Option<Duration>,
        courtesy: Courtesy<'_>,
    ) {
        self.delay_ms = courtesy.delay_ms(response, crawl_delay);
        self.next_fetch_ms = now_ms + self.delay_ms;
    }

    /// The server did not answer within `took`, or asked to wait: for `asked` if it said
    /// how long. It is left alone for no less than after an answer.
    pub fn after_failure(
        &mut self,
        now_ms: Millis,
        took: Duration,
        asked: Option<Duration>,
        jitter: u64,
        courtesy: Courtesy<'_>,
    ) {
        self.failures = self.failures.saturating_add(1);
        let rest_ms = match asked {
            Some(asked) => (asked.as_millis() as u64).min(MOST_REST_MS),
            None => courtesy.rest_ms(self.failures, jitter),
        };
        let least_ms = courtesy.delay_ms(took, None).max(self.delay_ms);
        self.next_fetch_ms = now_ms + rest_ms.max(least_ms.min(MOST_REST_MS));
    }

    /// The host could not be reached, and is not to blame for that.
    pub fn after_outage(&mut self, now_ms: Millis, rest: Duration, jitter: u64) {
        let rest_ms = (rest.as_millis() as u64).max(self.delay_ms);
        self.next_fetch_ms = now_ms + rest_ms + jitter % (rest_ms / 4 + 1);
    }

    /// The host has failed too often: it is left alone for a day, and has one more try then.
    pub fn give_up(&mut self, now_ms: Millis) {
        self.next_fetch_ms = now_ms + MOST_REST_MS;
    }

    /// Whether a host that was given up is so still.
    pub fn is_still_given_up(&self, now_ms: Millis) -> bool {
        now_ms < self.next_fetch_ms
    }

    /// Whether a host that was given up was so no earlier than this.
    pub fn was_given_up_since(&self, since_ms: Millis) -> bool {
        self.next_fetch_ms >= since_ms + MOST_REST_MS
    }

    /// This peer broke the fetch off; the request had been sent all the same.
    pub fn after_cut(&mut self, now_ms: Millis, courtesy: Courtesy<'_>) {
        let delay_ms = courtesy.delay_ms(Duration::ZERO, None).max(self.delay_ms);
        self.next_fetch_ms = now_ms + delay_ms;
    }

    /// The pace comes from an earlier run or from another peer: the last request may have
    /// been a moment ago, and no rest is longer than it can be.
    pub fn take_up(&mut self, now_ms: Millis) {
        self.delay_ms = self.delay_ms.min(MOST_REST_MS);
        let longest_ms = now_ms + MOST_REST_MS + MOST_REST_MS / 4;
        let next_ms = self.next_fetch_ms.min(longest_ms);
        self.next_fetch_ms = next_ms.max(now_ms + self.delay_ms);
    }

    /// Whether the host has failed so often in a row that it is given up.
    pub fn is_given_up(&self, settings: &config::Politeness) -> bool {
        self.failures >= settings.max_host_failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    const SECOND: Duration = Duration::from_secs(1);

    fn settings() -> config::Politeness {
        config::Politeness::default()
    }

    #[test]
    fn a_public_delay_follows_the_server_between_bounds() {
        let settings = settings();
        let public = Courtesy {
            settings: &settings,
            is_public: true,
        };
        assert_eq!(public.delay_ms(Duration::from_millis(10), None), 1_000);
        assert_eq!(public.delay_ms(Duration::from_millis(200), None), 2_000);
        assert_eq!(public.delay_ms(60 * SECOND, None), 30_000);
        assert_eq!(
            public.delay_ms(SECOND, Some(SECOND)),
            10_000,
            "never shortened"
        );
        assert_eq!(public.delay_ms(SECOND, Some(20 * SECOND)), 20_000);
        assert_eq!(
            public.delay_ms(SECOND, Some(3_600 * SECOND)),
            300_000,
            "capped"
        );
    }

    #[test]
    fn a_public_host_never_gets_more_than_two_requests_a_second() {
        let settings = config::Politeness {
            delay_ms: 0,
            response_factor: 0,
            max_delay_ms: 0,
            ..settings()
        };
        let public = Courtesy {
            settings: &settings,
            is_public: true,
        };
        assert_eq!(public.delay_ms(Duration::ZERO, None), 500);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(9309),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Whatever the settings say, the server does and robots.txt asks for: half a
        /// second at least, after an answer as after a failure, and a day at most.
        #[test]
        fn a_public_host_is_left_alone_between_two_requests(
            (delay_ms, max_delay_ms, backoff_ms) in any::<(u32, u32, u32)>(),
            (response_factor, response_ms) in any::<(u32, u16)>(),
            (crawl_delay_ms, asked_ms) in any::<(Option<u32>, Option<u64>)>(),
            (failures, jitter) in any::<(u8, u64)>(),
        ) {
            let settings = config::Politeness {
                delay_ms: delay_ms.into(),
                max_delay_ms: max_delay_ms.into(),
                backoff_ms: backoff_ms.into(),
                response_factor,
                ..settings()
            };
            let public = Courtesy { settings: &settings, is_public: true };
            let now_ms = 1_000_000_000;
            let mut pace = Pace { failures, ..Pace::default() };
            let crawl_delay = crawl_delay_ms.map(|ms| Duration::from_millis(ms.into()));
            let response = Duration::from_millis(response_ms.into());
            pace.after_answer(now_ms, response, crawl_delay, public);
            let rest_ms = pace.next_fetch_ms - now_ms;
            prop_assert!(rest_ms >= 500);
            let asked = crawl_delay.unwrap_or_default().min(300 * SECOND);
            prop_assert!(rest_ms >= asked.as_millis() as u64, "never shorter than robots.txt asks");
            pace.failures = failures;
            pace.after_failure(now_ms, Duration::ZERO, asked_ms.map(Duration::from_millis), jitter, public);
            let rest_ms = pace.next_fetch_ms - now_ms;
            prop_assert!(rest_ms >= 500);
            let least_ms = settings.delay_ms.max(500);
            let most_ms = (MOST_REST_MS + MOST_REST_MS / 4).max(least_ms);
            prop_assert!(rest_ms <= most_ms);
        }
    }

    #[test]
    fn a_private_host_has_a_delay_of_its_own() {
        let settings = config::Politeness {
            private_delay_ms: 7,
            ..settings()
        };
        let private = Courtesy {
            settings: &settings,
            is_public: false,
        };
        assert_eq!(private.delay_ms(60 * SECOND, None), 7);
        assert_eq!(private.delay_ms(SECOND, Some(SECOND)), 1_000);
    }

    #[test]
    fn rests_double_and_an_answer_ends_them() {
        let settings = settings();
        let public = Courtesy {
            settings: &settings,
            is_public: true,
        };
        let mut pace = Pace::default();
        let mut rests = Vec::new();
        while !pace.is_given_up(&settings) {
            pace.after_failure(1_000_000, Duration::ZERO, None, 0, public);
            rests.push(pace.next_fetch_ms - 1_000_000);
        }
        assert_eq!(rests, [2_000, 4_000, 8_000, 16_000, 32_000]);
        pace.after_answer(0, SECOND, None, public);
        assert!(!pace.is_given_up(&settings));
        pace.failures = 200;
        pace.after_failure(0, Duration::ZERO, None, u64::MAX, public);
        assert!(pace.next_fetch_ms <= MOST_REST_MS + MOST_REST_MS / 4);
    }

    #[test]
    fn the_server_is_taken_at_its_word() {
        let settings = settings();
        let public = Courtesy {
            settings: &settings,
            is_public: true,
        };
        let mut pace = Pace::default();
        pace.after_failure(0, Duration::ZERO, Some(120 * SECOND), 5, public);
        assert_eq!(pace.next_fetch_ms, 120_000);
        pace.after_failure(0, Duration::ZERO, Some(Duration::ZERO), 5, public);
        assert_eq!(pace.next_fetch_ms, 1_000, "never below the ordinary delay");
        pace.after_failure(
            0,
            Duration::ZERO,
            Some(Duration::from_secs(10_000_000)),
            5,
            public,
        );
        assert_eq!(pace.next_fetch_ms, MOST_REST_MS);
    }

    #[test]
    fn a_failure_a_cut_and_a_restart_shorten_no_delay() {
        let settings = settings();
        let public = Courtesy {
            settings: &settings,
            is_public: true,
        };
        let mut pace = Pace::default();
        pace.after_answer(0, SECOND, Some(60 * SECOND), public);
        assert_eq!(pace.next_fetch_ms, 60_000);
        pace.after_failure(60_000, SECOND, Some(SECOND), 0, public);
        assert_eq!(pace.next_fetch_ms, 120_000, "it asked for a second only");
        pace.after_cut(120_000, public);
        assert_eq!(pace.next_fetch_ms, 180_000);
        pace.take_up(170_000);
        assert_eq!(
            pace.next_fetch_ms, 230_000,
            "the last request may be a moment ago"
        );
        // After a time-out a slow server is left alone like after a slow answer.
        let mut slow = Pace::default();
        slow.after_failure(0, 60 * SECOND, None, 0, public);
        assert_eq!(slow.next_fetch_ms, 30_000);
    }

    #[test]
    fn a_record_from_elsewhere_shelves_nothing_for_good() {
        let mut pace = Pace {
            next_fetch_ms: u64::MAX,
            delay_ms: u64::MAX,
            failures: 0,
        };
        pace.take_up(1_000);
        assert!(pace.next_fetch_ms <= 1_000 + 2 * MOST_REST_MS);
        assert!(pace.delay_ms <= MOST_REST_MS);
    }
}
