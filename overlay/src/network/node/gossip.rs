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
use crate::envelope::{Envelope, Errand, Fault, Label};
use crate::membership::News;
use crate::offenders::Offence;
use crate::replay::Sight;
use crate::topology::{Kind, supernodes_of};
use crate::{MessageId, PeerId, Purpose, Verdict, identity};

/// How long a verdict is waited for.
const VERDICT_MS: u64 = 4_000;
/// Messages that wait for a verdict.
const MOST_PENDING: usize = 4_096;
/// With fewer neighbours in the mesh, and more of them outside, it has not formed yet.
const THIN_MESH: usize = 3;
/// A mesh that has been there for so long is there for the neighbours, too.
const STEADY_MS: u64 = 3_000;
/// On each occasion a peer is told all that is known at most so often.
const TOLD_MS: u64 = 60_000;
/// With so many in memory, those who were told longer ago are forgotten.
const MANY_TOLD: usize = 1_024;
/// How long a broadcast is valid.
const BROADCAST_LIFE_MS: u64 = 60_000;
/// Whoever is too slow for the mesh for so long, and takes less than this meanwhile, does not
/// read. A volunteer with a low limit takes more.
const SLOW_MS: u64 = 20_000;
const SLOW_BYTES: u64 = 64 << 10;
/// The mesh tells each second who is too slow. Silent for so long, one is not any more.
const SLOW_GAP_MS: u64 = 3_000;
/// How long one that does not read is left alone.
const SLOW_REST_MS: u64 = 60_000;

/// When somebody is told all that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Occasion {
    /// It says hello, or is greeted.
    Greeting,
    /// It comes into the mesh.
    Mesh,
}

/// Who was told all that is known on which occasion, and when.
#[derive(Default)]
pub struct Told(HashMap<(Libp2pPeerId, Occasion), u64>);

impl Told {
    /// Whether a peer is to be told now; if so, it counts as told.
    pub fn is_due(&mut self, peer: Libp2pPeerId, occasion: Occasion, now_ms: u64) -> bool {
        let is_over = |told_ms: u64| now_ms >= told_ms + TOLD_MS;
        let told_ms = self.0.get(&(peer, occasion));
        let is_due = told_ms.is_none_or(|&told_ms| is_over(told_ms));
        if is_due {
            if self.0.len() >= MANY_TOLD {
                self.0.retain(|_, told_ms| !is_over(*told_ms));
            }
            self.0.insert((peer, occasion), now_ms);
        }
        is_due
    }

    /// A connection has ended.
    pub fn forget(&mut self, peer: &Libp2pPeerId) {
        self.0.retain(|(other, _), _| other != peer);
    }
}

/// For how long there has been a mesh. When it is new here, a neighbour may not be in it
/// yet, or not know this peer yet.
#[derive(Default)]
pub struct MeshAge {
    since_ms: Option<u64>,
}

impl MeshAge {
    fn look(&mut self, is_there: bool, now_ms: u64) {
        self.since_ms = is_there.then(|| self.since_ms.unwrap_or(now_ms));
    }

    fn is_steady(&self, now_ms: u64) -> bool {
        let is_old = |since_ms| now_ms >= since_ms + STEADY_MS;
        self.since_ms.is_some_and(is_old)
    }
}

/// Who is too slow for the mesh.
#[derive(Default)]
pub struct Slow(HashMap<Libp2pPeerId, Slowness>);

struct Slowness {
    since_ms: u64,
    /// When that was last so.
    last_ms: u64,
    /// What had been sent to it at the beginning.
    sent: u64,
}

impl Slow {
    /// One is too slow now, to which so much has been sent in all; tells whether it has been
    /// for too long. It then begins anew.
    fn is_too_long(&mut self, peer: Libp2pPeerId, sent: u64, now_ms: u64) -> bool {
        self.0
            .retain(|_, slowness| now_ms < slowness.last_ms + SLOW_GAP_MS);
        let now = || Slowness {
            since_ms: now_ms,
            last_ms: now_ms,
            sent,
        };
        let slowness = self.0.entry(peer).or_insert_with(now);
        slowness.last_ms = now_ms;
        if sent >= slowness.sent + SLOW_BYTES {
            *slowness = now();
        }
        let is_too_long = now_ms >= slowness.since_ms + SLOW_MS;
        if is_too_long {
            self.0.remove(&peer);
        }
        is_too_long
    }

