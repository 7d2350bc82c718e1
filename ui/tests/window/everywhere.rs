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

/// What is in tables that a narrow window scrolls sideways.
fn is_in_table(label: &str) -> bool {
    let words = ["Sort by ", "Block ", "Unblock "];
    words.iter().any(|word| label.starts_with(word))
}

#[test]
fn larger_text_leaves_everything_in_reach_and_nothing_on_top_of_each_other() {
    let mut wrong = Vec::new();
    for percent in [120.0, 130.0, 200.0] {
        // The same window has so many points less.
        let (width, height) = (90_000.0 / percent, 60_000.0 / percent);
        for (name, window) in every_window(width, height) {
            let controls = controls(&window);
            let beside = controls.iter().filter(|(_, label, _)| !is_in_table(label));
            let beside: Vec<_> = beside.collect();
            for (number, (role, label, rect)) in beside.iter().enumerate() {
                let at = format!("{percent} %, {name}: {role:?} {label:?} at {rect:?}");
                if rect.left() < 0.0 || rect.right() > width {
                    wrong.push(at.clone());
                }
                // A page scrolls under its answers.
                let is_pinned = ["Start crawling", "Not now"].contains(&label.as_str());
                for (_, other, over) in &beside[number + 1..] {
                    let common = rect.intersect(*over);
                    let is_over = common.width() > 1.0 && common.height() > 1.0;
                    if is_over && !is_pinned {
                        wrong.push(format!("{at} is under {other:?} at {over:?}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_last_screen_is_in_reach_with_the_largest_text() {
    let mut window = Window::open_sized(made_up::model(), 450.0, 300.0);
    window.wheel_down("Overview");
    let log = window.rect(Role::Button, "Log");
    assert!(log.bottom() <= 300.0, "{log:?}");
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
fn what_is_stopped_is_not_said_to_be_empty() {
    let mut model = made_up::empty();
    model.state = peercrawl_ui::model::RunState::Stopped;
    let mut window = Window::open(model);
    window.go(Screen::Queues);
    assert!(window.has("The hosts are listed while it runs") && !window.has("No hosts yet"));
    window.go(Screen::Network);
    assert!(window.has("This computer is not in the network at the moment."));
    assert!(!window.has("No peers yet") && !window.has("takes care of"));
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
