//! Sites that move: frozen here, taken in there.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::crawl::{Crawl, CrawlId};
use crate::crawl_jobs::{CrawlJob, Phase, Site, SiteRecordError, SiteState, United};
use crate::distribution::Key;
use crate::fingerprint::url_fingerprint;
use crate::record::UrlRecord;
use crate::seen_urls::SeenUrls;

use super::{Preprocessor, Pressure, rate_throttle};

/// A site on its way to another peer.
pub struct Frozen {
    host: Box<str>,
    /// Its record.
    pub bytes: Vec<u8>,
    /// The crawls of the URLs in its queue.
    pub crawls: HashSet<CrawlId>,
    /// URLs in its queue.
    urls: u64,
}

impl Frozen {
    /// Its host.
    pub fn host(&self) -> &str {
        &self.host
    }
}

impl Preprocessor {
    /// Takes a site out of this peer once no fetch is under way on it and nobody works on its
    /// pages, which are in no queue and would be lost in a crash; `None` if it is not here. Its URLs stay outstanding until the record has arrived elsewhere. Whoever
    /// calls this has the crawl-job queues [let go](Self::let_go_of_moved) of it before long.
    pub fn freeze(&self, host: &str) -> Option<Result<Frozen, SiteRecordError>> {
        self.freeze_unless(host, || self.jobs.is_closed())
    }

    /// The same, but waits for nothing: a site that somebody is at work on stays as it is, and
    /// is [`Busy`](SiteRecordError::Busy).
    pub fn freeze_at_once(&self, host: &str) -> Option<Result<Frozen, SiteRecordError>> {
        self.freeze_unless(host, || true)
    }

    /// Freezes a site once nobody is at work on it, unless that wait is given up.
    fn freeze_unless(
        &self,
        host: &str,
        gives_up: impl Fn() -> bool,
    ) -> Option<Result<Frozen, SiteRecordError>> {
        let key = Key::of_host(host);
        let cell = match self.classifier.find(host) {
            Some(cell) => cell,
            // It may have been put away.
            None => match self.ledger.more()?.site(host) {
                Ok(Some(_)) => {
                    let new = || self.new_cell(host, key);
                    self.classifier.site(host, key, true, new)?
                }
                Ok(None) => return None,
                Err(error) => return Some(Err(error.into())),
            },
        };
        let mut state = cell.lock();
        if state.phase == Phase::Moved {
            // Put away since it was found.
            return Some(Err(SiteRecordError::Busy(host.into())));
        }
        state.is_freezing = true;
        let has_pages = || self.jobs.outstanding.is_at_work(key);
        if !cell.wait_for_work_end(&mut state, has_pages, gives_up) {
            // It stays here, as it is.
            state.is_freezing = false;
            self.jobs.submit(&cell, &mut state);
            return Some(Err(SiteRecordError::Busy(host.into())));
        }
        drop(state);
        let is_whole = self.make_whole(&cell);
        let is_whole = is_whole.and_then(|()| self.jobs.bring_all(&cell));
        let mut state = cell.lock();
        let record = match is_whole {
            // Something was added or thinned out meanwhile.
            Ok(()) if state.site.on_disk() > 0 || !state.is_whole => Err(SiteRecordError::OnItsWay),
            Ok(()) => state.site.freeze(),
            Err(error) => Err(error.into()),
        };
        Some(match record {
            Ok(bytes) => {
                cell.leave(&mut state);
                let crawls = state.site.crawls().collect();
                let urls = self.jobs.take_out(&mut state);
                self.classifier.forget(host);
                drop(state);
                let host = host.into();
                Ok(Frozen {
                    host,
                    bytes,
                    crawls,
                    urls,
                })
            }
            Err(error) => {
                state.is_freezing = false;
                self.jobs.submit(&cell, &mut state);
                Err(error)
            }
        })
    }

    /// How much the ledger has been told so far.
    pub fn noted(&self) -> u64 {
        self.ledger.noted()
    }

    /// Whether as much of it is on disk, for whoever reads there.
    pub fn has_written(&self, noted: u64) -> bool {
        self.ledger.has_written(noted)
    }

    /// The crawl-job queues let go of sites that were frozen: one that waited there would
    /// take memory until it is due, and a name that nobody needs would be looked up.
    pub fn let_go_of_moved(&self) {
        self.jobs.let_go();
    }

