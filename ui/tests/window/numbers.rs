//! Fields for numbers, wherever they are.

use super::*;
use peercrawl_ui::egui::accesskit::{Action, ActionData, ActionRequest};
use peercrawl_ui::egui::{Pos2, pos2};
use peercrawl_ui::model::{DayHours, PauseReason, RunState};

const DEPTH: &str = "Links to follow from there at most";

/// A window at this screen, where a schedule is kept: from seven on Mondays.
fn at(screen: Screen) -> Window {
    let mut model = made_up::model();
    let settings = Arc::make_mut(&mut model.settings);
    settings.schedule_on = true;
    settings.schedule[0].from_hour = 7;
    let mut window = Window::open(model);
    window.go(screen);
    window
}

fn from_hour(hour: u8) -> Setting {
    let mut days = [DayHours::default(); 7];
    days[0].from_hour = hour;
    Setting::Schedule(days)
}

/// Takes hold of a number and moves it to the right, in two steps; gives where it is held.
fn drag(window: &mut Window, label: &str, points: f32) -> Pos2 {
    let from = window.rect(Role::SpinButton, label).center();
    window.0.hover_at(from);
    window.0.drag_at(from);
    let to = pos2(from.x + points, from.y);
    window.0.hover_at(from.lerp(to, 0.5));
    window.0.hover_at(to);
    window.0.run();
    to
}

fn let_go(window: &mut Window, at: Pos2) {
    window.0.drop_at(at);
    window.0.run();
}

/// Every value on the way was set at once, no limit at the end of it too, and a small limit of
/// the archive cost its oldest files.
#[test]
fn a_number_that_is_dragged_is_sent_once_it_is_let_go_of() {
    for (screen, label, end, setting) in [
        (
            Screen::Limits,
            "Upload",
            "1 KiB/s",
            Setting::UploadKibPerS(1),
        ),
        (Screen::Limits, "Disk", "1 GB", Setting::DiskGb(1)),
        (Screen::Archive, "Disk limit", "1 GB", Setting::DiskGb(1)),
        (Screen::Limits, "Monday from", "0:00", from_hour(0)),
        (Screen::Crawl, DEPTH, "0", Setting::MaxDepth(0)),
    ] {
        let mut window = at(screen);
        let held = drag(&mut window, label, -600.0);
        assert_eq!(window.number(label).as_deref(), Some(end), "{label}");
        assert_eq!(window.sent(), [], "{label}");
        let_go(&mut window, held);
        assert_eq!(window.sent(), changed(setting), "{label}");
        assert_eq!(window.number(label).as_deref(), Some(end), "{label}");
    }
}

#[test]
fn a_limit_can_be_dragged_out_of_no_limit() {
    let mut window = at(Screen::Limits);
    window.set_number("Disk", "0");
    window.sent();
    let held = drag(&mut window, "Disk", 400.0);
    assert_eq!(window.sent(), []);
    let_go(&mut window, held);
    assert_eq!(window.sent(), changed(Setting::DiskGb(100)));
}

#[test]
fn what_is_dragged_while_its_screen_goes_is_forgotten() {
    let mut window = at(Screen::Limits);
    let held = drag(&mut window, "Upload", -600.0);
    window.shortcut(Key::Num1);
    let_go(&mut window, held);
    window.go(Screen::Limits);
    assert_eq!(window.number("Upload").as_deref(), Some("64 KiB/s"));
    assert_eq!(window.sent(), []);
}

/// As a screen reader does it.
fn ask(window: &mut Window, label: &str, action: Action) {
    ask_with(window, label, action, None);
}

fn set_by_reader(window: &mut Window, label: &str, number: f64) {
    let number = ActionData::NumericValue(number);
    ask_with(window, label, Action::SetValue, Some(number));
}

fn ask_with(window: &mut Window, label: &str, action: Action, data: Option<ActionData>) {
    let field = window.0.get_by_role_and_label(Role::SpinButton, label);
    let (target_node, target_tree) = field.accesskit_node().locate();
    let request = ActionRequest {
        action,
        target_node,
        target_tree,
        data,
    };
    window.0.event(Event::AccessKitActionRequest(request));
    window.0.run();
}

/// 0 was taken for the end of a drag, and became 1.
#[test]
fn what_a_screen_reader_sets_is_taken_as_it_is() {
    for (screen, label, number, setting) in [
        (Screen::Limits, "Download", 0.0, Setting::DownloadKibPerS(0)),
        (Screen::Limits, "Connections", 0.0, Setting::Connections(0)),
        (Screen::Limits, "Upload", 0.5, Setting::UploadKibPerS(1)),
        (Screen::Limits, "Processor", 300.0, Setting::CpuPercent(100)),
        (Screen::Archive, "Disk limit", 0.0, Setting::DiskGb(0)),
        (Screen::Crawl, DEPTH, 3.0, Setting::MaxDepth(3)),
    ] {
        let mut window = at(screen);
        let field = window.0.get_by_role_and_label(Role::SpinButton, label);
        let least = field.accesskit_node().min_numeric_value();
        assert_eq!(least, Some(0.0), "{label}");
        set_by_reader(&mut window, label, number);
        assert_eq!(window.sent(), changed(setting.clone()), "{label}");
        // Also while it has the keyboard, which does not have to leave it for that.
        let mut window = at(screen);
        window.click(Role::SpinButton, label);
        set_by_reader(&mut window, label, number);
        assert_eq!(window.sent(), changed(setting), "{label}");
        window.key(Key::Enter);
        assert_eq!(window.sent(), [], "{label}");
    }
}

