//! Block 12: the store of seen content.
//!
//! For each fingerprint of our own range: where and when its content was first seen.
//! An entry begins as a claim, which whoever made it must confirm once it has kept the
//! page; a claim that is not confirmed in time is void, and until then duplicates are kept
//! whole, so a peer that crashed between the two hides nothing. Checking and inserting are
//! one step under one lock.
//!
//! Confirmed entries go to the ledger. Memory holds the youngest of them: when a shard is
//! full, its entries become the old ones, and the old ones before them are on disk alone.
//! Claims are in memory alone until they are confirmed; how many of them one peer and all
//! together may have is bounded ([`open_claims`]), and void ones go.

pub mod open_claims;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use peercrawl_overlay::PeerId;
use serde::{Deserialize, Serialize};

use self::open_claims::OpenClaims;
use crate::archive::Digest;
use crate::clock::Millis;
use crate::fingerprint::ContentFingerprint;
use crate::ledger::Ledger;

const SHARDS: usize = 64;

/// Somebody has fetched a page with this content, and asks whether it is new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The content.
    pub fingerprint: ContentFingerprint,
    /// Where it was found.
    pub url: Box<str>,
    /// When it was found.
    pub at_ms: Millis,
    /// The digest of the body as it was sent, if whoever found it archives pages.
    pub payload_digest: Option<Digest>,
}

/// What the owner of a fingerprint answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Nobody had it: it is yours, if you confirm it in time.
    New,
    /// You had claimed it already, from the same URL.
    Yours,
    /// Somebody was first.
    DuplicateOf {
        /// Where it was seen.
        url: Box<str>,
        /// When it was seen.
        at_ms: Millis,
        /// The digest of the body as it was sent, if it is known and somebody has kept it.
        payload_digest: Option<Digest>,
    },
    /// It is not for me to say: ask its owner.
    NotMine,
}

impl Answer {
    /// The length of the URL that it names, if it names one.
    pub fn url_bytes(&self) -> usize {
        match self {
            Self::DuplicateOf { url, .. } => url.len(),
            Self::New | Self::Yours | Self::NotMine => 0,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Seen {
    url: Box<str>,
    at_ms: Millis,
    payload_digest: Option<Digest>,
    claimant: PeerId,
    /// When the claim becomes void; `None` once it is confirmed.
    void_ms: Option<Millis>,
}

/// The entries of one shard.
#[derive(Default)]
struct Shard {
    young: HashMap<ContentFingerprint, Seen>,
    /// Those that were young before the last change of generation.
    old: HashMap<ContentFingerprint, Seen>,
}

impl Shard {
    /// Where an entry is, or would be. An old one that is asked for is young again.
    fn entry(&mut self, fingerprint: ContentFingerprint) -> Entry<'_, ContentFingerprint, Seen> {
        if let Some(seen) = self.old.remove(&fingerprint) {
            self.young.insert(fingerprint, seen);
        }
        self.young.entry(fingerprint)
    }

    fn knows(&self, fingerprint: ContentFingerprint) -> bool {
        self.young.contains_key(&fingerprint) || self.old.contains_key(&fingerprint)
    }

    /// The young ones become old, and the old ones go, but for claims that still hold:
    /// they are nowhere else. True if some went.
    fn age(&mut self, now_ms: Millis) -> bool {
        let mut gone = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
        let before = gone.len();
        gone.retain(|_, seen| seen.void_ms.is_some_and(|void_ms| now_ms < void_ms));
        let has_lost = gone.len() < before;
        self.young = gone;
        has_lost
    }

    /// A claim goes, unless it holds or was confirmed.
    fn forget_void(&mut self, fingerprint: ContentFingerprint, now_ms: Millis) {
        for entries in [&mut self.young, &mut self.old] {
            if let Entry::Occupied(entry) = entries.entry(fingerprint)
                && entry.get().void_ms.is_some_and(|void_ms| void_ms <= now_ms)
            {
                entry.remove();
            }
        }
    }
}

/// See the module.
pub struct SeenContent {
    shards: Vec<Mutex<Shard>>,
    open: OpenClaims,
    claim_ms: u64,
    ledger: Arc<Ledger>,
    /// Young entries of one shard at most.
    most_young: AtomicUsize,
}

impl SeenContent {
    /// Nothing seen yet; claims are held for `claim_ms`.
    pub fn new(claim_ms: u64, ledger: Arc<Ledger>) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            open: OpenClaims::default(),
            claim_ms,
            ledger,
            most_young: AtomicUsize::new(usize::MAX),
        }
    }

    /// About so many entries may be in memory from now on, if the rest is on disk.
    pub fn set_memory_entries(&self, entries: usize) {
        let most = (entries / 2 / SHARDS).max(16);
        self.most_young.store(most, Relaxed);
    }

