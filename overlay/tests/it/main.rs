//! What every overlay must do, asked of all of them; and what a hostile peer must not
//! be able to do. Real sockets, on loopback.

// A panic is how a test fails, in its fixtures too.
#![allow(clippy::unwrap_used)]

mod attacker;
mod broadcasts;
mod calling;
mod carrying;
mod conformance;
#[cfg(target_os = "linux")]
mod crowd;
mod fleet;
mod hostile;
mod impostors;
mod metering;
mod network;
mod reaching;
mod serving;
