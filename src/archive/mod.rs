//! The archive: every fetch as WARC 1.1 records that the world's tools can read.
//!
//! A downloader hands over what went over the wire; [`RecordBuilder`] turns it into
//! finished gzip members, one for each record, on that downloader's own thread
//! ([`Prepared`]). One [`Writer`] owns the files: it appends those members, tells the
//! [`Position`] after them, and turns to a new file when one is full. A file is called
//! `….warc.gz.open` until it is complete; beside it lies its index, `….cdxj`, sorted
//! once the file is complete. [`Reader`] lists, finds and verifies what is there, and
//! needs nothing but the folder.
//!
//! When bytes reach the operating system and the disk is up to the caller: the engine
//! writes its own state after the archive, and both have to agree after a crash. What
//! lies behind the last position that the engine recorded is cut off on reopening, and what
//! lies behind the last one that was synced is believed only as far as it can be read.
//!
//! - `record` builds records; `digest` and `date` are the two notations they need
//! - `writer` appends and rotates; `recover` puts right what a crash left, and sets damage
//!   aside; `limit` says when the disk is full
//! - `index` is the form of the index; `member` reads gzip members and records back
//! - `read` lists and finds; `verify` checks everything

pub(crate) mod date;
mod digest;
mod index;
mod limit;
mod member;
mod read;
mod record;
mod recover;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

use std::io;
use std::path::{Path, PathBuf};

pub use digest::Digest;
pub use index::Entry;
pub use limit::{DiskLimit, WhenFull};
pub use member::{Damage, Record};
pub use read::{Found, Original, Reader, StoredFile};
pub(crate) use record::interim_bytes;
pub use record::{Exchange, Outlinks, Prepared, RecordBuilder, RecordId, Response, Truncated};
pub use recover::Incident;
pub(crate) use recover::is_ours;
pub use verify::{Problem, Verified};
pub use writer::{Position, Settings, Writer};

/// The ending of a complete file.
const COMPLETE: &str = ".warc.gz";
/// The ending of a file that is still written to.
const OPEN: &str = ".warc.gz.open";
/// The ending of a file that could not be trusted and was set aside.
const DAMAGED: &str = ".warc.gz.damaged";
/// The ending of a complete file's index.
const INDEX: &str = ".cdxj";
/// The ending of an index that is still written to.
const INDEX_OPEN: &str = ".cdxj.open";

/// Why the archive could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The disk has no room left; nothing of the last append was lost.
    #[error("no room left on the disk for the archive file {0}")]
    DiskFull(PathBuf),
    /// The archive has reached the size that the user allows it.
    #[error(
        "the archive holds {} of {}: raise the limit or make room",
        people(*used_bytes),
        people(*limit_bytes)
    )]
    LimitReached {
        /// Bytes of archive and index.
        used_bytes: u64,
        /// Bytes that they may have.
        limit_bytes: u64,
    },
    /// A file could not be read or written. The cause is in the message, so it is not a
    /// source as well: it would be told twice.
    #[error("archive file {0}: {1}")]
    Io(PathBuf, io::Error),
    /// A record that was asked for cannot be read.
    #[error("a record of the archive file {0} {1}")]
    Damaged(PathBuf, Damage),
}

/// A size as people write it.
fn people(bytes: u64) -> String {
    let units = [
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
    ];
    match units.into_iter().find(|&(_, size)| bytes >= size) {
        // Cut off after the first digit: what is full is never said to be fuller.
        Some((unit, size)) => format!("{}.{} {unit}", bytes / size, bytes % size * 10 / size),
        None => format!("{bytes} bytes"),
    }
}

impl ArchiveError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull(path.to_owned())
            }
            _ => Self::Io(path.to_owned(), error),
        }
    }
}
