//! What this peer has done so far, as numbers that many threads add to.
//!
//! Counting is one relaxed atomic addition; whoever wants to look takes a
//! [`Report`](crate::report::Report).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::activity::Activity;
use crate::crawl::Trap;

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
}

impl ErrorKind {
    /// All kinds with the names under which they are counted.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Dns, "dns"),
        (Self::Connect, "connect"),
        (Self::Timeout, "timeout"),
        (Self::Tls, "tls"),
        (Self::Http4xx, "http_4xx"),
        (Self::Http5xx, "http_5xx"),
        (Self::TooLarge, "too_large"),
        (Self::Other, "other"),
    ];

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
    pub redirects: Counter,
    pub retries: Counter,
    /// Times that a state of overflow was entered.
    pub overflow_entered: Counter,
    /// Times that it was left again.
    pub overflow_left: Counter,
    /// The latest of what is counted here, one by one.
    pub activity: Arc<Activity>,
    traps: [Counter; Trap::ALL.len()],
    errors: [Counter; ErrorKind::ALL.len()],
}

impl Counters {
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
