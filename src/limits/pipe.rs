//! One direction of everything that goes through our sockets: counted, and held to its
//! limit.
//!
//! Downloads wait in a line, first come, first served. Whoever is awake serves all for
//! whom there are bytes, and wakes those and nobody else: on a busy machine, a line in
//! which each has to wake the next would be slower than the limit. The overlay never
//! waits here, but is told when to come again. Without a limit there is no line and no lock: one atomic
//! addition counts the bytes. A limit can change at any time, and holds at once for those
//! who wait already.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::bucket::Bucket;
use super::stopwatch;

/// Whoever waits looks this often whether it still should.
const LOOK: Duration = Duration::from_millis(250);

/// See the module.
#[derive(Debug)]
pub struct Pipe {
    started: Instant,
    /// Whether there is no limit, so that nobody needs the lock.
    is_free: AtomicBool,
    bytes: AtomicU64,
    waiting: AtomicUsize,
    line: Mutex<Line>,
}

#[derive(Debug)]
struct Line {
    /// 0 for no limit.
    bytes_per_sec: u64,
    is_shut: bool,
    bucket: Bucket,
    places: VecDeque<Arc<Place>>,
}

/// A place in the line.
#[derive(Debug, Default)]
struct Place {
    wanted: usize,
    /// What was granted to its holder; 0 while it waits. Changed under the line's lock.
    granted: AtomicUsize,
    /// What its holder waits at.
    turn: Condvar,
}

impl Pipe {
    /// A pipe with this limit, in bytes a second; 0 for none.
    pub fn new(bytes_per_sec: u64) -> Self {
        Self {
            started: Instant::now(),
            is_free: AtomicBool::new(bytes_per_sec == 0),
            bytes: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            line: Mutex::new(Line {
                bytes_per_sec,
                is_shut: false,
                bucket: Bucket::new(bytes_per_sec, Duration::ZERO),
                places: VecDeque::new(),
            }),
        }
    }

    /// Sets the limit, in bytes a second; 0 for none.
    pub fn set_limit(&self, bytes_per_sec: u64) {
        self.change(|line, now| {
            line.bytes_per_sec = bytes_per_sec;
            line.bucket.set_rate(bytes_per_sec, now);
        });
    }

    /// Shuts the pipe, or opens it again: nothing goes through one that is shut.
    pub fn set_shut(&self, is_shut: bool) {
        self.change(|line, _| line.is_shut = is_shut);
    }

    fn change(&self, change: impl FnOnce(&mut Line, Duration)) {
        let mut line = self.line.lock();
        change(&mut line, self.started.elapsed());
        let is_free = line.bytes_per_sec == 0 && !line.is_shut;
        self.is_free.store(is_free, Relaxed);
        drop(line);
        self.wake();
    }

    /// Whether there is no limit.
    pub fn is_free(&self) -> bool {
        self.is_free.load(Relaxed)
    }

    /// The limit, in bytes a second; 0 for none.
    pub fn limit(&self) -> u64 {
        if self.is_free() {
            return 0;
        }
        self.line.lock().bytes_per_sec
    }

    /// What may go through in a second, as things are now; `None` for any number of bytes.
    pub fn allowance(&self) -> Option<u64> {
        if self.is_free() {
            return None;
        }
        let line = self.line.lock();
        match line.bytes_per_sec {
            _ if line.is_shut => Some(0),
            0 => None,
            limit => Some(limit),
        }
    }

    /// What has gone through so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// How many wait in the line.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// The most that is granted at once; no bound without a limit.
    pub fn most_granted(&self) -> usize {
        if self.is_free() {
            return usize::MAX;
        }
        self.line.lock().bucket.most_granted()
    }

