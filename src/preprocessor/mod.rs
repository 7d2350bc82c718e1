//! Block 1: the URL preprocessor, where a URL of our own range is taken in or turned
//! away.
//!
//! URLs come in by host, from the range validator. The domain classifier finds the
//! host's site; the duplicate detector drops what the site has seen; the bounds on a
//! site's pages and on the queries of a path cut traps that grow with what came
//! before; the rate throttle and the overflow controller turn away what there is no
//! room for. Only then is a URL marked as seen and queued: nothing that was admitted is
//! ever evicted, and a URL that was turned away can come again.
//!
//! - [`domain_classifier`]: which site a URL belongs to
//! - [`duplicate_detector`]: whether the site has seen it
//! - [`rate_throttle`]: whether the site can work off one more
//! - [`overflow_controller`]: whether the peer can

pub mod domain_classifier;
pub mod duplicate_detector;
pub mod overflow_controller;
pub mod rate_throttle;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub use domain_classifier::DomainClassifier;
pub use overflow_controller::{OverflowController, Pressure};

use crate::blocklist::BlockList;
use crate::config;
use crate::counters::Counters;
use crate::crawl::{Crawl, Trap};
use crate::crawl_jobs::{
    CrawlJobs, OnDisk, Phase, Site, SiteCell, SiteHead, SiteRecordError, SiteState, United,
};
use crate::distribution::Key;
use crate::fingerprint::url_fingerprint;
use crate::ledger::Ledger;
use crate::record::UrlRecord;
use crate::seen_urls::SeenUrls;
use crate::store::StoreError;

/// A URL at the door.
pub struct Candidate {
    /// The hash of its host, which decides its owner and groups it with its kin.
    pub key: Key,
    /// The hash of the URL, by which the duplicate detector knows it.
    pub fingerprint: u64,
    /// The URL.
    pub record: UrlRecord,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Taken into its site's queue.
    Queued,
    /// Seen before.
    Duplicate,
    /// Refused for good, for a reason that is counted.
    Refused,
    /// No room now; it may come again.
    NoRoom,
}

/// A site on its way to another peer.
pub struct Frozen {
    host: Box<str>,
    /// Its record.
    pub bytes: Vec<u8>,
    /// URLs in its queue.
    urls: u64,
}

/// See the module.
pub struct Preprocessor {
    classifier: DomainClassifier,
    overflow: OverflowController,
    jobs: Arc<CrawlJobs>,
    settings: config::Queues,
    max_host_failures: u8,
    counters: Arc<Counters>,
    blocklist: Arc<BlockList>,
    ledger: Arc<Ledger>,
    /// Whether there is room in memory for what is on disk of sites.
    is_roomy: AtomicBool,
}

impl Preprocessor {
    /// A preprocessor that fills `jobs`.
    pub fn new(
        settings: &config::Settings,
        jobs: Arc<CrawlJobs>,
        counters: Arc<Counters>,
        ledger: Arc<Ledger>,
        blocklist: Arc<BlockList>,
    ) -> Self {
        Self {
            classifier: DomainClassifier::new(settings.queues.sites),
            overflow: OverflowController::new(settings.queues.clone(), counters.clone()),
            jobs,
            settings: settings.queues.clone(),
            max_host_failures: settings.politeness.max_host_failures,
            counters,
            blocklist,
            ledger,
            is_roomy: AtomicBool::new(true),
        }
    }

