//! What is being fetched now, and what became of the latest fetches, for whoever looks on.
//!
//! Downloaders tell of each fetch when it begins and when it ends; the window reads both.
//! A peer that nobody looks at pays one atomic load a page: [`Activity::watch`] switches
//! the telling on. The results are a ring of bounded length, newest last.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::clock::{Clock, Millis};
use crate::counters::ErrorKind;

/// Results that are remembered.
const RESULTS: usize = 2_000;
/// A title is cut after so many characters.
const TITLE_CHARS: usize = 200;
/// A title is looked for in so many bytes of a page.
const TITLE_BYTES: usize = 16 << 10;

/// What became of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// A page came, as far as is known a new one.
    Fetched,
    /// A page came that was met before, elsewhere.
    Duplicate,
    /// Robots rules forbid it.
    Robots,
    /// Its address is a private one.
    Private,
    /// It looks like one of endlessly many.
    Trap,
    /// It brought no page.
    Failed(ErrorKind),
}

/// A fetch that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ongoing {
    /// Its URL.
    pub url: String,
    /// When it began.
    pub since_ms: Millis,
}

/// What became of one URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// When that was known.
    pub at_ms: Millis,
    /// The URL.
    pub url: String,
    /// Its host: a result is shown far more often than it is made.
    pub host: String,
    /// The page's title, if it has one.
    pub title: String,
    /// What became of it.
    pub how: How,
    /// More words; may be empty.
    pub detail: String,
    /// What came.
    pub bytes: u64,
    /// How long it took.
    pub took_ms: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Activity {
    clock: Clock,
    is_watched: AtomicBool,
    numbers: AtomicU64,
    /// By number, so that they are listed as they began.
    ongoing: Mutex<BTreeMap<u64, Ongoing>>,
    results: Mutex<VecDeque<Outcome>>,
    /// Grows with every result.
    version: AtomicU64,
}

/// A fetch that somebody may look at; dropped, it is no longer under way.
#[derive(Debug)]
pub struct Watched(Option<(Arc<Activity>, u64, Ongoing)>);

impl Default for Activity {
    fn default() -> Self {
        Self {
            clock: Clock::start(),
            is_watched: AtomicBool::new(false),
            numbers: AtomicU64::new(0),
            ongoing: Mutex::default(),
            results: Mutex::default(),
            version: AtomicU64::new(0),
        }
    }
}

impl Activity {
    /// Whether anybody looks.
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Relaxed)
    }

    /// Somebody looks from now on, or nobody does.
    pub fn watch(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Relaxed);
    }

    /// A fetch begins.
    pub fn begin(self: &Arc<Self>, url: &str) -> Watched {
        if !self.is_watched() {
            return Watched(None);
        }
        let ongoing = Ongoing {
            url: url.to_owned(),
            since_ms: self.clock.now_ms(),
        };
        let number = self.numbers.fetch_add(1, Relaxed);
        self.ongoing.lock().insert(number, ongoing.clone());
        Watched(Some((self.clone(), number, ongoing)))
    }

    /// A URL came to an end that was never fetched.
    pub fn turned_away(&self, url: &str, how: How, detail: &str) {
        if self.is_watched() {
            self.push(Outcome {
                at_ms: self.clock.now_ms(),
                url: url.to_owned(),
                host: host_of(url),
                title: String::new(),
                how,
                detail: detail.to_owned(),
                bytes: 0,
                took_ms: 0,
            });
        }
    }

    /// A page that was told of as fetched turns out to be a duplicate.
    pub fn is_duplicate(&self, url: &str) {
        if !self.is_watched() {
            return;
        }
        let mut results = self.results.lock();
        if let Some(result) = results.iter_mut().rev().find(|result| result.url == url) {
            result.how = How::Duplicate;
            self.version.fetch_add(1, Relaxed);
        }
    }

    fn push(&self, outcome: Outcome) {
        let mut results = self.results.lock();
        if results.len() == RESULTS {
            results.pop_front();
        }
        results.push_back(outcome);
        self.version.fetch_add(1, Relaxed);
    }

    /// What is being fetched now, the longest first.
    pub fn ongoing(&self) -> Vec<Ongoing> {
        self.ongoing.lock().values().cloned().collect()
    }

    /// Grows with every result: equal numbers mean equal results.
    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// The results that `is_wanted`, newest first: how many there are, and those whose
    /// numbers are in `rows`.
    pub fn results(
        &self,
        rows: std::ops::Range<usize>,
        is_wanted: impl Fn(&Outcome) -> bool,
    ) -> (usize, Vec<Outcome>) {
        let results = self.results.lock();
        let wanted = results.iter().rev().filter(|result| is_wanted(result));
        let mut total = 0;
        let mut chosen = Vec::new();
        for result in wanted {
            if rows.contains(&total) {
                chosen.push(result.clone());
            }
            total += 1;
        }
        (total, chosen)
    }
}

