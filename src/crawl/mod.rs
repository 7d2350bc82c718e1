//! A crawl: where it begins, how far it may go, and how much of it is done.
//!
//! A crawl is named by the hash of its definition, which travels with its URLs, so
//! that every peer keeps the same bounds. [`Rules`] is the definition made ready for
//! use: it says of a URL, from the URL alone, whether the crawl wants it.
//! [`PageBudget`] keeps `max_pages`, which is never exceeded. A user who changes scope or
//! bounds has another crawl, which takes the place of the former one ([`Successions`]).
//!
//! - [`definition`]: seeds, scope and bounds, and the id that stands for them
//! - [`rules`]: scope and the traps that a URL alone gives away
//! - [`page_budget`]: how many pages may still be fetched
//! - [`register`]: the crawls that this peer takes part in
//! - [`successions`]: which of the user's definitions took whose place

pub mod definition;
pub mod page_budget;
pub mod register;
pub mod rules;
pub mod successions;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;

pub use definition::{Bounds, CrawlDefinition, CrawlId};
pub use page_budget::PageBudget;
pub use register::Crawls;
pub use rules::{Rules, Trap, Unwanted};
pub use successions::Successions;

use crate::canonical::CanonicalForm;
use crate::ledger::Ledger;
use crate::record::UrlRecord;

/// One crawl, as this peer takes part in it.
pub struct Crawl {
    /// The id that stands for its definition.
    pub id: CrawlId,
    /// What it was defined as.
    pub definition: CrawlDefinition,
    /// Which URLs it wants.
    pub rules: Rules,
    /// How many pages it may still fetch here.
    pub budget: PageBudget,
    /// Whether the ledger knows it.
    is_kept: AtomicBool,
    /// Beginnings that are not to be fetched again, by fingerprint; `None` if that holds
    /// for all that was seen.
    begun: Mutex<Option<HashSet<u64>>>,
}

/// Whether a URL is where this peer's part in a crawl begins: a seed of its user's, or what
/// such a seed redirects to.
fn is_beginning(record: &UrlRecord) -> bool {
    record.depth == 0 && record.from.is_none()
}

impl Crawl {
    /// A crawl of which nothing is kept yet.
    pub fn new(definition: CrawlDefinition, form: &CanonicalForm) -> Self {
        Self {
            id: definition.id(),
            rules: Rules::new(&definition, form),
            budget: PageBudget::new(definition.bounds.max_pages),
            definition,
            is_kept: AtomicBool::new(false),
            begun: Mutex::default(),
        }
    }

    /// From now on its beginnings are fetched once more although they were seen, because
    /// their pages may have links that other rules have turned away; but not those that
    /// have `begun` under the same rules.
    fn begin_again(&self, begun: HashSet<u64>) {
        *self.begun.lock() = Some(begun);
    }

    /// Whether a URL is to be fetched although it was seen.
    pub fn wants_again(&self, record: &UrlRecord, fingerprint: u64) -> bool {
        let is_new = |begun: &HashSet<u64>| !begun.contains(&fingerprint);
        is_beginning(record) && self.begun.lock().as_ref().is_some_and(is_new)
    }

    /// A URL was taken in: once is enough.
    pub fn took_in(&self, record: &UrlRecord, fingerprint: u64) {
        if is_beginning(record)
            && let Some(begun) = &mut *self.begun.lock()
        {
            begun.insert(fingerprint);
        }
    }

    /// Something of it is about to be kept: the ledger learns of it first, or a URL might
    /// be on disk whose crawl is not.
    pub fn keep(&self, ledger: &Ledger) {
        if !self.is_kept.load(SeqCst) {
            // Two at once write the same.
            ledger.crawl(&self.definition);
            self.is_kept.store(true, SeqCst);
        }
    }
}
