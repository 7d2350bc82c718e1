//! The archive read while it is written to, and files of others in its folder.

use super::*;

/// What was in such a file was once left out in silence.
#[test]
fn a_file_that_is_completed_after_it_was_listed_is_read_all_the_same() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
    append(&mut writer, 0..3);
    writer.flush_to_os().unwrap();
    let reader = Reader::new(folder.path());
    let listed = reader.files().unwrap();
    let mut entries = Vec::new();
    listed[0].list(|entry| entries.push(entry)).unwrap();
    writer.complete().unwrap();
    assert!(!listed[0].is_complete);
    let mut again = Vec::new();
    listed[0].list(|entry| again.push(entry)).unwrap();
    let urls = |entries: &[Entry]| {
        let mut urls: Vec<String> = entries.iter().map(|entry| entry.url.clone()).collect();
        urls.sort();
        urls
    };
    assert_eq!(urls(&again), [url(0), url(1), url(2)]);
    assert_eq!(urls(&entries), urls(&again));
    for entry in &entries {
        assert_eq!(reader.record(entry).unwrap().kind(), "response");
    }
}

/// It has both names in the eyes of who looks for one after the other.
#[test]
fn a_file_that_is_completed_while_it_is_listed_is_listed_once() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
    let name = append(&mut writer, 0..3)[0].file.clone();
    writer.complete().unwrap();
    fs::write(path(folder.path(), &name, OPEN), b"").unwrap();
    fs::write(path(folder.path(), &name, INDEX_OPEN), b"").unwrap();
    let files = Reader::new(folder.path()).files().unwrap();
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(files[0].is_complete);
}

/// The check once ended there. A link that leads nowhere is listed and cannot be opened,
/// as a file that was removed in between.
#[cfg(unix)]
#[test]
fn a_file_that_was_removed_after_it_was_listed_is_left_out() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
    append(&mut writer, 0..3);
    writer.complete().unwrap();
    for ending in [COMPLETE, OPEN] {
        let name = format!("peercrawl-000009-gone{ending}");
        std::os::unix::fs::symlink("nowhere", folder.path().join(name)).unwrap();
    }
    assert_eq!(pages(folder.path()), 3);
    let files = Reader::new(folder.path()).verify().unwrap().files;
    assert_eq!(files, 1);
}

/// Another program's files once counted as the oldest of all, and went first.
#[test]
fn files_of_others_count_and_are_never_removed() {
    let folder = TempDir::new().unwrap();
    let theirs = ["peercrawl-notes-of-mine", "theirs"];
    for name in theirs {
        fs::write(path(folder.path(), name, COMPLETE), [0; 3_000]).unwrap();
        fs::write(path(folder.path(), name, INDEX), "").unwrap();
    }
    let mut settings = settings(folder.path());
    settings.file_bytes = 4_000;
    settings.limit = DiskLimit {
        limit_bytes: 30_000,
        when_full: WhenFull::RemoveOldest,
    };
    let (mut writer, _) = Writer::open(settings, None, None).unwrap();
    assert_eq!(writer.used_bytes(), 6_000);
    append(&mut writer, 0..60);
    assert!(writer.used_bytes() <= 31_000, "an index line may go over");
    let reader = Reader::new(folder.path());
    assert_eq!(reader.get(&url(0)).unwrap(), None, "room was made");
    while writer.drop_oldest().unwrap() > 0 {}
    assert_eq!(recover::names(folder.path(), COMPLETE).unwrap(), theirs);
    assert_eq!(recover::names(folder.path(), INDEX).unwrap(), theirs);
    assert_eq!(writer.used_bytes(), 6_000);
    // To be moved elsewhere is not to be removed.
    assert_eq!(writer.give_away().unwrap(), theirs);
    assert_eq!(writer.used_bytes(), 0);
    writer.count_again().unwrap();
    assert_eq!(writer.used_bytes(), 6_000);
}
