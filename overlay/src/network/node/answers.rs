//! Where packets arrive, and how a question gets its answer.
//!
//! Whoever asks hears something in any case, be it that this peer is busy. What is answered
//! waits until it is read; whoever leaves much unread gets no more.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

use libp2p::PeerId as Libp2pPeerId;
use libp2p::request_response::{InboundRequestId, ResponseChannel};
use tokio::sync::mpsc;

use super::super::bounds::Bounds;
use super::super::frame::Response;
use super::super::shared::Use;
use super::packets::{MESSAGE_LIFE_MS, Origin, Packet};
use super::{Control, Node};
use crate::envelope::{Envelope, Errand};
use crate::offenders::Offence;
use crate::{Event, Outcome, PeerId, Purpose, Replier};

/// Questions of others that may wait for the crawler.
const MOST_QUESTIONS: usize = 1_024;
/// The longest that a question waits: the exchange that brought it must not be over before
/// its asker hears that there is no answer.
pub const LONGEST_WAIT_MS: u64 = 55_000;

/// A neighbour that waits for the response to a request.
pub struct Caller {
    /// Who it is.
    pub peer: Libp2pPeerId,
    /// The request.
    pub id: InboundRequestId,
    /// Where the response goes.
    pub channel: ResponseChannel<Response>,
}

/// Answers that are not read yet, by the requests that they are for.
pub struct Unread<K> {
    answers: HashMap<K, (Libp2pPeerId, usize)>,
    /// Bytes of those of each neighbour.
    of: HashMap<Libp2pPeerId, usize>,
    /// Bytes of all of them.
    bytes: usize,
    bounds: Bounds,
}

impl<K: Eq + Hash> Unread<K> {
    /// None is, within these bounds.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            answers: HashMap::new(),
            of: HashMap::new(),
            bytes: 0,
            bounds,
        }
    }

    /// Counts an answer; tells whether there was room.
    fn add(&mut self, id: K, peer: Libp2pPeerId, bytes: usize) -> bool {
        let of_one = self.of.get(&peer).copied().unwrap_or(0) + bytes;
        if of_one > self.bounds.unread_of_one || self.bytes + bytes > self.bounds.unread {
            return false;
        }
        self.answers.insert(id, (peer, bytes));
        self.of.insert(peer, of_one);
        self.bytes += bytes;
        true
    }

    /// An answer has been read, or never will be.
    pub fn remove(&mut self, id: &K) {
        let Some((peer, bytes)) = self.answers.remove(id) else {
            return;
        };
        self.bytes -= bytes;
        if let Some(left) = self.of.get_mut(&peer) {
            *left -= bytes;
            if *left == 0 {
                self.of.remove(&peer);
            }
        }
    }
}

/// A question that the crawler has not answered yet.
pub struct Question {
    asker: PeerId,
    purpose: Purpose,
    sequence: u64,
    caller: Caller,
    until_ms: u64,
}

/// Goes with a question to the crawler. When it comes to its end, the asker hears, be it
/// that there is no answer: it should not wait in vain.
struct Ticket {
    id: u64,
    outcome: Outcome,
    controls: mpsc::WeakSender<Control>,
}

impl Ticket {
    fn settle(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(controls) = self.controls.upgrade() {
            let outcome = mem::replace(&mut self.outcome, Outcome::NoAnswer);
            // An answer that finds no room comes too late anyway.
            let _full = controls.try_send(Control::Answer(self.id, outcome));
        }
    }
}

impl Node {
    /// A packet has arrived.
    pub(super) fn arrive(&mut self, packet: Packet) {
        let envelope = packet.envelope;
        let Errand::Ask(purpose) = envelope.errand else {
            let _counted = self.deliver(&envelope, None);
            if let Origin::Mine { to, size, .. } = packet.origin {
                self.shared.arrived(to, size);
            }
            return;
        };
        let replier = match packet.origin {
            // A question to oneself.
            Origin::Mine {
                to,
                size,
                question: Some((replier, _)),
            } => {
                self.shared.arrived(to, size);
                replier
            }
            Origin::Theirs(caller) if self.questions.len() < MOST_QUESTIONS => {
                let id = self.next_id();
                let question = Question {
                    asker: envelope.author,
                    purpose,
                    sequence: envelope.sequence,
                    caller,
                    until_ms: self.until_ms(packet.deadline_ms),
                };
                self.questions.insert(id, question);
                let ticket = Ticket {
                    id,
                    outcome: Outcome::NoAnswer,
                    controls: self.controls.clone(),
                };
                Replier::new(move |outcome| ticket.settle(outcome))
            }
            origin => return self.lose(origin),
        };
        let event = Event::Request {
            from: envelope.author,
            bytes: envelope.body().into(),
            replier,
        };
        if !self.events.offer(event, envelope.bytes.len()) {
            self.shared.counters.dropped(1);
        }
    }

