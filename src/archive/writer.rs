//! The one who owns the archive's files.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::date::timestamp;
use super::limit::{Complete, DiskLimit, Room, room};
use super::record::{Prepared, RecordBuilder};
use super::recover::{Incident, begun_ms, complete_files, names, recover};
use super::{ArchiveError, COMPLETE, INDEX, INDEX_OPEN, OPEN, index};
use crate::clock::Millis;

/// Appended bytes are handed to the operating system at the latest when so many wait.
const BUFFER_BYTES: usize = 1 << 20;
/// A file is complete when its index has grown to this, however small its records are: the
/// index is sorted in memory.
const MOST_INDEX_BYTES: u64 = 8 << 20;
/// What the record at the beginning of a file takes, about.
const INFO_BYTES: u64 = 1_024;

/// What a writer has to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the files are.
    pub folder: PathBuf,
    /// Whose files this writer begins: part of their names, because several states share
    /// a folder and each goes on with its own files alone.
    pub owner: String,
    /// A file that has reached this size, or a quarter of the limit, is complete: only
    /// complete files can be removed to make room. Its index is sorted in memory then, at
    /// about 300 bytes a page: 256 MB a file keeps that small.
    pub file_bytes: u64,
    /// Bytes that no other archive has, such as the peer's id: the ids of the records
    /// that begin its files are made from them.
    pub unique: Vec<u8>,
    /// What every file says of itself: software, operator, and so on.
    pub info: Vec<(String, String)>,
    /// How much disk all files may have together.
    pub limit: DiskLimit,
}

/// A place between two records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The file's name without its ending, which changes when it is complete.
    pub file: String,
    /// Bytes from the file's beginning.
    pub offset: u64,
}

/// A file of which the last bytes wait in memory. A write that failed half-way can be
/// tried again: what the disk took of it is written over.
pub(super) struct Tail {
    pub path: PathBuf,
    file: File,
    written: u64,
    /// How much of that the disk has, as far as we know.
    synced: u64,
    /// Why the system could not bring it to the disk. It says so once, may have dropped what
    /// it could not write, and reports success after that.
    unsynced: Option<(io::ErrorKind, String)>,
    waiting: Vec<u8>,
}

impl Tail {
    /// Goes on with a file at `offset`, which becomes its end.
    pub fn open(path: PathBuf, offset: u64) -> Result<Self, ArchiveError> {
        let opened = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = opened.map_err(ArchiveError::io(&path))?;
        file.set_len(offset).map_err(ArchiveError::io(&path))?;
        Ok(Self {
            path,
            file,
            written: offset,
            synced: offset,
            unsynced: None,
            waiting: Vec::new(),
        })
    }

    fn end(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
    }

    pub fn flush_to_os(&mut self) -> Result<(), ArchiveError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let written = self
            .file
            .seek(SeekFrom::Start(self.written))
            .and_then(|_| self.file.write_all(&self.waiting));
        written.map_err(ArchiveError::io(&self.path))?;
        self.written = self.end();
        self.waiting.clear();
        Ok(())
    }

    pub fn sync(&mut self) -> Result<(), ArchiveError> {
        self.flush_to_os()?;
        if self.unsynced.is_none()
            && let Err(error) = self.file.sync_data()
        {
            self.unsynced = Some((error.kind(), error.to_string()));
        }
        if let Some((kind, why)) = &self.unsynced {
            let error = io::Error::new(*kind, why.clone());
            return Err(ArchiveError::io(&self.path)(error));
        }
        self.synced = self.written;
        Ok(())
    }
}

/// The file that is written to, with its index.
pub(super) struct Current {
    pub name: String,
    pub records: Tail,
    pub index: Tail,
}

