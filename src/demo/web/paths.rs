//! The URLs of the web: what each stands for, how its path is written in canonical form, and
//! the way back from a requested path. Only canonical forms are known: a crawler that asks for
//! another spelling is told 404, and that is counted.

use super::draw::{Purpose, draw};
use super::page::Kind;
use super::plan::{CALENDAR_PAGES, LONG_PAGES, Plan};
use super::robots::{FORBIDDEN_URLS, RobotsFile};

/// What each segment adds to the growing path, without its slash. Six of them fit into 2,048
/// bytes and seven do not, however long the host's name.
const LONG_SEGMENT_BYTES: usize = 300;
/// Redirects from each host to others.
pub(super) const AWAY_URLS: u8 = 2;
/// Links from each host that lead to nothing.
pub(super) const MISSING_URLS: u8 = 2;

/// A URL of the web: a host and what its path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) host: u32,
    pub(super) what: What,
}

/// What a path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// The page with this number.
    Page(u32),
    /// A redirect on the way to a page, with this many to go.
    Hop { number: u32, left: u8 },
    /// A redirect to a page on another host.
    Away(u8),
    /// Redirects to [`What::LoopB`].
    LoopA,
    /// Redirects to [`What::LoopA`].
    LoopB,
    /// Redirects to itself.
    LoopSelf,
    /// Redirects to a forbidden URL.
    ToForbidden,
    /// Forbidden by robots.txt.
    Forbidden(u8),
    /// 404, and linked.
    Missing(u8),
    /// 410.
    Gone,
    /// 500.
    Failing,
    /// Always reset in the middle of the body.
    Cut,
    /// The calendar beyond the pages that a crawler may fetch.
    CalendarOn(u32),
    /// The growing path beyond the pages that a crawler may fetch.
    LongOn(u32),
    /// Where only a crawler comes that took something for a link that is none.
    Phantom,
    /// `/robots.txt`.
    Robots,
    /// Where `/robots.txt` redirects to on some hosts.
    MovedRobots,
}

impl Plan {
    /// Appends the path (and query) of `target`.
    pub(super) fn push_path(&self, target: Target, out: &mut Vec<u8>) {
        let host = &self.hosts[target.host as usize];
        match target.what {
            What::Page(number) => self.push_page_path(target.host, number, out),
            What::Hop { number, left } => {
                out.extend_from_slice(b"/go/");
                push_number(out, number);
                out.push(b'/');
                push_number(out, left.into());
            }
            What::Away(which) => push_numbered(out, "/away/", which.into(), ""),
            What::LoopA => out.extend_from_slice(b"/loop/a"),
            What::LoopB => out.extend_from_slice(b"/loop/b"),
            What::LoopSelf => out.extend_from_slice(b"/loop/self"),
            What::ToForbidden => out.extend_from_slice(b"/moved/inside"),
            What::Forbidden(which) => {
                out.extend_from_slice(host.robots.forbidden_path(which).as_bytes())
            }
            What::Missing(which) => push_numbered(out, "/missing/", which.into(), ".html"),
            What::Gone => out.extend_from_slice(b"/gone.html"),
            What::Failing => out.extend_from_slice(b"/failing.html"),
            What::Cut => out.extend_from_slice(b"/cut.html"),
            What::CalendarOn(depth) => push_calendar(out, depth),
            What::LongOn(depth) => push_long(out, depth),
            What::Phantom => out.extend_from_slice(b"/phantom/"),
            What::Robots => out.extend_from_slice(b"/robots.txt"),
            What::MovedRobots => out.extend_from_slice(b"/rules/robots.txt"),
        }
    }

    /// Appends the whole URL of `target`.
    pub(super) fn push_url(&self, target: Target, out: &mut Vec<u8>) {
        out.extend_from_slice(b"http://");
        out.extend_from_slice(self.hosts[target.host as usize].authority.as_bytes());
        self.push_path(target, out);
    }

    /// The whole URL of `target`.
    pub(super) fn url(&self, target: Target) -> String {
        let mut url = Vec::with_capacity(64);
        self.push_url(target, &mut url);
        String::from_utf8_lossy(&url).into_owned()
    }

    fn push_page_path(&self, host: u32, number: u32, out: &mut Vec<u8>) {
        if number == 0 {
            out.push(b'/');
            return;
        }
        if !self.spec.oddities {
            push_numbered(out, "/d", number % 16, "/p");
            push_number(out, number);
            out.extend_from_slice(b".html");
            return;
        }
        if number >= self.hosts[host as usize].roles.from {
            match self.drawn_kind(host, number) {
                Kind::Calendar(depth) => return push_calendar(out, depth),
                Kind::Long(depth) => return push_long(out, depth),
                _ => {}
            }
        }
        match draw(self.spec.seed, Purpose::Path, host, number) % 16 {
            0 => push_numbered(out, "/~ann/p", number, ".html"),
            1 => push_numbered(out, "/caf%C3%A9/p", number, ".html"),
            2 => push_numbered(out, "/shop/item/p", number, "/"),
            3 => push_numbered(out, "/Docs/p", number, ".HTML"),
            4 | 5 => {
                push_numbered(out, "/view/p", number, "?a=1&para=");
                push_number(out, number % 10);
            }
            6 => push_numbered(
                out,
                self.hosts[host as usize].robots.open_folder(),
                number,
                ".html",
            ),
            _ => {
                push_numbered(out, "/d", number % 16, "/p");
                push_number(out, number);
                out.extend_from_slice(b".html");
            }
        }
    }

