//! Queues: the hosts, and what waits for them.

use eframe::egui::{Align, Label, Layout, Ui, vec2};
use egui_extras::{Column, TableBuilder};

use crate::command::HostColumn;
use crate::format;
use crate::frame::{Scene, shortcuts, status};
use crate::model::{HostRow, Memory, RunState, WaitReason};
use crate::parts;
use crate::scroll;
use crate::table::{self, Drawn, sort_head_ui};
use crate::theme;

const COLUMNS: [(&str, HostColumn); 9] = [
    ("Host", HostColumn::Host),
    ("Waiting", HostColumn::Waiting),
    ("Memory", HostColumn::InMemory),
    ("Disk", HostColumn::OnDisk),
    ("Next", HostColumn::Next),
    ("Delay", HostColumn::Delay),
    ("Fetched", HostColumn::Fetched),
    ("Errors", HostColumn::Errors),
    ("Dropped", HostColumn::Dropped),
];

/// All columns side by side.
const TABLE_WIDTH: f32 = 724.0;
/// The delay and why; a wide window has more room for it.
const DELAY_WIDTH: f32 = 104.0;
const MOST_DELAY_WIDTH: f32 = 232.0;
/// All that is above them.
const LINE_WIDTH: f32 = 560.0;

/// Draws it.
pub fn queues_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    parts::heading_ui(ui, "Queues");
    parts::line_ui(ui, LINE_WIDTH, |ui, is_narrow| {
        let search = &mut scene.view.hosts.search;
        let field = parts::search_field_ui(ui, "Search hosts", search, 240.0);
        if shortcuts::wants_search(ui.ctx()) {
            field.request_focus();
        }
        ui.weak(hosts_words(scene));
        let layout = match is_narrow {
            true => *ui.layout(),
            false => Layout::right_to_left(Align::Center),
        };
        ui.with_layout(layout, |ui| memory_ui(ui, scene.model.memory));
    });
    let on_disk = scene.model.on_disk_alone as u64;
    if on_disk > 0 && !scene.view.hosts.search.is_empty() {
        let hosts = format::counted(on_disk, "host", "hosts");
        let text = format!("{hosts} on disk cannot be searched: type the whole name of one.");
        parts::weak_ui(ui, text);
    }
    if scene.model.hosts.total > 0 {
        table::wide_ui(ui, TABLE_WIDTH, |ui| table_ui(ui, scene));
    } else if let Some(what_to_do) = why_unlisted(&scene.model.state) {
        let words = format!("What waits for them is kept. {what_to_do}");
        parts::empty_ui(ui, "The hosts are listed while it runs", &words);
    } else if scene.view.hosts.search.is_empty() {
        parts::empty_ui(
            ui,
            "No hosts yet",
            "Every web site that this computer takes care of gets a line here, with the pages \
             that wait for it. Add a web site on the Crawl screen, or wait for peers to send some.",
        );
    } else {
        parts::empty_ui(
            ui,
            "No host matches",
            "Clear the search to see all of them.",
        );
    }
}

/// What to do where the hosts are not known, because nothing runs that knows them.
fn why_unlisted(state: &RunState) -> Option<&'static str> {
    match state {
        RunState::Starting => Some("It is starting."),
        RunState::Finishing { .. } => Some("It is about to stop."),
        RunState::NeedsYou {
            is_running: false, ..
        } => Some("The line at the top says what is in the way."),
        RunState::Stopped => Some("Press Start to go on with it."),
        RunState::Crawling
        | RunState::Waiting(_)
        | RunState::Paused(_)
        | RunState::NeedsYou { .. } => None,
    }
}

/// What is said in place of when a host comes next, while none does.
fn held_word(state: &RunState) -> Option<&'static str> {
    match state {
        RunState::Paused(_) => Some("paused"),
        RunState::Finishing { .. } => Some("stopping"),
        RunState::Waiting(
            WaitReason::Offline | WaitReason::CannotJoin | WaitReason::CatchingUp,
        )
        | RunState::NeedsYou { .. } => Some("waiting"),
        _ => None,
    }
}

/// How many hosts there are, and how many of them are on disk alone.
fn hosts_words(scene: &Scene<'_>) -> String {
    let hosts = format::counted(scene.model.hosts.total as u64, "host", "hosts");
    match scene.model.on_disk_alone as u64 {
        on_disk if on_disk > 0 && scene.view.hosts.search.is_empty() => {
            format!("{hosts}, {} of them on disk", format::count(on_disk))
        }
        _ => hosts,
    }
}

