//! Crawl.

use super::*;
use peercrawl_ui::egui::DroppedFile;
use peercrawl_ui::model::{Field, Scope};
use std::path::PathBuf;

#[test]
fn bad_lines_are_explained_and_stay_while_good_ones_are_added() {
    let mut window = Window::at(Screen::Crawl);
    let text = "https://a.example.org/\nnonsense\nhttps://b.example.org/";
    window.fill("Web addresses to add", text);
    assert_eq!(window.sent(), [Command::CheckSeeds(text.to_owned())]);
    assert!(window.has("nonsense: a web address begins with http:// or https://"));
    assert!(window.has("1 line cannot be added"));
    window.press("Add 2 web sites");
    let good = vec![
        "https://a.example.org/".to_owned(),
        "https://b.example.org/".to_owned(),
    ];
    let sent = window.sent();
    assert_eq!(sent[0], Command::AddSeeds(good.clone()));
    assert_eq!(sent[1], Command::CheckSeeds("nonsense".to_owned()));
    let field = window.0.get(fields("Web addresses to add"));
    assert_eq!(field.value().as_deref(), Some("nonsense"));
    assert!(window.has("2 web sites added.") && !window.has("Undo"));
}

#[test]
fn of_many_bad_lines_the_first_are_explained_and_the_rest_is_counted() {
    let mut window = Window::at(Screen::Crawl);
    let lines: Vec<String> = (0..60).map(|number| format!("nonsense {number}")).collect();
    window.fill("Web addresses to add", &lines.join("\n"));
    let explained = ": a web address begins with http:// or https://";
    let explained = window.0.query_all_by_label_contains(explained);
    assert_eq!(explained.count(), 50);
    assert!(window.has("and 10 more") && window.has("60 lines cannot be added"));
}

/// Lines past those that are checked at once used to vanish when the others were added.
#[test]
fn what_was_not_checked_stays_in_the_field() {
    let mut window = Window::at(Screen::Crawl);
    let text = "https://a.example.org/\nnonsense\n\nhttps://b.example.org/";
    window.fill("Web addresses to add", text);
    window.change(|model| Arc::make_mut(&mut model.crawl).check.lines.truncate(2));
    window.press("Add web site");
    let field = window.0.get(fields("Web addresses to add"));
    let left = "nonsense\nhttps://b.example.org/";
    assert_eq!(field.value().as_deref(), Some(left));
}

#[test]
fn words_promise_a_dropped_file_only_where_it_arrives() {
    let words = "or drop it onto this window";
    assert!(Window::at(Screen::Crawl).has(words));
    let mut window = Window::open_as(made_up::model(), 1_280.0, 1_800.0, App::on_wayland);
    window.go(Screen::Crawl);
    assert!(window.has("Open join file") && !window.has(words));
}

#[test]
fn seeds_can_be_removed_and_brought_back() {
    let mut window = Window::at(Screen::Crawl);
    let seed = vec!["https://library.example.org/".to_owned()];
    window.press("Remove https://library.example.org/");
    assert_eq!(window.sent(), [Command::RemoveSeeds(seed.clone())]);
    assert!(
        window
            .0
            .query_by_label("https://library.example.org/")
            .is_none()
    );
    assert!(window.has("What was found from there is still fetched"));
    window.undo();
    assert_eq!(window.sent(), [Command::AddSeeds(seed)]);
}

#[test]
fn scope_and_depth_are_set() {
    let mut window = Window::at(Screen::Crawl);
    window.click(Role::RadioButton, "Only the hosts above");
    assert_eq!(window.sent(), changed(Setting::Scope(Scope::Host)));
    let domain = "The hosts above and others of the same name (www., blog., …)";
    window.click(Role::RadioButton, domain);
    assert_eq!(window.sent(), changed(Setting::Scope(Scope::Domain)));
    window.click(Role::RadioButton, "Anywhere that links lead");
    assert_eq!(window.sent(), changed(Setting::Scope(Scope::Any)));
    window.set_number("Links to follow from there at most", "7");
    assert_eq!(window.sent(), changed(Setting::MaxDepth(7)));
}

#[test]
fn a_join_file_is_made() {
    let mut window = Window::at(Screen::Crawl);
    window.press("Make join file");
    let proposed = PathBuf::from("/home/ada/libraries.peercrawl");
    assert_eq!(window.sent(), [Command::MakeJoinFile(proposed)]);
    // The proposal of the network before was kept for ever, and its file was overwritten.
    let propose = |window: &mut Window, path: &str| {
        let path = path.to_owned();
        window.change(|model| Arc::make_mut(&mut model.crawl).join_file_path = path);
        window.press("Make join file");
    };
    propose(&mut window, "/home/ada/museums.peercrawl");
    let proposed = PathBuf::from("/home/ada/museums.peercrawl");
    assert_eq!(window.sent(), [Command::MakeJoinFile(proposed)]);
    window.fill("Write a join file to", "mine.peercrawl");
    window.press("Make join file");
    assert_eq!(
        window.sent(),
        [Command::MakeJoinFile(PathBuf::from("mine.peercrawl"))]
    );
    propose(&mut window, "/home/ada/zoos.peercrawl");
    assert_eq!(
        window.sent(),
        [Command::MakeJoinFile(PathBuf::from("mine.peercrawl"))],
        "what was typed stays"
    );
    window.press("Choose where…");
    assert_eq!(window.sent(), [Command::Browse(Field::NewJoinFile)]);
}

