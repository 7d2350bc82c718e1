//! How a link is written: one URL under the many spellings that a canonical form unites, in the
//! many ways that HTML allows; and what only looks like a link.

use super::draw::Dice;
use super::paths::{Target, What};
use super::plan::Plan;

/// Writes the links of one page.
pub(super) struct Pen<'a> {
    pub(super) plan: &'a Plan,
    /// The host that the page is on.
    pub(super) host: u32,
    /// The folder that relative links start from.
    pub(super) folder: &'a [u8],
    /// Whole URLs only, so that a copy elsewhere means the same.
    pub(super) absolute: bool,
    /// Nothing outside ASCII, because the page's charset is in doubt.
    pub(super) ascii: bool,
    /// With mistakes that a tokenizer forgives.
    pub(super) broken: bool,
    pub(super) dice: Dice,
    /// Reused for each URL.
    pub(super) url: Vec<u8>,
    /// Reused for each path.
    pub(super) path: Vec<u8>,
}

impl Pen<'_> {
    /// A link to `target`, in any dress.
    pub(super) fn link(&mut self, target: Target, text: &[u8], out: &mut Vec<u8>) {
        self.spell(target);
        let carrier = self.dice.below(32);
        let (open, name, close): (&str, &str, &str) = match carrier {
            0 => ("<area shape=rect ", "href", ">"),
            1 => ("<iframe ", "src", "></iframe>"),
            2 => ("<link rel=next ", "href", ">"),
            3 => ("<A CLASS=Big ", "HREF", "</A>"),
            4 => ("<a\n\ttitle='a > b'\n\t", "href ", "</a>"),
            5 => ("<a data-x ", "Href", "</a>"),
            6 | 7 if self.broken => ("<a/", "href", "</a></i>"),
            8 | 9 if self.broken => ("<a =x class=y", " href", ""),
            _ => ("<a ", "href", "</a>"),
        };
        out.extend_from_slice(open.as_bytes());
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        self.value(out);
        if self.broken && self.dice.one_in(3) {
            // Of two attributes of one name, the first counts.
            out.extend_from_slice(b" disabled ");
            out.extend_from_slice(name.trim_end().as_bytes());
            out.extend_from_slice(b"=\"");
            self.phantom(out);
            out.push(b'"');
        }
        if carrier > 2 {
            out.push(b'>');
            out.extend_from_slice(text);
        }
        out.extend_from_slice(close.as_bytes());
        out.push(b'\n');
    }

    /// Writes the spelt URL as an attribute's value, with its quotes.
    fn value(&mut self, out: &mut Vec<u8>) {
        let quote: &[u8] = match self.dice.below(8) {
            0 => b"'",
            1 => b"",
            _ => b"\"",
        };
        let padded = !quote.is_empty() && self.dice.one_in(24);
        let entity = !quote.is_empty() && self.dice.one_in(24);
        out.extend_from_slice(quote);
        if padded {
            out.extend_from_slice(b" \n");
        }
        if entity || memchr::memchr(b'&', &self.url).is_some() {
            self.push_escaped(entity, out);
        } else {
            out.extend_from_slice(&self.url);
        }
        if padded {
            out.push(b' ');
        }
        out.extend_from_slice(quote);
        if quote.is_empty() {
            // Without it, a slash before `>` would be part of the value.
            out.push(b' ');
        }
    }

    fn push_escaped(&mut self, slashes: bool, out: &mut Vec<u8>) {
        for (at, &byte) in self.url.iter().enumerate() {
            match byte {
                // Before `=`, `&para` is no entity in an attribute: both forms mean the same.
                b'&' if self.url[at..].starts_with(b"&para=") && self.dice.one_in(2) => {
                    out.push(b'&');
                }
                b'&' => out.extend_from_slice(b"&amp;"),
                b'/' if slashes => out.extend_from_slice(b"&#x2F;"),
                byte => out.push(byte),
            }
        }
    }

    /// Spells the URL of `target` in one of its ways, into `self.url`.
    fn spell(&mut self, target: Target) {
        let Pen {
            plan,
            url,
            path,
            dice,
            ..
        } = self;
        url.clear();
        path.clear();
        plan.push_path(target, path);
        let authority = plan.hosts[target.host as usize].authority.as_bytes();
        let here = target.host == self.host && !self.absolute;
        match dice.below(20) {
            0..8 if here => {}
            8..13 if here => {
                push_relative(self.folder, path, url);
                path.clear();
            }
            13..14 if here => url.extend_from_slice(b"/nowhere/.."),
            14..15 if here => url.extend_from_slice(b"/."),
            15..17 if !self.absolute => {
                url.extend_from_slice(b"//");
                url.extend_from_slice(authority);
            }
            17..18 => {
                url.extend_from_slice(b"HTTP://");
                url.extend(authority.iter().map(u8::to_ascii_uppercase));
            }
            _ => {
                url.extend_from_slice(b"http://");
                url.extend_from_slice(authority);
            }
        }
        url.extend_from_slice(path);
        if !matches!(target.what, What::Page(_)) {
            return;
        }
        let tilde = ["~", "%7E", "%7e"][dice.below(3) as usize];
        replace(url, b"~", tilde.as_bytes());
        let acute: &[u8] = match dice.below(3) {
            0 if !self.ascii => "é".as_bytes(),
            1 => b"%c3%a9",
            _ => b"%C3%A9",
        };
        replace(url, b"%C3%A9", acute);
        match dice.below(24) {
            0 if !url.ends_with(b"/") => {
                let end = memchr::memchr(b'?', url).unwrap_or(url.len());
                url.splice(end..end, *b";jsessionid=0A1B2C3D");
            }
            1 | 2 => {
                let join = if memchr::memchr(b'?', url).is_some() {
                    b"&"
                } else {
                    b"?"
                };
                url.extend_from_slice(join);
                url.extend_from_slice(b"utm_source=feed&utm_medium=web");
            }
            _ => {}
        }
        if dice.one_in(16) {
            url.extend_from_slice(b"#part-2");
        }
    }

    /// A URL that nothing links to.
    pub(super) fn phantom(&mut self, out: &mut Vec<u8>) {
        if self.absolute || self.dice.one_in(4) {
            out.extend_from_slice(b"http://");
            out.extend_from_slice(self.plan.hosts[self.host as usize].authority.as_bytes());
        }
        out.extend_from_slice(format!("/phantom/{:08x}.html", self.dice.roll() as u32).as_bytes());
    }

    /// Something that looks like a link and is none, or is none to follow.
    pub(super) fn decoy(&mut self, out: &mut Vec<u8>) {
        const DECOYS: [(&str, &str); 16] = [
            ("<!-- <a href=\"", "\">x</a> -->\n"),
            ("<script>var a = '<a href=\"", "\">x</a>';</script>\n"),
            ("<template><p><a href=\"", "\">x</a></template>\n"),
            ("<textarea><a href=\"", "\">x</a></textarea>\n"),
            ("<style>/* <a href=\"", "\"> */</style>\n"),
            ("<a rel=\"nofollow\" href=\"", "\">x</a>\n"),
            ("<A HREF='", "' REL='noopener NoFollow'>x</A>\n"),
            ("<a name=\"", "\">x</a>\n"),
            ("<p title='<a href=\"", "\">'>x</p>\n"),
            (
                "<a href=\"javascript:go('",
                "')\">x</a> <a href=\"mailto:ann@localhost\">y</a>\n",
            ),
            ("<img alt=\"\" src=\"", "\"> <a href=\"#top\">top</a>\n"),
            ("<link rel=stylesheet href=\"", "\">\n"),
            // What follows only means nothing to a tokenizer.
            ("a < b <3 </> <p><b><div>\0<!x <a href=\"", "\">\n"),
            ("<?php echo \"<a href=", ">\n"),
            ("<![CDATA[<a href=\"", "\">]]></ b>\n"),
            ("<!doctype x><font size=+1 size=2><a id href2=\"", "\">\n"),
        ];
        let kinds = if self.broken {
            DECOYS.len()
        } else {
            DECOYS.len() - 4
        };
        let (before, after) = DECOYS[self.dice.below(kinds as u32) as usize];
        out.extend_from_slice(before.as_bytes());
        self.phantom(out);
        out.extend_from_slice(after.as_bytes());
    }
}

/// `path` as seen from `folder`, both of one host.
fn push_relative(folder: &[u8], path: &[u8], out: &mut Vec<u8>) {
    match path.strip_prefix(folder) {
        Some(b"") => out.extend_from_slice(b"./"),
        Some(rest) => out.extend_from_slice(rest),
        None => {
            for _ in 1..folder.iter().filter(|&&byte| byte == b'/').count() {
                out.extend_from_slice(b"../");
            }
            out.extend_from_slice(&path[1..]);
        }
    }
}

fn replace(text: &mut Vec<u8>, from: &[u8], to: &[u8]) {
    // Most have no such character, and then a look for the first byte is enough.
    if let Some(at) = memchr::memchr(from[0], text)
        && text[at..].starts_with(from)
    {
        text.splice(at..at + from.len(), to.iter().copied());
    }
}
