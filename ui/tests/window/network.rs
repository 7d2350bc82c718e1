//! Network.

use super::*;
use peercrawl_ui::command::PeerColumn;
use peercrawl_ui::model::{Demo, Field, PauseReason, RunState, View};
use peercrawl_ui::theme;

#[test]
fn the_picture_and_the_table_show_who_takes_part() {
    let window = Window::at(Screen::Network);
    let picture = "Picture of the network: 13 peers, 4 of them supernodes";
    window.0.get_by_role_and_label(Role::Image, picture);
    for text in [
        "takes care of 8.3 % of all hosts",
        "A supernode is",
        "(this computer)",
        "★ supernode",
        "⏺ leaf",
        "0.1.0",
        "25 ms",
    ] {
        assert!(window.has(text), "{text}");
    }
}

/// Of very many peers some are drawn, and those were told of as all that there are.
#[test]
fn the_picture_tells_of_all_peers() {
    let mut window = Window::at(Screen::Network);
    window.change(|model| {
        let network = std::sync::Arc::make_mut(&mut model.network);
        (network.peers, network.supernodes) = (5_000, 80);
    });
    let picture = "Picture of the network: 5,000 peers, 80 of them supernodes";
    window.0.get_by_role_and_label(Role::Image, picture);
}

/// All that is above the table used to leave it no room in the smallest window.
#[test]
fn the_smallest_window_shows_five_peers_even_in_a_demo() {
    let mut model = made_up::model();
    model.demo = Some(Demo { can_leave: true });
    let mut window = Window::open_sized(model, 900.0, 600.0);
    window.go(Screen::Network);
    let head = window.rect(Role::Button, "Sort by Share, now greatest first");
    let end = 600.0 - f32::from(theme::SCREEN_MARGIN.bottom);
    let is_seen = |cell: Rect| {
        let half = theme::ROW_HEIGHT / 2.0;
        cell.center().y - half >= head.bottom() && cell.center().y + half <= end
    };
    let cells = ["★ supernode", "⏺ leaf"].map(|role| window.0.query_all_by_label(role));
    let rows = cells.into_iter().flatten();
    assert!(rows.filter(|cell| is_seen(cell.rect())).count() >= 5);
    let top = |text| window.0.get_by_label(text).rect().top();
    assert_eq!(top("Who is there"), top("For other peers"));
    let field = window.0.get(fields("Peer's address")).rect();
    let button = window.rect(Role::Button, "Add peer");
    assert!(field.right() < button.left() && field.y_range().contains(button.center().y));
}

#[test]
fn traffic_is_shown_by_what_it_was_for_and_refused_addresses_are_counted() {
    let mut window = Window::at(Screen::Network);
    for text in [
        "Who is there",
        "URLs",
        "Contents",
        "Hosts handed over",
        "For other peers",
    ] {
        window.0.get_by_label(text);
    }
    for text in ["31 MB", "13 MB", "640 kB", "0 B"] {
        assert!(window.has(text), "{text}");
    }
    assert!(window.has("7 addresses of peers not called"));
    window.change(|model| {
        let network = Arc::make_mut(&mut model.network);
        network.addresses_refused = 1;
        network.traffic.urls.download_bytes = 99_000_000;
    });
    assert!(window.has("1 address of peers not called") && window.has("99 MB"));
    window.change(|model| Arc::make_mut(&mut model.network).addresses_refused = 0);
    assert!(!window.has("of peers not called") && window.has("99 MB"));
}

/// "969 bytes" took two lines in the smallest window.
#[test]
fn traffic_stays_on_one_line() {
    let mut window = Window::open_sized(made_up::model(), 900.0, 600.0);
    window.go(Screen::Network);
    let line = window.0.get_by_label_contains("969 B").rect();
    assert!(line.height() < 2.0 * theme::SMALL_SIZE, "{line:?}");
}

