//! What can go wrong with the state on disk.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Why the state could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk has no room left. Nothing was lost; it goes on when there is room.
    #[error("no room left on the disk for {0}: make room, and it goes on by itself")]
    DiskFull(PathBuf),
    /// Another process uses the data directory.
    #[error("{0} is used by another PeerCrawl{1}: close it, or choose another --data directory")]
    InUse(PathBuf, String),
    /// The data was written by a later version of this program.
    #[error(
        "{path} has format {found} and this version of PeerCrawl knows {known}: install a newer one"
    )]
    Newer {
        /// The file that says so.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// What is there is not what was written.
    #[error("{0} is damaged: {1}")]
    Damaged(PathBuf, String),
    /// What was written in this run is not all there any more.
    #[error(
        "{0} has lost its last {1} entries, which could not be brought to the disk: start \
         PeerCrawl again, and what they were about is done again"
    )]
    Behind(PathBuf, u64),
    /// A file could not be read or written. The cause is in the message, so it is not a
    /// source as well: it would be told twice.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    /// The database failed otherwise; the next commit opens it again.
    #[error("{0}: {1}")]
    Database(PathBuf, fjall::Error),
}

/// What the system says of a sector that cannot be read.
const BAD_SECTOR: i32 = if cfg!(windows) { 23 } else { 5 };

impl StoreError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull(path.to_owned())
            }
            // It does not become better by itself: every start would end there.
            _ if error.raw_os_error() == Some(BAD_SECTOR) => {
                Self::Damaged(path.to_owned(), error.to_string())
            }
            _ => Self::Io(path.to_owned(), error),
        }
    }

    /// The same while the state is in use: damage stays until a start sets it aside.
    pub(super) fn until_restart(self) -> Self {
        match self {
            Self::Damaged(path, why) => {
                let why = format!("{why}; start PeerCrawl again, which sets it aside");
                Self::Damaged(path, why)
            }
            other => other,
        }
    }

    pub(super) fn of(path: &Path) -> impl FnOnce(fjall::Error) -> Self + '_ {
        use fjall::{Error, LsmError};
        |error| match error {
            Error::Io(error) | Error::Storage(LsmError::Io(error)) => match error.kind() {
                // A file is gone, or ends where there should be more of it: the folder
                // itself was there a moment ago.
                io::ErrorKind::NotFound
                | io::ErrorKind::UnexpectedEof
                | io::ErrorKind::InvalidData => Self::Damaged(path.to_owned(), error.to_string()),
                _ => Self::io(path)(error),
            },
            Error::Locked => Self::InUse(path.to_owned(), String::new()),
            Error::Poisoned | Error::KeyspaceDeleted => Self::Database(path.to_owned(), error),
            damage => Self::Damaged(path.to_owned(), damage.to_string()),
        }
    }
}

/// Calls into the database where it meets bytes from the disk. It trusts them in places
/// and panics if they are not what it wrote: that is damage, and no reason to go down.
pub(super) fn guarded<T>(
    path: &Path,
    act: impl FnOnce() -> fjall::Result<T>,
) -> Result<T, StoreError> {
    // Nothing that a panic might have left half-done is used again: what was being
    // opened is dropped, and what was being read is set aside.
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(result) => result.map_err(StoreError::of(path)),
        Err(_) => Err(StoreError::Damaged(
            path.to_owned(),
            "the database could not make sense of it".to_owned(),
        )),
    }
}
