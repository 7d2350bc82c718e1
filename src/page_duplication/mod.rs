//! Blocks 8 and 9: the page-duplication interfaces, where it is found out whether a
//! page's content was seen before, anywhere in the network.
//!
//! The local interface takes a page that was just fetched. If its fingerprint is of our
//! own range, the content processor decides at once; otherwise the page waits in the
//! processing queue while its owner is asked, many claims to a message. A page whose
//! owner does not answer in time is kept and counted as unknown: it is never lost, and
//! nobody waits for it longer. The remote interface answers the claims of others.
//!
//! - [`local`]: block 8
//! - [`claims`]: the thread that asks other peers
//! - [`remote`]: block 9

pub mod claims;
pub mod local;
pub mod remote;

pub use claims::ClaimSender;
pub use local::LocalPageDuplication;
pub use remote::RemotePageDuplication;
