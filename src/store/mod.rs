//! The state on disk: what must outlive this process.
//!
//! [`DataFolder`] is the directory itself: one process at a time, a format version, and
//! the peer's secret key. [`Store`] keeps the crawl's state in it. The engine collects
//! what happened in a [`Batch`] and commits it many times a second, after the archive
//! records that it speaks of; a batch is in the store as a whole or not at all, also
//! after `kill -9`, but for what it clears, which may go before it. [`Store::sync`] brings
//! everything to the disk.
//! At start the engine reads everything back ([`Store::for_each_site`] and the like);
//! a long queue is read segment by segment ([`Store::queue_segment`]).
//!
//! A site's record is small and written whenever it changes; its seen URLs are not in it.
//! They are noted one by one, so that no set of millions is ever written as a whole, and
//! one of them can be looked up without the others.
//!
//! The database drops what it cannot read at the end of its journal, for that is how a crash
//! leaves it. So batches are numbered, and the number that the disk was known to have is
//! noted beside them: what is missing at the end, up to there, was lost by damage
//! ([`Store::lost`]). A gap before the end, in a journal that was full, nobody notices.
//!
//! Damage in a table shows when it is read, which for most of them is not at start. A store
//! whose writes fail again and again is therefore read as a whole; what cannot be read is
//! noted in a file, and the next start sets the state aside.
//!
//! - `folder` is the data directory; `batch` what is written; `tables` where it goes
//! - `read` reads it back; `error` says what can go wrong
//! - `unfinished` clears away what a kill left of a state that was being made

mod batch;
mod error;
mod folder;
mod read;
mod tables;
#[cfg(test)]
mod tests;
mod unfinished;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use fjall::{AbstractTree, Database, Guard, Keyspace, OwnedWriteBatch, PersistMode};
use parking_lot::{Mutex, RwLock};
use peercrawl_overlay::whole_file;

pub use batch::Batch;
pub use error::StoreError;
use error::guarded;
pub use folder::{DataFolder, SetAside};
use tables::{PART_BYTES, Tables};

/// The state of one peer. It may be shared between threads; commits queue up.
pub struct Store {
    path: PathBuf,
    /// `None` after an error that the database does not recover from by itself, a full
    /// disk above all: the next commit opens it again. Only whoever replaces it keeps others
    /// out: they go on reading while a batch is written or brought to the disk.
    open: RwLock<Option<Opened>>,
    lost: u64,
    suspicion: Mutex<Suspicion>,
    /// Whether the system may have failed to bring the journal to the disk: the database does
    /// so too, on its own, and does not say what went wrong. The system may have dropped what
    /// it could not write: that it succeeds later says nothing of that.
    is_in_doubt: AtomicBool,
    /// The number of the last batch before the database was closed.
    closed_at: AtomicU64,
}

/// Behind writes that fail for no lack of room there may be damage, which shows when all
/// is read. That takes long, so each time twice as many failures are enough.
struct Suspicion {
    failures: u64,
    enough: u64,
}

impl Suspicion {
    fn is_enough(&mut self) -> bool {
        let is_enough = self.failures >= self.enough;
        if is_enough {
            self.enough = self.failures * 2;
        }
        is_enough
    }
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
    /// Since when there has been a journal that is full.
    full_journal_since: Mutex<Option<Instant>>,
}

/// The name of that file, beside the database's own.
const SYNCED: &str = "synced";
/// The file that says what is wrong with a state, for the next start.
const DAMAGED: &str = "damaged";
/// A file that is written to see whether there is room, and how large it is: what the
/// database writes at once.
const PROBE: &str = "probe";
const PROBE_BYTES: usize = 8 << 20;

/// Within a commit, the database waits while a table has four parts in memory that are full,
/// or 30 files that are not sorted in yet; for ever, if the thread that writes them has
/// failed. So nothing is committed near that: during a commit there may be two more.
const MOST_FULL_PARTS: usize = 1;
const MOST_FRESH_FILES: usize = 24;
/// Keys are cleared, or walked over, so many at a time.
const PIECE: usize = 4_096;
/// That thread may work on one thing for so long. Sorting in may take minutes on a slow disk.
const PATIENCE: Duration = Duration::from_secs(300);
/// A journal that is full goes within this time, usually.
const FULL_JOURNAL: Duration = Duration::from_secs(10);
/// How often it is looked after while somebody waits for it.
const LOOK: Duration = Duration::from_millis(10);

