//! The seam for a volunteer's byte limits: who wants to move bytes asks first.
//!
//! A [`Meter`] is asked at the sockets, below encryption, for every byte in both
//! directions. It belongs to the layer above, which may ask the same one for its own
//! sockets, so that one limit binds everything.

use std::fmt;
use std::time::Duration;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Into this machine.
    Down,
    /// Out of it.
    Up,
}

/// Says how many bytes may be moved, and when. Asked often: it must not block.
pub trait Meter: Send + Sync + fmt::Debug {
    /// Asks to move up to `wanted` bytes: how many may go now (at least 1), or how long
    /// to wait before asking again.
    fn take(&self, direction: Direction, wanted: usize) -> Result<usize, Duration>;

    /// Bytes that were granted and not moved.
    fn put_back(&self, direction: Direction, unused: usize);

    /// Bytes that may be moved in a second, as things are now; `None` for any number, 0 if
    /// nothing goes through.
    fn limit(&self, _direction: Direction) -> Option<u64> {
        None
    }
}
