use std::fs;
use std::time::{Duration, SystemTime};

use super::*;

fn list(entries: &[&str]) -> BlockList {
    let settings = config::Crawl {
        blocked_sites: entries.iter().map(|&entry| entry.into()).collect(),
        ..config::Crawl::default()
    };
    BlockList::new(&settings, 0)
}

/// The rows of `docs/opt-out.md`, so that the page cannot be wrong unnoticed.
#[test]
fn the_published_examples_hold() {
    let text = include_str!("../../docs/opt-out.md");
    let mut rows = 0;
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let list = list(&[cells[0].trim_matches('`')]);
        for (cell, expected) in [(cells[1], true), (cells[2], false)] {
            for host in cell.split(' ').filter(|host| host.starts_with('`')) {
                let host = host.trim_matches(['`', ',']);
                assert_eq!(list.is_blocked(host), expected, "{host} by {row}");
            }
        }
        rows += 1;
    }
    assert!(rows >= 8, "{rows} rows");
}

#[test]
fn what_is_no_pattern_is_refused_and_the_rest_holds() {
    for text in [
        "",
        " ",
        "*",
        "**.*",
        "*.",
        "=",
        "a b",
        "exa mple.org",
        "http://",
        "a/b",
        "<x>",
    ] {
        assert!(Pattern::parse(text).is_err(), "{text:?}");
    }
    let list = list(&["a b", "good.example"]);
    assert!(list.is_blocked("good.example") && !list.is_blocked("a.example"));
}

#[test]
fn stars_mean_what_they_mean_in_a_shell() {
    for (pattern, name, expected) in [
        ("ads*.example.*", "ads1.example.org", true),
        ("ads*.example.*", "ads.example.", true),
        ("ads*.example.*", "bads.example.org", false),
        ("*tracker*", "my-tracker.example", true),
        ("*tracker*", "track.example", false),
        ("a*b*a", "aba", true),
        ("a*b*a", "ab", false),
        ("aa*aa", "aaa", false),
    ] {
        assert_eq!(
            pattern::glob_matches(pattern, name),
            expected,
            "{pattern} {name}"
        );
    }
}

#[test]
fn the_user_blocks_and_takes_back() {
    let list = list(&["a.example"]);
    let before = list.version();
    list.block(Pattern::parse("B.example").unwrap());
    assert!(list.version() > before);
    assert!(list.is_blocked("www.b.example"));
    let before = list.version();
    assert!(list.unblock(&Pattern::parse("b.example").unwrap()));
    assert!(!list.is_blocked("www.b.example"));
    assert!(!list.unblock(&Pattern::parse("b.example").unwrap()));
    assert!(list.unblock(&Pattern::parse("a.example").unwrap()));
    assert_eq!(list.version(), before, "nothing more is blocked");
    assert!(!list.is_blocked("a.example"));
}

#[test]
fn a_file_is_read_again_when_it_changes_and_missed_when_it_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("block.txt");
    let settings = config::Crawl {
        block_file: path.to_str().unwrap().into(),
        blocked_sites: vec!["settings.example".into()],
        ..config::Crawl::default()
    };
    let list = BlockList::new(&settings, 0);
    assert!(!list.is_blocked("a.example"), "no file yet");
    fs::write(
        &path,
        "\u{feff}a.example # why\n\n# b.example\nnot a host\n*.c.example",
    )
    .unwrap();
    list.reload(500);
    assert!(
        !list.is_blocked("a.example"),
        "it was looked at a moment ago"
    );
    list.reload(1_000);
    for (host, expected) in [
        ("a.example", true),
        ("b.example", false),
        ("x.c.example", true),
    ] {
        assert_eq!(list.is_blocked(host), expected, "{host}");
    }
    fs::write(&path, "b.example").unwrap();
    list.reload(2_000);
    assert!(list.is_blocked("b.example") && !list.is_blocked("a.example"));
    // The same length within the same tick of the clock: read again nevertheless.
    fs::write(&path, "d.example").unwrap();
    list.reload(3_000);
    assert!(list.is_blocked("d.example") && !list.is_blocked("b.example"));
    fs::remove_file(&path).unwrap();
    list.reload(4_000);
    assert!(
        list.is_blocked("d.example"),
        "what was blocked stays blocked"
    );
    assert!(list.is_blocked("settings.example"));
}

#[test]
fn a_file_that_has_not_changed_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("block.txt");
    fs::write(&path, "a.example").unwrap();
    let old = SystemTime::now() - Duration::from_secs(3_600);
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(old)
        .unwrap();
    let settings = config::Crawl {
        block_file: path.to_str().unwrap().into(),
        ..config::Crawl::default()
    };
    let list = BlockList::new(&settings, 0);
    let version = list.version();
    for second in 1..10 {
        list.reload(second * 1_000);
    }
    assert_eq!(list.version(), version);
}

#[test]
fn a_long_list_is_asked_quickly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("block.txt");
    let lines: String = (0..200_000).map(|n| format!("host{n}.example\n")).collect();
    fs::write(&path, lines).unwrap();
    let settings = config::Crawl {
        block_file: path.to_str().unwrap().into(),
        ..config::Crawl::default()
    };
    let list = BlockList::new(&settings, 0);
    assert!(list.is_blocked("www.host199999.example"));
    let begun = std::time::Instant::now();
    for n in 0..10_000 {
        assert!(!list.is_blocked(&format!("a.b.c{n}.example")));
    }
    // Each is a few look-ups; a walk over the list would take minutes.
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}