impl Watched {
    /// How it ended, with more words if there are any.
    pub fn end(&self, how: How, detail: impl FnOnce() -> String, bytes: u64) {
        self.page(how, detail, bytes, String::new);
    }

    /// The same for a page, which has a title.
    pub fn page(
        &self,
        how: How,
        detail: impl FnOnce() -> String,
        bytes: u64,
        title: impl FnOnce() -> String,
    ) {
        if let Some((activity, _, ongoing)) = &self.0 {
            let at_ms = activity.clock.now_ms();
            activity.push(Outcome {
                at_ms,
                url: ongoing.url.clone(),
                host: host_of(&ongoing.url),
                title: title(),
                how,
                detail: detail(),
                bytes,
                took_ms: at_ms.saturating_sub(ongoing.since_ms),
            });
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some((activity, number, _)) = &self.0 {
            activity.ongoing.lock().remove(number);
        }
    }
}

fn host_of(url: &str) -> String {
    let url = url::Url::parse(url).ok();
    let host = url.and_then(|url| Some(url.host_str()?.to_owned()));
    host.unwrap_or_default()
}

/// The title of a page, for a person: bytes that are no text in the page's charset are
/// replaced, entities are undone, white space is one space.
pub fn title_of(body: &[u8], content_type: Option<&str>) -> String {
    let head = &body[..body.len().min(TITLE_BYTES)];
    let text = crate::extractor::text_of(head, content_type);
    let title = || {
        let lower = text.to_ascii_lowercase();
        let begin = lower.find("<title")?;
        let begin = begin + lower[begin..].find('>')? + 1;
        let end = begin + lower[begin..].find("</title")?;
        text.get(begin..end)
    };
    let plain = htmlize::unescape(title().unwrap_or_default());
    let words: Vec<&str> = plain.split_whitespace().collect();
    words.join(" ").chars().take(TITLE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_looks_and_nothing_is_kept() {
        let activity = Arc::new(Activity::default());
        let watched = activity.begin("http://a.example/");
        watched.end(How::Fetched, String::new, 7);
        activity.turned_away("http://a.example/no", How::Robots, "");
        assert!(activity.ongoing().is_empty());
        assert_eq!(activity.results(0..9, |_| true), (0, vec![]));
    }

    #[test]
    fn the_latest_results_are_kept_newest_first_and_can_be_chosen() {
        let activity = Arc::new(Activity::default());
        activity.watch(true);
        let under_way = activity.begin("http://slow.example/");
        for number in 0..RESULTS + 10 {
            let url = format!("http://a.example/{number}");
            let watched = activity.begin(&url);
            watched.end(How::Fetched, String::new, 1);
        }
        let newest = format!("http://a.example/{}", RESULTS + 9);
        activity.is_duplicate(&newest);
        let (total, rows) = activity.results(0..2, |_| true);
        assert_eq!((total, rows.len()), (RESULTS, 2));
        assert_eq!((&rows[0].url, rows[0].how), (&newest, How::Duplicate));
        assert_eq!(rows[0].host, "a.example");
        let (total, rows) = activity.results(0..9, |one| one.how == How::Duplicate);
        assert_eq!((total, rows.len()), (1, 1));
        assert_eq!(activity.ongoing().len(), 1);
        drop(under_way);
        assert!(activity.ongoing().is_empty());
    }

    #[test]
    fn a_title_is_read_in_the_pages_own_charset() {
        let utf8 = "<html><TITLE lang=de>\n Stra\u{df}e &amp; Weg </TITLE>".as_bytes();
        assert_eq!(
            title_of(utf8, Some("text/html; charset=utf-8")),
            "Straße & Weg"
        );
        let latin1 = b"<title>caf\xe9</title>";
        assert_eq!(
            title_of(latin1, Some("text/html; charset=iso-8859-1")),
            "café"
        );
        assert_eq!(title_of(b"<p>none", None), "");
        assert_eq!(title_of(b"<title>cut off", None), "");
    }
}
