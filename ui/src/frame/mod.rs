//! What is around every screen: the status bar, the rail, toasts and dialogs.
//!
//! All of it, and all screens, draw from a [`Scene`] and put what the user wants
//! into it.
//!
//! - `scene`: the model, the settings as the user last set them, and the way out
//!   for commands.
//! - `status`: the sentence, the rates, the main buttons.
//! - `rail`: the way from screen to screen.
//! - `shortcuts`: the same by keyboard.
//! - `toasts`: what was done, with *Undo*.
//! - `dialogs`: asked before what cannot be undone.

pub mod dialogs;
pub mod rail;
pub mod scene;
pub mod shortcuts;
pub mod status;
pub mod toasts;

pub use dialogs::Dialog;
pub use scene::{Draft, Scene};
pub use toasts::Toasts;
