//! What the overlay's task and its handle both see: counters, and views that the task
//! writes and the handle reads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libp2p::Multiaddr;

use super::bounds::Bounds;
use super::contacts::Contacts;
use crate::envelope::Errand;
use crate::{Member, PeerId, Purpose, Reachability, Refusal, Statistics, Traffic};

/// Refusals remembered.
const REFUSALS: usize = 64;
/// Addresses that the user may have named and that were not looked at yet.
const SOUGHT: usize = 1_024;
/// Messages of a leaf that may be under way: they go over few links, and maybe over one.
const MOST_OF_LEAF: u32 = 512;

/// What a message is for, in the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Keeps the network together.
    Membership,
    /// Brings URLs, or receipts for them.
    Urls,
    /// Is about contents that were seen.
    Content,
    /// Brings sites to their new owners.
    Handover,
    /// Is carried for others.
    Carried,
}

impl From<Purpose> for Use {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Urls => Self::Urls,
            Purpose::Content => Self::Content,
            Purpose::Handover => Self::Handover,
        }
    }
}

impl From<Errand> for Use {
    fn from(errand: Errand) -> Self {
        errand.purpose().map_or(Self::Membership, Self::from)
    }
}

#[derive(Default)]
struct Count {
    messages_sent: AtomicU64,
    bytes_sent: AtomicU64,
    messages_received: AtomicU64,
    bytes_received: AtomicU64,
}

impl Count {
    fn traffic(&self) -> Traffic {
        Traffic {
            messages_sent: self.messages_sent.load(Relaxed),
            bytes_sent: self.bytes_sent.load(Relaxed),
            messages_received: self.messages_received.load(Relaxed),
            bytes_received: self.bytes_received.load(Relaxed),
        }
    }
}

/// How a peer is connected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether others can connect to it.
    pub reachability: Reachability,
    /// Connections that lead straight to others.
    pub direct: usize,
    /// Connections through a relay.
    pub relayed: usize,
    /// Connections through a relay that have become direct.
    pub upgraded: u64,
    /// Relays at which it has a place.
    pub relays: usize,
    /// Connections between others that lead through it.
    pub carried: usize,
}

/// Counts what goes through.
#[derive(Default)]
pub struct Counters {
    /// The same for each peer.
    pub contacts: Contacts,
    uses: [Count; 5],
    dropped: AtomicU64,
    gossip_heard: AtomicU64,
    gossip_lost: AtomicU64,
    addresses_refused: AtomicU64,
    socket_sent: AtomicU64,
    socket_received: AtomicU64,
    standing: Mutex<Standing>,
}

impl Counters {
    /// So many copies of a message of so many bytes went out.
    pub fn sent(&self, of: Use, copies: usize, bytes: usize) {
        let count = &self.uses[of as usize];
        count.messages_sent.fetch_add(copies as u64, Relaxed);
        count.bytes_sent.fetch_add((copies * bytes) as u64, Relaxed);
    }

    /// A message of so many bytes came in.
    pub fn received(&self, of: Use, bytes: usize) {
        let count = &self.uses[of as usize];
        count.messages_received.fetch_add(1, Relaxed);
        count.bytes_received.fetch_add(bytes as u64, Relaxed);
    }

    /// A message was lost here.
    pub fn dropped(&self, messages: usize) {
        self.dropped.fetch_add(messages as u64, Relaxed);
    }

    /// A gossip message came in; gives how many there have been.
    pub fn heard_gossip(&self) -> u64 {
        self.gossip_heard.fetch_add(1, Relaxed) + 1
    }

    /// One of them was lost on purpose.
    pub fn lost_gossip(&self) {
        self.gossip_lost.fetch_add(1, Relaxed);
        self.dropped(1);
    }

    /// Addresses that others named are not dialled.
    pub fn refused_addresses(&self, addresses: usize) {
        self.addresses_refused.fetch_add(addresses as u64, Relaxed);
    }

    /// Bytes went out over a socket.
    pub fn socket_sent(&self, bytes: usize) {
        self.socket_sent.fetch_add(bytes as u64, Relaxed);
    }

    /// Bytes came in over a socket.
    pub fn socket_received(&self, bytes: usize) {
        self.socket_received.fetch_add(bytes as u64, Relaxed);
    }

    /// Replaces how this peer is connected.
    pub fn set_standing(&self, standing: Standing) {
        *lock(&self.standing) = standing;
    }

