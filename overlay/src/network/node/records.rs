//! Leases and suspicions: this peer's own, those of others, and how they spread.
//!
//! In the mesh they are gossip. A supernode passes what it hears on to the leaves whose
//! first supernode it is; a leaf gives its own lease to all of its supernodes. Two
//! peers that get a link tell each other all they know, and now and then a peer does so
//! again with one of its neighbours, for what was lost.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use libp2p::PeerId as Libp2pPeerId;

use super::super::frame::{RECORDS_BYTES as FRAME_BYTES, Records, Request};
use super::super::shared::Use;
use super::Node;
use super::gossip::Occasion;
use super::packets::Outbound;
use crate::election::{Ability, Candidate, Electorate};
use crate::envelope::{Envelope, Errand, Fault, Label};
use crate::lease::{FACTS_BYTES, Lease, MOST_ADDRESSES, Suspicion, Version};
use crate::membership::{Arrival, News};
use crate::meter::Direction;
use crate::offenders::Offence;
use crate::pace::Allowance;
use crate::topology::{self, Kind};
use crate::{PeerId, Role, identity};

/// Largest record: a lease with everything in it.
pub const RECORD_BYTES: usize = 8 << 10;
/// How often all leases are told to a neighbour again.
const EXCHANGE_MS: u64 = 60_000;
/// How long a suspicion is worth hearing.
const SUSPICION_LIFE_MS: u64 = 60_000;
/// Leases that this peer writes: fewer than others hear of one author.
pub const OWN_LEASES: Allowance = Allowance {
    at_once: 12,
    each_minute: 90,
};
/// Records of one neighbour that are looked at. In the largest network some forty come each
/// second, and all of them by way of one neighbour if chance will have it; ten times as many
/// while it finds out that hundreds are not where their leases say. What is not looked at is
/// lost, and a signature costs some fifty microseconds: so there is room for that.
pub const RECORDS: Allowance = Allowance {
    at_once: 8_192,
    each_minute: 24_000,
};
/// Suspicions of this peer are refuted so often at most.
const REFUTED_MS: u64 = 500;
/// A supernode or a relay needs this much of an upload limit, if there is one.
const SUPERNODE_BYTES_PER_SEC: u64 = 64 << 10;
/// Records that may wait for the leaves.
const MOST_FOR_LEAVES: usize = 10_000;

impl Node {
    /// Decides this peer's role, if there are roles.
    pub(super) fn elect(&mut self) {
        if self.kind == Kind::Flat {
            return;
        }
        let candidate = |(id, lease): (PeerId, &Lease)| Candidate {
            incarnation: lease.incarnation,
            id,
        };
        let leaves = self.membership.with_role(Role::Leaf);
        let offers = self
            .membership
            .with_role(Role::Leaf)
            .filter(|(_, l)| l.offers);
        let supernodes = self.membership.with_role(Role::Supernode);
        let is_fit = |(id, lease): &(PeerId, &Lease)| *id != self.me && lease.offers;
        let fit = supernodes.filter(is_fit).count();
        let electorate = Electorate {
            fit,
            supernodes: self
                .membership
                .with_role(Role::Supernode)
                .map(candidate)
                .collect(),
            leaves: leaves.count(),
            offers: offers.map(candidate).collect(),
        };
        let me = Candidate {
            incarnation: self.incarnation,
            id: self.me,
        };
        let (before, ability, now_ms) = (self.role(), self.ability(), self.now_ms());
        let role = self.election.decide(me, ability, &electorate, now_ms);
        if role != before {
            tracing::info!("this peer is now a {role:?}");
            match role {
                Role::Supernode => self.join_mesh(),
                _ => self.leave_mesh(),
            }
        }
    }

    fn ability(&self) -> Ability {
        Ability {
            is_allowed: self.shared.may_be_supernode.load(Relaxed),
            is_reachable: self.is_reachable(),
            has_capacity: self.has_capacity(),
            uptime_ms: self.now_ms(),
            is_joining: self.is_joining(),
        }
    }

    /// Whether there are bytes to spare for others, as things are now.
    pub(super) fn has_capacity(&self) -> bool {
        let meter = self.options.meter.as_ref();
        let limit = meter.and_then(|meter| meter.limit(Direction::Up));
        let is_resting = self.shared.is_resting.load(Relaxed);
        !is_resting && limit.is_none_or(|limit| limit >= SUPERNODE_BYTES_PER_SEC)
    }

