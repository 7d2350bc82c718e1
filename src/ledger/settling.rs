//! What a power cut can take back.
//!
//! The archive is brought to the disk every two seconds. The store may be there before
//! it, because the database brings its journal to the disk whenever it writes a table,
//! and so may the system. A URL that is done therefore stays in its queue on disk until
//! its page is on the disk too; meanwhile each batch leaves a note of what it is done
//! with and where the archive ended. At start, what the notes speak of is taken out of
//! the queues as far as the archive holds it. The rest still waits there: it is fetched
//! again, its pages are taken back from the totals, and contents that were seen in them are
//! not any more, or a copy would be stored as a reference to what is lost.

use serde::{Deserialize, Serialize};

use super::resume::crawls;
use super::{CrawlRecord, Done, PageTotals};
use crate::archive::{Position, Writer};
use crate::crawl::CrawlId;
use crate::distribution::Key;
use crate::fingerprint::ContentFingerprint;
use crate::store::{Batch, Store, StoreError};

/// What one batch is done with.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Recent {
    /// Where the archive ended with it; `None` if no file was open.
    archive: Option<Position>,
    /// Sites whose queues were emptied: their numbers begin anew after that.
    cleared: Vec<u64>,
    /// Sites and numbers in their queues.
    done: Vec<(u64, u64)>,
    /// What the pages of those come to, for each crawl.
    pages: Vec<(CrawlId, PageTotals)>,
    /// Contents that were noted as seen.
    seen: Vec<ContentFingerprint>,
}

impl Recent {
    /// Reads a note. Before contents were noted it ended where they follow now: then there are
    /// none.
    fn read(bytes: &[u8]) -> postcard::Result<Self> {
        let without_contents = |error| {
            let with_none = [bytes, &[0]].concat();
            postcard::from_bytes(&with_none).map_err(|_| error)
        };
        postcard::from_bytes(bytes).or_else(without_contents)
    }

    /// A URL is done.
    pub fn done(&mut self, done: Done, page: Option<(CrawlId, PageTotals)>) {
        self.done.push((done.site.0, done.number));
        let Some((crawl, totals)) = page else {
            return;
        };
        match self.pages.iter_mut().find(|(id, _)| *id == crawl) {
            Some((_, sum)) => sum.add(totals),
            None => self.pages.push((crawl, totals)),
        }
    }

    /// A content was noted as seen.
    pub fn seen(&mut self, fingerprint: ContentFingerprint) {
        self.seen.push(fingerprint);
    }

    /// Nothing is left in the queue of a site.
    pub fn cleared(&mut self, site: Key) {
        self.done.retain(|(of, _)| *of != site.0);
        self.cleared.push(site.0);
    }

    /// Whether there is nothing to note.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty() && self.cleared.is_empty() && self.seen.is_empty()
    }
}

/// The notes of this run whose pages may not be on the disk yet.
#[derive(Default)]
pub(super) struct Unsettled {
    next: u64,
    notes: Vec<(u64, Vec<(u64, u64)>)>,
}

impl Unsettled {
    /// Adds a note to the batch that it is about.
    pub fn note(&mut self, mut recent: Recent, archive: Option<Position>, batch: &mut Batch) {
        recent.archive = archive;
        match postcard::to_stdvec(&recent) {
            Ok(bytes) => batch.recent_put(self.next, &bytes),
            // Without it, its URLs are fetched again after a crash.
            Err(error) => tracing::error!("cannot keep what is done: {error}"),
        }
        if !recent.cleared.is_empty() {
            for (_, done) in &mut self.notes {
                done.retain(|(site, _)| !recent.cleared.contains(site));
            }
        }
        self.notes.push((self.next, recent.done));
        self.next += 1;
    }

    /// What is to be written once the archive is on the disk, if anything.
    pub fn settled(&self) -> Batch {
        let mut batch = Batch::new();
        for (number, done) in &self.notes {
            batch.recent_remove(*number);
            for &(site, number) in done {
                batch.queue_pop(Key(site), number);
            }
        }
        batch
    }

    /// That is written.
    pub fn clear(&mut self) {
        self.notes.clear();
    }
}

/// Settles what an earlier run has left; tells how many URLs are to be fetched again.
/// Without a writer there is nothing to hold against: what is done stays done.
pub(super) fn settle(
    store: &Store,
    writer: Option<&Writer>,
    recorded: Option<&Position>,
) -> Result<usize, StoreError> {
    let mut batch = Batch::new();
    let mut done: Vec<(u64, u64)> = Vec::new();
    let mut again = 0;
    let mut lost: Vec<(CrawlId, PageTotals)> = Vec::new();
    store.for_each_recent(|number, bytes| {
        batch.recent_remove(number);
        let recent = match Recent::read(bytes) {
            Ok(recent) => recent,
            Err(error) => return tracing::error!("what was done cannot be read back: {error}"),
        };
        done.retain(|(site, _)| !recent.cleared.contains(site));
        let is_there = match (&recent.archive, writer) {
            (Some(place), Some(writer)) => writer.holds(place),
            _ => true,
        };
        if is_there {
            done.extend(recent.done);
        } else {
            again += recent.done.len();
            lost.extend(recent.pages);
            for fingerprint in recent.seen {
                batch.content_remove(fingerprint);
            }
        }
    })?;
    for (site, number) in done {
        batch.queue_pop(Key(site), number);
    }
    if !lost.is_empty() {
        for CrawlRecord {
            definition,
            mut totals,
        } in crawls(store)?
        {
            let id = definition.id();
            for (_, lost) in lost.iter().filter(|(crawl, _)| *crawl == id) {
                totals.subtract(*lost);
            }
            match postcard::to_stdvec(&totals) {
                Ok(bytes) => batch.crawl_totals(id, &bytes),
                Err(error) => tracing::error!("cannot keep what a crawl came to: {error}"),
            }
        }
    }
    // The file may go on before the place that was recorded. Nothing is appended before
    // the store knows that, on the disk.
    let position = writer.and_then(Writer::position);
    if let Some(position) = position.as_ref().filter(|p| Some(*p) != recorded) {
        batch.archive_position(position);
    }
    if !batch.is_empty() {
        store.commit(&batch)?;
        store.sync()?;
    }
    Ok(again)
}
