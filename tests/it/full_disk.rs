//! A disk without room: an error of its own, and everything goes on once there is room.
//!
//! It needs a small file system that it may fill, 100 MB or so, named in
//! `PEERCRAWL_TEST_SMALL_DISK`; without one, there is nothing to run.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use peercrawl::archive::{
    ArchiveError, DiskLimit, Exchange, Reader, RecordBuilder, Response, Settings, Writer,
};
use peercrawl::demo::web::WebSpec;
use peercrawl::distribution::Key;
use peercrawl::engine::Ending;
use peercrawl::store::{Batch, DataFolder, Store, StoreError};

use crate::crew::{DEADLINE, wait_until, web};
use crate::durable::{assert_archived, kept_engine};

fn small_disk() -> PathBuf {
    let name = std::env::var("PEERCRAWL_TEST_SMALL_DISK");
    PathBuf::from(name.expect("a small file system, see above"))
}

/// Takes all the room that is left.
fn fill(path: &PathBuf) {
    let mut file = fs::File::create(path).unwrap();
    for chunk in [1 << 20, 4_096, 1] {
        while file.write_all(&vec![1; chunk]).is_ok() {}
    }
}

#[test]
#[ignore = "fills a disk"]
fn the_store_goes_on_when_there_is_room_again() {
    let folder = small_disk().join("store");
    let data = DataFolder::open(&folder).unwrap();
    let (store, _) = Store::open(&data, "state").unwrap();
    let batch = |number: u64| {
        let mut batch = Batch::new();
        // Different bytes each time, or they would be packed to nothing.
        for part in 0..300_u64 {
            let value: Vec<u8> = (0..10_u64)
                .flat_map(|n| {
                    ((number * 300 + part) * 10 + n)
                        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                        .to_le_bytes()
                })
                .collect();
            batch.queue_push(Key(number), part, &value);
        }
        batch.counters(&number.to_be_bytes());
        batch
    };
    store.commit(&batch(0)).unwrap();
    let filler = small_disk().join("filler-store");
    fill(&filler);
    let mut number = 1;
    let error = loop {
        match store.commit(&batch(number)) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
        assert!(number < 10_000, "the disk is not small");
    };
    assert!(matches!(error, StoreError::DiskFull(_)), "{error}");
    assert!(store.commit(&batch(number)).is_err(), "still full");
    fs::remove_file(filler).unwrap();
    store.commit(&batch(number)).unwrap();
    drop(store);
    let (store, set_aside) = Store::open(&data, "state").unwrap();
    assert_eq!(set_aside, None);
    let mut queued = 0;
    store.for_each_queued(|_, _, _| queued += 1).unwrap();
    assert_eq!(queued, 300 * (number + 1));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
#[ignore = "fills a disk"]
fn the_archive_goes_on_when_there_is_room_again() {
    let folder = small_disk().join("archive");
    let settings = Settings {
        folder: folder.clone(),
        owner: "state".into(),
        file_bytes: 1 << 20,
        unique: Vec::new(),
        info: Vec::new(),
        limit: DiskLimit::NONE,
    };
    let (mut writer, _) = Writer::open(settings, None, None).unwrap();
    let mut builder = RecordBuilder::new();
    let mut prepared = |number: u64| {
        let words = (0..5_000).map(|n| (number * 5_000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let body: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let answer = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &body].concat();
        let exchange = Exchange {
            url: &format!("http://a.example/{number}"),
            at_ms: 0,
            address: None,
            request: b"",
            response: Response::new(&answer),
            truncated: None,
            unique: &number.to_le_bytes(),
        };
        builder.exchange(&exchange, None)
    };
    writer.append(&prepared(0), 0).unwrap();
    writer.flush_to_os().unwrap();
    let filler = small_disk().join("filler-archive");
    fill(&filler);
    let mut number = 1;
    let error = loop {
        match writer.append(&prepared(number), 0) {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
        assert!(number < 10_000, "the disk is not small");
    };
    assert!(matches!(error, ArchiveError::DiskFull(_)), "{error}");
    assert!(writer.flush_to_os().is_err(), "still full");
    fs::remove_file(filler).unwrap();
    for number in number..number + 50 {
        writer.append(&prepared(number), 0).unwrap();
    }
    writer.complete().unwrap();
    let verified = Reader::new(&folder).verify().unwrap();
    assert_eq!(verified.problems, []);
    assert_eq!(verified.pages, number + 50);
    fs::remove_dir_all(folder).unwrap();
}

/// The thread that writes waited within the database, for ever, and nobody was told why.
#[test]
#[ignore = "fills a disk"]
fn a_crawl_goes_on_when_there_is_room_again() {
    let folder = small_disk().join("crawl");
    let web = web(WebSpec {
        page_bytes: 4_096,
        oddities: false,
        ..WebSpec::new(20, 10_000, 5)
    });
    let engine = kept_engine(&web, &folder, |_| {});
    wait_until("some pages", || web.log().served > 300);
    let filler = small_disk().join("filler-crawl");
    fill(&filler);
    wait_until("trouble", || engine.ledger().trouble().is_some());
    let why = engine.ledger().trouble().unwrap();
    assert!(why.contains("no room left on the disk"), "{why}");
    wait_until("quiet", || {
        let before = web.log().requests;
        std::thread::sleep(Duration::from_millis(100));
        web.log().requests == before
    });
    assert_eq!(engine.wait(Duration::ZERO), None);
    fs::remove_file(filler).unwrap();
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    assert_eq!(engine.ledger().trouble(), None);
    assert_eq!(engine.shutdown().pages, 10_000);
    assert_eq!(web.log().fetched_twice, 0);
    assert_archived(&folder, &web);
    fs::remove_dir_all(folder).unwrap();
}
