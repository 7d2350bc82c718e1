//! What the user wants, carried out.

use std::path::{Path, PathBuf};
use std::time::Instant;

use peercrawl_ui::Command;
use peercrawl_ui::command::Begin;
use peercrawl_ui::model::{Field, LookUp, Setting};
use toml_edit::{Array, Value};

use super::crew::DemoSpec;
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
use crate::engine::Engine;

impl Desk {
    /// Carries out an order, and shows what came of it.
    pub fn take(&mut self, order: Order) {
        match order {
            Order::User(command) => self.carry_out(command),
            Order::Rung(join_file) => {
                self.state.is_hidden = false;
                self.state.raise_window += 1;
                if let Some(path) = join_file {
                    self.read_join_file(&path);
                }
            }
            Order::Tray(tray) => self.take_tray(tray),
            Order::Stop => self.state.quits = true,
            Order::Chosen(field, path) => match field {
                Field::JoinFile => self.read_join_file(&path),
                Field::NewJoinFile => self.make_join_file(&path),
                Field::ArchiveFolder => self.carry_out(Command::MoveArchive(path)),
                _ => {}
            },
            Order::Found(url, found) => self.state.look_up = Some(LookUp { url, found }),
            Order::Archive(files) => self.state.picture.shelf.files = files,
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
            Command::CheckSeeds(text) => {
                let known = &self.config.crawl.seeds;
                let network = &self.config.network;
                self.state.check = addresses::check_seeds(&self.form(), network, &text, known);
            }
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
            Command::MoveArchive(folder) => self.move_archive(&folder),
            Command::DropOldest => self.drop_oldest(),
            Command::Hidden => self.state.is_hidden = true,
            // The loop has ended with it.
            Command::Quit => {}
        }
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

    /// The first page was answered with *Start crawling*.
    fn begin(&mut self, settings: &[Setting], with: Begin) {
        for field in [Field::FirstSite, Field::PeerAddress, Field::JoinFile] {
            self.forget_problem(field);
        }
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

    /// The first page has been answered for good.
    fn begun(&mut self) {
        self.state.first_run = None;
        if self.demo.is_none() {
            self.set_key("desktop.first_run_done", Value::from(true));
        }
        self.state.kept.wish = Wish::Crawl;
        self.keep();
        self.start();
    }

    /// Crawl, or go on with it.
    fn go(&mut self) {
        if self.demo.is_none() && !self.has_crawl() {
            return self.ask_first();
        }
        if self.demo.is_none() && !self.config.desktop.first_run_done {
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
        if let EngineStage::Finishing(..) = self.state.engine
            && let EngineStage::Finishing(crew, _) = std::mem::take(&mut self.state.engine)
        {
            self.state.engine = EngineStage::Present(crew);
        }
        self.start();
    }

    fn pause(&mut self, until_ms: Option<u64>) {
        if self.state.kept.wish != Wish::Stopped {
            self.state.kept.wish = Wish::Pause { until_ms };
            self.keep();
        }
    }

    fn finish(&mut self) {
        self.state.kept.wish = Wish::Stopped;
        self.state.trouble = None;
        self.keep();
        if let EngineStage::Present(_) = self.state.engine
            && let EngineStage::Present(crew) = std::mem::take(&mut self.state.engine)
        {
            self.state.engine = EngineStage::Finishing(crew, Instant::now());
        }
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
    }

    fn set_bootstrap(&mut self, addresses: Vec<String>) {
        self.set_key("overlay.bootstrap", list(&addresses));
    }

    fn add_seeds(&mut self, seeds: &[String]) {
        let mut all = self.config.crawl.seeds.clone();
        for seed in seeds {
            match self.seed_address(seed) {
                Ok(url) if !all.contains(&url.to_string()) => all.push(url.to_string()),
                Ok(_) => {}
                Err(why) => self.fail(format!("{seed}: {why}")),
            }
        }
        self.set_seeds(all);
        self.begin_crawl();
    }

    fn remove_seeds(&mut self, seeds: &[String]) {
        let form = self.form();
        let gone: Vec<String> = seeds
            .iter()
            .map(|seed| {
                addresses::web_address(&form, seed)
                    .map_or_else(|_| seed.clone(), |url| url.to_string())
            })
            .collect();
        let is_kept = |seed: &&String| !gone.contains(seed) && !seeds.contains(seed);
        let left = self.config.crawl.seeds.iter().filter(is_kept).cloned();
        let left = left.collect();
        self.set_seeds(left);
    }

    /// Has the engine take part in the crawl as it is defined now: what waits follows its
    /// scope and its depth. What the engine has seen it does not fetch again, but for the
    /// seeds.
    fn begin_crawl(&mut self) {
        let definition = CrawlDefinition::from_settings(&self.config.crawl);
        if definition.seeds.is_empty() {
            return;
        }
        let begun = self.engine().map(|engine| engine.begin(definition));
        if let Some(Err(why)) = begun {
            self.fail(why.to_string());
        }
    }

    fn block(&mut self, host: &str, is_blocked: bool) {
        let mut blocked = self.config.crawl.blocked_sites.clone();
        blocked.retain(|one| one != host);
        if is_blocked {
            blocked.push(host.to_owned());
        }
        match self.demo {
            // Its hosts are made up.
            Some(_) => self.config.crawl.blocked_sites = blocked,
            None => self.set_key("crawl.blocked_sites", list(&blocked)),
        }
        let done = self.engines().iter().map(|engine| match is_blocked {
            true => engine.block(host),
            false => engine.unblock(host),
        });
        if let Some(why) = done.filter_map(Result::err).next() {
            self.fail(format!("{host}: {why}"));
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
        match self.state.engine.crew() {
            Some(_) => self.say(format!("Calling {address}.")),
            None => self.say(format!("{address} is called when the crawl starts.")),
        }
        let address = [address.to_owned()];
        let is_called = |engine: &Engine| engine.overlay().seek_at(&address);
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
        match JoinFile::read(path) {
            Ok(joined) => {
                let is_crawling = self.state.engine.crew().is_some();
                let offer = joined.offer(path, &self.config, is_crawling);
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
        // Keys that the file leaves out are as in a fresh crawl, not as in the last one.
        let usual = Settings::default();
        self.set_bootstrap(usual.overlay.bootstrap);
        self.set_seeds(usual.crawl.seeds);
        for (key, value) in joined.keys {
            self.set_key(&key, value);
        }
        self.shown = super::settings::view(&self.config);
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
        if path.exists() && JoinFile::read(&path).is_err() {
            let why = "A file of that name is there, and is no join file. Choose another name.";
            return self.problem(Field::NewJoinFile, why);
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
        for proposed in [
            Setting::DownloadKibPerS(shown.download_kib_per_s),
            Setting::UploadKibPerS(shown.upload_kib_per_s),
            Setting::MonthlyGb(shown.monthly_gb),
            Setting::DiskGb(shown.disk_gb),
            Setting::Connections(shown.connections),
            Setting::CpuPercent(shown.cpu_percent),
        ] {
            self.change(&proposed);
        }
    }

    /// Has the running engine follow settings that have changed.
    pub fn apply_changes(&mut self, before: &Settings) {
        let now = self.config.clone();
        if before.desktop.start_at_login != now.desktop.start_at_login
            && let Err(why) = autostart::set(now.desktop.start_at_login)
        {
            self.fail(format!("Starting at login could not be changed: {why}"));
        }
        let starts_again = before.overlay.kind != now.overlay.kind
            || before.overlay.allow_supernode != now.overlay.allow_supernode;
        if starts_again {
            self.start_again();
        }
        if before.limits != now.limits
            && let Some(engine) = self.engine()
        {
            engine.limits().apply(&now.limits);
        }
        if let Some(watcher) = &self.watcher {
            watcher.set_rules(&now.schedule, &now.pause);
        }
        if before.archive != now.archive
            && let Some(engine) = self.engine()
        {
            engine.ledger().set_archive_limit(disk_limit(&now.archive));
        }
        let is_other_crawl =
            before.crawl.scope != now.crawl.scope || before.crawl.max_depth != now.crawl.max_depth;
        if is_other_crawl {
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
