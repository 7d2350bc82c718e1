//! The task that owns the swarm.
//!
//! It waits for three things: what the swarm reports, what the handle wants, and the
//! next tick, at which the state machines are told the time. Everything that one of
//! them causes is done before the next is looked at.
//!
//! - [`starting`]: everything before the first event
//! - [`keeping`]: what is kept on disk from run to run
//! - [`greeting`]: connections become links after a handshake
//! - [`linking`]: connections are made, links are given up
//! - [`reaching`]: whether others can reach this peer; relays and hole punching;
//!   [`router`]: what the router lets through
//! - [`records`]: leases and suspicions, and how they spread
//! - [`packets`]: messages to one peer, hop by hop; [`sending`]: each hop's turn;
//!   [`waiting`]: until there is a link
//! - [`answers`]: where they arrive, and how a question gets its answer
//! - [`gossip`]: broadcasts, and the crawler's verdicts on them

mod answers;
mod gossip;
mod greeting;
mod keeping;
mod linking;
mod packets;
mod reaching;
mod records;
mod router;
mod sending;
mod starting;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures::StreamExt;
use libp2p::gossipsub::IdentTopic;
use libp2p::multiaddr::Protocol;
use libp2p::request_response::{self, InboundRequestId, OutboundFailure, OutboundRequestId};
use libp2p::swarm::{ConnectionId, SwarmEvent};
use libp2p::{Multiaddr, PeerId as Libp2pPeerId, Swarm, identify, mdns, ping};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::alone::Alone;
use super::bounds::Bounds;
use super::event_queue::EventQueue;
use super::frame::{Request, Response};
use super::metered::is_unread;
use super::options::Options;
use super::shared::{Shared, Use};
use super::transport::{Behaviour, BehaviourEvent};
use super::turns::{Turns, is_too_slow};
use crate::back_off::BackOff;
use crate::clock::{Clock, Now};
use crate::election::Election;
use crate::envelope::{NetworkTag, Sealer};
use crate::host_cache::HostCache;
use crate::lan::Lan;
use crate::lease::Lease;
use crate::membership::Membership;
use crate::offenders::{Offence, Offenders};
use crate::once::Once;
use crate::pace::{Pace, Paces};
use crate::replay::ReplayWindow;
use crate::topology::Kind;
use crate::{MessageId, Outcome, PeerId, Purpose, Replier, Role, Verdict, identity};

use answers::{Caller, Question, Unread};
use gossip::{MeshAge, Pending, Slow, Told};
use greeting::Visitor;
use packets::Outbound;
use reaching::Reach;
use sending::Lane;
use waiting::WaitingRoom;

/// How often the state machines are told the time.
const TICK: Duration = Duration::from_millis(200);
/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_millis(500);

/// A message that the handle wants to be sent.
pub enum Command {
    /// See [`crate::Overlay::hand_on`].
    HandOn {
        /// Whom it is for, as far as known.
        owner: Option<PeerId>,
        /// What it is about.
        purpose: Purpose,
        /// What it says.
        bytes: Arc<[u8]>,
    },
    /// See [`crate::Overlay::send`].
    Send {
        /// Whom it is for.
        to: PeerId,
        /// What it is about.
        purpose: Purpose,
        /// What it says.
        bytes: Arc<[u8]>,
    },
    /// See [`crate::Overlay::request`].
    Ask {
        /// Whom it is for.
        to: PeerId,
        /// What it is about.
        purpose: Purpose,
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
    /// What the crawler makes of a question.
    Answer(u64, Outcome),
    /// It is over.
    Leave,
}

/// See the module.
pub struct Node {
    // What never changes.
    kind: Kind,
    options: Options,
    /// The hash of everything that members agree on.
    agreement: [u8; 32],
    /// The same by name and value, without the network's name.
    facts: Vec<(String, String)>,
    network: NetworkTag,
    topic: IdentTopic,
    clock: Clock,
    me: PeerId,
    incarnation: u64,
    bounds: Bounds,
    events: EventQueue,
    controls: mpsc::WeakSender<Control>,
    shared: Arc<Shared>,
    turns: Arc<Turns>,

    // The state machines.
    swarm: Swarm<Behaviour>,
    sealer: Sealer,
    membership: Membership,
    replay: ReplayWindow,
    offenders: Offenders,
    election: Election,

