//! Whether anybody out there can be reached, and why not.
//!
//! [`Reach`], [`why_none`] and [`nobody_at`] are pure: counts and the time go in, and what
//! the volunteer should know comes out.

use std::time::Instant;

use super::desk::Desk;
use super::stage::WORTH_SAYING_MS;
use crate::engine::tables::{DelayWhy, SiteColumn, SiteQuery, SiteRow};
use crate::engine::{Engine, Standing};
use crate::report::Report;

/// What is known of it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Bytes that had come when some last came, and when that was.
    heard: Option<(u64, u64)>,
    /// Whether no host that was tried could be reached.
    pub all_fail: bool,
    /// When the hosts were last looked at.
    looked_ms: Option<u64>,
    /// Since when it has been waiting for others, with nothing to do without them.
    alone_since_ms: Option<u64>,
    /// Since when it has been out of the network although nothing keeps it from joining.
    away_since_ms: Option<u64>,
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

    /// Takes in whether it waits for others at this time, with nothing to do without them.
    pub fn meet(&mut self, is_alone: bool, now_ms: u64) {
        let since_ms = self.alone_since_ms.unwrap_or(now_ms);
        self.alone_since_ms = is_alone.then_some(since_ms);
    }

    /// How long that has been so.
    pub fn alone_ms(&self, now_ms: u64) -> u64 {
        self.alone_since_ms
            .map_or(0, |at_ms| now_ms.saturating_sub(at_ms))
    }

    /// Takes in whether it is out of the network at this time although nothing keeps it from
    /// joining.
    pub fn stay_away(&mut self, is_away: bool, now_ms: u64) {
        let since_ms = self.away_since_ms.unwrap_or(now_ms);
        self.away_since_ms = is_away.then_some(since_ms);
    }

    /// How long that has been so.
    pub fn away_ms(&self, now_ms: u64) -> u64 {
        self.away_since_ms
            .map_or(0, |at_ms| now_ms.saturating_sub(at_ms))
    }

    /// Whether it is time to look at the hosts: where there are many, that costs something.
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.looked_ms
            .is_none_or(|at_ms| now_ms >= at_ms + LOOK_PERIOD_MS)
    }

    /// Takes in how some hosts are doing, those with the most to fetch first. Names that
    /// are just being looked up say nothing new, nor do hosts that are away.
    pub fn look(&mut self, hosts: &[SiteRow], now_ms: u64) {
        self.looked_ms = Some(now_ms);
        let is_down = |host: &&SiteRow| is_down(host, now_ms);
        let mut hosts = hosts
            .iter()
            .filter(|host| !matches!(host.delay_why, DelayWhy::LookingUp | DelayWhy::Away))
            .filter(|host| host.waiting > 0 || host.fetched + host.errors > 0 || is_down(host))
            .peekable();
        if hosts.peek().is_some() {
            self.all_fail = hosts.all(|host| is_down(&host));
        }
    }
}

/// How often the hosts are looked at.
const LOOK_PERIOD_MS: u64 = 5_000;
/// Others who have not answered for so long may never do.
const LONELY_MS: u64 = 30_000;

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

/// That nobody answers at these addresses, if they have had the time to.
pub fn nobody_at(called: &[String], alone_ms: u64) -> Option<String> {
    let (first, others) = called.split_first().filter(|_| alone_ms >= LONELY_MS)?;
    let others = match others.len() {
        0 => String::new(),
        1 => " or at the other address".to_owned(),
        count => format!(" or at {count} other addresses"),
    };
    Some(format!(
        "Nobody answers at {first}{others}. Check the address, or add a web site on the Crawl \
         screen."
    ))
}

/// The hosts that tell whether anybody can be reached.
const MOST_WAITING: SiteQuery = SiteQuery {
    search: String::new(),
    // Those that are away come last.
    sort_by: SiteColumn::InMemory,
    descending: true,
    rows: 0..32,
};

