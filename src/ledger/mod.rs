//! The ledger: what happened, in order, on its way to the disk.
//!
//! Every block tells the ledger what it did: a URL waits, a URL is done, a site's pace has
//! changed, a content was seen. The [`Keeper`] thread takes what has come together
//! every 40 ms, and writes it as one batch, after the archive records that it speaks of: a kill
//! costs what happened in 50 ms. So what is on disk is always the whole of what happened up to
//! some moment: a URL is noted as done in the same batch as the links that were found on its
//! page, or in a later one, and never before its page is in the archive.
//!
//! What other peers may rely on (a receipt, a confirmed claim, a site that was taken over)
//! is told to them only when the batch that makes it true has reached the disk: see
//! [`Ledger::once_on_disk`]. A peer that keeps nothing has a ledger that forgets everything
//! at once.
//!
//! - `keeper`: the thread that writes
//! - `capture`: an exchange with a server, on its way into the archive
//! - `resume`: what an earlier run has left
//! - `settling`: what a power cut can take back

mod capture;
mod keeper;
mod resume;
mod settling;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crossbeam_channel::Sender;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub use capture::{Capture, Captures};
pub use keeper::{Hands, KeepError, Keeper, Kept, NotTaken, Trouble};
use resume::Left;
pub use resume::{Resumed, resume};
use settling::Recent;

use crate::archive::{DiskLimit, Prepared, Writer};
use crate::crawl::{CrawlDefinition, CrawlId, Successions};
use crate::crawl_jobs::{CrawlJob, SiteHead};
use crate::distribution::Key;
use crate::fingerprint::{ContentFingerprint, url_fingerprint};
use crate::page::{PageRoom, Room};
use crate::record::UrlRecord;
use crate::seen_urls::SeenUrls;
use crate::store::{Batch, Store};

/// Letters that wait for a batch at most; whoever is not told asks again.
const MOST_LETTERS: usize = 10_000;
/// With so many changes waiting, nothing more is begun. They and what the database makes of
/// them take a few megabytes; five times as many took 30 in the first seconds of a crawl.
const MANY_CHANGES: usize = 10_000;
/// How often those who wait for that look.
const LOOK: Duration = Duration::from_millis(10);

/// What the pages of a crawl have come to: counted when their URLs are done, so that a
/// page which is fetched again after a crash is counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageTotals {
    /// Complete pages.
    pub pages: u64,
    /// Their bodies, as received.
    pub bytes: u64,
    /// Those not seen before.
    pub new: u64,
    /// Those seen before.
    pub duplicate: u64,
    /// Those of which nobody could say.
    pub unknown: u64,
}

impl PageTotals {
    /// Takes another's away.
    fn subtract(&mut self, other: Self) {
        self.pages = self.pages.saturating_sub(other.pages);
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.new = self.new.saturating_sub(other.new);
        self.duplicate = self.duplicate.saturating_sub(other.duplicate);
        self.unknown = self.unknown.saturating_sub(other.unknown);
    }

    /// Adds another's.
    pub fn add(&mut self, other: Self) {
        self.pages += other.pages;
        self.bytes += other.bytes;
        self.new += other.new;
        self.duplicate += other.duplicate;
        self.unknown += other.unknown;
    }
}

/// A URL that is done, as the ledger knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Its site.
    pub site: Key,
    /// Its number in the site's queue.
    pub number: u64,
}

/// A crawl as it is kept: what it has come to is put down again and again, and the rest once.
#[derive(Debug, Serialize, Deserialize)]
struct CrawlRecord {
    definition: CrawlDefinition,
    totals: PageTotals,
}

/// What has come together since the last batch.
#[derive(Default)]
struct Pending {
    batch: Batch,
    letters: Vec<Letter>,
    /// What is done, if it has to wait for the archive.
    recent: Recent,
    /// Higher than every number that was given to a URL in this run.
    next_number: u64,
    crawls: HashMap<CrawlId, CrawlRecord>,
    /// Crawls that are not written at all yet.
    begun: Vec<CrawlId>,
    /// Crawls whose totals have changed.
    changed: Vec<CrawlId>,
    /// What crawls have come to that are over.
    over: PageTotals,
    /// How often something was noted.
    noted: u64,
    /// How often it was when somebody wanted to know whether all of that is written.
    asked: Option<u64>,
}

