//! What holds on every screen.

use super::*;

fn every_window(width: f32, height: f32) -> Vec<(String, Window)> {
    let mut windows = Vec::new();
    for screen in Screen::ALL {
        for (name, model) in [("running", made_up::model()), ("empty", made_up::empty())] {
            let mut window = Window::open_sized(model, width, height);
            window.go(screen);
            windows.push((format!("{name} {}", screen.name()), window));
        }
    }
    let first = Window::open_sized(made_up::first_run(), width, height);
    windows.push(("first run".to_owned(), first));
    let mut joining = made_up::model();
    Arc::make_mut(&mut joining.crawl).offer = Some(made_up::offer());
    windows.push((
        "join".to_owned(),
        Window::open_sized(joining, width, height),
    ));
    windows
}

#[test]
fn every_control_has_a_label() {
    for (name, window) in every_window(1_280.0, 800.0) {
        for (role, label, rect) in controls(&window) {
            assert!(!label.trim().is_empty(), "{name}: {role:?} at {rect:?}");
        }
    }
}

#[test]
fn nothing_is_wider_than_the_smallest_window() {
    for (name, window) in every_window(900.0, 600.0) {
        for (role, label, rect) in controls(&window) {
            let inside = rect.left() >= 0.0 && rect.right() <= 900.0;
            assert!(inside, "{name}: {role:?} {label:?} at {rect:?}");
        }
    }
}

#[test]
fn the_words_are_for_volunteers() {
    let forbidden = ["frontier", "gossip", "lease", "range", "bloom"];
    for (name, window) in every_window(1_280.0, 1_800.0) {
        for node in window.0.query_all(By::new()) {
            let node = node.accesskit_node();
            let words = [node.label(), node.value()];
            for text in words.into_iter().flatten() {
                let text = text.to_lowercase();
                let found = text
                    .split(|letter: char| !letter.is_alphabetic())
                    .find(|word| forbidden.contains(word));
                assert_eq!(found, None, "{name}: {text}");
            }
        }
    }
}

#[test]
fn an_empty_screen_says_what_will_be_here() {
    let words = [
        (Screen::Activity, "Nothing fetched yet"),
        (Screen::Queues, "No hosts yet"),
        (Screen::Network, "No peers yet"),
        (Screen::Crawl, "No web site of your own yet"),
        (Screen::Archive, "Nothing stored yet"),
        (Screen::Log, "Nothing to tell yet"),
    ];
    let mut window = Window::open(made_up::empty());
    for (screen, text) in words {
        window.go(screen);
        assert!(window.has(text), "{text}");
    }
}

#[test]
fn a_still_window_sleeps() {
    for (name, mut window) in every_window(1_280.0, 800.0) {
        // One frame, because `run` always draws one, and no further one is asked for.
        assert_eq!(window.0.run(), 1, "{name}");
    }
}

#[test]
fn a_scale_of_two_draws_the_same_controls() {
    let labels = |scale: f32| {
        let mut window = Window::at(Screen::Limits);
        window.0.set_pixels_per_point(scale);
        window.0.run();
        controls(&window)
            .into_iter()
            .map(|(_, label, _)| label)
            .collect::<Vec<_>>()
    };
    assert_eq!(labels(1.0), labels(2.0));
}
