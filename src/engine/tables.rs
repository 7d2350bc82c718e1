//! Views for whoever looks on: the sites as a table, and when the next fetch is due.
//!
//! A view is asked for with a search, an order and the rows that are visible, and holds
//! these rows alone. Making one looks at every site once, under that site's own lock and
//! no other: with 100,000 sites that is a matter of milliseconds, on the thread that asks.
//! Of sites that are away, memory knows what waits and when they are due; their names are
//! read from the disk for the visible rows alone. So they come last where names decide the
//! order, and a search finds them by their whole name.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use super::Engine;
use crate::activity::Activity;
use crate::clock::Millis;
use crate::counters::ErrorKind;
use crate::crawl_jobs::{AwayQueue, Phase, SiteCell, SiteState};
use crate::distribution::Key;

/// A column to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the field of `SiteRow` of its name")]
pub enum SiteColumn {
    Host,
    Waiting,
    InMemory,
    OnDisk,
    Next,
    Delay,
    Fetched,
    Errors,
    Dropped,
}

/// Which sites are wanted, and in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteQuery {
    /// Only hosts that hold this text, in small letters; empty for all.
    pub search: String,
    /// The column to sort by; equal ones are sorted by host.
    pub sort_by: SiteColumn,
    /// Greatest first.
    pub descending: bool,
    /// The numbers of the rows that are wanted.
    pub rows: Range<usize>,
}

/// Why a site is visited as rarely as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelayWhy {
    /// The usual pause between two visits.
    Usual,
    /// Its robots.txt asks for it.
    Robots,
    /// It answers slowly.
    SlowServer,
    /// It failed, or asked to wait: in this way when it was last asked, if that was in
    /// this run.
    Trouble(Option<ErrorKind>),
    /// It failed so often that it is not visited any more.
    GivenUp(Option<ErrorKind>),
    /// Its name is being looked up.
    LookingUp,
    /// It is away, on disk alone: that tells. Nor is known here what it has come to.
    Away,
}

/// One site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteRow {
    /// Its host.
    pub host: String,
    /// URLs that wait, wherever they are.
    pub waiting: u64,
    /// Those of them that are on disk alone.
    pub on_disk: u64,
    /// When it may be visited next; `None` while it is being visited.
    pub next_ms: Option<Millis>,
    /// The time between two visits.
    pub delay_ms: u64,
    /// Why it is so long.
    pub delay_why: DelayWhy,
    /// Pages fetched.
    pub fetched: u64,
    /// Fetches that failed.
    pub errors: u64,
    /// URLs that were turned away since the start, because too many waited.
    pub dropped: u64,
}

/// Some rows of the table of sites.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteTable {
    /// Rows that there are in all, after the search.
    pub total: usize,
    /// Sites that are away, whatever was searched for.
    pub away: usize,
    /// The number of the first of `rows`.
    pub first: usize,
    /// The rows that were wanted.
    pub rows: Vec<SiteRow>,
}

impl Engine {
    /// The sites, as wanted.
    pub fn sites(&self, query: &SiteQuery) -> SiteTable {
        let away = self.jobs.all_away();
        let host = |key| self.preprocessor.host_of_away(key);
        let usual_ms = self.usual_delay_ms();
        table(&self.preprocessor.sites(), &away, query, usual_ms, host)
    }

    /// When the first site that waits may be visited; `None` if none waits.
    pub fn next_fetch_ms(&self) -> Option<Millis> {
        self.jobs.activity().next_ms
    }

    /// Fetches under way.
    pub fn fetching(&self) -> usize {
        self.jobs.activity().leased
    }

    /// What is being fetched now, and what became of the latest fetches.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.counters.activity
    }

    fn usual_delay_ms(&self) -> u64 {
        self.settings.politeness.delay_ms
    }
}

/// A row before it is made, by the number of its site.
#[derive(Clone, Copy)]
enum At {
    Here(usize),
    Away(usize),
}

type Away = (Key, Millis, AwayQueue);

