//! The desk: the one thread that owns the engine, carries out what the user wants, and
//! makes the models that the window draws.
//!
//! It waits for orders and looks around four times a second. Starting and ending an
//! engine, dialogs and long looks into the archive have threads of their own, so that the
//! desk always answers.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use peercrawl_ui::command::ViewRequest;
use peercrawl_ui::model::{
    self, Field, FirstRun, JoinOffer, LookUp, Notice, PauseReason, RunState, Setting,
};
use peercrawl_ui::{Command, Model};

use super::config_file::ConfigFile;
use super::crew::{Crew, DemoSpec};
use super::doorbell::Doorbell;
use super::engine_stage::EngineStage;
use super::history::History;
use super::join_file::JoinFile;
use super::keepsake::{self, Keepsake, Writing};
use super::link::Order;
use super::log::EventLog;
use super::looks;
use super::picture::Picture;
use super::reach::Reach;
use super::settings;
use super::stage::{Facts, WORTH_SAYING_MS, Wish, waits_for_the_volunteer};
use super::tasks;
use super::totals::Sums;
use super::tray::{self, TrayIcon};
use crate::clock::Clock;
use crate::conditions::local_time::utc_offset_minutes;
use crate::conditions::{Reason, Watcher};
use crate::config::Settings;
use crate::data_directory::DataDirectory;
use crate::engine::{Engine, WhyStopped, most_fetches, pausing};
use crate::limits::{Limits, Quota};

/// How often it looks around, and makes a model at most.
const PERIOD: Duration = Duration::from_millis(250);
/// How often the graphs move.
const SECOND: Duration = Duration::from_secs(1);
/// How often what must not be lost is written while pages come, if it is something new.
const KEEP_PERIOD: Duration = Duration::from_secs(5);
/// The same at rest, when little is new: a disk may sleep.
const KEEP_AT_REST_PERIOD: Duration = Duration::from_secs(60);
/// How often the graphs are.
const GRAPHS_PERIOD: Duration = Duration::from_secs(60);
/// A window in which nothing happens is drawn again after so long, to move the time on.
const IDLE_PERIOD: Duration = Duration::from_secs(5);
/// Numbers that always move move no more often: drawing costs the volunteer's processor.
const FLICKER_PERIOD: Duration = Duration::from_millis(450);
/// How long a notice is offered to the window.
const NOTICE_LIFE: Duration = Duration::from_secs(60);

/// What a desk works with.
pub struct Desk {
    /// The settings as they are now.
    pub config: Settings,
    /// The same as the window shows them.
    pub shown: model::Settings,
    /// What tells whether this is a moment to crawl; `None` if it always is.
    pub watcher: Option<Watcher>,
    /// Where changes of them are kept.
    pub file: ConfigFile,
    /// Where everything else is kept; `None` in the demo.
    pub data: Option<Arc<DataDirectory>>,
    /// Set if the window is there for a demo.
    pub demo: Option<DemoSpec>,
    /// The latest events.
    pub log: EventLog,
    /// Orders to itself, from the threads that it starts.
    pub orders: Sender<Order>,
    /// Where models go.
    pub model: Arc<ArcSwap<Model>>,
    /// Wakes the window.
    pub wake: Box<dyn Fn() + Send>,
    /// How a second start calls the window forward.
    pub doorbell: Option<Doorbell>,
    /// What the desktop can do.
    pub abilities: model::Abilities,
    /// All the rest, which begins empty.
    pub state: State,
}

