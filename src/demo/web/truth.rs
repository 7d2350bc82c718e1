//! What the web knows about itself: a breadth-first walk over the plan of its pages, and not
//! over their bytes, so that a mistake in reading links cannot hide in the truth.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use super::page::{Kind, Manner};
use super::paths::{Target, What};
use super::plan::Plan;

/// What a polite and correct crawler finds. Every number counts distinct URLs.
#[derive(Clone)]
pub struct Truth {
    /// Pages that end up as a complete body with 2xx.
    pub reachable: u64,
    /// Different bodies among them, once decoded.
    pub distinct_contents: u64,
    /// Pages whose body is that of another: `reachable` − `distinct_contents`.
    pub duplicates: u64,
    /// URLs that answer with a redirect, loops included, those of robots.txt not.
    pub redirects: u64,
    /// URLs that answer 404 or 410.
    pub client_errors: u64,
    /// URLs that answer 500, always.
    pub server_errors: u64,
    /// URLs whose body never arrives, because the connection is always reset.
    pub resets: u64,
    /// URLs that robots.txt forbids; one of them may be found through a redirect alone.
    pub robots_blocked: u64,
    /// URLs that repeat a path segment more than 3 times.
    pub trapped_repeated: u64,
    /// URLs longer than 2,048 bytes.
    pub trapped_long: u64,
    /// Of the reachable pages, those that refuse the first request with 429 or 503.
    pub refused_first: u64,
    /// Of the reachable pages, those that reset the connection on the first request.
    pub reset_first: u64,
    plan: Arc<Plan>,
    /// The reachable pages, by their number in the whole web, sorted.
    pages: Vec<u32>,
}

/// The URLs that the walk has met: a byte for each page, and a set of the few others.
struct Seen {
    pages: Vec<bool>,
    others: HashSet<Target>,
}

impl Seen {
    /// True if it is new.
    fn insert(&mut self, plan: &Plan, target: Target) -> bool {
        match target.what {
            What::Page(number) => {
                !std::mem::replace(&mut self.pages[plan.id(target.host, number) as usize], true)
            }
            _ => self.others.insert(target),
        }
    }
}

impl Truth {
    /// Walks the web of `plan` from `seeds`.
    pub(super) fn walk(plan: Arc<Plan>, seeds: &[Target]) -> Self {
        let mut truth = Truth {
            reachable: 0,
            distinct_contents: 0,
            duplicates: 0,
            redirects: 0,
            client_errors: 0,
            server_errors: 0,
            resets: 0,
            robots_blocked: 0,
            trapped_repeated: 0,
            trapped_long: 0,
            refused_first: 0,
            reset_first: 0,
            plan: Arc::clone(&plan),
            pages: Vec::new(),
        };
        let mut seen = Seen {
            pages: vec![false; plan.spec.pages as usize],
            others: HashSet::new(),
        };
        let mut queue: VecDeque<Target> = seeds.iter().copied().collect();
        queue.retain(|&seed| seen.insert(&plan, seed));
        let mut contents = HashSet::new();
        let mut links = Vec::new();
        while let Some(target) = queue.pop_front() {
            links.clear();
            match target.what {
                What::Page(number) => {
                    let id = plan.id(target.host, number);
                    truth.pages.push(id);
                    contents.insert(truth.content(id));
                    match plan.manner(target.host, number) {
                        Manner::RefusedFirst { .. } => truth.refused_first += 1,
                        Manner::ResetFirst => truth.reset_first += 1,
                        Manner::Prompt | Manner::Slow { .. } => {}
                    }
                    plan.links(target.host, number, &mut links);
                }
                What::Missing(_) | What::Gone => truth.client_errors += 1,
                What::Failing => truth.server_errors += 1,
                What::Cut => truth.resets += 1,
                What::Forbidden(_) => truth.robots_blocked += 1,
                What::CalendarOn(_) => truth.trapped_repeated += 1,
                What::LongOn(_) => truth.trapped_long += 1,
                // Nothing links to these.
                What::Phantom | What::Robots | What::MovedRobots => {}
                What::Hop { .. }
                | What::Away(_)
                | What::LoopA
                | What::LoopB
                | What::LoopSelf
                | What::ToForbidden => {
                    truth.redirects += 1;
                    links.extend(plan.redirect(target));
                }
            }
            queue.extend(
                links
                    .iter()
                    .copied()
                    .filter(|&link| seen.insert(&plan, link)),
            );
        }
        truth.pages.sort_unstable();
        truth.reachable = truth.pages.len() as u64;
        truth.distinct_contents = contents.len() as u64;
        truth.duplicates = truth.reachable - truth.distinct_contents;
        truth
    }

    /// The canonical URLs of all reachable pages, sorted.
    pub fn urls(&self) -> Vec<String> {
        let mut urls: Vec<String> = self.pages.iter().map(|&id| self.url(id)).collect();
        urls.sort_unstable();
        urls
    }

    /// The groups of reachable pages with one and the same body, each sorted, and sorted.
    pub fn mirrors(&self) -> Vec<Vec<String>> {
        let mut groups: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for &id in &self.pages {
            groups
                .entry(self.content(id))
                .or_default()
                .push(self.url(id));
        }
        let mut groups: Vec<Vec<String>> = groups
            .into_values()
            .filter(|group| group.len() > 1)
            .collect();
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups.sort_unstable();
        groups
    }

    /// The reachable pages, by their number in the whole web.
    pub(super) fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// The page whose body this one has.
    fn content(&self, id: u32) -> u32 {
        let (host, number) = self.plan.place(id);
        match self.plan.kind(host, number) {
            Kind::Mirror(original) => original,
            _ => id,
        }
    }

    pub(super) fn url(&self, id: u32) -> String {
        let (host, number) = self.plan.place(id);
        self.plan.url(Target {
            host,
            what: What::Page(number),
        })
    }
}
