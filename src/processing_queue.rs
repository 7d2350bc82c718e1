//! Block 10: the processing queue, where pages wait whose content another peer must
//! judge.
//!
//! First in, first out, and bounded: a downloader that cannot put its page down waits,
//! and so fetches no more. Pages whose content is of our own range are decided on the
//! spot and never come here.

use crossbeam_channel::{Receiver, Sender, bounded};
use peercrawl_overlay::PeerId;

use crate::page::Page;

/// A page, and who is to be asked about it.
pub struct Undecided {
    /// The page.
    pub page: Page,
    /// The owner of its fingerprint.
    pub owner: PeerId,
}

/// Both ends of the queue. It is closed when all senders are gone.
pub fn processing_queue(pages: usize) -> (Sender<Undecided>, Receiver<Undecided>) {
    bounded(pages)
}
