//! How the blocks are connected, and which threads run them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};

use arc_swap::ArcSwap;
use crossbeam_channel::bounded;
use parking_lot::Mutex;

use super::capacity::Capacity;
use super::housekeeping::Housekeeper;
use super::intake::Intake;
use super::memory::MemoryBudget;
use super::pausing::Pausing;
use super::seeding::{MOST_WAITING, Seeding};
use super::{Engine, Offer, Snapshot, StartError, Surroundings, View, members};
use crate::blocklist::BlockList;
use crate::canonical::CanonicalForm;
use crate::clock::Clock;
use crate::config::Settings;
use crate::content_processor::ContentProcessor;
use crate::content_range_validator::ContentRangeValidator;
use crate::counters::Counters;
use crate::crawl::Crawls;
use crate::crawl_jobs::CrawlJobs;
use crate::downloader::connection::Dialer;
use crate::downloader::content_types::ContentTypes;
use crate::downloader::lane::Lane;
use crate::downloader::{Downloader, Fetcher, IdleConnections};
use crate::extractor::{Extractor, RobotsMeta};
use crate::handing_on::{self, HandOnSender, Outbox};
use crate::handover::{Arrivals, HandoverSender};
use crate::ledger::{self, Captures, Keeper, Ledger, Resumed};
use crate::page::PageRoom;
use crate::page_duplication::{ClaimSender, LocalPageDuplication, RemotePageDuplication};
use crate::pending_queue::pending_queue;
use crate::politeness::Outage;
use crate::preprocessor::Preprocessor;
use crate::processing_queue::processing_queue;
use crate::receipts::Receipts;
use crate::reputation::ReputationGuard;
use crate::resolver::cache::{CachingNames, Lifetimes};
use crate::resolver::{NameService, ResolveQueue, Resolver};
use crate::url_range_validator::UrlRangeValidator;

/// Threads that take in what other peers send.
const INTAKES: usize = 2;
/// What a peer takes of its budget before the first downloader, and how much of the rest there
/// has to be for each: it takes about two megabytes with its buffers and what the allocator
/// keeps for it, and what it brings has to go somewhere.
const BUDGET_OF_ALL_ELSE: u64 = 64 << 20;
const BUDGET_OF_DOWNLOADER: u64 = 6 << 20;

/// Builds the blocks, from the back of the pipeline to its front, and starts them.
pub fn start(surroundings: Surroundings) -> Result<Engine, StartError> {
    start_or_hold(surroundings, false)
}

/// The same, with a hand on what would be fetched.
pub fn start_held(surroundings: Surroundings) -> Result<Engine, StartError> {
    start_or_hold(surroundings, true)
}

