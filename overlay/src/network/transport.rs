//! The libp2p parts that a networked overlay is made of.

use std::sync::Arc;
use std::time::Duration;
use std::{io, iter};

use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::Boxed;
use libp2p::core::upgrade;
use libp2p::gossipsub::{self, IdentTopic, WhitelistSubscriptionFilter};
use libp2p::identity::Keypair;
use libp2p::swarm::NetworkBehaviour;
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::{
    PeerId, Swarm, Transport, allow_block_list, autonat, connection_limits, dcutr, dns, identify,
    mdns, noise, ping, quic, relay, request_response, swarm, tcp, upnp, yamux,
};

use super::contacts;
use super::frame::{FrameCodec, PROTOCOL};
use super::metered::{Gauge, Metered, MeteredStreams};
use super::options::Options;
use super::screening::{DialGuard, Screened};
use super::shared::Counters;
use super::turns::Turns;
use crate::addresses;
use crate::envelope::OVERHEAD_BYTES;
use crate::meter::{Direction, Meter};
use crate::topology::Kind;

/// Who neither speaks nor listens is closed by us, not by a timer of the library.
const IDLE: Duration = Duration::from_secs(24 * 3_600);
/// The longest that a request can wait for its answer.
pub const LONGEST_REQUEST: Duration = Duration::from_secs(60);
/// Time to make a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Between two pings to a supernode, and for each.
const PING: Duration = Duration::from_secs(5);
/// What one stream of a QUIC connection may bring unasked where bytes are metered: what comes
/// in this part of a second. So one stream fills the limit, unless its other end is far away.
const QUIC_WINDOWS_PER_SEC: u64 = 8;
/// And no less, or there would be more headers than bytes.
const LEAST_QUIC_WINDOW: u64 = 4 << 10;
/// And no more: there may be a limit later.
const MOST_QUIC_WINDOW: u64 = 16 << 10;
/// So many streams may be full at once. Those that wait for their [turn](super::turns) are
/// not read: if they could take all that the connection has, nobody's turn would ever end.
const FULL_QUIC_STREAMS: u32 = 64;
/// Exchanges over one connection at once, both ways together.
const STREAMS: usize = 128;
/// Before others are first asked to call back.
const FIRST_CALL_BACK: Duration = Duration::from_secs(1);
/// Until their verdict is certain, another one is asked so often.
const NEXT_CALL_BACK: Duration = Duration::from_secs(2);
/// The same one is asked again after so long.
const SAME_CALL_BACK: Duration = Duration::from_secs(30);
/// A verdict that is certain is tried again after so long.
const CERTAIN: Duration = Duration::from_secs(900);
/// Addresses of one peer at which it is called back.
const CALL_BACKS: usize = 4;
/// The longest that calling back may take: each address is tried in turn.
const CALLING_BACK: Duration = Duration::from_secs(60);

/// The gossip mesh: it knows one topic, whatever others subscribe to.
pub type Mesh = gossipsub::Behaviour<gossipsub::IdentityTransform, WhitelistSubscriptionFilter>;

/// What a peer's swarm does.
#[derive(NetworkBehaviour)]
pub struct Behaviour {
    /// Offenders are not let in.
    pub blocked: allow_block_list::Behaviour<allow_block_list::BlockedPeers>,
    /// Strangers do not choose where to dial.
    pub guard: DialGuard,
    /// Nor are too many let in.
    pub limits: connection_limits::Behaviour,
    /// Broadcasts.
    pub mesh: Mesh,
    /// Everything between two peers.
    pub frames: Screened<request_response::Behaviour<FrameCodec>>,
    /// Tells peers how the others see them.
    pub identify: identify::Behaviour,
    /// Notices dead connections.
    pub ping: ping::Behaviour,
    /// Finds peers on the local network.
    pub mdns: Toggle<mdns::tokio::Behaviour>,
    /// Asks the router to let others in; what it grants is announced.
    pub upnp: Toggle<upnp::tokio::Behaviour>,
    /// Finds out whether others can connect.
    pub autonat: Screened<autonat::Behaviour>,
    /// Carries connections of those that cannot be reached.
    pub relay: Screened<relay::Behaviour>,
    /// Is reached through others that carry connections.
    pub relay_client: relay::client::Behaviour,
    /// Makes such connections direct.
    pub dcutr: Screened<dcutr::Behaviour>,
}

