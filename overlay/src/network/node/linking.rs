//! Connections, links, and whom to dial.
//!
//! A connection is not a link yet: whoever dialled says hello, and both compare what all
//! members must agree on. A peer that differs is told why and not dialled for a while;
//! one that says nothing is closed.

use std::sync::atomic::Ordering::Relaxed;

use libp2p::core::ConnectedPoint;
use libp2p::multiaddr::Protocol;
use libp2p::request_response::ResponseChannel;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, DialError};
use libp2p::{Multiaddr, PeerId as Libp2pPeerId};

use super::super::frame::{Request, Response};
use super::super::options::PROTOCOL_VERSION;
use super::Node;
use super::packets::Outbound;
use crate::election::MOST_LEAVES;
use crate::topology::{self, Kind};
use crate::{PeerId, Refusal, Role, addresses, identity};

/// How long a visitor may take to say hello.
const HELLO_MS: u64 = 10_000;
/// How long an unwanted link is kept, so that its peer hears of the better ones first.
const UNWANTED_MS: u64 = 2_000;
/// How long a peer that differs is left alone.
const REFUSED_MS: u64 = 600_000;
/// How long a supernode without room is left alone.
const FULL_MS: u64 = 30_000;
/// Places for leaves that have no other supernode.
const RESERVED_LEAVES: usize = 3;
/// Dials begun at one tick.
const DIALS: usize = 8;
/// With fewer links than this, known addresses are tried too.
const FEW_LINKS: usize = 1;
/// With enough links, a known address is still tried so often: two networks that have
/// lost sight of each other find together again.
const MEND_MS: u64 = 60_000;

/// A connected peer that is not admitted yet.
pub struct Visitor {
    since_ms: u64,
}

/// Why a peer with such a hello is refused.
fn difference(
    node: &Node,
    version: u16,
    network: &str,
    agreement: &[u8; 32],
) -> Option<(String, String)> {
    let (mine, theirs) = (&node.options.network, network);
    if mine != theirs {
        let shown: String = theirs
            .chars()
            .take(64)
            .filter(|c| !c.is_control())
            .collect();
        return Some((
            format!("it is in the network \"{shown}\", this peer in \"{mine}\""),
            format!("you are in the network \"{shown}\", this peer is in \"{mine}\""),
        ));
    }
    if version != PROTOCOL_VERSION {
        return Some((
            format!("it speaks version {version} of the protocol, this peer {PROTOCOL_VERSION}"),
            format!("you speak version {version} of the protocol, this peer {PROTOCOL_VERSION}"),
        ));
    }
    (*agreement != node.agreement).then(|| {
        let what = "its kind of overlay or rules for who crawls what differ from this peer's";
        (what.into(), what.replace("its", "your"))
    })
}

impl Node {
    pub(super) fn on_connected(
        &mut self,
        libp2p_peer: Libp2pPeerId,
        connection: ConnectionId,
        endpoint: &ConnectedPoint,
    ) {
        if let Some(address) = self.dialled.remove(&connection) {
            self.address_back_off.succeeded(&address);
        }
        let is_own = self.was_own_dial(connection);
        self.note_connection(libp2p_peer, connection, endpoint, is_own);
        let Some(peer) = identity::from_libp2p(&libp2p_peer) else {
            // Only Ed25519 keys name peers here.
            let _gone = self.swarm.disconnect_peer_id(libp2p_peer);
            return;
        };
        self.probed.remove(&peer);
        let address = endpoint.get_remote_address();
        self.shared.counters.contacts.reached(peer, address);
        // What a relay or a punched hole leads to is gone tomorrow.
        if let ConnectedPoint::Dialer { address, .. } = endpoint
            && is_own
            && !endpoint.is_relayed()
        {
            self.note_host(libp2p_peer, address);
        }
        if self.links.contains(&peer) {
            return;
        }
        let since_ms = self.now_ms();
        let visitor = Visitor { since_ms };
        self.visitors.entry(libp2p_peer).or_insert(visitor);
        if endpoint.is_dialer() {
            self.say_hello(libp2p_peer);
        }
    }

    fn say_hello(&mut self, libp2p_peer: Libp2pPeerId) {
        let hello = Request::Hello {
            version: PROTOCOL_VERSION,
            network: self.options.network.clone(),
            agreement: self.agreement,
            is_leaf: self.role() == Role::Leaf,
            records: self.first_records(),
        };
        self.ask(libp2p_peer, hello, Outbound::Hello);
    }

