//! Where everything is kept, and by which key.
//!
//! | table | key | value |
//! |---|---|---|
//! | `url` | site (8), URL fingerprint (8) | nothing: it was seen |
//! | `queue` | site (8), sequence (8) | URL record |
//! | `site` | host name | site record |
//! | `seen` | host name | very many URLs, seen before the site was ours |
//! | `content` | content fingerprint (16) | claim |
//! | `outbox` | sequence (8) | URL record |
//! | `crawl` | crawl id (8) | definition, and what it had come to when that was put down |
//! | `crawl` | crawl id (8), `t` | what it has come to since, in all |
//! | `recent` | sequence (8) | URLs that are done, and where their pages are |
//! | `totals` | a word | counters, the archive's position, what crawls have come to that are over, which of the user's took whose place, or the number of the last batch |
//!
//! Numbers are big-endian, so that their order is the order of the keys.

use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::config::PartitioningPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions};

use crate::crawl::CrawlId;

/// Blocks of the tables that are kept in memory.
pub(super) const CACHE_BYTES: u64 = 8 << 20;
/// The journal is read at start, so it is kept as short as the database allows.
pub(super) const JOURNAL_BYTES: u64 = 64 << 20;
/// Each table collects so much in memory before it writes a file. Two such wait to be
/// written in each of five busy tables before writers wait: what a crawl takes at its
/// beginning, when every link is new.
pub(super) const PART_BYTES: u64 = 1 << 20;
/// How large files are. New ones are merged with all of the first level, which has four of
/// these: with files of 64 MiB, each megabyte that is new would have 64 written again.
const FILE_BYTES: u64 = 4 << 20;

/// How many there are.
pub(super) const COUNT: usize = 9;

pub(super) struct Tables {
    pub url: Keyspace,
    pub queue: Keyspace,
    pub site: Keyspace,
    pub seen: Keyspace,
    pub content: Keyspace,
    pub outbox: Keyspace,
    pub crawl: Keyspace,
    pub recent: Keyspace,
    pub totals: Keyspace,
}

/// Keys of `totals`.
pub(super) const COUNTERS: &[u8] = b"counters";
pub(super) const ARCHIVE: &[u8] = b"archive";
pub(super) const ARCHIVE_SYNCED: &[u8] = b"archive-synced";
pub(super) const OVER: &[u8] = b"over";
pub(super) const SUCCESSIONS: &[u8] = b"successions";
pub(super) const BATCH: &[u8] = b"batch";

impl Tables {
    pub fn open(database: &Database) -> fjall::Result<Self> {
        // In one piece, the filter and the index of a large file are read whole, and
        // checked, for each key that is looked up: hundreds of kilobytes.
        let in_pieces = || PartitioningPolicy::all(true);
        let merging = Arc::new(Leveled::default().with_table_target_size(FILE_BYTES));
        let options = || {
            KeyspaceCreateOptions::default()
                .compaction_strategy(merging.clone())
                .filter_block_partitioning_policy(in_pieces())
                .index_block_partitioning_policy(in_pieces())
        };
        let table = |name| database.keyspace(name, options);
        Ok(Self {
            url: table("url")?,
            queue: table("queue")?,
            site: table("site")?,
            seen: table("seen")?,
            content: table("content")?,
            outbox: table("outbox")?,
            crawl: table("crawl")?,
            recent: table("recent")?,
            totals: table("totals")?,
        })
    }

    /// Every one of them.
    pub fn all(&self) -> [&Keyspace; COUNT] {
        [
            &self.url,
            &self.queue,
            &self.site,
            &self.seen,
            &self.content,
            &self.outbox,
            &self.crawl,
            &self.recent,
            &self.totals,
        ]
    }
}

/// The key of what a crawl has come to.
pub(super) fn totals_of(id: CrawlId) -> [u8; 9] {
    let mut key = [b't'; 9];
    key[..8].copy_from_slice(&id.0.to_be_bytes());
    key
}

/// A key of two numbers.
pub(super) fn pair(first: u64, second: u64) -> [u8; 16] {
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

/// The two numbers of a key.
pub(super) fn parts(key: &[u8]) -> Option<(u64, u64)> {
    let both = u128::from_be_bytes(key.try_into().ok()?);
    Some(((both >> 64) as u64, both as u64))
}
