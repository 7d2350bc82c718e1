//! A site's kept-alive connection.
//!
//! It belongs to the site, not to the thread: whoever fetches from the site next finds
//! it open. Behind it is a `ureq` agent with a pool of one, which knows the site's
//! addresses and no others; all agents share one connector, and with it one TLS
//! configuration.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    ConnectionDetails, Connector, NextTimeout, RustlsConnector, Transport,
};
use ureq::{Agent, Error};

use super::socket::SocketConnector;
use crate::clock::Millis;
use crate::config::Settings;
use crate::crawl_jobs::SiteCell;

/// A connection to one site: opened when first used, and again when it has gone stale.
pub struct Connection {
    /// The agent that holds it.
    pub agent: Agent,
    /// Whether an answer has come over it, so that the next request may meet a server
    /// that has closed it meanwhile.
    pub was_used: bool,
}

/// Opens connections, all alike.
#[derive(Clone)]
pub struct Dialer {
    config: Config,
    shared: SharedConnector,
}

impl Dialer {
    /// A dialer that keeps the bounds of these settings.
    pub fn new(settings: &Settings) -> Self {
        let network = &settings.network;
        let limit = |ms| Some(Duration::from_millis(ms));
        let tls = TlsConfig::builder().root_certs(RootCerts::WebPki).build();
        let config = Config::builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .tls_config(tls)
            .user_agent(user_agent(settings))
            .accept("text/html,application/xhtml+xml,*/*;q=0.8")
            .accept_encoding("gzip, deflate, br")
            .timeout_connect(limit(network.connect_timeout_ms))
            .timeout_global(limit(network.fetch_timeout_ms))
            .max_response_header_size(network.max_header_bytes)
            .input_buffer_size(input_buffer_bytes(network.max_header_bytes))
            .output_buffer_size(4 << 10)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            .max_idle_age(Duration::from_secs(network.idle_secs.max(1)))
            .build();
        let connector = SiteConnector {
            socket: SocketConnector::new(network.allow_private),
            tls: RustlsConnector::default(),
        };
        Self {
            config,
            shared: SharedConnector(Arc::new(connector)),
        }
    }

    /// Cuts all connections that were opened here.
    pub fn cut_all(&self) {
        self.shared.0.socket.cut_all();
    }

    /// A connection to a site at these addresses; nothing is opened yet.
    pub fn connection(&self, addresses: Arc<[IpAddr]>) -> Connection {
        let resolver = SiteAddresses(addresses);
        Connection {
            agent: Agent::with_parts(self.config.clone(), self.shared.clone(), resolver),
            was_used: false,
        }
    }
}

/// A header must fit into the input buffer, and one byte more: `ureq` takes a buffer that
/// is full before the header ends for a connection that has ended. Bodies are read in
/// pieces of this size at most; a smaller one would cost more system calls.
fn input_buffer_bytes(max_header_bytes: usize) -> usize {
    (max_header_bytes + 1).max(32 << 10)
}

/// The product, its version, and the page about the bot.
fn user_agent(settings: &Settings) -> String {
    let agent = &settings.politeness.agent;
    let version = env!("CARGO_PKG_VERSION");
    match settings.politeness.bot_page.as_str() {
        "" => format!("{agent}/{version}"),
        page => format!("{agent}/{version} (+{page})"),
    }
}

#[derive(Debug, Clone)]
struct SharedConnector(Arc<SiteConnector>);

impl Connector<()> for SharedConnector {
    type Out = Box<dyn Transport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        self.0.connect(details, chained)
    }
}

/// A socket, and TLS over it where the scheme asks for it.
#[derive(Debug)]
struct SiteConnector {
    socket: SocketConnector,
    tls: RustlsConnector,
}

/// TLS could not be set up: the server could not prove who it is, or speaks no TLS.
#[derive(Debug, thiserror::Error)]
#[error("TLS: {0}")]
pub struct TlsError(Error);

impl SiteConnector {
    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Box<dyn Transport>>, Error> {
        let Some(socket) = self.socket.connect(details, chained)? else {
            return Ok(None);
        };
        if !details.needs_tls() {
            return Ok(Some(Box::new(socket)));
        }
        let secured = self.tls.connect(details, Some(socket));
        let secured = secured.map_err(|error| match error {
            Error::Timeout(_) => error,
            other => Error::Other(Box::new(TlsError(other))),
        })?;
        Ok(secured.map(|transport| Box::new(transport) as Box<dyn Transport>))
    }
}

/// The addresses of one site: whatever name is asked for, these are the answer.
struct SiteAddresses(Arc<[IpAddr]>);

impl fmt::Debug for SiteAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Resolver for SiteAddresses {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let default_port = if uri.scheme_str() == Some("https") {
            443
        } else {
            80
        };
        let port = uri.port_u16().unwrap_or(default_port);
        let mut found = self.empty();
        for &address in self.0.iter().take(16) {
            found.push(SocketAddr::new(address, port));
        }
        Ok(found)
    }
}

/// The connections that are kept while nobody fetches over them: the oldest are closed
/// when there are too many, or when they have been idle too long.
pub struct IdleConnections {
    most: usize,
    idle_ms: u64,
    kept: Mutex<VecDeque<(Millis, Weak<SiteCell>)>>,
}

impl IdleConnections {
    /// Nothing kept yet.
    pub fn new(most: usize, idle_secs: u64) -> Self {
        Self {
            most,
            idle_ms: idle_secs * 1_000,
            kept: Mutex::default(),
        }
    }

    /// A site has put its connection down. Returns sites whose connection may be too
    /// much by now; call [`IdleConnections::close`] for them with no site locked.
    pub fn keep(&self, cell: &Arc<SiteCell>, now_ms: Millis) -> Vec<Weak<SiteCell>> {
        let mut kept = self.kept.lock();
        kept.push_back((now_ms, Arc::downgrade(cell)));
        let excess = kept.len().saturating_sub(self.most);
        kept.drain(..excess).map(|(_, cell)| cell).collect()
    }

    /// Closes what has been idle too long; to be called now and then.
    pub fn sweep(&self, now_ms: Millis) {
        let old: Vec<_> = {
            let mut kept = self.kept.lock();
            let count = kept.partition_point(|&(used_ms, _)| used_ms + self.idle_ms <= now_ms);
            kept.drain(..count).collect()
        };
        for (used_ms, cell) in old {
            Self::close(&cell, used_ms);
        }
    }

    /// Closes a site's connection unless it was used after `used_ms`.
    pub fn close(cell: &Weak<SiteCell>, used_ms: Millis) {
        if let Some(cell) = cell.upgrade() {
            let mut state = cell.lock();
            if state.connection_used_ms <= used_ms {
                let closed = state.connection.take();
                drop(state);
                drop(closed);
            }
        }
    }
}
