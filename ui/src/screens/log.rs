//! Log: what happened.

use eframe::egui::{Align, Button, Label, Layout, RichText, Ui};
use egui_extras::{Column, TableBuilder};

use crate::frame::{Scene, shortcuts};
use crate::model::{LogLevel, LogRow};
use crate::parts;
use crate::scroll;
use crate::symbols;
use crate::theme;

/// All controls side by side.
const LINE_WIDTH: f32 = 680.0;
/// Nothing can be clicked in a row.
const ROW_HEIGHT: f32 = theme::ROW_HEIGHT - 4.0;

/// Draws it.
pub fn log_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    parts::heading_ui(ui, "Log");
    parts::line_ui(ui, LINE_WIDTH, |ui, is_narrow| {
        let field = parts::search_field_ui(ui, "Search in log", &mut scene.view.log_search, 240.0);
        if shortcuts::wants_search(ui.ctx()) {
            field.request_focus();
        }
        ui.spacing_mut().item_spacing.x = 4.0;
        let levels = [
            (LogLevel::Detail, "Everything"),
            (LogLevel::Info, "Events"),
            (LogLevel::Warning, "Warnings"),
            (LogLevel::Error, "Errors"),
        ];
        for (level, name) in levels {
            let chosen = scene.view.log_level == level;
            if ui.add(Button::selectable(chosen, name)).clicked() {
                scene.view.log_level = level;
            }
        }
        let layout = match is_narrow {
            true => *ui.layout(),
            false => Layout::right_to_left(Align::Center),
        };
        ui.with_layout(layout, |ui| {
            let some = !scene.model.log.rows.is_empty();
            ui.add_enabled_ui(some, |ui| {
                let copy = ui.add(parts::button("Copy"));
                if copy.on_hover_text("Copy these lines").clicked() {
                    ui.ctx().copy_text(as_text(scene));
                    scene
                        .toasts
                        .say("The log is copied.", None, scene.time_secs);
                }
            });
        });
    });
    if scene.model.log.rows.is_empty() {
        let is_all = scene.view.log_search.is_empty() && scene.view.log_level <= LogLevel::Info;
        let (what, to_do) = match is_all {
            true => (
                "Nothing to tell yet",
                "What happens is written here, newest at the bottom.",
            ),
            false => ("No line matches", "Clear the search or choose Everything."),
        };
        parts::empty_ui(ui, what, to_do);
        return;
    }
    rows_ui(ui, scene);
}

fn rows_ui(ui: &mut Ui, scene: &Scene<'_>) {
    let palette = theme::palette(ui);
    let log = &scene.model.log;
    ui.spacing_mut().item_spacing.y = 0.0;
    TableBuilder::new(ui)
        .id_salt("log")
        .striped(true)
        .auto_shrink(false)
        .stick_to_bottom(true)
        .animate_scrolling(false)
        .cell_layout(Layout::left_to_right(Align::Center))
        .column(Column::exact(72.0))
        .column(Column::exact(88.0))
        .column(Column::remainder().clip(true))
        .body(|mut body| {
            scroll::rows_by_keys(body.ui_mut(), log.rows.len(), ROW_HEIGHT);
            body.rows(ROW_HEIGHT, log.rows.len(), |mut row| {
                let Some(event) = log.rows.get(row.index()) else {
                    return;
                };
                row.col(|ui| {
                    let local = scene.local(event.at_ms);
                    ui.label(RichText::new(local.clock_secs()).small().weak())
                        .on_hover_text(local.date_with_year());
                });
                row.col(|ui| {
                    let color = match event.level {
                        LogLevel::Detail | LogLevel::Info => palette.weak,
                        LogLevel::Warning => palette.amber,
                        LogLevel::Error => palette.red,
                    };
                    ui.label(
                        RichText::new(symbols::level(event.level).text())
                            .small()
                            .color(color),
                    );
                });
                row.col(|ui| {
                    ui.add(Label::new(&event.text).truncate())
                        .on_hover_text(&event.text);
                });
            });
        });
}

/// The lines as they are copied: with date and level, so that they mean something elsewhere.
fn as_text(scene: &Scene<'_>) -> String {
    let line = |event: &LogRow| {
        let local = scene.local(event.at_ms);
        let level = symbols::level(event.level).word;
        format!(
            "{} {}  {level:7}  {}\n",
            local.date_with_year(),
            local.clock_secs(),
            event.text
        )
    };
    scene.model.log.rows.iter().map(line).collect()
}
