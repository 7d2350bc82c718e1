//! Limits and settings.

use eframe::egui::{ComboBox, Grid, Response, Ui, vec2};

use super::schedule::schedule_ui;
use crate::format;
use crate::frame::{Dialog, Scene, shortcuts};
use crate::model::{Abilities, OnClose, OverlayKind, Setting, Settings, ThemeChoice};
use crate::number_field::{self, NumberField, limit_field_ui};
use crate::parts;
use crate::theme;

/// Draws it.
pub fn limits_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    parts::heading_ui(ui, "Limits and settings");
    parts::weak_ui(
        ui,
        "Every change takes effect at once and is kept. 0 means no limit.",
    );
    parts::columns_ui(ui, 2, CARD_WIDTH, |columns| {
        let second = 1 % columns.len();
        parts::titled_card_ui(&mut columns[0], "Limits", |ui| {
            numbers_ui(ui, scene, &LIMITS)
        });
        parts::titled_card_ui(&mut columns[0], "Slow mode", |ui| {
            let mut slow = scene.draft.get().slow_mode;
            if ui.checkbox(&mut slow, "Use the slow limits now").changed() {
                scene.change(Setting::SlowMode(slow));
            }
            numbers_ui(ui, scene, &SLOW_LIMITS);
        });
        parts::titled_card_ui(&mut columns[second], "Pause by itself", |ui| {
            pauses_ui(ui, scene)
        });
        parts::titled_card_ui(&mut columns[second], "Part in the network", |ui| {
            network_ui(ui, scene)
        });
        parts::titled_card_ui(&mut columns[second], "This window", |ui| {
            window_ui(ui, scene)
        });
    });
    parts::titled_card_ui(ui, "Weekly schedule", |ui| schedule_ui(ui, scene));
    parts::titled_card_ui(ui, "Keyboard", |ui| {
        if ui.available_width() < theme::NARROW {
            for (keys, words) in shortcuts::WORDS {
                ui.monospace(keys);
                parts::weak_ui(ui, words);
            }
            return;
        }
        Grid::new("keys").num_columns(2).show(ui, |ui| {
            for (keys, words) in shortcuts::WORDS {
                ui.monospace(keys);
                ui.label(words);
                ui.end_row();
            }
        });
    });
}

/// A limit: its name, its unit, how to read it, how to set it, what it can be at most, what this
/// computer can do at most (0 if that is unknown), and more words.
pub struct Limit {
    name: &'static str,
    unit: &'static str,
    get: fn(&Settings) -> u32,
    set: fn(u32) -> Setting,
    most: u32,
    able: fn(Abilities) -> u32,
    tip: &'static str,
}

const ANY: fn(Abilities) -> u32 = |_| 0;

const LIMITS: [Limit; 7] = [
    Limit {
        name: "Download",
        unit: "KiB/s",
        get: |settings| settings.download_kib_per_s,
        set: Setting::DownloadKibPerS,
        most: Settings::MOST_KIB_PER_S,
        able: ANY,
        tip: "Everything that comes in, other peers' messages included",
    },
    Limit {
        name: "Upload",
        unit: "KiB/s",
        get: |settings| settings.upload_kib_per_s,
        set: Setting::UploadKibPerS,
        most: Settings::MOST_KIB_PER_S,
        able: ANY,
        tip: "Everything that goes out, messages to other peers included",
    },
    Limit {
        name: "Monthly data",
        unit: "GB",
        get: |settings| settings.monthly_gb,
        set: Setting::MonthlyGb,
        most: Settings::MOST_MONTHLY_GB,
        able: ANY,
        tip: "Both ways together in 30 days",
    },
    Limit {
        name: "Disk",
        unit: "GB",
        get: |settings| settings.disk_gb,
        set: Setting::DiskGb,
        most: Settings::MOST_DISK_GB,
        able: ANY,
        tip: "The size of the archive",
    },
    Limit {
        name: "Pages",
        unit: "a minute",
        get: |settings| settings.pages_per_min,
        set: Setting::PagesPerMin,
        most: Settings::MOST_PAGES_PER_MIN,
        able: ANY,
        tip: "All hosts together",
    },
    Limit {
        name: "Connections",
        unit: "at once",
        get: |settings| settings.connections,
        set: Setting::Connections,
        most: Settings::MOST_CONNECTIONS,
        able: |abilities| abilities.most_fetches,
        tip: "Some home routers cope badly with many",
    },
    Limit {
        name: "Processor",
        unit: "%",
        get: |settings| settings.cpu_percent,
        set: Setting::CpuPercent,
        most: Settings::MOST_CPU_PERCENT,
        able: ANY,
        tip: "Of the whole processor, all of its cores",
    },
];

