//! The weekly schedule: a line for each day.

use std::ops::RangeInclusive;

use eframe::egui::{Ui, vec2};

use crate::frame::Scene;
use crate::model::{DayHours, Setting, WEEKDAYS};
use crate::number_field::{self, NumberField};
use crate::parts;
use crate::theme;

/// Draws it.
pub fn schedule_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let mut on = scene.draft.get().schedule_on;
    if ui.checkbox(&mut on, "Crawl only at these hours").changed() {
        scene.change(Setting::ScheduleOn(on));
    }
    if !on {
        return;
    }
    let before = scene.draft.get().schedule;
    let mut days = before;
    for (name, day) in WEEKDAYS.into_iter().zip(&mut days) {
        day_ui(ui, scene, name, day);
    }
    if days != before {
        scene.change(Setting::Schedule(days));
    }
    parts::weak_ui(
        ui,
        "An end before its beginning is on the next day: 22:00 to 7:00.",
    );
}

fn day_ui(ui: &mut Ui, scene: &mut Scene<'_>, name: &str, day: &mut DayHours) {
    parts::line_ui(ui, theme::NARROW, |ui, _| {
        ui.scope(|ui| {
            ui.set_min_width(112.0);
            ui.checkbox(&mut day.on, name);
        });
        ui.add_enabled_ui(day.on, |ui| {
            ui.label("from");
            let label = format!("{name} from");
            hour_ui(ui, scene, &label, &mut day.from_hour, 0..=23);
            ui.label("to");
            let label = format!("{name} to");
            hour_ui(ui, scene, &label, &mut day.to_hour, 1..=24);
        });
        bar_ui(ui, *day);
    });
}

fn hour_ui(
    ui: &mut Ui,
    scene: &mut Scene<'_>,
    label: &str,
    hour: &mut u8,
    range: RangeInclusive<u32>,
) {
    let field = NumberField {
        name: label,
        value: (*hour).into(),
        least: *range.start(),
        range,
        drag_speed: 0.1,
        width: 64.0,
        write: &|hour| format!("{hour}:00"),
        read: &|text| number_field::read(text, ":00"),
        what: "an hour",
        hint: "Type a full hour, such as 7 or 22:00.",
    };
    let (response, changed) = field.field_ui(ui, scene);
    if let Some(Ok(changed)) = changed.map(u8::try_from) {
        *hour = changed;
    }
    // It has no label on the screen. All else that is told of it stays: it knows of steps that
    // are not taken over yet.
    ui.ctx()
        .accesskit_node_builder(response.id, |node| node.set_label(label));
}

/// The day as a bar of 24 hours.
fn bar_ui(ui: &mut Ui, day: DayHours) {
    let palette = theme::palette(ui);
    let width = ui.available_width().min(240.0);
    let (rect, _) = ui.allocate_exact_size(vec2(width, theme::GRID), eframe::egui::Sense::hover());
    ui.painter().rect_filled(rect, 2.0, palette.edge);
    if !day.on {
        return;
    }
    let at = |hour: u8| rect.left() + rect.width() * f32::from(hour) / 24.0;
    let spans = match day.from_hour < day.to_hour {
        true => [(day.from_hour, day.to_hour), (0, 0)],
        // The morning that belongs to it is the next day's; it is drawn on this line too,
        // because it is set here.
        false => [(day.from_hour, 24), (0, day.to_hour)],
    };
    for (from, to) in spans {
        let mut part = rect;
        part.min.x = at(from);
        part.max.x = at(to);
        ui.painter().rect_filled(part, 2.0, palette.accent);
    }
}
