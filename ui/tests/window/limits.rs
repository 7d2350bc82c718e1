//! Limits and settings.

use super::*;
use peercrawl_ui::model::{DayHours, Demo, OnClose, OverlayKind, RunState, ThemeChoice, WEEKDAYS};

/// A field's label and what its number sets.
type Number = (&'static str, fn(u32) -> Setting);

#[test]
fn every_number_is_sent_once_it_was_typed() {
    let numbers: [Number; 9] = [
        ("Download", Setting::DownloadKibPerS),
        ("Upload", Setting::UploadKibPerS),
        ("Monthly data", Setting::MonthlyGb),
        ("Disk", Setting::DiskGb),
        ("Pages", Setting::PagesPerMin),
        ("Connections", Setting::Connections),
        ("Processor", Setting::CpuPercent),
        ("Slow download", Setting::SlowDownloadKibPerS),
        ("Slow upload", Setting::SlowUploadKibPerS),
    ];
    let mut window = Window::at(Screen::Limits);
    for (label, setting) in numbers {
        window.set_number(label, "77");
        assert_eq!(window.sent(), changed(setting(77)), "{label}");
        window.set_number(label, "0");
        assert_eq!(window.sent(), changed(setting(0)), "{label}");
        let shown = window.number(label);
        assert_eq!(shown.as_deref(), Some("no limit"), "{label}");
    }
}

#[test]
fn every_switch_is_sent() {
    let switches: [(&str, Setting); 7] = [
        ("Use the slow limits now", Setting::SlowMode(true)),
        ("On battery", Setting::PauseOnBattery(false)),
        ("On a metered connection", Setting::PauseOnMetered(false)),
        (
            "When other programs keep the processor busy",
            Setting::PauseWhenBusy(true),
        ),
        ("May become a supernode", Setting::AllowSupernode(false)),
        ("Start at login", Setting::StartAtLogin(true)),
        ("Crawl only at these hours", Setting::ScheduleOn(true)),
    ];
    let mut window = Window::at(Screen::Limits);
    for (label, setting) in switches {
        window.click(Role::CheckBox, label);
        assert_eq!(window.sent(), changed(setting), "{label}");
    }
    // The made-up computer cannot tell whether it is in use.
    window.click(Role::CheckBox, "While somebody uses the computer");
    assert_eq!(window.sent(), []);
    window.change(|model| model.abilities.idle_time = true);
    window.click(Role::CheckBox, "While somebody uses the computer");
    assert_eq!(window.sent(), changed(Setting::OnlyWhenUnused(true)));
}

/// It was offered on Windows and macOS, where it did nothing.
#[test]
fn a_busy_processor_is_offered_only_where_it_is_noticed() {
    let name = "When other programs keep the processor busy";
    let mut window = Window::at(Screen::Limits);
    window.change(|model| model.abilities.processor = false);
    window.click(Role::CheckBox, name);
    assert_eq!(window.sent(), []);
    window.change(|model| model.abilities.processor = true);
    window.click(Role::CheckBox, name);
    assert_eq!(window.sent(), changed(Setting::PauseWhenBusy(true)));
}

#[test]
fn every_choice_is_sent() {
    let choices = [
        ("Theme", "Dark", Setting::Theme(ThemeChoice::Dark)),
        ("Theme", "Light", Setting::Theme(ThemeChoice::Light)),
        (
            "Theme",
            "As the system",
            Setting::Theme(ThemeChoice::System),
        ),
        (
            "Closing the window",
            "Keep crawling",
            Setting::OnClose(OnClose::KeepCrawling),
        ),
        (
            "Closing the window",
            "Stop and quit",
            Setting::OnClose(OnClose::Quit),
        ),
        ("Closing the window", "Ask", Setting::OnClose(OnClose::Ask)),
    ];
    let mut window = Window::at(Screen::Limits);
    for (label, choice, setting) in choices {
        window.click(Role::ComboBox, label);
        window.press(choice);
        assert_eq!(window.sent(), changed(setting), "{choice}");
    }
}

#[test]
fn another_kind_of_network_is_asked_for_because_its_peers_are_left() {
    let mut window = Window::at(Screen::Limits);
    let choose = |window: &mut Window, kind: &str| {
        window.click(Role::ComboBox, "Kind of network");
        window.press(kind);
    };
    choose(&mut window, "Flat: up to about 100 peers");
    assert!(window.has("You would leave 12 peers and start again"));
    window.press("Cancel");
    assert_eq!(window.sent(), []);
    choose(&mut window, "Flat: up to about 100 peers");
    window.press("Leave and start again");
    assert_eq!(window.sent(), changed(Setting::Overlay(OverlayKind::Flat)));
    choose(&mut window, "Supernodes: any number of peers");
    window.press("Leave and start again");
    let back = Setting::Overlay(OverlayKind::Supernode);
    assert_eq!(window.sent(), changed(back));
}

#[test]
fn another_kind_of_network_is_taken_at_once_where_nothing_runs() {
    let mut window = Window::at(Screen::Limits);
    window.change(|model| model.state = RunState::Stopped);
    window.click(Role::ComboBox, "Kind of network");
    window.press("Flat: up to about 100 peers");
    assert!(!window.has("Leave this network?"));
    assert_eq!(window.sent(), changed(Setting::Overlay(OverlayKind::Flat)));
}

#[test]
fn what_the_computer_does_not_tell_is_named() {
    let mut window = Window::at(Screen::Limits);
    assert!(window.has("This computer does not tell whether it is in use."));
    let name = "While somebody uses the computer";
    window.0.get_by_role_and_label(Role::CheckBox, name).hover();
    // Each step is a quarter of a second.
    window.0.run_steps(8);
    assert!(window.has("it has no effect here"));
    window.change(|model| model.abilities.battery = false);
    assert!(window.has("whether it runs on battery or is in use."));
    window.change(|model| model.abilities.metered = false);
    assert!(window.has("runs on battery, is on a metered connection or is in use."));
    window.change(|model| model.abilities.processor = false);
    assert!(window.has("connection, is busy with other programs or is in use."));
    // It is not the computer's fault.
    window.change(|model| model.demo = Some(Demo { can_leave: true }));
    assert!(!window.has("This computer does not tell"));
    assert!(window.has("A demo goes on whatever the computer is up to."));
    window.change(|model| model.demo = None);
    window.change(|model| {
        model.abilities.processor = true;
        model.abilities.battery = true;
        model.abilities.metered = true;
        model.abilities.idle_time = true;
    });
    assert!(!window.has("This computer does not tell"));
}

#[test]
fn no_more_connections_are_set_than_there_can_be() {
    let mut window = Window::at(Screen::Limits);
    window.set_number("Connections", "9999");
    assert_eq!(window.sent(), changed(Setting::Connections(128)));
    // What is set already stays, even if it is more.
    window.change(|model| model.abilities.most_fetches = 10);
    assert_eq!(window.sent(), []);
    assert_eq!(window.number("Connections").as_deref(), Some("128 at once"));
}

/// Every one took up to 10,000,000, and the config refused it.
#[test]
fn no_field_takes_more_than_the_config() {
    let most: [(&str, Setting); 9] = [
        ("Download", Setting::DownloadKibPerS(4_194_304)),
        ("Upload", Setting::UploadKibPerS(4_194_304)),
        ("Monthly data", Setting::MonthlyGb(1_000_000)),
        ("Disk", Setting::DiskGb(1_125_899)),
        ("Pages", Setting::PagesPerMin(100_000_000)),
        ("Connections", Setting::Connections(4_096)),
        ("Processor", Setting::CpuPercent(100)),
        ("Slow download", Setting::SlowDownloadKibPerS(4_194_304)),
        ("Slow upload", Setting::SlowUploadKibPerS(4_194_304)),
    ];
    let mut window = Window::at(Screen::Limits);
    // A computer that does not tell how many fetches it has memory for.
    window.change(|model| model.abilities.most_fetches = 0);
    for (label, setting) in most {
        window.set_number(label, "9,999,999,999");
        assert_eq!(window.sent(), changed(setting), "{label}");
    }
    window.set_number("Disk", "10");
    window.sent();
    window.go(Screen::Archive);
    window.set_number("Disk limit", "9,999,999,999");
    assert_eq!(window.sent(), changed(Setting::DiskGb(1_125_899)));
    window.go(Screen::Crawl);
    let depth = "Links to follow from there at most";
    window.set_number(depth, "9999999999");
    assert_eq!(window.sent(), changed(Setting::MaxDepth(10_000)));
}

#[test]
fn the_theme_of_the_desktop_is_followed() {
    let mut window = Window::at(Screen::Limits);
    for dark in [true, false] {
        window.change(|model| model.system_is_dark = Some(dark));
        assert_eq!(window.0.ctx.global_style().visuals.dark_mode, dark);
    }
}

#[test]
fn the_theme_changes_the_colours() {
    let mut window = Window::at(Screen::Limits);
    for (choice, dark) in [(ThemeChoice::Dark, true), (ThemeChoice::Light, false)] {
        window.change(|model| Arc::make_mut(&mut model.settings).theme = choice);
        assert_eq!(window.0.ctx.global_style().visuals.dark_mode, dark);
    }
}

#[test]
fn the_text_size_changes_everything() {
    let mut window = Window::at(Screen::Limits);
    window.set_number("Text size", "150");
    assert_eq!(window.sent(), changed(Setting::TextPercent(150)));
    assert_eq!(window.0.ctx.zoom_factor(), 1.5);
}

#[test]
fn a_day_of_the_schedule_is_set() {
    let mut window = Window::at(Screen::Limits);
    window.click(Role::CheckBox, "Crawl only at these hours");
    window.sent();
    for day in WEEKDAYS {
        window.0.get_by_role_and_label(Role::CheckBox, day);
    }
    window.set_number("Tuesday from", "22");
    window.set_number("Tuesday to", "7:00");
    window.click(Role::CheckBox, "Sunday");
    let mut days = [DayHours::default(); 7];
    days[1].from_hour = 22;
    let first = Setting::Schedule(days);
    days[1].to_hour = 7;
    let second = Setting::Schedule(days);
    days[6].on = false;
    let third = Setting::Schedule(days);
    assert_eq!(window.sent(), [first, second, third].map(Command::Change));
}

#[test]
fn a_refused_value_comes_back_as_it_is() {
    let mut window = Window::at(Screen::Limits);
    window.set_number("Connections", "9999");
    // The backend knows better.
    window.change(|model| Arc::make_mut(&mut model.settings).connections = 512);
    window.0.run_steps(12);
    assert_eq!(window.number("Connections").as_deref(), Some("512 at once"));
}
