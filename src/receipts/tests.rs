use std::fs;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::bounded;

use super::*;

fn receipt(number: u64) -> Receipt {
    Receipt {
        at_ms: 1_794_803_786_123 + number,
        url: format!("http://a.example/{number}?q=\"x\""),
        status: Some(200),
        outcome: Outcome::Answered,
        bytes: number,
        robots: RobotsVerdict::Allowed,
        asked_by: None,
    }
}

fn settings(file_bytes: u64, files: usize) -> config::Receipts {
    config::Receipts {
        file_bytes,
        files,
        ..config::Receipts::default()
    }
}

/// Gives receipts with these numbers, and waits until they are written.
fn keep(folder: &Path, settings: &config::Receipts, numbers: std::ops::Range<u64>) {
    let (_engine, stop) = bounded(0);
    let (receipts, writer) = Receipts::keep(folder, settings, stop).unwrap();
    let writer = thread::spawn(move || writer.run());
    for number in numbers {
        receipts.give(|| receipt(number));
    }
    drop(receipts);
    writer.join().unwrap();
}

fn read(folder: &Path) -> Vec<Line> {
    let files = folder_files(folder).unwrap();
    let text = |path| fs::read_to_string(path).unwrap();
    let lines = files.iter().map(|(_, path)| text(path)).collect::<String>();
    lines.lines().filter_map(line::read).collect()
}

#[test]
fn a_line_says_it_all() {
    let mut text = Vec::new();
    let mut one = receipt(7);
    line::write(&one, &mut text).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "{\"at\":\"2026-11-16T04:36:26.130Z\",\"url\":\"http://a.example/7?q=\\\"x\\\"\",\
         \"status\":200,\"bytes\":7,\"robots\":\"allowed\",\"asked_by\":\"self\"}\n"
    );
    one.outcome = Outcome::Failed(ErrorKind::Timeout);
    one.robots = RobotsVerdict::RulesFile;
    one.asked_by = Some(PeerId::repeat(0xab));
    let line = Line::from(&one);
    assert_eq!(line.reason.as_deref(), Some("timeout"));
    assert_eq!(
        line.tsv().split('\t').skip(2).collect::<Vec<_>>(),
        ["timeout", "7", "rules_file", &"ab".repeat(32)]
    );
    assert_eq!(
        line.tsv().matches('\t').count(),
        Line::TSV_HEADER.matches('\t').count()
    );
}

#[test]
fn runs_follow_each_other_and_a_torn_line_costs_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), &settings(1 << 20, 4), 0..10);
    let (_, path) = folder_files(folder.path()).unwrap().remove(0);
    let whole = fs::read(&path).unwrap();
    // In one of them, the receipt is there and only the end of its line is not.
    for (torn, left) in [(5, 9), (1, 10)] {
        fs::write(&path, &whole[..whole.len() - torn]).unwrap();
        keep(folder.path(), &settings(1 << 20, 4), 10..20);
        let numbers: Vec<_> = read(folder.path()).iter().map(|line| line.bytes).collect();
        let expected: Vec<_> = (0..left).chain(10..20).collect();
        assert_eq!(numbers, expected);
    }
}

/// On a full disk the end of a torn line could not be written, which ended the start.
#[test]
fn a_start_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), &settings(1 << 20, 4), 0..10);
    let (_, path) = folder_files(folder.path()).unwrap().remove(0);
    let torn = fs::read(&path).unwrap()[..700].to_vec();
    fs::write(&path, &torn).unwrap();
    keep(folder.path(), &settings(1 << 20, 4), 0..0);
    assert_eq!(fs::read(&path).unwrap(), torn);
    // Nor does a file end within a line if the next one begins a file.
    keep(folder.path(), &settings(700, 4), 10..11);
    assert_eq!(fs::read(&path).unwrap(), [&torn[..], b"\n"].concat());
}

#[test]
fn files_are_bounded_in_size_and_number_and_the_last_receipts_stay() {
    let folder = tempfile::tempdir().unwrap();
    let lines = 20_000;
    keep(folder.path(), &settings(200_000, 3), 0..lines);
    let files = folder_files(folder.path()).unwrap();
    assert_eq!(files.len(), 3);
    assert!(files[0].0 > 1, "numbers are not used again");
    for (_, path) in &files {
        assert!(fs::metadata(path).unwrap().len() <= 200_000);
    }
    let kept = read(folder.path());
    let first = kept[0].bytes;
    let numbers: Vec<_> = kept.iter().map(|line| line.bytes).collect();
    assert_eq!(
        numbers,
        (first..lines).collect::<Vec<_>>(),
        "none missing, in order"
    );
}

/// Pressure, not loss: many threads give more than the channel holds.
#[test]
fn a_full_channel_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (_engine, stop) = bounded(0);
    let (receipts, writer) = Receipts::keep(folder.path(), &settings(1 << 30, 2), stop).unwrap();
    let receipts = Arc::new(receipts);
    let givers: Vec<_> = (0..4)
        .map(|giver| {
            let receipts = receipts.clone();
            let give = move |n| receipts.give(|| receipt(giver * 10_000 + n));
            thread::spawn(move || (0..2 * WAITING as u64).for_each(give))
        })
        .collect();
    drop(receipts);
    // Nobody writes yet, so the channel is full before long; the givers can only wait.
    let writer = thread::spawn(move || writer.run());
    givers.into_iter().for_each(|giver| giver.join().unwrap());
    writer.join().unwrap();
    let mut numbers: Vec<_> = read(folder.path()).iter().map(|line| line.bytes).collect();
    numbers.sort_unstable();
    let expected =
        (0..4).flat_map(|giver| (0..2 * WAITING as u64).map(move |n| giver * 10_000 + n));
    assert_eq!(numbers, expected.collect::<Vec<_>>());
}

/// A disk that takes nothing holds the writer until the engine stops; then it ends.
#[test]
fn a_stop_ends_the_wait_for_a_disk_that_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, stop) = bounded(0);
    // The first line is beyond the bound of a file, so the next file must be begun, and
    // its folder is gone.
    keep(folder.path(), &settings(1, 2), 0..1);
    let (receipts, writer) = Receipts::keep(folder.path(), &settings(1, 2), stop).unwrap();
    fs::remove_dir_all(folder.path()).unwrap();
    let writer = thread::spawn(move || writer.run());
    receipts.give(|| receipt(1));
    drop(engine);
    drop(receipts);
    writer.join().unwrap();
}
