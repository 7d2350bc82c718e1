//! The thread that moves sites to their owners, and welcomes newcomers.
//!
//! It works in short rounds, in which nobody waits for one peer or one site alone, and each of
//! which begins with a look at who is there: a newcomer gets its sites and its welcome however
//! long others take. A site that
//! is being fetched from is left for a later round, and so is what there is no memory for:
//! records of sites are taken out and sent a few megabytes at a time, and a site that is
//! not its own no downloader touches. A peer that does not answer in time is left alone for
//! a while, which grows: members that are silent must not keep newcomers from their sites.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, never, select};
use peercrawl_overlay::back_off::BackOff;
use peercrawl_overlay::{Overlay, PeerId};

use super::arrivals::Arrivals;
use super::delivery::{Asked, OnTheWay, Round};
use crate::crawl::{CrawlId, Crawls};
use crate::crawl_jobs::SiteRecordError;
use crate::distribution::{Key, Owner, Ownership};
use crate::downloader::connection::Dialer;
use crate::engine::{Offer, StopSignal, View, offer_of};
use crate::preprocessor::Preprocessor;

/// How soon what did not work is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// After so many tries in vain the wait doubles, and so often at most.
const PATIENT_TRIES: u32 = 10;
const MOST_DOUBLINGS: u32 = 5;
/// A fetch that keeps a site here has so long: whoever has joined waits for no more than twice
/// of it, and two would be on that host.
const FETCH_GRACE: Duration = Duration::from_secs(5);
/// A record counts for so much at least: the first ones do not wait until very many are read
/// from the disk.
const LEAST_BYTES: u64 = 4 << 10;
/// What the name of a site takes that is to be taken out.
const NAME_BYTES: u64 = 80;
/// So many sites of an owner are named, however many owners there are.
const LEAST_NAMED: usize = 100;
/// So long answers are waited for before the thread looks around again: a small part of the
/// patience of a newcomer.
const ROUND: Duration = Duration::from_millis(500);
/// Who was silent about a site is not slow any more when it has taken so many in a row.
const TAKEN_IN_A_ROW: u32 = 16;

/// See the module.
pub struct HandoverSender {
    /// The way to the others.
    pub overlay: Arc<dyn Overlay>,
    /// Who owns what.
    pub view: Arc<View>,
    /// Whether sites stay here although they are not ours: a short pause moves nothing.
    pub keeps_to_itself: Arc<AtomicBool>,
    /// Where the sites are.
    pub preprocessor: Arc<Preprocessor>,
    /// The crawls that the sites belong to.
    pub crawls: Arc<Crawls>,
    /// Who can cut a fetch off that keeps a site here.
    pub dialer: Dialer,
    /// The other direction.
    pub arrivals: Arc<Arrivals>,
    /// No more sites are taken out while records of so many bytes wait for their owners. The
    /// names of those that are to come take as much at most.
    pub most_bytes: u64,
    /// Tells when the view has changed.
    pub changed: Receiver<()>,
    /// Tells when to end.
    pub stop: StopSignal,
}

/// How a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoundEnd {
    /// Nothing is left to do until the view changes.
    Done,
    /// Something was done, and more can be at once.
    GoesOn,
    /// What is left could not be done.
    Stuck,
}

