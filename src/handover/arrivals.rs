//! The receiving side: records that come in part by part, and the wait for welcomes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use peercrawl_overlay::{Overlay, PeerId};

use crate::crawl_jobs::CrawlJobs;
use crate::engine::Offer;
use crate::preprocessor::Preprocessor;

/// A newcomer waits so long for the welcomes of those whom it meets.
const PATIENCE: Duration = Duration::from_secs(10);
/// And so long at least: others may join at the same moment, and the news of them takes
/// a while.
const SETTLING: Duration = Duration::from_secs(1);
/// Welcomes that are kept of peers that were not met yet.
const MOST_EARLY_WELCOMES: usize = 256;
/// The most that one record may come to.
const MOST_BYTES: usize = 64 << 20;
/// Records under way from one peer.
const MOST_TRANSFERS: usize = 4;

/// One part of a frozen site, as it travels.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SitePart {
    /// Tells records of one sender apart.
    pub transfer: u64,
    /// Which part this is, from 0 on; they come in order.
    pub part: u32,
    /// Whether it is the last one.
    pub is_last: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// See the module.
pub struct Arrivals {
    jobs: Arc<CrawlJobs>,
    preprocessor: Arc<Preprocessor>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whom this peer has met, itself not included.
    met: HashSet<PeerId>,
    /// Whether this peer still looks for its network.
    is_joining: bool,
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
    transfers: HashMap<PeerId, HashMap<u64, Transfer>>,
}

#[derive(Default)]
struct Transfer {
    parts: u32,
    bytes: Vec<u8>,
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
    /// Nobody met yet.
    pub fn new(jobs: Arc<CrawlJobs>, preprocessor: Arc<Preprocessor>, offer: Offer) -> Self {
        let state = State {
            offer,
            ..State::default()
        };
        Self {
            jobs,
            preprocessor,
            state: Mutex::new(state),
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

    /// This peer looks for its network, or does so no more. Until it is found, nothing is
    /// fetched: it would be done twice.
    pub fn set_joining(&self, is_joining: bool) {
        let mut state = self.state.lock();
        state.is_joining = is_joining;
        self.hold(&state);
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
        state.transfers.retain(|peer, _| others.contains(peer));
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

    /// Takes in a part of a record, and the record with its last part. False if it was
    /// refused: then its sender keeps the site.
    pub fn take(&self, from: PeerId, part: SitePart) -> bool {
        let mut state = self.state.lock();
        let transfers = state.transfers.entry(from).or_default();
        if part.part == 0 && transfers.len() < MOST_TRANSFERS {
            transfers.insert(part.transfer, Transfer::default());
        }
        let Some(transfer) = transfers.get_mut(&part.transfer) else {
            return false;
        };
        let is_next = transfer.parts == part.part;
        if !is_next || transfer.bytes.len() + part.bytes.len() > MOST_BYTES {
            transfers.remove(&part.transfer);
            return false;
        }
        transfer.parts += 1;
        transfer.bytes.extend_from_slice(&part.bytes);
        if !part.is_last {
            return true;
        }
        let whole = transfers.remove(&part.transfer);
        drop(state);
        let bytes = whole.map(|transfer| transfer.bytes).unwrap_or_default();
        self.preprocessor
            .thaw(&bytes)
            .inspect_err(|error| tracing::warn!("from {from}: {error}"))
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocklist::BlockList;
    use crate::clock::Clock;
    use crate::config::Settings;
    use crate::limits::Limits;

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
        let preprocessor =
            Preprocessor::new(&settings, jobs.clone(), Arc::default(), ledger, blocklist);
        Arrivals::new(jobs, Arc::new(preprocessor), FIRST)
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
        arrivals.set_joining(true);
        assert!(arrivals.is_waiting());
        meet(&arrivals, &[A], now);
        arrivals.set_joining(false);
        assert!(arrivals.is_waiting(), "for a welcome now");
        arrivals.welcomed_by(A, FIRST);
        meet(&arrivals, &[A], now + SETTLING);
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

    #[test]
    fn whoever_is_alone_waits_for_nobody() {
        let arrivals = arrivals();
        arrivals.offer(FIRST.capacity + 1);
        assert!(!arrivals.is_waiting());
    }
}
