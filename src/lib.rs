//! PeerCrawl: a volunteer's share of a decentralised web crawl.

pub mod canonical;
pub mod fingerprint;
pub mod robots;
