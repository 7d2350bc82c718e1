//! Broadcasts through the gossip mesh, and the crawler's verdicts on them.
//!
//! What the mesh brings is checked here first. Records are judged at once; what was
//! handed on is given to the crawler, and travels further only if it says so within
//! [`VERDICT_MS`]: the mesh forgets a message soon after.

use std::collections::HashMap;
use std::sync::Arc;

use libp2p::PeerId as Libp2pPeerId;
use libp2p::gossipsub::{self, MessageAcceptance};

use super::super::shared::Use;
use super::Node;
use crate::envelope::{Envelope, Errand, Fault};
use crate::membership::News;
use crate::offenders::Offence;
use crate::topology::{Kind, supernodes_of};
use crate::{MessageId, PeerId, Purpose, Verdict, identity};

/// How long a verdict is waited for.
const VERDICT_MS: u64 = 4_000;
/// Messages that wait for a verdict.
const MOST_PENDING: usize = 4_096;
/// With fewer neighbours in the mesh, and more of them outside, it has not formed yet.
const THIN_MESH: usize = 3;
/// A link that comes into the mesh is told all that is known, at most so often.
const TOLD_MS: u64 = 60_000;
/// How long a broadcast is valid.
const BROADCAST_LIFE_MS: u64 = 60_000;

/// Who was told all that is known on coming into the mesh, and when.
#[derive(Default)]
pub struct Told(HashMap<Libp2pPeerId, u64>);

impl Told {
    /// Whether a link is to be told now; if so, it counts as told.
    fn is_due(&mut self, peer: Libp2pPeerId, now_ms: u64) -> bool {
        let told_ms = self.0.get(&peer);
        let is_due = told_ms.is_none_or(|&told_ms| now_ms >= told_ms + TOLD_MS);
        if is_due {
            self.0.insert(peer, now_ms);
        }
        is_due
    }

    /// A link has ended.
    pub fn forget(&mut self, peer: &Libp2pPeerId) {
        self.0.remove(peer);
    }
}

/// A message that waits for the crawler's verdict.
pub struct Pending {
    author: PeerId,
    since_ms: u64,
    onward: Option<Onward>,
}

/// How a broadcast travels on if the crawler has nothing against it.
pub enum Onward {
    /// It came through the mesh: on through the mesh, and to the leaves.
    Gossip {
        /// The mesh's name for it.
        id: gossipsub::MessageId,
        /// The neighbour that it came from.
        source: Libp2pPeerId,
        /// The envelope.
        bytes: Arc<[u8]>,
    },
    /// It came from a neighbour before the mesh had formed: to the leaves.
    ToLeaves {
        /// The envelope.
        bytes: Arc<[u8]>,
    },
    /// It came from a leaf: into the mesh, and to the other leaves.
    FromLeaf {
        /// The leaf.
        leaf: PeerId,
        /// The envelope.
        bytes: Arc<[u8]>,
    },
}

impl Node {
    pub(super) fn join_mesh(&mut self) {
        let topic = self.topic.clone();
        if let Err(error) = self.swarm.behaviour_mut().mesh.subscribe(&topic) {
            tracing::error!("cannot join the mesh: {error}");
        }
    }

    pub(super) fn leave_mesh(&mut self) {
        let topic = self.topic.clone();
        self.swarm.behaviour_mut().mesh.unsubscribe(&topic);
    }

    /// Puts an envelope into the mesh. With nobody there it is lost.
    pub(super) fn publish(&mut self, bytes: &Arc<[u8]>, of: Use) {
        let topic = self.topic.hash();
        let mesh = &mut self.swarm.behaviour_mut().mesh;
        let copies = mesh.mesh_peers(&topic).count().max(1);
        match mesh.publish(topic, bytes.to_vec()) {
            Ok(_) => self.count_sent(of, copies, bytes.len()),
            Err(
                gossipsub::PublishError::NoPeersSubscribedToTopic
                | gossipsub::PublishError::Duplicate,
            ) => {}
            Err(error) => {
                tracing::debug!("cannot broadcast: {error}");
                self.shared.counters.dropped(1);
            }
        }
    }

    /// The neighbours that are in the mesh, or will be.
    fn mesh_neighbours(&self) -> Vec<PeerId> {
        match self.kind {
            Kind::Flat => self.links.clone(),
            Kind::Supernode => supernodes_of(&self.links, &self.membership),
        }
    }

