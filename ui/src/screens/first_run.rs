//! The first page: what the program will do and use, before anything is fetched.

use std::path::PathBuf;

use eframe::egui::{Key, Label, RichText, Ui};

use super::join::browse_ui;
use super::limits::{FIRST_LIMITS, numbers_grid_ui};
use crate::command::{Begin, Command};
use crate::frame::Scene;
use crate::model::{Field, Setting};
use crate::parts;
use crate::symbols;
use crate::theme;

/// What the page remembers: the answers so far.
#[derive(Default)]
pub struct FirstRunState {
    changes: Vec<Setting>,
    with: With,
    site: String,
    join_file: String,
    peer: String,
    /// Whether the page was ready to be typed into once since it came.
    was_focused: bool,
    /// What was last sent: what is wrong with it is not wrong with another text.
    sent: String,
    /// Something was missing when *Start crawling* was pressed.
    incomplete: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum With {
    #[default]
    Site,
    JoinFile,
    Peer,
    Demo,
}

/// Width of a column at least.
const COLUMN_WIDTH: f32 = 256.0;

/// Draws it.
pub fn first_run_ui(ui: &mut Ui, scene: &mut Scene<'_>, state: &mut FirstRunState) {
    let Some(first_run) = &scene.model.first_run else {
        return;
    };
    ui.vertical_centered(|ui| {
        ui.set_max_width(theme::TEXT_WIDTH.min(ui.available_width()));
        ui.with_layout(
            eframe::egui::Layout::top_down(eframe::egui::Align::LEFT),
            |ui| {
                parts::heading_ui(ui, "Welcome to PeerCrawl");
                // It comes again when there is nothing left to crawl.
                let so_far = match scene.model.totals.ever.pages {
                    0 => " Nothing has been fetched yet.",
                    _ => "",
                };
                let text = format!(
                    "You lend a little of your internet connection, and together with other \
                     volunteers this computer collects public web pages for an archive that \
                     belongs to nobody alone.{so_far}"
                );
                ui.add(Label::new(text).wrap());
                parts::columns_ui(ui, 2, COLUMN_WIDTH, |columns| {
                    let second = 1 % columns.len();
                    parts::titled_card_ui(&mut columns[0], "It will", |ui| {
                        point_ui(ui, "fetch public web pages, slowly and politely");
                        point_ui(ui, "keep them in a folder on this computer");
                        point_ui(ui, "share the work with other volunteers");
                        parts::weak_ui(ui, format!("Folder: {}", first_run.archive_folder));
                    });
                    parts::titled_card_ui(&mut columns[second], "It will never", |ui| {
                        point_ui(ui, "visit your private network or your router");
                        point_ui(ui, "go where a site asks robots not to go");
                        point_ui(ui, "read your files or your browser's history");
                        parts::weak_ui(ui, "You can pause or stop it at any time.");
                    });
                });
                parts::titled_card_ui(ui, "It may use", |ui| {
                    limits_ui(ui, scene, state, first_run.memory_mb)
                });
                if !first_run.has_crawl {
                    parts::titled_card_ui(ui, "Begin with", |ui| begin_ui(ui, scene, state));
                }
            },
        );
    });
}

fn point_ui(ui: &mut Ui, text: &str) {
    ui.add(Label::new(format!("•  {text}")).wrap());
}

fn limits_ui(ui: &mut Ui, scene: &mut Scene<'_>, state: &mut FirstRunState, memory_mb: u32) {
    let mut settings = scene.draft.get().clone();
    for change in &state.changes {
        settings.apply(change);
    }
    let (left, right) = FIRST_LIMITS.split_at(FIRST_LIMITS.len() / 2);
    let changes = parts::columns_ui(ui, 2, COLUMN_WIDTH, |columns| {
        let second = 1 % columns.len();
        let mut changes = numbers_grid_ui(&mut columns[0], scene, &settings, left);
        let more = numbers_grid_ui(&mut columns[second], scene, &settings, right);
        changes.extend(more);
        changes
    });
    for change in changes {
        // The last word on a setting counts.
        let kind = std::mem::discriminant(&change);
        state
            .changes
            .retain(|earlier| std::mem::discriminant(earlier) != kind);
        state.changes.push(change);
    }
    // 268 MB would be exact, and is about 270.
    let memory_mb = memory_mb.div_ceil(10) * 10;
    parts::weak_ui(
        ui,
        format!(
            "And about {memory_mb} MB of memory. The limits can be changed later, at any time."
        ),
    );
}

fn begin_ui(ui: &mut Ui, scene: &mut Scene<'_>, state: &mut FirstRunState) {
    ui.spacing_mut().item_spacing.y = 4.0;
    let choices = [
        (With::Site, "A web site"),
        (With::JoinFile, "A join file from a friend"),
        (With::Peer, "A friend's computer"),
        (
            With::Demo,
            "The demo: a made-up web on this computer, nothing leaves it",
        ),
    ];
    for (with, words) in choices {
        if ui.radio(state.with == with, words).clicked() {
            state.with = with;
            state.incomplete = false;
        }
        if state.with != with {
            continue;
        }
        let shown = ui.indent(words, |ui| match with {
            With::Site => {
                let site = &mut state.site;
                let field = parts::text_field_ui(ui, "Web address", site, "https://example.org/");
                if !std::mem::replace(&mut state.was_focused, true) {
                    field.request_focus();
                }
                let is_sent = state.site.trim() == state.sent;
                problems_ui(
                    ui,
                    scene.model.problem(Field::FirstSite).filter(|_| is_sent),
                    state.incomplete && state.site.trim().is_empty(),
                    "Type a web address.",
                );
                Some(field)
            }
            With::JoinFile => {
                let file = &mut state.join_file;
                let field = parts::text_field_ui(ui, "File", file, "crawl.peercrawl");
                let is_sent = state.join_file.trim() == state.sent;
                problems_ui(
                    ui,
                    scene.model.problem(Field::JoinFile).filter(|_| is_sent),
                    state.incomplete && state.join_file.trim().is_empty(),
                    "Name a join file.",
                );
                browse_ui(ui, scene, Field::JoinFile, "Browse…");
                Some(field)
            }
            With::Peer => {
                let hint = "/dns4/example.org/tcp/4001";
                let field = parts::text_field_ui(ui, "Its address", &mut state.peer, hint);
                let is_sent = state.peer.trim() == state.sent;
                problems_ui(
                    ui,
                    scene.model.problem(Field::PeerAddress).filter(|_| is_sent),
                    state.incomplete && state.peer.trim().is_empty(),
                    "Type its address.",
                );
                Some(field)
            }
            With::Demo => None,
        });
        let is_left = shown.inner.is_some_and(|field| field.lost_focus());
        if is_left && ui.input(|input| input.key_pressed(Key::Enter)) {
            start(scene, state);
        }
    }
}

fn problems_ui(ui: &mut Ui, problem: Option<&str>, incomplete: bool, missing: &str) {
    parts::problem_ui(ui, problem);
    if incomplete {
        let color = theme::palette(ui).red;
        ui.label(RichText::new(format!("{} {missing}", symbols::PROBLEM)).color(color));
    }
}

/// How the page is answered.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// *Start crawling*.
    Start,
    /// *Not now*.
    NotNow,
}

