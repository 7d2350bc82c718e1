//! Packets over one link: so many at once, the others in line.
//!
//! A connection carries a bounded number of exchanges, both ways together; what comes on
//! top is thrown away by the library. So each side keeps to its half, and what finds no
//! room waits in a bounded line until a response makes some. Whoever answers nothing for
//! a while, though much is under way or some of it has failed, is not waited for any longer,
//! and blamed for it if others do answer. Whoever answers now and then is, and holds up no
//! more bytes than one link may; what is carried for others leaves room for this peer's own.
//! If this peer's user has set a limit, answers may be late because of that: then only one
//! that says nothing at all while others answer is blamed, or whose connection takes nothing.

use std::collections::VecDeque;
use std::mem;

use libp2p::PeerId as Libp2pPeerId;

use super::super::bounds::Bounds;
use super::super::frame::Request;
use super::Node;
use super::packets::{Origin, Outbound, Packet};
use crate::identity;
use crate::meter::Direction;
use crate::offenders::Offence;

/// Packets under way over one link; both halves and some records fit into a connection.
const MOST_AT_ONCE: usize = 48;
/// A link on which nothing is answered for so long leads to nobody who reads.
const STALLED_MS: u64 = 20_000;
/// The same if this peer's user has set a limit and its other end says something meanwhile.
const STALLED_LIMITED_MS: u64 = 2 * STALLED_MS;
/// One that has said nothing for so long is silent. A limit lets pings through in less.
const SILENT_MS: u64 = 18_000;
/// How long such a peer is left alone.
const STALLED_REST_MS: u64 = 60_000;
/// Somebody else has answered a ping within so long, if this peer's own line works: there is
/// one every 15 s.
const OTHERS_ANSWER_MS: u64 = 18_000;
/// Packets that wait for one link.
const MOST_IN_LINE: usize = 512;
/// What a packet takes beside its envelope.
const PACKET_BYTES: usize = 1 << 10;

/// The packets of one link.
#[derive(Default)]
pub struct Lane {
    under_way: usize,
    /// Bytes of all of them, under way and in line.
    bytes: usize,
    /// When a packet was last done with, or set out while no other one was under way.
    since_ms: u64,
    /// How long packets were waited for before that, since the last answer.
    waited_ms: u64,
    /// Whether the last packet that is done with got no answer.
    has_failed: bool,
    /// Bytes of any kind that had come from the other end when that was last looked at.
    heard: u64,
    /// When there were more of them for the last time.
    heard_ms: u64,
    line: VecDeque<Packet>,
}

impl Lane {
    /// A packet sets out.
    fn begin(&mut self, now_ms: u64) {
        // While nothing was under way there was nothing to answer.
        if self.under_way == 0 {
            self.since_ms = now_ms;
        }
        self.under_way += 1;
    }

    /// A packet is done with.
    fn end(&mut self, is_answered: bool, now_ms: u64) {
        self.has_failed = !is_answered;
        self.waited_ms = match is_answered {
            true => 0,
            false => self.waited(now_ms),
        };
        self.since_ms = now_ms;
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// How long packets have been waited for since the last answer.
    fn waited(&self, now_ms: u64) -> u64 {
        match self.under_way {
            0 => self.waited_ms,
            _ => self.waited_ms + now_ms.saturating_sub(self.since_ms),
        }
    }

    /// So many bytes have come from the other end.
    fn hear(&mut self, heard: u64, now_ms: u64) {
        if self.heard != heard {
            (self.heard, self.heard_ms) = (heard, now_ms);
        }
    }

    fn is_silent(&self, now_ms: u64) -> bool {
        now_ms >= self.heard_ms + SILENT_MS
    }

    /// Whether there is nobody who reads, if so many bytes are much. Where there is a limit, it
    /// takes longer to be sure.
    fn is_stalled(&self, much_bytes: usize, is_limited: bool, now_ms: u64) -> bool {
        let is_much = self.under_way >= MOST_AT_ONCE || self.bytes >= much_bytes;
        let patience_ms = match is_limited && !self.is_silent(now_ms) {
            true => STALLED_LIMITED_MS,
            false => STALLED_MS,
        };
        (is_much || self.has_failed) && self.waited(now_ms) >= patience_ms
    }
}

/// What a packet takes.
#[derive(Clone, Copy)]
struct Weight {
    bytes: usize,
    /// All of that, or nothing.
    carried_bytes: usize,
}

impl Weight {
    fn new(envelope_bytes: usize, is_carried: bool) -> Self {
        let bytes = envelope_bytes + PACKET_BYTES;
        let carried_bytes = if is_carried { bytes } else { 0 };
        Self {
            bytes,
            carried_bytes,
        }
    }
}

/// Bytes of packets: over one link, over all of them, and what is carried of that.
struct Load<'a> {
    lane: &'a mut usize,
    all: &'a mut usize,
    carried: &'a mut usize,
}

