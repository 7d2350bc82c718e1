//! The main actions by keyboard.

use eframe::egui::{Context, Key, KeyboardShortcut, Modifiers};

use super::{Scene, status};
use crate::command::{Command, Screen};
use crate::model::Setting;

/// The shortcuts with their words, as the Limits screen lists them.
pub const WORDS: [(&str, &str); 11] = [
    ("Ctrl+1 … Ctrl+8", "go to a screen"),
    ("Ctrl+P", "start or pause"),
    ("Ctrl+H", "pause for 1 h"),
    ("Ctrl+E", "finish and stop"),
    ("Ctrl+L", "slow mode on or off"),
    ("Ctrl+F", "search on this screen"),
    ("Ctrl+Z", "undo the last thing"),
    (
        "Ctrl+Plus, Ctrl+Minus, Ctrl+0",
        "text larger, smaller, as it was",
    ),
    ("Ctrl+W", "close the window"),
    ("Tab, Shift+Tab", "to the next control, to the one before"),
    ("Page Up, Page Down, Home, End", "scroll"),
];

const SCREEN_KEYS: [Key; 8] = [
    Key::Num1,
    Key::Num2,
    Key::Num3,
    Key::Num4,
    Key::Num5,
    Key::Num6,
    Key::Num7,
    Key::Num8,
];

/// Text sizes, in percent.
pub const TEXT_PERCENT: std::ops::RangeInclusive<u32> = 75..=200;

/// Carries out what was pressed.
pub fn take(ctx: &Context, scene: &mut Scene<'_>) {
    let pressed = |key| {
        let shortcut = KeyboardShortcut::new(Modifiers::COMMAND, key);
        ctx.input_mut(|input| input.consume_shortcut(&shortcut))
    };
    for (screen, key) in Screen::ALL.into_iter().zip(SCREEN_KEYS) {
        if pressed(key) {
            scene.go_to(screen);
        }
    }
    let starts = scene.model.state.can_start();
    if pressed(Key::P) {
        scene.send(if starts {
            Command::Start
        } else {
            Command::Pause
        });
    }
    if pressed(Key::H) && !starts {
        scene.send(Command::PauseFor { minutes: 60 });
    }
    if pressed(Key::E) && scene.model.state.can_finish() {
        status::finish(scene);
    }
    if pressed(Key::L) {
        let slow = !scene.draft.get().slow_mode;
        scene.change(Setting::SlowMode(slow));
    }
    // A field for text undoes what was typed.
    if !ctx.text_edit_focused()
        && pressed(Key::Z)
        && let Some(undo) = scene.toasts.undo_newest()
    {
        scene.send(undo);
    }
    if pressed(Key::W) {
        ctx.send_viewport_cmd(eframe::egui::ViewportCommand::Close);
    }
    let percent = scene.draft.get().text_percent;
    let steps = [
        (Key::Plus, percent + 10),
        (Key::Equals, percent + 10),
        (Key::Minus, percent.saturating_sub(10)),
        (Key::Num0, 100),
    ];
    for (key, wanted) in steps {
        if pressed(key) {
            let wanted = wanted.clamp(*TEXT_PERCENT.start(), *TEXT_PERCENT.end());
            scene.change(Setting::TextPercent(wanted));
        }
    }
}

/// Whether the user wants to search; asked by the screen that has a field for it.
pub fn wants_search(ctx: &Context) -> bool {
    let shortcut = KeyboardShortcut::new(Modifiers::COMMAND, Key::F);
    ctx.input_mut(|input| input.consume_shortcut(&shortcut))
}
