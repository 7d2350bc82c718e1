//! The archive as a whole: written, torn, damaged, limited and read back.

mod beside;
mod damage;
mod recovery;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::writer::path;
use super::*;

const NOW_MS: u64 = 1_794_803_786_123;

fn settings(folder: &Path) -> Settings {
    Settings {
        folder: folder.to_owned(),
        owner: "state".into(),
        file_bytes: 1 << 20,
        unique: b"this peer".to_vec(),
        info: vec![("software".into(), "peercrawl test".into())],
        limit: DiskLimit::NONE,
    }
}

fn url(number: usize) -> String {
    format!("http://h{}.example/p{number}", number % 3)
}

fn answer(number: usize) -> Vec<u8> {
    let body = format!("<p>body {number} {}", "word ".repeat(number * 7 % 40));
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html; x=y\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into()
}

fn exchange(number: usize, answer: &[u8], original: Option<&Original>) -> Prepared {
    let (url, unique) = (url(number), number.to_le_bytes());
    let exchange = Exchange {
        url: &url,
        at_ms: NOW_MS + number as u64 * 1_000,
        address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        request: b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        response: Response::new(answer),
        truncated: None,
        unique: &unique,
    };
    let mut builder = RecordBuilder::new();
    let mut prepared = builder.exchange(&exchange, original);
    let id = exchange.response_id();
    prepared.join(builder.links(
        &url,
        exchange.at_ms,
        id,
        &unique,
        &["http://a/", "http://b/"].into_iter().collect(),
    ));
    prepared
}

/// Appends pages with these numbers and tells the position after each.
fn append(writer: &mut Writer, numbers: std::ops::Range<usize>) -> Vec<Position> {
    let pages = numbers.map(|n| {
        writer
            .append(&exchange(n, &answer(n), None), NOW_MS)
            .unwrap()
    });
    pages.collect()
}

fn pages(folder: &Path) -> u64 {
    let verified = Reader::new(folder).verify().unwrap();
    assert_eq!(verified.problems, []);
    let mut listed = 0;
    Reader::new(folder).list(|_| listed += 1).unwrap();
    assert_eq!(listed, verified.pages);
    listed
}

#[test]
fn what_was_sent_is_what_is_found() {
    let folder = TempDir::new().unwrap();
    let (mut writer, incidents) = Writer::open(settings(folder.path()), None, None).unwrap();
    assert_eq!(incidents, []);
    append(&mut writer, 0..5);
    let reader = Reader::new(folder.path());
    assert_eq!(
        reader.get(&url(3)).unwrap(),
        None,
        "it still waits in memory"
    );
    for is_complete in [false, true] {
        writer.flush_to_os().unwrap();
        if is_complete {
            writer.complete().unwrap();
        }
        let found = reader.get(&url(3)).unwrap().unwrap();
        assert_eq!(found.record.block, answer(3));
        assert_eq!(found.record.field("warc-ip-address"), Some("127.0.0.1"));
        assert_eq!(found.entry.media_type, "text/html");
        assert_eq!(found.entry.status, "200");
        assert_eq!(pages(folder.path()), 5);
    }
    assert_eq!(writer.position(), None);
    assert_eq!(reader.get("http://nowhere.example/").unwrap(), None);
}

