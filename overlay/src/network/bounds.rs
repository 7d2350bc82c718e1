//! How many bytes of messages may wait at all, by what the program's memory allows.
//!
//! Others choose what they send and how slowly they read, so everything that waits has a
//! bound of its own. Together they take two thirds of a budget of 256 MiB if somebody tries
//! hard; of a smaller one each takes its part, down to what a few messages need.

use super::options::Limits;

/// The budget for which the figures below are meant; a larger one changes nothing.
const FULL_BUDGET: usize = 256 << 20;
/// What the packets of one link take beside those of this peer itself: their headers.
const HEADERS: usize = 2 << 20;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Packets under way to all peers together; beyond, packets are dropped.
    pub packets: usize,
    /// Those of them that are carried for others.
    pub carried: usize,
    /// Those of them that go over one link: all that this peer itself may have under way to
    /// one peer fit, so that the layer above hears that it is busy before anything is dropped.
    pub lane: usize,
    /// So many of them are much: one more of this peer's largest messages would be refused.
    pub much_of_lane: usize,
    /// This peer's own messages under way to one peer, and all of a leaf's: those go over few
    /// links, and maybe over one.
    pub to_one: usize,
    /// This peer's own messages under way to all.
    pub to_all: usize,
    /// Packets that wait for a link.
    pub waiting: usize,
    /// Answers that one neighbour may leave unread.
    pub unread_of_one: usize,
    /// Answers that all of them may.
    pub unread: usize,
    /// Events that wait for the layer above.
    pub events: usize,
}

impl Bounds {
    /// What these limits mean.
    pub fn new(limits: &Limits) -> Self {
        let budget = limits.memory_bytes.min(FULL_BUDGET);
        // No bound may be too small for the largest message on its way.
        let least = 4 * limits.message_bytes;
        let part = |mib: usize| (budget / 256 * mib).max(least);
        let (packets, to_one) = (part(64), part(18));
        Self {
            packets,
            carried: packets / 2,
            lane: to_one + HEADERS,
            much_of_lane: to_one - limits.message_bytes,
            to_one,
            to_all: part(32),
            waiting: part(16),
            unread_of_one: part(4),
            unread: part(32),
            events: part(64),
        }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self::new(&Limits::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(memory_bytes: usize) -> Bounds {
        Bounds::new(&Limits {
            memory_bytes,
            ..Limits::default()
        })
    }

    #[test]
    fn a_small_budget_makes_small_bounds_and_a_large_one_no_larger_ones() {
        let sum = |bounds: Bounds| bounds.packets + bounds.waiting + bounds.unread + bounds.events;
        assert_eq!(sum(with(256 << 20)), 176 << 20);
        assert_eq!(sum(with(64 << 20)), 44 << 20);
        assert_eq!(sum(with(usize::MAX)), 176 << 20);
        assert_eq!(with(256 << 20).lane, 20 << 20);
    }

    #[test]
    fn a_message_fits_whatever_the_budget_is() {
        let (least, message) = (with(0), Limits::default().message_bytes);
        for bound in [
            least.carried,
            least.lane,
            least.much_of_lane,
            least.waiting,
            least.unread_of_one,
            least.events,
        ] {
            assert!(bound > message + message / 2, "{least:?}");
        }
    }
}
