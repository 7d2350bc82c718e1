//! The way to the layer above: bounded in events and in bytes.

use std::collections::VecDeque;

use crossbeam_channel::Sender;

use crate::Event;

/// Bytes that may wait.
const MOST_BYTES: usize = 64 << 20;

/// See the module. It is the only sender of its channel.
pub struct EventQueue {
    sender: Sender<Event>,
    /// The sizes of the latest events: as many as wait in the channel are still there.
    sizes: VecDeque<usize>,
    bytes: usize,
}

impl EventQueue {
    /// The sending end of a bounded channel.
    pub fn new(sender: Sender<Event>) -> Self {
        Self {
            sender,
            sizes: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Adds an event of so many bytes if there is room; tells whether there was.
    pub fn offer(&mut self, event: Event, bytes: usize) -> bool {
        // The channel is first in, first out: what is gone was at the front.
        while self.sizes.len() > self.sender.len() {
            self.bytes -= self.sizes.pop_front().unwrap_or(0);
        }
        if self.bytes + bytes > MOST_BYTES || self.sender.try_send(event).is_err() {
            return false;
        }
        self.sizes.push_back(bytes);
        self.bytes += bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn event() -> Event {
        Event::Members(Arc::new([]))
    }

    #[test]
    fn events_and_bytes_are_bounded_and_room_comes_back() {
        let (sender, receiver) = crossbeam_channel::bounded(3);
        let mut queue = EventQueue::new(sender);
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
}