/// The limits that the first page offers too.
pub const FIRST_LIMITS: &[Limit] = LIMITS.split_at(4).0;

const SLOW_LIMITS: [Limit; 2] = [
    Limit {
        name: "Slow download",
        unit: "KiB/s",
        get: |settings| settings.slow_download_kib_per_s,
        set: Setting::SlowDownloadKibPerS,
        most: Settings::MOST_KIB_PER_S,
        able: ANY,
        tip: "Download while slow mode is on",
    },
    Limit {
        name: "Slow upload",
        unit: "KiB/s",
        get: |settings| settings.slow_upload_kib_per_s,
        set: Setting::SlowUploadKibPerS,
        most: Settings::MOST_KIB_PER_S,
        able: ANY,
        tip: "Upload while slow mode is on",
    },
];

fn numbers_ui(ui: &mut Ui, scene: &mut Scene<'_>, limits: &[Limit]) {
    let settings = scene.draft.get().clone();
    for setting in numbers_grid_ui(ui, scene, &settings, limits) {
        scene.change(setting);
    }
}

/// Fields for some limits; gives what was changed.
pub fn numbers_grid_ui(
    ui: &mut Ui,
    scene: &mut Scene<'_>,
    settings: &Settings,
    limits: &[Limit],
) -> Vec<Setting> {
    let mut changes = Vec::new();
    let gap = if ui.available_width() < 300.0 {
        8.0
    } else {
        24.0
    };
    let grid = Grid::new(limits[0].name)
        .num_columns(2)
        .spacing(vec2(gap, 8.0));
    grid.show(ui, |ui| {
        for limit in limits {
            let value = (limit.get)(settings);
            let (name, unit) = (limit.name, limit.unit);
            let (most, tip) = bound(limit, scene.model.abilities);
            let changed = limit_field_ui(ui, scene, name, value, most, unit, &tip);
            changes.extend(changed.map(limit.set));
            ui.end_row();
        }
    });
    changes
}

/// What can be set at most, and the words that say so.
fn bound(limit: &Limit, abilities: Abilities) -> (u32, String) {
    match (limit.able)(abilities) {
        0 => (limit.most, limit.tip.to_owned()),
        able => {
            let most = able.min(limit.most);
            let tip = format!(
                "{}. {} {} is the most that this computer's memory and settings allow",
                limit.tip,
                format::count(most.into()),
                limit.unit
            );
            (most, tip)
        }
    }
}

fn check_ui(
    ui: &mut Ui,
    scene: &mut Scene<'_>,
    name: &str,
    value: bool,
    set: fn(bool) -> Setting,
) -> Response {
    let mut changed = value;
    let response = ui.checkbox(&mut changed, name);
    if response.changed() {
        scene.change(set(changed));
    }
    response
}

/// The same, where the system may not be able to tell.
fn sensed_ui(
    ui: &mut Ui,
    scene: &mut Scene<'_>,
    able: bool,
    name: &str,
    value: bool,
    set: fn(bool) -> Setting,
) {
    ui.add_enabled_ui(able, |ui| {
        check_ui(ui, scene, name, value && able, set)
            .on_disabled_hover_text("This computer does not offer it, so it has no effect here.");
    });
}

fn pauses_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    ui.spacing_mut().item_spacing.y = 2.0;
    let settings = scene.draft.get().clone();
    let abilities = scene.model.abilities;
    sensed_ui(
        ui,
        scene,
        abilities.battery,
        "On battery",
        settings.pause_on_battery,
        Setting::PauseOnBattery,
    );
    sensed_ui(
        ui,
        scene,
        abilities.metered,
        "On a metered connection",
        settings.pause_on_metered,
        Setting::PauseOnMetered,
    );
    sensed_ui(
        ui,
        scene,
        abilities.processor,
        "When other programs keep the processor busy",
        settings.pause_when_busy,
        Setting::PauseWhenBusy,
    );
    sensed_ui(
        ui,
        scene,
        abilities.idle_time,
        "While somebody uses the computer",
        settings.only_when_unused,
        Setting::OnlyWhenUnused,
    );
    if scene.model.demo.is_some() {
        parts::weak_ui(ui, "A demo goes on whatever the computer is up to.");
        return;
    }
    let senses = [
        (abilities.battery, "runs on battery"),
        (abilities.metered, "is on a metered connection"),
        (abilities.processor, "is busy with other programs"),
        (abilities.idle_time, "is in use"),
    ];
    let untold = senses.into_iter().filter(|(able, _)| !able);
    let untold: Vec<&str> = untold.map(|(_, what)| what).collect();
    let untold = match untold.as_slice() {
        [] => return,
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    };
    let text = format!("This computer does not tell whether it {untold}.");
    parts::weak_ui(ui, text);
}

