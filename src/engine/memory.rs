//! The memory budget, and what goes to disk when it is used up.
//!
//! A part of the budget is fixed: threads and their buffers, pages on their way, the
//! store's caches. The rest is shared out: waiting URLs, sites with what they have seen,
//! and seen contents. URLs and contents keep their own bounds once they know them; sites
//! are looked at now and then. Those that nothing waits for are put away; if that is not
//! enough, the others are thinned out, the largest first: what they have seen is then
//! looked up on disk, URL by URL. Without a data directory there is nowhere to go, and
//! the bounds of the queues are all there is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock::{Clock, Millis};
use crate::config::Settings;
use crate::content_processor::ContentProcessor;
use crate::crawl_jobs::{CrawlJobs, SiteCell};
use crate::ledger::Ledger;
use crate::preprocessor::Preprocessor;

/// What a peer takes with nothing to do: code, stacks, buffers, the store's caches.
const FIXED_BYTES: u64 = 96 << 20;
/// A waiting URL with its record, its place in the queue and its share of allocation.
const URL_BYTES: u64 = 320;
/// A content with its URL and its place in the map.
const CONTENT_BYTES: u64 = 280;
/// A site with its lock, its place in the maps, its pace and its robots rules.
const SITE_BYTES: usize = 2_000;
/// What has seen less is not worth thinning out.
const LEAST_SEEN_BYTES: usize = 1_000;
/// How often sites are looked at.
const PERIOD: Duration = Duration::from_secs(2);
/// A site is idle when its last fetch is so long ago.
const IDLE_MS: u64 = 10_000;

/// See the module.
pub struct MemoryBudget {
    limit_bytes: u64,
    sites_bytes: usize,
    preprocessor: Arc<Preprocessor>,
    ledger: Arc<Ledger>,
    clock: Clock,
    looked: Instant,
}

impl MemoryBudget {
    /// Shares the budget of the settings out.
    pub fn new(
        settings: &Settings,
        jobs: &CrawlJobs,
        preprocessor: Arc<Preprocessor>,
        processor: &ContentProcessor,
        ledger: Arc<Ledger>,
        clock: Clock,
    ) -> Self {
        let limit_bytes = settings.memory.limit_bytes;
        let fixed_bytes = FIXED_BYTES + settings.queues.pages_bytes as u64;
        let shared_bytes = limit_bytes.saturating_sub(fixed_bytes).max(limit_bytes / 8);
        if ledger.keeps() {
            jobs.set_memory_urls((shared_bytes * 2 / 5 / URL_BYTES) as usize);
            let contents = shared_bytes / 5 / CONTENT_BYTES;
            processor.seen().set_memory_entries(contents as usize);
        }
        Self {
            limit_bytes,
            sites_bytes: (shared_bytes * 2 / 5) as usize,
            preprocessor,
            ledger,
            clock,
            looked: Instant::now(),
        }
    }

    /// The whole budget.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Puts idle sites away while all sites take more than their share.
    pub fn keep(&mut self) {
        if !self.ledger.keeps() || self.ledger.is_stalled() || self.looked.elapsed() < PERIOD {
            return;
        }
        self.looked = Instant::now();
        let now_ms = self.clock.now_ms();
        let mut used = 0;
        let mut idle: Vec<(Millis, usize, Arc<SiteCell>)> = Vec::new();
        let mut busy: Vec<(usize, Arc<SiteCell>)> = Vec::new();
        for cell in self.preprocessor.sites() {
            let state = cell.lock();
            let seen_bytes = state.site.seen.memory_bytes() + state.seen_before.memory_bytes();
            used += SITE_BYTES + seen_bytes;
            let fetched_ms = state.site.pace.next_fetch_ms;
            let is_idle = state.site.queued() == 0 && fetched_ms + IDLE_MS < now_ms;
            let is_exact = state.site.seen.is_exact();
            drop(state);
            if is_idle {
                idle.push((fetched_ms, SITE_BYTES + seen_bytes, cell));
            } else if is_exact && seen_bytes > LEAST_SEEN_BYTES {
                busy.push((seen_bytes, cell));
            }
        }
        self.preprocessor.set_roomy(used < self.sites_bytes / 2);
        tracing::debug!(
            "{} idle and {} busy sites with much to remember; all sites: {used} of {} bytes",
            idle.len(),
            busy.len(),
            self.sites_bytes
        );
        if used <= self.sites_bytes {
            return;
        }
        // The longest idle first, and some more than needed, so as not to come back soon.
        let enough = self.sites_bytes * 4 / 5;
        idle.sort_by_key(|&(fetched_ms, ..)| fetched_ms);
        for (_, bytes, cell) in idle {
            if used <= enough {
                return;
            }
            if self.preprocessor.put_away(&cell) {
                used = used.saturating_sub(bytes);
            }
        }
        busy.sort_by_key(|&(bytes, _)| std::cmp::Reverse(bytes));
        for (bytes, cell) in busy {
            if used <= enough {
                return;
            }
            cell.lock().thin();
            self.ledger.set_more();
            used = used.saturating_sub(bytes / 2);
        }
    }
}
