//! What every overlay must do, asked of all of them; and what a hostile peer must not
//! be able to do. Real sockets, on loopback.

mod conformance;
mod fleet;
mod hostile;
mod network;
