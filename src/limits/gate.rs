//! Whether one more fetch may begin: pages a minute, fetches at once, the share of the
//! processor, and downloads that already wait for the download limit.
//!
//! Asked by the crawl-job queues each time that a site could be leased. The answer is
//! yes, or when to ask again. Where nothing is limited, it costs one atomic load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use cpu_time::ProcessTime;
use parking_lot::Mutex;

use super::pipe::Pipe;
use crate::clock::Millis;

/// How soon to look again whether downloads still wait.
const LOOK_MS: Millis = 10;
/// How soon to look again whether there may be more fetches at once, if none ends before.
const FULL_LOOK_MS: Millis = 100;
/// How soon to look again whether pages a minute are still so few, however long one takes.
const PAGES_LOOK_MS: Millis = 250;
/// For each download that may wait for the limit, the limit brings in so much a second.
/// More would only fill the buffers of the operating system.
const BYTES_PER_WAITER: u64 = 32 << 10;
/// How often the processor time is looked at.
const CPU_LOOK_MS: Millis = 20;
/// How much processor time can be saved up or owed, as wall time at the allowed share.
const CPU_SAVED_SECS: f64 = 0.1;
const CPU_OWED_SECS: f64 = 2.0;

/// See the module.
#[derive(Debug)]
pub struct Gate {
    /// Whether anything is limited at all.
    is_watched: AtomicBool,
    connections: AtomicU32,
    /// Peers that enter here, each of which has its part of the connections.
    peers: AtomicU32,
    pages: Mutex<PageRate>,
    processor: Mutex<ProcessorShare>,
    download: Arc<Pipe>,
}

impl Gate {
    /// An open gate, before the downloads of this pipe.
    pub fn new(download: Arc<Pipe>) -> Self {
        Self {
            is_watched: AtomicBool::new(false),
            connections: AtomicU32::new(0),
            peers: AtomicU32::new(1),
            pages: Mutex::default(),
            processor: Mutex::new(ProcessorShare::new(processors())),
            download,
        }
    }

    /// Sets the limits; 0 for none.
    pub fn set(&self, pages_per_min: u32, connections: u32, cpu_percent: u32) {
        self.connections.store(connections, Relaxed);
        self.pages.lock().set(pages_per_min);
        self.processor.lock().set(cpu_percent);
        let is_limited = pages_per_min > 0 || connections > 0 || !matches!(cpu_percent, 0 | 100..);
        self.is_watched
            .store(is_limited || !self.download.is_free(), Relaxed);
    }

    /// So many peers share the gate.
    pub fn set_peers(&self, peers: u32) {
        self.peers.store(peers.max(1), Relaxed);
    }

    /// Whether one more fetch of a peer may begin beside those under way; if not, when to
    /// ask again.
    pub fn enter(&self, under_way: usize, now_ms: Millis) -> Result<(), Millis> {
        if !self.is_watched.load(Relaxed) {
            return Ok(());
        }
        if self.connections().is_some_and(|most| under_way >= most) {
            return Err(now_ms + FULL_LOOK_MS);
        }
        let limit = self.download.limit();
        if limit > 0 && self.download.waiting() as u64 > limit / BYTES_PER_WAITER {
            return Err(now_ms + LOOK_MS);
        }
        let used = || ProcessTime::try_now().map(|time| time.as_duration()).ok();
        self.processor.lock().enter(now_ms, used)?;
        self.pages.lock().enter(now_ms)
    }

    /// How many connections a peer may have open at once, if that is limited.
    pub fn connections(&self) -> Option<usize> {
        let connections = self.connections.load(Relaxed);
        let part = (connections / self.peers.load(Relaxed)).max(1);
        (connections > 0).then_some(part as usize)
    }

    /// Whether one may have to wait until another fetch has ended.
    pub fn counts_fetches(&self) -> bool {
        self.connections.load(Relaxed) > 0
    }

    /// Whoever entered found nothing to fetch, or asked for no page.
    pub fn was_no_page(&self) {
        if self.is_watched.load(Relaxed) {
            self.pages.lock().give_back();
        }
    }
}

/// How many processors there are.
pub(crate) fn processors() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}

/// Pages a minute: at most a twentieth of them at once.
#[derive(Debug, Default)]
struct PageRate {
    per_min: u32,
    left: f64,
    filled_ms: Millis,
}

impl PageRate {
    fn set(&mut self, per_min: u32) {
        if self.per_min != per_min {
            self.per_min = per_min;
            self.left = self.left.clamp(0.0, self.most());
        }
    }

    fn most(&self) -> f64 {
        (f64::from(self.per_min) / 20.0).max(1.0)
    }

    fn enter(&mut self, now_ms: Millis) -> Result<(), Millis> {
        if self.per_min == 0 {
            return Ok(());
        }
        let per_ms = f64::from(self.per_min) / 60_000.0;
        let passed_ms = now_ms.saturating_sub(self.filled_ms) as f64;
        self.filled_ms = self.filled_ms.max(now_ms);
        self.left = (self.left + passed_ms * per_ms).min(self.most());
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        let wait_ms = ((1.0 - self.left) / per_ms).ceil() as Millis;
        Err(now_ms + wait_ms.min(PAGES_LOOK_MS))
    }

    fn give_back(&mut self) {
        self.left = (self.left + 1.0).min(self.most());
    }
}

/// The share of the processor: time is earned at the allowed share, and spent by the
/// whole process.
#[derive(Debug)]
struct ProcessorShare {
    processors: f64,
    /// Seconds of processor time in a second; none for the whole of it.
    share: Option<f64>,
    left_secs: f64,
    looked: Option<(Millis, Duration)>,
}

