//! What a page asks of crawlers in its own text, heard before it is archived.
//!
//! Its links are read later, by an extractor. Few pages speak to robots at all, and those
//! do so at their beginning: a search for the elements in which they do it spares most
//! pages from being read twice, and the others behind the last of those elements.

use aho_corasick::AhoCorasick;
use memchr::{memchr, memmem};
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
        let Some(end) = self.last_that_asks(body) else {
            return RobotsTag::default();
        };
        let mut scanner = LinkScanner::new(&self.product);
        scanner.scan(&body[..end], content_type, url).directives
    }

    /// Where the last `<meta>` ends that names a robot, if there is one.
    fn last_that_asks(&self, body: &[u8]) -> Option<usize> {
        // In charsets of two bytes, every other byte of a name is zero.
        let is_wide = || memchr(0, body).is_some();
        let Some(names) = self.names.as_ref().filter(|_| !is_wide()) else {
            return Some(body.len());
        };
        let starts = [b"<m", b"<M"].into_iter();
        let starts = starts.flat_map(|start| memmem::find_iter(body, start));
        let ends = starts.filter_map(|start| {
            let element = &body[start + 1..];
            // It ends before the next one begins.
            let element = &element[..memchr(b'<', element).unwrap_or(element.len())];
            let is_meta = element.get(..4)?.eq_ignore_ascii_case(b"meta");
            (is_meta && names.is_match(element)).then_some(start + 1 + element.len())
        });
        ends.max()
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
        assert!(asks(
            b"<p><meta name=robots content=none><meta name=x><Meta NAME=ROBOTS content=all><m"
        ));
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