fn table(
    sites: &[Arc<SiteCell>],
    away: &[Away],
    query: &SiteQuery,
    usual_ms: u64,
    host_of: impl Fn(Key) -> Option<String>,
) -> SiteTable {
    let is_wanted = |state: &SiteState| {
        let host = state.site.host();
        state.phase != Phase::Moved && (query.search.is_empty() || host.contains(&query.search))
    };
    // Sorted by a number where there is one: names are compared only between equals.
    let mut keys: Vec<(u64, u64, At)> = Vec::with_capacity(sites.len() + away.len());
    for (number, cell) in sites.iter().enumerate() {
        let state = cell.lock();
        if is_wanted(&state) {
            keys.push((key(&state, query.sort_by), cell.key, At::Here(number)));
        }
    }
    if query.sort_by == SiteColumn::Host {
        let host = |at| match at {
            At::Here(number) => sites[number].lock().site.host().to_owned(),
            At::Away(_) => String::new(),
        };
        keys.sort_by_cached_key(|&(_, _, at)| host(at));
        if query.descending {
            keys.reverse();
        }
    }
    let searched = (!query.search.is_empty()).then(|| Key::of_host(&query.search));
    for (number, (key, due_ms, queue)) in away.iter().enumerate() {
        if searched.is_none_or(|searched| searched == *key) {
            let value = key_of_away(*due_ms, queue, query.sort_by);
            keys.push((value, key.0, At::Away(number)));
        }
    }
    match (query.sort_by, query.descending) {
        (SiteColumn::Host, _) => {}
        (_, true) => keys.sort_unstable_by_key(|&(value, key, _)| (Reverse(value), key)),
        (_, false) => keys.sort_unstable_by_key(|&(value, key, _)| (value, key)),
    }
    let end = query.rows.end.min(keys.len());
    let first = query.rows.start.min(end);
    let row = |&(_, _, at): &(u64, u64, At)| match at {
        At::Here(number) => Some(row(&sites[number].lock(), usual_ms)),
        At::Away(number) => row_of_away(&away[number], &host_of),
    };
    SiteTable {
        total: keys.len(),
        away: away.len(),
        first,
        rows: keys[first..end].iter().filter_map(row).collect(),
    }
}

fn key_of_away(due_ms: Millis, queue: &AwayQueue, column: SiteColumn) -> u64 {
    match column {
        SiteColumn::Waiting | SiteColumn::OnDisk => queue.on_disk.urls as u64,
        SiteColumn::Next => due_ms,
        _ => 0,
    }
}

/// `None` if it has come back meanwhile: then the next table shows it.
fn row_of_away(away: &Away, host_of: impl Fn(Key) -> Option<String>) -> Option<SiteRow> {
    let &(key, due_ms, queue) = away;
    let urls = queue.on_disk.urls as u64;
    Some(SiteRow {
        host: host_of(key)?,
        waiting: urls,
        on_disk: urls,
        next_ms: Some(due_ms),
        delay_ms: 0,
        delay_why: DelayWhy::Away,
        fetched: 0,
        errors: 0,
        dropped: 0,
    })
}

fn key(state: &SiteState, column: SiteColumn) -> u64 {
    let site = &state.site;
    match column {
        SiteColumn::Host => 0,
        SiteColumn::Waiting => site.queued() as u64,
        SiteColumn::InMemory => (site.queued() - site.on_disk()) as u64,
        SiteColumn::OnDisk => site.on_disk() as u64,
        // Where nothing waits there is no next time.
        SiteColumn::Next if site.queued() == 0 && state.phase != Phase::Leased => u64::MAX,
        SiteColumn::Next => next_ms(state).unwrap_or(0),
        SiteColumn::Delay => site.pace.delay_ms,
        SiteColumn::Fetched => site.counters.fetched,
        SiteColumn::Errors => site.counters.errors,
        SiteColumn::Dropped => state.dropped,
    }
}

fn next_ms(state: &SiteState) -> Option<Millis> {
    let next_ms = state.site.pace.next_fetch_ms.max(state.spent_until_ms);
    (state.phase != Phase::Leased).then_some(next_ms)
}

