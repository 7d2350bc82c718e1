//! The overlay: the network of peers, and how messages travel in it.
//!
//! An overlay knows who is there (`members`), and carries opaque bytes to them. It
//! knows nothing of URLs, pages or ranges; the crawler above knows nothing of
//! sockets, and never learns which overlay it runs on.

mod peer_id;

pub use peer_id::PeerId;
