//! What a power cut can take back, without one.

mod format_1;

use std::fs::{self, OpenOptions};
use std::path::Path;

use crossbeam_channel::bounded;
use tempfile::TempDir;

use super::settling::{Unsettled, settle};
use super::*;
use crate::archive::{self, Exchange, Position, Reader, RecordBuilder, Response, Writer};
use crate::canonical::CanonicalForm;
use crate::clock::Clock;
use crate::config::Settings;
use crate::counters::Counters;
use crate::crawl::Crawls;
use crate::crawl_jobs::CrawlJobs;
use crate::engine::StopSignal;
use crate::fingerprint::ContentFingerprint;
use crate::limits::Limits;
use crate::store::{DataFolder, Store};

const SITE: Key = Key(7);

fn archive_settings(data: &Path) -> archive::Settings {
    archive::Settings {
        folder: data.join("archive"),
        owner: "state".into(),
        file_bytes: 1 << 20,
        unique: Vec::new(),
        info: Vec::new(),
        limit: DiskLimit::NONE,
    }
}

fn records(number: u64) -> Prepared {
    let answer = format!("HTTP/1.1 200 OK\r\n\r\npage {number}");
    RecordBuilder::new().exchange(
        &Exchange {
            url: &format!("http://a.example/{number}"),
            at_ms: 0,
            address: None,
            request: b"",
            response: Response::new(answer.as_bytes()),
            truncated: None,
            unique: &number.to_be_bytes(),
        },
        None,
    )
}

fn queued(store: &Store) -> Vec<u64> {
    let mut numbers = Vec::new();
    let each = |_, number, _: &[u8]| numbers.push(number);
    store.for_each_queued(each).unwrap();
    numbers
}

fn pages(store: &Store) -> u64 {
    let records = resume::crawls(store).unwrap().into_iter();
    records.map(|record| record.totals.pages).sum()
}

fn open(data: &DataFolder) -> Store {
    Store::open(data, "state").unwrap().0
}

/// The store was on the disk before the archive: what the archive lacks waits again.
#[test]
fn pages_that_did_not_reach_the_disk_are_fetched_again() {
    let folder = TempDir::new().unwrap();
    let data = DataFolder::open(folder.path()).unwrap();
    let definition = CrawlDefinition::from_settings(&Settings::default().crawl);
    let (id, page) = (
        definition.id(),
        PageTotals {
            pages: 1,
            new: 1,
            ..PageTotals::default()
        },
    );
    let store = open(&data);
    let (mut writer, _) = Writer::open(archive_settings(folder.path()), None, None).unwrap();
    let (mut unsettled, mut totals) = (Unsettled::default(), PageTotals::default());
    let mut places: Vec<Position> = Vec::new();
    for number in 0..6 {
        let mut batch = Batch::new();
        if number == 0 {
            (0..8).for_each(|number| batch.queue_push(SITE, number, b"a job"));
            let definition = definition.clone();
            let record = CrawlRecord { definition, totals };
            batch.crawl(id, &postcard::to_stdvec(&record).unwrap());
        }
        places.push(writer.append(&records(number), 0).unwrap());
        writer.flush_to_os().unwrap();
        let mut recent = Recent::default();
        let done = Done { site: SITE, number };
        recent.done(done, Some((id, page)));
        let content = ContentFingerprint([number as u8; 16]);
        recent.seen(content);
        batch.content(content, b"seen");
        totals.add(page);
        batch.crawl_totals(id, &postcard::to_stdvec(&totals).unwrap());
        batch.archive_position(&writer.position().unwrap());
        unsettled.note(recent, writer.position(), &mut batch);
        store.commit(&batch).unwrap();
        if number == 1 {
            store.commit(&unsettled.settled()).unwrap();
            unsettled.clear();
            assert_eq!(queued(&store), [2, 3, 4, 5, 6, 7]);
        }
    }
    drop((writer, store));
    // The pages 3, 4 and 5 are lost; a few bytes of the first are there.
    let open_file = format!("archive/{}.warc.gz.open", places[0].file);
    let file = OpenOptions::new()
        .write(true)
        .open(folder.path().join(open_file));
    file.unwrap().set_len(places[2].offset + 10).unwrap();
    let data = Arc::new(data);
    for is_first in [true, false] {
        let settings = archive_settings(folder.path());
        let kept = Kept::open(data.clone(), "state", Some(settings)).unwrap();
        let notices = kept.notices.join("\n");
        assert_eq!(notices.contains("3 URLs are fetched again"), is_first);
        assert_eq!(
            kept.notices.len(),
            if is_first { 2 } else { 0 },
            "{notices}"
        );
        drop(kept);
        let store = open(&data);
        assert_eq!(queued(&store), [3, 4, 5, 6, 7]);
        assert_eq!(pages(&store), 3);
        let is_seen = |number| {
            let content = store.content(ContentFingerprint([number; 16]));
            content.unwrap().is_some()
        };
        assert_eq!([2, 3, 5].map(is_seen), [true, false, false]);
        assert_eq!(store.archive_position().unwrap().unwrap(), places[2]);
    }
}

