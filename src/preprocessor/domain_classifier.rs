//! Which site a URL belongs to.
//!
//! All URLs of one host go to one site. The map is cut into shards, so that threads
//! which work on different hosts rarely meet.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::crawl_jobs::{Site, SiteCell};
use crate::distribution::Key;

const SHARDS: usize = 64;

/// See the module.
pub struct DomainClassifier {
    shards: Vec<Mutex<HashMap<Box<str>, Arc<SiteCell>>>>,
    count: AtomicUsize,
    most: usize,
}

impl DomainClassifier {
    /// No sites yet, and `most` of them at most.
    pub fn new(most: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
            most,
        }
    }

    /// The site of a host, made if it is new; `None` if there are too many already. A new
    /// one `is_whole` unless something may be known of it on disk.
    pub fn site(&self, host: &str, key: Key, is_whole: bool) -> Option<Arc<SiteCell>> {
        let mut shard = self.shard(key).lock();
        if let Some(cell) = shard.get(host) {
            return Some(cell.clone());
        }
        if self.count.load(Relaxed) >= self.most {
            return None;
        }
        self.count.fetch_add(1, Relaxed);
        let cell = Arc::new(SiteCell::new(key, Site::new(host), is_whole));
        shard.insert(host.into(), cell.clone());
        Some(cell)
    }

    /// The site of a host, if it is here.
    pub fn find(&self, host: &str) -> Option<Arc<SiteCell>> {
        self.shard(Key::of_host(host)).lock().get(host).cloned()
    }

    /// The site of this host is here no longer.
    pub fn forget(&self, host: &str) {
        if self.shard(Key::of_host(host)).lock().remove(host).is_some() {
            self.count.fetch_sub(1, Relaxed);
        }
    }

    /// Every site.
    pub fn sites(&self) -> Vec<Arc<SiteCell>> {
        let shards = self.shards.iter();
        shards
            .flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>())
            .collect()
    }

    fn shard(&self, key: Key) -> &Mutex<HashMap<Box<str>, Arc<SiteCell>>> {
        // The low bits are as good as any: keys are well mixed.
        &self.shards[key.0 as usize % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_one_site_and_no_more_than_the_bound() {
        let classifier = DomainClassifier::new(2);
        let site = |host: &str| classifier.site(host, Key::of_host(host), true);
        let first = site("a.example").unwrap();
        assert!(Arc::ptr_eq(&first, &site("a.example").unwrap()));
        assert!(!Arc::ptr_eq(&first, &site("b.example").unwrap()));
        assert!(site("c.example").is_none());
        classifier.forget("b.example");
        assert!(site("c.example").is_some());
        assert_eq!(classifier.sites().len(), 2);
    }
}
