//! What has been stored: listed and found, from nothing but the folder.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::date::timestamp_of;
use super::digest::Digest;
use super::index::Entry;
use super::member::{Damage, Record, read_member};
use super::recover::{names, size};
use super::writer::path;
use super::{ArchiveError, COMPLETE, INDEX, INDEX_OPEN, OPEN};
use crate::clock::Millis;

/// Where and when a content was first seen, as the owner of its fingerprint answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// The URL that it was fetched from.
    pub url: String,
    /// When.
    pub at_ms: Millis,
    /// The digest of its payload as sent.
    pub payload_digest: Digest,
}

/// A stored answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is stored.
    pub entry: Entry,
    /// The record itself.
    pub record: Record,
    /// If the record is a revisit: the one that holds the payload. `None` if another
    /// peer has it, or if its file was removed.
    pub original: Option<Record>,
}

/// A file with its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name, which ends in `.open` until it is complete.
    pub name: String,
    /// Whether it is: then it never changes again.
    pub is_complete: bool,
    /// The disk that both take.
    pub bytes: u64,
    index: PathBuf,
}

impl StoredFile {
    /// Calls `each` with every response and revisit in it.
    pub fn list(&self, mut each: impl FnMut(Entry)) -> Result<(), ArchiveError> {
        for_each_line(&self.index, |line| {
            if let Some(entry) = Entry::parse(line) {
                each(entry);
            }
        })
    }
}

/// Reads an archive, complete files and open ones. It changes nothing, and another
/// process may be writing meanwhile.
pub struct Reader {
    pub(super) folder: PathBuf,
}

impl Reader {
    /// The archive in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Calls `each` with every stored response and revisit, file by file.
    pub fn list(&self, mut each: impl FnMut(Entry)) -> Result<(), ArchiveError> {
        for file in self.files()? {
            file.list(&mut each)?;
        }
        Ok(())
    }

    /// The files, oldest first. One is open or complete, and has the index that goes with
    /// that.
    pub fn files(&self) -> Result<Vec<StoredFile>, ArchiveError> {
        let mut files = Vec::new();
        for (ending, index) in [(COMPLETE, INDEX), (OPEN, INDEX_OPEN)] {
            for name in names(&self.folder, ending)? {
                files.push(StoredFile {
                    is_complete: ending == COMPLETE,
                    bytes: size(&self.folder, &name, ending) + size(&self.folder, &name, index),
                    index: path(&self.folder, &name, index),
                    name: format!("{name}{ending}"),
                });
            }
        }
        Ok(files)
    }

    /// The newest answer of a URL, with the payload's record if it is a revisit.
    pub fn get(&self, url: &str) -> Result<Option<Found>, ArchiveError> {
        let Some(entry) = self.newest(url, |_| true)? else {
            return Ok(None);
        };
        let record = self.record(&entry)?;
        let original = match entry.is_revisit() {
            true => self.original(&record)?,
            false => None,
        };
        Ok(Some(Found {
            entry,
            record,
            original,
        }))
    }

    /// The record of an entry.
    pub fn record(&self, entry: &Entry) -> Result<Record, ArchiveError> {
        let name = entry
            .filename
            .strip_suffix(COMPLETE)
            .unwrap_or(&entry.filename);
        let complete = path(&self.folder, name, COMPLETE);
        // A file may be completed between the look at its index and now.
        let (path, file) = match File::open(&complete) {
            Ok(file) => (complete, file),
            Err(_) => {
                let open = path(&self.folder, name, OPEN);
                let file = File::open(&open).map_err(ArchiveError::io(&open))?;
                (open, file)
            }
        };
        let mut reader = BufReader::new(file);
        reader
            .seek(SeekFrom::Start(entry.offset))
            .map_err(ArchiveError::io(&path))?;
        match read_member(reader) {
            Ok(Some((record, _))) => Ok(record),
            Ok(None) => Err(ArchiveError::Damaged(path, Damage::CutOff)),
            Err(damage) => Err(ArchiveError::Damaged(path, damage)),
        }
    }

    /// The record that a revisit refers to.
    fn original(&self, revisit: &Record) -> Result<Option<Record>, ArchiveError> {
        let url = revisit
            .field("WARC-Refers-To-Target-URI")
            .unwrap_or_default();
        let date = revisit.field("WARC-Refers-To-Date").unwrap_or_default();
        let digest = revisit.field("WARC-Payload-Digest").unwrap_or_default();
        let timestamp = timestamp_of(date);
        let is_it = |entry: &Entry| {
            !entry.is_revisit() && entry.timestamp == timestamp && entry.digest == digest
        };
        let entry = self.newest(url, is_it)?;
        entry.map(|entry| self.record(&entry)).transpose()
    }

    fn newest(
        &self,
        url: &str,
        is_wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Option<Entry>, ArchiveError> {
        // Not by its key: an earlier version may have made that in another way.
        let quoted = serde_json::to_string(url).unwrap_or_default();
        let quoted = memmem::Finder::new(&quoted);
        let mut newest: Option<Entry> = None;
        for file in self.files()? {
            for_each_line(&file.index, |line| {
                if quoted.find(line.as_bytes()).is_some()
                    && let Some(entry) = Entry::parse(line)
                    && entry.url == url
                    && is_wanted(&entry)
                    && newest
                        .as_ref()
                        .is_none_or(|n| n.timestamp <= entry.timestamp)
                {
                    newest = Some(entry);
                }
            })?;
        }
        Ok(newest)
    }
}

/// Calls `each` with every whole line; an index that is gone has none.
pub(super) fn for_each_line(path: &Path, mut each: impl FnMut(&str)) -> Result<(), ArchiveError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        file => file.map_err(ArchiveError::io(path))?,
    };
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = reader
            .read_until(b'\n', &mut line)
            .map_err(ArchiveError::io(path))?;
        if count == 0 || line.pop() != Some(b'\n') {
            return Ok(());
        }
        each(&String::from_utf8_lossy(&line));
    }
}
