//! Whether others can reach this peer, and what follows from it.
//!
//! Neighbours call back when asked (AutoNAT). A peer that they reach carries connections
//! for others; one that they do not reach reserves places at relays among its links, and
//! says in its lease that it is to be called through them. A connection through a relay is
//! made direct if both routers let it (hole punching); the relayed one is then closed.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use libp2p::autonat::NatStatus;
use libp2p::core::ConnectedPoint;
use libp2p::core::transport::ListenerId;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::swarm::{ConnectionId, DialError};
use libp2p::{Multiaddr, PeerId as Libp2pPeerId, autonat, dcutr, identify, relay};

use super::super::shared::Standing;
use super::Node;
use crate::back_off::BackOff;
use crate::reachability::{self, Reachability};
use crate::{PeerId, addresses, identity};

/// A relayed connection is kept for so long beside a direct one, for what is under way.
const BESIDE_MS: u64 = 2_000;
/// And for so long at most if more and more is under way.
const BESIDE_MOST_MS: u64 = 10_000;
/// How long a relay that gave no place, or took it back, is left alone.
const NO_PLACE_MS: u64 = 30_000;
/// Addresses through relays that a lease names.
const MOST_CIRCUITS: usize = 4;

/// A connection, whoever made it.
struct Connection {
    peer: Libp2pPeerId,
    is_relayed: bool,
    since_ms: u64,
    /// Where this peer has dialled, if it has.
    dialled: Option<Multiaddr>,
    /// The network that it came from, if it came straight and from a public one.
    near: Option<IpAddr>,
}

/// A place at a relay.
struct Place {
    relay: PeerId,
    is_given: bool,
}

/// See the module.
#[derive(Default)]
pub struct Reach {
    /// What those say who have called back.
    verdict: Reachability,
    /// Whether somebody has connected straight to this peer.
    has_inbound: bool,
    /// Dials that the node itself has begun, not a part of the swarm for others, and to whom
    /// if that is known.
    own_dials: HashMap<ConnectionId, Option<PeerId>>,
    connections: HashMap<ConnectionId, Connection>,
    /// Connected peers to which addresses have led that do not name them.
    led_to: HashMap<Multiaddr, Libp2pPeerId>,
    /// Connected peers that carry connections.
    relays: HashSet<Libp2pPeerId>,
    places: HashMap<ListenerId, Place>,
    relay_back_off: BackOff<PeerId>,
    is_relay: bool,
    upgraded: u64,
    carried: usize,
}

impl Reach {
    /// Whether a call to a peer is under way.
    pub fn is_called(&self, peer: PeerId) -> bool {
        self.own_dials.values().any(|called| *called == Some(peer))
    }

    /// How many calls are.
    pub fn calls(&self) -> usize {
        self.own_dials.len()
    }
}

impl Node {
    /// Whether others can connect to this peer, as far as is known.
    pub(super) fn is_reachable(&self) -> bool {
        self.reach.verdict.is_likely(self.reach.has_inbound)
    }

    /// Dials, as the node itself wants it.
    pub(super) fn call(&mut self, options: DialOpts) -> Result<(), DialError> {
        let dial = options.connection_id();
        let peer = options.get_peer_id();
        let peer = peer.and_then(|peer| identity::from_libp2p(&peer));
        self.swarm.behaviour_mut().guard.trust(dial);
        self.swarm.dial(options)?;
        self.reach.own_dials.insert(dial, peer);
        Ok(())
    }

    /// A dial is over; tells whether the node had begun it.
    pub(super) fn was_own_dial(&mut self, dial: ConnectionId) -> bool {
        self.reach.own_dials.remove(&dial).is_some()
    }