#[test]
fn who_has_left_the_network_is_not_said_to_be_alone_in_it() {
    let mut window = Window::at(Screen::Network);
    window.change(|model| {
        Arc::make_mut(&mut model.network).takes_part = Some(false);
        let until_ms = made_up::NOW_MS + 1_000;
        model.state = RunState::Paused(PauseReason::QuotaUsed { until_ms });
    });
    assert!(window.has("This computer is not in the network at the moment."));
    assert!(window.has("It comes back by itself") && !window.has("No peers yet"));
    assert!(!window.has("takes care of") && !window.has("12 peers and this computer"));
}

/// The first visit used to begin with "not in the network".
#[test]
fn nothing_is_said_of_a_network_that_was_not_looked_at_yet() {
    let mut window = Window::at(Screen::Network);
    let known = made_up::model().network;
    window.change(|model| model.network = Arc::default());
    assert!(!window.has("not in the network") && !window.has("takes care of"));
    assert!(!window.has("No peers yet") && !window.has("(this computer)"));
    window.change(|model| model.network = known);
    assert!(window.has("takes care of 8.3 % of all hosts"));
}

#[test]
fn peers_are_sorted_and_searched() {
    let mut window = Window::at(Screen::Network);
    for (name, column) in [
        ("Peer", PeerColumn::Id),
        ("Role", PeerColumn::Role),
        ("Answers in", PeerColumn::RoundTrip),
        ("Received", PeerColumn::Download),
        ("Sent", PeerColumn::Upload),
        ("Version", PeerColumn::Version),
        ("Share", PeerColumn::Share),
    ] {
        window.press(&format!("Sort by {name}"));
        assert_eq!(window.shown().peers.sort_by, column);
    }
    assert!(window.has("12 peers and this computer"));
    window.fill("Search peers", "ab");
    assert_eq!(window.shown().peers.search, "ab");
    // This computer need not be among what was found.
    window.change(|model| Arc::make_mut(&mut model.peers).total = 3);
    assert!(window.has("3 matches") && !window.has("and this computer"));
    window.change(|model| model.peers = Arc::new(View::default()));
    assert!(window.has("No peer matches") && !window.has("0 matches"));
}

#[test]
fn a_peer_can_be_added_by_its_address() {
    let mut window = Window::at(Screen::Network);
    window.fill("Peer's address", "/ip4/203.0.113.5/tcp/4001");
    window.press("Add peer");
    assert_eq!(
        window.sent(),
        [Command::AddPeer("/ip4/203.0.113.5/tcp/4001".to_owned())]
    );
    window.fill("Peer's address", "/ip4/203.0.113.5/tcp/4001");
    window.key(Key::Enter);
    let address = "/ip4/203.0.113.5/tcp/4001".to_owned();
    assert_eq!(window.sent(), [Command::AddPeer(address)]);
    window.change(|model| {
        model.problems = vec![(Field::PeerAddress, "this is no address".to_owned())];
    });
    assert!(window.has("this is no address") && !window.has("Calling"));
    let typed = |window: &Window| window.0.get(fields("Peer's address")).value();
    let address = "/ip4/203.0.113.5/tcp/4001";
    assert_eq!(typed(&window).as_deref(), Some(address), "to be mended");
    window.change(|model| {
        model.problems.clear();
        Arc::make_mut(&mut model.network).called = vec![address.to_owned()];
    });
    assert_eq!(typed(&window).as_deref(), Some(""), "it is done");
}

#[test]
fn my_address_can_be_copied() {
    let mut window = Window::at(Screen::Network);
    window
        .0
        .get_by_role_and_label(Role::Button, "Copy my address")
        .click();
    let mut copied = false;
    for _ in 0..4 {
        window.0.step();
        let commands = &window.0.output().platform_output.commands;
        copied |= commands.iter().any(|command| {
            matches!(command, peercrawl_ui::egui::OutputCommand::CopyText(text)
                if text.starts_with("/ip4/198.51.100.7/"))
        });
    }
    assert!(copied);
}
