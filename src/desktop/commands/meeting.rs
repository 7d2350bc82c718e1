//! Meeting others: peers that are called, and join files, made and followed.

use std::path::Path;

use peercrawl_ui::model::Field;

use super::in_home;
use super::to_crawl::list;
use crate::desktop::demo::ONLY_A_DEMO;
use crate::desktop::desk::Desk;
use crate::desktop::join_file::{self, JoinFile};
use crate::desktop::network_view::{Reaches, outside_first, reaches};
use crate::desktop::{addresses, config_file, settings};
use crate::engine::Engine;

impl Desk {
    pub(super) fn set_bootstrap(&mut self, addresses: Vec<String>) {
        self.set_key("overlay.bootstrap", list(&addresses));
    }

    pub(super) fn add_peer(&mut self, address: &str) {
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
    pub(super) fn call(&mut self, addresses: &[String]) {
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

    pub(super) fn read_join_file(&mut self, path: &Path) {
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

    pub(super) fn accept_join(&mut self) {
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
            settings::propose(&mut self.shown);
            return self.ask_first();
        }
        self.say(format!("Joined “{}”.", self.config.overlay.network));
        self.start_again();
        self.begun();
    }

    pub(super) fn make_join_file(&mut self, path: &Path) {
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
        if let Err(why) = config_file::replace(&path, text.as_bytes()) {
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
}
