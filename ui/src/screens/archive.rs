//! Archive: what has been stored.

use std::path::PathBuf;

use eframe::egui::{Align, Key, Label, Layout, RichText, Ui};
use egui_extras::{Column, TableBuilder};

use super::join::browse_ui;
use crate::command::Command;
use crate::format;
use crate::frame::{Dialog, Scene, shortcuts};
use crate::model::{Field, Found, Setting, Settings};
use crate::number_field::limit_field_ui;
use crate::parts;
use crate::symbols;
use crate::table::{self, Drawn};
use crate::theme;

/// What the screen remembers.
#[derive(Default)]
pub struct ArchiveState {
    look_up: String,
    folder: String,
}

const FILES_HEIGHT: f32 = 240.0;
/// All columns of the table side by side.
const TABLE_WIDTH: f32 = 600.0;

/// Draws it.
pub fn archive_ui(ui: &mut Ui, scene: &mut Scene<'_>, state: &mut ArchiveState) {
    parts::heading_ui(ui, "Archive");
    if scene.model.demo.is_some() {
        parts::empty_ui(
            ui,
            "A demo keeps nothing",
            "Pages that you crawl yourself are stored, and can be looked up here.",
        );
        return;
    }
    parts::card_ui(ui, |ui| size_ui(ui, scene));
    if scene.model.archive.full {
        parts::card_ui(ui, |ui| full_ui(ui, scene));
    }
    parts::titled_card_ui(ui, "Look up a page", |ui| look_up_ui(ui, scene, state));
    parts::titled_card_ui(ui, "Files", |ui| files_ui(ui, scene));
    parts::titled_card_ui(ui, "Room", |ui| room_ui(ui, scene, state));
}

fn size_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let archive = &scene.model.archive;
    let stored = format::bytes(archive.bytes);
    let pages = format::counted(archive.pages, "page", "pages");
    parts::line_ui(ui, 320.0, |ui, is_narrow| {
        ui.label(format!("{pages}, {stored}"))
            .on_hover_text(format!("{} bytes", format::count(archive.bytes)));
        let layout = match is_narrow {
            true => *ui.layout(),
            false => Layout::right_to_left(Align::Center),
        };
        ui.with_layout(layout, |ui| {
            if ui.add(parts::button("Open folder")).clicked() {
                scene.send(Command::OpenArchiveFolder);
            }
        });
    });
    let palette = theme::palette(ui);
    if archive.limit_bytes > 0 {
        let part = archive.bytes as f32 / archive.limit_bytes as f32;
        let limit = format::bytes(archive.limit_bytes);
        let color = if part < 0.9 {
            palette.accent
        } else {
            palette.amber
        };
        let words = format!("{stored} of {limit}, {} full", format::percent(part.into()));
        parts::bar_ui(ui, part, color, &words);
        parts::weak_ui(ui, words);
    } else {
        parts::weak_ui(ui, "No size limit is set.");
    }
    parts::weak_ui(ui, &archive.folder);
    if archive.besides_bytes > 0 {
        let besides = format::bytes(archive.besides_bytes);
        let words = format!("Besides, {besides} for notes: what waits, and what was seen.");
        parts::weak_ui(ui, words);
    }
}

fn full_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let color = theme::palette(ui).red;
    let text = format!(
        "{} The archive is full, so nothing more is fetched. Make room in one of these ways:",
        symbols::PROBLEM
    );
    ui.add(Label::new(RichText::new(text).color(color)).wrap());
    ui.horizontal_wrapped(|ui| {
        // From what there is: it may be far above a limit that was lowered.
        let stored_gb = scene.model.archive.bytes.div_ceil(1_000_000_000);
        let stored_gb = u32::try_from(stored_gb).unwrap_or(u32::MAX);
        let more = scene.draft.get().disk_gb.max(stored_gb).saturating_add(10);
        let more = more.min(Settings::MOST_DISK_GB);
        let raise = format!("Raise the limit to {more} GB");
        if ui.add(parts::primary_button(ui, &raise)).clicked() {
            scene.change(Setting::DiskGb(more));
        }
        drop_ui(ui, scene);
        ui.weak("or move the files elsewhere, below");
    });
}

fn drop_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let can_drop = scene.model.archive.oldest_bytes > 0;
    ui.add_enabled_ui(can_drop, |ui| {
        if ui.add(parts::button("Drop the oldest…")).clicked() {
            *scene.dialog = Some(Dialog::DropOldest);
        }
    });
}

