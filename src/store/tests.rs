//! The store as a whole. That it survives being killed is tested in `tests/it/store.rs`.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::archive::Position;
use crate::crawl::CrawlId;
use crate::distribution::Key;
use crate::fingerprint::ContentFingerprint;

fn open(folder: &Path) -> (DataFolder, Store) {
    let data = DataFolder::open(folder).unwrap();
    let (store, set_aside) = Store::open(&data, "state").unwrap();
    assert_eq!(set_aside, None);
    (data, store)
}

fn filled() -> Batch {
    let mut batch = Batch::new();
    batch.url_seen(Key(1), 10);
    batch.url_seen(Key(2), 20);
    batch.url_seen(Key(2), u64::MAX);
    for sequence in 0..100 {
        batch.queue_push(Key(2), sequence, format!("url {sequence}").as_bytes());
    }
    batch.queue_push(Key(1), 7, b"seven");
    batch.queue_push(Key(3), 0, b"zero");
    batch.queue_pop(Key(2), 40);
    batch.site_record("example.org", b"all of it");
    batch.content(ContentFingerprint([5; 16]), b"claim");
    batch.outbox_put(300, b"later");
    batch.outbox_put(2, b"first");
    batch.counters(b"42");
    batch.archive_position(&Position {
        file: "peercrawl-000001-x".into(),
        offset: 1 << 40,
    });
    batch.archive_synced(&Position {
        file: "peercrawl-000001-x".into(),
        offset: 5,
    });
    batch
}

/// Whatever has another key is not found in an earlier state. What the values are made of is
/// told by `src/ledger/tests/format_1.rs`.
#[test]
fn format_1_has_these_keys() {
    let folder = TempDir::new().unwrap();
    let (_data, store) = open(folder.path());
    let (site, crawl) = (Key(0x0102_0304_0506_0708), CrawlId(0x1112_1314_1516_1718));
    let number = 0x4142_4344_4546_4748;
    let mut batch = Batch::new();
    batch.url_seen(site, number);
    batch.queue_push(site, number, b"job");
    batch.site_record("example.org", b"head");
    batch.seen_elsewhere("example.org", b"set");
    batch.content(ContentFingerprint(*b"a fingerprint of"), b"claim");
    batch.outbox_put(number, b"url");
    batch.crawl(crawl, b"crawl");
    batch.crawl_totals(crawl, b"totals");
    batch.recent_put(number, b"note");
    batch.over(b"totals");
    batch.successions(b"which");
    batch.counters(b"counts");
    let place = Position {
        file: "peercrawl-000001-x".into(),
        offset: number,
    };
    batch.archive_position(&place);
    batch.archive_synced(&place);
    store.commit(&batch).unwrap();
    let open = store.open.read();
    let mut found = Vec::new();
    for table in open.as_ref().unwrap().tables.all() {
        for entry in table.iter() {
            let (key, value) = entry.into_inner().unwrap();
            let (key, value) = (key.escape_ascii(), value.escape_ascii());
            found.push(format!("{} {key} = {value}", table.name()));
        }
    }
    let expected = [
        r"url \x01\x02\x03\x04\x05\x06\x07\x08ABCDEFGH = ",
        r"queue \x01\x02\x03\x04\x05\x06\x07\x08ABCDEFGH = job",
        r"site example.org = head",
        r"seen example.org = set",
        r"content a fingerprint of = claim",
        r"outbox ABCDEFGH = url",
        r"crawl \x11\x12\x13\x14\x15\x16\x17\x18 = crawl",
        r"crawl \x11\x12\x13\x14\x15\x16\x17\x18t = totals",
        r"recent ABCDEFGH = note",
        r"totals archive = ABCDEFGHpeercrawl-000001-x",
        r"totals archive-synced = ABCDEFGHpeercrawl-000001-x",
        r"totals batch = \x00\x00\x00\x00\x00\x00\x00\x01",
        r"totals counters = counts",
        r"totals over = totals",
        r"totals successions = which",
    ];
    let words = "that takes a migration and a new format number (src/store/folder.rs)";
    assert_eq!(found, expected, "{words}");
}

