//! Scope and depth, changed while it crawls: what waits follows the new rules.
//!
//! Each web has plain pages. Its roots hang in a tree below the first, with which all crawls
//! here begin, and the pages of a host hang in a tree below its root.

use std::path::Path;
use std::sync::Arc;

use peercrawl::config::Scope;
use peercrawl::crawl::CrawlDefinition;
use peercrawl::demo::web::{Web, WebSpec};
use peercrawl::engine::{Ending, Engine};
use peercrawl::report::Report;
use peercrawl_overlay::memory::MemoryNetwork;
use tempfile::TempDir;

use crate::crew::{self, DEADLINE, Settings, engine, wait_until, whole};
use crate::durable::kept_peer;

fn web(seed: u64) -> Arc<Web> {
    crew::web(WebSpec {
        oddities: false,
        request_log: 100_000,
        ..WebSpec::new(8, 400, seed)
    })
}

/// Slow enough for a change in the middle of a crawl: it takes a second at least.
fn settings() -> Settings {
    let mut settings = crew::settings();
    settings.politeness.private_delay_ms = 20;
    settings
}

fn definition(web: &Web, scope: Scope) -> CrawlDefinition {
    let mut definition = whole(web, &settings());
    definition.seeds.truncate(1);
    definition.scope = scope;
    definition
}

/// The host of the seed, with its port.
fn home(web: &Web) -> String {
    let seed = web.seeds().swap_remove(0);
    seed["http://".len()..].trim_end_matches('/').to_owned()
}

/// What was asked for, as host and path.
fn asked(web: &Web) -> Vec<(String, String)> {
    let lines = web.log().lines.into_iter();
    lines.map(|line| (line.host, line.path)).collect()
}

/// Begins with everything, and stops in the middle of it: then nothing is under way.
fn pause_midway(engine: &Engine, web: &Web) {
    engine.begin(definition(web, Scope::Any)).unwrap();
    let home = home(web);
    wait_until("pages of other hosts", || {
        let is_elsewhere = |(host, path): &(String, String)| *host != home && path != "/robots.txt";
        asked(web).into_iter().filter(is_elsewhere).count() > 5
    });
    rest(engine);
}

/// Begins no fetch any more, and waits for those that are under way.
fn rest(engine: &Engine) {
    engine.set_paused(true);
    wait_until("nothing is fetched", || engine.fetching() == 0);
    assert!(engine.queued() > 0, "or it tests nothing");
}

fn finish(engine: &Engine) {
    engine.set_paused(false);
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
}

/// After so many requests only the home was asked, and all of it was fetched.
fn assert_home_alone(web: &Web, before: usize) {
    let home = home(web);
    let asked = asked(web).split_off(before);
    let elsewhere: Vec<_> = asked.iter().filter(|(host, _)| *host != home).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    let unserved = web.unserved(&web.truth());
    assert!(!unserved.is_empty(), "it was stopped in the middle");
    let home = format!("http://{home}/");
    let at_home: Vec<_> = unserved
        .iter()
        .filter(|url| url.starts_with(&home))
        .collect();
    assert!(at_home.is_empty(), "{at_home:?}");
}

/// Every link, and every seed as often as the crawl was begun, is counted once.
fn assert_accounted(report: &Report, seeds: u64) {
    let urls = &report.urls;
    let turned_away = urls.duplicate + urls.out_of_scope + urls.trap.values().sum::<u64>();
    assert_eq!(
        urls.discovered + seeds,
        turned_away + report.pages,
        "{report:?}"
    );
}

#[test]
fn a_narrower_scope_stops_what_waits() {
    let web = web(81);
    let engine = engine(&settings(), &MemoryNetwork::new(), 1, &web);
    pause_midway(&engine, &web);
    let before = asked(&web).len();
    engine.begin(definition(&web, Scope::Host)).unwrap();
    finish(&engine);
    let report = engine.shutdown();
    assert_home_alone(&web, before);
    assert_accounted(&report, 2);
}

#[test]
fn a_wider_scope_begins_again_with_the_seed_alone() {
    let web = web(82);
    let engine = engine(&settings(), &MemoryNetwork::new(), 1, &web);
    engine.begin(definition(&web, Scope::Host)).unwrap();
    finish(&engine);
    assert_home_alone(&web, 0);
    engine.begin(definition(&web, Scope::Any)).unwrap();
    finish(&engine);
    let truth = web.truth();
    assert_eq!(web.unserved(&truth), [""; 0]);
    assert_eq!(web.served_twice(&truth), web.seeds()[..1]);
    // Begun once more it is the same crawl.
    let before = asked(&web).len();
    engine.begin(definition(&web, Scope::Any)).unwrap();
    finish(&engine);
    assert_eq!(asked(&web).len(), before);
    assert_eq!(engine.shutdown().pages, 401);
}

#[test]
fn a_smaller_depth_stops_what_is_deeper() {
    let web = web(83);
    let engine = engine(&settings(), &MemoryNetwork::new(), 1, &web);
    pause_midway(&engine, &web);
    let before = asked(&web).len();
    let mut shallow = definition(&web, Scope::Any);
    shallow.bounds.max_depth = 0;
    engine.begin(shallow).unwrap();
    finish(&engine);
    let report = engine.shutdown();
    let seed = (home(&web), "/".to_owned());
    assert_eq!(asked(&web).split_off(before), [seed]);
    assert!(report.urls.trap["depth"] > 0);
    assert_accounted(&report, 2);
}

/// Changed before a restart, or between two runs.
#[test]
fn a_change_of_scope_outlives_a_restart() {
    for is_before in [true, false] {
        let (web, data) = (web(84), TempDir::new().unwrap());
        let start = |data: &Path| kept_peer(&web, data, &settings(), &MemoryNetwork::new());
        let first = start(data.path());
        pause_midway(&first, &web);
        if is_before {
            first.begin(definition(&web, Scope::Host)).unwrap();
        }
        first.shutdown();
        let mut before = asked(&web).len();
        let second = start(data.path());
        if !is_before {
            rest(&second);
            before = asked(&web).len();
        }
        second.begin(definition(&web, Scope::Host)).unwrap();
        finish(&second);
        assert_accounted(&second.shutdown(), 2 + u64::from(is_before));
        assert_home_alone(&web, before);
        let seed = (home(&web), "/".to_owned());
        let times = asked(&web).iter().filter(|one| **one == seed).count();
        assert_eq!(times, 2, "changed before the restart: {is_before}");
    }
}
