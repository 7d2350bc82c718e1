//! Network: who takes part.

use eframe::egui::{Align, Key, Label, Layout, RichText, Ui};
use egui_extras::{Column, TableBuilder};

use super::ring::ring_ui;
use crate::command::{Command, PeerColumn};
use crate::format;
use crate::frame::{Scene, shortcuts};
use crate::model::{Field, OverlayKind, PeerRow, Role, RunState, Traffic};
use crate::parts;
use crate::scroll;
use crate::symbols;
use crate::table::{self, Drawn, sort_head_ui};
use crate::theme;

/// What the screen remembers.
#[derive(Default)]
pub struct NetworkState {
    address: String,
    /// What was sent to be called, until it is.
    sent: Option<String>,
}

/// A screen with less room than this scrolls as a whole: it would show too few peers.
pub const LEAST_HEIGHT: f32 = 432.0;
/// The table is at least so high that it shows a few.
const LEAST_ROWS: f32 = 4.0;
/// Everything but the ring, with a few peers.
const OTHER_HEIGHT: f32 = 376.0;
/// The ring where there is little room, and where there is enough.
const SMALL_RING: f32 = 96.0;
const LARGE_RING: f32 = 184.0;
/// All columns of the table side by side.
const TABLE_WIDTH: f32 = 660.0;
/// One kind of traffic; a narrow window has fewer beside each other.
const TRAFFIC_WIDTH: f32 = 130.0;
/// A line of text that nothing can be clicked in.
const LINE_HEIGHT: f32 = 20.0;
/// *Add peer* and the gap before it.
const ADD_WIDTH: f32 = 92.0;

const COLUMNS: [(&str, PeerColumn); 7] = [
    ("Peer", PeerColumn::Id),
    ("Role", PeerColumn::Role),
    ("Share", PeerColumn::Share),
    ("Answers in", PeerColumn::RoundTrip),
    ("Received", PeerColumn::Download),
    ("Sent", PeerColumn::Upload),
    ("Version", PeerColumn::Version),
];

/// Draws it.
pub fn network_ui(ui: &mut Ui, scene: &mut Scene<'_>, state: &mut NetworkState) {
    let ring_size = (ui.available_height() - OTHER_HEIGHT).clamp(SMALL_RING, LARGE_RING);
    parts::heading_ui(ui, "Network");
    if scene.model.network.takes_part.is_none() {
        // It is looked at from now on, and known in a moment.
        return;
    }
    parts::card_ui(ui, |ui| {
        if ui.available_width() < theme::NARROW {
            ring_ui(ui, &scene.model.network, ring_size);
            return beside_ring_ui(ui, scene, state);
        }
        ui.horizontal_top(|ui| {
            ring_ui(ui, &scene.model.network, ring_size);
            ui.add_space(theme::GAP);
            ui.vertical(|ui| beside_ring_ui(ui, scene, state));
        });
    });
    traffic_ui(ui, scene);
    ui.horizontal(|ui| {
        let search = &mut scene.view.peers.search;
        let field = parts::search_field_ui(ui, "Search peers", search, 240.0);
        if shortcuts::wants_search(ui.ctx()) {
            field.request_focus();
        }
        let lines = scene.model.peers.total as u64;
        if is_searched(scene) && lines > 0 && !is_away(scene) {
            ui.weak(format::counted(lines, "match", "matches"));
        } else if lines > 1 && !is_away(scene) {
            // This computer has a line too, and is no peer of its own.
            let peers = format::counted(lines - 1, "peer", "peers");
            ui.weak(format!("{peers} and this computer"));
        }
    });
    let others = scene.model.peers.rows.iter().any(|peer| !peer.me);
    let is_found = is_searched(scene) && scene.model.peers.total > 0;
    if is_away(scene) {
        let to_do = match scene.model.state.can_start() {
            true => "Press Start to go on.",
            false => "It comes back by itself once the crawl goes on.",
        };
        let what = "The peers are listed while this computer takes part";
        parts::empty_ui(ui, what, to_do);
    } else if others || is_found || scene.model.peers.total > 1 {
        table::wide_ui(ui, TABLE_WIDTH, |ui| table_ui(ui, scene));
    } else if !is_searched(scene) {
        let looking = match scene.model.network.looks_on_local_network {
            true => "Add one, open a join file, or wait: looking on your local network.",
            false => "Add one, or open a join file on the Crawl screen.",
        };
        parts::empty_ui(ui, "No peers yet", looking);
    } else {
        parts::empty_ui(
            ui,
            "No peer matches",
            "Clear the search to see all of them.",
        );
    }
}

