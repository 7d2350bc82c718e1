//! The links of a page, and what its author asks of robots.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};
use url::Url;

use super::charset;
use super::foreign::Foreign;
use super::markup::Markup;
use super::walk::{Heard, Walk};
use crate::canonical::URL_LIMIT_BYTES;
use crate::robots::RobotsTag;

/// A scanner keeps the buffers of the last page up to this size, so that one huge
/// page does not hold its memory for the rest of the crawl.
const KEPT_BYTES: usize = 256 * 1024;

/// Reads links out of pages, one page at a time, in the same buffers.
///
/// No page makes it fail: it takes time in proportion to the page, and memory of at
/// most a few times its size.
pub struct LinkScanner {
    /// The name under which a page can address this crawler in a `<meta>`.
    product: String,
    /// The page in UTF-8, where its charset cannot be scanned as it is.
    transcoded: String,
    /// The text of one attribute at a time.
    text: String,
    hrefs: Hrefs,
    foreign: Foreign,
}

/// What a page holds for a crawler. It borrows its scanner's buffers.
pub struct Found<'s> {
    /// What relative links are relative to: the page, or its `<base href>`.
    pub base: Url,
    /// What its author asks of crawlers. If none of its links is to be followed, it has
    /// none.
    pub directives: RobotsTag,
    /// Queries of links are encoded in it.
    charset: &'static Encoding,
    hrefs: &'s Hrefs,
}

impl Found<'_> {
    /// The links as the page wrote them, decoded and not resolved, in its order.
    pub fn hrefs(&self) -> impl ExactSizeIterator<Item = &str> {
        self.hrefs.iter()
    }

    /// The links, resolved, in the order of the page. Only those over `http` and
    /// `https`; a link that occurs twice comes twice.
    pub fn links(&self) -> impl Iterator<Item = Url> {
        self.hrefs().filter_map(|href| self.resolve(href))
    }

    /// A link of this page, resolved, if it goes over `http` or `https`.
    pub fn resolve(&self, href: &str) -> Option<Url> {
        let url = join(&self.base, href, self.charset)?;
        matches!(url.scheme(), "http" | "https").then_some(url)
    }
}

impl LinkScanner {
    /// A scanner that listens to `<meta name=robots>` and to `<meta name=product>`.
    pub fn new(product: &str) -> Self {
        Self {
            product: product.to_owned(),
            transcoded: String::new(),
            text: String::new(),
            hrefs: Hrefs::default(),
            foreign: Foreign::default(),
        }
    }

    /// Reads one page. `content_type` is the header's value as it came, if it came.
    pub fn scan<'s>(
        &'s mut self,
        body: &[u8],
        content_type: Option<&str>,
        page: &Url,
    ) -> Found<'s> {
        self.hrefs.clear();
        self.foreign.clear();
        empty(&mut self.text);
        empty(&mut self.transcoded);

        let (charset, mark_bytes) = charset::of_page(body, content_type);
        let body = &body[mark_bytes..];
        let (body, charset_of_values) = if charset.is_ascii_compatible() {
            (body, charset)
        } else {
            transcode(body, charset, &mut self.transcoded);
            (self.transcoded.as_bytes(), UTF_8)
        };
        let walk = Walk {
            markup: Markup::new(body),
            charset: charset_of_values,
            product: &self.product,
            foreign: &mut self.foreign,
            text: &mut self.text,
            hrefs: &mut self.hrefs,
            heard: Heard::default(),
        };
        let heard = walk.finish();

        let charset = charset.output_encoding();
        let base = heard
            .base
            .and_then(|href| join(page, &href, charset))
            .filter(|base| !matches!(base.scheme(), "data" | "javascript"))
            // Each link that is relative to it would be as long.
            .filter(|base| base.as_str().len() <= URL_LIMIT_BYTES);
        if heard.directives.nofollow {
            self.hrefs.clear();
        }
        Found {
            base: base.unwrap_or_else(|| page.clone()),
            directives: heard.directives,
            charset,
            hrefs: &self.hrefs,
        }
    }
}

/// Resolves by the URL standard, which strips white space and line breaks.
fn join(base: &Url, href: &str, charset: &'static Encoding) -> Option<Url> {
    let encode: &dyn Fn(&str) -> Cow<'_, [u8]> = &|part| charset::query_bytes(part, charset);
    let encode = (charset != UTF_8).then_some(encode);
    let options = Url::options().base_url(Some(base));
    options.encoding_override(encode).parse(href).ok()
}

fn transcode(body: &[u8], charset: &'static Encoding, text: &mut String) {
    let mut decoder = charset.new_decoder_without_bom_handling();
    // None only where the length does not fit into memory's addresses.
    text.reserve(decoder.max_utf8_buffer_length(body.len()).unwrap_or(0));
    // All of it fits in, and what cannot be decoded is replaced.
    let _ = decoder.decode_to_string(body, text, true);
}

fn empty(buffer: &mut String) {
    buffer.clear();
    buffer.shrink_to(KEPT_BYTES);
}

/// Texts end to end in one buffer, so that a link costs no allocation of its own.
#[derive(Default)]
pub(super) struct Hrefs {
    text: String,
    ends: Vec<usize>,
}

impl Hrefs {
    /// Adds the text that `write` appends.
    pub fn push_with(&mut self, write: impl FnOnce(&mut String)) {
        write(&mut self.text);
        self.ends.push(self.text.len());
    }

    fn clear(&mut self) {
        empty(&mut self.text);
        self.ends.clear();
        self.ends.shrink_to(KEPT_BYTES / size_of::<usize>());
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        self.ends
            .iter()
            .map(move |end| &self.text[std::mem::replace(&mut start, *end)..*end])
    }
}

#[cfg(test)]
mod tests;