/// A swarm that listens nowhere yet. Must be called inside a tokio runtime.
pub fn swarm(
    kind: Kind,
    keypair: &Keypair,
    options: &Options,
    topic: &IdentTopic,
    counters: &Arc<Counters>,
    turns: &Arc<Turns>,
) -> io::Result<Swarm<Behaviour>> {
    let gauge = Gauge::of_sockets(counters.clone(), options.meter.clone());
    let me = keypair.public().to_peer_id();
    let (through_relays, relay_client) = relay::client::new(me);
    let meter = options.meter.as_ref();
    let window = meter.map(|meter| quic_window(meter.as_ref()));
    let transport = transport(keypair, &gauge, window, through_relays)?;
    let transport = contacts::counted(transport, counters.clone());
    let behaviour = behaviour(
        kind,
        keypair,
        options,
        topic,
        (counters, turns),
        relay_client,
    )?;
    let config = swarm::Config::with_tokio_executor()
        .with_idle_connection_timeout(IDLE)
        .with_max_negotiating_inbound_streams(STREAMS);
    Ok(Swarm::new(transport, behaviour, me, config))
}

/// TCP with Noise and Yamux, and QUIC, to addresses and to names; and Noise and Yamux
/// once more through relays. What goes through a relay is metered on the way to it.
fn transport(
    keypair: &Keypair,
    gauge: &Gauge,
    window: Option<u32>,
    through_relays: relay::client::Transport,
) -> io::Result<Boxed<(PeerId, StreamMuxerBox)>> {
    let mut yamux = yamux::Config::default();
    // Each stream may hold unread bytes; the mesh and the like need a few of their own.
    yamux.set_max_num_streams(STREAMS + 64);
    let relayed = through_relays
        .upgrade(upgrade::Version::V1Lazy)
        .authenticate(noise::Config::new(keypair).map_err(io::Error::other)?)
        .multiplex(yamux.clone())
        .timeout(CONNECT)
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let build = || -> io::Result<_> {
        let (of_tcp, of_quic) = (gauge.clone(), gauge.clone().of_quic());
        let tcp = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true))
            .map(move |stream, _| Metered::of_socket(stream, of_tcp))
            .upgrade(upgrade::Version::V1Lazy)
            .authenticate(noise::Config::new(keypair).map_err(io::Error::other)?)
            .multiplex(yamux.clone())
            .timeout(CONNECT)
            .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
        let mut config = quic::Config::new(keypair);
        if let Some(window) = window {
            // What a window lets in has passed the socket before anybody was asked.
            config.max_stream_data = window;
            config.max_connection_data = window * FULL_QUIC_STREAMS;
        }
        let quic = quic::tokio::Transport::new(config).map(move |(peer, muxer), _| {
            let streams = MeteredStreams::new(muxer, of_quic);
            (peer, StreamMuxerBox::new(streams))
        });
        Ok(tcp.or_transport(quic).map(|either, _| either.into_inner()))
    };
    // A machine without a name service still has its neighbours.
    let transport = match dns::tokio::Transport::system(build()?) {
        Ok(transport) => transport,
        Err(_) => dns::tokio::Transport::custom(
            build()?,
            dns::ResolverConfig::default(),
            dns::ResolverOpts::default(),
        ),
    };
    let both = relayed.or_transport(transport);
    Ok(both.map(|either, _| either.into_inner()).boxed())
}

/// What a stream of QUIC may bring before this meter is asked. Windows stay as they are from
/// the start on, so whoever may move nothing just now counts as one without a limit.
fn quic_window(meter: &dyn Meter) -> u32 {
    let limit = meter.limit(Direction::Down).filter(|&limit| limit > 0);
    let window = limit.map_or(MOST_QUIC_WINDOW, |limit| limit / QUIC_WINDOWS_PER_SEC);
    window.clamp(LEAST_QUIC_WINDOW, MOST_QUIC_WINDOW) as u32
}

fn behaviour(
    kind: Kind,
    keypair: &Keypair,
    options: &Options,
    topic: &IdentTopic,
    (counters, turns): (&Arc<Counters>, &Arc<Turns>),
    relay_client: relay::client::Behaviour,
) -> io::Result<Behaviour> {
    let me = keypair.public().to_peer_id();
    let limits = options.limits;
    let connection_limits = connection_limits::ConnectionLimits::default()
        .with_max_pending_incoming(Some(64))
        .with_max_pending_outgoing(Some(64))
        .with_max_established(Some(limits.connections))
        .with_max_established_incoming(Some(limits.connections - limits.connections / 4))
        .with_max_established_per_peer(Some(4));
    let frames = request_response::Config::default()
        .with_request_timeout(LONGEST_REQUEST)
        .with_max_concurrent_streams(STREAMS);
    let agent = identify::Config::new(PROTOCOL.to_string(), keypair.public())
        // Where strangers say that they listen is not dialled: their leases are looked at.
        .with_cache_size(0)
        .with_agent_version(concat!("peercrawl/", env!("CARGO_PKG_VERSION")).into());
    // A leaf must notice within ten seconds that its supernode's machine has gone; in a
    // flat overlay there are more links, and no way depends on one of them.
    let ping = match kind {
        Kind::Flat => ping::Config::new(),
        Kind::Supernode => ping::Config::new().with_interval(PING).with_timeout(PING),
    };
    let mdns = match options.mdns {
        // A machine without multicast does without.
        true => mdns::tokio::Behaviour::new(mdns::Config::default(), me)
            .inspect_err(|error| tracing::warn!("no discovery on the local network: {error}"))
            .ok(),
        false => None,
    };
    Ok(Behaviour {
        blocked: allow_block_list::Behaviour::default(),
        guard: DialGuard::new(options.allow_private, counters.clone()),
        limits: connection_limits::Behaviour::new(connection_limits),
        mesh: mesh(limits.message_bytes, topic)?,
        frames: {
            let codec = FrameCodec::new(limits.message_bytes, turns.clone());
            let protocol = iter::once((PROTOCOL, request_response::ProtocolSupport::Full));
            let frames = request_response::Behaviour::with_codec(codec, protocol, frames);
            let turns = turns.clone();
            Screened::heralded(frames, move |peer| turns.expect(peer))
        },
        identify: identify::Behaviour::new(agent),
        ping: ping::Behaviour::new(ping),
        mdns: mdns.into(),
        upnp: (options.upnp && listens_beyond_loopback(options))
            .then(upnp::tokio::Behaviour::default)
            .into(),
        autonat: autonat(me, options.allow_private),
        relay: relay_server(me, options),
        relay_client,
        dcutr: {
            let allow_private = options.allow_private;
            Screened::of_seen(dcutr::Behaviour::new(me), move |address| {
                addresses::may_dial(address, allow_private)
            })
        },
    })
}

