//! Closing the window.

use super::*;
use peercrawl_ui::egui::{UserAttentionType, ViewportCommand, ViewportEvent};
use peercrawl_ui::model::{Demo, OnClose, RunState};

fn close(window: &mut Window) {
    let viewports = &mut window.0.input_mut().viewports;
    let root = viewports.values_mut().next().expect("a window");
    root.events.push(ViewportEvent::Close);
    window.0.step();
    let viewports = &mut window.0.input_mut().viewports;
    let root = viewports.values_mut().next().expect("a window");
    root.events.clear();
    window.0.run();
}

#[test]
fn closing_asks_whether_to_keep_crawling() {
    let mut window = Window::open(made_up::model());
    close(&mut window);
    window.press("Cancel");
    assert_eq!(window.sent(), []);
    close(&mut window);
    window.key(Key::Escape);
    assert!(!window.has("Keep crawling without the window?"));
    assert_eq!(window.sent(), []);
    close(&mut window);
    // It asks once, unless the volunteer wants to be asked each time.
    window.click(Role::CheckBox, "Do not ask again");
    window.press("Keep crawling");
    assert_eq!(window.sent(), [Command::Hidden]);
    close(&mut window);
    window.press("Stop and quit");
    let remembered = Command::Change(Setting::OnClose(OnClose::Quit));
    assert_eq!(window.sent(), [remembered, Command::Quit]);
}

/// Wayland hides no window: it stayed, and stood still because no model came any more.
#[test]
fn on_wayland_the_window_is_minimised_and_goes_on() {
    let mut window = Window::open_as(made_up::model(), 1_280.0, 1_800.0, App::on_wayland);
    close(&mut window);
    assert!(window.has("with its window minimised"));
    window
        .0
        .get_by_role_and_label(Role::Button, "Keep crawling")
        .click();
    let commands = viewport_commands(&mut window);
    assert!(commands.contains(&ViewportCommand::Minimized(true)));
    assert!(!commands.contains(&ViewportCommand::Visible(false)));
    let remembered = changed(Setting::OnClose(OnClose::KeepCrawling));
    assert_eq!(window.sent(), remembered, "and nothing of being hidden");
}

/// What the next frames ask of the window itself.
fn viewport_commands(window: &mut Window) -> Vec<ViewportCommand> {
    let mut commands = Vec::new();
    for _ in 0..4 {
        window.0.step();
        let viewports = window.0.output().viewport_output.values();
        commands.extend(viewports.flat_map(|one| one.commands.clone()));
    }
    commands
}

/// On Wayland nothing happened: no window can come to the front by itself there.
#[test]
fn a_window_that_is_called_comes_to_the_front_or_asks_to_be_looked_at() {
    let call = |mut window: Window, has_focus: bool| {
        let viewports = &mut window.0.input_mut().viewports;
        let root = viewports.values_mut().next().expect("a window");
        root.focused = Some(has_focus);
        window.0.step();
        Arc::make_mut(&mut window.0.state_mut().backend_mut().model).raise_window += 1;
        viewport_commands(&mut window)
    };
    let wayland = || Window::open_as(made_up::model(), 1_280.0, 1_800.0, App::on_wayland);
    let front = [
        ViewportCommand::Visible(true),
        ViewportCommand::Minimized(false),
        ViewportCommand::Focus,
    ];
    let asks = ViewportCommand::RequestUserAttention(UserAttentionType::Critical);
    // Once, and on X11 not at all: there somebody would have to take it away again.
    assert_eq!(call(Window::open(made_up::model()), false), front);
    assert_eq!(call(wayland(), true), front);
    assert_eq!(call(wayland(), false), [&front[..], &[asks]].concat());
}

#[test]
fn a_stopped_crawl_is_closed_without_a_question() {
    let troubled = |tries_again| RunState::NeedsYou {
        text: "It cannot start.".to_owned(),
        is_running: false,
        tries_again,
    };
    // What was being finished stayed for good without a window, and did nothing.
    let finishing = RunState::Finishing { fetches_left: 6 };
    for state in [RunState::Stopped, finishing, troubled(false)] {
        for on_close in [OnClose::Ask, OnClose::KeepCrawling] {
            let mut window = Window::open(made_up::model());
            window.change(|model| {
                model.state = state.clone();
                Arc::make_mut(&mut model.settings).on_close = on_close;
            });
            close(&mut window);
            assert_eq!(window.sent(), [Command::Quit], "{state:?}, {on_close:?}");
        }
    }
    let mut window = Window::open(made_up::model());
    window.change(|model| model.state = troubled(true));
    close(&mut window);
    assert_eq!(window.sent(), [], "it tries again, and is asked about");
}

/// *Keep crawling* hid the window of `peercrawl demo` for good: nothing could bring it back.
#[test]
fn a_demo_that_cannot_be_left_is_closed_without_a_question() {
    for on_close in [OnClose::Ask, OnClose::KeepCrawling] {
        for can_leave in [false, true] {
            let mut model = made_up::model();
            model.demo = Some(Demo { can_leave });
            Arc::make_mut(&mut model.settings).on_close = on_close;
            let mut window = Window::open(model);
            close(&mut window);
            let quits = window.sent() == [Command::Quit];
            assert_eq!(quits, !can_leave, "{on_close:?}");
        }
    }
}

/// It was lost, or not set before the window was looked at again.
#[test]
fn a_number_that_was_typed_without_enter_is_set_before_the_window_goes() {
    let typed = || Command::Change(Setting::DownloadKibPerS(7));
    let open = |on_close| {
        let mut window = Window::at(Screen::Limits);
        window.change(|model| Arc::make_mut(&mut model.settings).on_close = on_close);
        window.type_number("Download", "7");
        assert_eq!(window.sent(), []);
        window
    };
    for (on_close, last) in [
        (OnClose::Quit, Command::Quit),
        (OnClose::KeepCrawling, Command::Hidden),
    ] {
        let mut window = open(on_close);
        close(&mut window);
        assert_eq!(window.sent(), [typed(), last]);
    }
    let mut window = open(OnClose::Ask);
    close(&mut window);
    assert_eq!(window.sent(), [typed()]);
    window.press("Cancel");
    assert_eq!(window.number("Download").as_deref(), Some("7 KiB/s"));
    let mut window = open(OnClose::KeepCrawling);
    window.change(|model| model.quits = true);
    assert_eq!(window.sent(), [typed(), Command::Quit]);
}
