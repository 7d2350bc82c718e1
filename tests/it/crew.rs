//! Engines for tests, on webs of their own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use peercrawl::config::Settings;
use peercrawl::crawl::CrawlDefinition;
use peercrawl::demo::fleet::WebNames;
use peercrawl::demo::web::{Web, WebSpec};
use peercrawl::engine::{Engine, Surroundings};
use peercrawl::limits::Limits;
use peercrawl::resolver::NameService;
use peercrawl_overlay::PeerId;
use peercrawl_overlay::memory::MemoryNetwork;

/// Nothing here takes longer, on the slowest machine that builds this.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// How often a condition is looked at: the processors are for what is tested.
const LOOK: Duration = Duration::from_millis(2);

/// A web that is up until it is dropped.
pub fn web(spec: WebSpec) -> Arc<Web> {
    Arc::new(Web::start(spec).unwrap())
}

/// Settings for a web on this machine.
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.network.allow_private = true;
    settings.threads.downloaders = 8;
    settings.threads.extractors = 2;
    settings.politeness.private_backoff_ms = 10;
    settings
}

/// A peer on this network, for this web.
pub fn engine(settings: &Settings, network: &MemoryNetwork, peer: u8, web: &Arc<Web>) -> Engine {
    engine_with_receipts(settings, network, peer, web, None)
}

/// The same, with its receipts in this folder.
pub fn engine_with_receipts(
    settings: &Settings,
    network: &MemoryNetwork,
    peer: u8,
    web: &Arc<Web>,
    receipts: Option<PathBuf>,
) -> Engine {
    let surroundings = Surroundings {
        settings: settings.clone(),
        overlay: Arc::new(network.join(PeerId::repeat(peer))),
        names: Arc::new(WebNames(web.clone())),
        receipts,
        limits: Limits::new(&settings.limits),
        kept: None,
    };
    Engine::start(surroundings).unwrap()
}

/// A peer alone that crawls from these seeds, where these names lead.
pub fn crawl_from(
    mut settings: Settings,
    names: Arc<dyn NameService>,
    seeds: Vec<String>,
) -> Engine {
    settings.crawl.seeds = seeds;
    let definition = CrawlDefinition::from_settings(&settings.crawl);
    let engine = Engine::start(Surroundings {
        limits: Limits::new(&settings.limits),
        settings,
        overlay: Arc::new(MemoryNetwork::new().join(PeerId::repeat(1))),
        names,
        kept: None,
        receipts: None,
    })
    .unwrap();
    engine.begin(definition).unwrap();
    engine
}

/// The crawl of the whole web.
pub fn whole(web: &Web, settings: &Settings) -> CrawlDefinition {
    let mut crawl = settings.crawl.clone();
    crawl.seeds = web.seeds();
    CrawlDefinition::from_settings(&crawl)
}

/// Waits for a condition, and fails if it does not come true in time.
pub fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !is_true() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(LOOK);
    }
}
