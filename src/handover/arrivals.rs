//! The receiving side: records that come in, and the wait for welcomes.
//!
//! A record is a stranger's word. It is taken in only for a host that is ours. Its URLs
//! pass what URLs pass that are sent: the crawl's rules, the block list, the bounds of the
//! queues. What it says was seen is believed if its sender may have had the site: a
//! newcomer believes those whose welcome it awaits, and everybody believes who owned the
//! host not long ago. From anybody else a record is a batch of URLs and nothing more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use peercrawl_overlay::{Overlay, PeerId};

use super::transfers::{Progress, SitePart, Transfers};
use crate::canonical::CanonicalForm;
use crate::crawl::Crawls;
use crate::crawl_jobs::{CrawlJobs, Site, SiteRecordError};
use crate::distribution::{Key, Owner};
use crate::engine::Offer;
use crate::url_range_validator::{Reception, UrlRangeValidator};

/// A newcomer waits so long for the welcomes of those whom it meets.
const PATIENCE: Duration = Duration::from_secs(10);
/// And so long at least: others may join at the same moment, and the news of them takes
/// a while.
const SETTLING: Duration = Duration::from_secs(1);
/// Welcomes that are kept of peers that were not met yet.
const MOST_EARLY_WELCOMES: usize = 256;
/// Records on their way may take this part of the memory budget.
const PART_OF_MEMORY: u64 = 8;

/// What became of a part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// It was taken in.
    Taken,
    /// Not now: its sender keeps the site and tries again.
    NotNow,
    /// Never: its sender keeps the site for good.
    Never,
}

/// See the module.
pub struct Arrivals {
    jobs: Arc<CrawlJobs>,
    range: Arc<UrlRangeValidator>,
    crawls: Arc<Crawls>,
    form: Arc<CanonicalForm>,
    state: Mutex<State>,
    transfers: Mutex<Transfers>,
}

#[derive(Default)]
struct State {
    /// Whom this peer has met, itself not included.
    met: HashSet<PeerId>,
    /// Whether this peer still looks for its network.
    is_joining: bool,
    /// How often it has joined again.
    times_joined: u64,
    /// Whose welcome is awaited.
    awaited: HashSet<PeerId>,
    /// Whose welcome has come, perhaps before this peer knew that they are there, and
    /// which offer it answered.
    welcomed: HashMap<PeerId, Offer>,
    /// What this peer offers now.
    offer: Offer,
    /// Until when.
    until: Option<Instant>,
    /// Whether this peer has only just met the first of them.
    is_settling: bool,
}

impl State {
    fn is_waiting(&self) -> bool {
        self.is_joining || self.is_settling || !self.awaited.is_empty()
    }

    /// A newcomer awaits the welcome of everybody, until its patience ends.
    fn await_welcomes(&mut self, now: Instant) {
        self.awaited.clear();
        self.is_settling = false;
        let Some(until) = self.until.filter(|&until| now < until) else {
            return;
        };
        self.is_settling = !self.met.is_empty() && now + PATIENCE < until + SETTLING;
        let is_awaited = |peer: &&PeerId| self.welcomed.get(peer) != Some(&self.offer);
        self.awaited.extend(self.met.iter().filter(is_awaited));
    }
}

impl Arrivals {
    /// Nobody met yet. Records that arrive go into the blocks of `range`.
    pub fn new(
        jobs: Arc<CrawlJobs>,
        range: Arc<UrlRangeValidator>,
        crawls: Arc<Crawls>,
        form: Arc<CanonicalForm>,
        memory_bytes: u64,
        offer: Offer,
    ) -> Self {
        let state = State {
            offer,
            ..State::default()
        };
        let most_bytes = (memory_bytes / PART_OF_MEMORY) as usize;
        Self {
            jobs,
            range,
            crawls,
            form,
            state: Mutex::new(state),
            transfers: Mutex::new(Transfers::new(most_bytes)),
        }
    }

    /// This peer will offer a part of this weight; gives what it is to announce. With a
    /// greater part than before it is a newcomer again.
    pub fn offer(&self, capacity: u8) -> Offer {
        self.offer_at(capacity, Instant::now())
    }

    fn offer_at(&self, capacity: u8, now: Instant) -> Offer {
        let mut state = self.state.lock();
        let is_more = capacity > state.offer.capacity;
        state.offer = state.offer.next(capacity);
        if is_more && !state.met.is_empty() {
            state.until = Some(now + PATIENCE);
        }
        state.await_welcomes(now);
        self.hold(&state);
        state.offer
    }

