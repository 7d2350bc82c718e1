//! The published cases row by row, and what must hold for any file.

// A test that cannot be set up has failed, and says so.
#![allow(clippy::expect_used)]

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{PARSED_LIMIT_BYTES, Robots, SITEMAPS_LIMIT};

const CASES: &str = include_str!("../../docs/robots-cases.md");

/// The octets of a block on the page: see its introduction.
fn unseen(text: &str) -> Vec<u8> {
    let text = text
        .replace("{BOM}", "\u{FEFF}")
        .replace("{CR}", "\r")
        .replace("{TAB}", "\t");
    let pieces: Vec<&[u8]> = text.split("{FF}").map(str::as_bytes).collect();
    pieces.join(&0xFF)
}

#[test]
fn published_cases() {
    let mut file = Vec::new();
    let mut lines = CASES.lines();
    let (mut rows, mut wrong) = (0, Vec::new());
    while let Some(line) = lines.next() {
        if line == "```robots" {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            file = unseen(&block.join("\n"));
            continue;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, agent, path, verdict, clause, _] = cells[..] else {
            continue;
        };
        let Some(path) = path
            .strip_prefix('`')
            .and_then(|path| path.strip_suffix('`'))
        else {
            continue; // the head of a table
        };
        assert!(matches!(verdict, "allowed" | "disallowed"), "{line}");
        rows += 1;
        let robots = Robots::parse(&file, agent);
        if robots.is_allowed(path) != (verdict == "allowed") {
            wrong.push(format!("{agent} {path} should be {verdict}: {clause}"));
        }
    }
    assert!(rows >= 60, "only {rows} rows were found");
    assert!(wrong.is_empty(), "of {rows} rows:\n{}", wrong.join("\n"));
}

#[test]
fn a_query_without_a_path_asks_for_the_root() {
    let robots = Robots::parse(b"User-agent: *\nDisallow: /?x", "peercrawl");
    assert!(!robots.is_allowed("?x"));
    assert!(robots.is_allowed(""));
    assert!(!robots.is_allowed("/?x#fragment"));
}

#[test]
fn only_whole_lines_within_the_limit_are_read() {
    let file = |padding: usize| {
        let mut text = b"User-agent: *\nDisallow: /first\n#".to_vec();
        text.resize(padding, b'x');
        text.extend_from_slice(b"\nDisallow: /last/folder\nDisallow: /beyond");
        Robots::parse(&text, "peercrawl")
    };
    let last_line = "\nDisallow: /last/folder".len();
    let whole = file(PARSED_LIMIT_BYTES - last_line);
    assert!(!whole.is_allowed("/first"));
    assert!(!whole.is_allowed("/last/folder"));
    assert!(whole.is_allowed("/beyond"));
    // One octet over: the line is dropped, and not read as `/last/folde`.
    let cut = file(PARSED_LIMIT_BYTES - last_line + 1);
    assert!(!cut.is_allowed("/first"));
    assert!(cut.is_allowed("/last/folder"));
    // A single line without an end says nothing.
    let endless = [b"Disallow: /".as_slice(), &vec![b'x'; PARSED_LIMIT_BYTES]].concat();
    assert!(Robots::parse(&endless, "peercrawl").is_allowed("/x"));
}

#[test]
fn crawl_delay_is_of_our_group_and_capped() {
    let delay = |text: &str| Robots::parse(text.as_bytes(), "peercrawl").crawl_delay();
    let seconds = |n: f64| Some(Duration::from_secs_f64(n));
    assert_eq!(delay("User-agent: *\nCrawl-delay: 2"), seconds(2.0));
    assert_eq!(
        delay("User-agent: *\ncrawl-DELAY : 0.25 # s"),
        seconds(0.25)
    );
    assert_eq!(
        delay("User-agent: *\nCrawl-delay: 1\nCrawl-delay: 3\nCrawl-delay: 2"),
        seconds(3.0)
    );
    assert_eq!(delay("User-agent: *\nCrawl-delay: 86400"), seconds(300.0));
    let endless = format!("User-agent: *\nCrawl-delay: {}", "9".repeat(400));
    assert_eq!(delay(&endless), seconds(300.0));
    assert_eq!(delay("User-agent: other\nCrawl-delay: 2"), None);
    assert_eq!(
        delay("User-agent: *\nCrawl-delay: 2\nDisallow:\nUser-agent: peercrawl\nAllow: /"),
        None
    );
    assert_eq!(delay("Crawl-delay: 2\nUser-agent: *"), None);
    for nonsense in ["", "-1", "soon", "1e9", "NaN", "inf", ".", "1.2.3", "5s"] {
        assert_eq!(
            delay(&format!("User-agent: *\nCrawl-delay: {nonsense}")),
            None,
            "{nonsense}"
        );
    }
}

#[test]
fn sitemaps_are_everybodys_and_bounded() {
    let mut text = String::from("Sitemap: https://a.example/1.xml\nUser-agent: other\n");
    text.push_str("SITEMAP:https://a.example/2.xml # two\nSitemap:\n");
    let robots = Robots::parse(text.as_bytes(), "peercrawl");
    let found: Vec<&str> = robots.sitemaps().iter().map(|address| &**address).collect();
    assert_eq!(
        found,
        ["https://a.example/1.xml", "https://a.example/2.xml"]
    );
    let many = "Sitemap: https://a.example/\n".repeat(SITEMAPS_LIMIT + 1);
    assert_eq!(
        Robots::parse(many.as_bytes(), "x").sitemaps().len(),
        SITEMAPS_LIMIT
    );
}

