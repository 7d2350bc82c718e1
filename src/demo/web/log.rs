//! What was asked of the web, from the server's own point of view: one byte for each page, a
//! few words for each host, and totals.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;

use super::plan::Plan;

/// How long to wait at most for a serving thread to note what it has just sent.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// Examples kept of what should not have been asked for.
const MAX_EXAMPLES: usize = 32;

/// Visitors that a host remembers.
const MAX_VISITORS: usize = 64;

/// One request, as kept for tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// When it was read, since the web was started.
    pub after: Duration,
    /// The `Host` header, port included.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
}

/// The server's counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebLog {
    /// Requests of any kind.
    pub requests: u64,
    /// Bytes of answers that were handed to the operating system, headers included.
    pub bytes: u64,
    /// Pages that were answered completely, with 2xx, at least once.
    pub served: u64,
    /// Pages that were answered completely, with 2xx, more than once.
    pub fetched_twice: u64,
    /// How often a page was answered completely that had been before.
    pub fetched_again: u64,
    /// Requests for what robots.txt forbids.
    pub robots_violations: u64,
    /// Requests for what only looks like a link or is not to be followed.
    pub phantom_hits: u64,
    /// Requests inside a trap, past what the rules on URLs allow.
    pub trap_hits: u64,
    /// Requests for what the web never linked to: wrongly resolved links and other spellings.
    pub unknown_hits: u64,
    /// Requests that began while another was being answered by the same host.
    pub overlaps: u64,
    /// How often a host was visited again by whom another visitor had followed: a host that
    /// moves from peer to peer once is never left and come back to. Visitors are told apart by
    /// their `User-Agent`.
    pub returns: u64,
    /// Hosts that more than one visitor has been to.
    pub moved_hosts: u64,
    /// Requests for `/robots.txt`, by host.
    pub robots_requests: Vec<u32>,
    /// The first few URLs behind violations, phantom, trap and unknown hits.
    pub examples: Vec<String>,
    /// The first requests, as many as the spec asked for.
    pub lines: Vec<RequestLine>,
}

/// What a request should not have been for.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    Forbidden,
    Phantom,
    Trap,
    Unknown,
}

/// The counters that the serving threads write to.
pub(super) struct Counters {
    started: Instant,
    requests: AtomicU64,
    bytes: AtomicU64,
    faults: [AtomicU64; 4],
    overlaps: AtomicU64,
    returns: AtomicU64,
    hosts: Vec<HostCounters>,
    /// Complete answers with 2xx for each page, up to 255.
    pages: Vec<AtomicU8>,
    examples: Mutex<Vec<String>>,
    lines: Mutex<Vec<RequestLine>>,
    max_lines: usize,
    /// For each serving thread, how often it went to work or to rest: odd while at work.
    turns: Vec<AtomicU64>,
}

#[derive(Default)]
struct HostCounters {
    in_flight: AtomicU32,
    robots_requests: AtomicU32,
    /// Which of the answers that differ on the first request were given.
    met: AtomicU8,
    /// Who has been there, by the hash of what they call themselves, the latest last.
    visitors: Mutex<Vec<u64>>,
}

impl WebLog {
    /// Pages that were answered completely, each time.
    pub fn completed(&self) -> u64 {
        self.served + self.fetched_again
    }
}

