//! What keeping costs: the same crawl with nothing kept, with state alone, and with state
//! and archive, as in `docs/decisions/0008-ledger.md`. What is measured is the time from a
//! crawl's first page to its last: its start and its end are paid once.
//!
//! The web is served by this process, so the two share the machine. The kinds take turns,
//! and the middle one of all turns is printed. Run it with `cargo bench --bench archive`. It
//! fails if the archive costs more than it may, over the web that is like the real one.

// A measurement that cannot go on has nothing better to do than stop.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use peercrawl::demo::web::{Web, WebSpec};
use serde_json::Value;
use tempfile::TempDir;

const PAGES: u32 = 20_000;
const TURNS: usize = 5;
/// The part of the pages that the archive may cost.
const MOST: f64 = 0.4;
const POLL: Duration = Duration::from_millis(5);
const KINDS: [(&str, &[&str]); 3] = [
    ("nothing kept", &["--no-store"]),
    ("state", &["--set", "archive.enabled=false"]),
    ("state and archive", &[]),
];

fn main() {
    for (name, page_bytes, oddities) in [
        ("the built-in web", 16 << 10, true),
        ("plain pages of 4 KiB", 4 << 10, false),
        ("plain pages of 16 KiB", 16 << 10, false),
        ("plain pages of 64 KiB", 64 << 10, false),
    ] {
        let mut rates = [const { Vec::new() }; KINDS.len()];
        for _ in 0..TURNS {
            for (rates, (_, arguments)) in rates.iter_mut().zip(KINDS) {
                rates.push(pages_per_sec(page_bytes, oddities, arguments));
            }
        }
        let middle = rates.map(|mut rates| {
            rates.sort_by(f64::total_cmp);
            rates[TURNS / 2]
        });
        println!("{name}");
        for (rate, (name, _)) in middle.iter().zip(KINDS) {
            let cost = 100.0 * (1.0 - rate / middle[0]);
            println!("  {name:18} {rate:6.0} pages/s, costs {cost:3.0} %");
        }
        let [_, state, archive] = middle;
        let cost = 100.0 * (1.0 - archive / state);
        println!("  against state alone, the archive costs {cost:.0} %");
        assert!(!oddities || archive > state * (1.0 - MOST), "too much");
    }
}

/// One crawl over a new web, with a new data directory.
fn pages_per_sec(page_bytes: usize, oddities: bool, arguments: &[&str]) -> f64 {
    let web = Web::start(WebSpec {
        page_bytes,
        oddities,
        ..WebSpec::new(200, PAGES, 7)
    })
    .unwrap();
    let data = TempDir::new().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_peercrawl"))
        .arg("crawl")
        .args(web.seeds())
        .args(["--scope", "any", "--allow-private", "--json", "--data"])
        .arg(data.path())
        .args(arguments)
        .env("HOME", data.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut served, mut first, mut last) = (0, None, Instant::now());
    while child.try_wait().unwrap().is_none() {
        let now_served = web.log().served;
        if now_served > served {
            last = Instant::now();
            first.get_or_insert((now_served, last));
            served = now_served;
        }
        thread::sleep(POLL);
    }
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["pages"], PAGES, "{report}");
    let (already, first) = first.unwrap();
    (served - already) as f64 / last.duration_since(first).as_secs_f64()
}
