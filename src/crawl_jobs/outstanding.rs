//! How much is left to do.
//!
//! A URL is outstanding from the moment it is taken into a queue until its page is
//! done with: refused, failed, recognised as a duplicate, or read for links that are
//! outstanding themselves by then. A crawl is over when nothing is outstanding.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::crawl::CrawlId;
use crate::distribution::Key;
use crate::ledger::{Done, Ledger, PageTotals};

/// Counts URLs that are not done with.
#[derive(Default)]
pub struct Outstanding {
    count: AtomicU64,
    /// How many of each site are being worked on. A site may come and go meanwhile.
    at_work: Mutex<HashMap<Key, u32>>,
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

    /// Whether URLs of a site are being worked on: taken out of its queue, and not done with.
    pub fn is_at_work(&self, site: Key) -> bool {
        self.at_work.lock().contains_key(&site)
    }

    fn begin(&self, site: Key) {
        *self.at_work.lock().entry(site).or_default() += 1;
    }

    fn end(&self, site: Key) {
        let mut at_work = self.at_work.lock();
        if let Some(count) = at_work.get_mut(&site) {
            *count -= 1;
            if *count == 0 {
                at_work.remove(&site);
            }
        }
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
/// is dropped, wherever that happens. The ledger learns of it then.
pub struct Unfinished {
    outstanding: Arc<Outstanding>,
    ledger: Arc<Ledger>,
    site: Key,
    /// `None` once it has gone back into its queue.
    done: Option<Done>,
    /// What its page has come to.
    page: Option<(CrawlId, PageTotals)>,
}

impl Unfinished {
    /// Takes over one URL that was counted when it was queued.
    pub fn new(outstanding: &Arc<Outstanding>, ledger: &Arc<Ledger>, done: Done) -> Self {
        outstanding.begin(done.site);
        Self {
            outstanding: outstanding.clone(),
            ledger: ledger.clone(),
            site: done.site,
            done: Some(done),
            page: None,
        }
    }

    /// It has brought a page.
    pub fn count(&mut self, crawl: CrawlId, totals: PageTotals) {
        let (_, sum) = self.page.get_or_insert((crawl, PageTotals::default()));
        sum.add(totals);
    }

    /// The URL goes back into a queue: it stays outstanding.
    pub fn requeued(mut self) {
        self.outstanding.add(1);
        self.done = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(done) = self.done {
            self.ledger.done(done, self.page);
        }
        // In this order: whoever finds that nobody is at work on a site, and moves it, moves
        // it without this URL.
        self.outstanding.end(self.site);
        self.outstanding.done(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfinished(outstanding: &Arc<Outstanding>) -> Unfinished {
        let done = Done {
            site: Key(1),
            number: 0,
        };
        Unfinished::new(outstanding, &Ledger::nothing(), done)
    }

    #[test]
    fn done_when_the_last_is_dropped() {
        let outstanding = Arc::new(Outstanding::default());
        outstanding.add(2);
        let first = unfinished(&outstanding);
        assert!(!outstanding.wait_for_none(Duration::ZERO));
        first.requeued();
        assert_eq!(outstanding.count(), 2);
        outstanding.done(1);
        let last = unfinished(&outstanding);
        assert!(outstanding.is_at_work(Key(1)));
        assert!(!outstanding.is_at_work(Key(2)));
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
        assert!(!outstanding.is_at_work(Key(1)));
        assert_eq!(outstanding.count(), 0);
    }
}