/// The database's one thread sorted files in, which takes long, and what came meanwhile stayed
/// in memory. After some seconds of that it waited for itself, and nothing was written any more.
#[test]
fn what_waits_to_be_written_is_bounded_however_fast_it_comes() {
    // Of the one table that is busy: a part that fills up, those that are full, and a batch.
    const BATCH_BYTES: u64 = 600 * 1_100;
    const MOST: u64 = (2 + MOST_FULL_PARTS as u64) * PART_BYTES + 2 * BATCH_BYTES;
    let folder = TempDir::new().unwrap();
    let (_data, store) = open(folder.path());
    let waiting = || {
        let open = store.open.read();
        open.as_ref().unwrap().database.write_buffer_size()
    };
    let record = [7; 1_000];
    for number in 0..150_u64 {
        let mut batch = Batch::new();
        for content in 0..600 {
            // All over the table, so that all of it is sorted again.
            let place = (number * 600 + content).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let fingerprint = [place.to_be_bytes(), content.to_be_bytes()].concat();
            let fingerprint = ContentFingerprint(fingerprint.try_into().unwrap());
            batch.content(fingerprint, &record);
        }
        store.commit(&batch).unwrap();
        assert!(waiting() <= MOST, "{} of {MOST} bytes", waiting());
    }
}

#[test]
fn everything_is_read_back_in_order() {
    let folder = TempDir::new().unwrap();
    for is_reopened in [false, true] {
        let (_data, store) = open(folder.path());
        if !is_reopened {
            assert_eq!(store.counters().unwrap(), None);
            assert_eq!(store.archive_position().unwrap(), None);
            store.commit(&filled()).unwrap();
            store.sync().unwrap();
        }
        let mut done = Vec::new();
        store
            .for_each_seen(|site, url| done.push((site.0, url)))
            .unwrap();
        assert_eq!(done, [(1, 10), (2, 20), (2, u64::MAX)]);
        assert_eq!(store.seen_of(Key(2)).unwrap(), [20, u64::MAX]);
        assert!(store.is_seen(Key(2), 20).unwrap());
        assert!(!store.is_seen(Key(1), 20).unwrap());
        let segment = store.queue_segment(Key(2), 38, 3).unwrap();
        let numbers: Vec<u64> = segment.iter().map(|(sequence, _)| *sequence).collect();
        assert_eq!(numbers, [38, 39, 41]);
        assert_eq!(segment[2].1, b"url 41");
        assert_eq!(store.queue_segment(Key(2), 98, 10).unwrap().len(), 2);
        assert_eq!(store.queue_segment(Key(2), 0, 0).unwrap(), []);
        let mut queued = Vec::new();
        store
            .for_each_queued(|site, sequence, _| queued.push((site.0, sequence)))
            .unwrap();
        assert_eq!(queued.len(), 101);
        assert!(queued.is_sorted());
        let mut sites = Vec::new();
        let each = |host: &str, record: &[u8]| sites.push((host.to_owned(), record.to_vec()));
        store.for_each_site(each).unwrap();
        assert_eq!(sites, [("example.org".to_owned(), b"all of it".to_vec())]);
        assert_eq!(store.site("example.org").unwrap().unwrap(), b"all of it");
        assert_eq!(store.hosts_after("", 9).unwrap(), ["example.org"]);
        assert_eq!(store.hosts_after("", 0).unwrap(), [""; 0]);
        assert_eq!(store.hosts_after("example.org", 9).unwrap(), [""; 0]);
        assert_eq!(
            store.content(ContentFingerprint([5; 16])).unwrap().unwrap(),
            b"claim"
        );
        let mut seen = 0;
        store.for_each_content(|_, _| seen += 1).unwrap();
        assert_eq!(seen, 1);
        let mut outbox = Vec::new();
        store
            .for_each_in_outbox(|sequence, _| outbox.push(sequence))
            .unwrap();
        assert_eq!(outbox, [2, 300]);
        assert_eq!(store.counters().unwrap().unwrap(), b"42");
        assert_eq!(store.archive_position().unwrap().unwrap().offset, 1 << 40);
        assert_eq!(store.archive_synced().unwrap().unwrap().offset, 5);
        assert!(store.used_bytes() > 0);
    }
}

