//! An overlay inside one process: every peer is a bounded channel.
//!
//! A peer alone runs on a network of one, so that the crawler has one way to work.
//! Tests run several engines on one network, and can make it lose messages: like the
//! flat overlay, `hand_on` is a broadcast that gives no receipt, and a receiver whose
//! channel is full misses the message.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use crate::{
    Event, Member, MessageId, Outcome, Overlay, OverlayError, PeerId, Purpose, Replier, Reply,
    Role, Statistics, Traffic, Verdict, reply_channel,
};

/// Events that may wait at one peer.
const EVENTS: usize = 1_024;

/// A network of peers in this process.
#[derive(Clone, Default)]
pub struct MemoryNetwork(Arc<Network>);

#[derive(Default)]
struct Network {
    nodes: Mutex<BTreeMap<PeerId, Node>>,
    messages: AtomicU64,
    /// Every n-th broadcast copy is lost; 0 loses none.
    lose_every: u64,
}

struct Node {
    member: Member,
    events: Sender<Event>,
    counters: Arc<Counters>,
}

impl MemoryNetwork {
    /// A network that loses nothing but what a receiver is too slow for.
    pub fn new() -> Self {
        Self::default()
    }

    /// A network that loses every n-th copy of what is handed on.
    pub fn losing_every(n: u64) -> Self {
        Self(Arc::new(Network {
            lose_every: n,
            ..Network::default()
        }))
    }

    /// Adds a peer, and tells all the others.
    pub fn join(&self, id: PeerId) -> MemoryOverlay {
        let (sender, events) = bounded(EVENTS);
        let member = Member {
            id,
            role: Role::Peer,
            facts: Arc::new([]),
            via: Arc::new([]),
        };
        let counters = Arc::new(Counters::default());
        let node = Node {
            member,
            events: sender.clone(),
            counters: counters.clone(),
        };
        let mut nodes = self.0.nodes();
        nodes.insert(id, node);
        announce_members(&nodes);
        drop(nodes);
        MemoryOverlay {
            id,
            network: self.0.clone(),
            sender,
            events,
            counters,
        }
    }
}

impl Network {
    fn nodes(&self) -> MutexGuard<'_, BTreeMap<PeerId, Node>> {
        // A panic elsewhere leaves the map whole: every change to it is one call.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_message(&self) -> MessageId {
        MessageId(1 + self.messages.fetch_add(1, Relaxed))
    }
}

fn members_of(nodes: &BTreeMap<PeerId, Node>) -> Arc<[Member]> {
    nodes.values().map(|node| node.member.clone()).collect()
}

/// A peer whose channel is full misses this; it asks for `members` when it next acts.
fn announce_members(nodes: &BTreeMap<PeerId, Node>) {
    let members = members_of(nodes);
    for node in nodes.values() {
        let _full = node.events.try_send(Event::Members(members.clone()));
    }
}

/// One peer's end of a [`MemoryNetwork`].
pub struct MemoryOverlay {
    id: PeerId,
    network: Arc<Network>,
    /// The other end of the events, for when this peer joins again.
    sender: Sender<Event>,
    events: Receiver<Event>,
    counters: Arc<Counters>,
}

/// Messages, and the bytes in them.
type Count = (AtomicU64, AtomicU64);

#[derive(Default)]
struct Counters {
    sent: [Count; Purpose::ALL.len()],
    received: [Count; Purpose::ALL.len()],
    messages_dropped: AtomicU64,
}

fn count(one_more_in: &Count, size: usize) {
    one_more_in.0.fetch_add(1, Relaxed);
    one_more_in.1.fetch_add(size as u64, Relaxed);
}

impl Counters {
    fn sent(&self, purpose: Purpose, size: usize) {
        count(&self.sent[purpose as usize], size);
    }

    fn received(&self, purpose: Purpose, size: usize) {
        count(&self.received[purpose as usize], size);
    }

    fn traffic(&self, purpose: Purpose) -> Traffic {
        let (sent, received) = (
            &self.sent[purpose as usize],
            &self.received[purpose as usize],
        );
        Traffic {
            messages_sent: sent.0.load(Relaxed),
            bytes_sent: sent.1.load(Relaxed),
            messages_received: received.0.load(Relaxed),
            bytes_received: received.1.load(Relaxed),
        }
    }
}