/// The notes of an earlier version once could not be read: all they told of was fetched again.
#[test]
fn notes_of_before_contents_were_noted_are_carried_out() {
    /// A note as it was then.
    #[derive(Serialize)]
    struct Before {
        archive: Option<Position>,
        cleared: Vec<u64>,
        done: Vec<(u64, u64)>,
        pages: Vec<(CrawlId, PageTotals)>,
    }
    let folder = TempDir::new().unwrap();
    let data = DataFolder::open(folder.path()).unwrap();
    let store = open(&data);
    let mut batch = Batch::new();
    (0..4).for_each(|number| batch.queue_push(SITE, number, b"a job"));
    let before = Before {
        archive: None,
        cleared: vec![8, 300],
        done: vec![(SITE.0, 0), (SITE.0, 2)],
        pages: vec![(CrawlId(5), PageTotals::default())],
    };
    batch.recent_put(0, &postcard::to_stdvec(&before).unwrap());
    store.commit(&batch).unwrap();
    assert_eq!(settle(&store, None, None).unwrap(), 0);
    assert_eq!(queued(&store), [1, 3]);
}

/// A site that left and came back gives its numbers again.
#[test]
fn what_was_done_before_a_queue_was_emptied_takes_nothing_out_of_the_new_one() {
    let folder = TempDir::new().unwrap();
    let data = DataFolder::open(folder.path()).unwrap();
    let store = open(&data);
    let mut unsettled = Unsettled::default();
    let done = |number| Done { site: SITE, number };
    let mut batch = Batch::new();
    (0..3).for_each(|number| batch.queue_push(SITE, number, b"a job"));
    let mut recent = Recent::default();
    recent.done(done(0), None);
    recent.done(done(1), None);
    unsettled.note(recent, None, &mut batch);
    store.commit(&batch).unwrap();
    let mut batch = Batch::new();
    let mut recent = Recent::default();
    recent.done(done(2), None);
    batch.queue_clear(SITE);
    recent.cleared(SITE);
    (0..3).for_each(|number| batch.queue_push(SITE, number, b"another"));
    recent.done(done(1), None);
    unsettled.note(recent, None, &mut batch);
    store.commit(&batch).unwrap();
    // After a crash, and without one.
    for is_crash in [true, false] {
        match is_crash {
            true => assert_eq!(settle(&store, None, None).unwrap(), 0),
            false => store.commit(&unsettled.settled()).unwrap(),
        }
        assert_eq!(queued(&store), [0, 2]);
    }
}

fn keeper(ledger: &Arc<Ledger>, hands: Hands, stop: StopSignal) -> Keeper {
    let (clock, counters) = (Clock::start(), Arc::<Counters>::default());
    let limits = Limits::new(&Settings::default().limits);
    let gate = limits.gate.clone();
    let jobs = CrawlJobs::new(
        clock,
        counters.clone(),
        Arc::default(),
        true,
        gate,
        ledger.clone(),
    );
    Keeper {
        ledger: ledger.clone(),
        hands,
        jobs: Arc::new(jobs),
        counters,
        clock,
        stop,
    }
}

