//! The block list of a running engine.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use peercrawl::config::Settings;
use peercrawl::crawl::CrawlDefinition;
use peercrawl::data_directory::{DataDirectory, PEER_STATE};
use peercrawl::engine::{Engine, Surroundings};
use peercrawl::limits::Limits;
use peercrawl::resolver::SystemNames;
use peercrawl_overlay::PeerId;
use peercrawl_overlay::memory::MemoryNetwork;

use crate::crew::{DEADLINE, settings, wait_until};
use crate::hostile::{HostileWeb, Site, page, redirect, respond, stay_silent};

fn start(settings: &Settings, seeds: &[String]) -> Engine {
    let mut settings = settings.clone();
    settings.crawl.seeds = seeds.to_vec();
    let definition = CrawlDefinition::from_settings(&settings.crawl);
    let engine = Engine::start(Surroundings {
        limits: Limits::new(&settings.limits),
        settings,
        overlay: Arc::new(MemoryNetwork::new().join(PeerId::repeat(1))),
        names: Arc::new(SystemNames),
        kept: None,
        receipts: None,
    })
    .unwrap();
    engine.begin(definition).unwrap();
    engine
}

/// A site that has 50 pages, and takes so long for each that most of them wait.
fn large(web: &mut HostileWeb, name: &'static str) -> Site {
    web.pages(move |path, stream| match path {
        "/" => {
            let links: String = (0..50).map(|n| format!("<a href=/{n}>")).collect();
            page(stream, format!("{name} {links}"))
        }
        "/hang" => stay_silent(stream),
        _ => page(stream, format!("{path} of {name}")),
    })
}

fn slowly() -> Settings {
    let mut settings = settings();
    settings.politeness.private_delay_ms = 50;
    settings
}

#[test]
fn block_and_forget_drops_what_is_queued_and_refuses_the_rest() {
    let mut web = HostileWeb::default();
    let unwanted = large(&mut web, "unwanted");
    let other = large(&mut web, "other");
    let engine = start(&slowly(), &[unwanted.url("/"), other.url("/")]);
    wait_until("pages of both", || {
        unwanted.requests().len() > 3 && other.requests().len() > 3
    });
    let host = unwanted.address.ip().to_string();
    engine.block(&host).unwrap();
    assert!(engine.wait(DEADLINE).is_some());
    assert_eq!(other.requests().len(), 52, "the other site is complete");
    let asked = unwanted.requests().len();
    assert!(asked < 52, "most of the queue was dropped");
    assert_eq!(engine.report().urls.blocked_list, 52 - asked as u64);
    wait_until("the site is forgotten", || engine.block(&host) == Ok(true));
    // A second crawl of it is refused.
    let again = CrawlDefinition {
        seeds: vec![unwanted.url("/new")],
        ..CrawlDefinition::from_settings(&slowly().crawl)
    };
    engine.begin(again).unwrap();
    assert!(engine.wait(DEADLINE).is_some());
    assert_eq!(unwanted.requests().len(), asked);
    assert_eq!(engine.report().urls.blocked_list, 53 - asked as u64);
    // Taken back, it is a site like any other, and what was dropped can come again.
    assert_eq!(engine.unblock(&host), Ok(true));
    let later = CrawlDefinition {
        seeds: vec![unwanted.url("/49"), unwanted.url("/newer")],
        ..CrawlDefinition::from_settings(&slowly().crawl)
    };
    engine.begin(later).unwrap();
    assert!(engine.wait(DEADLINE).is_some());
    assert_eq!(unwanted.asked_for("/newer"), 1);
    assert_eq!(unwanted.asked_for("/49"), 1);
    assert!(engine.block("no host at all").is_err());
}

