//! What was done, for a few seconds, with *Undo* where that is possible.

use std::time::Duration;

use eframe::egui::accesskit::Live;
use eframe::egui::{
    Align2, Area, Context, Frame, Id, Label, Order, RichText, Stroke, Ui, UiBuilder, WidgetInfo,
    WidgetType, vec2,
};

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
    last_serial: u64,
}

#[derive(Debug)]
struct Toast {
    /// Its own number: whatever comes or goes around it, its *Undo* stays the same button.
    serial: u64,
    text: String,
    undo: Option<Command>,
    failed: bool,
    until_secs: f64,
    /// Whether it is under the pointer or has the focus: so long it stays.
    is_held: bool,
}

impl Toasts {
    /// Says something.
    pub fn say(&mut self, text: impl Into<String>, undo: Option<Command>, time_secs: f64) {
        self.push(text.into(), undo, false, time_secs);
    }

    /// Says what could not be done.
    pub fn say_failed(&mut self, text: impl Into<String>, time_secs: f64) {
        self.push(text.into(), None, true, time_secs);
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
            // Not the one whose *Undo* somebody is about to press.
            let oldest = self.shown.iter().position(|toast| !toast.is_held);
            self.shown.remove(oldest.unwrap_or(0));
        }
        self.last_serial += 1;
        self.shown.push(Toast {
            serial: self.last_serial,
            text,
            undo,
            failed,
            until_secs: time_secs + STAYS_SECS,
            is_held: false,
        });
    }

    /// Takes away what was shown long enough, and wakes the window for the next one.
    pub fn expire(&mut self, ctx: &Context, time_secs: f64) {
        self.shown
            .retain(|toast| toast.is_held || toast.until_secs > time_secs);
        let free = self.shown.iter().filter(|toast| !toast.is_held);
        let next = free.map(|toast| toast.until_secs);
        if let Some(next) = next.reduce(f64::min) {
            ctx.request_repaint_after(Duration::from_secs_f64((next - time_secs).max(0.05)));
        }
    }

    /// Takes back the newest that can be undone; gives the command for it.
    pub fn undo_newest(&mut self) -> Option<Command> {
        let newest = self.shown.iter().rposition(|toast| toast.undo.is_some())?;
        self.shown.remove(newest).undo
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
                for (number, toast) in self.shown.iter_mut().enumerate() {
                    let own = UiBuilder::new().id(Id::new(("toast", toast.serial)));
                    if ui.scope_builder(own, |ui| toast_ui(ui, toast)).inner {
                        pressed = Some(number);
                    }
                }
            });
        pressed.and_then(|number| self.shown.remove(number).undo)
    }
}

/// Draws one; gives whether its *Undo* was pressed.
fn toast_ui(ui: &mut Ui, toast: &mut Toast) -> bool {
    let palette = theme::palette(ui);
    let edge = if toast.failed {
        palette.red
    } else {
        palette.accent
    };
    let frame = Frame::popup(ui.style())
        .stroke(Stroke::new(1.0, edge))
        .inner_margin(theme::CARD_PADDING);
    let shown = frame.show(ui, |ui| {
        ui.horizontal(|ui| {
            ui.set_max_width(parts::width_within(ui, 440.0));
            let text = ui.add(Label::new(RichText::new(&toast.text)).wrap());
            // Read out when it appears, and not into the middle of something else.
            ui.ctx()
                .accesskit_node_builder(text.id, |node| node.set_live(Live::Polite));
            toast.undo.is_some().then(|| {
                let undo = ui.add(parts::button("Undo")).on_hover_text("Ctrl+Z");
                let label = format!("Undo: {}", toast.text);
                undo.widget_info(|| WidgetInfo::labeled(WidgetType::Button, true, &label));
                undo
            })
        })
        .inner
    });
    let undo = shown.inner;
    let is_focused = undo.as_ref().is_some_and(|undo| undo.has_focus());
    let is_held = is_focused || ui.rect_contains_pointer(shown.response.rect);
    if is_held != toast.is_held {
        toast.is_held = is_held;
        // Once it is let go, it stays as long as a new one.
        toast.until_secs = ui.input(|input| input.time) + STAYS_SECS;
        ui.ctx()
            .request_repaint_after(Duration::from_secs_f64(STAYS_SECS));
    }
    undo.is_some_and(|undo| undo.clicked())
}