/// Once the crawl went on, and nothing of it was kept.
#[test]
fn a_panic_in_the_thread_that_writes_is_told_and_stops_the_crawl() {
    let folder = TempDir::new().unwrap();
    let data = Arc::new(DataFolder::open(folder.path()).unwrap());
    let settings = archive_settings(folder.path());
    let kept = Kept::open(data, "state", Some(settings)).unwrap();
    let (ledger, hands) = Ledger::keeping(kept);
    let (_running, stop) = bounded(0);
    let keeper = keeper(&ledger, hands, stop);
    let errand = ledger.with_archive(|_| panic!("a fault, as this test wants it"));
    assert_eq!(errand, Ok(()));
    assert!(std::thread::spawn(move || keeper.run()).join().is_err());
    let trouble = ledger.trouble().unwrap().text;
    assert!(trouble.contains("start it again"), "{trouble}");
    assert!(ledger.is_stalled());
    let (tell, told) = bounded(1);
    ledger.once_on_disk(move || tell.send(()).unwrap());
    assert!(told.recv().is_err(), "forgotten");
    ledger.archive(records(1));
}

/// The place of the archive goes back with the batches that are lost. What lies behind it
/// had been reported as stored, and was once cut off.
#[test]
fn a_damaged_journal_costs_the_archive_nothing() {
    for is_rotated in [false, true] {
        let folder = TempDir::new().unwrap();
        let data = DataFolder::open(folder.path()).unwrap();
        let store = open(&data);
        let (mut writer, _) = Writer::open(archive_settings(folder.path()), None, None).unwrap();
        let mut batch = Batch::new();
        batch.archive_position(&writer.append(&records(0), 0).unwrap());
        store.commit(&batch).unwrap();
        if is_rotated {
            writer.complete().unwrap();
        }
        for number in 1..4 {
            writer.append(&records(number), 0).unwrap();
        }
        writer.sync().unwrap();
        drop((writer, store));
        // The batches that spoke of the rest were on the disk, and are gone.
        fs::write(folder.path().join("state/synced"), 4_u64.to_be_bytes()).unwrap();
        let settings = archive_settings(folder.path());
        let kept = Kept::open(Arc::new(data), "state", Some(settings)).unwrap();
        assert_eq!(kept.notices.len(), 1, "{:?}", kept.notices);
        assert!(kept.notices[0].contains("the last 3 entries are lost"));
        let verified = Reader::new(folder.path().join("archive")).verify().unwrap();
        assert_eq!((verified.pages, verified.problems), (4, Vec::new()));
    }
}

/// A peer that relies on a word must not find it untrue after a power cut.
#[test]
fn nobody_is_told_before_the_disk_has_it() {
    let folder = TempDir::new().unwrap();
    let data = Arc::new(DataFolder::open(folder.path()).unwrap());
    let (ledger, hands) = Ledger::keeping(Kept::open(data, "state", None).unwrap());
    let (_running, stop) = bounded(0);
    let mut keeper = keeper(&ledger, hands, stop);
    let (tell, told) = bounded(1);
    ledger.once_on_disk(move || tell.send(()).unwrap());
    assert!(keeper.write());
    assert!(told.is_empty(), "written, but not on the disk");
    assert!(keeper.sync());
    assert_eq!(told.len(), 1);
    assert!(keeper.sync());
    assert_eq!(told.len(), 1, "once is enough");
}

