//! What the window is shown: rates, graphs and the tables of its current screen.
//!
//! Only what is on the screen is made anew: results and events when there are new ones,
//! hosts and peers once a second, or at once when the window asks for other rows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use peercrawl_ui::Model;
use peercrawl_ui::command::{HostColumn, LOG_ROWS, Screen, TableRequest, ViewRequest};
use peercrawl_ui::model::{
    self, Fetching, Graphs, HostRow, LogRow, Network, Outcome, PeerRow, Rates, Refused, ResultRow,
    RunState, Sample, View,
};

use super::archive_view::{self, Shelf};
use super::crew::Crew;
use super::desk::Desk;
use super::network_view;
use super::totals::Count;
use crate::activity::{self, Activity, How};
use crate::conditions::local_time::utc_offset_minutes;
use crate::counters::ErrorKind;
use crate::engine::Engine;
use crate::engine::tables::{DelayWhy, SiteColumn, SiteQuery, SiteRow};
use crate::report::{UrlReport, resident_bytes};

/// Rates are taken over so long.
const RATE_SPAN: Duration = Duration::from_millis(1_000);
/// That of the pages over longer: politeness makes them few, and a second has one or none.
const PAGE_RATE_SPAN: Duration = Duration::from_secs(5);
/// How often large tables are made.
const TABLE_PERIOD: Duration = Duration::from_secs(1);
/// Fetches that are shown at once.
const MOST_FETCHING: usize = 100;

/// See the module.
pub struct Picture {
    /// The past.
    pub graphs: Arc<Graphs>,
    /// The archive's files.
    pub shelf: Shelf,
    rates: Rates,
    refused: Refused,
    /// What was counted lately, the oldest first.
    counts: VecDeque<(Instant, Count)>,
    last_page: Instant,
    /// Since when it has been meant to fetch; none while it rests.
    running_since: Option<Instant>,
    /// What the engine did, or the last one, if it has ended.
    activity: Option<Arc<Activity>>,
    fetching: Arc<Vec<Fetching>>,
    results: Arc<View<ResultRow>>,
    hosts: Arc<View<HostRow>>,
    /// Hosts that are on disk alone.
    on_disk_alone: usize,
    network: Arc<Network>,
    peers: Arc<View<PeerRow>>,
    log: Arc<View<LogRow>>,
    /// What the tables were made for.
    made_for: Option<ViewRequest>,
    made: Option<Instant>,
    results_version: Option<u64>,
    log_version: Option<u64>,
}

impl Default for Picture {
    fn default() -> Self {
        Self {
            graphs: Arc::default(),
            shelf: Shelf::default(),
            rates: Rates::default(),
            refused: Refused::default(),
            counts: VecDeque::new(),
            last_page: Instant::now(),
            running_since: None,
            activity: None,
            fetching: Arc::default(),
            results: Arc::default(),
            hosts: Arc::default(),
            on_disk_alone: 0,
            network: Arc::default(),
            peers: Arc::default(),
            log: Arc::default(),
            made_for: None,
            made: None,
            results_version: None,
            log_version: None,
        }
    }
}

impl Picture {
    /// An engine begins: its counters are at zero, and this is what it does.
    pub fn begin(&mut self, activity: Option<Arc<Activity>>) {
        self.activity = activity;
        self.counts.clear();
        self.last_page = Instant::now();
        self.running_since = None;
        self.results_version = None;
    }

    /// What these engines, which share their limits, have counted; `None` if there is
    /// none.
    pub fn count_of(engines: &[Engine]) -> Option<Count> {
        let limits = engines.first()?.limits();
        let pages = engines.iter().map(|engine| {
            let report = &engine.snapshot().report;
            // Earlier runs have counted theirs.
            report.pages.saturating_sub(report.resumed_pages)
        });
        Some(Count {
            pages: pages.sum(),
            download_bytes: limits.bytes_down(),
            upload_bytes: limits.bytes_up(),
        })
    }

    /// How long no page has come.
    pub fn idle_ms(&self) -> u64 {
        self.last_page.elapsed().as_millis() as u64
    }