impl Load<'_> {
    /// Counts a packet over the link; tells whether there was room.
    fn add(self, weight: Weight, bounds: &Bounds) -> bool {
        let has_room = *self.lane + weight.bytes <= bounds.lane
            && *self.all + weight.bytes <= bounds.packets
            && *self.carried + weight.carried_bytes <= bounds.carried;
        if has_room {
            *self.lane += weight.bytes;
            *self.all += weight.bytes;
            *self.carried += weight.carried_bytes;
        }
        has_room
    }

    /// A packet over the link is no more.
    fn remove(self, weight: Weight) {
        *self.lane -= weight.bytes;
        *self.all -= weight.bytes;
        *self.carried -= weight.carried_bytes;
    }
}

impl Node {
    fn weight(&self, packet: &Packet) -> Weight {
        let envelope = &packet.envelope;
        Weight::new(envelope.bytes.len(), envelope.author != self.me)
    }

    /// Sends a packet over a link, now or when there is room.
    pub(super) fn ask_packet(&mut self, peer: Libp2pPeerId, packet: Packet) {
        let weight = self.weight(&packet);
        let lane = self.lanes.entry(peer).or_default();
        let load = Load {
            lane: &mut lane.bytes,
            all: &mut self.outbound_bytes,
            carried: &mut self.carried_bytes,
        };
        if lane.line.len() >= MOST_IN_LINE || !load.add(weight, &self.bounds) {
            return self.lose(packet.origin);
        }
        lane.line.push_back(packet);
        self.move_up(peer);
    }

    /// There is a lane for as long as something is under way or in line.
    fn unload(&mut self, peer: Libp2pPeerId, packet: &Packet) {
        let weight = self.weight(packet);
        if let Some(lane) = self.lanes.get_mut(&peer) {
            let load = Load {
                lane: &mut lane.bytes,
                all: &mut self.outbound_bytes,
                carried: &mut self.carried_bytes,
            };
            load.remove(weight);
        }
    }

    /// Sends what there is room for. Whoever says that there is no link gets nothing more
    /// until there is one again.
    pub(super) fn move_up(&mut self, peer: Libp2pPeerId) {
        if !identity::from_libp2p(&peer).is_some_and(|peer| self.links.contains(&peer)) {
            return;
        }
        let now_ms = self.now_ms();
        while let Some(lane) = self.lanes.get_mut(&peer)
            && lane.under_way < MOST_AT_ONCE
            && let Some(packet) = lane.line.pop_front()
        {
            lane.begin(now_ms);
            let request = Request::Packet {
                hops: packet.hops,
                deadline_ms: packet.deadline_ms,
                envelope: packet.envelope.bytes.clone(),
            };
            self.ask(peer, request, Outbound::Packet(Box::new(packet)));
        }
    }

