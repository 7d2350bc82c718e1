//! Block 4: an extractor thread.
//!
//! It takes pages out of the pending queue, reads their links, brings them into
//! canonical form and gives them to the URL range validator.

use std::sync::Arc;

use crossbeam_channel::{Receiver, select};
use url::Url;

use super::LinkScanner;
use crate::canonical::{CanonicalForm, Refusal};
use crate::counters::{Counters, ErrorKind};
use crate::crawl::{Crawls, Trap};
use crate::engine::StopSignal;
use crate::ledger::Ledger;
use crate::page::Page;
use crate::record::UrlRecord;
use crate::shield::shielded;
use crate::url_range_validator::UrlRangeValidator;

/// See the module.
pub struct Extractor {
    /// Block 11.
    pub pending: Receiver<Page>,
    /// Block 5.
    pub range: Arc<UrlRangeValidator>,
    /// The crawls that pages belong to.
    pub crawls: Arc<Crawls>,
    /// The canonical form of links.
    pub form: Arc<CanonicalForm>,
    /// The product token by which a page can address this crawler.
    pub agent: String,
    /// What has been done.
    pub counters: Arc<Counters>,
    /// Where links go that are archived with their page.
    pub ledger: Arc<Ledger>,
    /// Whether they are.
    pub keeps_links: bool,
    /// Tells when to end.
    pub stop: StopSignal,
}

impl Extractor {
    /// Works until the engine stops.
    pub fn run(&self) {
        let mut scanner = LinkScanner::new(&self.agent);
        loop {
            select! {
                recv(self.pending) -> page => match page {
                    Ok(page) => {
                        let url = || page.record.url.as_str().to_owned();
                        if shielded(url, || self.extract(&mut scanner, &page)).is_none() {
                            self.counters.error(ErrorKind::Fault).add(1);
                            scanner = LinkScanner::new(&self.agent);
                        }
                    }
                    Err(_) => return,
                },
                recv(self.stop) -> _ => return,
            }
        }
    }

    fn extract(&self, scanner: &mut LinkScanner, page: &Page) {
        let crawl = self.crawls.get(page.record.crawl);
        let url = Url::parse(page.record.url.as_str());
        let (Some(crawl), Ok(url)) = (crawl, url) else {
            return;
        };
        let found = scanner.scan(&page.body, page.content_type.as_deref(), &url);
        let depth = page.record.depth.saturating_add(1);
        let mut discovered = 0;
        let links = found.links().filter_map(|link| match self.form.of(link) {
            Ok(url) => {
                discovered += 1;
                Some(UrlRecord {
                    url,
                    crawl: page.record.crawl,
                    depth,
                    redirects: 0,
                    from: None,
                })
            }
            Err(Refusal::TooLong) => {
                discovered += 1;
                self.counters.trap(Trap::UrlLength).add(1);
                None
            }
            Err(_) => None,
        });
        if let (true, Some(capture)) = (self.keeps_links, &page.capture) {
            let links: Vec<UrlRecord> = links.collect();
            let texts = links.iter().map(|link| link.url.as_str());
            self.ledger
                .archive(capture.links(page.record.url.as_str(), texts));
            self.range.route(&crawl, links);
        } else {
            self.range.route(&crawl, links);
        }
        self.counters.discovered.add(discovered);
    }
}
