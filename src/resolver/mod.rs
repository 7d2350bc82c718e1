//! Where host names lead.
//!
//! A site whose name is unknown, or was looked up too long ago, waits in the
//! [`ResolveQueue`]; a few threads take them out, ask a [`NameService`], let the
//! address guard judge the answer, and give the site back to the crawl-job queues. A
//! site is in the queue at most once, so the bound on sites bounds the queue.
//!
//! - [`names`]: the name services there are
//! - [`cache`]: what they answered, kept for a while

pub mod cache;
pub mod names;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

pub use names::{FixedNames, NameService, SystemNames};

use crate::clock::{Clock, Millis};
use crate::config::Settings;
use crate::counters::ErrorKind;
use crate::crawl_jobs::{Addresses, CrawlJobs, Phase, SiteCell};
use crate::guard;
use crate::politeness::{Courtesy, Outage};
use crate::shield::shielded;

/// Sites whose names wait to be looked up.
#[derive(Default)]
pub struct ResolveQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    sites: VecDeque<Arc<SiteCell>>,
    /// Look-ups under way.
    at_work: usize,
    is_paused: bool,
    is_closed: bool,
}

impl ResolveQueue {
    /// A site that has just become `Resolving`.
    pub fn push(&self, cell: Arc<SiteCell>) {
        self.state.lock().sites.push_back(cell);
        self.changed.notify_one();
    }

    /// Waits for the next one; `None` once the queue is closed.
    pub fn take(&self) -> Option<Arc<SiteCell>> {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if !state.is_paused
                && let Some(cell) = state.sites.pop_front()
            {
                state.at_work += 1;
                return Some(cell);
            }
            self.changed.wait(&mut state);
        }
    }

    /// Lets go of sites that are not to be looked up any more.
    pub fn retain(&self, stays: impl Fn(&Arc<SiteCell>) -> bool) {
        let mut state = self.state.lock();
        state.sites.retain(stays);
        state.sites.shrink_to_fit();
    }

    /// A site that was taken has been dealt with.
    pub fn done(&self) {
        self.state.lock().at_work -= 1;
    }

    /// Whether no look-up waits or is under way.
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.sites.is_empty() && state.at_work == 0
    }

    /// Stops or resumes giving sites out.
    pub fn set_paused(&self, is_paused: bool) {
        self.state.lock().is_paused = is_paused;
        self.changed.notify_all();
    }

    /// The threads that wait end.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }
}

/// One of the threads that look names up.
pub struct Resolver {
    /// Where sites come from.
    pub queue: Arc<ResolveQueue>,
    /// Where they go back to.
    pub jobs: Arc<CrawlJobs>,
    /// Who knows names.
    pub names: Arc<dyn NameService>,
    /// Whether it is our line that fails.
    pub outage: Arc<Outage>,
    /// What is allowed.
    pub settings: Arc<Settings>,
    /// The time.
    pub clock: Clock,
}

impl Resolver {
    /// Works until the queue is closed.
    pub fn run(&self) {
        while let Some(cell) = self.queue.take() {
            self.resolve(&cell);
            self.queue.done();
        }
    }

    fn resolve(&self, cell: &Arc<SiteCell>) {
        let host = cell.lock().site.host().to_owned();
        let answer = shielded(|| host.clone(), || names::addresses_of(&*self.names, &host));
        let now_ms = self.clock.now_ms();
        let mut state = cell.lock();
        if state.phase != Phase::Resolving {
            // It was put away meanwhile, and is looked up again when it comes back.
            return;
        }
        match answer {
            Some(Ok(found)) => {
                let addresses = judge(found, self.settings.network.allow_private, now_ms);
                self.jobs.resolved(cell, &mut state, addresses);
            }
            failed => {
                if let Some(Err(error)) = failed {
                    tracing::debug!("{host}: {error}");
                    self.jobs.tell_of_look_up(&host, &error.to_string());
                }
                state.failing = Some(ErrorKind::Dns);
                if let Some(rest) = self.outage.failed(cell.key, ErrorKind::Dns, now_ms) {
                    state.site.pace.after_outage(now_ms, rest, cell.key);
                    return self.jobs.unresolved(cell, &mut state);
                }
                let courtesy = Courtesy {
                    settings: &self.settings.politeness,
                    is_public: true,
                };
                state.site.mark_changed();
                let pace = &mut state.site.pace;
                pace.after_failure(now_ms, Duration::ZERO, None, cell.key, courtesy);
                if state.site.pace.is_given_up(&self.settings.politeness) {
                    self.jobs.give_up(&mut state, ErrorKind::Dns);
                    cell.lease_ended();
                } else {
                    self.jobs.unresolved(cell, &mut state);
                }
            }
        }
    }
}

/// What may be visited of the addresses that a name has. A name with a public address
/// is a public host: its private ones, if any, are left out even where private
/// addresses are allowed.
pub fn judge(found: Vec<std::net::IpAddr>, allow_private: bool, now_ms: Millis) -> Addresses {
    let is_public = found.iter().any(|&address| guard::is_public(address));
    let allowed = found
        .into_iter()
        .filter(|&address| guard::is_public(address) || (allow_private && !is_public))
        .collect();
    Addresses {
        allowed,
        is_public,
        resolved_ms: now_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_left_out_unless_they_are_allowed_and_all_there_is() {
        let all = |texts: &[&str]| texts.iter().map(|t| t.parse().unwrap()).collect();
        let count = |texts, allow| judge(all(texts), allow, 0).allowed.len();
        assert_eq!(count(&["10.0.0.1"], false), 0);
        assert_eq!(count(&["10.0.0.1"], true), 1);
        assert_eq!(count(&["10.0.0.1", "8.8.8.8"], false), 1);
        assert_eq!(count(&["10.0.0.1", "8.8.8.8"], true), 1);
        assert!(judge(all(&["10.0.0.1", "8.8.8.8"]), true, 0).is_public);
    }
}
