//! How much is left to do.
//!
//! A URL is outstanding from the moment it is taken into a queue until its page is
//! done with: refused, failed, recognised as a duplicate, or read for links that are
//! outstanding themselves by then. A crawl is over when nothing is outstanding.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Counts URLs that are not done with.
#[derive(Default)]
pub struct Outstanding {
    count: AtomicU64,
    lock: Mutex<()>,
    reached_zero: Condvar,
}

impl Outstanding {
    /// So many URLs more.
    pub fn add(&self, urls: u64) {
        self.count.fetch_add(urls, SeqCst);
    }

    /// So many URLs are done with.
    pub fn done(&self, urls: u64) {
        if urls > 0 && self.count.fetch_sub(urls, SeqCst) == urls {
            // Under the lock, so that whoever has just looked is already waiting.
            let _waiters = self.lock.lock();
            self.reached_zero.notify_all();
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// Waits until there are none, or for `limit`; tells whether there are none.
    pub fn wait_for_none(&self, limit: Duration) -> bool {
        let mut waiting = self.lock.lock();
        if self.count() > 0 {
            self.reached_zero.wait_for(&mut waiting, limit);
        }
        self.count() == 0
    }
}

/// A URL that was taken out of its queue and is being worked on: done with when this
/// is dropped, wherever that happens.
pub struct Unfinished(Arc<Outstanding>);

impl Unfinished {
    /// Takes over one URL that was counted when it was queued.
    pub fn new(outstanding: &Arc<Outstanding>) -> Self {
        Self(outstanding.clone())
    }

    /// The URL goes back into a queue: it stays outstanding.
    pub fn requeued(self) {
        self.0.add(1);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.done(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn done_when_the_last_is_dropped() {
        let outstanding = Arc::new(Outstanding::default());
        outstanding.add(2);
        let first = Unfinished::new(&outstanding);
        assert!(!outstanding.wait_for_none(Duration::ZERO));
        first.requeued();
        assert_eq!(outstanding.count(), 2);
        outstanding.done(1);
        let last = Unfinished::new(&outstanding);
        let waiter = {
            let outstanding = outstanding.clone();
            std::thread::spawn(
                move || {
                    while !outstanding.wait_for_none(Duration::from_secs(1)) {}
                },
            )
        };
        drop(last);
        waiter.join().unwrap();
        assert_eq!(outstanding.count(), 0);
    }
}