    /// Everything so far.
    pub fn statistics(&self) -> Statistics {
        let standing = *lock(&self.standing);
        let traffic = |of: Use| self.uses[of as usize].traffic();
        let all = self.uses.each_ref().map(Count::traffic);
        let sum = |part: fn(&Traffic) -> u64| all.iter().map(part).sum();
        Statistics {
            messages_sent: sum(|traffic| traffic.messages_sent),
            bytes_sent: sum(|traffic| traffic.bytes_sent),
            messages_received: sum(|traffic| traffic.messages_received),
            bytes_received: sum(|traffic| traffic.bytes_received),
            messages_dropped: self.dropped.load(Relaxed),
            gossip_heard: self.gossip_heard.load(Relaxed),
            gossip_lost: self.gossip_lost.load(Relaxed),
            addresses_refused: self.addresses_refused.load(Relaxed),
            membership: traffic(Use::Membership),
            urls: traffic(Use::Urls),
            content: traffic(Use::Content),
            handover: traffic(Use::Handover),
            carried: traffic(Use::Carried),
            socket_bytes_sent: self.socket_sent.load(Relaxed),
            socket_bytes_received: self.socket_received.load(Relaxed),
            reachability: standing.reachability,
            direct_connections: standing.direct as u64,
            relayed_connections: standing.relayed as u64,
            upgraded_connections: standing.upgraded,
            relays: standing.relays as u64,
            circuits_carried: standing.carried as u64,
        }
    }
}

/// Messages, and their bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    count: u32,
    bytes: usize,
}

impl Load {
    fn has_room(self, bytes: usize, most: Self) -> bool {
        self.count < most.count && self.bytes + bytes <= most.bytes
    }

    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// This peer's own messages that have neither arrived nor been lost yet.
#[derive(Default)]
struct UnderWay {
    to: BTreeMap<PeerId, Load>,
    all: Load,
}

/// See the module. No lock is held for longer than a copy takes.
pub struct Shared {
    /// What goes through.
    pub counters: Arc<Counters>,
    bounds: Bounds,
    /// Set by the handle when it leaves, and by the task when it ends.
    pub has_left: AtomicBool,
    /// Set by the task while it looks for a network that it knows of.
    pub is_joining: AtomicBool,
    /// Set to end the task as a crash would.
    pub is_aborted: AtomicBool,
    /// Set by the handle while this peer does nothing for others.
    pub is_resting: AtomicBool,
    /// Set by the task while this peer speaks to its supernodes alone.
    pub is_leaf: AtomicBool,
    /// Set by the handle: whether the user lets this peer be a supernode.
    pub may_be_supernode: AtomicBool,
    members: Mutex<Arc<[Member]>>,
    facts: Mutex<Arc<[u8]>>,
    listening: Mutex<Vec<String>>,
    callable: Mutex<Vec<String>>,
    /// Where the user knows of somebody, until the task has looked.
    sought: Mutex<Vec<Multiaddr>>,
    refusals: Mutex<VecDeque<Refusal>>,
    under_way: Mutex<UnderWay>,
    offenders: Mutex<Vec<PeerId>>,
}

/// Every change under these locks is one call: a panic elsewhere leaves them whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Nothing has happened yet.
    pub fn new(counters: Arc<Counters>, bounds: Bounds) -> Self {
        Self {
            counters,
            bounds,
            has_left: AtomicBool::new(false),
            is_joining: AtomicBool::new(false),
            is_aborted: AtomicBool::new(false),
            is_resting: AtomicBool::new(false),
            is_leaf: AtomicBool::new(false),
            may_be_supernode: AtomicBool::new(true),
            members: Mutex::new(Arc::new([])),
            facts: Mutex::new(Arc::new([])),
            listening: Mutex::default(),
            callable: Mutex::default(),
            sought: Mutex::default(),
            refusals: Mutex::default(),
            under_way: Mutex::default(),
            offenders: Mutex::default(),
        }
    }

    /// The members.
    pub fn members(&self) -> Arc<[Member]> {
        lock(&self.members).clone()
    }

    /// Replaces the members.
    pub fn set_members(&self, members: Arc<[Member]>) {
        *lock(&self.members) = members;
    }

    /// Whether a peer is a member.
    pub fn is_member(&self, peer: PeerId) -> bool {
        let members = self.members();
        members
            .binary_search_by_key(&peer, |member| member.id)
            .is_ok()
    }

    /// What the layer above says about this peer.
    pub fn facts(&self) -> Arc<[u8]> {
        lock(&self.facts).clone()
    }

    /// Replaces what the layer above says about this peer.
    pub fn set_facts(&self, facts: Arc<[u8]>) {
        *lock(&self.facts) = facts;
    }

    /// Where this peer listens.
    pub fn listening(&self) -> Vec<String> {
        lock(&self.listening).clone()
    }

    /// Replaces where this peer listens.
    pub fn set_listening(&self, addresses: Vec<String>) {
        *lock(&self.listening) = addresses;
    }