    // Links.
    /// Admitted peers, the oldest link first.
    links: Vec<PeerId>,
    /// Connected peers that are not admitted yet.
    visitors: HashMap<libp2p::PeerId, Visitor>,
    /// Those who said that they are leaves when they were admitted; some may be gone.
    leaf_links: BTreeSet<PeerId>,
    /// Links that should end, and since when.
    unwanted: BTreeMap<PeerId, u64>,
    /// Members whose connection broke, and that are dialled to see whether they live.
    probed: BTreeSet<PeerId>,
    reach: Reach,
    /// When the router is looked for again.
    router_due_ms: Option<u64>,
    /// The addresses that the layer above was last told of.
    callable: Vec<Vec<u8>>,
    bootstrap: Vec<Multiaddr>,
    alone: Alone,
    hosts: HostCache,
    lan: Lan,
    peer_back_off: BackOff<PeerId>,
    address_back_off: BackOff<Multiaddr>,
    dialled: HashMap<ConnectionId, Multiaddr>,
    observed: Vec<Multiaddr>,
    /// Places of which it was said that somebody there is not in this network.
    refusals_said: Once,
    random: u64,

    // Leases.
    my_lease: Option<Lease>,
    renewed_ms: u64,
    /// How many more leases this peer may write.
    my_leases: Pace,
    /// Somebody has said that this peer is dead, or may have while it had no link, and it has
    /// not yet said otherwise.
    is_suspected: bool,
    /// Records that wait to be passed to the leaves.
    for_leaves: Vec<Arc<[u8]>>,
    told: Told,
    mesh_age: MeshAge,
    slow: Slow,
    exchanged_ms: u64,
    mended_ms: u64,
    /// When the files are written next.
    save_due_ms: u64,
    /// The writing that is under way.
    writing: Option<JoinHandle<()>>,
    /// How many more records of each neighbour are looked at.
    records_heard: Paces,
    /// Members have changed since the layer above was last told.
    has_unsaid_members: bool,

