//! How a connection becomes a link.
//!
//! Whoever dialled says hello, and both compare what all members must agree on. A peer that
//! differs is told why and left alone for a while, and so is the address at which it was
//! found; one that says nothing is closed. What came to nothing is forgotten only when a
//! peer is admitted.

use std::collections::BTreeSet;

use libp2p::core::ConnectedPoint;
use libp2p::request_response::ResponseChannel;
use libp2p::{Multiaddr, PeerId as Libp2pPeerId};

use super::super::frame::{Request, Response};
use super::super::options::PROTOCOL_VERSION;
use super::Node;
use super::packets::Outbound;
use crate::election::MOST_LEAVES;
use crate::handshake::{self, Terms, Voice};
use crate::{PeerId, Refusal, Role, addresses, identity, topology};

/// How long a visitor may take to say hello.
const HELLO_MS: u64 = 10_000;
/// How long a peer that differs is left alone.
const REFUSED_MS: u64 = 600_000;
/// How long a peer without room is left alone.
const FULL_MS: u64 = 30_000;
/// Places for leaves that have no other supernode.
const RESERVED_LEAVES: usize = 3;
/// Characters of a refusal that are shown.
const REASON: usize = 400;

/// A connected peer that is not admitted yet.
pub struct Visitor {
    since_ms: u64,
    /// Where it is.
    address: Multiaddr,
    /// Where this peer itself has dialled it straight, if it has.
    dialled: Option<Multiaddr>,
    /// The known addresses that led to it.
    known: Vec<Multiaddr>,
}

impl Node {
    /// Somebody is connected.
    pub(super) fn visit(
        &mut self,
        libp2p_peer: Libp2pPeerId,
        endpoint: &ConnectedPoint,
        is_own: bool,
        known: Option<Multiaddr>,
    ) {
        let address = endpoint.get_remote_address().clone();
        let visitor = self.visitors.entry(libp2p_peer).or_insert(Visitor {
            since_ms: self.clock.now().since_start_ms,
            address: address.clone(),
            dialled: None,
            known: Vec::new(),
        });
        visitor.known.extend(known);
        // What a relay or a punched hole leads to is gone tomorrow.
        if endpoint.is_dialer() && is_own && !endpoint.is_relayed() {
            visitor.dialled = Some(address);
        }
    }

    pub(super) fn say_hello(&mut self, libp2p_peer: Libp2pPeerId) {
        let hello = Request::Hello {
            version: PROTOCOL_VERSION,
            network: self.options.network.clone(),
            wall_ms: self.now().wall_ms,
            facts: self.facts.clone(),
            agreement: self.agreement,
            is_leaf: self.role() == Role::Leaf,
            records: self.first_records(libp2p_peer),
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
        self.visitors.entry(libp2p_peer).or_insert(Visitor {
            since_ms: self.clock.now().since_start_ms,
            address: Multiaddr::empty(),
            dialled: None,
            known: Vec::new(),
        });
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
            wall_ms,
            facts,
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
        let theirs = Terms {
            version,
            network: &network,
            wall_ms,
            facts: &facts,
            agreement: &agreement,
        };
        let difference = |voice| handshake::difference(self.terms(), theirs, voice);
        if let (Some(reason), Some(told)) = (difference(Voice::Of), difference(Voice::To)) {
            self.respond(channel, Response::Refused(told));
            self.refuse(peer, reason);
            return;
        }
        let known = self.first_records(libp2p_peer);
        self.take_records(peer, records);
        self.leaf_links.retain(|other| self.links.contains(other));
        self.leaf_links.remove(&peer);
        let is_leaf_here = is_leaf && self.role() == Role::Supernode;
        let has_room =
            (!is_leaf_here || self.has_room_for(peer)) && self.has_place_for(libp2p_peer);
        self.respond(
            channel,
            Response::Welcome {
                has_room,
                records: known,
            },
        );
        if has_room {
            self.admit(peer);
            if is_leaf_here {
                self.leaf_links.insert(peer);
            }
        }
    }

    /// What this peer brings to a handshake.
    fn terms(&self) -> Terms<'_> {
        Terms {
            version: PROTOCOL_VERSION,
            network: &self.options.network,
            wall_ms: self.now().wall_ms,
            facts: &self.facts,
            agreement: &self.agreement,
        }
    }

    /// Whether one more leaf can be served. Some places are kept for those that have
    /// no supernode at all.
    fn has_room_for(&self, leaf: PeerId) -> bool {
        let lease = self.membership.lease(leaf);
        let has_others = lease.is_some_and(|lease| !lease.via.is_empty());
        let reserved = if has_others { RESERVED_LEAVES } else { 0 };
        let mut taken: BTreeSet<PeerId> = self.leaves().collect();
        // A leaf that has just come has not told yet that it is here.
        let is_leaf = |&&link: &&PeerId| !self.is_supernode(link);
        taken.extend(self.leaf_links.iter().filter(is_leaf));
        taken.remove(&leaf);
        taken.len() < MOST_LEAVES - reserved
    }

    fn is_supernode(&self, peer: PeerId) -> bool {
        let lease = self.membership.lease(peer);
        lease.is_some_and(|lease| lease.role == Role::Supernode)
    }

