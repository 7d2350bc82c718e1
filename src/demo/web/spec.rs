//! How large a web to make, and what may be wrong with the wish.

use std::io;

/// The most hosts that loopback addresses are dealt out for: 250 × 250 × 250.
const MAX_HOSTS: u32 = 250 * 250 * 250;

/// What hosts are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Every host is an address of its own in 127.0.0.0/8, with a listener of its own. Linux
    /// answers on all of them.
    Addresses,
    /// Every host is a name such as `h17.peercrawl.test`; one listener on 127.0.0.1 serves them
    /// all. The crawler's resolver must be told: see [`Web::address_of`](super::Web::address_of).
    Names,
}

impl Default for Naming {
    /// Addresses where the platform has them, names elsewhere.
    fn default() -> Self {
        if cfg!(target_os = "linux") {
            Naming::Addresses
        } else {
            Naming::Names
        }
    }
}

/// The parameters of a synthetic web. Together with the port they decide every byte of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSpec {
    /// Number of hosts.
    pub hosts: u32,
    /// Number of reachable pages in all; at least 3 for each host.
    pub pages: u32,
    /// Another seed gives another web.
    pub seed: u64,
    /// The length of an ordinary page. A page whose links need more room is longer.
    pub page_bytes: usize,
    /// Links on an ordinary page. Pages near a host's root may hold more.
    pub links: u32,
    /// The port of all hosts; 0 takes any that is free.
    pub port: u16,
    /// Addresses or names.
    pub naming: Naming,
    /// With the oddities of the real web (the default), or plain pages alone, for benchmarks.
    pub oddities: bool,
    /// Threads that serve. A host is always served by one and the same.
    pub threads: usize,
    /// How many requests to keep word for word, for tests; 0 keeps none.
    pub request_log: usize,
}

impl WebSpec {
    /// A web of `hosts` hosts and `pages` pages in all, with the defaults for the rest.
    pub fn new(hosts: u32, pages: u32, seed: u64) -> Self {
        WebSpec {
            hosts,
            pages,
            seed,
            page_bytes: 16 * 1024,
            links: 33,
            port: 0,
            naming: Naming::default(),
            oddities: true,
            threads: 1,
            request_log: 0,
        }
    }

    /// Refuses what cannot be built.
    pub(super) fn check(&self) -> Result<(), WebError> {
        let refuse = |what: &str| Err(WebError::Spec(what.to_owned()));
        if self.hosts == 0 || self.hosts > MAX_HOSTS {
            return refuse("hosts must be between 1 and 15,625,000");
        }
        if u64::from(self.pages) < u64::from(self.hosts) * 3 || self.pages > u32::MAX / 4 {
            return refuse("pages must be at least 3 for each host, and at most 2^30");
        }
        if self.links > 1_000 || self.page_bytes > 16 << 20 {
            return refuse("links must be at most 1,000 and page_bytes at most 16 MiB");
        }
        if self.threads == 0 || self.threads > 64 {
            return refuse("threads must be between 1 and 64");
        }
        Ok(())
    }
}

/// Why a web could not be started.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The parameters contradict each other or are out of bounds.
    #[error("the synthetic web cannot be built: {0}")]
    Spec(String),
    /// A listener could not be opened.
    #[error(
        "the synthetic web could not listen on {address} ({source}); choose another port, fewer \
         hosts, or names instead of addresses"
    )]
    Listen {
        /// The address that was refused.
        address: std::net::SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// The event loop or its thread could not be set up.
    #[error("the synthetic web could not start its server: {0}")]
    Server(#[from] io::Error),
}
