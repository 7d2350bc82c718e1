//! The rules of a site's owner: the Robots Exclusion Protocol (RFC 9309).
//!
//! The downloader hands over the bytes of `/robots.txt` and our product token.
//! `parse` reads the lines and keeps the rules of the one group that binds
//! us; `normal_form` spells them so that two spellings of a path compare as
//! equal; `matching` answers for each path whether it may be fetched. What is
//! kept is small and can be serialised, because it is part of a site's record
//! and moves with it from peer to peer. `tag` reads the `X-Robots-Tag` header
//! and the robots `<meta>`, which speak of a page and not of a site.
//!
//! Everything here is pure: fetching, redirects, caching and what an
//! unreachable file means belong to the downloader. The cases that the tests
//! check are published in `docs/robots-cases.md`.

mod matching;
mod normal_form;
mod parse;
mod tag;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use matching::RuleSet;
pub use tag::RobotsTag;

/// How much of a file is read (RFC 9309 §2.5). A caller that fetches only a part
/// should fetch at least one byte more, so that a line cut in two is noticed.
pub const PARSED_LIMIT_BYTES: usize = 500 * 1024;

/// The longest `Crawl-delay` that is kept; a longer one counts as this.
pub const CRAWL_DELAY_LIMIT_MS: u32 = 5 * 60 * 1000;

/// How many `Sitemap` lines are kept of one file.
pub const SITEMAPS_LIMIT: usize = 100;

/// What one origin's `robots.txt` says to one crawler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Robots {
    rules: RuleSet,
    crawl_delay_ms: Option<u32>,
    sitemaps: Box<[Box<str>]>,
}

impl Robots {
    /// The rules of a site without a `robots.txt`: everything may be fetched.
    pub fn allow_all() -> Self {
        Self::of_rules(RuleSet::default())
    }

    /// The rules of a site whose `robots.txt` cannot be had: nothing may be
    /// fetched but the file itself.
    pub fn disallow_all() -> Self {
        Self::of_rules(RuleSet::from_lines("-/\n".into()))
    }

    fn of_rules(rules: RuleSet) -> Self {
        Self {
            rules,
            crawl_delay_ms: None,
            sitemaps: Box::default(),
        }
    }

    /// Reads a file for the crawler whose product token is `agent`. Any bytes
    /// are a valid file: what is not understood is skipped.
    pub fn parse(text: &[u8], agent: &str) -> Self {
        parse::parse(text, agent)
    }

    /// Whether there are any rules that bind us.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Whether the path (with its query, as in a request line) may be fetched.
    ///
    /// The cost grows with the number of rules. A hostile site can make it
    /// milliseconds, so ask once for each fetch and not once for each link.
    pub fn is_allowed(&self, path_and_query: &str) -> bool {
        self.rules.is_empty() || self.rules.allow(path_and_query)
    }

    /// The pause between fetches that the file asks for, at most five minutes.
    /// It may lengthen the crawler's own delay and never shortens it.
    pub fn crawl_delay(&self) -> Option<Duration> {
        // Capped again here because the record may come from another peer.
        self.crawl_delay_ms
            .map(|ms| Duration::from_millis(ms.min(CRAWL_DELAY_LIMIT_MS).into()))
    }

    /// The memory that they hold besides themselves.
    pub fn memory_bytes(&self) -> usize {
        let sitemaps = self.sitemaps.iter();
        let sitemaps = sitemaps.map(|address| size_of::<Box<str>>() + address.len());
        self.rules.len() + sitemaps.sum::<usize>()
    }

    /// The addresses of sitemaps as the file spells them, for all crawlers.
    pub fn sitemaps(&self) -> &[Box<str>] {
        &self.sitemaps
    }
}
