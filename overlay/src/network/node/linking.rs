//! Connections that come and go, and whom to dial.
//!
//! A connection is not a link yet: see [`super::greeting`]. What failed is dialled again
//! after a while, which is longer each time.

use std::sync::atomic::Ordering::Relaxed;

use libp2p::core::ConnectedPoint;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, DialError};
use libp2p::{Multiaddr, PeerId as Libp2pPeerId};

use super::Node;
use crate::topology::{self, Kind};
use crate::{PeerId, Role, addresses, identity};

/// How long an unwanted link is kept, so that its peer hears of the better ones first.
const UNWANTED_MS: u64 = 2_000;
/// Dials begun at one tick.
const DIALS: usize = 8;
/// Calls to members that may be under way: whoever does not answer at all stands in the way of
/// others until time is up. Twice as many connections may be in the making.
const MOST_CALLS: usize = 32;
/// With fewer links than this, known addresses are tried too.
const FEW_LINKS: usize = 1;
/// With enough links, some known addresses are still tried so often, of those that lead to
/// nobody who is a member: two networks that have lost sight of each other find together
/// again.
const MEND_MS: u64 = 30_000;
/// Addresses that are tried then.
const MENDS: usize = 4;

impl Node {
    pub(super) fn on_connected(
        &mut self,
        libp2p_peer: Libp2pPeerId,
        connection: ConnectionId,
        endpoint: &ConnectedPoint,
    ) {
        let known = self.dialled.remove(&connection);
        let is_own = self.was_own_dial(connection);
        let is_spare = self.note_connection(libp2p_peer, connection, endpoint, is_own);
        let Some(peer) = identity::from_libp2p(&libp2p_peer) else {
            // Only Ed25519 keys name peers here.
            let _gone = self.swarm.disconnect_peer_id(libp2p_peer);
            return;
        };
        self.probed.remove(&peer);
        if let Some(known) = &known {
            self.note_way(known, libp2p_peer);
        }
        let address = endpoint.get_remote_address();
        self.shared.counters.contacts.reached(peer, address);
        if self.links.contains(&peer) {
            if let Some(known) = known {
                self.address_back_off.succeeded(&known);
            }
            return;
        }
        self.visit(libp2p_peer, endpoint, is_own, known);
        // Beside a spare one, hello has been said already.
        if endpoint.is_dialer() && !is_spare {
            self.say_hello(libp2p_peer);
        }
    }

    pub(super) fn on_disconnected(&mut self, libp2p_peer: Libp2pPeerId) {
        // A link on which nothing is answered may have ended before this peer looked.
        self.part_if_deaf(libp2p_peer, false);
        self.close_lane(libp2p_peer);
        let Some(peer) = identity::from_libp2p(&libp2p_peer) else {
            return;
        };
        self.miss(peer);
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
        self.probe(peer);
        self.update_lease();
    }

