//! Sites that move: frozen here, taken in there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::crawl::{Crawl, CrawlId};
use crate::crawl_jobs::{Phase, Site, SiteRecordError, SiteState, United};
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
    /// Takes a site out of this peer once no fetch is under way on it; `None` if it is
    /// not here. Its URLs stay outstanding until the record has arrived elsewhere. Whoever
    /// calls this has the crawl-job queues [let go](Self::let_go_of_moved) of it before long.
    pub fn freeze(&self, host: &str) -> Option<Result<Frozen, SiteRecordError>> {
        self.freeze_unless(host, || self.jobs.is_closed())
    }

    /// The same, but waits for nothing: a site on which a fetch is under way stays as it is,
    /// and is [`Busy`](SiteRecordError::Busy).
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
        if !cell.wait_for_lease_end(&mut state, gives_up) {
            // It stays here, as it is.
            state.is_freezing = false;
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

    /// The crawl-job queues let go of sites that were frozen: one that waited there would
    /// take memory until it is due, and a name that nobody needs would be looked up.
    pub fn let_go_of_moved(&self) {
        self.jobs.let_go();
    }

    /// A frozen site has arrived elsewhere: its URLs are done with here.
    pub fn has_left(&self, frozen: &Frozen) {
        let key = Key::of_host(&frozen.host);
        self.ledger.site_left(&frozen.host, key);
        self.jobs.outstanding.done(frozen.urls);
    }

    /// A frozen site comes back before it could leave.
    pub fn take_back(&self, frozen: &Frozen) -> Result<(), SiteRecordError> {
        let key = Key::of_host(&frozen.host);
        let Some(cell) = self.site(&frozen.host, key) else {
            return Err(SiteRecordError::NoRoom(frozen.host.clone()));
        };
        self.jobs.bring_all(&cell)?;
        self.unite(Site::thaw(&frozen.bytes)?, |state| {
            if state.phase == Phase::Leased {
                // What is being fetched is in no queue but the one on disk.
                return Err(SiteRecordError::Busy(frozen.host.clone()));
            }
            if state.site.on_disk() > 0 {
                return Err(SiteRecordError::OnItsWay);
            }
            self.write_anew(state);
            // What the disk says was seen here is what the record says: its queue is not done.
            let is_from_disk = self.ledger.more().is_some();
            Ok(is_from_disk.then(|| std::mem::take(&mut state.site.seen)))
        })?;
        self.jobs.outstanding.done(frozen.urls);
        Ok(())
    }

    /// Clears a site's queue on disk, because URLs of it will come back under new numbers,
    /// and writes down again what was met since they left.
    fn write_anew(&self, state: &mut SiteState) {
        self.ledger.queue_cleared(state.key);
        for job in state.site.drain().into_iter().rev() {
            self.ledger.queued(state.key, &job);
            state.site.push_again(job);
        }
        state.is_touched = true;
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
        self.counters.refused_overflow.add(cut as u64);
        let most = self.settings.total_urls.saturating_sub(self.jobs.queued());
        let is_refusing = self.is_stalled() || self.pressure() == Pressure::Refusing;
        if arrived.queued() > most || is_refusing {
            return Err(SiteRecordError::Busy(host.into()));
        }
        for crawl in crawls.values() {
            crawl.keep(&self.ledger);
        }
        self.unite(arrived, |_| Ok(None))
    }

    /// Takes in a frozen site. What is here of the same host already is kept: its URLs and
    /// what it has seen are added to the record.
    pub fn thaw(&self, bytes: &[u8]) -> Result<(), SiteRecordError> {
        self.unite(Site::thaw(bytes)?, |_| Ok(None))
    }

    /// Unites what is here with a site that comes. `prepare` has the first look, and under
    /// the same lock; it gives what was seen here that says nothing about the record.
    fn unite(
        &self,
        arrived: Site,
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
        self.ledger
            .seen_elsewhere(arrived.host(), key, &arrived.seen);
        state.is_touched = true;
        let fingerprint = |record: &UrlRecord| url_fingerprint(record.url.as_str());
        let United { arrived, known } = state.site.unite(arrived, self.jobs.now_ms(), fingerprint);
        if let Some(seen) = seen_here {
            state.site.seen.union(seen);
        }
        for job in &known {
            self.jobs.known_elsewhere(&state, job);
        }
        for job in arrived {
            let fingerprint = fingerprint(&job.record);
            if !state.is_seen(fingerprint) {
                // An honest record says so itself.
                state.site.seen.insert(fingerprint);
            }
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
        // A site that is met from now on asks the disk what it has seen.
        ledger.set_more();
        let frozen = preprocessor.freeze_at_once(HOST).unwrap().unwrap();
        assert!(!resolve.is_idle());
        preprocessor.let_go_of_moved();
        assert!(resolve.is_idle(), "nobody looks its name up");
        meet("meanwhile");
        let here = preprocessor.sites().pop().unwrap();
        here.lock().phase = Phase::Leased;
        assert!(preprocessor.take_back(&frozen).is_err(), "a fetch goes on");
        here.lock().phase = Phase::Waiting;
        preprocessor.take_back(&frozen).unwrap();
        assert_eq!((jobs.queued(), jobs.outstanding.count()), (2, 2));

        write();
        let store = ledger.store().unwrap();
        let queue = store.queue_segment(Key::of_host(HOST), 0, 9).unwrap();
        let mut paths: Vec<String> = queue
            .iter()
            .map(|(_, bytes)| queued_job(bytes).unwrap().record.url.to_string())
            .collect();
        paths.sort();
        let expected = ["before", "meanwhile"].map(|path| format!("http://{HOST}/{path}"));
        assert_eq!(paths, expected);
        ledger.close();
        drop(stop);
        keeper.join().unwrap();
    }
}
