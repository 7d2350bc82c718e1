//! Fetch receipts: the record of every request that this peer has made.
//!
//! A downloader gives a [`Receipt`] for each request, those for robots.txt included: when,
//! for what, what came of it, how many bytes, what the robots rules said, and who asked
//! for it. One thread writes them down, a line of JSON each, into files that are only
//! ever appended to (`docs/receipts.md`). A file that is full is followed by the next, and
//! the oldest go when there are too many.
//!
//! Invariant: no receipt is lost while the engine runs. The channel to the writer is
//! bounded, and a full one holds downloaders back; so does a disk that takes no more.
//!
//! - `files`: which files there are, and when the next one begins
//! - [`mod@line`]: how a receipt is written
//! - `writer`: the thread

mod files;
pub mod line;
mod writer;

use std::io;
use std::path::Path;

use crossbeam_channel::{Sender, bounded};
use peercrawl_overlay::PeerId;

pub use files::folder_files;
pub use line::Line;
pub use writer::Writer;

use crate::clock::Millis;
use crate::config;
use crate::counters::ErrorKind;
use crate::engine::StopSignal;

/// Receipts that wait to be written at most; more hold downloaders back.
const WAITING: usize = 1_024;

/// The folder of the receipts inside a data directory.
pub const FOLDER: &str = "receipts";

/// One request, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// When it was made.
    pub at_ms: Millis,
    /// What was asked for.
    pub url: String,
    /// The status of the answer, if there was one, whether it was taken or not.
    pub status: Option<u16>,
    /// What came of it.
    pub outcome: Outcome,
    /// The body, as far as it was received.
    pub bytes: u64,
    /// What the robots rules said.
    pub robots: RobotsVerdict,
    /// The peer that the URL came from; none if this peer found it itself.
    pub asked_by: Option<PeerId>,
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The server answered.
    Answered,
    /// There was no answer, or none that could be taken.
    Failed(ErrorKind),
    /// The address guard let no connection be made.
    AddressRefused,
    /// This peer stopped it, to pause or to end.
    CutOff,
}

/// What the robots rules said of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RobotsVerdict {
    /// There are rules, and they allow it.
    Allowed,
    /// The site has no rules for us.
    NoRules,
    /// It was the request for the rules.
    RulesFile,
}

/// Where downloaders give their receipts; nowhere, if none are kept.
#[derive(Clone, Default)]
pub struct Receipts(Option<Sender<Receipt>>);

impl Receipts {
    /// Keeps receipts in this folder: where to give them, and the work that a thread of
    /// its own must do. The work ends when nobody is left who could give one.
    pub fn keep(
        folder: &Path,
        settings: &config::Receipts,
        stop: StopSignal,
    ) -> io::Result<(Self, Writer)> {
        let (sender, receiver) = bounded(WAITING);
        let files = files::Files::open(folder, settings.file_bytes, settings.files)?;
        Ok((Self(Some(sender)), Writer::new(receiver, files, stop)))
    }

    /// Gives a receipt, made only if it is kept. Waits while too many wait.
    pub fn give(&self, receipt: impl FnOnce() -> Receipt) {
        if let Some(sender) = &self.0 {
            // The writer outlives all who give, unless it panicked; that is in the log.
            let _unwritten = sender.send(receipt());
        }
    }
}

#[cfg(test)]
mod tests;
