//! What happened since the last batch.

use fjall::{Keyspace, OwnedWriteBatch};

use super::tables::{ARCHIVE, COUNTERS, Tables, pair};
use crate::archive::Position;
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
    /// `None` removes the key.
    value: Option<Box<[u8]>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Done,
    Queue,
    Site,
    Content,
    Outbox,
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

    /// A URL of this site has been dealt with.
    pub fn url_done(&mut self, site: Key, fingerprint: u64) {
        self.put(Table::Done, &pair(site.0, fingerprint), &[]);
    }

    /// The site's record, written in this batch, holds this URL: the note can go.
    pub fn url_in_record(&mut self, site: Key, fingerprint: u64) {
        self.remove(Table::Done, &pair(site.0, fingerprint));
    }

    /// A URL waits in the queue of this site.
    pub fn queue_push(&mut self, site: Key, sequence: u64, record: &[u8]) {
        self.put(Table::Queue, &pair(site.0, sequence), record);
    }

    /// It waits no more.
    pub fn queue_pop(&mut self, site: Key, sequence: u64) {
        self.remove(Table::Queue, &pair(site.0, sequence));
    }

    /// All that is known of a host.
    pub fn site_record(&mut self, host: &str, record: &[u8]) {
        self.put(Table::Site, host.as_bytes(), record);
    }

    /// The host is somebody else's now.
    pub fn site_remove(&mut self, host: &str) {
        self.remove(Table::Site, host.as_bytes());
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

    /// The totals as they are with this batch.
    pub fn counters(&mut self, counters: &[u8]) {
        self.put(Table::Totals, COUNTERS, counters);
    }

    /// The archive holds all that this batch speaks of, and ends here.
    pub fn archive_position(&mut self, position: &Position) {
        let mut value = position.offset.to_be_bytes().to_vec();
        value.extend(position.file.as_bytes());
        self.put(Table::Totals, ARCHIVE, &value);
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.changes.push(Change {
            table,
            key: key.into(),
            value: Some(value.into()),
        });
    }

    fn remove(&mut self, table: Table, key: &[u8]) {
        self.changes.push(Change {
            table,
            key: key.into(),
            value: None,
        });
    }

    pub(super) fn write_to(&self, tables: &Tables, writes: &mut OwnedWriteBatch) {
        for Change { table, key, value } in &self.changes {
            let keyspace = table.keyspace(tables);
            match value {
                Some(value) => writes.insert(keyspace, &**key, &**value),
                None => writes.remove(keyspace, &**key),
            }
        }
    }
}

impl Table {
    fn keyspace(self, tables: &Tables) -> &Keyspace {
        match self {
            Self::Done => &tables.done,
            Self::Queue => &tables.queue,
            Self::Site => &tables.site,
            Self::Content => &tables.content,
            Self::Outbox => &tables.outbox,
            Self::Totals => &tables.totals,
        }
    }
}
