//! The window: what it draws and what its user wants.
//!
//! This crate will own `Model` (plain data to draw) and `Command` (what the user
//! wants). It never touches the engine or a socket.
