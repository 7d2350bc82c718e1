//! The thread that routes the seeds of the user's crawls.
//!
//! Seeds for which there is no room wait for it, without end while nothing can be written.
//! Whoever wants the crawl need not: it may be they who make the room.

use std::sync::Arc;

use crossbeam_channel::{Receiver, select};

use super::StopSignal;
use crate::canonical::CanonicalForm;
use crate::crawl::Crawl;
use crate::crawl_jobs::Outstanding;
use crate::record::UrlRecord;
use crate::url_range_validator::UrlRangeValidator;

/// Crawls whose seeds may wait for others to be routed.
pub const MOST_WAITING: usize = 1_024;

/// See the module.
pub struct Seeding {
    /// Crawls that begin. Each counts as one outstanding URL until its seeds are routed.
    pub begun: Receiver<Arc<Crawl>>,
    /// Where seeds go.
    pub range: Arc<UrlRangeValidator>,
    /// How URLs are written.
    pub form: Arc<CanonicalForm>,
    /// What is not done with.
    pub outstanding: Arc<Outstanding>,
    /// Ends the thread.
    pub stop: StopSignal,
}

impl Seeding {
    /// Works until the engine stops.
    pub fn run(&self) {
        loop {
            select! {
                recv(self.begun) -> crawl => match crawl {
                    Ok(crawl) => self.route(&crawl),
                    Err(_) => return,
                },
                recv(self.stop) -> _ => return,
            }
        }
    }

    fn route(&self, crawl: &Crawl) {
        let seeds = crawl.definition.seeds.iter();
        // Those that are none were refused when it began.
        let urls = seeds.filter_map(|seed| self.form.parse(seed).ok());
        let records = urls.map(|url| UrlRecord {
            url,
            crawl: crawl.id,
            depth: 0,
            redirects: 0,
            from: None,
        });
        self.range.route(crawl, records);
        self.outstanding.done(1);
    }
}
