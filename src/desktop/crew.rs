//! The engine behind the window: one peer of the volunteer's network, or the demo with
//! its own web and several peers. What the window wants concerns all of them; its tables
//! show the first.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use peercrawl_overlay::Overlay;

use super::totals::Count;
use crate::conditions::Lookout;
use crate::config::Settings;
use crate::crawl::CrawlDefinition;
use crate::data_directory::DataDirectory;
use crate::demo::fleet::Fleet;
use crate::demo::web::{Web, WebSpec};
use crate::engine::{Engine, Surroundings};
use crate::joining;
use crate::limits::Limits;
use crate::resolver::SystemNames;

/// What a demo consists of.
#[derive(Debug, Clone)]
pub struct DemoSpec {
    /// Peers.
    pub peers: u8,
    /// Hosts of the built-in web.
    pub hosts: u32,
    /// Pages in all.
    pub pages: u32,
    /// Another number, another web.
    pub seed: u64,
}

impl Default for DemoSpec {
    fn default() -> Self {
        Self {
            peers: 4,
            hosts: 200,
            pages: 10_000,
            seed: 1,
        }
    }
}

/// The first look at the conditions is over by then, or nobody waits for it any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
pub enum Crew {
    /// A peer of the volunteer's network.
    Peer {
        /// The peer.
        engine: Box<Engine>,
        /// Why it is alone, if it could not join a network.
        why_alone: Option<String>,
    },
    /// The demo.
    Demo {
        /// Its peers.
        fleet: Box<Fleet>,
        /// Its web.
        web: Arc<Web>,
    },
}

/// Why there is no crew.
pub struct NoStart {
    /// In a sentence.
    pub why: String,
    /// Whether it would start if there were room on the disk.
    pub is_disk_full: bool,
}

impl From<String> for NoStart {
    fn from(why: String) -> Self {
        Self {
            why,
            is_disk_full: false,
        }
    }
}

impl Crew {
    /// Starts a peer, and takes part in the crawl of the settings if they name seeds. It
    /// fetches nothing until it is let go: what the volunteer wants may have changed by then.
    /// The conditions, if they are watched, have been looked at.
    pub fn peer(
        settings: Settings,
        data: Option<&DataDirectory>,
        lookout: Option<&Lookout>,
    ) -> Result<Self, NoStart> {
        let limits = Limits::new(&settings.limits);
        let mut secret = [0; 32];
        let mut kept = None;
        match data {
            Some(data) => {
                let opened = data.keep_peer(&settings).map_err(|why| NoStart {
                    is_disk_full: why.is_disk_full(),
                    why: why.to_string(),
                })?;
                for notice in &opened.notices {
                    tracing::warn!("{notice}");
                }
                secret = data.secret();
                let account = limits.keep_quota(&data.quota());
                account.map_err(|why| format!("{}: {why}", data.quota().display()))?;
                kept = Some(opened);
            }
            None => getrandom::fill(&mut secret).map_err(|why| why.to_string())?,
        }
        let mut why_alone = None;
        let overlay: Arc<dyn Overlay> = match joining::join_and_rejoin(
            &settings,
            secret,
            limits.clone(),
            data.map(DataDirectory::path),
        ) {
            Ok(overlay) => overlay,
            Err(why) => {
                // That is no reason not to crawl.
                // The number that the system has for it helps nobody in the window.
                let why = why.to_string();
                why_alone = why.split(" (os error").next().map(str::to_owned);
                joining::alone(secret)
            }
        };
        let definition = CrawlDefinition::from_settings(&settings.crawl);
        let surroundings = Surroundings {
            settings,
            overlay,
            names: Arc::new(SystemNames),
            kept,
            receipts: data.map(DataDirectory::receipts),
            limits,
        };
        let engine = Engine::start_held(surroundings).map_err(|why| why.to_string())?;
        engine.activity().watch(true);
        let verdict = lookout.map(|lookout| lookout.verdict_now(PATIENCE));
        engine.pausing().set_verdict(verdict.unwrap_or_default());
        if !definition.seeds.is_empty() {
            engine.begin(definition).map_err(|why| why.to_string())?;
        }
        Ok(Self::Peer {
            engine: Box::new(engine),
            why_alone,
        })
    }