/// What the one who writes the archive is to do besides.
type Errand = Box<dyn FnOnce(&mut Writer) + Send>;

/// What is told once a batch is written.
type Letter = Box<dyn FnOnce() + Send>;

/// See the module.
#[derive(Default)]
pub struct Ledger {
    kept: Option<KeptLedger>,
}

struct KeptLedger {
    pending: Mutex<Pending>,
    store: Arc<Store>,
    /// What an earlier run has left, until it is resumed.
    left: Mutex<Option<Left>>,
    records: Option<Sender<(Prepared, Room)>>,
    /// What the records may hold that wait for the keeper.
    record_room: Arc<PageRoom>,
    /// Whether the store may know sites and contents that memory does not.
    has_more: AtomicBool,
    /// How much of what was noted is written.
    written: AtomicU64,
    /// Whether nothing can be written at present.
    is_stalled: AtomicBool,
    /// Whether many changes wait: the disk is slower than the crawl.
    is_behind: AtomicBool,
    is_closed: AtomicBool,
    /// Why it cannot.
    trouble: Mutex<Option<Trouble>>,
    /// A limit that the archive's writer does not know yet.
    new_limit: Mutex<Option<DiskLimit>>,
    /// Errands that wait for the archive's writer.
    errands: Mutex<Vec<Errand>>,
    archive_bytes: AtomicU64,
    /// What was archived before is gone.
    archived_since_ms: AtomicU64,
}

impl Ledger {
    /// A ledger that forgets.
    pub fn nothing() -> Arc<Self> {
        Arc::default()
    }

    /// Whether anything is kept.
    pub fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// Whether exchanges are to be archived.
    pub fn archives(&self) -> bool {
        self.kept
            .as_ref()
            .is_some_and(|kept| kept.records.is_some())
    }

    /// Whether nothing can be written at present, or not fast enough: whoever can should wait.
    pub fn is_stalled(&self) -> bool {
        let kept = self.kept.as_ref();
        kept.is_some_and(|kept| kept.is_stalled.load(SeqCst) || kept.is_behind.load(SeqCst))
    }

    /// Waits while more has happened than can be written soon.
    pub fn wait_for_writer(&self) {
        let Some(kept) = &self.kept else {
            return;
        };
        while kept.is_behind.load(SeqCst) && !kept.is_closed.load(SeqCst) {
            thread::sleep(LOOK);
        }
    }

    /// How much has happened so far, for [`Ledger::has_written`].
    pub fn noted(&self) -> u64 {
        let kept = self.kept.as_ref();
        kept.map_or(0, |kept| kept.pending.lock().noted)
    }

    /// Whether as much of what has happened is written.
    pub fn has_written(&self, noted: u64) -> bool {
        let kept = self.kept.as_ref();
        kept.is_none_or(|kept| kept.written.load(SeqCst) >= noted)
    }

    /// Whether all is written that had happened when this was first asked. Whoever asks does
    /// so again and again, and says each time whether it is still to be known.
    pub fn is_written(&self, is_asked: bool) -> bool {
        let Some(kept) = &self.kept else {
            return is_asked;
        };
        let mut pending = kept.pending.lock();
        let noted = pending.noted;
        pending.asked = is_asked.then(|| pending.asked.unwrap_or(noted));
        let is_there = |asked| kept.written.load(SeqCst) >= asked;
        pending.asked.is_some_and(is_there) && !kept.is_stalled.load(SeqCst)
    }

    /// The store, if it may know what memory does not.
    pub fn more(&self) -> Option<&Store> {
        let kept = self.kept.as_ref()?;
        kept.has_more.load(SeqCst).then_some(&*kept.store)
    }

    /// The store, if there is one.
    pub fn store(&self) -> Option<&Store> {
        self.kept.as_ref().map(|kept| &*kept.store)
    }

