//! Messages to one peer, hop by hop.
//!
//! A packet is a signed envelope on its way. Whoever gets one checks it, and either
//! it has arrived, or it goes on over the link that [`crate::routing`] names. A
//! packet that needs a link first waits for it. A question goes the same way, and its
//! answer comes back as the response of each hop. Each hop keeps the question's deadline:
//! whoever asked hears in time that there is no answer, whatever the receiver does.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use libp2p::PeerId as Libp2pPeerId;
use libp2p::request_response::{OutboundRequestId, ResponseChannel};

use super::super::frame::{Request, Response};
use super::super::shared::Use;
use super::super::transport::LONGEST_REQUEST;
use super::answers::{Caller, LONGEST_WAIT_MS};
use super::gossip::Onward;
use super::{Command, Node};
use crate::envelope::{Envelope, Errand, Fault};
use crate::offenders::Offence;
use crate::replay::Sight;
use crate::routing::{self, Crossroads, Hop, MOST_HOPS};
use crate::topology::Kind;
use crate::{Event, MessageId, PeerId, Replier, Role, identity};

/// How long a message is valid.
pub const MESSAGE_LIFE_MS: u64 = 60_000;
/// How long a packet waits for a link.
const WAIT_MS: u64 = 5_000;

/// What is done with the response to an exchange that this peer began.
pub enum Outbound {
    /// Admission.
    Hello,
    /// Nothing.
    Records {
        /// Whether these were this peer's last words.
        is_farewell: bool,
    },
    /// It concerns a packet, which is kept until it is answered.
    Packet(Box<Packet>),
}

impl Outbound {
    /// Whether this exchange is worth waiting for at the end.
    pub fn is_farewell(&self) -> bool {
        matches!(self, Self::Records { is_farewell: true })
    }
}

/// Who waits for what becomes of a packet.
pub enum Origin {
    /// This peer wrote it; it counts as under way to its receiver.
    Mine {
        /// The receiver.
        to: PeerId,
        /// Bytes of what it says.
        size: usize,
        /// Where the answer goes, if it is a question, and its sequence number.
        question: Option<(Replier, u64)>,
    },
    /// A neighbour waits for the answer.
    Theirs(Caller),
    /// Nobody: its sender has been told that it goes on.
    Nobody,
    /// Nobody any more: whoever waited for an answer has been told that there is none.
    Settled,
}

/// A packet on its way.
pub struct Packet {
    /// What travels.
    pub envelope: Envelope,
    /// Peers that it may still pass.
    pub hops: u8,
    /// How long an answer is waited for.
    pub deadline_ms: u32,
    /// Until when one is waited for here, if it is a question.
    pub until_ms: Option<u64>,
    /// The neighbour that it came from.
    pub from: Option<PeerId>,
    /// Who waits for what becomes of it.
    pub origin: Origin,
}

impl Packet {
    /// Whether it is a question whose time is up.
    pub fn is_late(&self, now_ms: u64) -> bool {
        self.until_ms.is_some_and(|until_ms| until_ms <= now_ms)
    }

    /// Gives who waits for the answer, if its time is up; from then on nobody does.
    fn settle_late(&mut self, now_ms: u64) -> Option<Origin> {
        self.is_late(now_ms).then(|| {
            self.until_ms = None;
            mem::replace(&mut self.origin, Origin::Settled)
        })
    }
}

impl Node {
    pub(super) fn on_command(&mut self, command: Command) {
        match command {
            Command::HandOn {
                owner,
                purpose,
                bytes,
            } => {
                // Before there is a mesh, what is broadcast would be lost.
                let is_routed = self.kind == Kind::Supernode || !self.has_mesh();
                let to = owner.unwrap_or(self.me);
                if let (true, Some(to)) = (is_routed, owner) {
                    self.set_out(Errand::HandOn(purpose), to, &bytes, Duration::ZERO, None);
                } else {
                    self.broadcast(purpose, &bytes);
                    self.shared.arrived(to, bytes.len());
                }
            }
            Command::Send { to, purpose, bytes } => {
                self.set_out(Errand::Send(purpose), to, &bytes, Duration::ZERO, None);
            }
            Command::Ask {
                to,
                purpose,
                bytes,
                deadline,
                replier,
            } => self.set_out(Errand::Ask(purpose), to, &bytes, deadline, Some(replier)),
        }
    }

