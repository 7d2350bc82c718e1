//! What a crawl is: seeds, scope and bounds.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::config::{self, Scope};

/// Names a crawl: a hash of its definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CrawlId(pub u64);

/// Seeds, scope and bounds. Two peers with equal definitions work on the same crawl.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrawlDefinition {
    /// Where it begins.
    pub seeds: Vec<String>,
    /// How far it may go from there.
    pub scope: Scope,
    /// How much it may fetch.
    pub bounds: Bounds,
}

/// How much a crawl may fetch, and what it takes for a trap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Complete pages; 0 for no bound.
    pub max_pages: u64,
    /// Links from a seed.
    pub max_depth: u16,
    /// Pages of one host.
    pub max_pages_per_site: u32,
    /// Different queries of one path.
    pub max_queries_per_path: u32,
    /// Length of a URL.
    pub max_url_bytes: u32,
    /// How often one path segment may occur in a URL.
    pub max_segment_repeats: u16,
    /// Redirects in a row.
    pub max_redirects: u8,
}

/// Keeps crawl ids apart from other hashes of the same bytes.
const CRAWL_ID_SEED: u64 = 0x7065_6572_6372_6177;

impl CrawlDefinition {
    /// The crawl that the settings describe.
    pub fn from_settings(settings: &config::Crawl) -> Self {
        Self {
            seeds: settings.seeds.clone(),
            scope: settings.scope,
            bounds: Bounds {
                max_pages: settings.max_pages,
                max_depth: settings.max_depth,
                max_pages_per_site: settings.max_pages_per_site,
                max_queries_per_path: settings.max_queries_per_path,
                max_url_bytes: settings.max_url_bytes,
                max_segment_repeats: settings.max_segment_repeats,
                max_redirects: settings.max_redirects,
            },
        }
    }

    /// Whether another definition differs from this one in its seeds at most.
    pub fn has_rules_of(&self, other: &Self) -> bool {
        self.scope == other.scope && self.bounds == other.bounds
    }

    /// The id that stands for this definition.
    pub fn id(&self) -> CrawlId {
        // Encoding plain numbers and strings into memory does not fail.
        let bytes = postcard::to_stdvec(self).unwrap_or_default();
        CrawlId(xxh3_64_with_seed(&bytes, CRAWL_ID_SEED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_stands_for_the_whole_definition() {
        let first = CrawlDefinition::from_settings(&config::Crawl::default());
        let mut second = first.clone();
        assert_eq!(first.id(), second.id());
        second.bounds.max_redirects += 1;
        assert_ne!(first.id(), second.id());
        let mut third = first.clone();
        third.seeds.push("http://a.example/".into());
        assert_ne!(first.id(), third.id());
    }
}
