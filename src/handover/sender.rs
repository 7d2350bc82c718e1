//! The thread that moves sites to their owners, and welcomes newcomers.
//!
//! It works in rounds, in which nobody waits for one peer or one site alone. A site that
//! is being fetched from is left for a later round. Peers are asked all at once, and only
//! the parts of a large record one after another. A peer that does not answer in time is
//! left alone for a while, which grows: members that are silent must not keep newcomers
//! from their sites.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, never, select};
use peercrawl_overlay::back_off::BackOff;
use peercrawl_overlay::{Overlay, PeerId, Purpose, Reply};

use super::arrivals::Arrivals;
use super::transfers::SitePart;
use crate::crawl::{CrawlId, Crawls};
use crate::distribution::{Key, Owner, Ownership};
use crate::engine::{Offer, StopSignal, View, offer_of};
use crate::message::Message;
use crate::preprocessor::{Frozen, Preprocessor};

/// How soon what did not work is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// After so many tries in vain the wait doubles, and so often at most.
const PATIENT_TRIES: u32 = 10;
const MOST_DOUBLINGS: u32 = 5;
/// How long a peer has to take in one part: it may be on a slow line, and has to bring the
/// last part to its disk.
const PART_DEADLINE: Duration = Duration::from_secs(10);
/// How long it has to answer everything else.
const DEADLINE: Duration = Duration::from_secs(2);
/// Bytes in one part.
const PART_BYTES: usize = 256 << 10;

/// Records of one part that are under way at a time: each waits for its new owner's disk.
const AT_ONCE: usize = 64;

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
    /// The other direction.
    pub arrivals: Arc<Arrivals>,
    /// Tells when the view has changed.
    pub changed: Receiver<()>,
    /// Tells when to end.
    pub stop: StopSignal,
}

/// A site that was frozen and has not reached its owner yet.
struct OnTheWay {
    key: Key,
    site: Frozen,
}

/// A peer that was asked something, or could not be.
struct Asked {
    peer: PeerId,
    reply: Option<Reply>,
    until: Instant,
}

/// A site whose last part has been sent, or could not be.
struct Sent {
    frozen: OnTheWay,
    /// Its owner, who is to say something to it.
    asked: Asked,
}

/// What became of a site that was to move.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivery {
    /// Its owner has it.
    Arrived,
    /// Not this time.
    Missed,
    /// Its owner will never take it.
    Unfit,
}

/// What the thread remembers from round to round.
struct Memory {
    /// The time counts from here.
    begun: Instant,
    /// Who did not answer, and is left alone.
    silent: BackOff<PeerId>,
    /// The offer of each peer that was answered last.
    welcomed: HashMap<PeerId, Offer>,
    /// Who has been told of which crawl.
    told: HashSet<(PeerId, CrawlId)>,
    frozen: Vec<OnTheWay>,
    /// Hosts whose owner cannot take them: they stay here until ownership changes.
    staying: HashSet<Box<str>>,
    transfers: u64,
    /// Rounds in a row in which something was left to do and nothing could be done.
    in_vain: u32,
    /// The ownership for which sites on disk were last looked through.
    looked_through: Option<Arc<Ownership>>,
}

impl Memory {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            silent: BackOff::default(),
            welcomed: HashMap::new(),
            told: HashSet::new(),
            frozen: Vec::new(),
            staying: HashSet::new(),
            transfers: 0,
            in_vain: 0,
            looked_through: None,
        }
    }

    /// Whether nothing is left to say to a peer with this offer. Somebody who is there may
    /// not have said yet that it takes a part: what becomes its own when it does has not
    /// been sent.
    fn is_welcome(&self, peer: &PeerId, offer: &Offer) -> bool {
        offer.capacity == 0 || self.welcomed.contains_key(peer)
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Whether a peer is left alone, because it did not answer.
    fn is_left_alone(&self, peer: &PeerId) -> bool {
        !self.silent.is_due(peer, self.now_ms())
    }

    /// Waits for what a peer says, if it does in time.
    fn answer_to(&mut self, asked: Asked) -> Option<Message> {
        let answer = asked.reply?.wait();
        // One failure for however many questions. Who had no room for the question is not
        // late, unless others were waited for first.
        let is_late = answer.is_none() && Instant::now() >= asked.until;
        if is_late && !self.is_left_alone(&asked.peer) {
            self.silent.failed(asked.peer, self.now_ms(), 1.0);
        }
        Message::decode(&answer?).ok()
    }
}

