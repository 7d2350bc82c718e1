//! Handing on: how URLs of other ranges reach the peers that they belong to.
//!
//! A URL that is not ours goes into the [`Outbox`] and stays there until its owner
//! says that it has stored it. The [`HandOnSender`] sends batches, by size or by time:
//! first handed on by the overlay's own way, which may lose them; what gets no receipt
//! in time is sent again, directly, to whoever owns it by then. So a lossy broadcast
//! loses no URL. A URL that was handed on once is remembered and not sent again; the latest
//! few hundred thousand are, and what is forgotten is sent again and known to its owner.
//!
//! - [`outbox`]: what waits for a receipt
//! - [`levels`]: how full it is, in all and for each owner
//! - [`sender`]: the thread that sends it

pub mod levels;
pub mod outbox;
pub mod sender;

pub use outbox::{Outbox, within_memory};
pub use sender::HandOnSender;
