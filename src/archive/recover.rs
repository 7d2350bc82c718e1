//! What a crash left behind, put right before the archive is written to again.
//!
//! With a recorded position, an open file ends there: later bytes, and later open files
//! of the same owner, are the torn end. Everywhere else every whole record counts. A
//! complete file is cut only where it is damaged: what it holds behind a recorded position is
//! stored twice, which harms nobody.
//!
//! What the disk had not been asked for when the power was cut may be there, or not, or in
//! part, in any order. So the open file is read from the place that was last synced, and
//! goes on behind the last whole record before the first that is not; its pages are fetched
//! again. Where that place is not known, as in the files of another state, all of it is
//! read: half a record at the end, or zeros, are what a crash leaves.
//!
//! Anything else is damage. What lies before it stays where it is, and can be found; the
//! rest is kept under another name, and named to the user, never deleted: somebody may be
//! able to save it. Complete files are looked at in a few places at each start; what is
//! wrong elsewhere in them shows when the archive is verified.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::date::at_ms;
use super::index::{Entry, sorted};
use super::limit::Complete;
use super::member::{Damage, Record, read_member};
use super::verify::next_member;
use super::writer::{Current, Position, Tail, path, remove, rename, sync_folder, write_index};
use super::{ArchiveError, COMPLETE, DAMAGED, INDEX, INDEX_OPEN, OPEN};
use crate::clock::Millis;

/// How long complete files are looked at, the newest first: a start must not wait for
/// hundreds of them on a slow disk.
const LOOKING: Duration = Duration::from_secs(1);
/// What is read of the end of a complete file, and of its index.
const END_BYTES: u64 = 1 << 16;

/// Something that was put right when the archive was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incident {
    /// The end of a file had not been recorded, and is to be fetched again.
    Cut {
        /// The file.
        file: String,
        /// How many bytes were cut off.
        bytes: u64,
    },
    /// The end of a file that had been recorded never reached the disk.
    Short {
        /// The file.
        file: String,
        /// How many bytes are missing.
        bytes: u64,
    },
    /// A file is damaged: what follows its sound records is kept under another name.
    SetAside {
        /// That name.
        file: String,
        /// How many bytes are sound, and stay where they were; with none, all of the file
        /// has that name.
        sound_bytes: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A complete file has a new index.
    Indexed {
        /// The file.
        file: String,
        /// What was wrong with the one it had.
        why: String,
    },
    /// The file that was last written to is gone.
    Missing {
        /// The file.
        file: String,
    },
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { file, bytes } => {
                write!(
                    f,
                    "cut {bytes} unrecorded bytes off the archive file {file}"
                )
            }
            Self::Short { file, bytes } => write!(
                f,
                "the last {bytes} bytes of the archive file {file} did not reach the disk: \
                 their pages are fetched again"
            ),
            Self::SetAside {
                file,
                sound_bytes,
                why,
            } => match sound_bytes {
                0 => write!(f, "set an archive file aside as {file}: {why}"),
                _ => write!(f, "set the end of an archive file aside as {file}: {why}"),
            },
            Self::Indexed { file, why } => {
                write!(f, "made a new index of the archive file {file}: {why}")
            }
            Self::Missing { file } => write!(f, "the archive file {file} is gone"),
        }
    }
}

pub(super) struct Recovered {
    pub current: Option<Current>,
    pub complete: Vec<Complete>,
    /// Bytes of complete files that are not this program's.
    pub others_bytes: u64,
    pub next_number: u64,
    /// Bytes of damaged files.
    pub aside_bytes: u64,
    pub incidents: Vec<Incident>,
}

/// The names in a folder that have this ending, without it, in order of their numbers.
pub(super) fn names(folder: &Path, ending: &str) -> Result<Vec<String>, ArchiveError> {
    let mut names = Vec::new();
    let items = match fs::read_dir(folder) {
        // Nothing has been stored yet.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(names),
        items => items.map_err(ArchiveError::io(folder))?,
    };
    for item in items {
        let item = item.map_err(ArchiveError::io(folder))?;
        if let Some(name) = item.file_name().to_str()
            && let Some(name) = name.strip_suffix(ending)
        {
            names.push(name.to_owned());
        }
    }
    names.sort_by_cached_key(|name| (number(name), name.clone()));
    Ok(names)
}