    /// Whether broadcasts get through. The mesh takes a heartbeat or two to form.
    pub(super) fn has_mesh(&self) -> bool {
        let topic = self.topic.hash();
        let in_mesh = self.swarm.behaviour().mesh.mesh_peers(&topic).count();
        in_mesh > 0 && in_mesh >= self.mesh_neighbours().len().min(THIN_MESH)
    }

    /// Spreads a broadcast of this peer or of a leaf. Until there is a mesh, each
    /// neighbour gets a copy of its own.
    fn spread_broadcast(&mut self, bytes: &Arc<[u8]>, of: Use) {
        if self.has_mesh() {
            return self.publish(bytes, of);
        }
        for neighbour in self.mesh_neighbours() {
            self.pass_copy(neighbour, bytes, of);
        }
    }

    /// Hands bytes on to all.
    pub(super) fn broadcast(&mut self, purpose: Purpose, bytes: &[u8]) {
        let now = self.now();
        let (errand, of) = (Errand::HandOn(purpose), Use::from(purpose));
        let sealed = self
            .sealer
            .seal(errand, None, bytes, now, BROADCAST_LIFE_MS);
        let Some((sequence, bytes)) = sealed else {
            return;
        };
        // It may come back to us.
        self.replay.is_new(self.me, sequence);
        if self.is_in_mesh() {
            self.spread_broadcast(&bytes, of);
            self.pass_to_leaves(&bytes, None, of);
        } else if let Some(&supernode) = supernodes_of(&self.links, &self.membership).first() {
            self.pass_copy(supernode, &bytes, of);
        } else {
            self.shared.counters.dropped(1);
        }
    }

    /// Takes in a broadcast that came over a link; tells whether there was room.
    pub(super) fn take_broadcast(&mut self, from: PeerId, envelope: &Envelope) -> bool {
        let is_from_leaf = self.is_in_mesh() && self.leaves().any(|leaf| leaf == from);
        let bytes = envelope.bytes.clone();
        let onward = match is_from_leaf {
            true => Onward::FromLeaf { leaf: from, bytes },
            false => Onward::ToLeaves { bytes },
        };
        self.deliver(envelope, Some(onward))
    }

    fn pass_to_leaves(&mut self, bytes: &Arc<[u8]>, except: Option<PeerId>, of: Use) {
        for leaf in self.first_leaves() {
            if Some(leaf) != except {
                self.pass_copy(leaf, bytes, of);
            }
        }
    }

    pub(super) fn on_mesh(&mut self, event: gossipsub::Event) {
        match event {
            gossipsub::Event::Message {
                propagation_source,
                message_id,
                message,
            } => self.on_gossip(propagation_source, message_id, message.data.into()),
            gossipsub::Event::Subscribed { peer_id, .. } => {
                // What was spread while it was not in the mesh has passed it by. Whoever
                // comes and goes hears the rest with the next exchange.
                let now_ms = self.now_ms();
                if let Some(peer) = identity::from_libp2p(&peer_id)
                    && self.links.contains(&peer)
                    && self.told.is_due(peer_id, now_ms)
                {
                    self.send_all_records(peer);
                }
            }
            gossipsub::Event::SlowPeer {
                peer_id,
                failed_messages,
            } => {
                tracing::debug!("{peer_id} is slow: {failed_messages:?}");
                let lost = failed_messages.priority + failed_messages.non_priority;
                self.shared.counters.dropped(lost);
            }
            _ => {}
        }
    }

    fn on_gossip(&mut self, source: Libp2pPeerId, id: gossipsub::MessageId, bytes: Arc<[u8]>) {
        self.gossip_count += 1;
        let every = self.options.lose_every;
        let is_lost = every > 0 && self.gossip_count.is_multiple_of(every);
        let Some(from) = identity::from_libp2p(&source).filter(|_| !is_lost) else {
            return self.judge(&id, &source, Verdict::Ignore);
        };
        match self.take_gossip(from, bytes, (&id, source)) {
            Ok(Some(verdict)) => self.judge(&id, &source, verdict),
            Ok(None) => {}
            Err(fault @ (Fault::Expired | Fault::Replayed)) => {
                self.blame(from, Offence::Envelope(fault));
                self.judge(&id, &source, Verdict::Ignore);
            }
            Err(fault) => {
                self.blame(from, Offence::Envelope(fault));
                self.judge(&id, &source, Verdict::Reject);
            }
        }
    }