    /// From now on the store knows what memory does not.
    pub fn set_more(&self) {
        if let Some(kept) = &self.kept {
            kept.has_more.store(true, SeqCst);
        }
    }

    /// Records for the archive. Waits while the disk is slow or full.
    pub fn archive(&self, prepared: Prepared) {
        if let Some(kept) = &self.kept
            && let Some(records) = &kept.records
        {
            let room = kept.record_room.take(prepared.len());
            // Closed only when the engine has stopped: then its URL is not done either.
            let _stopped = records.send((prepared, room));
        }
    }

    /// A URL was seen, and waits in its site's queue; or it waits again.
    pub fn queued(&self, site: Key, job: &CrawlJob) {
        if !self.keeps() {
            return;
        }
        let fingerprint = url_fingerprint(job.record.url.as_str());
        match postcard::to_stdvec(job) {
            Ok(bytes) => self.note(|pending| {
                pending.batch.url_seen(site, fingerprint);
                pending.batch.queue_push(site, job.number, &bytes);
                pending.next_number = pending.next_number.max(job.number + 1);
            }),
            Err(error) => tracing::error!("cannot keep {}: {error}", job.record.url),
        }
    }

    /// An earlier run has given the numbers below this one.
    pub fn begin_numbers_at(&self, next_number: u64) {
        self.note(|pending| pending.next_number = pending.next_number.max(next_number));
    }

    /// A number that no queued URL has, nor had in this run: a site that was put away and
    /// comes back gives none twice, because a URL may leave its queue on disk late.
    pub fn next_number(&self) -> u64 {
        let kept = self.kept.as_ref();
        kept.map_or(0, |kept| kept.pending.lock().next_number)
    }

    /// URLs of a site were seen elsewhere.
    pub fn seen_elsewhere(&self, host: &str, site: Key, seen: &SeenUrls) {
        if !self.keeps() {
            return;
        }
        match seen.exact() {
            Some(fingerprints) => self.note(|pending| {
                for fingerprint in fingerprints {
                    pending.batch.url_seen(site, fingerprint);
                }
            }),
            None => {
                let bytes = seen.to_bytes();
                self.note(|pending| pending.batch.seen_elsewhere(host, &bytes));
            }
        }
    }

    /// A URL is done, and its page with it if it had one.
    pub fn done(&self, done: Done, page: Option<(CrawlId, PageTotals)>) {
        let archives = self.archives();
        self.note(|pending| {
            match archives {
                true => pending.recent.done(done, page),
                false => pending.batch.queue_pop(done.site, done.number),
            }
            if let Some((crawl, totals)) = page
                && let Some(record) = pending.crawls.get_mut(&crawl)
            {
                record.totals.add(totals);
                if !pending.changed.contains(&crawl) {
                    pending.changed.push(crawl);
                }
            }
        });
    }

    /// Nothing waits in a site's queue any more.
    pub fn queue_cleared(&self, site: Key) {
        let archives = self.archives();
        self.note(|pending| {
            pending.batch.queue_clear(site);
            if archives {
                pending.recent.cleared(site);
            }
        });
    }

    /// What is known of a host has changed.
    pub fn site(&self, host: &str, head: &SiteHead) {
        if !self.keeps() {
            return;
        }
        match postcard::to_stdvec(head) {
            Ok(bytes) => self.note(|pending| pending.batch.site_record(host, &bytes)),
            Err(error) => tracing::error!("cannot keep what is known of {host}: {error}"),
        }
    }

    /// A site has left.
    pub fn site_left(&self, host: &str, site: Key) {
        let archives = self.archives();
        self.note(|pending| {
            pending.batch.site_remove(host, site);
            if archives {
                pending.recent.cleared(site);
            }
        });
    }

    /// Where and when a content was seen.
    pub fn content(&self, fingerprint: ContentFingerprint, record: &[u8]) {
        let archives = self.archives();
        self.note(|pending| {
            pending.batch.content(fingerprint, record);
            if archives {
                pending.recent.seen(fingerprint);
            }
        });
    }