    /// Signs and spreads this peer's lease if it says something new, or is due.
    pub(super) fn update_lease(&mut self) {
        let lease = self.lease_now();
        let now_ms = self.now_ms();
        let is_new = self.my_lease.as_ref() != Some(&lease);
        let is_refuting = self.is_suspected && now_ms >= self.renewed_ms + REFUTED_MS;
        let is_due = now_ms >= self.renewed_ms + self.membership.renewal_ms();
        // What is not said now is said at the next tick.
        if (is_new || is_refuting || is_due) && self.my_leases.take(now_ms) {
            self.renew(lease, false);
        }
    }

    fn lease_now(&self) -> Lease {
        let supernodes = self.membership.with_role(Role::Supernode).count();
        let ability = self.ability();
        let facts = self.shared.facts();
        let mut lease = Lease {
            incarnation: self.incarnation,
            role: self.role(),
            offers: match self.role() {
                Role::Leaf => self.election.offers(ability, supernodes),
                Role::Supernode => ability.is_fit(),
                Role::Peer => false,
            },
            // In fours, so that not every leaf that comes or goes makes a new lease.
            leaves: (self.leaves().count().min(255) as u8) & !3,
            is_farewell: false,
            addresses: {
                let announced = self.announced().into_iter().take(MOST_ADDRESSES);
                announced.map(|address| address.to_vec()).collect()
            },
            via: topology::via(
                self.kind,
                self.role(),
                self.is_reachable(),
                &self.links,
                &self.membership,
            ),
            facts: Vec::new(),
        };
        if facts.len() <= FACTS_BYTES {
            lease.facts = facts.to_vec();
        } else {
            tracing::error!("{} bytes of facts are too many to announce", facts.len());
        }
        lease
    }

    fn renew(&mut self, lease: Lease, is_farewell: bool) -> Option<Arc<[u8]>> {
        let now = self.now();
        let life_ms = self.membership.life_ms();
        let body = lease.encode();
        let sealed = self.sealer.seal(Errand::Lease, None, &body, now, life_ms);
        let (sequence, bytes) = sealed?;
        self.renewed_ms = now.since_start_ms;
        self.is_suspected = false;
        self.my_lease = Some(lease.clone());
        let arrival = Arrival {
            author: self.me,
            from: self.me,
            lease,
            version: Version {
                incarnation: self.incarnation,
                sequence,
            },
            bytes: bytes.clone(),
        };
        let news = self.membership.apply(arrival, now);
        if news.is_change() {
            self.say_members();
        }
        self.spread(&bytes, None, is_farewell);
        Some(bytes)
    }

    /// Tells all that this peer leaves.
    pub(super) fn publish_farewell(&mut self) {
        let farewell = Lease {
            is_farewell: true,
            ..self.lease_now()
        };
        let farewell = self.renew(farewell, true);
        // The mesh does not say when a message has gone out; a neighbour does.
        if let Some(bytes) = farewell.filter(|_| self.is_in_mesh()) {
            for peer in self.links.clone() {
                self.send_records(peer, vec![bytes.to_vec()], true);
            }
        }
    }

    /// A member cannot be reached any more.
    pub(super) fn accuse(&mut self, peer: PeerId) {
        if let Some(suspicion) = self.membership.suspicion(peer) {
            self.say_suspicion(suspicion);
        }
    }

    /// A member cannot be reached now. If no other way leads to it, it is accused: it may
    /// have been made up.
    pub(super) fn accuse_unreachable(&mut self, peer: PeerId) {
        // Whoever has no links cannot tell who is to blame for that.
        if self.links.is_empty() || self.has_way(peer) {
            return;
        }
        let now = self.now();
        let Some(suspicion) = self.membership.unreachable(peer, now) else {
            return;
        };
        // This peer keeps the pace that others hold it to. What is too much now is said when
        // the next call fails.
        match self.membership.suspect(self.me, suspicion, now) {
            true => self.spread_suspicion(suspicion),
            false => self.membership.was_not_accused(peer),
        }
    }

    fn say_suspicion(&mut self, suspicion: Suspicion) {
        let now = self.now();
        self.membership.suspect(self.me, suspicion, now);
        self.spread_suspicion(suspicion);
    }