    /// Waits until so many bytes may be moved, or a part of them, and tells how many;
    /// `None` once `is_cut` says that it need not wait any more. The time is no fault of
    /// the server's, and is kept from [`Stopwatch`](super::Stopwatch)es.
    pub fn wait(&self, wanted: usize, is_cut: impl Fn() -> bool) -> Option<usize> {
        if self.is_free() {
            self.bytes.fetch_add(wanted as u64, Relaxed);
            return Some(wanted);
        }
        if wanted == 0 {
            return Some(0);
        }
        let begun = Instant::now();
        let place = Arc::new(Place {
            wanted,
            ..Place::default()
        });
        let mut line = self.line.lock();
        line.places.push_back(place.clone());
        let granted = loop {
            if is_cut() {
                line.leave(&place);
                break None;
            }
            let wait = line.serve(&place, self.started.elapsed());
            self.waiting.store(line.places.len(), Relaxed);
            match place.granted.load(Relaxed) {
                0 => place.turn.wait_for(&mut line, wait),
                granted => break Some(granted),
            };
        };
        self.waiting.store(line.places.len(), Relaxed);
        drop(line);
        stopwatch::add_held(begun.elapsed());
        self.bytes.fetch_add(granted.unwrap_or(0) as u64, Relaxed);
        granted
    }

    /// Gives back what was granted and not moved.
    pub fn give_back(&self, unused: usize) {
        if unused == 0 {
            return;
        }
        self.bytes.fetch_sub(unused as u64, Relaxed);
        if !self.is_free() {
            self.line.lock().bucket.put_back(unused);
        }
    }

    /// Counts bytes that have been moved already.
    pub fn charge(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        if !self.is_free() {
            let now = self.started.elapsed();
            self.line.lock().bucket.charge(bytes, now);
        }
    }

    /// For the overlay: how many of the bytes wanted may be moved now, or when to ask
    /// again.
    pub fn take(&self, wanted: usize) -> Result<usize, Duration> {
        let granted = match self.is_free() {
            true => wanted,
            false => self
                .line
                .lock()
                .overlay_turn(wanted, self.started.elapsed())?,
        };
        self.bytes.fetch_add(granted as u64, Relaxed);
        Ok(granted)
    }

    /// For the overlay: gives back what was granted and not moved.
    pub fn put_back(&self, unused: usize) {
        if unused == 0 {
            return;
        }
        self.bytes.fetch_sub(unused as u64, Relaxed);
        if !self.is_free() {
            self.line.lock().bucket.put_back_for_overlay(unused);
        }
    }

    /// Makes all who wait look whether they still should.
    pub fn wake(&self) {
        // Whoever holds the lock has looked before, and does not wait yet.
        for place in &self.line.lock().places {
            place.turn.notify_one();
        }
    }
}

impl Line {
    /// Serves all for whom there are bytes, the first in the line first, and tells how
    /// long the holder of `mine` should wait if it was not among them.
    fn serve(&mut self, mine: &Arc<Place>, now: Duration) -> Duration {
        if self.is_shut {
            return LOOK;
        }
        let mut wait = LOOK;
        let mut has_served = false;
        while let Some(first) = self.places.front() {
            let granted = match self.bytes_per_sec {
                0 => Ok(first.wanted),
                _ => self.bucket.take(first.wanted, now),
            };
            match granted {
                Ok(granted) => {
                    first.granted.store(granted, Relaxed);
                    first.turn.notify_one();
                    self.places.pop_front();
                    has_served = true;
                }
                Err(until) => {
                    wait = until.min(LOOK);
                    break;
                }
            }
        }
        match self.places.front() {
            Some(first) if Arc::ptr_eq(first, mine) => wait,
            // It is the first now, and has to look at the time.
            Some(first) if has_served => {
                first.turn.notify_one();
                LOOK
            }
            _ => LOOK,
        }
    }

    /// Somebody goes away without its turn, or without using it.
    fn leave(&mut self, place: &Arc<Place>) {
        let was_first = self
            .places
            .front()
            .is_some_and(|first| Arc::ptr_eq(first, place));
        self.places.retain(|other| !Arc::ptr_eq(other, place));
        let unused = place.granted.load(Relaxed);
        if unused > 0 && self.bytes_per_sec > 0 {
            self.bucket.put_back(unused);
        }
        if let Some(first) = self.places.front().filter(|_| was_first) {
            first.turn.notify_one();
        }
    }

