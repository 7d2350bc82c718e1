//! Block 4: an extractor thread.
//!
//! It takes pages out of the pending queue, reads their links, brings them into
//! canonical form and gives them to the URL range validator: piece by piece, and so much
//! of a page at most. A few bytes of markup are a long URL where the page has a long base,
//! and a page of some kilobytes, compressed, could fill all memory.

use std::sync::Arc;

use crossbeam_channel::{Receiver, select};
use url::Url;

use super::LinkScanner;
use crate::archive::Outlinks;
use crate::canonical::{CanonicalForm, Refusal};
use crate::counters::{Counters, ErrorKind};
use crate::crawl::{Crawls, Trap};
use crate::engine::StopSignal;
use crate::ledger::Ledger;
use crate::page::Page;
use crate::record::UrlRecord;
use crate::shield::shielded;
use crate::url_range_validator::UrlRangeValidator;

/// So much text of links is taken from a page, as they are when they are resolved: as much
/// as the largest page has room for, if it writes them out.
const MOST_BYTES: usize = 4 << 20;
/// So much of it is taken at a time, a usual page in one piece.
const PIECE_BYTES: usize = 128 << 10;

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
        let capture = page.capture.as_ref().filter(|_| self.keeps_links);
        let mut outlinks = Outlinks::default();
        let mut piece = Vec::new();
        let mut discovered = 0;
        let (mut bytes, mut piece_bytes) = (0, 0);
        let mut hrefs = found.hrefs();
        while let Some(href) = hrefs.next() {
            let link = found.resolve(href);
            // What leads nowhere was work, too.
            let text = link.as_ref().unwrap_or(&found.base).as_str();
            bytes += text.len();
            if bytes > MOST_BYTES {
                let rest = 1 + hrefs.len() as u64;
                discovered += rest;
                self.counters.trap(Trap::PageLinks).add(rest);
                break;
            }
            let Some(link) = link else {
                continue;
            };
            let url = match self.form.of(link) {
                Ok(url) => url,
                Err(Refusal::TooLong) => {
                    discovered += 1;
                    self.counters.trap(Trap::UrlLength).add(1);
                    continue;
                }
                Err(_) => continue,
            };
            discovered += 1;
            piece_bytes += url.as_str().len();
            if capture.is_some() {
                outlinks.add(url.as_str());
            }
            piece.push(UrlRecord {
                url,
                crawl: page.record.crawl,
                depth: page.record.depth.saturating_add(1),
                redirects: 0,
                from: None,
            });
            if piece_bytes >= PIECE_BYTES {
                self.range.route(&crawl, piece.drain(..));
                piece_bytes = 0;
            }
        }
        self.range.route(&crawl, piece);
        if let Some(capture) = capture {
            let record = capture.links(page.record.url.as_str(), &outlinks);
            self.ledger.archive(record);
        }
        self.counters.discovered.add(discovered);
    }
}
