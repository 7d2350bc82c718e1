//! The memory budget, and what goes to disk when it is used up.
//!
//! A part of the budget is fixed: threads and their buffers, pages on their way, the
//! store's caches. The rest is shared out: waiting URLs, sites with what they have seen,
//! and seen contents. URLs and contents keep their own bounds once they know them; sites
//! are looked at now and then. Those that nothing waits for, or nothing soon, are put away;
//! if that is not enough, the others are thinned out, the largest first: what they have
//! seen is then looked up on disk, URL by URL. If that is not enough either, there are too
//! many: sites are put away that are needed soon. Those come back when their time has come
//! and there is room, and now and then others make room for them. Without a data directory
//! there is nowhere to go: past so many sites no more are taken in.
//!
//! A site is put away only once the disk has all of its queue and of what it has seen.
//!
//! What a URL or a site takes is an estimate, and the allocator adds its own. So the
//! process is looked at as well: while it takes more than 15/16 of the budget, less is shared out.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::clock::{Clock, Millis};
use crate::config::Settings;
use crate::content_processor::ContentProcessor;
use crate::crawl_jobs::{AWAY_BYTES, CrawlJobs, Phase, SiteCell, SiteState};
use crate::distribution::Key;
use crate::ledger::Ledger;
use crate::preprocessor::Preprocessor;
use crate::report::resident_bytes;

/// What a peer takes with nothing to do: code, stacks, buffers, the store's caches.
const FIXED_BYTES: u64 = 96 << 20;
/// A waiting URL's record, its place in the queue and its share of allocation, without its text.
const URL_BYTES: usize = 240;
/// How long URLs are at least, on the average.
const USUAL_URL: usize = 80;
/// A site with its lock, its place in the maps and its pace.
const SITE_BYTES: usize = 1_600;
/// So many sites stay in memory if they are needed: some 5 MB, as sites are. A peer must be
/// able to work.
const LEAST_SITES: usize = 3_200;
/// What a site knows can be much: long robots rules, or the queries of very many paths. Where
/// those that stay take so many times their share, fewer of them do,
const MOST_SHARES: usize = 2;
/// but so many in any case.
const FEWEST_SITES: usize = 64;
/// What has seen less is not worth thinning out.
const LEAST_SEEN_BYTES: usize = 1_000;
/// How often sites are looked at, unless memory is short.
const PERIOD: Duration = Duration::from_secs(2);
/// How often those that are away take turns with those that are here.
const TURN: Duration = Duration::from_secs(30);
/// How long sites are brought back at a time: there is other work to do.
const BRINGING: Duration = Duration::from_millis(100);
/// What is shared out is divided by so much; a whole is as much as the estimates allow.
const WHOLE: u64 = 64;
/// Less than so many parts are not shared out: a peer must be able to work.
const LEAST: u64 = WHOLE / 2;
/// A site is idle when its last fetch is so long ago.
const IDLE_MS: u64 = 10_000;
/// A site is not needed soon when its next fetch is so far off.
const SOON_MS: u64 = 10_000;

/// See the module.
pub struct MemoryBudget {
    limit_bytes: u64,
    /// What is shared out, by the estimates.
    shared_bytes: u64,
    /// How much of that is, in parts of a [`WHOLE`].
    parts: u64,
    sites_bytes: usize,
    most_urls: usize,
    /// How long URLs are at present.
    url_bytes: usize,
    jobs: Arc<CrawlJobs>,
    processor: Arc<ContentProcessor>,
    preprocessor: Arc<Preprocessor>,
    ledger: Arc<Ledger>,
    clock: Clock,
    looked: Option<Instant>,
    /// How often sites were looked at.
    looks: u64,
    /// The last look before which everything is on disk.
    written: Arc<AtomicU64>,
    /// Whether memory is short: the next look is soon.
    is_tight: bool,
    /// When sites took turns.
    turned: Instant,
}

/// Who leaves first when memory is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// Nothing has waited for it for a while; the longest idle leave first.
    Idle(Millis),
    /// It is needed, but not soon; the last needed leave first.
    Later(Reverse<Millis>),
    /// Nothing waits for it now.
    Done,
    /// Its name must be looked up first.
    Unresolved,
    /// It is needed soon.
    Soon(Reverse<Millis>),
}

