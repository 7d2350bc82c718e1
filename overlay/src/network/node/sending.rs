//! Packets over one link: so many at once, the others in line.
//!
//! A connection carries a bounded number of exchanges, both ways together; what comes on
//! top is thrown away by the library. So each side keeps to its half, and what finds no
//! room waits in a bounded line until a response makes some. Whoever answers nothing for
//! a while, though much is under way or some of it has failed, is not waited for any longer.

use std::collections::VecDeque;

use libp2p::PeerId as Libp2pPeerId;

use super::super::frame::Request;
use super::Node;
use super::packets::{Origin, Outbound};
use crate::identity;

/// Packets under way over one link; both halves and some records fit into a connection.
const MOST_AT_ONCE: usize = 48;
/// A link on which nothing is answered for so long leads to nobody who reads.
const STALLED_MS: u64 = 20_000;
/// How long such a peer is left alone.
const STALLED_REST_MS: u64 = 60_000;
/// Packets that wait for one link.
const MOST_IN_LINE: usize = 512;
/// Bytes of packets under way to all peers together; beyond, packets are dropped.
const MOST_BYTES: usize = 64 << 20;
/// What a packet takes beside its envelope.
const PACKET_BYTES: usize = 1 << 10;

/// The packets of one link.
#[derive(Default)]
pub struct Lane {
    under_way: usize,
    /// When a packet was last answered, or the first one since then set out.
    answered_ms: u64,
    /// Whether a packet since then got no answer.
    has_failed: bool,
    line: VecDeque<InLine>,
}

struct InLine {
    request: Request,
    origin: Origin,
    bytes: usize,
}

impl Node {
    /// Sends an envelope over a link, now or when there is room.
    pub(super) fn ask_packet(
        &mut self,
        peer: Libp2pPeerId,
        hops: u8,
        deadline_ms: u32,
        envelope: &[u8],
        origin: Origin,
    ) {
        let bytes = envelope.len() + PACKET_BYTES;
        let lane = self.lanes.entry(peer).or_default();
        if self.outbound_bytes + bytes > MOST_BYTES || lane.line.len() >= MOST_IN_LINE {
            return self.lose(origin);
        }
        self.outbound_bytes += bytes;
        let request = Request::Packet {
            hops,
            deadline_ms,
            envelope: envelope.to_vec(),
        };
        let packet = InLine {
            request,
            origin,
            bytes,
        };
        lane.line.push_back(packet);
        self.move_up(peer);
    }

    /// Sends what there is room for.
    fn move_up(&mut self, peer: Libp2pPeerId) {
        let now_ms = self.now_ms();
        while let Some(lane) = self.lanes.get_mut(&peer)
            && lane.under_way < MOST_AT_ONCE
            && let Some(packet) = lane.line.pop_front()
        {
            if lane.under_way == 0 && !lane.has_failed {
                lane.answered_ms = now_ms;
            }
            lane.under_way += 1;
            let InLine {
                request,
                origin,
                bytes,
            } = packet;
            self.ask(peer, request, Outbound::Packet { origin, bytes });
        }
    }

    /// A packet over a link is done with: the next one may go.
    pub(super) fn packet_done(&mut self, peer: Libp2pPeerId, bytes: usize, is_answered: bool) {
        self.outbound_bytes -= bytes;
        let now_ms = self.now_ms();
        if let Some(lane) = self.lanes.get_mut(&peer) {
            lane.has_failed = !is_answered;
            if is_answered {
                lane.answered_ms = now_ms;
            }
            lane.under_way = lane.under_way.saturating_sub(1);
            let is_remembered = lane.has_failed && self.swarm.is_connected(&peer);
            if lane.under_way == 0 && lane.line.is_empty() && !is_remembered {
                self.lanes.remove(&peer);
            }
        }
        self.move_up(peer);
    }

    /// Parts with those who do not read.
    pub(super) fn tick_lanes(&mut self) {
        let now_ms = self.now_ms();
        let is_stalled = |lane: &Lane| {
            let is_waiting =
                lane.under_way >= MOST_AT_ONCE || (lane.has_failed && lane.under_way > 0);
            is_waiting && now_ms >= lane.answered_ms + STALLED_MS
        };
        let stalled = self.lanes.iter().filter(|(_, lane)| is_stalled(lane));
        let stalled: Vec<_> = stalled.map(|(&peer, _)| peer).collect();
        for peer in stalled.iter().filter_map(identity::from_libp2p) {
            tracing::info!("{peer} answers nothing: the link is closed");
            self.part(peer, STALLED_REST_MS);
        }
    }

    /// A link has ended: nothing waits for it any more.
    pub(super) fn close_lane(&mut self, peer: Libp2pPeerId) {
        let line = self
            .lanes
            .get_mut(&peer)
            .map(|lane| std::mem::take(&mut lane.line));
        for packet in line.unwrap_or_default() {
            self.outbound_bytes -= packet.bytes;
            self.lose(packet.origin);
        }
        self.lanes
            .retain(|&other, lane| other != peer || lane.under_way > 0);
    }
}
