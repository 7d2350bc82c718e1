//! The state, read back.

use std::ops::Bound;

use fjall::{Guard, Keyspace};

use super::error::guarded;
use super::tables::{
    ARCHIVE, ARCHIVE_SYNCED, COUNT, COUNTERS, OVER, SUCCESSIONS, Tables, pair, parts, totals_of,
};
use super::{PIECE, Store, StoreError};
use crate::archive::Position;
use crate::crawl::CrawlId;
use crate::distribution::Key;
use crate::fingerprint::ContentFingerprint;

/// A key that has not the form that its table's keys have.
const FORM: &str = "an entry has the wrong form";

impl Store {
    /// Every host that is known, with its record.
    pub fn for_each_site(&self, mut each: impl FnMut(&str, &[u8])) -> Result<(), StoreError> {
        self.for_each(
            |tables| &tables.site,
            |key, value| {
                each(str::from_utf8(key).ok()?, value);
                Some(())
            },
        )
    }

    /// The hosts that come after this one in the order of their names, so many at most.
    pub fn hosts_after(&self, host: &str, most: usize) -> Result<Vec<String>, StoreError> {
        let range = (Bound::Excluded(host.as_bytes()), Bound::Unbounded);
        let mut hosts = Vec::new();
        if most == 0 {
            return Ok(hosts);
        }
        self.walk(
            |tables| tables.site.range::<&[u8], _>(range),
            |key, _| {
                hosts.push(str::from_utf8(key).ok()?.to_owned());
                Some(hosts.len() < most)
            },
        )?;
        Ok(hosts)
    }

    /// The record of one host.
    pub fn site(&self, host: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(|tables| &tables.site, host.as_bytes())
    }

    /// URLs of a host that were seen before it was ours.
    pub fn seen_elsewhere(&self, host: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(|tables| &tables.seen, host.as_bytes())
    }

    /// Every crawl that this peer takes part in.
    pub fn for_each_crawl(&self, mut each: impl FnMut(&[u8])) -> Result<(), StoreError> {
        self.for_each(
            |tables| &tables.crawl,
            |key, value| {
                if key.len() == size_of::<CrawlId>() {
                    each(value);
                }
                Some(())
            },
        )
    }

