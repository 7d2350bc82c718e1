//! Everything before the first event: sockets that listen, and empty state.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use futures::StreamExt;
use libp2p::Multiaddr;
use libp2p::gossipsub::IdentTopic;
use libp2p::identity::Keypair;
use libp2p::swarm::SwarmEvent;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::alone::Alone;
use super::super::bounds::Bounds;
use super::super::event_queue::EventQueue;
use super::super::options::{Options, StartError};
use super::super::shared::Shared;
use super::super::transport;
use super::super::turns::{self, Turns};
use super::answers::Unread;
use super::gossip::{MeshAge, Slow, Told};
use super::keeping::{self, SAVE_MS};
use super::reaching::Reach;
use super::records::{OWN_LEASES, RECORDS};
use super::waiting::WaitingRoom;
use super::{Control, Node};
use crate::back_off::BackOff;
use crate::clock::Clock;
use crate::election::Election;
use crate::envelope::{NetworkTag, Sealer};
use crate::host_cache::HostCache;
use crate::lan::Lan;
use crate::membership::Membership;
use crate::offenders::Offenders;
use crate::once::Once;
use crate::pace::{Pace, Paces};
use crate::ports::Ports;
use crate::replay::ReplayWindow;
use crate::topology::Kind;
use crate::{Event, addresses, identity};

/// A socket on all of the machine's addresses says nothing while there are none.
const FIRST_ADDRESS: Duration = Duration::from_secs(5);
/// After so long without news, all of the machine's addresses are known.
const MORE_ADDRESSES: Duration = Duration::from_millis(50);

fn multiaddresses(texts: &[String]) -> Result<Vec<Multiaddr>, StartError> {
    let parse = |text: &String| {
        text.parse().map_err(|error| StartError::BadAddress {
            address: text.clone(),
            reason: format!("{error}"),
        })
    };
    texts.iter().map(parse).collect()
}

impl Node {
    /// A node that listens.
    pub async fn start(
        kind: Kind,
        options: Options,
        keypair: Keypair,
        shared: Arc<Shared>,
        events: Sender<Event>,
        controls: mpsc::WeakSender<Control>,
    ) -> Result<Self, StartError> {
        let clock = Clock::start();
        let now = clock.now();
        let agreement = options.agreement_hash(kind);
        let mut network = NetworkTag::default();
        network.copy_from_slice(&agreement[..8]);
        let topic = IdentTopic::new(blake3::Hash::from(agreement).to_string());
        let listen = multiaddresses(&options.listen)?;
        let bootstrap = multiaddresses(&options.bootstrap)?;
        let turns = Turns::new(turns::Pace::default(), options.meter.clone());
        let swarm = transport::swarm(kind, &keypair, &options, &topic, &shared.counters, &turns)?;
        let seed = blake3::hash(&[&options.secret[..], &now.wall_ms.to_be_bytes()].concat());
        let mut random = [0; 8];
        random.copy_from_slice(&seed.as_bytes()[..8]);
        let sealer = Sealer::new(keypair, network, now).ok_or(StartError::BadSecret)?;
        let hosts = HostCache::parse(&keeping::read(options.host_cache.as_ref()));
        let offenders = Offenders::parse(&keeping::read(options.offenders.as_ref()), now);
        let bounds = Bounds::new(&options.limits);
        let mut node = Self {
            kind,
            agreement,
            facts: options.facts(kind),
            network,
            topic,
            clock,
            me: sealer.author(),
            incarnation: now.wall_ms,
            events: EventQueue::new(events, bounds.events),
            bounds,
            controls,
            shared,
            turns,
            swarm,
            sealer,
            membership: Membership::new(options.timing),
            replay: ReplayWindow::default(),
            offenders,
            election: Election::new(options.patience),
            links: Vec::new(),
            visitors: HashMap::new(),
            leaf_links: BTreeSet::new(),
            unwanted: BTreeMap::new(),
            probed: BTreeSet::new(),
            reach: Reach::default(),
            router_due_ms: None,
            callable: Vec::new(),
            bootstrap,
            alone: Alone::default(),
            hosts,
            lan: Lan::default(),
            peer_back_off: BackOff::default(),
            address_back_off: BackOff::default(),
            dialled: HashMap::new(),
            observed: Vec::new(),
            refusals_said: Once::default(),
            random: u64::from_be_bytes(random),
            my_lease: None,
            renewed_ms: 0,
            my_leases: Pace::new(OWN_LEASES, 0),
            is_suspected: false,
            for_leaves: Vec::new(),
            told: Told::default(),
            mesh_age: MeshAge::default(),
            slow: Slow::default(),
            exchanged_ms: 0,
            mended_ms: 0,
            save_due_ms: SAVE_MS,
            writing: None,
            records_heard: Paces::new(RECORDS),
            has_unsaid_members: false,
            outbound: HashMap::new(),
            outbound_bytes: 0,
            carried_bytes: 0,
            lanes: HashMap::new(),
            waiting: WaitingRoom::new(bounds.waiting),
            questions: BTreeMap::new(),
            unread: Unread::new(bounds),
            pending: BTreeMap::new(),
            last_id: 0,
            options,
        };
        for peer in node.offenders.list(now.since_start_ms) {
            if let Some(peer) = identity::to_libp2p(peer) {
                node.swarm.behaviour_mut().blocked.block_peer(peer);
            }
        }
        let offenders = node.offenders.list(now.since_start_ms);
        node.shared.set_offenders(offenders);
        node.listen(listen).await?;
        if node.kind == Kind::Flat {
            node.join_mesh();
        }
        node.tick();
        Ok(node)
    }