#[test]
fn a_join_file_says_what_it_would_do_before_it_does_it() {
    let mut window = Window::at(Screen::Crawl);
    window.fill("Open a join file", "friend.peercrawl");
    window.press("Open join file");
    assert_eq!(
        window.sent(),
        [Command::ReadJoinFile(PathBuf::from("friend.peercrawl"))]
    );
    for text in [
        "Join “Libraries of the world”?",
        "only on the hosts named here",
        "https://library-0.example.org/",
        "and 3 web sites",
        "You would leave the crawl “Museums”.",
    ] {
        assert!(window.has(text), "{text}");
    }
    window.press("Do not join");
    assert_eq!(window.sent(), [Command::DeclineJoin]);
    window.press("Open join file");
    window.sent();
    window.press("Join this crawl");
    assert_eq!(window.sent(), [Command::AcceptJoin]);
    window.press("Browse…");
    assert_eq!(window.sent(), [Command::Browse(Field::JoinFile)]);
}

#[test]
fn a_join_file_can_be_dropped_onto_any_screen() {
    let mut window = Window::at(Screen::Log);
    let dropped = |name: &str| DroppedFile {
        path: Some(PathBuf::from(name)),
        ..DroppedFile::default()
    };
    window.0.input_mut().dropped_files = vec![dropped("a.peercrawl"), dropped("b.txt")];
    window.0.run();
    assert_eq!(
        window.sent(),
        [Command::ReadJoinFile(PathBuf::from("a.peercrawl"))]
    );
}

#[test]
fn blocked_sites_are_listed() {
    let mut window = Window::at(Screen::Crawl);
    window.press("Unblock site-5.example.org");
    assert_eq!(
        window.sent(),
        [Command::UnblockSite("site-5.example.org".to_owned())]
    );
}

/// It was said that such a host may be visited again.
#[test]
fn of_a_host_that_another_entry_blocks_too_that_is_said() {
    let cases = [
        ("www.example.org", "example.org", true),
        ("www.example.org", "*.example.org", true),
        ("www.example.org", "=example.org", false),
        ("example.org", "www.example.org", false),
        ("badexample.org", "example.org", false),
    ];
    for (host, other, is_blocked_still) in cases {
        let mut window = Window::at(Screen::Crawl);
        let blocked = [host, other].map(str::to_owned).to_vec();
        window.change(|model| Arc::make_mut(&mut model.crawl).blocked_sites = blocked);
        window.press(&format!("Unblock {host}"));
        assert!(!window.has("may be visited again"));
        assert!(window.has(&format!("{host} is no blocked site any more")));
        let words = format!("but {other} blocks it, too");
        assert_eq!(window.has(&words), is_blocked_still, "{host}, {other}");
    }
}

/// So many web sites to begin with.
fn with_seeds(number: usize, height: f32) -> Window {
    let mut model = made_up::model();
    let seeds = (0..number).map(|number| format!("https://site-{number}.example.net/"));
    Arc::make_mut(&mut model.crawl).seeds = seeds.collect();
    let mut window = Window::open_sized(model, 1_280.0, height);
    window.go(Screen::Crawl);
    window
}

/// Those after the first fifty could be neither seen nor removed.
#[test]
fn of_very_many_web_sites_each_can_be_removed_and_only_those_in_sight_are_drawn() {
    let mut window = with_seeds(5_000, 1_800.0);
    assert!(window.has("5,000 web sites"));
    let drawn = |window: &Window| window.0.query_all_by_label_contains("Remove ").count();
    assert!(drawn(&window) <= 12, "{}", drawn(&window));
    window.0.get_by_label("https://site-0.example.net/").hover();
    window.0.run();
    window.0.event(Event::MouseWheel {
        unit: MouseWheelUnit::Point,
        delta: vec2(0.0, -200_000.0),
        phase: TouchPhase::Move,
        modifiers: Modifiers::NONE,
    });
    // The wheel goes on smoothly for a while.
    window.0.run_steps(24);
    window.0.run();
    assert!(drawn(&window) <= 12, "{}", drawn(&window));
    window.press("Remove https://site-4999.example.net/");
    let last = vec!["https://site-4999.example.net/".to_owned()];
    assert_eq!(window.sent(), [Command::RemoveSeeds(last)]);
    assert!(window.has("4,999 web sites"));
}

#[test]
fn the_keyboard_comes_by_every_web_site_and_past_them() {
    let mut window = with_seeds(60, 600.0);
    let wanted = (0..60).map(|number| format!("Remove https://site-{number}.example.net/"));
    let wanted: Vec<String> = wanted.collect();
    let first = (0..40).find(|_| window.tab() == wanted[0]);
    assert!(first.is_some(), "it is reached");
    for label in &wanted[1..] {
        assert_eq!(window.tab(), *label);
        let button = window.rect(Role::Button, label);
        assert!(button.top() >= 0.0 && button.bottom() <= 600.0, "{label}");
    }
    assert_eq!(window.tab(), "Only the hosts above");
}
