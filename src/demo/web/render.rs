//! The bytes of a body, out of what the plan says about its page. Filler is cut from one text;
//! only what stands between the cuts is made for the page.

use super::draw::{Dice, Purpose, draw};
use super::dress::Pen;
use super::page::Kind;
use super::paths::{Target, What, push_number};
use super::plan::Plan;

/// About what a link takes, to spread the filler evenly between links.
const LINK_BYTES: usize = 64;
const END: &[u8] = b"</body></html>\n";

/// What rendering needs again for each page.
#[derive(Default)]
pub(super) struct Desk {
    targets: Vec<Target>,
    url: Vec<u8>,
    path: Vec<u8>,
    folder: Vec<u8>,
}

impl Plan {
    /// Puts the body of a page into `out`.
    pub(super) fn body(&self, host: u32, number: u32, desk: &mut Desk, out: &mut Vec<u8>) {
        out.clear();
        match self.kind(host, number) {
            Kind::Empty => {}
            Kind::Plain => self.plain(host, number, desk, out),
            Kind::Mirror(original) => {
                let (host, number) = self.place(original);
                self.html(host, number, Kind::Mirror(original), desk, out);
            }
            kind @ (Kind::Text | Kind::Pdf | Kind::Png) => self.not_html(host, number, kind, out),
            Kind::Utf16Le => {
                self.html(host, number, Kind::Utf16Le, desk, out);
                let wide: Vec<u8> = out.iter().flat_map(|&byte| [byte, 0]).collect();
                out.clear();
                out.extend_from_slice(b"\xff\xfe");
                out.extend_from_slice(&wide);
            }
            kind => self.html(host, number, kind, desk, out),
        }
    }

    /// The short way for the pages of a benchmark.
    fn plain(&self, host: u32, number: u32, desk: &mut Desk, out: &mut Vec<u8>) {
        self.links(host, number, &mut desk.targets);
        self.push_head(host, number, b"<meta charset=\"utf-8\">", out);
        let mut cut = draw(self.spec.seed, Purpose::Filler, host, number);
        for (at, &target) in desk.targets.iter().enumerate() {
            let gap = self.gap(out.len(), desk.targets.len() - at, self.spec.page_bytes);
            out.extend_from_slice(b"<p>");
            self.push_filler(&mut cut, gap, out);
            out.extend_from_slice(b"<a href=\"");
            if target.host == host {
                self.push_path(target, out);
            } else {
                self.push_url(target, out);
            }
            out.extend_from_slice(b"\">");
            self.push_filler(&mut cut, 12, out);
            out.extend_from_slice(b"</a></p>\n");
        }
        self.push_filler(
            &mut cut,
            self.spec.page_bytes.saturating_sub(out.len() + END.len()),
            out,
        );
        out.extend_from_slice(END);
    }

    fn html(&self, host: u32, number: u32, kind: Kind, desk: &mut Desk, out: &mut Vec<u8>) {
        self.links(host, number, &mut desk.targets);
        let page_bytes = match kind {
            Kind::Utf16Le => self.spec.page_bytes / 2,
            _ => self.spec.page_bytes,
        };
        let here = Target {
            host,
            what: What::Page(number),
        };
        desk.folder.clear();
        if kind == Kind::Based {
            desk.folder.extend_from_slice(b"/");
        } else {
            self.push_path(here, &mut desk.folder);
            let path = desk
                .folder
                .split(|&byte| byte == b'?')
                .next()
                .unwrap_or_default();
            let end = memchr::memrchr(b'/', path).map_or(0, |at| at + 1);
            desk.folder.truncate(end);
        }
        let mut pen = Pen {
            plan: self,
            host,
            folder: &desk.folder,
            absolute: matches!(kind, Kind::Mirror(_)),
            ascii: !matches!(
                kind,
                Kind::Rich | Kind::Based | Kind::Broken | Kind::Mirror(_)
            ),
            broken: kind == Kind::Broken,
            dice: Dice::new(self.spec.seed, Purpose::Dress, host, number),
            url: std::mem::take(&mut desk.url),
            path: std::mem::take(&mut desk.path),
        };
        let mut meta = meta(kind).to_vec();
        if kind == Kind::Rich {
            self.push_extra_meta(here, &desk.targets, &mut pen, &mut meta);
        }
        self.push_head(host, number, &meta, out);
        if kind == Kind::Utf8Bom {
            out.splice(0..0, *b"\xef\xbb\xbf");
        }
        let text: &[u8] = match kind {
            Kind::Windows1251 => b"\xd1\xf1\xfb\xeb\xea\xe0",
            Kind::InvalidUtf8 => b"\xc3(\xff\xe2\x82",
            Kind::Latin1Header => "déjà vu".as_bytes(),
            _ => b"read on",
        };
        let mut cut = draw(self.spec.seed, Purpose::Filler, host, number);
        for (at, &target) in desk.targets.iter().enumerate() {
            let gap = self.gap(out.len(), desk.targets.len() - at, page_bytes);
            out.extend_from_slice(b"<p>");
            self.push_filler(&mut cut, gap, out);
            if pen.dice.one_in(6) {
                pen.decoy(out);
            }
            pen.link(target, text, out);
        }
        if !kind.has_links() {
            // A page whose links are not to be followed has some nevertheless.
            for _ in 0..5 {
                out.extend_from_slice(b"<p><a href=\"");
                pen.phantom(out);
                out.extend_from_slice(b"\">read on</a>\n");
                pen.decoy(out);
            }
        }
        self.push_filler(
            &mut cut,
            page_bytes.saturating_sub(out.len() + END.len()),
            out,
        );
        if pen.broken {
            out.extend_from_slice(if pen.dice.one_in(2) {
                b"<!-- <a href=\""
            } else {
                b"<a rel=x href=\""
            });
            pen.phantom(out);
            out.extend_from_slice(b"\" ");
        } else {
            out.extend_from_slice(END);
        }
        (desk.url, desk.path) = (pen.url, pen.path);
    }