    fn overlay_turn(&mut self, wanted: usize, now: Duration) -> Result<usize, Duration> {
        match self.bytes_per_sec {
            _ if self.is_shut => Err(LOOK),
            0 => Ok(wanted),
            _ => {
                let is_free = self.places.is_empty();
                self.bucket.take_for_overlay(wanted, is_free, now)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    const KIB: u64 = 1_024;

    /// So many threads take as much as they can for a while; gives the turns that each
    /// has had.
    fn share(pipe: &Arc<Pipe>, threads: usize, time: Duration) -> Vec<u64> {
        let until = Instant::now() + time;
        let takers: Vec<_> = (0..threads)
            .map(|number| {
                let pipe = pipe.clone();
                thread::spawn(move || {
                    let mut turns = 0;
                    while Instant::now() < until {
                        // Some are greedier than others.
                        pipe.wait(500 << number, || false).unwrap();
                        turns += 1;
                    }
                    turns
                })
            })
            .collect();
        let turns = takers.into_iter().map(|taker| taker.join().unwrap());
        turns.collect()
    }

    /// To wake everybody at each turn made this a tenth of the limit on a busy machine.
    #[test]
    fn many_share_a_limit_fairly_and_use_it_up() {
        // A machine that has other things to do may not let it use all of it each time.
        let is_used_up = (0..5).any(|_| {
            let pipe = Arc::new(Pipe::new(512 * KIB));
            let turns = share(&pipe, 8, Duration::from_secs(2));
            let part = pipe.bytes() as f64 / (1_024.0 * KIB as f64);
            println!("{part:.3} of what is allowed, turns: {turns:?}");
            assert!(part < 1.1, "{part} of what is allowed");
            let (least, most) = (turns.iter().min(), turns.iter().max());
            let is_fair = least.map(|least| 2 * least) >= most.copied();
            part >= 0.9 && is_fair
        });
        assert!(is_used_up, "it is not used up, or not shared fairly");
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let pipe = Pipe::new(0);
        assert_eq!(pipe.wait(1 << 30, || true), Some(1 << 30));
        assert_eq!(pipe.take(1 << 30), Ok(1 << 30));
        pipe.put_back(1 << 30);
        assert_eq!(pipe.bytes(), 1 << 30);
        assert_eq!(pipe.limit(), 0);
    }

    #[test]
    fn lifting_a_limit_frees_those_who_wait() {
        let pipe = Arc::new(Pipe::new(1));
        let waiter = {
            let pipe = pipe.clone();
            thread::spawn(move || pipe.wait(100_000, || false))
        };
        while pipe.waiting() == 0 {
            thread::yield_now();
        }
        assert!(!waiter.is_finished());
        pipe.set_limit(0);
        assert_eq!(waiter.join().unwrap(), Some(100_000));
        assert_eq!(pipe.waiting(), 0);
    }

    #[test]
    fn nothing_passes_a_pipe_that_is_shut_and_a_cut_ends_the_wait() {
        let pipe = Arc::new(Pipe::new(0));
        pipe.set_shut(true);
        assert!(pipe.take(1).is_err());
        let is_cut = Arc::new(AtomicBool::new(false));
        let waiter = {
            let (pipe, is_cut) = (pipe.clone(), is_cut.clone());
            thread::spawn(move || pipe.wait(1, || is_cut.load(Relaxed)))
        };
        while pipe.waiting() == 0 {
            thread::yield_now();
        }
        is_cut.store(true, Relaxed);
        pipe.wake();
        assert_eq!(waiter.join().unwrap(), None);
        assert_eq!(pipe.bytes(), 0);
        pipe.set_shut(false);
        assert_eq!(pipe.take(1), Ok(1));
    }

    #[test]
    fn the_overlay_gets_its_part_while_downloads_wait() {
        let pipe = Arc::new(Pipe::new(64 * KIB));
        let (until, downloads) = (Instant::now() + Duration::from_secs(1), pipe.clone());
        let greedy = thread::spawn(move || {
            while Instant::now() < until {
                downloads.wait(1 << 20, || false);
            }
        });
        let mut got = 0;
        while Instant::now() < until {
            match pipe.take(1_000) {
                Ok(bytes) => got += bytes,
                Err(wait) => thread::sleep(wait),
            }
        }
        greedy.join().unwrap();
        assert!(got > 8_000, "{got}");
    }
}