/// The number in a file's name; another's file counts as the oldest.
fn number(name: &str) -> u64 {
    let number = name
        .strip_prefix("peercrawl-")
        .and_then(|n| n.split('-').next());
    number.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// When a file had been begun for certain, by its name, which tells the second; 0 for the
/// first one of all, before which there is nothing.
pub(super) fn begun_ms(name: &str) -> Millis {
    let at = name.split('-').nth(2).and_then(at_ms);
    let at = at.filter(|_| number(name) > 1);
    at.map_or(0, |at| at + 1_000)
}

/// Whose file it is, by its name; `None` if this program did not give it that.
fn owner(name: &str) -> Option<&str> {
    let mut parts = name.strip_prefix("peercrawl-")?.splitn(3, '-');
    let (number, at) = (parts.next()?, parts.next()?);
    number.parse::<u64>().ok().and(at_ms(at))?;
    parts.next()
}

/// Whether this program gave a file its name: no other is ever removed.
pub(crate) fn is_ours(name: &str) -> bool {
    owner(name).is_some()
}

pub(super) fn recover(
    folder: &Path,
    me: &str,
    recorded: Option<&Position>,
    synced: Option<&Position>,
) -> Result<Recovered, ArchiveError> {
    let mut all = Vec::new();
    for ending in [COMPLETE, OPEN, DAMAGED] {
        all.extend(names(folder, ending)?);
    }
    let mut recovered = Recovered {
        current: None,
        complete: Vec::new(),
        others_bytes: 0,
        aside_bytes: 0,
        // The recorded name counts too: no name stands for two files, one of them gone.
        next_number: recorded
            .map(|recorded| &recorded.file)
            .into_iter()
            .chain(&all)
            .map(|name| number(name) + 1)
            .max()
            .unwrap_or(1),
        incidents: Vec::new(),
    };
    if let Some(recorded) = recorded
        && !all.contains(&recorded.file)
    {
        let file = recorded.file.clone();
        recovered.incidents.push(Incident::Missing { file });
    }
    let later = |name: &str| recorded.is_some_and(|r| number(name) > number(&r.file));
    for name in names(folder, OPEN)? {
        let cut = match recorded {
            Some(recorded) if recorded.file == name => Some(recorded.offset),
            Some(_) if owner(&name) == Some(me) && later(&name) => Some(0),
            _ => None,
        };
        // Of a file that was begun since, nothing had been brought to the disk.
        let synced = synced.filter(|_| cut.is_some());
        let synced = synced.map(|synced| {
            if synced.file == name {
                synced.offset
            } else {
                0
            }
        });
        recovered.open_file(folder, name, cut, synced)?;
    }
    recovered.complete_ones(folder)?;
    (recovered.complete, recovered.others_bytes) = complete_files(folder)?;
    for name in names(folder, DAMAGED)? {
        recovered.aside_bytes += size(folder, &name, DAMAGED);
    }
    Ok(recovered)
}

/// The complete files of this program with their indexes, oldest first, and the bytes of
/// those that are not.
pub(super) fn complete_files(folder: &Path) -> Result<(Vec<Complete>, u64), ArchiveError> {
    let files = names(folder, COMPLETE)?.into_iter().map(|name| Complete {
        bytes: size(folder, &name, COMPLETE) + size(folder, &name, INDEX),
        name,
    });
    let (ours, others): (_, Vec<_>) = files.partition(|file| is_ours(&file.name));
    Ok((ours, others.iter().map(|file| file.bytes).sum()))
}

/// The size of a file, which may have gone.
pub(super) fn size(folder: &Path, name: &str, ending: &str) -> u64 {
    fs::metadata(path(folder, name, ending)).map_or(0, |file| file.len())
}

impl Recovered {
    /// Cuts an open file at the offset, or behind its last whole record. The newest
    /// recorded one stays open; any other is completed, and so is one that is damaged.
    /// `synced` is how much of it the disk is known to have had.
    fn open_file(
        &mut self,
        folder: &Path,
        name: String,
        cut: Option<u64>,
        synced: Option<u64>,
    ) -> Result<(), ArchiveError> {
        let open = path(folder, &name, OPEN);
        let length = fs::metadata(&open).map_err(ArchiveError::io(&open))?.len();
        let wanted = cut.unwrap_or(length);
        let there = wanted.min(length);
        // An index tells where records are, not whether the disk has them.
        let trusted = there.min(synced.unwrap_or(0));
        let (mut lines, indexed) = whole_lines(folder, &name, trusted);
        let mut scanned = scan(&open, indexed, there, &name)?;
        if scanned.damage.is_some() && scanned.end < trusted && indexed > 0 {
            // Perhaps it is the index that is wrong about where records end.
            lines.clear();
            scanned = scan(&open, 0, there, &name)?;
        }
        let end = scanned.end;
        let damage = scanned.damage.filter(|damage| match (damage, synced) {
            // It never worked, or works no more.
            (Damage::Io(_), _) => true,
            (_, Some(synced)) => end < synced,
            (_, None) => !is_torn(&open, end, there),
        });
        // What was synced is not written over: nobody would look at it after a power cut.
        let goes_on = cut.is_some() && damage.is_none() && end >= synced.unwrap_or(0);
        if let Some(damage) = damage {
            self.set_aside(folder, &name, OPEN, end, &damage)?;
        } else if cut.is_some() && wanted > end {
            self.incidents.push(Incident::Short {
                file: name.clone(),
                bytes: wanted - end,
            });
        } else if length > end {
            let bytes = length - end;
            self.incidents.push(Incident::Cut {
                file: name.clone(),
                bytes,
            });
        }
        if end == 0 {
            remove(&path(folder, &name, INDEX_OPEN))?;
            return remove(&open);
        }
        // A completion that broke off half-way begins anew.
        remove(&path(folder, &name, INDEX))?;
        let mut current = Current {
            records: Tail::open(open, end)?,
            index: Tail::open(path(folder, &name, INDEX_OPEN), 0)?,
            name,
        };
        current.index.push(lines.as_bytes());
        current.index.push(scanned.lines.as_bytes());
        current.index.flush_to_os()?;
        // On the disk before anything is written behind it: after a power cut, bytes that were
        // cut off would be taken for new ones. And whoever finds a page here takes it for
        // stored, while a process that was killed has left the last seconds to the system.
        current.records.sync()?;
        if goes_on {
            self.current = Some(current);
        } else {
            current.complete(folder)?;
        }
        Ok(())
    }

    /// Looks at the complete files, newest first, and gives those an index that have none.
    fn complete_ones(&mut self, folder: &Path) -> Result<(), ArchiveError> {
        let begun = Instant::now();
        for name in names(folder, COMPLETE)?.into_iter().rev() {
            // Whoever looks for a URL sees the indexes alone.
            let why = if !path(folder, &name, INDEX).exists() {
                "it had none"
            } else if is_ours(&name) && begun.elapsed() < LOOKING && !looks_whole(folder, &name) {
                "it was wrong"
            } else {
                continue;
            };
            self.complete_file(folder, &name, why)?;
        }
        Ok(())
    }

    /// Reads all of a complete file. Its sound records get a new index if theirs was wrong,
    /// for this reason; what follows them is set aside, unless it is somebody else's file.
    fn complete_file(&mut self, folder: &Path, name: &str, why: &str) -> Result<(), ArchiveError> {
        let scanned = scan(&path(folder, name, COMPLETE), 0, u64::MAX, name)?;
        let mut why = why.to_owned();
        match &scanned.damage {
            Some(damage) if is_ours(name) => {
                self.set_aside(folder, name, COMPLETE, scanned.end, damage)?;
                if scanned.end == 0 {
                    return remove(&path(folder, name, INDEX));
                }
            }
            Some(damage) => why = format!("{why}; the record at {} {damage}", scanned.end),
            None => {}
        }
        let before = fs::read_to_string(path(folder, name, INDEX)).ok();
        if before.is_none_or(|before| before != sorted(&scanned.lines)) {
            write_index(folder, name, &scanned.lines)?;
            let file = name.to_owned();
            self.incidents.push(Incident::Indexed { file, why });
        }
        Ok(())
    }

    /// Leaves the sound records of a file where they are, and keeps what follows under
    /// another name.
    fn set_aside(
        &mut self,
        folder: &Path,
        name: &str,
        ending: &str,
        sound_bytes: u64,
        damage: &Damage,
    ) -> Result<(), ArchiveError> {
        let damaged = path(folder, name, ending);
        let (file, aside) = free_name(folder, name);
        let draft = path(folder, name, ".warc.gz.draft");
        if sound_bytes == 0 {
            rename(&damaged, &aside)?;
        } else {
            match copy(&damaged, sound_bytes..u64::MAX, &draft) {
                Ok(()) => {
                    rename(&draft, &aside)?;
                    // On the disk under that name before it goes from here.
                    sync_folder(folder)?;
                    let cut = OpenOptions::new().write(true).open(&damaged);
                    let cut = cut.and_then(|file| {
                        file.set_len(sound_bytes)?;
                        file.sync_all()
                    });
                    cut.map_err(ArchiveError::io(&damaged))?;
                }
                // It cannot be read, and all of it goes.
                Err(ArchiveError::Io(..)) => {
                    copy(&damaged, 0..sound_bytes, &draft)?;
                    rename(&damaged, &aside)?;
                    rename(&draft, &damaged)?;
                }
                Err(error) => return Err(error),
            }
        }
        self.incidents.push(Incident::SetAside {
            file,
            sound_bytes,
            why: format!("the record at {sound_bytes} {damage}"),
        });
        Ok(())
    }
}

/// A name that nothing has which was set aside before.
fn free_name(folder: &Path, name: &str) -> (String, PathBuf) {
    let mut file = format!("{name}{DAMAGED}");
    let mut number = 1;
    while folder.join(&file).exists() {
        number += 1;
        file = format!("{name}-{number}{DAMAGED}");
    }
    let path = folder.join(&file);
    (file, path)
}

/// Copies a part of a file into another, on the disk.
fn copy(from: &Path, part: Range<u64>, to: &Path) -> Result<(), ArchiveError> {
    let copied = File::open(from).and_then(|mut source| {
        source.seek(SeekFrom::Start(part.start))?;
        let mut target = File::create(to)?;
        io::copy(&mut source.take(part.end - part.start), &mut target)?;
        target.sync_all()
    });
    if copied.is_err() {
        // Half a copy only takes room.
        let _gone = fs::remove_file(to);
    }
    copied.map_err(ArchiveError::io(from))
}

/// Whether what cannot be read at the end of a file is what a crash leaves there: half a
/// record, zeros, or one before the other, and no whole record behind it.
fn is_torn(path: &Path, from: u64, to: u64) -> bool {
    let is_torn = || -> io::Result<bool> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(from))?;
        let mut reader = BufReader::with_capacity(1 << 16, file.take(to - from));
        let (mut at, mut half) = (0, 0);
        loop {
            let mut chunk = Vec::with_capacity(1 << 16);
            let count = reader.by_ref().take(1 << 16).read_to_end(&mut chunk)?;
            if let Some(last) = chunk.iter().rposition(|byte| *byte != 0) {
                half = at + last as u64 + 1;
            }
            at += count as u64;
            if count == 0 {
                break;
            }
        }
        let mut file = reader.into_inner().into_inner();
        file.seek(SeekFrom::Start(from))?;
        let is_half = matches!(
            read_member(BufReader::new((&file).take(half))),
            Ok(None) | Err(Damage::CutOff)
        );
        let next = next_member(&file, path, from + 1).map_err(io::Error::other)?;
        Ok(is_half && next.is_none_or(|next| next >= to))
    };
    // What cannot be read is damage.
    is_torn().unwrap_or(false)
}

