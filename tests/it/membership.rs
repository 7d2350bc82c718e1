//! What a peer tells the others about itself, and what being a member costs.

use std::thread;
use std::time::{Duration, Instant};

use peercrawl::config::OverlayChoice;
use peercrawl::crawl::CrawlDefinition;
use peercrawl::demo::fleet::Fleet;
use peercrawl::demo::web::WebSpec;
use peercrawl::engine::{Engine, Standing};
use peercrawl_overlay::PeerId;
use peercrawl_overlay::memory::MemoryNetwork;

use crate::crew::{engine, settings, wait_until, web};

#[test]
fn a_peer_offers_to_take_what_its_download_limit_allows() {
    let network = MemoryNetwork::new();
    let web = web(WebSpec::new(2, 20, 61));
    let mut settings = settings();
    settings.limits.download_kib = 256;
    let one = engine(&settings, &network, 1, &web);
    let two = engine(&settings, &network, 2, &web);
    let part_of_one = |seen_by: &Engine| {
        let ownership = seen_by.ownership();
        let mut members = ownership.members().iter();
        let found = members.find(|member| member.id == PeerId::repeat(1));
        found.map(|member| member.capacity)
    };
    wait_until("each knows the other", || part_of_one(&two) == Some(4));
    one.limits().change(|values| values.download_kib = 512);
    wait_until("both know that it takes more", || {
        part_of_one(&two) == Some(8) && part_of_one(&one) == Some(8)
    });
    // Slow mode comes and goes; a pause takes the part away and gives it back.
    one.limits().change(|values| values.slow_mode = true);
    one.pause();
    wait_until("it takes nothing", || part_of_one(&two) == Some(0));
    one.resume();
    wait_until("it takes as much as before", || {
        part_of_one(&two) == Some(8)
    });
}

/// Whoever pauses is a member, and no more than that: under 1 KiB a second, both ways
/// together, everything at the socket counted.
#[test]
fn a_peer_that_pauses_says_next_to_nothing() {
    let flat = thread::spawn(|| rest(OverlayChoice::Flat));
    rest(OverlayChoice::Supernode);
    flat.join().unwrap();
}

/// Two peers of such an overlay work, pause, and are listened to.
fn rest(kind: OverlayChoice) {
    // Each says at least once that it is still there.
    const SPAN: Duration = Duration::from_secs(35);
    let web = web(WebSpec::new(30, 3_000, 62));
    let mut settings = settings();
    settings.overlay.kind = kind;
    settings.crawl.seeds = web.seeds();
    let mut fleet = Fleet::start(2, &settings, &web).unwrap();
    let definition = CrawlDefinition::from_settings(&settings.crawl);
    fleet.begin(definition).unwrap();
    let [one, two] = fleet.engines() else {
        panic!("there are two");
    };
    wait_until("both work", || {
        one.report().pages > 20 && two.report().pages > 20
    });
    let stands = |engine: &Engine| engine.run_state().standing == Standing::Paused;
    one.pause();
    two.pause();
    wait_until("both pause", || stands(one) && stands(two));
    // Receipts for what was handed on before may still be on their way.
    let socket_bytes = || {
        let statistics = one.overlay().statistics();
        statistics.socket_bytes_sent + statistics.socket_bytes_received
    };
    let mut last = (socket_bytes(), Instant::now());
    wait_until("the last words are said", || {
        if socket_bytes() > last.0 + 500 {
            last = (socket_bytes(), Instant::now());
        }
        last.1.elapsed() > Duration::from_secs(1)
    });
    let (before, since) = (socket_bytes(), Instant::now());
    thread::sleep(SPAN);
    let rate = (socket_bytes() - before) as f64 / since.elapsed().as_secs_f64();
    println!("{kind:?}: {rate:.0} bytes a second while it pauses");
    assert!(rate < 1_024.0, "{kind:?}: {rate} bytes a second");
    assert!(rate > 0.0, "it is a member still");
    assert_eq!(one.overlay().members().len(), 2);
}