#[test]
fn a_torn_end_is_cut_wherever_it_is_torn() {
    let whole = TempDir::new().unwrap();
    let (mut writer, _) = Writer::open(settings(whole.path()), None, None).unwrap();
    let positions = append(&mut writer, 0..3);
    writer.sync().unwrap();
    let name = &positions[0].file;
    let records = fs::read(path(whole.path(), name, OPEN)).unwrap();
    let index = fs::read(path(whole.path(), name, INDEX_OPEN)).unwrap();
    let torn = |length: usize, index: &[u8]| {
        let folder = TempDir::new().unwrap();
        fs::write(path(folder.path(), name, OPEN), &records[..length]).unwrap();
        fs::write(path(folder.path(), name, INDEX_OPEN), index).unwrap();
        folder
    };
    let whole_pages = |length: usize| {
        let ends = positions.iter().map(|position| position.offset);
        ends.filter(|end| *end <= length as u64).count() as u64
    };
    for length in 0..=records.len() {
        // Nothing recorded: every whole record counts, with whatever index there is. A
        // file is brought to the disk for each, so the last page has to do.
        if length as u64 >= positions[1].offset || length % 100 == 0 {
            let folder = torn(length, &index[..index.len() * (length % 4) / 3]);
            let (_, incidents) = Writer::open(settings(folder.path()), None, None).unwrap();
            let kept = pages(folder.path());
            // A response may be whole where the records that go with it are not.
            assert!((whole_pages(length)..=whole_pages(length) + 1).contains(&kept));
            assert!(
                incidents.iter().all(|i| matches!(i, Incident::Cut { .. })),
                "{incidents:?}"
            );
        }

        // Recorded after the second page.
        let folder = torn(length, &index);
        let (mut writer, incidents) =
            Writer::open(settings(folder.path()), Some(&positions[1]), None).unwrap();
        let rest = length as u64;
        match rest.cmp(&positions[1].offset) {
            std::cmp::Ordering::Less => {
                // It goes on behind the last whole record.
                assert!(matches!(&incidents[..], [Incident::Short { .. }]));
                assert!(!writer.holds(&positions[1]));
                let end = writer.position().map_or(0, |position| position.offset);
                assert_eq!(writer.holds(&positions[0]), end >= positions[0].offset);
                if length % 100 == 0 {
                    let kept = pages(folder.path());
                    assert!((whole_pages(length)..=whole_pages(length) + 1).contains(&kept));
                    append(&mut writer, 9..10);
                    writer.flush_to_os().unwrap();
                    assert_eq!(pages(folder.path()), kept + 1);
                }
            }
            order => {
                assert_eq!(incidents.len(), usize::from(order.is_gt()));
                assert_eq!(writer.position().as_ref(), Some(&positions[1]));
                assert_eq!(append(&mut writer, 2..3)[0], positions[2]);
                writer.flush_to_os().unwrap();
                assert_eq!(fs::read(path(folder.path(), name, OPEN)).unwrap(), records);
                assert_eq!(pages(folder.path()), 3);
            }
        }
    }
}

#[test]
fn files_rotate_and_their_indexes_are_sorted() {
    let folder = TempDir::new().unwrap();
    let mut settings = settings(folder.path());
    settings.file_bytes = 4_000;
    let (mut writer, _) = Writer::open(settings.clone(), None, None).unwrap();
    let last = append(&mut writer, 0..40).pop().unwrap();
    writer.flush_to_os().unwrap();
    let names = recover::names(folder.path(), COMPLETE).unwrap();
    assert!(names.len() > 5);
    assert!(names.is_sorted());
    for name in &names {
        let index = fs::read_to_string(path(folder.path(), name, INDEX)).unwrap();
        assert!(index.lines().is_sorted());
        assert!(!path(folder.path(), name, INDEX_OPEN).exists());
        let size = fs::metadata(path(folder.path(), name, COMPLETE))
            .unwrap()
            .len();
        assert!((4_000..6_000).contains(&size));
    }
    assert_eq!(pages(folder.path()), 40);
    let used = writer.used_bytes();
    drop(writer);
    let (writer, incidents) = Writer::open(settings, Some(&last), None).unwrap();
    assert_eq!(incidents, []);
    assert_eq!(writer.used_bytes(), used);
}

/// Of small answers a file would hold so many that sorting its index takes memory.
#[test]
fn a_file_is_complete_when_its_index_is_long() {
    let folder = TempDir::new().unwrap();
    let mut settings = settings(folder.path());
    settings.file_bytes = 1 << 30;
    let (mut writer, _) = Writer::open(settings, None, None).unwrap();
    let mut count = 0;
    while recover::names(folder.path(), COMPLETE).unwrap().is_empty() {
        append(&mut writer, count..count + 1_000);
        count += 1_000;
    }
    let name = recover::names(folder.path(), COMPLETE).unwrap().remove(0);
    let index = fs::metadata(path(folder.path(), &name, INDEX)).unwrap();
    assert!((8 << 20..9 << 20).contains(&index.len()), "{}", index.len());
}

#[test]
fn open_files_that_were_never_recorded_go_and_complete_ones_stay() {
    let folder = TempDir::new().unwrap();
    let mut settings = settings(folder.path());
    settings.file_bytes = 4_000;
    let (mut writer, _) = Writer::open(settings.clone(), None, None).unwrap();
    let positions = append(&mut writer, 0..40);
    writer.flush_to_os().unwrap();
    drop(writer);
    let open = positions[39].file.clone();
    let in_complete = positions.iter().filter(|p| p.file != open).count();
    // Recorded in the first file: all others are later, and all but one complete.
    let (writer, incidents) = Writer::open(settings, Some(&positions[0]), None).unwrap();
    let cut = |i: &Incident| matches!(i, Incident::Cut { file, .. } if *file == open);
    assert!(incidents.iter().all(cut) && incidents.len() == 1);
    assert_eq!(writer.position(), None);
    assert_eq!(pages(folder.path()), in_complete as u64);
    assert!(in_complete > 30, "{in_complete}");
}

