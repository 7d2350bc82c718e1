//! A URL as it travels: queued, stored and sent in this form.

use peercrawl_overlay::PeerId;
use serde::{Deserialize, Serialize};

use crate::canonical::CanonicalUrl;
use crate::crawl::CrawlId;

/// A URL, with what must be known about it wherever it goes: bounds and receipts hold
/// across peers only if depth, crawl and origin travel along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlRecord {
    /// The URL in canonical form.
    pub url: CanonicalUrl,
    /// The crawl that it belongs to.
    pub crawl: CrawlId,
    /// Links from a seed to its first discovery.
    pub depth: u16,
    /// Redirects in a row that led to it.
    pub redirects: u8,
    /// The peer that it came from; none if this peer found it itself. Boxed, because
    /// most URLs have none and millions of them wait in queues.
    pub from: Option<Box<PeerId>>,
}