    /// How long no page has come although it was meant to fetch: a pause is no wait.
    pub fn waiting_ms(&self, now: Instant) -> u64 {
        let waits = |since: Instant| now.saturating_duration_since(since.max(self.last_page));
        self.running_since
            .map_or(0, |since| waits(since).as_millis() as u64)
    }

    /// It is meant to fetch now, or it rests.
    pub fn run(&mut self, is_running: bool, now: Instant) {
        let since = self.running_since.unwrap_or(now);
        self.running_since = is_running.then_some(since);
    }

    /// Takes the rates.
    pub fn measure(&mut self, engines: &[Engine], now: Instant) {
        let Some(count) = Self::count_of(engines) else {
            self.counts.clear();
            self.rates = Rates::default();
            return;
        };
        self.refused = engines.iter().fold(Refused::default(), |sum, engine| {
            sum_refused(sum, &engine.snapshot().report.urls)
        });
        if self
            .counts
            .back()
            .is_some_and(|(_, last)| last.pages < count.pages)
        {
            self.last_page = now;
        }
        self.take_in(count, now);
        let first = engines.first();
        let first = first.filter(|engine| network_view::takes_part(engine));
        self.rates.peers = first.map_or(0, |engine| {
            engine.overlay().members().len().saturating_sub(1) as u32
        });
        self.rates.waiting_urls = engines.iter().map(Engine::queued).sum();
    }

    fn take_in(&mut self, count: Count, now: Instant) {
        self.counts.push_back((now, count));
        while self.counts.len() > 2 && now - self.counts[1].0 >= PAGE_RATE_SPAN {
            self.counts.pop_front();
        }
        let rate = |span: Duration, of: fn(&Count) -> u64| {
            let is_before = |(at, _): &&(Instant, Count)| now - *at >= span;
            let before = self.counts.iter().rfind(is_before);
            let (since, first) = before.unwrap_or(&self.counts[0]);
            match (now - *since).as_secs_f64() {
                seconds if seconds > 0.0 => of(&count).saturating_sub(of(first)) as f64 / seconds,
                _ => 0.0,
            }
        };
        let download_bytes_per_s = rate(RATE_SPAN, |count| count.download_bytes);
        let upload_bytes_per_s = rate(RATE_SPAN, |count| count.upload_bytes);
        let pages_per_s = rate(PAGE_RATE_SPAN, |count| count.pages);
        self.rates = Rates {
            download_bytes_per_s,
            upload_bytes_per_s,
            pages_per_s,
            ..self.rates
        };
    }

    /// One point of the graphs.
    pub fn sample(&self, at_ms: u64) -> Sample {
        Sample {
            at_ms,
            download_bytes_per_s: self.rates.download_bytes_per_s as f32,
            upload_bytes_per_s: self.rates.upload_bytes_per_s as f32,
            pages_per_s: self.rates.pages_per_s as f32,
            waiting_urls: self.rates.waiting_urls as f32,
            peers: self.rates.peers as f32,
        }
    }

    fn tables(&mut self, desk: &Tables<'_>) {
        let now = Instant::now();
        let is_other = self.made_for.as_ref() != Some(desk.view);
        let is_due = is_other || self.made.is_none_or(|at| now >= at + TABLE_PERIOD);
        if is_other {
            self.made_for = Some(desk.view.clone());
            self.results_version = None;
            self.log_version = None;
        }
        match (desk.view.screen, desk.engine) {
            (Screen::Activity, engine) => self.show_activity(engine.is_some(), desk.view),
            (Screen::Queues, Some(engine)) if is_due => {
                let (hosts, away) = hosts(engine, &desk.view.hosts, desk.blocked);
                (self.hosts, self.on_disk_alone) = (Arc::new(hosts), away);
                self.made = Some(now);
            }
            (Screen::Queues, None) => (self.hosts, self.on_disk_alone) = (Arc::default(), 0),
            (Screen::Network, engine) if is_due => {
                let looks = desk.looks_on_local_network;
                let (overlay, called) = (desk.overlay, desk.called);
                self.network = Arc::new(network_view::network(engine, overlay, called, looks));
                self.peers = Arc::new(network_view::peers(engine, &desk.view.peers));
                self.made = Some(now);
            }
            (Screen::Log, _) => self.events(desk),
            _ => {}
        }
    }

