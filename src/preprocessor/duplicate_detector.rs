//! Whether a site has seen a URL, and what it remembers of the URLs of one path.

use xxhash_rust::xxh3::xxh3_64;

use crate::canonical::CanonicalUrl;
use crate::crawl_jobs::Site;

/// Whether the site has ever taken in a URL of this fingerprint (block 13 knows).
pub fn is_seen(site: &Site, fingerprint: u64) -> bool {
    site.seen.contains(fingerprint)
}

/// The hash of the path that a URL with a query varies; `None` without a query.
pub fn path_of_query(url: &CanonicalUrl) -> Option<u64> {
    let (path, _) = url.path_and_query().split_once('?')?;
    Some(xxh3_64(path.as_bytes()))
}
