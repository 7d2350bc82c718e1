//! The state on disk: what must outlive this process.
//!
//! [`DataFolder`] is the directory itself: one process at a time, a format version, and
//! the peer's secret key. [`Store`] keeps the crawl's state in it. The engine collects
//! what happened in a [`Batch`] and commits it at least every 50 ms, after the archive
//! records that it speaks of; a batch is in the store as a whole or not at all, also
//! after `kill -9`. [`Store::sync`] brings everything to the disk, at least every 2 s.
//! At start the engine reads everything back ([`Store::for_each_site`] and the like);
//! a long queue is read segment by segment ([`Store::queue_segment`]).
//!
//! A site's record is small and written whenever it changes; its seen URLs are not in it.
//! They are noted one by one, so that no set of millions is ever written as a whole, and
//! one of them can be looked up without the others.
//!
//! The database drops what it cannot read at the end of its journal, for that is how a crash
//! leaves it. So batches are numbered, and the number that the disk was known to have is
//! noted beside them: what is missing up to there was lost by damage ([`Store::lost`]).
//!
//! - `folder` is the data directory; `batch` what is written; `tables` where it goes
//! - `read` reads it back; `error` says what can go wrong

mod batch;
mod error;
mod folder;
mod read;
mod tables;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use fjall::{Database, PersistMode};
use parking_lot::{Mutex, RwLock};

pub use batch::Batch;
pub use error::StoreError;
use error::guarded;
pub use folder::{DataFolder, SetAside};
use tables::Tables;

/// The state of one peer. It may be shared between threads; commits queue up.
pub struct Store {
    path: PathBuf,
    /// `None` after an error that the database does not recover from by itself, a full
    /// disk above all: the next commit opens it again. Only whoever replaces it keeps others
    /// out: they go on reading while a batch is written or brought to the disk.
    open: RwLock<Option<Opened>>,
    lost: u64,
}

struct Opened {
    path: PathBuf,
    database: Database,
    tables: Tables,
    /// The number of the last batch; batches are written one at a time.
    committed: Mutex<u64>,
    /// Holds the number of the last batch that is on the disk.
    synced: Mutex<File>,
    /// How many batches it should have, and has not.
    lost: u64,
}

/// The name of that file, beside the database's own.
const SYNCED: &str = "synced";

impl Store {
    /// Opens the state in a data folder, or another beside it under its own name. A state
    /// that cannot be read is given another name and told of, and an empty one takes its
    /// place.
    pub fn open(folder: &DataFolder, name: &str) -> Result<(Self, Option<SetAside>), StoreError> {
        let path = folder.path().join(name);
        let (open, set_aside) = match Opened::open(&path) {
            Err(StoreError::Damaged(path, why)) => {
                let set_aside = SetAside::rename(&path, why)?;
                (Opened::open(&path)?, Some(set_aside))
            }
            open => (open?, None),
        };
        Ok((Self::new(path, open), set_aside))
    }

    fn new(path: PathBuf, open: Opened) -> Self {
        Self {
            path,
            lost: open.lost,
            open: RwLock::new(Some(open)),
        }
    }

    /// How many of the last batches were on the disk and are not to be read any more.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// For damage that shows only when a part is read: gives the whole state another
    /// name and begins an empty one.
    pub fn set_aside(self, why: &StoreError) -> Result<(Self, SetAside), StoreError> {
        let Self { path, open, .. } = self;
        drop(open);
        let set_aside = SetAside::rename(&path, why.to_string())?;
        let open = Opened::open(&path)?;
        Ok((Self::new(path, open), set_aside))
    }

    /// Writes a batch, as a whole or not at all, and hands it to the operating system.
    /// After an error it can be committed again; with a full disk that works as soon as
    /// there is room.
    pub fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        if let Some(open) = &*self.open.read() {
            let Err(error) = open.commit(batch) else {
                return Ok(());
            };
            tracing::warn!("the state is opened again: {error}");
        }
        // The database takes nothing more in after a failed write, in the background or
        // here. Its journal is sound: it is opened again, which tells a full disk from
        // anything else. A batch may so be written twice, which changes nothing.
        let mut guard = self.open.write();
        *guard = None;
        let open = Opened::open(&self.path)?;
        open.commit(batch)?;
        *guard = Some(open);
        Ok(())
    }

    /// Brings everything committed so far to the disk.
    pub fn sync(&self) -> Result<(), StoreError> {
        let synced = match &*self.open.read() {
            Some(open) => open.sync(),
            // An earlier try has failed: nobody may take this one for a success.
            None => Err(StoreError::of(&self.path)(fjall::Error::Poisoned)),
        };
        if synced.is_err() {
            *self.open.write() = None;
        }
        synced
    }

    /// The disk that it takes.
    pub fn used_bytes(&self) -> u64 {
        let open = self.open.read();
        let used = open
            .as_ref()
            .and_then(|open| open.database.disk_space().ok());
        used.unwrap_or(0)
    }
}

impl Opened {
    fn open(path: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(StoreError::io(path))?;
        let (database, tables, committed) = guarded(path, || {
            let database = Database::builder(path)
                .cache_size(tables::CACHE_BYTES)
                .max_journaling_size(tables::JOURNAL_BYTES)
                .worker_threads(1)
                .open()?;
            let tables = Tables::open(&database)?;
            let committed = tables.totals.get(tables::BATCH)?;
            Ok((database, tables, committed))
        })?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
        let committed = committed.map_or(0, |bytes| number(&bytes));
        let (synced, promised) = open_synced(path).map_err(StoreError::io(path))?;
        Ok(Self {
            path: path.to_owned(),
            database,
            tables,
            committed: committed.into(),
            synced: synced.into(),
            lost: number(&promised).saturating_sub(committed),
        })
    }

    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut committed = self.committed.lock();
        let number = *committed + 1;
        let mut writes = self.database.batch().durability(Some(PersistMode::Buffer));
        guarded(&self.path, || batch.write_to(&self.tables, &mut writes))?;
        writes.insert(&self.tables.totals, tables::BATCH, number.to_be_bytes());
        writes.commit().map_err(StoreError::of(&self.path))?;
        *committed = number;
        Ok(())
    }

    /// Brings all batches to the disk, and notes that. The note itself may come later: then
    /// it claims too little, which is harmless.
    fn sync(&self) -> Result<(), StoreError> {
        let mut note = self.synced.lock();
        // Asked before: what is committed meanwhile may not be on the disk.
        let number = *self.committed.lock();
        let persisted = self.database.persist(PersistMode::SyncAll);
        persisted.map_err(StoreError::of(&self.path))?;
        let noted = note
            .rewind()
            .and_then(|()| note.write_all(&number.to_be_bytes()));
        noted.map_err(StoreError::io(&self.path))
    }
}

/// The file with the number of the last batch that was on the disk, and what it says.
fn open_synced(path: &Path) -> io::Result<(File, Vec<u8>)> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    let mut file = options.open(path.join(SYNCED))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok((file, bytes))
}
