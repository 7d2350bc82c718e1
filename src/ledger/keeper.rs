//! The thread that writes: everything that touches the archive's files, and every batch.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded, select, tick};
use parking_lot::Mutex;

use super::resume::Left;
use super::settling::{Recent, Unsettled, settle};
use super::{CrawlRecord, KeptLedger, Ledger, Letter, Pending};
use crate::archive::{self, ArchiveError, DiskLimit, Position, Prepared, Writer};
use crate::clock::{Clock, Millis};
use crate::counters::Counters;
use crate::crawl_jobs::CrawlJobs;
use crate::engine::StopSignal;
use crate::page::{PageRoom, Room};
use crate::store::{Batch, DataFolder, Store, StoreError};

/// A batch reaches the operating system at least this often.
const PERIOD: Duration = Duration::from_millis(40);
/// Everything reaches the disk at least this often.
const SYNC_PERIOD: Duration = Duration::from_millis(1_800);
/// While others wait for a word that relies on it, this often.
const LETTER_PERIOD: Duration = Duration::from_millis(100);
/// How soon a write that failed is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Records that wait to be appended at most, and their bytes.
const MOST_RECORDS: usize = 4_096;
const MOST_RECORD_BYTES: usize = 8 << 20;
/// Errands that wait for the archive's writer at most.
const MOST_ERRANDS: usize = 16;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// Its state.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The system failed to bring the archive to the disk.
    #[error("{0}; start PeerCrawl again: what was not on the disk is fetched again")]
    Unsynced(String),
}

impl KeepError {
    /// Whether there is no room on the disk: it works as soon as somebody makes some.
    pub fn is_disk_full(&self) -> bool {
        matches!(
            self,
            Self::Store(StoreError::DiskFull(_)) | Self::Archive(ArchiveError::DiskFull(_))
        )
    }
}

/// Why nothing can be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Trouble {
    /// For a person.
    pub text: String,
    /// Whether it is only that the archive has reached its limit.
    pub is_archive_full: bool,
}

/// Why the archive's writer does not do an errand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// Nothing is archived here.
    #[error("there is no archive")]
    NoArchive,
    /// The disk is slow, or stands still.
    #[error("too much waits for the disk; try again in a moment")]
    Busy,
}

/// A data directory, ready for an engine.
pub struct Kept {
    folder: Arc<DataFolder>,
    store: Store,
    writer: Option<Writer>,
    left: Left,
    /// What had to be put right, in words for people.
    pub notices: Vec<String>,
}

impl Kept {
    /// Opens the state of this name in a data directory and, if pages are to be archived,
    /// the archive, which `archive` describes.
    pub fn open(
        folder: Arc<DataFolder>,
        name: &str,
        archive: Option<archive::Settings>,
    ) -> Result<Self, KeepError> {
        let mut notices = Vec::new();
        let parts = open_parts(&folder, name, archive, &mut notices).inspect_err(|_| {
            // What was put right stays so, and the next try has nothing to tell of.
            notices.iter().for_each(|notice| tracing::warn!("{notice}"));
        });
        let (store, writer, left) = parts?;
        Ok(Self {
            folder,
            store,
            writer,
            left,
            notices,
        })
    }
}

/// The state, the archive, and what an earlier run has left in them.
fn open_parts(
    folder: &DataFolder,
    name: &str,
    archive: Option<archive::Settings>,
    notices: &mut Vec<String>,
) -> Result<(Store, Option<Writer>, Left), KeepError> {
    let (mut store, set_aside) = Store::open(folder, name)?;
    notices.extend(set_aside.map(|set_aside| set_aside.to_string()));
    let places = |store: &Store| Ok((store.archive_position()?, store.archive_synced()?));
    let (position, synced) = match places(&store) {
        Ok(places) => places,
        Err(why @ StoreError::Damaged(..)) => {
            let set_aside;
            (store, set_aside) = store.set_aside(&why)?;
            notices.push(set_aside.to_string());
            (None, None)
        }
        Err(error) => return Err(error.into()),
    };
    // What was lost may have spoken of more: whatever the archive holds is kept.
    let position = position.filter(|_| store.lost() == 0);
    let mut writer = None;
    if let Some(settings) = archive {
        let (opened, incidents) = Writer::open(settings, position.as_ref(), synced.as_ref())?;
        notices.extend(incidents.iter().map(ToString::to_string));
        writer = Some(opened);
    }
    let read = |store: &Store| {
        let again = settle(store, writer.as_ref(), position.as_ref())?;
        Ok((again, Left::read(store)?))
    };
    let (again, left) = match read(&store) {
        Err(why @ StoreError::Damaged(..)) => {
            let set_aside;
            (store, set_aside) = store.set_aside(&why)?;
            notices.push(set_aside.to_string());
            (0, Left::default())
        }
        left => left?,
    };
    folder.sync()?;
    // Every try finds these, so they are told of when one succeeds.
    if store.lost() > 0 {
        notices.push(format!(
            "the journal of the state is damaged: the last {} entries are lost, and what \
             they were about is done again",
            store.lost()
        ));
    }
    if again > 0 {
        notices.push(format!(
            "{again} URLs are fetched again: their pages were not on the disk yet"
        ));
    }
    Ok((store, writer, left))
}