/// What the thread remembers from round to round.
pub(super) struct Memory {
    /// The time counts from here.
    begun: Instant,
    /// Who did not answer, and is left alone.
    silent: BackOff<PeerId>,
    /// When it was found out that they did not.
    silent_since: HashMap<PeerId, Instant>,
    /// Who did not answer in time when it was sent a site, and how many it has taken since.
    pub(super) slow: HashMap<PeerId, u32>,
    /// What the others offered in the last round.
    pub(super) offers: HashMap<PeerId, Offer>,
    /// The offer of each peer that was answered last.
    pub(super) welcomed: HashMap<PeerId, Offer>,
    /// Who has been told of which crawl.
    pub(super) told: HashSet<(PeerId, CrawlId)>,
    /// Crawls that no message can tell of: their sites stay here.
    pub(super) too_large: HashSet<CrawlId>,
    /// Sites that are to be taken out, by their owners. They may be in memory or on disk.
    foreign: BTreeMap<PeerId, BTreeSet<Box<str>>>,
    /// So many of each owner's are named there: there may be millions on disk.
    most_named: usize,
    /// Owners who have more than that. It is looked for when theirs have nearly all left.
    unnamed: HashSet<PeerId>,
    /// Sites that have left, and how much the ledger had noted by then: until that is written
    /// they are still on disk, and must not be sent again as they once were.
    left: HashSet<Box<str>>,
    left_at: u64,
    /// Those that are to be taken out and cannot be yet.
    at_work: HashMap<Box<str>, AtWork>,
    /// Sites that wait to be sent.
    pub(super) frozen: Vec<OnTheWay>,
    /// What others have been asked and have not answered.
    pub(super) under_way: Vec<Asked>,
    /// Hosts whose owner cannot take them: they stay here until ownership changes.
    staying: HashSet<Box<str>>,
    pub(super) transfers: u64,
    /// Rounds in a row in which something was left to do and nothing could be done.
    in_vain: u32,
    /// The ownership for which sites on disk were last looked through.
    looked_through: Option<Arc<Ownership>>,
}

/// A site that cannot be taken out yet: somebody is at work on it, as a rule.
struct AtWork {
    since: Instant,
    /// Whether it was said why, if it is something else.
    is_told: bool,
}

impl Memory {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            silent: BackOff::default(),
            silent_since: HashMap::new(),
            slow: HashMap::new(),
            offers: HashMap::new(),
            welcomed: HashMap::new(),
            told: HashSet::new(),
            too_large: HashSet::new(),
            foreign: BTreeMap::new(),
            most_named: usize::MAX,
            left: HashSet::new(),
            left_at: 0,
            unnamed: HashSet::new(),
            at_work: HashMap::new(),
            frozen: Vec::new(),
            under_way: Vec::new(),
            staying: HashSet::new(),
            transfers: 0,
            in_vain: 0,
            looked_through: None,
        }
    }

    /// These are the others now, and what they offer.
    fn meet(&mut self, offers: &HashMap<PeerId, Offer>) {
        self.told.retain(|(peer, _)| offers.contains_key(peer));
        self.slow.retain(|peer, _| offers.contains_key(peer));
        let is_current = |peer: &PeerId, offer: &Offer| offers.get(peer) == Some(offer);
        self.welcomed.retain(|peer, offer| is_current(peer, offer));
        // Who comes back, or says something new, is there: it is not left alone any more.
        for (peer, offer) in &self.offers {
            if !is_current(peer, offer) {
                self.silent.succeeded(peer);
                self.silent_since.remove(peer);
            }
        }
        self.silent_since
            .retain(|peer, _| offers.contains_key(peer));
        self.offers.clone_from(offers);
    }

    /// Whether nothing is left to say to a peer with this offer. Somebody who is there may
    /// not have said yet that it takes a part: what becomes its own when it does has not
    /// been sent.
    pub(super) fn is_welcome(&self, peer: &PeerId, offer: &Offer) -> bool {
        offer.capacity == 0 || self.welcomed.contains_key(peer)
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Whether a peer is left alone, because it did not answer.
    fn is_left_alone(&self, peer: &PeerId) -> bool {
        !self.silent.is_due(peer, self.now_ms())
    }

    /// A peer did not answer what it was asked then: one failure for all questions that were
    /// under way together.
    pub(super) fn was_silent(&mut self, peer: PeerId, asked: Instant) {
        if self.is_news(&peer, asked) {
            self.silent.failed(peer, self.now_ms(), 1.0);
            self.silent_since.insert(peer, Instant::now());
        }
    }

    /// A peer has answered what it was asked then.
    pub(super) fn has_answered(&mut self, peer: PeerId, asked: Instant) {
        if self.is_news(&peer, asked) {
            self.silent.succeeded(&peer);
            self.silent_since.remove(&peer);
        }
    }

    /// Whether a question was asked after the last one that was not answered.
    fn is_news(&self, peer: &PeerId, asked: Instant) -> bool {
        let since = self.silent_since.get(peer);
        since.is_none_or(|&since| asked > since)
    }

    /// A peer has taken a site, or a part of one.
    pub(super) fn has_taken(&mut self, peer: PeerId) {
        if let Some(taken) = self.slow.get_mut(&peer) {
            *taken += 1;
            if *taken >= TAKEN_IN_A_ROW {
                self.slow.remove(&peer);
            }
        }
    }

    /// The sites that wait to be sent, and those that are on their way.
    fn taken_out(&self) -> impl Iterator<Item = &OnTheWay> {
        let under_way = self.under_way.iter().filter_map(Asked::site);
        self.frozen.iter().chain(under_way)
    }

    /// A site is another peer's now; so much had been noted when that was.
    pub(super) fn has_left(&mut self, host: Box<str>, noted: u64) {
        self.left.insert(host);
        self.left_at = noted;
    }

    /// A host is to be taken out, if it is another peer's and cannot stay.
    fn note(&mut self, ownership: &Ownership, key: Key, host: impl FnOnce() -> Box<str>) {
        if let Owner::Peer(owner) = ownership.owner(key) {
            let host = host();
            if self.staying.contains(&host) {
                return;
            }
            let named = self.foreign.entry(owner).or_default();
            if named.len() < self.most_named {
                named.insert(host);
            } else if !named.contains(&host) {
                self.unnamed.insert(owner);
            }
        }
    }

    /// Whether more sites must be found for somebody who takes them.
    fn lacks_names(&self) -> bool {
        let are_few = |owner| {
            let named = self.foreign.get(owner).map_or(0, BTreeSet::len);
            named <= self.most_named / 10
        };
        let mut unnamed = self.unnamed.iter();
        unnamed.any(|owner| are_few(owner) && !self.is_left_alone(owner))
    }
}

