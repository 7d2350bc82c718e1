//! What is known of sites on disk: brought when it is needed, and forgotten here when
//! memory is short.
//!
//! A site is whole when memory holds all that it has seen. Otherwise memory holds the
//! latest, and the disk is asked for the rest. No site is locked while the disk is read.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Candidate, Preprocessor};
use crate::crawl_jobs::{OnDisk, Phase, SiteCell, SiteHead, SiteState};
use crate::distribution::Key;
use crate::seen_urls::SeenUrls;
use crate::store::StoreError;

impl Preprocessor {
    /// Which of these URLs were seen, by what is on disk.
    pub(super) fn seen_on_disk(&self, key: Key, candidates: &[Candidate]) -> Vec<bool> {
        let Some(store) = self.ledger.store() else {
            return Vec::new();
        };
        let is_seen = |url: &Candidate| match store.is_seen(key, url.fingerprint) {
            Ok(is_seen) => is_seen,
            Err(error) => {
                tracing::error!("cannot look {} up: {error}", url.record.url);
                false
            }
        };
        candidates.iter().map(is_seen).collect()
    }

    /// From now on, whether there is room in memory for what is on disk of sites.
    pub fn set_roomy(&self, is_roomy: bool) {
        self.is_roomy.store(is_roomy, Relaxed);
    }

    /// The site of a host, made if it is new; `None` if there are too many already, or
    /// if what is on disk of it cannot be read. It is whole if there is room for that.
    pub(super) fn site(&self, host: &str, key: Key) -> Option<Arc<SiteCell>> {
        let cell = self
            .classifier
            .site(host, key, self.ledger.more().is_none())?;
        let known = match self.is_roomy.load(Relaxed) {
            true => self.make_whole(&cell),
            false => self.bring_head(&cell),
        };
        match known {
            Ok(()) => Some(cell),
            Err(error) => {
                tracing::error!("cannot read back what is known of {host}: {error}");
                None
            }
        }
    }

    /// Brings the head of a site that this peer has not met since it was put away.
    /// Reads from the disk: the site must not be locked.
    fn bring_head(&self, cell: &Arc<SiteCell>) -> Result<(), StoreError> {
        let state = cell.lock();
        if state.is_whole || state.has_head {
            return Ok(());
        }
        let Some(store) = self.ledger.store() else {
            return Ok(());
        };
        let host = state.site.host().to_owned();
        drop(state);
        if store.seen_elsewhere(&host)?.is_some() {
            // Nobody can be asked about one of those alone.
            return self.make_whole(cell);
        }
        let head = store.site(&host)?;
        let mut state = cell.lock();
        if !std::mem::replace(&mut state.has_head, true)
            && let Some(head) = head
        {
            self.set_head(&mut state, &head);
        }
        Ok(())
    }

    /// Brings all that is on disk of a site. Reads from the disk: the site must not be
    /// locked.
    pub(super) fn make_whole(&self, cell: &Arc<SiteCell>) -> Result<(), StoreError> {
        let state = cell.lock();
        if state.is_whole {
            return Ok(());
        }
        let Some(store) = self.ledger.store() else {
            return Ok(());
        };
        let host = state.site.host().to_owned();
        let (has_head, thinned) = (state.has_head, state.thinned);
        drop(state);
        let head = if has_head { None } else { store.site(&host)? };
        let elsewhere = store.seen_elsewhere(&host)?;
        let seen = store.seen_of(Key(cell.key))?;
        let mut state = cell.lock();
        if state.is_whole || state.thinned != thinned {
            return Ok(());
        }
        if !std::mem::replace(&mut state.has_head, true)
            && let Some(head) = head
        {
            self.set_head(&mut state, &head);
        }
        if let Some(bytes) = elsewhere {
            match SeenUrls::from_bytes(&bytes) {
                Ok(seen) => state.site.seen.union(seen),
                Err(error) => tracing::error!("what was seen of {host} elsewhere: {error}"),
            }
        }
        let before = std::mem::take(&mut state.seen_before);
        state.site.seen.union(before);
        for fingerprint in seen {
            state.site.seen.insert(fingerprint);
        }
        state.is_whole = true;
        Ok(())
    }

    fn set_head(&self, state: &mut SiteState, bytes: &[u8]) {
        match postcard::from_bytes::<SiteHead>(bytes) {
            Ok(head) => state.site.set_head(head, self.jobs.now_ms()),
            Err(error) => {
                return tracing::error!("the record of {}: {error}", state.site.host());
            }
        }
        if state.site.pace.failures >= self.max_host_failures {
            // A start is a new beginning: the line may have been what failed.
            let pace = &mut state.site.pace;
            pace.failures = self.max_host_failures.saturating_sub(1);
            pace.next_fetch_ms = self.jobs.now_ms() + pace.delay_ms;
        }
    }

    /// A site goes on where an earlier run has left it.
    pub fn resume(
        &self,
        host: &str,
        key: Key,
        on_disk: OnDisk,
        next_number: u64,
    ) -> Result<(), StoreError> {
        let Some(cell) = self.classifier.site(host, key, false) else {
            tracing::error!("no room for {host}: it waits until there is");
            return Ok(());
        };
        let head = match self.ledger.store() {
            Some(store) => store.site(host)?,
            None => None,
        };
        let mut state = cell.lock();
        state.has_head = true;
        if let Some(head) = head {
            self.set_head(&mut state, &head);
        }
        self.jobs.continue_queue(&mut state, on_disk, next_number);
        self.jobs.submit(&cell, &mut state);
        Ok(())
    }

    /// Takes a site out of memory that nothing waits for: what is known of it is on
    /// disk. False if it is not idle, or if its record cannot be kept.
    pub fn put_away(&self, cell: &Arc<SiteCell>) -> bool {
        let mut state = cell.lock();
        if state.phase != Phase::Idle || state.site.queued() > 0 || state.is_freezing {
            return false;
        }
        self.ledger.site(state.site.host(), &state.site.head());
        state.phase = Phase::Moved;
        self.ledger.set_more();
        self.classifier.forget(state.site.host());
        true
    }

    /// Every host of which something is known on disk alone, or may be.
    pub fn hosts_on_disk(&self) -> Vec<String> {
        let mut hosts = Vec::new();
        let Some(store) = self.ledger.more() else {
            return hosts;
        };
        let is_away = |host: &str| self.classifier.find(host).is_none();
        let walked = store.for_each_site(|host, _| {
            if is_away(host) {
                hosts.push(host.to_owned());
            }
        });
        if let Err(error) = walked {
            tracing::error!("cannot look through the sites on disk: {error}");
        }
        hosts
    }
}
