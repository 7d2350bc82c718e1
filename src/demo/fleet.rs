//! The peers of a demo: N engines in this process, on an overlay of real sockets. They
//! share the volunteer's limits: together they take no more than one peer would. Tests can
//! make them [different](Variety).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{io, thread};

use peercrawl_overlay::Overlay;
use peercrawl_overlay::network::{Options, StartError};

use super::web::Web;
use crate::config::Settings;
use crate::crawl::CrawlDefinition;
use crate::engine::{CrawlError, Engine, StartError as EngineStartError, Surroundings};
use crate::joining;
use crate::limits::Limits;
use crate::report::Report;
use crate::resolver::NameService;

/// Which set of identities the peers have. Whoever draws identities by chance is now and
/// then unlucky with a hundred hosts each; see `docs/decisions/0001-distribution-function.md`.
const IDENTITIES: u8 = 1;

/// How long the end of the crawl may go unnoticed.
const POLL: Duration = Duration::from_millis(2);

/// See the module.
pub struct Fleet {
    settings: Settings,
    web: Arc<Web>,
    variety: Variety,
    engines: Vec<Engine>,
    limits: Arc<Limits>,
    begun: Instant,
}

/// How the peers differ from those of the demo, and from each other.
#[derive(Debug, Clone)]
pub struct Variety {
    /// What is different about their overlay.
    pub options: fn(Options) -> Options,
    /// Their capacities, the first one's first; those of the settings where this ends.
    pub capacities: Vec<u8>,
    /// Whether each has the limits of the settings for itself.
    pub has_own_limits: bool,
}

impl Default for Variety {
    /// None.
    fn default() -> Self {
        Self {
            options: |options| options,
            capacities: Vec::new(),
            has_own_limits: false,
        }
    }
}

/// The names of the built-in web.
pub struct WebNames(pub Arc<Web>);

impl NameService for WebNames {
    fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let address = self.0.address_of(host);
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no such host in the demo");
        address.map(|address| vec![address]).ok_or_else(missing)
    }
}

/// Why a fleet does not set out.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A peer cannot listen, or the like.
    #[error("peer {0}: {1}")]
    Overlay(u8, StartError),
    /// An engine does not start.
    #[error(transparent)]
    Engine(#[from] EngineStartError),
}

/// How many fleets this process has started.
static FLEETS: AtomicU32 = AtomicU32::new(0);

impl Fleet {
    /// Starts so many peers, which find each other through the first one. They listen
    /// on loopback alone.
    pub fn start(peers: u8, settings: &Settings, web: &Arc<Web>) -> Result<Self, FleetError> {
        Self::start_with(peers, settings, web, Variety::default())
    }

    /// The same, with peers that are different.
    pub fn start_with(
        peers: u8,
        settings: &Settings,
        web: &Arc<Web>,
        variety: Variety,
    ) -> Result<Self, FleetError> {
        let mut settings = settings.clone();
        // Ports are used again: peers of an earlier fleet find nobody here.
        let fleet = FLEETS.fetch_add(1, Relaxed);
        settings.overlay.network = format!("demo {} {fleet}", std::process::id());
        settings.overlay.listen = vec!["/ip4/127.0.0.1/tcp/0".into()];
        settings.overlay.mdns = false;
        settings.overlay.upnp = false;
        // Where ranges are static, each peer has one.
        settings.distribution.peers = u32::from(peers).max(1);
        // On one machine a receipt is there in no time, or lost.
        settings.handing_on.resend_ms = settings.handing_on.resend_ms.min(500);
        let mut fleet = Self {
            limits: Limits::new(&settings.limits),
            settings,
            web: web.clone(),
            variety,
            engines: Vec::new(),
            begun: Instant::now(),
        };
        for _ in 0..peers {
            fleet.add()?;
        }
        Ok(fleet)
    }

