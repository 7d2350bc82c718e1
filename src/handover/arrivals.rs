//! The receiving side: records that come in part by part, and the wait for welcomes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use peercrawl_overlay::PeerId;

use crate::crawl_jobs::CrawlJobs;
use crate::preprocessor::Preprocessor;

/// A newcomer waits so long for the welcomes of those whom it meets.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most that one record may come to.
const MOST_BYTES: usize = 64 << 20;
/// Records under way from one peer.
const MOST_TRANSFERS: usize = 4;

/// One part of a frozen site, as it travels.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SitePart {
    /// Tells records of one sender apart.
    pub transfer: u64,
    /// Which part this is, from 0 on; they come in order.
    pub part: u32,
    /// Whether it is the last one.
    pub is_last: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// See the module.
pub struct Arrivals {
    jobs: Arc<CrawlJobs>,
    preprocessor: Arc<Preprocessor>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whom this peer has met, itself not included.
    met: HashSet<PeerId>,
    /// Whose welcome is awaited.
    awaited: HashSet<PeerId>,
    /// Until when.
    until: Option<Instant>,
    transfers: HashMap<PeerId, HashMap<u64, Transfer>>,
}

#[derive(Default)]
struct Transfer {
    parts: u32,
    bytes: Vec<u8>,
}

impl Arrivals {
    /// Nobody met yet.
    pub fn new(jobs: Arc<CrawlJobs>, preprocessor: Arc<Preprocessor>) -> Self {
        Self {
            jobs,
            preprocessor,
            state: Mutex::default(),
        }
    }

    /// These are the other members now. Whoever was alone until now is a newcomer, and
    /// awaits the welcomes of those whom it meets in the next while.
    pub fn meet(&self, others: &HashSet<PeerId>, now: Instant) {
        let mut state = self.state.lock();
        if state.met.is_empty() && !others.is_empty() {
            state.until = Some(now + PATIENCE);
        }
        if state.until.is_some_and(|until| now < until) {
            let new: Vec<_> = others.difference(&state.met).copied().collect();
            state.awaited.extend(new);
        } else {
            state.awaited.clear();
        }
        state.awaited.retain(|peer| others.contains(peer));
        state.transfers.retain(|peer, _| others.contains(peer));
        state.met = others.clone();
        self.jobs.set_held(!state.awaited.is_empty());
    }

    /// Whether welcomes are awaited.
    pub fn is_waiting(&self) -> bool {
        !self.state.lock().awaited.is_empty()
    }

    /// A peer has sent all that is ours.
    pub fn welcomed_by(&self, peer: PeerId) {
        let mut state = self.state.lock();
        state.awaited.remove(&peer);
        self.jobs.set_held(!state.awaited.is_empty());
    }

    /// Takes in a part of a record, and the record with its last part. False if it was
    /// refused: then its sender keeps the site.
    pub fn take(&self, from: PeerId, part: SitePart) -> bool {
        let mut state = self.state.lock();
        let transfers = state.transfers.entry(from).or_default();
        if part.part == 0 && transfers.len() < MOST_TRANSFERS {
            transfers.insert(part.transfer, Transfer::default());
        }
        let Some(transfer) = transfers.get_mut(&part.transfer) else {
            return false;
        };
        let is_next = transfer.parts == part.part;
        if !is_next || transfer.bytes.len() + part.bytes.len() > MOST_BYTES {
            transfers.remove(&part.transfer);
            return false;
        }
        transfer.parts += 1;
        transfer.bytes.extend_from_slice(&part.bytes);
        if !part.is_last {
            return true;
        }
        let whole = transfers.remove(&part.transfer);
        drop(state);
        let bytes = whole.map(|transfer| transfer.bytes).unwrap_or_default();
        self.preprocessor
            .thaw(&bytes)
            .inspect_err(|error| tracing::warn!("from {from}: {error}"))
            .is_ok()
    }
}