    /// Whether somebody may come from where it came from.
    fn has_place_for(&self, libp2p_peer: Libp2pPeerId) -> bool {
        let links = self.links.iter().copied().filter_map(identity::to_libp2p);
        let others = links.filter(|other| *other != libp2p_peer);
        let others = others.map(|other| self.near(other));
        let connections = self.options.limits.connections;
        topology::has_place(self.near(libp2p_peer), others, connections)
    }

    /// The answer to our hello.
    pub(super) fn on_welcome(&mut self, libp2p_peer: Libp2pPeerId, response: Option<Response>) {
        let Some(peer) = identity::from_libp2p(&libp2p_peer) else {
            return;
        };
        match response {
            Some(Response::Welcome { has_room, records }) => {
                self.take_records(peer, records);
                if has_room {
                    self.admit(peer);
                } else {
                    self.part(peer, FULL_MS);
                }
            }
            Some(Response::Refused(reason)) => {
                let fit = reason.chars().filter(|c| !c.is_control());
                let reason: String = fit.take(REASON).collect();
                self.refuse(peer, format!("it says: {reason}"));
                self.part(peer, REFUSED_MS);
            }
            Some(_) => self.part(peer, FULL_MS),
            None => {
                self.miss(peer);
                let _gone = self.swarm.disconnect_peer_id(libp2p_peer);
            }
        }
    }

    /// Somebody is not in this network. That is said once for each place that it comes
    /// from: it will try again, and it may have many names.
    fn refuse(&mut self, peer: PeerId, reason: String) {
        let libp2p_peer = identity::to_libp2p(peer);
        let visitor = libp2p_peer.and_then(|peer| self.visitors.get(&peer));
        let place = visitor.map(|visitor| match &visitor.dialled {
            Some(address) => address.to_string(),
            None => addresses::place(&visitor.address),
        });
        let now_ms = self.now_ms();
        match place {
            Some(place) if self.refusals_said.is_news(&place, now_ms) => {
                tracing::warn!("{peer} at {place} is not in this network: {reason}");
            }
            _ => tracing::debug!("{peer} is not in this network: {reason}"),
        }
        self.shared.add_refusal(Refusal { peer, reason });
    }

    /// Closes all connections to a peer and leaves it alone for a while, and the addresses
    /// that led to it.
    pub(super) fn part(&mut self, peer: PeerId, rest_ms: u64) {
        let until_ms = self.now_ms() + rest_ms;
        self.peer_back_off.rest(peer, until_ms);
        let Some(libp2p_peer) = identity::to_libp2p(peer) else {
            return;
        };
        let visitor = self.visitors.remove(&libp2p_peer);
        for address in visitor.into_iter().flat_map(|visitor| visitor.known) {
            self.address_back_off.rest(address, until_ms);
        }
        let _gone = self.swarm.disconnect_peer_id(libp2p_peer);
    }

    /// A visitor is gone before it was admitted. If this peer went to it, that was in vain.
    pub(super) fn miss(&mut self, peer: PeerId) {
        let libp2p_peer = identity::to_libp2p(peer);
        let Some(visitor) = libp2p_peer.and_then(|peer| self.visitors.remove(&peer)) else {
            return;
        };
        let (now_ms, jitter) = (self.now_ms(), self.jitter());
        if visitor.dialled.is_some() {
            self.peer_back_off.failed(peer, now_ms, jitter);
        }
        for address in visitor.known {
            self.address_back_off.failed(address, now_ms, jitter);
        }
    }

    /// Closes the connections of those who say nothing.
    pub(super) fn part_with_silent(&mut self, now_ms: u64) {
        let is_late = |visitor: &Visitor| now_ms >= visitor.since_ms + HELLO_MS;
        let late = self.visitors.iter().filter(|(_, v)| is_late(v));
        let late: Vec<_> = late.map(|(&peer, _)| peer).collect();
        for libp2p_peer in late {
            if let Some(peer) = identity::from_libp2p(&libp2p_peer) {
                self.miss(peer);
            }
            let _gone = self.swarm.disconnect_peer_id(libp2p_peer);
        }
    }

    /// A connection becomes a link.
    fn admit(&mut self, peer: PeerId) {
        let libp2p_peer = identity::to_libp2p(peer);
        if let Some(libp2p_peer) = &libp2p_peer {
            self.turns.admit(libp2p_peer);
        }
        if let Some(libp2p_peer) = libp2p_peer
            && let Some(visitor) = self.visitors.remove(&libp2p_peer)
        {
            for address in &visitor.known {
                self.address_back_off.succeeded(address);
            }
            if let Some(address) = &visitor.dialled {
                self.note_host(libp2p_peer, address);
            }
        }
        self.peer_back_off.succeeded(&peer);
        if !self.links.contains(&peer) {
            // While there was no link, others may have missed this peer: it speaks up.
            self.is_suspected |= self.links.is_empty();
            self.links.push(peer);
            self.send_more_records(peer);
            self.show_joining();
        }
        self.update_lease();
        self.send_waiting(peer);
    }
}
