//! Activity.

use super::*;
use peercrawl_ui::model::{Outcome, View};

#[test]
fn each_result_has_a_symbol_and_a_word() {
    let window = Window::at(Screen::Activity);
    for text in [
        "✔ fetched",
        "🗐 duplicate",
        "⛔ robots said no",
        "⏱ timeout",
        "⚠ error",
        "🛡 private address refused",
        "🌀 trap",
    ] {
        assert!(window.0.query_all_by_label(text).next().is_some(), "{text}");
    }
    assert!(window.has("Harbour timetable, winter"));
}

#[test]
fn a_higher_window_lists_more_of_what_is_being_fetched() {
    let mut window = Window::open_sized(made_up::model(), 900.0, 600.0);
    window.go(Screen::Activity);
    assert!(window.has("and 2 more"));
    let window = Window::at(Screen::Activity);
    assert!(window.has("Fetching now") && !window.has("and 2 more"));
}

#[test]
fn what_was_refused_is_added_up_in_one_line() {
    let mut window = Window::at(Screen::Activity);
    let line = "Refused so far: 1,204 by robots.txt · 3 private addresses · \
                1 URL of a blocked site · 17 traps · 2 unusual ports";
    window.0.get_by_label(line);
    window.change(|model| model.refused = peercrawl_ui::model::Refused::default());
    assert!(window.has("0 by robots.txt · 0 private addresses"));
}

#[test]
fn the_age_of_a_fetch_grows_in_steps() {
    let mut window = Window::at(Screen::Activity);
    assert!(window.has("400 ms") && window.has("1.2 s"));
    window.change(|model| model.now_ms += 60);
    assert!(window.has("400 ms") && window.has("1.2 s"));
    window.change(|model| model.now_ms += 60);
    assert!(window.has("500 ms") && window.has("1.3 s"));
}

#[test]
fn the_address_of_a_titled_page_is_under_the_pointer() {
    let mut window = Window::at(Screen::Activity);
    let address = "https://site-0.example.org/page/0";
    assert!(!window.has(address));
    let titles = window.0.get_all_by_label("Harbour timetable, winter");
    let newest = titles.min_by(|one, other| one.rect().top().total_cmp(&other.rect().top()));
    newest.expect("a title").hover();
    // Each step is a quarter of a second.
    window.0.run_steps(8);
    assert!(window.has(address));
}

#[test]
fn blocking_a_site_takes_effect_at_once_and_can_be_undone() {
    let mut window = Window::at(Screen::Activity);
    let host = "site-3.example.org".to_owned();
    window.press("Block site-3.example.org");
    assert_eq!(window.sent(), [Command::BlockSite(host.clone())]);
    assert!(window.has("site-3.example.org is blocked"));
    window.undo();
    assert_eq!(window.sent(), [Command::UnblockSite(host)]);
    assert!(!window.has("is blocked"));
}

#[test]
fn results_are_filtered_and_searched_by_the_backend() {
    let mut window = Window::at(Screen::Activity);
    window.press("Show only: timeout");
    assert_eq!(window.shown().outcome, Some(Outcome::Timeout));
    window.fill("Search in results", "bees");
    assert_eq!(window.shown().results_search, "bees");
    window.change(|model| model.results = Arc::new(View::default()));
    assert!(window.has("No result matches"));
    window.press("Show all results");
    assert_eq!(window.shown().outcome, None);
}
