//! PeerCrawl: a volunteer's share of a decentralised web crawl.

pub mod demo;