/// Asks others to call back where this peer listens, at the address that they see it at.
/// It needs no more than that: what others say about ports is not even looked at.
fn autonat(me: PeerId, allow_private: bool) -> Screened<autonat::Behaviour> {
    let config = autonat::Config {
        timeout: CALLING_BACK,
        boot_delay: FIRST_CALL_BACK,
        retry_interval: NEXT_CALL_BACK,
        throttle_server_period: SAME_CALL_BACK,
        refresh_interval: CERTAIN,
        confidence_max: 2,
        max_peer_addresses: CALL_BACKS,
        only_global_ips: !allow_private,
        ..autonat::Config::default()
    };
    Screened::of_seen(autonat::Behaviour::new(me, config), |_| false).by_own_dials()
}

/// Serves nobody until this peer knows that it can be reached.
fn relay_server(me: PeerId, options: &Options) -> Screened<relay::Behaviour> {
    let limits = options.relay;
    let config = relay::Config {
        max_reservations: limits.slots as usize,
        max_circuits: limits.circuits as usize,
        // As many as a peer of a flat overlay has links, twice.
        max_circuits_per_peer: 16,
        max_circuit_duration: limits.circuit_duration,
        max_circuit_bytes: limits.circuit_bytes,
        ..relay::Config::default()
    };
    let mut relay = relay::Behaviour::new(me, config);
    relay.set_status(Some(relay::Status::Disable));
    // Over a relayed connection it serves nobody, and would take fright at being told to
    // (libp2p-relay 0.22 ends in a panic when its status changes beside one).
    Screened::of_direct(relay)
}

/// Whoever listens on this machine alone needs nothing of the router.
fn listens_beyond_loopback(options: &Options) -> bool {
    let parsed = options.listen.iter().filter_map(|text| text.parse().ok());
    parsed.into_iter().any(|address| {
        let ip = addresses::ip(&address);
        ip.is_some_and(|ip| !ip.is_loopback())
    })
}

fn mesh(message_bytes: usize, topic: &IdentTopic) -> io::Result<Mesh> {
    // Envelopes are signed by their authors: a signature for each hop would add
    // nothing. Peers have scores of our own, so those of the mesh stay off, and with
    // them the penalty for sharing an address that hits households and tests.
    let config = gossipsub::ConfigBuilder::default()
        .validation_mode(gossipsub::ValidationMode::Anonymous)
        .validate_messages()
        .message_id_fn(|message: &gossipsub::Message| {
            gossipsub::MessageId::from(blake3::hash(&message.data).as_bytes()[..20].to_vec())
        })
        .max_transmit_size(message_bytes + OVERHEAD_BYTES + 1_024)
        .heartbeat_initial_delay(Duration::from_millis(200))
        // A thin mesh: each message goes over most of its edges once, and what gets lost
        // is offered again by the lazy gossip.
        .mesh_n(4)
        .mesh_n_low(3)
        .mesh_n_high(6)
        .gossip_lazy(3)
        .flood_publish(false)
        // For one that does not read, 64 of the largest messages wait.
        .connection_handler_queue_len(64)
        .build()
        .map_err(io::Error::other)?;
    let only_ours = WhitelistSubscriptionFilter(iter::once(topic.hash()).collect());
    let anonymous = gossipsub::MessageAuthenticity::Anonymous;
    gossipsub::Behaviour::new_with_subscription_filter(anonymous, config, only_ours)
        .map_err(io::Error::other)
}
