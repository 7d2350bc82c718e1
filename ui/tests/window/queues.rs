//! Queues.

use std::time::{Duration, Instant};

use super::*;
use peercrawl_ui::command::HostColumn;
use peercrawl_ui::egui::{Color32, FontId};
use peercrawl_ui::model::{HostRow, PauseReason, RunState, WaitReason};
use peercrawl_ui::theme;

#[test]
fn a_host_shows_what_waits_and_why() {
    let window = Window::at(Screen::Queues);
    for text in [
        "100,000 hosts",
        "memory: 142 MB of 268 MB",
        "site-0.example.org",
        "50,000",
        "fetching",
        "2 s, robots.txt",
        "blocked",
    ] {
        assert!(window.has(text), "{text}");
    }
}

#[test]
fn a_host_on_disk_says_so_and_is_found_by_its_whole_name() {
    let mut window = Window::at(Screen::Queues);
    assert!(window.has("on disk") && !window.has("of them on disk"));
    window.change(|model| model.on_disk_alone = 14_800);
    assert!(window.has("100,000 hosts, 14,800 of them on disk"));
    assert!(!window.has("type the whole name"));
    window.fill("Search hosts", "site");
    assert!(window.has("14,800 hosts on disk cannot be searched: type the whole name"));
    assert!(!window.has("of them on disk"));
}

/// The column had the same width in every window, and cut the reason.
#[test]
fn a_wide_window_has_room_for_the_reason_of_a_delay() {
    let mut window = Window::open_sized(made_up::model(), 1_280.0, 800.0);
    window.go(Screen::Queues);
    let text = "4 s, rests: no answer in time";
    let font = FontId::proportional(theme::BODY_SIZE);
    let needed = window.0.ctx.fonts_mut(|fonts| {
        let text = fonts.layout_no_wrap(text.to_owned(), font, Color32::BLACK);
        text.size().x
    });
    let cells = window.0.get_all_by_label(text);
    let least = cells.map(|cell| cell.rect().width()).reduce(f32::min);
    assert!(least.is_some_and(|width| width >= needed - 1.0), "{needed}");
}

#[test]
fn every_figure_stands_under_its_name() {
    let mut window = Window::at(Screen::Queues);
    window.change(|model| {
        Arc::make_mut(&mut model.hosts).rows[1] = HostRow {
            host: "site-1.example.org".to_owned(),
            in_memory: 11_111,
            on_disk: 22_222,
            next_ms: Some(made_up::NOW_MS + 44_000),
            delay_ms: 55_000,
            delay_why: String::new(),
            fetched: 66_666,
            errors: 7_777,
            dropped: 88_888,
            blocked: false,
            is_away: false,
        };
    });
    let columns = [
        ("Sort by Waiting, now greatest first", "33,333"),
        ("Sort by Memory", "11,111"),
        ("Sort by Disk", "22,222"),
        ("Sort by Next", "in 44 s"),
        ("Sort by Delay", "55 s"),
        ("Sort by Fetched", "66,666"),
        ("Sort by Errors", "7,777"),
        ("Sort by Dropped", "88,888"),
    ];
    for (_, figure) in columns {
        let end = window.0.get_by_label(figure).rect().right();
        let distance = |name| (window.rect(Role::Button, name).right() - end).abs();
        let distances = columns.map(|(name, own)| (distance(name), own));
        let nearest = distances
            .into_iter()
            .min_by(|one, other| one.0.total_cmp(&other.0));
        assert_eq!(nearest.map(|(_, own)| own), Some(figure));
    }
}

/// A host was said to come next "now" for as long as a pause lasted.
#[test]
fn no_host_comes_next_while_nothing_new_is_fetched() {
    let mut window = Window::at(Screen::Queues);
    let now = |window: &Window| window.0.query_all_by_label("now").count();
    window.change(|model| {
        Arc::make_mut(&mut model.hosts).rows[1].next_ms = Some(made_up::NOW_MS);
    });
    assert_eq!(now(&window), 1);
    for (state, word) in [
        (RunState::Paused(PauseReason::ByYou), "paused"),
        (RunState::Paused(PauseReason::OnBattery), "paused"),
        (RunState::Finishing { fetches_left: 2 }, "stopping"),
        (RunState::Waiting(WaitReason::Offline), "waiting"),
        (RunState::Waiting(WaitReason::CatchingUp), "waiting"),
    ] {
        window.change(|model| model.state = state.clone());
        assert_eq!(now(&window), 0, "{state:?}");
        assert!(window.0.query_all_by_label(word).count() > 1, "{state:?}");
        assert_eq!(window.0.query_all_by_label_contains("in 2").count(), 0);
        assert!(window.has("fetching") && window.has("blocked"));
    }
}

