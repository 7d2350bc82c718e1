//! Everything in the archive, checked: gzip members, lengths, digests and indexes.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::member::{Damage, read_member};
use super::read::{Reader, for_each_line};
use super::recover::names;
use super::writer::path;
use super::{ArchiveError, COMPLETE, DAMAGED, INDEX};

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// What it is.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.file, self.offset, self.what)
    }
}

/// What a check has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Files read.
    pub files: u64,
    /// Records that are as they were written.
    pub records: u64,
    /// Responses and revisits among them.
    pub pages: u64,
    /// All that is wrong; empty if all is well.
    pub problems: Vec<Problem>,
}

impl Reader {
    /// Reads every byte of the archive. Damage to one record is named, and the check
    /// goes on behind it. A file that is removed meanwhile is left out.
    pub fn verify(&self) -> Result<Verified, ArchiveError> {
        let mut verified = Verified::default();
        for (name, _) in self.names()? {
            let Some((ending, file)) = self.open(&name)? else {
                continue;
            };
            let is_complete = ending == COMPLETE;
            let path = path(&self.folder, &name, ending);
            let lines = verified.file(file, &path, &name, is_complete)?;
            if is_complete {
                verified.index(&self.folder, &name, lines)?;
            }
        }
        for name in names(&self.folder, DAMAGED)? {
            let file = format!("{name}{DAMAGED}");
            let what = "was damaged and set aside: save what you can, and move it elsewhere";
            verified.problem(&file, 0, what);
        }
        Ok(verified)
    }
}

impl Verified {
    fn problem(&mut self, file: &str, offset: u64, what: impl fmt::Display) {
        self.problems.push(Problem {
            file: file.to_owned(),
            offset,
            what: what.to_string(),
        });
    }

    /// Checks a file, and gives the lines that its index must have, without their keys:
    /// an earlier version may have made those in another way.
    fn file(
        &mut self,
        file: File,
        path: &Path,
        name: &str,
        is_complete: bool,
    ) -> Result<BTreeSet<String>, ArchiveError> {
        let filename = format!("{name}{COMPLETE}");
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let mut lines = BTreeSet::new();
        let mut offset = 0;
        self.files += 1;
        loop {
            match read_member(&mut reader) {
                Ok(None) => return Ok(lines),
                Ok(Some((record, bytes))) => {
                    let pending = record.pending(bytes);
                    if offset == 0 && record.kind() != "warcinfo" {
                        self.problem(&filename, 0, "does not begin with a warcinfo record");
                    }
                    match record.check_digests() {
                        Ok(()) => self.records += 1,
                        Err(damage) => self.problem(&filename, offset, damage),
                    }
                    if let Some(pending) = pending {
                        self.pages += 1;
                        let line = pending.line(&filename, offset);
                        lines.extend(without_key(line.trim_end()).map(str::to_owned));
                    }
                    offset += bytes;
                }
                // The end of a file that is being written may not be there yet.
                Err(Damage::CutOff) if !is_complete => return Ok(lines),
                Err(damage) => {
                    self.problem(&filename, offset, damage);
                    let Some(next) = next_member(reader.get_ref(), path, offset + 1)? else {
                        return Ok(lines);
                    };
                    offset = next;
                    reader
                        .seek(SeekFrom::Start(next))
                        .map_err(ArchiveError::io(path))?;
                }
            }
        }
    }

    /// Checks that an index has these lines, in order, and no others.
    fn index(
        &mut self,
        folder: &Path,
        name: &str,
        mut expected: BTreeSet<String>,
    ) -> Result<(), ArchiveError> {
        let file = format!("{name}{INDEX}");
        let mut last = String::new();
        let mut offset = 0;
        let is_there = for_each_line(&path(folder, name, INDEX), |line| {
            if *line < *last {
                self.problem(&file, offset, "is not sorted");
            }
            if !without_key(line).is_some_and(|line| expected.remove(line)) {
                self.problem(&file, offset, "names a record that is not there");
            }
            last.clear();
            last.push_str(line);
            offset += line.len() as u64 + 1;
        })?;
        // Its file was removed meanwhile, and the index before it.
        if !is_there && !path(folder, name, COMPLETE).exists() {
            return Ok(());
        }
        for line in expected {
            let what = format!("lacks the line {line:?}");
            self.problem(&file, offset, what);
        }
        Ok(())
    }
}

/// What follows the key of an index line.
fn without_key(line: &str) -> Option<&str> {
    line.split_once(' ').map(|(_, rest)| rest)
}

/// Where the next member with a WARC record begins, at `from` or later. The file may have
/// another name by now, so it is not opened again.
pub(super) fn next_member(
    mut file: &File,
    path: &Path,
    from: u64,
) -> Result<Option<u64>, ArchiveError> {
    const WINDOW: usize = 1 << 16;
    let mut start = from;
    loop {
        let mut window = Vec::with_capacity(WINDOW);
        file.seek(SeekFrom::Start(start))
            .map_err(ArchiveError::io(path))?;
        let read = file.take(WINDOW as u64).read_to_end(&mut window);
        let count = read.map_err(ArchiveError::io(path))?;
        for place in memchr::memmem::find_iter(&window, b"\x1f\x8b\x08") {
            let at = start + place as u64;
            file.seek(SeekFrom::Start(at))
                .map_err(ArchiveError::io(path))?;
            if let Ok(Some(_)) = read_member(BufReader::new(file)) {
                return Ok(Some(at));
            }
        }
        if count < WINDOW {
            return Ok(None);
        }
        // The mark may lie across the end of a window.
        start += (WINDOW - 2) as u64;
    }
}