    /// Links that live in the head: the page's own canonical form, and a refresh to one of the
    /// pages that it links to anyway.
    fn push_extra_meta(
        &self,
        here: Target,
        targets: &[Target],
        pen: &mut Pen<'_>,
        out: &mut Vec<u8>,
    ) {
        if pen.dice.one_in(8) {
            out.extend_from_slice(b"<link rel=\"canonical\" href=\"");
            let at = out.len();
            self.push_url(here, out);
            let url = out.split_off(at);
            out.extend_from_slice(&escape(&url));
            out.extend_from_slice(b"\">\n");
        }
        if let Some(&target) = targets.last().filter(|_| pen.dice.one_in(30)) {
            let mut url = Vec::new();
            self.push_url(target, &mut url);
            out.extend_from_slice(b"<meta http-equiv=\"Refresh\" content=\"60; URL='");
            out.extend_from_slice(&escape(&url));
            out.extend_from_slice(b"'\">\n");
        }
    }

    fn push_head(&self, host: u32, number: u32, meta: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"<!DOCTYPE html>\n<html><head>");
        out.extend_from_slice(meta);
        out.extend_from_slice(b"<title>Page ");
        push_number(out, number);
        out.extend_from_slice(b" of host ");
        push_number(out, host);
        out.extend_from_slice(b"</title></head>\n<body>\n");
    }

    /// Filler before the next of `links` links, if the page is to end at `page_bytes`.
    fn gap(&self, written: usize, links: usize, page_bytes: usize) -> usize {
        (page_bytes.saturating_sub(written) / (links + 1)).saturating_sub(LINK_BYTES)
    }

    fn push_filler(&self, cut: &mut u64, bytes: usize, out: &mut Vec<u8>) {
        let end = out.len() + bytes;
        while out.len() < end {
            let from = (*cut % self.filler.len() as u64) as usize;
            let take = (end - out.len()).min(self.filler.len() - from);
            out.extend_from_slice(&self.filler[from..from + take]);
            *cut = cut.wrapping_add(take as u64);
        }
    }

    /// Something without links, in which a careless reader finds some.
    fn not_html(&self, host: u32, number: u32, kind: Kind, out: &mut Vec<u8>) {
        let mut dice = Dice::new(self.spec.seed, Purpose::Dress, host, number);
        out.extend_from_slice(match kind {
            Kind::Pdf => b"%PDF-1.4\n1 0 obj\n",
            Kind::Png => b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            _ => b"notes ",
        });
        push_number(out, host);
        out.push(b' ');
        push_number(out, number);
        for _ in 0..4 {
            out.extend_from_slice(b"\n<a href=\"http://");
            out.extend_from_slice(self.hosts[host as usize].authority.as_bytes());
            out.extend_from_slice(
                format!("/phantom/{:08x}\">x</a>\n", dice.roll() as u32).as_bytes(),
            );
            if kind == Kind::Text {
                let mut cut = dice.roll();
                self.push_filler(&mut cut, self.spec.page_bytes / 8, out);
            } else {
                for _ in 0..self.spec.page_bytes / 64 {
                    out.extend_from_slice(&dice.roll().to_le_bytes());
                }
            }
        }
    }
}

/// What the head says about the page as a whole.
fn meta(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Based => b"<meta charset=utf-8><BASE HREF='/'>",
        Kind::Windows1251 => {
            b"<meta http-equiv=Content-Type content=\"text/html; charset=windows-1251\">"
        }
        Kind::NoFollowMeta => {
            b"<meta charset=utf-8><META NAME=\"Robots\" CONTENT=\"index, NOFOLLOW\">"
        }
        Kind::Utf16Le | Kind::Utf8Bom => b"",
        _ => b"<meta charset=\"utf-8\">",
    }
}

fn escape(url: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(url.len());
    for &byte in url {
        match byte {
            b'&' => escaped.extend_from_slice(b"&amp;"),
            byte => escaped.push(byte),
        }
    }
    escaped
}
