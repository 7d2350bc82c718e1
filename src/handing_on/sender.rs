//! The thread that sends what waits in the outbox: when there is a whole batch for an owner,
//! or after a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crossbeam_channel::{after, select};
use peercrawl_overlay::{Overlay, PeerId, Purpose};

use super::outbox::{Due, Outbox};
use crate::clock::Clock;
use crate::config;
use crate::crawl::{CrawlId, Crawls};
use crate::distribution::Owner;
use crate::engine::StopSignal;
use crate::message::{Message, SentUrl};
use crate::preprocessor::Candidate;
use crate::url_range_validator::{Reception, UrlRangeValidator};

/// A message is sent off when it has grown to so many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// See the module.
pub struct HandOnSender {
    /// What waits.
    pub outbox: Arc<Outbox>,
    /// The way to the owners.
    pub overlay: Arc<dyn Overlay>,
    /// Who the owners are; and where URLs go that have become ours.
    pub range: Arc<UrlRangeValidator>,
    /// The definitions that travel along.
    pub crawls: Arc<Crawls>,
    /// Whether nothing is sent for now: this peer pauses.
    pub keeps_to_itself: Arc<AtomicBool>,
    /// Batch size and times.
    pub settings: config::HandingOn,
    /// The time.
    pub clock: Clock,
    /// Tells when to end.
    pub stop: StopSignal,
}

/// URLs that travel together.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct Batch {
    owner: PeerId,
    crawl: CrawlId,
    is_direct: bool,
}

impl HandOnSender {
    /// Works until the engine stops.
    pub fn run(&self) {
        let flush = Duration::from_millis(self.settings.flush_ms);
        loop {
            // With nothing in the outbox there is nothing to wake up for.
            select! {
                recv(self.outbox.filled()) -> _ => {}
                recv(self.stop) -> _ => return,
            }
            while !self.outbox.is_empty() {
                self.flush();
                select! {
                    recv(self.outbox.batch_filled()) -> _ => {}
                    recv(after(flush)) -> _ => {}
                    recv(self.stop) -> _ => return,
                }
            }
        }
    }

    /// Sends everything that is due, by owner.
    pub fn flush(&self) {
        if self.keeps_to_itself.load(Relaxed) {
            return;
        }
        let mut batches: BTreeMap<Batch, Vec<u64>> = BTreeMap::new();
        let ownership = self.range.view.current();
        for Due { number, is_direct } in self.outbox.take_due(self.clock.now_ms()) {
            let look = |url: &Candidate| (url.key, url.record.crawl);
            let Some((key, crawl)) = self.outbox.look(number, look) else {
                continue;
            };
            match ownership.owner(key) {
                Owner::Me => self.take_back(number, crawl),
                Owner::Peer(owner) => {
                    let batch = Batch {
                        owner,
                        crawl,
                        is_direct,
                    };
                    batches.entry(batch).or_default().push(number);
                }
                // Its range has no peer at present: it waits.
                Owner::Nobody => self.outbox.has_no_owner(number),
            }
        }
        for (batch, numbers) in batches {
            self.send(batch, &numbers);
        }
    }

    /// A URL has become ours while it waited. It leaves the outbox only when it is stored:
    /// it must be somewhere at every moment.
    fn take_back(&self, number: u64, crawl: CrawlId) {
        let record = self.outbox.look(number, |url| url.record.clone());
        let (Some(crawl), Some(record)) = (self.crawls.get(crawl), record) else {
            return;
        };
        match self.range.receive(&crawl, record) {
            Reception::Stored => self.outbox.taken_back(&[number]),
            // Looked at again when it is due.
            Reception::Busy => {}
            // It has become another's since this round began.
            Reception::NotMine => self.outbox.has_no_owner(number),
        }
    }

    fn send(&self, batch: Batch, numbers: &[u64]) {
        let Some(crawl) = self.crawls.get(batch.crawl) else {
            return;
        };
        tracing::debug!("{} URLs handed on to {}", numbers.len(), batch.owner);
        // Noted before they leave: a receipt may be quick.
        self.outbox.set_out(numbers, batch.owner);
        let mut key = 0;
        let mut urls = Vec::new();
        let mut bytes = 0;
        for (position, &number) in numbers.iter().enumerate() {
            let sent = self.outbox.look(number, |url| {
                key = url.key.0;
                SentUrl {
                    number,
                    url: url.record.url.as_str().into(),
                    depth: url.record.depth,
                    redirects: url.record.redirects,
                }
            });
            if let Some(sent) = sent {
                bytes += sent.url.len();
                urls.push(sent);
            }
            let is_last = position + 1 == numbers.len();
            let is_full = urls.len() >= self.settings.batch_urls || bytes >= BATCH_BYTES;
            if (is_last || is_full) && !urls.is_empty() {
                let message = Message::Urls {
                    crawl: crawl.definition.clone(),
                    urls: std::mem::take(&mut urls),
                    is_direct: batch.is_direct,
                };
                bytes = 0;
                self.send_message(batch, key, &message);
            }
        }
    }

