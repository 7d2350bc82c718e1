//! A way to see everything work with no network: a web of our own, on this machine.
//!
//! The demo and the end-to-end tests need a web whose every page is known beforehand, so that
//! "fetched every page exactly once" is a comparison of two numbers and not an impression.
//! [`web`] is that web: it serves pages over real HTTP on loopback, and tells afterwards what
//! should have been found and what was asked of it. [`fleet`] is the peers that crawl it.

pub mod fleet;
pub mod web;
