//! What a demo may and may not do: it is closed in, and nothing of it is kept.

use std::sync::Arc;

use peercrawl_ui::Command;
use peercrawl_ui::model::Setting;

use super::crew::Crew;
use super::desk::Desk;
use super::history::History;
use super::picture::Picture;
use super::stage::Wish;
use super::totals::Sums;

/// Why something cannot be done in a demo.
pub const ONLY_A_DEMO: &str = "This is a demo: it crawls its own made-up web and nothing else. Leave \
                           the demo first.";

/// What a demo has no part in: other web sites, other peers, and files.
pub fn is_outside_a_demo(command: &Command) -> bool {
    matches!(
        command,
        Command::AddSeeds(_)
            | Command::RemoveSeeds(_)
            | Command::AddPeer(_)
            | Command::ReadJoinFile(_)
            | Command::AcceptJoin
            | Command::MakeJoinFile(_)
            | Command::Browse(_)
            | Command::OpenArchiveFolder
            | Command::LookUp(_)
            | Command::MoveArchive(_)
            | Command::DropOldest
            | Command::Change(Setting::Scope(_) | Setting::MaxDepth(_))
    )
}

impl Desk {
    /// Ends the demo, and goes back to where it was begun.
    pub fn leave_demo(&mut self) {
        if self.demo.is_none() || self.data.is_none() {
            return;
        }
        self.demo = None;
        self.state.kept.wish = Wish::Stopped;
        self.forget_trouble();
        self.state.starts_again = false;
        self.state.was_paused = false;
        if let Some(blocked) = self.state.blocked_before.take() {
            self.config.crawl.blocked_sites = blocked;
        }
        self.end();
        self.state.picture = Picture::default();
        self.show_past();
        if !self.config.desktop.first_run_done || !self.has_crawl() {
            self.ask_first();
        }
    }

    /// Whether what happens is a demo, or the rest of one.
    pub fn is_demo(&self) -> bool {
        self.demo.is_some() || self.state.engine.crew().is_some_and(Crew::is_demo)
    }

    /// What was done: by the volunteer's own crawl, or in this demo.
    pub fn sums(&self) -> &Sums {
        match self.demo {
            Some(_) => &self.state.demo_past.1,
            None => &self.state.kept.sums,
        }
    }

    pub fn sums_mut(&mut self) -> &mut Sums {
        match self.is_demo() {
            true => &mut self.state.demo_past.1,
            false => &mut self.state.kept.sums,
        }
    }

    pub fn history_mut(&mut self) -> &mut History {
        match self.is_demo() {
            true => &mut self.state.demo_past.0,
            false => &mut self.state.history,
        }
    }

    /// Has the graphs show the past that belongs to what happens now.
    pub fn show_past(&mut self) {
        let graphs = self.history_mut().graphs();
        self.state.picture.graphs = Arc::new(graphs);
    }
}
