//! What earlier versions, power cuts and failing disks leave behind.

use super::*;

/// Some file systems note the new size of a file before its new bytes.
#[test]
fn zeros_at_the_end_are_what_a_power_cut_leaves() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
    let positions = append(&mut writer, 0..4);
    writer.sync().unwrap();
    drop(writer);
    let open = path(folder.path(), &positions[0].file, OPEN);
    let mut records = fs::read(&open).unwrap();
    records[positions[1].offset as usize..].fill(0);
    fs::write(&open, &records).unwrap();
    let (writer, incidents) =
        Writer::open(settings(folder.path()), Some(&positions[2]), None).unwrap();
    assert!(
        matches!(&incidents[..], [Incident::Short { .. }]),
        "{incidents:?}"
    );
    assert_eq!(writer.position().as_ref(), Some(&positions[1]));
    assert_eq!(pages(folder.path()), 2);
    drop(writer);
    // Anything else in the middle is damage, and is kept for whoever can save it.
    let start = positions[0].offset as usize;
    records[positions[0].offset as usize + 100] ^= 0x55;
    records.truncate(positions[1].offset as usize);
    fs::write(&open, &records).unwrap();
    fs::remove_file(path(folder.path(), &positions[0].file, INDEX_OPEN)).unwrap();
    let (_, incidents) = Writer::open(settings(folder.path()), Some(&positions[1]), None).unwrap();
    assert!(
        matches!(&incidents[..], [Incident::SetAside { .. }]),
        "{incidents:?}"
    );
    let aside = path(folder.path(), &positions[0].file, DAMAGED);
    assert_eq!(fs::read(&aside).unwrap(), records[start..]);
    fs::remove_file(aside).unwrap();
    assert_eq!(pages(folder.path()), 1, "what lies before it");
}

/// Keys were made in another way once: what they lead to is as good as ever.
#[test]
fn an_index_with_other_keys_is_read_and_not_called_damaged() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
    let name = append(&mut writer, 0..5)[0].file.clone();
    writer.complete().unwrap();
    let index = path(folder.path(), &name, INDEX);
    let lines = fs::read_to_string(&index).unwrap();
    let older: String = lines.lines().map(|line| format!("old-{line}\n")).collect();
    fs::write(&index, older).unwrap();
    assert_eq!(pages(folder.path()), 5);
    let found = Reader::new(folder.path()).get(&url(3)).unwrap().unwrap();
    assert_eq!(found.record.block, answer(3));
}

/// URLs that tools take for one are two to us.
#[test]
fn a_url_is_found_exactly() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
    let urls = [
        "http://a.example/x",
        "http://a.example/x/",
        "http://www.a.example/X",
    ];
    for (number, url) in urls.into_iter().enumerate() {
        let answer = answer(number);
        let exchange = Exchange {
            url,
            at_ms: NOW_MS,
            address: None,
            request: b"",
            response: Response::new(&answer),
            truncated: None,
            unique: &number.to_le_bytes(),
        };
        let prepared = RecordBuilder::new().exchange(&exchange, None);
        writer.append(&prepared, NOW_MS).unwrap();
    }
    writer.complete().unwrap();
    let reader = Reader::new(folder.path());
    for (number, url) in urls.into_iter().enumerate() {
        assert_eq!(
            reader.get(url).unwrap().unwrap().record.block,
            answer(number)
        );
    }
}

/// Bodies of duplicates were once stored nowhere when their originals had been removed.
#[test]
fn what_was_removed_is_known_by_its_date() {
    let folder = TempDir::new().unwrap();
    let mut settings = settings(folder.path());
    settings.file_bytes = 4_000;
    let (mut writer, _) = Writer::open(settings.clone(), None, None).unwrap();
    assert_eq!(writer.since_ms(), 0);
    for number in 0..40 {
        let at_ms = NOW_MS + number as u64 * 1_000;
        let prepared = exchange(number, &answer(number), None);
        writer.append(&prepared, at_ms).unwrap();
    }
    assert_eq!(writer.since_ms(), 0, "nothing is gone");
    writer.drop_oldest().unwrap();
    let since_ms = writer.since_ms();
    writer.flush_to_os().unwrap();
    let mut oldest: Option<String> = None;
    let add = |entry: Entry| {
        let at = entry.timestamp;
        oldest = Some(oldest.take().map_or(at.clone(), |oldest| oldest.min(at)));
    };
    Reader::new(folder.path()).list(add).unwrap();
    // What was stored in the second in which the oldest file was begun may be gone.
    assert_eq!(oldest, Some(date::timestamp(since_ms - 1_000)));
    drop(writer);
    let (mut writer, _) = Writer::open(settings, None, None).unwrap();
    assert_eq!(writer.since_ms(), since_ms);
    while writer.drop_oldest().unwrap() > 0 {}
    assert_eq!(writer.since_ms(), u64::MAX, "all of it");
}

/// After an fsync that failed nobody can tell what the disk has.
#[test]
fn what_was_never_synced_is_given_up_and_another_file_begun() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
    assert_eq!(writer.give_up_unsynced().unwrap(), [], "there is no file");
    let synced = append(&mut writer, 0..2).pop().unwrap();
    writer.sync().unwrap();
    let lost = append(&mut writer, 2..4).pop().unwrap();
    writer.flush_to_os().unwrap();
    append(&mut writer, 4..5);
    let cut = Incident::Cut {
        file: synced.file.clone(),
        bytes: lost.offset - synced.offset,
    };
    assert_eq!(writer.give_up_unsynced().unwrap(), [cut]);
    assert!(writer.holds(&synced) && !writer.holds(&lost));
    assert_eq!(pages(folder.path()), 2);
    let next = append(&mut writer, 5..6).remove(0);
    assert!(next.file > synced.file, "{next:?}");
    // Nothing of this file has reached the disk.
    assert_eq!(writer.give_up_unsynced().unwrap(), []);
    append(&mut writer, 6..7);
    writer.complete().unwrap();
    assert_eq!(pages(folder.path()), 3);
}

/// A bad sector once ended every start. A folder in the place of the file cannot be read
/// either.
#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_read_is_set_aside() {
    let folder = TempDir::new().unwrap();
    let name = "peercrawl-000001-20260101000000-state";
    fs::create_dir_all(path(folder.path(), name, OPEN).join("in it")).unwrap();
    let recorded = Position {
        file: name.to_owned(),
        offset: 100,
    };
    let (mut writer, incidents) =
        Writer::open(settings(folder.path()), Some(&recorded), None).unwrap();
    assert!(
        matches!(&incidents[..], [Incident::SetAside { .. }]),
        "{incidents:?}"
    );
    assert!(path(folder.path(), name, DAMAGED).exists());
    append(&mut writer, 0..1);
}