/// Whether a complete file is as it should be in a few places: its beginning, its end, and
/// where the end of its index leads. One that cannot be opened is left to whoever has it.
fn looks_whole(folder: &Path, name: &str) -> bool {
    let complete = path(folder, name, COMPLETE);
    let Ok(file) = File::open(&complete) else {
        return true;
    };
    let member = |at: u64| {
        let mut reader = BufReader::new(&file);
        reader.seek(SeekFrom::Start(at)).ok()?;
        read_member(reader).ok().flatten()
    };
    let Some((_, first_bytes)) = member(0) else {
        return false;
    };
    let length = size(folder, name, COMPLETE);
    let Some(last) = last_of_index(folder, name) else {
        return length == first_bytes;
    };
    let is_last = |(record, bytes): (Record, u64)| {
        bytes == last.length && record.field("WARC-Target-URI") == Some(&last.url)
    };
    if !member(last.offset).is_some_and(is_last) {
        return false;
    }
    // From a record near the end, or from one that is known if the last is longer than that.
    let near = length.saturating_sub(END_BYTES);
    let Ok(next) = next_member(&file, &complete, near) else {
        return false;
    };
    let rest = scan(&complete, next.unwrap_or(last.offset), length, name);
    rest.is_ok_and(|rest| rest.damage.is_none())
}