    /// A neighbour says that it has no link to us: ours was one-sided, because an old
    /// connection ended there after a new one had begun here. It is made anew.
    pub(super) fn greet_again(&mut self, libp2p_peer: Libp2pPeerId) {
        let Some(peer) = identity::from_libp2p(&libp2p_peer) else {
            return;
        };
        if !self.links.contains(&peer) {
            // It is being greeted already, or gone.
            return;
        }
        self.links.retain(|&link| link != peer);
        let since_ms = self.now_ms();
        let visitor = Visitor { since_ms };
        self.visitors.entry(libp2p_peer).or_insert(visitor);
        self.say_hello(libp2p_peer);
        self.update_lease();
    }

    pub(super) fn on_hello(
        &mut self,
        libp2p_peer: Libp2pPeerId,
        hello: Request,
        channel: ResponseChannel<Response>,
    ) {
        let Request::Hello {
            version,
            network,
            agreement,
            is_leaf,
            records,
        } = hello
        else {
            return;
        };
        let Some(peer) = identity::from_libp2p(&libp2p_peer) else {
            return;
        };
        if let Some((reason, told)) = difference(self, version, &network, &agreement) {
            self.respond(channel, Response::Refused(told));
            self.refuse(peer, reason);
            return;
        }
        let known = self.first_records();
        self.take_records(peer, records);
        let is_leaf_here = is_leaf && self.role() == Role::Supernode;
        let has_room = !is_leaf_here || self.has_room_for(peer);
        self.respond(
            channel,
            Response::Welcome {
                has_room,
                records: known,
            },
        );
        if has_room {
            self.admit(peer);
        }
    }

    /// Whether one more leaf can be served. Some places are kept for those that have
    /// no supernode at all.
    fn has_room_for(&self, leaf: PeerId) -> bool {
        let lease = self.membership.lease(leaf);
        let has_others = lease.is_some_and(|lease| !lease.via.is_empty());
        let reserved = if has_others { RESERVED_LEAVES } else { 0 };
        self.leaves().count() < MOST_LEAVES - reserved
    }

    /// The answer to our hello.
    pub(super) fn on_welcome(&mut self, libp2p_peer: Libp2pPeerId, response: Option<Response>) {
        let Some(peer) = identity::from_libp2p(&libp2p_peer) else {
            return;
        };
        match response {
            Some(Response::Welcome { has_room, records }) => {
                self.take_records(peer, records);
                if has_room || self.role() != Role::Leaf {
                    self.admit(peer);
                } else {
                    self.part(peer, FULL_MS);
                }
            }
            Some(Response::Refused(reason)) => {
                let reason: String = reason
                    .chars()
                    .take(200)
                    .filter(|c| !c.is_control())
                    .collect();
                self.refuse(peer, format!("it says: {reason}"));
                self.part(peer, REFUSED_MS);
            }
            _ => self.part(peer, FULL_MS),
        }
    }

    fn refuse(&mut self, peer: PeerId, reason: String) {
        tracing::info!("{peer} is not in this network: {reason}");
        self.shared.add_refusal(Refusal { peer, reason });
    }

    /// Closes all connections to a peer and leaves it alone for a while.
    pub(super) fn part(&mut self, peer: PeerId, rest_ms: u64) {
        let until_ms = self.now_ms() + rest_ms;
        self.peer_back_off.rest(peer, until_ms);
        if let Some(peer) = identity::to_libp2p(peer) {
            let _gone = self.swarm.disconnect_peer_id(peer);
        }
    }

    /// A connection becomes a link.
    fn admit(&mut self, peer: PeerId) {
        if let Some(libp2p_peer) = identity::to_libp2p(peer) {
            self.visitors.remove(&libp2p_peer);
            self.turns.admit(&libp2p_peer);
        }
        self.peer_back_off.succeeded(&peer);
        if !self.links.contains(&peer) {
            self.links.push(peer);
            self.send_more_records(peer);
            self.show_joining();
        }
        self.update_lease();
        self.send_waiting(peer);
    }

    pub(super) fn on_disconnected(&mut self, libp2p_peer: Libp2pPeerId) {
        self.visitors.remove(&libp2p_peer);
        self.close_lane(libp2p_peer);
        let Some(peer) = identity::from_libp2p(&libp2p_peer) else {
            return;
        };
        self.shared.counters.contacts.lost(peer);
        let had_link = self.links.contains(&peer);
        self.links.retain(|&link| link != peer);
        self.unwanted.remove(&peer);
        let Some(lease) = self.membership.lease(peer).filter(|_| had_link) else {
            return;
        };
        // A leaf may have moved to other supernodes.
        if lease.role == Role::Leaf && !lease.via.contains(&self.me) {
            return;
        }
        self.probed.insert(peer);
        if !self.dial(peer) {
            self.accuse(peer);
        }
        self.update_lease();
    }

