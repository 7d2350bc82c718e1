//! What `--json` prints: one object, with the names that scripts rely on.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::counters::{Counters, ErrorKind};
use crate::crawl::Trap;

/// What a peer, or a whole network, has done.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Complete 2xx bodies, duplicates included, robots.txt not.
    pub pages: u64,
    /// How many of them earlier runs of the same crawl fetched.
    pub resumed_pages: u64,
    /// Those bodies, as received.
    pub bytes: u64,
    /// How long it took.
    pub elapsed_secs: f64,
    /// Pages by that time.
    pub pages_per_sec: f64,
    /// What became of URLs.
    pub urls: UrlReport,
    /// What became of pages.
    pub content: ContentReport,
    /// Answers that led elsewhere.
    pub redirects: u64,
    /// Fetches that were tried again.
    pub retries: u64,
    /// Fetches that brought no page, by the reason.
    pub errors: BTreeMap<&'static str, u64>,
    /// Memory in use.
    pub memory: MemoryReport,
    /// The state of overflow.
    pub overflow: OverflowReport,
    /// How many new URLs were taken for seen, as an expectation: see
    /// [`SeenUrls`](crate::seen_urls::SeenUrls). Told at the end alone, because it takes a
    /// look at every site, and not in the object, whose names are fixed.
    #[serde(skip)]
    pub expected_losses: f64,
}

/// What became of URLs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct UrlReport {
    /// Links met, each occurrence.
    pub discovered: u64,
    /// Seen before.
    pub duplicate: u64,
    /// Not within the crawl's scope.
    pub out_of_scope: u64,
    /// Handed on to their owners.
    pub out_of_range: u64,
    /// Turned away because the queues were full.
    pub refused_overflow: u64,
    /// Forbidden by robots.txt.
    pub blocked_robots: u64,
    /// At an address that the guard refuses.
    pub blocked_address: u64,
    /// At a port that is not on the list.
    pub blocked_port: u64,
    /// At a host that is on the block list.
    pub blocked_list: u64,
    /// Of hosts that failed too often or asked to wait too long.
    pub given_up: u64,
    /// That looked like traps, by the reason.
    pub trap: BTreeMap<&'static str, u64>,
}

/// What became of pages.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ContentReport {
    /// Not seen before.
    pub new: u64,
    /// Seen before, under another URL.
    pub duplicate: u64,
    /// Nobody could say in time.
    pub unknown: u64,
    /// Not archived, because the page asks for that. Told where it has happened.
    #[serde(skip_serializing_if = "is_zero")]
    pub unarchived: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Memory in use.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MemoryReport {
    /// Resident memory of this process; 0 where the platform does not tell.
    pub used_bytes: u64,
    /// What it is allowed; 0 for no bound.
    pub limit_bytes: u64,
}

/// How often the queues became too full.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OverflowReport {
    /// Times that a state of overflow was entered.
    pub entered: u64,
    /// Times that it was left again.
    pub left: u64,
}

impl Report {
    /// What the counters say; `limit_bytes` is what memory is allowed.
    pub fn new(counters: &Counters, limit_bytes: u64) -> Self {
        Self {
            pages: counters.pages.get(),
            bytes: counters.bytes.get(),
            urls: UrlReport {
                discovered: counters.discovered.get(),
                duplicate: counters.duplicate.get(),
                out_of_scope: counters.out_of_scope.get(),
                out_of_range: counters.out_of_range.get(),
                refused_overflow: counters.refused_overflow.get(),
                blocked_robots: counters.blocked_robots.get(),
                blocked_address: counters.blocked_address.get(),
                blocked_port: counters.blocked_port.get(),
                blocked_list: counters.blocked_list.get(),
                given_up: counters.given_up.get(),
                trap: Trap::ALL
                    .into_iter()
                    .map(|trap| (trap.name(), counters.trap(trap).get()))
                    .filter(|&(_, count)| count > 0)
                    .collect(),
            },
            content: ContentReport {
                new: counters.content_new.get(),
                duplicate: counters.content_duplicate.get(),
                unknown: counters.content_unknown.get(),
                unarchived: counters.unarchived.get(),
            },
            redirects: counters.redirects.get(),
            retries: counters.retries.get(),
            errors: ErrorKind::ALL
                .into_iter()
                .map(|(kind, name)| (kind, name, counters.error(kind).get()))
                .filter(|&(kind, _, count)| count > 0 || kind.is_always_told())
                .map(|(_, name, count)| (name, count))
                .collect(),
            memory: MemoryReport {
                used_bytes: resident_bytes(),
                limit_bytes,
            },
            overflow: OverflowReport {
                entered: counters.overflow_entered.get(),
                left: counters.overflow_left.get(),
            },
            ..Self::default()
        }
    }

    /// Sets the time, and the rate that follows from it.
    pub fn set_elapsed(&mut self, elapsed: Duration) {
        self.elapsed_secs = elapsed.as_secs_f64();
        let pages = self.pages.saturating_sub(self.resumed_pages);
        self.pages_per_sec = pages as f64 / self.elapsed_secs.max(1e-9);
    }

    /// What several peers of one process have done together.
    pub fn sum(reports: &[Self]) -> Self {
        let mut all = Self::default();
        for one in reports {
            all.pages += one.pages;
            all.resumed_pages += one.resumed_pages;
            all.bytes += one.bytes;
            all.elapsed_secs = all.elapsed_secs.max(one.elapsed_secs);
            all.urls.add(&one.urls);
            all.content.new += one.content.new;
            all.content.duplicate += one.content.duplicate;
            all.content.unknown += one.content.unknown;
            all.content.unarchived += one.content.unarchived;
            all.redirects += one.redirects;
            all.retries += one.retries;
            add_each(&mut all.errors, &one.errors);
            all.memory = one.memory.clone();
            all.overflow.entered += one.overflow.entered;
            all.overflow.left += one.overflow.left;
            all.expected_losses += one.expected_losses;
        }
        all.set_elapsed(Duration::from_secs_f64(all.elapsed_secs));
        all
    }

    /// All errors together.
    pub fn errors_in_all(&self) -> u64 {
        self.errors.values().sum()
    }
}

impl UrlReport {
    fn add(&mut self, other: &Self) {
        self.discovered += other.discovered;
        self.duplicate += other.duplicate;
        self.out_of_scope += other.out_of_scope;
        self.out_of_range += other.out_of_range;
        self.refused_overflow += other.refused_overflow;
        self.blocked_robots += other.blocked_robots;
        self.blocked_address += other.blocked_address;
        self.blocked_port += other.blocked_port;
        self.blocked_list += other.blocked_list;
        self.given_up += other.given_up;
        add_each(&mut self.trap, &other.trap);
    }
}

fn add_each(all: &mut BTreeMap<&'static str, u64>, one: &BTreeMap<&'static str, u64>) {
    for (name, count) in one {
        *all.entry(name).or_default() += count;
    }
}

/// Resident memory of this process.
#[cfg(not(target_os = "linux"))]
pub fn resident_bytes() -> u64 {
    memory_stats::memory_stats().map_or(0, |stats| stats.physical_mem as u64)
}

/// Resident memory of this process.
#[cfg(target_os = "linux")]
pub fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/status").ok();
    let resident = pages.as_deref().and_then(|status| {
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    resident.map_or(0, |kib| kib * 1_024)
}
