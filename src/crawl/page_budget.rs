//! How many pages a crawl may still fetch.
//!
//! A fetch reserves its page before it begins, and gives the place back if it ends
//! without one. So the bound holds at every moment, whatever runs at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// See the module. Clones count together.
#[derive(Clone)]
pub struct PageBudget {
    most: u64,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Pages complete or under way.
    reserved: AtomicU64,
    complete: AtomicU64,
    /// Those of the complete ones that were fetched for definitions whose place it took.
    inherited: AtomicU64,
}

/// A place for one page; dropped without [`Reservation::complete`], it is free again.
pub struct Reservation(Option<Arc<Counts>>);

impl PageBudget {
    /// A budget of so many pages; 0 for no bound.
    pub fn new(most: u64) -> Self {
        let most = if most == 0 { u64::MAX } else { most };
        Self {
            most,
            counts: Arc::default(),
        }
    }

    /// An earlier run has completed so many pages.
    pub fn resume(&self, pages: u64) {
        self.counts.reserved.fetch_add(pages, SeqCst);
        self.counts.complete.fetch_add(pages, SeqCst);
    }

    /// Definitions whose place it has taken have completed so many pages, all together:
    /// they count here as well. Those that are under way meanwhile do not.
    pub fn inherit(&self, pages: u64) {
        let before = self.counts.inherited.fetch_max(pages, SeqCst);
        self.resume(pages.saturating_sub(before));
    }

    /// The pages that were completed for this definition itself.
    pub fn pages(&self) -> u64 {
        let inherited = self.counts.inherited.load(SeqCst);
        let complete = self.counts.complete.load(SeqCst);
        complete.saturating_sub(inherited)
    }

    /// A place for one more page, if there is one now.
    pub fn reserve(&self) -> Option<Reservation> {
        let more = |count| (count < self.most).then_some(count + 1);
        let granted = self.counts.reserved.fetch_update(SeqCst, SeqCst, more);
        granted.ok().map(|_| Reservation(Some(self.counts.clone())))
    }

    /// Whether all pages are complete: waiting for a place is in vain.
    pub fn is_spent(&self) -> bool {
        self.counts.complete.load(SeqCst) >= self.most
    }
}

impl Reservation {
    /// The page is complete: its place is used up.
    pub fn complete(mut self) {
        if let Some(counts) = self.0.take() {
            counts.complete.fetch_add(1, SeqCst);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(counts) = &self.0 {
            counts.reserved.fetch_sub(1, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_the_bound_and_failures_give_their_place_back() {
        let budget = PageBudget::new(2);
        let first = budget.reserve().unwrap();
        let second = budget.reserve().unwrap();
        assert!(budget.reserve().is_none());
        drop(first);
        let third = budget.reserve().unwrap();
        second.complete();
        assert!(!budget.is_spent());
        third.complete();
        assert!(budget.is_spent());
        assert!(budget.reserve().is_none());
    }

    #[test]
    fn what_was_fetched_before_a_change_counts_after_it_and_once() {
        let (first, second) = (PageBudget::new(10), PageBudget::new(3));
        first.reserve().unwrap().complete();
        first.reserve().unwrap().complete();
        second.inherit(first.pages());
        second.reserve().unwrap().complete();
        assert!(second.is_spent() && second.reserve().is_none());
        assert_eq!((first.pages(), second.pages()), (2, 1));
        first.inherit(second.pages());
        first.inherit(second.pages());
        let left = (0..20).map_while(|_| first.reserve().map(Reservation::complete));
        assert_eq!(left.count(), 7);
    }

    #[test]
    fn zero_is_no_bound() {
        let budget = PageBudget::new(0);
        assert!((0..1_000).all(|_| budget.reserve().is_some()));
        assert!(!budget.is_spent());
    }
}