    /// Whether there is a way to a member, or one that has not been tried lately.
    fn has_way(&self, peer: PeerId) -> bool {
        let Some(lease) = self.membership.lease(peer) else {
            return false;
        };
        let now_ms = self.now_ms();
        let is_due = |other: PeerId| self.peer_back_off.is_due(&other, now_ms);
        let leads = |&other: &PeerId| {
            let is_other = other != peer && other != self.me;
            let may_be_met = || self.membership.lease(other).is_some() && is_due(other);
            is_other && (self.links.contains(&other) || may_be_met())
        };
        self.links.contains(&peer)
            || lease.via.iter().any(leads)
            || (is_due(peer) && !self.addresses_of(peer).is_empty())
    }

    fn spread_suspicion(&mut self, suspicion: Suspicion) {
        tracing::debug!("{} may be dead", suspicion.peer);
        let (now, body) = (self.now(), suspicion.encode());
        let sealed = self
            .sealer
            .seal(Errand::Suspicion, None, &body, now, SUSPICION_LIFE_MS);
        if let Some((_, bytes)) = sealed {
            self.spread(&bytes, None, false);
        }
    }

    /// Passes a record on: into the mesh and to the leaves, or to the supernodes.
    pub(super) fn spread(&mut self, bytes: &Arc<[u8]>, from: Option<PeerId>, is_farewell: bool) {
        if self.is_in_mesh() {
            self.publish(bytes, Use::Membership);
            self.keep_for_leaves(bytes.clone());
        } else {
            for peer in self.links.clone() {
                if Some(peer) != from {
                    self.send_records(peer, vec![bytes.to_vec()], is_farewell);
                }
            }
        }
    }

    /// The leaves will hear of a record at the next tick.
    pub(super) fn keep_for_leaves(&mut self, bytes: Arc<[u8]>) {
        if self.kind == Kind::Supernode && self.for_leaves.len() < MOST_FOR_LEAVES {
            self.for_leaves.push(bytes);
        }
    }

    fn send_records(&mut self, peer: PeerId, records: Records, is_farewell: bool) {
        if let Some(libp2p_peer) = identity::to_libp2p(peer) {
            let bytes = records.iter().map(Vec::len).sum();
            self.count_sent(Use::Membership, 1, bytes);
            let outbound = Outbound::Records { is_farewell };
            self.ask(libp2p_peer, Request::Records(records), outbound);
        }
    }

    /// All leases, in portions that fit into a frame; this peer's own comes first.
    fn portions(&self) -> Vec<Records> {
        let mut portions = vec![Records::new()];
        let mut size = 0;
        for bytes in self.membership.signed() {
            if size + bytes.len() > FRAME_BYTES {
                portions.push(Records::new());
                size = 0;
            }
            size += bytes.len();
            if let Some(last) = portions.last_mut() {
                last.push(bytes.to_vec());
            }
        }
        portions
    }

    /// What a handshake says about members. Whoever greets again and again hears of this
    /// peer alone.
    pub(super) fn first_records(&mut self, libp2p_peer: Libp2pPeerId) -> Records {
        self.update_lease();
        let now_ms = self.now_ms();
        let records: Records = match self.told.is_due(libp2p_peer, Occasion::Greeting, now_ms) {
            true => self.portions().swap_remove(0),
            false => {
                let mine = self.membership.signed_by(self.me);
                mine.iter().map(|bytes| bytes.to_vec()).collect()
            }
        };
        let bytes = records.iter().map(Vec::len).sum();
        self.count_sent(Use::Membership, 1, bytes);
        records
    }

    /// What did not fit into the handshake.
    pub(super) fn send_more_records(&mut self, peer: PeerId) {
        for records in self.portions().into_iter().skip(1) {
            self.send_records(peer, records, false);
        }
    }

    /// Takes in what a neighbour knows.
    pub(super) fn take_records(&mut self, from: PeerId, records: Records) {
        if records.iter().map(Vec::len).sum::<usize>() > FRAME_BYTES {
            // Nobody sends as much at once by the rules.
            return self.blame(from, Offence::Envelope(Fault::TooLarge));
        }
        let mut has_changes = false;
        for bytes in records {
            self.shared.counters.received(Use::Membership, bytes.len());
            let bytes: Arc<[u8]> = bytes.into();
            match self.take_record(from, bytes.clone()) {
                Ok((author, news)) => {
                    has_changes |= news.is_change();
                    // What is only renewed is gossip everywhere already, unless its
                    // author has no other way.
                    let is_spread = match news {
                        News::Nothing => false,
                        News::Renewed => author == from,
                        _ => true,
                    };
                    let is_elsewhere = self.links.iter().any(|&link| link != from);
                    if is_spread && is_elsewhere && self.is_in_mesh() {
                        self.spread(&bytes, Some(from), false);
                    }
                }
                // Old news in a neighbour's table are not its fault.
                Err(Fault::Expired) => {}
                Err(fault) => {
                    self.blame(from, Offence::Envelope(fault));
                    break;
                }
            }
        }
        if has_changes {
            self.say_members();
        }
    }

