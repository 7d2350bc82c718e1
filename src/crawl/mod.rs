//! A crawl: where it begins, how far it may go, and how much of it is done.
//!
//! A crawl is named by the hash of its definition, which travels with its URLs, so
//! that every peer keeps the same bounds. [`Rules`] is the definition made ready for
//! use: it says of a URL, from the URL alone, whether the crawl wants it.
//! [`PageBudget`] keeps `max_pages`, which is never exceeded.
//!
//! - [`definition`]: seeds, scope and bounds, and the id that stands for them
//! - [`rules`]: scope and the traps that a URL alone gives away
//! - [`page_budget`]: how many pages may still be fetched
//! - [`register`]: the crawls that this peer takes part in

pub mod definition;
pub mod page_budget;
pub mod register;
pub mod rules;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

pub use definition::{Bounds, CrawlDefinition, CrawlId};
pub use page_budget::PageBudget;
pub use register::Crawls;
pub use rules::{Rules, Trap, Unwanted};

use crate::canonical::CanonicalForm;
use crate::ledger::Ledger;

/// One crawl, as this peer takes part in it.
pub struct Crawl {
    /// What it was defined as.
    pub definition: CrawlDefinition,
    /// Which URLs it wants.
    pub rules: Rules,
    /// How many pages it may still fetch here.
    pub budget: PageBudget,
    /// Whether the ledger knows it.
    is_kept: AtomicBool,
}

impl Crawl {
    /// A crawl of which nothing is kept yet.
    pub fn new(definition: CrawlDefinition, form: &CanonicalForm) -> Self {
        Self {
            rules: Rules::new(&definition, form),
            budget: PageBudget::new(definition.bounds.max_pages),
            definition,
            is_kept: AtomicBool::new(false),
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
