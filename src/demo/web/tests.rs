//! The web against its own truth, over real sockets: a small crawler of another make, with a
//! WHATWG tokenizer, must find just what the truth says.

// In a test, a panic is the report.
#![allow(clippy::expect_used)]

mod client;
mod crawl;
mod model;
mod oddities;
mod rules;

use super::{Naming, Web, WebSpec};

/// A web with every oddity, small enough for a test.
fn small(hosts: u32, pages: u32, seed: u64) -> WebSpec {
    WebSpec {
        page_bytes: 3_000,
        links: 12,
        ..WebSpec::new(hosts, pages, seed)
    }
}

fn start(spec: WebSpec) -> Web {
    Web::start(spec).expect("loopback is there")
}

/// Both ways of naming hosts, where the platform has both.
fn namings() -> Vec<Naming> {
    let mut namings = vec![Naming::default(), Naming::Names];
    namings.dedup();
    namings
}
