//! Damage and torn ends, told apart: what is sound stays, and nothing is thrown away.

use std::ops::Range;

use super::*;

/// An open file of ten pages in a folder of its own.
struct Ten {
    folder: TempDir,
    positions: Vec<Position>,
}

impl Ten {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
        let positions = append(&mut writer, 0..10);
        writer.sync().unwrap();
        Self { folder, positions }
    }

    fn complete() -> Self {
        let ten = Self::new();
        // Nothing is recorded, so it is completed.
        let (_, incidents) = Writer::open(settings(ten.folder.path()), None, None).unwrap();
        assert_eq!(incidents, []);
        ten
    }

    fn path(&self, ending: &str) -> PathBuf {
        path(self.folder.path(), &self.positions[0].file, ending)
    }

    /// Where the records of a page are.
    fn page(&self, number: usize) -> Range<usize> {
        let start = self.positions[number - 1].offset as usize;
        start..self.positions[number].offset as usize
    }

    /// Changes bytes of a file.
    fn change(&self, ending: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = fs::read(self.path(ending)).unwrap();
        change(&mut bytes);
        fs::write(self.path(ending), &bytes).unwrap();
        bytes
    }

    /// Opens it as the state does that recorded all of it, and knows that the disk had the
    /// first so many pages, or knows nothing of that.
    fn open(&self, synced: Option<usize>) -> (Writer, Vec<Incident>) {
        let synced = synced.map(|pages| &self.positions[pages - 1]);
        let recorded = self.positions.last();
        Writer::open(settings(self.folder.path()), recorded, synced).unwrap()
    }

    /// All pages that can be found, once what was set aside is out of the way; its bytes.
    fn found(&self, aside: &str) -> (u64, Vec<u8>) {
        let aside = self.folder.path().join(aside);
        let bytes = fs::read(&aside).unwrap();
        fs::remove_file(aside).unwrap();
        (pages(self.folder.path()), bytes)
    }
}

fn assert_short(incidents: &[Incident]) {
    let is_short = matches!(incidents, [Incident::Short { .. }]);
    assert!(is_short, "{incidents:?}");
}

/// The name under which something was set aside, and how much of its file is sound.
fn set_aside(incidents: &[Incident]) -> (&str, u64) {
    let mut found = incidents.iter().filter_map(|incident| match incident {
        Incident::SetAside {
            file, sound_bytes, ..
        } => Some((&**file, *sound_bytes)),
        _ => None,
    });
    found.next().unwrap_or_else(|| panic!("{incidents:?}"))
}

/// Space that is not written yet reads as zeros. A whole file of good records was once set
/// aside for that.
#[test]
fn half_a_record_and_zeros_are_a_torn_end() {
    for synced in [None, Some(3)] {
        let ten = Ten::new();
        let page = ten.page(7);
        ten.change(OPEN, |bytes| bytes[page.start + 100..].fill(0));
        let (mut writer, incidents) = ten.open(synced);
        assert_short(&incidents);
        assert_eq!(writer.position().as_ref(), Some(&ten.positions[6]));
        append(&mut writer, 7..8);
        writer.flush_to_os().unwrap();
        assert_eq!(pages(ten.folder.path()), 8);
    }
}

/// A disk writes in any order. The index was once believed about what it had never got.
#[test]
fn a_hole_in_what_was_not_synced_ends_the_file_there() {
    let ten = Ten::new();
    let page = ten.page(5);
    ten.change(OPEN, |bytes| bytes[page].fill(0));
    let (mut writer, incidents) = ten.open(Some(3));
    assert_short(&incidents);
    assert_eq!(writer.position().as_ref(), Some(&ten.positions[4]));
    assert!(writer.holds(&ten.positions[4]) && !writer.holds(&ten.positions[5]));
    append(&mut writer, 5..10);
    writer.flush_to_os().unwrap();
    assert_eq!(pages(ten.folder.path()), 10);
    // In a file that was begun after the last sync there is nothing to rely on.
    let (ten, page) = (Ten::new(), ten.page(2));
    ten.change(OPEN, |bytes| bytes[page].fill(0));
    let earlier = Position {
        file: "peercrawl-000000-20260101000000-state".into(),
        offset: 5_000,
    };
    let recorded = ten.positions.last();
    let settings = settings(ten.folder.path());
    let (writer, incidents) = Writer::open(settings, recorded, Some(&earlier)).unwrap();
    assert_short(&incidents);
    assert_eq!(writer.position().as_ref(), Some(&ten.positions[1]));
}

