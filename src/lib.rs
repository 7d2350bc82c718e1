//! PeerCrawl: a volunteer's share of a decentralised web crawl.
//!
//! # The life of a URL
//!
//! A URL is met: on a page, as a seed, in a redirect, or in a message from another peer.
//! [`canonical`] gives it its one spelling; with its crawl and its depth it is a
//! [`record`]. From here on it passes thirteen blocks, each in a room of its own name:
//!
//! 1. [`url_range_validator`] (5) turns away what the [`crawl`] does not want, and asks
//!    the [`distribution`] whose it is. Another peer's? Then [`handing_on`] keeps it in
//!    the outbox until its owner has stored it.
//! 2. [`preprocessor`] (1) takes ours in: it finds the host's site, drops what the site
//!    has seen ([`seen_urls`], 13), and turns away what is on the [`blocklist`] or what
//!    there is no room for.
//! 3. [`crawl_jobs`] (2) keeps it in its site's queue until the site's time has come,
//!    which [`politeness`] decides (and [`reputation`], if sites turn us away).
//!    [`resolver`] has looked its name up, [`guard`] its address.
//! 4. [`downloader`] (3) leases the site, has its [`robots`] rules, and fetches the
//!    [`page`].
//! 5. [`page_duplication`] (8) takes the page's [`fingerprint`].
//!    [`content_range_validator`] (6) says whose it is: ours is decided at once by
//!    [`content_processor`] (7) and [`seen_content`] (12); for another peer's the page
//!    waits in [`processing_queue`] (10) until that peer's remote interface (9) has
//!    answered. A duplicate ends here.
//! 6. [`pending_queue`] (11) feeds [`extractor`] (4), which reads the page's links: each
//!    of them is a URL that is met.
//!
//! When a peer joins, [`handover`] moves the sites that are now its own, as records.
//!
//! Every queue and channel on this way is bounded, and pressure goes upstream. A URL is
//! outstanding from step 2 to the end of step 6; a crawl is over when none is.
//!
//! Every request leaves one of the [`receipts`], where those are kept.
//!
//! Every step is told to the [`ledger`], which writes it down in order: first the page as
//! WARC records ([`archive`]), then what became of its URL ([`store`]), both in the
//! [`data_directory`]. Pull the plug, and it goes on from there.
//!
//! [`limits`] holds all of it to what the volunteer allows, and [`conditions`] tells when
//! it should not run at all. A fault of our own costs what was at hand, and no more:
//! [`shield`].
//!
//! [`engine`] wires the blocks and runs their threads, [`config`] is what a user may
//! change, [`counters`] and [`report`] tell what has been done, and [`demo`] is a web on
//! this machine to try it all on. [`desktop`] connects the engine with the window of the
//! crate `peercrawl-ui`, and [`activity`] tells it of single fetches. Peers are reached
//! through the `Overlay` trait of the crate `peercrawl-overlay`, by [`message`]s; only
//! [`joining`] knows which overlay it is, and [`rejoining`] brings back a peer that has
//! left.

pub mod activity;
pub mod archive;
pub mod blocklist;
pub mod canonical;
pub mod clock;
pub mod conditions;
pub mod config;
pub mod content_processor;
pub mod content_range_validator;
pub mod counters;
pub mod crawl;
pub mod crawl_jobs;
pub mod data_directory;
pub mod demo;
pub mod desktop;
pub mod distribution;
pub mod downloader;
pub mod engine;
pub mod extractor;
pub mod fingerprint;
pub mod handing_on;
pub mod handover;
pub mod joining;
pub mod ledger;
pub mod limits;
pub mod message;
pub mod page;
pub mod page_duplication;
pub mod pending_queue;
pub mod politeness;
pub mod preprocessor;
pub mod processing_queue;
pub mod receipts;
pub mod record;
pub mod rejoining;
pub mod report;
pub mod reputation;
pub mod resolver;
pub mod robots;
pub mod seen_content;
pub mod seen_urls;
pub mod shield;
pub mod store;
pub mod url_range_validator;

// One table for both: where peers may be met, and where pages may be.
pub use peercrawl_overlay::guard;
