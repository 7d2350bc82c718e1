//! What waits for its owner's receipt.
//!
//! A receipt counts only from the peer that a URL was sent to, or from its present owner:
//! strangers must not make this peer forget what nobody has. Numbers begin anywhere, so
//! that a late receipt for an earlier run names nothing of this one, and nobody can guess
//! them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Condvar, Mutex, MutexGuard};
use peercrawl_overlay::PeerId;

use crate::clock::Millis;
use crate::config;
use crate::counters::Counters;
use crate::crawl::CrawlId;
use crate::crawl_jobs::Outstanding;
use crate::distribution::Key;
use crate::fingerprint::url_fingerprint;
use crate::ledger::Ledger;
use crate::preprocessor::Candidate;
use crate::record::UrlRecord;

use super::levels::Levels;

/// The wait for a receipt doubles with each sending, so often at most.
const MOST_DOUBLINGS: u32 = 4;
/// A waiting URL's entry with its share of allocation, without its text.
const ENTRY_BYTES: usize = 240;
/// How long URLs are at least, for all that is counted here.
const USUAL_URL: usize = 80;
/// It takes this part of the memory budget at most.
const PART_OF_MEMORY: u64 = 8;
/// So many URLs that were handed on are remembered, and at most as many again: 5 MB.
const MOST_YOUNG: usize = 200_000;

/// What an entry with this URL takes.
fn bytes_of(url: &Candidate) -> usize {
    ENTRY_BYTES + url.record.url.as_str().len().max(USUAL_URL)
}

/// The settings of an outbox that keeps to its part of the memory budget.
pub fn within_memory(settings: &config::Settings) -> config::HandingOn {
    let most_bytes = settings.memory.limit_bytes / PART_OF_MEMORY;
    let most_urls = most_bytes as usize / (ENTRY_BYTES + USUAL_URL);
    let mut handing_on = settings.handing_on.clone();
    handing_on.outbox_urls = handing_on.outbox_urls.min(most_urls);
    handing_on
}

/// See the module. Bounded, in all and for each owner, by what so many URLs of usual length
/// take, as one host can make up very long ones: whoever finds it full waits a while
/// for room, and is then turned away; those who come next, at once. So owners who are gone
/// for long do not stop the crawl.
pub struct Outbox {
    settings: config::HandingOn,
    state: Mutex<State>,
    /// Wakes whoever waits for room.
    freed: Condvar,
    /// Wakes the sender. Holds one: "there is something" need not be said twice.
    filled: (Sender<()>, Receiver<()>),
    /// The same when there is a whole batch for one owner.
    batch_filled: (Sender<()>, Receiver<()>),
    counters: Arc<Counters>,
    outstanding: Arc<Outstanding>,
    ledger: Arc<Ledger>,
}

struct State {
    entries: BTreeMap<u64, Entry>,
    /// How many they are, and for whom they wait.
    levels: Levels,
    /// How many of each owner have come in since the sender last looked.
    unsent: HashMap<Option<PeerId>, usize>,
    next_number: u64,
    handed_on: HandedOn,
    is_closed: bool,
}

/// URLs that were handed on, the latest of them. One that is forgotten and met again is
/// handed on again, and its owner knows it.
#[derive(Default)]
struct HandedOn {
    young: HashSet<u64>,
    /// Those that were young before.
    old: HashSet<u64>,
}

impl HandedOn {
    fn contains(&self, fingerprint: u64) -> bool {
        self.young.contains(&fingerprint) || self.old.contains(&fingerprint)
    }