impl Store {
    /// Opens the state in a data folder, or another beside it under its own name. A state
    /// that cannot be read is given another name and told of, and an empty one takes its
    /// place.
    pub fn open(folder: &DataFolder, name: &str) -> Result<(Self, Option<SetAside>), StoreError> {
        let path = folder.path().join(name);
        let (open, set_aside) = match Opened::open(&path) {
            Err(StoreError::Damaged(path, why)) => {
                let (open, set_aside) = Opened::anew(&path, why)?;
                (open, Some(set_aside))
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
            suspicion: Mutex::new(Suspicion {
                failures: 0,
                enough: 2,
            }),
            is_in_doubt: false.into(),
            closed_at: 0.into(),
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
        let (open, set_aside) = Opened::anew(&path, why.to_string())?;
        Ok((Self::new(path, open), set_aside))
    }

    /// Writes a batch, as a whole or not at all but for what it clears, and hands it to the
    /// operating system.
    /// After an error it can be committed again; with a full disk that works as soon as
    /// there is room.
    pub fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        self.insist(|open| open.commit(batch))
    }

    /// Brings everything committed so far to the disk.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.insist(|open| {
            if self.is_in_doubt.load(SeqCst) {
                open.write_tables()?;
            }
            let synced = open.sync();
            self.is_in_doubt.store(synced.is_err(), SeqCst);
            synced
        })
    }

    /// Does something, and once more with the database opened again if that fails.
    ///
    /// The database takes nothing more in after a failed write, in the background or here.
    /// Its journal is sound: it is opened again, which tells a full disk from anything
    /// else. A batch may so be written twice, which changes nothing.
    fn insist(&self, act: impl Fn(&Opened) -> Result<(), StoreError>) -> Result<(), StoreError> {
        match self.attempt(&act) {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) => tracing::warn!("the state is opened again: {error}"),
            None => {}
        }
        // To open it is to read all of its journal: not again and again on a full disk.
        try_room(&self.path).map_err(StoreError::io(&self.path))?;
        self.reopen()?;
        let closed = || Err(StoreError::of(&self.path)(fjall::Error::Poisoned));
        self.attempt(&act).unwrap_or_else(closed)
    }

    /// Does something with an open database; `None` if it is not open. An error closes it.
    fn attempt(
        &self,
        act: impl FnOnce(&Opened) -> Result<(), StoreError>,
    ) -> Option<Result<(), StoreError>> {
        let result = act(self.open.read().as_ref()?);
        if let Err(error) = &result {
            self.is_in_doubt.store(true, SeqCst);
            self.close();
            if !matches!(error, StoreError::DiskFull(_)) {
                self.suspicion.lock().failures += 1;
            }
        }
        Some(result)
    }

    fn close(&self) {
        if let Some(open) = self.open.write().take() {
            self.closed_at.fetch_max(*open.committed.lock(), SeqCst);
        }
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.close();
        let mut open = self.open.write();
        *open = Some(self.open_again()?);
        drop(open);
        let is_enough = self.suspicion.lock().is_enough();
        if is_enough && let Err(StoreError::Damaged(path, why)) = self.read_through() {
            self.close();
            note_damage(&path, &why);
            return Err(StoreError::Damaged(path, why).until_restart());
        }
        Ok(())
    }

    /// Opens a database that was closed, for whoever wants to read or to write next.
    fn open_again(&self) -> Result<Opened, StoreError> {
        let opened = Opened::open(&self.path).map_err(StoreError::until_restart)?;
        let (known, found) = (self.closed_at.load(SeqCst), *opened.committed.lock());
        if found < known {
            // This run knows of more than the next one will: it must not go on from there.
            return Err(StoreError::Behind(self.path.clone(), known - found));
        }
        Ok(opened)
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
    /// Gives a state that cannot be used another name, and begins an empty one.
    fn anew(path: &Path, why: String) -> Result<(Self, SetAside), StoreError> {
        let set_aside = SetAside::rename(path, why)?;
        // Whoever tries again then finds an empty one, and nothing to tell of.
        let open = Self::open(path).inspect_err(|_| tracing::warn!("{set_aside}"))?;
        Ok((open, set_aside))
    }

    fn open(path: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(StoreError::io(path))?;
        match fs::read_to_string(path.join(DAMAGED)) {
            Ok(why) => return Err(StoreError::Damaged(path.to_owned(), why)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io(path)(error)),
        }
        unfinished::clear(path)?;
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
            full_journal_since: Mutex::default(),
        })
    }

    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        self.clear_ahead(batch)?;
        self.make_room()?;
        let mut committed = self.committed.lock();
        let number = *committed + 1;
        let mut writes = self.writes();
        guarded(&self.path, || batch.write_to(&self.tables, &mut writes))?;
        writes.insert(&self.tables.totals, tables::BATCH, number.to_be_bytes());
        writes.commit().map_err(|error| self.told(error))?;
        *committed = number;
        Ok(())
    }

    fn writes(&self) -> OwnedWriteBatch {
        self.database.batch().durability(Some(PersistMode::Buffer))
    }

    /// What a batch clears may be many times what it holds: so most of that goes before it,
    /// piece by piece. Whoever clears something wants nothing of it any more, so nothing is
    /// lost if the rest never comes.
    fn clear_ahead(&self, batch: &Batch) -> Result<(), StoreError> {
        let (mut writes, mut count) = (self.writes(), 0);
        for (table, below) in batch.clears(&self.tables) {
            // No further than its end: behind that may be any number of keys that were removed.
            let end = Bound::Included([below, &[u8::MAX; 8]].concat());
            let mut begin = Some(Bound::Included(below.to_vec()));
            // While an iterator is there, the database keeps in memory whatever is written:
            // so each piece has one of its own.
            while let Some(from) = begin.take() {
                let mut keys = table.range((from, end.clone())).map(Guard::key);
                let mut next = || keys.next().transpose();
                while let Some(key) = guarded(&self.path, &mut next)? {
                    writes.remove(table, key.clone());
                    count += 1;
                    if count == PIECE {
                        begin = Some(Bound::Excluded(key.to_vec()));
                        break;
                    }
                }
                drop(keys);
                if begin.is_some() {
                    self.make_room()?;
                    let piece = std::mem::replace(&mut writes, self.writes());
                    piece.commit().map_err(|error| self.told(error))?;
                    count = 0;
                }
            }
        }
        Ok(())
    }

    /// No table has more in memory than a batch may be added to.
    ///
    /// The database can do so by itself: past a threshold each batch asks the thread that
    /// writes tables to begin a new part. But while that thread sorts files in, the parts
    /// grow without bound, and the thousand requests that there is room for come together
    /// within seconds. Then it waits, for ever, for room for a request of its own.
    fn make_room(&self) -> Result<(), StoreError> {
        self.wait_while(|table| {
            table.sealed_memtable_count() > MOST_FULL_PARTS
                || table.l0_table_count() > MOST_FRESH_FILES
        })?;
        if self.keeps_full_journal() {
            return self.begin_parts(self.tables.all());
        }
        let is_full = |table: &&Keyspace| table.tree.active_memtable().size() >= PART_BYTES;
        let full = self.tables.all().into_iter().filter(is_full);
        self.begin_parts(full)
    }

    /// Whether a journal that is full stays, because a table that is seldom written to has not
    /// written what came through it. The database sees to that itself, but for the journal
    /// that it began with: that one is shorter than it thinks, and a start would read two.
    fn keeps_full_journal(&self) -> bool {
        let mut since = self.full_journal_since.lock();
        if self.database.journal_count() < 2 {
            *since = None;
            return false;
        }
        let is_long = since.get_or_insert_with(Instant::now).elapsed() > FULL_JOURNAL;
        if is_long {
            *since = Some(Instant::now());
        }
        is_long
    }

    /// Has what these tables collected written into files.
    fn begin_parts<'a>(
        &self,
        tables: impl IntoIterator<Item = &'a Keyspace>,
    ) -> Result<(), StoreError> {
        for table in tables {
            let begun = table.rotate_memtable();
            begun.map_err(|error| self.told(error))?;
        }
        Ok(())
    }

    /// Waits for the thread that writes tables, as long as one of them is like this.
    fn wait_while(&self, is_so: impl Fn(&Keyspace) -> bool) -> Result<(), StoreError> {
        let parts = |table: &Keyspace| (table.sealed_memtable_count(), table.table_count());
        let state = || {
            let sorted_in = self.database.compactions_completed();
            (self.tables.all().map(parts), sorted_in)
        };
        let (mut last, mut since) = (state(), Instant::now());
        while self.tables.all().into_iter().any(&is_so) {
            // Fails if that thread has.
            let asked = self.database.persist(PersistMode::Buffer);
            asked.map_err(|error| self.told(error))?;
            let now = state();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() > PATIENCE {
                let late = io::ErrorKind::TimedOut.into();
                return Err(StoreError::Io(self.path.clone(), late));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Writes into tables, and to the disk, what only the journal has.
    fn write_tables(&self) -> Result<(), StoreError> {
        self.begin_parts(self.tables.all())?;
        self.wait_while(|table| table.sealed_memtable_count() > 0)
    }

    /// What the database says. That it takes nothing more in has a reason which it does not
    /// tell: mostly there is no room.
    fn told(&self, error: fjall::Error) -> StoreError {
        let room = match error {
            fjall::Error::Poisoned => try_room(&self.path),
            _ => Ok(()),
        };
        match room {
            Ok(()) => StoreError::of(&self.path)(error),
            Err(why) => StoreError::io(&self.path)(why),
        }
    }

    /// Brings all batches to the disk, and notes that. The note itself may come later: then
    /// it claims too little, which is harmless.
    fn sync(&self) -> Result<(), StoreError> {
        let mut note = self.synced.lock();
        // Asked before: what is committed meanwhile may not be on the disk.
        let number = *self.committed.lock();
        let persisted = self.database.persist(PersistMode::SyncAll);
        persisted.map_err(|error| self.told(error))?;
        let noted = note
            .rewind()
            .and_then(|()| note.write_all(&number.to_be_bytes()));
        noted.map_err(StoreError::io(&self.path))
    }
}

/// Has the next start set a state aside. This run cannot: others are reading it.
fn note_damage(path: &Path, why: &str) {
    if let Err(error) = whole_file::write(&path.join(DAMAGED), why.as_bytes()) {
        tracing::warn!("cannot note that {} is damaged: {error}", path.display());
    }
}

/// Whether as much as the database writes at once could be written.
fn try_room(folder: &Path) -> io::Result<()> {
    let path = folder.join(PROBE);
    let written = fs::write(&path, vec![0; PROBE_BYTES]);
    let _gone = fs::remove_file(&path);
    written
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
