//! What the user wants, carried out.
//!
//! An order comes in from the window, the tray or a thread that has done an errand; out go changes
//! of the settings and of the engine. What came of it is shown at the desk's next look around.
//!
//! - `first_page`: the answer to the first page
//! - `to_crawl`: web sites to begin with, and those to leave alone
//! - `meeting`: peers to call, and join files
//!
//! Here is the rest: crawling, pausing and finishing, and settings that have changed.

mod first_page;
mod meeting;
mod to_crawl;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use peercrawl_ui::Command;
use peercrawl_ui::model::Field;
use toml_edit::Value;

use super::archive_view::take_answer;
use super::demo::{ONLY_A_DEMO, is_outside_a_demo};
use super::desk::Desk;
use super::engine_stage::EngineStage;
use super::link::Order;
use super::stage::Wish;
use super::{autostart, tasks};
use crate::config::Settings;
use crate::crawl::CrawlDefinition;
use crate::data_directory::{DataDirectory, disk_limit};

impl Desk {
    /// Carries out an order. What came of it is shown at the next look around.
    pub fn take(&mut self, order: Order) {
        match order {
            Order::User(command) => self.carry_out(command),
            Order::Rung(join_file) => {
                self.come_forward();
                if let Some(path) = join_file {
                    self.read_join_file(&path);
                }
            }
            Order::Tray(tray) => self.take_tray(tray),
            Order::SystemTheme(is_dark) => self.state.system_is_dark = is_dark,
            Order::Stop => self.state.quits = true,
            Order::Chosen(field, path) => match field {
                Field::JoinFile => self.read_join_file(&path),
                Field::NewJoinFile => self.make_join_file(&path),
                Field::ArchiveFolder => self.carry_out(Command::MoveArchive(path)),
                _ => {}
            },
            Order::Found(url, answer) => take_answer(&mut self.state.look_up, &url, answer),
            Order::Archive {
                files,
                besides_bytes,
            } => {
                let shelf = &mut self.state.picture.shelf;
                (shelf.files, shelf.besides_bytes) = (files, besides_bytes);
                shelf.trouble.clear();
            }
            Order::ArchiveUnreadable(why) => {
                // It is looked through again and again.
                let shelf = &mut self.state.picture.shelf;
                if std::mem::replace(&mut shelf.trouble, why.clone()) != why {
                    self.fail(why);
                }
            }
            Order::MoveFiles { from, to, names } => self.move_files(from, to, names),
            Order::ArchiveChanged(what) => {
                self.archive_changed();
                self.take(Order::Done(what));
            }
            Order::Done(Ok(text)) if text.is_empty() => {}
            Order::Done(Ok(text)) => self.say(text),
            Order::Done(Err(text)) => self.fail(text),
        }
    }

    fn carry_out(&mut self, command: Command) {
        if self.demo.is_some() && is_outside_a_demo(&command) {
            return self.fail(ONLY_A_DEMO);
        }
        match command {
            Command::Begin { settings, with } => self.begin(&settings, with),
            Command::NotNow => self.state.first_run = None,
            Command::Start => self.go(),
            Command::Pause => self.pause(None),
            Command::PauseFor { minutes } => {
                let until_ms = self.now_ms() + u64::from(minutes) * 60_000;
                self.pause(Some(until_ms));
            }
            Command::FinishAndStop => self.finish(),
            Command::LeaveDemo => self.leave_demo(),
            Command::Change(setting) => self.change(&setting),
            Command::Show(view) => self.state.view = *view,
            Command::BlockSite(host) => self.block(&host, true),
            Command::UnblockSite(host) => self.block(&host, false),
            Command::CheckSeeds(text) => self.check_seeds(&text),
            Command::AddSeeds(seeds) => self.add_seeds(&seeds),
            Command::RemoveSeeds(seeds) => self.remove_seeds(&seeds),
            Command::AddPeer(address) => self.add_peer(&address),
            Command::ReadJoinFile(path) => self.read_join_file(&path),
            Command::AcceptJoin => self.accept_join(),
            Command::DeclineJoin => self.state.offer = None,
            Command::MakeJoinFile(path) => self.make_join_file(&path),
            Command::Browse(field) => self.browse(field),
            Command::OpenArchiveFolder => match self.archive_folder() {
                Some(folder) => tasks::open_folder(&self.orders, folder),
                None => self.fail("The demo keeps no pages."),
            },
            Command::LookUp(url) => self.look_up(&url),
            Command::MoveArchive(folder) => self.move_archive(&in_home(&folder)),
            Command::DropOldest => self.drop_oldest(),
            Command::Hidden => self.state.is_hidden = true,
            // The loop has ended with it.
            Command::Quit => {}
        }
    }

    /// Has the desktop ask for a file or folder.
    fn browse(&mut self, field: Field) {
        if self.state.dialog.is_open() {
            return self.say("The dialog is open already, perhaps behind this window.");
        }
        let at = PathBuf::from(self.join_file_path());
        self.state.dialog.open(&self.orders, field, &at);
    }

    /// Brings the window forward, if it is hidden or behind others.
    pub fn come_forward(&mut self) {
        self.state.is_hidden = false;
        self.state.raise_window += 1;
    }

    /// Something is wrong with what was typed.
    pub fn problem(&mut self, field: Field, text: impl Into<String>) {
        self.forget_problem(field);
        self.state.problems.push((field, text.into()));
    }