impl Desk {
    /// What it cannot go on with without the volunteer.
    pub fn trouble(&self) -> Option<String> {
        let known = self.state.trouble.clone();
        known
            // A full archive is a reason to pause, and no trouble. A snapshot is older, and told
            // of one that had just been given more room.
            .or_else(|| {
                let trouble = self.engine()?.ledger().trouble();
                let trouble = trouble.filter(|trouble| !trouble.is_archive_full);
                Some(trouble?.text)
            })
            .or_else(|| self.none_reached())
            .or_else(|| self.nobody_answers())
    }

    /// Why none of the web sites could be fetched, if that is so. Among other peers, they
    /// may be fetched elsewhere.
    fn none_reached(&self) -> Option<String> {
        let engine = self.engine().filter(|_| !self.is_demo())?;
        let is_alone = engine.overlay().members().len() <= 1;
        let is_idle = engine.fetching() == 0;
        if !is_alone || !is_idle || self.state.picture.waiting_ms(Instant::now()) < WORTH_SAYING_MS
        {
            return None;
        }
        let report = &engine.snapshot().report;
        why_none(report, engine.outstanding(), &self.state.reach)
    }

    /// Who does not answer, if there is nothing to do without them.
    fn nobody_answers(&self) -> Option<String> {
        self.engine()?;
        let alone_ms = self.state.reach.alone_ms(self.now_ms());
        nobody_at(&self.config.overlay.bootstrap, alone_ms)
    }

    /// Whether this engine waits for other peers, with nothing to do without them. Those who
    /// refuse it are told of elsewhere.
    fn is_alone(&self, engine: &Engine) -> bool {
        let overlay = engine.overlay();
        !self.is_demo()
            && self.config.crawl.seeds.is_empty()
            && engine.outstanding() == 0
            && engine.snapshot().report.pages == 0
            && overlay.members().len() <= 1
            && overlay.refusals().is_empty()
    }

    /// Looks whether anybody can be reached, if there is doubt.
    pub fn look_out(&mut self) {
        let now_ms = self.now_ms();
        let is_idle = self.state.picture.waiting_ms(Instant::now()) >= WORTH_SAYING_MS;
        let mut reach = self.state.reach;
        if let Some(engine) = self.engine() {
            reach.hear(engine.limits().bytes_down(), now_ms);
            let state = engine.run_state();
            let is_running = state.why.is_none() && !engine.ledger().is_archive_full();
            let is_away = state.why.is_none() && state.standing == Standing::Left;
            reach.stay_away(is_away, now_ms);
            reach.meet(is_running && self.is_alone(engine), now_ms);
            if is_running && is_idle && reach.is_due(now_ms) {
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
    fn hosts_are_looked_at_now_and_then() {
        let mut reach = Reach::default();
        assert!(reach.is_due(1_000));
        reach.look(&[], 1_000);
        assert!(!reach.is_due(5_999));
        assert!(reach.is_due(6_000));
    }

    /// Whoever had typed the address of a peer that was not there waited for ever.
    #[test]
    fn a_peer_that_does_not_answer_is_told_of_after_a_while() {
        let mut reach = Reach::default();
        reach.meet(true, 1_000);
        reach.meet(true, 30_000);
        let one = ["/ip4/192.0.2.7/tcp/4001".to_owned()];
        let words = |called: &[String], now_ms| nobody_at(called, reach.alone_ms(now_ms));
        assert_eq!(words(&one, 30_999), None, "it has some time");
        let text = words(&one, 31_000).unwrap();
        assert!(text.starts_with("Nobody answers at /ip4/192.0.2.7/tcp/4001. Check"));
        assert_eq!(words(&[], 31_000), None, "nobody is called");
        let three = [one.clone(), one.clone(), one.clone()].concat();
        let text = words(&three, 31_000).unwrap();
        assert!(text.contains("or at 2 other addresses"), "{text}");
        reach.meet(false, 31_000);
        reach.meet(true, 32_000);
        assert_eq!(reach.alone_ms(33_000), 1_000, "somebody was there");
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
        reach.look(&[host(DelayWhy::LookingUp, 0), host(DelayWhy::Away, 0)], 0);
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