/// See the module. Whoever drops it without [`Writer::flush_to_os`] loses what waits.
pub struct Writer {
    settings: Settings,
    builder: RecordBuilder,
    current: Option<Current>,
    /// Those that this program named, oldest first.
    complete: VecDeque<Complete>,
    /// The disk that complete files of others take, which are never removed.
    others_bytes: u64,
    /// The disk that damaged files take, which were set aside.
    aside_bytes: u64,
    /// The number of the next file; numbers are never used again.
    next_number: u64,
}

impl Writer {
    /// Goes on where the engine's own state says that the archive ended, and tells what
    /// had to be put right. What lies behind `recorded` in an open file of this owner was
    /// never reported as stored and is cut off. In any other file, and with nothing
    /// recorded (a new state beside an older archive), every whole record is kept.
    /// `synced` is how much of the archive the disk is known to have, if that is known: what
    /// cannot be read behind it was lost in a power cut, and what cannot before is damage.
    pub fn open(
        settings: Settings,
        recorded: Option<&Position>,
        synced: Option<&Position>,
    ) -> Result<(Self, Vec<Incident>), ArchiveError> {
        fs::create_dir_all(&settings.folder).map_err(ArchiveError::io(&settings.folder))?;
        let recovered = recover(&settings.folder, &settings.owner, recorded, synced)?;
        let writer = Self {
            settings,
            builder: RecordBuilder::new(),
            current: recovered.current,
            complete: recovered.complete.into(),
            others_bytes: recovered.others_bytes,
            aside_bytes: recovered.aside_bytes,
            next_number: recovered.next_number,
        };
        Ok((writer, recovered.incidents))
    }

    /// Appends records, together and in one file, and tells the place behind them. They
    /// may wait in memory until [`Writer::flush_to_os`]. After an error nothing of them
    /// is in the archive, and they can be appended again.
    pub fn append(
        &mut self,
        prepared: &Prepared,
        now_ms: Millis,
    ) -> Result<Position, ArchiveError> {
        let quarter = self.settings.limit.limit_bytes / 4;
        let file_bytes = self.settings.file_bytes.min(quarter);
        let is_full = |current: &Current| {
            current.records.end() >= file_bytes || current.index.end() >= MOST_INDEX_BYTES
        };
        if self.current.as_ref().is_some_and(is_full) {
            self.complete()?;
        }
        let beginning = if self.current.is_some() {
            0
        } else {
            INFO_BYTES
        };
        self.make_room(beginning + prepared.most_bytes() as u64)?;
        let current = match &mut self.current {
            Some(current) => current,
            none => none.insert(begin(
                &self.settings,
                &mut self.builder,
                &mut self.next_number,
                now_ms,
            )?),
        };
        if current.records.waiting.len() >= BUFFER_BYTES {
            current.flush_to_os()?;
        }
        current.append(prepared);
        Ok(current.position())
    }

    /// Hands everything appended so far to the operating system: after that it outlives
    /// this process, though not a power cut.
    pub fn flush_to_os(&mut self) -> Result<(), ArchiveError> {
        self.current.as_mut().map_or(Ok(()), Current::flush_to_os)
    }

    /// Brings everything appended so far to the disk.
    pub fn sync(&mut self) -> Result<(), ArchiveError> {
        match &mut self.current {
            // The index can be made again from the records.
            Some(current) => current.index.flush_to_os().and(current.records.sync()),
            None => Ok(()),
        }
    }