fn look_up_ui(ui: &mut Ui, scene: &mut Scene<'_>, state: &mut ArchiveState) {
    let field = parts::text_field_ui(
        ui,
        "Web address",
        &mut state.look_up,
        "https://example.org/page",
    );
    if shortcuts::wants_search(ui.ctx()) {
        field.request_focus();
    }
    parts::problem_ui(ui, scene.model.problem(Field::LookUp));
    let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
    let url = state.look_up.trim().to_owned();
    ui.add_enabled_ui(!url.is_empty(), |ui| {
        let clicked = ui.add(parts::button("Look up")).clicked();
        if (clicked || entered) && !url.is_empty() {
            scene.send(Command::LookUp(url));
        }
    });
    let Some(answer) = &scene.model.archive.look_up else {
        return;
    };
    match &answer.found {
        Found::Looking => {
            ui.weak(format!("Looking for {} …", answer.url));
        }
        Found::Nothing => {
            ui.label(format!("{} is not stored on this computer.", answer.url));
        }
        Found::Page {
            at_ms,
            status,
            mime,
            bytes,
            file,
        } => {
            let when = scene.local(*at_ms);
            ui.label(format!(
                "{}: stored on {} at {}, {}, {mime}, answer {status}",
                answer.url,
                when.date_with_year(),
                when.clock(),
                format::bytes(*bytes),
            ));
            parts::weak_ui(ui, format!("in {file}"));
        }
    }
}

fn files_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let files = &scene.model.archive_files;
    if files.total == 0 {
        parts::empty_ui(
            ui,
            "Nothing stored yet",
            "Fetched pages are kept in WARC files, a format that web archives can read.",
        );
        return;
    }
    table::wide_ui(ui, TABLE_WIDTH, |ui| table_ui(ui, scene));
}

fn table_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let files = &scene.model.archive_files;
    let mut drawn = Drawn::default();
    let height = FILES_HEIGHT.min((files.total as f32 + 1.0) * theme::ROW_HEIGHT);
    ui.spacing_mut().item_spacing.y = 0.0;
    TableBuilder::new(ui)
        .id_salt("files")
        .striped(true)
        .max_scroll_height(height)
        .cell_layout(Layout::left_to_right(Align::Center))
        .column(Column::remainder().clip(true).at_least(160.0))
        .columns(Column::exact(88.0), 2)
        .columns(Column::exact(112.0), 2)
        .header(theme::ROW_HEIGHT, |mut header| {
            for name in ["Name", "Pages", "Size", "From", "To"] {
                header.col(|ui| table::head_ui(ui, name, name != "Name"));
            }
        })
        .body(|body| {
            body.rows(theme::ROW_HEIGHT, files.total, |mut row| {
                let number = row.index();
                drawn.row(number);
                let Some(file) = files.get(number) else {
                    row.col(|ui| {
                        ui.weak("…");
                    });
                    return;
                };
                row.col(|ui| {
                    ui.add(Label::new(RichText::new(&file.name).monospace()).truncate());
                });
                row.col(|ui| {
                    parts::number_ui(ui, format::count(file.pages));
                });
                row.col(|ui| {
                    let size = parts::number_ui(ui, format::bytes(file.bytes));
                    parts::with_tip(size, || format!("{} bytes", format::count(file.bytes)));
                });
                for at_ms in [file.from_ms, file.to_ms] {
                    row.col(|ui| {
                        let time = parts::number_ui(ui, scene.clock_or_date(at_ms));
                        parts::with_tip(time, || scene.local(at_ms).date_with_year());
                    });
                }
            });
        });
    scene.view.archive_rows = drawn.ask();
}

fn room_ui(ui: &mut Ui, scene: &mut Scene<'_>, state: &mut ArchiveState) {
    let now = scene.draft.get().disk_gb;
    ui.horizontal_wrapped(|ui| {
        let tip = "The size of the archive";
        let most = Settings::MOST_DISK_GB;
        let changed = limit_field_ui(ui, scene, "Disk limit", now, most, "GB", tip);
        if let Some(gb) = changed {
            scene.change(Setting::DiskGb(gb));
        }
        if !scene.model.archive.full {
            drop_ui(ui, scene);
        }
    });
    parts::text_field_ui(ui, "Move the files to", &mut state.folder, "a folder");
    parts::problem_ui(ui, scene.model.problem(Field::ArchiveFolder));
    let folder = state.folder.trim().to_owned();
    ui.horizontal_wrapped(|ui| {
        ui.add_enabled_ui(!folder.is_empty(), |ui| {
            if ui.add(parts::button("Move files")).clicked() {
                scene.send(Command::MoveArchive(PathBuf::from(folder)));
            }
        });
        browse_ui(ui, scene, Field::ArchiveFolder, "Choose a folder…");
    });
    parts::weak_ui(
        ui,
        "What was moved no longer counts, and is not looked up here. New pages are stored where \
         they always were.",
    );
}