impl ProcessorShare {
    fn new(processors: f64) -> Self {
        Self {
            processors,
            share: None,
            left_secs: 0.0,
            looked: None,
        }
    }

    fn set(&mut self, percent: u32) {
        let share = (1..100)
            .contains(&percent)
            .then(|| f64::from(percent) / 100.0 * self.processors);
        if self.share != share {
            self.share = share;
            self.left_secs = 0.0;
            self.looked = None;
        }
    }

    /// `used` tells the processor time of this process, where that is known.
    fn enter(
        &mut self,
        now_ms: Millis,
        used: impl FnOnce() -> Option<Duration>,
    ) -> Result<(), Millis> {
        let Some(share) = self.share else {
            return Ok(());
        };
        let is_fresh = |at_ms: Millis| now_ms.saturating_sub(at_ms) < CPU_LOOK_MS;
        if !self.looked.is_some_and(|(at_ms, _)| is_fresh(at_ms)) {
            let Some(used) = used() else {
                return Ok(());
            };
            if let Some((at_ms, before)) = self.looked.replace((now_ms, used)) {
                let earned = now_ms.saturating_sub(at_ms) as f64 / 1_000.0 * share;
                let spent = used.saturating_sub(before).as_secs_f64();
                let (owed, saved) = (CPU_OWED_SECS * share, CPU_SAVED_SECS * share);
                self.left_secs = (self.left_secs + earned - spent).clamp(-owed, saved);
            }
        }
        if self.left_secs >= 0.0 {
            return Ok(());
        }
        let wait_ms = (-self.left_secs / share * 1_000.0) as Millis;
        Err(now_ms + wait_ms.clamp(CPU_LOOK_MS, 100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_a_minute_are_kept_and_used() {
        for per_min in [1, 10, 100, 6_000] {
            let mut rate = PageRate::default();
            rate.set(per_min);
            let begun = |ms: u64| rate.enter(1_000_000 + ms).is_ok();
            let times: Vec<bool> = (0..300_000).map(begun).collect();
            for window in times.windows(60_000).step_by(1_000) {
                let pages = window.iter().filter(|&&begun| begun).count() as f64;
                let allowed = f64::from(per_min);
                assert!(pages <= (allowed * 1.05).max(allowed + 1.0), "{pages}");
                assert!(pages >= allowed * 0.95 - 1.0, "{pages}");
            }
        }
    }

    #[test]
    fn what_was_no_page_does_not_count() {
        let mut rate = PageRate::default();
        rate.set(1);
        assert!(rate.enter(1_000_000).is_ok());
        let wait = rate.enter(1_000_000);
        assert_eq!(wait, Err(1_000_000 + PAGES_LOOK_MS));
        rate.give_back();
        assert!(rate.enter(1_000_000).is_ok());
    }

    /// Who had raised the limit waited for up to a minute for the next page.
    #[test]
    fn a_raised_limit_holds_soon() {
        let mut rate = PageRate::default();
        rate.set(1);
        assert!(rate.enter(1_000_000).is_ok());
        let again_ms = rate.enter(1_000_000).unwrap_err();
        rate.set(6_000);
        assert!(rate.enter(again_ms).is_ok());
        assert!(again_ms <= 1_000_250);
    }

    /// A process that uses both processors whenever it is let in, and nothing else.
    fn used_at(percent: u32) -> f64 {
        let mut share = ProcessorShare::new(2.0);
        share.set(percent);
        let mut used_ms = 0;
        for ms in 0..20_000_u64 {
            let used = Duration::from_millis(used_ms);
            if share.enter(ms, || Some(used)).is_ok() {
                used_ms += 2;
            }
        }
        used_ms as f64 / 40_000.0
    }

    #[test]
    fn the_share_of_the_processor_is_kept() {
        for percent in [5, 25, 50, 80] {
            let used = used_at(percent) * 100.0;
            let allowed = f64::from(percent);
            assert!(
                (allowed - 2.0..allowed + 2.0).contains(&used),
                "{used} of {percent}"
            );
        }
        assert!(used_at(0) > 0.99 && used_at(100) > 0.99);
    }

    #[test]
    fn an_open_gate_lets_everybody_in_and_a_narrow_one_counts() {
        let download = Arc::new(Pipe::new(0));
        let gate = Gate::new(download.clone());
        assert_eq!(gate.enter(10_000, 0), Ok(()));
        gate.set(0, 3, 0);
        assert_eq!(gate.enter(2, 0), Ok(()));
        assert_eq!(gate.enter(3, 0), Err(FULL_LOOK_MS));
        gate.set(20, 0, 100);
        assert_eq!(gate.enter(3, 5_000), Ok(()));
        assert_eq!(gate.enter(3, 5_000), Err(5_000 + PAGES_LOOK_MS));
        gate.was_no_page();
        assert_eq!(gate.enter(3, 5_000), Ok(()));
    }

    #[test]
    fn nothing_new_begins_while_downloads_wait_for_the_limit() {
        let download = Arc::new(Pipe::new(1));
        let gate = Gate::new(download.clone());
        gate.set(0, 0, 0);
        assert_eq!(gate.enter(0, 7), Ok(()));
        let waiter = {
            let download = download.clone();
            std::thread::spawn(move || download.wait(1_000, || false))
        };
        while download.waiting() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(gate.enter(1, 7), Err(7 + LOOK_MS));
        download.set_limit(0);
        waiter.join().unwrap();
        gate.set(0, 0, 0);
        assert_eq!(gate.enter(1, 7), Ok(()));
    }
}