/// What the keeper needs besides the ledger.
pub struct Hands {
    /// Nobody else may have it as long as this lives.
    _folder: Arc<DataFolder>,
    store: Arc<Store>,
    writer: Option<Writer>,
    records: Receiver<(Prepared, Room)>,
    unsettled: Unsettled,
    /// Where the archive ended with the last batch, until the store knows that the disk has it.
    unsynced_place: Option<Position>,
    /// Why the archive could not be brought to the disk. The system may have dropped what it
    /// could not write, and of pages that are not done yet nobody knows which those are: so
    /// nothing is written after that, and the next start goes on from what is there.
    pub(super) unsynced: Option<String>,
    /// What is told once the disk has it.
    letters: Vec<Letter>,
}

impl Ledger {
    /// A ledger that is kept, and what its keeper needs.
    pub fn keeping(kept: Kept) -> (Arc<Self>, Hands) {
        let (sender, records) = bounded(MOST_RECORDS);
        let store = Arc::new(kept.store);
        let ledger = Self {
            kept: Some(KeptLedger {
                pending: Mutex::default(),
                left: Mutex::new(Some(kept.left)),
                store: store.clone(),
                records: kept.writer.is_some().then_some(sender),
                record_room: PageRoom::new(MOST_RECORD_BYTES),
                has_more: false.into(),
                written: 0.into(),
                is_stalled: false.into(),
                is_behind: false.into(),
                is_closed: false.into(),
                trouble: Mutex::default(),
                new_limit: Mutex::default(),
                errands: Mutex::default(),
                archive_bytes: kept.writer.as_ref().map_or(0, Writer::used_bytes).into(),
                archived_since_ms: kept.writer.as_ref().map_or(0, Writer::since_ms).into(),
            }),
        };
        let hands = Hands {
            _folder: kept.folder,
            store,
            writer: kept.writer,
            records,
            unsettled: Unsettled::default(),
            unsynced_place: None,
            unsynced: None,
            letters: Vec::new(),
        };
        (Arc::new(ledger), hands)
    }

    /// Why nothing can be written at present, if that is so; at the end, why something was
    /// not written.
    pub fn trouble(&self) -> Option<Trouble> {
        self.kept.as_ref()?.trouble.lock().clone()
    }

    /// The archive may have this much disk from now on.
    pub fn set_archive_limit(&self, limit: DiskLimit) {
        if let Some(kept) = &self.kept {
            *kept.new_limit.lock() = Some(limit);
        }
    }

    /// Whether the crawl pauses because the archive has reached its limit.
    pub fn is_archive_full(&self) -> bool {
        self.trouble()
            .is_some_and(|trouble| trouble.is_archive_full)
    }

    /// Has the archive's one writer do something, soon and on its own thread: nobody else
    /// may touch its files.
    pub fn with_archive(
        &self,
        errand: impl FnOnce(&mut Writer) + Send + 'static,
    ) -> Result<(), NotTaken> {
        let kept = self.kept.as_ref().filter(|kept| kept.records.is_some());
        let mut errands = kept.ok_or(NotTaken::NoArchive)?.errands.lock();
        if errands.len() == MOST_ERRANDS {
            return Err(NotTaken::Busy);
        }
        errands.push(Box::new(errand));
        Ok(())
    }

    /// Bytes of disk that the archive takes.
    pub fn archive_bytes(&self) -> u64 {
        let kept = self.kept.as_ref();
        kept.map_or(0, |kept| kept.archive_bytes.load(SeqCst))
    }

    /// What this peer archived before is gone, to make room; 0 if nothing is.
    pub fn archived_since_ms(&self) -> Millis {
        let kept = self.kept.as_ref();
        kept.map_or(0, |kept| kept.archived_since_ms.load(SeqCst))
    }
}

impl KeptLedger {
    /// Lets others know what the archive has come to.
    fn note_archive(&self, writer: &Writer) {
        self.archive_bytes.store(writer.used_bytes(), SeqCst);
        self.archived_since_ms.store(writer.since_ms(), SeqCst);
    }
}

impl Hands {
    /// The archive first: then what is done may leave its queue for good.
    fn sync(&mut self) -> Result<(), KeepError> {
        self.sync_archive()?;
        let mut settled = self.unsettled.settled();
        if let Some(place) = &self.unsynced_place {
            settled.archive_synced(place);
        }
        if !settled.is_empty() {
            self.store.commit(&settled)?;
            self.unsettled.clear();
            self.unsynced_place = None;
        }
        Ok(self.store.sync()?)
    }

