//! A synthetic web: deterministic, served over real HTTP on loopback, and aware of its truth.
//!
//! A page's bytes are a function of the seed, its host and its number; nothing is stored but a
//! plan of a few dozen bytes for each host (`plan`). The plan knows what each page is
//! (`page`), what its URL is (`paths`), what robots.txt says (`robots`) and what it links
//! to (`links`). From there two ways part, and meet again in the tests:
//!
//! - *what is served*: `render` writes the page with its links in one dress or another
//!   (`dress`), `answer` puts status, headers, compression and framing around it,
//!   `connection` and `server` send it, and `log` counts;
//! - *what is true*: `truth` walks the plan's links, and never looks at a rendered byte.
//!
//! None of what makes the web odd depends on the order of visits: mirrors link absolutely, so
//! that it does not matter which copy is read, and traps are cut by rules on the URL alone.
//! What differs on the first request (429, 503, one reset) is the same page afterwards.

mod answer;
mod connection;
mod draw;
mod dress;
mod links;
mod log;
mod page;
mod paths;
mod plan;
mod render;
mod request;
mod robots;
mod server;
mod spec;
#[cfg(test)]
mod tests;
mod truth;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use mio::{Poll, Waker};

pub use log::{RequestLine, WebLog};
pub use spec::{Naming, WebError, WebSpec};
pub use truth::Truth;

use log::Counters;
use paths::{Target, What};
use plan::{Plan, host_address, host_number};
use server::EventLoop;

/// Start URLs that [`Web::seeds`] gives at most.
const SEEDS: u32 = 3;

/// A running synthetic web. It stops when dropped.
pub struct Web {
    plan: Arc<Plan>,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    threads: Vec<(Waker, JoinHandle<()>)>,
    port: u16,
}

impl Web {
    /// Plans the web and serves it. Requests are answered from the moment this returns.
    pub fn start(spec: WebSpec) -> Result<Web, WebError> {
        spec.check()?;
        let (listeners, port) = server::listen(&spec)?;
        let plan = Arc::new(Plan::new(spec, port));
        let mut web = Web {
            counters: Arc::new(Counters::new(&plan)),
            plan,
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
            port,
        };
        let mut shares: Vec<Vec<_>> = (0..web.plan.spec.threads).map(|_| Vec::new()).collect();
        for (host, listener) in (0..).zip(listeners) {
            let share = host as usize % shares.len();
            shares[share].push((listener, host));
        }
        for (number, listeners) in shares.into_iter().enumerate() {
            if !listeners.is_empty() {
                web.spawn(number, listeners)?;
            }
        }
        Ok(web)
    }

    fn spawn(
        &mut self,
        number: usize,
        listeners: Vec<(mio::net::TcpListener, u32)>,
    ) -> Result<(), WebError> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), server::WAKER)?;
        let mut event_loop = EventLoop {
            poll,
            listeners,
            plan: Arc::clone(&self.plan),
            counters: Arc::clone(&self.counters),
            thread: number,
            stop: Arc::clone(&self.stop),
        };
        event_loop.register()?;
        let thread = std::thread::Builder::new()
            .name(format!("demo-web-{number}"))
            .spawn(move || {
                if let Err(error) = event_loop.run() {
                    tracing::error!(%error, "the synthetic web has stopped serving");
                }
            })?;
        self.threads.push((waker, thread));
        Ok(())
    }

    /// The port of all hosts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A few start URLs, from which every reachable page is reachable.
    pub fn seeds(&self) -> Vec<String> {
        seed_targets(&self.plan)
            .map(|seed| self.plan.url(seed))
            .collect()
    }

    /// The address of a host of this web, for the crawler's resolver; none for other names.
    pub fn address_of(&self, host: &str) -> Option<IpAddr> {
        let naming = self.plan.spec.naming;
        let number = host_number(naming, &host.to_ascii_lowercase())
            .filter(|&host| host < self.plan.spec.hosts)?;
        Some(match naming {
            Naming::Addresses => host_address(number).into(),
            Naming::Names => Ipv4Addr::LOCALHOST.into(),
        })
    }

    /// What a polite and correct crawler should find, by a walk over all pages.
    pub fn truth(&self) -> Truth {
        let seeds: Vec<Target> = seed_targets(&self.plan).collect();
        Truth::walk(Arc::clone(&self.plan), &seeds)
    }

    /// What was asked of the web so far: all answers that a client has received are in it.
    pub fn log(&self) -> WebLog {
        self.counters.settle();
        self.counters.snapshot()
    }

    /// The URLs among those of `truth` that were never served completely, sorted.
    pub fn unserved(&self, truth: &Truth) -> Vec<String> {
        self.served_as(truth, |times| times == 0)
    }

    /// The URLs among those of `truth` that were served completely more than once, sorted.
    pub fn served_twice(&self, truth: &Truth) -> Vec<String> {
        self.served_as(truth, |times| times > 1)
    }

    fn served_as(&self, truth: &Truth, wanted: impl Fn(u8) -> bool) -> Vec<String> {
        let pages = truth
            .pages()
            .iter()
            .copied()
            .filter(|&page| wanted(self.counters.served(page)));
        let mut urls: Vec<String> = pages.map(|page| truth.url(page)).collect();
        urls.sort_unstable();
        urls
    }

    /// Stops serving, closes every connection, and waits for the threads to end.
    pub fn shutdown(&mut self) {
        self.stop.store(true, Relaxed);
        for (waker, thread) in self.threads.drain(..) {
            // A loop that cannot be woken has ended; one that panicked has told so already.
            let _ = waker.wake();
            let _ = thread.join();
        }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// The roots of a few hosts, evenly spread.
fn seed_targets(plan: &Plan) -> impl Iterator<Item = Target> {
    let hosts = plan.spec.hosts;
    let seeds = SEEDS.min(hosts);
    (0..seeds).map(move |seed| Target {
        host: (u64::from(seed) * u64::from(hosts) / u64::from(seeds)) as u32,
        what: What::Page(0),
    })
}