fn is_searched(scene: &Scene<'_>) -> bool {
    !scene.view.peers.search.trim().is_empty()
}

/// Whether this computer takes no part at present.
fn is_away(scene: &Scene<'_>) -> bool {
    let is_stopped = matches!(scene.model.state, RunState::Stopped | RunState::Starting);
    is_stopped || scene.model.network.takes_part == Some(false)
}

fn beside_ring_ui(ui: &mut Ui, scene: &mut Scene<'_>, state: &mut NetworkState) {
    ui.spacing_mut().item_spacing.y = 4.0;
    let network = &scene.model.network;
    let me = network.nodes.iter().find(|node| node.me);
    let role = me.map_or(Role::Leaf, |node| node.role);
    let share = format::percent(network.my_share);
    let words = match is_away(scene) {
        true => "This computer is not in the network at the moment.".to_owned(),
        false => format!(
            "This computer is a {} and takes care of {share} of all hosts.",
            symbols::role(role).word
        ),
    };
    ui.add(Label::new(words).wrap());
    parts::weak_ui(
        ui,
        match network.overlay {
            OverlayKind::Supernode => {
                "A supernode is a peer that passes messages on for others. \
                 Peers stand on the ring by id, not by place."
            }
            OverlayKind::Flat => {
                "Every peer passes messages on. Peers stand on the ring by id, not by place."
            }
        },
    );
    match network.my_addresses.as_slice() {
        [] => {
            parts::weak_ui(ui, "Other peers cannot call this computer yet.");
        }
        [first, more @ ..] => {
            ui.horizontal(|ui| {
                if ui.add(parts::button("Copy my address")).clicked() {
                    ui.ctx().copy_text(first.clone());
                    scene
                        .toasts
                        .say("Your address is copied.", None, scene.time_secs);
                }
                let mut tip = first.clone();
                for address in more {
                    tip.push('\n');
                    tip.push_str(address);
                }
                let text = RichText::new(first).monospace().weak();
                ui.add(Label::new(text).truncate()).on_hover_text(tip);
            });
        }
    }
    // What is wrong stays, to be mended.
    if let Some(sent) = state.sent.take_if(|sent| network.called.contains(sent))
        && state.address.trim() == sent
    {
        state.address.clear();
    }
    ui.horizontal_wrapped(|ui| {
        let hint = "/dns4/example.org/tcp/4001";
        let text = &mut state.address;
        let field = parts::text_field_before_ui(ui, "Peer's address", text, hint, ADD_WIDTH);
        let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
        let address = state.address.trim();
        let add = ui.add_enabled(!address.is_empty(), parts::button("Add peer"));
        if (add.clicked() || entered) && !address.is_empty() {
            state.sent = Some(address.to_owned());
            scene.send(Command::AddPeer(address.to_owned()));
        }
    });
    let is_sent = state.sent.as_deref() == Some(state.address.trim());
    let problem = scene.model.problem(Field::PeerAddress);
    parts::problem_ui(ui, problem.filter(|_| is_sent));
}

/// What the traffic with other peers was for, and what they were refused.
fn traffic_ui(ui: &mut Ui, scene: &Scene<'_>) {
    let network = &scene.model.network;
    let Traffic {
        membership,
        urls,
        content,
        handover,
        carried,
    } = network.traffic;
    if network.traffic == Traffic::default() && network.addresses_refused == 0 {
        return;
    }
    let kinds = [
        ("Who is there", "To know who takes part", membership),
        ("URLs", "URLs for whoever takes care of their host", urls),
        ("Contents", "Whether a content was seen before", content),
        (
            "Hosts handed over",
            "Hosts for whoever takes care of them now",
            handover,
        ),
        (
            "For other peers",
            "What other peers had to say to each other",
            carried,
        ),
    ];
    parts::card_ui(ui, |ui| {
        ui.spacing_mut().item_spacing.y = 4.0;
        ui.spacing_mut().interact_size.y = LINE_HEIGHT;
        ui.horizontal_wrapped(|ui| {
            ui.strong("Traffic with other peers");
            if network.addresses_refused > 0 {
                let addresses = format::counted(network.addresses_refused, "address", "addresses");
                let text = format!("{addresses} of peers not called: private, or leading nowhere.");
                parts::weak_ui(ui, text);
            }
        });
        parts::columns_ui(ui, kinds.len(), TRAFFIC_WIDTH, |columns| {
            let count = columns.len();
            for (number, (name, tip, moved)) in kinds.into_iter().enumerate() {
                let ui = &mut columns[number % count];
                ui.add(Label::new(name).truncate()).on_hover_text(tip);
                let text = format!(
                    "{} {}  {} {}",
                    symbols::DOWNLOAD,
                    format::short_bytes(moved.download_bytes),
                    symbols::UPLOAD,
                    format::short_bytes(moved.upload_bytes)
                );
                let exact = format!(
                    "{} bytes received, {} bytes sent",
                    format::count(moved.download_bytes),
                    format::count(moved.upload_bytes)
                );
                parts::weak_ui(ui, text).on_hover_text(exact);
            }
        });
    });
}