    fn sync_archive(&mut self) -> Result<(), KeepError> {
        self.check()?;
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        // What fails here can be tried again.
        writer.flush_to_os()?;
        if let Err(error) = writer.sync() {
            self.unsynced = Some(error.to_string());
            match writer.give_up_unsynced() {
                Ok(cut) => cut.iter().for_each(|cut| tracing::warn!("{cut}")),
                Err(error) => tracing::warn!("the archive's last file stays as it is: {error}"),
            }
        }
        self.check()
    }

    fn check(&self) -> Result<(), KeepError> {
        match &self.unsynced {
            Some(why) => Err(KeepError::Unsynced(why.clone())),
            None => Ok(()),
        }
    }

    /// Brings to the disk what there is, before a pause of unknown length. Nothing is
    /// settled: the batch that makes it true may be the one that cannot be written.
    fn save(&mut self) {
        let archive = self.sync_archive();
        let store = self.store.sync().map_err(KeepError::from);
        for error in [archive, store].into_iter().filter_map(Result::err) {
            tracing::warn!("not on the disk yet: {error}");
        }
    }
}

/// See the module.
pub struct Keeper {
    /// What happened.
    pub ledger: Arc<Ledger>,
    /// The files.
    pub hands: Hands,
    /// Paused while nothing can be written.
    pub jobs: Arc<CrawlJobs>,
    /// Totals that go with each batch.
    pub counters: Arc<Counters>,
    /// The time.
    pub clock: Clock,
    /// Tells when to end: after everybody else.
    pub stop: StopSignal,
}

impl Keeper {
    /// Works until it is told to stop, and then writes what is left.
    pub fn run(mut self) {
        let ticks = tick(PERIOD);
        let mut synced = Instant::now();
        loop {
            select! {
                recv(ticks) -> _ => {
                    if !self.write() {
                        return;
                    }
                    let period = match self.hands.letters.is_empty() {
                        true => SYNC_PERIOD,
                        false => LETTER_PERIOD,
                    };
                    if synced.elapsed() >= period {
                        if !self.sync() {
                            return;
                        }
                        synced = Instant::now();
                    }
                }
                recv(self.stop) -> _ => break,
            }
        }
        if self.write() && self.sync() {
            // Whoever reads archives should find no open file when nobody writes.
            if let Some(Err(error)) = self.hands.writer.as_mut().map(Writer::complete) {
                tracing::warn!("the archive's last file stays open: {error}");
                self.set_stalled(Some(&KeepError::from(error)));
            }
        }
    }

    /// Appends records to the archive. False if the engine stops before there is room.
    fn append(&mut self, prepared: &Prepared) -> bool {
        let now_ms = self.clock.now_ms();
        self.until_it_works(|keeper| match &mut keeper.hands.writer {
            Some(writer) => writer.append(prepared, now_ms).map(|_| ()),
            None => Ok(()),
        })
    }

    /// Writes everything that has happened up to now. False if the engine stops first.
    pub(super) fn write(&mut self) -> bool {
        self.take_wishes();
        let Some(kept) = &self.ledger.kept else {
            return true;
        };
        let (mut batch, recent, letters, noted) = {
            let mut pending = kept.pending.lock();
            // Under the lock, so that nobody is behind with what has just been taken.
            kept.is_behind.store(false, SeqCst);
            take(&mut pending)
        };
        // What the batch speaks of was given to the archive before: it is appended, or
        // waits here.
        for _ in 0..self.hands.records.len() {
            if let Ok((prepared, _room)) = self.hands.records.try_recv()
                && !self.append(&prepared)
            {
                return false;
            }
        }
        let is_flushed = self.until_it_works(|keeper| match &mut keeper.hands.writer {
            Some(writer) => writer.flush_to_os(),
            None => Ok(()),
        });
        if !is_flushed {
            return false;
        }
        if batch.is_empty() && recent.is_empty() && letters.is_empty() {
            self.set_written(noted);
            return true;
        }
        let position = self.hands.writer.as_ref().and_then(Writer::position);
        if let Some(writer) = &self.hands.writer {
            if let Some(position) = &position {
                batch.archive_position(position);
            }
            if !recent.is_empty() {
                self.hands
                    .unsettled
                    .note(recent, position.clone(), &mut batch);
            }
            if let Some(kept) = &self.ledger.kept {
                kept.note_archive(writer);
            }
        }
        tracing::trace!("{} changes, {} letters", batch.len(), letters.len());
        match postcard::to_stdvec(&self.counters.values()) {
            Ok(bytes) => batch.counters(&bytes),
            Err(error) => tracing::error!("cannot keep the totals: {error}"),
        }
        let is_written = self.until_it_works(|keeper| keeper.hands.store.commit(&batch));
        if is_written {
            self.set_written(noted);
            self.hands.unsynced_place = position.or(self.hands.unsynced_place.take());
        }
        self.hands.letters.extend(letters);
        is_written
    }

