//! Ten million seen URLs over a hundred thousand sites of very unequal size: memory, false
//! positives, and disk. The figures are in docs/decisions/0010-seen-urls-at-scale.md.

#![allow(clippy::unwrap_used, reason = "a panic is how a benchmark fails")]

use std::time::Instant;

use peercrawl::distribution::Key;
use peercrawl::seen_urls::{EXACT_LIMIT, SeenUrls};
use peercrawl::store::{Batch, DataFolder, Store};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const URLS: u64 = 10_000_000;
const SITES: u64 = 100_000;
/// URLs that were not seen, asked for at each site.
const ASKED: u64 = 2_000;
const BATCH_URLS: usize = 4_000;

fn fingerprint(site: u64, url: u64) -> u64 {
    xxh3_64_with_seed(&url.to_le_bytes(), site)
}

/// How many URLs each site has: the n-th a share of 1/n, and one at least.
fn sizes() -> Vec<u64> {
    let harmonic: f64 = (1..=SITES).map(|rank| 1.0 / rank as f64).sum();
    let share = |rank| (URLS as f64 / harmonic / rank as f64).round() as u64;
    (1..=SITES).map(|rank| share(rank).max(1)).collect()
}

fn main() {
    let sizes = sizes();
    let total: u64 = sizes.iter().sum();
    let begun = Instant::now();
    let sites: Vec<SeenUrls> = (0..)
        .zip(&sizes)
        .map(|(site, &size)| {
            let mut seen = SeenUrls::default();
            for url in 0..size {
                seen.insert(fingerprint(site, url));
            }
            seen
        })
        .collect();
    let built = begun.elapsed();
    let (mut exact_wrong, mut exact_asked) = (0, 0);
    let (mut large_wrong, mut large_asked, mut large) = (0, 0, 0);
    for (site, seen) in (0..).zip(&sites) {
        let asked = if seen.is_exact() {
            ASKED / 20
        } else {
            100 * ASKED
        };
        let unseen = (0..asked).map(|url| fingerprint(site, (1 << 40) + url));
        let wrong = unseen.filter(|&url| seen.contains(url)).count() as u64;
        if seen.is_exact() {
            (exact_wrong, exact_asked) = (exact_wrong + wrong, exact_asked + asked);
        } else {
            (large_wrong, large_asked) = (large_wrong + wrong, large_asked + asked);
            large += 1;
        }
    }
    let memory: usize = sites.iter().map(SeenUrls::memory_bytes).sum();
    println!(
        "{total} URLs over {} sites, {large} of them past {EXACT_LIMIT}",
        sites.len()
    );
    println!(
        "memory: {:.1} MB, {:.1} bytes a URL; built in {built:.1?}",
        memory as f64 / 1e6,
        memory as f64 / total as f64
    );
    println!("wrongly seen: {exact_wrong} of {exact_asked} at exact sites");
    println!("wrongly seen: {large_wrong} of {large_asked} at large sites");
    assert_eq!(exact_wrong, 0);
    assert!(large > 0 && large_wrong * 10_000 <= large_asked);
    drop(sites);

    let folder = tempfile::TempDir::new().unwrap();
    let data = DataFolder::open(folder.path()).unwrap();
    let (store, _) = Store::open(&data, "state").unwrap();
    let begun = Instant::now();
    let mut batch = Batch::new();
    for (site, &size) in (0..).zip(&sizes) {
        for url in 0..size {
            batch.url_seen(Key(fingerprint(u64::MAX, site)), fingerprint(site, url));
            if batch.len() >= BATCH_URLS {
                store.commit(&batch).unwrap();
                batch = Batch::new();
            }
        }
    }
    store.commit(&batch).unwrap();
    store.sync().unwrap();
    let written = begun.elapsed();
    let used = store.used_bytes();
    println!(
        "disk: {:.1} MB, {:.1} bytes a URL; written in {written:.1?}",
        used as f64 / 1e6,
        used as f64 / total as f64
    );
    let begun = Instant::now();
    let mut found = 0;
    for number in 0..100_000 {
        let site = number * 7 % SITES;
        // Half of them were seen.
        let url = if number % 2 == 0 { 0 } else { 1 << 40 };
        let key = Key(fingerprint(u64::MAX, site));
        found += u64::from(store.is_seen(key, fingerprint(site, url)).unwrap());
    }
    assert_eq!(found, 50_000);
    let each = begun.elapsed() / 100_000;
    println!("one look-up on disk: {each:.1?}");
}