    /// Takes in a message from the mesh. `None` means that the crawler will judge it.
    fn take_gossip(
        &mut self,
        from: PeerId,
        bytes: Arc<[u8]>,
        gossip: (&gossipsub::MessageId, Libp2pPeerId),
    ) -> Result<Option<Verdict>, Fault> {
        let limit = self.options.limits.message_bytes;
        let envelope = Envelope::open(bytes.clone(), self.network, limit, self.now())?;
        if matches!(envelope.errand, Errand::Lease | Errand::Suspicion) {
            self.shared.counters.received(Use::Membership, bytes.len());
            let (_, news) = self.take_record(from, bytes.clone())?;
            if news == News::Nothing {
                return Ok(Some(Verdict::Ignore));
            }
            self.keep_for_leaves(bytes);
            return Ok(Some(Verdict::Accept));
        }
        let Errand::HandOn(purpose) = envelope.errand else {
            return Err(Fault::Undecodable);
        };
        if envelope.to.is_some() {
            return Err(Fault::Undecodable);
        }
        self.shared.counters.received(purpose.into(), bytes.len());
        // Leases are welcome from whoever is connected; messages need a link.
        let is_member = self.membership.lease(envelope.author).is_some();
        if !is_member || envelope.author == self.me || !self.links.contains(&from) {
            return Ok(Some(Verdict::Ignore));
        }
        if !self.replay.is_new(envelope.author, envelope.sequence) {
            return Err(Fault::Replayed);
        }
        let onward = Onward::Gossip {
            id: gossip.0.clone(),
            source: gossip.1,
            bytes,
        };
        let is_delivered = self.deliver(&envelope, Some(onward));
        Ok((!is_delivered).then_some(Verdict::Ignore))
    }

    pub(super) fn expect_verdict(&mut self, id: MessageId, author: PeerId, onward: Option<Onward>) {
        if self.pending.len() >= MOST_PENDING
            && let Some((_, oldest)) = self.pending.pop_first()
        {
            self.settle(oldest, Verdict::Ignore);
        }
        let since_ms = self.now_ms();
        let pending = Pending {
            author,
            since_ms,
            onward,
        };
        self.pending.insert(id, pending);
    }

    pub(super) fn on_verdict(&mut self, id: MessageId, verdict: Verdict) {
        if let Some(pending) = self.pending.remove(&id) {
            if let Some(offence) = verdict.offence() {
                self.blame(pending.author, offence);
            }
            self.settle(pending, verdict);
        }
    }

    fn settle(&mut self, pending: Pending, verdict: Verdict) {
        let is_accepted = verdict == Verdict::Accept;
        match pending.onward {
            Some(Onward::Gossip { id, source, bytes }) => {
                self.judge(&id, &source, verdict);
                if is_accepted {
                    self.pass_to_leaves(&bytes, Some(pending.author), Use::Carried);
                }
            }
            Some(Onward::FromLeaf { leaf, bytes }) if is_accepted => {
                self.spread_broadcast(&bytes, Use::Carried);
                self.pass_to_leaves(&bytes, Some(leaf), Use::Carried);
            }
            Some(Onward::ToLeaves { bytes }) if is_accepted => {
                self.pass_to_leaves(&bytes, Some(pending.author), Use::Carried);
            }
            _ => {}
        }
    }

    fn judge(&mut self, id: &gossipsub::MessageId, source: &Libp2pPeerId, verdict: Verdict) {
        let acceptance = match verdict {
            Verdict::Accept => MessageAcceptance::Accept,
            Verdict::Ignore => MessageAcceptance::Ignore,
            Verdict::Reject => MessageAcceptance::Reject,
        };
        let mesh = &mut self.swarm.behaviour_mut().mesh;
        mesh.report_message_validation_result(id, source, acceptance);
    }

    pub(super) fn tick_gossip(&mut self) {
        let now_ms = self.now_ms();
        while let Some(oldest) = self.pending.first_entry() {
            if oldest.get().since_ms + VERDICT_MS > now_ms {
                break;
            }
            let late = oldest.remove();
            self.settle(late, Verdict::Ignore);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each subscription, also a repeated one, brought the whole table.
    #[test]
    fn whoever_subscribes_again_and_again_is_told_once_a_minute() {
        let (mut told, peer) = (Told::default(), Libp2pPeerId::random());
        let times = (0..600).filter(|second| told.is_due(peer, second * 1_000));
        assert_eq!(times.count(), 10);
        assert!(told.is_due(Libp2pPeerId::random(), 599_000), "another one");
        assert!(!told.is_due(peer, 599_999));
        told.forget(&peer);
        assert!(told.is_due(peer, 599_999), "a new link");
    }
}