    fn set_written(&self, noted: u64) {
        if let Some(kept) = &self.ledger.kept {
            kept.written.store(noted, SeqCst);
        }
    }

    /// Brings everything to the disk, and tells those who wait for that. False if the
    /// engine stops first.
    pub(super) fn sync(&mut self) -> bool {
        let is_synced = self.until_it_works(|keeper| keeper.hands.sync());
        if is_synced {
            self.hands.letters.drain(..).for_each(|tell| tell());
        }
        is_synced
    }

    /// Tries until it works, while the crawl pauses. False if the engine stops first: then
    /// the trouble stays, and says that not everything is written.
    fn until_it_works<E: Into<KeepError>>(
        &mut self,
        mut act: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> bool {
        let mut trouble = None;
        loop {
            let checked = self.hands.check();
            let Err(error) = checked.and_then(|()| act(self).map_err(Into::into)) else {
                break;
            };
            let told = trouble.replace(error.to_string());
            if told != trouble {
                tracing::warn!("the crawl pauses: {error}");
                self.set_stalled(Some(&error));
            }
            if told.is_none() {
                self.hands.save();
            }
            self.take_wishes();
            if self.stop.recv_timeout(RETRY) != Err(RecvTimeoutError::Timeout) {
                return false;
            }
        }
        if trouble.is_some() {
            self.set_stalled(None);
            tracing::info!("it can be written again: the crawl goes on");
        }
        true
    }

    /// Follows another limit, and does what the archive's writer was asked to do.
    fn take_wishes(&mut self) {
        let (Some(kept), Some(writer)) = (&self.ledger.kept, &mut self.hands.writer) else {
            return;
        };
        if let Some(limit) = kept.new_limit.lock().take() {
            writer.set_limit(limit);
        }
        let errands = std::mem::take(&mut *kept.errands.lock());
        if !errands.is_empty() {
            errands.into_iter().for_each(|errand| errand(writer));
            kept.note_archive(writer);
        }
    }

    fn set_stalled(&self, trouble: Option<&KeepError>) {
        let is_full = |error: &KeepError| {
            matches!(error, KeepError::Archive(ArchiveError::LimitReached { .. }))
        };
        self.jobs.set_stalled(trouble.is_some());
        if let Some(kept) = &self.ledger.kept {
            kept.is_stalled.store(trouble.is_some(), SeqCst);
            *kept.trouble.lock() = trouble.map(|error| Trouble {
                text: error.to_string(),
                is_archive_full: is_full(error),
            });
            if let Some(writer) = &self.hands.writer {
                kept.note_archive(writer);
            }
        }
    }
}

/// A panic may end the thread that writes. The crawl must not go on with nothing kept, nor
/// anybody be told that something is: it stands still, and says why.
impl Drop for Keeper {
    fn drop(&mut self) {
        // Whoever waits for room behind these would wait for ever.
        self.hands.records.try_iter().for_each(drop);
        if let Some(kept) = self.ledger.kept.as_ref().filter(|_| thread::panicking()) {
            self.ledger.close();
            self.jobs.set_stalled(true);
            kept.is_stalled.store(true, SeqCst);
            let text = "a fault in PeerCrawl ended the thread that writes: start it again";
            *kept.trouble.lock() = Some(Trouble {
                text: text.to_owned(),
                is_archive_full: false,
            });
        }
    }
}

/// Takes everything out that waits to be written.
pub(super) fn take(pending: &mut Pending) -> (Batch, Recent, Vec<Letter>, u64) {
    let mut batch = std::mem::take(&mut pending.batch);
    for id in std::mem::take(&mut pending.begun) {
        let record: Option<&CrawlRecord> = pending.crawls.get(&id);
        match record.map(postcard::to_stdvec) {
            Some(Ok(bytes)) => batch.crawl(id, &bytes),
            Some(Err(error)) => tracing::error!("cannot keep a crawl: {error}"),
            None => {}
        }
    }
    for id in std::mem::take(&mut pending.changed) {
        let record = pending.crawls.get(&id);
        match record.map(|record| postcard::to_stdvec(&record.totals)) {
            Some(Ok(bytes)) => batch.crawl_totals(id, &bytes),
            Some(Err(error)) => tracing::error!("cannot keep what a crawl came to: {error}"),
            None => {}
        }
    }
    let recent = std::mem::take(&mut pending.recent);
    let letters = std::mem::take(&mut pending.letters);
    (batch, recent, letters, pending.noted)
}