#[test]
fn what_is_removed_is_gone() {
    let folder = TempDir::new().unwrap();
    let (_data, store) = open(folder.path());
    store.commit(&filled()).unwrap();
    let mut batch = Batch::new();
    batch.site_remove("example.org", Key(2));
    batch.queue_clear(Key(3));
    // Cleared with what this very batch has put there, and filled again.
    batch.queue_push(Key(4), 1, b"gone");
    batch.queue_clear(Key(4));
    batch.queue_push(Key(4), 2, b"stays");
    batch.content_remove(ContentFingerprint([5; 16]));
    batch.outbox_remove(2);
    batch.queue_pop(Key(1), 7);
    // Put and taken away in one batch: the later change counts.
    batch.queue_push(Key(9), 1, b"x");
    batch.queue_pop(Key(9), 1);
    batch.outbox_remove(5);
    batch.outbox_put(5, b"y");
    store.commit(&batch).unwrap();
    assert_eq!(store.seen_of(Key(1)).unwrap(), [10]);
    assert_eq!(store.seen_of(Key(2)).unwrap(), [] as [u64; 0]);
    assert_eq!(store.queue_segment(Key(2), 0, 9).unwrap(), []);
    assert_eq!(store.queue_segment(Key(3), 0, 9).unwrap(), []);
    let left = store.queue_segment(Key(4), 0, 9).unwrap();
    assert_eq!(left, [(2, b"stays".to_vec())]);
    assert_eq!(store.site("example.org").unwrap(), None);
    assert_eq!(store.content(ContentFingerprint([5; 16])).unwrap(), None);
    assert_eq!(store.queue_segment(Key(1), 0, 9).unwrap(), []);
    assert_eq!(store.queue_segment(Key(9), 0, 9).unwrap(), []);
    let mut outbox = Vec::new();
    store
        .for_each_in_outbox(|sequence, _| outbox.push(sequence))
        .unwrap();
    assert_eq!(outbox, [5, 300]);
}

#[test]
fn hosts_are_read_some_at_a_time() {
    let folder = TempDir::new().unwrap();
    let (_data, store) = open(folder.path());
    let mut batch = Batch::new();
    for host in ["b.example", "c.example", "a.example"] {
        batch.site_record(host, b"");
    }
    store.commit(&batch).unwrap();
    let first = store.hosts_after("", 2).unwrap();
    assert_eq!(first, ["a.example", "b.example"]);
    assert_eq!(store.hosts_after(&first[1], 2).unwrap(), ["c.example"]);
    assert_eq!(store.hosts_after("c.example", 2).unwrap(), [""; 0]);
}

/// All that was seen of sites that were forgotten once came into one batch.
#[test]
fn what_is_cleared_goes_piece_by_piece_however_much_it_is() {
    const URLS: u64 = 3 * PIECE as u64 + 7;
    let folder = TempDir::new().unwrap();
    let (_data, store) = open(folder.path());
    for site in [1, 2] {
        let mut batch = Batch::new();
        (0..URLS).for_each(|url| batch.url_seen(Key(site), url));
        store.commit(&batch).unwrap();
    }
    let mut seen = Vec::new();
    let note = |site: Key, url| seen.push((site.0, url));
    store.for_each_seen(note).unwrap();
    assert_eq!(seen.len() as u64, 2 * URLS);
    assert!(seen.is_sorted_by(|one, other| one < other), "each once");
    let mut batch = Batch::new();
    batch.site_remove("a.example", Key(1));
    batch.url_seen(Key(1), URLS);
    let ahead = store.open.read().as_ref().unwrap().clear_ahead(&batch);
    ahead.unwrap();
    assert!(store.seen_of(Key(1)).unwrap().len() < PIECE);
    store.commit(&batch).unwrap();
    assert_eq!(store.seen_of(Key(1)).unwrap(), [URLS]);
    assert_eq!(store.seen_of(Key(2)).unwrap().len() as u64, URLS);
}

