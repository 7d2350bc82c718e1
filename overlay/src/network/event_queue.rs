//! The way to the layer above: bounded in events and in bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_channel::Sender;

use crate::{Event, Member};

/// See the module. It is the only sender of its channel.
pub struct EventQueue {
    sender: Sender<Event>,
    /// The sizes of the latest events: as many as wait in the channel are still there.
    sizes: VecDeque<usize>,
    bytes: usize,
    most_bytes: usize,
}

impl EventQueue {
    /// The sending end of a bounded channel, in which so many bytes may wait.
    pub fn new(sender: Sender<Event>, most_bytes: usize) -> Self {
        Self {
            sender,
            sizes: VecDeque::new(),
            bytes: 0,
            most_bytes,
        }
    }

    /// Adds an event of so many bytes if there is room; tells whether there was.
    pub fn offer(&mut self, event: Event, bytes: usize) -> bool {
        // The channel is first in, first out: what is gone was at the front.
        while self.sizes.len() > self.sender.len() {
            self.bytes -= self.sizes.pop_front().unwrap_or(0);
        }
        if self.bytes + bytes > self.most_bytes || self.sender.try_send(event).is_err() {
            return false;
        }
        self.sizes.push_back(bytes);
        self.bytes += bytes;
        true
    }

    /// Adds a list of members if there is room; tells whether there was. Lists share the
    /// facts in them, but the one that waits longest may be the last to hold them.
    pub fn offer_members(&mut self, members: Arc<[Member]>) -> bool {
        let bytes = |member: &Member| {
            size_of::<Member>() + member.facts.len() + size_of_val(&member.via[..])
        };
        let bytes = members.iter().map(bytes).sum();
        self.offer(Event::Members(members), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PeerId, Role};

    const MOST_BYTES: usize = 64 << 20;

    fn event() -> Event {
        Event::Members(Arc::new([]))
    }

    #[test]
    fn events_and_bytes_are_bounded_and_room_comes_back() {
        let (sender, receiver) = crossbeam_channel::bounded(3);
        let mut queue = EventQueue::new(sender, MOST_BYTES);
        assert!(queue.offer(event(), MOST_BYTES - 10));
        assert!(!queue.offer(event(), 11));
        assert!(queue.offer(event(), 10));
        assert!(!queue.offer(event(), 1));
        assert!(queue.offer(event(), 0));
        assert!(!queue.offer(event(), 0), "three at most");
        receiver.recv().unwrap();
        assert!(queue.offer(event(), MOST_BYTES - 10));
        assert!(!queue.offer(event(), 0));
    }

    /// They counted as nothing, and a thousand lists of forty megabytes could wait.
    #[test]
    fn lists_of_members_take_what_they_are() {
        let (sender, receiver) = crossbeam_channel::bounded(1_024);
        let mut queue = EventQueue::new(sender, MOST_BYTES);
        let member = |number| Member {
            id: PeerId::repeat(number),
            role: Role::Peer,
            facts: vec![number; 2_048].into(),
            via: vec![PeerId::repeat(number); 64].into(),
        };
        let members: Arc<[Member]> = (0..100).map(member).collect();
        let offered = (0..1_024).filter(|_| queue.offer_members(members.clone()));
        assert!((150..164).contains(&offered.count()));
        receiver.recv().unwrap();
        assert!(queue.offer_members(members));
    }
}
