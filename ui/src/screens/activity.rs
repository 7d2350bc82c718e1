//! Activity: what is being fetched now, and what became of the last fetches.

use eframe::egui::{Align, Button, Color32, Label, Layout, RichText, Ui};
use egui_extras::{Column, TableBuilder};

use crate::format;
use crate::frame::{Scene, shortcuts};
use crate::model::{Outcome, Refused, ResultRow};
use crate::parts;
use crate::scroll;
use crate::symbols;
use crate::table::{self, Drawn};
use crate::theme;

/// Rows of the list of what is being fetched now, at least and at most; the rest is counted.
const FETCHING_SHOWN: (usize, usize) = (4, 16);
/// The height that leaves no room for more than the least of them, and the part of what is
/// above it that they get.
const LOW_HEIGHT: f32 = 480.0;
const FETCHING_PART: f32 = 0.25;
/// Their ages grow in steps: a finer one would be another text to lay out in every frame.
const AGE_STEP_MS: u64 = 100;

const LINE_HEIGHT: f32 = 20.0;
/// All columns side by side.
const TABLE_WIDTH: f32 = 544.0;

/// Draws it.
pub fn activity_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let height = ui.available_height();
    parts::heading_ui(ui, "Activity");
    fetching_ui(ui, scene, height);
    refused_ui(ui, scene.model.refused);
    filter_ui(ui, scene);
    if scene.model.results.total > 0 {
        table::wide_ui(ui, TABLE_WIDTH, |ui| results_ui(ui, scene));
    } else if scene.view.results_search.is_empty() && scene.view.outcome.is_none() {
        parts::empty_ui(
            ui,
            "Nothing fetched yet",
            "Each page appears here with what became of it. Press Start if the crawl is paused.",
        );
    } else {
        parts::empty_ui(ui, "No result matches", "Clear the search or choose All.");
    }
}

fn fetching_ui(ui: &mut Ui, scene: &Scene<'_>, height: f32) {
    let fetching = &scene.model.fetching;
    let more = ((height - LOW_HEIGHT) * FETCHING_PART / LINE_HEIGHT).max(0.0) as usize;
    let shown = (FETCHING_SHOWN.0 + more).min(FETCHING_SHOWN.1);
    parts::card_ui(ui, |ui| {
        // Always the same height, or everything below would jump.
        ui.set_height((shown as f32 + 1.0) * LINE_HEIGHT);
        ui.spacing_mut().item_spacing.y = 0.0;
        ui.spacing_mut().interact_size.y = LINE_HEIGHT;
        ui.horizontal(|ui| {
            ui.strong("Fetching now");
            let more = fetching.len().saturating_sub(shown) as u64;
            if more > 0 {
                ui.weak(format!("and {} more", format::count(more)));
            }
        });
        for fetch in fetching.iter().take(shown) {
            ui.horizontal(|ui| {
                let past = scene.model.now_ms.saturating_sub(fetch.since_ms);
                let past = past / AGE_STEP_MS * AGE_STEP_MS;
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    let text = RichText::new(format::lasting(past)).small().weak();
                    parts::fixed_ui(ui, 56.0, text, || {
                        format!("since {}", scene.local(fetch.since_ms).clock_secs())
                    });
                    ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                        ui.add(Label::new(RichText::new(&fetch.url).monospace()).truncate());
                    });
                });
            });
        }
        if fetching.is_empty() {
            parts::weak_ui(ui, "Nothing at this moment.");
        }
    });
}

/// What was not fetched on purpose, in one line.
fn refused_ui(ui: &mut Ui, refused: Refused) {
    let text = format!(
        "Refused so far: {} by robots.txt · {} · {} · {} · {}",
        format::count(refused.robots),
        format::counted(
            refused.private_addresses,
            "private address",
            "private addresses"
        ),
        format::counted(
            refused.blocked_sites,
            "URL of a blocked site",
            "URLs of blocked sites"
        ),
        format::counted(refused.traps, "trap", "traps"),
        format::counted(refused.unusual_ports, "unusual port", "unusual ports"),
    );
    let tip = "URLs that were not fetched on purpose, since this crawl began.";
    let label = Label::new(RichText::new(text).small().weak()).wrap();
    ui.add(label).on_hover_text(tip);
}

