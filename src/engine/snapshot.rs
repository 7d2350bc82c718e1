//! What there is to look at: one immutable picture of a running engine.

use crate::preprocessor::Pressure;
use crate::report::Report;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// What has been done so far.
    pub report: Report,
    /// URLs that wait in all queues.
    pub queued_urls: usize,
    /// Sites that wait for their next fetch.
    pub sites_waiting: usize,
    /// Sites that are being fetched from.
    pub sites_fetching: usize,
    /// URLs that wait for their owners' receipts.
    pub outbox_urls: usize,
    /// How far the peer has slowed down because sites turn it away; 0 for not at all.
    pub reputation_step: u8,
    /// What to tell the volunteer about that, if anything.
    pub reputation_notice: Option<String>,
    /// Of the waiting URLs, those that are on disk alone.
    pub urls_on_disk: usize,
    /// Disk that the archive takes.
    pub archive_bytes: u64,
    /// Why nothing can be kept at present, and the crawl pauses, if that is so.
    pub trouble: Option<String>,
    /// How full the queues are.
    pub pressure: Pressure,
}