#[test]
fn damage_in_what_was_synced_costs_no_sound_record() {
    for synced in [None, Some(8)] {
        let ten = Ten::new();
        let page = ten.page(5);
        let bytes = ten.change(OPEN, |bytes| bytes[page.start + 50] ^= 0x55);
        // So that all of it is read.
        fs::remove_file(ten.path(INDEX_OPEN)).unwrap();
        let (mut writer, incidents) = ten.open(synced);
        assert_eq!(incidents.len(), 1);
        let (aside, sound) = set_aside(&incidents);
        assert_eq!(sound, page.start as u64);
        let words = incidents[0].to_string();
        assert!(words.starts_with("set the end of an archive file aside as peercrawl-"));
        // It goes on in another file: what is synced of this one is known by its place.
        assert_eq!(writer.position(), None);
        assert!(writer.holds(&ten.positions[4]) && !writer.holds(&ten.positions[9]));
        assert!(writer.used_bytes() > bytes.len() as u64, "it counts");
        let next = append(&mut writer, 20..21).remove(0);
        assert!(next.file > ten.positions[0].file);
        writer.flush_to_os().unwrap();
        drop(writer);
        assert_eq!(ten.found(aside), (6, bytes[page.start..].to_vec()));
        let settings = settings(ten.folder.path());
        assert_eq!(Writer::open(settings, Some(&next), None).unwrap().1, []);
    }
}

/// An index that is wrong is no damage.
#[test]
fn an_open_index_that_misleads_is_made_anew() {
    let ten = Ten::new();
    ten.change(INDEX_OPEN, |bytes| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (lines, mut wrong) = (text.lines(), String::new());
        for line in lines {
            let entry = Entry::parse(line).unwrap();
            let offset = format!("\"offset\":\"{}\"", entry.offset);
            let other = format!("\"offset\":\"{}\"", entry.offset + 7);
            wrong.push_str(&line.replace(&offset, &other));
            wrong.push('\n');
        }
        *bytes = wrong.into_bytes();
    });
    let (writer, incidents) = ten.open(Some(8));
    assert_eq!(incidents, []);
    assert_eq!(writer.position().as_ref(), ten.positions.last());
    assert_eq!(pages(ten.folder.path()), 10);
}

/// What is shorter than the disk had it is not written to again.
#[test]
fn a_file_that_lost_what_was_synced_is_completed() {
    let ten = Ten::new();
    let end = ten.page(5).start;
    ten.change(OPEN, |bytes| bytes.truncate(end));
    let (writer, incidents) = ten.open(Some(8));
    assert_short(&incidents);
    assert_eq!(writer.position(), None);
    assert_eq!(pages(ten.folder.path()), 5);
}

/// A flipped bit can look like the end of the data, and all that followed was once cut off.
#[test]
fn an_open_file_of_another_state_keeps_what_lies_behind_damage() {
    let other = |ten: &Ten| {
        let settings = Settings {
            owner: "another".into(),
            ..settings(ten.folder.path())
        };
        Writer::open(settings, None, None).unwrap().1
    };
    let whole = Ten::new();
    let (page, last) = (whole.page(5), whole.page(9));
    let mut cut_off = 0;
    for place in (page.start..page.start + 60).step_by(3) {
        let ten = Ten::new();
        let bytes = ten.change(OPEN, |bytes| bytes[place] ^= 0x04);
        let damage = member::read_member(&bytes[page.start..]).err();
        cut_off += u64::from(matches!(damage, Some(Damage::CutOff)));
        if damage.is_none() {
            continue;
        }
        let incidents = other(&ten);
        let (aside, sound) = set_aside(&incidents);
        assert_eq!(sound, page.start as u64);
        assert_eq!(ten.found(aside), (5, bytes[page.start..].to_vec()));
    }
    assert!(cut_off > 0, "no change looked like a torn end");
    // What is one is cut.
    for ending in [vec![], vec![0; 5_000]] {
        let ten = Ten::new();
        ten.change(OPEN, |bytes| {
            bytes.truncate(last.start + 80);
            bytes.extend(&ending);
        });
        let bytes = 80 + ending.len() as u64;
        let file = ten.positions[0].file.clone();
        assert_eq!(other(&ten), [Incident::Cut { file, bytes }]);
        assert_eq!(pages(ten.folder.path()), 9);
    }
}

