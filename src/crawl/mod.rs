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

pub mod definition;
pub mod page_budget;
pub mod rules;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

pub use definition::{Bounds, CrawlDefinition, CrawlId};
pub use page_budget::PageBudget;
pub use rules::{Rules, Trap, Unwanted};

use crate::canonical::CanonicalForm;
use crate::ledger::Ledger;

/// Crawls that one peer takes part in at most; strangers must not make it remember more.
const MOST_CRAWLS: usize = 1_024;

/// The crawls that this peer takes part in.
#[derive(Default)]
pub struct Crawls {
    crawls: RwLock<HashMap<CrawlId, Arc<Crawl>>>,
    ledger: Arc<Ledger>,
}

/// One crawl, as this peer takes part in it.
pub struct Crawl {
    /// What it was defined as.
    pub definition: CrawlDefinition,
    /// Which URLs it wants.
    pub rules: Rules,
    /// How many pages it may still fetch here.
    pub budget: PageBudget,
}

impl Crawls {
    /// None yet; the ledger is told of each.
    pub fn new(ledger: Arc<Ledger>) -> Self {
        Self {
            crawls: RwLock::default(),
            ledger,
        }
    }

    /// Takes part in a crawl; `None` if there are too many already.
    pub fn add(&self, definition: CrawlDefinition, form: &CanonicalForm) -> Option<Arc<Crawl>> {
        let id = definition.id();
        if let Some(known) = self.get(id) {
            return Some(known);
        }
        let crawl = Arc::new(Crawl {
            rules: Rules::new(&definition, form),
            budget: PageBudget::new(definition.bounds.max_pages),
            definition,
        });
        let mut crawls = self.crawls.write();
        if crawls.len() >= MOST_CRAWLS {
            return None;
        }
        self.ledger.crawl(&crawl.definition);
        Some(crawls.entry(id).or_insert(crawl).clone())
    }

    /// The crawl of this id, if this peer takes part in it.
    pub fn get(&self, id: CrawlId) -> Option<Arc<Crawl>> {
        self.crawls.read().get(&id).cloned()
    }

    /// All of them.
    pub fn all(&self) -> Vec<(CrawlId, Arc<Crawl>)> {
        let crawls = self.crawls.read();
        crawls
            .iter()
            .map(|(&id, crawl)| (id, crawl.clone()))
            .collect()
    }

    /// Whether every crawl has fetched as many pages as it may.
    pub fn all_spent(&self) -> bool {
        let crawls = self.crawls.read();
        !crawls.is_empty() && crawls.values().all(|crawl| crawl.budget.is_spent())
    }
}