    /// Takes in URLs of one host, or turns them away; `outcome` is told of each, in
    /// order. One lock is taken for all of them; the disk, if it must be asked, is asked
    /// before.
    pub fn admit(
        &self,
        crawl: &Crawl,
        candidates: impl IntoIterator<Item = Candidate>,
        mut outcome: impl FnMut(Admission),
    ) {
        let mut candidates = candidates.into_iter().peekable();
        let Some(first) = candidates.peek() else {
            return;
        };
        let host = first.record.url.host();
        if self.blocklist.is_blocked(host) {
            let count = candidates.map(|_| outcome(Admission::Refused)).count();
            self.counters.blocked_list.add(count as u64);
            return;
        }
        let (host, key) = (host.to_owned(), first.key);
        let mut candidates: Vec<Candidate> = candidates.collect();
        loop {
            let Some(cell) = self.site(&host, key) else {
                candidates.iter().for_each(|_| outcome(Admission::NoRoom));
                self.counters.refused_overflow.add(candidates.len() as u64);
                return;
            };
            let (is_whole, thinned) = {
                let state = cell.lock();
                (state.is_whole, state.thinned)
            };
            let on_disk = match is_whole {
                true => Vec::new(),
                false => self.seen_on_disk(key, &candidates),
            };
            let mut state = cell.lock();
            if state.thinned != thinned || state.phase == Phase::Moved {
                // It was thinned out or put away meanwhile: what was looked up is old.
                drop(state);
                std::thread::yield_now();
                continue;
            }
            let on_disk = on_disk.into_iter().chain(std::iter::repeat(false));
            for (candidate, is_on_disk) in candidates.drain(..).zip(on_disk) {
                outcome(self.admit_one(crawl, &mut state, candidate, is_on_disk));
            }
            self.jobs.submit(&cell, &mut state);
            return;
        }
    }

    /// Which of these URLs were seen, by what is on disk.
    fn seen_on_disk(&self, key: Key, candidates: &[Candidate]) -> Vec<bool> {
        let Some(store) = self.ledger.store() else {
            return Vec::new();
        };
        let is_seen = |url: &Candidate| match store.is_seen(key, url.fingerprint) {
            Ok(is_seen) => is_seen,
            Err(error) => {
                tracing::error!("cannot look {} up: {error}", url.record.url);
                false
            }
        };
        candidates.iter().map(is_seen).collect()
    }

    /// From now on, whether there is room in memory for what is on disk of sites.
    pub fn set_roomy(&self, is_roomy: bool) {
        self.is_roomy.store(is_roomy, Relaxed);
    }

    /// The site of a host, made if it is new; `None` if there are too many already, or
    /// if what is on disk of it cannot be read. It is whole if there is room for that.
    fn site(&self, host: &str, key: Key) -> Option<Arc<SiteCell>> {
        let cell = self
            .classifier
            .site(host, key, self.ledger.more().is_none())?;
        let known = match self.is_roomy.load(Relaxed) {
            true => self.make_whole(&cell),
            false => self.bring_head(&cell),
        };
        match known {
            Ok(()) => Some(cell),
            Err(error) => {
                tracing::error!("cannot read back what is known of {host}: {error}");
                None
            }
        }
    }

    /// Brings the head of a site that this peer has not met since it was put away.
    /// Reads from the disk: the site must not be locked.
    fn bring_head(&self, cell: &Arc<SiteCell>) -> Result<(), StoreError> {
        let state = cell.lock();
        if state.is_whole || state.has_head {
            return Ok(());
        }
        let Some(store) = self.ledger.store() else {
            return Ok(());
        };
        let host = state.site.host().to_owned();
        drop(state);
        if store.seen_elsewhere(&host)?.is_some() {
            // Nobody can be asked about one of those alone.
            return self.make_whole(cell);
        }
        let head = store.site(&host)?;
        let mut state = cell.lock();
        if !std::mem::replace(&mut state.has_head, true)
            && let Some(head) = head
        {
            self.set_head(&mut state, &head);
        }
        Ok(())
    }

