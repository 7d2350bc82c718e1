//! What is known of sites on disk: brought when it is needed, and forgotten here when
//! memory is short.
//!
//! A site is whole when memory holds all that it has seen. Otherwise memory holds the
//! latest, and the disk is asked for the rest. A site that is put away is on disk alone; if
//! anything waits for it, it comes back when it is due and there is room, or before that
//! with the next URL that is met. No site is locked while the disk is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Admission, Candidate, Preprocessor};
use crate::crawl::Crawl;
use crate::crawl_jobs::{AwayQueue, CrawlJob, OnDisk, Phase, Site, SiteCell, SiteHead, SiteState};
use crate::distribution::Key;
use crate::ledger::queued_job;
use crate::seen_urls::SeenUrls;
use crate::store::StoreError;

/// How long a new host waits for memory at most.
const MOST_WAIT: Duration = Duration::from_secs(3);
/// How long blocked sites are looked for on disk at a time, and how many hosts are read at
/// once: there is other work to do, and what is to be forgotten has to be written.
const SWEEPING: Duration = Duration::from_millis(50);
const HOSTS_AT_ONCE: usize = 1_000;
/// So many sites are there at once when an earlier run is continued.
const SITES_AT_START: usize = 1_000;
/// How soon whoever waits for that looks whether it is in vain.
const LOOK: Duration = Duration::from_millis(100);

/// A part of the store cannot be read. Once is enough: it would be said for every URL.
fn unreadable(host: &str, error: &StoreError) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Relaxed) {
        tracing::error!(
            "cannot read back what is known of {host}, and perhaps of others, whose pages \
             may be fetched again: {error}"
        );
    }
}

impl Preprocessor {
    /// Which of these URLs were seen, by what is on disk.
    pub(super) fn seen_on_disk(&self, key: Key, candidates: &[Candidate]) -> Vec<bool> {
        let Some(store) = self.ledger.store() else {
            return Vec::new();
        };
        let is_seen = |url: &Candidate| match store.is_seen(key, url.fingerprint) {
            Ok(is_seen) => is_seen,
            Err(error) => {
                unreadable(url.record.url.host(), &error);
                false
            }
        };
        candidates.iter().map(is_seen).collect()
    }

    /// From now on, whether there is room in memory for what is on disk of sites.
    pub fn set_roomy(&self, is_roomy: bool) {
        self.is_roomy.store(is_roomy, Relaxed);
    }

    /// From now on there is memory for so many sites.
    pub fn set_room(&self, sites: usize) {
        self.classifier.set_room(sites);
    }

    /// Whether there is no memory for a new host, until another site leaves.
    pub fn is_full(&self) -> bool {
        self.classifier.is_full()
    }

    /// Waits a moment for memory for the host of these URLs, for which there was none; false
    /// if there is no need, or if nobody is to wait any more. While nothing can be written
    /// there is no end to the wait: no memory is made then. When the engine ends, it ends once
    /// nothing is noted any more: then their page is not done, and the next run meets them.
    pub(super) fn waits_for_room(
        &self,
        crawl: &Crawl,
        key: Key,
        urls: &[Candidate],
        since: Instant,
    ) -> bool {
        let is_ending = self.jobs.is_closed();
        let may_wait = is_ending || self.ledger.is_stalled() || since.elapsed() < MOST_WAIT;
        let keeps = self.ledger.keeps() && !self.ledger.is_closed();
        let is_vain = !(may_wait && keeps && self.classifier.makes_room());
        if is_vain || self.are_all_known(crawl, key, urls) {
            return false;
        }
        self.classifier.wait_for_room(LOOK);
        true
    }

    /// Which of these URLs are duplicates, of a site that is not in memory.
    fn are_known(&self, crawl: &Crawl, key: Key, urls: &[Candidate]) -> impl Iterator<Item = bool> {
        let seen = self.seen_on_disk(key, urls).into_iter();
        let seen = seen.chain(std::iter::repeat(false));
        let comes_again = |url: &Candidate| crawl.wants_again(&url.record, url.fingerprint);
        let known = urls.iter().zip(seen);
        known.map(move |(url, is_seen)| is_seen && !comes_again(url))
    }