fn row(state: &SiteState, usual_ms: u64) -> SiteRow {
    let site = &state.site;
    let delay_ms = site.pace.delay_ms;
    SiteRow {
        host: site.host().to_owned(),
        waiting: site.queued() as u64,
        on_disk: site.on_disk() as u64,
        next_ms: next_ms(state),
        delay_ms,
        delay_why: match state.phase {
            Phase::GivenUp => DelayWhy::GivenUp(state.failing),
            Phase::Resolving => DelayWhy::LookingUp,
            _ if state.site.pace.failures > 0 => DelayWhy::Trouble(state.failing),
            _ if site.has_crawl_delay(delay_ms) => DelayWhy::Robots,
            _ if delay_ms > usual_ms => DelayWhy::SlowServer,
            _ => DelayWhy::Usual,
        },
        fetched: site.counters.fetched,
        errors: site.counters.errors,
        dropped: state.dropped,
    }
}

#[cfg(test)]
mod tests {
    use cpu_time::ThreadTime;

    use super::*;
    use crate::crawl_jobs::{OnDisk, Site};

    fn table(sites: &[Arc<SiteCell>], query: &SiteQuery, usual_ms: u64) -> SiteTable {
        super::table(sites, &[], query, usual_ms, |_| None)
    }

    fn sites(count: u64) -> Vec<Arc<SiteCell>> {
        let cell = |number: u64| {
            let host = format!("h{number:06}.example");
            let mut site = Site::new(&host);
            site.counters.fetched = number % 1_000;
            site.pace.delay_ms = 500 * (number % 3);
            Arc::new(SiteCell::new(Key::of_host(&host), site, true))
        };
        (0..count).map(cell).collect()
    }

    fn query(sort_by: SiteColumn, descending: bool, rows: Range<usize>) -> SiteQuery {
        SiteQuery {
            search: String::new(),
            sort_by,
            descending,
            rows,
        }
    }

    #[test]
    fn rows_are_sorted_searched_and_cut_to_what_is_visible() {
        let sites = sites(3_000);
        let by_fetched = table(&sites, &query(SiteColumn::Fetched, true, 0..5), 1_000);
        assert_eq!((by_fetched.total, by_fetched.rows.len()), (3_000, 5));
        let fetched: Vec<u64> = by_fetched.rows.iter().map(|row| row.fetched).collect();
        assert_eq!(fetched, [999, 999, 999, 998, 998]);
        let by_host = table(&sites, &query(SiteColumn::Host, false, 10..12), 1_000);
        assert_eq!(by_host.first, 10);
        assert_eq!(by_host.rows[0].host, "h000010.example");
        let mut search = query(SiteColumn::Host, true, 0..9);
        search.search = "h00299".into();
        let found = table(&sites, &search, 1_000);
        assert_eq!(found.total, 10);
        assert_eq!(found.rows[0].host, "h002999.example");
        let beyond = table(&sites, &query(SiteColumn::Delay, true, 9_000..9_100), 1_000);
        assert_eq!((beyond.total, beyond.rows.len()), (3_000, 0));
    }