    /// Completes the open file: sorts its index, brings both to the disk and gives them
    /// their final names. The next append begins another file.
    pub fn complete(&mut self) -> Result<(), ArchiveError> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        let complete = current.complete(&self.settings.folder)?;
        self.complete.push_back(complete);
        self.current = None;
        Ok(())
    }

    /// Ends the open file where the last [`Writer::sync`] that worked left it, and tells
    /// what that cut off; the next append begins another file. After one that failed, the
    /// system may have dropped what it had not written, and another one would not tell.
    pub fn give_up_unsynced(&mut self) -> Result<Vec<Incident>, ArchiveError> {
        let Some(current) = &self.current else {
            return Ok(Vec::new());
        };
        let synced = Position {
            file: current.name.clone(),
            offset: current.records.synced,
        };
        // As after a crash.
        let (again, incidents) = Self::open(self.settings.clone(), Some(&synced), Some(&synced))?;
        *self = again;
        self.complete()?;
        Ok(incidents)
    }

    /// The place behind the last record, if a file is open.
    pub fn position(&self) -> Option<Position> {
        self.current.as_ref().map(Current::position)
    }

    /// Whether the archive holds what lies before this place.
    pub fn holds(&self, place: &Position) -> bool {
        match self.current.as_ref().filter(|c| c.name == place.file) {
            Some(current) => current.records.end() >= place.offset,
            None => fs::metadata(path(&self.settings.folder, &place.file, COMPLETE))
                .is_ok_and(|file| file.len() >= place.offset),
        }
    }

    /// The disk that archive and indexes take, what was set aside, what is not this program's
    /// and what waits in memory included.
    pub fn used_bytes(&self) -> u64 {
        let complete: u64 = self.complete.iter().map(|file| file.bytes).sum();
        complete + self.stays_bytes()
    }

    /// What of that cannot be removed to make room.
    fn stays_bytes(&self) -> u64 {
        let open_bytes = self.current.as_ref().map_or(0, Current::bytes);
        open_bytes + self.others_bytes + self.aside_bytes
    }

    /// What was stored before this is gone with the files that were removed; 0 if none was.
    pub fn since_ms(&self) -> Millis {
        let open = self.current.as_ref().map(|current| &current.name);
        let oldest = self.complete.front().map(|file| &file.name).or(open);
        match oldest {
            Some(name) => begun_ms(name),
            None if self.next_number > 1 => Millis::MAX,
            None => 0,
        }
    }

    /// Another limit, as the user has just chosen it.
    pub fn set_limit(&mut self, limit: DiskLimit) {
        self.settings.limit = limit;
    }

    /// Deletes the oldest file with its index, even if it is the one that is written to,
    /// and tells how many bytes that freed; 0 if there is no file.
    pub fn drop_oldest(&mut self) -> Result<u64, ArchiveError> {
        if self.complete.is_empty() {
            self.complete()?;
        }
        let freed = self.complete.front().map_or(0, |oldest| oldest.bytes);
        self.remove_oldest()?;
        Ok(freed)
    }

    /// Completes the open file, and gives all files away: they count no more, and
    /// whoever has their names moves them elsewhere. What stays here counts again after
    /// [`Writer::count_again`], or when the archive is opened again.
    pub fn give_away(&mut self) -> Result<Vec<String>, ArchiveError> {
        self.complete()?;
        let names = names(&self.settings.folder, COMPLETE)?;
        self.complete.clear();
        self.others_bytes = 0;
        Ok(names)
    }

    /// Looks which complete files are here: others may have moved some, or failed to.
    pub fn count_again(&mut self) -> Result<(), ArchiveError> {
        let (complete, others_bytes) = complete_files(&self.settings.folder)?;
        (self.complete, self.others_bytes) = (complete.into(), others_bytes);
        Ok(())
    }

    fn make_room(&mut self, more_bytes: u64) -> Result<(), ArchiveError> {
        let limit = self.settings.limit;
        let Room::Remove(count) = room(limit, &self.complete, self.stays_bytes(), more_bytes)
        else {
            return Err(ArchiveError::LimitReached {
                used_bytes: self.used_bytes(),
                limit_bytes: limit.limit_bytes,
            });
        };
        for _ in 0..count {
            self.remove_oldest()?;
        }
        Ok(())
    }

    fn remove_oldest(&mut self) -> Result<(), ArchiveError> {
        let Some(oldest) = self.complete.front() else {
            return Ok(());
        };
        // The index goes first: a file without one is still a whole archive.
        for ending in [INDEX, COMPLETE] {
            remove(&path(&self.settings.folder, &oldest.name, ending))?;
        }
        self.complete.pop_front();
        Ok(())
    }
}