    /// Brings all that is on disk of a site. Reads from the disk: the site must not be
    /// locked.
    fn make_whole(&self, cell: &Arc<SiteCell>) -> Result<(), StoreError> {
        let state = cell.lock();
        if state.is_whole {
            return Ok(());
        }
        let Some(store) = self.ledger.store() else {
            return Ok(());
        };
        let host = state.site.host().to_owned();
        let (has_head, thinned) = (state.has_head, state.thinned);
        drop(state);
        let head = if has_head { None } else { store.site(&host)? };
        let elsewhere = store.seen_elsewhere(&host)?;
        let seen = store.seen_of(Key(cell.key))?;
        let mut state = cell.lock();
        if state.is_whole || state.thinned != thinned {
            return Ok(());
        }
        if !std::mem::replace(&mut state.has_head, true)
            && let Some(head) = head
        {
            self.set_head(&mut state, &head);
        }
        if let Some(bytes) = elsewhere {
            match SeenUrls::from_bytes(&bytes) {
                Ok(seen) => state.site.seen.union(seen),
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

    fn set_head(&self, state: &mut SiteState, bytes: &[u8]) {
        match postcard::from_bytes::<SiteHead>(bytes) {
            Ok(head) => state.site.set_head(head),
            Err(error) => {
                return tracing::error!("the record of {}: {error}", state.site.host());
            }
        }
        if state.site.pace.failures >= self.max_host_failures {
            state.phase = Phase::GivenUp;
        }
    }

    /// A site goes on where an earlier run has left it.
    pub fn resume(
        &self,
        host: &str,
        key: Key,
        on_disk: OnDisk,
        next_number: u64,
    ) -> Result<(), StoreError> {
        let Some(cell) = self.classifier.site(host, key, false) else {
            tracing::error!("no room for {host}: it waits until there is");
            return Ok(());
        };
        let head = match self.ledger.store() {
            Some(store) => store.site(host)?,
            None => None,
        };
        let mut state = cell.lock();
        state.has_head = true;
        if let Some(head) = head {
            self.set_head(&mut state, &head);
        }
        self.jobs.continue_queue(&mut state, on_disk, next_number);
        self.jobs.submit(&cell, &mut state);
        Ok(())
    }

    /// Takes a site out of memory that nothing waits for: what is known of it is on
    /// disk. False if it is not idle, or if its record cannot be kept.
    pub fn put_away(&self, cell: &Arc<SiteCell>) -> bool {
        let mut state = cell.lock();
        if state.phase != Phase::Idle || state.site.queued() > 0 || state.is_freezing {
            return false;
        }
        self.ledger.site(state.site.host(), &state.site.head());
        state.phase = Phase::Moved;
        self.ledger.set_more();
        self.classifier.forget(state.site.host());
        true
    }

    fn admit_one(
        &self,
        crawl: &Crawl,
        state: &mut SiteState,
        url: Candidate,
        is_on_disk: bool,
    ) -> Admission {
        if is_on_disk || duplicate_detector::is_seen(state, url.fingerprint) {
            self.counters.duplicate.add(1);
            return Admission::Duplicate;
        }
        match state.phase {
            Phase::GivenUp => {
                self.counters.given_up.add(1);
                return Admission::Refused;
            }
            // It left between our finding it and our locking it. Whoever met the URL
            // will meet it again, or its sender sends it again.
            Phase::Moved => {
                self.counters.refused_overflow.add(1);
                return Admission::NoRoom;
            }
            _ => {}
        }
        let site = &mut state.site;
        let bounds = &crawl.rules.bounds;
        let path = duplicate_detector::path_of_query(&url.record.url);
        if site.counters.admitted >= u64::from(bounds.max_pages_per_site) {
            self.counters.trap(Trap::SitePages).add(1);
            return Admission::Refused;
        }
        if path.is_some_and(|path| site.queries_of(path) >= bounds.max_queries_per_path) {
            self.counters.trap(Trap::QueryVariations).add(1);
            return Admission::Refused;
        }
        let has_room = rate_throttle::has_room(site.queued(), site.pace.delay_ms, &self.settings)
            && self.overflow.has_room(self.jobs.queued(), url.record.depth);
        if !has_room {
            self.counters.refused_overflow.add(1);
            state.dropped += 1;
            return Admission::NoRoom;
        }
        site.seen.insert(url.fingerprint);
        if let Some(path) = path {
            site.count_query(path);
        }
        self.jobs.push(state, url.record);
        Admission::Queued
    }

    /// How full the queues are, as admission sees it.
    pub fn pressure(&self) -> Pressure {
        self.overflow.observe(self.jobs.queued())
    }

    /// Every site that is here.
    pub fn sites(&self) -> Vec<Arc<SiteCell>> {
        self.classifier.sites()
    }

    /// Drops what is queued for sites that are on the block list, and forgets the sites
    /// themselves unless a fetch is under way on them. Tells whether all are forgotten.
    pub fn forget_blocked(&self) -> bool {
        let mut all_gone = true;
        for cell in self.classifier.sites() {
            let mut state = cell.lock();
            if !self.blocklist.is_blocked(state.site.host()) {
                continue;
            }
            self.drop_blocked(&mut state);
            match state.phase {
                Phase::Leased | Phase::Resolving => all_gone = false,
                Phase::Moved => {}
                Phase::Idle | Phase::Waiting | Phase::GivenUp => {
                    state.phase = Phase::Moved;
                    state.connection = None;
                    self.classifier.forget(state.site.host());
                    self.ledger.site_left(state.site.host(), Key(cell.key));
                }
            }
        }
        all_gone
    }

    /// Drops what is queued for a site that is on the block list.
    pub fn drop_blocked(&self, state: &mut SiteState) {
        let drained = self.jobs.drain(state);
        self.counters.blocked_list.add(drained);
    }

    /// Every host of which something is known on disk alone, or may be.
    pub fn hosts_on_disk(&self) -> Vec<String> {
        let mut hosts = Vec::new();
        let Some(store) = self.ledger.more() else {
            return hosts;
        };
        let is_away = |host: &str| self.classifier.find(host).is_none();
        let walked = store.for_each_site(|host, _| {
            if is_away(host) {
                hosts.push(host.to_owned());
            }
        });
        if let Err(error) = walked {
            tracing::error!("cannot look through the sites on disk: {error}");
        }
        hosts
    }

    /// Takes a site out of this peer once no fetch is under way on it; `None` if it is
    /// not here. Its URLs stay outstanding until the record has arrived elsewhere.
    pub fn freeze(&self, host: &str) -> Option<Result<Frozen, SiteRecordError>> {
        let key = Key::of_host(host);
        let cell = match self.classifier.find(host) {
            Some(cell) => cell,
            // It may have been put away.
            None => match self.ledger.more()?.site(host) {
                Ok(Some(_)) => self.classifier.site(host, key, false)?,
                Ok(None) => return None,
                Err(error) => return Some(Err(error.into())),
            },
        };
        let mut state = cell.lock();
        if state.phase == Phase::Moved {
            return None;
        }
        state.is_freezing = true;
        if !cell.wait_for_lease_end(&mut state, || self.jobs.is_closed()) {
            // The engine ends: it stays here, as it is.
            state.is_freezing = false;
            return None;
        }
        drop(state);
        let is_whole = self.make_whole(&cell);
        let is_whole = is_whole.and_then(|()| self.jobs.bring_all(&cell));
        let mut state = cell.lock();
        let record = match is_whole {
            Ok(()) if state.site.on_disk() > 0 => Err(SiteRecordError::OnItsWay),
            Ok(()) => state.site.freeze(),
            Err(error) => Err(error.into()),
        };
        Some(match record {
            Ok(bytes) => {
                state.phase = Phase::Moved;
                state.connection = None;
                let urls = self.jobs.take_out(&mut state);
                self.classifier.forget(host);
                drop(state);
                let host = host.into();
                Ok(Frozen { host, bytes, urls })
            }
            Err(error) => {
                state.is_freezing = false;
                self.jobs.submit(&cell, &mut state);
                Err(error)
            }
        })
    }

    /// A frozen site has arrived elsewhere: its URLs are done with here.
    pub fn has_left(&self, frozen: &Frozen) {
        let key = Key::of_host(&frozen.host);
        self.ledger.site_left(&frozen.host, key);
        self.jobs.outstanding.done(frozen.urls);
    }

    /// A frozen site is ours again before it could leave.
    pub fn take_back(&self, frozen: &Frozen) -> Result<(), SiteRecordError> {
        // Its URLs get new numbers.
        self.ledger.queue_cleared(Key::of_host(&frozen.host));
        self.thaw(&frozen.bytes)?;
        self.jobs.outstanding.done(frozen.urls);
        Ok(())
    }

    /// Takes in a site that another peer froze. What is here of the same host already
    /// is kept: its URLs and what it has seen are added to the record.
    pub fn thaw(&self, bytes: &[u8]) -> Result<(), SiteRecordError> {
        let arrived = Site::thaw(bytes)?;
        let key = Key::of_host(arrived.host());
        let Some(cell) = self.site(arrived.host(), key) else {
            return Err(SiteRecordError::NoRoom(arrived.host().into()));
        };
        self.make_whole(&cell)?;
        let mut state = cell.lock();
        self.ledger
            .seen_elsewhere(arrived.host(), key, &arrived.seen);
        let fingerprint = |record: &UrlRecord| url_fingerprint(record.url.as_str());
        let United { arrived, known } = state.site.unite(arrived, fingerprint);
        for job in &known {
            self.jobs.known_elsewhere(&state, job);
        }
        for job in arrived {
            self.jobs.push(&mut state, job.record);
        }
        if self.ledger.keeps()
            && let Some(head) = state.site.changed_head()
        {
            self.ledger.site(state.site.host(), &head);
        }
        self.jobs.submit(&cell, &mut state);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::CanonicalForm;
    use crate::clock::Clock;
    use crate::crawl::{CrawlDefinition, Crawls};
    use crate::ledger::{Keeper, Kept};
    use crate::resolver::ResolveQueue;

    struct Door {
        preprocessor: Preprocessor,
        crawl: Arc<Crawl>,
        counters: Arc<Counters>,
        jobs: Arc<CrawlJobs>,
    }

    fn door(change: impl FnOnce(&mut config::Settings)) -> Door {
        door_with(change, Ledger::nothing())
    }

    fn door_with(change: impl FnOnce(&mut config::Settings), ledger: Arc<Ledger>) -> Door {
        let mut settings = config::Settings::default();
        change(&mut settings);
        let counters = Arc::new(Counters::default());
        let resolve = Arc::new(ResolveQueue::default());
        let gate = crate::limits::Limits::new(&settings.limits).gate.clone();
        let jobs = CrawlJobs::new(
            Clock::start(),
            counters.clone(),
            resolve,
            false,
            gate,
            ledger.clone(),
        );
        let jobs = Arc::new(jobs);
        let definition = CrawlDefinition::from_settings(&settings.crawl);
        let form = CanonicalForm::new(&[]);
        let blocklist = Arc::new(BlockList::new(&settings.crawl, 0));
        Door {
            preprocessor: Preprocessor::new(
                &settings,
                jobs.clone(),
                counters.clone(),
                ledger,
                blocklist,
            ),
            crawl: Crawls::default().add(definition, &form).unwrap(),
            counters,
            jobs,
        }
    }

    impl Door {
        fn knock(&self, url: &str) -> Admission {
            let url = CanonicalForm::new(&[]).parse(url).unwrap();
            let candidate = Candidate {
                key: Key::of_host(url.host()),
                fingerprint: url_fingerprint(url.as_str()),
                record: UrlRecord {
                    url,
                    crawl: self.crawl.definition.id(),
                    depth: 1,
                    redirects: 0,
                    from: None,
                },
            };
            let mut admission = None;
            self.preprocessor
                .admit(&self.crawl, [candidate], |a| admission = Some(a));
            admission.unwrap()
        }
    }

    #[test]
    fn endless_queries_on_one_path_are_a_trap() {
        let door = door(|settings| settings.crawl.max_queries_per_path = 3);
        for number in 0..3 {
            let url = format!("http://a.example/list?page={number}");
            assert_eq!(door.knock(&url), Admission::Queued);
        }
        assert_eq!(
            door.knock("http://a.example/list?page=3"),
            Admission::Refused
        );
        assert_eq!(door.counters.trap(Trap::QueryVariations).get(), 1);
        assert_eq!(
            door.knock("http://a.example/list?page=1"),
            Admission::Duplicate
        );
        assert_eq!(
            door.knock("http://a.example/list"),
            Admission::Queued,
            "no query"
        );
        assert_eq!(
            door.knock("http://a.example/other?page=3"),
            Admission::Queued
        );
        assert_eq!(
            door.knock("http://b.example/list?page=3"),
            Admission::Queued
        );
    }

    #[test]
    fn what_is_turned_away_for_lack_of_room_can_come_again() {
        let door = door(|settings| {
            settings.queues.site_urls = 1;
            settings.queues.sites = 2;
        });
        assert_eq!(door.knock("http://a.example/1"), Admission::Queued);
        assert_eq!(door.knock("http://a.example/2"), Admission::NoRoom);
        assert_eq!(door.knock("http://b.example/"), Admission::Queued);
        assert_eq!(
            door.knock("http://c.example/"),
            Admission::NoRoom,
            "too many sites"
        );
        assert_eq!(door.counters.refused_overflow.get(), 2);
        let cell = door.preprocessor.classifier.find("a.example").unwrap();
        door.jobs.drain(&mut cell.lock());
        assert_eq!(door.knock("http://a.example/2"), Admission::Queued);
        assert_eq!(door.knock("http://a.example/1"), Admission::Duplicate);
    }

    /// A site that was put away or thinned out knows what it has seen, from disk.
    #[test]
    fn what_memory_has_forgotten_the_disk_knows() {
        let folder = tempfile::TempDir::new().unwrap();
        let data = crate::store::DataFolder::open(folder.path()).unwrap();
        let kept = Kept::open(Arc::new(data), "state", None).unwrap();
        let (ledger, hands) = Ledger::keeping(kept);
        let door = door_with(|_| {}, ledger.clone());
        let (stop, stopped) = crossbeam_channel::bounded(0);
        let keeper = Keeper {
            ledger: ledger.clone(),
            hands,
            jobs: door.jobs.clone(),
            counters: door.counters.clone(),
            clock: Clock::start(),
            stop: stopped,
        };
        let keeper = std::thread::spawn(|| keeper.run());
        let url = |number: u32| format!("http://a.example/{number}");
        let find = || door.preprocessor.classifier.find("a.example").unwrap();
        for number in 0..200 {
            assert_eq!(door.knock(&url(number)), Admission::Queued);
        }
        let last = url_fingerprint(&url(199));
        let store = ledger.store().unwrap();
        while !store.is_seen(Key::of_host("a.example"), last).unwrap() {
            std::thread::yield_now();
        }
        for round in 0..3 {
            find().lock().thin();
            door.preprocessor.set_roomy(round == 2);
            assert_eq!(door.knock(&url(200 + round)), Admission::Queued);
            for number in 0..200 {
                assert_eq!(door.knock(&url(number)), Admission::Duplicate, "{number}");
            }
            assert_eq!(find().lock().is_whole, round == 2);
        }
        // Put away, once nothing waits for it and all of it is written.
        let cell = find();
        let mut state = cell.lock();
        door.jobs.drain(&mut state);
        state.phase = Phase::Idle;
        state.site.pace.failures = 2;
        drop(state);
        let last = url_fingerprint(&url(202));
        while !store.is_seen(Key::of_host("a.example"), last).unwrap() {
            std::thread::yield_now();
        }
        assert!(door.preprocessor.put_away(&cell));
        assert!(door.preprocessor.classifier.find("a.example").is_none());
        while store.site("a.example").unwrap().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(door.knock(&url(202)), Admission::Duplicate);
        assert_eq!(door.knock(&url(203)), Admission::Queued);
        assert_eq!(find().lock().site.pace.failures, 2);
        drop(stop);
        keeper.join().unwrap();
    }

    #[test]
    fn blocked_hosts_and_hosts_that_were_given_up_take_nothing() {
        let door = door(|settings| settings.crawl.blocked_sites = vec!["bad.example".into()]);
        assert_eq!(door.knock("http://www.bad.example/"), Admission::Refused);
        assert_eq!(door.counters.blocked_list.get(), 1);
        assert_eq!(door.knock("http://a.example/1"), Admission::Queued);
        let cell = door.preprocessor.classifier.find("a.example").unwrap();
        let kind = crate::counters::ErrorKind::Connect;
        door.jobs.give_up(&mut cell.lock(), kind);
        assert_eq!(door.knock("http://a.example/2"), Admission::Refused);
        assert_eq!(
            door.counters.given_up.get(),
            2,
            "the queued one and the new one"
        );
        assert_eq!(door.counters.error(kind).get(), 1);
        assert_eq!(door.jobs.outstanding.count(), 0);
    }

    #[test]
    fn an_engine_that_ends_waits_for_no_name() {
        let door = door(|_| {});
        assert_eq!(door.knock("http://a.example/"), Admission::Queued);
        // Nobody looks the name up any more: a handover that waited for that never ended.
        door.jobs.close();
        assert!(door.preprocessor.freeze("a.example").is_none());
    }
}