/// Every state of a data directory writes into one folder.
#[test]
fn nobody_touches_the_files_of_another_state() {
    let folder = TempDir::new().unwrap();
    let owned = |owner: &str| Settings {
        owner: owner.to_owned(),
        ..settings(folder.path())
    };
    let (mut first, _) = Writer::open(owned("crawl-1"), None, None).unwrap();
    let recorded = append(&mut first, 0..3).remove(1);
    first.flush_to_os().unwrap();
    drop(first);
    // The first was killed; its file is completed, and the second is killed too.
    let (mut second, incidents) = Writer::open(owned("crawl-2"), None, None).unwrap();
    assert_eq!(incidents, []);
    let recorded_by_second = append(&mut second, 3..5).pop().unwrap();
    second.complete().unwrap();
    append(&mut second, 5..7);
    second.flush_to_os().unwrap();
    drop(second);
    let (mut first, incidents) = Writer::open(owned("crawl-1"), Some(&recorded), None).unwrap();
    assert_eq!(incidents, []);
    assert_eq!(pages(folder.path()), 7);
    let last = append(&mut first, 7..8).remove(0);
    assert!(last.file > recorded_by_second.file && last.file.ends_with("-crawl-1"));
    first.flush_to_os().unwrap();
    drop(first);
    Writer::open(owned("crawl-2"), Some(&recorded_by_second), None).unwrap();
    assert_eq!(pages(folder.path()), 8);
}

#[test]
fn a_revisit_leads_to_its_original() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
    append(&mut writer, 0..2);
    let original = Original {
        url: url(1),
        at_ms: NOW_MS + 1_000,
        payload_digest: Response::new(&answer(1)).payload_digest(),
    };
    let other_head = [
        &b"HTTP/1.1 200 Fine\r\n\r\n"[..],
        Response::new(&answer(1)).payload(),
    ]
    .concat();
    writer
        .append(&exchange(7, &other_head, Some(&original)), NOW_MS)
        .unwrap();
    // The same page by its text, but not by its bytes: no revisit.
    writer
        .append(&exchange(8, &answer(0), Some(&original)), NOW_MS)
        .unwrap();
    // Its original is another peer's.
    let elsewhere = Original {
        url: "http://else.example/".into(),
        at_ms: NOW_MS,
        payload_digest: Response::new(&answer(5)).payload_digest(),
    };
    writer
        .append(&exchange(9, &answer(5), Some(&elsewhere)), NOW_MS)
        .unwrap();
    // The record that it refers to is gone, but not the payload.
    let gone = Original {
        at_ms: NOW_MS + 77_000,
        ..original
    };
    writer
        .append(&exchange(10, &other_head, Some(&gone)), NOW_MS)
        .unwrap();
    writer.complete().unwrap();
    let reader = Reader::new(folder.path());
    let found = reader.get(&url(7)).unwrap().unwrap();
    assert!(found.entry.is_revisit());
    assert_eq!(found.record.block, b"HTTP/1.1 200 Fine\r\n\r\n");
    assert_eq!(
        found.record.field("WARC-Refers-To-Target-URI"),
        Some(&*url(1))
    );
    let date = found.record.field("WARC-Refers-To-Date");
    let original = found.original.unwrap();
    assert_eq!(date, original.field("WARC-Date"));
    assert_eq!(original.block, answer(1));
    assert_eq!(
        reader.get(&url(8)).unwrap().unwrap().record.block,
        answer(0)
    );
    assert_eq!(reader.get(&url(9)).unwrap().unwrap().original, None);
    let found = reader.get(&url(10)).unwrap().unwrap();
    assert_eq!(found.original.unwrap().block, answer(1));
    assert_eq!(pages(folder.path()), 6);
}