    pub(super) fn on_dial_failed(
        &mut self,
        libp2p_peer: Option<Libp2pPeerId>,
        connection: ConnectionId,
        error: &DialError,
    ) {
        let (now_ms, jitter) = (self.now_ms(), self.jitter());
        if let Some(address) = self.dialled.remove(&connection) {
            self.address_back_off.failed(address, now_ms, jitter);
        }
        let is_own = self.was_own_dial(connection);
        if matches!(error, DialError::DialPeerConditionFalse(_)) {
            return;
        }
        let Some(peer) = libp2p_peer.and_then(|peer| identity::from_libp2p(&peer)) else {
            return;
        };
        if !is_own {
            // What a part of the swarm has dialled for others says nothing about a member;
            // but it may have stood in the way of a probe.
            if self.probed.contains(&peer) && !self.dial(peer) {
                self.probed.remove(&peer);
                self.accuse(peer);
            }
            return;
        }
        tracing::debug!("cannot reach {peer}: {error}");
        self.peer_back_off.failed(peer, now_ms, jitter);
        if self.probed.remove(&peer) {
            self.accuse(peer);
        }
        self.go_round(peer);
    }

    /// Dials a member at the addresses of its lease; tells whether that can be tried.
    pub(super) fn dial(&mut self, peer: PeerId) -> bool {
        let Some(libp2p_peer) = identity::to_libp2p(peer) else {
            return false;
        };
        let addresses = self.addresses_of(peer);
        if addresses.is_empty() || self.offenders.contains(peer, self.now_ms()) {
            return false;
        }
        let options = DialOpts::peer_id(libp2p_peer)
            .condition(PeerCondition::DisconnectedAndNotDialing)
            .addresses(addresses)
            .build();
        match self.call(options) {
            Ok(()) | Err(DialError::DialPeerConditionFalse(_)) => true,
            Err(error) => {
                tracing::debug!("cannot dial {peer}: {error}");
                let (now_ms, jitter) = (self.now_ms(), self.jitter());
                self.peer_back_off.failed(peer, now_ms, jitter);
                false
            }
        }
    }

    pub(super) fn addresses_of(&self, peer: PeerId) -> Vec<Multiaddr> {
        let Some(lease) = self.membership.lease(peer) else {
            return Vec::new();
        };
        let Some(libp2p_peer) = identity::to_libp2p(peer) else {
            return Vec::new();
        };
        let parse = |bytes: &Vec<u8>| Multiaddr::try_from(bytes.clone()).ok();
        let me = *self.swarm.local_peer_id();
        let may_use = |address: &Multiaddr| {
            // Through oneself there is no way.
            addresses::circuit(address).is_none_or(|(relay, _)| relay != me)
                && addresses::may_use(address, libp2p_peer, self.options.allow_private)
        };
        lease
            .addresses
            .iter()
            .filter_map(parse)
            .filter(may_use)
            .collect()
    }

    /// Somebody on the local network.
    pub(super) fn on_neighbour(&mut self, libp2p_peer: Libp2pPeerId, address: Multiaddr) {
        let Some(peer) = identity::from_libp2p(&libp2p_peer) else {
            return;
        };
        let is_due = self.peer_back_off.is_due(&peer, self.now_ms());
        if is_due && !self.links.contains(&peer) && self.links.is_empty() {
            self.dial_address(address);
        }
    }

    /// An address at which others see this peer.
    pub(super) fn on_observed(&mut self, address: Multiaddr) {
        const MOST: usize = 3;
        if !self.observed.contains(&address) {
            self.observed.truncate(MOST - 1);
            self.observed.insert(0, address);
        }
    }

    fn note_host(&mut self, peer: Libp2pPeerId, address: &Multiaddr) {
        let mut address = address.clone();
        if !address.iter().any(|part| matches!(part, Protocol::P2p(_))) {
            address.push(Protocol::P2p(peer));
        }
        self.hosts.found(address, self.now().wall_ms);
    }

