//! Which elements of a page say something to a crawler.

use encoding_rs::Encoding;

use super::attribute::append_text;
use super::foreign::Foreign;
use super::links::Hrefs;
use super::markup::Markup;
use super::refresh::refresh;
use crate::robots::RobotsTag;

/// One walk over one page.
pub(super) struct Walk<'a, 's> {
    pub markup: Markup<'a>,
    /// In which the page's bytes are written.
    pub charset: &'static Encoding,
    /// The name under which a page can address this crawler in a `<meta>`.
    pub product: &'s str,
    pub foreign: &'s mut Foreign,
    /// For the text of one attribute at a time.
    pub text: &'s mut String,
    /// Takes the links.
    pub hrefs: &'s mut Hrefs,
    pub heard: Heard,
}

/// What a page said that is no link.
#[derive(Default)]
pub(super) struct Heard {
    /// The first `<base href>`, also for the links before it.
    pub base: Option<String>,
    pub directives: RobotsTag,
    /// Whether a refresh was seen: only the first counts.
    has_refresh: bool,
}

/// The relations of a `<link>` that lead to other pages.
const PAGE_RELATIONS: [&str; 3] = ["alternate", "canonical", "next"];

/// The attributes that matter, as written. Of two with one name, the first counts.
#[derive(Default)]
struct Attributes<'a> {
    href: Option<&'a [u8]>,
    src: Option<&'a [u8]>,
    rel: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    content: Option<&'a [u8]>,
    http_equiv: Option<&'a [u8]>,
    encoding: Option<&'a [u8]>,
    is_html_font: bool,
}

impl<'a> Attributes<'a> {
    fn put(&mut self, name: &[u8], value: &'a [u8]) {
        let slot = match LowerCase::of(name).as_bytes() {
            b"href" => &mut self.href,
            b"src" => &mut self.src,
            b"rel" => &mut self.rel,
            b"name" => &mut self.name,
            b"content" => &mut self.content,
            b"http-equiv" => &mut self.http_equiv,
            b"encoding" => &mut self.encoding,
            b"color" | b"face" | b"size" => {
                self.is_html_font = true;
                return;
            }
            _ => return,
        };
        slot.get_or_insert(value);
    }

    fn is_html_annotation(&self) -> bool {
        self.encoding.is_some_and(|value| {
            value.eq_ignore_ascii_case(b"text/html")
                || value.eq_ignore_ascii_case(b"application/xhtml+xml")
        })
    }
}

impl Walk<'_, '_> {
    /// Walks on to the end of the page.
    pub fn finish(mut self) -> Heard {
        // Open `<template>`s: what is in them is not in the page.
        let mut templates = 0usize;
        while let Some(tag) = self.markup.next_tag(self.foreign.is_inside()) {
            let name = LowerCase::of(tag.name);
            let name = name.as_bytes();
            if tag.is_end {
                if self.markup.attributes(|_, _| ()).is_none() {
                    break;
                }
                if name == b"template" && templates > 0 {
                    templates -= 1;
                    self.foreign.break_out();
                }
                self.foreign.close(name);
                continue;
            }

            let mut attributes = Attributes::default();
            let speaks = matches!(
                name,
                b"a" | b"area" | b"base" | b"frame" | b"iframe" | b"link" | b"meta"
            );
            let closes_itself = if speaks || self.foreign.is_inside() {
                self.markup
                    .attributes(|name, value| attributes.put(name, value))
            } else {
                self.markup.attributes(|_, _| ())
            };
            // A tag that the page ends in is none.
            let Some(closes_itself) = closes_itself else {
                break;
            };

            let is_html = match name {
                b"font" => attributes.is_html_font,
                b"annotation-xml" => attributes.is_html_annotation(),
                _ => false,
            };
            let is_foreign = self.foreign.open(name, closes_itself, is_html);
            // Of foreign elements, only `a` links.
            if speaks && templates == 0 && (!is_foreign || name == b"a") {
                self.element(name, &attributes);
            }
            if is_foreign {
                continue;
            }
            match name {
                b"template" => templates += 1,
                b"script" => self.markup.skip_script(),
                // `noscript` is not among them: who runs no scripts reads what is in it.
                b"iframe" | b"noembed" | b"noframes" | b"style" | b"textarea" | b"title"
                | b"xmp" => self.markup.skip_raw_text(name),
                b"plaintext" => self.markup.skip_all(),
                _ => {}
            }
        }
        self.heard
    }

    /// Takes what one element has to say.
    fn element(&mut self, name: &[u8], attributes: &Attributes<'_>) {
        match name {
            b"meta" => self.meta(attributes),
            b"base" => {
                if let (None, Some(href)) = (&self.heard.base, attributes.href) {
                    self.heard.base = Some(decoded(href, self.charset, self.text).to_owned());
                }
            }
            b"frame" | b"iframe" => {
                if let Some(src) = attributes.src {
                    self.hrefs
                        .push_with(|text| append_text(src, self.charset, text));
                }
            }
            _ => {
                let Some(href) = attributes.href else {
                    return;
                };
                let rel = attributes.rel.unwrap_or_default();
                let rel = decoded(rel, self.charset, self.text);
                let has = |relation: &&str| {
                    rel.split_ascii_whitespace()
                        .any(|token| token.eq_ignore_ascii_case(relation))
                };
                let leads_to_page = name != b"link" || PAGE_RELATIONS.iter().any(has);
                if leads_to_page && !has(&"nofollow") {
                    self.hrefs
                        .push_with(|text| append_text(href, self.charset, text));
                }
            }
        }
    }

    fn meta(&mut self, attributes: &Attributes<'_>) {
        let Some(content) = attributes.content else {
            return;
        };
        let equiv = attributes.http_equiv.unwrap_or_default();
        let is_refresh = equiv.eq_ignore_ascii_case(b"refresh");
        if is_refresh && !self.heard.has_refresh {
            let refresh = refresh(decoded(content, self.charset, self.text));
            self.heard.has_refresh = refresh.is_some();
            if let Some(Some(url)) = refresh {
                self.hrefs.push_with(|text| text.push_str(url));
            }
        }
        let name = attributes.name.unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"robots")
            || name.eq_ignore_ascii_case(self.product.as_bytes())
        {
            let content = decoded(content, self.charset, self.text);
            self.heard.directives.add_meta(content);
        }
    }
}

/// The text of an attribute value that is needed only for a moment.
fn decoded<'t>(value: &[u8], charset: &'static Encoding, text: &'t mut String) -> &'t str {
    text.clear();
    append_text(value, charset, text);
    text
}

/// A name in lower case, without an allocation. Longer names than any that matters
/// are as good as none.
struct LowerCase {
    bytes: [u8; LowerCase::CAPACITY],
    length: usize,
}

impl LowerCase {
    const CAPACITY: usize = 16;

    #[inline]
    fn of(name: &[u8]) -> Self {
        let mut bytes = [0; Self::CAPACITY];
        let mut length = 0;
        if name.len() <= Self::CAPACITY {
            length = name.len();
            for (lower, byte) in bytes.iter_mut().zip(name) {
                *lower = byte.to_ascii_lowercase();
            }
        }
        Self { bytes, length }
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