/// The records that wait for their owners, in bytes.
struct Held {
    most: u64,
    all: u64,
    of_owners: HashMap<PeerId, u64>,
}

impl Held {
    fn add(&mut self, owner: Option<PeerId>, bytes: usize) {
        let bytes = (bytes as u64).max(LEAST_BYTES);
        self.all += bytes;
        if let Some(owner) = owner {
            *self.of_owners.entry(owner).or_default() += bytes;
        }
    }

    /// Whether there is room for one more of this owner, who may have as much as it leaves
    /// to the others.
    fn has_room(&self, owner: &PeerId) -> bool {
        let its = self.of_owners.get(owner).copied().unwrap_or_default();
        its < self.most.saturating_sub(self.all)
    }
}

impl HandoverSender {
    /// Works until the engine stops.
    pub fn run(&self) {
        let mut memory = Memory::new();
        loop {
            let retry = match self.round(&mut memory, ROUND) {
                RoundEnd::Done => never(),
                RoundEnd::GoesOn => after(Duration::ZERO),
                RoundEnd::Stuck => {
                    let doublings = (memory.in_vain / PATIENT_TRIES).min(MOST_DOUBLINGS);
                    after(RETRY * (1 << doublings))
                }
            };
            select! {
                // What was in vain before may not be so now.
                recv(self.changed) -> _ => memory.in_vain = 0,
                recv(retry) -> _ => {}
                recv(self.stop) -> _ => return,
            }
        }
    }

    /// Moves what has to move, as far as that can be done at once. Waits for answers no longer
    /// than this.
    fn round(&self, memory: &mut Memory, limit: Duration) -> RoundEnd {
        self.arrivals.look_around(&*self.overlay);
        // Before ownership follows them: an offer that is answered has been followed.
        let me = self.overlay.me();
        let members = self.overlay.members();
        let others = members.iter().filter(|member| member.id != me);
        let offers: HashMap<_, _> = others.map(|one| (one.id, offer_of(one))).collect();
        self.view.refresh();
        // In this order: whoever has found its network knows the members.
        let joining = self.arrivals.times_joined();
        let is_joining = self.overlay.is_joining();
        self.arrivals.look_around(&*self.overlay);
        self.arrivals.set_joining(joining, is_joining);
        memory.meet(&offers);

        self.take_own_back(memory);
        let resting = offers.keys().filter(|peer| memory.is_left_alone(peer));
        let mut round = Round::without(resting.copied().collect());
        round.to_come = self.freeze_foreign(memory);
        self.deliver(memory, &mut round, &offers, Instant::now() + limit);
        self.end(memory, &round, &offers)
    }

