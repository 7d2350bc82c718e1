//! What happened since the last batch.

use std::collections::HashMap;

use fjall::{Keyspace, OwnedWriteBatch};

use super::tables::{
    ARCHIVE, ARCHIVE_SYNCED, COUNTERS, OVER, SUCCESSIONS, Tables, pair, totals_of,
};
use crate::archive::Position;
use crate::crawl::CrawlId;
use crate::distribution::Key;
use crate::fingerprint::ContentFingerprint;

/// Changes that belong together. What comes later in a batch wins over what is earlier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    changes: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    table: Table,
    key: Box<[u8]>,
    to: To,
}

/// What all keys of a site's URLs begin with.
const SITE_BYTES: usize = size_of::<u64>();

#[derive(Debug, Clone, PartialEq, Eq)]
enum To {
    Value(Box<[u8]>),
    Nothing,
    /// Every key that begins with this one goes, which is that of a site.
    NothingBelow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Table {
    Url,
    Queue,
    Site,
    Seen,
    Content,
    Outbox,
    Crawl,
    Recent,
    Totals,
}

impl Batch {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// A URL of this site was seen.
    pub fn url_seen(&mut self, site: Key, fingerprint: u64) {
        self.put(Table::Url, &pair(site.0, fingerprint), &[]);
    }

    /// A URL waits in the queue of this site.
    pub fn queue_push(&mut self, site: Key, sequence: u64, record: &[u8]) {
        self.put(Table::Queue, &pair(site.0, sequence), record);
    }

    /// It waits no more.
    pub fn queue_pop(&mut self, site: Key, sequence: u64) {
        self.remove(Table::Queue, &pair(site.0, sequence));
    }

    /// Nothing waits in the queue of this site any more.
    pub fn queue_clear(&mut self, site: Key) {
        self.clear(Table::Queue, site);
    }

    /// What is known of a host, its queue and its seen URLs apart.
    pub fn site_record(&mut self, host: &str, record: &[u8]) {
        self.put(Table::Site, host.as_bytes(), record);
    }

    /// URLs of a host that were seen elsewhere, before it was ours, if they are too many
    /// to be noted one by one.
    pub fn seen_elsewhere(&mut self, host: &str, seen: &[u8]) {
        self.put(Table::Seen, host.as_bytes(), seen);
    }

    /// The host is somebody else's now, with all that is known of it.
    pub fn site_remove(&mut self, host: &str, site: Key) {
        self.remove(Table::Site, host.as_bytes());
        self.remove(Table::Seen, host.as_bytes());
        self.clear(Table::Queue, site);
        self.clear(Table::Url, site);
    }

    /// A crawl that this peer takes part in. Its definition may be long.
    pub fn crawl(&mut self, id: CrawlId, record: &[u8]) {
        self.put(Table::Crawl, &id.0.to_be_bytes(), record);
    }

    /// What it has come to.
    pub fn crawl_totals(&mut self, id: CrawlId, totals: &[u8]) {
        self.put(Table::Crawl, &totals_of(id), totals);
    }

    /// This peer takes part in a crawl no more.
    pub fn crawl_remove(&mut self, id: CrawlId) {
        self.remove(Table::Crawl, &id.0.to_be_bytes());
        self.remove(Table::Crawl, &totals_of(id));
    }

    /// What the crawls have come to that it takes part in no more.
    pub fn over(&mut self, totals: &[u8]) {
        self.put(Table::Totals, OVER, totals);
    }

    /// Which crawls of the user's took whose place.
    pub fn successions(&mut self, successions: &[u8]) {
        self.put(Table::Totals, SUCCESSIONS, successions);
    }

    /// Where and when a content was seen.
    pub fn content(&mut self, fingerprint: ContentFingerprint, claim: &[u8]) {
        self.put(Table::Content, &fingerprint.0, claim);
    }

    /// A claim is void, or somebody else's now.
    pub fn content_remove(&mut self, fingerprint: ContentFingerprint) {
        self.remove(Table::Content, &fingerprint.0);
    }