    /// How many are, not counting one that has just been for too long.
    fn count(&self) -> usize {
        self.0.len()
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
        /// The broadcast.
        envelope: Envelope,
    },
    /// It came from a neighbour before the mesh had formed: to the leaves.
    ToLeaves {
        /// The broadcast.
        envelope: Envelope,
    },
    /// It came from a leaf: into the mesh, and to the other leaves.
    FromLeaf {
        /// The leaf.
        leaf: PeerId,
        /// The broadcast.
        envelope: Envelope,
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

    /// Whether there is a mesh now. It takes a heartbeat or two to form.
    fn sees_mesh(&self) -> bool {
        let topic = self.topic.hash();
        let in_mesh = self.swarm.behaviour().mesh.mesh_peers(&topic).count();
        in_mesh > 0 && in_mesh >= self.mesh_neighbours().len().min(THIN_MESH)
    }

    /// Whether broadcasts get through.
    pub(super) fn has_mesh(&self) -> bool {
        self.mesh_age.is_steady(self.now_ms()) && self.sees_mesh()
    }

    /// Spreads a broadcast of this peer or of a leaf. Until there is a mesh, each
    /// neighbour gets a copy of its own.
    fn spread_broadcast(&mut self, envelope: &Envelope, of: Use) {
        if self.has_mesh() {
            return self.publish(&envelope.bytes, of);
        }
        for neighbour in self.mesh_neighbours() {
            self.pass_copy(neighbour, envelope, of);
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
        self.replay.see(self.me, sequence, self.me);
        let envelope = Envelope {
            errand,
            author: self.me,
            to: None,
            sequence,
            bytes,
        };
        if self.is_in_mesh() {
            self.spread_broadcast(&envelope, of);
            self.pass_to_leaves(&envelope, None, of);
        } else if let Some(&supernode) = supernodes_of(&self.links, &self.membership).first() {
            self.pass_copy(supernode, &envelope, of);
        } else {
            self.shared.counters.dropped(1);
        }
    }

    /// Takes in a broadcast that came over a link; tells whether there was room.
    pub(super) fn take_broadcast(&mut self, from: PeerId, envelope: &Envelope) -> bool {
        let is_from_leaf = self.is_in_mesh() && self.leaves().any(|leaf| leaf == from);
        let onward = match (is_from_leaf, envelope.clone()) {
            (true, envelope) => Onward::FromLeaf {
                leaf: from,
                envelope,
            },
            (false, envelope) => Onward::ToLeaves { envelope },
        };
        self.deliver(envelope, Some(onward))
    }

    fn pass_to_leaves(&mut self, envelope: &Envelope, except: Option<PeerId>, of: Use) {
        for leaf in self.first_leaves() {
            if Some(leaf) != except {
                self.pass_copy(leaf, envelope, of);
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
                    && self.told.is_due(peer_id, Occasion::Mesh, now_ms)
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
                self.on_slow(peer_id);
            }
            _ => {}
        }
    }

    /// Parts with one that does not read what the mesh has for it. If nobody does, or if this
    /// peer's own limit may hold everything back, it is not their fault. One whose connection
    /// takes nothing at all is found out there.
    fn on_slow(&mut self, libp2p_peer: Libp2pPeerId) {
        let Some(peer) = identity::from_libp2p(&libp2p_peer) else {
            return;
        };
        let sent = self.shared.counters.contacts.sent(peer);
        if !self.slow.is_too_long(libp2p_peer, sent, self.now_ms()) {
            return;
        }
        let topic = self.topic.hash();
        let in_mesh = self.swarm.behaviour().mesh.mesh_peers(&topic);
        let others = in_mesh.filter(|&other| *other != libp2p_peer).count();
        if self.slow.count() < others && !self.has_own_limit() {
            tracing::info!("{peer} reads nothing of the mesh: the link is closed");
            self.part(peer, SLOW_REST_MS);
        }
    }

    fn on_gossip(&mut self, source: Libp2pPeerId, id: gossipsub::MessageId, bytes: Arc<[u8]>) {
        let heard = self.shared.counters.heard_gossip();
        let every = self.options.lose_every;
        let is_lost = every > 0 && heard.is_multiple_of(every);
        if is_lost {
            self.shared.counters.lost_gossip();
        }
        let Some(from) = identity::from_libp2p(&source).filter(|_| !is_lost) else {
            return self.judge(&id, &source, Verdict::Ignore);
        };
        match self.take_gossip(from, bytes.clone(), (&id, source)) {
            // Only records are accepted at once.
            Ok(Some(Verdict::Accept)) => {
                self.forward(&id, &source, Use::Membership, bytes.len());
            }
            Ok(Some(verdict)) => self.judge(&id, &source, verdict),
            Ok(None) => {}
            Err(fault) => {
                if let Some(offence) = Offence::of_bringer(from, &bytes, fault) {
                    self.blame(from, offence);
                }
                let verdict = match fault {
                    Fault::Expired | Fault::Replayed => Verdict::Ignore,
                    _ => Verdict::Reject,
                };
                self.judge(&id, &source, verdict);
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
        let errand = Label::read(&bytes).map(|label| label.errand);
        if matches!(errand, Some(Errand::Lease | Errand::Suspicion)) {
            let (_, news) = self.take_record(from, bytes.clone())?;
            self.shared.counters.received(Use::Membership, bytes.len());
            if news == News::Nothing {
                return Ok(Some(Verdict::Ignore));
            }
            if news.is_change() {
                self.say_members();
            }
            self.keep_for_leaves(bytes);
            return Ok(Some(Verdict::Accept));
        }
        let envelope = Envelope::open(bytes, self.network, limit, self.now())?;
        let Errand::HandOn(purpose) = envelope.errand else {
            return Err(Fault::Undecodable);
        };
        if envelope.to.is_some() {
            return Err(Fault::Undecodable);
        }
        let (author, size) = (envelope.author, envelope.bytes.len());
        self.shared.counters.received(purpose.into(), size);
        if self.membership.lease(author).is_none() || author == self.me {
            return Ok(Some(Verdict::Ignore));
        }
        match self.replay.see(author, envelope.sequence, from) {
            Sight::New => {}
            Sight::Again => return Ok(Some(Verdict::Ignore)),
            Sight::Replayed => return Err(Fault::Replayed),
        }
        if !self.links.contains(&from) {
            // A member's words are welcome from whoever is connected, as the mesh does not
            // bring them again. Nothing travels on for somebody who is no link yet.
            let _counted = self.deliver(&envelope, None);
            return Ok(Some(Verdict::Ignore));
        }
        let onward = Onward::Gossip {
            id: gossip.0.clone(),
            source: gossip.1,
            envelope: envelope.clone(),
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
            Some(Onward::Gossip {
                id,
                source,
                envelope,
            }) => {
                if is_accepted {
                    self.forward(&id, &source, Use::Carried, envelope.bytes.len());
                    self.pass_to_leaves(&envelope, Some(pending.author), Use::Carried);
                } else {
                    self.judge(&id, &source, verdict);
                }
            }
            Some(Onward::FromLeaf { leaf, envelope }) if is_accepted => {
                self.spread_broadcast(&envelope, Use::Carried);
                self.pass_to_leaves(&envelope, Some(leaf), Use::Carried);
            }
            Some(Onward::ToLeaves { envelope }) if is_accepted => {
                self.pass_to_leaves(&envelope, Some(pending.author), Use::Carried);
            }
            _ => {}
        }
    }

    /// Lets a message travel on through the mesh. All who are in it get a copy, but for the
    /// one that it came from; those who have it already may not, but nobody tells.
    fn forward(&mut self, id: &gossipsub::MessageId, source: &Libp2pPeerId, of: Use, bytes: usize) {
        let topic = self.topic.hash();
        let mesh = &mut self.swarm.behaviour_mut().mesh;
        if mesh.report_message_validation_result(id, source, MessageAcceptance::Accept) {
            let others = mesh.mesh_peers(&topic).filter(|&peer| peer != source);
            let copies = others.count();
            self.count_sent(of, copies, bytes);
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
        self.mesh_age.look(self.sees_mesh(), now_ms);
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
        let mesh = Occasion::Mesh;
        let times = (0..600).filter(|second| told.is_due(peer, mesh, second * 1_000));
        assert_eq!(times.count(), 10);
        let another = Libp2pPeerId::random();
        assert!(told.is_due(another, mesh, 599_000), "another one");
        assert!(!told.is_due(peer, mesh, 599_999));
        let greeting = Occasion::Greeting;
        assert!(told.is_due(peer, greeting, 599_999), "something else");
        told.forget(&peer);
        assert!(told.is_due(peer, mesh, 599_999), "a new link");
        assert!(told.is_due(peer, greeting, 599_999));
        // The last words of one whose connection has ended.
        for minute in 11..100 {
            for _ in 0..100 {
                told.is_due(Libp2pPeerId::random(), greeting, minute * TOLD_MS);
            }
        }
        assert!(told.0.len() <= MANY_TOLD, "{}", told.0.len());
    }

    #[test]
    fn whoever_is_slow_for_twenty_seconds_on_end_does_not_read() {
        let (mut slow, deaf) = (Slow::default(), Libp2pPeerId::random());
        let [rests, reads] = [(); 2].map(|()| Libp2pPeerId::random());
        for second in 0..60 {
            // The mesh tells once a second, or misses one.
            let is_told = second % 2 == 0;
            let is_deaf = is_told && slow.is_too_long(deaf, 100 * second, second * 1_000);
            assert_eq!(is_deaf, [20, 42].contains(&second), "{second}");
            if second % 10 < 6 {
                assert!(!slow.is_too_long(rests, 0, second * 1_000), "{second}");
            }
            let sent = second * (SLOW_BYTES / 10);
            assert!(!slow.is_too_long(reads, sent, second * 1_000), "{second}");
        }
    }

    /// What was broadcast as soon as a mesh was seen was lost at neighbours that did not see
    /// it yet.
    #[test]
    fn a_mesh_must_last_before_it_is_relied_on() {
        let mut age = MeshAge::default();
        for ms in (0..STEADY_MS).step_by(200) {
            age.look(true, ms);
            assert!(!age.is_steady(ms), "{ms}");
        }
        assert!(age.is_steady(STEADY_MS));
        age.look(false, STEADY_MS);
        assert!(!age.is_steady(STEADY_MS));
        age.look(true, STEADY_MS + 200);
        assert!(!age.is_steady(2 * STEADY_MS));
        assert!(age.is_steady(2 * STEADY_MS + 200));
    }
}
