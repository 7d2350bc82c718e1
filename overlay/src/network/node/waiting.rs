//! Packets that wait for a link: few of each peer, and few bytes in all.
//!
//! Others choose whom their packets are for, so what waits is bounded whatever they send.

use std::collections::BTreeMap;

use super::packets::Packet;
use crate::PeerId;

/// Packets that may wait for one link.
const MOST_WAITING: usize = 64;

struct Waiting {
    until_ms: u64,
    packet: Packet,
}

/// See the module.
pub struct WaitingRoom {
    of: BTreeMap<PeerId, Vec<Waiting>>,
    bytes: usize,
    most_bytes: usize,
}

impl WaitingRoom {
    /// An empty one, with room for so many bytes.
    pub fn new(most_bytes: usize) -> Self {
        Self {
            of: BTreeMap::new(),
            bytes: 0,
            most_bytes,
        }
    }

    /// Keeps a packet for a link until a time; gives it back if there is no room.
    pub fn keep(&mut self, peer: PeerId, packet: Packet, until_ms: u64) -> Option<Packet> {
        let bytes = packet.envelope.bytes.len();
        let count = self.of.get(&peer).map_or(0, Vec::len);
        if count >= MOST_WAITING || self.bytes + bytes > self.most_bytes {
            return Some(packet);
        }
        self.bytes += bytes;
        let waiting = Waiting { until_ms, packet };
        self.of.entry(peer).or_default().push(waiting);
        None
    }

    /// What has waited for a link.
    pub fn take(&mut self, peer: PeerId) -> Vec<Packet> {
        let taken = self.of.remove(&peer).unwrap_or_default();
        self.let_go(taken)
    }

    /// What has waited for too long.
    pub fn late(&mut self, now_ms: u64) -> Vec<Packet> {
        let mut late = Vec::new();
        for waiting in self.of.values_mut() {
            late.extend(waiting.extract_if(.., |waiting| waiting.until_ms <= now_ms));
        }
        self.of.retain(|_, waiting| !waiting.is_empty());
        self.let_go(late)
    }

    fn let_go(&mut self, gone: Vec<Waiting>) -> Vec<Packet> {
        let packets: Vec<_> = gone.into_iter().map(|waiting| waiting.packet).collect();
        let bytes: usize = packets.iter().map(|p| p.envelope.bytes.len()).sum();
        self.bytes -= bytes;
        packets
    }
}

#[cfg(test)]
mod tests {
    use super::super::packets::Origin;
    use super::*;
    use crate::Purpose;
    use crate::envelope::{Envelope, Errand};

    fn packet(bytes: usize) -> Packet {
        let envelope = Envelope {
            errand: Errand::Send(Purpose::Urls),
            author: PeerId::repeat(1),
            to: Some(PeerId::repeat(2)),
            sequence: 1,
            bytes: vec![0; bytes].into(),
        };
        Packet {
            envelope,
            hops: 1,
            deadline_ms: 0,
            until_ms: None,
            from: None,
            origin: Origin::Nobody,
        }
    }

    /// Sixty-four packets of a megabyte for each of sixty-four peers were let in.
    #[test]
    fn packets_and_bytes_are_bounded_and_room_comes_back() {
        let mut room = WaitingRoom::new(16 << 20);
        let mut kept = 0;
        for peer in 0..=255 {
            kept += (0..64)
                .filter(|_| {
                    room.keep(PeerId::repeat(peer), packet(1 << 20), 9)
                        .is_none()
                })
                .count();
        }
        assert_eq!(kept, 16);
        assert!(room.keep(PeerId::repeat(9), packet(1), 9).is_some());
        assert_eq!(room.take(PeerId::repeat(0)).len(), 16);
        let small = |room: &mut WaitingRoom, until_ms| {
            (0..100)
                .filter(|_| room.keep(PeerId::repeat(3), packet(9), until_ms).is_none())
                .count()
        };
        assert_eq!(small(&mut room, 5), MOST_WAITING);
        assert_eq!(room.late(4).len(), 0);
        assert_eq!(room.late(5).len(), MOST_WAITING);
        assert_eq!(room.bytes, 0);
        assert_eq!(small(&mut room, 6), MOST_WAITING);
    }
}