    /// Notes a connection. A spare one is closed at once; tells whether it is one.
    pub(super) fn note_connection(
        &mut self,
        peer: Libp2pPeerId,
        connection: ConnectionId,
        endpoint: &ConnectedPoint,
        is_own: bool,
    ) -> bool {
        let is_relayed = endpoint.is_relayed();
        let since_ms = self.now_ms();
        self.reach.has_inbound |= endpoint.is_listener() && !is_relayed;
        let is_spare = endpoint.is_dialer() && !is_relayed && self.is_spare(peer, is_own);
        if is_spare {
            self.swarm.close_connection(connection);
        }
        if is_relayed {
            tracing::info!("connected with {peer} through a relay");
        }
        let (dialled, came_from) = match endpoint {
            ConnectedPoint::Dialer { address, .. } => (Some(address.clone()), None),
            ConnectedPoint::Listener { send_back_addr, .. } => {
                (None, addresses::ip(send_back_addr).filter(|_| !is_relayed))
            }
        };
        let connection_now = Connection {
            peer,
            is_relayed,
            since_ms,
            dialled,
            near: came_from.and_then(addresses::neighbourhood),
        };
        self.reach.connections.insert(connection, connection_now);
        is_spare
    }

    /// Whether one more connection straight to a peer, made from here, is of no use: it only
    /// shows the other side that it can be reached, or there is a link, or it is the second
    /// one of this peer's own. If both sides dial at once both connections stay, or each side
    /// might close one of them.
    fn is_spare(&self, peer: Libp2pPeerId, is_own: bool) -> bool {
        let is_link = |peer| self.links.contains(&peer);
        let is_enough = !is_own || identity::from_libp2p(&peer).is_some_and(is_link);
        let is_direct = |other: &Connection| other.peer == peer && !other.is_relayed;
        let mut all = self.reach.connections.values();
        all.any(|other| is_direct(other) && (is_enough || other.dialled.is_some()))
    }

    /// An address has led to somebody.
    pub(super) fn note_way(&mut self, address: &Multiaddr, peer: Libp2pPeerId) {
        if addresses::name(address).is_none() {
            self.reach.led_to.insert(address.clone(), peer);
        }
    }

    /// Who is at an address, if it says so or has led to somebody who is still connected.
    pub(super) fn peer_at(&self, address: &Multiaddr) -> Option<Libp2pPeerId> {
        let led_to = || self.reach.led_to.get(address).copied();
        addresses::name(address).or_else(led_to)
    }

    /// Notes the end of a connection; `is_last` if it was the last one to its peer.
    pub(super) fn forget_connection(
        &mut self,
        peer: Libp2pPeerId,
        connection: ConnectionId,
        is_last: bool,
    ) {
        self.reach.connections.remove(&connection);
        if is_last {
            self.reach.relays.remove(&peer);
            self.reach.led_to.retain(|_, other| *other != peer);
        }
    }

    /// The network that a peer came from, as far as that is public.
    pub(super) fn near(&self, peer: Libp2pPeerId) -> Option<IpAddr> {
        let mut all = self.reach.connections.values();
        all.find_map(|other| other.near.filter(|_| other.peer == peer))
    }

    fn has_direct(&self, peer: Libp2pPeerId) -> bool {
        let mut all = self.reach.connections.values();
        all.any(|other| other.peer == peer && !other.is_relayed)
    }

    /// A neighbour says what it can do.
    pub(super) fn on_identified(&mut self, peer: Libp2pPeerId, info: &identify::Info) {
        if info.protocols.contains(&relay::HOP_PROTOCOL_NAME) {
            self.reach.relays.insert(peer);
        } else {
            self.reach.relays.remove(&peer);
        }
    }

    pub(super) fn on_autonat(&mut self, event: &autonat::Event) {
        tracing::debug!("calling back: {event:?}");
    }

    /// This peer carries connections of others.
    pub(super) fn on_relay(&mut self, event: &relay::Event) {
        match event {
            relay::Event::CircuitReqAccepted { .. } => self.reach.carried += 1,
            relay::Event::CircuitClosed { .. } => {
                self.reach.carried = self.reach.carried.saturating_sub(1);
            }
            _ => {}
        }
    }

    pub(super) fn on_hole_punched(&mut self, event: dcutr::Event) {
        let peer = event.remote_peer_id;
        match event.result {
            Ok(_) => {
                self.reach.upgraded += 1;
                tracing::info!("the connection with {peer} is direct now");
            }
            Err(error) => tracing::info!("{peer} stays behind its relay: {error}"),
        }
    }

    /// A relay has given a place: others can be told.
    pub(super) fn on_listening(&mut self, listener: ListenerId) {
        if let Some(place) = self.reach.places.get_mut(&listener)
            && !place.is_given
        {
            place.is_given = true;
            tracing::info!("others can call this peer through {}", place.relay);
            self.update_lease();
        }
    }

