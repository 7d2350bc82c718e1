//! The state, read back.

use fjall::{Guard, Keyspace};

use super::error::guarded;
use super::tables::{
    ARCHIVE, ARCHIVE_SYNCED, COUNT, COUNTERS, OVER, SUCCESSIONS, Tables, pair, parts,
};
use super::{Store, StoreError};
use crate::archive::Position;
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
            |_, value| {
                each(value);
                Some(())
            },
        )
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
            self.walk(|tables| tables.all()[number].iter(), |_, _| Some(true))?;
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

    fn for_each(
        &self,
        table: impl FnOnce(&Tables) -> &Keyspace,
        mut each: impl FnMut(&[u8], &[u8]) -> Option<()>,
    ) -> Result<(), StoreError> {
        self.walk(
            |tables| table(tables).iter(),
            |key, value| each(key, value).map(|()| true),
        )
    }

    /// Calls `each` with one entry after another, until it says `false`, or `None` for
    /// an entry that cannot be.
    fn walk<I: Iterator<Item = Guard>>(
        &self,
        entries: impl FnOnce(&Tables) -> I,
        mut each: impl FnMut(&[u8], &[u8]) -> Option<bool>,
    ) -> Result<(), StoreError> {
        // The iterator sees one state of the store; nobody is kept from committing.
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