impl Counters {
    pub(super) fn new(plan: &Plan) -> Self {
        Counters {
            started: Instant::now(),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            faults: Default::default(),
            overlaps: AtomicU64::new(0),
            returns: AtomicU64::new(0),
            hosts: plan.hosts.iter().map(|_| HostCounters::default()).collect(),
            pages: (0..plan.spec.pages).map(|_| AtomicU8::new(0)).collect(),
            examples: Mutex::new(Vec::new()),
            lines: Mutex::new(Vec::new()),
            max_lines: plan.spec.request_log,
            turns: (0..plan.spec.threads).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Serving thread number `thread` goes to work, or to rest.
    pub(super) fn turn(&self, thread: usize) {
        self.turns[thread].fetch_add(1, SeqCst);
    }

    /// Waits until all that clients have received by now is counted: a client may have read an
    /// answer before the thread that sent it comes to write it down.
    pub(super) fn settle(&self) {
        let started = Instant::now();
        for turn in &self.turns {
            let seen = turn.load(SeqCst);
            while seen % 2 == 1 && turn.load(SeqCst) == seen && started.elapsed() < SETTLE_TIME {
                std::thread::yield_now();
            }
        }
    }

    /// A request to `host` was read.
    pub(super) fn begin(&self, host: u32) {
        self.requests.fetch_add(1, Relaxed);
        if self.hosts[host as usize].in_flight.fetch_add(1, Relaxed) > 0 {
            self.overlaps.fetch_add(1, Relaxed);
        }
    }

    /// Somebody who calls itself so was at `host`.
    pub(super) fn visited(&self, host: u32, agent: &[u8]) {
        let visitor = xxh3_64(agent);
        let visitors = &self.hosts[host as usize].visitors;
        let mut visitors = visitors.lock().unwrap_or_else(PoisonError::into_inner);
        if visitors.last() == Some(&visitor) {
            return;
        }
        if visitors.contains(&visitor) {
            self.returns.fetch_add(1, Relaxed);
        }
        if visitors.len() < MAX_VISITORS {
            visitors.push(visitor);
        }
    }

    fn moved_hosts(&self) -> u64 {
        let is_moved = |host: &&HostCounters| {
            let visitors = host.visitors.lock();
            visitors.unwrap_or_else(PoisonError::into_inner).len() > 1
        };
        self.hosts.iter().filter(is_moved).count() as u64
    }

    /// The answer to it was given, or given up; `page` is what was completed by it.
    pub(super) fn finish(&self, host: u32, page: Option<u32>, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        if let Some(page) = page.and_then(|page| self.pages.get(page as usize)) {
            // At 255 it stays: nobody fetches a page so often.
            let _ = page.fetch_update(Relaxed, Relaxed, |served| served.checked_add(1));
        }
        self.hosts[host as usize].in_flight.fetch_sub(1, Relaxed);
    }

    /// A request to a host that is none of ours.
    pub(super) fn stray(&self, host: &str, path: &[u8]) {
        self.requests.fetch_add(1, Relaxed);
        self.fault(Fault::Unknown, host, path);
    }

    pub(super) fn robots_asked(&self, host: u32) {
        self.hosts[host as usize]
            .robots_requests
            .fetch_add(1, Relaxed);
    }

    /// True the first time it is asked for this host and `which` (0 to 7).
    pub(super) fn first_time(&self, host: u32, which: u8) -> bool {
        let bit = 1 << which;
        self.hosts[host as usize].met.fetch_or(bit, Relaxed) & bit == 0
    }

    pub(super) fn fault(&self, fault: Fault, authority: &str, path: &[u8]) {
        self.faults[fault as usize].fetch_add(1, Relaxed);
        let mut examples = self.examples.lock().unwrap_or_else(PoisonError::into_inner);
        if examples.len() < MAX_EXAMPLES {
            examples.push(format!(
                "http://{authority}{}",
                String::from_utf8_lossy(path)
            ));
        }
    }

    pub(super) fn line(&self, authority: &str, path: &[u8], status: u16) {
        if self.max_lines == 0 {
            return;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < self.max_lines {
            lines.push(RequestLine {
                after: self.started.elapsed(),
                host: authority.to_owned(),
                path: String::from_utf8_lossy(path).into_owned(),
                status,
            });
        }
    }

    /// How often the page was answered completely, up to 255 times.
    pub(super) fn served(&self, page: u32) -> u8 {
        self.pages
            .get(page as usize)
            .map_or(0, |served| served.load(Relaxed))
    }

    pub(super) fn snapshot(&self) -> WebLog {
        let fault = |fault: Fault| self.faults[fault as usize].load(Relaxed);
        let (mut served, mut fetched_twice, mut fetched_again) = (0, 0, 0);
        for page in &self.pages {
            let times = page.load(Relaxed);
            served += u64::from(times >= 1);
            fetched_twice += u64::from(times >= 2);
            fetched_again += u64::from(times.saturating_sub(1));
        }
        WebLog {
            requests: self.requests.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            served,
            fetched_twice,
            fetched_again,
            robots_violations: fault(Fault::Forbidden),
            phantom_hits: fault(Fault::Phantom),
            trap_hits: fault(Fault::Trap),
            unknown_hits: fault(Fault::Unknown),
            overlaps: self.overlaps.load(Relaxed),
            returns: self.returns.load(Relaxed),
            moved_hosts: self.moved_hosts(),
            robots_requests: self
                .hosts
                .iter()
                .map(|host| host.robots_requests.load(Relaxed))
                .collect(),
            examples: self
                .examples
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            lines: self
                .lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        }
    }
}