    /// A place was refused or has been lost.
    pub(super) fn on_listener_closed(&mut self, listener: ListenerId) {
        if let Some(place) = self.reach.places.remove(&listener) {
            tracing::info!("no place at the relay {}", place.relay);
            let until_ms = self.now_ms() + NO_PLACE_MS;
            self.reach.relay_back_off.rest(place.relay, until_ms);
            self.update_lease();
        }
    }

    pub(super) fn tick_reach(&mut self) {
        self.look_at_verdict();
        self.serve_as_relay();
        self.reserve_places();
        self.close_relayed();
        let mut standing = Standing {
            reachability: self.reach.verdict,
            upgraded: self.reach.upgraded,
            relays: self.reach.places.values().filter(|p| p.is_given).count(),
            carried: self.reach.carried,
            ..Standing::default()
        };
        for connection in self.reach.connections.values() {
            standing.relayed += usize::from(connection.is_relayed);
            standing.direct += usize::from(!connection.is_relayed);
        }
        self.shared.counters.set_standing(standing);
    }

    fn look_at_verdict(&mut self) {
        let verdict = match self.swarm.behaviour().autonat.inner().nat_status() {
            NatStatus::Public(_) => Reachability::Public,
            NatStatus::Private => Reachability::Private,
            NatStatus::Unknown => Reachability::Unknown,
        };
        if verdict == self.reach.verdict {
            return;
        }
        match verdict {
            Reachability::Public => tracing::info!("others can reach this peer"),
            Reachability::Private => tracing::info!("others cannot reach this peer directly"),
            Reachability::Unknown => {}
        }
        self.reach.verdict = verdict;
    }

    /// Counts the addresses of a member that are never dialled.
    pub(super) fn count_refused_addresses(&self, peer: PeerId) {
        let lease = self.membership.lease(peer);
        let (Some(lease), Some(libp2p_peer)) = (lease, identity::to_libp2p(peer)) else {
            return;
        };
        let may_use = |bytes: &&Vec<u8>| {
            Multiaddr::try_from((*bytes).clone()).is_ok_and(|address| {
                addresses::may_use(&address, libp2p_peer, self.options.allow_private)
            })
        };
        let usable = lease.addresses.iter().filter(may_use).count();
        let refused = lease.addresses.len() - usable;
        self.shared.counters.refused_addresses(refused);
    }

    /// Only who can be reached, and has bytes to spare, carries for others.
    fn serve_as_relay(&mut self) {
        let is_relay = self.reach.verdict == Reachability::Public
            && self.options.relay.slots > 0
            && self.has_capacity();
        if is_relay != self.reach.is_relay {
            self.reach.is_relay = is_relay;
            let status = match is_relay {
                true => relay::Status::Enable,
                false => relay::Status::Disable,
            };
            let relay = self.swarm.behaviour_mut().relay.inner_mut();
            relay.set_status(Some(status));
        }
    }

    /// Asks relays for places while this peer cannot be reached, and gives them up once it
    /// can.
    fn reserve_places(&mut self) {
        if self.reach.verdict == Reachability::Public {
            for (listener, _) in std::mem::take(&mut self.reach.places) {
                self.swarm.remove_listener(listener);
            }
            return;
        }
        let now_ms = self.now_ms();
        let reserved: Vec<_> = self
            .reach
            .places
            .values()
            .map(|place| place.relay)
            .collect();
        let offers = |peer: PeerId| {
            let is_relay = |peer| self.reach.relays.contains(&peer) && self.has_direct(peer);
            self.reach.relay_back_off.is_due(&peer, now_ms)
                && identity::to_libp2p(peer).is_some_and(is_relay)
        };
        let verdict = self.reach.verdict;
        for relay in reachability::relays_to_ask(verdict, &self.links, &reserved, offers) {
            self.reserve_place(relay);
        }
    }

    fn reserve_place(&mut self, relay: PeerId) {
        let until_ms = self.now_ms() + NO_PLACE_MS;
        let address = self.address_of_relay(relay);
        let listening = address.and_then(|address| self.swarm.listen_on(address).ok());
        let Some(listener) = listening else {
            return self.reach.relay_back_off.rest(relay, until_ms);
        };
        let is_given = false;
        let place = Place { relay, is_given };
        self.reach.places.insert(listener, place);
    }

