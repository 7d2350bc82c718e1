//! The thread that moves sites to their owners, and welcomes newcomers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crossbeam_channel::{Receiver, after, never, select};
use peercrawl_overlay::{Overlay, PeerId, Purpose};

use super::arrivals::{Arrivals, SitePart};
use crate::crawl::{CrawlId, Crawls};
use crate::distribution::{Key, Owner, Ownership};
use crate::engine::{Offer, StopSignal, View, offer_of};
use crate::message::Message;
use crate::preprocessor::{Frozen, Preprocessor};

/// How soon what did not work is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// How long a peer has to take in one part.
const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes in one part.
const PART_BYTES: usize = 256 << 10;

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

/// What the thread remembers from round to round.
#[derive(Default)]
struct Memory {
    /// The offer of each peer that was answered last.
    welcomed: HashMap<PeerId, Offer>,
    /// Who has been told of which crawl.
    told: HashSet<(PeerId, CrawlId)>,
    frozen: Vec<OnTheWay>,
    transfers: u64,
    /// The ownership for which sites on disk were last looked through.
    looked_through: Option<Arc<Ownership>>,
}

impl HandoverSender {
    /// Works until the engine stops.
    pub fn run(&self) {
        let mut memory = Memory::default();
        loop {
            let is_done = self.round(&mut memory);
            let retry = if is_done { never() } else { after(RETRY) };
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
        let mut missed = HashSet::new();
        for frozen in std::mem::take(&mut memory.frozen) {
            match self.view.owner(frozen.key) {
                Owner::Me => self.take_back(&frozen.site),
                Owner::Peer(owner) => {
                    memory.transfers += 1;
                    let knows_crawls = self.introduce_crawls(owner, &frozen.site, &mut memory.told);
                    if knows_crawls && self.deliver(owner, memory.transfers, &frozen.site.bytes) {
                        self.preprocessor.has_left(&frozen.site);
                    } else {
                        missed.insert(owner);
                        memory.frozen.push(frozen);
                    }
                }
                Owner::Nobody => memory.frozen.push(frozen),
            }
        }
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

    /// Takes out every site that is another peer's by now.
    fn freeze_foreign(&self, memory: &mut Memory) {
        if self.keeps_to_itself.load(Relaxed) {
            return;
        }
        for cell in self.preprocessor.sites() {
            let host = cell.lock().site.host().to_owned();
            self.freeze_if_foreign(memory, &host);
        }
        let ownership = self.view.current();
        let is_new = |last: &Arc<Ownership>| !Arc::ptr_eq(last, &ownership);
        if memory.looked_through.as_ref().is_none_or(is_new) {
            // Those that were put away, and those of an earlier run.
            for host in self.preprocessor.hosts_on_disk() {
                self.freeze_if_foreign(memory, &host);
            }
            memory.looked_through = Some(ownership);
        }
    }

    fn freeze_if_foreign(&self, memory: &mut Memory, host: &str) {
        let key = Key::of_host(host);
        if matches!(self.view.owner(key), Owner::Me | Owner::Nobody) {
            return;
        }
        match self.preprocessor.freeze(host) {
            Some(Ok(site)) => memory.frozen.push(OnTheWay { key, site }),
            Some(Err(error)) => tracing::error!("cannot hand over {host}: {error}"),
            None => {}
        }
    }

    /// A site that has become ours again before it could leave.
    fn take_back(&self, site: &Frozen) {
        if let Err(error) = self.preprocessor.take_back(site) {
            tracing::error!("cannot take a site back: {error}");
        }
    }

    /// Tells a peer of a site's crawls: without their definitions it could do nothing with
    /// the URLs of the site. True if it knows all of them.
    fn introduce_crawls(
        &self,
        owner: PeerId,
        site: &Frozen,
        told: &mut HashSet<(PeerId, CrawlId)>,
    ) -> bool {
        site.crawls.iter().all(|&id| {
            // Asked for even if it was told of: a crawl that is asked for is not forgotten.
            let Some(crawl) = self.crawls.get(id) else {
                // Nobody knows any more what its URLs are for, here or there.
                return true;
            };
            told.contains(&(owner, id))
                || self.ask(owner, &Message::Crawl(crawl.definition.clone()))
                    && told.insert((owner, id))
        })
    }

    fn deliver(&self, owner: PeerId, transfer: u64, bytes: &[u8]) -> bool {
        let last = bytes.len().saturating_sub(1) / PART_BYTES;
        bytes.chunks(PART_BYTES).enumerate().all(|(part, bytes)| {
            let part = SitePart {
                transfer,
                part: part as u32,
                is_last: part == last,
                bytes: bytes.to_vec(),
            };
            self.ask(owner, &Message::Site(part))
        })
    }

    /// Asks a peer to take something; true if it says that it did.
    fn ask(&self, peer: PeerId, message: &Message) -> bool {
        let Ok(bytes) = message.encode() else {
            return false;
        };
        let reply = self
            .overlay
            .request(peer, Purpose::Handover, bytes.into(), DEADLINE);
        let answer = reply.ok().and_then(|reply| reply.wait());
        answer.is_some_and(|bytes| matches!(Message::decode(&bytes), Ok(Message::Taken(true))))
    }
}