    /// The crawler is done with a question.
    pub(super) fn on_answer(&mut self, id: u64, outcome: Outcome) {
        let Some(question) = self.questions.remove(&id) else {
            return;
        };
        let caller = question.caller;
        let bytes = match outcome {
            Outcome::Answer(bytes) => bytes,
            Outcome::NoAnswer => return self.respond(caller.channel, Response::Busy),
            Outcome::Rejected => {
                self.respond(caller.channel, Response::Busy);
                return self.blame(question.asker, Offence::Rejected);
            }
        };
        if bytes.len() + 8 > self.options.limits.message_bytes {
            tracing::error!("an answer of {} bytes is too large", bytes.len());
            return self.respond(caller.channel, Response::Busy);
        }
        let body = [&question.sequence.to_be_bytes()[..], &bytes].concat();
        let (now, to) = (self.now(), Some(question.asker));
        let sealed = self.sealer.seal(
            Errand::Answer(question.purpose),
            to,
            &body,
            now,
            MESSAGE_LIFE_MS,
        );
        match sealed {
            Some((_, envelope)) => {
                self.give_answer(caller, envelope.to_vec(), question.purpose.into());
            }
            None => self.respond(caller.channel, Response::Busy),
        }
    }

    /// Gives a neighbour the answer that it waits for, unless it leaves too much unread.
    pub(super) fn give_answer(&mut self, caller: Caller, bytes: Vec<u8>, of: Use) {
        let Caller { peer, id, channel } = caller;
        let frames = self.swarm.behaviour().frames.inner();
        if !frames.is_pending_inbound(&peer, &id) {
            // It waits no more, and nobody would say when this answer is done with.
            return;
        }
        let size = bytes.len();
        if self.unread.add(id, peer, size) {
            self.count_sent(of, 1, size);
            self.respond(channel, Response::Answer(bytes));
        } else {
            self.shared.counters.dropped(1);
            self.respond(channel, Response::Busy);
        }
    }

    /// The answer in an envelope, if it is its receiver's to this very question.
    pub(super) fn open_answer(
        &self,
        bytes: Vec<u8>,
        from: PeerId,
        sequence: Option<u64>,
    ) -> Option<Vec<u8>> {
        let (limit, size) = (self.options.limits.message_bytes, bytes.len());
        let envelope = Envelope::open(bytes.into(), self.network, limit, self.now()).ok()?;
        self.shared.counters.received(envelope.errand.into(), size);
        let is_right = matches!(envelope.errand, Errand::Answer(_))
            && envelope.author == from
            && envelope.to == Some(self.me);
        let (asked, body) = envelope.body().split_at_checked(8)?;
        let is_to_this = sequence.is_some_and(|sequence| asked == sequence.to_be_bytes());
        (is_right && is_to_this).then(|| body.to_vec())
    }

    pub(super) fn tick_questions(&mut self) {
        let now_ms = self.now_ms();
        let late = self.questions.iter().filter(|(_, q)| q.until_ms <= now_ms);
        let late: Vec<_> = late.map(|(&id, _)| id).collect();
        for id in late {
            self.on_answer(id, Outcome::NoAnswer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of a megabyte waited for a minute each, as many as there were streams.
    #[test]
    fn what_is_not_read_is_bounded_and_room_comes_back() {
        let mut unread = Unread::new(Bounds::default());
        let peers: Vec<_> = (0..10).map(|_| Libp2pPeerId::random()).collect();
        let mut taken = Vec::new();
        for (number, peer) in (0..100).flat_map(|n| peers.iter().map(move |peer| (n, peer))) {
            if unread.add((number, peer), *peer, 1 << 20) {
                taken.push((number, peer));
            }
        }
        let of_first = taken.iter().filter(|(_, peer)| **peer == peers[0]);
        assert_eq!((of_first.count(), taken.len()), (4, 32));
        assert!(!unread.add((100, &peers[9]), peers[9], 1));
        for id in &taken {
            unread.remove(id);
            unread.remove(id);
        }
        assert_eq!((unread.bytes, unread.of.len()), (0, 0));
        assert!(unread.answers.is_empty());
    }
}
