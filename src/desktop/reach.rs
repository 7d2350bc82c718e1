//! Whether anybody out there can be reached, and why not.
//!
//! [`Reach`] and [`why_none`] are pure: counts and the time go in, and what the volunteer
//! should know comes out.

use super::desk::Desk;
use super::stage::WORTH_SAYING_MS;
use crate::engine::tables::{DelayWhy, SiteColumn, SiteQuery, SiteRow};
use crate::report::Report;

/// What is known of it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Bytes that had come when some last came, and when that was.
    heard: Option<(u64, u64)>,
    /// Whether no host that was tried could be reached.
    pub all_fail: bool,
}

impl Reach {
    /// Takes in how many bytes have come in all by this time.
    pub fn hear(&mut self, bytes: u64, now_ms: u64) {
        if self.heard.is_none_or(|(last, _)| last != bytes) {
            self.heard = Some((bytes, now_ms));
        }
    }

    /// How long not a byte has come.
    pub fn silent_ms(&self, now_ms: u64) -> u64 {
        self.heard
            .map_or(0, |(_, at_ms)| now_ms.saturating_sub(at_ms))
    }

    /// Takes in how some hosts are doing, those with the most to fetch first. Names that
    /// are just being looked up say nothing new.
    pub fn look(&mut self, hosts: &[SiteRow], now_ms: u64) {
        let is_down = |host: &&SiteRow| is_down(host, now_ms);
        let mut hosts = hosts
            .iter()
            .filter(|host| host.delay_why != DelayWhy::LookingUp)
            .filter(|host| host.waiting > 0 || host.fetched + host.errors > 0 || is_down(host))
            .peekable();
        if hosts.peek().is_some() {
            self.all_fail = hosts.all(|host| is_down(&host));
        }
    }
}

/// So much longer than its delay, a host rests only if it could not be reached, or asked
/// for it.
const REST_MS: u64 = 10_000;

/// Whether a host is in trouble, or rests because nobody could be reached.
fn is_down(host: &SiteRow, now_ms: u64) -> bool {
    let usual_ms = now_ms + host.delay_ms + REST_MS;
    matches!(host.delay_why, DelayWhy::Trouble(_) | DelayWhy::GivenUp(_))
        || host.fetched == 0 && host.errors > 0
        || host.waiting > 0 && host.next_ms.is_some_and(|at_ms| at_ms > usual_ms)
}

/// Why none of the web sites that a crawl begins with could be fetched; `None` if one
/// was, or if they are still being tried.
pub fn why_none(report: &Report, outstanding: u64, reach: &Reach) -> Option<String> {
    let urls = &report.urls;
    let errors = |names: &[&str]| -> u64 {
        let counts = names.iter().filter_map(|name| report.errors.get(name));
        counts.sum()
    };
    let answered = ["http_4xx", "http_5xx", "content_type", "too_large", "tls"];
    let causes = [
        (
            urls.blocked_address,
            "they are in a private network, which PeerCrawl never visits",
        ),
        (urls.blocked_port, "they are at a port that is not visited"),
        (urls.blocked_robots, "they ask robots to stay away"),
        (errors(&answered), "they answer with an error"),
    ];
    let is_over = outstanding == 0 && report.errors_in_all() > 0;
    let cause = causes.into_iter().find(|(count, _)| *count > 0);
    let why = match cause {
        _ if report.pages > 0 => return None,
        Some((_, why)) if outstanding == 0 => why,
        _ if !is_over && !reach.all_fail => return None,
        _ if reach.heard.is_some_and(|(bytes, _)| bytes > 0) => {
            "they answer with an error, or ask to come later"
        }
        _ => "they do not answer. Check their addresses, and your internet connection",
    };
    Some(format!(
        "None of your web sites could be fetched: {why}. The Crawl screen has a place for others."
    ))
}

/// The hosts that tell whether anybody can be reached.
const MOST_WAITING: SiteQuery = SiteQuery {
    search: String::new(),
    sort_by: SiteColumn::Waiting,
    descending: true,
    rows: 0..32,
};

