//! What a crash left behind, put right before the archive is written to again.
//!
//! With a recorded position, an open file ends there: later bytes, and later open files
//! of the same owner, are the torn end. Everywhere else every whole record counts. A
//! complete file is never touched: what it holds behind a recorded position is stored
//! twice, which harms nobody. A file that is shorter than recorded has lost its end in a
//! power cut: it goes on behind its last whole record. One that cannot be read where it
//! should is renamed and named to the user, never deleted: somebody may be able to save
//! the rest of it.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::date::at_ms;
use super::index::Entry;
use super::limit::Complete;
use super::member::{Damage, read_member};
use super::writer::{Current, Position, Tail, path, remove, rename, write_index};
use super::{ArchiveError, COMPLETE, DAMAGED, INDEX, INDEX_OPEN, OPEN};
use crate::clock::Millis;

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
    /// A file could not be trusted and has another name now.
    SetAside {
        /// Its new name.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// A complete file had no index, and has one again.
    Indexed {
        /// The file.
        file: String,
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
            Self::SetAside { file, why } => {
                write!(f, "set an archive file aside as {file}: {why}")
            }
            Self::Indexed { file } => write!(f, "made a new index of the archive file {file}"),
            Self::Missing { file } => write!(f, "the archive file {file} is gone"),
        }
    }
}

pub(super) struct Recovered {
    pub current: Option<Current>,
    pub complete: Vec<Complete>,
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

/// Whose file it is, by its name.
fn owner(name: &str) -> Option<&str> {
    name.strip_prefix("peercrawl-")?.splitn(3, '-').nth(2)
}

pub(super) fn recover(
    folder: &Path,
    me: &str,
    recorded: Option<&Position>,
) -> Result<Recovered, ArchiveError> {
    let mut all = Vec::new();
    for ending in [COMPLETE, OPEN, DAMAGED] {
        all.extend(names(folder, ending)?);
    }
    let mut recovered = Recovered {
        current: None,
        complete: Vec::new(),
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
        recovered.open_file(folder, name, cut)?;
    }
    for name in names(folder, COMPLETE)? {
        if !path(folder, &name, INDEX).exists() {
            // Whoever looks for a URL sees the indexes alone. Damage shows when it is
            // verified; what lies before it can be found at least.
            let scanned = scan(&path(folder, &name, COMPLETE), 0, u64::MAX, &name)?;
            write_index(folder, &name, &scanned.lines)?;
            recovered.incidents.push(Incident::Indexed { file: name });
        }
    }
    recovered.complete = complete_files(folder)?;
    for name in names(folder, DAMAGED)? {
        recovered.aside_bytes += size(folder, &name, DAMAGED);
    }
    Ok(recovered)
}

/// The complete files with their indexes, oldest first.
pub(super) fn complete_files(folder: &Path) -> Result<Vec<Complete>, ArchiveError> {
    let files = names(folder, COMPLETE)?.into_iter().map(|name| Complete {
        bytes: size(folder, &name, COMPLETE) + size(folder, &name, INDEX),
        name,
    });
    Ok(files.collect())
}

/// The size of a file, which may have gone.
pub(super) fn size(folder: &Path, name: &str, ending: &str) -> u64 {
    fs::metadata(path(folder, name, ending)).map_or(0, |file| file.len())
}

impl Recovered {
    /// Cuts an open file at the offset, or behind its last whole record. The newest
    /// recorded one stays open; any other is completed.
    fn open_file(
        &mut self,
        folder: &Path,
        name: String,
        cut: Option<u64>,
    ) -> Result<(), ArchiveError> {
        let open = path(folder, &name, OPEN);
        let length = fs::metadata(&open).map_err(ArchiveError::io(&open))?.len();
        let wanted = cut.unwrap_or(length);
        let there = wanted.min(length);
        let (mut lines, indexed) = whole_lines(folder, &name, there);
        let mut scanned = scan(&open, indexed, there, &name)?;
        if scanned.damage.is_some() && indexed > 0 {
            // Perhaps it is the index that is wrong about where records end.
            lines.clear();
            scanned = scan(&open, 0, there, &name)?;
        }
        // A crash leaves half a record at the end, and a power cut may leave zeros there
        // or less than was recorded; anything else is damage. What cannot be read at all
        // is not looked at again.
        let is_damaged = match &scanned.damage {
            None => false,
            Some(Damage::Io(_)) => true,
            Some(Damage::CutOff) if cut.is_none() || wanted > length => false,
            Some(_) => !is_blank(&open, scanned.end, there)?,
        };
        if let Some(damage) = scanned.damage.filter(|_| is_damaged) {
            let why = format!("the record at {} {damage}", scanned.end);
            return self.set_aside(folder, &name, why);
        }
        let end = scanned.end;
        if cut.is_some() && wanted > end {
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
        if cut.is_some() {
            self.current = Some(current);
        } else {
            current.complete(folder)?;
        }
        Ok(())
    }

    fn set_aside(&mut self, folder: &Path, name: &str, why: String) -> Result<(), ArchiveError> {
        rename(&path(folder, name, OPEN), &path(folder, name, DAMAGED))?;
        remove(&path(folder, name, INDEX_OPEN))?;
        let file = format!("{name}{DAMAGED}");
        self.incidents.push(Incident::SetAside { file, why });
        Ok(())
    }
}

/// Whether there are only zeros between two offsets.
fn is_blank(path: &Path, from: u64, to: u64) -> Result<bool, ArchiveError> {
    let mut file = File::open(path).map_err(ArchiveError::io(path))?;
    file.seek(SeekFrom::Start(from))
        .map_err(ArchiveError::io(path))?;
    let bytes = BufReader::new(file.take(to - from)).bytes();
    for byte in bytes {
        if byte.map_err(ArchiveError::io(path))? != 0 {
            return Ok(false);
        }
    }
    Ok(true)
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