    fn set_out(
        &mut self,
        errand: Errand,
        to: PeerId,
        bytes: &[u8],
        deadline: Duration,
        replier: Option<Replier>,
    ) {
        let (now, size) = (self.now(), bytes.len());
        let sealed = self
            .sealer
            .seal(errand, Some(to), bytes, now, MESSAGE_LIFE_MS);
        let Some((sequence, bytes)) = sealed else {
            return self.lose(Origin::Mine {
                to,
                size,
                question: None,
            });
        };
        // It may come back to us.
        self.replay.see(self.me, sequence, self.me);
        let envelope = Envelope {
            errand,
            author: self.me,
            to: Some(to),
            sequence,
            bytes,
        };
        let question = replier.map(|replier| (replier, sequence));
        let deadline_ms = deadline.min(LONGEST_REQUEST).as_millis() as u32;
        self.carry(Packet {
            envelope,
            hops: MOST_HOPS,
            deadline_ms,
            until_ms: question.is_some().then(|| self.until_ms(deadline_ms)),
            from: None,
            origin: Origin::Mine { to, size, question },
        });
    }

    /// Until when the answer to a question is waited for here.
    pub(super) fn until_ms(&self, deadline_ms: u32) -> u64 {
        self.now_ms() + u64::from(deadline_ms).min(LONGEST_WAIT_MS)
    }

    /// A neighbour asks something.
    pub(super) fn on_request(&mut self, request: Request, caller: Caller) {
        let Some(from) = identity::from_libp2p(&caller.peer) else {
            return;
        };
        match request {
            Request::Hello { .. } => return self.on_hello(caller.peer, request, caller.channel),
            // Dropping the channel closes the stream.
            Request::Malformed => return self.blame(from, Offence::Frame),
            // A busy neighbour gives up what it has begun; a stranger has nothing else to do.
            Request::Torn if self.links.contains(&from) => return self.blame(from, Offence::Torn),
            Request::Torn => return self.blame(from, Offence::Frame),
            Request::Late => return self.blame(from, Offence::Slow),
            Request::Records(_) | Request::Packet { .. } | Request::Early => {}
        }
        if !self.links.contains(&from) {
            // It may just have admitted us, with our side still to come.
            self.blame(from, Offence::OutOfTurn);
            return self.respond(caller.channel, Response::Stranger);
        }
        match request {
            Request::Hello { .. } | Request::Malformed | Request::Torn | Request::Late => {}
            // It has been admitted since; its neighbour sends again what matters.
            Request::Early => self.respond(caller.channel, Response::Busy),
            Request::Records(records) => {
                self.take_records(from, records);
                self.respond(caller.channel, Response::Done);
            }
            Request::Packet {
                hops,
                deadline_ms,
                envelope,
            } => self.on_packet(from, hops, deadline_ms, envelope, caller),
        }
    }

    fn on_packet(
        &mut self,
        from: PeerId,
        hops: u8,
        deadline_ms: u32,
        bytes: Arc<[u8]>,
        caller: Caller,
    ) {
        let limit = self.options.limits.message_bytes;
        let deadline_ms = deadline_ms.min(LONGEST_REQUEST.as_millis() as u32);
        let size = bytes.len();
        let opened = Envelope::open(bytes.clone(), self.network, limit, self.now());
        let envelope = match opened {
            Ok(envelope) => envelope,
            Err(fault) => {
                if let Some(offence) = Offence::of_bringer(from, &bytes, fault) {
                    self.blame(from, offence);
                }
                return self.respond(caller.channel, Response::Busy);
            }
        };
        if envelope.to == Some(from) {
            // It would only come back, and take room here until then.
            self.blame(from, Offence::Frame);
            return self.respond(caller.channel, Response::Busy);
        }
        let is_mine = envelope.to.is_none_or(|to| to == self.me);
        let of = if is_mine {
            envelope.errand.into()
        } else {
            Use::Carried
        };
        self.shared.counters.received(of, size);
        if self.membership.lease(envelope.author).is_none() {
            // A stranger's words, or those of one who has just left. Only what members say
            // is remembered.
            return self.respond(caller.channel, Response::Busy);
        }
        let (author, sequence) = (envelope.author, envelope.sequence);
        let sight = self.replay.see(author, sequence, from);
        if sight != Sight::New {
            // While leases change, a message may go in a circle and come by another way:
            // nobody's fault. Nobody passes one on twice over one link.
            if sight == Sight::Replayed {
                self.blame(from, Offence::Envelope(Fault::Replayed));
            } else if from == author && self.replay.is_too_old(author, sequence) {
                self.blame(from, Offence::Envelope(Fault::Expired));
            }
            return self.respond(caller.channel, Response::Busy);
        }
        match envelope.errand {
            Errand::Ask(_) => self.carry(Packet {
                envelope,
                hops,
                deadline_ms,
                until_ms: Some(self.until_ms(deadline_ms)),
                from: Some(from),
                origin: Origin::Theirs(caller),
            }),
            Errand::HandOn(_) if envelope.to.is_none() => {
                let is_delivered = self.take_broadcast(from, &envelope);
                self.respond_taken(caller.channel, is_delivered);
            }
            Errand::HandOn(_) | Errand::Send(_) if is_mine => {
                let is_delivered = self.deliver(&envelope, None);
                self.respond_taken(caller.channel, is_delivered);
            }
            Errand::HandOn(_) | Errand::Send(_) => {
                self.respond(caller.channel, Response::Done);
                self.carry(Packet {
                    envelope,
                    hops,
                    deadline_ms,
                    until_ms: None,
                    from: Some(from),
                    origin: Origin::Nobody,
                });
            }
            Errand::Lease | Errand::Suspicion | Errand::Answer(_) => {
                self.blame(from, Offence::Frame);
                self.respond(caller.channel, Response::Busy);
            }
        }
    }

