//! The status bar, the rail, shortcuts and toasts.

use super::*;
use peercrawl_ui::egui::ViewportCommand;
use peercrawl_ui::model::{Demo, Notice, PauseReason, RunState, Settings, ThemeChoice, WaitReason};
use std::time::Duration;

#[test]
fn the_status_is_on_every_screen() {
    let mut window = Window::open(made_up::model());
    for screen in Screen::ALL {
        window.go(screen);
        assert_eq!(window.shown().screen, screen);
        assert!(window.has("Crawling · 12 peers · 34 pages/s"));
        assert!(window.has("212 KiB/s") && window.has("18 KiB/s"));
        for button in ["Pause", "Pause 1 h", "Finish and stop"] {
            window.0.get_by_role_and_label(Role::Button, button);
        }
    }
}

/// It used to show an Overview at midnight, in other colours, before the first page came.
#[test]
fn a_window_that_was_just_opened_is_empty_in_its_own_colours() {
    for theme in [ThemeChoice::Light, ThemeChoice::Dark] {
        let settings = Settings {
            theme,
            ..Settings::default()
        };
        let mut window = Window::open(Model {
            settings: Arc::new(settings),
            ..Model::default()
        });
        assert_eq!(controls(&window), []);
        assert!(!window.has("Overview"));
        let is_dark = window.0.ctx.global_style().visuals.dark_mode;
        assert_eq!(is_dark, theme == ThemeChoice::Dark);
        window.shortcut(Key::P);
        assert_eq!(window.sent(), [], "nothing is asked for yet");
        window.change(|model| *model = made_up::model());
        assert!(window.has("Crawling · 12 peers · 34 pages/s"));
    }
}

#[test]
fn the_main_buttons_send_what_they_say() {
    let mut window = Window::open(made_up::model());
    window.press("Pause");
    assert_eq!(window.sent(), [Command::Pause]);
    assert!(window.has("Paused by you"));
    window.press("Start");
    assert_eq!(window.sent(), [Command::Start]);
    window.press("Pause 1 h");
    assert_eq!(window.sent(), [Command::PauseFor { minutes: 60 }]);
    assert!(window.has("Paused until 17:40"));
    window.press("Start");
    window.sent();
    window.press("Finish and stop");
    assert_eq!(window.sent(), [Command::FinishAndStop]);
    assert!(window.has("Finishing: 6 pages under way"));
    window.undo();
    assert_eq!(window.sent(), [Command::Start]);
}

/// It used to start what had been paused.
#[test]
fn finish_is_undone_to_what_it_was() {
    let at_ms = made_up::NOW_MS + 90_000;
    for (reason, back) in [
        (PauseReason::ByYou, Command::Pause),
        (
            PauseReason::Until { at_ms },
            Command::PauseFor { minutes: 2 },
        ),
        (PauseReason::OnBattery, Command::Start),
    ] {
        let mut window = Window::open(made_up::model());
        window.change(|model| model.state = RunState::Paused(reason));
        window.press("Finish and stop");
        window.undo();
        assert_eq!(window.sent(), [Command::FinishAndStop, back]);
    }
}

#[test]
fn what_needs_the_volunteer_but_runs_can_be_paused() {
    let needs_you = |is_running, tries_again| RunState::NeedsYou {
        text: "Look at this.".to_owned(),
        is_running,
        tries_again,
    };
    let mut window = Window::open(made_up::model());
    window.change(|model| model.state = needs_you(true, false));
    window.press("Pause 1 h");
    assert_eq!(window.sent(), [Command::PauseFor { minutes: 60 }]);
    window.change(|model| model.state = needs_you(true, false));
    window.press("Pause");
    assert_eq!(window.sent(), [Command::Pause]);
    window.change(|model| model.state = needs_you(false, false));
    window.press("Finish and stop");
    assert_eq!(window.sent(), [], "there is nothing to finish");
    window.press("Start");
    assert_eq!(window.sent(), [Command::Start]);
    // What tries again by itself is started at once, or told to give up.
    window.change(|model| model.state = needs_you(false, true));
    window.press("Start");
    assert_eq!(window.sent(), [Command::Start]);
    window.change(|model| model.state = needs_you(false, true));
    window.press("Finish and stop");
    assert_eq!(window.sent(), [Command::FinishAndStop]);
}