    /// What `path` stands for on `host`, if anything.
    pub(super) fn find(&self, host: u32, path: &[u8], spare: &mut Vec<u8>) -> Option<What> {
        let plan = &self.hosts[host as usize];
        let what = match path {
            b"/" => return Some(What::Page(0)),
            b"/robots.txt" => return Some(What::Robots),
            _ if !self.spec.oddities => What::Page(page_number(path)?),
            b"/loop/a" if plan.extras.loops => What::LoopA,
            b"/loop/b" if plan.extras.loops => What::LoopB,
            b"/loop/self" if plan.extras.loops => What::LoopSelf,
            b"/moved/inside" if plan.extras.forbidden => What::ToForbidden,
            b"/gone.html" if plan.extras.gone => What::Gone,
            b"/failing.html" if plan.extras.failing => What::Failing,
            b"/cut.html" if plan.extras.cut => What::Cut,
            b"/rules/robots.txt" if plan.robots == RobotsFile::Moved => What::MovedRobots,
            _ if path.starts_with(b"/phantom/") => return Some(What::Phantom),
            _ if plan.extras.forbidden && is_forbidden(plan.robots, path).is_some() => {
                What::Forbidden(is_forbidden(plan.robots, path)?)
            }
            _ if path.starts_with(b"/go/") => {
                let mut parts = path[4..].split(|&byte| byte == b'/');
                let (number, left) = (number(parts.next()?)?, number(parts.next()?)?);
                let hops = (number < plan.pages).then(|| self.hops(host, number))?;
                let left = u8::try_from(left)
                    .ok()
                    .filter(|left| (1..=hops).contains(left))?;
                What::Hop { number, left }
            }
            _ if path.starts_with(b"/away/") => What::Away(small(&path[6..], AWAY_URLS)?),
            _ if path.starts_with(b"/missing/") => {
                What::Missing(small(path[9..].strip_suffix(b".html")?, MISSING_URLS)?)
            }
            _ if path.starts_with(b"/calendar/") => {
                // Only the length is taken here; the comparison below sees to the rest.
                let depth = (path.len() - 10).div_ceil(5) as u32;
                let first = plan.roles.calendar?;
                if depth < CALENDAR_PAGES {
                    What::Page(first + depth)
                } else {
                    What::CalendarOn(depth)
                }
            }
            _ if path.starts_with(b"/long/") => {
                let depth = ((path.len() - 5) / (LONG_SEGMENT_BYTES + 1)) as u32;
                let first = plan.roles.long?;
                if depth < LONG_PAGES {
                    What::Page(first + depth)
                } else {
                    What::LongOn(depth)
                }
            }
            _ => What::Page(page_number(path)?),
        };
        if matches!(what, What::Page(number) if number >= plan.pages) {
            return None;
        }
        // One spelling of each number and of each path is right: the one that is written.
        spare.clear();
        self.push_path(Target { host, what }, spare);
        (spare == path).then_some(what)
    }
}

fn is_forbidden(robots: RobotsFile, path: &[u8]) -> Option<u8> {
    (0..FORBIDDEN_URLS).find(|&which| robots.forbidden_path(which).as_bytes() == path)
}

/// The number after the last `p` that is followed by digits.
fn page_number(path: &[u8]) -> Option<u32> {
    let path = path.split(|&byte| byte == b'?').next()?;
    let at = (1..path.len())
        .rev()
        .find(|&at| matches!(path[at - 1], b'p' | b'/') && path[at].is_ascii_digit())?;
    let digits = path[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    number(&path[at..at + digits])
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn small(digits: &[u8], below: u8) -> Option<u8> {
    number(digits)
        .and_then(|number| u8::try_from(number).ok())
        .filter(|&number| number < below)
}

fn push_calendar(out: &mut Vec<u8>, depth: u32) {
    out.extend_from_slice(b"/calendar/");
    for step in 0..depth {
        out.extend_from_slice(if step == 0 { b"next" } else { b"/next" });
    }
}

fn push_long(out: &mut Vec<u8>, depth: u32) {
    out.extend_from_slice(b"/long/");
    for step in 1..=depth {
        if step > 1 {
            out.push(b'/');
        }
        let start = out.len();
        push_number(out, step);
        // No two segments are alike, so that the length alone gives the trap away.
        for at in out.len() - start..LONG_SEGMENT_BYTES {
            out.push(b'a' + ((step as usize * 7 + at) % 26) as u8);
        }
    }
}

fn push_numbered(out: &mut Vec<u8>, before: &str, number: u32, after: &str) {
    out.extend_from_slice(before.as_bytes());
    push_number(out, number);
    out.extend_from_slice(after.as_bytes());
}

/// Appends `number` in decimal; `write!` would cost more than the rest of a link.
pub(super) fn push_number(out: &mut Vec<u8>, mut number: u32) {
    let mut digits = [0u8; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
