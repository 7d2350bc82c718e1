//! What the user wants, carried out.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use peercrawl_ui::Command;
use peercrawl_ui::command::Begin;
use peercrawl_ui::model::{Field, LookUp, Setting};
use toml_edit::{Array, Value};

use super::crew::{Crew, DemoSpec};
use super::demo::{ONLY_A_DEMO, is_outside_a_demo};
use super::desk::Desk;
use super::engine_stage::EngineStage;
use super::join_file::{self, JoinFile};
use super::link::Order;
use super::network_view::{Reaches, outside_first, reaches};
use super::stage::Wish;
use super::{addresses, autostart, tasks};
use crate::canonical::{CanonicalForm, CanonicalUrl};
use crate::config::Settings;
use crate::crawl::CrawlDefinition;
use crate::data_directory::disk_limit;
use crate::engine::{CrawlError, Engine};
use crate::message::can_travel;

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
            Order::Found(url, found) => self.state.look_up = Some(LookUp { url, found }),
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
            Command::Browse(field) => {
                let at = PathBuf::from(self.join_file_path());
                tasks::browse(&self.orders, field, &at);
            }
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

    /// Brings the window forward, if it is hidden or behind others.
    fn come_forward(&mut self) {
        self.state.is_hidden = false;
        self.state.raise_window += 1;
    }

    fn form(&self) -> CanonicalForm {
        CanonicalForm::new(&self.config.crawl.session_ids)
    }

    fn seed_address(&self, text: &str) -> Result<CanonicalUrl, String> {
        addresses::seed_address(&self.form(), &self.config.network, text)
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

    /// Nothing is wrong with what is typed into the first page.
    pub fn forget_first_problems(&mut self) {
        for field in [Field::FirstSite, Field::PeerAddress, Field::JoinFile] {
            self.forget_problem(field);
        }
    }

    /// The first page was answered with *Start crawling*.
    fn begin(&mut self, settings: &[Setting], with: Begin) {
        self.forget_first_problems();
        match with {
            Begin::AsConfigured => {}
            Begin::Site(text) => match self.seed_address(&text) {
                Ok(url) => self.set_seeds(vec![url.to_string()]),
                Err(why) => return self.problem(Field::FirstSite, why),
            },
            Begin::Peer(address) => match addresses::check(&address) {
                Ok(()) => self.set_bootstrap(vec![address]),
                Err(why) => return self.problem(Field::PeerAddress, why),
            },
            Begin::JoinFile(path) => {
                self.apply_first(settings);
                self.state.is_first_page_answered = true;
                return self.read_join_file(&path);
            }
            Begin::Demo => {
                // First, because in a demo the window shows what is set, and forgets what
                // the first page proposed.
                self.apply_first(settings);
                self.keep();
                self.demo = Some(DemoSpec::default());
                self.state.demo_past = Default::default();
                self.state.blocked_before = Some(self.config.crawl.blocked_sites.clone());
                return self.begun();
            }
        }
        self.apply_first(settings);
        self.begun();
    }

    /// The settings of the first page: what was changed there, and what it proposed.
    fn apply_first(&mut self, settings: &[Setting]) {
        for setting in settings {
            self.change(setting);
        }
        self.write_first_limits();
    }

    /// The first page has been answered for good. There may be an engine already, paused or
    /// about to finish: it takes part in what was named there.
    fn begun(&mut self) {
        self.state.first_run = None;
        if self.demo.is_none() {
            self.set_key("desktop.first_run_done", Value::from(true));
        }
        self.state.kept.wish = Wish::Crawl;
        self.keep();
        self.take_finish_back();
        self.start();
        self.begin_crawl();
        let called = self.config.overlay.bootstrap.clone();
        if self.demo.is_none() && self.engine().is_some() && !called.is_empty() {
            self.call(&called);
        }
    }

    /// Crawl, or go on with it.
    fn go(&mut self) {
        let has_work = self.has_crawl() || self.engines().iter().any(|one| one.outstanding() > 0);
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
        let can_start = self.demo.is_some() || self.has_crawl();
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

    fn set_seeds(&mut self, seeds: Vec<String>) {
        self.set_key("crawl.seeds", list(&seeds));
        // What is typed beside them may have been one of them, or be one now.
        let typed = std::mem::take(&mut self.state.check.text);
        self.check_seeds(&typed);
    }

    fn check_seeds(&mut self, text: &str) {
        let (form, crawl) = (self.form(), self.definition());
        let network = &self.config.network;
        let mut check = addresses::check_seeds(&form, network, text, &crawl.seeds);
        addresses::mark_surplus(&form, &mut check, crawl);
        self.state.check = check;
    }

    fn set_bootstrap(&mut self, addresses: Vec<String>) {
        self.set_key("overlay.bootstrap", list(&addresses));
    }

    fn add_seeds(&mut self, seeds: &[String]) {
        let form = self.form();
        let mut crawl = self.definition();
        let mut known: HashSet<String> = crawl.seeds.iter().cloned().collect();
        for seed in seeds {
            match addresses::seed_address(&form, &self.config.network, seed) {
                Ok(url) => {
                    let url = url.to_string();
                    if known.insert(url.clone()) {
                        crawl.seeds.push(url);
                    }
                }
                Err(why) => self.fail(format!("{seed}: {why}")),
            }
        }
        if !can_travel(&crawl) {
            let why = CrawlError::TooManySeeds(crawl.seeds.len());
            return self.fail(format!("Nothing was added: {why}"));
        }
        self.set_seeds(crawl.seeds);
        self.begin_crawl();
    }

    fn remove_seeds(&mut self, seeds: &[String]) {
        let form = self.form();
        let canonical = seeds
            .iter()
            .filter_map(|seed| addresses::web_address(&form, seed).ok());
        let mut gone: HashSet<String> = canonical.map(|url| url.to_string()).collect();
        gone.extend(seeds.iter().cloned());
        let mut left = self.config.crawl.seeds.clone();
        left.retain(|seed| !gone.contains(seed));
        self.set_seeds(left);
    }

    /// The crawl that the settings describe.
    fn definition(&self) -> CrawlDefinition {
        CrawlDefinition::from_settings(&self.config.crawl)
    }

    /// Has the engines take part in the crawl as it is defined now: what waits follows its
    /// scope and its depth. What an engine has seen it does not fetch again, but for the
    /// seeds.
    fn begin_crawl(&mut self) {
        let mut definition = self.definition();
        if let Some(seeds) = self.state.engine.crew().and_then(Crew::demo_seeds) {
            definition.seeds = seeds;
        }
        if definition.seeds.is_empty() {
            return;
        }
        let begin = |engine: &Engine| engine.begin(definition.clone()).err();
        let failed: Vec<CrawlError> = self.engines().iter().filter_map(begin).collect();
        if let Some(why) = failed.first() {
            self.fail(why.to_string());
        }
    }

    fn block(&mut self, host: &str, is_blocked: bool) {
        let before = self.config.crawl.blocked_sites.clone();
        let mut blocked = before.clone();
        blocked.retain(|one| one != host);
        if is_blocked {
            blocked.push(host.to_owned());
        }
        match self.demo {
            // Its hosts are made up.
            Some(_) => self.config.crawl.blocked_sites = blocked,
            None => self.set_key("crawl.blocked_sites", list(&blocked)),
        }
        self.follow_blocked(&before);
        if !is_blocked {
            // It was forgotten: if the crawl begins there, it begins anew.
            self.begin_crawl();
        }
    }

    /// Has the engines leave alone what is blocked now, and visit again what no longer is.
    fn follow_blocked(&mut self, before: &[String]) {
        let now = &self.config.crawl.blocked_sites;
        let mut failed = Vec::new();
        for engine in self.engines() {
            let new = now.iter().filter(|host| !before.contains(host));
            let gone = before.iter().filter(|host| !now.contains(host));
            let new = new.map(|host| (host, engine.block(host)));
            let gone = gone.map(|host| (host, engine.unblock(host)));
            failed.extend(new.chain(gone).filter_map(|(host, done)| {
                let why = done.err()?;
                Some(format!("{host}: {why}"))
            }));
        }
        if let Some(why) = failed.pop() {
            self.fail(why);
        }
    }

    fn add_peer(&mut self, address: &str) {
        self.forget_problem(Field::PeerAddress);
        if let Err(why) = addresses::check(address) {
            return self.problem(Field::PeerAddress, why);
        }
        let mut all = self.config.overlay.bootstrap.clone();
        if !all.iter().any(|one| one == address) {
            all.push(address.to_owned());
            self.set_bootstrap(all);
        }
        // It has some time to answer.
        let now_ms = self.now_ms();
        self.state.reach.meet(false, now_ms);
        match self.state.engine.crew() {
            Some(_) => self.say(format!("Calling {address}.")),
            None => self.say(format!("{address} is called when the crawl starts.")),
        }
        self.call(&[address.to_owned()]);
    }

    /// Has the engine, if there is one, look for others at these addresses.
    fn call(&mut self, addresses: &[String]) {
        let is_called = |engine: &Engine| engine.overlay().seek_at(addresses);
        // A peer whose overlay could not start has none that could call anybody.
        if !self.engine().is_some_and(is_called) {
            self.start_again();
        }
    }

    /// Where a new join file would be written.
    pub fn join_file_path(&self) -> String {
        let folder = self.state.documents.get_or_init(|| {
            let folders = directories::UserDirs::new();
            let folder = folders.map(|folders| {
                let documents = folders.document_dir();
                documents.unwrap_or(folders.home_dir()).to_owned()
            });
            folder.unwrap_or_default()
        });
        let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        let name = self.config.overlay.network.chars();
        let name: String = name
            .map(|one| if is_plain(one) { one } else { '-' })
            .collect();
        let file = folder.join(format!("{name}.peercrawl"));
        file.display().to_string()
    }

    fn read_join_file(&mut self, path: &Path) {
        self.forget_problem(Field::JoinFile);
        if self.demo.is_some() {
            return self.fail(ONLY_A_DEMO);
        }
        let path = in_home(path);
        match JoinFile::read(&path) {
            Ok(joined) => {
                let is_crawling = self.state.engine.crew().is_some();
                let offer = joined.offer(&path, &self.config, is_crawling);
                self.state.offer = Some((joined, offer));
            }
            Err(why) => {
                self.problem(Field::JoinFile, why.to_string());
                self.fail(format!("{}: {why}", path.display()));
            }
        }
    }

    fn accept_join(&mut self) {
        let Some((joined, _)) = self.state.offer.take() else {
            return;
        };
        for (key, value) in joined.keys {
            self.set_key(&key, value);
        }
        self.show_settings();
        let is_answered = self.state.is_first_page_answered;
        if !self.config.desktop.first_run_done && !is_answered {
            // Nobody crawls before they have seen what it takes, and chosen their limits.
            super::settings::propose(&mut self.shown);
            return self.ask_first();
        }
        self.say(format!("Joined “{}”.", self.config.overlay.network));
        self.start_again();
        self.begun();
    }

    fn make_join_file(&mut self, path: &Path) {
        self.forget_problem(Field::NewJoinFile);
        let addresses = self.engine().map(|engine| engine.overlay().callable());
        let mut addresses = outside_first(addresses.unwrap_or_default());
        let nearest = addresses.first().map(|first| reaches(first));
        if nearest < Some(Reaches::ThisComputer) {
            // Those of this computer alone are of use to nobody else.
            addresses.retain(|address| reaches(address) < Reaches::ThisComputer);
        }
        let text = join_file::text(&self.config, &addresses);
        let path = in_home(path);
        let path = match path.extension() {
            Some(_) => path,
            None => path.with_extension("peercrawl"),
        };
        if path.exists() {
            let why = match JoinFile::read(&path) {
                Err(_) => "A file of that name is there, and is no join file.",
                Ok(file) if file.settings.overlay.network != self.config.overlay.network => {
                    "A join file of another network has that name."
                }
                // It was made before, and something has changed since.
                Ok(_) => "",
            };
            if !why.is_empty() {
                return self.problem(Field::NewJoinFile, format!("{why} Choose another name."));
            }
        }
        if let Err(why) = super::config_file::replace(&path, text.as_bytes()) {
            return self.problem(Field::NewJoinFile, why.to_string());
        }
        let warning = match nearest {
            // There are others to call.
            _ if !self.config.overlay.bootstrap.is_empty() => "",
            Some(Reaches::Anywhere | Reaches::ThroughRelay) => "",
            Some(Reaches::LocalNetwork) => {
                " As far as is known, only computers on your local network can call this one: \
                 friends elsewhere may not find it."
            }
            Some(Reaches::ThisComputer) | None => {
                " It names no computer that could be called: start crawling, then make it again."
            }
        };
        self.say(format!("The join file is {}.{warning}", path.display()));
    }

    /// What the first page proposes becomes the volunteer's own choice with its answer.
    fn write_first_limits(&mut self) {
        if self.config.desktop.first_run_done {
            return;
        }
        let shown = self.shown.clone();
        // A limit of 500 MB is shown as 1 GB, and stays what it is.
        let disk_gb = super::settings::view(&self.config).disk_gb;
        for proposed in [
            Setting::DownloadKibPerS(shown.download_kib_per_s),
            Setting::UploadKibPerS(shown.upload_kib_per_s),
            Setting::MonthlyGb(shown.monthly_gb),
            Setting::DiskGb(shown.disk_gb),
            Setting::Connections(shown.connections),
            Setting::CpuPercent(shown.cpu_percent),
        ] {
            if proposed != Setting::DiskGb(disk_gb) {
                self.change(&proposed);
            }
        }
    }

    /// Has everything that runs follow settings that have changed.
    pub fn apply_changes(&mut self, before: &Settings) {
        let is_wanted = self.config.desktop.start_at_login;
        if before.desktop.start_at_login != is_wanted
            && let Err(why) = autostart::set(is_wanted)
        {
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

fn list(items: &[String]) -> Value {
    let array: Array = items.iter().map(String::as_str).collect();
    array.into()
}

/// A path as people write it: `~` is their home.
fn in_home(path: &Path) -> PathBuf {
    let folders = directories::UserDirs::new();
    match (path.strip_prefix("~"), folders) {
        (Ok(rest), Some(folders)) => folders.home_dir().join(rest),
        _ => path.to_owned(),
    }
}