#[test]
fn the_sentence_gives_the_reason_of_a_pause() {
    let mut window = Window::open(made_up::model());
    window.change(|model| model.state = RunState::Paused(PauseReason::OnBattery));
    assert!(window.has("Paused: on battery"));
    let until_ms = made_up::NOW_MS + 3 * 86_400_000;
    window.change(|model| model.state = RunState::Paused(PauseReason::QuotaUsed { until_ms }));
    assert!(window.has("monthly data used up, goes on 19 Nov"));
    window.change(|model| model.state = RunState::Stopped);
    assert!(window.has("Not started yet"));
    window.change(|model| model.has_run = true);
    assert!(window.has("Stopped by you"));
}

#[test]
fn the_sentence_says_what_is_waited_for() {
    let schedule = |until_ms| RunState::Paused(PauseReason::Schedule { until_ms });
    let mut window = Window::open(made_up::model());
    for (state, words) in [
        (
            RunState::Waiting(WaitReason::Offline),
            "Waiting: no internet connection",
        ),
        (
            RunState::Waiting(WaitReason::NoAddresses),
            "Waiting: nothing to fetch at the moment · 12 peers",
        ),
        (schedule(None), "Paused by the schedule"),
        (
            schedule(Some(made_up::NOW_MS + 20 * 60_000)),
            "Paused by the schedule until 17:00",
        ),
        (
            schedule(Some(made_up::NOW_MS + 86_400_000)),
            "Paused by the schedule until 17 Nov, 16:40",
        ),
    ] {
        window.change(|model| model.state = state);
        window.0.get_by_label(words);
    }
}

#[test]
fn start_is_not_offered_where_it_could_do_nothing() {
    let mut window = Window::open(made_up::model());
    let until_ms = Some(made_up::NOW_MS + 60_000);
    for (reason, button, screen) in [
        (
            PauseReason::Schedule { until_ms },
            "Change when it pauses…",
            Screen::Limits,
        ),
        (
            PauseReason::OnBattery,
            "Change when it pauses…",
            Screen::Limits,
        ),
        (PauseReason::ArchiveFull, "Make room…", Screen::Archive),
        (
            PauseReason::QuotaUsed {
                until_ms: made_up::NOW_MS,
            },
            "Change the limit…",
            Screen::Limits,
        ),
    ] {
        window.go(Screen::Overview);
        window.change(|model| model.state = RunState::Paused(reason));
        let start = window.0.query_by_role_and_label(Role::Button, "Start");
        assert!(start.is_none(), "{reason:?}");
        window.press(button);
        assert_eq!(window.shown().screen, screen);
        window.press("Pause");
        assert_eq!(window.sent(), [Command::Pause]);
    }
}

#[test]
fn what_the_volunteer_should_know_is_on_every_screen_while_it_is_so() {
    let mut window = Window::open_sized(made_up::model(), 900.0, 600.0);
    let words = "9 of the 20 sites asked lately have turned this computer away";
    assert!(!window.has(words));
    let text = format!("{words}, so PeerCrawl now fetches at half of its usual speed.");
    window.change(|model| model.warnings = vec![text]);
    for screen in Screen::ALL {
        window.go(screen);
        assert!(window.has(words), "{}", screen.name());
    }
    window.change(|model| model.warnings.clear());
    assert!(!window.has(words));
}

#[test]
fn a_demo_says_what_it_is_and_can_be_left() {
    let mut model = made_up::model();
    model.demo = Some(Demo { can_leave: true });
    let mut window = Window::open(model);
    for screen in Screen::ALL {
        window.go(screen);
        assert!(window.has("A demo on a made-up web"), "{}", screen.name());
    }
    window.go(Screen::Archive);
    assert!(window.has("A demo keeps nothing") && !window.has("402,117 pages"));
    window.go(Screen::Crawl);
    assert!(window.0.query(fields("Web addresses to add")).is_none());
    window.press("Leave the demo");
    assert_eq!(window.sent(), [Command::LeaveDemo]);
    // A window that was opened for the demo has nothing to go back to.
    window.change(|model| model.demo = Some(Demo::default()));
    assert!(!window.has("Leave the demo"));
}

#[test]
fn a_demo_takes_no_line_of_its_own_where_it_fits_beside_the_buttons() {
    let mut model = made_up::model();
    model.demo = Some(Demo { can_leave: true });
    let mut window = Window::open_sized(model, 900.0, 600.0);
    let places = |window: &Window| {
        let words = window.0.get_by_label_contains("A demo on a made-up web");
        [
            window.rect(Role::Button, "Finish and stop"),
            words.rect(),
            window.rect(Role::Button, "Leave the demo"),
            window.rect(Role::CheckBox, "Slow mode"),
        ]
    };
    let row = places(&window);
    let is_apart = |pair: &[Rect]| pair[0].right() < pair[1].left();
    assert!(row.windows(2).all(is_apart), "{row:?}");
    // One button more leaves no room for it.
    window.change(|model| model.state = RunState::Paused(PauseReason::OnBattery));
    let [_, words, leave, slow] = places(&window);
    assert!(words.top() >= slow.bottom() && leave.top() >= slow.bottom());
}

