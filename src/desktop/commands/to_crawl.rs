//! Which web sites a crawl begins with, and which it leaves alone: changed while it runs.

use std::collections::HashSet;

use toml_edit::{Array, Value};

use crate::blocklist::BlockList;
use crate::canonical::{CanonicalForm, CanonicalUrl};
use crate::crawl::CrawlDefinition;
use crate::desktop::addresses;
use crate::desktop::crew::Crew;
use crate::desktop::desk::Desk;
use crate::engine::{CrawlError, Engine};
use crate::message::can_travel;

impl Desk {
    fn form(&self) -> CanonicalForm {
        CanonicalForm::new(&self.config.crawl.session_ids)
    }

    pub(super) fn seed_address(&self, text: &str) -> Result<CanonicalUrl, String> {
        addresses::seed_address(&self.form(), &self.config.network, &self.blocked(), text)
    }

    /// The sites that the volunteer has blocked.
    fn blocked(&self) -> BlockList {
        BlockList::of(&self.config.crawl.blocked_sites)
    }

    pub(super) fn set_seeds(&mut self, seeds: Vec<String>) {
        self.set_key("crawl.seeds", list(&seeds));
        // What is typed beside them may have been one of them, or be one now.
        self.check_again();
    }

    fn check_again(&mut self) {
        let typed = std::mem::take(&mut self.state.check.text);
        self.check_seeds(&typed);
    }

    pub(super) fn check_seeds(&mut self, text: &str) {
        let (form, crawl) = (self.form(), self.definition());
        let network = &self.config.network;
        let mut check = addresses::check_seeds(&form, network, &self.blocked(), text, &crawl.seeds);
        addresses::mark_surplus(&form, &mut check, crawl);
        self.state.check = check;
    }

    pub(super) fn add_seeds(&mut self, seeds: &[String]) {
        let (form, blocked) = (self.form(), self.blocked());
        let mut crawl = self.definition();
        let mut known: HashSet<String> = crawl.seeds.iter().cloned().collect();
        for seed in seeds {
            match addresses::seed_address(&form, &self.config.network, &blocked, seed) {
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

    pub(super) fn remove_seeds(&mut self, seeds: &[String]) {
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
    pub(super) fn begin_crawl(&mut self) {
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

    pub(super) fn block(&mut self, host: &str, is_blocked: bool) {
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
        self.check_again();
        self.follow_blocked(&before);
        if !is_blocked {
            // It was forgotten: if the crawl begins there, it begins anew.
            self.begin_crawl();
        }
    }

    /// Has the engines leave alone what is blocked now, and visit again what no longer is.
    pub(super) fn follow_blocked(&mut self, before: &[String]) {
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
}

/// As a config file has it.
pub(super) fn list(items: &[String]) -> Value {
    let array: Array = items.iter().map(String::as_str).collect();
    array.into()
}
