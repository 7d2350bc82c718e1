//! Block 12: the store of seen content.
//!
//! For each fingerprint of our own range: where and when its content was first seen.
//! An entry begins as a claim, which whoever made it must confirm once it has kept the
//! page; a claim that is not confirmed in time is void, so a peer that crashed between
//! the two hides nothing. Checking and inserting are one step under one lock.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use parking_lot::Mutex;
use peercrawl_overlay::PeerId;
use serde::{Deserialize, Serialize};

use crate::clock::Millis;
use crate::fingerprint::ContentFingerprint;

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
    },
    /// It is not for me to say: ask its owner.
    NotMine,
}

struct Seen {
    url: Box<str>,
    at_ms: Millis,
    claimant: PeerId,
    /// When the claim becomes void; `None` once it is confirmed.
    void_ms: Option<Millis>,
}

/// See the module.
pub struct SeenContent {
    shards: Vec<Mutex<HashMap<ContentFingerprint, Seen>>>,
    claim_ms: u64,
}

impl SeenContent {
    /// Nothing seen yet; claims are held for `claim_ms`.
    pub fn new(claim_ms: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            claim_ms,
        }
    }

    /// Checks, and inserts if it is new, in one step.
    pub fn claim(&self, claim: &Claim, claimant: PeerId, now_ms: Millis) -> Answer {
        let mine = || Seen {
            url: claim.url.clone(),
            at_ms: claim.at_ms,
            claimant,
            void_ms: Some(now_ms + self.claim_ms),
        };
        let mut shard = self.shard(claim.fingerprint).lock();
        match shard.entry(claim.fingerprint) {
            Entry::Vacant(vacant) => {
                vacant.insert(mine());
                Answer::New
            }
            Entry::Occupied(mut occupied) => {
                let seen = occupied.get_mut();
                if seen.url == claim.url && seen.claimant == claimant {
                    return Answer::Yours;
                }
                if seen.void_ms.is_some_and(|void_ms| void_ms <= now_ms) {
                    *seen = mine();
                    return Answer::New;
                }
                Answer::DuplicateOf {
                    url: seen.url.clone(),
                    at_ms: seen.at_ms,
                }
            }
        }
    }

    /// The claimant has kept the page.
    pub fn confirm(&self, fingerprint: ContentFingerprint, claimant: PeerId) {
        let mut shard = self.shard(fingerprint).lock();
        if let Some(seen) = shard.get_mut(&fingerprint)
            && seen.claimant == claimant
        {
            seen.void_ms = None;
        }
    }

    fn shard(&self, fingerprint: ContentFingerprint) -> &Mutex<HashMap<ContentFingerprint, Seen>> {
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
        }
    }

    #[test]
    fn the_first_is_new_and_the_others_learn_of_it() {
        let seen = SeenContent::new(100);
        assert_eq!(seen.claim(&claim("a"), ME, 0), Answer::New);
        assert_eq!(seen.claim(&claim("a"), ME, 0), Answer::Yours);
        let first = Answer::DuplicateOf {
            url: "a".into(),
            at_ms: 7,
        };
        assert_eq!(seen.claim(&claim("b"), ME, 0), first);
        assert_eq!(seen.claim(&claim("a"), OTHER, 0), first);
    }

    #[test]
    fn a_claim_is_void_unless_its_claimant_confirms_it() {
        let seen = SeenContent::new(100);
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