    fn show_activity(&mut self, has_engine: bool, view: &ViewRequest) {
        let activity = self.activity.clone().unwrap_or_default();
        // What was under way has ended with the engine; its results stay.
        let ongoing = has_engine.then(|| activity.ongoing());
        let fetching: Vec<Fetching> = ongoing
            .into_iter()
            .flatten()
            .take(MOST_FETCHING)
            .map(|one| Fetching {
                url: one.url,
                since_ms: one.since_ms,
            })
            .collect();
        if *self.fetching != fetching {
            self.fetching = Arc::new(fetching);
        }
        let version = activity.version();
        if self.results_version == Some(version) {
            return;
        }
        self.results_version = Some(version);
        let search = view.results_search.trim().to_lowercase();
        let is_wanted = |result: &activity::Outcome| {
            view.outcome
                .is_none_or(|wanted| wanted == outcome(result.how))
                && (search.is_empty()
                    || result.url.to_lowercase().contains(&search)
                    || result.title.to_lowercase().contains(&search))
        };
        let (total, rows) = activity.results(view.results_rows.clone(), is_wanted);
        self.results = Arc::new(View {
            total,
            first: view.results_rows.start.min(total),
            rows: rows.into_iter().map(result_row).collect(),
        });
    }

    fn events(&mut self, desk: &Tables<'_>) {
        let version = desk.log.version();
        if self.log_version == Some(version) {
            return;
        }
        self.log_version = Some(version);
        let search = desk.view.log_search.trim().to_lowercase();
        let (_, rows) = desk.log.rows(desk.view.log_level, &search, LOG_ROWS);
        self.log = Arc::new(View::whole(rows));
    }
}

/// What the tables are made from.
struct Tables<'a> {
    engine: Option<&'a Engine>,
    view: &'a ViewRequest,
    log: &'a super::log::EventLog,
    blocked: &'a [String],
    called: &'a [String],
    overlay: model::OverlayKind,
    looks_on_local_network: bool,
}

impl Desk {
    /// Everything that there is to draw.
    pub fn draw(&mut self, state: RunState) -> Model {
        let now_ms = self.now_ms();
        let mut picture = std::mem::take(&mut self.state.picture);
        picture.tables(&Tables {
            engine: self.engine(),
            view: &self.state.view,
            log: &self.log,
            blocked: &self.config.crawl.blocked_sites,
            called: &self.config.overlay.bootstrap,
            overlay: self.shown.overlay,
            looks_on_local_network: self.config.overlay.mdns && self.demo.is_none(),
        });
        self.state.picture = picture;
        if self.state.view.screen == Screen::Archive {
            self.look_through_archive();
        }
        let picture = &self.state.picture;
        let rows = &self.state.view.archive_rows;
        let utc_offset_minutes = utc_offset_minutes(now_ms);
        let totals = self.sums().totals(now_ms, utc_offset_minutes);
        Model {
            now_ms,
            utc_offset_minutes,
            first_run: self.state.first_run.clone(),
            demo: self.demo.as_ref().map(|_| model::Demo {
                can_leave: self.data.is_some(),
            }),
            has_run: self.has_past(),
            state,
            warnings: self.warnings().to_vec(),
            rates: picture.rates,
            refused: picture.refused,
            graphs: picture.graphs.clone(),
            totals,
            quota: self.quota(now_ms),
            memory: model::Memory {
                used_bytes: resident_bytes(),
                budget_bytes: self.config.memory.limit_bytes,
            },
            fetching: picture.fetching.clone(),
            results: picture.results.clone(),
            hosts: picture.hosts.clone(),
            on_disk_alone: picture.on_disk_alone,
            network: picture.network.clone(),
            peers: picture.peers.clone(),
            crawl: Arc::new(self.crawl()),
            archive: Arc::new(self.archive()),
            archive_files: Arc::new(archive_view::rows(&picture.shelf.files, rows)),
            settings: Arc::new(self.shown.clone()),
            log: picture.log.clone(),
            problems: self.state.problems.clone(),
            notices: self
                .state
                .notices
                .iter()
                .map(|(_, one)| one.clone())
                .collect(),
            abilities: self.abilities,
            system_is_dark: self.state.system_is_dark,
            raise_window: self.state.raise_window,
            quits: self.state.quits,
        }
    }