    fn send_message(&self, batch: Batch, key: u64, message: &Message) {
        let encoded = match message.encode() {
            Ok(bytes) => bytes.into(),
            Err(error) => {
                tracing::error!("cannot hand URLs on: {error}");
                return;
            }
        };
        let sent = if batch.is_direct {
            self.overlay.send(batch.owner, Purpose::Urls, encoded)
        } else {
            self.overlay
                .hand_on(key, Some(batch.owner), Purpose::Urls, encoded)
        };
        if let Err(error) = sent {
            // What did not set out is sent again like what was lost on the way.
            tracing::debug!("handing on: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::outbox::tests::candidate_of;
    use super::*;
    use crate::blocklist::BlockList;
    use crate::canonical::CanonicalForm;
    use crate::config::Settings;
    use crate::counters::Counters;
    use crate::crawl::CrawlDefinition;
    use crate::crawl_jobs::CrawlJobs;
    use crate::distribution::Key;
    use crate::engine::View;
    use crate::ledger::Ledger;
    use crate::limits::Limits;
    use crate::preprocessor::Preprocessor;
    use crossbeam_channel::never;
    use peercrawl_overlay::Event;
    use peercrawl_overlay::memory::{MemoryNetwork, MemoryOverlay};

    /// What a member with a part of the web says about itself.
    fn offers(overlay: &MemoryOverlay) {
        let facts = ((16_u8, 1_u16), None::<u32>, [0_u16; 3]);
        overlay.announce(postcard::to_stdvec(&facts).unwrap().into());
    }

    /// A sender of peer 1, the crawl that it knows, and the queues that it fills.
    fn sender(
        settings: &Settings,
        network: &MemoryNetwork,
        stop: StopSignal,
    ) -> (HandOnSender, CrawlId, Arc<CrawlJobs>) {
        let me = network.join(PeerId::repeat(1));
        offers(&me);
        let overlay: Arc<dyn Overlay> = Arc::new(me);
        let view = Arc::new(View::new(overlay.clone(), &settings.distribution));
        let (counters, clock) = (Arc::new(Counters::default()), Clock::start());
        let jobs = Arc::new(CrawlJobs::new(
            clock,
            counters.clone(),
            Arc::default(),
            false,
            Limits::new(&settings.limits).gate.clone(),
            Ledger::nothing(),
        ));
        let preprocessor = Arc::new(Preprocessor::new(
            settings,
            jobs.clone(),
            counters.clone(),
            Ledger::nothing(),
            Arc::new(BlockList::new(&settings.crawl, 0)),
        ));
        let outbox = Arc::new(Outbox::new(
            settings.handing_on.clone(),
            counters.clone(),
            jobs.outstanding.clone(),
            Ledger::nothing(),
        ));
        let range = Arc::new(UrlRangeValidator {
            view,
            preprocessor,
            outbox: outbox.clone(),
            allow_private: false,
            counters,
        });
        let crawls = Arc::new(Crawls::default());
        let mut definition = CrawlDefinition::from_settings(&settings.crawl);
        definition.scope = config::Scope::Any;
        let crawl = definition.id();
        crawls.add(definition, &CanonicalForm::new(&[]));
        let sender = HandOnSender {
            outbox,
            overlay,
            range,
            crawls,
            keeps_to_itself: Arc::default(),
            settings: settings.handing_on.clone(),
            clock,
            stop,
        };
        (sender, crawl, jobs)
    }

    /// A host that is somebody else's.
    fn foreign_host(sender: &HandOnSender) -> String {
        let view = &sender.range.view;
        let is_others = |host: &String| view.owner(Key::of_host(host)) != Owner::Me;
        let mut hosts = (0..).map(|number| format!("h{number}.example"));
        hosts.find(is_others).unwrap()
    }

    /// Size once only cut what was sent by the clock.
    #[test]
    fn a_full_batch_sets_out_before_its_time() {
        let mut settings = Settings::default();
        settings.handing_on.flush_ms = 3_600_000;
        settings.handing_on.batch_urls = 5;
        let network = MemoryNetwork::new();
        let other = network.join(PeerId::repeat(2));
        offers(&other);
        let (stop, stopped) = crossbeam_channel::bounded(0);
        let (sender, crawl, _) = sender(&settings, &network, stopped);
        let host = foreign_host(&sender);
        let put = |path| {
            let url = candidate_of(crawl, &format!("http://{host}/{path}"));
            sender.outbox.put(url, Some(other.me()));
        };
        let next_message = || {
            loop {
                let event = other.events().recv_timeout(Duration::from_secs(60));
                if let Event::Message { bytes, .. } = event.unwrap() {
                    match Message::decode(&bytes).unwrap() {
                        Message::Urls { urls, .. } => return urls.len(),
                        _ => panic!("URLs and nothing else"),
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| sender.run());
            put(0);
            assert_eq!(next_message(), 1, "nothing was waited for yet");
            for path in 1..=5 {
                put(path);
            }
            assert_eq!(next_message(), 5);
            drop(stop);
        });
    }

    /// A URL that came back was once dropped if there was no room for it, or if it had
    /// become another's again.
    #[test]
    fn a_url_that_comes_back_leaves_the_outbox_when_it_is_stored() {
        let mut settings = Settings::default();
        settings.queues.site_urls = 1;
        settings.handing_on.resend_ms = 0;
        let network = MemoryNetwork::new();
        let other = network.join(PeerId::repeat(2));
        offers(&other);
        let (sender, crawl, jobs) = sender(&settings, &network, never());
        let (outbox, view) = (sender.outbox.clone(), sender.range.view.clone());
        let host = foreign_host(&sender);
        for path in 0..2 {
            let url = candidate_of(crawl, &format!("http://{host}/{path}"));
            outbox.put(url, Some(other.me()));
        }
        let unknown = candidate_of(CrawlId(7), &format!("http://{host}/unknown"));
        outbox.put(unknown, Some(other.me()));
        sender.flush();
        assert_eq!(outbox.len(), 3, "they wait for receipts");
        let first = outbox.take_due(u64::MAX)[0].number;
        sender.take_back(first, crawl);
        assert_eq!(outbox.len(), 3, "it is the other's still");
        other.leave();
        view.refresh();
        sender.flush();
        assert_eq!(outbox.len(), 2, "the site has room for one");
        assert_eq!(jobs.queued(), 1);
        assert_eq!(jobs.outstanding.count(), 3);
    }
}
