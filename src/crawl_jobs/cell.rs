//! A site at work: its record, and what only this process knows about it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::Site;
use crate::clock::Millis;
use crate::counters::ErrorKind;
use crate::distribution::Key;
use crate::downloader::{Kept, RobotsWay};
use crate::seen_urls::SeenUrls;

/// Where a site stands. Every change happens under the site's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing waits in its queue.
    Idle,
    /// Its name is being looked up.
    Resolving,
    /// In the ready order.
    Waiting,
    /// A downloader works on it.
    Leased,
    /// It failed too often: what comes for it is turned away.
    GivenUp,
    /// It has left this peer: what comes for it belongs to somebody else.
    Moved,
}

/// Where a host's name leads.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// Addresses that may be visited; none if the guard refused them all.
    pub allowed: Arc<[IpAddr]>,
    /// Whether they belong to the public internet.
    pub is_public: bool,
    /// When the name service said so.
    pub resolved_ms: Millis,
}

/// How soon whoever waits for a lease looks whether that is in vain.
const LOOK: Duration = Duration::from_millis(100);

/// A site, shared between those who add to it and the one who fetches from it.
pub struct SiteCell {
    /// The hash of the host's name, which decides its owner.
    pub key: u64,
    state: Mutex<SiteState>,
    /// Whether it has left memory, to be known without its lock.
    has_left: AtomicBool,
    /// Wakes whoever waits for the end of a lease, to freeze the site.
    lease_ended: Condvar,
}

/// What the site's lock protects.
pub struct SiteState {
    /// The hash of the host's name.
    pub key: Key,
    /// The record.
    pub site: Site,
    /// Whether the record holds all that was seen. If not, it holds the latest, and the
    /// disk is asked for the rest.
    pub is_whole: bool,
    /// Whether the rest of the record is what is on disk of it, or newer.
    pub has_head: bool,
    /// What was seen before the record was last thinned out; some of it may still be on
    /// its way to the disk.
    pub seen_before: SeenUrls,
    /// Whether some of that came from another peer as layers: the disk cannot be asked about
    /// one URL of those, so memory holds all of them.
    pub has_foreign_layers: bool,
    /// How often it was thinned out.
    pub thinned: u64,
    /// The look that did so last.
    pub thinned_by: u64,
    /// Whether its queue or what it has seen has changed since it was last looked at.
    pub is_touched: bool,
    /// The last look that found it so.
    touched_before: u64,
    /// Where it stands.
    pub phase: Phase,
    /// The number of the lease under which a downloader works on it.
    pub lease: Option<u64>,
    /// Where its name leads; none before the first look-up.
    pub addresses: Option<Addresses>,
    /// When its address may be asked again, by whichever host: what one host asks for
    /// (`Retry-After`, `Crawl-delay`) does not bind the others that live there.
    pub address_free_ms: Millis,
    /// Until when it is left alone, as what waits first is of a crawl that has all its pages. No
    /// part of its pace: in the next run that may fetch more.
    pub spent_until_ms: Millis,
    /// Where its robots.txt leads, while that is being followed.
    pub robots_way: Option<RobotsWay>,
    /// Its open connection, while nobody fetches over it.
    pub connection: Option<Kept>,
    /// How the host failed last, if it has not answered since.
    pub failing: Option<ErrorKind>,
    /// URLs that were turned away since the start, because too many waited.
    pub dropped: u64,
    /// Whether it answered quickly when it was last asked.
    pub is_quick: bool,
    /// How often in a row its queue was not to be had from disk, although all that had been
    /// noted at `missed_at` was written.
    pub disk_waits: u32,
    /// How much the ledger had noted when the queue was first not to be had.
    pub missed_at: Option<u64>,
    /// Whether somebody waits to freeze it: no new lease begins.
    pub is_freezing: bool,
    /// Whether it is fetched from here although it is another peer's, who cannot take it.
    pub stays: bool,
}

impl SiteState {
    /// Whether a URL is known to be seen, by what is in memory.
    pub fn is_seen(&self, fingerprint: u64) -> bool {
        self.site.seen.contains(fingerprint) || self.seen_before.contains(fingerprint)
    }

    /// Forgets what was seen up to the time before; the rest is forgotten the next time. Tells
    /// how many URLs that has lost.
    pub fn thin(&mut self) -> f64 {
        let seen = std::mem::take(&mut self.site.seen);
        let gone = std::mem::replace(&mut self.seen_before, seen);
        self.is_whole = false;
        self.thinned += 1;
        gone.expected_losses()
    }

    /// How many new URLs were wrongly taken for seen by what is in memory, as an expectation.
    pub fn expected_losses(&self) -> f64 {
        self.site.seen.expected_losses() + self.seen_before.expected_losses()
    }

    /// Whether the disk has all that changed here before this look. It has everything from
    /// before the look called `written`.
    pub fn is_written(&mut self, look: u64, written: u64) -> bool {
        if std::mem::take(&mut self.is_touched) {
            self.touched_before = look;
        }
        self.touched_before <= written
    }

    /// Whether it can do without memory for a while: nobody is at work on it, what only
    /// this process knows of it can be found out again, and nothing has changed since it
    /// was last looked at.
    pub fn can_leave(&self) -> bool {
        !matches!(self.phase, Phase::Leased | Phase::Moved)
            && self.has_head
            && self.robots_way.is_none()
            && !(self.is_touched || self.is_freezing || self.stays)
    }
}

impl SiteCell {
    /// A cell around a site.
    pub fn new(key: Key, site: Site, is_whole: bool) -> Self {
        Self {
            key: key.0,
            state: Mutex::new(SiteState {
                key,
                site,
                is_whole,
                has_head: is_whole,
                seen_before: SeenUrls::default(),
                has_foreign_layers: false,
                thinned: 0,
                thinned_by: 0,
                is_touched: false,
                touched_before: 0,
                phase: Phase::Idle,
                lease: None,
                addresses: None,
                address_free_ms: 0,
                spent_until_ms: 0,
                robots_way: None,
                connection: None,
                failing: None,
                dropped: 0,
                is_quick: false,
                disk_waits: 0,
                missed_at: None,
                is_freezing: false,
                stays: false,
            }),
            has_left: AtomicBool::new(false),
            lease_ended: Condvar::new(),
        }
    }

    /// Whether it has left memory.
    pub fn has_left(&self) -> bool {
        self.has_left.load(Relaxed)
    }

    /// It leaves memory.
    pub fn leave(&self, state: &mut SiteState) {
        state.phase = Phase::Moved;
        state.connection = None;
        self.has_left.store(true, Relaxed);
    }

    /// The site, for as long as the guard lives. Never hold it across I/O, and take no
    /// other site's lock meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, SiteState> {
        self.state.lock()
    }

    /// Wakes whoever waits for the end of a lease.
    pub fn lease_ended(&self) {
        self.lease_ended.notify_all();
    }

    /// Waits until no downloader works on the site, and nobody on its pages (`has_pages`
    /// tells), and tells that none does; false if that is given up, as when the engine ends.
    /// A name that is being looked up is not waited for: whoever does so lets go of a site
    /// that has left.
    pub fn wait_for_work_end(
        &self,
        state: &mut MutexGuard<'_, SiteState>,
        has_pages: impl Fn() -> bool,
        gives_up: impl Fn() -> bool,
    ) -> bool {
        while state.phase == Phase::Leased || has_pages() {
            if gives_up() {
                return false;
            }
            self.lease_ended.wait_for(state, LOOK);
        }
        true
    }
}
