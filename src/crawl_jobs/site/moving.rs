//! A site that moves: as bytes to another peer, and there into one with what that peer knows of
//! the same host.

use std::collections::{HashSet, VecDeque};

use super::{CrawlJob, Site};
use crate::clock::Millis;
use crate::record::UrlRecord;
use crate::store::StoreError;

/// The first byte of a frozen site; a form that differs gets another number.
pub(super) const FORMAT: u8 = 2;

/// Why bytes are not a site.
#[derive(Debug, thiserror::Error)]
pub enum SiteRecordError {
    /// Written by a version that this one does not know.
    #[error("site record of unknown form {0}")]
    Form(u8),
    /// Not decodable.
    #[error("site record is damaged: {0}")]
    Damaged(#[from] postcard::Error),
    /// A URL of another host is in the queue.
    #[error("site record of {0} holds a URL of another host")]
    ForeignUrl(Box<str>),
    /// What is on disk of it cannot be read.
    #[error("site record cannot be read back: {0}")]
    Store(#[from] StoreError),
    /// A part of its queue is still on its way to the disk.
    #[error("site record is still being written")]
    OnItsWay,
    /// A URL in its queue belongs to a crawl that this peer knows nothing of.
    #[error("site record of {0} holds a URL of an unknown crawl")]
    UnknownCrawl(Box<str>),
    /// More URLs wait for it than this peer takes for any site, and nobody could tell
    /// afterwards which were left out.
    #[error("too many URLs wait for site {0}")]
    TooMany(Box<str>),
    /// This peer has as many URLs as it may have.
    #[error("no room for the URLs of site {0}")]
    Busy(Box<str>),
    /// This peer has as many sites as it may have.
    #[error("no room for site {0}")]
    NoRoom(Box<str>),
}

/// What is left to do after two records of one site have become one.
pub struct United {
    /// The queue that came with the record.
    pub arrived: VecDeque<CrawlJob>,
    /// What of it is done here, or under way.
    pub done: VecDeque<CrawlJob>,
    /// URLs that waited here and are no longer wanted.
    pub known: VecDeque<CrawlJob>,
}

impl Site {
    /// Takes over the record of the same host from other hands, all but its queue, which
    /// comes back in order, to be pushed, without what is done here. URLs that waited here
    /// meanwhile stay, unless the record knows them (those are queued there, or done):
    /// these come back as well.
    pub fn unite(
        &mut self,
        mut arrived: Self,
        now_ms: Millis,
        fingerprint: impl Fn(&UrlRecord) -> u64,
    ) -> United {
        let is_known = |job: &CrawlJob| arrived.seen.contains(fingerprint(&job.record));
        let (known, mine): (VecDeque<_>, _) = std::mem::take(&mut self.queue)
            .into_iter()
            .partition(is_known);
        self.queue = mine;
        // What was seen here and waits here no more is done here, or under way.
        let waited: HashSet<_> = known.iter().map(|job| fingerprint(&job.record)).collect();
        let (queue, done): (VecDeque<_>, _) = arrived.queue.into_iter().partition(|job| {
            let fingerprint = fingerprint(&job.record);
            waited.contains(&fingerprint) || !self.seen.contains(fingerprint)
        });
        self.generation = self.generation.max(arrived.generation);
        // Nothing was admitted that was not seen: no record fills a site up by its word.
        let admitted = arrived.counters.admitted.min(arrived.seen.len());
        let seen = std::mem::take(&mut self.seen);
        arrived.seen.union(seen);
        self.seen = arrived.seen;
        for (path, count) in arrived.queries {
            let queries = self.queries.entry(path).or_default();
            *queries = queries.saturating_add(count);
        }
        // Pushing what waits there counts it again.
        let waits = queue.len() as u64;
        let theirs = &arrived.counters;
        let add = |mine: &mut u64, theirs: u64| *mine = mine.saturating_add(theirs);
        add(&mut self.counters.admitted, admitted.saturating_sub(waits));
        add(&mut self.counters.fetched, theirs.fetched);
        add(&mut self.counters.errors, theirs.errors);
        // The rules are asked for again where we have none: a stranger's word is no
        // permission. How long to wait is taken from both.
        arrived.pace.take_up(now_ms);
        self.pace.next_fetch_ms = self.pace.next_fetch_ms.max(arrived.pace.next_fetch_ms);
        self.pace.delay_ms = self.pace.delay_ms.max(arrived.pace.delay_ms);
        self.pace.failures = self.pace.failures.max(arrived.pace.failures);
        self.is_changed = true;
        United {
            arrived: queue,
            done,
            known,
        }
    }

    /// The site as bytes: a form number, then the fields in postcard's encoding.
    pub fn freeze(&self) -> Result<Vec<u8>, SiteRecordError> {
        let bytes = vec![FORMAT];
        Ok(postcard::to_extend(self, bytes)?)
    }

    /// A frozen site in new hands.
    pub fn thaw(bytes: &[u8]) -> Result<Self, SiteRecordError> {
        let (&form, fields) = bytes
            .split_first()
            .ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        if form != FORMAT {
            return Err(SiteRecordError::Form(form));
        }
        let mut site: Self = postcard::from_bytes(fields)?;
        let is_foreign = |job: &CrawlJob| job.record.url.host() != &*site.host;
        if site.queue.iter().any(is_foreign) {
            return Err(SiteRecordError::ForeignUrl(site.host));
        }
        site.generation = site.generation.saturating_add(1);
        Ok(site)
    }
}
