//! Fleets of peers over real sockets, held to what the network promises: every page once,
//! every content kept once, a fair share for each, and newcomers that get theirs.

use std::time::{Duration, Instant};

use peercrawl::config::OverlayChoice;
use peercrawl::demo::fleet::{Fleet, Variety};
use peercrawl::demo::web::WebSpec;
use peercrawl::distribution::{Key, Owner};
use peercrawl::engine::Engine;
use peercrawl::engine::tables::{SiteColumn, SiteQuery, SiteRow};
use peercrawl::report::Report;
use peercrawl_overlay::network::Options;
use peercrawl_overlay::{Member, PeerId, Role};

use crate::crawling::{assert_covered, assert_exact};
use crate::crew::{DEADLINE, Settings, settings, wait_until, web, whole};

fn fleet_settings(overlay: OverlayChoice) -> Settings {
    let mut settings = settings();
    settings.overlay.kind = overlay;
    settings.threads.downloaders = 4;
    settings.network.resolvers = 1;
    // On a busy machine an answer takes its time.
    settings.content.answer_ms = 60_000;
    settings
}

/// What a peer takes upon itself without a limit.
const WHOLE: u8 = 16;

/// Crawls a web of so many hosts exactly, with peers of these capacities; gives each peer's
/// pages.
fn pages_of_each(capacities: &[u8], overlay: OverlayChoice, hosts: u32) -> Vec<u64> {
    let spec = WebSpec {
        page_bytes: 2_048,
        links: 10,
        ..WebSpec::new(hosts, hosts * 3, 5)
    };
    let web = web(spec);
    let settings = fleet_settings(overlay);
    let variety = Variety {
        capacities: capacities.to_vec(),
        ..Variety::default()
    };
    let peers = capacities.len() as u8;
    let mut fleet = Fleet::start_with(peers, &settings, &web, variety).unwrap();
    if overlay == OverlayChoice::Supernode {
        wait_until("all know three supernodes, and each leaf has three", || {
            fleet.engines().iter().all(knows_its_supernodes)
        });
    }
    fleet.begin(whole(&web, &settings)).unwrap();
    assert_eq!(fleet.capacities(), capacities);
    assert!(fleet.wait(DEADLINE), "{:?}", fleet.reports());
    let reports = fleet.shutdown();
    assert_exact(&web, &Report::sum(&reports));
    reports.iter().map(|report| report.pages).collect()
}

/// Whether there are three supernodes at least, and every leaf is linked to three of them.
fn knows_its_supernodes(engine: &Engine) -> bool {
    let members = engine.overlay().members();
    let supernodes = || members.iter().filter(|m| m.role == Role::Supernode);
    let is_supernode = |id: &PeerId| supernodes().any(|member| member.id == *id);
    let has_three = |leaf: &Member| leaf.via.len() == 3 && leaf.via.iter().all(is_supernode);
    let mut leaves = members.iter().filter(|m| m.role == Role::Leaf);
    supernodes().count() >= 3 && leaves.all(has_three)
}

/// Each peer's pages are within a quarter of its share by capacity.
fn assert_fair(capacities: &[u8], overlay: OverlayChoice, hosts: u32) {
    let pages = pages_of_each(capacities, overlay, hosts);
    let units: f64 = capacities.iter().copied().map(f64::from).sum();
    let unit = pages.iter().sum::<u64>() as f64 / units;
    for (&pages_of_one, &capacity) in pages.iter().zip(capacities) {
        let share = unit * f64::from(capacity);
        let off = (pages_of_one as f64 - share).abs() / share;
        println!("capacity {capacity}: {pages_of_one} pages of {share:.0}, {off:.3} off");
        assert!(off <= 0.25, "{pages:?} for {capacities:?}");
    }
}

#[test]
fn four_flat_peers_crawl_exactly_and_share_fairly() {
    assert_fair(&[WHOLE; 4], OverlayChoice::Flat, 400);
}

#[test]
fn eight_flat_peers_crawl_exactly_and_share_fairly() {
    assert_fair(&[WHOLE; 8], OverlayChoice::Flat, 800);
}

#[test]
fn sixteen_peers_with_supernodes_crawl_exactly_and_share_fairly() {
    assert_fair(&[WHOLE; 16], OverlayChoice::Supernode, 1_600);
}

