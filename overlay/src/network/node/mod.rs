//! The task that owns the swarm.
//!
//! It waits for three things: what the swarm reports, what the handle wants, and the
//! next tick, at which the state machines are told the time. Everything that one of
//! them causes is done before the next is looked at.
//!
//! - [`linking`]: connections become links after a handshake; links are made and given up
//! - [`records`]: leases and suspicions, and how they spread
//! - [`packets`]: messages to one peer, hop by hop
//! - [`gossip`]: broadcasts, and the crawler's verdicts on them

mod gossip;
mod linking;
mod packets;
mod records;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::{fs, io};

use crossbeam_channel::Sender;
use futures::StreamExt;
use libp2p::gossipsub::IdentTopic;
use libp2p::identity::Keypair;
use libp2p::request_response::{self, OutboundRequestId};
use libp2p::swarm::{ConnectionId, SwarmEvent};
use libp2p::{Multiaddr, Swarm, mdns, ping};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::event_queue::EventQueue;
use super::options::{Options, StartError};
use super::shared::{Shared, Use};
use super::traffic_limit::TrafficLimit;
use super::transport::{self, Behaviour, BehaviourEvent};
use crate::addresses;
use crate::back_off::BackOff;
use crate::clock::{Clock, Now};
use crate::election::Election;
use crate::envelope::{NetworkTag, Sealer};
use crate::host_cache::{HostCache, MOST_FILE_BYTES};
use crate::lease::Lease;
use crate::membership::Membership;
use crate::offenders::{Offence, Offenders};
use crate::replay::ReplayWindow;
use crate::topology::Kind;
use crate::{Event, MessageId, PeerId, Replier, Role, Verdict, identity};

use gossip::Pending;
use linking::Visitor;
use packets::{Outbound, Question, Waiting};

/// How often the state machines are told the time.
const TICK: Duration = Duration::from_millis(200);
/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_millis(500);
/// How often the host cache is written.
const SAVE_MS: u64 = 60_000;

/// A message that the handle wants to be sent.
pub enum Command {
    /// See [`crate::Overlay::hand_on`].
    HandOn {
        /// Whom it is for, as far as known.
        owner: Option<PeerId>,
        /// What it says.
        bytes: Arc<[u8]>,
    },
    /// See [`crate::Overlay::send`].
    Send {
        /// Whom it is for.
        to: PeerId,
        /// What it says.
        bytes: Arc<[u8]>,
    },
    /// See [`crate::Overlay::request`].
    Ask {
        /// Whom it is for.
        to: PeerId,
        /// What it asks.
        bytes: Arc<[u8]>,
        /// How long the answer is waited for.
        deadline: Duration,
        /// Where the answer goes.
        replier: Replier,
    },
}

/// Something else that the handle wants.
pub enum Control {
    /// The facts have changed.
    Announce,
    /// What the crawler thinks of a message.
    Verdict(MessageId, Verdict),
    /// The crawler's answer to a question.
    Answer(u64, Vec<u8>),
    /// It is over.
    Leave,
}

/// See the module.
pub struct Node {
    // What never changes.
    kind: Kind,
    options: Options,
    network: NetworkTag,
    topic: IdentTopic,
    clock: Clock,
    me: PeerId,
    incarnation: u64,
    events: EventQueue,
    controls: mpsc::WeakSender<Control>,
    shared: Arc<Shared>,

    // The state machines.
    swarm: Swarm<Behaviour>,
    sealer: Sealer,
    membership: Membership,
    replay: ReplayWindow,
    offenders: Offenders,
    election: Election,
    upload: TrafficLimit,

    // Links.
    /// Admitted peers, the oldest link first.
    links: Vec<PeerId>,
    /// Connected peers that are not admitted yet.
    visitors: HashMap<libp2p::PeerId, Visitor>,
    /// Links that should end, and since when.
    unwanted: BTreeMap<PeerId, u64>,
    /// Members whose connection broke, and that are dialled to see whether they live.
    probed: BTreeSet<PeerId>,
    /// Dials that only show their receiver whether it can be reached.
    dial_backs: BTreeSet<ConnectionId>,
    has_inbound: bool,
    bootstrap: Vec<Multiaddr>,
    hosts: HostCache,
    peer_back_off: BackOff<PeerId>,
    address_back_off: BackOff<Multiaddr>,
    dialled: HashMap<ConnectionId, Multiaddr>,
    observed: Vec<Multiaddr>,
    random: u64,

    // Leases.
    my_lease: Option<Lease>,
    renewed_ms: u64,
    /// Records that wait to be passed to the leaves.
    for_leaves: Vec<Arc<[u8]>>,
    exchanged_ms: u64,
    mended_ms: u64,
    saved_ms: u64,
    /// An event about members that found no room.
    has_unsaid_members: bool,