impl Current {
    fn position(&self) -> Position {
        Position {
            file: self.name.clone(),
            offset: self.records.end(),
        }
    }

    fn bytes(&self) -> u64 {
        self.records.end() + self.index.end()
    }

    fn append(&mut self, prepared: &Prepared) {
        let start = self.records.end();
        let filename = format!("{}{COMPLETE}", self.name);
        for line in &prepared.lines {
            let offset = start + line.offset;
            let line = line.clone();
            self.index.push(line.line(&filename, offset).as_bytes());
        }
        self.records.push(&prepared.bytes);
    }

    fn flush_to_os(&mut self) -> Result<(), ArchiveError> {
        self.records.flush_to_os()?;
        self.index.flush_to_os()
    }

    pub(super) fn complete(&mut self, folder: &Path) -> Result<Complete, ArchiveError> {
        self.records.sync()?;
        self.index.flush_to_os()?;
        let text = fs::read_to_string(&self.index.path);
        let text = text.map_err(ArchiveError::io(&self.index.path))?;
        // The index is there before the file is called complete.
        let index_bytes = write_index(folder, &self.name, &text)?;
        rename(&self.records.path, &path(folder, &self.name, COMPLETE))?;
        // Nothing may fail from here on: it is complete, and cannot be completed again.
        // Should a power cut bring the old names back, it is completed at the next start.
        if let Err(error) = remove(&self.index.path).and_then(|()| sync_folder(folder)) {
            tracing::warn!("after a file was completed: {error}");
        }
        tracing::debug!("{} is complete", self.name);
        Ok(Complete {
            name: self.name.clone(),
            bytes: self.records.end() + index_bytes,
        })
    }
}

/// Writes the index of a complete file, sorted, and tells its size. It has another name
/// first, so that half an index is never taken for a whole one.
pub(super) fn write_index(folder: &Path, name: &str, lines: &str) -> Result<u64, ArchiveError> {
    let sorted = index::sorted(lines);
    let draft = path(folder, name, ".cdxj.draft");
    let written = File::create(&draft).and_then(|mut file| {
        file.write_all(sorted.as_bytes())?;
        file.sync_all()
    });
    written.map_err(ArchiveError::io(&draft))?;
    rename(&draft, &path(folder, name, INDEX))?;
    Ok(sorted.len() as u64)
}

/// Begins a file with the record that describes it.
fn begin(
    settings: &Settings,
    builder: &mut RecordBuilder,
    next_number: &mut u64,
    now_ms: Millis,
) -> Result<Current, ArchiveError> {
    let (at, owner) = (timestamp(now_ms), &settings.owner);
    let name = format!("peercrawl-{:06}-{at}-{owner}", *next_number);
    let mut current = Current {
        records: Tail::open(path(&settings.folder, &name, OPEN), 0)?,
        index: Tail::open(path(&settings.folder, &name, INDEX_OPEN), 0)?,
        name,
    };
    *next_number += 1;
    let filename = format!("{}{COMPLETE}", current.name);
    current.append(&builder.info(&filename, now_ms, settings));
    sync_folder(&settings.folder)?;
    Ok(current)
}

pub(super) fn path(folder: &Path, name: &str, ending: &str) -> PathBuf {
    folder.join(format!("{name}{ending}"))
}

pub(super) fn rename(from: &Path, to: &Path) -> Result<(), ArchiveError> {
    fs::rename(from, to).map_err(ArchiveError::io(from))
}

/// Removes a file; one that is gone already is no error.
pub(super) fn remove(path: &Path) -> Result<(), ArchiveError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(ArchiveError::io(path)),
    }
}

/// Makes names last through a power cut. Windows keeps them by itself and cannot open a
/// folder as a file.
pub(super) fn sync_folder(folder: &Path) -> Result<(), ArchiveError> {
    if cfg!(unix) {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(ArchiveError::io(folder))?;
    }
    Ok(())
}