/// What changes while the desk works.
#[derive(Default)]
pub struct State {
    /// The time.
    pub clock: Option<Clock>,
    /// What the window shows.
    pub view: ViewRequest,
    /// Tables and graphs as they were last made.
    pub picture: Picture,
    /// The past.
    pub history: History,
    /// What is remembered.
    pub kept: Keepsake,
    /// The past and the sums of a demo, which are not.
    pub demo_past: (History, Sums),
    /// The blocked sites as they were before a demo.
    pub blocked_before: Option<Vec<String>>,
    /// Whether the first page's limits were answered, and its join file waits.
    pub is_first_page_answered: bool,
    /// The engine, and how far it is.
    pub engine: EngineStage,
    /// Whether it is to start again once it has ended.
    pub starts_again: bool,
    /// Whether it was paused before it was told to finish, so that to pause takes that back.
    pub was_paused: bool,
    /// What it was started with, until it is told what was changed meanwhile.
    pub started_with: Option<Settings>,
    /// What needs the volunteer.
    pub trouble: Option<String>,
    /// When it tries by itself, if that is likely to help; in the past while it does.
    pub tries_again: Option<Instant>,
    /// Whether anybody can be reached.
    pub reach: Reach,
    /// Whether there was a peer's engine since the program started, and not only a demo's.
    pub has_run: bool,
    /// Whether the engine that starts may find nothing to do, and is then to be told what.
    pub asks_if_idle: bool,
    /// The first page.
    pub first_run: Option<FirstRun>,
    /// A join file that waits for an answer, and what it would do.
    pub offer: Option<(JoinFile, JoinOffer)>,
    /// Seeds that are being typed.
    pub check: model::SeedCheck,
    /// The answer to the last look-up.
    pub look_up: Option<LookUp>,
    /// The desktop's dialog for files and folders.
    pub dialog: tasks::Dialog,
    /// What is wrong with what was typed.
    pub problems: Vec<(Field, String)>,
    /// What was done, and when that was said.
    pub notices: Vec<(Instant, Notice)>,
    /// The number of the last notice.
    pub last_notice: u64,
    /// Each time that this grows the window comes forward.
    pub raise_window: u64,
    /// The icon in the tray.
    pub tray: Option<TrayIcon>,
    /// Whether the desktop's own colours are dark, if it says so.
    pub system_is_dark: Option<bool>,
    /// The volunteer's documents; to find them, a file is read.
    pub documents: OnceCell<PathBuf>,
    /// Whether the window is to close, and the program to end.
    pub quits: bool,
    /// Whether nobody sees the window.
    pub is_hidden: bool,
    /// Whether the end of the demo was told.
    pub is_demo_told: bool,
    /// What the engine was last told to do.
    pub told: Option<pausing::Wish>,
    /// The account of the thirty days, as it was last seen.
    pub quota: Quota,
    /// What was last noted of what it does.
    noted: String,
    /// What of that was told outside of the window.
    told_outside: tasks::Told,
    /// The same for sites that turn this computer away.
    told_bad_name: tasks::Lasting,
    /// What else the volunteer should know, as it was last noted.
    warnings: Vec<String>,
    /// What the window showed when it was last woken.
    woken_for: ViewRequest,
    published: Option<Instant>,
    second: Option<Instant>,
    kept_at: Option<Instant>,
    graphs_kept_at: Option<Instant>,
    /// On its way into the file of `kept`.
    writing: Writing,
}

