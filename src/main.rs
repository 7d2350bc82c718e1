//! The `peercrawl` program.

// A volunteer who double-clicks the program wants no console window beside it.
#![cfg_attr(all(windows, not(debug_assertions)), windows_subsystem = "windows")]

mod cli;

use std::process::ExitCode;

use clap::Parser;

/// Threads hand pages and URLs to each other all day long. The system's allocator keeps
/// what is freed for the thread that asked for it, and after an hour holds half as much
/// again as is in use.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run(cli::Arguments::parse())
}