    fn end(&self, memory: &mut Memory, round: &Round, offers: &HashMap<PeerId, Offer>) -> RoundEnd {
        let mut offers = offers.iter();
        let is_under_way = !memory.under_way.is_empty();
        let is_done = memory.frozen.is_empty()
            && !is_under_way
            && round.to_come.is_empty()
            && offers.all(|(peer, offer)| memory.is_welcome(peer, offer));
        let is_waiting = self.arrivals.is_waiting();
        if is_done || is_waiting || round.arrived > 0 {
            memory.in_vain = 0;
        } else if round.parts == 0 && !is_under_way {
            memory.in_vain = memory.in_vain.saturating_add(1);
        }
        match (is_done, round.arrived + round.parts > 0 || is_under_way) {
            (true, _) if !is_waiting => RoundEnd::Done,
            // What is under way was waited for.
            (false, true) => RoundEnd::GoesOn,
            _ => RoundEnd::Stuck,
        }
    }

    /// Takes sites out that are another peer's by now, as many as there is room for, but for
    /// those that somebody is at work on: the owners of the rest, who have something to come,
    /// are given.
    fn freeze_foreign(&self, memory: &mut Memory) -> HashSet<PeerId> {
        let mut to_come = HashSet::new();
        if self.keeps_to_itself.load(Relaxed) {
            return to_come;
        }
        self.find_foreign(memory);
        let mut held = self.held(memory);
        let before = memory.frozen.len();
        let taken_out: HashSet<Key> = memory.taken_out().map(|frozen| frozen.key).collect();
        for (owner, mut hosts) in std::mem::take(&mut memory.foreign) {
            let mut later = BTreeSet::new();
            let is_left_alone = memory.is_left_alone(&owner);
            while !is_left_alone
                && held.has_room(&owner)
                && let Some(host) = hosts.pop_first()
            {
                let key = Key::of_host(&host);
                if taken_out.contains(&key) {
                    // What was met of it since comes after it: once that has arrived, what is
                    // on disk of the host is looked at.
                    later.insert(host);
                    continue;
                }
                match self.preprocessor.freeze_at_once(&host) {
                    Some(Ok(site)) => {
                        held.add(Some(owner), site.bytes.len());
                        memory.frozen.push(OnTheWay::new(key, site));
                    }
                    Some(Err(error)) => {
                        let at_work = memory.at_work.entry(host.clone());
                        let at_work = at_work.or_insert_with(|| AtWork {
                            since: Instant::now(),
                            is_told: false,
                        });
                        tell_of_failure(&host, &error, &mut at_work.is_told);
                        if at_work.since.elapsed() >= FETCH_GRACE {
                            // Its URL waits again, and goes along.
                            self.dialer.cut_host(&host);
                        }
                        later.insert(host);
                    }
                    // It is not here any more.
                    None => {}
                }
            }
            hosts.append(&mut later);
            if !hosts.is_empty() {
                to_come.insert(owner);
                memory.foreign.insert(owner, hosts);
            }
        }
        to_come.extend(&memory.unnamed);
        let foreign = &memory.foreign;
        let is_to_come = |host: &_| foreign.values().any(|hosts| hosts.contains(host));
        memory.at_work.retain(|host, _| is_to_come(host));
        if memory.frozen.len() > before {
            self.preprocessor.let_go_of_moved();
        }
        to_come
    }