    fn respond_taken(&mut self, channel: ResponseChannel<Response>, is_taken: bool) {
        let response = if is_taken {
            Response::Done
        } else {
            Response::Busy
        };
        self.respond(channel, response);
    }

    /// Brings a packet a step closer.
    fn carry(&mut self, packet: Packet) {
        // A copy of a broadcast has no receiver, and no other way to go.
        let Some(to) = packet.envelope.to else {
            return;
        };
        match self.next_hop(to, packet.from) {
            Hop::Here => self.arrive(packet),
            Hop::Link(peer) if packet.hops > 0 => self.pass(peer, packet),
            Hop::Dial(peer) if packet.hops > 0 => {
                let until_ms = self.now_ms() + WAIT_MS;
                let until_ms = packet.until_ms.map_or(until_ms, |ms| ms.min(until_ms));
                if let Some(packet) = self.waiting.keep(peer, packet, until_ms) {
                    return self.lose(packet.origin);
                }
                if !self.is_greeted(peer) && !self.dial(peer) {
                    let (now_ms, jitter) = (self.now_ms(), self.jitter());
                    self.peer_back_off.failed(peer, now_ms, jitter);
                    // There will be no link: it looks for another way.
                    self.send_waiting(peer);
                }
            }
            Hop::None => {
                self.accuse_unreachable(to);
                self.lose(packet.origin);
            }
            _ => self.lose(packet.origin),
        }
    }

    /// Whether somebody is connected and will be a link if all goes well.
    fn is_greeted(&self, peer: PeerId) -> bool {
        let libp2p_peer = identity::to_libp2p(peer);
        libp2p_peer.is_some_and(|peer| self.visitors.contains_key(&peer))
    }

    fn next_hop(&self, to: PeerId, from: Option<PeerId>) -> Hop {
        let lease = self.membership.lease(to);
        let now_ms = self.now_ms();
        let crossroads = Crossroads {
            me: self.me,
            is_leaf: self.role() == Role::Leaf,
            is_to_leaf: lease.is_some_and(|lease| lease.role == Role::Leaf),
            via: lease.map_or(&[], |lease| &lease.via),
            from,
            links: &self.links,
            is_unreachable: &|peer| !self.peer_back_off.is_due(&peer, now_ms),
        };
        routing::next_hop(to, crossroads)
    }

    fn pass(&mut self, peer: PeerId, mut packet: Packet) {
        let Some(libp2p_peer) = identity::to_libp2p(peer) else {
            return self.lose(packet.origin);
        };
        let envelope = &packet.envelope;
        let is_mine = envelope.author == self.me;
        let of = if is_mine {
            envelope.errand.into()
        } else {
            Use::Carried
        };
        self.count_sent(of, 1, envelope.bytes.len());
        packet.hops -= 1;
        self.ask_packet(libp2p_peer, packet);
    }

    /// Sends a broadcast over a link, to whoever is there and with nobody waiting.
    pub(super) fn pass_copy(&mut self, peer: PeerId, envelope: &Envelope, of: Use) {
        if let Some(libp2p_peer) = identity::to_libp2p(peer) {
            self.count_sent(of, 1, envelope.bytes.len());
            let copy = Packet {
                envelope: envelope.clone(),
                hops: MOST_HOPS,
                deadline_ms: 0,
                until_ms: None,
                from: None,
                origin: Origin::Nobody,
            };
            self.ask_packet(libp2p_peer, copy);
        }
    }

