//! The record of every request, against the server's own.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use peercrawl::demo::web::WebSpec;
use peercrawl::receipts::{Line, folder_files, line};
use peercrawl_overlay::memory::MemoryNetwork;

use crate::crew::{DEADLINE, engine, engine_with_receipts, settings, wait_until, web, whole};
use crate::hostile::{HostileWeb, page, respond, stay_silent};

fn receipts(folder: &Path) -> Vec<Line> {
    let files = folder_files(folder).unwrap();
    let texts = files
        .iter()
        .map(|(_, path)| fs::read_to_string(path).unwrap());
    let texts: Vec<_> = texts.collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.map(|text| line::read(text).unwrap()).collect()
}

/// As many receipts as requests, URL by URL, from the server's log.
fn is_page(line: &&Line) -> bool {
    let is_good = line.status.is_some_and(|status| status < 300) && line.reason.is_none();
    is_good && line.robots != "rules_file"
}

#[test]
fn every_request_has_its_receipt() {
    let mut spec = WebSpec::new(10, 400, 5);
    spec.request_log = 10_000;
    let web = web(spec);
    let folder = tempfile::tempdir().unwrap();
    let settings = settings();
    let network = MemoryNetwork::new();
    let at = Some(folder.path().to_owned());
    let engine = engine_with_receipts(&settings, &network, 1, &web, at);
    engine.begin(whole(&web, &settings)).unwrap();
    assert!(engine.wait(DEADLINE).is_some());
    let report = engine.shutdown();
    let mut asked = BTreeMap::<(String, u16), u32>::new();
    for line in web.log().lines {
        let url = format!("http://{}{}", line.host, line.path);
        *asked.entry((url, line.status)).or_default() += 1;
    }
    let mut written = BTreeMap::<(String, u16), u32>::new();
    let receipts = receipts(folder.path());
    for receipt in &receipts {
        let key = (receipt.url.clone(), receipt.status.unwrap_or(0));
        *written.entry(key).or_default() += 1;
    }
    // What broke off before it began has a status at the server, and a reason here.
    let failed: Vec<_> = receipts.iter().filter(|r| r.status.is_none()).collect();
    let only = |a: &BTreeMap<(String, u16), u32>, b: &BTreeMap<_, u32>| -> u32 {
        let more = |(key, count): (&_, &u32)| count.saturating_sub(*b.get(key).unwrap_or(&0));
        a.iter().map(more).sum()
    };
    assert_eq!(only(&asked, &written) as usize, failed.len(), "{failed:?}");
    assert_eq!(only(&written, &asked) as usize, failed.len());
    assert_eq!(receipts.len() as u64, web.log().requests);
    assert!(receipts.iter().all(|receipt| receipt.asked_by == "self"));
    let bytes: u64 = receipts.iter().filter(is_page).map(|r| r.bytes).sum();
    assert_eq!(bytes, report.bytes);
}

/// A URL that another peer sent says so, in the receipt of its owner; the robots.txt of
/// its host too.
#[test]
fn a_receipt_names_the_peer_that_asked() {
    let mut spec = WebSpec::new(12, 240, 6);
    spec.request_log = 10_000;
    let web = web(spec);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let settings = settings();
    let network = MemoryNetwork::new();
    let engines = [1, 2].map(|peer| {
        let at = Some(folders[usize::from(peer) - 1].path().to_owned());
        engine_with_receipts(&settings, &network, peer, &web, at)
    });
    wait_until("both know each other", || {
        engines.iter().all(|engine| engine.owners() == 2)
    });
    engines[0].begin(whole(&web, &settings)).unwrap();
    wait_until("the crawl is over", || {
        let is_idle = || engines.iter().all(|engine| engine.outstanding() == 0);
        is_idle() && is_idle() && web.log().served > 100
    });
    let pages: u64 = engines.map(|engine| engine.shutdown().pages).iter().sum();
    let all = [receipts(folders[0].path()), receipts(folders[1].path())];
    let page_count = |lines: &[Line]| lines.iter().filter(is_page).count() as u64;
    assert_eq!(page_count(&all[0]) + page_count(&all[1]), pages);
    // The second peer began nothing itself: what made it ask came from the first one.
    let from_first: Vec<_> = all[1]
        .iter()
        .filter(|r| r.asked_by == "01".repeat(32))
        .collect();
    assert!(from_first.iter().any(|r| r.robots == "rules_file"));
    assert!(from_first.iter().any(|r| r.robots != "rules_file"));
    let known = ["self".to_owned(), "01".repeat(32), "02".repeat(32)];
    for (own, receipts) in all.iter().enumerate() {
        let is_known = |r: &Line| known.contains(&r.asked_by) && r.asked_by != known[own + 1];
        assert!(receipts.iter().all(is_known));
    }
}