fn network_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let settings = scene.draft.get().clone();
    check_ui(
        ui,
        scene,
        "May become a supernode",
        settings.allow_supernode,
        Setting::AllowSupernode,
    );
    parts::weak_ui(
        ui,
        "A supernode passes messages on for others, within your limits.",
    );
    let choices = [
        (OverlayKind::Supernode, "Supernodes: any number of peers"),
        (OverlayKind::Flat, "Flat: up to about 100 peers"),
    ];
    if let Some(kind) = choice_ui(ui, "Kind of network", settings.overlay, &choices) {
        // Where nothing runs, nobody is left.
        match scene.model.state.can_finish() {
            true => *scene.dialog = Some(Dialog::ChangeOverlay(kind)),
            false => scene.change(Setting::Overlay(kind)),
        }
    }
}

fn window_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let settings = scene.draft.get().clone();
    let able = scene.model.abilities.start_at_login;
    sensed_ui(
        ui,
        scene,
        able,
        "Start at login",
        settings.start_at_login,
        Setting::StartAtLogin,
    );
    let themes = [
        (ThemeChoice::System, "As the system"),
        (ThemeChoice::Light, "Light"),
        (ThemeChoice::Dark, "Dark"),
    ];
    let closings = [
        (OnClose::Ask, "Ask"),
        (OnClose::KeepCrawling, "Keep crawling"),
        (OnClose::Quit, "Stop and quit"),
    ];
    Grid::new("window").num_columns(2).show(ui, |ui| {
        if let Some(theme) = choice_ui(ui, "Theme", settings.theme, &themes) {
            scene.change(Setting::Theme(theme));
        }
        ui.end_row();
        if let Some(closing) = choice_ui(ui, "Closing the window", settings.on_close, &closings) {
            scene.change(Setting::OnClose(closing));
        }
        ui.end_row();
        text_size_ui(ui, scene, settings.text_percent);
        ui.end_row();
    });
}

fn text_size_ui(ui: &mut Ui, scene: &mut Scene<'_>, now: u32) {
    let label = ui.label("Text size");
    end_row_if_narrow(ui);
    let field = NumberField {
        name: "Text size",
        value: now,
        range: shortcuts::TEXT_PERCENT,
        least: *shortcuts::TEXT_PERCENT.start(),
        // Typed, not dragged: everything would move away under the pointer.
        drag_speed: 0.0,
        width: 72.0,
        write: &|percent| format!("{percent} %"),
        read: &|text| number_field::read(text, "%"),
        what: "a size",
        hint: "Type a whole number.",
    };
    let (response, changed) = field.field_ui(ui, scene);
    response.labelled_by(label.id);
    if let Some(percent) = changed {
        scene.change(Setting::TextPercent(percent));
    }
}

/// In a grid of a narrow card, a control stands under its name.
fn end_row_if_narrow(ui: &mut Ui) {
    if ui.clip_rect().width() < CARD_WIDTH {
        ui.end_row();
    }
}

/// A name and the choices; the caller puts the two side by side. Gives another choice.
fn choice_ui<T: Copy + PartialEq>(
    ui: &mut Ui,
    name: &str,
    now: T,
    choices: &[(T, &str)],
) -> Option<T> {
    let label = ui.label(name);
    end_row_if_narrow(ui);
    let shown = choices.iter().find(|(value, _)| *value == now);
    let combo = ComboBox::from_id_salt(name)
        .selected_text(shown.map_or("", |(_, words)| words))
        .truncate()
        .width(CHOICE_WIDTH);
    let mut chosen = now;
    let response = combo.show_ui(ui, |ui| {
        for (value, words) in choices {
            ui.selectable_value(&mut chosen, *value, *words);
        }
    });
    response.response.labelled_by(label.id);
    (chosen != now).then_some(chosen)
}

const CHOICE_WIDTH: f32 = 176.0;
/// Width of a card at least.
const CARD_WIDTH: f32 = 344.0;
