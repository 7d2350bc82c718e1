//! Fleets of peers over real sockets, held to what the network promises: every page once,
//! every content kept once, a fair share for each, and newcomers that get theirs.

use std::time::{Duration, Instant};

use peercrawl::config::OverlayChoice;
use peercrawl::demo::fleet::Fleet;
use peercrawl::demo::web::WebSpec;
use peercrawl::engine::Engine;
use peercrawl::report::Report;
use peercrawl_overlay::Role;
use peercrawl_overlay::network::Options;

use crate::crawling::{assert_covered, assert_exact};
use crate::crew::{DEADLINE, Settings, settings, wait_until, web, whole};

/// Hosts for each peer. From a hundred on the load must be fair; small webs have hosts of
/// very different sizes.
const HOSTS_EACH: u32 = 200;

fn fleet_settings(overlay: OverlayChoice) -> Settings {
    let mut settings = settings();
    settings.overlay.kind = overlay;
    settings.threads.downloaders = 4;
    settings.network.resolvers = 1;
    // On a busy machine an answer takes its time.
    settings.content.answer_ms = 60_000;
    settings
}

/// Crawls a web with many hosts, and holds the shares against each other: all peers have
/// the same capacity.
fn shares_are_fair(peers: u8, overlay: OverlayChoice) {
    let hosts = HOSTS_EACH * u32::from(peers);
    let spec = WebSpec {
        page_bytes: 2_048,
        links: 10,
        ..WebSpec::new(hosts, hosts * 3, 5)
    };
    let web = web(spec);
    let settings = fleet_settings(overlay);
    let mut fleet = Fleet::start(peers, &settings, &web).unwrap();
    fleet.begin(whole(&web, &settings)).unwrap();
    if overlay == OverlayChoice::Supernode {
        wait_until("three supernodes", || supernodes(&fleet.engines()[0]) >= 3);
    }
    assert!(fleet.wait(DEADLINE), "{:?}", fleet.reports());
    let reports = fleet.shutdown();
    assert_exact(&web, &Report::sum(&reports));
    let pages: Vec<_> = reports.iter().map(|report| report.pages).collect();
    let share = pages.iter().sum::<u64>() as f64 / f64::from(peers);
    let is_fair = |&pages: &u64| (pages as f64 - share).abs() <= share / 4.0;
    assert!(pages.iter().all(is_fair), "{pages:?} of {share} each");
}

fn supernodes(engine: &Engine) -> usize {
    let members = engine.overlay().members();
    let is_supernode = |role| role == Role::Supernode;
    members.iter().filter(|m| is_supernode(m.role)).count()
}

#[test]
fn four_flat_peers_share_fairly() {
    shares_are_fair(4, OverlayChoice::Flat);
}

#[test]
fn eight_flat_peers_share_fairly() {
    shares_are_fair(8, OverlayChoice::Flat);
}

#[test]
fn sixteen_peers_with_supernodes_share_fairly() {
    shares_are_fair(16, OverlayChoice::Supernode);
}

/// A tenth of all gossip is lost at its receivers.
#[test]
fn lost_gossip_costs_no_page() {
    let web = web(WebSpec::new(40, 1_200, 41));
    let settings = fleet_settings(OverlayChoice::Flat);
    let lossy = |options| Options {
        lose_every: 10,
        ..options
    };
    let mut fleet = Fleet::start_with(4, &settings, &web, lossy).unwrap();
    fleet.begin(whole(&web, &settings)).unwrap();
    assert!(fleet.wait(DEADLINE), "{:?}", fleet.reports());
    assert_exact(&web, &Report::sum(&fleet.shutdown()));
}

/// Two peers join in the middle of a crawl whose pace its servers set. The log shows
/// whether two peers ever were on one host.
fn newcomers_take_their_share(overlay: OverlayChoice) {
    let hosts = 48;
    let web = web(WebSpec {
        page_bytes: 2_048,
        links: 10,
        ..WebSpec::new(hosts, hosts * 50, 43)
    });
    let mut settings = fleet_settings(overlay);
    settings.politeness.private_delay_ms = 100;
    let mut fleet = Fleet::start(2, &settings, &web).unwrap();
    fleet.begin(whole(&web, &settings)).unwrap();
    let pages = |engine: &Engine| engine.report().pages;
    wait_until("the crawl is under way", || {
        fleet.engines().iter().all(|engine| pages(engine) > 50)
    });
    let begun = Instant::now();
    fleet.add().unwrap();
    fleet.add().unwrap();
    wait_until("the newcomers are at work", || {
        fleet.engines()[2..].iter().all(|engine| pages(engine) > 0)
    });
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert!(fleet.wait(DEADLINE), "{:?}", fleet.reports());
    let reports = fleet.shutdown();
    let newcomers = &reports[2..];
    assert!(newcomers.iter().all(|r| r.pages > 100), "{reports:?}");
    // What contents were seen stays where it was.
    assert_covered(&web, &Report::sum(&reports));
}

#[test]
fn newcomers_of_a_flat_overlay_take_their_share() {
    newcomers_take_their_share(OverlayChoice::Flat);
}

#[test]
fn newcomers_of_a_supernode_overlay_take_their_share() {
    newcomers_take_their_share(OverlayChoice::Supernode);
}