#[test]
fn a_store_that_cannot_be_read_is_set_aside_and_named() {
    let folder = TempDir::new().unwrap();
    for round in 1..3 {
        let (data, store) = open(folder.path());
        store.commit(&filled()).unwrap();
        drop((data, store));
        fs::write(folder.path().join("state/keyspaces/1/current"), b"nonsense").unwrap();
        let data = DataFolder::open(folder.path()).unwrap();
        let (store, set_aside) = Store::open(&data, "state").unwrap();
        let set_aside = set_aside.unwrap();
        assert!(
            set_aside.now.ends_with(format!("state.damaged-{round}")),
            "{set_aside}"
        );
        assert!(
            set_aside.now.join("keyspaces").exists(),
            "nothing is deleted"
        );
        assert_eq!(store.counters().unwrap(), None);
        store.commit(&filled()).unwrap();
    }
}

/// A start that was killed left a journal, and every later one wanted to make it and failed.
#[test]
fn a_state_that_was_never_made_whole_is_made_anew() {
    // What the database does until a state counts as made.
    let steps: [fn(&Path); 7] = [
        |state| fs::create_dir(state).unwrap(),
        |state| fs::write(state.join("lock"), "").unwrap(),
        |state| fs::create_dir(state.join("keyspaces")).unwrap(),
        |state| fs::write(state.join("0.jnl"), "").unwrap(),
        |state| fs::write(state.join("0.jnl"), [0; 10_000]).unwrap(),
        |state| fs::write(state.join("version"), "").unwrap(),
        |state| fs::write(state.join("version"), "FJL").unwrap(),
    ];
    for count in 1..=steps.len() {
        let folder = TempDir::new().unwrap();
        let state = folder.path().join("state");
        steps[..count].iter().for_each(|step| step(&state));
        let (data, store) = open(folder.path());
        store.commit(&filled()).unwrap();
        drop((data, store));
        let (_data, store) = open(folder.path());
        assert_eq!(store.counters().unwrap().unwrap(), b"42");
    }
}

/// It may hold all that was written, although nothing says any more what it is.
#[test]
fn a_state_that_lost_its_version_is_set_aside_untouched() {
    for version in [None, Some(""), Some("FJL")] {
        for lost in [&[][..], &["keyspaces"], &["keyspaces", "synced"]] {
            let folder = TempDir::new().unwrap();
            let (data, store) = open(folder.path());
            store.commit(&filled()).unwrap();
            drop((data, store));
            let state = folder.path().join("state");
            match version {
                Some(text) => fs::write(state.join("version"), text).unwrap(),
                None => fs::remove_file(state.join("version")).unwrap(),
            }
            for name in lost {
                let path = state.join(name);
                match path.is_dir() {
                    true => fs::remove_dir_all(path).unwrap(),
                    false => fs::remove_file(path).unwrap(),
                }
            }
            let contents = |state: &Path| -> Vec<_> {
                let name = |file: &Path| file.strip_prefix(state).unwrap().to_owned();
                let files = files(state).into_iter();
                files.map(|f| (name(&f), fs::read(f).unwrap())).collect()
            };
            let before = contents(&state);
            let data = DataFolder::open(folder.path()).unwrap();
            let (store, set_aside) = Store::open(&data, "state").unwrap();
            let is_kept = contents(&set_aside.unwrap().now) == before;
            assert!(is_kept, "{version:?} {lost:?}");
            store.commit(&filled()).unwrap();
        }
    }
}