    /// Where others can call this peer.
    pub fn callable(&self) -> Vec<String> {
        lock(&self.callable).clone()
    }

    /// Replaces where others can call this peer.
    pub fn set_callable(&self, addresses: Vec<String>) {
        *lock(&self.callable) = addresses;
    }

    /// The user knows of somebody at these addresses; tells whether there is room for
    /// so many.
    pub fn seek_at(&self, addresses: Vec<Multiaddr>) -> bool {
        let mut sought = lock(&self.sought);
        let has_room = sought.len() + addresses.len() <= SOUGHT;
        if has_room {
            sought.extend(addresses);
        }
        has_room
    }

    /// Takes those addresses.
    pub fn take_sought(&self) -> Vec<Multiaddr> {
        std::mem::take(&mut lock(&self.sought))
    }

    /// The latest refusals.
    pub fn refusals(&self) -> Vec<Refusal> {
        lock(&self.refusals).iter().cloned().collect()
    }

    /// Remembers a refusal.
    pub fn add_refusal(&self, refusal: Refusal) {
        let mut refusals = lock(&self.refusals);
        if !refusals.contains(&refusal) {
            refusals.push_back(refusal);
            if refusals.len() > REFUSALS {
                refusals.pop_front();
            }
        }
    }

    /// The offenders.
    pub fn offenders(&self) -> Vec<PeerId> {
        lock(&self.offenders).clone()
    }

    /// Replaces the offenders.
    pub fn set_offenders(&self, offenders: Vec<PeerId>) {
        *lock(&self.offenders) = offenders;
    }

    /// Counts one more message of so many bytes under way to a peer, if there may be one
    /// more. What is counted finds room on its way.
    pub fn set_out(&self, to: PeerId, bytes: usize, most: u32) -> bool {
        let to_one = Load {
            count: most,
            bytes: self.bounds.to_one,
        };
        let to_all = match self.is_leaf.load(Relaxed) {
            true => Load {
                count: MOST_OF_LEAF,
                bytes: self.bounds.to_one,
            },
            false => Load {
                count: u32::MAX,
                bytes: self.bounds.to_all,
            },
        };
        let mut under_way = lock(&self.under_way);
        let before = under_way.to.get(&to).copied().unwrap_or_default();
        let may_go = before.has_room(bytes, to_one) && under_way.all.has_room(bytes, to_all);
        if may_go {
            under_way.to.entry(to).or_default().add(bytes);
            under_way.all.add(bytes);
        }
        may_go
    }

    /// A message of so many bytes to a peer is no longer under way.
    pub fn arrived(&self, to: PeerId, bytes: usize) {
        let mut under_way = lock(&self.under_way);
        under_way.all.remove(bytes);
        if let Some(load) = under_way.to.get_mut(&to) {
            load.remove(bytes);
            if load.count == 0 {
                under_way.to.remove(&to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId::repeat(1);

    /// How many messages of so many bytes may set out to a peer.
    fn fill(shared: &Shared, to: PeerId, bytes: usize) -> usize {
        let may_go = |_: &usize| shared.set_out(to, bytes, 64);
        (0..1_000).take_while(may_go).count()
    }

    /// Sixty-four messages of a megabyte were taken, and two thirds of them dropped.
    #[test]
    fn no_more_is_taken_than_fits_and_room_comes_back() {
        let shared = Shared::new(Arc::default(), Bounds::default());
        assert_eq!(fill(&shared, A, 1 << 20), 18);
        assert_eq!(fill(&shared, PeerId::repeat(2), 1 << 20), 14, "of all");
        assert_eq!(fill(&shared, PeerId::repeat(3), 1), 0);
        for _ in 0..14 {
            shared.arrived(PeerId::repeat(2), 1 << 20);
        }
        assert_eq!(fill(&shared, PeerId::repeat(3), 1), 64);
        assert_eq!(fill(&shared, A, 1), 0);
        shared.arrived(A, 1 << 20);
        assert_eq!(fill(&shared, A, 1 << 20), 1);
    }

    #[test]
    fn what_a_leaf_sends_fits_over_one_link() {
        let shared = Shared::new(Arc::default(), Bounds::default());
        shared.is_leaf.store(true, Relaxed);
        assert_eq!(fill(&shared, A, 1 << 20), 18);
        assert_eq!(fill(&shared, PeerId::repeat(2), 1 << 20), 0);
        for _ in 0..18 {
            shared.arrived(A, 1 << 20);
        }
        let small = (0..20).map(|number| fill(&shared, PeerId::repeat(number), 1));
        assert_eq!(small.sum::<usize>(), 512);
    }
}
