//! Limits and settings.

use super::*;
use peercrawl_ui::model::{DayHours, OnClose, OverlayKind, ThemeChoice, WEEKDAYS};

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
        let field = window.0.get_by_role_and_label(Role::SpinButton, label);
        assert_eq!(field.value().as_deref(), Some("no limit"), "{label}");
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
            "Kind of network",
            "Flat: up to about 100 peers",
            Setting::Overlay(OverlayKind::Flat),
        ),
        (
            "Closing the window",
            "Keep crawling",
            Setting::OnClose(OnClose::KeepCrawling),
        ),
    ];
    let mut window = Window::at(Screen::Limits);
    for (label, choice, setting) in choices {
        window.click(Role::ComboBox, label);
        window.press(choice);
        assert_eq!(window.sent(), changed(setting), "{choice}");
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
    let field = window
        .0
        .get_by_role_and_label(Role::SpinButton, "Connections");
    assert_eq!(field.value().as_deref(), Some("512 at once"));
}