/// The smallest of them has 100 hosts to expect.
#[test]
fn peers_that_offer_more_take_more() {
    assert_fair(&[4, 8, 12, 16], OverlayChoice::Flat, 1_000);
}

/// A tenth of all gossip is lost at its receivers.
#[test]
fn lost_gossip_costs_no_page() {
    let web = web(WebSpec::new(40, 1_200, 41));
    let mut settings = fleet_settings(OverlayChoice::Flat);
    // Long enough for a mesh to form, and with many messages: a tenth of them is something.
    settings.handing_on.batch_urls = 10;
    settings.politeness.private_delay_ms = 200;
    let lossy = Variety {
        options: |options| Options {
            lose_every: 10,
            ..options
        },
        ..Variety::default()
    };
    let mut fleet = Fleet::start_with(4, &settings, &web, lossy).unwrap();
    fleet.begin(whole(&web, &settings)).unwrap();
    assert!(fleet.wait(DEADLINE), "{:?}", fleet.reports());
    let mut lost = 0;
    for engine in fleet.engines() {
        let statistics = engine.overlay().statistics();
        let a_tenth = statistics.gossip_heard / 10;
        assert!(
            a_tenth.abs_diff(statistics.gossip_lost) <= 1,
            "{statistics:?}"
        );
        lost += statistics.gossip_lost;
    }
    assert!(lost > 0);
    assert_exact(&web, &Report::sum(&fleet.shutdown()));
}

/// Whether a peer knows so many, itself included, and has only sites that are its own.
fn has_its_share_alone(engine: &Engine, members: usize) -> bool {
    let ownership = engine.ownership();
    let sites = engine.sites(&SiteQuery {
        search: String::new(),
        sort_by: SiteColumn::Host,
        descending: false,
        rows: 0..usize::MAX,
    });
    let is_mine = |site: &SiteRow| ownership.owner(Key::of_host(&site.host)) == Owner::Me;
    ownership.members().len() == members && sites.rows.iter().all(is_mine)
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
    wait_until("the newcomers have their share and work on it", || {
        fleet.engines()[2..].iter().all(|engine| pages(engine) > 0)
            && fleet
                .engines()
                .iter()
                .all(|one| has_its_share_alone(one, 4))
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
    // No peer visits a host again that another has visited since.
    let log = web.log();
    assert!(log.moved_hosts > 0, "the log knows who is who");
    assert_eq!(log.returns, 0);
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

/// A volunteer gives more in the middle of a crawl. The sites that become its own by that
/// are never visited by two peers at once either.
#[test]
fn a_peer_whose_part_grows_takes_its_share() {
    let hosts = 48;
    let web = web(WebSpec {
        page_bytes: 2_048,
        links: 10,
        ..WebSpec::new(hosts, hosts * 80, 47)
    });
    let mut settings = fleet_settings(OverlayChoice::Flat);
    settings.politeness.private_delay_ms = 100;
    settings.limits.download_kib = 256;
    let variety = Variety {
        has_own_limits: true,
        ..Variety::default()
    };
    let mut fleet = Fleet::start_with(2, &settings, &web, variety).unwrap();
    fleet.begin(whole(&web, &settings)).unwrap();
    let part = || {
        let grown = &fleet.engines()[1];
        let me = grown.overlay().me();
        let (mine, theirs) = (grown.ownership(), fleet.engines()[0].ownership());
        [mine, theirs].map(|ownership| {
            let mut members = ownership.members().iter();
            members.find(|member| member.id == me).map(|m| m.capacity)
        })
    };
    wait_until("both know the part", || part() == [Some(4); 2]);
    fleet.engines()[1]
        .limits()
        .change(|values| values.download_kib = 1_024);
    wait_until("both know that it has grown", || part() == [Some(16); 2]);
    assert_eq!(fleet.capacities(), [4, 16], "the other's is as it was");
    wait_until("each has its new share alone", || {
        fleet
            .engines()
            .iter()
            .all(|one| has_its_share_alone(one, 2))
    });
    let waiting: u64 = fleet.engines().iter().map(Engine::queued).sum();
    assert!(waiting > 0, "the crawl is over already");
    assert!(fleet.wait(DEADLINE), "{:?}", fleet.reports());
    let reports = fleet.shutdown();
    let log = web.log();
    assert!(log.moved_hosts > 0, "sites have moved");
    assert_eq!(log.returns, 0);
    assert_covered(&web, &Report::sum(&reports));
}
