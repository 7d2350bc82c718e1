//! What an overlay tells the layer above.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select, bounded};

use crate::{Member, PeerId};

/// Names a message that was received, for the verdict on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub u64);

/// What the crawler thinks of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Well-formed: it may travel on.
    Accept,
    /// Of no use here, through nobody's fault: it travels no further.
    Ignore,
    /// Nonsense: it travels no further, and its sender is blamed.
    Reject,
}

/// Something that happened in the overlay.
#[derive(Debug)]
pub enum Event {
    /// The members have changed.
    Members(Arc<[Member]>),
    /// A message came in, handed on or sent directly.
    Message {
        /// Names it for the verdict.
        id: MessageId,
        /// Who wrote it.
        from: PeerId,
        /// What it says.
        bytes: Arc<[u8]>,
    },
    /// A peer asks and waits for an answer. The [`Replier`] takes the verdict, too.
    Request {
        /// Who asks.
        from: PeerId,
        /// What it asks.
        bytes: Arc<[u8]>,
        /// Where the answer goes.
        replier: Replier,
    },
}

/// The waiting end of a request.
#[derive(Debug)]
pub struct Reply {
    answer: Receiver<Vec<u8>>,
    deadline: Instant,
}

impl Reply {
    /// Waits for the answer until the deadline; `None` means that none came in time.
    pub fn wait(self) -> Option<Vec<u8>> {
        self.answer.recv_deadline(self.deadline).ok()
    }

    /// Waits until one of these need not be waited for any more, and tells which; `None` if
    /// there are none, or if that takes longer than until then.
    pub fn first_of<'a>(
        replies: impl IntoIterator<Item = &'a Self>,
        until: Instant,
    ) -> Option<usize> {
        let mut answers = Select::new();
        let mut soonest: Option<(Instant, usize)> = None;
        for reply in replies {
            let number = answers.recv(&reply.answer);
            if soonest.is_none_or(|(deadline, _)| reply.deadline < deadline) {
                soonest = Some((reply.deadline, number));
            }
        }
        let (deadline, late) = soonest?;
        match answers.ready_deadline(deadline.min(until)) {
            Ok(number) => Some(number),
            Err(_) => (deadline <= until).then_some(late),
        }
    }
}

/// What the crawler makes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has this answer.
    Answer(Vec<u8>),
    /// There is no answer, through nobody's fault.
    NoAnswer,
    /// It was nonsense: there is no answer, and its author is blamed.
    Rejected,
}

/// The answering end of a request. Dropping it leaves the asker without an answer.
pub struct Replier(Box<dyn FnOnce(Outcome) + Send>);

impl Replier {
    /// A replier that tells `settle` what becomes of the request, for whoever implements
    /// an overlay.
    pub fn new(settle: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self(Box::new(settle))
    }

    /// Answers. An asker that has stopped waiting is no error here.
    pub fn answer(self, bytes: Vec<u8>) {
        (self.0)(Outcome::Answer(bytes));
    }

    /// Says that the request was nonsense: as with a message, its author is blamed.
    pub fn reject(self) {
        (self.0)(Outcome::Rejected);
    }
}

impl fmt::Debug for Replier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replier")
    }
}

/// The two ends of a request, for whoever implements an overlay.
pub fn reply_channel(deadline: Duration) -> (Replier, Reply) {
    let (sender, answer) = bounded(1);
    let deadline = Instant::now() + deadline;
    let replier = Replier::new(move |outcome| {
        // Without an answer the channel is closed, and the asker waits no longer.
        if let Outcome::Answer(bytes) = outcome {
            // The channel holds one answer and this is the only one: it is never full.
            // It is closed only when the asker has gone.
            let _asker_gone = sender.try_send(bytes);
        }
    });
    (replier, Reply { answer, deadline })
}