    /// A frozen site has arrived elsewhere: its URLs are done with here. If the host was ours
    /// again meanwhile, and something of it is here, the record comes back instead: what is
    /// forgotten of a host that has left is all of it.
    pub fn has_left(&self, frozen: &Frozen) -> Result<(), SiteRecordError> {
        let key = Key::of_host(&frozen.host);
        let leaves = || {
            let is_away = self.jobs.away(key).is_some();
            if !is_away {
                self.ledger.site_left(&frozen.host, key);
            }
            !is_away
        };
        if self.classifier.unless_here(&frozen.host, leaves) != Some(true) {
            return self.take_back(frozen);
        }
        self.jobs.outstanding.done(frozen.urls);
        Ok(())
    }

    /// A frozen site comes back before it could leave. On disk its queue is as it was: it goes
    /// before what was met meanwhile, and nothing has to be written.
    pub fn take_back(&self, frozen: &Frozen) -> Result<(), SiteRecordError> {
        let key = Key::of_host(&frozen.host);
        let Some(cell) = self.site(&frozen.host, key) else {
            return Err(SiteRecordError::NoRoom(frozen.host.clone()));
        };
        self.jobs.bring_all(&cell)?;
        self.unite(Site::thaw(&frozen.bytes)?, true, |state| {
            if state.phase == Phase::Leased {
                // What is being fetched may go back to the head of the queue, with a number
                // that is greater than those that come before it now.
                return Err(SiteRecordError::Busy(frozen.host.clone()));
            }
            if state.site.on_disk() > 0 {
                return Err(SiteRecordError::OnItsWay);
            }
            // What the disk says was seen here is what the record says: its queue is not done.
            let is_from_disk = self.ledger.more().is_some();
            Ok(is_from_disk.then(|| std::mem::take(&mut state.site.seen)))
        })?;
        self.jobs.outstanding.done(frozen.urls);
        Ok(())
    }

    /// A site is fetched from here although it is another peer's, or no more.
    pub fn set_stays(&self, host: &str, stays: bool) {
        if let Some(cell) = self.classifier.find(host) {
            let mut state = cell.lock();
            state.stays = stays;
            self.jobs.submit(&cell, &mut state);
        }
    }

    /// Takes in a site that another peer had, and what it says of it. It is turned away as
    /// a whole if there is no room now. Its URLs are wanted by these crawls.
    pub fn take_in(
        &self,
        mut arrived: Site,
        crawls: &HashMap<CrawlId, Arc<Crawl>>,
    ) -> Result<(), SiteRecordError> {
        let host = arrived.host().to_owned();
        if self.blocklist.is_blocked(&host) {
            self.counters.blocked_list.add(arrived.queued() as u64);
            return Ok(());
        }
        let mut met = HashSet::new();
        arrived.retain(|record| met.insert(url_fingerprint(record.url.as_str())));
        let cell = self.site(&host, Key::of_host(&host));
        let cell = cell.ok_or_else(|| SiteRecordError::NoRoom(host.as_str().into()))?;
        let (queued, delay_ms) = {
            let state = cell.lock();
            (state.site.queued(), state.site.pace.delay_ms)
        };
        let has_room = |queued| rate_throttle::has_room(queued, delay_ms, &self.settings);
        if arrived.queued() > 0 && !has_room(queued) {
            // What waits here is worked off first.
            return Err(SiteRecordError::Busy(host.into()));
        }
        // Both queues were let in by the same rule, each for itself. What would not be let
        // into an empty one never will: this peer's bounds are narrower than its sender's.
        let urls = arrived.queued();
        let room = (1..=urls).rev().find(|&urls| has_room(urls - 1));
        let cut = arrived.cut(room.unwrap_or(0));
        let most = self.settings.total_urls.saturating_sub(self.jobs.queued());
        let is_refusing = self.is_stalled() || self.pressure() == Pressure::Refusing;
        if arrived.queued() > most || is_refusing {
            return Err(SiteRecordError::Busy(host.into()));
        }
        if !cut.is_empty() && !forget(&mut arrived.seen, &cut) {
            return Err(SiteRecordError::TooMany(host.into()));
        }
        for crawl in crawls.values() {
            crawl.keep(&self.ledger);
        }
        self.unite(arrived, false, |_| Ok(None))?;
        self.counters.refused_overflow.add(cut.len() as u64);
        Ok(())
    }

