//! Block 3: the downloader.
//!
//! Each downloader thread leases a site, asks its server for one thing (the robots
//! rules of an origin, or the next page), and settles the lease before it works on the
//! answer, so that the host waits for nothing but its own delay. A page then goes
//! through blocks 6 to 8 on the same thread; a redirect becomes a new URL that passes
//! every check again.
//!
//! - [`worker`]: the thread
//! - `answers`: what becomes of an answer
//! - [`robots_fetch`]: how robots rules are had
//! - [`fetch`]: one request over a site's connection, within bounds
//! - [`connection`]: a site's kept-alive connection, and how many are kept
//! - [`tape`]: what goes over it, for the archive
//! - [`socket`]: TCP below `ureq`, with the address guard at the moment of connecting
//! - [`decode`]: content encodings undone, within bounds
//! - [`content_types`]: which kinds of content are fetched
//! - [`speed`]: how slowly a server may answer
//! - [`lane`]: room for sites that are slow or unknown, so that they hold nobody up

mod answers;
pub mod connection;
pub mod content_types;
pub mod decode;
pub mod fetch;
pub mod lane;
pub mod robots_fetch;
pub mod socket;
pub mod speed;
pub mod tape;
pub mod worker;

pub use connection::{Connection, IdleConnections, Kept};
pub use fetch::{Answer, FetchError, Fetcher};
pub use robots_fetch::RobotsWay;
pub use worker::Downloader;