    /// A URL waits for its owner's receipt.
    pub fn outbox_put(&mut self, sequence: u64, record: &[u8]) {
        self.put(Table::Outbox, &sequence.to_be_bytes(), record);
    }

    /// Its owner has it.
    pub fn outbox_remove(&mut self, sequence: u64) {
        self.remove(Table::Outbox, &sequence.to_be_bytes());
    }

    /// URLs are done, and stay in their queues until their pages are on the disk.
    pub fn recent_put(&mut self, sequence: u64, record: &[u8]) {
        self.put(Table::Recent, &sequence.to_be_bytes(), record);
    }

    /// Those pages are on the disk, or are to be fetched again.
    pub fn recent_remove(&mut self, sequence: u64) {
        self.remove(Table::Recent, &sequence.to_be_bytes());
    }

    /// The totals as they are with this batch.
    pub fn counters(&mut self, counters: &[u8]) {
        self.put(Table::Totals, COUNTERS, counters);
    }

    /// The archive holds all that this batch speaks of, and ends here.
    pub fn archive_position(&mut self, position: &Position) {
        self.place(ARCHIVE, position);
    }

    /// The disk has the archive up to here.
    pub fn archive_synced(&mut self, position: &Position) {
        self.place(ARCHIVE_SYNCED, position);
    }

    fn place(&mut self, key: &[u8], position: &Position) {
        let mut value = position.offset.to_be_bytes().to_vec();
        value.extend(position.file.as_bytes());
        self.put(Table::Totals, key, &value);
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.change(table, key, To::Value(value.into()));
    }

    fn remove(&mut self, table: Table, key: &[u8]) {
        self.change(table, key, To::Nothing);
    }

    fn clear(&mut self, table: Table, site: Key) {
        self.change(table, &site.0.to_be_bytes(), To::NothingBelow);
    }

    fn change(&mut self, table: Table, key: &[u8], to: To) {
        let key = key.into();
        self.changes.push(Change { table, key, to });
    }

    /// What this batch clears: a table, and what the keys that go begin with.
    pub(super) fn clears<'a>(
        &'a self,
        tables: &'a Tables,
    ) -> impl Iterator<Item = (&'a Keyspace, &'a [u8])> {
        let clears = self.changes.iter().filter(|one| one.to == To::NothingBelow);
        clears.map(|one| (one.table.keyspace(tables), &*one.key))
    }

    pub(super) fn write_to(
        &self,
        tables: &Tables,
        writes: &mut OwnedWriteBatch,
    ) -> fjall::Result<()> {
        let clears = self.changes.iter().filter(|one| one.to == To::NothingBelow);
        // What this very batch has put where something is cleared is not in the table yet.
        let cleared = clears.map(|one| ((one.table, &*one.key), Vec::new()));
        let mut put: HashMap<(Table, &[u8]), Vec<&[u8]>> = cleared.collect();
        for Change { table, key, to } in &self.changes {
            let keyspace = table.keyspace(tables);
            let site = key.get(..SITE_BYTES).unwrap_or(key);
            match to {
                To::Value(value) => writes.insert(keyspace, &**key, &**value),
                To::Nothing => writes.remove(keyspace, &**key),
                To::NothingBelow => {
                    for entry in keyspace.prefix(&**key) {
                        writes.remove(keyspace, entry.key()?);
                    }
                    let put = put.get_mut(&(*table, site)).into_iter();
                    for key in put.flat_map(std::mem::take) {
                        writes.remove(keyspace, key);
                    }
                }
            }
            if let (To::Value(_), Some(put)) = (to, put.get_mut(&(*table, site))) {
                put.push(key);
            }
        }
        Ok(())
    }
}

impl Table {
    fn keyspace(self, tables: &Tables) -> &Keyspace {
        match self {
            Self::Url => &tables.url,
            Self::Queue => &tables.queue,
            Self::Site => &tables.site,
            Self::Seen => &tables.seen,
            Self::Content => &tables.content,
            Self::Outbox => &tables.outbox,
            Self::Crawl => &tables.crawl,
            Self::Recent => &tables.recent,
            Self::Totals => &tables.totals,
        }
    }
}
