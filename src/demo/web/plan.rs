//! The plan of a web: its hosts, how large each is, and which of them has what oddity.
//!
//! A few dozen bytes for each host and eight for each mirrored page: everything else about a
//! page is drawn anew whenever it is asked for.

use std::net::Ipv4Addr;

use super::draw::{Dice, Purpose, draw};
use super::page::Kind;
use super::robots::RobotsFile;
use super::spec::{Naming, WebSpec};

/// Pages of an endless calendar that a crawler may fetch: the fourth `next` in one path is one
/// too many.
pub(super) const CALENDAR_PAGES: u32 = 4;
/// Pages of the growing path that stay within 2,048 bytes; see `paths::LONG_SEGMENT_BYTES`.
pub(super) const LONG_PAGES: u32 = 7;
/// The length of the text that all filler is cut from.
const FILLER_BYTES: usize = 64 * 1024;

/// One host of the web.
pub(super) struct Host {
    /// Host and port as they stand in a URL and in the `Host` header.
    pub(super) authority: Box<str>,
    /// The number of its root page in the whole web.
    pub(super) first: u32,
    /// Its pages, numbered from 0.
    pub(super) pages: u32,
    /// What it answers to a request for its robots.txt.
    pub(super) robots: RobotsFile,
    /// Pages with a part of their own to play.
    pub(super) roles: Roles,
    /// Which URLs it has that are not pages.
    pub(super) extras: Extras,
}

/// The numbers of the pages that play a part of their own on a host; all are leaves of its tree.
#[derive(Default)]
pub(super) struct Roles {
    /// The lowest number that has a role.
    pub(super) from: u32,
    /// The first of [`CALENDAR_PAGES`].
    pub(super) calendar: Option<u32>,
    /// The first of [`LONG_PAGES`].
    pub(super) long: Option<u32>,
    /// Answers in a dribble.
    pub(super) slow: Option<u32>,
    /// Refuses the first request with 429 or 503.
    pub(super) refused_first: Option<u32>,
    /// Resets the connection on the first request.
    pub(super) reset_first: Option<u32>,
    /// Has no body at all.
    pub(super) empty: Option<u32>,
}

/// Which URLs a host has besides its pages.
#[derive(Default)]
pub(super) struct Extras {
    /// Redirects to other hosts, and pages that were never there.
    pub(super) usual: bool,
    /// 410.
    pub(super) gone: bool,
    /// 500, always.
    pub(super) failing: bool,
    /// A body that always ends in a reset.
    pub(super) cut: bool,
    /// Redirect loops.
    pub(super) loops: bool,
    /// URLs that robots.txt forbids.
    pub(super) forbidden: bool,
}

/// The whole web, before anything of it is written out.
pub(super) struct Plan {
    pub(super) spec: WebSpec,
    pub(super) hosts: Vec<Host>,
    /// Children of a page in its host's tree.
    pub(super) branching: u32,
    /// For every mirrored page, sorted: (page, the page whose bytes it has).
    copies: Vec<(u32, u32)>,
    /// Words; no character of it means anything in HTML.
    pub(super) filler: Vec<u8>,
}

impl Plan {
    /// Plans the web of `spec`, which has been checked, on `port`.
    pub(super) fn new(spec: WebSpec, port: u16) -> Self {
        let sizes = sizes(&spec);
        let mut hosts = Vec::with_capacity(sizes.len());
        let mut first = 0;
        for (number, pages) in (0..).zip(sizes) {
            hosts.push(plan_host(&spec, number, port, first, pages));
            first += pages;
        }
        let mut plan = Plan {
            branching: (spec.links / 4).clamp(2, 8),
            hosts,
            copies: Vec::new(),
            filler: filler(spec.seed),
            spec,
        };
        plan.copies = plan.pair_mirrors();
        plan
    }

    /// The number of a host's page in the whole web.
    pub(super) fn id(&self, host: u32, number: u32) -> u32 {
        self.hosts[host as usize].first + number
    }

    /// The host and number of a page; the inverse of [`Plan::id`].
    pub(super) fn place(&self, id: u32) -> (u32, u32) {
        let host = self.hosts.partition_point(|host| host.first <= id) - 1;
        (host as u32, id - self.hosts[host].first)
    }

    /// The page whose bytes this one has: of a mirrored page the original (maybe itself).
    pub(super) fn mirrored(&self, id: u32) -> Option<u32> {
        let at = self.copies.binary_search_by_key(&id, |copy| copy.0).ok()?;
        Some(self.copies[at].1)
    }

    /// A leaf of its host's tree: nothing is reachable through it alone.
    pub(super) fn is_leaf(&self, host: u32, number: u32) -> bool {
        u64::from(number) * u64::from(self.branching) + 1
            >= u64::from(self.hosts[host as usize].pages)
    }