#[test]
fn slow_mode_shows_at_once_and_stays_if_the_model_agrees() {
    let mut window = Window::open(made_up::model());
    window.click(Role::CheckBox, "Slow mode");
    assert_eq!(window.sent(), changed(Setting::SlowMode(true)));
    assert!(window.has("Download graph: now 212 KiB/s, limit 64 KiB/s"));
    window.click(Role::CheckBox, "Slow mode");
    assert_eq!(window.sent(), changed(Setting::SlowMode(false)));
}

#[test]
fn the_keyboard_does_the_same() {
    let mut window = Window::open(made_up::model());
    window.shortcut(Key::Num3);
    assert_eq!(window.shown().screen, Screen::Queues);
    window.shortcut(Key::P);
    window.shortcut(Key::P);
    window.shortcut(Key::L);
    window.shortcut(Key::H);
    window.shortcut(Key::Plus);
    assert_eq!(
        window.sent(),
        [
            Command::Pause,
            Command::Start,
            Command::Change(Setting::SlowMode(true)),
            Command::PauseFor { minutes: 60 },
            Command::Change(Setting::TextPercent(110)),
        ]
    );
    window.shortcut(Key::Num0);
    window.shortcut(Key::Minus);
    window.shortcut(Key::Num0);
    let sizes = [100, 90, 100].map(|percent| Command::Change(Setting::TextPercent(percent)));
    assert_eq!(window.sent(), sizes);
    window.shortcut(Key::P);
    window.shortcut(Key::E);
    assert_eq!(window.sent(), [Command::Start, Command::FinishAndStop]);
}

#[test]
fn each_search_field_is_reached_by_keyboard() {
    for (screen, label) in [
        (Screen::Activity, "Search in results"),
        (Screen::Queues, "Search hosts"),
        (Screen::Network, "Search peers"),
        (Screen::Archive, "Web address"),
        (Screen::Log, "Search in log"),
    ] {
        let mut window = Window::at(screen);
        assert!(!window.0.get(fields(label)).is_focused(), "{label}");
        window.shortcut(Key::F);
        assert!(window.0.get(fields(label)).is_focused(), "{label}");
    }
}

#[test]
fn the_tab_key_goes_through_the_controls_in_their_order() {
    let mut window = Window::open(made_up::model());
    let order: Vec<String> = (0..5).map(|_| window.tab()).collect();
    let expected = [
        "Pause",
        "Pause 1 h",
        "Finish and stop",
        "Slow mode",
        "Overview",
    ];
    assert_eq!(order, expected);
}

#[test]
fn another_layout_is_drawn_twice_and_then_the_window_sleeps() {
    let mut window = Window::open(made_up::first_run());
    let mut is_drawn_again = |change: fn(&mut Model)| {
        change(Arc::make_mut(&mut window.0.state_mut().backend_mut().model));
        window.0.step();
        let mut viewports = window.0.output().viewport_output.values();
        let wants_more = viewports.any(|one| one.repaint_delay < Duration::from_secs(1));
        window.0.run_steps(4);
        wants_more
    };
    assert!(is_drawn_again(|model| model.first_run = None));
    assert!(!is_drawn_again(|model| model.rates.pages_per_s = 3.0));
    assert!(is_drawn_again(|model| model
        .warnings
        .push("Beware.".to_owned())));
    let notice = |model: &mut Model| {
        model.notices = vec![Notice {
            id: 1,
            text: "Done.".to_owned(),
            failed: false,
        }];
    };
    assert!(is_drawn_again(notice));
    assert!(!is_drawn_again(|model| model.rates.pages_per_s = 2.0));
}

#[test]
fn a_notice_is_shown_once_and_goes_away() {
    let mut window = Window::open(made_up::model());
    let notice = Notice {
        id: 7,
        text: "The join file is written.".to_owned(),
        failed: false,
    };
    window.change(|model| model.notices = vec![notice]);
    assert!(window.has("The join file is written."));
    // Each step is a quarter of a second.
    window.0.run_steps(40);
    assert!(!window.has("The join file is written."));
}

