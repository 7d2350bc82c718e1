//! What a user of the crawler would see, over its public interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic is how a test fails"
)]

mod archive;
mod bad_input;
mod blocking;
mod command_line;
mod crawling;
mod crew;
mod demo_window;
mod desktop;
mod desktop_controls;
mod desktop_crawl;
mod desktop_figures;
mod desktop_typed;
mod desktop_warnings;
mod durable;
mod fleet_processes;
mod fleets;
mod full_disk;
mod guard;
mod hostile;
mod limits;
mod links;
mod many_sites;
mod membership;
#[cfg(target_os = "linux")]
mod no_screen;
mod politeness;
mod power_cut;
mod receipts;
mod robots_fuzz;
mod scope;
mod sharing;
mod store;
mod strangers;
