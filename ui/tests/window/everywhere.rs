//! What holds on every screen.

use super::*;
use peercrawl_ui::egui::{Pos2, Shape};

/// Every window that there is: its name, what it draws, and at which screen.
fn every_model() -> Vec<(String, Model, Option<Screen>)> {
    let mut models = Vec::new();
    for screen in Screen::ALL {
        for (name, model) in [("running", made_up::model()), ("empty", made_up::empty())] {
            models.push((format!("{name} {}", screen.name()), model, Some(screen)));
        }
    }
    models.push(("first run".to_owned(), made_up::first_run(), None));
    let mut joining = made_up::model();
    Arc::make_mut(&mut joining.crawl).offer = Some(made_up::offer());
    models.push(("join".to_owned(), joining, None));
    models
}

fn open_at(model: Model, screen: Option<Screen>, width: f32, height: f32) -> Window {
    let mut window = Window::open_sized(model, width, height);
    if let Some(screen) = screen {
        window.go(screen);
    }
    window
}

fn every_window(width: f32, height: f32) -> Vec<(String, Window)> {
    let models = every_model().into_iter();
    models
        .map(|(name, model, screen)| (name, open_at(model, screen, width, height)))
        .collect()
}

#[test]
fn every_control_has_a_label() {
    for (name, window) in every_window(1_280.0, 800.0) {
        for (role, label, rect) in controls(&window) {
            assert!(!label.trim().is_empty(), "{name}: {role:?} at {rect:?}");
        }
    }
}

/// The windows that there is always room for: their size in points, and pixels for each.
const ROOMY: [(f32, f32, f32); 4] = [
    (900.0, 600.0, 1.0),
    (900.0, 600.0, 2.0),
    (1_280.0, 800.0, 1.0),
    (1_280.0, 800.0, 2.0),
];

/// Every window that is so large, and a name for each.
fn every_roomy_window() -> impl Iterator<Item = (String, Window, Rect)> {
    ROOMY.into_iter().flat_map(|(width, height, scale)| {
        every_model().into_iter().map(move |(name, model, screen)| {
            let mut window = open_at(model, screen, width, height);
            window.0.set_pixels_per_point(scale);
            window.0.run();
            let all = Rect::from_min_size(Pos2::ZERO, vec2(width, height));
            (format!("{width}x{height} at {scale}, {name}"), window, all)
        })
    })
}

/// What is written or can be used.
fn things(window: &Window) -> impl Iterator<Item = egui_kittest::Node<'_>> {
    window.0.query_all(By::new().predicate(|node| {
        is_control(node.role()) || matches!(node.role(), Role::Label | Role::Heading)
    }))
}

/// Where it is, in points.
fn place(window: &Window, thing: &egui_kittest::Node<'_>) -> Rect {
    thing.rect() / window.0.ctx.pixels_per_point()
}

