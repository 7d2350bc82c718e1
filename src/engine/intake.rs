//! The threads that take in what other peers send: URLs, receipts and claims.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, select};
use peercrawl_overlay::{Event, Overlay, PeerId, Purpose, Replier, Verdict};

use super::StopSignal;
use crate::canonical::CanonicalForm;
use crate::crawl::{CrawlDefinition, Crawls};
use crate::distribution::Owner;
use crate::handing_on::Outbox;
use crate::handover::Arrivals;
use crate::handover::arrivals::Taking;
use crate::ledger::Ledger;
use crate::message::{Message, SentUrl};
use crate::page_duplication::RemotePageDuplication;
use crate::record::UrlRecord;
use crate::shield::shielded;
use crate::url_range_validator::{Reception, UrlRangeValidator};

/// How often a peer that has left looks whether it has joined again.
const AWAY: Duration = Duration::from_millis(250);

/// See the module.
pub struct Intake {
    /// Where it all comes from.
    pub overlay: Arc<dyn Overlay>,
    /// Block 5, for URLs.
    pub range: Arc<UrlRangeValidator>,
    /// Block 9, for claims.
    pub remote: Arc<RemotePageDuplication>,
    /// For receipts.
    pub outbox: Arc<Outbox>,
    /// The crawls that this peer takes part in.
    pub crawls: Arc<Crawls>,
    /// The canonical form: what strangers call canonical is checked.
    pub form: Arc<CanonicalForm>,
    /// Nothing is promised before it is written.
    pub ledger: Arc<Ledger>,
    /// Sites that are becoming ours.
    pub arrivals: Arc<Arrivals>,
    /// Tells the handover thread that the members have changed.
    pub changed: Sender<()>,
    /// Tells when to end.
    pub stop: StopSignal,
}

impl Intake {
    /// Works until the engine stops.
    pub fn run(&self) {
        let mut events = self.overlay.events();
        loop {
            select! {
                recv(events) -> event => match event {
                    // What they sent last is theirs to send again.
                    Ok(event) => drop(shielded(
                        || "a message of a peer".to_owned(),
                        || self.take(event),
                    )),
                    // This peer has left, and may join again.
                    Err(_) => match self.stop.recv_timeout(AWAY) {
                        Err(RecvTimeoutError::Timeout) => events = self.overlay.events(),
                        _ => return,
                    },
                },
                recv(self.stop) -> _ => return,
            }
        }
    }

    fn take(&self, event: Event) {
        match event {
            Event::Members(_) => {
                self.arrivals.look_around(&*self.overlay);
                self.range.view.refresh();
                // Full means that the handover thread knows already.
                let _known = self.changed.try_send(());
            }
            Event::Message { id, from, bytes } => {
                let verdict = match Message::decode(&bytes) {
                    Ok(message) => self.take_message(from, message),
                    Err(error) => {
                        tracing::debug!("from {from}: {error}");
                        Verdict::Reject
                    }
                };
                self.overlay.verdict(id, verdict);
            }
            Event::Request {
                from,
                bytes,
                replier,
            } => self.take_request(from, &bytes, replier),
        }
    }

    fn take_message(&self, from: PeerId, message: Message) -> Verdict {
        match message {
            Message::Urls {
                crawl,
                urls,
                is_direct,
            } => return self.take_urls(from, crawl, &urls, is_direct),
            Message::Receipt { to, stored, .. } => {
                let ownership = self.range.view.current();
                let owns = |key| ownership.owner(key) == Owner::Peer(from);
                // What is busy or somebody else's is sent again when it is due. One that
                // is not for us was broadcast, as none ever is.
                if to != self.overlay.me() || !self.outbox.receipt(from, &stored, owns) {
                    return Verdict::Reject;
                }
            }
            Message::Confirmed(fingerprints) => self.remote.confirm(&fingerprints, from),
            // These are requests and answers, and no messages.
            Message::Claims(_)
            | Message::Answers(_)
            | Message::Site(_)
            | Message::Crawl(_)
            | Message::Welcome(_)
            | Message::Taken(_)
            | Message::Unfit => return Verdict::Reject,
        }
        // For us alone: it travels no further.
        Verdict::Ignore
    }

    fn take_urls(
        &self,
        from: PeerId,
        definition: CrawlDefinition,
        urls: &[SentUrl],
        is_direct: bool,
    ) -> Verdict {
        let id = definition.id();
        let Some(crawl) = self.crawls.add_from(from, definition, &self.form) else {
            // Without a receipt they are sent again, and there may be room by then.
            return Verdict::Ignore;
        };
        let mut verdict = match is_direct {
            true => Verdict::Ignore,
            false => Verdict::Accept,
        };
        let (mut stored, mut busy, mut not_mine) = (Vec::new(), Vec::new(), Vec::new());
        for sent in urls {
            let Ok(url) = self.form.parse(&sent.url) else {
                verdict = Verdict::Reject;
                continue;
            };
            if verdict == Verdict::Accept && self.range.refuses_address(&url) {
                // Pages have such links, so it is nobody's fault; but it travels no further.
                verdict = Verdict::Ignore;
            }
            let record = UrlRecord {
                url,
                crawl: id,
                depth: sent.depth,
                redirects: sent.redirects,
                from: Some(Box::new(from)),
            };
            match self.range.receive(&crawl, record) {
                Reception::Stored => stored.push(sent.number),
                Reception::Busy => busy.push(sent.number),
                Reception::NotMine => not_mine.push(sent.number),
            }
        }
        if !is_direct {
            // A broadcast is full of other peers' URLs.
            not_mine.clear();
        }
        let receipt = Message::Receipt {
            to: from,
            stored,
            busy,
            not_mine,
        };
        if !receipt.is_empty()
            && let Ok(bytes) = receipt.encode()
        {
            let overlay = self.overlay.clone();
            self.ledger.once_on_disk(move || {
                // A receipt that is lost makes its sender send again, and us say so again.
                let _lost = overlay.send(from, Purpose::Urls, bytes.into());
            });
        }
        verdict
    }

    fn take_request(&self, from: PeerId, bytes: &[u8], replier: Replier) {
        // Whether the answer must hold after a power cut: nothing else is kept of a request.
        let mut is_promise = false;
        let answer = match Message::decode(bytes) {
            Ok(Message::Claims(claims)) => {
                // A claim promises nothing until it is confirmed.
                let answers = Message::Answers(self.remote.answer(&claims, from));
                if let Ok(bytes) = answers.encode() {
                    replier.answer(bytes);
                }
                return;
            }
            Ok(Message::Crawl(definition)) => {
                Message::Taken(self.crawls.add_from(from, definition, &self.form).is_some())
            }
            Ok(Message::Site(part)) => {
                is_promise = part.is_last;
                match self.arrivals.take(from, part) {
                    Taking::Taken => Message::Taken(true),
                    Taking::NotNow => Message::Taken(false),
                    Taking::Never => Message::Unfit,
                }
            }
            Ok(Message::Welcome(offer)) => {
                self.arrivals.welcomed_by(from, offer);
                Message::Taken(true)
            }
            Ok(_) => {
                tracing::debug!("from {from}: a request that is none");
                return replier.reject();
            }
            Err(error) => {
                tracing::debug!("from {from}: {error}");
                return replier.reject();
            }
        };
        match answer.encode() {
            Ok(bytes) if is_promise => self.ledger.once_on_disk(move || replier.answer(bytes)),
            Ok(bytes) => replier.answer(bytes),
            Err(error) => tracing::error!("cannot answer {from}: {error}"),
        }
    }
}
