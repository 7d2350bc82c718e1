//! One peer, one web: everything is fetched once, and nothing that must not be.

use peercrawl::clock::wall_ms;
use peercrawl::demo::web::{Naming, Web, WebSpec};
use peercrawl::engine::Ending;
use peercrawl::report::Report;
use peercrawl_overlay::memory::MemoryNetwork;

use crate::crew::{DEADLINE, engine, settings, wait_until, web, whole};

/// Crawls a whole web with one peer, and holds the result against what the web knows.
fn crawl_exactly(spec: WebSpec) -> Report {
    let web = web(spec);
    let settings = settings();
    let engine = engine(&settings, &MemoryNetwork::new(), 1, &web);
    engine.begin(whole(&web, &settings)).unwrap();
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    let report = engine.shutdown();
    assert_exact(&web, &report);
    report
}

/// Holds what a crawl reports against what the web and its server's log know.
pub fn assert_exact(web: &Web, report: &Report) {
    assert_covered(web, report);
    let truth = web.truth();
    assert_eq!(report.content.new, truth.distinct_contents);
    assert_eq!(report.content.duplicate, truth.duplicates);
    assert_eq!(report.content.unknown, 0);
}

/// The same, without a word about contents.
pub fn assert_covered(web: &Web, report: &Report) {
    let (truth, log) = (web.truth(), web.log());
    assert_eq!(web.unserved(&truth), [""; 0], "missed");
    assert_eq!(web.served_twice(&truth), [""; 0], "fetched twice");
    assert_eq!(log.examples, [""; 0], "should not have been asked for");
    assert_eq!(log.overlaps, 0, "two requests at once on one host");
    assert_eq!(report.pages, truth.reachable);
    assert_eq!(report.redirects, truth.redirects);
    assert_eq!(report.urls.blocked_robots, truth.robots_blocked);
    assert_eq!(report.errors["http_4xx"], truth.client_errors);
    assert_eq!(report.errors["http_5xx"], truth.server_errors);
    assert_eq!(report.errors["other"], truth.resets);
    assert_eq!(report.urls.given_up, 0);
}

#[test]
fn ten_webs_are_crawled_exactly() {
    let crawl = |seed| crawl_exactly(WebSpec::new(20, 600, seed));
    let all = Report::sum(&(1..=10).map(crawl).collect::<Vec<_>>());
    // The webs did try the crawler.
    assert!(all.urls.blocked_robots > 0 && all.redirects > 0);
    assert!(all.content.duplicate > 0 && all.retries > 0);
    assert_eq!(
        all.urls.trap.len(),
        2,
        "both kinds of trap: {:?}",
        all.urls.trap
    );
}

#[test]
fn a_web_of_names_on_one_address_is_crawled_exactly() {
    crawl_exactly(WebSpec {
        naming: Naming::Names,
        ..WebSpec::new(10, 300, 1)
    });
}

#[test]
fn the_smallest_web_ends_too() {
    let report = crawl_exactly(WebSpec::new(1, 3, 1));
    assert_eq!(report.pages, 3);
}

#[test]
fn every_link_is_accounted_for() {
    let report = crawl_exactly(WebSpec::new(10, 300, 7));
    let urls = &report.urls;
    let turned_away = urls.duplicate + urls.out_of_scope + urls.trap.values().sum::<u64>();
    let fetched = report.pages + report.redirects + report.errors_in_all();
    let seeds = 3;
    assert_eq!(
        urls.discovered + report.redirects + seeds,
        turned_away + urls.blocked_robots + fetched,
    );
}

#[test]
fn max_pages_is_never_exceeded() {
    let web = web(WebSpec::new(20, 600, 3));
    for most in [1, 7, 50] {
        let mut settings = settings();
        settings.crawl.max_pages = most;
        settings.threads.downloaders = 32;
        let engine = engine(&settings, &MemoryNetwork::new(), 1, &web);
        engine.begin(whole(&web, &settings)).unwrap();
        assert_eq!(engine.wait(DEADLINE), Some(Ending::MaxPages));
        assert_eq!(engine.shutdown().pages, most);
    }
}

/// Each host was leased every 20 ms for good, in an engine whose end nobody waits for.
#[test]
fn a_crawl_that_has_all_its_pages_leaves_its_hosts_alone() {
    let web = web(WebSpec::new(5, 200, 3));
    let mut settings = settings();
    settings.crawl.max_pages = 20;
    let engine = engine(&settings, &MemoryNetwork::new(), 1, &web);
    engine.begin(whole(&web, &settings)).unwrap();
    wait_until("all its pages", || engine.has_all_pages());
    wait_until("its hosts rest", || {
        let soon_ms = wall_ms() + 30_000;
        engine.fetching() == 0 && engine.next_fetch_ms().is_some_and(|at_ms| at_ms > soon_ms)
    });
    assert!(engine.outstanding() > 0, "what waits is not given up");
    assert_eq!(engine.wait(DEADLINE), Some(Ending::MaxPages));
    assert_eq!(engine.shutdown().pages, 20);
}

/// Queues that hold far less than the web has: overflow is entered and left, and what
/// was turned away is found again when it is met again.
#[test]
fn overflow_is_entered_and_left_and_loses_nothing_that_is_met_again() {
    let web = web(WebSpec {
        links: 600,
        oddities: false,
        ..WebSpec::new(1, 200, 5)
    });
    let mut settings = settings();
    settings.queues.total_urls = 40;
    let engine = engine(&settings, &MemoryNetwork::new(), 1, &web);
    engine.begin(whole(&web, &settings)).unwrap();
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    let report = engine.shutdown();
    let overflow = &report.overflow;
    assert!(overflow.entered > 0 && overflow.left > 0, "{report:?}");
    assert!(report.urls.refused_overflow > 200, "{report:?}");
    assert_eq!(report.pages, 200, "all were met again, and fetched then");
    assert_eq!(web.log().fetched_twice, 0);
}

/// Bounds that depend on the order of arrival: only their size is certain.
#[test]
fn a_site_gives_no_more_pages_than_its_share() {
    let web = web(WebSpec::new(2, 200, 5));
    let mut settings = settings();
    settings.crawl.max_pages_per_site = 20;
    let engine = engine(&settings, &MemoryNetwork::new(), 1, &web);
    engine.begin(whole(&web, &settings)).unwrap();
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    let report = engine.shutdown();
    assert!(report.pages <= 40, "{}", report.pages);
    assert!(report.urls.trap["site_pages"] > 0);
}

#[test]
fn what_waits_longer_than_our_patience_is_given_up() {
    let web = web(WebSpec::new(20, 600, 1));
    let refused = web.truth().refused_first;
    assert!(refused > 0, "some pages ask to wait a second or two");
    let mut settings = settings();
    settings.crawl.patience_secs = 0;
    let engine = engine(&settings, &MemoryNetwork::new(), 1, &web);
    engine.begin(whole(&web, &settings)).unwrap();
    assert_eq!(engine.wait(DEADLINE), Some(Ending::OutOfPatience));
    let report = engine.shutdown();
    assert!(report.urls.given_up >= 1, "{report:?}");
    assert!(report.pages < web.truth().reachable);
}