/// What is written: the words, where they are, and where nothing of them is cut off.
fn texts(window: &Window) -> Vec<(String, Rect, Rect)> {
    fn inside(shape: &Shape, clip: Rect, found: &mut Vec<(String, Rect, Rect)>) {
        match shape {
            Shape::Vec(shapes) => shapes.iter().for_each(|one| inside(one, clip, found)),
            Shape::Text(text) if !text.galley.is_empty() => {
                let words = text.galley.text().to_owned();
                found.push((words, text.visual_bounding_rect(), clip));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for shape in &window.0.output().shapes {
        inside(&shape.shape, shape.clip_rect, &mut found);
    }
    found
}

/// Only the controls were looked at, and only whether they are in the window.
#[test]
fn nothing_is_cut_off_at_its_sides() {
    let mut wrong = Vec::new();
    for (name, window, all) in every_roomy_window() {
        for thing in things(&window) {
            let rect = place(&window, &thing);
            if rect.left() < all.left() || rect.right() > all.right() {
                wrong.push(format!("{name}: {thing:?} at {rect:?}"));
            }
        }
        // A field is for more text than it shows.
        let is_field = |role| matches!(role, Role::TextInput | Role::MultilineTextInput);
        let fields: Vec<Rect> = things(&window)
            .filter(|thing| is_field(thing.accesskit_node().role()))
            .map(|thing| place(&window, &thing))
            .collect();
        for (words, rect, clip) in texts(&window) {
            let clip = clip.expand(1.0);
            let is_cut = rect.left() < clip.left() || rect.right() > clip.right();
            if is_cut && !fields.iter().any(|field| field.contains(rect.center())) {
                wrong.push(format!("{name}: {words:?} at {rect:?} in {clip:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_below_the_window_can_be_scrolled_to() {
    let mut wrong = Vec::new();
    for (name, mut window, all) in every_roomy_window() {
        let below = |window: &Window, thing: &egui_kittest::Node<'_>| {
            place(window, thing).bottom() > all.bottom() + 1.0
        };
        let lowest = things(&window).max_by(|one, other| {
            let bottom = |thing| place(&window, thing).bottom();
            bottom(one).total_cmp(&bottom(other))
        });
        let lowest = lowest.expect("something");
        if !below(&window, &lowest) {
            continue;
        }
        let words = |thing: &egui_kittest::Node<'_>| {
            let node = thing.accesskit_node();
            (node.role(), node.label(), node.value())
        };
        let wanted = words(&lowest);
        lowest.scroll_to_me();
        window.0.run();
        let mut same = things(&window).filter(|thing| words(thing) == wanted);
        if !same.any(|thing| !below(&window, &thing)) {
            wrong.push(format!("{name}: {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
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

/// What a click on a control sends: the command's name, or nothing. A name that ends with a
/// space is the beginning of a label.
const SENDS: &[(&str, &[&str])] = &[
    ("Pause", &["Pause"]),
    ("PauseFor", &["Pause 1 h"]),
    ("FinishAndStop", &["Finish and stop"]),
    ("BlockSite", &["Block "]),
    ("UnblockSite", &["Unblock "]),
    ("RemoveSeeds", &["Remove "]),
    ("MakeJoinFile", &["Make join file"]),
    ("Browse", &["Choose where…", "Browse…", "Choose a folder…"]),
    ("OpenArchiveFolder", &["Open folder"]),
    ("NotNow", &["Not now"]),
    ("AcceptJoin", &["Join this crawl"]),
    ("DeclineJoin", &["Do not join"]),
    ("Change", CHANGES),
    ("", SILENT),
];
const CHANGES: &[&str] = &[
    "Slow mode",
    "Only the hosts above",
    "The hosts above and others of the same name (www., blog., …)",
    "Use the slow limits now",
    "On battery",
    "On a metered connection",
    "When other programs keep the processor busy",
    "May become a supernode",
    "Start at login",
    "Crawl only at these hours",
];
/// Ways to other screens, fields, filters, what asks first, and what has nothing to do yet.
#[rustfmt::skip]
const SILENT: &[&str] = &[
    "Overview", "Activity", "Queues", "Network", "Crawl", "Archive", "Limits", "Log",
    "1 min", "5 min", "30 min", "6 h", "24 h",
    "Search in results", "Show all results", "Show only: ", "Search hosts", "Sort by ",
    "Search peers", "Copy my address", "Peer's address", "Add peer",
    "Web addresses to add", "Add web site", "Anywhere that links lead",
    "Links to follow from there at most", "Write a join file to", "Open a join file",
    "Open join file", "Web address", "Look up", "Disk limit", "Drop the oldest…",
    "Move the files to", "Move files", "Download", "Upload", "Monthly data", "Disk", "Pages",
    "Connections", "Processor", "Slow download", "Slow upload",
    "While somebody uses the computer", "Kind of network", "Theme", "Closing the window",
    "Text size", "Search in log", "Everything", "Events", "Warnings", "Errors", "Copy",
    "A web site", "A join file from a friend", "A friend's computer",
    "The demo: a made-up web on this computer, nothing leaves it", "Start crawling",
];

/// What a click on the control of this label sends, and the name that it was found by.
fn sends(label: &str) -> Option<(&'static str, &'static str)> {
    let is_of = |known: &str| match known.ends_with(' ') {
        true => label.starts_with(known),
        false => label == known,
    };
    SENDS.iter().find_map(|&(sends, names)| {
        let known = names.iter().find(|known| is_of(known))?;
        Some((sends, *known))
    })
}

/// A new control fails here until it is known what it sends.
#[test]
fn every_control_is_known_and_sends_what_it_should() {
    let mut clicked = std::collections::BTreeSet::new();
    for (name, model, screen) in every_model() {
        let open = || open_at(model.clone(), screen, 1_280.0, 1_800.0);
        for (role, label, _) in controls(&open()) {
            let found = sends(&label);
            assert!(found.is_some(), "{name}: {role:?} {label:?} is not known");
            let (expected, known) = found.unwrap_or_default();
            if !clicked.insert(known) {
                continue;
            }
            let mut window = open();
            let control = By::new().label(&label);
            let control = control.predicate(move |node| node.role() == role);
            let control = window.0.query_all(control).next();
            control.expect("a control").click();
            window.0.run();
            let sent = window.sent().first().map(|first| format!("{first:?}"));
            let sent = sent.unwrap_or_default();
            let command = sent.split(['(', ' ']).next().unwrap_or_default();
            assert_eq!(command, expected, "{name}: {label:?}");
        }
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

/// The scales of the graphs took the keyboard, and a screen reader had nothing to say there.
#[test]
fn the_keyboard_stops_only_where_there_is_something_with_a_name() {
    for screen in Screen::ALL {
        let mut window = Window::at(screen);
        for stop in 0..40 {
            let name = window.tab();
            assert!(!name.is_empty(), "{screen:?}, stop {stop}");
        }
    }
}