impl HandoverSender {
    /// Works until the engine stops.
    pub fn run(&self) {
        let mut memory = Memory::new();
        loop {
            let is_done = self.round(&mut memory);
            let doublings = (memory.in_vain / PATIENT_TRIES).min(MOST_DOUBLINGS);
            let retry = match is_done {
                true => never(),
                false => after(RETRY * (1 << doublings)),
            };
            select! {
                // What was in vain before may not be so now.
                recv(self.changed) -> _ => memory.in_vain = 0,
                recv(retry) -> _ => {}
                recv(self.stop) -> _ => return,
            }
        }
    }

    /// Moves what has to move; true if nothing is left to do until the view changes.
    fn round(&self, memory: &mut Memory) -> bool {
        self.arrivals.look_around(&*self.overlay);
        // Before ownership follows them: an offer that is answered has been followed.
        let me = self.overlay.me();
        let members = self.overlay.members();
        let others = members.iter().filter(|member| member.id != me);
        let offers: HashMap<_, _> = others.map(|one| (one.id, offer_of(one))).collect();
        self.view.refresh();
        // In this order: whoever has found its network knows the members.
        let is_joining = self.overlay.is_joining();
        self.arrivals.look_around(&*self.overlay);
        self.arrivals.set_joining(is_joining);
        memory.told.retain(|(peer, _)| offers.contains_key(peer));
        let is_current = |peer: &PeerId, offer: &mut Offer| offers.get(peer) == Some(offer);
        memory.welcomed.retain(is_current);

        let to_come = self.freeze_foreign(memory);
        let (to_move, welcomed) = (memory.frozen.len(), memory.welcomed.len());
        let resting = offers.keys().filter(|peer| memory.is_left_alone(peer));
        let mut missed: HashSet<PeerId> = resting.copied().collect();
        self.tell_of_crawls(memory, &mut missed);
        self.move_frozen(memory, &mut missed);
        let has_all = |peer: &PeerId| !missed.contains(peer) && !to_come.contains(peer);
        let to_welcome = offers.iter().filter(|(peer, _)| has_all(peer));
        let unheard = self.welcome(memory, to_welcome);
        missed.extend(unheard);
        // Whoever has taken all that it was to take is silent no more.
        for peer in offers.keys().filter(|peer| !missed.contains(peer)) {
            memory.silent.succeeded(peer);
        }
        let mut offers = offers.iter();
        let is_done = memory.frozen.is_empty()
            && to_come.is_empty()
            && offers.all(|(peer, offer)| memory.is_welcome(peer, offer));
        let is_waiting = self.arrivals.is_waiting();
        let has_gone_on = memory.frozen.len() < to_move || memory.welcomed.len() > welcomed;
        memory.in_vain = match is_done || is_waiting || has_gone_on {
            true => 0,
            false => memory.in_vain.saturating_add(1),
        };
        is_done && !is_waiting
    }