    fn dial_address(&mut self, address: Multiaddr) {
        // The last name is its peer's; there is another before it if it leads through a relay.
        let names = address.iter().filter_map(|part| match part {
            Protocol::P2p(peer) => Some(peer),
            _ => None,
        });
        let peer = names.last();
        let is_connected = peer.is_some_and(|peer| self.swarm.is_connected(&peer));
        let is_dialled = self.dialled.values().any(|other| *other == address);
        if is_connected || is_dialled || peer == Some(*self.swarm.local_peer_id()) {
            return;
        }
        let options = match peer {
            Some(peer) => DialOpts::peer_id(peer)
                .condition(PeerCondition::DisconnectedAndNotDialing)
                .addresses(vec![address.clone()])
                .build(),
            None => DialOpts::unknown_peer_id().address(address.clone()).build(),
        };
        let connection = options.connection_id();
        if self.call(options).is_ok() {
            self.dialled.insert(connection, address);
        } else {
            let (now_ms, jitter) = (self.now_ms(), self.jitter());
            self.address_back_off.failed(address, now_ms, jitter);
        }
    }

    pub(super) fn tick_links(&mut self) {
        let now_ms = self.now_ms();
        self.dial_members(now_ms);
        self.dial_known(now_ms);
        let unwanted = topology::unwanted(self.kind, self.role(), &self.links, &self.membership);
        self.unwanted.retain(|peer, _| unwanted.contains(peer));
        for peer in unwanted {
            let since_ms = *self.unwanted.entry(peer).or_insert(now_ms);
            if now_ms >= since_ms + UNWANTED_MS
                && let Some(peer) = identity::to_libp2p(peer)
            {
                let _gone = self.swarm.disconnect_peer_id(peer);
            }
        }
        let is_late = |visitor: &Visitor| now_ms >= visitor.since_ms + HELLO_MS;
        let late: Vec<_> = self.visitors.iter().filter(|(_, v)| is_late(v)).collect();
        let late: Vec<_> = late.into_iter().map(|(&peer, _)| peer).collect();
        for peer in late {
            self.visitors.remove(&peer);
            let _gone = self.swarm.disconnect_peer_id(peer);
        }
    }

    fn dial_members(&mut self, now_ms: u64) {
        let wanted = topology::wanted(
            self.kind,
            self.me,
            self.role(),
            &self.links,
            &self.membership,
        );
        let is_due = |peer: &PeerId| self.peer_back_off.is_due(peer, now_ms);
        let due: Vec<_> = wanted.into_iter().filter(is_due).take(DIALS).collect();
        for peer in due {
            let is_connected = identity::to_libp2p(peer)
                .is_some_and(|libp2p_peer| self.visitors.contains_key(&libp2p_peer));
            if !is_connected {
                self.dial(peer);
            }
        }
    }

    /// Looks for the network where it was told to be, and where it was found before.
    fn dial_known(&mut self, now_ms: u64) {
        let is_due = |address: &Multiaddr| self.address_back_off.is_due(address, now_ms);
        let mut known = self.bootstrap.clone();
        if self.links.len() < FEW_LINKS {
            known.extend(self.hosts.latest());
            let due: Vec<_> = known.into_iter().filter(is_due).take(DIALS).collect();
            for address in due {
                self.dial_address(address);
            }
        } else if now_ms >= self.mended_ms + MEND_MS && !known.is_empty() {
            self.mended_ms = now_ms;
            let address = known.swap_remove(self.random() as usize % known.len());
            self.dial_address(address);
        }
    }

    /// Whether this peer may still find a network.
    pub(super) fn is_joining(&self) -> bool {
        (self.knows_network() || self.options.mdns) && self.is_new_and_alone()
    }

    fn knows_network(&self) -> bool {
        !self.bootstrap.is_empty() || !self.hosts.is_empty()
    }

    fn is_new_and_alone(&self) -> bool {
        const PATIENCE_MS: u64 = 5_000;
        self.links.is_empty() && self.now_ms() < PATIENCE_MS
    }

    /// Tells the layer above whether this peer looks for a network that it knows of.
    pub(super) fn show_joining(&self) {
        let is_joining = self.knows_network() && self.is_new_and_alone();
        self.shared.is_joining.store(is_joining, Relaxed);
    }

    /// The leaves that this supernode serves.
    pub(super) fn leaves(&self) -> impl Iterator<Item = PeerId> {
        let is_mine = |&&link: &&PeerId| {
            let lease = self.membership.lease(link);
            let is_leaf = |role| self.kind == Kind::Supernode && role == Role::Leaf;
            lease.is_some_and(|l| is_leaf(l.role) && l.via.contains(&self.me))
        };
        self.links.iter().filter(is_mine).copied()
    }
}