    fn are_all_known(&self, crawl: &Crawl, key: Key, urls: &[Candidate]) -> bool {
        self.are_known(crawl, key, urls).all(|is_known| is_known)
    }

    /// The site that these URLs are for, unless there is no room for it; or no need, because
    /// it is away and has seen all of them.
    pub(super) fn site_for(&self, crawl: &Crawl, urls: &[Candidate]) -> Option<Arc<SiteCell>> {
        let first = urls.first()?;
        let is_away = self.ledger.more().is_some() && self.jobs.away(first.key).is_some();
        if is_away && self.are_all_known(crawl, first.key, urls) {
            return None;
        }
        self.site(first.record.url.host(), first.key)
    }

    /// Turns away URLs of a site that is not in memory.
    pub(super) fn turn_away(
        &self,
        crawl: &Crawl,
        key: Key,
        urls: &[Candidate],
        outcome: &mut impl FnMut(Admission),
    ) {
        for is_known in self.are_known(crawl, key, urls) {
            let (counter, admission) = match is_known {
                true => (&self.counters.duplicate, Admission::Duplicate),
                false => (&self.counters.refused_overflow, Admission::NoRoom),
            };
            counter.add(1);
            outcome(admission);
        }
    }

    /// Whether nothing can be kept at present.
    pub fn is_stalled(&self) -> bool {
        self.ledger.is_stalled()
    }

    /// A site that is not in memory, with its queue if it is away. The record of the same host
    /// may be on its way to another peer, its queue still on disk: so it gives no number again.
    pub(super) fn new_cell(&self, host: &str, key: Key) -> SiteCell {
        let mut site = Site::new(host);
        site.continue_from(OnDisk::default(), self.ledger.next_number());
        let was_away = self.jobs.come_back(key, &mut site);
        let is_whole = !was_away && self.ledger.more().is_none();
        SiteCell::new(key, site, is_whole)
    }

    /// The site of a host, made if it is new; `None` if there are too many already. It is
    /// whole if there is room for that. What cannot be read of it counts as not seen: to
    /// fetch a page again is better than to lose it.
    pub(super) fn site(&self, host: &str, key: Key) -> Option<Arc<SiteCell>> {
        let new = || self.new_cell(host, key);
        let cell = self.classifier.site(host, key, false, new)?;
        let known = match self.is_roomy.load(Relaxed) {
            true => self.make_whole(&cell),
            false => self.bring_head(&cell),
        };
        self.was_read(&cell, known);
        Some(cell)
    }

    /// As much is known of a site as can be read: it goes on, if it has come back.
    fn was_read(&self, cell: &Arc<SiteCell>, known: Result<(), StoreError>) {
        if let Err(error) = known {
            let mut state = cell.lock();
            unreadable(state.site.host(), &error);
            self.jobs.submit(cell, &mut state);
        }
    }

    /// Brings the head of a site that this peer has not met since it was put away.
    /// Reads from the disk: the site must not be locked.
    fn bring_head(&self, cell: &Arc<SiteCell>) -> Result<(), StoreError> {
        let mut state = cell.lock();
        if state.is_whole || state.has_head {
            return Ok(());
        }
        let Some(store) = self.ledger.store() else {
            return Ok(());
        };
        self.number_anew(&mut state);
        let host = state.site.host().to_owned();
        drop(state);
        if store.seen_elsewhere(&host)?.is_some() {
            // Nobody can be asked about one of those alone.
            return self.make_whole(cell);
        }
        let head = store.site(&host)?;
        self.take_head(cell, &mut cell.lock(), head);
        Ok(())
    }