    /// Takes in a lease or a suspicion that a neighbour brought; tells whose it is and what
    /// it changed. A change is said by the caller, once for all that came together.
    pub(super) fn take_record(
        &mut self,
        from: PeerId,
        bytes: Arc<[u8]>,
    ) -> Result<(PeerId, News), Fault> {
        let now = self.now();
        // The signature is what costs time, so first of all comes what needs none. Most of
        // what neighbours tell each other is known.
        let label = Label::read(&bytes).ok_or(Fault::Undecodable)?;
        let is_back = label.author == from && self.membership.misses(from);
        let is_held = label.errand == Errand::Lease
            && !is_back
            && self.membership.holds(label.author, label.sequence);
        if is_held || !self.records_heard.take(from, now.since_start_ms) {
            return Ok((label.author, News::Nothing));
        }
        let envelope = Envelope::open(bytes, self.network, RECORD_BYTES, now)?;
        let author = envelope.author;
        if let Some((lease, version)) = Lease::decode(&envelope) {
            // A clock that was put right leaves leases of the future behind. They harm
            // their author alone, as nobody could tell when they are over.
            let is_offender = self.offenders.contains(author, now.since_start_ms);
            if author == self.me || is_offender || version.is_ahead(now) {
                return Ok((author, News::Nothing));
            }
            let held = self.membership.lease(author);
            let is_elsewhere = held.is_none_or(|held| held.addresses != lease.addresses);
            let arrival = Arrival {
                author,
                from,
                lease,
                version,
                bytes: envelope.bytes,
            };
            let news = self.membership.apply(arrival, now);
            if news.is_change() && is_elsewhere {
                self.count_refused_addresses(author);
            }
            return Ok((author, news));
        }
        let suspicion = Suspicion::decode(&envelope).ok_or(Fault::Undecodable)?;
        if suspicion.version.is_impossible(now) {
            // Nobody holds such a lease, so nobody passes this on by the rules.
            return Err(Fault::Ahead);
        }
        let is_news = if suspicion.peer == self.me {
            // Somebody thinks that this peer is dead. It is not, whichever lease is meant:
            // others may hold an older one. Nor does it matter whether the author is a member:
            // others may have heard so before.
            self.is_suspected = true;
            self.update_lease();
            false
        } else {
            self.membership.suspect(author, suspicion, now)
        };
        let news = if is_news {
            News::Changed
        } else {
            News::Nothing
        };
        Ok((author, news))
    }

    pub(super) fn tick_records(&mut self) {
        let now = self.now();
        let (suspicions, has_died) = self.membership.tick(self.me, now);
        for suspicion in suspicions {
            self.spread_suspicion(suspicion);
        }
        if has_died {
            self.say_members();
        }
        self.serve_leaves();
        if now.since_start_ms >= self.exchanged_ms + EXCHANGE_MS && !self.links.is_empty() {
            self.exchanged_ms = now.since_start_ms;
            let at = self.random() as usize % self.links.len();
            let peer = self.links[at];
            self.send_all_records(peer);
        }
    }

    /// Tells a neighbour all that is known.
    pub(super) fn send_all_records(&mut self, peer: PeerId) {
        for records in self.portions() {
            self.send_records(peer, records, false);
        }
    }

    /// Passes on to the leaves what has come in since the last tick.
    fn serve_leaves(&mut self) {
        let records = std::mem::take(&mut self.for_leaves);
        if records.is_empty() {
            return;
        }
        for leaf in self.first_leaves() {
            for portion in records.chunks(FRAME_BYTES / RECORD_BYTES) {
                let portion = portion.iter().map(|bytes| bytes.to_vec()).collect();
                self.send_records(leaf, portion, false);
            }
        }
    }

    /// The leaves whose first supernode this peer is.
    pub(super) fn first_leaves(&self) -> Vec<PeerId> {
        let is_first = |&leaf: &PeerId| {
            let lease = self.membership.lease(leaf);
            lease.is_some_and(|lease| lease.via.first() == Some(&self.me))
        };
        self.leaves().filter(is_first).collect()
    }
}