#[test]
fn a_peer_without_a_folder_keeps_none() {
    let web = web(WebSpec::new(2, 20, 7));
    let mut settings = settings();
    let network = MemoryNetwork::new();
    let engine = engine(&settings, &network, 1, &web);
    engine.begin(whole(&web, &settings)).unwrap();
    assert!(engine.wait(DEADLINE).is_some());
    assert!(engine.shutdown().pages > 0);
    settings.receipts.enabled = false;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("receipts");
    drop(engine_with_receipts(
        &settings,
        &network,
        2,
        &web,
        Some(at.clone()),
    ));
    assert!(!at.exists());
}

/// What a person sees: a crawl, and what `receipts export` tells of it.
#[test]
fn the_command_line_exports_them() {
    let mut hostile = HostileWeb::default();
    let site = hostile.http(|path, stream| match path {
        "/robots.txt" => respond(stream, "200 OK", "", b"User-agent: *\nDisallow: /no"),
        "/" => page(stream, "<a href=/no><a href=/slow><a href=/missing>"),
        "/slow" => stay_silent(stream),
        _ => respond(stream, "404 Not Found", "", b"gone"),
    });
    let data = tempfile::tempdir().unwrap();
    let program = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_peercrawl"))
            .args(arguments)
            .env("HOME", data.path())
            .env("XDG_CONFIG_HOME", data.path().join("config"))
            .output()
            .unwrap()
    };
    let folder = data.path().join("data");
    let folder = folder.to_str().unwrap();
    let crawl = [
        "crawl",
        &site.url("/"),
        "--allow-private",
        "--data",
        folder,
        "--set",
        "network.fetch_timeout_ms=300",
        "--set",
        "politeness.max_attempts=1",
    ];
    let done = program(&crawl);
    assert!(done.status.success(), "{done:?}");
    let export = |more: &[&str]| {
        let done = program(&[&["receipts", "export", "--data", folder], more].concat());
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let all = export(&["--format", "tsv"]);
    let rows: Vec<Vec<&str>> = all.lines().map(|row| row.split('\t').collect()).collect();
    assert_eq!(rows[0].join("\t"), Line::TSV_HEADER);
    let mut seen: Vec<_> = rows[1..]
        .iter()
        .map(|row| (row[1].to_owned(), row[2], row[3], row[4], row[5]))
        .collect();
    seen.sort();
    assert_eq!(
        seen,
        [
            (site.url("/"), "200", "43", "allowed", "self"),
            (site.url("/missing"), "404", "4", "allowed", "self"),
            (site.url("/robots.txt"), "200", "27", "rules_file", "self"),
            (site.url("/slow"), "timeout", "0", "allowed", "self"),
        ]
    );
    assert_eq!(export(&[]).lines().count(), 4);
    assert_eq!(export(&["--since", "1h"]).lines().count(), 4);
    assert_eq!(export(&["--since", "2100-01-01"]), "");
    assert_eq!(export(&["--until", "2000-01-01"]), "");
    let wrong = program(&["receipts", "export", "--since", "soon"]);
    assert_eq!(wrong.status.code(), Some(2));
    let nothing = program(&[
        "receipts",
        "export",
        "--data",
        data.path().to_str().unwrap(),
    ]);
    assert!(nothing.status.success() && nothing.stdout.is_empty());
}