    /// What a crawl has come to, if that has changed since it was put down.
    pub fn crawl_totals(&self, id: CrawlId) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(|tables| &tables.crawl, &totals_of(id))
    }

    /// Every URL that was seen.
    pub fn for_each_seen(&self, mut each: impl FnMut(Key, u64)) -> Result<(), StoreError> {
        self.for_each(
            |tables| &tables.url,
            |key, _| {
                let (site, fingerprint) = parts(key)?;
                each(Key(site), fingerprint);
                Some(())
            },
        )
    }

    /// Those of one site.
    pub fn seen_of(&self, site: Key) -> Result<Vec<u64>, StoreError> {
        let tables = |tables: &Tables| tables.url.prefix(site.0.to_be_bytes());
        let mut seen = Vec::new();
        self.walk(tables, |key, _| {
            seen.push(parts(key)?.1);
            Some(true)
        })?;
        Ok(seen)
    }

    /// Whether a URL of a site was seen.
    pub fn is_seen(&self, site: Key, fingerprint: u64) -> Result<bool, StoreError> {
        let key = pair(site.0, fingerprint);
        self.with_tables(|tables| guarded(&self.path, || tables.url.contains_key(key)))
    }

    /// Every URL that waits, site by site and in order.
    pub fn for_each_queued(&self, mut each: impl FnMut(Key, u64, &[u8])) -> Result<(), StoreError> {
        self.for_each(
            |tables| &tables.queue,
            |key, value| {
                let (site, sequence) = parts(key)?;
                each(Key(site), sequence, value);
                Some(())
            },
        )
    }

    /// The next URLs of a site's queue from a sequence number on, so many at most.
    pub fn queue_segment(
        &self,
        site: Key,
        from: u64,
        most: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let range = pair(site.0, from)..=pair(site.0, u64::MAX);
        let mut segment = Vec::new();
        if most == 0 {
            return Ok(segment);
        }
        self.walk(
            |tables| tables.queue.range(range),
            |key, value| {
                segment.push((parts(key)?.1, value.to_vec()));
                Some(segment.len() < most)
            },
        )?;
        Ok(segment)
    }

    /// Every content that was seen.
    pub fn for_each_content(
        &self,
        mut each: impl FnMut(ContentFingerprint, &[u8]),
    ) -> Result<(), StoreError> {
        self.for_each(
            |tables| &tables.content,
            |key, value| {
                each(ContentFingerprint(key.try_into().ok()?), value);
                Some(())
            },
        )
    }

    /// Where and when one content was seen.
    pub fn content(&self, fingerprint: ContentFingerprint) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(|tables| &tables.content, &fingerprint.0)
    }

    /// Every URL that waits for its owner's receipt, in order.
    pub fn for_each_in_outbox(&self, mut each: impl FnMut(u64, &[u8])) -> Result<(), StoreError> {
        self.for_each(
            |tables| &tables.outbox,
            |key, value| {
                each(u64::from_be_bytes(key.try_into().ok()?), value);
                Some(())
            },
        )
    }

    /// What was done and may not have been on the disk yet, in order.
    pub fn for_each_recent(&self, mut each: impl FnMut(u64, &[u8])) -> Result<(), StoreError> {
        self.for_each(
            |tables| &tables.recent,
            |key, value| {
                each(u64::from_be_bytes(key.try_into().ok()?), value);
                Some(())
            },
        )
    }

    /// The totals of the last batch.
    pub fn counters(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(|tables| &tables.totals, COUNTERS)
    }

    /// What crawls have come to that are over.
    pub fn over(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(|tables| &tables.totals, OVER)
    }

    /// Which crawls of the user's took whose place; none in a store of an older version.
    pub fn successions(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(|tables| &tables.totals, SUCCESSIONS)
    }

    /// Where the archive ended with the last batch.
    pub fn archive_position(&self) -> Result<Option<Position>, StoreError> {
        self.place(ARCHIVE)
    }

    /// How much of the archive the disk had when it was last brought there, and never more
    /// than the last batch knows; `None` in a store of an older version.
    pub fn archive_synced(&self) -> Result<Option<Position>, StoreError> {
        self.place(ARCHIVE_SYNCED)
    }

    fn place(&self, key: &[u8]) -> Result<Option<Position>, StoreError> {
        let Some(value) = self.get(|tables| &tables.totals, key)? else {
            return Ok(None);
        };
        let position = value.split_first_chunk().and_then(|(offset, file)| {
            Some(Position {
                file: str::from_utf8(file).ok()?.to_owned(),
                offset: u64::from_be_bytes(*offset),
            })
        });
        match position {
            Some(position) => Ok(Some(position)),
            None => Err(self.damaged()),
        }
    }

    /// Reads everything there is, for damage that shows only then.
    pub(super) fn read_through(&self) -> Result<(), StoreError> {
        for number in 0..COUNT {
            self.for_each(|tables| tables.all()[number], |_, _| Some(()))?;
        }
        Ok(())
    }

    fn damaged(&self) -> StoreError {
        StoreError::Damaged(self.path.clone(), FORM.to_owned())
    }

    fn get(
        &self,
        table: impl FnOnce(&Tables) -> &Keyspace,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.with_tables(|tables| {
            let value = guarded(&self.path, || table(tables).get(key))?;
            Ok(value.map(|value| value.to_vec()))
        })
    }

    /// Walks over a table, piece by piece: while somebody walks, the database keeps whatever
    /// is written meanwhile in memory, too.
    fn for_each(
        &self,
        table: impl Fn(&Tables) -> &Keyspace,
        mut each: impl FnMut(&[u8], &[u8]) -> Option<()>,
    ) -> Result<(), StoreError> {
        let mut begin = Bound::Unbounded;
        loop {
            let (mut count, mut last) = (0, None);
            let piece = (begin, Bound::Unbounded);
            self.walk(
                |tables| table(tables).range::<Vec<u8>, _>(piece),
                |key, value| {
                    each(key, value)?;
                    count += 1;
                    if count == PIECE {
                        last = Some(key.to_vec());
                    }
                    Some(count < PIECE)
                },
            )?;
            match last {
                Some(key) => begin = Bound::Excluded(key),
                None => return Ok(()),
            }
        }
    }

    /// Calls `each` with one entry after another, until it says `false`, or `None` for
    /// an entry that cannot be.
    fn walk<I: Iterator<Item = Guard>>(
        &self,
        entries: impl FnOnce(&Tables) -> I,
        mut each: impl FnMut(&[u8], &[u8]) -> Option<bool>,
    ) -> Result<(), StoreError> {
        // Nobody is kept from committing, and what is committed meanwhile may be met.
        let mut entries = self.with_tables(|tables| Ok(entries(tables)))?;
        let mut next = || entries.next().map(Guard::into_inner).transpose();
        while let Some((key, value)) = guarded(&self.path, &mut next)? {
            if !each(&key, &value).ok_or_else(|| self.damaged())? {
                break;
            }
        }
        Ok(())
    }

    fn with_tables<T>(
        &self,
        act: impl FnOnce(&Tables) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(open) = &*self.open.read() {
            return act(&open.tables);
        }
        let mut guard = self.open.write();
        let open = match &mut *guard {
            Some(open) => open,
            none => none.insert(self.open_again()?),
        };
        act(&open.tables)
    }
}