#[test]
fn damage_is_named_and_the_rest_is_still_checked() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
    let positions = append(&mut writer, 0..4);
    writer.complete().unwrap();
    let file = path(folder.path(), &positions[0].file, COMPLETE);
    let good = fs::read(&file).unwrap();
    let start = positions[1].offset as usize;
    for place in (start..start + 60).chain(start + 200..start + 210) {
        let mut bad = good.clone();
        bad[place] ^= 0x10;
        fs::write(&file, &bad).unwrap();
        let verified = Reader::new(folder.path()).verify().unwrap();
        // Four bytes of a gzip header (time, flags and system) mean nothing to us.
        if (4..10).contains(&(place - start)) {
            continue;
        }
        let first = &verified.problems[0];
        assert_eq!(first.file, format!("{}.warc.gz", positions[0].file));
        assert_eq!(first.offset, positions[1].offset, "{place}: {first}");
        assert!(verified.records >= 12, "{verified:?}");
        assert!(Reader::new(folder.path()).get(&url(3)).unwrap().is_some());
    }
    // Told once: in its message, and not as a cause as well.
    let mut bad = good.clone();
    bad[start..].fill(0x10);
    fs::write(&file, &bad).unwrap();
    let error = Reader::new(folder.path()).get(&url(3)).unwrap_err();
    assert!(error.to_string().contains("is not valid gzip"), "{error}");
    assert!(std::error::Error::source(&error).is_none());
    fs::write(&file, &good).unwrap();
    let index = path(folder.path(), &positions[0].file, INDEX);
    let lines = fs::read_to_string(&index).unwrap();
    let (first, rest) = lines.split_once('\n').unwrap();
    for bad in [
        rest.to_owned(),
        format!("{rest}{first}\n"),
        format!("{lines}x 1 {{}}\n"),
    ] {
        fs::write(&index, bad).unwrap();
        assert_eq!(
            Reader::new(folder.path()).verify().unwrap().problems.len(),
            1
        );
    }
}

#[test]
fn the_disk_limit_is_kept_by_stopping_or_by_removing_the_oldest() {
    for when_full in [WhenFull::Stop, WhenFull::RemoveOldest] {
        let folder = TempDir::new().unwrap();
        let mut settings = settings(folder.path());
        settings.file_bytes = 4_000;
        settings.limit = DiskLimit {
            limit_bytes: 30_000,
            when_full,
        };
        let (mut writer, _) = Writer::open(settings, None, None).unwrap();
        let mut stopped = None;
        for number in 0..60 {
            let result = writer.append(&exchange(number, &answer(number), None), NOW_MS);
            assert!(writer.used_bytes() <= 31_000, "an index line may go over");
            if let Err(ArchiveError::LimitReached { .. }) = result {
                stopped.get_or_insert(number);
            }
        }
        writer.complete().unwrap();
        let reader = Reader::new(folder.path());
        let (first, last) = (reader.get(&url(0)).unwrap(), reader.get(&url(59)).unwrap());
        let stops = when_full == WhenFull::Stop;
        assert_eq!((first.is_some(), last.is_some()), (stops, !stops));
        assert_eq!(stopped.is_some(), stops);
        pages(folder.path());
        if stops {
            writer.set_limit(DiskLimit::NONE);
            append(&mut writer, 59..60);
        }
    }
}

#[test]
fn a_lost_index_is_made_again() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
    let name = append(&mut writer, 0..5)[0].file.clone();
    writer.complete().unwrap();
    let index = path(folder.path(), &name, INDEX);
    let before = fs::read(&index).unwrap();
    fs::remove_file(&index).unwrap();
    let (_, incidents) = Writer::open(settings(folder.path()), None, None).unwrap();
    let why = "it had none".to_owned();
    assert_eq!(incidents, [Incident::Indexed { file: name, why }]);
    assert_eq!(fs::read(&index).unwrap(), before);
    assert_eq!(pages(folder.path()), 5);
}

#[test]
fn what_was_set_aside_is_named_and_counts() {
    let folder = TempDir::new().unwrap();
    let aside = path(folder.path(), "peercrawl-000001-x-state", DAMAGED);
    fs::write(aside, [0; 5_000]).unwrap();
    let mut settings = settings(folder.path());
    settings.limit = DiskLimit {
        limit_bytes: 5_100,
        when_full: WhenFull::RemoveOldest,
    };
    let (mut writer, _) = Writer::open(settings, None, None).unwrap();
    assert_eq!(writer.used_bytes(), 5_000);
    let refused = writer.append(&exchange(1, &answer(1), None), NOW_MS);
    assert!(matches!(refused, Err(ArchiveError::LimitReached { .. })));
    let verified = Reader::new(folder.path()).verify().unwrap();
    let problem = verified.problems[0].to_string();
    assert!(problem.starts_with("peercrawl-000001-x-state.warc.gz.damaged at 0: was damaged"));
}