    /// One more peer joins.
    pub fn add(&mut self) -> Result<(), FleetError> {
        let number = self.engines.len() as u8 + 1;
        let secret = *blake3::hash(&[IDENTITIES, number]).as_bytes();
        let index = usize::from(number) - 1;
        let limits = match self.variety.has_own_limits {
            true => Limits::new(&self.settings.limits),
            false => {
                self.limits.gate.set_peers(number.into());
                self.limits.clone()
            }
        };
        let mut settings = self.settings.clone();
        settings.distribution.index = index as u32;
        if let Some(&capacity) = self.variety.capacities.get(index) {
            settings.distribution.capacity = capacity;
        }
        let options = joining::options(&settings, secret, limits.clone());
        let overlay = joining::start(&settings, (self.variety.options)(options))
            .map_err(|why| FleetError::Overlay(number, why))?;
        if number == 1 {
            self.settings.overlay.bootstrap = overlay.listening();
        }
        if number > 1 {
            // The web's log tells the peers apart by it.
            let page = &mut settings.politeness.bot_page;
            page.push_str(&format!("#{number}"));
        }
        self.engines.push(Engine::start(Surroundings {
            settings,
            overlay,
            names: Arc::new(WebNames(self.web.clone())),
            receipts: None,
            limits,
            kept: None,
        })?);
        Ok(())
    }

    /// Begins a crawl, once all peers agree on who owns what.
    pub fn begin(&mut self, definition: CrawlDefinition) -> Result<(), CrawlError> {
        while !self.agrees() {
            thread::sleep(POLL);
        }
        self.begun = Instant::now();
        match self.engines.first() {
            Some(engine) => engine.begin(definition).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Whether every peer counts as many members as there are peers.
    fn agrees(&self) -> bool {
        let count = self.engines.len();
        self.engines.iter().all(|engine| engine.owners() == count)
    }

    /// Whether the crawl is over: nothing is outstanding anywhere, or what is will not
    /// be fetched within the crawl's patience and is given up.
    pub fn is_done(&self) -> bool {
        // A URL that is handed on is outstanding at its sender until its receiver has
        // stored it, so looking twice with nothing done in between leaves no gap.
        let before = self.pages();
        let is_idle = || self.engines.iter().all(|engine| engine.outstanding() == 0);
        if is_idle() && is_idle() && self.pages() == before {
            return true;
        }
        let is_stuck = |engine: &Engine| engine.outstanding() == 0 || engine.is_out_of_patience();
        if self.engines.iter().all(is_stuck) {
            self.engines.iter().for_each(Engine::give_up_waiting);
        }
        false
    }

    fn pages(&self) -> u64 {
        let done = |report: Report| report.pages + report.urls.discovered + report.urls.duplicate;
        self.reports().into_iter().map(done).sum()
    }

    /// Waits until the crawl is over, or for `limit`; tells whether it is.
    pub fn wait(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while !self.is_done() {
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(POLL);
        }
        true
    }

    /// The engines, the first one first.
    pub fn engines(&self) -> &[Engine] {
        &self.engines
    }

    /// What each peer offers to take: its weight among them.
    pub fn capacities(&self) -> Vec<u8> {
        let offered = |engine: &Engine| {
            let me = engine.overlay().me();
            let ownership = engine.ownership();
            let found = ownership.members().iter().find(|member| member.id == me);
            found.map_or(0, |member| member.capacity)
        };
        self.engines.iter().map(offered).collect()
    }

    /// What each peer has done so far.
    pub fn reports(&self) -> Vec<Report> {
        self.engines.iter().map(Engine::report).collect()
    }

    /// Ends all peers, and tells what each has done since the crawl began.
    pub fn shutdown(self) -> Vec<Report> {
        let elapsed = self.begun.elapsed();
        let reports = self.engines.into_iter().map(|engine| {
            let mut report = engine.shutdown();
            report.set_elapsed(elapsed);
            report
        });
        reports.collect()
    }
}
