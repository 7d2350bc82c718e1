//! Block 11: the pending queue, which feeds the extractors.
//!
//! Only pages come here whose content is new, or of which nobody could say in time:
//! that is what cuts mirrors, and traps whose pages are all alike. Bounded: whoever
//! cannot put a page down waits.

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::page::Page;

/// Both ends of the queue. It is closed when all senders are gone.
pub fn pending_queue(pages: usize) -> (Sender<Page>, Receiver<Page>) {
    bounded(pages)
}