    /// Dials a member whose connection broke, to see whether it lives. One that cannot be
    /// dialled, or is left alone for what it did, has to say so itself. If only a bound of our
    /// own is in the way, nothing is known.
    fn probe(&mut self, peer: PeerId) {
        self.probed.remove(&peer);
        let is_due = self.peer_back_off.is_due(&peer, self.now_ms());
        if !is_due || self.addresses_of(peer).is_empty() {
            self.accuse(peer);
        } else if self.dial(peer) {
            self.probed.insert(peer);
        }
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
            if self.probed.contains(&peer) {
                self.probe(peer);
            }
            return;
        }
        tracing::debug!("cannot reach {peer}: {error}");
        self.peer_back_off.failed(peer, now_ms, jitter);
        let was_probed = self.probed.remove(&peer);
        // A bound of our own says nothing about others.
        if !matches!(error, DialError::Denied { .. } | DialError::Aborted) {
            if was_probed {
                self.accuse(peer);
            }
            self.accuse_unreachable(peer);
        }
        // Its packets look for another way.
        self.send_waiting(peer);
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
                if matches!(error, DialError::NoAddresses) {
                    // It says that it is where this peer is.
                    self.accuse_unreachable(peer);
                }
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
        let named = lease.addresses.iter().filter_map(parse).filter(may_use);
        let heard = self.lan.of(peer).iter().cloned();
        let mut addresses: Vec<_> = heard.collect();
        addresses.extend(named);
        addresses
    }

    /// Somebody on the local network.
    pub(super) fn on_neighbour(&mut self, libp2p_peer: Libp2pPeerId, address: Multiaddr) {
        let Some(peer) = identity::from_libp2p(&libp2p_peer) else {
            return;
        };
        self.lan.found(peer, address.clone());
        let is_due = self.peer_back_off.is_due(&peer, self.now_ms());
        let is_new = self.links.is_empty() || self.membership.lease(peer).is_none();
        if is_due && is_new {
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

    pub(super) fn note_host(&mut self, peer: Libp2pPeerId, address: &Multiaddr) {
        let mut address = address.clone();
        if !address.iter().any(|part| matches!(part, Protocol::P2p(_))) {
            address.push(Protocol::P2p(peer));
        }
        self.hosts.found(address, self.now().wall_ms);
    }

    fn dial_address(&mut self, address: Multiaddr) {
        let peer = addresses::name(&address);
        let there = self.peer_at(&address);
        let is_connected = there.is_some_and(|peer| self.swarm.is_connected(&peer));
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
        self.dial_sought();
        self.dial_members(now_ms);
        self.dial_known(now_ms);
        let unwanted = topology::unwanted(self.kind, self.role(), &self.links, &self.membership);
        self.unwanted.retain(|peer, _| unwanted.contains(peer));
        for peer in unwanted {
            let since_ms = *self.unwanted.entry(peer).or_insert(now_ms);
            if now_ms >= since_ms + UNWANTED_MS
                && let Some(libp2p_peer) = identity::to_libp2p(peer)
            {
                // Let go on purpose, and no link any more: nobody looks where it has gone.
                self.links.retain(|&link| link != peer);
                let _gone = self.swarm.disconnect_peer_id(libp2p_peer);
            }
        }
        self.part_with_silent(now_ms);
    }

    fn dial_members(&mut self, now_ms: u64) {
        // A suspect has to say that it lives; until then others are more promising. Whoever
        // has no links may have suspected all of them for nothing.
        let is_alone = self.links.is_empty();
        let may_dial = |peer: PeerId| {
            (is_alone || !self.membership.suspects(peer))
                && self.peer_back_off.is_due(&peer, now_ms)
                && !self.reach.is_called(peer)
                && !self.addresses_of(peer).is_empty()
        };
        let wanted = topology::wanted(
            self.kind,
            self.me,
            self.role(),
            &self.links,
            &self.membership,
            &may_dial,
        );
        let most = MOST_CALLS.saturating_sub(self.reach.calls()).min(DIALS);
        for peer in wanted.into_iter().take(most) {
            let is_connected = identity::to_libp2p(peer)
                .is_some_and(|libp2p_peer| self.visitors.contains_key(&libp2p_peer));
            if !is_connected {
                self.dial(peer);
            }
        }
    }

    /// Looks for the network where it was told to be, and where it was found before.
    fn dial_known(&mut self, now_ms: u64) {
        let is_alone = self.links.len() < FEW_LINKS;
        if !is_alone && now_ms < self.mended_ms + MEND_MS {
            return;
        }
        let mut known = self.bootstrap.clone();
        known.extend(self.hosts.latest());
        known.extend(self.lan.all().cloned());
        known.retain(|address| self.may_lead(address, is_alone, now_ms));
        let most = if is_alone { DIALS } else { MENDS };
        if !is_alone {
            self.mended_ms = now_ms;
            let first = self.random() as usize % known.len().max(1);
            known.rotate_left(first);
        }
        for address in known.into_iter().take(most) {
            self.dial_address(address);
        }
    }

    /// Whether an address may be tried now and lead into the network or, if this peer is in
    /// one, out of it.
    fn may_lead(&self, address: &Multiaddr, is_alone: bool, now_ms: u64) -> bool {
        let peer = self.peer_at(address);
        let peer = peer.and_then(|peer| identity::from_libp2p(&peer));
        let may_try = |peer: PeerId| {
            let is_elsewhere = peer != self.me && self.membership.lease(peer).is_none();
            self.peer_back_off.is_due(&peer, now_ms) && (is_alone || is_elsewhere)
        };
        self.address_back_off.is_due(address, now_ms) && peer.is_none_or(may_try)
    }

    /// Where the user knows of somebody it calls at once, whatever failed before.
    fn dial_sought(&mut self) {
        for address in self.shared.take_sought() {
            self.address_back_off.succeeded(&address);
            if !self.bootstrap.contains(&address) {
                self.bootstrap.push(address.clone());
            }
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
        // A start goes on within five seconds, also where nobody of those that it knows is
        // there any more.
        const PATIENCE_MS: u64 = 3_000;
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