/// Of the last lines of a sorted index, the one whose record ends last.
fn last_of_index(folder: &Path, name: &str) -> Option<Entry> {
    let mut file = File::open(path(folder, name, INDEX)).ok()?;
    let from = size(folder, name, INDEX).saturating_sub(END_BYTES);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // The first one may be half a line, which is none.
    let entries = text.lines().filter_map(Entry::parse);
    entries.max_by_key(|entry| entry.offset.saturating_add(entry.length))
}

/// The lines of an open index that belong to records before `end`, and where the last
/// of those records ends. The index may lag behind its file, or be ahead of it. The last
/// line is left out: whether its record is there shows when it is read.
fn whole_lines(folder: &Path, name: &str, end: u64) -> (String, u64) {
    let bytes = fs::read(path(folder, name, INDEX_OPEN)).unwrap_or_default();
    let mut kept = String::new();
    let mut indexed = 0;
    let mut before_last = (0, 0);
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        let text = str::from_utf8(line).ok().filter(|l| l.ends_with('\n'));
        let Some((text, entry)) = text.and_then(|t| Some((t, Entry::parse(t.trim_end())?))) else {
            break;
        };
        let after = entry.offset.saturating_add(entry.length);
        if entry.offset < indexed || after > end {
            break;
        }
        before_last = (kept.len(), indexed);
        indexed = after;
        kept.push_str(text);
    }
    kept.truncate(before_last.0);
    (kept, before_last.1)
}

struct Scanned {
    lines: String,
    /// Behind the last whole record.
    end: u64,
    damage: Option<Damage>,
}

/// Reads the records between two offsets and makes their index lines.
fn scan(open: &Path, from: u64, end: u64, name: &str) -> Result<Scanned, ArchiveError> {
    let mut file = File::open(open).map_err(ArchiveError::io(open))?;
    file.seek(SeekFrom::Start(from))
        .map_err(ArchiveError::io(open))?;
    let mut reader = BufReader::with_capacity(1 << 16, file.take(end - from));
    let mut scanned = Scanned {
        lines: String::new(),
        end: from,
        damage: None,
    };
    let filename = format!("{name}{COMPLETE}");
    loop {
        match read_member(&mut reader) {
            Ok(None) => return Ok(scanned),
            Ok(Some((record, bytes))) => {
                if let Some(pending) = record.pending(bytes) {
                    scanned
                        .lines
                        .push_str(&pending.line(&filename, scanned.end));
                }
                scanned.end += bytes;
            }
            Err(damage) => {
                scanned.damage = Some(damage);
                return Ok(scanned);
            }
        }
    }
}
