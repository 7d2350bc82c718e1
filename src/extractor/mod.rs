//! Block 4, the extractor: from the bytes of a page to the links on it.
//!
//! A body comes in as the server sent it (decompressed) with its `Content-Type`.
//! `links` is the scanner that puts the others to work, and `worker` the thread that does so
//! with each new page. `charset` decides how its bytes are read; `markup` walks over them and stops at
//! tags alone, passing text, comments and scripts by; `foreign` tells it when it is
//! inside SVG or MathML, where other rules hold; `walk` picks the elements that link to
//! something, or say what their author asks of crawlers; `refresh` reads a `<meta>` that
//! leads elsewhere; `attribute` turns the few attribute values that matter into text. Out
//! come the links in document order, resolved against the page's base. `robots_meta` hears
//! beforehand whether a page may be kept.
//!
//! What counts as a link, and why there is a scanner of our own, is in
//! `docs/decisions/0002-link-extraction.md`.

mod attribute;
mod charset;
mod foreign;
mod links;
mod markup;
mod refresh;
mod robots_meta;
mod walk;
pub mod worker;

pub use links::{Found, LinkScanner};
pub use robots_meta::RobotsMeta;
pub use worker::Extractor;

/// The first bytes of a page as text, for a person; what is no text is replaced.
pub fn text_of(head: &[u8], content_type: Option<&str>) -> String {
    let (charset, mark) = charset::of_page(head, content_type);
    let (text, _) = charset.decode_without_bom_handling(&head[mark..]);
    text.into_owned()
}
