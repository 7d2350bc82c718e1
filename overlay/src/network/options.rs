//! What a networked overlay needs to know before it starts.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::election::Patience;
use crate::handshake::Fact;
use crate::membership::Timing;
use crate::meter::Meter;
use crate::topology::Kind;

/// The version of everything that peers say to each other.
pub const PROTOCOL_VERSION: u16 = 1;

/// See the module.
#[derive(Debug, Clone)]
pub struct Options {
    /// The Ed25519 secret that this peer's id stands for.
    pub secret: [u8; 32],
    /// The network to be in.
    pub network: String,
    /// What else all members must agree on.
    pub agreement: Vec<Fact>,
    /// Where to listen: multiaddresses, TCP or QUIC.
    pub listen: Vec<String>,
    /// Where to find the network: multiaddresses, DNS names and `dnsaddr` too.
    pub bootstrap: Vec<String>,
    /// Whether to look for peers on the local network.
    pub mdns: bool,
    /// Whether to ask the router to let others in.
    pub upnp: bool,
    /// Whether this peer may become a supernode, until the handle says otherwise.
    pub allow_supernode: bool,
    /// Whether private addresses that other peers name may be dialled.
    pub allow_private: bool,
    /// The file in which the addresses of peers are kept from run to run.
    pub host_cache: Option<PathBuf>,
    /// The file in which offenders are kept from run to run.
    pub offenders: Option<PathBuf>,
    /// The file in which the ports that it got are kept from run to run.
    pub ports: Option<PathBuf>,
    /// How much is too much.
    pub limits: Limits,
    /// How much this peer does for those that cannot be reached.
    pub relay: RelayLimits,
    /// Asked before bytes go through a socket, if there is a limit for that.
    pub meter: Option<Arc<dyn Meter>>,
    /// How fast silent members are missed.
    pub timing: Timing,
    /// How patient the election of supernodes is.
    pub patience: Patience,
    /// For tests: every n-th gossip message that comes in is lost; 0 loses none.
    pub lose_every: u64,
}

/// How much is too much.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once.
    pub connections: u32,
    /// Bytes of one message.
    pub message_bytes: usize,
    /// Events that may wait for the layer above.
    pub events: usize,
    /// Messages to one peer that may be under way.
    pub under_way: u32,
    /// Bytes of memory that the whole program may take: what waits here is bounded by its
    /// part of that.
    pub memory_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 200,
            message_bytes: 1 << 20,
            events: 1_024,
            under_way: 64,
            memory_bytes: 256 << 20,
        }
    }
}

/// How much a peer that can be reached carries for peers that cannot. All of it goes
/// through this peer's sockets, so its user's byte limits bind it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayLimits {
    /// Peers that may have a place here at once; 0 for no relay at all.
    pub slots: u32,
    /// Connections through this peer at once.
    pub circuits: u32,
    /// Bytes that one of them may carry, both ways together; it is then made anew.
    pub circuit_bytes: u64,
    /// How long one of them may last; it is then made anew.
    pub circuit_duration: Duration,
}

impl Default for RelayLimits {
    fn default() -> Self {
        Self {
            slots: 64,
            circuits: 128,
            circuit_bytes: 128 << 20,
            circuit_duration: Duration::from_secs(3_600),
        }
    }
}

impl Options {
    /// Options for a peer of a network, with defaults for the rest: it listens on all
    /// interfaces at free ports and knows nobody.
    pub fn new(secret: [u8; 32], network: &str) -> Self {
        Self {
            secret,
            network: network.into(),
            agreement: Vec::new(),
            listen: vec![
                "/ip4/0.0.0.0/tcp/0".into(),
                "/ip4/0.0.0.0/udp/0/quic-v1".into(),
            ],
            bootstrap: Vec::new(),
            mdns: false,
            upnp: false,
            allow_supernode: true,
            allow_private: false,
            host_cache: None,
            offenders: None,
            ports: None,
            limits: Limits::default(),
            relay: RelayLimits::default(),
            meter: None,
            timing: Timing::default(),
            patience: Patience::default(),
            lose_every: 0,
        }
    }

    /// The hash of everything that members must agree on.
    pub(super) fn agreement_hash(&self, kind: Kind) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[kind as u8]);
        hasher.update(&PROTOCOL_VERSION.to_be_bytes());
        hasher.update(&(self.network.len() as u64).to_be_bytes());
        hasher.update(self.network.as_bytes());
        for Fact { name, value } in &self.agreement {
            for text in [name, value] {
                hasher.update(&(text.len() as u64).to_be_bytes());
                hasher.update(text.as_bytes());
            }
        }
        *hasher.finalize().as_bytes()
    }

    /// What members must agree on beside the network and the protocol, by name and value.
    pub(super) fn facts(&self, kind: Kind) -> Vec<(String, String)> {
        let kind = Fact::new("kind of overlay", kind.name());
        let all = std::iter::once(&kind).chain(&self.agreement);
        all.map(|fact| (fact.name.clone(), fact.value.clone()))
            .collect()
    }
}

/// Why an overlay cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A configured address makes no sense.
    #[error("\"{address}\" is no multiaddress: {reason}")]
    BadAddress {
        /// The address.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another program listens there, or it is not allowed.
    #[error("cannot listen on {address}: {reason}")]
    CannotListen {
        /// The address.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// The secret is no key.
    #[error("the peer's secret key is not usable")]
    BadSecret,
    /// The system refuses threads, sockets or the like.
    #[error("cannot start the network: {0}")]
    System(#[from] io::Error),
}
