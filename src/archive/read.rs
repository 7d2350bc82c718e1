//! What has been stored: listed and found, from nothing but the folder.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
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
    /// What the index of an open file becomes.
    complete_index: PathBuf,
}

impl StoredFile {
    /// Calls `each` with every response and revisit in it.
    pub fn list(&self, mut each: impl FnMut(Entry)) -> Result<(), ArchiveError> {
        self.for_each_line(|line| {
            if let Some(entry) = Entry::parse(line) {
                each(entry);
            }
        })
    }

    /// Calls `each` with every line of its index. A file may have been completed since it
    /// was listed; one that has been removed has no lines.
    fn for_each_line(&self, mut each: impl FnMut(&str)) -> Result<(), ArchiveError> {
        if !for_each_line(&self.index, &mut each)? && !self.is_complete {
            for_each_line(&self.complete_index, each)?;
        }
        Ok(())
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
        let file = |(name, is_complete): (String, bool)| {
            let (ending, index) = match is_complete {
                true => (COMPLETE, INDEX),
                false => (OPEN, INDEX_OPEN),
            };
            StoredFile {
                is_complete,
                bytes: size(&self.folder, &name, ending) + size(&self.folder, &name, index),
                index: path(&self.folder, &name, index),
                complete_index: path(&self.folder, &name, INDEX),
                name: format!("{name}{ending}"),
            }
        };
        Ok(self.names()?.into_iter().map(file).collect())
    }

    /// The names of the files, and whether they are complete: those first, oldest first.
    pub(super) fn names(&self) -> Result<Vec<(String, bool)>, ArchiveError> {
        // In this order: a file that is completed in between is in both lists, and not in
        // neither.
        let mut open = names(&self.folder, OPEN)?;
        let complete = names(&self.folder, COMPLETE)?;
        open.retain(|name| !complete.contains(name));
        let complete = complete.into_iter().map(|name| (name, true));
        let open = open.into_iter().map(|name| (name, false));
        Ok(complete.chain(open).collect())
    }

    /// Opens a file by its name without an ending, and tells which one it has. It may be
    /// completed at any moment, so the open name is tried first. `None` if it is gone.
    pub(super) fn open(&self, name: &str) -> Result<Option<(&'static str, File)>, ArchiveError> {
        for ending in [OPEN, COMPLETE] {
            let path = path(&self.folder, name, ending);
            match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                file => return Ok(Some((ending, file.map_err(ArchiveError::io(&path))?))),
            }
        }
        Ok(None)
    }

    /// The newest answer of a URL, with the payload's record if it is a revisit.
    pub fn get(&self, url: &str) -> Result<Option<Found>, ArchiveError> {
        let Some(entry) = self.newest(url, |entry| entry.url == url)? else {
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
        let Some((ending, file)) = self.open(name)? else {
            let gone = io::Error::new(io::ErrorKind::NotFound, "it has been removed");
            let path = path(&self.folder, name, COMPLETE);
            return Err(ArchiveError::Io(path, gone));
        };
        let path = path(&self.folder, name, ending);
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
        let has_it = |entry: &Entry| !entry.is_revisit() && entry.digest == digest;
        let is_it =
            |entry: &Entry| has_it(entry) && entry.url == url && entry.timestamp == timestamp;
        let entry = match self.newest(url, is_it)? {
            // A power cut may have taken it: the same payload may be here all the same.
            None => self.newest(digest, has_it)?,
            found => found,
        };
        entry.map(|entry| self.record(&entry)).transpose()
    }

    /// The newest entry that has this value, a URL or a digest, and is wanted.
    fn newest(
        &self,
        value: &str,
        is_wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Option<Entry>, ArchiveError> {
        // Not by its key: an earlier version may have made that in another way.
        let quoted = serde_json::to_string(value).unwrap_or_default();
        let quoted = memmem::Finder::new(&quoted);
        let mut newest: Option<Entry> = None;
        for file in self.files()? {
            file.for_each_line(|line| {
                if quoted.find(line.as_bytes()).is_some()
                    && let Some(entry) = Entry::parse(line)
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

/// Calls `each` with every whole line. False if there is no such index.
pub(super) fn for_each_line(path: &Path, mut each: impl FnMut(&str)) -> Result<bool, ArchiveError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
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
            return Ok(true);
        }
        each(&String::from_utf8_lossy(&line));
    }
}
