//! Scrolling without a mouse: to what has come into focus, and by the keys for pages.

use eframe::egui::accesskit::{Action, ActionRequest, TreeId};
use eframe::egui::{Context, Event, Id, Key, Modifiers, Ui, vec2};

use crate::theme;

/// Keeps what has the focus in sight.
#[derive(Debug, Default)]
pub struct Follower {
    at: Option<Id>,
    /// Whether a key was pressed in the last frame.
    had_key: bool,
}

impl Follower {
    /// If the keyboard has moved the focus to something that is clipped, has the area around it
    /// scroll. Called before anything is drawn.
    pub fn follow(&mut self, ctx: &Context) {
        let has_key = ctx.input(|input| input.events.iter().any(is_key));
        let is_by_key = std::mem::replace(&mut self.had_key, has_key) || has_key;
        let focused = focused(ctx);
        if std::mem::replace(&mut self.at, focused) == focused || !is_by_key {
            return;
        }
        let Some(id) = focused else { return };
        let is_clipped = ctx
            .read_response(id)
            .is_some_and(|drawn| !drawn.interact_rect.expand(1.0).contains_rect(drawn.rect));
        if is_clipped {
            // A screen reader asks for the same.
            let request = Event::AccessKitActionRequest(ActionRequest {
                action: Action::ScrollIntoView,
                target_tree: TreeId::ROOT,
                target_node: id.accesskit_id(),
                data: None,
            });
            ctx.input_mut(|input| input.events.push(request));
        }
    }

    /// Whether the focus has moved since.
    pub fn is_behind(&self, ctx: &Context) -> bool {
        self.at != focused(ctx)
    }
}

/// Whether it may move the focus: the keyboard, or a screen reader in its place.
fn is_key(event: &Event) -> bool {
    let is_pressed = matches!(event, Event::Key { pressed: true, .. });
    is_pressed || matches!(event, Event::AccessKitActionRequest(_))
}

fn focused(ctx: &Context) -> Option<Id> {
    ctx.memory(|memory| memory.focused())
}

/// Scrolls the area that `ui` is in, unless a text is being typed. Its content begins at `top`,
/// which is above the area once that is scrolled.
pub fn by_keys(ui: &Ui, top: f32, height: f32) {
    let is_in_front = ui.memory(|memory| memory.allows_interaction(ui.layer_id()));
    if !is_in_front || ui.ctx().text_edit_focused() {
        return;
    }
    let seen = ui.clip_rect();
    let above = (seen.top() - top).max(0.0);
    let below = (top + height - seen.bottom()).max(0.0);
    // A line of the last page stays in sight.
    let page = (seen.height() - theme::ROW_HEIGHT).max(theme::ROW_HEIGHT);
    let moves = [
        (Key::PageUp, above.min(page)),
        (Key::PageDown, -below.min(page)),
        (Key::Home, above),
        (Key::End, -below),
    ];
    for (key, down) in moves {
        // At its end, an area leaves the key to the one around it.
        let can_move = down.abs() > 1.0;
        if can_move && ui.input_mut(|input| input.consume_key(Modifiers::NONE, key)) {
            ui.scroll_with_delta(vec2(0.0, down));
        }
    }
}

/// The same for a table of so many rows; called before they are drawn.
pub fn rows_by_keys(ui: &Ui, rows: usize, row_height: f32) {
    by_keys(ui, ui.cursor().top(), rows as f32 * row_height);
}