/// Of 128 that are set and 10 that are possible, a step up made 10.
#[test]
fn a_step_from_out_of_range_is_a_step() {
    let open = || {
        let mut model = made_up::model();
        model.abilities.most_fetches = 10;
        Arc::make_mut(&mut model.settings).connections = 128;
        let mut window = Window::open(model);
        window.go(Screen::Limits);
        window
    };
    for (key, action, sent) in [
        (Key::ArrowUp, Action::Increment, vec![]),
        (
            Key::ArrowDown,
            Action::Decrement,
            changed(Setting::Connections(127)),
        ),
    ] {
        let mut window = open();
        window.click(Role::SpinButton, "Connections");
        window.key(key);
        window.key(Key::Enter);
        assert_eq!(window.sent(), sent, "{key:?}");
        let mut window = open();
        ask(&mut window, "Connections", action);
        assert_eq!(window.sent(), sent, "{action:?}");
    }
    let mut window = open();
    let held = drag(&mut window, "Connections", 40.0);
    let_go(&mut window, held);
    assert_eq!(window.sent(), []);
    window.set_number("Connections", "200");
    assert_eq!(window.sent(), changed(Setting::Connections(10)));
}

/// A step was a part of one and lost, or as many as a point of dragging is.
#[test]
fn an_arrow_key_or_a_screen_reader_changes_a_number_by_one() {
    let fields: [(Screen, &str, Setting, Setting); 5] = [
        (
            Screen::Limits,
            "Download",
            Setting::DownloadKibPerS(257),
            Setting::DownloadKibPerS(255),
        ),
        (
            Screen::Limits,
            "Disk",
            Setting::DiskGb(11),
            Setting::DiskGb(9),
        ),
        (Screen::Limits, "Monday from", from_hour(8), from_hour(6)),
        (
            Screen::Limits,
            "Text size",
            Setting::TextPercent(101),
            Setting::TextPercent(99),
        ),
        (
            Screen::Crawl,
            DEPTH,
            Setting::MaxDepth(101),
            Setting::MaxDepth(99),
        ),
    ];
    for (screen, label, more, less) in fields {
        for (key, action, setting) in [
            (Key::ArrowUp, Action::Increment, more),
            (Key::ArrowDown, Action::Decrement, less),
        ] {
            let mut window = at(screen);
            window.click(Role::SpinButton, label);
            window.key(key);
            assert_eq!(window.sent(), [], "{label}: there may be more to come");
            window.key(Key::Enter);
            assert_eq!(window.sent(), changed(setting.clone()), "{label}");
            let mut window = at(screen);
            ask(&mut window, label, action);
            assert_eq!(window.sent(), changed(setting), "{label}");
        }
    }
}

/// The hour that is set was told until the step was taken over.
#[test]
fn a_step_is_told_to_a_screen_reader_at_once() {
    for (screen, label, number) in [
        (Screen::Limits, "Monday from", 8.0),
        (Screen::Limits, "Download", 257.0),
    ] {
        let mut window = at(screen);
        window.click(Role::SpinButton, label);
        window.key(Key::ArrowUp);
        let field = window.0.get_by_role_and_label(Role::SpinButton, label);
        let told = field.accesskit_node().numeric_value();
        assert_eq!(told, Some(number), "{label}");
        assert_eq!(window.sent(), [], "{label}");
    }
}

#[test]
fn no_limit_is_typed_and_not_met_below_one() {
    let mut window = at(Screen::Limits);
    window.set_number("Disk", "1");
    window.sent();
    window.click(Role::SpinButton, "Disk");
    window.key(Key::ArrowDown);
    window.key(Key::Enter);
    ask(&mut window, "Disk", Action::Decrement);
    assert_eq!(window.sent(), []);
    assert_eq!(window.number("Disk").as_deref(), Some("1 GB"));
    window.set_number("Disk", "0");
    assert_eq!(window.sent(), changed(Setting::DiskGb(0)));
    window.click(Role::SpinButton, "Disk");
    window.key(Key::ArrowUp);
    window.key(Key::ArrowUp);
    assert_eq!(window.number("Disk").as_deref(), Some("2 GB"));
    window.key(Key::Escape);
    assert_eq!(window.sent(), [], "it is taken back");
    assert_eq!(window.number("Disk").as_deref(), Some("no limit"));
}