    // Messages.
    outbound: HashMap<OutboundRequestId, Outbound>,
    /// Bytes of packets in them.
    outbound_bytes: usize,
    waiting: BTreeMap<PeerId, Vec<Waiting>>,
    questions: BTreeMap<u64, Question>,
    pending: BTreeMap<MessageId, Pending>,
    last_id: u64,
    gossip_count: u64,
}

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
        let network = options.network_tag();
        let topic = IdentTopic::new(blake3::Hash::from(options.agreement_hash()).to_string());
        let listen = multiaddresses(&options.listen)?;
        let bootstrap = multiaddresses(&options.bootstrap)?;
        let swarm = transport::swarm(&keypair, &options, &topic, &shared.counters)?;
        let seed = blake3::hash(&[&options.secret[..], &now.wall_ms.to_be_bytes()].concat());
        let mut random = [0; 8];
        random.copy_from_slice(&seed.as_bytes()[..8]);
        let sealer = Sealer::new(keypair, network, now).ok_or(StartError::BadSecret)?;
        let hosts = options
            .host_cache
            .as_ref()
            .map_or_else(HostCache::default, |path| {
                let is_small = fs::metadata(path).is_ok_and(|data| data.len() <= MOST_FILE_BYTES);
                let text = is_small.then(|| fs::read_to_string(path).ok()).flatten();
                HostCache::parse(&text.unwrap_or_default())
            });
        let mut node = Self {
            kind,
            network,
            topic,
            clock,
            me: sealer.author(),
            incarnation: now.wall_ms,
            events: EventQueue::new(events),
            controls,
            shared,
            swarm,
            sealer,
            membership: Membership::new(options.timing),
            replay: ReplayWindow::default(),
            offenders: Offenders::default(),
            election: Election::new(options.patience),
            upload: TrafficLimit::new(options.limits.upload_bytes_per_sec),
            links: Vec::new(),
            visitors: HashMap::new(),
            unwanted: BTreeMap::new(),
            probed: BTreeSet::new(),
            dial_backs: BTreeSet::new(),
            has_inbound: false,
            bootstrap,
            hosts,
            peer_back_off: BackOff::default(),
            address_back_off: BackOff::default(),
            dialled: HashMap::new(),
            observed: Vec::new(),
            random: u64::from_be_bytes(random),
            my_lease: None,
            renewed_ms: 0,
            for_leaves: Vec::new(),
            exchanged_ms: 0,
            mended_ms: 0,
            saved_ms: 0,
            has_unsaid_members: false,
            outbound: HashMap::new(),
            outbound_bytes: 0,
            waiting: BTreeMap::new(),
            questions: BTreeMap::new(),
            pending: BTreeMap::new(),
            last_id: 0,
            gossip_count: 0,
            options,
        };
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
        for address in addresses {
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
            silent.insert(id, address);
        }
        while !silent.is_empty() {
            match self.swarm.select_next_some().await {
                SwarmEvent::NewListenAddr { listener_id, .. } => {
                    silent.remove(&listener_id);
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
        self.show_listening();
        Ok(())
    }

    /// Works until the peer leaves.
    pub async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        mut controls: mpsc::Receiver<Control>,
    ) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.shared.has_left.load(Relaxed) {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_swarm(event),
                command = commands.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => break,
                },
                control = controls.recv() => match control {
                    Some(control) => self.on_control(control),
                    None => break,
                },
                _ = ticks.tick() => self.tick(),
            }
        }
        if !self.shared.is_aborted.load(Relaxed) {
            self.say_farewell().await;
            self.save_hosts();
        }
        self.shared.has_left.store(true, Relaxed);
    }

    async fn say_farewell(&mut self) {
        self.publish_farewell();
        let is_said = async {
            while self.outbound.values().any(Outbound::is_farewell) {
                let event = self.swarm.select_next_some().await;
                self.on_swarm(event);
            }
        };
        // Whoever does not hear it in time will notice the silence.
        let _late = timeout(FAREWELL, is_said).await;
    }

    fn on_swarm(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(event) => self.on_behaviour(event),
            SwarmEvent::ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                ..
            } => self.on_connected(peer_id, connection_id, &endpoint),
            SwarmEvent::ConnectionClosed {
                peer_id,
                num_established: 0,
                ..
            } => self.on_disconnected(peer_id),
            SwarmEvent::OutgoingConnectionError {
                peer_id,
                connection_id,
                error,
            } => self.on_dial_failed(peer_id, connection_id, &error),
            SwarmEvent::NewListenAddr { .. } | SwarmEvent::ExpiredListenAddr { .. } => {
                self.show_listening();
            }
            SwarmEvent::NewExternalAddrCandidate { address } => self.on_observed(address),
            _ => {}
        }
    }

    fn on_behaviour(&mut self, event: BehaviourEvent) {
        match event {
            BehaviourEvent::Mesh(event) => self.on_mesh(event),
            BehaviourEvent::Frames(event) => self.on_frames(event),
            BehaviourEvent::Ping(event) if matches!(event.result, Err(ping::Failure::Timeout)) => {
                // A connection that answers no ping is dead, whatever the system says.
                self.swarm.close_connection(event.connection);
            }
            BehaviourEvent::Mdns(mdns::Event::Discovered(found)) => {
                for (peer, address) in found {
                    self.on_neighbour(peer, address);
                }
            }
            _ => {}
        }
    }

    fn on_frames(
        &mut self,
        event: request_response::Event<super::frame::Request, super::frame::Response>,
    ) {
        use request_response::{Event, Message};
        match event {
            Event::Message { peer, message, .. } => match message {
                Message::Request {
                    request, channel, ..
                } => self.on_request(peer, request, channel),
                Message::Response {
                    request_id,
                    response,
                } => self.on_response(peer, request_id, Some(response)),
            },
            Event::OutboundFailure {
                peer,
                request_id,
                error,
                ..
            } => {
                tracing::debug!("to {peer}: {error}");
                self.on_response(peer, request_id, None);
            }
            _ => {}
        }
    }

    fn on_control(&mut self, control: Control) {
        match control {
            Control::Announce => self.update_lease(),
            Control::Verdict(id, verdict) => self.on_verdict(id, verdict),
            Control::Answer(question, bytes) => self.on_answer(question, &bytes),
            // The loop looks at the flag.
            Control::Leave => {}
        }
    }

    /// Tells the state machines the time.
    fn tick(&mut self) {
        self.tick_records();
        self.elect();
        self.update_lease();
        self.tick_links();
        self.tick_packets();
        self.tick_gossip();
        for peer in self.offenders.forget(self.now_ms()) {
            if let Some(peer) = identity::to_libp2p(peer) {
                self.swarm.behaviour_mut().blocked.unblock_peer(peer);
            }
        }
        if self.has_unsaid_members {
            self.say_members();
        }
        if self.now_ms() >= self.saved_ms + SAVE_MS {
            self.saved_ms = self.now_ms();
            self.save_hosts();
        }
    }

    fn now(&self) -> Now {
        self.clock.now()
    }

    fn now_ms(&self) -> u64 {
        self.now().since_start_ms
    }

    /// The next random number; good enough to spread retries and choices.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    }

    fn jitter(&mut self) -> f64 {
        (self.random() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn role(&self) -> Role {
        match self.kind {
            Kind::Flat => Role::Peer,
            Kind::Supernode => self.election.role(),
        }
    }

    fn is_in_mesh(&self) -> bool {
        self.role() != Role::Leaf
    }

    /// Counts an offence. An offender is dropped, and not let in again for a while.
    fn blame(&mut self, peer: PeerId, offence: Offence) {
        tracing::debug!("{peer}: {offence:?}");
        let now_ms = self.now_ms();
        if peer != self.me && self.offenders.blame(peer, offence, now_ms) {
            tracing::warn!("{peer} is not spoken to any more: {offence:?}");
            if let Some(peer) = identity::to_libp2p(peer) {
                self.swarm.behaviour_mut().blocked.block_peer(peer);
            }
            self.shared.set_offenders(self.offenders.list(now_ms));
        }
    }

    /// Tells the layer above who is there.
    fn say_members(&mut self) {
        let members = self.membership.members();
        self.shared.set_members(members.clone());
        self.has_unsaid_members = !self.events.offer(Event::Members(members), 0);
    }

    fn show_listening(&mut self) {
        let me = *self.swarm.local_peer_id();
        let addresses = self.swarm.listeners().map(|a| format!("{a}/p2p/{me}"));
        self.shared.set_listening(addresses.collect());
    }

    /// A torn file costs addresses, not the start: it is written beside and renamed.
    fn save_hosts(&self) {
        let Some(path) = &self.options.host_cache else {
            return;
        };
        let text = self.hosts.to_text();
        if text.is_empty() {
            return;
        }
        let beside = path.with_extension("new");
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
        if let Err(error) = written {
            tracing::warn!("cannot write {}: {error}", path.display());
        }
    }

    fn count_sent(&mut self, of: Use, copies: usize, bytes: usize) {
        self.shared.counters.sent(of, copies, bytes);
        if of == Use::Membership {
            self.upload.pays(copies * bytes);
        }
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
