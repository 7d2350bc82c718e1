//! Which URLs a crawl wants, judged by the URL alone.
//!
//! Out of scope, too deep, too long, or a path that repeats itself: such URLs are
//! turned away where they are found, before anybody is bothered with them. Bounds
//! that need to know what came before (pages of a site, queries of a path) are kept
//! by the preprocessor.

use std::collections::HashSet;

use crate::canonical::{CanonicalForm, CanonicalUrl};
use crate::config::Scope;

use super::{Bounds, CrawlDefinition};

/// Why a URL looks like a trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trap {
    /// Longer than a URL should be.
    UrlLength,
    /// One path segment again and again.
    SegmentRepeats,
    /// Too many links from a seed.
    Depth,
    /// The site has had its share of pages.
    SitePages,
    /// Endless query variations on one path.
    QueryVariations,
    /// Too many redirects in a row.
    Redirects,
    /// More text of links than a page can have.
    PageLinks,
}

impl Trap {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 7] = [
        Self::UrlLength,
        Self::SegmentRepeats,
        Self::Depth,
        Self::SitePages,
        Self::QueryVariations,
        Self::Redirects,
        Self::PageLinks,
    ];

    /// The name under which it is counted.
    pub fn name(self) -> &'static str {
        match self {
            Self::UrlLength => "url_length",
            Self::SegmentRepeats => "segment_repeats",
            Self::Depth => "depth",
            Self::SitePages => "site_pages",
            Self::QueryVariations => "query_variations",
            Self::Redirects => "redirects",
            Self::PageLinks => "page_links",
        }
    }
}

/// Why a crawl does not want a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwanted {
    /// Not within the crawl's scope.
    OutOfScope,
    /// It looks like a trap.
    Trap(Trap),
}

/// A definition made ready for use.
#[derive(Debug)]
pub struct Rules {
    scope: Scope,
    /// Hosts or registered domains of the seeds, as the scope needs them.
    homes: HashSet<Box<str>>,
    /// How much the crawl may fetch.
    pub bounds: Bounds,
}

impl Rules {
    /// Compiles a definition. Seeds that are no URLs are no home to anything.
    pub fn new(definition: &CrawlDefinition, form: &CanonicalForm) -> Self {
        let home = |url: CanonicalUrl| match definition.scope {
            Scope::Domain => registered_domain(url.host()).into(),
            Scope::Host | Scope::Any => url.host().into(),
        };
        let seeds = definition.seeds.iter();
        Self {
            scope: definition.scope,
            homes: seeds
                .filter_map(|seed| form.parse(seed).ok())
                .map(home)
                .collect(),
            bounds: definition.bounds.clone(),
        }
    }

    /// Whether the crawl wants this URL, so many links from a seed and after so many
    /// redirects.
    pub fn judge(&self, url: &CanonicalUrl, depth: u16, redirects: u8) -> Result<(), Unwanted> {
        let in_scope = match self.scope {
            Scope::Any => true,
            Scope::Host => self.homes.contains(url.host()),
            Scope::Domain => self.homes.contains(registered_domain(url.host())),
        };
        if !in_scope {
            return Err(Unwanted::OutOfScope);
        }
        if depth > self.bounds.max_depth {
            return Err(Unwanted::Trap(Trap::Depth));
        }
        if redirects > self.bounds.max_redirects {
            return Err(Unwanted::Trap(Trap::Redirects));
        }
        url_trap(url, &self.bounds).map_or(Ok(()), |trap| Err(Unwanted::Trap(trap)))
    }
}

/// The trap that the URL's own text gives away.
pub fn url_trap(url: &CanonicalUrl, bounds: &Bounds) -> Option<Trap> {
    if url.as_str().len() > bounds.max_url_bytes as usize {
        return Some(Trap::UrlLength);
    }
    let path = url.path_and_query().split('?').next().unwrap_or_default();
    repeats_over(path, bounds.max_segment_repeats.into()).then_some(Trap::SegmentRepeats)
}

/// Whether some segment occurs more than `most` times. A path is at most a few
/// kilobytes, and one with few segments cannot repeat: almost all end at the count.
fn repeats_over(path: &str, most: usize) -> bool {
    let segments = || path.split('/').filter(|segment| !segment.is_empty());
    if segments().nth(most).is_none() {
        return false;
    }
    let mut sorted: Vec<_> = segments().collect();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).any(|same| same.len() > most)
}

/// The part of a host name that somebody registered: `b.co.uk` of `a.b.co.uk`. An
/// address, and a name without a registered part, stand for themselves.
pub fn registered_domain(host: &str) -> &str {
    if host.starts_with('[') || host.ends_with(|c: char| c.is_ascii_digit()) {
        return host;
    }
    psl::domain_str(host).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn rules(scope: Scope) -> Rules {
        let mut definition = CrawlDefinition::from_settings(&config::Crawl::default());
        definition.seeds = vec![
            "http://www.shop.co.uk/".into(),
            "http://127.0.0.1:8080/".into(),
        ];
        definition.scope = scope;
        definition.bounds.max_depth = 5;
        Rules::new(&definition, &CanonicalForm::new(&[]))
    }

    fn judge(rules: &Rules, url: &str, depth: u16) -> Result<(), Unwanted> {
        let url = CanonicalForm::new(&[]).parse(url).unwrap();
        rules.judge(&url, depth, 0)
    }

    #[test]
    fn scope_is_host_domain_or_any() {
        let out = Err(Unwanted::OutOfScope);
        for (url, host, domain) in [
            ("http://www.shop.co.uk/x", Ok(()), Ok(())),
            ("https://www.shop.co.uk:8443/x", Ok(()), Ok(())),
            ("http://shop.co.uk/", out, Ok(())),
            ("http://a.b.shop.co.uk/", out, Ok(())),
            ("http://other.co.uk/", out, out),
            ("http://127.0.0.1/", Ok(()), Ok(())),
            ("http://127.0.0.2/", out, out),
            ("http://10.0.0.1/", out, out),
        ] {
            assert_eq!(judge(&rules(Scope::Host), url, 0), host, "{url}");
            assert_eq!(judge(&rules(Scope::Domain), url, 0), domain, "{url}");
            assert_eq!(judge(&rules(Scope::Any), url, 0), Ok(()), "{url}");
        }
    }

    #[test]
    fn traps_are_seen_in_the_url_alone() {
        let rules = rules(Scope::Any);
        let trap = |trap| Err(Unwanted::Trap(trap));
        assert_eq!(judge(&rules, "http://a/x/x/x", 5), Ok(()));
        assert_eq!(
            judge(&rules, "http://a/x/x/x/x", 5),
            trap(Trap::SegmentRepeats)
        );
        assert_eq!(
            judge(&rules, "http://a/x/y/x/y/x/y/x", 5),
            trap(Trap::SegmentRepeats)
        );
        assert_eq!(judge(&rules, "http://a/?q=/x/x/x/x/x", 5), Ok(()));
        assert_eq!(judge(&rules, "http://a//////", 5), Ok(()));
        assert_eq!(judge(&rules, "http://a/", 6), trap(Trap::Depth));
        let longest = format!("http://a/{}", "z".repeat(2_048 - 9));
        assert_eq!(judge(&rules, &longest, 0), Ok(()));
        assert_eq!(
            judge(&rules, &format!("{longest}z"), 0),
            trap(Trap::UrlLength)
        );
        let url = CanonicalForm::new(&[]).parse("http://a/").unwrap();
        assert_eq!(rules.judge(&url, 0, 6), trap(Trap::Redirects));
    }
}