    /// Listens, and waits until the system says where.
    async fn listen(&mut self, addresses: Vec<Multiaddr>) -> Result<(), StartError> {
        let mut silent = HashMap::new();
        let is_wildcard = |address| addresses::ip(address).is_some_and(|ip| ip.is_unspecified());
        let has_wildcard = addresses.iter().any(is_wildcard);
        let mut ports = Ports::parse(&keeping::read(self.options.ports.as_ref()));
        for place in addresses {
            let address = ports.before(&place).unwrap_or_else(|| place.clone());
            let failed = |error: &dyn std::fmt::Display| StartError::CannotListen {
                address: address.to_string(),
                reason: error.to_string(),
            };
            // libp2p shares a port with whoever else would share it, another copy of
            // this program for one; connections would end up at either.
            if let Some(socket) = addresses::tcp_socket(&address) {
                TcpListener::bind(socket).map_err(|error| failed(&error))?;
            }
            let listening = self.swarm.listen_on(address.clone());
            let id = listening.map_err(|error| match error {
                libp2p::TransportError::MultiaddrNotSupported(_) => {
                    failed(&"only TCP and QUIC are supported")
                }
                libp2p::TransportError::Other(error) => failed(&innermost(&error)),
            })?;
            silent.insert(id, place);
        }
        let until = Instant::now() + FIRST_ADDRESS;
        while let Some(address) = silent.values().next() {
            let Ok(event) = timeout_at(until, self.swarm.select_next_some()).await else {
                return Err(StartError::CannotListen {
                    address: address.to_string(),
                    reason: "this machine has no such address now; is a network up?".into(),
                });
            };
            match event {
                SwarmEvent::NewListenAddr {
                    listener_id,
                    address,
                } => {
                    if let Some(place) = silent.remove(&listener_id) {
                        ports.got(&place, &address);
                    }
                }
                SwarmEvent::ListenerClosed {
                    listener_id,
                    reason,
                    ..
                } => {
                    if let Some(address) = silent.remove(&listener_id) {
                        let reason = reason.err().map_or("it closed".into(), |e| e.to_string());
                        let address = address.to_string();
                        return Err(StartError::CannotListen { address, reason });
                    }
                }
                event => self.on_swarm(event),
            }
        }
        if has_wildcard {
            // The machine's addresses are told one by one.
            while let Ok(event) = timeout(MORE_ADDRESSES, self.swarm.select_next_some()).await {
                self.on_swarm(event);
            }
        }
        if let Some(path) = self.options.ports.clone() {
            keeping::write_all(vec![(path, ports.to_text())]);
        }
        self.show_listening();
        Ok(())
    }
}

/// The cause that the system gave, without the library's wrapping.
fn innermost(error: &io::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}
