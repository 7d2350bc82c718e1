//! A site: everything about one host, as one record.
//!
//! Its queue, the URLs seen, robots rules, pace and counters are kept here and nowhere
//! else, so that a site can be frozen, sent to another peer as bytes, and go on there.
//! Pure: time comes in as an argument, and nothing here does I/O.
//!
//! The queue is numbered. Where state is kept on disk, all of it is there, and the end of
//! a long queue, or all of one, may be there alone: [`Site::missing`] tells what has to be
//! fetched from there before the next task can be known.

mod moving;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use peercrawl_overlay::PeerId;
use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::crawl::CrawlId;
use crate::politeness::Pace;
use crate::receipts::RobotsVerdict;
use crate::record::UrlRecord;
use crate::robots::Robots;
use crate::seen_urls::SeenUrls;

use super::AwayQueue;
use moving::FORMAT;
pub use moving::{SiteRecordError, United};

/// Robots rules are trusted for so long.
const ROBOTS_LIFETIME_MS: u64 = 24 * 60 * 60 * 1_000;
/// Origins (scheme and port) of one host whose robots rules are kept at once.
const MOST_ORIGINS: usize = 16;

/// A URL that waits to be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrawlJob {
    /// The URL, as it travels.
    pub record: UrlRecord,
    /// How often it was tried in vain.
    pub attempts: u8,
    /// Its number in its site's queue.
    pub number: u64,
}

/// What is to be done next for a site.
#[derive(Debug)]
pub enum Task {
    /// The robots rules of this origin must be had first.
    Robots {
        /// `scheme://host:port`, with which `/robots.txt` is asked for.
        origin: String,
    },
    /// This page is next.
    Page(CrawlJob),
    /// Nothing waits.
    Nothing,
}

/// What a site has come to so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteCounters {
    /// URLs ever taken into the queue.
    pub admitted: u64,
    /// Pages completed.
    pub fetched: u64,
    /// URLs that ended in an error.
    pub errors: u64,
}

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
pub struct Site {
    host: Box<str>,
    /// How often the site has changed hands. No result is ever of an older generation than
    /// the site that it is applied to: a site is frozen only when no lease on it is out.
    generation: u64,
    queue: VecDeque<CrawlJob>,
    /// The number of the next URL.
    next_number: u64,
    /// What waits behind the queue, on disk alone.
    #[serde(skip)]
    on_disk: OnDisk,
    /// Whether the head has changed since it was last asked for.
    #[serde(skip)]
    is_changed: bool,
    /// The URLs ever taken in.
    pub seen: SeenUrls,
    /// How many different queries each path (by fingerprint) has had.
    queries: HashMap<u64, u32>,
    robots: Vec<OriginRobots>,
    /// When it may be asked again.
    pub pace: Pace,
    /// What it has come to.
    pub counters: SiteCounters,
}

/// The end of a queue that is on disk alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OnDisk {
    /// How many URLs it has.
    pub urls: usize,
    /// No number of it is less.
    pub from: u64,
}

/// A site without its queue and its seen URLs: what is written when it changes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SiteHead {
    generation: u64,
    queries: HashMap<u64, u32>,
    robots: Vec<OriginRobots>,
    /// When it may be asked again.
    pub pace: Pace,
    counters: SiteCounters,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct OriginRobots {
    origin: Box<str>,
    rules: Robots,
    fetched_ms: Millis,
}

impl Site {
    /// A site of which nothing is known yet.
    pub fn new(host: &str) -> Self {
        Self {
            host: host.into(),
            generation: 0,
            queue: VecDeque::new(),
            next_number: 0,
            on_disk: OnDisk::default(),
            is_changed: false,
            seen: SeenUrls::default(),
            queries: HashMap::new(),
            robots: Vec::new(),
            pace: Pace::default(),
            counters: SiteCounters::default(),
        }
    }

    /// The host's name, or its address as a URL writes it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// How often the site has changed hands.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// URLs that wait, here and on disk.
    pub fn queued(&self) -> usize {
        self.queue.len() + self.on_disk.urls
    }

    /// The URLs that wait here.
    pub fn records(&self) -> impl Iterator<Item = &UrlRecord> {
        self.queue.iter().map(|job| &job.record)
    }