impl Need {
    fn of(state: &SiteState, now_ms: Millis) -> Self {
        let next_ms = state.site.pace.next_fetch_ms.max(state.spent_until_ms);
        match state.phase {
            Phase::GivenUp => Self::Idle(next_ms),
            Phase::Idle if next_ms + IDLE_MS < now_ms => Self::Idle(next_ms),
            Phase::Idle => Self::Done,
            Phase::Resolving => Self::Unresolved,
            _ if next_ms > now_ms + SOON_MS => Self::Later(Reverse(next_ms)),
            _ => Self::Soon(Reverse(next_ms)),
        }
    }
}

/// A site that could leave, and what it takes.
type Leaving = (Need, usize, Arc<SiteCell>);

/// What a look finds.
struct Survey {
    /// Sites that are here.
    sites: usize,
    /// What they take, with those that are away.
    bytes: usize,
    /// Those of them whose names are being looked up.
    unresolved: usize,
    /// Those that could leave, in the order in which they would.
    leaving: Vec<Leaving>,
    /// Those that have seen much, and how much memory that takes.
    large: Vec<(usize, Arc<SiteCell>)>,
    /// URLs that wait here, and how long they are, if each is as long as the first of its site.
    urls: usize,
    url_bytes: usize,
}

impl Survey {
    /// How long a URL is.
    fn url_bytes(&self) -> usize {
        let mean = self.url_bytes.checked_div(self.urls);
        mean.unwrap_or(0).max(USUAL_URL)
    }
}

/// There is room enough when sites take no more than so many bytes, or are so few.
#[derive(Clone, Copy)]
struct Enough {
    bytes: usize,
    sites: usize,
    /// However few they are, they take no more than this,
    most_bytes: usize,
    /// unless they are as few as that.
    fewest: usize,
}

impl Enough {
    fn is_there(&self, survey: &Survey) -> bool {
        survey.bytes <= self.bytes || self.is_few(survey.sites, survey.bytes)
    }

    /// Whether so many sites may stay, whatever others would take in their place.
    fn is_few(&self, sites: usize, bytes: usize) -> bool {
        sites <= self.sites && (bytes <= self.most_bytes || sites <= self.fewest)
    }
}

/// What a site takes.
fn bytes_of(state: &SiteState) -> usize {
    SITE_BYTES + state.site.memory_bytes() + state.seen_before.memory_bytes()
}

impl MemoryBudget {
    /// Shares the budget of the settings out.
    pub fn new(
        settings: &Settings,
        jobs: Arc<CrawlJobs>,
        preprocessor: Arc<Preprocessor>,
        processor: Arc<ContentProcessor>,
        ledger: Arc<Ledger>,
        clock: Clock,
    ) -> Self {
        let limit_bytes = settings.memory.limit_bytes;
        let fixed_bytes = FIXED_BYTES + settings.queues.pages_bytes as u64;
        let shared_bytes = limit_bytes.saturating_sub(fixed_bytes).max(limit_bytes / 8);
        let mut budget = Self {
            limit_bytes,
            shared_bytes,
            parts: WHOLE,
            sites_bytes: 0,
            most_urls: usize::MAX,
            url_bytes: USUAL_URL,
            jobs,
            processor,
            preprocessor,
            ledger,
            clock,
            looked: None,
            looks: 0,
            written: Arc::default(),
            is_tight: false,
            turned: Instant::now(),
        };
        budget.share_out();
        budget
    }

    fn share_out(&mut self) {
        let shared_bytes = self.shared_bytes * self.parts / WHOLE;
        self.sites_bytes = (shared_bytes * 2 / 5) as usize;
        self.set_room();
        let contents_bytes = (shared_bytes / 5) as usize;
        self.processor.seen().set_memory_bytes(contents_bytes);
        self.share_out_to_urls();
    }

    /// The longer URLs are, the fewer of them there may be.
    fn share_out_to_urls(&mut self) {
        if !self.ledger.keeps() {
            return;
        }
        let shared_bytes = (self.shared_bytes * self.parts / WHOLE) as usize;
        self.most_urls = shared_bytes * 2 / 5 / (URL_BYTES + self.url_bytes);
        self.jobs.set_memory_urls(self.most_urls);
    }

    /// So many sites may be here, besides those that are away. These may have half of the
    /// share: past that, no host is taken in that is new.
    fn set_room(&self) {
        let away = self.away_bytes();
        let has_room = away <= self.sites_bytes / 2;
        let room = self.sites_bytes.saturating_sub(away) / SITE_BYTES;
        let room = room.max(LEAST_SITES / 4 * 5);
        self.preprocessor.set_room(if has_room { room } else { 0 });
    }