    /// Welcomes those of these peers who have not been; gives those who did not answer.
    fn welcome<'a>(
        &self,
        memory: &mut Memory,
        offers: impl Iterator<Item = (&'a PeerId, &'a Offer)>,
    ) -> Vec<PeerId> {
        let offers = offers.filter(|(peer, offer)| !memory.is_welcome(peer, offer));
        let asked: Vec<_> = offers
            .map(|(&peer, &offer)| (offer, self.send(peer, &Message::Welcome(offer), DEADLINE)))
            .collect();
        let mut unheard = Vec::new();
        for (offer, asked) in asked {
            let peer = asked.peer;
            if memory.answer_to(asked) == Some(Message::Taken(true)) {
                memory.welcomed.insert(peer, offer);
            } else {
                unheard.push(peer);
            }
        }
        unheard
    }

    /// Tells owners of the crawls of the sites that they are to get: without them they could
    /// do nothing with the URLs. Owners who do not answer are added to `missed`.
    fn tell_of_crawls(&self, memory: &mut Memory, missed: &mut HashSet<PeerId>) {
        let mut asked = HashMap::new();
        for frozen in &memory.frozen {
            let owner = match self.view.owner(frozen.key) {
                Owner::Peer(owner) if !missed.contains(&owner) => owner,
                _ => continue,
            };
            for &id in &frozen.site.crawls {
                let told = (owner, id);
                let is_told = memory.told.contains(&told) || asked.contains_key(&told);
                if !is_told && let Some(crawl) = self.crawls.get(id) {
                    let message = Message::Crawl(crawl.definition.clone());
                    asked.insert(told, self.send(owner, &message, DEADLINE));
                }
            }
        }
        for (told, asked) in asked {
            match memory.answer_to(asked) {
                Some(Message::Taken(true)) => {
                    memory.told.insert(told);
                }
                // It takes no part in that crawl for now. Sites of others may go.
                Some(_) => {}
                None => {
                    missed.insert(told.0);
                }
            }
        }
    }

    /// Moves sites that were taken out to their owners, but for those in `missed`; owners who
    /// do not take one are added to them.
    fn move_frozen(&self, memory: &mut Memory, missed: &mut HashSet<PeerId>) {
        let mut under_way = VecDeque::new();
        for frozen in std::mem::take(&mut memory.frozen) {
            let owner = match self.view.owner(frozen.key) {
                Owner::Me => {
                    self.take_back(memory, frozen);
                    continue;
                }
                Owner::Peer(owner) if !missed.contains(&owner) => owner,
                _ => {
                    memory.frozen.push(frozen);
                    continue;
                }
            };
            // A record of several parts has its receiver's attention alone: the beginning of
            // another would end it.
            let room = match frozen.site.bytes.len() > PART_BYTES {
                true => 1,
                false => AT_ONCE,
            };
            self.hear(memory, missed, &mut under_way, room);
            match self.deliver(owner, memory, &frozen.site) {
                Ok(asked) => under_way.push_back(Sent { frozen, asked }),
                Err(delivery) => self.conclude(memory, missed, owner, frozen, delivery),
            }
            self.hear(memory, missed, &mut under_way, room);
        }
        self.hear(memory, missed, &mut under_way, 1);
    }

    /// Waits for the word of owners on the last parts of sites until fewer than `room` are
    /// under way.
    fn hear(
        &self,
        memory: &mut Memory,
        missed: &mut HashSet<PeerId>,
        under_way: &mut VecDeque<Sent>,
        room: usize,
    ) {
        while under_way.len() >= room
            && let Some(sent) = under_way.pop_front()
        {
            let owner = sent.asked.peer;
            let delivery = match memory.answer_to(sent.asked) {
                Some(Message::Taken(true)) => Delivery::Arrived,
                Some(Message::Unfit) => Delivery::Unfit,
                _ => Delivery::Missed,
            };
            self.conclude(memory, missed, owner, sent.frozen, delivery);
        }
    }

    fn conclude(
        &self,
        memory: &mut Memory,
        missed: &mut HashSet<PeerId>,
        owner: PeerId,
        frozen: OnTheWay,
        delivery: Delivery,
    ) {
        match delivery {
            Delivery::Arrived => self.preprocessor.has_left(&frozen.site),
            Delivery::Missed => {
                missed.insert(owner);
                // It may have forgotten them.
                memory.told.retain(|(peer, _)| *peer != owner);
                memory.frozen.push(frozen);
            }
            Delivery::Unfit => self.keep(owner, memory, frozen),
        }
    }

    /// Takes out every site that is another peer's by now, but for those that somebody is
    /// at work on: their owners, who have something to come, are given.
    fn freeze_foreign(&self, memory: &mut Memory) -> HashSet<PeerId> {
        let mut to_come = HashSet::new();
        if self.keeps_to_itself.load(Relaxed) {
            return to_come;
        }
        let ownership = self.view.current();
        let is_new = |last: &Arc<Ownership>| !Arc::ptr_eq(last, &ownership);
        let is_new = memory.looked_through.as_ref().is_none_or(is_new);
        if is_new {
            for host in memory.staying.drain() {
                self.preprocessor.set_stays(&host, false);
            }
        }
        for cell in self.preprocessor.sites() {
            let host = cell.lock().site.host().to_owned();
            to_come.extend(self.freeze_if_foreign(memory, &host));
        }
        if is_new {
            // Those that were put away, and those of an earlier run.
            for host in self.preprocessor.hosts_on_disk() {
                to_come.extend(self.freeze_if_foreign(memory, &host));
            }
            memory.looked_through = Some(ownership);
        }
        to_come
    }

    /// Gives the owner of a site that could not be taken out yet.
    fn freeze_if_foreign(&self, memory: &mut Memory, host: &str) -> Option<PeerId> {
        let key = Key::of_host(host);
        let Owner::Peer(owner) = self.view.owner(key) else {
            return None;
        };
        if memory.staying.contains(host) {
            return None;
        }
        match self.preprocessor.freeze_at_once(host) {
            Some(Ok(site)) => memory.frozen.push(OnTheWay { key, site }),
            Some(Err(error)) => tracing::error!("cannot hand over {host}: {error}"),
            None => return Some(owner),
        }
        None
    }

    /// A site that has become ours again before it could leave.
    fn take_back(&self, memory: &mut Memory, frozen: OnTheWay) {
        if let Err(error) = self.preprocessor.take_back(&frozen.site) {
            tracing::error!("cannot take a site back yet: {error}");
            memory.frozen.push(frozen);
        }
    }

    /// A site whose owner will never take it: frozen, nobody would fetch it again. So it
    /// goes on here, until somebody else owns it.
    fn keep(&self, owner: PeerId, memory: &mut Memory, frozen: OnTheWay) {
        let host: Box<str> = frozen.site.host().into();
        tracing::error!(
            "{owner} cannot take in {host}, whose record is of {} bytes: it stays here",
            frozen.site.bytes.len()
        );
        self.take_back(memory, frozen);
        self.preprocessor.set_stays(&host, true);
        memory.staying.insert(host);
    }

    /// Sends a site to its owner, who knows its crawls by now, or will in a later round.
    /// Gives what will be said to its last part.
    fn deliver(
        &self,
        owner: PeerId,
        memory: &mut Memory,
        site: &Frozen,
    ) -> Result<Asked, Delivery> {
        for &id in &site.crawls {
            // Asked for even if it was told of: a crawl that is asked for is not forgotten.
            if self.crawls.get(id).is_none() {
                // Nobody knows any more what its URLs are for, here or there.
                return Err(Delivery::Unfit);
            }
            if !memory.told.contains(&(owner, id)) {
                return Err(Delivery::Missed);
            }
        }
        memory.transfers += 1;
        let last = site.bytes.len().saturating_sub(1) / PART_BYTES;
        for (part, bytes) in site.bytes.chunks(PART_BYTES).enumerate() {
            let is_last = part == last;
            let part = SitePart {
                transfer: memory.transfers,
                part: part as u32,
                is_last,
                bytes: bytes.to_vec(),
            };
            let asked = self.send(owner, &Message::Site(part), PART_DEADLINE);
            if is_last {
                return Ok(asked);
            }
            match memory.answer_to(asked) {
                Some(Message::Taken(true)) => {}
                Some(Message::Unfit) => return Err(Delivery::Unfit),
                _ => return Err(Delivery::Missed),
            }
        }
        Err(Delivery::Missed)
    }

    fn send(&self, peer: PeerId, message: &Message, deadline: Duration) -> Asked {
        let until = Instant::now() + deadline;
        let request = |bytes: Vec<u8>| {
            let (overlay, purpose) = (&self.overlay, Purpose::Handover);
            overlay.request(peer, purpose, bytes.into(), deadline).ok()
        };
        Asked {
            peer,
            reply: message.encode().ok().and_then(request),
            until,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocklist::BlockList;
    use crate::canonical::CanonicalForm;
    use crate::clock::Clock;
    use crate::config::Settings;
    use crate::crawl::{Crawl, CrawlDefinition};
    use crate::crawl_jobs::CrawlJobs;
    use crate::fingerprint::url_fingerprint;
    use crate::handing_on::Outbox;
    use crate::ledger::Ledger;
    use crate::limits::Limits;
    use crate::preprocessor::Candidate;
    use crate::record::UrlRecord;
    use crate::url_range_validator::UrlRangeValidator;
    use peercrawl_overlay::Event;
    use peercrawl_overlay::memory::{MemoryNetwork, MemoryOverlay};

    /// A member with a part of the web.
    fn member(network: &MemoryNetwork, number: u8) -> MemoryOverlay {
        let overlay = network.join(PeerId::repeat(number));
        let facts = ((16_u8, 1_u16), None::<u32>, [0_u16; 3]);
        overlay.announce(postcard::to_stdvec(&facts).unwrap().into());
        overlay
    }

    /// Takes all that a member is sent, until it is welcomed; gives the number of sites.
    fn take_until_welcomed(member: &MemoryOverlay) -> usize {
        let mut sites = 0;
        loop {
            let event = member.events().recv_timeout(Duration::from_secs(120));
            let Event::Request { bytes, replier, .. } = event.unwrap() else {
                continue;
            };
            replier.answer(Message::Taken(true).encode().unwrap());
            match Message::decode(&bytes).unwrap() {
                Message::Site(_) => sites += 1,
                Message::Welcome(_) => return sites,
                _ => {}
            }
        }
    }

    /// A peer whose handover is done by hand.
    struct Home {
        sender: HandoverSender,
        jobs: Arc<CrawlJobs>,
        crawl: Arc<Crawl>,
    }

    impl Home {
        fn new(network: &MemoryNetwork) -> Self {
            let settings = Settings::default();
            let overlay: Arc<dyn Overlay> = Arc::new(member(network, 1));
            let view = Arc::new(View::new(overlay.clone(), &settings.distribution));
            let jobs = Arc::new(CrawlJobs::new(
                Clock::start(),
                Arc::default(),
                Arc::default(),
                false,
                Limits::new(&settings.limits).gate.clone(),
                Ledger::nothing(),
            ));
            let preprocessor = Arc::new(Preprocessor::new(
                &settings,
                jobs.clone(),
                Arc::default(),
                Ledger::nothing(),
                Arc::new(BlockList::new(&settings.crawl, 0)),
            ));
            let outbox = Outbox::new(
                settings.handing_on.clone(),
                Arc::default(),
                jobs.outstanding.clone(),
                Ledger::nothing(),
            );
            let range = UrlRangeValidator {
                view: view.clone(),
                preprocessor: preprocessor.clone(),
                outbox: Arc::new(outbox),
                allow_private: false,
                counters: Arc::default(),
            };
            let (crawls, form) = (Arc::new(Crawls::default()), CanonicalForm::new(&[]));
            let definition = CrawlDefinition::from_settings(&settings.crawl);
            let crawl = crawls.add(definition, &form);
            let arrivals = Arrivals::new(
                jobs.clone(),
                Arc::new(range),
                crawls.clone(),
                Arc::new(form),
                settings.memory.limit_bytes,
                Offer::first(16),
            );
            let sender = HandoverSender {
                overlay,
                view,
                keeps_to_itself: Arc::default(),
                preprocessor,
                crawls,
                arrivals: Arc::new(arrivals),
                changed: never(),
                stop: never(),
            };
            Self {
                sender,
                jobs,
                crawl,
            }
        }

        /// Hosts of these owners, so many of each, with one URL each. Their names are being
        /// looked up.
        fn sites_of(&self, owners: &[PeerId], of_each: usize) -> Vec<String> {
            self.sender.view.refresh();
            let owner_of = |host: &str| self.sender.view.owner(Key::of_host(host));
            let mut hosts = Vec::new();
            for &owner in owners {
                let all = (0..).map(|number| format!("h{number}.example"));
                let its = all.filter(|host| owner_of(host) == Owner::Peer(owner));
                hosts.extend(its.take(of_each));
            }
            for host in &hosts {
                let url = CanonicalForm::new(&[]).parse(&format!("http://{host}/"));
                let url = url.unwrap();
                let candidate = Candidate {
                    key: Key::of_host(host),
                    fingerprint: url_fingerprint(url.as_str()),
                    record: UrlRecord {
                        url,
                        crawl: self.crawl.definition.id(),
                        depth: 0,
                        redirects: 0,
                        from: None,
                    },
                };
                let preprocessor = &self.sender.preprocessor;
                preprocessor.admit(&self.crawl, [candidate], |_| {});
            }
            hosts
        }

        /// Nobody is at work on this site any more.
        fn let_go(&self, host: &str) {
            for cell in self.sender.preprocessor.sites() {
                let mut state = cell.lock();
                if state.site.host() == host {
                    self.jobs.unresolved(&cell, &mut state);
                }
            }
        }
    }

    /// Each member that did not answer once cost ten seconds, in every round.
    #[test]
    fn silent_members_are_waited_for_together_and_then_left_alone() {
        let network = MemoryNetwork::new();
        let home = Home::new(&network);
        let silent: Vec<_> = (2..7).map(|number| member(&network, number)).collect();
        let other = member(&network, 7);
        let ids: Vec<_> = silent.iter().chain([&other]).map(|one| one.me()).collect();
        for host in home.sites_of(&ids, 2) {
            home.let_go(&host);
        }
        let mut memory = Memory::new();
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| take_until_welcomed(&other));
            home.sender.round(&mut memory);
            assert_eq!(other.join().unwrap(), 2);
        });
        // In a row, they would take all of their time.
        assert!(begun.elapsed() < DEADLINE * silent.len() as u32);
        assert_eq!(memory.frozen.len(), 2 * silent.len());
        assert!(memory.welcomed.keys().eq([&other.me()]));
        assert!(memory.silent.is_due(&other.me(), 0));
        for one in &silent {
            assert!(!memory.silent.is_due(&one.me(), 0), "it is left alone");
            let events = one.events();
            let asked = events
                .try_iter()
                .filter(|event| matches!(event, Event::Request { .. }));
            assert_eq!(asked.count(), 1, "and asked nothing more");
        }
    }

    /// A fetch of a minute once held up every other site, and every welcome.
    #[test]
    fn a_site_that_is_at_work_moves_in_a_later_round_and_the_welcome_after_it() {
        let network = MemoryNetwork::new();
        let home = Home::new(&network);
        let other = member(&network, 2);
        let hosts = home.sites_of(&[other.me()], 2);
        home.let_go(&hosts[0]);
        let mut memory = Memory::new();
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| take_until_welcomed(&other));
            assert!(!home.sender.round(&mut memory));
            assert!(memory.welcomed.is_empty(), "there is something to come");
            let left = home.sender.preprocessor.sites();
            assert_eq!(left.len(), 1);
            assert_eq!(left[0].lock().site.host(), hosts[1]);
            assert!(memory.frozen.is_empty(), "the other has left");
            home.let_go(&hosts[1]);
            home.sender.round(&mut memory);
            assert_eq!(taken.join().unwrap(), 2);
        });
        assert!(memory.welcomed.contains_key(&other.me()));
        assert_eq!(home.jobs.outstanding.count(), 0);
    }
}