    /// Deals the pages that were drawn for it into groups of 2 to 4 equal ones.
    fn pair_mirrors(&self) -> Vec<(u32, u32)> {
        let seed = self.spec.seed;
        let mut drawn: Vec<(u64, u32)> = Vec::new();
        for (host, plan) in (0..).zip(&self.hosts) {
            for number in 0..plan.pages {
                if matches!(self.drawn_kind(host, number), Kind::Mirror(_)) {
                    // In the order of a draw, neighbours are on different hosts.
                    drawn.push((
                        draw(seed, Purpose::Mirror, host, number),
                        plan.first + number,
                    ));
                }
            }
        }
        drawn.sort_unstable();
        let mut dice = Dice::new(seed, Purpose::Mirror, u32::MAX, 0);
        let mut copies = Vec::with_capacity(drawn.len());
        let mut rest = drawn.as_slice();
        while rest.len() >= 2 {
            let (group, others) = rest.split_at((2 + dice.below(3) as usize).min(rest.len()));
            copies.extend(group.iter().map(|&(_, id)| (id, group[0].1)));
            rest = others;
        }
        copies.sort_unstable();
        copies
    }
}

/// Deals the pages out to the hosts: 3 to each, and the rest in unequal shares.
fn sizes(spec: &WebSpec) -> Vec<u32> {
    let weights: Vec<u64> = (0..spec.hosts)
        .map(|host| 1 + draw(spec.seed, Purpose::Size, host, 0) % 4)
        .collect();
    let total: u64 = weights.iter().sum();
    let spare = u64::from(spec.pages - 3 * spec.hosts);
    let mut sizes: Vec<u32> = weights
        .iter()
        .map(|weight| 3 + (spare * weight / total) as u32)
        .collect();
    // Rounding leaves less than one page for each host.
    let left = spec.pages - sizes.iter().sum::<u32>();
    for size in sizes.iter_mut().take(left as usize) {
        *size += 1;
    }
    sizes
}

fn plan_host(spec: &WebSpec, host: u32, port: u16, first: u32, pages: u32) -> Host {
    let mut planned = Host {
        authority: format!("{}:{port}", host_name(spec.naming, host)).into(),
        first,
        pages,
        robots: RobotsFile::Missing,
        roles: Roles {
            from: pages,
            ..Roles::default()
        },
        extras: Extras::default(),
    };
    if !spec.oddities {
        return planned;
    }
    // Fixed hosts and not drawn ones, so that a web of any size has about its share of each.
    let is = |every: u32, at: u32| host % every == at % every.min(spec.hosts);
    planned.robots = RobotsFile::drawn(draw(spec.seed, Purpose::Host, host, 0));
    planned.extras = Extras {
        usual: true,
        gone: is(3, 1),
        failing: is(5, 4),
        cut: is(4, 1),
        loops: is(3, 2),
        forbidden: planned.robots != RobotsFile::Missing,
    };
    let roles = &mut planned.roles;
    // Roles are dealt from the end: the upper half of a tree's numbers are its leaves.
    let mut take = |wanted: bool, count: u32| {
        (wanted && roles.from >= pages / 2 + 2 + count).then(|| {
            roles.from -= count;
            roles.from
        })
    };
    let refused_first = take(is(5, 2), 1);
    let reset_first = take(is(4, 3), 1);
    let slow = take(is(3, 0), 1);
    let empty = take(host == 0, 1);
    let calendar = take(is(16, 0), CALENDAR_PAGES);
    let long = take(is(16, 5), LONG_PAGES);
    planned.roles = Roles {
        from: roles.from,
        calendar,
        long,
        slow,
        refused_first,
        reset_first,
        empty,
    };
    planned
}

/// What host number `host` is called, without the port.
pub(super) fn host_name(naming: Naming, host: u32) -> String {
    match naming {
        Naming::Addresses => host_address(host).to_string(),
        Naming::Names => format!("h{host}.peercrawl.test"),
    }
}

/// The loopback address of host number `host`; no octet after the first is 0 or 255, which some
/// systems take for network and broadcast addresses.
pub(super) fn host_address(host: u32) -> Ipv4Addr {
    // The spec allows 250³ hosts, so that each remainder fits an octet.
    let octet = |value: u32| (1 + value % 250) as u8;
    Ipv4Addr::new(127, octet(host / 62_500), octet(host / 250), octet(host))
}

/// The inverse of [`host_name`], for a host that may not exist.
pub(super) fn host_number(naming: Naming, name: &str) -> Option<u32> {
    match naming {
        Naming::Addresses => {
            let octets = name.parse::<Ipv4Addr>().ok()?.octets();
            let number = octets[1..].iter().try_fold(0u32, |number, &octet| {
                (1..=250)
                    .contains(&octet)
                    .then(|| number * 250 + u32::from(octet) - 1)
            });
            number.filter(|_| octets[0] == 127)
        }
        Naming::Names => {
            let digits = name.strip_prefix('h')?.strip_suffix(".peercrawl.test")?;
            digits.parse().ok().filter(|_| !digits.starts_with('+'))
        }
    }
}

/// Words of two to four syllables, with a full stop here and there.
fn filler(seed: u64) -> Vec<u8> {
    const SYLLABLES: [&str; 16] = [
        "ba", "co", "di", "fen", "gu", "har", "im", "jo", "ka", "lem", "mo", "nis", "or", "pel",
        "ru", "tas",
    ];
    let mut dice = Dice::new(seed, Purpose::Filler, 0, 0);
    let mut text = Vec::with_capacity(FILLER_BYTES + 16);
    while text.len() < FILLER_BYTES {
        for _ in 0..2 + dice.below(3) {
            text.extend_from_slice(SYLLABLES[dice.below(16) as usize].as_bytes());
        }
        text.extend_from_slice(if dice.one_in(12) { b". " } else { b" " });
    }
    text.truncate(FILLER_BYTES);
    text
}