    // Messages.
    outbound: HashMap<OutboundRequestId, Outbound>,
    /// Bytes of packets in them, and in the lanes.
    outbound_bytes: usize,
    /// Those of them that are carried for others.
    carried_bytes: usize,
    /// The packets of each link.
    lanes: HashMap<Libp2pPeerId, Lane>,
    waiting: WaitingRoom,
    questions: BTreeMap<u64, Question>,
    unread: Unread<InboundRequestId>,
    pending: BTreeMap<MessageId, Pending>,
    last_id: u64,
}

impl Node {
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
            self.save_last().await;
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
                connection_id,
                num_established,
                cause,
                ..
            } => {
                if cause.is_some_and(|cause| is_unread(&cause)) {
                    self.part_if_deaf(peer_id, true);
                }
                self.forget_connection(peer_id, connection_id, num_established == 0);
                if num_established == 0 {
                    self.turns.forget(&peer_id);
                    self.told.forget(&peer_id);
                    self.on_disconnected(peer_id);
                }
            }
            SwarmEvent::OutgoingConnectionError {
                peer_id,
                connection_id,
                error,
            } => self.on_dial_failed(peer_id, connection_id, &error),
            SwarmEvent::NewListenAddr { listener_id, .. } => {
                self.on_listening(listener_id);
                self.show_listening();
            }
            SwarmEvent::ExpiredListenAddr { .. } => self.show_listening(),
            SwarmEvent::ListenerClosed { listener_id, .. } => {
                self.on_listener_closed(listener_id);
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
            BehaviourEvent::Ping(event) => match event.result {
                Ok(after) => {
                    if let Some(peer) = identity::from_libp2p(&event.peer) {
                        let contacts = &self.shared.counters.contacts;
                        contacts.answered(peer, after, self.now_ms());
                    }
                }
                // A connection that answers no ping is dead, whatever the system says.
                Err(ping::Failure::Timeout) => {
                    self.swarm.close_connection(event.connection);
                }
                Err(_) => {}
            },
            BehaviourEvent::Mdns(mdns::Event::Discovered(found)) => {
                for (peer, address) in found {
                    self.on_neighbour(peer, address);
                }
            }
            BehaviourEvent::Mdns(mdns::Event::Expired(lost)) => {
                for (peer, address) in lost {
                    if let Some(peer) = identity::from_libp2p(&peer) {
                        self.lan.expired(peer, &address);
                    }
                }
            }
            BehaviourEvent::Upnp(event) => self.on_router(event),
            BehaviourEvent::Identify(identify::Event::Received { peer_id, info, .. }) => {
                self.on_identified(peer_id, &info);
            }
            BehaviourEvent::Autonat(event) => self.on_autonat(&event),
            BehaviourEvent::Relay(event) => self.on_relay(&event),
            BehaviourEvent::Dcutr(event) => self.on_hole_punched(event),
            _ => {}
        }
    }

    fn on_frames(&mut self, event: request_response::Event<Request, Response>) {
        use request_response::{Event, Message};
        match event {
            Event::Message { peer, message, .. } => match message {
                Message::Request {
                    request_id: id,
                    request,
                    channel,
                } => self.on_request(request, Caller { peer, id, channel }),
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
                if let OutboundFailure::Io(error) = &error
                    && is_too_slow(error)
                    && let Some(peer) = identity::from_libp2p(&peer)
                {
                    self.blame(peer, Offence::Slow);
                }
                self.on_response(peer, request_id, None);
            }
            // A request that comes slowly is blamed as [`Request::Late`]. What fails here has
            // lost its connection, waited for its turn or got no answer in time.
            Event::InboundFailure {
                peer,
                request_id,
                error,
                ..
            } => {
                tracing::debug!("from {peer}: {error}");
                self.unread.remove(&request_id);
            }
            Event::ResponseSent { request_id, .. } => self.unread.remove(&request_id),
        }
    }

    fn on_control(&mut self, control: Control) {
        match control {
            Control::Announce => self.update_lease(),
            Control::Verdict(id, verdict) => self.on_verdict(id, verdict),
            Control::Answer(question, outcome) => self.on_answer(question, outcome),
            // The loop looks at the flag.
            Control::Leave => {}
        }
    }

    /// Tells the state machines the time.
    fn tick(&mut self) {
        self.tick_reach();
        self.tick_records();
        self.elect();
        let is_leaf = self.role() == Role::Leaf;
        self.shared.is_leaf.store(is_leaf, Relaxed);
        self.update_lease();
        self.show_callable();
        self.tick_router();
        self.tick_links();
        self.tick_packets();
        self.tick_gossip();
        self.release_offenders();
        self.tell_members();
        self.tick_files();
        self.show_joining();
        self.say_alone();
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
            if let Some(libp2p_peer) = identity::to_libp2p(peer) {
                self.swarm.behaviour_mut().blocked.block_peer(libp2p_peer);
            }
            self.shared.set_offenders(self.offenders.list(now_ms));
            self.save_soon();
            // Nor is it heard through others.
            if self.membership.expel(peer, self.now()) {
                self.say_members();
            }
        }
    }

    /// Those whose time is over may come again.
    fn release_offenders(&mut self) {
        let now_ms = self.now_ms();
        let released = self.offenders.forget(now_ms);
        if released.is_empty() {
            return;
        }
        for peer in released.into_iter().filter_map(identity::to_libp2p) {
            self.swarm.behaviour_mut().blocked.unblock_peer(peer);
        }
        self.shared.set_offenders(self.offenders.list(now_ms));
    }

    /// Shows who is there. Where members are many, their list is long, and it may change with
    /// each record: the layer above is told at the next tick.
    fn say_members(&mut self) {
        let (members, before) = (self.membership.members(), self.shared.members());
        let mut both = members.iter().zip(before.iter());
        let is_same = members.len() == before.len() && both.all(|(one, other)| one.is_like(other));
        // Otherwise something changed that is of no concern above.
        self.has_unsaid_members |= !is_same;
        self.shared.set_members(members);
    }

    /// Tells the layer above if members have changed; without room for that, at another tick.
    fn tell_members(&mut self) {
        if self.has_unsaid_members {
            let members = self.shared.members();
            self.has_unsaid_members = !self.events.offer_members(members);
        }
    }

    /// Says that nobody was found where the network should be.
    fn say_alone(&mut self) {
        let is_alone = self.links.is_empty() && !self.bootstrap.is_empty();
        let now_ms = self.now_ms();
        if self.alone.is_worth_saying(is_alone, now_ms) {
            tracing::warn!(
                "no peer answers at any of the {} addresses in overlay.bootstrap: this peer \
                 goes on alone and keeps trying",
                self.bootstrap.len()
            );
        }
    }

    fn show_listening(&mut self) {
        let me = *self.swarm.local_peer_id();
        let named = |address: &Multiaddr| match address.iter().last() {
            Some(Protocol::P2p(peer)) if peer == me => address.to_string(),
            _ => format!("{address}/p2p/{me}"),
        };
        self.shared
            .set_listening(self.swarm.listeners().map(named).collect());
    }

    fn count_sent(&self, of: Use, copies: usize, bytes: usize) {
        self.shared.counters.sent(of, copies, bytes);
    }
}