    /// This peer has been away and joins again: it has met nobody, and fetches nothing until
    /// the handover thread has looked around.
    pub fn start_anew(&self) {
        let mut state = self.state.lock();
        *state = State {
            offer: state.offer,
            is_joining: true,
            times_joined: state.times_joined + 1,
            ..State::default()
        };
        self.hold(&state);
    }

    /// How often this peer has joined again: to be asked before an overlay is asked whether
    /// it has found its network.
    pub fn times_joined(&self) -> u64 {
        self.state.lock().times_joined
    }

    /// This peer looks for its network, or does so no more. Until it is found, nothing is
    /// fetched: it would be done twice. What an overlay said that was left since counts for
    /// nothing.
    pub fn set_joining(&self, times_joined: u64, is_joining: bool) {
        let mut state = self.state.lock();
        if state.times_joined == times_joined {
            state.is_joining = is_joining;
            self.hold(&state);
        }
    }

    fn hold(&self, state: &State) {
        self.jobs.set_held(state.is_waiting());
    }

    /// Looks at the members of an overlay. To be called before ownership follows them: a
    /// site that becomes ours by it may still be fetched from by another peer.
    pub fn look_around(&self, overlay: &dyn Overlay) {
        let me = overlay.me();
        // Locked before it looks: whoever looked earlier must not come later, or members
        // seem to go and to come back, and their welcomes are forgotten.
        let mut state = self.state.lock();
        let members = overlay.members();
        let others = members.iter().map(|member| member.id);
        let others = others.filter(|&id| id != me).collect();
        self.meet(&mut state, &others, Instant::now());
    }

    /// These are the other members now. Whoever was alone until now is a newcomer, and
    /// awaits the welcomes of those whom it meets in the next while.
    fn meet(&self, state: &mut State, others: &HashSet<PeerId>, now: Instant) {
        let State { met, welcomed, .. } = &mut *state;
        // Whoever has gone and comes back welcomes anew.
        welcomed.retain(|peer, _| others.contains(peer) || !met.contains(peer));
        if state.met.is_empty() && !others.is_empty() {
            state.until = Some(now + PATIENCE);
        }
        state.met = others.clone();
        self.transfers.lock().retain(|peer| others.contains(peer));
        state.await_welcomes(now);
        self.hold(state);
    }

    /// Whether the network or a welcome is awaited.
    pub fn is_waiting(&self) -> bool {
        self.state.lock().is_waiting()
    }

    /// A peer has sent all that became ours by this offer.
    pub fn welcomed_by(&self, peer: PeerId, offer: Offer) {
        let mut state = self.state.lock();
        if offer == state.offer {
            state.awaited.remove(&peer);
        }
        let is_known = state.met.contains(&peer);
        if is_known || state.welcomed.len() < state.met.len() + MOST_EARLY_WELCOMES {
            state.welcomed.insert(peer, offer);
        }
        self.hold(&state);
    }

    /// Takes in a part of a record, and the record with its last part.
    pub fn take(&self, from: PeerId, part: SitePart) -> Taking {
        if part.part == 0 && !Site::host_of(&part.bytes).is_some_and(|host| self.is_ours(host)) {
            // One of us has old news, or it is no record.
            return Taking::NotNow;
        }
        let progress = self.transfers.lock().take(from, part, Instant::now());
        match progress {
            Progress::Begun => Taking::Taken,
            Progress::Whole(bytes) => self.take_record(from, &bytes),
            Progress::Refused => Taking::NotNow,
            Progress::TooLarge => Taking::Never,
        }
    }

    /// Drops what was begun and not continued.
    pub fn drop_silent(&self) {
        self.transfers.lock().drop_silent(Instant::now());
    }

    fn is_ours(&self, host: &str) -> bool {
        self.range.view.owner(Key::of_host(host)) == Owner::Me
    }

    fn take_record(&self, from: PeerId, bytes: &[u8]) -> Taking {
        let mut site = match Site::thaw(bytes) {
            Ok(site) => site,
            Err(error) => {
                tracing::warn!("from {from}: {error}");
                return Taking::Never;
            }
        };
        // What strangers call canonical is checked.
        let name = self.form.parse(&format!("http://{}/", site.host()));
        let is_canonical = |text: &str| self.form.parse(text).is_ok_and(|url| url.as_str() == text);
        if !name.is_ok_and(|url| url.host() == site.host())
            || !site
                .records()
                .all(|record| is_canonical(record.url.as_str()))
        {
            tracing::warn!("from {from}: a site record that is not in canonical form");
            return Taking::Never;
        }
        if !self.is_ours(site.host()) || site.crawls().any(|id| self.crawls.get(id).is_none()) {
            return Taking::NotNow;
        }
        let key = Key::of_host(site.host());
        let (is_met, is_awaited) = {
            let state = self.state.lock();
            (state.met.contains(&from), state.awaited.contains(&from))
        };
        if !is_met {
            // Its record was faster than its lease: whether it had the site is not known yet.
            return Taking::NotNow;
        }
        if is_awaited || self.range.view.may_have_had(from, key) {
            return self.take_site(from, site);
        }
        tracing::debug!("from {from}: {} was never its own", site.host());
        self.take_urls(from, &mut site)
    }

