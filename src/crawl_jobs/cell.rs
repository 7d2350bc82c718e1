//! A site at work: its record, and what only this process knows about it.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::Site;
use crate::clock::Millis;
use crate::counters::ErrorKind;
use crate::distribution::Key;
use crate::downloader::Kept;

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

/// A site, shared between those who add to it and the one who fetches from it.
pub struct SiteCell {
    /// The hash of the host's name, which decides its owner.
    pub key: u64,
    state: Mutex<SiteState>,
    /// Wakes whoever waits for the end of a lease, to freeze the site.
    lease_ended: Condvar,
}

/// What the site's lock protects.
pub struct SiteState {
    /// The hash of the host's name.
    pub key: Key,
    /// The record.
    pub site: Site,
    /// Whether the record holds all that is known: what is on disk of an earlier time is
    /// brought when it is needed.
    pub is_whole: bool,
    /// Where it stands.
    pub phase: Phase,
    /// Where its name leads; none before the first look-up.
    pub addresses: Option<Addresses>,
    /// Its open connection, while nobody fetches over it.
    pub connection: Option<Kept>,
    /// How the host failed last, if it has not answered since.
    pub failing: Option<ErrorKind>,
    /// How often in a row its queue was not to be had from disk.
    pub disk_waits: u32,
    /// Whether somebody waits to freeze it: no new lease begins.
    pub is_freezing: bool,
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
                phase: Phase::Idle,
                addresses: None,
                connection: None,
                failing: None,
                disk_waits: 0,
                is_freezing: false,
            }),
            lease_ended: Condvar::new(),
        }
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

    /// Waits until no downloader works on the site.
    pub fn wait_for_lease_end(&self, state: &mut MutexGuard<'_, SiteState>) {
        while matches!(state.phase, Phase::Leased | Phase::Resolving) {
            self.lease_ended.wait(state);
        }
    }
}