    /// A packet over a link is done with: the next one may go.
    pub(super) fn packet_done(&mut self, peer: Libp2pPeerId, packet: &Packet, is_answered: bool) {
        self.unload(peer, packet);
        let now_ms = self.now_ms();
        if let Some(lane) = self.lanes.get_mut(&peer) {
            lane.end(is_answered, now_ms);
            let is_remembered = lane.has_failed && self.swarm.is_connected(&peer);
            if lane.under_way == 0 && lane.line.is_empty() && !is_remembered {
                self.lanes.remove(&peer);
            }
        }
        self.move_up(peer);
    }

    /// Parts with those who do not read.
    pub(super) fn tick_lanes(&mut self) {
        let peers: Vec<_> = self.lanes.keys().copied().collect();
        for peer in peers {
            self.part_if_deaf(peer, false);
        }
    }

    /// Whether this peer's user has set a limit: whatever is slow may be so because of that.
    pub(super) fn has_own_limit(&self) -> bool {
        let mut ways = [Direction::Up, Direction::Down].into_iter();
        let meter = self.options.meter.as_ref();
        meter.is_some_and(|meter| ways.any(|way| meter.limit(way).is_some()))
    }

    /// Parts with a peer that does not read, and leaves it alone for a while. A connection
    /// that took nothing says so itself.
    pub(super) fn part_if_deaf(&mut self, libp2p_peer: Libp2pPeerId, is_unread: bool) {
        let Some(peer) = identity::from_libp2p(&libp2p_peer) else {
            return;
        };
        let (now_ms, is_limited) = (self.now_ms(), self.has_own_limit());
        let contacts = &self.shared.counters.contacts;
        let (mut is_deaf, mut is_silent) = (is_unread, is_unread);
        if let Some(lane) = self.lanes.get_mut(&libp2p_peer) {
            lane.hear(contacts.received(peer), now_ms);
            is_deaf |= lane.is_stalled(self.bounds.much_of_lane, is_limited, now_ms);
            is_silent |= lane.is_silent(now_ms);
            if is_deaf {
                // It is blamed once, however long closing takes.
                (lane.since_ms, lane.waited_ms) = (now_ms, 0);
            }
        }
        if !is_deaf {
            return;
        }
        tracing::info!("{peer} answers nothing: the link is closed");
        // If nobody answers, this peer's own line is to blame; or its user's limit, if any.
        let may_be_own_fault = is_limited && !is_silent;
        if !may_be_own_fault && contacts.others_answer(peer, OTHERS_ANSWER_MS, now_ms) {
            self.blame(peer, Offence::Deaf);
        }
        self.part(peer, STALLED_REST_MS);
    }

    /// Takes late questions out of the lines; gives those who wait for the answers.
    pub(super) fn late_in_line(&mut self, now_ms: u64) -> Vec<Origin> {
        let is_late = |packet: &Packet| packet.is_late(now_ms);
        let lanes = self.lanes.iter();
        let lanes = lanes.filter(|(_, lane)| lane.line.iter().any(is_late));
        let peers: Vec<_> = lanes.map(|(&peer, _)| peer).collect();
        let mut origins = Vec::new();
        for peer in peers {
            let Some(lane) = self.lanes.get_mut(&peer) else {
                continue;
            };
            let (late, line): (VecDeque<_>, _) =
                mem::take(&mut lane.line).into_iter().partition(is_late);
            lane.line = line;
            for packet in late {
                self.unload(peer, &packet);
                origins.push(packet.origin);
            }
        }
        // Those of them that are left empty; one that has failed is remembered.
        self.lanes
            .retain(|_, lane| lane.under_way > 0 || !lane.line.is_empty() || lane.has_failed);
        origins
    }

