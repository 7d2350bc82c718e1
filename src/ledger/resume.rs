//! What an earlier run has left, and how an engine goes on with it.
//!
//! Queues stay on disk: a site is told how long its queue is and where it begins, and
//! brings it piece by piece. What a site has seen is read when the first new URL comes
//! for it. So a start takes as long as it takes to walk over the waiting URLs once.

use std::sync::Arc;

use super::{CrawlRecord, Ledger, PageTotals, queued_job};
use crate::canonical::CanonicalForm;
use crate::counters::Counters;
use crate::crawl::{Crawls, Successions};
use crate::crawl_jobs::OnDisk;
use crate::distribution::Key;
use crate::handing_on::Outbox;
use crate::preprocessor::Preprocessor;
use crate::record::UrlRecord;
use crate::store::{Store, StoreError};

/// The blocks that go on where an earlier run was.
pub struct Resumed<'a> {
    /// Where it all comes from.
    pub ledger: &'a Arc<Ledger>,
    /// The crawls that this peer takes part in.
    pub crawls: &'a Crawls,
    /// The canonical form of seeds.
    pub form: &'a CanonicalForm,
    /// What has been done.
    pub counters: &'a Counters,
    /// The sites.
    pub preprocessor: &'a Preprocessor,
    /// What waits for receipts.
    pub outbox: &'a Outbox,
}

/// What an earlier run has left, read before anything goes on with it: what cannot be
/// read shows here, and not half-way.
#[derive(Default)]
pub(super) struct Left {
    crawls: Vec<CrawlRecord>,
    /// Which of the user's took whose place.
    pub(super) successions: Successions,
    /// What crawls have come to that are over.
    over: PageTotals,
    counters: Option<Vec<u8>>,
    queues: Vec<Queue>,
    outbox: Vec<(u64, UrlRecord)>,
}

/// A queue on disk.
struct Queue {
    site: Key,
    host: String,
    on_disk: OnDisk,
    next_number: u64,
}

impl Left {
    /// Reads it.
    pub fn read(store: &Store) -> Result<Self, StoreError> {
        let mut left = Self {
            crawls: crawls(store)?,
            ..Self::default()
        };
        if let Some(bytes) = store.over()? {
            match postcard::from_bytes(&bytes) {
                Ok(over) => left.over = over,
                Err(error) => tracing::error!("the totals cannot be read back: {error}"),
            }
        }
        if left.is_nothing() {
            return Ok(left);
        }
        if let Some(bytes) = store.successions()? {
            match postcard::from_bytes(&bytes) {
                Ok(successions) => left.successions = successions,
                Err(error) => tracing::error!("which crawl is in force is unknown: {error}"),
            }
        }
        left.counters = store.counters()?;
        left.queues = queues(store)?;
        store.for_each_in_outbox(|number, bytes| match postcard::from_bytes(bytes) {
            Ok(record) => left.outbox.push((number, record)),
            Err(error) => tracing::error!("a URL of the outbox cannot be read back: {error}"),
        })?;
        Ok(left)
    }

    /// Whether no earlier run took part in anything.
    fn is_nothing(&self) -> bool {
        self.crawls.is_empty() && self.over == PageTotals::default()
    }
}

/// Goes on with what an earlier run has left; tells how many pages it had fetched.
pub fn resume(blocks: &Resumed<'_>) -> u64 {
    let Some(left) = blocks.ledger.take_left() else {
        return 0;
    };
    if left.is_nothing() {
        return 0;
    }
    blocks.ledger.set_more();
    if let Some(bytes) = left.counters {
        match postcard::from_bytes(&bytes) {
            Ok(values) => blocks.counters.restore(&values),
            Err(error) => tracing::error!("the totals cannot be read back: {error}"),
        }
    }
    let mut pages = left.over.pages;
    blocks.counters.restore_pages(left.over);
    blocks.ledger.resumed_over(left.over);
    for record in left.crawls {
        let CrawlRecord { definition, totals } = &record;
        let crawl = blocks.crawls.restore(definition.clone(), blocks.form);
        crawl.budget.resume(totals.pages);
        pages += totals.pages;
        blocks.counters.restore_pages(*totals);
        blocks.ledger.resumed(record);
    }
    // Before anything is fetched: what waits for a crawl is judged by its successor.
    blocks.crawls.restore_successions(left.successions);
    for queue in left.queues {
        blocks
            .preprocessor
            .resume(&queue.host, queue.site, queue.on_disk, queue.next_number);
    }
    for (number, record) in left.outbox {
        if blocks.crawls.get(record.crawl).is_some() {
            blocks.outbox.restore(number, record);
        } else {
            // Its crawl could not be read back: nobody knows what it is for.
            tracing::error!("{} is given up: its crawl is unknown", record.url);
            blocks.counters.given_up.add(1);
            blocks.ledger.outbox_removed(&[number]);
        }
    }
    pages
}

/// The crawls that are on disk, and what they have come to.
pub(super) fn crawls(store: &Store) -> Result<Vec<CrawlRecord>, StoreError> {
    let mut crawls: Vec<CrawlRecord> = Vec::new();
    store.for_each_crawl(|bytes| match postcard::from_bytes(bytes) {
        Ok(record) => crawls.push(record),
        Err(error) => tracing::error!("a crawl cannot be read back: {error}"),
    })?;
    for record in &mut crawls {
        let totals = store.crawl_totals(record.definition.id())?;
        match totals.as_deref().map(postcard::from_bytes) {
            Some(Ok(totals)) => record.totals = totals,
            Some(Err(error)) => tracing::error!("what a crawl came to is lost: {error}"),
            None => {}
        }
    }
    Ok(crawls)
}

/// The queues that are on disk, one for each site.
fn queues(store: &Store) -> Result<Vec<Queue>, StoreError> {
    let mut queues: Vec<Queue> = Vec::new();
    store.for_each_queued(|site, number, bytes| {
        match queues.last_mut().filter(|queue| queue.site == site) {
            Some(queue) => {
                queue.on_disk.urls += 1;
                queue.next_number = number + 1;
            }
            None => queues.extend(queued_job(bytes).map(|job| Queue {
                site,
                host: job.record.url.host().to_owned(),
                on_disk: OnDisk {
                    urls: 1,
                    from: number,
                },
                next_number: number + 1,
            })),
        }
    })?;
    Ok(queues)
}