impl MemoryOverlay {
    fn deliver(
        &self,
        to: PeerId,
        node: &Node,
        event: Event,
        (purpose, bytes): (Purpose, usize),
    ) -> Result<(), OverlayError> {
        self.counters.sent(purpose, bytes);
        node.events.try_send(event).map_err(|error| {
            self.counters.messages_dropped.fetch_add(1, Relaxed);
            match error {
                TrySendError::Full(_) => OverlayError::Busy(to),
                TrySendError::Disconnected(_) => OverlayError::Unknown(to),
            }
        })?;
        node.counters.received(purpose, bytes);
        Ok(())
    }

    /// The node of a receiver, as long as this peer has not left.
    fn receiver<'a>(
        &self,
        nodes: &'a BTreeMap<PeerId, Node>,
        to: PeerId,
    ) -> Result<&'a Node, OverlayError> {
        if !nodes.contains_key(&self.id) {
            return Err(OverlayError::Left);
        }
        nodes.get(&to).ok_or(OverlayError::Unknown(to))
    }

    fn message(&self, bytes: &Arc<[u8]>) -> Event {
        Event::Message {
            id: self.network.next_message(),
            from: self.id,
            bytes: bytes.clone(),
        }
    }
}

impl Overlay for MemoryOverlay {
    fn me(&self) -> PeerId {
        self.id
    }

    fn members(&self) -> Arc<[Member]> {
        members_of(&self.network.nodes())
    }

    fn announce(&self, facts: Arc<[u8]>) {
        let mut nodes = self.network.nodes();
        if let Some(node) = nodes.get_mut(&self.id) {
            node.member.facts = facts;
            announce_members(&nodes);
        }
    }

    fn hand_on(
        &self,
        _: u64,
        _: Option<PeerId>,
        purpose: Purpose,
        bytes: Arc<[u8]>,
    ) -> Result<(), OverlayError> {
        let nodes = self.network.nodes();
        if !nodes.contains_key(&self.id) {
            return Err(OverlayError::Left);
        }
        for (&id, node) in nodes.iter().filter(|&(&id, _)| id != self.id) {
            let event = self.message(&bytes);
            let lost = match (&event, self.network.lose_every) {
                (Event::Message { id, .. }, every) if every > 0 => id.0 % every == 0,
                _ => false,
            };
            if lost {
                self.counters.messages_dropped.fetch_add(1, Relaxed);
            } else {
                // A broadcast gives no receipt: the caller waits for its own.
                let _counted = self.deliver(id, node, event, (purpose, bytes.len()));
            }
        }
        Ok(())
    }

    fn send(&self, to: PeerId, purpose: Purpose, bytes: Arc<[u8]>) -> Result<(), OverlayError> {
        let nodes = self.network.nodes();
        let node = self.receiver(&nodes, to)?;
        self.deliver(to, node, self.message(&bytes), (purpose, bytes.len()))
    }

    fn request(
        &self,
        to: PeerId,
        purpose: Purpose,
        bytes: Arc<[u8]>,
        deadline: Duration,
    ) -> Result<Reply, OverlayError> {
        let nodes = self.network.nodes();
        let node = self.receiver(&nodes, to)?;
        let (asker, reply) = reply_channel(deadline);
        let (mine, theirs) = (self.counters.clone(), node.counters.clone());
        let replier = Replier::new(move |outcome| match outcome {
            Outcome::Answer(bytes) => {
                theirs.sent(purpose, bytes.len());
                mine.received(purpose, bytes.len());
                asker.answer(bytes);
            }
            // Nobody is blamed inside one process.
            Outcome::NoAnswer | Outcome::Rejected => {}
        });
        let size = bytes.len();
        let event = Event::Request {
            from: self.id,
            bytes,
            replier,
        };
        self.deliver(to, node, event, (purpose, size))?;
        Ok(reply)
    }

    fn events(&self) -> Receiver<Event> {
        self.events.clone()
    }

    /// Nothing is forwarded and nobody is blamed inside one process.
    fn verdict(&self, _: MessageId, _: Verdict) {}

    fn statistics(&self) -> Statistics {
        let [urls, content, handover] = Purpose::ALL.map(|of| self.counters.traffic(of));
        let all = [urls, content, handover];
        Statistics {
            messages_sent: all.iter().map(|traffic| traffic.messages_sent).sum(),
            bytes_sent: all.iter().map(|traffic| traffic.bytes_sent).sum(),
            messages_received: all.iter().map(|traffic| traffic.messages_received).sum(),
            bytes_received: all.iter().map(|traffic| traffic.bytes_received).sum(),
            messages_dropped: self.counters.messages_dropped.load(Relaxed),
            urls,
            content,
            handover,
            ..Statistics::default()
        }
    }

