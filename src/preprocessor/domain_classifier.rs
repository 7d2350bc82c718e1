//! Which site a URL belongs to.
//!
//! All URLs of one host go to one site. The map is cut into shards, so that threads
//! which work on different hosts rarely meet.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::crawl_jobs::SiteCell;
use crate::distribution::Key;

const SHARDS: usize = 64;

/// See the module.
pub struct DomainClassifier {
    shards: Vec<Mutex<HashMap<Box<str>, Arc<SiteCell>>>>,
    count: AtomicUsize,
    /// As many as there may be.
    most: usize,
    /// As many as there is memory for.
    room: AtomicUsize,
    waiting: Mutex<()>,
    /// Wakes whoever waits for room.
    has_room: Condvar,
}

impl DomainClassifier {
    /// No sites yet, and `most` of them at most.
    pub fn new(most: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
            most,
            room: AtomicUsize::new(most),
            waiting: Mutex::default(),
            has_room: Condvar::new(),
        }
    }

    /// From now on there is memory for so many sites.
    pub fn set_room(&self, sites: usize) {
        self.room.store(sites.min(self.most), Relaxed);
    }

    /// The site of a host, made if it is not here; `None` if there are too many already.
    /// One that `comes_back` has a place in any case.
    pub fn site(
        &self,
        host: &str,
        key: Key,
        comes_back: bool,
        make: impl FnOnce() -> SiteCell,
    ) -> Option<Arc<SiteCell>> {
        let mut shard = self.shard(key).lock();
        if let Some(cell) = shard.get(host) {
            return Some(cell.clone());
        }
        if !comes_back && self.count.load(Relaxed) >= self.room.load(Relaxed) {
            return None;
        }
        self.count.fetch_add(1, Relaxed);
        let cell = Arc::new(make());
        shard.insert(host.into(), cell.clone());
        Some(cell)
    }

    /// How many sites there are.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Whether there is no memory for one more, until another leaves.
    pub fn is_full(&self) -> bool {
        self.makes_room() && self.count.load(Relaxed) >= self.room.load(Relaxed)
    }

    /// Whether it is memory that bounds them, of which more can be made.
    pub fn makes_room(&self) -> bool {
        (1..self.most).contains(&self.room.load(Relaxed))
    }

    /// Waits until one leaves, or for `limit`, if there is no memory for one more.
    pub fn wait_for_room(&self, limit: Duration) {
        let mut waiting = self.waiting.lock();
        if self.is_full() {
            self.has_room.wait_for(&mut waiting, limit);
        }
    }

    /// The site of a host, if it is here.
    pub fn find(&self, host: &str) -> Option<Arc<SiteCell>> {
        self.shard(Key::of_host(host)).lock().get(host).cloned()
    }

    /// Does something if no site of a host is here, and lets none be made meanwhile.
    pub fn unless_here<T>(&self, host: &str, act: impl FnOnce() -> T) -> Option<T> {
        let shard = self.shard(Key::of_host(host)).lock();
        (!shard.contains_key(host)).then(act)
    }

    /// The site of this host is here no longer.
    pub fn forget(&self, host: &str) {
        if self.shard(Key::of_host(host)).lock().remove(host).is_some() {
            self.count.fetch_sub(1, Relaxed);
            // Under the lock, so that whoever has just looked is already waiting.
            let _waiting = self.waiting.lock();
            self.has_room.notify_all();
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
    use crate::crawl_jobs::Site;

    #[test]
    fn one_host_one_site_and_no_more_than_the_bound() {
        let classifier = DomainClassifier::new(2);
        let either = |host: &str, comes_back| {
            let key = Key::of_host(host);
            let make = || SiteCell::new(key, Site::new(host), true);
            classifier.site(host, key, comes_back, make)
        };
        let site = |host| either(host, false);
        let first = site("a.example").unwrap();
        assert!(Arc::ptr_eq(&first, &site("a.example").unwrap()));
        assert!(!Arc::ptr_eq(&first, &site("b.example").unwrap()));
        assert!(site("c.example").is_none());
        classifier.forget("b.example");
        assert!(site("c.example").is_some());
        assert_eq!(classifier.sites().len(), 2);
        assert!(!classifier.is_full(), "as many as there may be");
        classifier.set_room(1);
        assert!(classifier.is_full(), "no memory for as many");
        classifier.forget("c.example");
        assert!(site("d.example").is_none());
        assert!(either("d.example", true).is_some());
    }
}