    /// Looks for sites that are another peer's by now: in memory each time, and on disk if
    /// ownership has changed, or not all could be named before.
    fn find_foreign(&self, memory: &mut Memory) {
        let ownership = self.view.current();
        let is_same = |last: &Arc<Ownership>| Arc::ptr_eq(last, &ownership);
        let is_new = !memory.looked_through.as_ref().is_some_and(is_same);
        let named = (self.most_bytes / NAME_BYTES) as usize;
        memory.most_named = (named / memory.offers.len().max(1)).max(LEAST_NAMED);
        if self.preprocessor.has_written(memory.left_at) {
            memory.left.clear();
        }
        let looks_on_disk = is_new || memory.lacks_names();
        if looks_on_disk {
            memory.unnamed.clear();
        }
        if is_new {
            for host in memory.staying.drain() {
                self.preprocessor.set_stays(&host, false);
            }
            for host in std::mem::take(&mut memory.foreign).into_values().flatten() {
                memory.note(&ownership, Key::of_host(&host), || host);
            }
        }
        for cell in self.preprocessor.sites() {
            let host = || cell.lock().site.host().into();
            memory.note(&ownership, Key(cell.key), host);
        }
        if looks_on_disk {
            // Those that were put away, and those of an earlier run. What is frozen is still
            // on disk.
            let frozen = memory.taken_out().map(|one| one.site.host().into());
            let frozen: HashSet<Box<str>> = frozen.collect();
            let is_foreign = |key| matches!(ownership.owner(key), Owner::Peer(_));
            self.preprocessor.for_each_host_on_disk(is_foreign, |host| {
                if !frozen.contains(host) && !memory.left.contains(host) {
                    memory.note(&ownership, Key::of_host(host), || host.into());
                }
            });
            memory.looked_through = Some(ownership);
        }
    }

    fn held(&self, memory: &Memory) -> Held {
        let mut held = Held {
            most: self.most_bytes,
            all: 0,
            of_owners: HashMap::new(),
        };
        for frozen in memory.taken_out() {
            let owner = match self.view.owner(frozen.key) {
                Owner::Peer(owner) => Some(owner),
                Owner::Me | Owner::Nobody => None,
            };
            held.add(owner, frozen.site.bytes.len());
        }
        held
    }

    /// Sites that have become ours again before they could leave. First of all: the longer
    /// they are away, the more is met of them meanwhile.
    fn take_own_back(&self, memory: &mut Memory) {
        let is_own = |frozen: &OnTheWay| self.view.owner(frozen.key) == Owner::Me;
        let frozen = std::mem::take(&mut memory.frozen).into_iter();
        let (own, others): (Vec<_>, Vec<_>) = frozen.partition(is_own);
        memory.frozen = others;
        for frozen in own {
            self.take_back(memory, frozen);
        }
    }

    fn take_back(&self, memory: &mut Memory, mut frozen: OnTheWay) {
        if let Err(error) = self.preprocessor.take_back(&frozen.site) {
            let host = frozen.site.host();
            tell_of_failure(host, &error, &mut frozen.is_failure_told);
            memory.frozen.push(frozen);
        }
    }

    /// A site whose owner will never take it: frozen, nobody would fetch it again. So it
    /// goes on here, until somebody else owns it.
    pub(super) fn keep(&self, owner: PeerId, memory: &mut Memory, frozen: OnTheWay) {
        let host: Box<str> = frozen.site.host().into();
        tracing::error!(
            "{owner} cannot take in {host}, whose record is of {} bytes: it stays here",
            frozen.site.bytes.len()
        );
        self.take_back(memory, frozen);
        self.preprocessor.set_stays(&host, true);
        memory.staying.insert(host);
    }
}

/// A site cannot be taken out or taken back now; it is tried again, and what is wrong with it
/// is told once.
pub(super) fn tell_of_failure(host: &str, error: &SiteRecordError, is_told: &mut bool) {
    match error {
        // Somebody is at work on it, or it is being written.
        SiteRecordError::Busy(_) | SiteRecordError::OnItsWay => {
            tracing::debug!("cannot move {host} yet: {error}");
        }
        _ if std::mem::replace(is_told, true) => {}
        _ => tracing::error!("cannot move {host}: {error}"),
    }
}

#[cfg(test)]
mod tests;