/// Nothing of a site that an earlier run has met is in memory.
#[test]
fn a_site_that_is_on_disk_alone_is_forgotten_too() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDirectory::open(folder.path(), [7; 32]).unwrap();
    let mut web = HostileWeb::default();
    let sites = [web.pages(small), web.pages(small)];
    let seeds = sites.each_ref().map(|site| site.url("/"));
    let run = || {
        let mut settings = settings();
        settings.crawl.seeds = seeds.to_vec();
        let kept = data.keep(PEER_STATE, &settings).unwrap();
        Engine::start(Surroundings {
            limits: Limits::new(&settings.limits),
            settings,
            overlay: Arc::new(MemoryNetwork::new().join(PeerId::repeat(1))),
            names: Arc::new(SystemNames),
            kept: Some(kept),
            receipts: None,
        })
        .unwrap()
    };
    let crawl = |engine: &Engine| {
        let settings = Settings::default();
        let definition = CrawlDefinition {
            seeds: seeds.to_vec(),
            ..CrawlDefinition::from_settings(&settings.crawl)
        };
        engine.begin(definition).unwrap();
        assert!(engine.wait(DEADLINE).is_some());
    };
    let engine = run();
    crawl(&engine);
    engine.shutdown();
    let engine = run();
    let [host, other] = sites.each_ref().map(|site| site.address.ip().to_string());
    let is_known = |host: &str| {
        let store = engine.ledger().store().unwrap();
        store.site(host).unwrap().is_some()
    };
    assert!(is_known(&host) && is_known(&other));
    engine.block(&host).unwrap();
    wait_until("the site is forgotten", || !is_known(&host));
    assert!(is_known(&other), "and no other");
    engine.unblock(&host).unwrap();
    crawl(&engine);
    let asked = sites.each_ref().map(|site| site.asked_for("/"));
    assert_eq!(asked, [2, 1], "what is forgotten can come again");
}

fn small(_: &str, stream: &TcpStream) -> io::Result<()> {
    page(stream, "a page")
}

/// A fetch that is under way when its site is blocked ends first; then the site goes.
#[test]
fn a_site_is_forgotten_once_its_fetch_has_ended() {
    let mut web = HostileWeb::default();
    let site = large(&mut web, "large");
    let mut settings = slowly();
    settings.network.fetch_timeout_ms = 1_000;
    let engine = start(
        &settings,
        &[site.url("/hang"), site.url("/1"), site.url("/2")],
    );
    wait_until("the fetch is under way", || site.asked_for("/hang") == 1);
    engine.block(&site.address.ip().to_string()).unwrap();
    assert_eq!(engine.report().urls.blocked_list, 2);
    assert!(engine.wait(DEADLINE).is_some());
    // The page that timed out was put back for another try, and dropped there.
    wait_until("the last is dropped", || {
        engine.report().urls.blocked_list == 3
    });
    assert_eq!(site.requests(), ["/robots.txt", "/hang"]);
}

#[test]
fn a_file_that_changes_is_heeded_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("block.txt");
    let mut web = HostileWeb::default();
    let site = large(&mut web, "large");
    let mut settings = slowly();
    settings.politeness.private_delay_ms = 200;
    settings.crawl.block_file = path.to_str().unwrap().into();
    let engine = start(&settings, &[site.url("/")]);
    wait_until("a page", || site.requests().len() > 1);
    fs::write(&path, format!("# not this one\n{}\n", site.address.ip())).unwrap();
    assert!(engine.wait(DEADLINE).is_some());
    let asked = site.requests().len() as u64;
    // Ten seconds of pages were queued, and the file is looked at every second.
    assert!(asked < 30, "{asked} requests");
    assert_eq!(engine.report().urls.blocked_list, 52 - asked);
}

/// Neither a redirect nor a robots.txt elsewhere leads to a blocked host.
#[test]
fn nothing_leads_to_a_blocked_host() {
    let mut web = HostileWeb::default();
    let blocked = large(&mut web, "large");
    let (page_there, rules_there) = (blocked.url("/x"), blocked.url("/robots.txt"));
    let leads = web.pages(move |_, stream| redirect(stream, &page_there));
    let ruled = web.http(move |path, stream| match path {
        "/robots.txt" => redirect(stream, &rules_there),
        _ => respond(stream, "200 OK", "", b"a page"),
    });
    let mut settings = settings();
    settings.crawl.blocked_sites = vec![blocked.address.ip().to_string()];
    let engine = start(
        &settings,
        &[leads.url("/"), ruled.url("/"), blocked.url("/")],
    );
    assert!(engine.wait(DEADLINE).is_some());
    let report = engine.shutdown();
    assert_eq!(blocked.requests(), [""; 0]);
    assert_eq!(
        (report.urls.blocked_list, report.urls.blocked_robots),
        (2, 1)
    );
    assert_eq!(ruled.requests(), ["/robots.txt"]);
}