fn memory_ui(ui: &mut Ui, memory: Memory) {
    let budget = format::bytes(memory.budget_bytes);
    let text = match memory.used_bytes {
        0 => format!("memory: {budget} budget"),
        used => format!("memory: {} of {budget}", format::bytes(used)),
    };
    parts::weak_ui(ui, text).on_hover_text(
        "Queues and what was seen keep to this budget, and what is over goes to disk. The \
         window itself comes on top.",
    );
}

fn table_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let hosts = &scene.model.hosts;
    let now_ms = scene.model.now_ms;
    let held = held_word(&scene.model.state);
    let why_held = held.map(|_| status::sentence(scene.model));
    let held = held.zip(why_held.as_deref());
    let request = &mut scene.view.hosts;
    let mut drawn = Drawn::default();
    let mut toggle = None;
    let more = (ui.available_width() - TABLE_WIDTH).max(0.0) / 2.0;
    let delay_width = (DELAY_WIDTH + more).min(MOST_DELAY_WIDTH);
    // Ten columns fit a small window only if they stand close together.
    ui.spacing_mut().item_spacing = vec2(4.0, 0.0);
    TableBuilder::new(ui)
        .id_salt("hosts")
        .striped(true)
        .auto_shrink(false)
        .animate_scrolling(false)
        .cell_layout(Layout::left_to_right(Align::Center))
        .column(Column::remainder().clip(true).at_least(120.0))
        .columns(Column::exact(60.0), 2)
        .column(Column::exact(52.0))
        .column(Column::exact(60.0))
        .column(Column::exact(delay_width).clip(true))
        .column(Column::exact(60.0))
        .column(Column::exact(52.0))
        .columns(Column::exact(60.0), 2)
        .header(theme::ROW_HEIGHT, |mut header| {
            for (name, column) in COLUMNS {
                header.col(|ui| {
                    if column == HostColumn::Host {
                        sort_head_ui(ui, name, column, request);
                    } else {
                        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                            sort_head_ui(ui, name, column, request);
                        });
                    }
                });
            }
            header.col(|_| {});
        })
        .body(|mut body| {
            scroll::rows_by_keys(body.ui_mut(), hosts.total, theme::ROW_HEIGHT);
            body.rows(theme::ROW_HEIGHT, hosts.total, |mut row| {
                let number = row.index();
                drawn.row(number);
                let Some(host) = hosts.get(number) else {
                    row.col(|ui| {
                        ui.weak("…");
                    });
                    return;
                };
                row.col(|ui| {
                    ui.add(Label::new(&host.host).truncate())
                        .on_hover_text(&host.host);
                });
                for (text, tip) in figures(host, now_ms, held) {
                    row.col(|ui| {
                        let figure = parts::number_ui(ui, text);
                        if let Some(tip) = tip {
                            figure.on_hover_text(tip);
                        }
                    });
                }
                row.col(|ui| {
                    let word = if host.blocked { "Unblock" } else { "Block" };
                    let label = || format!("{word} {}", host.host);
                    if parts::row_button_ui(ui, word, label).clicked() {
                        toggle = Some((host.host.clone(), host.blocked));
                    }
                });
            });
        });
    request.rows = drawn.ask();
    match toggle {
        Some((host, true)) => scene.unblock(host),
        Some((host, false)) => scene.block(host),
        None => {}
    }
}

/// The cells after the name, with what is under the pointer. While nothing new is fetched,
/// `held` has the word for that, and why.
fn figures(
    host: &HostRow,
    now_ms: u64,
    held: Option<(&str, &str)>,
) -> [(String, Option<String>); 8] {
    let count = |number| (format::count(number), None);
    let unread = || {
        let tip = "known once it is read from disk";
        ("–".to_owned(), Some(tip.to_owned()))
    };
    let read = |number| match host.is_away {
        true => unread(),
        false => count(number),
    };
    let next = match host.next_ms {
        _ if host.blocked => ("blocked".to_owned(), None),
        None if host.is_away => unread(),
        None => ("fetching".to_owned(), None),
        Some(_) if host.waiting() == 0 => ("–".to_owned(), Some("nothing waits".to_owned())),
        Some(at_ms) => match held {
            Some((word, why)) => (word.to_owned(), Some(why.to_owned())),
            None => (format::until(at_ms, now_ms), None),
        },
    };
    let delay = format::lasting(host.delay_ms);
    let delay = match host.delay_why.is_empty() {
        _ if host.is_away => {
            let tip = "all of it waits on disk until its turn comes";
            ("on disk".to_owned(), Some(tip.to_owned()))
        }
        true => (delay, Some("the usual pause between two pages".to_owned())),
        false => {
            let text = format!("{delay}, {}", host.delay_why);
            (text.clone(), Some(text))
        }
    };
    [
        count(host.waiting()),
        count(host.in_memory),
        count(host.on_disk),
        next,
        delay,
        read(host.fetched),
        read(host.errors),
        read(host.dropped),
    ]
}
