//! A process that writes batches is killed at any moment, and what it had reported as
//! written is there, whole batches only. One that is killed while it starts hinders nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use peercrawl::archive::Position;
use peercrawl::demo::web::WebSpec;
use peercrawl::distribution::Key;
use peercrawl::fingerprint::ContentFingerprint;
use peercrawl::store::{Batch, DataFolder, Store};

use crate::crew::web;
use crate::durable::{Crawler, assert_archived, draws};

const FOLDER: &str = "PEERCRAWL_TEST_KILLED_FOLDER";
const KILLS: u64 = 12;
const PAGES: u64 = 40;

/// What the `number`th batch of a crawl might be: 40 pages, each of which leads to one.
fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    for page in number * PAGES..(number + 1) * PAGES {
        let site = Key(page % 7);
        batch.url_seen(site, page);
        batch.queue_push(Key((page + 100) % 7), page + 100, &[b'u'; 80]);
        batch.queue_pop(site, page);
        batch.content(
            ContentFingerprint((page as u128).to_be_bytes()),
            &[b'c'; 80],
        );
    }
    let record = vec![number as u8; 200 + (number as usize * 7_919) % 60_000];
    batch.site_record(&format!("h{}.example", number % 5), &record);
    batch.outbox_put(number, b"out");
    batch.outbox_remove(number.wrapping_sub(3));
    batch.counters(&(number + 1).to_be_bytes());
    let file = format!("file-{}", number / 10);
    batch.archive_position(&Position {
        file,
        offset: number,
    });
    batch
}

fn batches_written(store: &Store) -> u64 {
    let counters = store.counters().unwrap();
    counters.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
}

/// The store holds the first `count` batches and nothing else.
fn check(store: &Store, count: u64) {
    let pages = count * PAGES;
    let mut done = BTreeSet::new();
    store
        .for_each_seen(|site, page| assert!(done.insert(page) && site.0 == page % 7))
        .unwrap();
    assert!(done.into_iter().eq(0..pages));
    let mut queued = BTreeSet::new();
    store
        .for_each_queued(|_, page, url| assert!(queued.insert(page) && url.len() == 80))
        .unwrap();
    assert!(
        queued
            .into_iter()
            .eq(pages.max(100)..pages + 100 * u64::from(count > 0))
    );
    let mut contents = 0;
    store.for_each_content(|_, _| contents += 1).unwrap();
    assert_eq!(contents, pages);
    let mut sites = BTreeMap::new();
    store
        .for_each_site(|host, record| sites.extend([(host.to_owned(), record[0])]))
        .unwrap();
    for number in count.saturating_sub(5)..count {
        assert_eq!(sites[&format!("h{}.example", number % 5)], number as u8);
    }
    let mut outbox = Vec::new();
    store
        .for_each_in_outbox(|number, _| outbox.push(number))
        .unwrap();
    assert!(outbox.into_iter().eq(count.saturating_sub(3)..count));
    let position = store
        .archive_position()
        .unwrap()
        .map(|position| position.offset);
    assert_eq!(position, count.checked_sub(1));
}

/// Not a test of its own: the process that is killed.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn writer_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let data = DataFolder::open(folder).unwrap();
    let (store, set_aside) = Store::open(&data, "state").unwrap();
    assert_eq!(set_aside, None);
    for number in batches_written(&store).. {
        store.commit(&batch(number)).unwrap();
        if number % 40 == 0 {
            store.sync().unwrap();
        }
        println!("written {}", number + 1);
    }
}

/// Starts the writer, lets it report `reports` batches, and kills it so much later.
fn kill_one(folder: &Path, reports: u64, later: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "store::writer_that_is_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut written = lines.filter_map(|l| Some(l.split_once("written ")?.1.parse().unwrap()));
    let mut last = written
        .by_ref()
        .take(reports as usize)
        .last()
        .expect("it died by itself");
    let start = Instant::now();
    while start.elapsed() < later {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it still reported before it died.
    for more in written {
        last = more;
    }
    last
}

#[test]
fn nothing_reported_is_lost_and_nothing_is_half_there_after_kills() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..KILLS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let later = Duration::from_micros(random % 4_000);
        let reported = kill_one(folder.path(), 1 + random % 25, later);
        let data = DataFolder::open(folder.path()).unwrap();
        let (store, set_aside) = Store::open(&data, "state").unwrap();
        assert_eq!(set_aside, None);
        let count = batches_written(&store);
        // One batch may have been written and not yet been reported.
        assert!(
            (reported..=reported + 1).contains(&count),
            "{count}, reported {reported}"
        );
        check(&store, count);
    }
}

/// Once a kill while the state was being made left every later start with "File exists".
#[test]
fn a_kill_during_a_start_costs_nothing() {
    let mut draw = draws(6);
    let web = web(WebSpec::new(4, 60, 6));
    let truth = web.truth();
    for kill in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let crawler = Crawler {
            web: &web,
            data: &data,
        };
        let later = Duration::from_micros(draw(300_000));
        let start = Instant::now();
        let mut child = crawler.start();
        while start.elapsed() < later {
            std::thread::sleep(Duration::from_micros(100));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let report = crawler.finish();
        assert_eq!(report["pages"], truth.reachable, "kill {kill}: {report}");
        assert_archived(&data, &web);
        let names = std::fs::read_dir(&data).unwrap();
        let names: Vec<_> = names.map(|item| item.unwrap().file_name()).collect();
        let is_damaged = |name: &std::ffi::OsString| name.to_string_lossy().contains("damaged");
        assert!(!names.iter().any(is_damaged), "kill {kill}: {names:?}");
    }
    assert_eq!(web.unserved(&truth), [""; 0]);
}