/// It was named by `archive verify` alone.
#[test]
fn a_complete_file_that_is_damaged_is_told_of_at_start() {
    let open = |ten: &Ten| {
        Writer::open(settings(ten.folder.path()), None, None)
            .unwrap()
            .1
    };
    let ten = Ten::complete();
    assert_eq!(open(&ten), [], "nothing is wrong with it");
    // Cut off inside the last page.
    let page = ten.page(9);
    let bytes = ten.change(COMPLETE, |bytes| bytes.truncate(page.start + 100));
    let incidents = open(&ten);
    let (aside, sound) = set_aside(&incidents);
    assert_eq!(sound, page.start as u64);
    assert!(path(ten.folder.path(), &ten.positions[0].file, INDEX).exists());
    assert_eq!(ten.found(aside), (9, bytes[page.start..].to_vec()));
    assert_eq!(open(&ten), []);
    // Between two records.
    let page = ten.page(6);
    ten.change(COMPLETE, |bytes| bytes.truncate(page.start));
    let incidents = open(&ten);
    assert!(matches!(&incidents[..], [Incident::Indexed { .. }]));
    assert_eq!(pages(ten.folder.path()), 6);
    // At its end there are zeros.
    let page = ten.page(4);
    ten.change(COMPLETE, |bytes| bytes[page.start + 30..].fill(0));
    let incidents = open(&ten);
    assert_eq!(set_aside(&incidents).1, page.start as u64);
    let bytes = ten.change(COMPLETE, |bytes| bytes[20..60].fill(0));
    // Its beginning is gone: all of it has another name, and not that of what was before.
    let incidents = open(&ten);
    let (aside, sound) = set_aside(&incidents);
    assert!(
        aside.ends_with("-state-2.warc.gz.damaged") && sound == 0,
        "{aside}"
    );
    assert_eq!(fs::read(ten.folder.path().join(aside)).unwrap(), bytes);
    assert!(ten.path(DAMAGED).exists());
    assert!(!ten.path(COMPLETE).exists() && !ten.path(INDEX).exists());
    assert_eq!(open(&ten), []);
}

/// It may be large: what is read of it is its beginning, its end and one record.
#[test]
fn the_end_of_a_long_complete_file_is_looked_at() {
    let folder = TempDir::new().unwrap();
    let (mut writer, _) = Writer::open(settings(folder.path()), None, None).unwrap();
    let positions = append(&mut writer, 0..600);
    writer.complete().unwrap();
    let open = || Writer::open(settings(folder.path()), None, None).unwrap().1;
    assert_eq!(open(), []);
    let complete = path(folder.path(), &positions[0].file, COMPLETE);
    let mut bytes = fs::read(&complete).unwrap();
    assert!(bytes.len() > 4 << 16, "{}", bytes.len());
    let start = positions[595].offset as usize;
    bytes[start + 20..start + 60].fill(0);
    fs::write(&complete, &bytes).unwrap();
    assert_eq!(set_aside(&open()).1, start as u64);
    // What is in the middle shows when it is verified.
    let start = positions[200].offset as usize;
    bytes.truncate(positions[595].offset as usize);
    bytes[start + 20..start + 60].fill(0);
    fs::write(&complete, &bytes).unwrap();
    let verified = Reader::new(folder.path()).verify().unwrap();
    let is_named = |problem: &Problem| problem.offset == start as u64;
    assert!(verified.problems.iter().any(is_named));
}

/// The damage in a file that lost its index was passed over in silence.
#[test]
fn damage_shows_when_an_index_is_made_again() {
    let ten = Ten::complete();
    let page = ten.page(5);
    ten.change(COMPLETE, |bytes| bytes[page.start + 50] ^= 0x55);
    fs::remove_file(ten.path(INDEX)).unwrap();
    let (_, incidents) = Writer::open(settings(ten.folder.path()), None, None).unwrap();
    let (aside, sound) = set_aside(&incidents);
    assert_eq!(sound, page.start as u64);
    assert!(matches!(&incidents[1], Incident::Indexed { .. }));
    assert_eq!(ten.found(aside).0, 5);
    // Another's file keeps its place and its bytes.
    let ten = Ten::complete();
    let bytes = ten.change(COMPLETE, |bytes| bytes[page.start + 50] ^= 0x55);
    let theirs = ten.folder.path().join("theirs.warc.gz");
    fs::rename(ten.path(COMPLETE), &theirs).unwrap();
    let (_, incidents) = Writer::open(settings(ten.folder.path()), None, None).unwrap();
    let words = incidents[0].to_string();
    let place = format!("; the record at {}", page.start);
    assert!(incidents.len() == 1 && words.contains(&place), "{words}");
    assert_eq!(fs::read(theirs).unwrap(), bytes);
}