/// The field went back to its number without a word.
#[test]
fn what_cannot_be_a_limit_is_said_once_and_changes_nothing() {
    let ways: [fn(&mut Window); 4] = [
        |window| window.key(Key::Enter),
        |window| {
            window.tab();
        },
        |window| window.click(Role::SpinButton, "Upload"),
        |window| window.shortcut(Key::Num1),
    ];
    for text in ["fast", "1.2.3", "-5", "0.5", "500 MB"] {
        for leave in ways {
            let mut window = Window::at(Screen::Limits);
            window.type_number("Download", text);
            leave(&mut window);
            window.0.run_steps(2);
            let words = format!("“{text}” cannot be a limit: Download stays as it was.");
            let said = window.0.query_all_by_label_contains(&words).count();
            assert_eq!(said, 1, "{text}");
            assert_eq!(window.sent(), []);
            window.go(Screen::Limits);
            assert_eq!(window.number("Download").as_deref(), Some("256 KiB/s"));
        }
    }
}

/// A limit that was only emptied was none at all from then on.
#[test]
fn an_emptied_field_stays_as_it_was_and_says_so() {
    let ways: [fn(&mut Window); 3] = [
        |window| window.key(Key::Enter),
        |window| window.press("Overview"),
        |window| window.shortcut(Key::Num1),
    ];
    for (screen, label) in [
        (Screen::Limits, "Download"),
        (Screen::Limits, "Monday from"),
        (Screen::Archive, "Disk limit"),
        (Screen::Crawl, DEPTH),
    ] {
        for leave in ways {
            let mut window = at(screen);
            let before = window.number(label);
            window.click(Role::SpinButton, label);
            window.0.key_press_modifiers(Modifiers::COMMAND, Key::A);
            window.key(Key::Backspace);
            leave(&mut window);
            assert_eq!(window.sent(), [], "{label}");
            let words = format!("Nothing was typed: {label} stays as it was.");
            assert!(window.has(&words), "{label}");
            window.go(screen);
            assert_eq!(window.number(label), before, "{label}");
        }
    }
}

/// They went back to their number without a word.
#[test]
fn what_cannot_be_a_number_is_said_of_every_field() {
    for (screen, label, what) in [
        (Screen::Limits, "Text size", "a size"),
        (Screen::Limits, "Monday from", "an hour"),
        (Screen::Archive, "Disk limit", "a limit"),
        (Screen::Crawl, DEPTH, "a number of links"),
    ] {
        let mut window = at(screen);
        let before = window.number(label);
        window.set_number(label, "7:30");
        assert!(window.has(&format!(
            "“7:30” cannot be {what}: {label} stays as it was."
        )));
        assert_eq!(window.sent(), [], "{label}");
        assert_eq!(window.number(label), before, "{label}");
    }
}

/// egui took it over nevertheless, one frame later.
#[test]
fn escape_takes_back_what_was_typed() {
    for (screen, label, text) in [
        (Screen::Limits, "Download", "80"),
        (Screen::Limits, "Download", "fast"),
        (Screen::Limits, "Text size", "80"),
        (Screen::Limits, "Monday from", "8"),
        (Screen::Archive, "Disk limit", "80"),
        (Screen::Crawl, DEPTH, "80"),
    ] {
        let mut window = at(screen);
        window.type_number(label, text);
        window.key(Key::Escape);
        window.0.run_steps(2);
        assert_eq!(window.sent(), [], "{label}");
        assert!(!window.has("cannot be"), "{label}");
    }
}

/// Its field was gone before it took the number over.
#[test]
fn a_number_that_was_typed_without_enter_outlives_its_screen() {
    let mut days = [DayHours::default(); 7];
    days[0].from_hour = 7;
    let fields = [
        (Screen::Limits, "Download", Setting::DownloadKibPerS(7)),
        (Screen::Limits, "Monday from", Setting::Schedule(days)),
        (Screen::Archive, "Disk limit", Setting::DiskGb(7)),
        (Screen::Crawl, DEPTH, Setting::MaxDepth(7)),
    ];
    let ways: [fn(&mut Window); 4] = [
        |window| window.press("Overview"),
        |window| window.press_by_reader("Overview"),
        |window| window.shortcut(Key::Num1),
        |window| window.press("Make room…"),
    ];
    for (screen, label, setting) in fields {
        for (number, leave) in ways.into_iter().enumerate() {
            let mut model = made_up::model();
            model.state = RunState::Paused(PauseReason::ArchiveFull);
            Arc::make_mut(&mut model.settings).schedule_on = true;
            let mut window = Window::open(model);
            window.go(screen);
            window.type_number(label, "7");
            leave(&mut window);
            let sent = window.sent();
            assert_eq!(sent, changed(setting.clone()), "{label}, way {number}");
            let expected = [Screen::Overview, Screen::Archive][number / 3];
            assert_eq!(window.shown().screen, expected);
        }
    }
}
