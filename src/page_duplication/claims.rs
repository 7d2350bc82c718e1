//! The thread that asks other peers about content.
//!
//! It takes pages out of the processing queue, as many as are there, asks each owner
//! once about all of its own, and waits for the answers. An owner that stays silent is
//! not asked again for a while: its pages are unknown at once, so that one dead peer
//! costs the crawl one deadline and not one for every page.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, select};
use peercrawl_overlay::{Overlay, PeerId, Purpose, Reply};

use super::local::{LocalPageDuplication, claim_of};
use crate::config;
use crate::engine::StopSignal;
use crate::message::Message;
use crate::page::Page;
use crate::processing_queue::Undecided;
use crate::seen_content::Answer;

/// A silent owner is left alone for so many deadlines.
const SILENCE: u32 = 10;
/// How soon an owner that was too busy is asked again.
const BUSY: Duration = Duration::from_millis(50);
/// How long a batch may take to fill.
const GATHER: Duration = Duration::from_millis(5);

/// See the module.
pub struct ClaimSender {
    /// Block 10.
    pub queue: Receiver<Undecided>,
    /// The way to the owners.
    pub overlay: Arc<dyn Overlay>,
    /// Where pages go once they are decided.
    pub local: Arc<LocalPageDuplication>,
    /// Batch size and deadline.
    pub settings: config::Content,
    /// Tells when to end.
    pub stop: StopSignal,
}

/// The pages of one owner, and its answer when it comes.
struct Asked {
    owner: PeerId,
    pages: Vec<Page>,
    reply: Option<Reply>,
}

impl ClaimSender {
    /// Works until the engine stops.
    pub fn run(&self) {
        let mut silent_until = HashMap::new();
        loop {
            let first = select! {
                recv(self.queue) -> undecided => undecided,
                recv(self.stop) -> _ => return,
            };
            let Ok(first) = first else { return };
            let now = Instant::now();
            silent_until.retain(|_, until: &mut Instant| *until > now);
            for asked in self.ask_all(first, &silent_until) {
                self.finish(asked, &mut silent_until);
            }
        }
    }

    /// Gathers pages, and asks their owners.
    fn ask_all(&self, first: Undecided, silent: &HashMap<PeerId, Instant>) -> Vec<Asked> {
        let until = Instant::now() + GATHER;
        let mut batches: HashMap<PeerId, Vec<Page>> = HashMap::new();
        let mut next = Some(first);
        while let Some(Undecided { page, owner }) = next {
            let batch = batches.entry(owner).or_default();
            batch.push(page);
            let is_full = batch.len() >= self.settings.batch_claims;
            next = if is_full {
                None
            } else {
                self.queue.recv_deadline(until).ok()
            };
        }
        let batches = batches.into_iter();
        batches
            .map(|(owner, pages)| Asked {
                owner,
                reply: (!silent.contains_key(&owner))
                    .then(|| self.ask(owner, &pages))
                    .flatten(),
                pages,
            })
            .collect()
    }

    fn ask(&self, owner: PeerId, pages: &[Page]) -> Option<Reply> {
        let claims = Message::Claims(pages.iter().map(claim_of).collect());
        let deadline = Duration::from_millis(self.settings.answer_ms);
        let bytes = claims.encode().ok()?;
        let bytes = bytes.into();
        let asked = self
            .overlay
            .request(owner, Purpose::Content, bytes, deadline);
        asked.ok()
    }

    /// Waits for an owner's answers, acts on them, and confirms what was new.
    fn finish(&self, asked: Asked, silent_until: &mut HashMap<PeerId, Instant>) {
        let was_asked = asked.reply.is_some();
        let until = Instant::now() + Duration::from_millis(self.settings.answer_ms);
        let mut reply = asked.reply;
        let mut answers = None;
        while let Some(waiting) = reply.take() {
            answers = waiting
                .wait()
                .and_then(|bytes| match Message::decode(&bytes) {
                    Ok(Message::Answers(got)) if got.len() == asked.pages.len() => Some(got),
                    _ => None,
                });
            // An owner that was too busy to take the question may have time soon.
            let may_ask = answers.is_none() && Instant::now() + BUSY < until;
            if may_ask && self.stop.recv_timeout(BUSY) == Err(RecvTimeoutError::Timeout) {
                reply = self.ask(asked.owner, &asked.pages);
            }
        }
        if was_asked && answers.is_none() {
            let silence = Duration::from_millis(self.settings.answer_ms) * SILENCE;
            silent_until.insert(asked.owner, Instant::now() + silence);
        }
        let mut answers = answers.into_iter().flatten();
        let mut kept = Vec::new();
        for page in asked.pages {
            let answer = answers.next();
            if matches!(answer, Some(Answer::New | Answer::Yours)) {
                kept.push(page.fingerprint);
            }
            self.local.conclude(page, answer);
        }
        if !kept.is_empty()
            && let Ok(bytes) = Message::Confirmed(kept).encode()
        {
            let (overlay, owner) = (self.overlay.clone(), asked.owner);
            self.local.ledger.once_on_disk(move || {
                // Lost, it costs a duplicate later on: the claim becomes void.
                let _lost = overlay.send(owner, Purpose::Content, bytes.into());
            });
        }
    }
}