    /// Brings all that is on disk of a site. Reads from the disk: the site must not be
    /// locked.
    pub(super) fn make_whole(&self, cell: &Arc<SiteCell>) -> Result<(), StoreError> {
        let mut state = cell.lock();
        if state.is_whole {
            return Ok(());
        }
        let Some(store) = self.ledger.store() else {
            return Ok(());
        };
        self.number_anew(&mut state);
        let host = state.site.host().to_owned();
        let (has_head, thinned) = (state.has_head, state.thinned);
        drop(state);
        let head = if has_head { None } else { store.site(&host)? };
        let elsewhere = store.seen_elsewhere(&host)?;
        let seen = store.seen_of(Key(cell.key))?;
        let mut state = cell.lock();
        self.take_head(cell, &mut state, head);
        if state.is_whole || state.thinned != thinned {
            return Ok(());
        }
        if let Some(bytes) = elsewhere {
            match SeenUrls::from_bytes(&bytes) {
                Ok(seen) => {
                    state.site.seen.union(seen);
                    state.has_foreign_layers = true;
                }
                Err(error) => tracing::error!("what was seen of {host} elsewhere: {error}"),
            }
        }
        let before = std::mem::take(&mut state.seen_before);
        state.site.seen.union(before);
        for fingerprint in seen {
            state.site.seen.insert(fingerprint);
        }
        state.is_whole = true;
        Ok(())
    }

    /// A site that was put away gives no number again: see [`Ledger::next_number`].
    ///
    /// [`Ledger::next_number`]: crate::ledger::Ledger::next_number
    fn number_anew(&self, state: &mut SiteState) {
        if !state.has_head {
            let on_disk = state.site.end_on_disk();
            let next_number = self.ledger.next_number();
            state.site.continue_from(on_disk, next_number);
        }
    }

    /// The head of a site has been read, if there is one: it goes on, if it has come back.
    fn take_head(&self, cell: &Arc<SiteCell>, state: &mut SiteState, head: Option<Vec<u8>>) {
        if std::mem::replace(&mut state.has_head, true) {
            return;
        }
        if let Some(head) = head {
            self.set_head(state, &head);
        }
        self.jobs.submit(cell, state);
    }

    fn set_head(&self, state: &mut SiteState, bytes: &[u8]) {
        let head = match postcard::from_bytes::<SiteHead>(bytes) {
            Ok(head) => head,
            Err(error) => {
                return tracing::error!("the record of {}: {error}", state.site.host());
            }
        };
        let now_ms = self.jobs.now_ms();
        let is_given_up = head.pace.failures >= self.max_host_failures;
        let is_still_given_up =
            head.pace.was_given_up_since(self.started_ms) && head.pace.is_still_given_up(now_ms);
        state.site.set_head(head, now_ms);
        if !is_given_up {
            return;
        }
        if is_still_given_up && state.phase == Phase::Idle && state.site.queued() == 0 {
            state.phase = Phase::GivenUp;
        } else {
            // Its time is over. And a start is a new beginning: the line may have been what
            // failed.
            let pace = &mut state.site.pace;
            pace.failures = self.max_host_failures.saturating_sub(1);
            pace.next_fetch_ms = now_ms + pace.delay_ms;
        }
    }

    /// A site goes on where an earlier run has left it: a few of them now, and the others once
    /// they are brought back. A start must not wait for very many look-ups.
    pub fn resume(&self, host: &str, key: Key, on_disk: OnDisk, next_number: u64) {
        self.ledger.begin_numbers_at(next_number);
        let queue = AwayQueue {
            on_disk,
            next_number,
        };
        self.jobs.continue_queue(key, queue);
        if self.classifier.count() < SITES_AT_START {
            let new = || self.new_cell(host, key);
            if let Some(cell) = self.classifier.site(host, key, false, new) {
                self.was_read(&cell, self.bring_head(&cell));
            }
        }
    }

    /// Takes a site out of memory: what is known of it is on disk. If anything waits for it,
    /// it is away until it is brought back. False if it cannot leave now. Whoever calls this
    /// has the crawl-job queues [let go](crate::crawl_jobs::CrawlJobs::let_go) of it.
    pub fn put_away(&self, cell: &Arc<SiteCell>) -> bool {
        let mut state = cell.lock();
        if !state.can_leave() {
            return false;
        }
        self.ledger.site(state.site.host(), &state.site.head());
        self.ledger.set_more();
        // Layers of another peer come back as they are.
        if !state.has_foreign_layers {
            *self.counters.losses_forgotten.lock() += state.expected_losses();
        }
        self.jobs.send_away(&mut state);
        cell.leave(&mut state);
        // Last of all: from now on it can come back.
        self.classifier.forget(state.site.host());
        true
    }