/// The database takes it for a table whose making was cut short, and once deleted it.
#[test]
fn a_table_that_lost_its_beginning_is_set_aside_untouched() {
    for table in ["0", "1", "5"] {
        let folder = TempDir::new().unwrap();
        let (data, store) = open(folder.path());
        store.commit(&filled()).unwrap();
        drop((data, store));
        let table = Path::new("keyspaces").join(table);
        let state = folder.path().join("state");
        fs::write(state.join(&table).join("tables/99"), "a part").unwrap();
        fs::remove_file(state.join(&table).join("current")).unwrap();
        let data = DataFolder::open(folder.path()).unwrap();
        let (store, set_aside) = Store::open(&data, "state").unwrap();
        let now = set_aside.unwrap().now;
        let part = fs::read(now.join(&table).join("tables/99"));
        assert_eq!(part.unwrap(), b"a part", "{table:?}");
        store.commit(&filled()).unwrap();
    }
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let items = fs::read_dir(folder)
        .unwrap()
        .map(|item| item.unwrap().path());
    let mut files: Vec<_> = items
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect();
    files.sort();
    files
}

/// Reads everything there is.
fn read_all(store: &Store) -> Result<u64, StoreError> {
    let mut count = 0;
    store.for_each_seen(|_, _| count += 1)?;
    store.for_each_queued(|_, _, _| count += 1)?;
    store.for_each_site(|_, _| count += 1)?;
    store.for_each_content(|_, _| count += 1)?;
    store.for_each_in_outbox(|_, _| count += 1)?;
    store.counters()?;
    store.archive_position()?;
    Ok(count)
}

/// A store that has both a journal and tables, and is then damaged in one place after
/// another: it opens, or is set aside, or says what it cannot read.
#[test]
fn no_damage_brings_the_program_down() {
    let whole = TempDir::new().unwrap();
    let (data, store) = open(whole.path());
    store.commit(&filled()).unwrap();
    let flushed = store.open.read().as_ref().map(|open| {
        open.tables.queue.rotate_memtable_and_wait()?;
        open.tables.url.rotate_memtable_and_wait()
    });
    flushed.unwrap().unwrap();
    store.commit(&filled()).unwrap();
    let count = read_all(&store).unwrap();
    drop((data, store));
    let state = whole.path().join("state");
    for (number, file) in files(&state).iter().enumerate() {
        // The journal is mostly empty room.
        let most = 4_000;
        let length = (fs::metadata(file).unwrap().len() as usize).min(most);
        if length == 0 {
            continue;
        }
        for place in [length * (number % 5) / 5, length - 1] {
            let folder = TempDir::new().unwrap();
            for from in files(whole.path()) {
                let to = folder.path().join(from.strip_prefix(whole.path()).unwrap());
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                let mut start = fs::read(from).unwrap();
                start.truncate(1 << 20);
                fs::write(to, start).unwrap();
            }
            let victim = folder.path().join(file.strip_prefix(whole.path()).unwrap());
            let mut bytes = fs::read(&victim).unwrap();
            bytes[place] ^= 0x41;
            fs::write(&victim, bytes).unwrap();
            let data = DataFolder::open(folder.path()).unwrap();
            let (store, set_aside) = Store::open(&data, "state").unwrap();
            let store = match read_all(&store) {
                Ok(read) => {
                    assert!(read <= count, "{number} {place}");
                    store
                }
                Err(why @ StoreError::Damaged(..)) => {
                    assert_eq!(set_aside, None);
                    store.set_aside(&why).unwrap().0
                }
                Err(other) => panic!("{} at {place}: {other}", file.display()),
            };
            store.commit(&filled()).unwrap();
            assert_eq!(store.counters().unwrap().unwrap(), b"42");
        }
    }
}