/// What is behind it may have been lost in a power cut, and what is before it may not.
#[test]
fn the_store_knows_how_much_of_the_archive_the_disk_has() {
    let folder = TempDir::new().unwrap();
    let data = Arc::new(DataFolder::open(folder.path()).unwrap());
    let settings = archive_settings(folder.path());
    let kept = Kept::open(data.clone(), "state", Some(settings.clone())).unwrap();
    let (ledger, hands) = Ledger::keeping(kept);
    let (_running, stop) = bounded(0);
    let mut keeper = keeper(&ledger, hands, stop);
    let write = |keeper: &mut Keeper, number| {
        ledger.archive(records(number));
        ledger.done(Done { site: SITE, number }, None);
        assert!(keeper.write());
        let store = ledger.store().unwrap();
        let places = (store.archive_position(), store.archive_synced());
        (places.0.unwrap().unwrap(), places.1.unwrap())
    };
    let (first, synced) = write(&mut keeper, 0);
    assert_eq!(synced, None);
    assert!(keeper.sync());
    let (second, synced) = write(&mut keeper, 1);
    assert_eq!(synced.as_ref(), Some(&first));
    let (third, synced) = write(&mut keeper, 2);
    assert_eq!(synced.as_ref(), Some(&first));
    let queue = |number| {
        let mut batch = Batch::new();
        batch.queue_push(SITE, number, b"a job");
        ledger.store().unwrap().commit(&batch).unwrap();
    };
    (1..3).for_each(queue);
    drop((keeper, ledger));
    // The disk has the third page, and not the second.
    let file = format!("{}.warc.gz.open", first.file);
    let file = folder.path().join("archive").join(file);
    let mut bytes = fs::read(&file).unwrap();
    bytes[first.offset as usize..second.offset as usize].fill(0);
    fs::write(&file, bytes).unwrap();
    assert!(third.offset > second.offset);
    let kept = Kept::open(data.clone(), "state", Some(settings)).unwrap();
    assert!(kept.notices.join("\n").contains("2 URLs are fetched again"));
    drop(kept);
    assert_eq!(queued(&open(&data)), [1, 2]);
    let verified = Reader::new(folder.path().join("archive")).verify().unwrap();
    assert_eq!((verified.pages, verified.problems), (1, Vec::new()));
}

/// The last pages were thrown away without a word, and the state after them.
#[test]
fn what_could_not_be_written_is_told_at_the_end() {
    for limit_bytes in [1_000, u64::MAX] {
        let is_full = limit_bytes == 1_000;
        let folder = TempDir::new().unwrap();
        let data = Arc::new(DataFolder::open(folder.path()).unwrap());
        let mut settings = archive_settings(folder.path());
        settings.limit.limit_bytes = limit_bytes;
        let kept = Kept::open(data, "state", Some(settings)).unwrap();
        let (ledger, hands) = Ledger::keeping(kept);
        let (running, stop) = bounded(0);
        let keeper = keeper(&ledger, hands, stop);
        ledger.archive(records(1));
        ledger.queue_cleared(SITE);
        assert!(!ledger.is_written(true));
        drop(running);
        keeper.run();
        assert_eq!(ledger.trouble().is_some(), is_full);
        assert_eq!(ledger.is_written(true), !is_full);
    }
}

/// The system may have dropped what it could not write, and says nothing of it later.
#[test]
fn after_an_archive_that_could_not_be_synced_nothing_is_written() {
    let folder = TempDir::new().unwrap();
    let data = Arc::new(DataFolder::open(folder.path()).unwrap());
    let (ledger, hands) = Ledger::keeping(Kept::open(data, "state", None).unwrap());
    let (running, stop) = bounded(0);
    let mut keeper = keeper(&ledger, hands, stop);
    keeper.hands.unsynced = Some("a bad disk".into());
    drop(running);
    ledger.queue_cleared(SITE);
    assert!(!keeper.write() && !keeper.sync());
    let trouble = ledger.trouble().unwrap().text;
    assert!(trouble.contains("a bad disk; start PeerCrawl again"));
    assert!(!ledger.is_written(true));
}

