//! What an overlay tells the layer above.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

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
    /// A peer asks and waits for an answer.
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
}

/// The answering end of a request. Dropping it leaves the asker without an answer.
#[derive(Debug)]
pub struct Replier(Sender<Vec<u8>>);

impl Replier {
    /// Answers. An asker that has stopped waiting is no error here.
    pub fn answer(self, bytes: Vec<u8>) {
        // The channel holds one answer and this is the only one: it is never full.
        // It is closed only when the asker has gone.
        let _asker_gone = self.0.try_send(bytes);
    }
}

/// The two ends of a request, for whoever implements an overlay.
pub fn reply_channel(deadline: Duration) -> (Replier, Reply) {
    let (sender, answer) = bounded(1);
    let deadline = Instant::now() + deadline;
    (Replier(sender), Reply { answer, deadline })
}