    /// A link has ended: nothing waits for it any more.
    pub(super) fn close_lane(&mut self, peer: Libp2pPeerId) {
        let line = self
            .lanes
            .get_mut(&peer)
            .map(|lane| mem::take(&mut lane.line));
        for packet in line.unwrap_or_default() {
            self.unload(peer, &packet);
            self.lose(packet.origin);
        }
        self.lanes
            .retain(|&other, lane| other != peer || lane.under_way > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUCH: usize = 17 << 20;

    /// What all links carry.
    #[derive(Default)]
    struct Sums {
        all: usize,
        carried: usize,
    }

    impl Sums {
        fn with<'a>(&'a mut self, lane: &'a mut usize) -> Load<'a> {
            Load {
                lane,
                all: &mut self.all,
                carried: &mut self.carried,
            }
        }

        /// How many packets of a megabyte find room on a lane.
        fn fill(&mut self, lane: &mut usize, is_carried: bool) -> usize {
            let weight = Weight::new(1 << 20, is_carried);
            let bounds = Bounds::default();
            let finds_room = |_: &i32| self.with(lane).add(weight, &bounds);
            (0..100).filter(finds_room).count()
        }
    }

    /// One question without an answer closed a healthy link with the next packet, much later.
    #[test]
    fn a_packet_has_its_time_whenever_the_last_one_failed() {
        let mut lane = Lane::default();
        lane.begin(0);
        lane.end(false, 1_000);
        let later_ms = 3_600_000;
        let is_stalled = |lane: &Lane, ms| lane.is_stalled(MUCH, false, ms);
        assert!(!is_stalled(&lane, later_ms), "nothing is under way");
        lane.begin(later_ms);
        lane.begin(later_ms + 1);
        // It was waited for the first one, too.
        let stalled_ms = later_ms + STALLED_MS - 1_000;
        assert!(!is_stalled(&lane, stalled_ms - 1));
        assert!(is_stalled(&lane, stalled_ms));
        lane.end(true, stalled_ms);
        assert!(!is_stalled(&lane, stalled_ms + 2 * STALLED_MS), "it reads");
    }

    /// Packets that fail one at a time, each of them soon, are no answers either.
    #[test]
    fn whoever_answers_nothing_is_found_out_packet_by_packet() {
        let mut lane = Lane::default();
        for round in 0..2 {
            assert!(!lane.is_stalled(MUCH, false, round * 60_000));
            lane.begin(round * 60_000);
            lane.end(false, round * 60_000 + STALLED_MS / 2);
        }
        assert!(lane.is_stalled(MUCH, false, 60_000 + STALLED_MS / 2));
    }

    /// Whoever reads nothing says nothing; whoever does may wait for this peer's own limit.
    #[test]
    fn a_limit_gives_time_to_those_who_say_something() {
        let mut lane = Lane::default();
        lane.begin(0);
        lane.end(false, 10_000);
        lane.hear(70, 10_000);
        lane.begin(10_000);
        assert!(lane.is_stalled(MUCH, false, 20_000));
        assert!(!lane.is_stalled(MUCH, true, 20_000));
        lane.hear(70, 20_000);
        assert!(lane.is_stalled(MUCH, true, 28_000), "it is silent");
        lane.hear(71, 28_000);
        assert!(!lane.is_stalled(MUCH, true, 39_999));
        assert!(lane.is_stalled(MUCH, true, 40_000), "but not for ever");
    }

    /// One member that answered a packet each fifteen seconds stopped those of all others.
    #[test]
    fn one_slow_link_leaves_room_for_all_others() {
        let (mut sums, mut slow) = (Sums::default(), 0);
        assert_eq!(sums.fill(&mut slow, true), 19);
        assert_eq!(sums.fill(&mut slow, false), 0);
        assert_eq!(sums.fill(&mut 0, true), 12);
    }

    #[test]
    fn what_is_carried_leaves_room_for_this_peers_own_and_room_comes_back() {
        let (mut sums, mut lanes) = (Sums::default(), [0; 40]);
        let carried: usize = lanes.iter_mut().map(|lane| sums.fill(lane, true)).sum();
        assert_eq!(carried, 31);
        let own: usize = (0..40).map(|_| sums.fill(&mut 0, false)).sum();
        assert_eq!(own, 32);
        for _ in 0..19 {
            sums.with(&mut lanes[0]).remove(Weight::new(1 << 20, true));
        }
        assert_eq!(lanes[0], 0);
        assert_eq!(sums.fill(&mut lanes[0], true), 19);
    }
}
