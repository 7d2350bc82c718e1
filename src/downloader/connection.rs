//! A site's kept-alive connection.
//!
//! It belongs to the site, not to the thread: whoever fetches from the site next finds
//! it open. Behind it is a `ureq` agent with a pool of one, which knows the site's
//! addresses and no others; all agents share one connector, and with it one TLS
//! configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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

use super::socket::{CutOff, Patience, SocketConnector};
use super::speed::MinSpeed;
use super::tape::{Tape, Taped};
use crate::clock::Millis;
use crate::config::Settings;
use crate::crawl_jobs::SiteCell;
use crate::limits::Limits;

/// The longest that the volunteer's limits can make a fetch last beyond its own time.
const MOST_HELD: Duration = Duration::from_secs(3_600);

/// A connection to one site: opened when first used, and again when it has gone stale.
pub struct Connection {
    /// The agent that holds it.
    pub agent: Agent,
    /// What goes over it, above TLS.
    pub tape: Arc<Tape>,
    /// What was heard of the last answer, whether it was taken or not.
    pub heard: Heard,
    /// Whether an answer has come over it, so that the next request may meet a server
    /// that has closed it meanwhile.
    pub was_used: bool,
}

/// What was heard of an answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heard {
    /// Its status, if it came as far as that.
    pub status: Option<u16>,
    /// The bytes of its body.
    pub bytes: u64,
}

/// Opens connections, all alike.
#[derive(Clone)]
pub struct Dialer {
    config: Config,
    shared: SharedConnector,
}

impl Dialer {
    /// A dialer that keeps the bounds of these settings, and the volunteer's limits.
    pub fn new(settings: &Settings, limits: Arc<Limits>) -> Self {
        let network = &settings.network;
        let patience = Patience {
            connect: Duration::from_millis(network.connect_timeout_ms),
            fetch: Duration::from_millis(network.fetch_timeout_ms),
            speed: MinSpeed {
                bytes_per_sec: network.min_bytes_per_sec,
                grace: Duration::from_millis(network.slow_grace_ms),
            },
        };
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
            // The sockets watch the server's time; this is for what the limits add to it.
            .timeout_global(Some(patience.connect + patience.fetch + MOST_HELD))
            .max_response_header_size(network.max_header_bytes)
            .input_buffer_size(input_buffer_bytes(network.max_header_bytes))
            .output_buffer_size(4 << 10)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            .max_idle_age(Duration::from_secs(network.idle_secs.max(1)))
            .build();
        let connector = SiteConnector {
            socket: SocketConnector::new(network.allow_private, patience, limits),
            tls: RustlsConnector::default(),
        };
        Self {
            config,
            shared: Arc::new(connector),
        }
    }

    /// Cuts all connections that were opened here.
    pub fn cut_all(&self) {
        self.shared.socket.cut_all();
    }

    /// Cuts the connections to one host.
    pub fn cut_host(&self, host: &str) {
        self.shared.socket.cut_host(host);
    }

    /// A connection to a site at these addresses; nothing is opened yet.
    pub fn connection(&self, addresses: Arc<[IpAddr]>) -> Connection {
        let resolver = SiteAddresses(addresses);
        let tape = Arc::new(Tape::default());
        let connector = TapedConnector {
            shared: self.shared.clone(),
            tape: tape.clone(),
        };
        Connection {
            agent: Agent::with_parts(self.config.clone(), connector, resolver),
            tape,
            heard: Heard::default(),
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

/// The connector that all agents share.
type SharedConnector = Arc<SiteConnector>;

/// Connects, and puts what goes over the connection on a tape.
#[derive(Debug)]
struct TapedConnector {
    shared: SharedConnector,
    tape: Arc<Tape>,
}

impl Connector<()> for TapedConnector {
    type Out = Taped;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Taped>, Error> {
        let connected = self.shared.connect(details, chained)?;
        Ok(connected.map(|(transport, address)| self.tape.over(transport, address)))
    }
}

/// A way to a server, and the address at its end.
type Connected = (Box<dyn Transport>, IpAddr);

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
    ) -> Result<Option<Connected>, Error> {
        let Some(socket) = self.socket.connect(details, chained)? else {
            return Ok(None);
        };
        let address = socket.address();
        if !details.needs_tls() {
            return Ok(Some((Box::new(socket), address)));
        }
        let secured = self.tls.connect(details, Some(socket));
        let secured = secured.map_err(|error| match error {
            Error::Timeout(_) => error,
            Error::Other(inner) if inner.is::<CutOff>() => Error::Other(inner),
            other => Error::Other(Box::new(TlsError(other))),
        })?;
        Ok(secured.map(|transport| (Box::new(transport) as Box<dyn Transport>, address)))
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
///
/// A connection that is kept is in its site's hands, and has one entry here, under the
/// ticket that both share.
pub struct IdleConnections {
    most: usize,
    idle_ms: u64,
    tickets: AtomicU64,
    kept: Mutex<BTreeMap<Ticket, (Millis, Weak<SiteCell>)>>,
}

/// Names a connection while it is kept; later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A connection while it is kept.
pub struct Kept {
    connection: Connection,
    ticket: Ticket,
}

impl IdleConnections {
    /// Nothing kept yet.
    pub fn new(most: usize, idle_secs: u64) -> Self {
        Self {
            most,
            idle_ms: idle_secs * 1_000,
            tickets: AtomicU64::new(0),
            kept: Mutex::default(),
        }
    }

    /// Keeps a site's connection until it is wanted again.
    pub fn keep(&self, cell: &Arc<SiteCell>, connection: Connection, now_ms: Millis) -> Kept {
        let ticket = Ticket(self.tickets.fetch_add(1, Relaxed));
        let entry = (now_ms, Arc::downgrade(cell));
        self.kept.lock().insert(ticket, entry);
        Kept { connection, ticket }
    }

    /// Gives a connection back that was kept.
    pub fn take(&self, kept: Kept) -> Connection {
        self.kept.lock().remove(&kept.ticket);
        kept.connection
    }

    /// Closes the oldest while there are more than usual, or than there is `room` for. No site
    /// may be locked meanwhile.
    pub fn trim(&self, room: usize) {
        let excess: Vec<_> = {
            let mut kept = self.kept.lock();
            let count = kept.len().saturating_sub(self.most.min(room));
            std::iter::from_fn(|| kept.pop_first())
                .take(count)
                .collect()
        };
        excess.into_iter().for_each(Self::close);
    }

    /// Closes what has been idle too long; to be called now and then.
    pub fn sweep(&self, now_ms: Millis) {
        let old: Vec<_> = {
            let mut kept = self.kept.lock();
            let is_old = |used_ms: Millis| used_ms + self.idle_ms <= now_ms;
            std::iter::from_fn(|| {
                let first = kept.first_entry()?;
                is_old(first.get().0).then(|| first.remove_entry())
            })
            .collect()
        };
        old.into_iter().for_each(Self::close);
    }

    /// Closes a site's connection, unless it has been used again meanwhile.
    fn close((ticket, (_, cell)): (Ticket, (Millis, Weak<SiteCell>))) {
        if let Some(cell) = cell.upgrade() {
            let closed = cell.lock().connection.take_if(|kept| kept.ticket == ticket);
            drop(closed);
        }
    }
}