    /// Where a relay is, as the address of a place there.
    fn address_of_relay(&self, relay: PeerId) -> Option<Multiaddr> {
        let libp2p_peer = identity::to_libp2p(relay)?;
        let mut connections = self.reach.connections.values();
        let dialled = connections.find_map(|connection| {
            let is_there = connection.peer == libp2p_peer && !connection.is_relayed;
            connection.dialled.as_ref().filter(|_| is_there).cloned()
        });
        let announced = || {
            let mut addresses = self.addresses_of(relay).into_iter();
            addresses.find(|address| !addresses::is_relayed(address))
        };
        let address = dialled.or_else(announced)?;
        let is_name = |part: &Protocol<'_>| matches!(part, Protocol::P2p(_));
        let address: Multiaddr = address.iter().take_while(|part| !is_name(part)).collect();
        let through = address.with(Protocol::P2p(libp2p_peer));
        Some(through.with(Protocol::P2pCircuit))
    }

    /// Closes connections through a relay beside which there is a direct one.
    fn close_relayed(&mut self) {
        let now_ms = self.now_ms();
        let is_over = |connection: &&Connection| {
            let peer = connection.peer;
            let mut others = self.reach.connections.values();
            let beside_ms = others
                .by_ref()
                .filter(|other| other.peer == peer && !other.is_relayed)
                .map(|other| now_ms.saturating_sub(other.since_ms.max(connection.since_ms)))
                .max();
            let is_idle = !self.lanes.contains_key(&peer);
            // Whoever dialled closes, so that both do not wait for each other's last words.
            let is_mine = connection.dialled.is_some();
            beside_ms
                .is_some_and(|ms| ms >= BESIDE_MOST_MS || (ms >= BESIDE_MS && is_idle && is_mine))
        };
        let relayed = self.reach.connections.iter().filter(|(_, c)| c.is_relayed);
        let over: Vec<_> = relayed.filter(|(_, c)| is_over(c)).collect();
        let over: Vec<_> = over.into_iter().map(|(&id, _)| id).collect();
        for connection in over {
            self.swarm.close_connection(connection);
        }
    }

    /// Tells the layer above where others are told to call.
    pub(super) fn show_callable(&mut self) {
        let Some(lease) = &self.my_lease else {
            return;
        };
        if lease.addresses != self.callable {
            self.callable = lease.addresses.clone();
            let me = *self.swarm.local_peer_id();
            let parsed = self.callable.iter().cloned().map(Multiaddr::try_from);
            let named = parsed
                .flatten()
                .map(|address| format!("{address}/p2p/{me}"));
            self.shared.set_callable(named.collect());
        }
    }

    /// Where this peer says that it is. One that cannot be reached is called through its
    /// relays; where others see it is of no use then, and where it listens only to its
    /// neighbours. Loopback addresses are of use only if there are no others.
    pub(super) fn announced(&self) -> Vec<Multiaddr> {
        let is_private = self.reach.verdict == Reachability::Private;
        let (mut circuits, mut direct) = (Vec::new(), Vec::new());
        for address in self.swarm.listeners() {
            match addresses::is_relayed(address) {
                true => circuits.push(address),
                false => direct.push(address),
            }
        }
        if is_private {
            circuits.truncate(MOST_CIRCUITS);
        } else {
            circuits.clear();
            let external = self.swarm.external_addresses();
            let others = self.observed.iter().chain(external);
            direct.extend(others.filter(|address| !addresses::is_relayed(address)));
        }
        let is_loopback = |address| addresses::ip(address).is_some_and(|ip| ip.is_loopback());
        let (loopback, others): (Vec<_>, Vec<_>) =
            direct.into_iter().partition(|address| is_loopback(address));
        let chosen = if others.is_empty() { loopback } else { others };
        let me = *self.swarm.local_peer_id();
        let mut announced: Vec<Multiaddr> = Vec::new();
        for address in circuits.into_iter().chain(chosen) {
            // Whose it is, a lease says anyway.
            let mut short = address.clone();
            if short.iter().last() == Some(Protocol::P2p(me)) {
                short.pop();
            }
            if !announced.contains(&short) {
                announced.push(short);
            }
        }
        announced
    }
}