    /// Leaves what a site has seen to the disk, all but the latest.
    pub fn thin(&self, state: &mut SiteState) {
        *self.counters.losses_forgotten.lock() += state.thin();
        self.ledger.set_more();
    }

    /// The first URL of a site that is away, of those that can be read; nothing in it if none
    /// is on disk. Reads from the disk.
    fn first_of_away(&self, key: Key) -> Option<Option<CrawlJob>> {
        let (store, queue) = (self.ledger.store()?, self.jobs.away(key)?);
        let mut from = queue.on_disk.from;
        loop {
            let first = match store.queue_segment(key, from, 1) {
                Ok(first) => first,
                Err(error) => {
                    unreadable("a site", &error);
                    return None;
                }
            };
            let Some((number, bytes)) = first.first() else {
                return Some(None);
            };
            if let Some(job) = queued_job(bytes) {
                return Some(Some(job));
            }
            from = number + 1;
        }
    }

    /// The host of a site that is away. Reads from the disk.
    pub fn host_of_away(&self, key: Key) -> Option<String> {
        let first = self.first_of_away(key)??;
        Some(first.record.url.host().to_owned())
    }

    /// Brings a site back that is away; `None` if it is not, or cannot be read. Reads from
    /// the disk.
    pub fn bring_back(&self, key: Key) -> Option<Arc<SiteCell>> {
        let Some(job) = self.first_of_away(key)? else {
            let lost = self.jobs.drop_away(key);
            tracing::error!("{lost} URLs of a site are not on disk");
            self.counters.given_up.add(lost);
            return None;
        };
        let host = job.record.url.host();
        if self.blocklist.is_blocked(host) && self.classifier.find(host).is_none() {
            // Whoever looks for blocked sites has not come to it yet.
            self.forget_on_disk(host, key);
            return None;
        }
        let new = || self.new_cell(host, key);
        let cell = self.classifier.site(host, key, true, new)?;
        self.was_read(&cell, self.bring_head(&cell));
        Some(cell)
    }

    /// Every host of which something is known on disk alone, or may be, if its key is wanted.
    pub fn for_each_host_on_disk(
        &self,
        is_wanted: impl Fn(Key) -> bool,
        mut each: impl FnMut(&str),
    ) {
        let Some(store) = self.ledger.more() else {
            return;
        };
        let walked = store.for_each_site(|host, _| {
            if is_wanted(Key::of_host(host)) && self.classifier.find(host).is_none() {
                each(host);
            }
        });
        if let Err(error) = walked {
            tracing::error!("cannot look through the sites on disk: {error}");
        }
    }

    /// Forgets sites that are on the block list and on disk alone, for a moment: of all hosts
    /// on disk, from this one on. Tells whether it has come to their end.
    pub fn forget_blocked_on_disk(&self, after: &mut String) -> bool {
        let Some(store) = self.ledger.more().filter(|_| !self.blocklist.is_empty()) else {
            return true;
        };
        let until = Instant::now() + SWEEPING;
        while Instant::now() < until && !self.ledger.is_stalled() {
            let hosts = match store.hosts_after(after, HOSTS_AT_ONCE) {
                Ok(hosts) => hosts,
                Err(error) => {
                    tracing::error!("cannot look for blocked sites on disk: {error}");
                    return true;
                }
            };
            let Some(last) = hosts.last() else {
                return true;
            };
            last.clone_into(after);
            for host in hosts {
                if self.blocklist.is_blocked(&host) && self.classifier.find(&host).is_none() {
                    self.forget_on_disk(&host, Key::of_host(&host));
                }
            }
        }
        false
    }

    /// Forgets a blocked site that is on disk alone.
    fn forget_on_disk(&self, host: &str, key: Key) {
        self.counters.blocked_list.add(self.jobs.drop_away(key));
        self.ledger.site_left(host, key);
    }
}