#[test]
fn all_and_nothing() {
    assert!(Robots::allow_all().is_allowed("/any"));
    assert!(!Robots::disallow_all().is_allowed("/any"));
    assert!(!Robots::disallow_all().is_allowed("/"));
    assert!(Robots::disallow_all().is_allowed("/robots.txt"));
}

#[test]
fn travels_as_bytes() {
    let text = b"User-agent: *\nDisallow: /a*b$\nCrawl-delay: 1.5\nSitemap: https://a.example/s";
    let robots = Robots::parse(text, "peercrawl");
    let bytes = postcard::to_stdvec(&robots).expect("serialises");
    let back: Robots = postcard::from_bytes(&bytes).expect("deserialises");
    assert_eq!(back, robots);
    assert!(!back.is_allowed("/axb"));
}

/// A peer may send any rules: they may be wrong, but must not stop us, and the
/// delay is capped all the same.
#[test]
fn a_hostile_record_does_no_harm() {
    let record = (
        "-\n\n+\nx\u{FC}\n-*\n$".to_owned(),
        Some(u32::MAX),
        Vec::<String>::new(),
    );
    let bytes = postcard::to_stdvec(&record).expect("serialises");
    let robots: Robots = postcard::from_bytes(&bytes).expect("deserialises");
    assert!(!robots.is_allowed("/x"));
    assert_eq!(robots.crawl_delay(), Some(Duration::from_secs(300)));
}

/// Lines that have a chance to interact, and some that are noise.
fn line() -> impl Strategy<Value = String> {
    let path = "[a-c/*$%?~:,ü]{0,6}";
    prop_oneof![
        Just("User-agent: *".to_owned()),
        Just("User-agent: peercrawl".to_owned()),
        Just("User-agent: other".to_owned()),
        path.prop_map(|path| format!("Disallow: /{path}")),
        path.prop_map(|path| format!("Allow: /{path}")),
        Just("Sitemap: https://a.example/".to_owned()),
        "[ -~]{0,12}",
    ]
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 512,
        rng_seed: RngSeed::Fixed(9309),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Another spelling of the same path: some octets escaped that need not be.
fn escape_some(path: &str, mask: u64) -> String {
    let mut out = String::new();
    for (n, byte) in path.bytes().enumerate() {
        let optional = byte.is_ascii_alphanumeric() || b"-._~:,".contains(&byte);
        if (optional && mask >> (n % 64) & 1 == 1) || !byte.is_ascii() {
            let lower = mask >> ((n + 7) % 64) & 1 == 1;
            out += &if lower {
                format!("%{byte:02x}")
            } else {
                format!("%{byte:02X}")
            };
        } else {
            out.push(char::from(byte));
        }
    }
    out
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_are_a_file(
        text in prop::collection::vec(any::<u8>(), 0..400),
        agent in ".{0,8}",
        path in ".{0,40}",
    ) {
        let robots = Robots::parse(&text, &agent);
        let _ = robots.is_allowed(&path);
        let rules = [b"User-agent: *\nDisallow: /".as_slice(), &text].concat();
        let _ = Robots::parse(&rules, &agent).is_allowed(&path);
    }

    #[test]
    fn a_comment_changes_nothing(
        lines in prop::collection::vec(line(), 0..12),
        at in any::<prop::sample::Index>(),
        comment in "#[ -~]{0,20}",
    ) {
        let plain = Robots::parse(lines.join("\n").as_bytes(), "peercrawl");
        let mut own_line = lines.clone();
        own_line.insert(at.index(lines.len() + 1), comment.clone());
        prop_assert_eq!(&Robots::parse(own_line.join("\n").as_bytes(), "peercrawl"), &plain);
        let mut behind = lines;
        if !behind.is_empty() {
            let n = at.index(behind.len());
            behind[n].push_str(&comment);
            prop_assert_eq!(&Robots::parse(behind.join("\r\n").as_bytes(), "peercrawl"), &plain);
        }
    }

    #[test]
    fn spelling_does_not_matter(
        lines in prop::collection::vec(line(), 0..12),
        path in "/[a-c/~:,ü?]{0,6}",
        mask in any::<u64>(),
    ) {
        let text = format!("User-agent: *\n{}", lines.join("\n"));
        let robots = Robots::parse(text.as_bytes(), "peercrawl");
        let verdict = robots.is_allowed(&path);
        prop_assert_eq!(robots.is_allowed(&escape_some(&path, mask)), verdict);
        let respelt: Vec<String> = text
            .lines()
            .map(|line| match line.split_once(": /") {
                Some((key, rule)) if key.ends_with("llow") && !rule.contains('%') && !rule.contains('#') => {
                    format!("{key}: /{}", escape_some(rule.trim_end(), mask))
                }
                _ => line.to_owned(),
            })
            .collect();
        let respelt = Robots::parse(respelt.join("\n").as_bytes(), "peercrawl");
        prop_assert_eq!(respelt.is_allowed(&path), verdict);
    }
}