    fn away_bytes(&self) -> usize {
        self.jobs.sites_away() * AWAY_BYTES
    }

    /// Shares out less or more, by what the process takes.
    fn follow(&mut self, resident_bytes: u64) {
        let parts = parts_after(self.parts, resident_bytes, self.limit_bytes);
        if parts != self.parts {
            self.parts = parts;
            self.share_out();
        }
    }

    /// The whole budget.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Looks at the sites if it is time, and puts some away if they take more than their
    /// share.
    pub fn keep(&mut self) {
        if !self.ledger.keeps() || self.ledger.is_stalled() {
            return;
        }
        if self.looked.is_none_or(|at| at.elapsed() >= PERIOD) {
            self.looked = Some(Instant::now());
            self.follow(resident_bytes());
        } else if !self.is_tight && !self.preprocessor.is_full() {
            return;
        }
        self.look();
    }

    fn look(&mut self) {
        self.looks += 1;
        let mut survey = self.survey();
        self.url_bytes = survey.url_bytes();
        self.share_out_to_urls();
        // The name of each that comes back must be looked up: no more than can wait for that.
        let most_due = self.least_sites().saturating_sub(survey.unresolved);
        let due = self.jobs.due_away(self.clock.now_ms(), most_due);
        let has_many_urls = self.jobs.in_memory() / 9 > self.most_urls / 8;
        let is_over = survey.bytes > self.sites_bytes / 10 * 9;
        let enough = self.enough();
        self.is_tight = has_many_urls || is_over && !enough.is_few(survey.sites, survey.bytes);
        let is_roomy = survey.bytes < self.sites_bytes / 2;
        self.preprocessor.set_roomy(is_roomy);
        if !is_over && !has_many_urls && due.is_empty() {
            // Sites that were away may have left by other ways.
            self.set_room();
            return;
        }
        self.make_room(&mut survey, due.len(), is_over);
        self.jobs.let_go();
        if has_many_urls {
            self.spill(&survey.leaving);
        }
        self.bring_back(due, &mut survey);
        self.set_room();
        let (look, written) = (self.looks, self.written.clone());
        self.ledger.once_on_disk(move || {
            written.fetch_max(look, SeqCst);
        });
    }

    fn survey(&self) -> Survey {
        let now_ms = self.clock.now_ms();
        let written = self.written.load(SeqCst);
        let sites = self.preprocessor.sites();
        let mut survey = Survey {
            sites: sites.len(),
            // However many are away, some must be able to come back.
            bytes: self.away_bytes().min(self.sites_bytes / 2),
            unresolved: 0,
            leaving: Vec::new(),
            large: Vec::new(),
            urls: 0,
            url_bytes: 0,
        };
        for cell in sites {
            let mut state = cell.lock();
            let bytes = bytes_of(&state);
            survey.bytes += bytes;
            survey.unresolved += usize::from(state.phase == Phase::Resolving);
            if let Some(first) = state.site.records().next() {
                let waiting = state.site.queued() - state.site.on_disk();
                survey.urls += waiting;
                survey.url_bytes += waiting * first.url.as_str().len();
            }
            let seen_bytes = state.site.seen.memory_bytes() + state.seen_before.memory_bytes();
            // What was seen before the last time is forgotten: it must be on disk by now.
            let can_thin = !state.has_foreign_layers && state.thinned_by <= written;
            if can_thin && seen_bytes > LEAST_SEEN_BYTES {
                survey.large.push((seen_bytes, cell.clone()));
            }
            if state.is_written(self.looks, written) && state.can_leave() {
                let need = Need::of(&state, now_ms);
                survey.leaving.push((need, bytes, cell.clone()));
            }
        }
        survey.leaving.sort_unstable_by_key(|&(need, ..)| need);
        survey
            .large
            .sort_unstable_by_key(|&(bytes, _)| Reverse(bytes));
        tracing::debug!(
            "{} sites, of which {} could leave and {} have much to remember, and {} that are \
             away: {} of {} bytes, with {} of {WHOLE} parts shared out",
            survey.sites,
            survey.leaving.len(),
            survey.large.len(),
            self.jobs.sites_away(),
            survey.bytes,
            self.sites_bytes,
            self.parts
        );
        survey
    }