impl Desk {
    /// What it cannot go on with without the volunteer.
    pub fn trouble(&self) -> Option<String> {
        let known = self.state.trouble.clone();
        known
            .or_else(|| self.engine()?.snapshot().trouble.clone())
            .or_else(|| self.none_reached())
    }

    /// Why none of the web sites could be fetched, if that is so. Among other peers, they
    /// may be fetched elsewhere.
    fn none_reached(&self) -> Option<String> {
        let engine = self.engine().filter(|_| !self.is_demo())?;
        let is_alone = engine.overlay().members().len() <= 1;
        let is_idle = engine.fetching() == 0;
        if !is_alone || !is_idle || self.state.picture.idle_ms() < WORTH_SAYING_MS {
            return None;
        }
        let report = &engine.snapshot().report;
        why_none(report, engine.outstanding(), &self.state.reach)
    }

    /// Looks whether anybody can be reached, if there is doubt.
    pub fn look_out(&mut self) {
        let now_ms = self.now_ms();
        let is_idle = self.state.picture.idle_ms() >= WORTH_SAYING_MS;
        let mut reach = self.state.reach;
        if let Some(engine) = self.engine() {
            reach.hear(engine.limits().bytes_down(), now_ms);
            if is_idle {
                reach.look(&engine.sites(&MOST_WAITING).rows, now_ms);
            }
        }
        self.state.reach = reach;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(delay_why: DelayWhy, fetched: u64) -> SiteRow {
        SiteRow {
            host: "a.example".into(),
            waiting: 1,
            on_disk: 0,
            next_ms: Some(0),
            delay_ms: 0,
            delay_why,
            fetched,
            errors: 0,
            dropped: 0,
        }
    }

    #[test]
    fn silence_is_measured_from_the_last_byte() {
        let mut reach = Reach::default();
        assert_eq!(reach.silent_ms(5_000), 0);
        reach.hear(0, 1_000);
        reach.hear(0, 9_000);
        assert_eq!(reach.silent_ms(9_000), 8_000);
        reach.hear(1, 10_000);
        assert_eq!(reach.silent_ms(10_500), 500);
    }

    #[test]
    fn one_healthy_host_is_enough_and_a_look_up_changes_nothing() {
        let mut reach = Reach::default();
        reach.look(&[], 0);
        assert!(!reach.all_fail);
        reach.look(
            &[
                host(DelayWhy::Trouble(None), 3),
                host(DelayWhy::GivenUp(None), 0),
            ],
            0,
        );
        assert!(reach.all_fail);
        reach.look(&[host(DelayWhy::LookingUp, 0)], 0);
        assert!(reach.all_fail);
        reach.look(
            &[host(DelayWhy::Trouble(None), 3), host(DelayWhy::Usual, 0)],
            0,
        );
        assert!(!reach.all_fail);
        // Hosts that are not to blame rest while the line is down.
        let resting = SiteRow {
            next_ms: Some(31_000),
            ..host(DelayWhy::Usual, 7)
        };
        reach.look(&[resting.clone(), host(DelayWhy::Trouble(None), 3)], 1_000);
        assert!(reach.all_fail);
        reach.look(&[resting], 30_000);
        assert!(!reach.all_fail);
    }

    #[test]
    fn seeds_that_lead_nowhere_are_told_of_with_the_reason() {
        let mut report = Report::default();
        let (fine, mut failing) = (Reach::default(), Reach::default());
        failing.all_fail = true;
        assert_eq!(why_none(&report, 0, &fine), None, "nothing was tried");
        let why = why_none(&report, 1, &failing).unwrap();
        assert!(why.contains("do not answer"), "{why}");
        failing.hear(500, 1_000);
        let why = why_none(&report, 1, &failing).unwrap();
        assert!(why.contains("ask to come later"), "{why}");
        report.urls.blocked_robots = 1;
        assert_eq!(why_none(&report, 1, &fine), None, "others are being tried");
        assert!(why_none(&report, 0, &fine).unwrap().contains("robots"));
        report.pages = 1;
        assert_eq!(why_none(&report, 0, &failing), None);
    }
}
