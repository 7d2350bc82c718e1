//! Claims that wait to be confirmed, by claimant.
//!
//! A claim costs whoever makes it nothing, so there is a bound to what one claimant's take,
//! and to what all take together. What became void, or was confirmed, counts no more.

use std::collections::HashMap;

use parking_lot::Mutex;
use peercrawl_overlay::PeerId;

use crate::clock::Millis;
use crate::fingerprint::ContentFingerprint;

/// What the open claims of one peer may take, in bytes: some seventeen thousand claims,
/// which is what a fast peer fetches in the seconds until it can confirm.
pub const MOST_OF_ONE: usize = 8 << 20;
/// What all of them may take.
pub const MOST_OF_ALL: usize = 32 << 20;
/// What a claim takes beside its URL, here and in the store.
const CLAIM_BYTES: usize = 400;

/// See the module.
#[derive(Default)]
pub struct OpenClaims(Mutex<State>);

#[derive(Default)]
struct State {
    claimants: HashMap<PeerId, Claimant>,
    bytes: usize,
    /// When the first of them becomes void, or earlier.
    next_void_ms: Option<Millis>,
}

#[derive(Default)]
struct Claimant {
    claims: HashMap<ContentFingerprint, Open>,
    bytes: usize,
}

#[derive(Clone, Copy)]
struct Open {
    bytes: usize,
    void_ms: Millis,
}

/// Whether there is room for one more claim.
pub struct Room {
    /// Whether there is.
    pub is_there: bool,
    /// Claims that have become void: nothing needs to be known of them.
    pub void: Vec<ContentFingerprint>,
}

impl OpenClaims {
    /// Whether this claimant may make one more claim, for a URL of so many bytes.
    pub fn room(&self, claimant: PeerId, url_bytes: usize, now_ms: Millis) -> Room {
        let mut state = self.0.lock();
        let void = state.take_void(now_ms);
        let bytes = CLAIM_BYTES + url_bytes;
        let of_one = state.claimants.get(&claimant).map_or(0, |one| one.bytes);
        Room {
            is_there: of_one + bytes <= MOST_OF_ONE && state.bytes + bytes <= MOST_OF_ALL,
            void,
        }
    }

    /// A claim was made.
    pub fn opened(
        &self,
        claimant: PeerId,
        fingerprint: ContentFingerprint,
        url_bytes: usize,
        void_ms: Millis,
    ) {
        let mut state = self.0.lock();
        let bytes = CLAIM_BYTES + url_bytes;
        let one = state.claimants.entry(claimant).or_default();
        let before = one.claims.insert(fingerprint, Open { bytes, void_ms });
        let before = before.map_or(0, |open| open.bytes);
        one.bytes = one.bytes + bytes - before;
        state.bytes = state.bytes + bytes - before;
        let first = state.next_void_ms.map_or(void_ms, |at| at.min(void_ms));
        state.next_void_ms = Some(first);
    }

    /// A claim was confirmed.
    pub fn closed(&self, claimant: PeerId, fingerprint: ContentFingerprint) {
        let mut state = self.0.lock();
        let Some(one) = state.claimants.get_mut(&claimant) else {
            return;
        };
        if let Some(open) = one.claims.remove(&fingerprint) {
            one.bytes -= open.bytes;
            if one.claims.is_empty() {
                state.claimants.remove(&claimant);
            }
            state.bytes -= open.bytes;
        }
    }
}

impl State {
    fn take_void(&mut self, now_ms: Millis) -> Vec<ContentFingerprint> {
        let mut void = Vec::new();
        if self.next_void_ms.is_none_or(|at_ms| now_ms < at_ms) {
            return void;
        }
        let mut next_void_ms = None;
        self.bytes = 0;
        self.claimants.retain(|_, one| {
            one.bytes = 0;
            one.claims.retain(|fingerprint, open| {
                let holds = now_ms < open.void_ms;
                if holds {
                    one.bytes += open.bytes;
                    let first =
                        next_void_ms.map_or(open.void_ms, |at: Millis| at.min(open.void_ms));
                    // Not for each of them: a second's worth at a time.
                    next_void_ms = Some(first.max(now_ms + 1_000));
                } else {
                    void.push(*fingerprint);
                }
                holds
            });
            self.bytes += one.bytes;
            !one.claims.is_empty()
        });
        self.next_void_ms = next_void_ms;
        void
    }
}
