//! What this peer has done so far, as numbers that many threads add to.
//!
//! Counting is one relaxed atomic addition; whoever wants to look takes a
//! [`Report`](crate::report::Report).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::activity::Activity;
use crate::crawl::Trap;
use crate::ledger::PageTotals;

/// One number.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, amount: u64) {
        if amount > 0 {
            self.0.fetch_add(amount, Relaxed);
        }
    }

    /// Its value now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Why a fetch brought no page. Each URL ends in at most one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The host's name leads nowhere.
    Dns,
    /// No connection could be made.
    Connect,
    /// It took too long.
    Timeout,
    /// The server could not prove who it is, or TLS failed otherwise.
    Tls,
    /// An answer from 400 to 499.
    Http4xx,
    /// An answer from 500 to 599.
    Http5xx,
    /// Header or body beyond the bounds, before or after decompression.
    TooLarge,
    /// The answer broke off, or was no HTTP.
    Other,
    /// A kind of content that is not wanted.
    ContentType,
    /// A fault of our own: the program panicked over it.
    Fault,
}

impl ErrorKind {
    /// All kinds with the names under which they are counted.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::Dns, "dns"),
        (Self::Connect, "connect"),
        (Self::Timeout, "timeout"),
        (Self::Tls, "tls"),
        (Self::Http4xx, "http_4xx"),
        (Self::Http5xx, "http_5xx"),
        (Self::TooLarge, "too_large"),
        (Self::Other, "other"),
        (Self::ContentType, "content_type"),
        (Self::Fault, "fault"),
    ];

    /// Whether it is told of even where it has not happened: scripts rely on these names.
    /// What was added later shows when it has.
    pub fn is_always_told(self) -> bool {
        !matches!(self, Self::ContentType | Self::Fault)
    }

    /// The name under which it is counted.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// See the module. The names are those of the `--json` report.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "the names are explained where the report is")]
pub struct Counters {
    pub pages: Counter,
    pub bytes: Counter,
    pub discovered: Counter,
    pub duplicate: Counter,
    pub out_of_scope: Counter,
    pub out_of_range: Counter,
    pub refused_overflow: Counter,
    pub blocked_robots: Counter,
    pub blocked_address: Counter,
    pub blocked_port: Counter,
    pub blocked_list: Counter,
    pub given_up: Counter,
    pub content_new: Counter,
    pub content_duplicate: Counter,
    pub content_unknown: Counter,
    pub unarchived: Counter,
    pub redirects: Counter,
    pub retries: Counter,
    /// Times that a state of overflow was entered.
    pub overflow_entered: Counter,
    /// Times that it was left again.
    pub overflow_left: Counter,
    /// New URLs that were taken for seen by sets that have left memory since, as an expectation.
    pub losses_forgotten: Mutex<f64>,
    /// The latest of what is counted here, one by one.
    pub activity: Arc<Activity>,
    traps: [Counter; Trap::ALL.len()],
    errors: [Counter; ErrorKind::ALL.len()],
}

impl Counters {
    /// What is counted of URLs, by name. What is counted of pages is kept with their
    /// crawl.
    pub fn values(&self) -> BTreeMap<String, u64> {
        let named = self.of_urls();
        named
            .map(|(name, counter)| (name.to_owned(), counter.get()))
            .collect()
    }

    /// Goes on from the values of an earlier run.
    pub fn restore(&self, values: &BTreeMap<String, u64>) {
        for (name, counter) in self.of_urls() {
            counter.add(values.get(name).copied().unwrap_or(0));
        }
    }

    /// Goes on from the pages of an earlier run.
    pub fn restore_pages(&self, totals: PageTotals) {
        self.pages.add(totals.pages);
        self.bytes.add(totals.bytes);
        self.content_new.add(totals.new);
        self.content_duplicate.add(totals.duplicate);
        self.content_unknown.add(totals.unknown);
    }

    fn of_urls(&self) -> impl Iterator<Item = (&'static str, &Counter)> {
        let single = [
            ("discovered", &self.discovered),
            ("duplicate", &self.duplicate),
            ("out_of_scope", &self.out_of_scope),
            ("out_of_range", &self.out_of_range),
            ("refused_overflow", &self.refused_overflow),
            ("blocked_robots", &self.blocked_robots),
            ("blocked_address", &self.blocked_address),
            ("blocked_port", &self.blocked_port),
            ("blocked_list", &self.blocked_list),
            ("given_up", &self.given_up),
            ("redirects", &self.redirects),
            ("retries", &self.retries),
            ("unarchived", &self.unarchived),
            ("overflow_entered", &self.overflow_entered),
            ("overflow_left", &self.overflow_left),
        ];
        let errors = ErrorKind::ALL.iter().zip(&self.errors);
        let traps = Trap::ALL.iter().zip(&self.traps);
        single
            .into_iter()
            .chain(errors.map(|((_, name), counter)| (*name, counter)))
            .chain(traps.map(|(trap, counter)| (trap.name(), counter)))
    }

    /// The counter of a trap.
    pub fn trap(&self, trap: Trap) -> &Counter {
        &self.traps[trap as usize]
    }

    /// The counter of a kind of error.
    pub fn error(&self, kind: ErrorKind) -> &Counter {
        &self.errors[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_counter_of_its_own() {
        let counters = Counters::default();
        for (position, (kind, name)) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, kind.name()), (position, name));
            counters.error(kind).add(1 + position as u64);
        }
        for (position, trap) in Trap::ALL.into_iter().enumerate() {
            assert_eq!(trap as usize, position);
        }
        assert_eq!(counters.error(ErrorKind::Tls).get(), 4);
    }
}
