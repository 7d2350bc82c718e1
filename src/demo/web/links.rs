//! Which URLs a page links to, and where redirects lead. Both the pages that are served and the
//! truth about them come from here; neither is read out of the other.

use super::draw::{Dice, Purpose, draw};
use super::page::Kind;
use super::paths::{AWAY_URLS, MISSING_URLS, Target, What};
use super::plan::{CALENDAR_PAGES, LONG_PAGES, Plan};
use super::robots::{FORBIDDEN_URLS, RobotsFile};

/// Children of a host's root page in the tree of hosts.
const HOST_BRANCHING: u32 = 4;

impl Plan {
    /// Puts the targets of all links on a page into `out`, in the order of the page. Every page
    /// of a host hangs in a tree below its root, and the roots in a tree below the first.
    pub(super) fn links(&self, host: u32, number: u32, out: &mut Vec<Target>) {
        out.clear();
        let kind = self.kind(host, number);
        match kind {
            Kind::Mirror(original) => {
                let (host, number) = self.place(original);
                return self.tree_and_random_links(host, number, out);
            }
            Kind::Calendar(depth) => {
                let on = depth + 1;
                out.push(Target {
                    host,
                    what: if on < CALENDAR_PAGES {
                        What::Page(number + 1)
                    } else {
                        What::CalendarOn(on)
                    },
                });
            }
            Kind::Long(depth) => {
                let on = depth + 1;
                out.push(Target {
                    host,
                    what: if on < LONG_PAGES {
                        What::Page(number + 1)
                    } else {
                        What::LongOn(on)
                    },
                });
            }
            _ if !kind.has_links() => return,
            _ => return self.tree_and_random_links(host, number, out),
        }
        out.push(Target {
            host,
            what: What::Page(0),
        });
    }

    fn tree_and_random_links(&self, host: u32, number: u32, out: &mut Vec<Target>) {
        let plan = &self.hosts[host as usize];
        let hosts = self.hosts.len() as u32;
        let child = u64::from(number) * u64::from(self.branching) + 1;
        for child in child..(child + u64::from(self.branching)).min(plan.pages.into()) {
            // Below the number of pages, so that it fits.
            out.push(self.entry(host, child as u32));
        }
        if number == 0 {
            self.root_links(host, out);
        }
        let mut dice = Dice::new(self.spec.seed, Purpose::Links, host, number);
        while out.len() < self.spec.links as usize {
            let drawn = dice.below(100);
            if drawn < 3 && plan.extras.usual {
                let which = dice.below(2) as u8;
                let what = match dice.below(3) {
                    0 => What::Away(which % AWAY_URLS),
                    1 if plan.extras.forbidden => What::Forbidden(which % FORBIDDEN_URLS),
                    _ => What::Missing(which % MISSING_URLS),
                };
                out.push(Target { host, what });
            } else if drawn < 80 {
                out.push(self.entry(host, dice.below(plan.pages)));
            } else {
                let host = dice.below(hosts);
                let pages = self.hosts[host as usize].pages;
                out.push(self.entry(host, dice.below(pages)));
            }
        }
    }

    /// What only a root page links to for certain: other roots, and all that is odd on its host.
    fn root_links(&self, host: u32, out: &mut Vec<Target>) {
        let plan = &self.hosts[host as usize];
        let child = host.saturating_mul(HOST_BRANCHING).saturating_add(1);
        for host in child
            ..child
                .saturating_add(HOST_BRANCHING)
                .min(self.hosts.len() as u32)
        {
            out.push(Target {
                host,
                what: What::Page(0),
            });
        }
        let (roles, extras) = (&plan.roles, &plan.extras);
        // Early in the crawl of their host, so that its waiting time overlaps with other work.
        let early = [
            roles.refused_first,
            roles.reset_first,
            roles.slow,
            roles.calendar,
            roles.long,
        ];
        out.extend(early.into_iter().flatten().map(|number| Target {
            host,
            what: What::Page(number),
        }));
        let mut add = |wanted: bool, whats: &[What]| {
            if wanted {
                out.extend(whats.iter().map(|&what| Target { host, what }));
            }
        };
        for which in 0..AWAY_URLS {
            add(extras.usual, &[What::Away(which)]);
        }
        for which in 0..MISSING_URLS {
            add(extras.usual, &[What::Missing(which)]);
        }
        for which in 0..FORBIDDEN_URLS {
            add(extras.forbidden, &[What::Forbidden(which)]);
        }
        add(extras.forbidden, &[What::ToForbidden]);
        add(extras.loops, &[What::LoopA, What::LoopSelf]);
        add(extras.gone, &[What::Gone]);
        add(extras.failing, &[What::Failing]);
        add(extras.cut, &[What::Cut]);
    }

    /// What to link to for a page: itself, the redirects before it, or the start of the trap
    /// that it lies in.
    fn entry(&self, host: u32, number: u32) -> Target {
        let what = if !self.spec.oddities {
            What::Page(number)
        } else if number >= self.hosts[host as usize].roles.from {
            match self.drawn_kind(host, number) {
                Kind::Calendar(depth) | Kind::Long(depth) => What::Page(number - depth),
                _ => What::Page(number),
            }
        } else {
            match self.hops(host, number) {
                0 => What::Page(number),
                left => What::Hop { number, left },
            }
        };
        Target { host, what }
    }

    /// Where a redirect leads; nothing for what is no redirect.
    pub(super) fn redirect(&self, from: Target) -> Option<Target> {
        let what = match from.what {
            What::Hop { number, left: 1 } => What::Page(number),
            What::Hop { number, left } => What::Hop {
                number,
                left: left - 1,
            },
            What::Away(which) => return Some(self.away(from.host, which)),
            What::LoopA => What::LoopB,
            What::LoopB => What::LoopA,
            What::LoopSelf => What::LoopSelf,
            What::ToForbidden => What::Forbidden(0),
            What::Robots if self.hosts[from.host as usize].robots == RobotsFile::Moved => {
                What::MovedRobots
            }
            _ => return None,
        };
        Some(Target {
            host: from.host,
            what,
        })
    }

    fn away(&self, from: u32, which: u8) -> Target {
        let hosts = self.hosts.len() as u64;
        let drawn = draw(
            self.spec.seed,
            Purpose::Redirect,
            from,
            u32::MAX - u32::from(which),
        );
        let host = ((u64::from(from) + 1 + drawn % hosts.saturating_sub(1).max(1)) % hosts) as u32;
        let number = ((drawn >> 32) % u64::from(self.hosts[host as usize].pages)) as u32;
        match self.entry(host, number) {
            page @ Target {
                what: What::Page(_),
                ..
            } => page,
            // No chain is longer than three.
            _ => Target {
                host,
                what: What::Page(0),
            },
        }
    }
}
