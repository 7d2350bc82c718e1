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
//! What is full is told by bytes: the URL of an entry is as long as its claimant likes.
//! Claims are in memory alone until they are confirmed; how many of them one peer and all
//! together may have is bounded ([`open_claims`]), and void ones go.

pub mod open_claims;

use std::collections::HashMap;
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
/// An entry's place in its map, without its URL.
const ENTRY_BYTES: usize = 200;
/// So much may be young in a shard, however little memory there is.
const LEAST_YOUNG_BYTES: usize = 4 << 10;

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

impl Seen {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.url.len()
    }

    fn is_void(&self, now_ms: Millis) -> bool {
        self.void_ms.is_some_and(|void_ms| void_ms <= now_ms)
    }
}

/// The entries of one shard.
#[derive(Default)]
struct Shard {
    young: HashMap<ContentFingerprint, Seen>,
    /// What those take.
    young_bytes: usize,
    /// Those that were young before the last change of generation.
    old: HashMap<ContentFingerprint, Seen>,
}

impl Shard {
    /// An entry, if it is here. An old one that is asked for is young again.
    fn find(&mut self, fingerprint: ContentFingerprint) -> Option<&mut Seen> {
        if let Some(seen) = self.old.remove(&fingerprint) {
            self.put(fingerprint, seen);
        }
        self.young.get_mut(&fingerprint)
    }

    /// An entry, in place of the one before.
    fn put(&mut self, fingerprint: ContentFingerprint, seen: Seen) {
        self.young_bytes += seen.bytes();
        let before = self.young.insert(fingerprint, seen);
        self.young_bytes -= before.map_or(0, |seen| seen.bytes());
    }

    fn knows(&self, fingerprint: ContentFingerprint) -> bool {
        self.young.contains_key(&fingerprint) || self.old.contains_key(&fingerprint)
    }

    /// The young ones become old, and the old ones go, but for claims that still hold:
    /// they are nowhere else. True if some went.
    fn age(&mut self, now_ms: Millis) -> bool {
        let mut gone = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
        let before = gone.len();
        gone.retain(|_, seen| seen.void_ms.is_some() && !seen.is_void(now_ms));
        let has_lost = gone.len() < before;
        self.young_bytes = gone.values().map(Seen::bytes).sum();
        self.young = gone;
        has_lost
    }

    /// A claim goes, unless it holds or was confirmed.
    fn forget_void(&mut self, fingerprint: ContentFingerprint, now_ms: Millis) {
        let is_void = |seen: Option<&Seen>| seen.is_some_and(|seen| seen.is_void(now_ms));
        if is_void(self.old.get(&fingerprint)) {
            self.old.remove(&fingerprint);
        }
        if is_void(self.young.get(&fingerprint)) {
            let gone = self.young.remove(&fingerprint);
            self.young_bytes -= gone.map_or(0, |seen| seen.bytes());
        }
    }
}

/// See the module.
pub struct SeenContent {
    shards: Vec<Mutex<Shard>>,
    open: OpenClaims,
    claim_ms: u64,
    ledger: Arc<Ledger>,
    /// What the young entries of one shard may take.
    most_young_bytes: AtomicUsize,
}

impl SeenContent {
    /// Nothing seen yet; claims are held for `claim_ms`.
    pub fn new(claim_ms: u64, ledger: Arc<Ledger>) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            open: OpenClaims::default(),
            claim_ms,
            ledger,
            most_young_bytes: AtomicUsize::new(usize::MAX),
        }
    }

    /// Entries may take about so much memory from now on, if the rest is on disk.
    pub fn set_memory_bytes(&self, bytes: usize) {
        let most = (bytes / 2 / SHARDS).max(LEAST_YOUNG_BYTES);
        self.most_young_bytes.store(most, Relaxed);
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
        if shard.young_bytes >= self.most_young_bytes.load(Relaxed)
            && self.ledger.keeps()
            && shard.age(now_ms)
        {
            self.ledger.set_more();
        }
        let Some(seen) = shard.find(claim.fingerprint) else {
            shard.put(claim.fingerprint, mine());
            return Answer::New;
        };
        if seen.url == claim.url {
            // The same page again, perhaps in other hands: whoever has it needs
            // its links. It is archived again too, and a power cut may have taken
            // the first record: a revisit must lead to this one.
            seen.claimant = claimant;
            seen.at_ms = claim.at_ms;
            seen.payload_digest = claim.payload_digest;
            return Answer::Yours;
        }
        if seen.is_void(now_ms) {
            shard.put(claim.fingerprint, mine());
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
            if !shard.knows(fingerprint) {
                shard.put(fingerprint, seen);
            }
        }
    }

    /// The claimant has kept the page.
    pub fn confirm(&self, fingerprint: ContentFingerprint, claimant: PeerId) {
        self.open.closed(claimant, fingerprint);
        let mut shard = self.shard(fingerprint).lock();
        if let Some(seen) = shard.find(fingerprint)
            && seen.claimant == claimant
        {
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

    /// Confirmed ones were once counted, and not weighed: with long URLs they took gigabytes.
    #[test]
    fn what_a_shard_holds_is_weighed() {
        let mut shard = Shard::default();
        let seen = |url_bytes, void_ms| Seen {
            url: "u".repeat(url_bytes).into(),
            at_ms: 0,
            payload_digest: None,
            claimant: OTHER,
            void_ms,
        };
        let of = |number: u64| ContentFingerprint::of(&number.to_be_bytes());
        shard.put(of(1), seen(1_000, Some(10)));
        shard.put(of(2), seen(16_000, None));
        shard.put(of(2), seen(10, None));
        assert_eq!(shard.young_bytes, 2 * ENTRY_BYTES + 1_010);
        shard.forget_void(of(1), 9);
        shard.forget_void(of(2), 10);
        assert_eq!(shard.young_bytes, 2 * ENTRY_BYTES + 1_010);
        assert!(!shard.age(9));
        assert_eq!(shard.young_bytes, 0);
        assert!(shard.find(of(1)).is_some());
        assert_eq!(shard.young_bytes, ENTRY_BYTES + 1_000);
        assert!(shard.age(9), "the confirmed one goes");
        assert!(!shard.age(9), "the claim holds");
        assert_eq!(shard.young_bytes, ENTRY_BYTES + 1_000);
        shard.forget_void(of(1), 10);
        assert_eq!((shard.young_bytes, shard.young.len()), (0, 0));
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