    fn crawl(&self) -> model::Crawl {
        let (crawl, crew) = (&self.config.crawl, self.state.engine.crew());
        model::Crawl {
            network_name: self.config.overlay.network.clone(),
            seeds: crew
                .and_then(Crew::demo_seeds)
                .unwrap_or_else(|| crawl.seeds.clone()),
            blocked_sites: crawl.blocked_sites.clone(),
            check: self.state.check.clone(),
            join_file_path: self.join_file_path(),
            offer: self.state.offer.as_ref().map(|(_, offer)| offer.clone()),
        }
    }

    fn quota(&self, now_ms: u64) -> model::Quota {
        let limit_bytes = u64::from(self.shown.monthly_gb) * super::settings::GB;
        let quota = self.state.quota.state(limit_bytes, now_ms);
        model::Quota {
            used_bytes: quota.used_bytes,
            limit_bytes,
            renews_ms: quota.renews_ms,
            reached_ms: quota.reached_ms,
            is_pace_known: quota.is_pace_known,
        }
    }
}

/// What another engine has refused, added up.
fn sum_refused(sum: Refused, urls: &UrlReport) -> Refused {
    Refused {
        robots: sum.robots + urls.blocked_robots,
        private_addresses: sum.private_addresses + urls.blocked_address,
        blocked_sites: sum.blocked_sites + urls.blocked_list,
        traps: sum.traps + urls.trap.values().sum::<u64>(),
        unusual_ports: sum.unusual_ports + urls.blocked_port,
    }
}

fn outcome(how: How) -> Outcome {
    match how {
        How::Fetched => Outcome::Fetched,
        How::Duplicate => Outcome::Duplicate,
        How::Robots => Outcome::RobotsRefused,
        How::Private => Outcome::PrivateRefused,
        How::Trap => Outcome::Trap,
        How::Failed(ErrorKind::Timeout) => Outcome::Timeout,
        How::Failed(_) => Outcome::Error,
    }
}

fn result_row(result: activity::Outcome) -> ResultRow {
    ResultRow {
        at_ms: result.at_ms,
        host: result.host,
        title: result.title,
        outcome: outcome(result.how),
        detail: result.detail,
        bytes: result.bytes,
        took_ms: result.took_ms,
        url: result.url,
    }
}

/// The hosts, as wanted, and how many there are on disk alone.
fn hosts(
    engine: &Engine,
    request: &TableRequest<HostColumn>,
    blocked: &[String],
) -> (View<HostRow>, usize) {
    let query = SiteQuery {
        search: request.search.trim().to_lowercase(),
        sort_by: match request.sort_by {
            HostColumn::Host => SiteColumn::Host,
            HostColumn::Waiting => SiteColumn::Waiting,
            HostColumn::InMemory => SiteColumn::InMemory,
            HostColumn::Dropped => SiteColumn::Dropped,
            HostColumn::OnDisk => SiteColumn::OnDisk,
            HostColumn::Next => SiteColumn::Next,
            HostColumn::Delay => SiteColumn::Delay,
            HostColumn::Fetched => SiteColumn::Fetched,
            HostColumn::Errors => SiteColumn::Errors,
        },
        descending: request.descending,
        rows: request.rows.clone(),
    };
    let table = engine.sites(&query);
    let rows = table.rows.into_iter();
    let view = View {
        total: table.total,
        first: table.first,
        rows: rows.map(|row| host_row(row, blocked)).collect(),
    };
    (view, table.away)
}