#[test]
fn damage_that_shows_later_is_set_aside_too() {
    let folder = TempDir::new().unwrap();
    let (_data, store) = open(folder.path());
    store.commit(&filled()).unwrap();
    let why = StoreError::Damaged(folder.path().join("state"), "test".into());
    let (store, set_aside) = store.set_aside(&why).unwrap();
    assert!(set_aside.now.exists());
    assert_eq!(store.counters().unwrap(), None);
    store.commit(&filled()).unwrap();
}

/// The database drops the end of a journal that it cannot read, and says nothing.
#[test]
fn damage_in_the_journal_is_never_silent() {
    let folder = TempDir::new().unwrap();
    let (data, store) = open(folder.path());
    for number in 0..200 {
        let mut batch = Batch::new();
        batch.queue_push(Key(1), number, b"a URL that waits");
        store.commit(&batch).unwrap();
    }
    store.sync().unwrap();
    drop((store, data));
    let journal = files(folder.path())
        .into_iter()
        .find(|file| file.extension().is_some_and(|name| name == "jnl"));
    let journal = journal.unwrap();
    let sound = fs::read(&journal).unwrap();
    let end = sound.iter().rposition(|&byte| byte != 0).unwrap();
    // Sound, it has lost nothing.
    let (data, store) = open(folder.path());
    assert_eq!((store.lost(), read_all(&store).unwrap()), (0, 200));
    drop((store, data));
    let mut is_lost = false;
    for part in 1..20 {
        let mut damaged = sound.clone();
        damaged[end * part / 20..][..40].fill(0xa5);
        fs::write(&journal, damaged).unwrap();
        let data = DataFolder::open(folder.path()).unwrap();
        let (store, set_aside) = Store::open(&data, "state").unwrap();
        assert!(set_aside.is_some() || store.lost() > 0, "part {part}");
        is_lost |= store.lost() > 0;
        let set_aside = set_aside.map(|set_aside| set_aside.now);
        drop((store, data));
        // As it was, for the next one.
        let state = folder.path().join("state");
        if let Some(set_aside) = set_aside {
            fs::remove_dir_all(&state).unwrap();
            fs::rename(set_aside, &state).unwrap();
        }
    }
    assert!(is_lost, "or it tests nothing");
}

/// Once every look-up waited while a batch was brought to the disk.
#[test]
fn who_reads_keeps_nobody_from_writing() {
    let folder = TempDir::new().unwrap();
    let (_data, store) = open(folder.path());
    let (tell, told) = crossbeam_channel::bounded(1);
    let reading = store.open.read();
    std::thread::scope(|scope| {
        let (store, tell) = (&store, tell);
        scope.spawn(move || {
            store.commit(&filled()).unwrap();
            store.sync().unwrap();
            tell.send(()).unwrap();
        });
        let told = told.recv_timeout(std::time::Duration::from_secs(60));
        drop(reading);
        told.unwrap();
    });
}

/// What the system could not bring to the disk it may drop, and then say that all is well.
#[test]
fn after_a_sync_that_failed_everything_is_written_anew() {
    let folder = TempDir::new().unwrap();
    let (_data, store) = open(folder.path());
    store.commit(&filled()).unwrap();
    for is_failed in [false, true] {
        store.is_in_doubt.store(is_failed, SeqCst);
        *store.open.write() = None;
        store.sync().unwrap();
        let open = store.open.read();
        let files = open.as_ref().unwrap().tables.queue.table_count();
        assert_eq!(files > 0, is_failed, "only the journal has it otherwise");
    }
    assert!(!store.is_in_doubt.load(SeqCst));
}