fn table_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let peers = &scene.model.peers;
    let request = &mut scene.view.peers;
    let mut drawn = Drawn::default();
    ui.spacing_mut().item_spacing.y = 0.0;
    TableBuilder::new(ui)
        .id_salt("peers")
        .striped(true)
        .auto_shrink(false)
        .animate_scrolling(false)
        .min_scrolled_height(LEAST_ROWS * theme::ROW_HEIGHT)
        .cell_layout(Layout::left_to_right(Align::Center))
        .column(Column::remainder().clip(true).at_least(140.0))
        .column(Column::exact(104.0))
        .column(Column::exact(64.0))
        .column(Column::exact(80.0))
        .columns(Column::exact(76.0), 2)
        .column(Column::exact(72.0).clip(true))
        .header(theme::ROW_HEIGHT, |mut header| {
            for (name, column) in COLUMNS {
                header.col(|ui| match column {
                    PeerColumn::Id | PeerColumn::Role => sort_head_ui(ui, name, column, request),
                    _ => {
                        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                            sort_head_ui(ui, name, column, request);
                        });
                    }
                });
            }
        })
        .body(|mut body| {
            scroll::rows_by_keys(body.ui_mut(), peers.total, theme::ROW_HEIGHT);
            body.rows(theme::ROW_HEIGHT, peers.total, |mut row| {
                let number = row.index();
                drawn.row(number);
                let Some(peer) = peers.get(number) else {
                    row.col(|ui| {
                        ui.weak("…");
                    });
                    return;
                };
                row.col(|ui| peer_ui(ui, peer));
                row.col(|ui| {
                    ui.label(symbols::role(peer.role).text());
                });
                for (text, tip) in figures(peer) {
                    row.col(|ui| {
                        let figure = parts::number_ui(ui, text);
                        if let Some(tip) = tip {
                            figure.on_hover_text(tip);
                        }
                    });
                }
            });
        });
    request.rows = drawn.ask();
}

fn peer_ui(ui: &mut Ui, peer: &PeerRow) {
    let text = match peer.me {
        true => RichText::new(format!("{} (this computer)", peer.id)).strong(),
        false => RichText::new(&peer.id),
    };
    let address = match peer.address.is_empty() {
        true => "known from other peers",
        false => &peer.address,
    };
    ui.add(Label::new(text).truncate()).on_hover_text(address);
}

fn figures(peer: &PeerRow) -> [(String, Option<String>); 5] {
    let dash = |why: &str| {
        let why = if peer.me { "This computer" } else { why };
        ("–".to_owned(), Some(why.to_owned()))
    };
    let bytes = |number: Option<u64>| match number {
        Some(number) => {
            let exact = format!("{} bytes", format::count(number));
            (format::bytes(number), Some(exact))
        }
        None => dash("Known from other peers: this computer has not spoken to it"),
    };
    let answers = match peer.rtt_us {
        Some(us) => (
            format!("{} ms", format::decimal(us as f64 / 1_000.0)),
            Some(format!("{} µs", format::count(us))),
        ),
        None => dash("Not connected with this computer at the moment"),
    };
    let version = match peer.version.is_empty() {
        true => dash("It has not said"),
        false => (peer.version.clone(), None),
    };
    [
        (format::percent(peer.share), None),
        answers,
        bytes(peer.download_bytes),
        bytes(peer.upload_bytes),
        version,
    ]
}
