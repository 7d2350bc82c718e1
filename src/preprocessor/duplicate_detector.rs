//! Whether a site has seen a URL, and what it remembers of the URLs of one path.

use xxhash_rust::xxh3::xxh3_64;

use super::Candidate;
use crate::canonical::CanonicalUrl;
use crate::crawl::Crawl;
use crate::crawl_jobs::SiteState;

/// Whether the site has taken in a URL of this fingerprint, as far as memory knows
/// (block 13).
pub fn is_seen(state: &SiteState, fingerprint: u64) -> bool {
    state.is_seen(fingerprint)
}

/// Whether a URL that was seen is to be fetched again: its crawl begins with it, and it
/// does not wait already, as far as memory knows.
pub fn comes_again(crawl: &Crawl, state: &SiteState, url: &Candidate) -> bool {
    let waits = || {
        let mut waiting = state.site.records();
        waiting.any(|record| record.url == url.record.url)
    };
    crawl.wants_again(&url.record, url.fingerprint) && !waits()
}

/// The hash of the path that a URL with a query varies; `None` without a query.
pub fn path_of_query(url: &CanonicalUrl) -> Option<u64> {
    let (path, _) = url.path_and_query().split_once('?')?;
    Some(xxh3_64(path.as_bytes()))
}