/// Only complete files can be removed, and the usual size of one may be over the limit.
#[test]
fn a_limit_below_the_size_of_a_file_is_kept_too() {
    let folder = TempDir::new().unwrap();
    let mut settings = settings(folder.path());
    let limit = |limit_bytes| DiskLimit {
        limit_bytes,
        when_full: WhenFull::RemoveOldest,
    };
    assert!(settings.file_bytes > 30_000);
    settings.limit = limit(30_000);
    let (mut writer, _) = Writer::open(settings, None, None).unwrap();
    append(&mut writer, 0..60);
    assert!(writer.used_bytes() <= 31_000);
    // Raised and lowered again while a file is open that is larger than the new limit.
    writer.set_limit(limit(200_000));
    append(&mut writer, 60..120);
    writer.set_limit(limit(8_000));
    append(&mut writer, 120..180);
    assert!(writer.used_bytes() <= 9_000);
    writer.complete().unwrap();
    let reader = Reader::new(folder.path());
    assert!(reader.get(&url(179)).unwrap().is_some());
    assert!(reader.get(&url(0)).unwrap().is_none());
    pages(folder.path());
}

#[test]
fn room_is_made_by_dropping_the_oldest_and_by_giving_files_away() {
    let folder = TempDir::new().unwrap();
    let mut settings = settings(folder.path());
    settings.file_bytes = 4_000;
    let (mut writer, _) = Writer::open(settings.clone(), None, None).unwrap();
    assert_eq!(writer.drop_oldest().unwrap(), 0, "there is none");
    append(&mut writer, 0..30);
    let used = writer.used_bytes();
    let freed = writer.drop_oldest().unwrap();
    assert!(freed > 4_000, "{freed}");
    assert_eq!(writer.used_bytes(), used - freed);
    assert!(Reader::new(folder.path()).get(&url(0)).unwrap().is_none());
    let names = writer.give_away().unwrap();
    assert!(names.len() > 1 && names.is_sorted(), "{names:?}");
    assert_eq!(writer.used_bytes(), 0);
    assert!(path(folder.path(), &names[0], COMPLETE).exists());
    // An archive that is one open file has an oldest one too.
    append(&mut writer, 30..31);
    let freed = writer.drop_oldest().unwrap();
    assert!(freed > 0 && writer.used_bytes() == 0);
    append(&mut writer, 31..32);
    // What was given away and never taken counts again.
    writer.complete().unwrap();
    let (again, _) = Writer::open(settings, None, None).unwrap();
    assert!(again.used_bytes() > used - freed - 5_000);
    let full = ArchiveError::LimitReached {
        used_bytes: 9_999_999_999,
        limit_bytes: 10_000_000_000,
    };
    let words = "the archive holds 9.9 GB of 10.0 GB: raise the limit or make room";
    assert_eq!(full.to_string(), words);
}

/// After a move that failed, its files counted no more until the next start.
#[test]
fn what_was_given_away_and_stayed_counts_again() {
    let folder = TempDir::new().unwrap();
    let mut settings = settings(folder.path());
    settings.file_bytes = 4_000;
    let (mut writer, _) = Writer::open(settings, None, None).unwrap();
    append(&mut writer, 0..30);
    let names = writer.give_away().unwrap();
    assert!(names.len() > 1, "{names:?}");
    append(&mut writer, 30..31);
    let (open_bytes, mut stays_bytes) = (writer.used_bytes(), 0);
    for ending in [COMPLETE, INDEX] {
        let size = |name: &String| {
            fs::metadata(path(folder.path(), name, ending))
                .unwrap()
                .len()
        };
        stays_bytes += names[1..].iter().map(size).sum::<u64>();
        fs::remove_file(path(folder.path(), &names[0], ending)).unwrap();
    }
    writer.count_again().unwrap();
    assert_eq!(writer.used_bytes(), open_bytes + stays_bytes);
    let again = writer.give_away().unwrap();
    assert_eq!(again[..names.len() - 1], names[1..]);
}

#[test]
fn ids_are_made_of_the_callers_bytes_and_values_forge_no_lines() {
    let id = RecordId::derive(b"x", "response").to_string();
    assert_eq!(id, RecordId::derive(b"x", "response").to_string());
    assert_ne!(id, RecordId::derive(b"x", "request").to_string());
    assert_ne!(id, RecordId::derive(b"y", "response").to_string());
    assert_eq!((id.len(), &id[24..25]), (47, "8"));
    let prepared = RecordBuilder::new().links(
        "http://a/\r\nWARC-Type: response",
        0,
        RecordId::derive(b"", ""),
        b"",
        &["http://b/\r\noutlink: http://c/"].into_iter().collect(),
    );
    let (record, length) = member::read_member(&prepared.bytes[..]).unwrap().unwrap();
    assert_eq!(length, prepared.bytes.len() as u64);
    assert_eq!(record.kind(), "metadata");
    assert_eq!(record.block.iter().filter(|b| **b == b'\n').count(), 1);
}