    /// A URL waits for its owner's receipt.
    pub fn outbox_put(&self, number: u64, record: &UrlRecord) {
        if !self.keeps() {
            return;
        }
        match postcard::to_stdvec(record) {
            Ok(bytes) => self.note(|pending| pending.batch.outbox_put(number, &bytes)),
            Err(error) => tracing::error!("cannot keep {}: {error}", record.url),
        }
    }

    /// URLs wait for their owners' receipts no more.
    pub fn outbox_removed(&self, numbers: &[u64]) {
        self.note(|pending| {
            for &number in numbers {
                pending.batch.outbox_remove(number);
            }
        });
    }

    /// This peer takes part in a crawl.
    pub fn crawl(&self, definition: &CrawlDefinition) {
        let id = definition.id();
        self.note(|pending| {
            pending.crawls.entry(id).or_insert_with(|| {
                pending.begun.push(id);
                CrawlRecord {
                    definition: definition.clone(),
                    totals: PageTotals::default(),
                }
            });
        });
    }

    /// The user has begun a crawl, which may have taken the place of others.
    pub fn successions(&self, successions: &Successions) {
        if !self.keeps() {
            return;
        }
        match postcard::to_stdvec(successions) {
            Ok(bytes) => self.note(|pending| pending.batch.successions(&bytes)),
            Err(error) => tracing::error!("cannot keep which crawl is in force: {error}"),
        }
    }

    /// This peer takes part in these crawls no more: what they have come to is kept.
    pub fn crawls_over(&self, ids: &[CrawlId]) {
        if ids.is_empty() {
            return;
        }
        self.note(|pending| {
            for id in ids {
                if let Some(record) = pending.crawls.remove(id) {
                    pending.over.add(record.totals);
                }
                pending.batch.crawl_remove(*id);
            }
            match postcard::to_stdvec(&pending.over) {
                Ok(bytes) => pending.batch.over(&bytes),
                Err(error) => tracing::error!("cannot keep what crawls came to: {error}"),
            }
        });
    }

    /// What an earlier run has left, once.
    fn take_left(&self) -> Option<Left> {
        self.kept.as_ref()?.left.lock().take()
    }

    /// A crawl that an earlier run took part in.
    fn resumed(&self, record: CrawlRecord) {
        self.note(|pending| {
            pending.crawls.insert(record.definition.id(), record);
        });
    }

    /// What crawls of earlier runs have come to that are over.
    fn resumed_over(&self, over: PageTotals) {
        self.note(|pending| pending.over = over);
    }

    /// Does something once the disk has everything up to now, or at once if nothing is
    /// kept: tells a peer what must not be untrue after a power cut. May be forgotten when
    /// nothing can be written for long; whoever is not told asks again.
    pub fn once_on_disk(&self, tell: impl FnOnce() + Send + 'static) {
        if !self.keeps() {
            return tell();
        }
        self.note(|pending| {
            if pending.letters.len() < MOST_LETTERS {
                pending.letters.push(Box::new(tell));
            }
        });
    }

    /// From now on nothing is noted: what ends after this has not ended as far as the
    /// next run is concerned.
    pub fn close(&self) {
        if let Some(kept) = &self.kept {
            kept.is_closed.store(true, SeqCst);
        }
    }

    /// Whether nothing is noted any more.
    pub fn is_closed(&self) -> bool {
        let kept = self.kept.as_ref();
        kept.is_some_and(|kept| kept.is_closed.load(SeqCst))
    }

    fn note(&self, change: impl FnOnce(&mut Pending)) {
        if let Some(kept) = &self.kept {
            let mut pending = kept.pending.lock();
            // Under the lock, so that whoever closes and then looks sees it all.
            if !kept.is_closed.load(SeqCst) {
                pending.noted += 1;
                change(&mut pending);
                if pending.batch.len() >= MANY_CHANGES {
                    kept.is_behind.store(true, SeqCst);
                }
            }
        }
    }
}

/// A queued URL as it was kept.
pub fn queued_job(bytes: &[u8]) -> Option<CrawlJob> {
    match postcard::from_bytes(bytes) {
        Ok(job) => Some(job),
        Err(error) => {
            tracing::error!("a queued URL cannot be read back: {error}");
            None
        }
    }
}
