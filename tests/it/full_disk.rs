//! A disk without room: an error of its own, and everything goes on once there is room.
//!
//! It needs a small file system that it may fill, 100 MB or so, named in
//! `PEERCRAWL_TEST_SMALL_DISK`; without one, there is nothing to run.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use peercrawl::archive::{
    ArchiveError, DiskLimit, Exchange, Reader, RecordBuilder, Response, Settings, Writer,
};
use peercrawl::data_directory::DataDirectory;
use peercrawl::demo::web::WebSpec;
use peercrawl::distribution::Key;
use peercrawl::engine::Ending;
use peercrawl::store::{Batch, DataFolder, Store, StoreError};

use crate::crew::{DEADLINE, wait_until, web};
use crate::durable::{Crawler, assert_archived, kept_engine, report};

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

/// The names in a folder that say that something was set aside.
fn set_aside(folder: &Path) -> Vec<String> {
    let items = fs::read_dir(folder).unwrap();
    let names = items.map(|item| item.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("damaged")).collect()
}

/// What a program says until it says that there is no room, and where it says more.
fn said_until_no_room(child: &mut Child) -> (Vec<String>, BufReader<ChildStderr>) {
    let mut said = Vec::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    for line in stderr.by_ref().lines() {
        said.push(line.unwrap());
        if said
            .iter()
            .any(|line| line.contains("no room left on the disk"))
        {
            return (said, stderr);
        }
    }
    panic!("it has ended: {said:?}");
}

/// Each try once left another state behind that was said to be damaged.
#[test]
#[ignore = "fills a disk"]
fn a_state_for_which_there_is_no_room_is_made_when_there_is() {
    let folder = small_disk().join("new");
    let data = DataFolder::open(&folder).unwrap();
    let filler = small_disk().join("filler-new");
    // A little more room each time, until there is enough.
    for pages in 0.. {
        fill(&filler);
        let file = fs::OpenOptions::new().write(true).open(&filler).unwrap();
        let bytes = file.metadata().unwrap().len();
        file.set_len(bytes - pages * 4_096).unwrap();
        // A file that is open takes its room as long as it is, removed or not.
        drop(file);
        let mut refused = 0;
        for _ in 0..2 {
            match Store::open(&data, "state") {
                Ok((_, set_aside)) => assert_eq!(set_aside, None),
                Err(StoreError::DiskFull(_)) => refused += 1,
                Err(error) => panic!("room for {pages}: {error}"),
            }
        }
        fs::remove_file(&filler).unwrap();
        let (store, _) = Store::open(&data, "state").unwrap();
        let mut batch = Batch::new();
        batch.counters(b"42");
        store.commit(&batch).unwrap();
        assert_eq!(store.counters().unwrap().unwrap(), b"42");
        drop(store);
        assert_eq!(set_aside(&folder), [""; 0], "room for {pages}");
        data.erase("state").unwrap();
        if refused == 0 {
            assert!(pages > 1, "or it tests nothing");
            break;
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

/// It said that it would go on by itself, and ended.
#[test]
#[ignore = "fills a disk"]
fn a_first_start_waits_for_room() {
    let folder = small_disk().join("start");
    let web = web(WebSpec::new(4, 60, 6));
    let filler = small_disk().join("filler-start");
    fill(&filler);
    let crawler = Crawler {
        web: &web,
        data: &folder,
    };
    let mut child = crawler.command().stderr(Stdio::piped()).spawn().unwrap();
    let (_, _stderr) = said_until_no_room(&mut child);
    fs::remove_file(filler).unwrap();
    let report = report(&child.wait_with_output().unwrap());
    assert_eq!(report["pages"], web.truth().reachable, "{report}");
    assert_archived(&folder, &web);
    assert_eq!(set_aside(&folder), [""; 0]);
    fs::remove_dir_all(folder).unwrap();
}

/// A state was set aside, there was no room for another, and nobody heard of it.
#[test]
#[ignore = "fills a disk"]
fn a_damaged_state_is_told_of_although_there_is_no_room_for_another() {
    let folder = small_disk().join("damaged");
    drop(DataDirectory::open(&folder, [7; 32]).unwrap());
    fs::create_dir(folder.join("state")).unwrap();
    fs::write(folder.join("state/damaged"), "a test").unwrap();
    let filler = small_disk().join("filler-damaged");
    fill(&filler);
    let mut command = Command::new(env!("CARGO_BIN_EXE_peercrawl"));
    command.args(["run", "--set", "overlay.mdns=false", "--set"]);
    command.args(["overlay.listen=['/ip4/127.0.0.1/tcp/0']", "--data"]);
    command
        .arg(&folder)
        .env("HOME", &folder)
        .env_remove("RUST_LOG");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (said, _stderr) = said_until_no_room(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let is_told = |line: &String| line.contains("state.damaged-1: a test");
    assert!(said.iter().any(is_told), "{said:?}");
    fs::remove_file(filler).unwrap();
    assert_eq!(set_aside(&folder), ["state.damaged-1"]);
    fs::remove_dir_all(folder).unwrap();
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
    let why = engine.ledger().trouble().unwrap().text;
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