#[test]
fn what_the_server_compressed_is_not_compressed_again() {
    let body = "what repeats itself ".repeat(1_000);
    let member_bytes = |coding: &str| {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\n\r\n{body}");
        let records = exchange(1, answer.as_bytes(), None);
        let (record, bytes) = member::read_member(&records.bytes[..]).unwrap().unwrap();
        assert_eq!(record.block, answer.as_bytes());
        bytes as usize
    };
    assert!(member_bytes("gzip") > body.len());
    assert!(member_bytes("identity") < body.len() / 10);
}

/// A compressor takes as long for some hundred bytes as for some thousand.
#[test]
fn small_records_beside_a_page_are_stored_as_they_are() {
    let request = b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n";
    let answer = answer(1);
    let exchange = Exchange {
        url: "http://a.example/page",
        at_ms: NOW_MS,
        address: None,
        request,
        response: Response::new(&answer),
        truncated: None,
        unique: b"",
    };
    let mut builder = RecordBuilder::new();
    let mut prepared = builder.exchange(&exchange, None);
    let mut add_links = |links: &[&str]| {
        let (url, id) = (exchange.url, exchange.response_id());
        prepared.join(builder.links(url, NOW_MS, id, b"", &links.iter().copied().collect()));
    };
    add_links(&["http://b.example/"]);
    add_links(&["http://c.example/"; 100]);
    let (mut rest, mut kinds, mut plain) = (&prepared.bytes[..], Vec::new(), Vec::new());
    while let Some((record, length)) = member::read_member(rest).unwrap() {
        record.check_digests().unwrap();
        let (member, behind) = rest.split_at(length as usize);
        let is_plain = memchr::memmem::find(member, &record.block).is_some();
        kinds.push(record.kind().to_owned());
        plain.push(is_plain);
        if record.kind() == "request" {
            assert_eq!(record.block, request);
        }
        rest = behind;
    }
    assert_eq!(kinds, ["response", "request", "metadata", "metadata"]);
    assert_eq!(plain, [false, true, true, false]);
}

#[test]
fn truncation_and_odd_answers_are_kept_as_they_are() {
    for (answer, status, media_type) in [
        (&b""[..], "", "unk"),
        (b"HTTP/1.0 404\n\nloose", "404", "unk"),
        (b"garbage", "", "unk"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-TYPE:\r\n\r\n\xff",
            "200",
            "unk",
        ),
    ] {
        let exchange = Exchange {
            url: "http://a/",
            at_ms: 0,
            address: None,
            request: b"",
            response: Response::new(answer),
            truncated: Some(Truncated::Disconnect),
            unique: b"",
        };
        let prepared = RecordBuilder::new().exchange(&exchange, None);
        let (record, _) = member::read_member(&prepared.bytes[..]).unwrap().unwrap();
        assert_eq!(record.block, answer);
        assert_eq!(record.field("WARC-Truncated"), Some("disconnect"));
        record.check_digests().unwrap();
        assert_eq!(&*prepared.lines[0].status, status);
        assert_eq!(&*prepared.lines[0].media_type, media_type);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_can_be_read_without_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        at in 0_usize..1_500,
        index in ".{0,200}",
    ) {
        let folder = TempDir::new().unwrap();
        let mut records = exchange(1, &answer(1), None).bytes;
        let at = at.min(records.len());
        let over = (at + bytes.len()).min(records.len());
        records.splice(at..over, bytes);
        for ending in [COMPLETE, OPEN] {
            fs::write(path(folder.path(), ending, ending), &records).unwrap();
        }
        fs::write(path(folder.path(), COMPLETE, INDEX), &index).unwrap();
        fs::write(path(folder.path(), OPEN, INDEX_OPEN), &index).unwrap();
        let reader = Reader::new(folder.path());
        reader.verify().unwrap();
        reader.list(|_| {}).unwrap();
        let _ = reader.get(&url(1)).map(|found| found.is_some());
        let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
        writer.append(&exchange(2, &answer(2), None), NOW_MS).unwrap();
        writer.complete().unwrap();
        prop_assert!(reader.get(&url(2)).unwrap().is_some());
    }
}
