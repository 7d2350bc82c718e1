//! Handover: how a site follows its owner.
//!
//! When a peer joins, some sites of the others become its own. Each of the others
//! freezes those (no fetch is under way on a frozen site), sends them as records, and
//! says [`Welcome`](crate::message::Message::Welcome) when nothing is left to send. The
//! newcomer fetches nothing for a second, and until everybody whom it met has welcomed
//! it, or until its patience of ten seconds ends. So no host is visited by two peers at
//! once when a peer joins, and no page is fetched twice: what the newcomer was handed on
//! meanwhile is united with the records that arrive.
//!
//! A fetch that was under way when its site changed hands has five seconds to end; then it is
//! cut off, and its URL goes along. Its site follows after it, once its pages are done, and so
//! does the welcome, but no other site and no other newcomer waits for it, nor for a peer that
//! takes its time. There is one exception: a site that its new
//! owner can never take in stays where it was, because nobody would fetch it otherwise
//! (`docs/decisions/0012-what-strangers-may-say.md`).
//!
//! A peer whose part grows while it is there (it resumes after a pause, or its capacity
//! rises) is a newcomer again. A welcome names the offer that it answers, so that one for
//! a smaller part is not taken for it.
//!
//! - [`sender`]: the thread that moves sites to their owners, and welcomes
//! - `delivery`: how what they are sent gets there, and what becomes of it
//! - [`arrivals`]: the records that come in, and the wait for welcomes
//! - [`transfers`]: how they come in, part by part

pub mod arrivals;
mod delivery;
pub mod sender;
pub mod transfers;

pub use arrivals::Arrivals;
pub use sender::HandoverSender;
