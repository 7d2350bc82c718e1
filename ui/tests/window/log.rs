//! Log.

use super::*;
use peercrawl_ui::egui::OutputCommand;
use peercrawl_ui::model::LogLevel;

#[test]
fn events_have_a_time_a_level_and_words() {
    let window = Window::at(Screen::Log);
    for text in [
        "⚠ warning",
        "✖ error",
        "ℹ info",
        "asked us to wait 120 s",
        "16:40:03",
    ] {
        assert!(window.has(text), "{text}");
    }
}

#[test]
fn levels_and_search_are_asked_for() {
    let mut window = Window::at(Screen::Log);
    for (name, level) in [
        ("Everything", LogLevel::Detail),
        ("Warnings", LogLevel::Warning),
        ("Errors", LogLevel::Error),
        ("Events", LogLevel::Info),
    ] {
        window.press(name);
        assert_eq!(window.shown().log_level, level);
    }
    window.fill("Search in log", "museum");
    assert_eq!(window.shown().log_search, "museum");
}

/// Under *Errors* it said that there was nothing to tell yet.
#[test]
fn an_empty_list_says_whether_something_is_left_out() {
    let mut window = Window::at(Screen::Log);
    window.change(|model| model.log = Arc::default());
    assert!(window.has("Nothing to tell yet"));
    window.press("Errors");
    assert!(window.has("No line matches") && !window.has("Nothing to tell yet"));
    window.press("Everything");
    assert!(window.has("Nothing to tell yet"));
}

#[test]
fn all_lines_are_copied_not_only_the_visible_ones() {
    let mut window = Window::at(Screen::Log);
    window.0.get_by_role_and_label(Role::Button, "Copy").click();
    let mut copied = String::new();
    for _ in 0..4 {
        window.0.step();
        for command in &window.0.output().platform_output.commands {
            if let OutputCommand::CopyText(text) = command {
                copied.clone_from(text);
            }
        }
    }
    assert_eq!(copied.lines().count(), 300);
    assert!(copied.starts_with("16 Nov 2026 16:20:07  info"), "{copied}");
}