    /// Takes in the site of a peer that had it.
    fn take_site(&self, from: PeerId, site: Site) -> Taking {
        tracing::debug!("{} comes from {from}", site.host());
        match self.range.take_site(site, &self.crawls) {
            Ok(()) => Taking::Taken,
            Err(error @ SiteRecordError::TooMany(_)) => {
                tracing::warn!("from {from}: {error}");
                Taking::Never
            }
            Err(error) => {
                tracing::debug!("from {from}: {error}");
                Taking::NotNow
            }
        }
    }

    /// Takes in the URLs of a record, as if they had been sent. What was taken in is known
    /// when the record comes again.
    fn take_urls(&self, from: PeerId, site: &mut Site) -> Taking {
        let mut taking = Taking::Taken;
        for mut record in site.drain().into_iter().map(|job| job.record) {
            record.from = Some(Box::new(from));
            let reception = match self.crawls.get(record.crawl) {
                Some(crawl) => self.range.receive(&crawl, record),
                None => Reception::Busy,
            };
            if reception != Reception::Stored {
                taking = Taking::NotNow;
            }
        }
        taking
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocklist::BlockList;
    use crate::clock::Clock;
    use crate::config::Settings;
    use crate::engine::View;
    use crate::handing_on::Outbox;
    use crate::limits::Limits;
    use crate::preprocessor::Preprocessor;
    use peercrawl_overlay::memory::MemoryNetwork;

    const A: PeerId = PeerId::repeat(1);
    const B: PeerId = PeerId::repeat(2);
    const FIRST: Offer = Offer {
        capacity: 4,
        number: u16::MAX,
    };

    fn arrivals() -> Arrivals {
        let settings = Settings::default();
        let ledger = Arc::default();
        let jobs = CrawlJobs::new(
            Clock::start(),
            Arc::default(),
            Arc::default(),
            false,
            Limits::new(&settings.limits).gate.clone(),
            Arc::clone(&ledger),
        );
        let jobs = Arc::new(jobs);
        let blocklist = Arc::new(BlockList::new(&settings.crawl, 0));
        let preprocessor = Preprocessor::new(
            &settings,
            jobs.clone(),
            Arc::default(),
            Arc::clone(&ledger),
            blocklist,
        );
        let overlay = Arc::new(MemoryNetwork::new().join(PeerId::repeat(9)));
        let outbox = Outbox::new(
            settings.handing_on.clone(),
            Arc::default(),
            Arc::default(),
            ledger,
        );
        let range = UrlRangeValidator {
            view: Arc::new(View::new(overlay, &settings.distribution)),
            preprocessor: Arc::new(preprocessor),
            outbox: Arc::new(outbox),
            allow_private: false,
            counters: Arc::default(),
        };
        Arrivals::new(
            jobs,
            Arc::new(range),
            Arc::default(),
            Arc::new(CanonicalForm::new(&[])),
            settings.memory.limit_bytes,
            FIRST,
        )
    }

    fn meet(arrivals: &Arrivals, others: &[PeerId], now: Instant) {
        let others = others.iter().copied().collect();
        arrivals.meet(&mut arrivals.state.lock(), &others, now);
    }

    #[test]
    fn a_newcomer_waits_for_welcomes_but_not_for_long() {
        let (arrivals, now) = (arrivals(), Instant::now());
        meet(&arrivals, &[A, B], now);
        arrivals.welcomed_by(A, FIRST);
        assert!(arrivals.is_waiting());
        arrivals.welcomed_by(B, FIRST);
        assert!(arrivals.is_waiting(), "others may join at this moment");
        meet(&arrivals, &[A, B], now + SETTLING);
        assert!(!arrivals.is_waiting());
        meet(&arrivals, &[], now + SETTLING);
        meet(&arrivals, &[A], now + SETTLING);
        assert!(arrivals.is_waiting(), "it was alone in between");
        meet(&arrivals, &[A], now + SETTLING + PATIENCE);
        assert!(!arrivals.is_waiting());
    }

    #[test]
    fn a_peer_that_looks_for_its_network_waits() {
        let (arrivals, now) = (arrivals(), Instant::now());
        arrivals.set_joining(0, true);
        assert!(arrivals.is_waiting());
        meet(&arrivals, &[A], now);
        arrivals.set_joining(0, false);
        assert!(arrivals.is_waiting(), "for a welcome now");
        arrivals.welcomed_by(A, FIRST);
        meet(&arrivals, &[A], now + SETTLING);
        assert!(!arrivals.is_waiting());
    }

    /// A peer that had left and joined again once fetched at once, what others had by then.
    #[test]
    fn a_peer_that_joins_again_is_a_newcomer() {
        let (arrivals, mut now) = (arrivals(), Instant::now());
        meet(&arrivals, &[A], now);
        arrivals.welcomed_by(A, FIRST);
        now += PATIENCE;
        meet(&arrivals, &[A], now);
        assert!(!arrivals.is_waiting());
        let before = arrivals.times_joined();
        arrivals.start_anew();
        assert!(arrivals.is_waiting(), "nobody has looked around yet");
        arrivals.set_joining(before, false);
        assert!(arrivals.is_waiting(), "the overlay that was left said so");
        meet(&arrivals, &[A], now);
        arrivals.set_joining(before + 1, false);
        let offer = arrivals.offer_at(FIRST.capacity, now);
        meet(&arrivals, &[A], now + SETTLING);
        assert!(arrivals.is_waiting(), "A welcomes anew");
        arrivals.welcomed_by(A, offer);
        assert!(!arrivals.is_waiting());
    }

    /// A demo of four peers once stood still for ten seconds: a welcome came before the
    /// news that its sender is there.
    #[test]
    fn a_welcome_counts_that_comes_before_its_sender_is_met() {
        let (arrivals, now) = (arrivals(), Instant::now());
        arrivals.welcomed_by(A, FIRST);
        meet(&arrivals, &[A], now);
        meet(&arrivals, &[A], now + SETTLING);
        assert!(!arrivals.is_waiting());
        arrivals.welcomed_by(B, FIRST);
        meet(&arrivals, &[A, B], now + SETTLING);
        assert!(!arrivals.is_waiting());
    }

    #[test]
    fn a_peer_whose_part_grows_waits_for_welcomes_that_answer_it() {
        let (arrivals, mut now) = (arrivals(), Instant::now());
        meet(&arrivals, &[A, B], now);
        arrivals.welcomed_by(A, FIRST);
        arrivals.welcomed_by(B, FIRST);
        now += PATIENCE;
        meet(&arrivals, &[A, B], now);
        assert!(!arrivals.is_waiting());

        let less = arrivals.offer_at(0, now);
        assert!(!arrivals.is_waiting(), "it loses sites, and gets none");
        let again = arrivals.offer_at(FIRST.capacity, now);
        assert!(![FIRST, less].contains(&again));
        meet(&arrivals, &[A, B], now + SETTLING);
        assert!(arrivals.is_waiting());
        arrivals.welcomed_by(A, again);
        arrivals.welcomed_by(B, FIRST);
        assert!(arrivals.is_waiting(), "B has not heard of it yet");
        arrivals.welcomed_by(B, again);
        assert!(!arrivals.is_waiting());

        let more = arrivals.offer_at(FIRST.capacity + 1, now + SETTLING);
        assert!(arrivals.is_waiting());
        arrivals.welcomed_by(A, more);
        meet(&arrivals, &[A, B], now + SETTLING + PATIENCE);
        assert!(!arrivals.is_waiting(), "its patience ends");
    }

    /// What a site has seen was once lost: its record came before the news that its sender
    /// is there, and its URLs alone were taken in.
    #[test]
    fn a_record_waits_until_its_sender_is_met() {
        let arrivals = arrivals();
        let mut site = Site::new("a.example");
        site.seen.insert(7);
        let bytes = site.freeze().unwrap();
        let part = |transfer| SitePart {
            transfer,
            part: 0,
            is_last: true,
            bytes: bytes.clone(),
        };
        assert_eq!(arrivals.take(A, part(1)), Taking::NotNow);
        meet(&arrivals, &[A], Instant::now());
        assert_eq!(arrivals.take(A, part(2)), Taking::Taken);
        let [here] = &arrivals.range.preprocessor.sites()[..] else {
            panic!("one site");
        };
        assert!(here.lock().is_seen(7));
    }

    #[test]
    fn whoever_is_alone_waits_for_nobody() {
        let arrivals = arrivals();
        arrivals.offer(FIRST.capacity + 1);
        assert!(!arrivals.is_waiting());
    }
}
