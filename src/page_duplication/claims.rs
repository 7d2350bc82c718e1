//! The thread that asks other peers about content.
//!
//! It takes pages out of the processing queue, as many as are there, asks each owner
//! once about all of its own, and waits for the answers, for all of them together. An
//! owner that stays silent is not asked again for a while: its pages are unknown at once,
//! so that dead peers, however many, cost the crawl one deadline and not one for every
//! page. So are, for a shorter while, those of an owner that was too busy to be asked for all
//! of a deadline. A page whose content has become another's meanwhile is claimed once more,
//! from its present owner, if there is time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, select};
use peercrawl_overlay::{Overlay, OverlayError, PeerId, Purpose, Reply};

use super::local::{LocalPageDuplication, claim_of};
use crate::config;
use crate::distribution::Owner;
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

/// Pages by the owners of their contents.
type Batches = HashMap<PeerId, Vec<Page>>;

/// What became of a question.
enum Question {
    /// It is on its way.
    Out(Reply),
    /// Too much is under way to that peer: it may set out soon.
    Busy,
    /// There is no use in asking.
    Vain,
}

/// The pages of one owner, and its answer when it comes.
struct Asked {
    owner: PeerId,
    pages: Vec<Page>,
    question: Question,
    /// Its time is up then, also if others are waited for before it.
    until: Instant,
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
            let mut moved = Batches::new();
            let mut until = now;
            for asked in self.ask_all(first, &silent_until) {
                until = asked.until;
                self.finish(asked, &mut silent_until, Some(&mut moved));
            }
            for asked in self.ask_owners(moved, until, &silent_until) {
                self.finish(asked, &mut silent_until, None);
            }
        }
    }

    /// Gathers pages, and asks their owners.
    fn ask_all(&self, first: Undecided, silent: &HashMap<PeerId, Instant>) -> Vec<Asked> {
        let gathered = Instant::now() + GATHER;
        let mut batches = Batches::new();
        let mut next = Some(first);
        while let Some(Undecided { page, owner }) = next {
            let batch = batches.entry(owner).or_default();
            batch.push(page);
            let is_full = batch.len() >= self.settings.batch_claims;
            next = if is_full {
                None
            } else {
                self.queue.recv_deadline(gathered).ok()
            };
        }
        let until = Instant::now() + Duration::from_millis(self.settings.answer_ms);
        self.ask_owners(batches, until, silent)
    }

    fn ask_owners(
        &self,
        batches: Batches,
        until: Instant,
        silent: &HashMap<PeerId, Instant>,
    ) -> Vec<Asked> {
        let batches = batches.into_iter();
        batches
            .map(|(owner, pages)| Asked {
                owner,
                question: match silent.contains_key(&owner) {
                    true => Question::Vain,
                    false => self.ask(owner, &pages, until),
                },
                pages,
                until,
            })
            .collect()
    }

    fn ask(&self, owner: PeerId, pages: &[Page], until: Instant) -> Question {
        let claims = Message::Claims(pages.iter().map(claim_of).collect());
        let deadline = until.saturating_duration_since(Instant::now());
        let Ok(bytes) = claims.encode() else {
            return Question::Vain;
        };
        let (overlay, bytes) = (&self.overlay, bytes.into());
        match overlay.request(owner, Purpose::Content, bytes, deadline) {
            Ok(reply) => Question::Out(reply),
            Err(OverlayError::Busy(_)) => Question::Busy,
            Err(_) => Question::Vain,
        }
    }

    /// Waits for an owner's answers, acts on them, and confirms what was new. Pages that are
    /// another's by now go to `moved`, if there is time to ask once more. Who is asked then
    /// has what is left of the time, and is not blamed if that is too short.
    fn finish(
        &self,
        asked: Asked,
        silent_until: &mut HashMap<PeerId, Instant>,
        mut moved: Option<&mut Batches>,
    ) {
        let has_all_its_time = moved.is_some();
        let was_asked = has_all_its_time && !matches!(asked.question, Question::Vain);
        let mut question = asked.question;
        let mut has_set_out = false;
        let mut answers = None;
        loop {
            match question {
                Question::Out(reply) => {
                    has_set_out = true;
                    answers = reply
                        .wait()
                        .and_then(|bytes| match Message::decode(&bytes) {
                            Ok(Message::Answers(got)) if got.len() == asked.pages.len() => {
                                Some(got)
                            }
                            _ => None,
                        });
                }
                Question::Busy => {}
                Question::Vain => break,
            }
            // Who was too busy to take the question, or got too many, may have time soon.
            let may_ask = answers.is_none() && Instant::now() + BUSY < asked.until;
            if !may_ask || self.stop.recv_timeout(BUSY) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            question = self.ask(asked.owner, &asked.pages, asked.until);
        }
        if was_asked && answers.is_none() {
            // What never set out says little about its owner. But to wait for it again with
            // each batch would keep all of the others waiting.
            let deadlines = if has_set_out { SILENCE } else { 1 };
            let rest = Duration::from_millis(self.settings.answer_ms) * deadlines;
            silent_until.insert(asked.owner, Instant::now() + rest);
        }
        let mut answers = answers.into_iter().flatten();
        let mut kept = Vec::new();
        for page in asked.pages {
            let answer = answers.next();
            if answer == Some(Answer::NotMine)
                && let Some(moved) = &mut moved
            {
                match self.local.range.owner(page.fingerprint) {
                    Owner::Peer(owner) if owner != asked.owner => {
                        moved.entry(owner).or_default().push(page);
                        continue;
                    }
                    Owner::Me => {
                        self.local.decide_own(page);
                        continue;
                    }
                    // It has newer news than this peer.
                    Owner::Peer(_) | Owner::Nobody => {}
                }
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::CanonicalForm;
    use crate::clock::Clock;
    use crate::content_processor::ContentProcessor;
    use crate::content_range_validator::ContentRangeValidator;
    use crate::counters::Counters;
    use crate::crawl::CrawlId;
    use crate::crawl_jobs::{Outstanding, Unfinished};
    use crate::distribution::Key;
    use crate::engine::View;
    use crate::fingerprint::ContentFingerprint;
    use crate::ledger::{Done, Ledger};
    use crate::page::PageRoom;
    use crate::pending_queue::pending_queue;
    use crate::processing_queue::processing_queue;
    use crate::record::UrlRecord;
    use crossbeam_channel::never;
    use peercrawl_overlay::Event;
    use peercrawl_overlay::memory::{MemoryNetwork, MemoryOverlay};

    fn page(number: u64, outstanding: &Arc<Outstanding>) -> Page {
        let url = format!("http://a.example/{number}");
        let done = Done {
            site: Key(1),
            number,
        };
        outstanding.add(1);
        Page {
            record: UrlRecord {
                url: CanonicalForm::new(&[]).parse(&url).unwrap(),
                crawl: CrawlId(1),
                depth: 0,
                redirects: 0,
                from: None,
            },
            body: Vec::new(),
            content_type: None,
            has_links: false,
            fingerprint: ContentFingerprint::of(&number.to_be_bytes()),
            fetched_ms: 0,
            capture: None,
            unfinished: Unfinished::new(outstanding, &Ledger::nothing(), done),
            room: PageRoom::new(1).take(0),
        }
    }

    /// A sender without a queue of its own.
    fn sender(
        settings: &config::Settings,
        overlay: Arc<dyn Overlay>,
        counters: &Arc<Counters>,
    ) -> ClaimSender {
        let view = Arc::new(View::new(overlay.clone(), &settings.distribution));
        let local = LocalPageDuplication {
            me: overlay.me(),
            range: ContentRangeValidator(view),
            processor: ContentProcessor::new(60, Clock::start(), Ledger::nothing()),
            processing: processing_queue(1).0,
            pending: pending_queue(1).0,
            ledger: Ledger::nothing(),
            counters: counters.clone(),
        };
        ClaimSender {
            queue: processing_queue(1).1,
            overlay,
            local: Arc::new(local),
            settings: settings.content.clone(),
            stop: never(),
        }
    }

    /// An owner to whom too much was under way at the moment was once taken for silent.
    #[test]
    fn an_owner_that_cannot_be_asked_yet_is_asked_again_in_time() {
        let mut settings = config::Settings::default();
        settings.content.answer_ms = 60_000;
        let network = MemoryNetwork::new();
        let overlay: Arc<dyn Overlay> = Arc::new(network.join(PeerId::repeat(1)));
        let owner = network.join(PeerId::repeat(2));
        let fill = || overlay.send(owner.me(), Purpose::Urls, Arc::new([]));
        while fill().is_ok() {}
        let (outstanding, counters) = (Arc::default(), Arc::new(Counters::default()));
        let undecided = Undecided {
            page: page(1, &outstanding),
            owner: owner.me(),
        };
        let sender = sender(&settings, overlay.clone(), &counters);
        let mut silent = HashMap::new();
        let asked = sender.ask_all(undecided, &silent).pop().unwrap();
        assert!(matches!(asked.question, Question::Busy));
        std::thread::scope(|scope| {
            scope.spawn(|| sender.finish(asked, &mut silent, Some(&mut Batches::new())));
            loop {
                let event = owner.events().recv_timeout(Duration::from_secs(60));
                if let Event::Request { replier, .. } = event.unwrap() {
                    let answers = Message::Answers(vec![Answer::New]);
                    return replier.answer(answers.encode().unwrap());
                }
            }
        });
        assert_eq!(counters.content_new.get(), 1);
        assert!(silent.is_empty());
    }

    /// A busy owner once stopped the claims of all others, for a whole deadline with each
    /// batch.
    #[test]
    fn an_owner_that_is_busy_for_a_whole_deadline_rests_for_another() {
        let mut settings = config::Settings::default();
        settings.content.answer_ms = 200;
        let network = MemoryNetwork::new();
        let overlay: Arc<dyn Overlay> = Arc::new(network.join(PeerId::repeat(1)));
        let owner = network.join(PeerId::repeat(2));
        while overlay
            .send(owner.me(), Purpose::Urls, Arc::new([]))
            .is_ok()
        {}
        let (outstanding, counters) = (Arc::default(), Arc::new(Counters::default()));
        let sender = sender(&settings, overlay, &counters);
        let mut silent = HashMap::new();
        let undecided = |number| Undecided {
            page: page(number, &outstanding),
            owner: owner.me(),
        };
        let begun = Instant::now();
        let asked = sender.ask_all(undecided(1), &silent).pop().unwrap();
        sender.finish(asked, &mut silent, Some(&mut Batches::new()));
        let rest = silent[&owner.me()].saturating_duration_since(begun);
        assert!(rest < Duration::from_millis(200) * SILENCE, "{rest:?}");
        let asked = sender.ask_all(undecided(2), &silent).pop().unwrap();
        assert!(matches!(asked.question, Question::Vain), "not at once");
        sender.finish(asked, &mut silent, Some(&mut Batches::new()));
        assert_eq!(counters.content_unknown.get(), 2);
        assert_eq!(outstanding.count(), 0);
    }

    /// A page whose owner had changed since it was fetched was once kept as unknown.
    #[test]
    fn a_page_that_has_become_anothers_is_claimed_from_its_present_owner() {
        let settings = config::Settings::default();
        let network = MemoryNetwork::new();
        let overlay: Arc<dyn Overlay> = Arc::new(network.join(PeerId::repeat(1)));
        let before = network.join(PeerId::repeat(2));
        let now = network.join(PeerId::repeat(3));
        let facts = ((16_u8, 1_u16), None::<u32>, [0_u16; 3]);
        now.announce(postcard::to_stdvec(&facts).unwrap().into());
        let (outstanding, counters) = (Arc::default(), Arc::new(Counters::default()));
        let sender = sender(&settings, overlay, &counters);
        let page = page(1, &outstanding);
        let owner = sender.local.range.owner(page.fingerprint);
        assert_eq!(owner, Owner::Peer(now.me()), "nobody else takes a part");
        let undecided = Undecided {
            page,
            owner: before.me(),
        };
        let (mut silent, mut moved) = (HashMap::new(), Batches::new());
        let answer = |owner: &MemoryOverlay, answer: Answer| {
            loop {
                let event = owner.events().recv_timeout(Duration::from_secs(60));
                if let Event::Request { replier, .. } = event.unwrap() {
                    let answers = Message::Answers(vec![answer]);
                    return replier.answer(answers.encode().unwrap());
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| answer(&before, Answer::NotMine));
            let asked = sender.ask_all(undecided, &silent).pop().unwrap();
            sender.finish(asked, &mut silent, Some(&mut moved));
        });
        assert!(moved.keys().eq([&now.me()]));
        std::thread::scope(|scope| {
            scope.spawn(|| answer(&now, Answer::New));
            let until = Instant::now() + Duration::from_secs(60);
            let asked = sender.ask_owners(moved, until, &silent).pop().unwrap();
            sender.finish(asked, &mut silent, None);
        });
        assert_eq!(counters.content_new.get(), 1);
        assert_eq!(counters.content_unknown.get(), 0);
    }

    /// Silent owners were once waited for one after another: each was asked again when its
    /// turn came, and had all of its time once more.
    #[test]
    fn silent_owners_are_waited_for_together_and_then_left_alone() {
        let mut settings = config::Settings::default();
        settings.content.answer_ms = 500;
        // The first batch is full with the second page of the first owner.
        settings.content.batch_claims = 2;
        let network = MemoryNetwork::new();
        let overlay: Arc<dyn Overlay> = Arc::new(network.join(PeerId::repeat(1)));
        let silent: Vec<_> = (2..10).map(|n| network.join(PeerId::repeat(n))).collect();
        let counters = Arc::new(Counters::default());
        let (put, queue) = processing_queue(64);
        let outstanding = Arc::default();
        for (number, owner) in (0..).zip(silent.iter().chain(&silent)) {
            let (page, owner) = (page(number, &outstanding), owner.me());
            put.send(Undecided { page, owner }).unwrap();
        }
        drop(put);
        let sender = ClaimSender {
            queue,
            ..sender(&settings, overlay, &counters)
        };
        sender.run();
        assert_eq!(counters.content_unknown.get(), 16, "none is lost");
        assert_eq!(outstanding.count(), 0);
        for one in &silent {
            let events = one.events();
            let asked = events
                .try_iter()
                .filter(|event| matches!(event, Event::Request { .. }));
            assert_eq!(asked.count(), 1, "{}", one.me());
        }
    }
}