    pub(super) fn on_response(
        &mut self,
        peer: Libp2pPeerId,
        request: OutboundRequestId,
        response: Option<Response>,
    ) {
        if matches!(response, Some(Response::Stranger)) {
            self.greet_again(peer);
        }
        match self.outbound.remove(&request) {
            Some(Outbound::Hello) => self.on_welcome(peer, response),
            Some(Outbound::Packet(packet)) => {
                self.packet_done(peer, &packet, response.is_some());
                match (packet.origin, response) {
                    // Whoever waited knows already.
                    (Origin::Settled, _) => {}
                    // It has overtaken the welcome, and goes again when there is a link or
                    // another way. Each time takes a hop, so that it comes to an end.
                    (origin, Some(Response::Stranger)) => self.carry(Packet { origin, ..*packet }),
                    (origin, response) => self.on_packet_response(origin, response),
                }
            }
            Some(Outbound::Records { .. }) | None => {}
        }
    }

    fn on_packet_response(&mut self, origin: Origin, response: Option<Response>) {
        match (origin, response) {
            (Origin::Mine { to, size, question }, Some(Response::Answer(bytes))) => {
                self.shared.arrived(to, size);
                let body = self.open_answer(bytes, to, question.as_ref().map(|(_, s)| *s));
                if let (Some((replier, _)), Some(body)) = (question, body) {
                    replier.answer(body);
                }
            }
            (Origin::Mine { to, size, .. }, Some(Response::Done)) => self.shared.arrived(to, size),
            (Origin::Theirs(caller), Some(Response::Answer(bytes))) => {
                self.give_answer(caller, bytes, Use::Carried);
            }
            (Origin::Nobody, Some(_)) => {}
            (origin, _) => self.lose(origin),
        }
    }

    /// A packet goes no further. Whoever waits for an answer will wait in vain, and
    /// a message is sent again by whoever needs a receipt.
    pub(super) fn lose(&mut self, origin: Origin) {
        self.shared.counters.dropped(1);
        match origin {
            Origin::Mine { to, size, .. } => self.shared.arrived(to, size),
            Origin::Theirs(caller) => self.respond(caller.channel, Response::Busy),
            Origin::Nobody | Origin::Settled => {}
        }
    }

    /// Gives a message to the crawler; tells whether there was room.
    pub(super) fn deliver(&mut self, envelope: &Envelope, onward: Option<Onward>) -> bool {
        let id = MessageId(self.next_id());
        let event = Event::Message {
            id,
            from: envelope.author,
            bytes: envelope.body().into(),
        };
        let is_delivered = self.events.offer(event, envelope.bytes.len());
        if is_delivered {
            self.expect_verdict(id, envelope.author, onward);
        } else {
            self.shared.counters.dropped(1);
        }
        is_delivered
    }

    /// Sends what has waited for a link, or by another way if there will be none.
    pub(super) fn send_waiting(&mut self, peer: PeerId) {
        if let Some(libp2p_peer) = identity::to_libp2p(peer) {
            self.move_up(libp2p_peer);
        }
        for packet in self.waiting.take(peer) {
            self.carry(packet);
        }
    }

    pub(super) fn tick_packets(&mut self) {
        for packet in self.waiting.late(self.now_ms()) {
            self.lose(packet.origin);
        }
        self.settle_late();
        self.tick_questions();
        self.tick_lanes();
    }

    /// Those whose questions are late hear that there is no answer. A neighbour that hears
    /// nothing takes this peer for one that does not read. What has set out stays under way
    /// until whoever has it answers: that is between the two of us.
    fn settle_late(&mut self) {
        let now_ms = self.now_ms();
        let packets = self.outbound.values_mut().filter_map(|out| match out {
            Outbound::Packet(packet) => Some(packet),
            _ => None,
        });
        let mut late: Vec<_> = packets.filter_map(|p| p.settle_late(now_ms)).collect();
        late.extend(self.late_in_line(now_ms));
        for origin in late {
            self.lose(origin);
        }
    }

    pub(super) fn ask(&mut self, peer: Libp2pPeerId, request: Request, outbound: Outbound) {
        let frames = self.swarm.behaviour_mut().frames.inner_mut();
        let id = frames.send_request(&peer, request);
        self.outbound.insert(id, outbound);
    }

    pub(super) fn respond(&mut self, channel: ResponseChannel<Response>, response: Response) {
        // A neighbour that has stopped waiting is no error here.
        let _gone = self
            .swarm
            .behaviour_mut()
            .frames
            .inner_mut()
            .send_response(channel, response);
    }
}