    /// Starts the demo: its web, its peers, and once they know each other its crawl.
    pub fn demo(spec: &DemoSpec, mut settings: Settings) -> Result<Self, NoStart> {
        settings.network.allow_private = true;
        let hosts = spec.hosts.clamp(1, (spec.pages / 3).max(1));
        let web = Web::start(WebSpec::new(hosts, spec.pages, spec.seed));
        let web = web.map_err(|why| format!("cannot start the built-in web: {why}"))?;
        let web = Arc::new(web);
        settings.crawl.seeds = web.seeds();
        let definition = CrawlDefinition::from_settings(&settings.crawl);
        let fleet = Fleet::start(spec.peers.max(1), &settings, &web);
        let mut fleet = fleet.map_err(|why| why.to_string())?;
        if let Some(engine) = fleet.engines().first() {
            engine.activity().watch(true);
        }
        fleet.begin(definition).map_err(|why| why.to_string())?;
        let fleet = Box::new(fleet);
        Ok(Self::Demo { fleet, web })
    }

    /// All of its engines, the one that the window shows first. They share one set of
    /// limits.
    pub fn engines(&self) -> &[Engine] {
        match self {
            Self::Peer { engine, .. } => slice::from_ref(engine),
            Self::Demo { fleet, .. } => fleet.engines(),
        }
    }

    /// Whether this is a demo.
    pub fn is_demo(&self) -> bool {
        matches!(self, Self::Demo { .. })
    }

    /// The engine that the window shows.
    pub fn engine(&self) -> Option<&Engine> {
        self.engines().first()
    }

    /// What the volunteer should know for as long as it is so, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Self::Peer { engine, why_alone } = self {
            if let Some(why) = why_alone {
                warnings.push(format!("Crawling alone, without other peers: {why}."));
            }
            warnings.extend(why_refused(engine.overlay().as_ref()));
        }
        warnings.extend(self.bad_name());
        warnings
    }

    /// What the reputation guard has to say.
    pub fn bad_name(&self) -> Option<String> {
        let snapshots = self.engines().iter().map(Engine::snapshot);
        let mut notices = snapshots.map(|snapshot| snapshot.reputation_notice.clone());
        notices.find_map(|notice| notice)
    }

    /// What a volunteer should know about a demo.
    pub fn demo_introduction(&self) -> Option<String> {
        let Self::Demo { fleet, .. } = self else {
            return None;
        };
        let peers = fleet.engines().len();
        Some(format!(
            "The demo runs {peers} peers on this computer, which share your limits. \
             The overview shows all of them, the other pages the first."
        ))
    }

    /// Where the demo's crawl begins.
    pub fn demo_seeds(&self) -> Option<Vec<String>> {
        match self {
            Self::Peer { .. } => None,
            Self::Demo { web, .. } => Some(web.seeds()),
        }
    }

    /// Whether this is a demo, and everything in it has been fetched.
    pub fn is_finished_demo(&self) -> bool {
        matches!(self, Self::Demo { fleet, .. } if fleet.is_done())
    }

    /// What became of the demo, in a sentence.
    pub fn demo_result(&self) -> Option<String> {
        let Self::Demo { fleet, web } = self else {
            return None;
        };
        let pages: u64 = fleet.reports().iter().map(|report| report.pages).sum();
        let (reachable, twice) = (web.truth().reachable, web.log().fetched_twice);
        Some(format!(
            "The demo is complete: {} peers fetched {pages} of {reachable} pages, {twice} of them twice.",
            fleet.engines().len(),
        ))
    }

    /// Ends it, and waits until that is done. Tells what it has counted in all, if that is
    /// to be remembered: of a demo nothing is.
    pub fn shutdown(self) -> Option<Count> {
        match self {
            Self::Peer { engine, .. } => {
                let limits = engine.limits().clone();
                let report = engine.shutdown();
                Some(Count {
                    pages: report.pages.saturating_sub(report.resumed_pages),
                    download_bytes: limits.bytes_down(),
                    upload_bytes: limits.bytes_up(),
                })
            }
            Self::Demo { fleet, .. } => {
                fleet.shutdown();
                None
            }
        }
    }
}

/// Why the last peer that was met is none of ours. Among others that does not matter; who
/// is alone would look for them in vain.
fn why_refused(overlay: &dyn Overlay) -> Option<String> {
    let refusals = overlay.refusals();
    let last = refusals.last().filter(|_| overlay.members().len() <= 1)?;
    let reason = &last.reason;
    Some(format!(
        "Crawling alone. Another peer was met, but {reason}. To crawl with it, open the join \
         file of its crawl, and see that the clock of this computer is right."
    ))
}
