//! The thread that moves sites to their owners, and welcomes newcomers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crossbeam_channel::{Receiver, after, never, select};
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
/// How long a peer has to take in one part.
const DEADLINE: Duration = Duration::from_secs(10);
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

/// A site whose last part has been sent, or could not be.
struct Sent {
    frozen: OnTheWay,
    owner: PeerId,
    /// What its owner says to it.
    reply: Option<Reply>,
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
#[derive(Default)]
struct Memory {
    /// The offer of each peer that was answered last.
    welcomed: HashMap<PeerId, Offer>,
    /// Who has been told of which crawl.
    told: HashSet<(PeerId, CrawlId)>,
    frozen: Vec<OnTheWay>,
    /// Hosts whose owner cannot take them: they stay here until ownership changes.
    staying: HashSet<Box<str>>,
    transfers: u64,
    /// Rounds in a row in which no site that had to move could.
    in_vain: u32,
    /// The ownership for which sites on disk were last looked through.
    looked_through: Option<Arc<Ownership>>,
}

impl HandoverSender {
    /// Works until the engine stops.
    pub fn run(&self) {
        let mut memory = Memory::default();
        loop {
            let is_done = self.round(&mut memory);
            let doublings = (memory.in_vain / PATIENT_TRIES).min(MOST_DOUBLINGS);
            let retry = match is_done {
                true => never(),
                false => after(RETRY * (1 << doublings)),
            };
            select! {
                recv(self.changed) -> _ => {}
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

        self.freeze_foreign(memory);
        let to_move = memory.frozen.len();
        let missed = self.move_frozen(memory);
        memory.in_vain = match memory.frozen.len() < to_move || missed.is_empty() {
            true => 0,
            false => memory.in_vain.saturating_add(1),
        };
        // Somebody who is there may not have said yet that it takes a part: what becomes
        // its own when it does has not been sent.
        let mut is_done = memory.frozen.is_empty();
        for (peer, offer) in offers {
            if offer.capacity == 0 || memory.welcomed.contains_key(&peer) {
                continue;
            }
            if !missed.contains(&peer) && self.ask(peer, &Message::Welcome(offer)) {
                memory.welcomed.insert(peer, offer);
            } else {
                is_done = false;
            }
        }
        is_done && !self.arrivals.is_waiting()
    }

    /// Moves sites that were taken out to their owners; gives the owners who took one not.
    fn move_frozen(&self, memory: &mut Memory) -> HashSet<PeerId> {
        let mut missed = HashSet::new();
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
            self.hear(memory, &mut missed, &mut under_way, room);
            match self.deliver(owner, memory, &frozen.site) {
                Ok(reply) => under_way.push_back(Sent {
                    frozen,
                    owner,
                    reply,
                }),
                Err(delivery) => self.conclude(memory, &mut missed, owner, frozen, delivery),
            }
            self.hear(memory, &mut missed, &mut under_way, room);
        }
        self.hear(memory, &mut missed, &mut under_way, 1);
        missed
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
            let delivery = match heard(sent.reply) {
                Some(Message::Taken(true)) => Delivery::Arrived,
                Some(Message::Unfit) => Delivery::Unfit,
                _ => Delivery::Missed,
            };
            self.conclude(memory, missed, sent.owner, sent.frozen, delivery);
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

    /// Takes out every site that is another peer's by now.
    fn freeze_foreign(&self, memory: &mut Memory) {
        if self.keeps_to_itself.load(Relaxed) {
            return;
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
            self.freeze_if_foreign(memory, &host);
        }
        if is_new {
            // Those that were put away, and those of an earlier run.
            for host in self.preprocessor.hosts_on_disk() {
                self.freeze_if_foreign(memory, &host);
            }
            memory.looked_through = Some(ownership);
        }
    }

    fn freeze_if_foreign(&self, memory: &mut Memory, host: &str) {
        let key = Key::of_host(host);
        let is_ours = matches!(self.view.owner(key), Owner::Me | Owner::Nobody);
        if is_ours || memory.staying.contains(host) {
            return;
        }
        match self.preprocessor.freeze(host) {
            Some(Ok(site)) => memory.frozen.push(OnTheWay { key, site }),
            Some(Err(error)) => tracing::error!("cannot hand over {host}: {error}"),
            None => {}
        }
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

    /// Sends a site to its owner, and before it the definitions of its crawls: without them
    /// the owner could do nothing with its URLs. Gives what will be said to its last part.
    fn deliver(
        &self,
        owner: PeerId,
        memory: &mut Memory,
        site: &Frozen,
    ) -> Result<Option<Reply>, Delivery> {
        for &id in &site.crawls {
            // Asked for even if it was told of: a crawl that is asked for is not forgotten.
            let Some(crawl) = self.crawls.get(id) else {
                // Nobody knows any more what its URLs are for, here or there.
                return Err(Delivery::Unfit);
            };
            if !memory.told.contains(&(owner, id)) {
                if !self.ask(owner, &Message::Crawl(crawl.definition.clone())) {
                    return Err(Delivery::Missed);
                }
                memory.told.insert((owner, id));
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
            let reply = self.send(owner, &Message::Site(part));
            if is_last {
                return Ok(reply);
            }
            match heard(reply) {
                Some(Message::Taken(true)) => {}
                Some(Message::Unfit) => return Err(Delivery::Unfit),
                _ => return Err(Delivery::Missed),
            }
        }
        Err(Delivery::Missed)
    }

    /// Asks a peer to take something; true if it says that it did.
    fn ask(&self, peer: PeerId, message: &Message) -> bool {
        matches!(heard(self.send(peer, message)), Some(Message::Taken(true)))
    }

    fn send(&self, peer: PeerId, message: &Message) -> Option<Reply> {
        let bytes = message.encode().ok()?;
        let sent = self
            .overlay
            .request(peer, Purpose::Handover, bytes.into(), DEADLINE);
        sent.ok()
    }
}

/// What a peer answers, if it does.
fn heard(reply: Option<Reply>) -> Option<Message> {
    Message::decode(&reply?.wait()?).ok()
}
