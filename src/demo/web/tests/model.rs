//! The plan by itself: what a seed decides, and that sizes come out as asked.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::paths::{Target, What};
use super::super::plan::{Plan, host_address, host_name, host_number};
use super::super::render::Desk;
use super::super::truth::Truth;
use super::super::{Naming, WebSpec, seed_targets};
use super::small;

fn truth(spec: &WebSpec) -> Truth {
    let plan = Arc::new(Plan::new(spec.clone(), 8_080));
    let seeds: Vec<Target> = seed_targets(&plan).collect();
    Truth::walk(plan, &seeds)
}

fn bodies(spec: &WebSpec) -> Vec<Vec<u8>> {
    let plan = Plan::new(spec.clone(), 8_080);
    let mut desk = Desk::default();
    let mut all = Vec::new();
    for id in 0..spec.pages {
        let (host, number) = plan.place(id);
        let mut body = Vec::new();
        plan.body(host, number, &mut desk, &mut body);
        all.push(body);
    }
    all
}

#[test]
fn a_seed_decides_every_byte() {
    let spec = small(5, 300, 1);
    let other = WebSpec {
        seed: 2,
        ..spec.clone()
    };
    assert!(bodies(&spec) == bodies(&spec));
    assert!(bodies(&spec) != bodies(&other));
    assert_eq!(truth(&spec).urls(), truth(&spec).urls());
    assert_ne!(truth(&spec).urls(), truth(&other).urls());
}

#[test]
fn as_many_pages_are_reachable_as_were_asked_for() {
    for (hosts, pages) in [
        (1, 3),
        (1, 50),
        (2, 6),
        (3, 10),
        (3, 200),
        (17, 60),
        (50, 2_000),
        (400, 9_000),
    ] {
        for oddities in [false, true] {
            for (seed, links) in [(1, 33), (2, 5), (3, 0)] {
                let spec = WebSpec {
                    oddities,
                    links,
                    ..WebSpec::new(hosts, pages, seed)
                };
                let truth = truth(&spec);
                assert_eq!(truth.reachable, u64::from(pages), "{spec:?}");
                assert_eq!(truth.reachable - truth.duplicates, truth.distinct_contents);
                assert!(oddities || truth.duplicates + truth.redirects + truth.client_errors == 0);
            }
        }
    }
}

#[test]
fn the_default_web_has_some_of_everything() {
    let truth = truth(&WebSpec::new(50, 10_000, 7));
    assert!(
        (300..700).contains(&truth.duplicates),
        "{}",
        truth.duplicates
    );
    assert!((2..=4).all(|size| truth.mirrors().iter().any(|group| group.len() == size)));
    assert!(truth.redirects > 400 && truth.client_errors > 100 && truth.robots_blocked > 80);
    assert_eq!((truth.trapped_repeated, truth.trapped_long), (4, 3));
    assert_eq!((truth.server_errors, truth.resets), (10, 13));
    assert_eq!((truth.refused_first, truth.reset_first), (10, 12));
    let longest = truth.urls().iter().map(String::len).max();
    assert!(longest.is_some_and(|longest| (1_800..=2_048).contains(&longest)));
}

#[test]
fn every_url_has_a_path_of_its_own_and_back() {
    let plan = Plan::new(small(8, 2_000, 9), 8_080);
    let mut spare = Vec::new();
    let mut links = Vec::new();
    let mut paths = HashSet::new();
    let mut targets: HashSet<Target> = HashSet::new();
    for id in 0..plan.spec.pages {
        let (host, number) = plan.place(id);
        assert_eq!(plan.id(host, number), id);
        targets.insert(Target {
            host,
            what: What::Page(number),
        });
        plan.links(host, number, &mut links);
        targets.extend(links.iter().copied());
    }
    for target in targets {
        let mut path = Vec::new();
        plan.push_path(target, &mut path);
        assert_eq!(plan.find(target.host, &path, &mut spare), Some(target.what));
        // The canonical form of the `url` crate's making is the one that is written.
        let url = plan.url(target);
        assert_eq!(url::Url::parse(&url).expect("a URL").as_str(), url);
        assert!(paths.insert(url));
        path.push(b'x');
        assert_ne!(plan.find(target.host, &path, &mut spare), Some(target.what));
    }
    for path in [
        "",
        "/d1/p01.html",
        "/d1/p1.htm",
        "/d2/p1.html",
        "/go/1/0",
        "/calendar/next/",
        "/calendar/nexd",
        "/p",
    ] {
        assert_eq!(plan.find(0, path.as_bytes(), &mut spare), None, "{path}");
    }
}

#[test]
fn hosts_have_names_and_addresses_of_their_own() {
    for naming in [Naming::Addresses, Naming::Names] {
        for host in [0, 1, 249, 250, 62_499, 62_500, 15_624_999] {
            assert_eq!(host_number(naming, &host_name(naming, host)), Some(host));
        }
    }
    assert_eq!(host_address(0).to_string(), "127.1.1.1");
    assert_eq!(host_address(62_500 + 251).to_string(), "127.2.2.2");
    for stranger in [
        "127.0.0.1",
        "10.1.1.1",
        "h+1.peercrawl.test",
        "h1.example",
        "localhost",
    ] {
        assert_eq!(host_number(Naming::Addresses, stranger), None);
        assert_eq!(host_number(Naming::Names, stranger), None);
    }
}

#[test]
fn a_spec_that_cannot_be_built_is_refused() {
    for spec in [
        WebSpec::new(0, 10, 1),
        WebSpec::new(4, 11, 1),
        WebSpec {
            threads: 0,
            ..WebSpec::new(1, 3, 1)
        },
        WebSpec {
            links: 1_001,
            ..WebSpec::new(1, 3, 1)
        },
    ] {
        assert!(spec.check().is_err(), "{spec:?}");
    }
}
