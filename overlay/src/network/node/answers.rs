//! Where packets arrive, and how a question gets its answer.

use std::mem;

use libp2p::request_response::ResponseChannel;
use tokio::sync::mpsc;

use super::super::frame::Response;
use super::packets::{MESSAGE_LIFE_MS, Origin, Packet};
use super::{Control, Node};
use crate::envelope::{Envelope, Errand};
use crate::offenders::Offence;
use crate::{Event, Outcome, PeerId, Purpose, Replier};

/// Questions of others that may wait for the crawler.
const MOST_QUESTIONS: usize = 1_024;

/// A question that the crawler has not answered yet.
pub struct Question {
    asker: PeerId,
    purpose: Purpose,
    sequence: u64,
    channel: ResponseChannel<Response>,
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
            if let Origin::Mine { to, .. } = packet.origin {
                self.shared.arrived(to);
            }
            return;
        };
        let replier = match packet.origin {
            // A question to oneself.
            Origin::Mine { to, question } => {
                self.shared.arrived(to);
                question.map(|(replier, _)| replier)
            }
            Origin::Theirs(channel) if self.questions.len() < MOST_QUESTIONS => {
                let id = self.next_id();
                let question = Question {
                    asker: envelope.author,
                    purpose,
                    sequence: envelope.sequence,
                    channel,
                    until_ms: self.now_ms() + u64::from(packet.deadline_ms),
                };
                self.questions.insert(id, question);
                let ticket = Ticket {
                    id,
                    outcome: Outcome::NoAnswer,
                    controls: self.controls.clone(),
                };
                Some(Replier::new(move |outcome| ticket.settle(outcome)))
            }
            Origin::Theirs(_) | Origin::Nobody => None,
        };
        let Some(replier) = replier else {
            return self.shared.counters.dropped(1);
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
        let bytes = match outcome {
            Outcome::Answer(bytes) => bytes,
            Outcome::NoAnswer => return self.respond(question.channel, Response::Busy),
            Outcome::Rejected => {
                self.respond(question.channel, Response::Busy);
                return self.blame(question.asker, Offence::Rejected);
            }
        };
        if bytes.len() + 8 > self.options.limits.message_bytes {
            tracing::error!("an answer of {} bytes is too large", bytes.len());
            return;
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
        if let Some((_, envelope)) = sealed {
            self.count_sent(question.purpose.into(), 1, envelope.len());
            self.respond(question.channel, Response::Answer(envelope.to_vec()));
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
        self.questions
            .retain(|_, question| question.until_ms > now_ms);
    }
}
