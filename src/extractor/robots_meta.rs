//! What a page asks of crawlers in its own text, heard before it is archived.
//!
//! Its links are read later, by an extractor. Few pages mention robots at all, so a search
//! for the word spares most of them from being read twice.

use aho_corasick::AhoCorasick;
use url::Url;

use super::LinkScanner;
use crate::robots::RobotsTag;

/// See the module.
pub struct RobotsMeta {
    /// The name under which a page can address this crawler in a `<meta>`.
    product: String,
    /// Finds the names to which directives are addressed. Without it all pages are read.
    names: Option<AhoCorasick>,
}

impl RobotsMeta {
    /// Listens to `<meta name=robots>` and to `<meta name=product>`.
    pub fn new(product: &str) -> Self {
        let names = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build(["robots", product]);
        Self {
            product: product.to_owned(),
            names: names.ok(),
        }
    }

    /// What the page at `url` asks. `content_type` is the header's value, if it came.
    pub fn of(&self, body: &[u8], content_type: Option<&str>, url: &Url) -> RobotsTag {
        if !self.may_ask(body) {
            return RobotsTag::default();
        }
        let mut scanner = LinkScanner::new(&self.product);
        scanner.scan(body, content_type, url).directives
    }

    fn may_ask(&self, body: &[u8]) -> bool {
        // In charsets of two bytes, every other byte of a name is zero.
        let is_wide = || memchr::memchr(0, body).is_some();
        let names = self.names.as_ref();
        names.is_none_or(|names| names.is_match(body)) || is_wide()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(body: &[u8]) -> bool {
        let url = Url::parse("http://h.test/").unwrap();
        RobotsMeta::new("PeerCrawl").of(body, None, &url).noarchive
    }

    #[test]
    fn a_page_is_heard_whatever_its_case_and_charset() {
        assert!(asks(b"<meta name=robots content=noarchive>"));
        assert!(asks(b"<META NAME='rObOtS' CONTENT='NOINDEX, follow'>"));
        assert!(asks(b"<meta name=peercrawl content=none>"));
        let wide: Vec<u8> = "\u{feff}<meta name=robots content=none>"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert!(asks(&wide));
    }

    #[test]
    fn a_page_that_only_speaks_of_robots_asks_for_nothing() {
        assert!(!asks(b"<p>robots, noindex, noarchive</p>"));
        assert!(!asks(b"<meta name=otherbot content=noarchive>"));
        assert!(!asks(b"<meta name=robots content='nofollow'>"));
        assert!(!asks(b""));
    }
}