/// Where nothing runs there are none to be listed; that is not that there are none.
#[test]
fn hosts_that_nobody_knows_at_the_moment_are_not_said_to_be_none() {
    let needs_you = |is_running| RunState::NeedsYou {
        text: "Look at this.".to_owned(),
        is_running,
        tries_again: false,
    };
    for (state, words) in [
        (RunState::Stopped, "Press Start to go on with it."),
        (RunState::Starting, "It is starting."),
        (
            RunState::Finishing { fetches_left: 0 },
            "It is about to stop.",
        ),
        (needs_you(false), "what is in the way"),
    ] {
        let mut model = made_up::empty();
        model.state = state.clone();
        let mut window = Window::open(model);
        window.go(Screen::Queues);
        assert!(
            window.has("The hosts are listed while it runs"),
            "{state:?}"
        );
        assert!(
            window.has(words) && !window.has("No hosts yet"),
            "{state:?}"
        );
    }
    let mut model = made_up::empty();
    model.state = needs_you(true);
    let mut window = Window::open(model);
    window.go(Screen::Queues);
    assert!(window.has("No hosts yet"));
}

#[test]
fn every_column_sorts() {
    let columns = [
        ("Host", HostColumn::Host),
        ("Memory", HostColumn::InMemory),
        ("Disk", HostColumn::OnDisk),
        ("Next", HostColumn::Next),
        ("Delay", HostColumn::Delay),
        ("Fetched", HostColumn::Fetched),
        ("Errors", HostColumn::Errors),
        ("Dropped", HostColumn::Dropped),
        ("Waiting", HostColumn::Waiting),
    ];
    let mut window = Window::at(Screen::Queues);
    for (name, column) in columns {
        window.press(&format!("Sort by {name}"));
        assert_eq!(window.shown().hosts.sort_by, column);
        assert!(window.shown().hosts.descending);
    }
    window.press("Sort by Waiting, now greatest first");
    assert!(!window.shown().hosts.descending);
    assert!(window.has("site-99999.example.org"));
}

#[test]
fn only_visible_rows_are_drawn_and_asked_for() {
    let mut window = Window::open_sized(made_up::model(), 1_280.0, 800.0);
    window.go(Screen::Queues);
    let first = window.shown().hosts.rows.clone();
    assert!(first.start == 0 && first.len() <= 256, "{first:?}");
    let drawn = window.0.query_all_by_label_contains(".example.org").count();
    assert!(drawn < 120, "{drawn} nodes for 100,000 hosts");
    window.0.get_by_label("site-0.example.org").hover();
    window.0.run();
    window.0.event(peercrawl_ui::egui::Event::MouseWheel {
        unit: peercrawl_ui::egui::MouseWheelUnit::Point,
        delta: vec2(0.0, -40_000.0),
        phase: peercrawl_ui::egui::TouchPhase::Move,
        modifiers: Modifiers::NONE,
    });
    // The wheel goes on smoothly for a while.
    window.0.run_steps(24);
    window.0.run();
    let rows = window.shown().hosts.rows.clone();
    assert!(rows.start > 500 && rows.len() <= 256, "{rows:?}");
    // What came back for them is drawn.
    let drawn = rows.filter(|row| window.has(&format!("site-{row}.example.org")));
    assert!(drawn.count() > 10);
}

/// With 100,000 hosts, a frame takes less time than a screen has for it, also while the
/// rows move. Of many frames the quickest counts: a machine has other things to do.
#[test]
fn a_hundred_thousand_hosts_are_drawn_in_time() {
    // What is built for tests is not built for speed.
    let bar = Duration::from_millis(if cfg!(debug_assertions) { 160 } else { 16 });
    let mut window = Window::open_sized(made_up::model(), 1_280.0, 800.0);
    window.go(Screen::Queues);
    assert!(window.has("100,000 hosts"));
    window.0.get_by_label("site-0.example.org").hover();
    window.0.run();
    let mut frames = |is_moving: bool| {
        let mut times: Vec<Duration> = (0..40)
            .map(|_| {
                if is_moving {
                    window.0.event(peercrawl_ui::egui::Event::MouseWheel {
                        unit: peercrawl_ui::egui::MouseWheelUnit::Point,
                        delta: vec2(0.0, -9_000.0),
                        phase: peercrawl_ui::egui::TouchPhase::Move,
                        modifiers: Modifiers::NONE,
                    });
                }
                let begun = Instant::now();
                window.0.step();
                begun.elapsed()
            })
            .collect();
        times.sort();
        println!(
            "moving: {is_moving}: {:?}, {:?} at most half of the time",
            times[0], times[20]
        );
        times[0]
    };
    let (still, moving) = (frames(false), frames(true));
    assert!(still < bar && moving < bar, "{still:?} and {moving:?}");
    assert!(window.shown().hosts.rows.start > 500);
}

#[test]
fn hosts_are_searched_and_blocked() {
    let mut window = Window::at(Screen::Queues);
    window.fill("Search hosts", "site");
    assert_eq!(window.shown().hosts.search, "site");
    assert!(window.has("3 hosts"));
    window.press("Block site-1.example.org");
    assert_eq!(
        window.sent(),
        [Command::BlockSite("site-1.example.org".to_owned())]
    );
    window.undo();
    assert_eq!(
        window.sent(),
        [Command::UnblockSite("site-1.example.org".to_owned())]
    );
}

#[test]
fn a_blocked_host_can_be_unblocked() {
    let mut window = Window::at(Screen::Queues);
    window.press("Unblock site-5.example.org");
    assert_eq!(
        window.sent(),
        [Command::UnblockSite("site-5.example.org".to_owned())]
    );
}