fn start_or_hold(surroundings: Surroundings, is_held: bool) -> Result<Engine, StartError> {
    // Many connections at once need many files; a system that refuses says so when one is
    // opened.
    let _unchanged = rlimit::increase_nofile_limit(1 << 16);
    let Surroundings {
        settings,
        overlay,
        names,
        receipts,
        limits,
        kept,
    } = surroundings;
    let settings = Arc::new(settings);
    let clock = Clock::start();
    let network = &settings.network;
    let lifetimes = Lifetimes {
        found_ms: network.dns_lifetime_secs * 1_000,
        failed_ms: network.dns_failure_secs * 1_000,
    };
    let names = CachingNames::new(names, lifetimes, network.resolvers, clock);
    let names: Arc<dyn NameService> = Arc::new(names);
    let counters = Arc::new(Counters::default());
    let form = Arc::new(CanonicalForm::new(&settings.crawl.session_ids));
    let (ledger, hands) = match kept {
        Some(kept) => {
            let (ledger, hands) = Ledger::keeping(kept);
            (ledger, Some(hands))
        }
        None => (Ledger::nothing(), None),
    };
    let crawls = Arc::new(Crawls::new(ledger.clone()));
    let (stop, stopped) = bounded(0);

    let capacity = Capacity::new(&settings.distribution, limits.values().download_kib);
    let offer = Offer::first(capacity.current());
    overlay.announce(members::announcement(&settings.distribution, offer));
    let view = Arc::new(View::new(overlay.clone(), &settings.distribution));

    // Blocks 13, 2 and 1: where URLs wait, and how they get there.
    let resolve = Arc::new(ResolveQueue::default());
    let jobs = Arc::new(CrawlJobs::new(
        clock,
        counters.clone(),
        resolve.clone(),
        settings.politeness.private_per_address,
        limits.gate.clone(),
        ledger.clone(),
    ));
    jobs.set_paused(is_held);
    resolve.set_paused(is_held);
    let blocklist = Arc::new(BlockList::new(&settings.crawl, clock.now_ms()));
    let preprocessor = Preprocessor::new(
        &settings,
        jobs.clone(),
        counters.clone(),
        ledger.clone(),
        blocklist.clone(),
    );
    let preprocessor = Arc::new(preprocessor);

    // Block 5, and the outbox behind it.
    let outbox = Arc::new(Outbox::new(
        handing_on::within_memory(&settings),
        counters.clone(),
        jobs.outstanding.clone(),
        ledger.clone(),
    ));
    let range = Arc::new(UrlRangeValidator {
        view: view.clone(),
        preprocessor: preprocessor.clone(),
        outbox: outbox.clone(),
        counters: counters.clone(),
        allow_private: settings.network.allow_private,
    });

    // Sites that move.
    let arrivals = Arc::new(Arrivals::new(
        jobs.clone(),
        range.clone(),
        crawls.clone(),
        form.clone(),
        settings.memory.limit_bytes,
        offer,
    ));
    arrivals.set_joining(arrivals.times_joined(), overlay.is_joining());
    arrivals.look_around(&*overlay);
    let (view_changed, changed) = bounded(1);

    // Blocks 6 to 12: whether a page is new.
    let content_range = ContentRangeValidator(view.clone());
    let processor = ContentProcessor::new(settings.content.claim_secs, clock, ledger.clone());
    let (processing, undecided) = processing_queue(settings.queues.pages);
    let (pending, pages) = pending_queue(settings.queues.pages);
    let local = Arc::new(LocalPageDuplication {
        me: overlay.me(),
        range: content_range.clone(),
        processor: processor.clone(),
        processing,
        pending,
        ledger: ledger.clone(),
        counters: counters.clone(),
    });
    let remote = Arc::new(RemotePageDuplication {
        range: content_range,
        processor: processor.clone(),
    });

    // Block 3 and what it works with.
    let dialer = Dialer::new(&settings, limits.clone());
    let idle = IdleConnections::new(
        settings.network.idle_connections,
        settings.network.idle_secs,
    );
    let idle = Arc::new(idle);
    let room = PageRoom::new(settings.queues.pages_bytes);
    let snapshot = Arc::new(ArcSwap::from_pointee(Snapshot::default()));

    let lane = Lane::new(most_fetches(&settings));
    let content_types = Arc::new(ContentTypes::new(&settings.network.content_types));
    let reputation = ReputationGuard::new(settings.reputation.clone(), clock);
    let reputation = Arc::new(reputation);

    // What an earlier run has left may not take more memory than there is for it.
    let memory = MemoryBudget::new(
        &settings,
        jobs.clone(),
        preprocessor.clone(),
        processor.clone(),
        ledger.clone(),
        clock,
    );
    let resumed_pages = ledger::resume(&Resumed {
        ledger: &ledger,
        crawls: &crawls,
        form: &form,
        counters: &counters,
        preprocessor: &preprocessor,
        outbox: &outbox,
    });
    let captures = Arc::new(Captures::new(unique_prefix(overlay.me().0, clock.now_ms())));

    let mut crew = Crew::default();
    let (stop_keeper, keeper_stopped) = bounded(0);
    let mut keeper = Crew::default();
    if let Some(hands) = hands {
        let work = Keeper {
            ledger: ledger.clone(),
            hands,
            jobs: jobs.clone(),
            counters: counters.clone(),
            clock,
            stop: keeper_stopped,
        };
        keeper.hire("archiver".into(), move || work.run())?;
    }
    let outage = Arc::new(Outage::default());
    let robots_meta = Arc::new(RobotsMeta::new(&settings.politeness.agent));
    let receipts = match receipts.filter(|_| settings.receipts.enabled) {
        Some(folder) => {
            let stop = stopped.clone();
            let (receipts, writer) =
                Receipts::keep(&folder, &settings.receipts, stop).map_err(StartError::Receipts)?;
            crew.hire("receipts".into(), move || writer.run())?;
            receipts
        }
        None => Receipts::default(),
    };
    for number in 0..most_fetches(&settings) {
        let downloader = Downloader {
            jobs: jobs.clone(),
            duplication: local.clone(),
            range: range.clone(),
            crawls: crawls.clone(),
            form: form.clone(),
            fetcher: Fetcher {
                dialer: dialer.clone(),
                content_types: content_types.clone(),
                max_header_bytes: settings.network.max_header_bytes,
            },
            names: names.clone(),
            idle: idle.clone(),
            foreign: view_changed.clone(),
            room: room.clone(),
            receipts: receipts.clone(),
            blocklist: blocklist.clone(),
            reputation: reputation.clone(),
            outage: outage.clone(),
            lane: lane.clone(),
            settings: settings.clone(),
            counters: counters.clone(),
            ledger: ledger.clone(),
            robots_meta: robots_meta.clone(),
            captures: captures.clone(),
            clock,
        };
        crew.hire(format!("downloader-{number}"), move || downloader.run())?;
    }
    // The writer ends once every downloader has.
    drop(receipts);
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    let extractors = match settings.threads.extractors {
        0 => processors,
        count => count,
    };
    for number in 0..extractors {
        let extractor = Extractor {
            pending: pages.clone(),
            range: range.clone(),
            crawls: crawls.clone(),
            form: form.clone(),
            agent: settings.politeness.agent.clone(),
            counters: counters.clone(),
            ledger: ledger.clone(),
            keeps_links: settings.archive.links,
            stop: stopped.clone(),
        };
        crew.hire(format!("extractor-{number}"), move || extractor.run())?;
    }
    for number in 0..settings.network.resolvers {
        let resolver = Resolver {
            queue: resolve.clone(),
            jobs: jobs.clone(),
            names: names.clone(),
            outage: outage.clone(),
            settings: settings.clone(),
            clock,
        };
        crew.hire(format!("resolver-{number}"), move || resolver.run())?;
    }
    for number in 0..INTAKES {
        let intake = Intake {
            overlay: overlay.clone(),
            range: range.clone(),
            remote: remote.clone(),
            outbox: outbox.clone(),
            crawls: crawls.clone(),
            form: form.clone(),
            ledger: ledger.clone(),
            arrivals: arrivals.clone(),
            changed: view_changed.clone(),
            stop: stopped.clone(),
        };
        crew.hire(format!("intake-{number}"), move || intake.run())?;
    }
    let (seeding, begun) = bounded(MOST_WAITING);
    let seeds = Seeding {
        begun,
        range: range.clone(),
        form: form.clone(),
        outstanding: jobs.outstanding.clone(),
        stop: stopped.clone(),
    };
    crew.hire("seeding".into(), move || seeds.run())?;
    let claims = ClaimSender {
        queue: undecided,
        overlay: overlay.clone(),
        local,
        settings: settings.content.clone(),
        stop: stopped.clone(),
    };
    crew.hire("claims".into(), move || claims.run())?;
    let keeps_to_itself = Arc::new(AtomicBool::new(false));
    let sender = HandOnSender {
        keeps_to_itself: keeps_to_itself.clone(),
        outbox: outbox.clone(),
        overlay: overlay.clone(),
        range: range.clone(),
        crawls: crawls.clone(),
        settings: settings.handing_on.clone(),
        clock,
        stop: stopped.clone(),
    };
    crew.hire("handing-on".into(), move || sender.run())?;
    let pausing = Arc::new(Pausing {
        jobs: jobs.clone(),
        resolve: resolve.clone(),
        outbox: outbox.clone(),
        dialer: dialer.clone(),
        overlay: overlay.clone(),
        view: view.clone(),
        arrivals: arrivals.clone(),
        distribution: settings.distribution.clone(),
        capacity: Mutex::new(capacity),
        limits: limits.clone(),
        keeps_to_itself: keeps_to_itself.clone(),
        changed: view_changed.clone(),
        clock,
        mind: Mutex::default(),
    });
    let handover = HandoverSender {
        overlay: overlay.clone(),
        crawls: crawls.clone(),
        view,
        keeps_to_itself,
        preprocessor: preprocessor.clone(),
        arrivals: arrivals.clone(),
        dialer: dialer.clone(),
        most_bytes: settings.memory.limit_bytes / 16,
        changed,
        stop: stopped.clone(),
    };
    crew.hire("handover".into(), move || handover.run())?;
    let housekeeper = Housekeeper {
        counters: counters.clone(),
        crawls: crawls.clone(),
        jobs: jobs.clone(),
        preprocessor: preprocessor.clone(),
        outbox: outbox.clone(),
        arrivals,
        blocklist: blocklist.clone(),
        reputation: reputation.clone(),
        idle,
        limits: limits.clone(),
        pausing: pausing.clone(),
        memory,
        ledger: ledger.clone(),
        resumed_pages,
        clock,
        snapshot: snapshot.clone(),
        stop: stopped,
    };
    crew.hire("housekeeping".into(), move || housekeeper.run())?;

    Ok(Engine {
        settings,
        clock,
        counters,
        form,
        crawls,
        jobs,
        resolve,
        preprocessor,
        blocklist,
        reputation,
        range,
        outbox,
        overlay,
        dialer,
        limits,
        pausing,
        snapshot,
        ledger,
        seeding,
        resumed_pages,
        stop: Some(stop),
        threads: crew.0,
        stop_keeper: Some(stop_keeper),
        keeper: keeper.0,
    })
}

/// As many fetches at once, and so downloaders, as the settings want and the budget has room
/// for.
pub fn most_fetches(settings: &Settings) -> usize {
    let rest = settings
        .memory
        .limit_bytes
        .saturating_sub(BUDGET_OF_ALL_ELSE);
    let most = (rest / BUDGET_OF_DOWNLOADER).max(4);
    settings.threads.downloaders.min(most as usize)
}

/// Bytes that no other run of any peer has.
fn unique_prefix(me: [u8; 32], started_ms: u64) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("peercrawl exchanges of one run 1");
    hasher.update(&me).update(&started_ms.to_be_bytes());
    let mut prefix = [0; 16];
    hasher.finalize_xof().fill(&mut prefix);
    prefix
}

/// The threads of an engine, each under its name.
#[derive(Default)]
struct Crew(Vec<JoinHandle<()>>);

impl Crew {
    fn hire(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        // The work is a pipeline of shallow calls; hundreds of threads must stay cheap.
        let builder = thread::Builder::new().name(name).stack_size(512 << 10);
        self.0.push(builder.spawn(work)?);
        Ok(())
    }
}