/// What the user replaced once came back at the next start, under its own rules.
#[test]
fn which_crawl_took_whose_place_outlives_a_restart() {
    let folder = TempDir::new().unwrap();
    let data = Arc::new(DataFolder::open(folder.path()).unwrap());
    let kept = Kept::open(data.clone(), "state", None).unwrap();
    let (ledger, hands) = Ledger::keeping(kept);
    let (_running, stop) = bounded(0);
    let mut keeper = keeper(&ledger, hands, stop);
    let (crawls, form) = (Crawls::new(ledger.clone()), CanonicalForm::new(&[]));
    let mut definition = CrawlDefinition::from_settings(&Settings::default().crawl);
    let first = crawls.add(definition.clone(), &form).id;
    definition.bounds.max_depth = 1;
    let second = crawls.add(definition, &form).id;
    assert!(keeper.write());
    drop((keeper, crawls, ledger));
    let left = Left::read(&open(&data)).unwrap();
    assert_eq!(left.successions.in_force(), [second]);
    assert_eq!(left.successions.in_force_for(first), second);
}

/// It has a crawl, and says nothing of the others.
#[test]
fn a_store_of_an_older_version_is_read() {
    let folder = TempDir::new().unwrap();
    let store = open(&DataFolder::open(folder.path()).unwrap());
    let record = CrawlRecord {
        definition: CrawlDefinition::from_settings(&Settings::default().crawl),
        totals: PageTotals::default(),
    };
    let mut batch = Batch::new();
    let bytes = postcard::to_stdvec(&record).unwrap();
    batch.crawl(record.definition.id(), &bytes);
    store.commit(&batch).unwrap();
    let left = Left::read(&store).unwrap();
    assert_eq!(left.successions, Successions::default());
}

/// A crawl of very many seeds was written anew with every batch.
#[test]
fn the_seeds_of_a_crawl_are_written_once() {
    let folder = TempDir::new().unwrap();
    let data = Arc::new(DataFolder::open(folder.path()).unwrap());
    let (ledger, hands) = Ledger::keeping(Kept::open(data, "state", None).unwrap());
    let (_stop, stopped) = crossbeam_channel::bounded(0);
    let mut keeper = keeper(&ledger, hands, stopped);
    let mut definition = CrawlDefinition::from_settings(&Settings::default().crawl);
    definition.seeds = vec!["http://a.example/".into()];
    let id = definition.id();
    ledger.crawl(&definition);
    assert!(keeper.write());
    let page = PageTotals {
        pages: 1,
        ..PageTotals::default()
    };
    let done = Done {
        site: SITE,
        number: 0,
    };
    ledger.done(done, Some((id, page)));
    let mut totals = Batch::new();
    totals.queue_pop(SITE, 0);
    totals.crawl_totals(id, &postcard::to_stdvec(&page).unwrap());
    let (batch, ..) = keeper::take(&mut ledger.kept.as_ref().unwrap().pending.lock());
    assert_eq!(batch, totals);
    let store = ledger.store().unwrap();
    store.commit(&batch).unwrap();
    let [record] = &*resume::crawls(store).unwrap() else {
        panic!("one crawl")
    };
    assert_eq!((&record.definition, record.totals), (&definition, page));
}

/// What waits to be written grew without a bound while the disk was slow and nothing failed.
#[test]
fn whoever_can_waits_while_much_is_to_be_written() {
    let folder = TempDir::new().unwrap();
    let data = Arc::new(DataFolder::open(folder.path()).unwrap());
    let (ledger, hands) = Ledger::keeping(Kept::open(data, "state", None).unwrap());
    let (_stop, stopped) = crossbeam_channel::bounded(0);
    let mut keeper = keeper(&ledger, hands, stopped);
    for number in 0..MANY_CHANGES as u64 {
        assert!(!ledger.is_stalled());
        ledger.outbox_removed(&[number]);
    }
    assert!(ledger.is_stalled());
    let noted = ledger.noted();
    assert!(!ledger.has_written(noted));
    let (tell, told) = bounded(1);
    let waiting = ledger.clone();
    let waits = std::thread::spawn(move || {
        waiting.wait_for_writer();
        tell.send(()).unwrap();
    });
    // It would be there by now, had it not waited: what it waits for is not done.
    assert!(told.recv_timeout(5 * LOOK).is_err(), "nobody waited");
    assert!(keeper.write());
    assert!(ledger.has_written(noted) && !ledger.is_stalled());
    told.recv().unwrap();
    waits.join().unwrap();
}