fn host_row(row: SiteRow, blocked: &[String]) -> HostRow {
    HostRow {
        blocked: blocked.contains(&row.host),
        is_away: row.delay_why == DelayWhy::Away,
        host: row.host,
        in_memory: row.waiting - row.on_disk.min(row.waiting),
        on_disk: row.on_disk,
        next_ms: row.next_ms,
        delay_ms: row.delay_ms,
        delay_why: match row.delay_why {
            // Of what is on disk alone nothing is known yet.
            DelayWhy::Usual | DelayWhy::Away => String::new(),
            DelayWhy::Robots => "robots.txt".to_owned(),
            DelayWhy::SlowServer => "slow server".to_owned(),
            DelayWhy::Trouble(kind) => with_reason("rests", kind),
            DelayWhy::GivenUp(kind) => with_reason("given up", kind),
            DelayWhy::LookingUp => "looking up its address".to_owned(),
        },
        fetched: row.fetched,
        errors: row.errors,
        dropped: row.dropped,
    }
}

/// What became of a host, and how it failed, if that is known.
fn with_reason(what: &str, kind: Option<ErrorKind>) -> String {
    let reason = match kind {
        None => "server trouble",
        Some(ErrorKind::Dns) => "its name leads nowhere",
        Some(ErrorKind::Connect) => "cannot be reached",
        Some(ErrorKind::Timeout) => "no answer in time",
        Some(ErrorKind::Tls) => "does not prove who it is",
        Some(ErrorKind::Http4xx) => "turns us away",
        Some(ErrorKind::Http5xx) => "server error",
        Some(ErrorKind::TooLarge | ErrorKind::Other | ErrorKind::ContentType) => "broken answers",
        Some(ErrorKind::Fault) => "a fault of PeerCrawl",
    };
    format!("{what}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_engines_refuse_is_added_up() {
        let urls = UrlReport {
            blocked_robots: 1,
            blocked_address: 2,
            blocked_list: 3,
            blocked_port: 4,
            trap: [("too_long", 5), ("too_deep", 6)].into(),
            ..UrlReport::default()
        };
        let one = sum_refused(Refused::default(), &urls);
        let both = sum_refused(one, &urls);
        let expected = Refused {
            robots: 2,
            private_addresses: 4,
            blocked_sites: 6,
            traps: 22,
            unusual_ports: 8,
        };
        assert_eq!(both, expected);
    }

    /// The figure jumped between none and one.
    #[test]
    fn a_page_every_other_second_is_a_steady_rate() {
        let (mut picture, begun) = (Picture::default(), Instant::now());
        for quarter in 0..80_u32 {
            let count = Count {
                pages: u64::from(quarter / 8),
                download_bytes: u64::from(quarter.min(70)) * 100,
                ..Count::default()
            };
            picture.take_in(count, begun + quarter * Duration::from_millis(250));
            let pages_per_s = picture.rates.pages_per_s;
            let is_steady = (0.4..=0.6).contains(&pages_per_s);
            assert!(quarter < 20 || is_steady, "{quarter}: {pages_per_s}");
        }
        // Bytes are many, and their end shows at once.
        assert_eq!(picture.rates.download_bytes_per_s, 0.0);
        assert!(picture.counts.len() < 24);
    }

    /// After a pause the limits were blamed at once: no page had come for as long as it lasted.
    #[test]
    fn a_pause_is_no_wait_for_pages() {
        let mut picture = Picture::default();
        let begun = picture.last_page;
        let after = |seconds| begun + Duration::from_secs(seconds);
        let (paused, resumed) = (after(10), after(500));
        picture.run(true, begun);
        assert_eq!(picture.waiting_ms(paused), 10_000);
        picture.run(false, paused);
        assert_eq!(picture.waiting_ms(resumed), 0);
        picture.run(true, resumed);
        assert_eq!(picture.waiting_ms(resumed), 0);
        let later = resumed + Duration::from_secs(6);
        picture.run(true, later);
        assert_eq!(picture.waiting_ms(later), 6_000, "no page has come since");
        picture.last_page = later;
        assert_eq!(picture.waiting_ms(later), 0);
    }

    #[test]
    fn what_became_of_a_host_comes_with_the_reason() {
        let given_up = |kind| with_reason("given up", kind);
        assert_eq!(given_up(None), "given up: server trouble");
        let unknown = given_up(Some(ErrorKind::Dns));
        assert_eq!(unknown, "given up: its name leads nowhere");
    }

    #[test]
    fn each_figure_is_where_it_belongs_in_the_graphs() {
        let picture = Picture {
            rates: Rates {
                download_bytes_per_s: 2.0,
                upload_bytes_per_s: 3.0,
                pages_per_s: 4.0,
                peers: 5,
                waiting_urls: 6,
            },
            ..Picture::default()
        };
        let expected = Sample {
            at_ms: 1,
            download_bytes_per_s: 2.0,
            upload_bytes_per_s: 3.0,
            pages_per_s: 4.0,
            waiting_urls: 6.0,
            peers: 5.0,
        };
        assert_eq!(picture.sample(1), expected);
    }

    #[test]
    fn what_became_of_a_page_has_its_own_word() {
        let words = [
            (How::Fetched, Outcome::Fetched),
            (How::Duplicate, Outcome::Duplicate),
            (How::Robots, Outcome::RobotsRefused),
            (How::Private, Outcome::PrivateRefused),
            (How::Trap, Outcome::Trap),
            (How::Failed(ErrorKind::Timeout), Outcome::Timeout),
            (How::Failed(ErrorKind::Http5xx), Outcome::Error),
        ];
        for (how, word) in words {
            assert_eq!(outcome(how), word, "{how:?}");
        }
    }

    /// Makes the tables of the Activity screen, without an engine.
    fn show(picture: &mut Picture, search: &str, outcome: Option<Outcome>) {
        picture.tables(&Tables {
            engine: None,
            view: &ViewRequest {
                screen: Screen::Activity,
                results_search: search.to_owned(),
                outcome,
                ..ViewRequest::default()
            },
            log: &super::super::log::EventLog::default(),
            blocked: &[],
            called: &[],
            overlay: model::OverlayKind::default(),
            looks_on_local_network: false,
        });
    }

    #[test]
    fn without_an_engine_nothing_is_being_fetched() {
        let mut picture = Picture {
            fetching: Arc::new(vec![Fetching {
                url: "http://a.example/".into(),
                since_ms: 1,
            }]),
            ..Picture::default()
        };
        show(&mut picture, "", None);
        assert!(picture.fetching.is_empty());
    }

    /// After *Finish and stop* filter and search had no effect, and other rows never came.
    #[test]
    fn the_last_results_can_be_searched_when_their_engine_has_ended() {
        let activity = Arc::new(Activity::default());
        activity.watch(true);
        let _cut_off = activity.begin("http://c.example/");
        for (url, how) in [
            ("http://a.example/", How::Failed(ErrorKind::Timeout)),
            ("http://b.example/", How::Fetched),
        ] {
            activity.begin(url).end(how, String::new, 1);
        }
        let mut picture = Picture::default();
        picture.begin(Some(activity));
        show(&mut picture, "", None);
        assert_eq!((picture.results.total, picture.fetching.len()), (2, 0));
        show(&mut picture, "b.ex", None);
        assert_eq!(picture.results.rows[0].url, "http://b.example/");
        assert_eq!(picture.results.total, 1);
        show(&mut picture, "", Some(Outcome::Timeout));
        assert_eq!(picture.results.rows[0].url, "http://a.example/");
        assert_eq!(picture.results.total, 1);
        show(&mut picture, "b.ex", Some(Outcome::Timeout));
        assert_eq!(picture.results.total, 0, "both count");
        // Another engine begins.
        picture.begin(Some(Arc::default()));
        show(&mut picture, "b.ex", None);
        assert_eq!(picture.results.total, 0);
    }
}
