//! Several peers on one overlay of any kind, and ways to wait for them.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use peercrawl_overlay::memory::MemoryNetwork;
use peercrawl_overlay::network::{Kind, NetworkOverlay, Options, start};
use peercrawl_overlay::{Event, Overlay, OverlayError, PeerId, Purpose, Verdict};

/// How long anything may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

/// Waits until something holds.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < until, "not in time: {what}");
        thread::sleep(POLL);
    }
}

/// An overlay under test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Net {
    Memory,
    Flat,
    Supernode,
}

/// One peer.
pub struct Peer {
    pub overlay: Arc<dyn Overlay>,
    network: Option<Arc<NetworkOverlay>>,
}

impl Peer {
    pub fn id(&self) -> PeerId {
        self.overlay.me()
    }

    /// Those that it does not speak to.
    pub fn offenders(&self) -> Vec<PeerId> {
        let network = self.network.as_ref();
        network.map_or(vec![], |network| network.offenders())
    }

    /// Ends without a farewell.
    pub fn crash(self) {
        if let Some(network) = &self.network {
            network.abort();
        }
    }

    /// Joins again after it has left, by itself or, if it cannot, as the layer above does it:
    /// another one is started under the same name.
    pub fn comes_back(&mut self, net: Net, number: u8, bootstrap: &[String]) {
        if !self.overlay.rejoin() {
            let left = self.overlay.hand_on(0, None, Purpose::Urls, Arc::new([]));
            assert_eq!(left, Err(OverlayError::Left));
            let network = start(net.kind(), options(number, bootstrap)).unwrap();
            self.overlay = network.clone();
            self.network = Some(network);
        }
    }

    /// The next message, with a verdict that lets it travel on.
    pub fn next_message(&self) -> Option<(PeerId, Vec<u8>)> {
        loop {
            if let Event::Message { id, from, bytes } = self.overlay.events().try_recv().ok()? {
                self.overlay.verdict(id, Verdict::Accept);
                return Some((from, bytes.to_vec()));
            }
        }
    }
}

/// Some peers that know each other.
pub struct Fleet {
    pub peers: Vec<Peer>,
}

/// The network of this test. Ports are used again: a peer of another test that calls for one
/// which is gone must find nobody here.
pub fn network() -> String {
    let test = thread::current().name().unwrap_or_default().to_owned();
    format!("test {}", blake3::hash(test.as_bytes()).to_hex())
}

/// The secret key of a peer of this test; it begins with its number.
pub fn secret(number: u8) -> [u8; 32] {
    let mut secret = *blake3::hash(network().as_bytes()).as_bytes();
    secret[0] = number;
    secret
}

/// Options for a peer on loopback.
pub fn options(number: u8, bootstrap: &[String]) -> Options {
    Options {
        listen: vec!["/ip4/127.0.0.1/tcp/0".into()],
        bootstrap: bootstrap.to_vec(),
        allow_private: true,
        ..Options::new(secret(number), &network())
    }
}

impl Net {
    pub fn kind(self) -> Kind {
        match self {
            Self::Supernode => Kind::Supernode,
            _ => Kind::Flat,
        }
    }

    /// So many peers, which all see each other.
    pub fn fleet(self, count: u8) -> Fleet {
        self.fleet_with(count, |options| options)
    }

    /// The same, with options of its own.
    pub fn fleet_with(self, count: u8, change: impl Fn(Options) -> Options) -> Fleet {
        let memory = MemoryNetwork::new();
        let mut peers: Vec<Peer> = Vec::new();
        for number in 1..=count {
            let peer = if self == Self::Memory {
                Peer {
                    overlay: Arc::new(memory.join(PeerId::repeat(number))),
                    network: None,
                }
            } else {
                let bootstrap = peers
                    .first()
                    .map_or(vec![], |first| first.overlay.listening());
                let network = start(self.kind(), change(options(number, &bootstrap))).unwrap();
                Peer {
                    overlay: network.clone(),
                    network: Some(network),
                }
            };
            peers.push(peer);
        }
        let fleet = Fleet { peers };
        fleet.agree();
        fleet
    }
}

impl Fleet {
    /// Waits until all see the same members, in the same order, and no others.
    #[track_caller]
    pub fn agree(&self) {
        let mut ids: Vec<_> = self.peers.iter().map(Peer::id).collect();
        ids.sort();
        eventually("all see all", || {
            self.peers.iter().all(|peer| {
                let members = peer.overlay.members();
                members
                    .iter()
                    .map(|member| member.id)
                    .eq(ids.iter().copied())
            })
        });
    }

    /// Waits until a peer gets a message; what else comes is left out.
    #[track_caller]
    pub fn gets(&self, peer: usize, from: usize, bytes: &[u8]) {
        let expected = (self.peers[from].id(), bytes.to_vec());
        eventually("the message arrives", || {
            self.peers[peer]
                .next_message()
                .is_some_and(|message| message == expected)
        });
    }
}