    /// Entries in memory.
    pub fn in_memory(&self) -> usize {
        let count = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            shard.young.len() + shard.old.len()
        };
        self.shards.iter().map(count).sum()
    }

    /// Checks, and inserts if it is new, in one step. Who has too many claims open gets no
    /// verdict.
    pub fn claim(&self, claim: &Claim, claimant: PeerId, now_ms: Millis) -> Answer {
        let room = self.open.room(claimant, claim.url.len(), now_ms);
        for void in room.void {
            self.shard(void).lock().forget_void(void, now_ms);
        }
        if !room.is_there {
            return Answer::NotMine;
        }
        let answer = self.decide(claim, claimant, now_ms);
        if answer == Answer::New {
            let void_ms = now_ms + self.claim_ms;
            self.open
                .opened(claimant, claim.fingerprint, claim.url.len(), void_ms);
        }
        answer
    }

    fn decide(&self, claim: &Claim, claimant: PeerId, now_ms: Millis) -> Answer {
        let mine = || Seen {
            url: claim.url.clone(),
            at_ms: claim.at_ms,
            payload_digest: claim.payload_digest,
            claimant,
            void_ms: Some(now_ms + self.claim_ms),
        };
        self.bring(claim.fingerprint);
        let mut shard = self.shard(claim.fingerprint).lock();
        if shard.young.len() >= self.most_young.load(Relaxed)
            && self.ledger.keeps()
            && shard.age(now_ms)
        {
            self.ledger.set_more();
        }
        match shard.entry(claim.fingerprint) {
            Entry::Vacant(vacant) => {
                vacant.insert(mine());
                Answer::New
            }
            Entry::Occupied(mut occupied) => {
                let seen = occupied.get_mut();
                if seen.url == claim.url {
                    // The same page again, perhaps in other hands: whoever has it needs
                    // its links. It is archived again too, and a power cut may have taken
                    // the first record: a revisit must lead to this one.
                    seen.claimant = claimant;
                    seen.at_ms = claim.at_ms;
                    seen.payload_digest = claim.payload_digest;
                    return Answer::Yours;
                }
                if seen.void_ms.is_some_and(|void_ms| void_ms <= now_ms) {
                    *seen = mine();
                    return Answer::New;
                }
                // Its claimant may yet crash: until it has kept the page, whoever asks
                // keeps the page too, which a digest would make it leave out.
                let is_confirmed = seen.void_ms.is_none();
                Answer::DuplicateOf {
                    url: seen.url.clone(),
                    at_ms: seen.at_ms,
                    payload_digest: seen.payload_digest.filter(|_| is_confirmed),
                }
            }
        }
    }

    /// Brings an entry from disk that memory does not know.
    fn bring(&self, fingerprint: ContentFingerprint) {
        let Some(store) = self.ledger.more() else {
            return;
        };
        if self.shard(fingerprint).lock().knows(fingerprint) {
            return;
        }
        let found = match store.content(fingerprint) {
            Ok(found) => found,
            Err(error) => return tracing::error!("cannot look a content up: {error}"),
        };
        if let Some(seen) = found.and_then(|bytes| postcard::from_bytes(&bytes).ok()) {
            let mut shard = self.shard(fingerprint).lock();
            shard.entry(fingerprint).or_insert(seen);
        }
    }

    /// The claimant has kept the page.
    pub fn confirm(&self, fingerprint: ContentFingerprint, claimant: PeerId) {
        self.open.closed(claimant, fingerprint);
        let mut shard = self.shard(fingerprint).lock();
        if let Entry::Occupied(mut entry) = shard.entry(fingerprint)
            && entry.get().claimant == claimant
        {
            let seen = entry.get_mut();
            seen.void_ms = None;
            if self.ledger.keeps() {
                match postcard::to_stdvec(seen) {
                    Ok(bytes) => self.ledger.content(fingerprint, &bytes),
                    Err(error) => tracing::error!("cannot keep a content: {error}"),
                }
            }
        }
    }

    fn shard(&self, fingerprint: ContentFingerprint) -> &Mutex<Shard> {
        // The last byte: the first ones decide the owner, so here they are much alike.
        &self.shards[usize::from(fingerprint.0[15]) % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: PeerId = PeerId::repeat(1);
    const OTHER: PeerId = PeerId::repeat(2);

    fn claim(url: &str) -> Claim {
        Claim {
            fingerprint: ContentFingerprint::of(b"body"),
            url: url.into(),
            at_ms: 7,
            payload_digest: None,
        }
    }

    #[test]
    fn the_first_is_new_and_the_others_learn_of_it() {
        let seen = SeenContent::new(100, Ledger::nothing());
        assert_eq!(seen.claim(&claim("a"), ME, 0), Answer::New);
        assert_eq!(seen.claim(&claim("a"), ME, 0), Answer::Yours);
        let first = Answer::DuplicateOf {
            url: "a".into(),
            at_ms: 7,
            payload_digest: None,
        };
        assert_eq!(seen.claim(&claim("b"), ME, 0), first);
        assert_eq!(seen.claim(&claim("b"), OTHER, 0), first);
        assert_eq!(seen.claim(&claim("a"), OTHER, 0), Answer::Yours);
    }

    /// Mirrors once referred to the date of a record that a power cut had taken.
    #[test]
    fn a_page_that_comes_again_is_seen_when_it_came_last() {
        let seen = SeenContent::new(100, Ledger::nothing());
        seen.claim(&claim("a"), ME, 0);
        seen.confirm(claim("a").fingerprint, ME);
        let payload_digest = Some(Digest::of(b"body"));
        let again = Claim {
            at_ms: 9,
            payload_digest,
            ..claim("a")
        };
        assert_eq!(seen.claim(&again, ME, 0), Answer::Yours);
        let last = Answer::DuplicateOf {
            url: "a".into(),
            at_ms: 9,
            payload_digest,
        };
        assert_eq!(seen.claim(&claim("b"), OTHER, 0), last);
    }

    /// A copy was once archived as a mere reference to a page that its claimant, which
    /// crashed, had never kept: the body was nowhere.
    #[test]
    fn a_duplicate_of_what_nobody_has_kept_yet_is_kept_whole() {
        let seen = SeenContent::new(100, Ledger::nothing());
        let payload_digest = Some(Digest::of(b"body"));
        let first = Claim {
            payload_digest,
            ..claim("a")
        };
        assert_eq!(seen.claim(&first, OTHER, 0), Answer::New);
        let duplicate = |payload_digest| Answer::DuplicateOf {
            url: "a".into(),
            at_ms: 7,
            payload_digest,
        };
        assert_eq!(seen.claim(&claim("b"), ME, 0), duplicate(None));
        seen.confirm(first.fingerprint, OTHER);
        assert_eq!(seen.claim(&claim("b"), ME, 0), duplicate(payload_digest));
    }

    fn numbered(number: u64, url_bytes: usize) -> Claim {
        Claim {
            fingerprint: ContentFingerprint::of(&number.to_be_bytes()),
            url: "u".repeat(url_bytes).into(),
            at_ms: 0,
            payload_digest: None,
        }
    }

    /// Claims that nobody confirms once stayed for ever.
    #[test]
    fn void_claims_go_and_open_ones_are_bounded_for_each_claimant() {
        let seen = SeenContent::new(100, Ledger::nothing());
        let open = |peer, from: u64, now_ms| {
            let claims = (from..from + 100_000).map(|n| numbered(n, 1_000));
            claims
                .filter(|claim| seen.claim(claim, peer, now_ms) == Answer::New)
                .count()
        };
        let first = open(OTHER, 0, 0);
        assert!((1_000..10_000).contains(&first), "{first}");
        assert_eq!(seen.in_memory(), first);
        let own = numbered(1_000_000, 100);
        assert_eq!(seen.claim(&own, ME, 50), Answer::New, "others may go on");
        seen.confirm(own.fingerprint, ME);
        assert_eq!(seen.claim(&numbered(5, 9), ME, 99).url_bytes(), 1_000);
        let second = open(OTHER, 2_000_000, 100);
        assert_eq!(second, first, "the void ones take no room");
        assert_eq!(seen.in_memory(), second + 1);
        // Many claimants, one bound.
        for number in 10..30 {
            open(PeerId::repeat(number), u64::from(number) * 10_000_000, 150);
        }
        let most = open_claims::MOST_OF_ALL / 1_000;
        assert!(seen.in_memory() <= most, "{}", seen.in_memory());
    }

    #[test]
    fn a_shard_that_grows_old_keeps_claims_that_hold() {
        let mut shard = Shard::default();
        for (number, void_ms) in [(1, Some(10)), (2, Some(20)), (3, None)] {
            let claim = numbered(number, 5);
            let seen = Seen {
                url: claim.url,
                at_ms: 0,
                payload_digest: None,
                claimant: OTHER,
                void_ms,
            };
            shard.old.insert(claim.fingerprint, seen);
        }
        assert!(shard.age(10));
        assert_eq!(shard.young.len(), 1);
        assert!(shard.knows(numbered(2, 5).fingerprint));
    }

    #[test]
    fn a_claim_is_void_unless_its_claimant_confirms_it() {
        let seen = SeenContent::new(100, Ledger::nothing());
        seen.claim(&claim("a"), ME, 0);
        seen.confirm(claim("a").fingerprint, OTHER);
        assert!(matches!(
            seen.claim(&claim("b"), OTHER, 99),
            Answer::DuplicateOf { .. }
        ));
        assert_eq!(seen.claim(&claim("b"), OTHER, 100), Answer::New);
        seen.confirm(claim("b").fingerprint, OTHER);
        assert!(matches!(
            seen.claim(&claim("c"), ME, 100_000),
            Answer::DuplicateOf { .. }
        ));
    }
}
