//! What was done, for a few seconds, with *Undo* where that is possible.

use std::time::Duration;

use eframe::egui::{Align2, Area, Context, Frame, Id, Label, Order, RichText, Stroke, vec2};

use crate::command::Command;
use crate::model::Notice;
use crate::parts;
use crate::theme;

/// How long a toast stays. Long enough to read it, find *Undo* and press it.
const STAYS_SECS: f64 = 8.0;
/// Toasts at once at most; an older one makes room.
const MOST: usize = 3;

/// The toasts that are shown.
#[derive(Debug, Default)]
pub struct Toasts {
    shown: Vec<Toast>,
    last_notice: u64,
}

#[derive(Debug)]
struct Toast {
    text: String,
    undo: Option<Command>,
    failed: bool,
    until_secs: f64,
}

impl Toasts {
    /// Says something.
    pub fn say(&mut self, text: impl Into<String>, undo: Option<Command>, time_secs: f64) {
        self.push(text.into(), undo, false, time_secs);
    }

    /// Says what the backend has to say, each notice once.
    pub fn take_notices(&mut self, notices: &[Notice], time_secs: f64) {
        for notice in notices {
            if notice.id > self.last_notice {
                self.last_notice = notice.id;
                self.push(notice.text.clone(), None, notice.failed, time_secs);
            }
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.shown.len()
    }

    fn push(&mut self, text: String, undo: Option<Command>, failed: bool, time_secs: f64) {
        if self.shown.len() == MOST {
            self.shown.remove(0);
        }
        self.shown.push(Toast {
            text,
            undo,
            failed,
            until_secs: time_secs + STAYS_SECS,
        });
    }

    /// Takes away what was shown long enough, and wakes the window for the next one.
    pub fn expire(&mut self, ctx: &Context, time_secs: f64) {
        self.shown.retain(|toast| toast.until_secs > time_secs);
        let next = self.shown.iter().map(|toast| toast.until_secs);
        if let Some(next) = next.reduce(f64::min) {
            ctx.request_repaint_after(Duration::from_secs_f64((next - time_secs).max(0.05)));
        }
    }

    /// Draws them; gives the command of an *Undo* that was pressed.
    pub fn toasts_ui(&mut self, ctx: &Context) -> Option<Command> {
        let mut pressed = None;
        if self.shown.is_empty() {
            return None;
        }
        Area::new(Id::new("toasts"))
            .order(Order::Foreground)
            .anchor(
                Align2::RIGHT_BOTTOM,
                vec2(-theme::SECTION_GAP, -theme::SECTION_GAP),
            )
            .show(ctx, |ui| {
                for (number, toast) in self.shown.iter().enumerate() {
                    let palette = theme::palette(ui);
                    let edge = if toast.failed {
                        palette.red
                    } else {
                        palette.accent
                    };
                    let frame = Frame::popup(ui.style())
                        .stroke(Stroke::new(1.0, edge))
                        .inner_margin(theme::CARD_PADDING);
                    frame.show(ui, |ui| {
                        ui.horizontal(|ui| {
                            ui.set_max_width(parts::width_within(ui, 440.0));
                            ui.add(Label::new(RichText::new(&toast.text)).wrap());
                            if toast.undo.is_some() && ui.add(parts::button("Undo")).clicked() {
                                pressed = Some(number);
                            }
                        });
                    });
                }
            });
        pressed.and_then(|number| self.shown.remove(number).undo)
    }
}