/// A state in which what was seen cannot be read: no start looks at it.
fn open_with_damaged_urls(folder: &Path) -> (DataFolder, Store) {
    let (data, store) = open(folder);
    store.commit(&filled()).unwrap();
    let url = store.open.read().as_ref().unwrap().tables.url.clone();
    url.rotate_memtable_and_wait().unwrap();
    let tables = url.path().join("tables");
    drop((url, store, data));
    for table in files(&tables) {
        let mut bytes = fs::read(&table).unwrap();
        bytes[40] ^= 0x41;
        fs::write(table, bytes).unwrap();
    }
    open(folder)
}

fn assert_set_aside_at_the_next_start(folder: &Path, data: DataFolder, store: Store) {
    assert!(store.commit(&filled()).is_err(), "in this run it stays");
    drop((store, data));
    let data = DataFolder::open(folder).unwrap();
    let (store, set_aside) = Store::open(&data, "state").unwrap();
    assert!(set_aside.unwrap().now.join(DAMAGED).exists());
    store.commit(&filled()).unwrap();
}

/// A site was to leave, and the thread that writes tried that for ever, after each start.
#[test]
fn what_cannot_be_removed_is_damage_for_the_next_start() {
    let folder = TempDir::new().unwrap();
    let (data, store) = open_with_damaged_urls(folder.path());
    let mut batch = Batch::new();
    batch.site_remove("example.org", Key(2));
    let error = store.commit(&batch).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(..)), "{error}");
    let error = store.commit(&batch).unwrap_err().to_string();
    assert!(error.contains("start PeerCrawl again"), "{error}");
    assert_set_aside_at_the_next_start(folder.path(), data, store);
}

/// The database sorts tables in the background, and failed there again and again.
#[test]
fn damage_that_the_database_meets_by_itself_is_found() {
    let folder = TempDir::new().unwrap();
    let (data, store) = open_with_damaged_urls(folder.path());
    let begun = Instant::now();
    for number in 0.. {
        let mut batch = Batch::new();
        batch.url_seen(Key(1), number);
        batch.url_seen(Key(3), number);
        if let Err(StoreError::Damaged(..)) = store.commit(&batch) {
            break;
        }
        if let Some(open) = &*store.open.read() {
            let _refused = open.tables.url.rotate_memtable();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "never found");
    }
    assert_set_aside_at_the_next_start(folder.path(), data, store);
}

#[test]
fn a_full_disk_and_a_bad_sector_are_told_from_other_errors() {
    use std::io::{Error, ErrorKind};
    let path = Path::new("x");
    for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
        let plain = StoreError::of(path)(fjall::Error::Io(Error::from(kind)));
        assert!(matches!(plain, StoreError::DiskFull(_)), "{plain}");
        let deep = fjall::Error::Storage(fjall::LsmError::Io(Error::from(kind)));
        assert!(matches!(
            StoreError::of(path)(deep),
            StoreError::DiskFull(_)
        ));
    }
    let bad_sector = Error::from_raw_os_error(if cfg!(windows) { 23 } else { 5 });
    let damage = StoreError::of(path)(fjall::Error::Io(bad_sector));
    assert!(matches!(damage, StoreError::Damaged(..)), "{damage}");
    let other = StoreError::of(path)(fjall::Error::Io(Error::from(ErrorKind::PermissionDenied)));
    assert!(
        matches!(other, StoreError::Io(..)),
        "no reason to set anything aside"
    );
}

/// The system dropped what it could not write, and the database was opened again without it.
#[test]
fn a_state_that_fell_behind_is_not_gone_on_with() {
    let folder = TempDir::new().unwrap();
    let (_data, store) = open(folder.path());
    store.commit(&filled()).unwrap();
    store.close();
    store.commit(&filled()).unwrap();
    store.close();
    store.closed_at.store(5, SeqCst);
    for _ in 0..2 {
        let refused = store.commit(&filled());
        assert!(matches!(refused, Err(StoreError::Behind(_, 3))));
        // Whoever looked something up once opened it for the next commit.
        let refused = store.counters();
        assert!(matches!(refused, Err(StoreError::Behind(_, 3))));
    }
}