    /// Takes in a frozen site. What is here of the same host already is kept: its URLs and
    /// what it has seen are added to the record.
    pub fn thaw(&self, bytes: &[u8]) -> Result<(), SiteRecordError> {
        self.unite(Site::thaw(bytes)?, false, |_| Ok(None))
    }

    /// Unites what is here with a site that comes, or that comes back. `prepare` has the first
    /// look, and under the same lock; it gives what was seen here that says nothing about the
    /// record.
    fn unite(
        &self,
        arrived: Site,
        comes_back: bool,
        prepare: impl FnOnce(&mut SiteState) -> Result<Option<SeenUrls>, SiteRecordError>,
    ) -> Result<(), SiteRecordError> {
        let key = Key::of_host(arrived.host());
        let Some(cell) = self.site(arrived.host(), key) else {
            return Err(SiteRecordError::NoRoom(arrived.host().into()));
        };
        self.make_whole(&cell)?;
        let mut state = cell.lock();
        if state.phase == Phase::Moved {
            // Put away since it was found.
            return Err(SiteRecordError::Busy(arrived.host().into()));
        }
        let seen_here = prepare(&mut state)?;
        // What has not left is on disk still.
        let seen_there = (!comes_back).then(|| arrived.seen.clone());
        // Of a site that comes back nobody knows here whether its layers are its own.
        state.has_foreign_layers |= !arrived.seen.is_exact();
        state.is_touched = true;
        let fingerprint = |record: &UrlRecord| url_fingerprint(record.url.as_str());
        let now_ms = self.jobs.now_ms();
        let United {
            arrived,
            done,
            known,
        } = state.site.unite(arrived, now_ms, fingerprint);
        if let Some(seen) = seen_here {
            state.site.seen.union(seen);
        }
        for job in &known {
            self.jobs.known_elsewhere(&state, job);
        }
        let new = match comes_back {
            true => {
                for job in &done {
                    self.jobs.known_here(&state, job);
                }
                self.jobs.put_back(&mut state, arrived);
                VecDeque::new()
            }
            false => arrived,
        };
        if !comes_back && self.ledger.keeps() {
            // Before its queue: by its record it is found, if this went no further.
            self.ledger.site(state.site.host(), &state.site.head());
        }
        for job in new {
            let fingerprint = fingerprint(&job.record);
            if !state.is_seen(fingerprint) {
                // An honest record says so itself.
                state.site.seen.insert(fingerprint);
            }
            self.jobs.push(&mut state, job.record);
        }
        // After what waits: that would be taken for done, if this went no further.
        if let Some(seen) = seen_there {
            let host = state.site.host();
            if seen.is_exact() {
                self.ledger.seen_elsewhere(host, key, &seen);
            } else {
                // With those of an earlier arrival: there is one record for all.
                self.ledger.seen_elsewhere(host, key, &state.site.seen);
            }
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

/// Takes URLs out of what was seen; false if that cannot be done.
fn forget(seen: &mut SeenUrls, urls: &VecDeque<CrawlJob>) -> bool {
    let Some(exact) = seen.exact() else {
        return false;
    };
    let urls = urls.iter();
    let urls: HashSet<u64> = urls
        .map(|job| url_fingerprint(job.record.url.as_str()))
        .collect();
    let mut kept = SeenUrls::default();
    for fingerprint in exact {
        if !urls.contains(&fingerprint) {
            kept.insert(fingerprint);
        }
    }
    *seen = kept;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocklist::BlockList;
    use crate::canonical::CanonicalForm;
    use crate::clock::Clock;
    use crate::config::Settings;
    use crate::counters::Counters;
    use crate::crawl::{CrawlDefinition, Crawls};
    use crate::crawl_jobs::CrawlJobs;
    use crate::ledger::{Keeper, Kept, Ledger, queued_job};
    use crate::limits::Limits;
    use crate::preprocessor::Candidate;
    use crate::resolver::ResolveQueue;

    const HOST: &str = "a.example";

    /// When a site came back, what was met meanwhile was gone from the disk, and its own queue
    /// was taken for done. A name that waited to be looked up once kept it from leaving at all.
    #[test]
    fn a_site_that_comes_back_keeps_its_queue_and_what_was_met_meanwhile() {
        for asks_disk in [true, false] {
            comes_back(asks_disk, |preprocessor, frozen| {
                let here = preprocessor.sites().pop().unwrap();
                here.lock().phase = Phase::Leased;
                assert!(preprocessor.take_back(frozen).is_err(), "a fetch goes on");
                here.lock().phase = Phase::Waiting;
                preprocessor.take_back(frozen).unwrap();
            });
        }
    }

    /// When the word that a site had been taken came after the host was ours again, what had
    /// been met since was gone from the disk.
    #[test]
    fn a_site_that_is_ours_again_when_it_has_arrived_elsewhere_loses_nothing() {
        for asks_disk in [true, false] {
            comes_back(asks_disk, |preprocessor, frozen| {
                preprocessor.has_left(frozen).unwrap();
            });
        }
    }

    /// A site is frozen with a URL in its queue, another one is met, and it comes back. A host
    /// that is met anew asks the disk what it has seen, or does not.
    fn comes_back(asks_disk: bool, come_back: impl Fn(&Preprocessor, &Frozen)) {
        let folder = tempfile::TempDir::new().unwrap();
        let data = crate::store::DataFolder::open(folder.path()).unwrap();
        let kept = Kept::open(Arc::new(data), "state", None).unwrap();
        let (ledger, hands) = Ledger::keeping(kept);
        let settings = Settings::default();
        let counters = Arc::new(Counters::default());
        let resolve = Arc::new(ResolveQueue::default());
        let jobs = Arc::new(CrawlJobs::new(
            Clock::start(),
            counters.clone(),
            resolve.clone(),
            false,
            Limits::new(&settings.limits).gate.clone(),
            ledger.clone(),
        ));
        let preprocessor = Preprocessor::new(
            &settings,
            jobs.clone(),
            counters.clone(),
            ledger.clone(),
            Arc::new(BlockList::new(&settings.crawl, 0)),
        );
        let (stop, stopped) = crossbeam_channel::bounded(0);
        let keeper = Keeper {
            ledger: ledger.clone(),
            hands,
            jobs: jobs.clone(),
            counters,
            clock: Clock::start(),
            stop: stopped,
        };
        let keeper = std::thread::spawn(|| keeper.run());
        let form = CanonicalForm::new(&[]);
        let definition = CrawlDefinition::from_settings(&settings.crawl);
        let crawl = Crawls::default().add(definition, &form);
        let meet = |path: &str| {
            let url = form.parse(&format!("http://{HOST}/{path}")).unwrap();
            let candidate = Candidate {
                key: Key::of_host(HOST),
                fingerprint: url_fingerprint(url.as_str()),
                record: UrlRecord {
                    url,
                    crawl: crawl.id,
                    depth: 1,
                    redirects: 0,
                    from: None,
                },
            };
            preprocessor.admit(&crawl, [candidate], |_| {});
        };
        let write = || {
            let (sender, written) = crossbeam_channel::bounded(1);
            ledger.once_on_disk(move || sender.send(()).unwrap());
            written.recv().unwrap();
        };
        meet("before");
        write();
        if asks_disk {
            ledger.set_more();
        }
        let store = ledger.store().unwrap();
        let queue_on_disk = || store.queue_segment(Key::of_host(HOST), 0, 9).unwrap();
        let before = queue_on_disk();
        let frozen = preprocessor.freeze_at_once(HOST).unwrap().unwrap();
        assert!(!resolve.is_idle());
        preprocessor.let_go_of_moved();
        assert!(resolve.is_idle(), "nobody looks its name up");
        meet("meanwhile");
        come_back(&preprocessor, &frozen);
        assert_eq!((jobs.queued(), jobs.outstanding.count()), (2, 2));
        let admitted = preprocessor.sites()[0].lock().site.counters.admitted;
        assert_eq!(admitted, 2, "each counts once");

        write();
        let queue = queue_on_disk();
        let paths: Vec<String> = queue
            .iter()
            .map(|(_, bytes)| queued_job(bytes).unwrap().record.url.to_string())
            .collect();
        let expected = ["before", "meanwhile"].map(|path| format!("http://{HOST}/{path}"));
        assert_eq!(paths, expected);
        // A crash between the clearing of its queue and the writing of it anew would have cost
        // the site its URLs.
        assert_eq!(queue[..1], before, "what is on disk of it stays there");
        let here = preprocessor.sites().pop().unwrap();
        let order: Vec<String> = here
            .lock()
            .site
            .records()
            .map(|one| one.url.to_string())
            .collect();
        assert_eq!(order, expected, "numbers grow along a queue");
        ledger.close();
        drop(stop);
        keeper.join().unwrap();
    }
}
