//! Whether a site has seen a URL, and what it remembers of the URLs of one path.

use xxhash_rust::xxh3::xxh3_64;

use crate::canonical::CanonicalUrl;
use crate::crawl_jobs::SiteState;

/// Whether the site has taken in a URL of this fingerprint, as far as memory knows
/// (block 13).
pub fn is_seen(state: &SiteState, fingerprint: u64) -> bool {
    state.is_seen(fingerprint)
}

/// The hash of the path that a URL with a query varies; `None` without a query.
pub fn path_of_query(url: &CanonicalUrl) -> Option<u64> {
    let (path, _) = url.path_and_query().split_once('?')?;
    Some(xxh3_64(path.as_bytes()))
}
