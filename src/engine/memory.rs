//! The memory budget, and what goes to disk when it is used up.
//!
//! A part of the budget is fixed: threads and their buffers, pages on their way, the
//! store's caches. The rest is shared out: waiting URLs, sites with what they have seen,
//! and seen contents. URLs and contents keep their own bounds once they know them; sites
//! are looked at now and then. Those that nothing waits for are put away; if that is not
//! enough, the others are thinned out, the largest first: what they have seen is then
//! looked up on disk, URL by URL. Without a data directory there is nowhere to go, and
//! the bounds of the queues are all there is.
//!
//! What a URL or a site takes is an estimate, and the allocator adds its own. So the
//! process is looked at as well: while it takes more than the budget, less is shared out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock::{Clock, Millis};
use crate::config::Settings;
use crate::content_processor::ContentProcessor;
use crate::crawl_jobs::{CrawlJobs, SiteCell};
use crate::ledger::Ledger;
use crate::preprocessor::Preprocessor;
use crate::report::resident_bytes;

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
/// What is shared out is divided by so much; a whole is as much as the estimates allow.
const WHOLE: u64 = 64;
/// Less than so many parts are not shared out: a peer must be able to work.
const LEAST: u64 = WHOLE / 2;
/// A site is idle when its last fetch is so long ago.
const IDLE_MS: u64 = 10_000;

/// See the module.
pub struct MemoryBudget {
    limit_bytes: u64,
    /// What is shared out, by the estimates.
    shared_bytes: u64,
    /// How much of that is, in parts of a [`WHOLE`].
    parts: u64,
    sites_bytes: usize,
    jobs: Arc<CrawlJobs>,
    processor: Arc<ContentProcessor>,
    preprocessor: Arc<Preprocessor>,
    ledger: Arc<Ledger>,
    clock: Clock,
    looked: Instant,
}

impl MemoryBudget {
    /// Shares the budget of the settings out.
    pub fn new(
        settings: &Settings,
        jobs: Arc<CrawlJobs>,
        preprocessor: Arc<Preprocessor>,
        processor: Arc<ContentProcessor>,
        ledger: Arc<Ledger>,
        clock: Clock,
    ) -> Self {
        let limit_bytes = settings.memory.limit_bytes;
        let fixed_bytes = FIXED_BYTES + settings.queues.pages_bytes as u64;
        let shared_bytes = limit_bytes.saturating_sub(fixed_bytes).max(limit_bytes / 8);
        let mut budget = Self {
            limit_bytes,
            shared_bytes,
            parts: WHOLE,
            sites_bytes: 0,
            jobs,
            processor,
            preprocessor,
            ledger,
            clock,
            looked: Instant::now(),
        };
        budget.share_out();
        budget
    }

    fn share_out(&mut self) {
        let shared_bytes = self.shared_bytes * self.parts / WHOLE;
        self.sites_bytes = (shared_bytes * 2 / 5) as usize;
        if self.ledger.keeps() {
            let urls = shared_bytes * 2 / 5 / URL_BYTES;
            self.jobs.set_memory_urls(urls as usize);
            let contents = shared_bytes / 5 / CONTENT_BYTES;
            self.processor.seen().set_memory_entries(contents as usize);
        }
    }

    /// Shares out less or more, by what the process takes.
    fn follow(&mut self, resident_bytes: u64) {
        let parts = parts_after(self.parts, resident_bytes, self.limit_bytes);
        if parts != self.parts {
            self.parts = parts;
            self.share_out();
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
        self.follow(resident_bytes());
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
            "{} idle and {} busy sites with much to remember; all sites: {used} of {} bytes, \
             with {} of {WHOLE} parts shared out",
            idle.len(),
            busy.len(),
            self.sites_bytes,
            self.parts
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

/// How much is shared out from now on: soon less while the process takes more than its
/// limit, and slowly more again when there is room.
fn parts_after(parts: u64, resident_bytes: u64, limit_bytes: u64) -> u64 {
    if resident_bytes > limit_bytes {
        parts.saturating_sub(WHOLE / 16).max(LEAST)
    } else if resident_bytes < limit_bytes / 8 * 7 {
        (parts + 1).min(WHOLE)
    } else {
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_out_follows_what_the_process_takes() {
        let after = |looks: usize, resident_bytes, parts| {
            (0..looks).fold(parts, |parts, _| parts_after(parts, resident_bytes, 800))
        };
        assert_eq!(after(1, 801, WHOLE), WHOLE - 4);
        assert_eq!(after(100, 801, WHOLE), LEAST);
        assert_eq!(after(100, 750, LEAST), LEAST, "near the limit it stays");
        assert_eq!(after(1, 600, LEAST), LEAST + 1);
        assert_eq!(after(100, 600, LEAST), WHOLE);
        assert_eq!(after(100, 0, WHOLE), WHOLE, "where nobody can tell");
    }
}
