//! The first page.

use super::*;
use peercrawl_ui::command::Begin;
use peercrawl_ui::model::Field;
use std::path::PathBuf;

/// The page comes again when nothing is left to crawl.
#[test]
fn it_does_not_deny_what_was_fetched() {
    let mut model = made_up::first_run();
    model.totals.ever.pages = 1;
    let window = Window::open(model);
    assert!(window.has("belongs to nobody alone") && !window.has("fetched yet"));
}

fn began(settings: Vec<Setting>, with: Begin) -> Vec<Command> {
    vec![Command::Begin { settings, with }]
}

#[test]
fn it_says_what_it_will_use_before_anything_is_fetched() {
    let mut window = Window::open(made_up::first_run());
    for text in [
        "Welcome to PeerCrawl",
        "visit your private network",
        "asks robots not to go",
        "about 150 MB of memory",
        "Nothing has been fetched yet.",
    ] {
        assert!(window.has(text), "{text}");
    }
    for (label, value) in [
        ("Download", "256 KiB/s"),
        ("Upload", "64 KiB/s"),
        ("Monthly data", "10 GB"),
        ("Disk", "10 GB"),
    ] {
        assert_eq!(window.number(label).as_deref(), Some(value), "{label}");
    }
    assert_eq!(window.sent(), []);
    assert!(
        window
            .0
            .query_by_role_and_label(Role::Button, "Overview")
            .is_none()
    );
}

#[test]
fn start_without_an_address_says_what_is_missing() {
    let mut window = Window::open(made_up::first_run());
    window.press("Start crawling");
    assert!(window.has("Type a web address."));
    assert_eq!(window.sent(), []);
    window.fill("Web address", "https://example.org/");
    window.press("Start crawling");
    let site = Begin::Site("https://example.org/".to_owned());
    assert_eq!(window.sent(), began(vec![], site));
    assert!(window.has("Crawling"));
}

#[test]
fn limits_are_changed_right_there() {
    let mut window = Window::open(made_up::first_run());
    window.set_number("Download", "100");
    window.set_number("Download", "128");
    window.set_number("Disk", "no limit");
    window.click(
        Role::RadioButton,
        "The demo: a made-up web on this computer, nothing leaves it",
    );
    window.press("Start crawling");
    let settings = vec![Setting::DownloadKibPerS(128), Setting::DiskGb(0)];
    assert_eq!(window.sent(), began(settings, Begin::Demo));
}

/// It began with the limit of before.
#[test]
fn a_limit_counts_that_was_typed_without_enter() {
    for press in [Window::press, Window::press_by_reader] {
        let mut window = Window::open(made_up::first_run());
        window.fill("Web address", "https://example.org/");
        window.type_number("Download", "100");
        press(&mut window, "Start crawling");
        let site = Begin::Site("https://example.org/".to_owned());
        let settings = vec![Setting::DownloadKibPerS(100)];
        assert_eq!(window.sent(), began(settings, site));
    }
}

/// It began with another limit than was meant.
#[test]
fn it_does_not_begin_with_a_limit_that_was_refused() {
    for press in [Window::press, Window::press_by_reader] {
        let mut window = Window::open(made_up::first_run());
        window.fill("Web address", "https://example.org/");
        window.type_number("Download", "fast");
        press(&mut window, "Start crawling");
        assert_eq!(window.sent(), []);
        assert!(window.has("“fast” cannot be a limit: Download stays as it was."));
        window.click(Role::SpinButton, "Download");
        window.0.key_press_modifiers(Modifiers::COMMAND, Key::A);
        window.key(Key::Backspace);
        press(&mut window, "Start crawling");
        assert_eq!(window.sent(), []);
        assert!(window.has("Nothing was typed: Download stays as it was."));
        press(&mut window, "Start crawling");
        let site = Begin::Site("https://example.org/".to_owned());
        assert_eq!(window.sent(), began(vec![], site));
    }
}

#[test]
fn a_join_file_or_a_peer_will_do() {
    let mut window = Window::open(made_up::first_run());
    window.click(Role::RadioButton, "A join file from a friend");
    window.fill("File", "a.peercrawl");
    window.press("Start crawling");
    let file = Begin::JoinFile(PathBuf::from("a.peercrawl"));
    assert_eq!(window.sent(), began(vec![], file));

    let mut window = Window::open(made_up::first_run());
    window.click(Role::RadioButton, "A friend's computer");
    window.press("Start crawling");
    assert!(window.has("Type its address."));
    window.fill("Its address", "/ip4/203.0.113.5/tcp/4001");
    window.key(Key::Enter);
    let peer = Begin::Peer("/ip4/203.0.113.5/tcp/4001".to_owned());
    assert_eq!(window.sent(), began(vec![], peer));
}

#[test]
fn a_join_file_is_looked_for_in_the_desktops_own_dialog() {
    let mut model = made_up::first_run();
    model.abilities.file_dialog = true;
    let mut window = Window::open(model);
    window.click(Role::RadioButton, "A join file from a friend");
    window.press("Browse…");
    assert_eq!(window.sent(), [Command::Browse(Field::JoinFile)]);
}

#[test]
fn with_a_crawl_to_join_nothing_more_is_asked() {
    let mut model = made_up::first_run();
    if let Some(first_run) = &mut model.first_run {
        first_run.has_crawl = true;
    }
    let mut window = Window::open(model);
    assert!(!window.has("Begin with"));
    window.press("Start crawling");
    assert_eq!(window.sent(), began(vec![], Begin::AsConfigured));
}

#[test]
fn not_now_leads_to_a_stopped_crawl() {
    let mut window = Window::open(made_up::first_run());
    window.press("Not now");
    assert_eq!(window.sent(), [Command::NotNow]);
    assert!(window.has("Not started yet"));
    window.press("Start");
    assert_eq!(window.sent(), [Command::Start]);
    // It is asked again, and the page can be typed into at once again.
    window.change(|model| *model = made_up::first_run());
    window.0.event(Event::Text("https://a.example/".to_owned()));
    window.key(Key::Enter);
    let site = Begin::Site("https://a.example/".to_owned());
    assert_eq!(window.sent(), began(vec![], site));
}

/// The page used to write the limits of its first time over newer ones.
#[test]
fn when_it_comes_again_it_knows_what_was_set_meanwhile() {
    let mut window = Window::open(made_up::first_run());
    window.set_number("Download", "100");
    window.press("Not now");
    window.go(Screen::Limits);
    window.set_number("Download", "500");
    let set = Command::Change(Setting::DownloadKibPerS(500));
    assert_eq!(window.sent(), [Command::NotNow, set]);
    window.change(|model| model.first_run = made_up::first_run().first_run);
    assert_eq!(window.number("Download").as_deref(), Some("500 KiB/s"));
    window.fill("Web address", "https://a.example/");
    window.press("Start crawling");
    let site = Begin::Site("https://a.example/".to_owned());
    assert_eq!(window.sent(), began(vec![], site));
}

#[test]
fn what_is_wrong_with_the_address_stands_beside_it() {
    let mut window = Window::open(made_up::first_run());
    window.fill("Web address", "nonsense");
    window.press("Start crawling");
    // The backend refuses it.
    window.change(|model| {
        model.first_run = made_up::first_run().first_run;
        model.problems = vec![(Field::FirstSite, "this host does not exist".to_owned())];
    });
    assert!(window.has("this host does not exist"));
    window.fill("Web address", "example.org");
    assert!(
        !window.has("this host does not exist"),
        "it is another text"
    );
}
