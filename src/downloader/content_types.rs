//! Which kinds of content are fetched, told by the header before any of the body is read.

use crate::blocklist::pattern::glob_matches;

/// The allow-list of `network.content_types`.
#[derive(Debug, Clone)]
pub struct ContentTypes(Vec<Box<str>>);

impl ContentTypes {
    /// Types such as `text/html`; a star stands for anything, as in `text/*`.
    pub fn new(types: &[String]) -> Self {
        let spelled = types.iter().map(|kind| kind.trim().to_ascii_lowercase());
        Self(spelled.map(String::into_boxed_str).collect())
    }

    /// Whether a body with this `Content-Type` is wanted. A server that does not say what
    /// it sends, or not in a way that can be read, is believed to send a page.
    pub fn allow(&self, header: Option<&str>) -> bool {
        let kind = header.unwrap_or_default().split(';').next();
        let kind = kind.unwrap_or_default().trim().to_ascii_lowercase();
        !kind.contains('/') || self.0.iter().any(|allowed| glob_matches(allowed, &kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn pages_and_documents_are_wanted_and_films_are_not() {
        let types = ContentTypes::new(&config::Network::default().content_types);
        for wanted in [
            "text/html",
            " Text/HTML ; charset=utf-8",
            "application/xhtml+xml",
            "application/atom+xml",
            "application/ld+json",
            "application/pdf",
            "image/png",
            "text/plain;x",
            "",
            "nonsense",
        ] {
            assert!(types.allow(Some(wanted)), "{wanted:?}");
        }
        assert!(types.allow(None));
        for unwanted in [
            "video/mp4",
            "audio/mpeg",
            "application/zip",
            "application/octet-stream",
            "application/x-msdownload",
        ] {
            assert!(!types.allow(Some(unwanted)), "{unwanted:?}");
        }
        let none = ContentTypes::new(&[]);
        assert!(!none.allow(Some("text/html")));
    }
}