/// The two answers, which stay in sight however small the window is. Gives the one that was
/// clicked.
pub fn answers_ui(ui: &mut Ui) -> Option<Answer> {
    // In line with the page above.
    let margin = (ui.available_width() - theme::TEXT_WIDTH).max(0.0) / 2.0;
    ui.horizontal(|ui| {
        ui.add_space(margin);
        let start = ui.add(parts::primary_button(ui, "Start crawling"));
        let not_now = ui.add(parts::button("Not now"));
        if start.clicked() {
            Some(Answer::Start)
        } else {
            not_now.clicked().then_some(Answer::NotNow)
        }
    })
    .inner
}

/// Carries out what was answered.
pub fn take(answer: Answer, scene: &mut Scene<'_>, state: &mut FirstRunState) {
    match answer {
        Answer::Start => start(scene, state),
        Answer::NotNow => scene.send(Command::NotNow),
    }
}

/// Begins, or says what is missing: *Start* never leads to nothing.
fn start(scene: &mut Scene<'_>, state: &mut FirstRunState) {
    if scene.has_refused {
        // A limit is not what was meant, and the words about that are there.
        return;
    }
    let first_run = scene.model.first_run.as_ref();
    let has_crawl = first_run.is_some_and(|first_run| first_run.has_crawl);
    let typed = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let with = match state.with {
        _ if has_crawl => Some(Begin::AsConfigured),
        With::Site => typed(&state.site).map(Begin::Site),
        With::JoinFile => typed(&state.join_file).map(|file| Begin::JoinFile(PathBuf::from(file))),
        With::Peer => typed(&state.peer).map(Begin::Peer),
        With::Demo => Some(Begin::Demo),
    };
    state.sent = match state.with {
        With::Site => state.site.trim(),
        With::JoinFile => state.join_file.trim(),
        With::Peer => state.peer.trim(),
        With::Demo => "",
    }
    .to_owned();
    state.incomplete = with.is_none();
    if let Some(with) = with {
        let settings = state.changes.clone();
        scene.send(Command::Begin { settings, with });
    }
}