    /// Nothing is wrong with it.
    pub fn forget_problem(&mut self, field: Field) {
        self.state.problems.retain(|(of, _)| *of != field);
    }

    /// Crawl, or go on with it.
    fn go(&mut self) {
        // Who pauses goes on with whatever it was, and be it with what others send.
        let goes_on = matches!(self.state.kept.wish, Wish::Pause { .. }) && self.engine().is_some();
        let is_at_work = self.engines().iter().any(|one| one.outstanding() > 0);
        let mut has_work = self.has_crawl() || goes_on || is_at_work;
        let may_have_work = self.engine().is_none() && self.has_past();
        if !has_work && may_have_work && self.demo.is_none() && self.config.desktop.first_run_done {
            // Whether something waits on disk is known once it is there.
            self.state.asks_if_idle = true;
            has_work = true;
        }
        if self.demo.is_none() && !(has_work && self.config.desktop.first_run_done) {
            // From the tray, it is asked where nobody sees it.
            self.come_forward();
            return self.ask_first();
        }
        if self.state.kept.wish == Wish::Crawl
            && let EngineStage::Present(_) = self.state.engine
            && let Some(trouble) = self.trouble()
        {
            return self.fail(format!("It keeps trying. {trouble}"));
        }
        self.state.kept.wish = Wish::Crawl;
        self.state.trouble = None;
        self.keep();
        self.take_finish_back();
        self.start();
    }

    /// An engine that was to finish stays; tells whether there is one.
    fn take_finish_back(&mut self) -> bool {
        let (engine, is_back) = match std::mem::take(&mut self.state.engine) {
            EngineStage::Finishing(crew, _) => (EngineStage::Present(crew), true),
            other => (other, false),
        };
        self.state.engine = engine;
        is_back
    }

    fn pause(&mut self, until_ms: Option<u64>) {
        let can_start = self.demo.is_some() || self.has_crawl() || self.has_past();
        let was_paused = std::mem::take(&mut self.state.was_paused) && can_start;
        let is_back = self.take_finish_back();
        if self.state.kept.wish == Wish::Stopped && !is_back && !was_paused {
            return;
        }
        self.state.kept.wish = Wish::Pause { until_ms };
        // The engine is told at once; to remember it takes a while.
        self.run_or_rest();
        self.keep();
        if was_paused {
            // It had finished already: from a pause, that takes no time.
            self.start();
        }
    }

    fn finish(&mut self) {
        if self.state.kept.wish != Wish::Stopped {
            self.state.was_paused = matches!(self.state.kept.wish, Wish::Pause { .. });
        }
        self.state.kept.wish = Wish::Stopped;
        self.forget_trouble();
        if let EngineStage::Present(_) = self.state.engine
            && let EngineStage::Present(crew) = std::mem::take(&mut self.state.engine)
        {
            self.state.engine = EngineStage::Finishing(crew, Instant::now());
        }
        self.run_or_rest();
        self.keep();
    }

    /// Sets a key that has no control of its own.
    fn set_key(&mut self, key: &str, value: Value) {
        match self.config.apply_flag(&format!("{key}={value}")) {
            Ok(()) => self.file.set(key, value, Instant::now()),
            Err(why) => self.fail(why.what),
        }
    }

    /// Has everything that runs follow settings that have changed.
    pub fn apply_changes(&mut self, before: &Settings) {
        if before.desktop.start_at_login != self.config.desktop.start_at_login
            && let Err(why) = self.set_autostart()
        {
            // The window and the config file say what is so.
            let was_set = before.desktop.start_at_login;
            self.set_key("desktop.start_at_login", was_set.into());
            self.shown.start_at_login = was_set;
            self.fail(format!("Starting at login could not be changed: {why}"));
        }
        if before.overlay.kind != self.config.overlay.kind {
            self.start_again();
        }
        if let Some(watcher) = &self.watcher {
            watcher.set_rules(&self.config.schedule, &self.config.pause);
        }
        self.tell_engine(before);
    }

    /// Has this profile open at login, or not.
    fn set_autostart(&self) -> io::Result<()> {
        if !self.config.desktop.start_at_login {
            return autostart::unset(self.file.path());
        }
        let data = self.data.as_deref().map(DataDirectory::path);
        autostart::set(data, self.file.path())
    }

    /// Tells the engine, if there is one, what has changed since it had these settings.
    pub fn tell_engine(&mut self, before: &Settings) {
        let now = &self.config;
        if before.limits != now.limits
            && let Some(engine) = self.engine()
        {
            engine.limits().apply(&now.limits);
        }
        if before.archive != now.archive
            && let Some(engine) = self.engine()
        {
            engine.ledger().set_archive_limit(disk_limit(&now.archive));
        }
        let is_allowed = now.overlay.allow_supernode;
        if before.overlay.allow_supernode != is_allowed {
            let engines = self.engines().iter();
            engines.for_each(|engine| engine.allow_supernode(is_allowed));
        }
        self.follow_blocked(&before.crawl.blocked_sites);
        let crawl = CrawlDefinition::from_settings;
        if crawl(&before.crawl) != crawl(&self.config.crawl) {
            self.begin_crawl();
        }
    }
}

/// A path as people write it: `~` is their home.
fn in_home(path: &Path) -> PathBuf {
    let folders = directories::UserDirs::new();
    match (path.strip_prefix("~"), folders) {
        (Ok(rest), Some(folders)) => folders.home_dir().join(rest),
        _ => path.to_owned(),
    }
}