    fn leave(&self) {
        let mut nodes = self.network.nodes();
        if nodes.remove(&self.id).is_some() {
            announce_members(&nodes);
        }
    }

    fn rejoin(&self) -> bool {
        let member = Member {
            id: self.id,
            role: Role::Peer,
            facts: Arc::new([]),
            via: Arc::new([]),
        };
        let node = Node {
            member,
            events: self.sender.clone(),
            counters: self.counters.clone(),
        };
        let mut nodes = self.network.nodes();
        nodes.insert(self.id, node);
        announce_members(&nodes);
        true
    }
}

impl Drop for MemoryOverlay {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId::repeat(1);
    const B: PeerId = PeerId::repeat(2);
    const DEADLINE: Duration = Duration::from_secs(10);

    fn next_message(overlay: &MemoryOverlay) -> Option<(PeerId, Arc<[u8]>)> {
        loop {
            match overlay.events().try_recv().ok()? {
                Event::Message { from, bytes, .. } => return Some((from, bytes)),
                _ => continue,
            }
        }
    }

    #[test]
    fn all_see_the_same_members_and_their_facts() {
        let network = MemoryNetwork::new();
        let (a, b) = (network.join(A), network.join(B));
        a.announce(Arc::new([7]));
        assert_eq!(a.members(), b.members());
        assert_eq!(b.members()[0].facts[..], [7]);
        b.leave();
        assert_eq!(a.members().len(), 1);
        assert!(matches!(
            a.send(B, Purpose::Urls, Arc::new([])),
            Err(OverlayError::Unknown(B))
        ));
        assert_eq!(
            b.hand_on(0, None, Purpose::Urls, Arc::new([])),
            Err(OverlayError::Left)
        );
        assert!(b.rejoin());
        assert_eq!(b.send(A, Purpose::Urls, Arc::new([])), Ok(()));
    }

    #[test]
    fn what_is_handed_on_reaches_the_others_but_not_oneself() {
        let network = MemoryNetwork::new();
        let (a, b) = (network.join(A), network.join(B));
        a.hand_on(9, Some(B), Purpose::Urls, Arc::new([1, 2]))
            .unwrap();
        assert_eq!(next_message(&b), Some((A, Arc::from([1, 2]))));
        assert_eq!(next_message(&a), None);
        assert_eq!(a.statistics().bytes_sent, 2);
        assert_eq!(a.statistics().urls.bytes_sent, 2);
    }

    #[test]
    fn a_request_brings_its_answer_back_or_none() {
        let network = MemoryNetwork::new();
        let (a, b) = (network.join(A), network.join(B));
        let reply = a
            .request(B, Purpose::Content, Arc::new([1]), DEADLINE)
            .unwrap();
        let second = a
            .request(B, Purpose::Content, Arc::new([2]), Duration::ZERO)
            .unwrap();
        for event in b.events().try_iter() {
            if let Event::Request { bytes, replier, .. } = event
                && bytes[0] == 1
            {
                replier.answer(vec![42]);
            }
        }
        assert_eq!(reply.wait(), Some(vec![42]));
        assert_eq!(second.wait(), None);
    }

    #[test]
    fn a_slow_receiver_loses_messages_and_the_sender_knows() {
        let network = MemoryNetwork::new();
        let (a, _b) = (network.join(A), network.join(B));
        let refused = (0..EVENTS + 5)
            .filter(|_| a.send(B, Purpose::Urls, Arc::new([])).is_err())
            .count();
        assert!(refused >= 5, "{refused}");
        assert_eq!(a.statistics().messages_dropped, refused as u64);
    }

    #[test]
    fn a_lossy_network_loses_broadcasts() {
        let network = MemoryNetwork::losing_every(10);
        let (a, b) = (network.join(A), network.join(B));
        for _ in 0..100 {
            a.hand_on(0, None, Purpose::Urls, Arc::new([])).unwrap();
        }
        let arrived = std::iter::from_fn(|| next_message(&b)).count();
        assert_eq!(arrived, 90);
    }
}