    /// Keeps those of the URLs that wait here which are wanted.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&UrlRecord) -> bool) {
        self.queue.retain(|job| is_wanted(&job.record));
    }

    /// Drops what waits here beyond so many URLs, and gives it.
    pub fn cut(&mut self, urls: usize) -> VecDeque<CrawlJob> {
        self.queue.split_off(urls.min(self.queue.len()))
    }

    /// The host of a frozen site, if these bytes are the beginning of one.
    pub fn host_of(bytes: &[u8]) -> Option<&str> {
        let (&form, fields) = bytes.split_first()?;
        let (host, _) = postcard::take_from_bytes(fields).ok()?;
        (form == FORMAT).then_some(host)
    }

    /// The crawls of the URLs that wait here.
    pub fn crawls(&self) -> impl Iterator<Item = CrawlId> {
        self.queue.iter().map(|job| job.record.crawl)
    }

    /// URLs that wait on disk alone.
    pub fn on_disk(&self) -> usize {
        self.on_disk.urls
    }

    /// A URL that is about to wait, with the next number.
    pub fn number(&mut self, record: UrlRecord) -> CrawlJob {
        let number = self.next_number;
        self.next_number += 1;
        CrawlJob {
            record,
            attempts: 0,
            number,
        }
    }

    /// Takes a URL into the queue. Behind URLs that are on disk alone, and if it
    /// `spills`, it is kept on disk alone.
    pub fn push(&mut self, job: CrawlJob, spills: bool) {
        self.counters.admitted += 1;
        if spills || self.on_disk.urls > 0 {
            if self.on_disk.urls == 0 {
                self.on_disk.from = job.number;
            }
            self.on_disk.urls += 1;
        } else {
            self.queue.push_back(job);
        }
    }

    /// Puts a URL back to the head of the queue, after it was tried in vain.
    pub fn push_again(&mut self, job: CrawlJob) {
        self.queue.push_front(job);
    }

    /// Puts URLs back to the head of the queue that were in it before all that waits here:
    /// numbers only grow along a queue.
    pub fn put_before(&mut self, mut jobs: VecDeque<CrawlJob>) {
        self.counters.admitted += jobs.len() as u64;
        jobs.append(&mut self.queue);
        self.queue = jobs;
    }

    /// The queue continues on disk as an earlier run left it, below `next_number`.
    pub fn continue_from(&mut self, on_disk: OnDisk, next_number: u64) {
        self.on_disk = on_disk;
        self.next_number = self.next_number.max(next_number);
    }

    /// What has to be brought from disk before the next task can be known.
    pub fn missing(&self) -> Option<OnDisk> {
        (self.queue.is_empty() && self.on_disk.urls > 0).then_some(self.on_disk)
    }

    /// What waits behind the queue, on disk alone.
    pub fn end_on_disk(&self) -> OnDisk {
        self.on_disk
    }

    /// Forgets the queue here, all of which is on disk; tells how much that was. Numbers
    /// only grow along a queue, so that what is on disk from its first one on is all of it.
    pub fn spill(&mut self) -> usize {
        let queue = std::mem::take(&mut self.queue);
        if let Some(first) = queue.front() {
            self.on_disk.urls += queue.len();
            self.on_disk.from = first.number;
        }
        queue.len()
    }

    /// Takes the queue out, all of which is on disk alone.
    pub fn take_queue(&mut self) -> AwayQueue {
        AwayQueue {
            on_disk: std::mem::take(&mut self.on_disk),
            next_number: self.next_number,
        }
    }

    /// The memory that it holds besides itself and its queue.
    pub fn memory_bytes(&self) -> usize {
        // A power of two of places at most 7/8 full, each with one byte of its own.
        let places = (self.queries.capacity() * 8 / 7).next_power_of_two();
        let robots = self.robots.iter();
        let robots = robots.map(|one| size_of::<OriginRobots>() + one.rules.memory_bytes());
        let place = size_of::<(u64, u32)>() + 1;
        self.seen.memory_bytes() + places * place + robots.sum::<usize>()
    }

    /// What waits on disk alone is gone; tells how much that was.
    pub fn lose_on_disk(&mut self) -> usize {
        std::mem::take(&mut self.on_disk).urls
    }

    /// Takes in the beginning of what is on disk, from `asked` on: the numbers that
    /// waited there, in order. Does nothing if somebody else was faster.
    pub fn bring(&mut self, asked: OnDisk, mut jobs: Vec<CrawlJob>) -> usize {
        if self.on_disk.from != asked.from || self.on_disk.urls == 0 {
            return 0;
        }
        // What is done and still there is behind all that waits.
        jobs.truncate(self.on_disk.urls);
        let Some(last) = jobs.last() else { return 0 };
        let brought = jobs.len();
        self.on_disk.urls -= brought;
        self.on_disk.from = last.number + 1;
        if self.queue.is_empty() {
            jobs.shrink_to_fit();
            self.queue = jobs.into();
        } else {
            self.queue.extend(jobs);
        }
        brought
    }

    /// Takes everything out of the queue; what is on disk alone is forgotten here.
    pub fn drain(&mut self) -> VecDeque<CrawlJob> {
        self.on_disk = OnDisk::default();
        std::mem::take(&mut self.queue)
    }

    /// The head, if it has changed since it was last asked for.
    pub fn changed_head(&mut self) -> Option<SiteHead> {
        std::mem::take(&mut self.is_changed).then(|| self.head())
    }

    /// The head as it is now.
    pub fn head(&self) -> SiteHead {
        SiteHead {
            generation: self.generation,
            queries: self.queries.clone(),
            robots: self.robots.clone(),
            pace: self.pace.clone(),
            counters: self.counters.clone(),
        }
    }

    /// Takes over the head that an earlier run has left, or this one when it had no room. If
    /// it is known when the site is due, that holds: to begin its delay anew whenever it comes
    /// back would shelve a slow site for as long as memory is short.
    pub fn set_head(&mut self, head: SiteHead, now_ms: Millis) {
        self.generation = head.generation;
        self.queries = head.queries;
        self.robots = head.robots;
        for known in &mut self.robots {
            // The clock may have been ahead.
            known.fetched_ms = known.fetched_ms.min(now_ms);
        }
        let due_ms = std::mem::replace(&mut self.pace, head.pace).next_fetch_ms;
        match due_ms {
            0 => self.pace.take_up(now_ms),
            _ => self.pace.next_fetch_ms = due_ms,
        }
        self.counters = head.counters;
    }

    /// The head has changed: how the host fails, for one.
    pub fn mark_changed(&mut self) {
        self.is_changed = true;
    }

    /// How many different queries this path has had.
    pub fn queries_of(&self, path: u64) -> u32 {
        self.queries.get(&path).copied().unwrap_or(0)
    }

    /// One more query of this path.
    pub fn count_query(&mut self, path: u64) {
        *self.queries.entry(path).or_default() += 1;
    }

    /// What to do next. URLs that robots rules forbid, and those that `refuses`, are
    /// taken out on the way and given to `turned_away`.
    pub fn next_task(
        &mut self,
        now_ms: Millis,
        refuses: impl Fn(&UrlRecord) -> bool,
        mut turned_away: impl FnMut(CrawlJob, TurnedAway),
    ) -> Task {
        while let Some(job) = self.queue.pop_front() {
            if refuses(&job.record) {
                turned_away(job, TurnedAway::Refused);
                continue;
            }
            let Some(rules) = self.rules(job.record.url.origin(), now_ms) else {
                let origin = job.record.url.origin().to_owned();
                self.queue.push_front(job);
                return Task::Robots { origin };
            };
            if rules.is_allowed(job.record.url.path_and_query()) {
                return Task::Page(job);
            }
            turned_away(job, TurnedAway::Robots);
        }
        // Very many sites have nothing to do, and should not keep room for it.
        self.queue = VecDeque::new();
        Task::Nothing
    }

    fn rules(&self, origin: &str, now_ms: Millis) -> Option<&Robots> {
        let known = self.robots.iter().find(|known| *known.origin == *origin)?;
        let until_ms = known.fetched_ms.saturating_add(ROBOTS_LIFETIME_MS);
        (now_ms < until_ms).then_some(&known.rules)
    }

    /// What the robots rules of an origin come to, for the receipt of a page.
    pub fn verdict(&self, origin: &str) -> RobotsVerdict {
        let known = self.robots.iter().find(|known| *known.origin == *origin);
        match known.is_some_and(|known| known.rules.has_rules()) {
            true => RobotsVerdict::Allowed,
            false => RobotsVerdict::NoRules,
        }
    }

    /// The peer that the first URL of the queue came from, if any.
    pub fn first_asker(&self) -> Option<PeerId> {
        self.queue.front()?.record.from.as_deref().copied()
    }

    /// Remembers the robots rules of an origin, in place of the oldest if there are many.
    pub fn set_rules(&mut self, origin: &str, rules: Robots, now_ms: Millis) {
        self.robots.retain(|known| *known.origin != *origin);
        if self.robots.len() >= MOST_ORIGINS {
            self.robots.remove(0);
        }
        self.robots.push(OriginRobots {
            origin: origin.into(),
            rules,
            fetched_ms: now_ms,
        });
        self.is_changed = true;
    }

    /// Drops what waits for an origin, and forbids it for as long as rules are trusted.
    /// What is on disk alone is turned away by those rules when its turn comes.
    pub fn drop_origin(&mut self, origin: &str, now_ms: Millis) -> Vec<CrawlJob> {
        self.set_rules(origin, Robots::disallow_all(), now_ms);
        let (dropped, kept) = std::mem::take(&mut self.queue)
            .into_iter()
            .partition(|job| job.record.url.origin() == origin);
        self.queue = kept;
        Vec::from_iter::<VecDeque<_>>(dropped)
    }

    /// The `Crawl-delay` of an origin, if its rules have one.
    pub fn crawl_delay(&self, origin: &str) -> Option<Duration> {
        let known = self.robots.iter().find(|known| *known.origin == *origin)?;
        known.rules.crawl_delay()
    }

    /// Whether a `Crawl-delay` is what makes the delay as long as this.
    pub fn has_crawl_delay(&self, delay_ms: u64) -> bool {
        let mut delays = self.robots.iter().filter_map(|one| one.rules.crawl_delay());
        delay_ms > 0 && delays.any(|delay| delay.as_millis() as u64 == delay_ms)
    }
}

/// Why a queued URL is not fetched after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnedAway {
    /// Robots rules forbid it.
    Robots,
    /// The caller refused it.
    Refused,
}
