//! A site: everything about one host, as one record.
//!
//! Its queue, the URLs seen, robots rules, pace and counters are kept here and nowhere
//! else, so that a site can be frozen, sent to another peer as bytes, and go on there.
//! Pure: time comes in as an argument, and nothing here does I/O.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::politeness::Pace;
use crate::record::UrlRecord;
use crate::robots::Robots;
use crate::seen_urls::SeenUrls;

/// The first byte of a frozen site; a form that differs gets another number.
const FORMAT: u8 = 1;
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
    /// How often the site has changed hands.
    generation: u64,
    queue: VecDeque<CrawlJob>,
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

#[derive(Debug, Serialize, Deserialize)]
struct OriginRobots {
    origin: Box<str>,
    rules: Robots,
    fetched_ms: Millis,
}

/// Why bytes are not a site.
#[derive(Debug, thiserror::Error)]
pub enum SiteRecordError {
    /// Written by a version that this one does not know.
    #[error("site record of unknown form {0}")]
    Form(u8),
    /// Not decodable.
    #[error("site record is damaged: {0}")]
    Damaged(#[from] postcard::Error),
    /// A URL of another host is in the queue.
    #[error("site record of {0} holds a URL of another host")]
    ForeignUrl(Box<str>),
    /// This peer has as many sites as it may have.
    #[error("no room for site {0}")]
    NoRoom(Box<str>),
}

impl Site {
    /// A site of which nothing is known yet.
    pub fn new(host: &str) -> Self {
        Self {
            host: host.into(),
            generation: 0,
            queue: VecDeque::new(),
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

    /// URLs that wait.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Takes a URL into the queue.
    pub fn push(&mut self, record: UrlRecord) {
        self.counters.admitted += 1;
        self.queue.push_back(CrawlJob {
            record,
            attempts: 0,
        });
    }

    /// Puts a URL back to the head of the queue, after it was tried in vain.
    pub fn push_again(&mut self, job: CrawlJob) {
        self.queue.push_front(job);
    }

    /// Takes everything out of the queue.
    pub fn drain(&mut self) -> VecDeque<CrawlJob> {
        std::mem::take(&mut self.queue)
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
        Task::Nothing
    }

    fn rules(&self, origin: &str, now_ms: Millis) -> Option<&Robots> {
        let known = self.robots.iter().find(|known| *known.origin == *origin)?;
        (now_ms < known.fetched_ms + ROBOTS_LIFETIME_MS).then_some(&known.rules)
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
    }

    /// Drops what waits for an origin, and forbids it for as long as rules are trusted.
    pub fn drop_origin(&mut self, origin: &str, now_ms: Millis) -> usize {
        let before = self.queue.len();
        self.queue.retain(|job| job.record.url.origin() != origin);
        self.set_rules(origin, Robots::disallow_all(), now_ms);
        before - self.queue.len()
    }

    /// The `Crawl-delay` of an origin, if its rules have one.
    pub fn crawl_delay(&self, origin: &str) -> Option<Duration> {
        let known = self.robots.iter().find(|known| *known.origin == *origin)?;
        known.rules.crawl_delay()
    }

    /// Whether a `Crawl-delay` is what makes the delay as long as this.
    pub fn has_crawl_delay(&self, delay_ms: u64) -> bool {
        let delays = self.robots.iter().filter_map(|one| one.rules.crawl_delay());
        delay_ms > 0
            && delays
                .into_iter()
                .any(|delay| delay.as_millis() as u64 == delay_ms)
    }

    /// Takes over the record of the same host from other hands. URLs that waited here
    /// meanwhile stay, unless the record knows them: those are queued there, or done.
    /// Returns how many URLs the queue has gained, or lost if negative.
    pub fn unite(&mut self, mut arrived: Self, fingerprint: impl Fn(&UrlRecord) -> u64) -> isize {
        let before = self.queue.len() as isize;
        let mut queue = std::mem::take(&mut arrived.queue);
        let mine = std::mem::take(&mut self.queue).into_iter();
        queue.extend(mine.filter(|job| !arrived.seen.contains(fingerprint(&job.record))));
        let mine = std::mem::replace(self, arrived);
        self.queue = queue;
        self.generation = self.generation.max(mine.generation);
        self.seen.union(mine.seen);
        for (path, count) in mine.queries {
            *self.queries.entry(path).or_default() += count;
        }
        self.counters.admitted += mine.counters.admitted;
        self.counters.fetched += mine.counters.fetched;
        self.counters.errors += mine.counters.errors;
        self.pace.next_fetch_ms = self.pace.next_fetch_ms.max(mine.pace.next_fetch_ms);
        self.queue.len() as isize - before
    }

    /// The site as bytes: a form number, then the fields in postcard's encoding.
    pub fn freeze(&self) -> Result<Vec<u8>, SiteRecordError> {
        let bytes = vec![FORMAT];
        Ok(postcard::to_extend(self, bytes)?)
    }

    /// A frozen site in new hands.
    pub fn thaw(bytes: &[u8]) -> Result<Self, SiteRecordError> {
        let (&form, fields) = bytes
            .split_first()
            .ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        if form != FORMAT {
            return Err(SiteRecordError::Form(form));
        }
        let mut site: Self = postcard::from_bytes(fields)?;
        let is_foreign = |job: &CrawlJob| job.record.url.host() != &*site.host;
        if site.queue.iter().any(is_foreign) {
            return Err(SiteRecordError::ForeignUrl(site.host));
        }
        site.generation += 1;
        Ok(site)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::CanonicalForm;
    use crate::crawl::CrawlId;

    fn record(url: &str) -> UrlRecord {
        UrlRecord {
            url: CanonicalForm::new(&[]).parse(url).unwrap(),
            crawl: CrawlId(1),
            depth: 2,
            redirects: 0,
            from: None,
        }
    }

    fn next(site: &mut Site, now_ms: Millis) -> (Task, Vec<String>) {
        let mut away = Vec::new();
        let task = site.next_task(
            now_ms,
            |_| false,
            |job, _| away.push(job.record.url.to_string()),
        );
        (task, away)
    }

    #[test]
    fn robots_come_first_for_each_origin_and_are_asked_again_after_a_day() {
        let mut site = Site::new("a.example");
        for url in [
            "http://a.example/1",
            "http://a.example/no/1",
            "https://a.example/2",
        ] {
            site.push(record(url));
        }
        let (task, _) = next(&mut site, 0);
        assert!(matches!(task, Task::Robots { origin } if origin == "http://a.example"));
        site.set_rules(
            "http://a.example",
            Robots::parse(b"user-agent: *\ndisallow: /no", "x"),
            0,
        );
        let (task, _) = next(&mut site, 0);
        assert!(matches!(task, Task::Page(job) if job.record.url.as_str().ends_with("/1")));
        let (task, away) = next(&mut site, 0);
        assert!(matches!(task, Task::Robots { origin } if origin == "https://a.example"));
        assert_eq!(away, ["http://a.example/no/1"]);
        site.set_rules("https://a.example", Robots::allow_all(), 0);
        let (task, _) = next(&mut site, ROBOTS_LIFETIME_MS);
        assert!(matches!(task, Task::Robots { .. }), "a day old");
    }

    #[test]
    fn a_frozen_site_is_the_same_in_new_hands() {
        let mut site = Site::new("a.example");
        site.push(record("http://a.example/1"));
        site.seen.insert(17);
        site.count_query(4);
        site.pace.failures = 3;
        site.set_rules("http://a.example", Robots::disallow_all(), 5);
        let moved = Site::thaw(&site.freeze().unwrap()).unwrap();
        assert_eq!(moved.generation(), 1);
        assert_eq!(moved.queue, site.queue);
        assert!(moved.seen.contains(17) && !moved.seen.contains(18));
        assert_eq!((moved.queries_of(4), moved.pace.failures), (1, 3));
        assert!(!moved.rules("http://a.example", 6).unwrap().is_allowed("/x"));
    }

    #[test]
    fn a_strange_record_is_refused() {
        assert!(matches!(Site::thaw(&[9, 9]), Err(SiteRecordError::Form(9))));
        assert!(matches!(Site::thaw(&[]), Err(SiteRecordError::Damaged(_))));
        assert!(matches!(
            Site::thaw(&[FORMAT, 200]),
            Err(SiteRecordError::Damaged(_))
        ));
        let mut site = Site::new("a.example");
        site.push(record("http://b.example/1"));
        let bytes = site.freeze().unwrap();
        assert!(matches!(
            Site::thaw(&bytes),
            Err(SiteRecordError::ForeignUrl(_))
        ));
        let whole = Site::new("a.example").freeze().unwrap();
        for end in 1..whole.len() {
            assert!(Site::thaw(&whole[..end]).is_err(), "cut at {end}");
        }
    }
}