    /// They were left out, and a table of what an earlier run had left began almost empty.
    #[test]
    fn sites_that_are_away_are_in_the_table() {
        let sites = sites(10);
        let host = |number| format!("away{number}.example");
        let keys: Vec<Key> = (0..20).map(|number| Key::of_host(&host(number))).collect();
        let away = |(number, &key): (usize, &Key)| {
            let (urls, from) = (number, 0);
            let on_disk = OnDisk { urls, from };
            let next_number = urls as u64;
            let queue = AwayQueue {
                on_disk,
                next_number,
            };
            (key, 1_000, queue)
        };
        let away: Vec<Away> = keys.iter().enumerate().map(away).collect();
        let name = |key: Key| Some(host(keys.iter().position(|one| *one == key)?));
        let table = |query| super::table(&sites, &away, &query, 1_000, name);
        let found = table(query(SiteColumn::Waiting, true, 0..2));
        assert_eq!((found.total, found.away), (30, 20));
        let rows: Vec<_> = found
            .rows
            .iter()
            .map(|row| (&*row.host, row.on_disk))
            .collect();
        assert_eq!(rows, [("away19.example", 19), ("away18.example", 18)]);
        assert_eq!(found.rows[0].delay_why, DelayWhy::Away);
        for descending in [true, false] {
            let found = table(query(SiteColumn::Host, descending, 9..11));
            let is_away = found.rows.iter().map(|row| row.delay_why == DelayWhy::Away);
            assert_eq!(is_away.collect::<Vec<_>>(), [false, true]);
        }
        let mut search = query(SiteColumn::Host, true, 0..9);
        search.search = host(7);
        let found = table(search);
        assert_eq!((found.total, &*found.rows[0].host), (1, "away7.example"));
        // One that has just come back was a line without a name.
        let by_urls = query(SiteColumn::Waiting, true, 0..2);
        let is_back = |key| name(key).filter(|host| host != "away19.example");
        let found = super::table(&sites, &away, &by_urls, 1_000, is_back);
        let hosts: Vec<_> = found.rows.iter().map(|row| &*row.host).collect();
        assert_eq!(hosts, ["away18.example"]);
        // Where nothing waits comes last, by the time of the next fetch.
        let found = table(query(SiteColumn::Next, false, 0..30));
        assert_eq!(found.rows[19].delay_why, DelayWhy::Away);
        assert!(found.rows[20..].iter().all(|row| row.waiting == 0));
    }

    #[test]
    fn the_same_sites_come_in_the_same_order() {
        let mut sites = sites(500);
        let first = table(&sites, &query(SiteColumn::Waiting, true, 0..500), 1_000);
        sites.reverse();
        assert_eq!(
            table(&sites, &query(SiteColumn::Waiting, true, 0..500), 1_000),
            first
        );
    }

    /// The table is made once a second, beside the crawl. The processor's time counts: a
    /// machine has other things to do.
    #[test]
    fn a_hundred_thousand_sites_are_sorted_in_time() {
        use SiteColumn::{Errors, Fetched, Host, Next, Waiting};
        // What is built for tests is not built for speed.
        let bar_ms = if cfg!(debug_assertions) { 2_500 } else { 250 };
        let sites = sites(100_000);
        for column in [Host, Waiting, Next, Fetched, Errors] {
            let tries = (0..3).map(|_| {
                let begun = ThreadTime::now();
                let table = table(&sites, &query(column, true, 50_000..50_060), 1_000);
                assert_eq!((table.total, table.rows.len()), (100_000, 60));
                begun.elapsed()
            });
            let quickest = tries.min().unwrap();
            println!("sorted by {column:?}: {quickest:?}");
            assert!(quickest.as_millis() < bar_ms, "{column:?}: {quickest:?}");
        }
    }

    #[test]
    fn a_delay_is_explained() {
        let cell = SiteCell::new(Key(1), Site::new("a.example"), true);
        let mut state = cell.lock();
        assert_eq!(row(&state, 1_000).delay_why, DelayWhy::Usual);
        state.site.pace.delay_ms = 4_000;
        assert_eq!(row(&state, 1_000).delay_why, DelayWhy::SlowServer);
        let rules = crate::robots::Robots::parse(b"user-agent: *\ncrawl-delay: 4", "x");
        state.site.set_rules("http://a.example", rules, 0);
        assert_eq!(row(&state, 1_000).delay_why, DelayWhy::Robots);
        state.site.pace.failures = 1;
        assert_eq!(row(&state, 1_000).delay_why, DelayWhy::Trouble(None));
        state.failing = Some(ErrorKind::Dns);
        state.phase = Phase::GivenUp;
        let given_up = DelayWhy::GivenUp(Some(ErrorKind::Dns));
        assert_eq!(row(&state, 1_000).delay_why, given_up);
    }
}