    fn insert(&mut self, fingerprint: u64) {
        if self.young.len() >= MOST_YOUNG {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(fingerprint);
    }
}

struct Entry {
    url: Candidate,
    /// When it is to be sent (again).
    due_ms: Millis,
    /// How often it was sent before.
    times_sent: u32,
    /// Whom it waits for, as was last known.
    owner: Option<PeerId>,
    /// Whom it was sent to last, in this run.
    sent_to: Option<PeerId>,
}

impl Entry {
    /// Its owner is another one by now.
    fn wait_for(&mut self, owner: Option<PeerId>, levels: &mut Levels) {
        if self.owner != owner {
            let bytes = bytes_of(&self.url);
            levels.remove(self.owner, bytes);
            levels.add(owner, bytes);
            self.owner = owner;
        }
    }
}

/// A URL that is to be sent now.
pub struct Due {
    /// Its number.
    pub number: u64,
    /// Whether it goes directly to its owner, because the overlay's own way failed.
    pub is_direct: bool,
}

impl Outbox {
    /// Nothing waits yet.
    pub fn new(
        settings: config::HandingOn,
        counters: Arc<Counters>,
        outstanding: Arc<Outstanding>,
        ledger: Arc<Ledger>,
    ) -> Self {
        // At worst, they begin at 0.
        let next_number = u64::from(getrandom::u32().unwrap_or(0) >> 1);
        let state = State {
            entries: BTreeMap::new(),
            levels: Levels::new(settings.outbox_urls.saturating_mul(ENTRY_BYTES + USUAL_URL)),
            unsent: HashMap::new(),
            next_number,
            handed_on: HandedOn::default(),
            is_closed: false,
        };
        Self {
            settings,
            state: Mutex::new(state),
            freed: Condvar::new(),
            filled: bounded(1),
            batch_filled: bounded(1),
            counters,
            outstanding,
            ledger,
        }
    }

    /// A URL waits here since an earlier run.
    pub fn restore(&self, number: u64, record: UrlRecord) {
        let url = Candidate {
            key: Key::of_host(record.url.host()),
            fingerprint: url_fingerprint(record.url.as_str()),
            record,
        };
        // Nobody knows whether it has set out: it goes directly to its owner.
        self.take_in(self.state.lock(), number, url, None, 1);
    }

    /// Puts a URL of this owner in, unless it was handed on before. Waits for room as long
    /// as a receipt may take, twice, unless that was in vain before; a URL for which there
    /// is none then may come again.
    pub fn put(&self, url: Candidate, owner: Option<PeerId>) {
        let patience = Duration::from_millis(2 * self.settings.resend_ms);
        let deadline = Instant::now() + patience;
        let mut state = self.state.lock();
        if state.handed_on.contains(url.fingerprint) {
            self.counters.duplicate.add(1);
            return;
        }
        while !state.levels.has_room(owner) && !state.is_closed {
            let is_stuck = state.levels.is_stuck(owner);
            if is_stuck || self.freed.wait_until(&mut state, deadline).timed_out() {
                state.levels.waited_in_vain(owner);
                self.counters.refused_overflow.add(1);
                return;
            }
        }
        let number = state.next_number;
        self.ledger.outbox_put(number, &url.record);
        self.take_in(state, number, url, owner, 0);
    }

    fn take_in(
        &self,
        mut state: MutexGuard<'_, State>,
        number: u64,
        url: Candidate,
        owner: Option<PeerId>,
        times_sent: u32,
    ) {
        state.levels.add(owner, bytes_of(&url));
        state.handed_on.insert(url.fingerprint);
        state.next_number = state.next_number.max(number + 1);
        let entry = Entry {
            url,
            due_ms: 0,
            times_sent,
            owner,
            sent_to: None,
        };
        state.entries.insert(number, entry);
        let unsent = state.unsent.entry(owner).or_default();
        *unsent += 1;
        let is_batch = *unsent == self.settings.batch_urls;
        drop(state);
        self.outstanding.add(1);
        // Full means that the sender knows already.
        let _known = self.filled.0.try_send(());
        if is_batch {
            let _known = self.batch_filled.0.try_send(());
        }
    }

    /// What the sender waits for.
    pub fn filled(&self) -> &Receiver<()> {
        &self.filled.1
    }