impl Desk {
    /// Works until the user quits.
    pub fn run(mut self, orders: &Receiver<Order>) {
        self.open();
        loop {
            let due = self
                .state
                .published
                .map_or(Instant::now(), |at| at + PERIOD);
            match orders.recv_deadline(due) {
                Ok(Order::User(Command::Quit)) => break,
                Ok(order) => self.take(order),
                Err(RecvTimeoutError::Timeout) => self.look_around(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // There is no window to call forward any more; who starts the program now waits for
        // the data directory.
        self.doorbell = None;
        self.close();
    }

    fn open(&mut self) {
        self.state.clock = Some(Clock::start());
        self.watch_looks();
        let most_fetches = u32::try_from(most_fetches(&self.config));
        self.abilities.most_fetches = most_fetches.unwrap_or(u32::MAX);
        if self.demo.is_none() {
            tray::show(&self.orders);
        }
        if let Some(data) = &self.data {
            let (kept, history) = Keepsake::read(data.path(), self.now_ms());
            (self.state.kept, self.state.history) = (kept, history);
            let limits = Limits::new(&self.config.limits);
            match limits.keep_quota(&data.quota()) {
                Ok(()) => self.state.quota = limits.account(),
                Err(why) => tracing::warn!("{}: {why}", data.quota().display()),
            }
        }
        self.show_past();
        if self.demo.is_some() {
            self.state.kept.wish = Wish::Crawl;
            self.start();
        } else if !self.config.desktop.first_run_done {
            // What was crawling before it was ever asked has to ask first.
            self.state.kept.wish = Wish::Stopped;
            self.ask_first();
        } else if self.state.kept.wish != Wish::Stopped {
            // Without web sites too: something may wait on disk.
            self.start();
        }
        self.publish();
    }

    /// Hears from the desktop whether its colours are dark.
    fn watch_looks(&self) {
        let orders = self.orders.clone();
        let tell = move |is_dark| {
            // The desk has ended: nobody wants to know.
            let _ended = orders.send(Order::SystemTheme(is_dark));
        };
        if let Err(why) = looks::watch(tell) {
            tracing::debug!("no thread for the desktop's colours: {why}");
        }
    }

    fn close(mut self) {
        self.count();
        self.write_config();
        self.keep_now();
        self.keep_graphs();
        self.end_now();
        // What was completed meanwhile counts too.
        self.keep_now();
    }

    /// Now, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.state.clock.map_or(0, |clock| clock.now_ms())
    }

    /// The engine, while there is one.
    pub fn engine(&self) -> Option<&Engine> {
        self.state.engine.crew().and_then(Crew::engine)
    }

    /// All engines, while there are any: in a demo, what holds for one holds for all.
    pub fn engines(&self) -> &[Engine] {
        self.state.engine.crew().map_or(&[], Crew::engines)
    }

    /// Whether anything was ever done, so that something of it may wait on disk.
    pub fn has_past(&self) -> bool {
        let now_ms = self.now_ms();
        let totals = self.sums().totals(now_ms, utc_offset_minutes(now_ms));
        self.state.has_run || totals != model::Totals::default()
    }

    /// Whether there is a crawl to take part in.
    pub fn has_crawl(&self) -> bool {
        !self.config.crawl.seeds.is_empty() || !self.config.overlay.bootstrap.is_empty()
    }

    /// Shows the first page.
    pub fn ask_first(&mut self) {
        // What was typed when it was there before is gone.
        self.forget_first_problems();
        let folder = self.archive_folder();
        self.state.first_run = Some(FirstRun {
            has_crawl: self.has_crawl(),
            memory_mb: (self.config.memory.limit_bytes / 1_000_000) as u32,
            archive_folder: folder.map_or_else(String::new, |path| path.display().to_string()),
        });
    }

    /// Says what was done.
    pub fn say(&mut self, text: impl Into<String>) {
        self.notice(text.into(), false);
    }

    /// Says what went wrong.
    pub fn fail(&mut self, text: impl Into<String>) {
        let text = text.into();
        tracing::warn!("{text}");
        self.notice(text, true);
    }

    fn notice(&mut self, text: String, failed: bool) {
        self.state.last_notice += 1;
        let id = self.state.last_notice;
        if !failed {
            tracing::info!("{text}");
        }
        let notice = Notice { id, text, failed };
        self.state.notices.push((Instant::now(), notice));
    }

    /// Makes one change: in the window, in the settings, in the file and in the engine.
    pub fn change(&mut self, setting: &Setting) {
        let before = self.config.clone();
        for (key, value) in settings::entries(setting) {
            match self.config.apply_flag(&format!("{key}={value}")) {
                Ok(()) => self.file.set(key, value, Instant::now()),
                Err(why) => return self.fail(why.what),
            }
        }
        self.shown.apply(setting);
        if self.config.desktop.first_run_done || self.demo.is_some() {
            self.show_settings();
        }
        self.apply_changes(&before);
    }

    /// Has the window show the settings as they are.
    pub fn show_settings(&mut self) {
        let hours = self.shown.schedule;
        self.shown = settings::view(&self.config);
        settings::keep_hours(&mut self.shown.schedule, &hours);
    }

    fn look_around(&mut self) {
        // Nobody else does while there is no engine.
        self.state.clock.iter().for_each(Clock::notice_sleep);
        self.move_on();
        self.run_or_rest();
        let now = Instant::now();
        if self.state.second.is_none_or(|at| now >= at + SECOND) {
            self.state.second = Some(now);
            self.count();
            self.sample();
            self.look_out();
        }
        let keep_period = match self.state.picture.idle_ms() < WORTH_SAYING_MS {
            true => KEEP_PERIOD,
            false => KEEP_AT_REST_PERIOD,
        };
        if is_due(&mut self.state.kept_at, keep_period, now) || self.state.writing.is_late() {
            self.keep();
        }
        if is_due(&mut self.state.graphs_kept_at, GRAPHS_PERIOD, now) {
            self.keep_graphs();
        }
        if let Err(why) = self.file.write_if_due(now) {
            self.fail(format!("The settings could not be saved: {why}"));
        }
        let is_young = |(at, _): &(Instant, Notice)| now < *at + NOTICE_LIFE;
        self.state.notices.retain(is_young);
        self.publish();
    }

    /// What keeps it from running, besides the volunteer.
    fn hold(&self) -> Option<PauseReason> {
        let engine = self.engine()?;
        let full = engine.ledger().is_archive_full();
        match engine.run_state().why {
            None => full.then_some(PauseReason::ArchiveFull),
            Some(WhyStopped::QuotaUsed { until_ms }) => Some(PauseReason::QuotaUsed { until_ms }),
            Some(WhyStopped::Conditions(reason)) => Some(match reason {
                Reason::Metered => PauseReason::Metered,
                Reason::Schedule { until_ms } => PauseReason::Schedule { until_ms },
                Reason::OnBattery => PauseReason::OnBattery,
                Reason::InUse => PauseReason::InUse,
                Reason::Busy => PauseReason::ComputerBusy,
            }),
            Some(WhyStopped::Finish | WhyStopped::Volunteer) => None,
        }
    }

    fn facts(&self) -> Facts {
        let all = self.engines();
        let now_ms = self.now_ms();
        Facts {
            now_ms,
            wish: self.state.kept.wish,
            stage: self.state.engine.stage(),
            hold: self.hold(),
            trouble: self.trouble(),
            tries_again: self.state.tries_again.is_some(),
            fetching: all.iter().map(Engine::fetching).sum(),
            outstanding: all.iter().map(Engine::outstanding).sum(),
            next_ms: all.iter().filter_map(Engine::next_fetch_ms).min(),
            idle_ms: self.state.picture.waiting_ms(Instant::now()),
            silent_ms: self.state.reach.silent_ms(now_ms),
            away_ms: self.state.reach.away_ms(now_ms),
            is_catching_up: all.iter().any(Engine::is_catching_up),
            has_all_pages: !all.is_empty() && all.iter().all(Engine::has_all_pages),
            is_limited: {
                let limits = &self.config.limits;
                limits.pages_per_min > 0 || (1..100).contains(&limits.cpu_percent)
            },
            all_fail: self.state.reach.all_fail,
        }
    }

    /// There is an icon for the tray, perhaps long after the last change was noted.
    pub fn take_tray(&mut self, tray: TrayIcon) {
        tray.tell(&self.state.noted, self.facts().state().can_start());
        self.state.tray = Some(tray);
    }

    /// A change of what it does is an event.
    fn note_state(&mut self, state: &RunState) {
        let words = match state {
            RunState::Starting => "Starting.".to_owned(),
            // These two take turns, and are no news.
            RunState::Crawling | RunState::Waiting(_) => "Crawling.".to_owned(),
            RunState::Paused(PauseReason::ByYou) => "Paused by you.".to_owned(),
            RunState::Paused(PauseReason::Until { .. }) => "Paused by you, for a time.".to_owned(),
            RunState::Paused(reason) => format!("Paused: {}.", reason_words(*reason)),
            RunState::Finishing { .. } => "Finishing what is under way.".to_owned(),
            RunState::Stopped => "Stopped.".to_owned(),
            RunState::NeedsYou { text, .. } => text.clone(),
        };
        if self.state.picture.idle_ms() < WORTH_SAYING_MS {
            // Pages come: what goes wrong from now on is news.
            self.state.told_outside.forget();
        }
        if self.state.noted != words {
            if let Some(tray) = &self.state.tray {
                tray.tell(&words, state.can_start());
            }
            let is_waiting = waits_for_the_volunteer(state);
            match state {
                RunState::NeedsYou { .. } => tracing::error!("{words}"),
                _ if is_waiting => tracing::warn!("{words}"),
                _ => tracing::info!("{words}"),
            }
            if is_waiting {
                self.state.told_outside.tell(&words);
            }
            self.state.noted = words;
        }
    }

    /// What else the volunteer should know is an event when it is new; sites that turn
    /// this computer away are worth a word outside of the window, once each time.
    fn note_warnings(&mut self) {
        let crew = self.state.engine.crew();
        let warnings = crew.map(Crew::warnings).unwrap_or_default();
        let bad_name = crew.and_then(Crew::bad_name);
        self.state.told_bad_name.tell(bad_name.as_deref());
        if self.state.warnings != warnings {
            let is_new = |one: &&String| !self.state.warnings.contains(one);
            for text in warnings.iter().filter(is_new) {
                tracing::warn!("{text}");
            }
            self.state.warnings = warnings;
        }
    }

    /// What the volunteer should know at present.
    pub fn warnings(&self) -> &[String] {
        &self.state.warnings
    }

    /// Counts what was done into the sums.
    pub(super) fn count(&mut self) {
        let now_ms = self.now_ms();
        let quota = self.engine().map(|engine| engine.limits().account());
        if let Some(count) = Picture::count_of(self.engines()) {
            // What a demo moves stays on this computer, and is no part of the account.
            if !self.is_demo() || self.data.is_none() {
                self.state.quota = quota.unwrap_or_default();
            }
            let offset = utc_offset_minutes(now_ms);
            self.sums_mut().count(count, now_ms, offset);
        }
    }

    fn sample(&mut self) {
        let now_ms = self.now_ms();
        let sample = self.state.picture.sample(now_ms);
        self.history_mut().add(sample);
        self.show_past();
    }

    /// Writes what is remembered from run to run; of a demo, nothing is.
    pub fn keep(&mut self) {
        let is_demo = self.is_demo();
        if let Some(data) = self.data.as_ref().filter(|_| !is_demo) {
            self.state.writing.begin(self.state.kept, data.path());
        }
    }

    /// The same, and waits until that is done.
    fn keep_now(&mut self) {
        let is_demo = self.is_demo();
        if let Some(data) = self.data.as_ref().filter(|_| !is_demo) {
            self.state.writing.finish(self.state.kept, data.path());
        }
    }

    fn keep_graphs(&self) {
        if !self.is_demo()
            && let Some(data) = &self.data
            && let Err(why) = keepsake::write_graphs(data.path(), &self.state.history)
        {
            tracing::warn!("the graphs could not be written: {why}");
        }
    }

    /// Writes the settings that wait to be written.
    pub fn write_config(&mut self) {
        if let Err(why) = self.file.write() {
            self.fail(format!("The settings could not be saved: {why}"));
        }
    }

    /// Makes a model and, if it differs from the last one, wakes the window.
    pub fn publish(&mut self) {
        let now = Instant::now();
        self.state.published = Some(now);
        if let Some(watcher) = &self.watcher {
            let can = watcher.abilities();
            self.abilities.battery = can.battery;
            self.abilities.metered = can.metered;
            self.abilities.processor = can.processor;
            self.abilities.idle_time = can.idle_time;
        }
        let tray = self.state.tray.as_ref();
        self.abilities.tray = tray.is_some_and(TrayIcon::is_shown);
        // First: how long it has waited is one of the facts.
        let is_running = self.state.kept.wish == Wish::Crawl && self.hold().is_none();
        self.state.picture.run(is_running, now);
        let facts = self.facts();
        let engines = self.state.engine.crew().map_or(&[][..], Crew::engines);
        self.state.picture.measure(engines, now);
        let state = facts.state();
        self.note_state(&state);
        self.note_warnings();
        let has_news =
            self.state.quits || self.state.raise_window != self.model.load().raise_window;
        if self.state.is_hidden && !has_news {
            return;
        }
        let model = self.draw(state);
        let last = self.model.load();
        let mut same = (**last).clone();
        same.now_ms = model.now_ms;
        if !matches!(
            model.state,
            RunState::Crawling
                | RunState::Waiting(_)
                | RunState::Finishing { .. }
                | RunState::NeedsYou {
                    is_running: true,
                    ..
                }
        ) {
            // At rest only the time moves on in them, and that can wait.
            same.graphs = model.graphs.clone();
            same.rates = model.rates;
            same.quota.reached_ms = model.quota.reached_ms;
            same.quota.is_pace_known = model.quota.is_pace_known;
            same.memory = model.memory;
        }
        let age = Duration::from_millis(model.now_ms.saturating_sub(last.now_ms));
        let is_news = model != same;
        same.rates = model.rates;
        same.memory = model.memory;
        same.fetching = model.fetching.clone();
        same.refused = model.refused;
        Arc::make_mut(&mut same.archive).bytes = model.archive.bytes;
        // Other rows come at once, if they were asked for.
        if self.state.woken_for == self.state.view {
            same.results = model.results.clone();
        }
        let is_other = model != same;
        if is_other || is_news && age >= FLICKER_PERIOD || age >= IDLE_PERIOD {
            self.state.woken_for = self.state.view.clone();
            self.model.store(Arc::new(model));
            (self.wake)();
        }
    }
}

/// Whether a period has passed since the last time, which is now if so. Nothing is due at once.
fn is_due(last: &mut Option<Instant>, period: Duration, now: Instant) -> bool {
    let since = *last.get_or_insert(now);
    let is_due = now >= since + period;
    if is_due {
        *last = Some(now);
    }
    is_due
}

fn reason_words(reason: PauseReason) -> &'static str {
    match reason {
        PauseReason::ByYou | PauseReason::Until { .. } => "by you",
        PauseReason::OnBattery => "on battery",
        PauseReason::Metered => "on a metered connection",
        PauseReason::ComputerBusy => "other programs need the processor",
        PauseReason::InUse => "the computer is in use",
        PauseReason::Schedule { .. } => "the schedule says so",
        PauseReason::QuotaUsed { .. } => "the monthly data is used up",
        PauseReason::ArchiveFull => "the archive is full",
    }
}
