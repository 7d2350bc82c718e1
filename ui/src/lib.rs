//! The window: what it draws, and what its user wants.
//!
//! [`Model`] is plain data to draw and [`Command`] is what the user wants. Whoever
//! owns the engine makes a new model whenever something changed (at most 4 times a
//! second), wakes the window, and carries out the commands that come back. This
//! crate never touches the engine or a socket, so every screen can be tested from
//! a model made up for it.
//!
//! ```text
//!   Backend::latest() ──> Model ──> App::logic ──> App::ui ──┬──> status bar, rail
//!                                                            └──> one of the screens
//!   Backend::send()   <── Command <── buttons, fields, shortcuts
//! ```
//!
//! - [`model`], [`command`]: the two types above and what they are made of.
//! - [`app`]: the window itself; `frame` holds what is around every screen.
//! - `explain`: a small window that says one thing.
//! - `screens`: one file for each screen.
//! - [`theme`], [`mod@format`], [`symbols`], `fonts`: how things look and read, said once.
//! - `parts`, `number_field`, `table`, `graph`: what several screens are built from.
//! - `scroll`: scrolling without a mouse.

pub mod app;
pub mod command;
mod explain;
mod fonts;
pub mod format;
mod frame;
mod graph;
pub mod model;
mod number_field;
mod parts;
mod screens;
mod scroll;
pub mod symbols;
mod table;
pub mod theme;

pub use app::{App, Backend, Waker, WindowOptions, icon, run};
pub use command::Command;
pub use eframe::egui;
pub use explain::explain;
pub use model::Model;