#[test]
fn a_notice_stays_while_the_pointer_is_on_it() {
    let mut window = Window::open(made_up::model());
    let notice = Notice {
        id: 7,
        text: "The join file is written.".to_owned(),
        failed: false,
    };
    window.change(|model| model.notices = vec![notice]);
    window.0.get_by_label("The join file is written.").hover();
    window.0.run_steps(60);
    assert!(window.has("The join file is written."));
    window.0.hover_at(peercrawl_ui::egui::pos2(600.0, 600.0));
    window.0.run_steps(60);
    assert!(!window.has("The join file is written."));
}

#[test]
fn the_newest_is_undone_by_keyboard_unless_text_is_typed() {
    let mut window = Window::at(Screen::Queues);
    window.press("Block site-1.example.org");
    window.press("Block site-2.example.org");
    window.sent();
    window.shortcut(Key::Z);
    let unblocked = |host: &str| [Command::UnblockSite(host.to_owned())];
    assert_eq!(window.sent(), unblocked("site-2.example.org"));
    window.0.get(fields("Search hosts")).focus();
    window.0.run();
    window.shortcut(Key::Z);
    assert_eq!(window.sent(), []);
    window.undo();
    assert_eq!(window.sent(), unblocked("site-1.example.org"));
}

/// The oldest made room even under the pointer, and the next one slid into its place.
#[test]
fn the_undo_that_is_about_to_be_pressed_stays_what_it_is() {
    let mut window = Window::at(Screen::Queues);
    window.press("Block site-1.example.org");
    window.press("Block site-2.example.org");
    window.sent();
    let undo = "Undo: site-2.example.org is blocked, with all hosts under it: what waits for them \
                is dropped.";
    window.0.get_by_role_and_label(Role::Button, undo).focus();
    window.0.run_steps(4);
    let notice = |id| Notice {
        id,
        text: format!("Notice {id}."),
        failed: false,
    };
    let model = Arc::make_mut(&mut window.0.state_mut().backend_mut().model);
    model.notices = (1..=3).map(notice).collect();
    window.0.run_steps(4);
    assert!(!window.has("Undo: site-1.example.org"), "it made room");
    assert!(!window.has("Notice 1.") && window.has("Notice 3."));
    window.key(Key::Enter);
    let unblocked = Command::UnblockSite("site-2.example.org".to_owned());
    assert_eq!(window.sent(), [unblocked]);
}

/// They used to act on the crawl behind the page.
#[test]
fn a_join_file_is_answered_before_any_shortcut() {
    let mut window = Window::open(made_up::model());
    window.change(|model| Arc::make_mut(&mut model.crawl).offer = Some(made_up::offer()));
    window.shortcut(Key::P);
    window.shortcut(Key::E);
    assert_eq!(window.sent(), []);
}

#[test]
fn a_shortcut_closes_the_window() {
    let mut window = Window::open(made_up::model());
    window.0.event(Event::Key {
        key: Key::W,
        physical_key: None,
        pressed: true,
        repeat: false,
        modifiers: Modifiers::COMMAND,
    });
    window.0.step();
    let mut viewports = window.0.output().viewport_output.values();
    assert!(viewports.any(|one| one.commands.contains(&ViewportCommand::Close)));
}

#[test]
fn the_keys_for_pages_scroll() {
    let mut window = Window::open_sized(made_up::model(), 900.0, 600.0);
    window.go(Screen::Limits);
    let top = |window: &Window| window.0.get_by_label("Limits and settings").rect().top();
    let first = top(&window);
    window.key(Key::PageDown);
    let second = top(&window);
    assert!(second < first);
    window.key(Key::End);
    assert!(top(&window) < second);
    window.key(Key::Home);
    assert!((top(&window) - first).abs() < 1.0);
    window.go(Screen::Queues);
    window.key(Key::End);
    // The rows there have to come first.
    window.0.run();
    assert!(window.has("site-99999.example.org"));
    window.key(Key::PageUp);
    assert!(!window.has("site-99999.example.org"));
    // The log stays at its end until it is scrolled.
    window.go(Screen::Log);
    window.0.run();
    assert!(!window.has("16:20:07"));
    window.key(Key::Home);
    window.0.run();
    assert!(window.has("16:20:07"));
}

/// What had the focus used to be below the window.
#[test]
fn the_focus_stays_in_sight() {
    let mut window = Window::open_sized(made_up::model(), 900.0, 600.0);
    window.change(|model| Arc::make_mut(&mut model.settings).schedule_on = true);
    window.go(Screen::Limits);
    let tabs = (0..120).position(|_| window.tab() == "Sunday to");
    assert!(tabs.is_some(), "it is reached");
    let field = By::new()
        .label("Sunday to")
        .predicate(|node| node.is_focused());
    let field = window.0.get(field).rect();
    assert!(field.bottom() <= 600.0, "{field:?}");
}