    /// What it need not wait any longer for: a batch is full.
    pub fn batch_filled(&self) -> &Receiver<()> {
        &self.batch_filled.1
    }

    /// How many URLs wait for a receipt.
    pub fn len(&self) -> usize {
        self.state.lock().entries.len()
    }

    /// The crawls of what waits.
    pub fn crawls(&self) -> HashSet<CrawlId> {
        let state = self.state.lock();
        let entries = state.entries.values();
        entries.map(|entry| entry.url.record.crawl).collect()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is due now; it will be due again if there is no receipt in time.
    pub fn take_due(&self, now_ms: Millis) -> Vec<Due> {
        let mut state = self.state.lock();
        state.unsent.clear();
        let due = state.entries.iter_mut().filter(|(_, e)| e.due_ms <= now_ms);
        due.map(|(&number, entry)| {
            // Later and later: an owner that is slow has no use for copies.
            let wait_ms = self.settings.resend_ms << entry.times_sent.min(MOST_DOUBLINGS);
            entry.due_ms = now_ms + wait_ms;
            entry.times_sent = entry.times_sent.saturating_add(1);
            Due {
                number,
                is_direct: entry.times_sent > 1,
            }
        })
        .collect()
    }

    /// A URL that was due belongs to nobody at present: it was not sent, and is looked at
    /// again before long.
    pub fn has_no_owner(&self, number: u64) {
        let mut state = self.state.lock();
        let State {
            entries, levels, ..
        } = &mut *state;
        if let Some(entry) = entries.get_mut(&number) {
            entry.times_sent = entry.times_sent.saturating_sub(1);
            entry.due_ms = 0;
            entry.wait_for(None, levels);
        }
    }

    /// Looks at a URL that waits, if it still does.
    pub fn look<T>(&self, number: u64, at: impl FnOnce(&Candidate) -> T) -> Option<T> {
        self.state.lock().entries.get(&number).map(|e| at(&e.url))
    }

    /// These URLs are on their way to this peer.
    pub fn set_out(&self, numbers: &[u64], to: PeerId) {
        let mut state = self.state.lock();
        let State {
            entries, levels, ..
        } = &mut *state;
        for number in numbers {
            if let Some(entry) = entries.get_mut(number) {
                entry.sent_to = Some(to);
                entry.wait_for(Some(to), levels);
            }
        }
    }

    /// A peer says that it has stored these URLs: those that it was sent, or that it owns
    /// (`owns` tells), are done with here. What others say of the rest counts for nothing:
    /// it is sent again, and whoever has it will say so. False if it names a URL that
    /// nobody has been told of yet.
    pub fn receipt(&self, from: PeerId, numbers: &[u64], owns: impl Fn(Key) -> bool) -> bool {
        let mut state = self.state.lock();
        let mut is_honest = true;
        let mut stored = Vec::new();
        for number in numbers {
            match state.entries.get(number) {
                Some(entry) if entry.times_sent == 0 => is_honest = false,
                Some(entry) if entry.sent_to == Some(from) || owns(entry.url.key) => {
                    stored.push(*number);
                }
                // Somebody else's, or told before.
                Some(_) | None => {}
            }
        }
        self.remove(&mut state, &stored);
        is_honest
    }

    /// These URLs are stored here after all: they are done with in the outbox.
    pub fn taken_back(&self, numbers: &[u64]) {
        self.remove(&mut self.state.lock(), numbers);
    }

    fn remove(&self, state: &mut State, numbers: &[u64]) {
        let mut removed = 0;
        for entry in numbers.iter().filter_map(|n| state.entries.remove(n)) {
            state.levels.remove(entry.owner, bytes_of(&entry.url));
            removed += 1;
        }
        if removed > 0 {
            self.ledger.outbox_removed(numbers);
            self.freed.notify_all();
            self.outstanding.done(removed);
        }
    }

    /// Whoever waits for room ends.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.freed.notify_all();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::canonical::CanonicalForm;

    fn candidate(url: &str) -> Candidate {
        candidate_of(CrawlId(1), url)
    }

    /// A URL of a crawl, ready to be handed on.
    pub fn candidate_of(crawl: CrawlId, url: &str) -> Candidate {
        let url = CanonicalForm::new(&[]).parse(url).unwrap();
        Candidate {
            key: Key::of_host(url.host()),
            fingerprint: url_fingerprint(url.as_str()),
            record: UrlRecord {
                url,
                crawl,
                depth: 0,
                redirects: 0,
                from: None,
            },
        }
    }

    const OWNER: PeerId = PeerId::repeat(2);

    fn outbox(settings: config::HandingOn) -> Outbox {
        Outbox::new(settings, Arc::default(), Arc::default(), Ledger::nothing())
    }

    #[test]
    fn a_url_stays_until_it_is_stored_and_is_sent_directly_from_then_on() {
        let outbox = outbox(config::HandingOn::default());
        outbox.put(candidate("http://a.example/"), Some(OWNER));
        outbox.put(candidate("http://a.example/"), Some(OWNER));
        let due = |now_ms| -> Vec<_> {
            let due = outbox.take_due(now_ms);
            due.iter().map(|due| (due.number, due.is_direct)).collect()
        };
        let number = outbox.state.lock().next_number - 1;
        assert_eq!(due(0), [(number, false)], "once, although it was met twice");
        assert_eq!(due(1_999), []);
        assert_eq!(due(2_000), [(number, true)]);
        assert_eq!(due(5_999), [], "it waits twice as long");
        assert_eq!(due(6_000), [(number, true)]);
        outbox.set_out(&[number], OWNER);
        assert!(outbox.receipt(OWNER, &[number, number + 7], |_| false));
        assert_eq!(due(100_000), []);
        outbox.put(candidate("http://a.example/"), Some(OWNER));
        assert!(outbox.is_empty(), "it is remembered");
        assert_eq!(outbox.outstanding.count(), 0);
        assert_eq!(outbox.counters.duplicate.get(), 2);
    }

    #[test]
    fn a_full_outbox_turns_away_what_may_come_again() {
        let outbox = outbox(config::HandingOn {
            outbox_urls: 1,
            resend_ms: 10,
            ..Default::default()
        });
        outbox.put(candidate("http://a.example/1"), Some(OWNER));
        outbox.put(candidate("http://a.example/2"), Some(OWNER));
        assert_eq!(outbox.counters.refused_overflow.get(), 1);
        let number = outbox.state.lock().next_number - 1;
        outbox.taken_back(&[number]);
        outbox.put(candidate("http://a.example/2"), Some(OWNER));
        assert_eq!(outbox.len(), 1);
    }

    /// A host that makes up URLs as long as they may be once took all memory there is.
    #[test]
    fn long_urls_take_the_room_of_many() {
        let outbox = outbox(config::HandingOn {
            outbox_urls: 100,
            resend_ms: 10,
            ..Default::default()
        });
        let tail = "x".repeat(2_000);
        for path in 0..50 {
            let url = candidate(&format!("http://a.example/{path}/{tail}"));
            outbox.put(url, Some(OWNER));
        }
        // Half of 32,000 bytes, each of them with 2,260.
        assert_eq!(outbox.len(), 8);
        let first = outbox.state.lock().next_number - 8;
        outbox.taken_back(&(first..first + 8).collect::<Vec<_>>());
        for path in 0..60 {
            let url = candidate(&format!("http://a.example/{path}"));
            outbox.put(url, Some(OWNER));
        }
        assert_eq!(outbox.len(), 50, "all room is there again");
    }

    #[test]
    fn it_keeps_to_its_part_of_the_memory() {
        let mut settings = config::Settings::default();
        assert_eq!(within_memory(&settings).outbox_urls, 100_000);
        settings.memory.limit_bytes = 64 << 20;
        assert_eq!(within_memory(&settings).outbox_urls, 26_214);
    }

    /// Every URL once waited four seconds for room, after one owner that gave no receipts
    /// had taken all of it.
    #[test]
    fn an_owner_without_receipts_takes_half_and_is_waited_for_once() {
        const SILENT: PeerId = PeerId::repeat(9);
        let outbox = outbox(config::HandingOn {
            outbox_urls: 100,
            resend_ms: 50,
            ..Default::default()
        });
        let begun = Instant::now();
        for path in 0..1_050 {
            let url = candidate(&format!("http://silent.example/{path}"));
            outbox.put(url, Some(SILENT));
        }
        // In a row, the waits would take a hundred seconds.
        assert!(begun.elapsed() < Duration::from_secs(50));
        assert_eq!(outbox.len(), 50);
        assert_eq!(outbox.counters.refused_overflow.get(), 1_000);
        for path in 0..25 {
            let url = candidate(&format!("http://a.example/{path}"));
            outbox.put(url, Some(OWNER));
        }
        assert_eq!(outbox.len(), 75, "there is room for others");

        // What belongs to another peer by now takes that one's room.
        let first = outbox.state.lock().next_number - 75;
        let numbers: Vec<u64> = (first..first + 75).collect();
        outbox.set_out(&numbers[..50], OWNER);
        outbox.taken_back(&numbers[50..]);
        outbox.put(candidate("http://a.example/50"), Some(OWNER));
        assert_eq!(outbox.len(), 50);
        outbox.put(candidate("http://silent.example/50"), Some(SILENT));
        assert_eq!(outbox.len(), 51, "it comes again");
    }

    /// Anybody's receipt once emptied the outbox: both seeds of a crawl were gone.
    #[test]
    fn a_receipt_counts_from_whom_it_was_sent_to_and_from_its_owner() {
        const OTHER: PeerId = PeerId::repeat(9);
        let outbox = outbox(config::HandingOn::default());
        for path in 0..3 {
            let url = candidate(&format!("http://a.example/{path}"));
            outbox.put(url, Some(OWNER));
        }
        let first = outbox.state.lock().next_number - 3;
        let numbers = [first, first + 1, first + 2];
        assert!(!outbox.receipt(OWNER, &numbers, |_| true), "made up");
        assert_eq!(outbox.len(), 3, "nobody has been told of them");
        outbox.take_due(0);
        outbox.set_out(&numbers, OWNER);
        assert!(outbox.receipt(OTHER, &numbers, |_| false));
        assert_eq!(outbox.len(), 3, "it has no say");
        assert!(outbox.receipt(OWNER, &numbers[..1], |_| false));
        assert_eq!(outbox.len(), 2);
        assert!(outbox.receipt(OTHER, &numbers[1..2], |_| true));
        assert_eq!(outbox.len(), 1, "it is its owner by now");
        outbox.set_out(&numbers, OTHER);
        assert!(outbox.receipt(OWNER, &numbers, |_| false));
        assert_eq!(outbox.len(), 1, "it was sent elsewhere meanwhile");
        assert_eq!(outbox.outstanding.count(), 1);
    }

    #[test]
    fn what_was_handed_on_is_remembered_within_bounds() {
        let mut handed_on = HandedOn::default();
        let most = 2 * MOST_YOUNG as u64;
        for fingerprint in 0..3 * most {
            assert!(!handed_on.contains(fingerprint), "no URL is lost by it");
            handed_on.insert(fingerprint);
            assert!(handed_on.young.len() + handed_on.old.len() <= most as usize);
        }
        let remembered = (0..MOST_YOUNG as u64).map(|ago| 3 * most - 1 - ago);
        assert!(remembered.into_iter().all(|one| handed_on.contains(one)));
    }
}