fn filter_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    ui.horizontal_wrapped(|ui| {
        let search = &mut scene.view.results_search;
        let field = parts::search_field_ui(ui, "Search in results", search, 200.0);
        if shortcuts::wants_search(ui.ctx()) {
            field.request_focus();
        }
        ui.spacing_mut().item_spacing.x = 4.0;
        ui.spacing_mut().button_padding.x = 6.0;
        filter_button_ui(ui, "All", "Show all results", None, &mut scene.view.outcome);
        for outcome in Outcome::ALL {
            let symbol = symbols::outcome(outcome);
            let label = format!("Show only: {}", symbol.word);
            let name = short_name(outcome);
            let text = format!("{} {name}", symbol.glyph);
            filter_button_ui(ui, &text, &label, Some(outcome), &mut scene.view.outcome);
        }
    });
}

/// The word of an outcome where there is little room.
fn short_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::RobotsRefused => "robots",
        Outcome::PrivateRefused => "private",
        _ => symbols::outcome(outcome).word,
    }
}

fn filter_button_ui(
    ui: &mut Ui,
    text: &str,
    label: &str,
    of: Option<Outcome>,
    chosen: &mut Option<Outcome>,
) {
    let is_chosen = *chosen == of;
    let response = ui.add(Button::selectable(is_chosen, RichText::new(text).small()));
    response.widget_info(|| {
        eframe::egui::WidgetInfo::selected(eframe::egui::WidgetType::Button, true, is_chosen, label)
    });
    if response.on_hover_text(label).clicked() {
        *chosen = of;
    }
}

fn results_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let results = &scene.model.results;
    let mut drawn = Drawn::default();
    let mut block = None;
    ui.spacing_mut().item_spacing.y = 0.0;
    TableBuilder::new(ui)
        .id_salt("results")
        .striped(true)
        .auto_shrink(false)
        .animate_scrolling(false)
        .cell_layout(Layout::left_to_right(Align::Center))
        .column(Column::exact(72.0))
        .column(Column::exact(176.0).clip(true))
        .column(Column::remainder().clip(true).at_least(120.0))
        .column(Column::exact(72.0))
        .column(Column::exact(64.0))
        .header(theme::ROW_HEIGHT, |mut header| {
            for name in ["When", "Result", "Page", "Size", ""] {
                header.col(|ui| table::head_ui(ui, name, name == "Size"));
            }
        })
        .body(|mut body| {
            scroll::rows_by_keys(body.ui_mut(), results.total, theme::ROW_HEIGHT);
            body.rows(theme::ROW_HEIGHT, results.total, |mut row| {
                let number = row.index();
                drawn.row(number);
                let Some(result) = results.get(number) else {
                    row.col(|ui| {
                        ui.weak("…");
                    });
                    return;
                };
                row.col(|ui| {
                    let clock = scene.local(result.at_ms).clock_secs();
                    let time = ui.label(RichText::new(clock).small().weak());
                    parts::with_tip(time, || format::ago(result.at_ms, scene.model.now_ms));
                });
                row.col(|ui| outcome_ui(ui, result));
                row.col(|ui| page_ui(ui, result));
                row.col(|ui| {
                    let size = parts::number_ui(ui, format::bytes(result.bytes));
                    parts::with_tip(size, || format!("{} bytes", format::count(result.bytes)));
                });
                row.col(|ui| {
                    let label = || format!("Block {}", result.host);
                    if parts::row_button_ui(ui, "Block", label).clicked() {
                        block = Some(result.host.clone());
                    }
                });
            });
        });
    scene.view.results_rows = drawn.ask();
    if let Some(host) = block {
        scene.block(host);
    }
}

fn outcome_ui(ui: &mut Ui, result: &ResultRow) {
    let color: Color32 = symbols::outcome_color(result.outcome, theme::palette(ui));
    let text = RichText::new(symbols::outcome(result.outcome).text()).color(color);
    parts::with_tip(ui.add(Label::new(text).truncate()), || {
        let took = format::lasting(result.took_ms);
        match result.detail.is_empty() {
            true => format!("took {took}"),
            false => format!("{}, took {took}", result.detail),
        }
    });
}

fn page_ui(ui: &mut Ui, result: &ResultRow) {
    let label = match result.title.is_empty() {
        true => Label::new(RichText::new(&result.url).monospace()),
        false => Label::new(&result.title),
    };
    parts::with_tip(ui.add(label.truncate()), || result.url.clone());
}