    /// When enough room has been made: some less is taken than may be, so as not to come back
    /// soon.
    fn enough(&self) -> Enough {
        Enough {
            bytes: self.sites_bytes / 5 * 4,
            sites: self.least_sites(),
            most_bytes: self.sites_bytes * MOST_SHARES,
            fewest: FEWEST_SITES,
        }
    }

    /// So many sites stay here if they are needed.
    fn least_sites(&self) -> usize {
        (self.sites_bytes / SITE_BYTES / 4).max(LEAST_SITES)
    }

    /// Makes room, also for so many sites that are due and away.
    fn make_room(&mut self, survey: &mut Survey, due: usize, is_over: bool) {
        let leaving = &survey.leaving;
        let before = |first: Need| leaving.partition_point(|&(need, ..)| need < first);
        let done = before(Need::Done);
        let unresolved = before(Need::Unresolved);
        let soon = before(Need::Soon(Reverse(Millis::MAX)));
        let end = leaving.len();
        let enough = self.enough();
        let enough_for_due = Enough {
            bytes: enough.bytes.saturating_sub(due * SITE_BYTES),
            sites: enough.sites.saturating_sub(due),
            fewest: enough.fewest.saturating_sub(due),
            ..enough
        };
        let unneeded = Enough {
            sites: 0,
            ..enough_for_due
        };
        self.put_away(survey, 0..done, unneeded);
        if is_over {
            self.thin(survey, enough.bytes);
            self.put_away(survey, done..end, enough);
        }
        if due > 0 {
            self.put_away(survey, done..unresolved, enough_for_due);
            if self.turned.elapsed() >= TURN {
                self.turned = Instant::now();
                self.put_away(survey, soon..end, enough_for_due);
            }
        }
    }

    /// Puts some of the sites away that could leave, until there is room enough.
    fn put_away(&self, survey: &mut Survey, some: Range<usize>, enough: Enough) {
        for (_, bytes, cell) in &survey.leaving[some] {
            if enough.is_there(survey) {
                break;
            }
            if self.preprocessor.put_away(cell) {
                survey.bytes = survey.bytes.saturating_sub(*bytes);
                survey.sites -= 1;
            }
        }
    }

    /// Forgets what sites have seen, the largest sets first, until all take no more than
    /// this.
    fn thin(&self, survey: &mut Survey, enough: usize) {
        for (bytes, cell) in &survey.large {
            if survey.bytes <= enough {
                break;
            }
            let mut state = cell.lock();
            // What is about to move needs all that it has seen.
            if !cell.has_left() && !state.is_freezing {
                self.preprocessor.thin(&mut state);
                state.thinned_by = self.looks;
                survey.bytes = survey.bytes.saturating_sub(bytes / 2);
            }
        }
    }

    /// Brings sites back that are due, while there is room.
    fn bring_back(&mut self, due: Vec<Key>, survey: &mut Survey) {
        let until = Instant::now() + BRINGING;
        let enough = self.enough();
        for key in due {
            let has_room = survey.bytes + SITE_BYTES <= enough.bytes;
            let is_needed = enough.is_few(survey.sites + 1, survey.bytes);
            if !(has_room || is_needed) || Instant::now() > until {
                break;
            }
            if let Some(cell) = self.preprocessor.bring_back(key) {
                survey.bytes += bytes_of(&cell.lock());
                survey.sites += 1;
                self.is_tight = true;
            }
        }
    }

    /// Leaves the URLs of sites to the disk, until no more than may do so wait in memory.
    fn spill(&self, sites: &[Leaving]) {
        for (_, _, cell) in sites {
            if self.jobs.in_memory() <= self.most_urls {
                break;
            }
            let mut state = cell.lock();
            if state.can_leave() {
                self.jobs.spill(&mut state);
            }
        }
    }
}

/// How much is shared out from now on: soon less while the process comes near its limit, and
/// slowly more again when there is room. The database takes tens of megabytes for a moment now
/// and then: there must be some to spare.
fn parts_after(parts: u64, resident_bytes: u64, limit_bytes: u64) -> u64 {
    if resident_bytes > limit_bytes / 16 * 15 {
        parts.saturating_sub(WHOLE / 16).max(LEAST)
    } else if resident_bytes < limit_bytes / 16 * 13 {
        (parts + 1).min(WHOLE)
    } else {
        parts
    }
}

#[cfg(test)]
mod tests;
