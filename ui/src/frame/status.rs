//! The status bar: one sentence that gives the reason, the rates, the main buttons, and
//! what else the volunteer should know for now.

use eframe::egui::{Align, Color32, Label, Layout, RichText, Sides, Ui};

use super::Scene;
use crate::command::{Command, Screen};
use crate::format;
use crate::model::{Model, PauseReason, RunState, Setting, WaitReason};
use crate::parts;
use crate::symbols;
use crate::theme::{self, Palette};

/// All buttons side by side, in the longest case.
const BUTTONS_WIDTH: f32 = 680.0;

const DEMO: &str = "A demo on a made-up web. Nothing is kept.";
const DEMO_TIP: &str = "The made-up web is on this computer, and all of it goes with the demo.";
/// What is said of a demo and *Slow mode* side by side.
const DEMO_WIDTH: f32 = 512.0;

/// Draws it.
pub fn status_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let palette = theme::palette(ui);
    let model = scene.model;
    let words = sentence(model);
    let rates = model.rates;
    Sides::new().shrink_left().truncate().show(
        ui,
        |ui| {
            let color = state_color(&model.state, palette);
            ui.colored_label(color, symbols::STATE.to_string());
            ui.add(Label::new(RichText::new(&words).strong()).truncate());
        },
        |ui| {
            rate_ui(ui, symbols::UPLOAD, "Upload", rates.upload_bytes_per_s);
            rate_ui(
                ui,
                symbols::DOWNLOAD,
                "Download",
                rates.download_bytes_per_s,
            );
        },
    );
    let has_room = parts::line_ui(ui, BUTTONS_WIDTH, |ui, is_narrow| {
        buttons_ui(ui, scene);
        let has_room = !is_narrow && ui.available_width() >= DEMO_WIDTH;
        if has_room {
            demo_ui(ui, scene);
        }
        let layout = match is_narrow {
            true => *ui.layout(),
            false => Layout::right_to_left(Align::Center),
        };
        ui.with_layout(layout, |ui| {
            let mut slow = scene.draft.get().slow_mode;
            let limits = scene.draft.get();
            let tip = format!(
                "At most {} down and {} up while this is on (Ctrl+L)",
                limit_words(limits.slow_download_kib_per_s),
                limit_words(limits.slow_upload_kib_per_s),
            );
            if ui
                .checkbox(&mut slow, "Slow mode")
                .on_hover_text(tip)
                .changed()
            {
                scene.change(Setting::SlowMode(slow));
            }
        });
        has_room
    });
    if model.demo.is_some() && !has_room {
        ui.horizontal_wrapped(|ui| demo_ui(ui, scene));
    }
    for warning in &model.warnings {
        ui.horizontal_wrapped(|ui| {
            let text = format!("{} {warning}", symbols::PROBLEM);
            ui.colored_label(palette.amber, text);
        });
    }
}

/// What a demo is, and the way out of it.
fn demo_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let Some(demo) = scene.model.demo else { return };
    ui.colored_label(theme::palette(ui).amber, DEMO)
        .on_hover_text(DEMO_TIP);
    if demo.can_leave && ui.add(parts::button("Leave the demo")).clicked() {
        scene.send(Command::LeaveDemo);
    }
}

fn buttons_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let state = &scene.model.state;
    let starts = state.can_start();
    let (name, command, tip) = if starts {
        ("Start", Command::Start, "Start crawling (Ctrl+P)")
    } else {
        (
            "Pause",
            Command::Pause,
            "Stop fetching, stay in the network (Ctrl+P)",
        )
    };
    if ui
        .add(parts::main_button(ui, name))
        .on_hover_text(tip)
        .clicked()
    {
        scene.send(command);
    }
    ui.add_enabled_ui(!starts, |ui| {
        let pause = ui
            .add(parts::button("Pause 1 h"))
            .on_hover_text("Go on by itself in an hour (Ctrl+H)");
        if pause.clicked() {
            scene.send(Command::PauseFor { minutes: 60 });
        }
    });
    ui.add_enabled_ui(state.can_finish(), |ui| {
        let finish = ui
            .add(parts::button("Finish and stop"))
            .on_hover_text("Complete what is under way, then leave the network (Ctrl+E)");
        if finish.clicked() {
            self::finish(scene);
        }
    });
    if let Some((name, screen)) = way_out(state)
        && ui.add(parts::button(name)).clicked()
    {
        scene.go_to(screen);
    }
}

/// Completes what is under way and stops; there is a way back, to a pause if it was one.
pub fn finish(scene: &mut Scene<'_>) {
    let back = match scene.model.state {
        RunState::Paused(PauseReason::ByYou) => Command::Pause,
        RunState::Paused(PauseReason::Until { at_ms }) => {
            let left_ms = at_ms.saturating_sub(scene.model.now_ms);
            let minutes = left_ms.div_ceil(60_000).max(1) as u32;
            Command::PauseFor { minutes }
        }
        _ => Command::Start,
    };
    scene.send_with_undo(
        Command::FinishAndStop,
        "Finishing what is under way, then leaving the network.",
        back,
    );
}

/// Where a pause that *Start* cannot end can be ended.
pub fn way_out(state: &RunState) -> Option<(&'static str, Screen)> {
    let RunState::Paused(reason) = state else {
        return None;
    };
    match reason {
        PauseReason::ByYou | PauseReason::Until { .. } => None,
        PauseReason::ArchiveFull => Some(("Make room…", Screen::Archive)),
        PauseReason::QuotaUsed { .. } => Some(("Change the limit…", Screen::Limits)),
        _ => Some(("Change when it pauses…", Screen::Limits)),
    }
}

fn rate_ui(ui: &mut Ui, glyph: char, name: &str, bytes_per_s: f64) {
    let text = RichText::new(format!("{glyph} {}", format::byte_rate(bytes_per_s)));
    parts::fixed_ui(ui, 112.0, text, || {
        format!("{name}: {} bytes/s", format::count(bytes_per_s as u64))
    });
}

fn limit_words(kib_per_s: u32) -> String {
    match kib_per_s {
        0 => "any speed".to_owned(),
        limit => format!("{} KiB/s", format::count(limit.into())),
    }
}

fn state_color(state: &RunState, palette: &Palette) -> Color32 {
    match state {
        RunState::Crawling | RunState::Finishing { .. } => palette.accent,
        RunState::Starting | RunState::Waiting(_) | RunState::Paused(_) => palette.amber,
        RunState::Stopped => palette.weak,
        RunState::NeedsYou { .. } => palette.red,
    }
}

/// What it does and why, in one sentence.
pub fn sentence(model: &Model) -> String {
    let clock = |at_ms| {
        let now = format::Local::new(model.now_ms, model.utc_offset_minutes);
        format::Local::new(at_ms, model.utc_offset_minutes).clock_or_date(now)
    };
    let peers = match model.rates.peers {
        0 => "no peers yet".to_owned(),
        peers => format::counted(peers.into(), "peer", "peers"),
    };
    match &model.state {
        RunState::Starting => "Starting".to_owned(),
        RunState::Crawling => {
            let pages = format::page_rate(model.rates.pages_per_s);
            format!("Crawling · {peers} · {pages}")
        }
        RunState::Waiting(WaitReason::NoAddresses) => {
            format!("Waiting: nothing to fetch at the moment · {peers}")
        }
        RunState::Waiting(WaitReason::HostsRest { until_ms }) => {
            let until = format::until(*until_ms, model.now_ms);
            format!("Waiting: every host asked for a pause, next page {until} · {peers}")
        }
        RunState::Waiting(WaitReason::Offline) => "Waiting: no internet connection".to_owned(),
        RunState::Waiting(WaitReason::CannotJoin) => {
            "Waiting: cannot join the network yet, trying again".to_owned()
        }
        RunState::Waiting(WaitReason::AllFetched) => {
            format!("Waiting: all pages of this crawl are fetched · {peers}")
        }
        RunState::Waiting(WaitReason::CatchingUp) => {
            format!("Waiting: catching up with other peers · {peers}")
        }
        RunState::Waiting(WaitReason::Limits) => {
            format!("Waiting: your limits allow no page at the moment · {peers}")
        }
        RunState::Paused(reason) => match *reason {
            PauseReason::ByYou => "Paused by you".to_owned(),
            PauseReason::Until { at_ms } => format!("Paused until {}", clock(at_ms)),
            PauseReason::OnBattery => "Paused: on battery".to_owned(),
            PauseReason::Metered => "Paused: on a metered connection".to_owned(),
            PauseReason::ComputerBusy => "Paused: other programs need the processor".to_owned(),
            PauseReason::InUse => "Paused: the computer is in use".to_owned(),
            PauseReason::Schedule { until_ms: None } => "Paused by the schedule".to_owned(),
            PauseReason::Schedule {
                until_ms: Some(at_ms),
            } => {
                format!("Paused by the schedule until {}", clock(at_ms))
            }
            PauseReason::QuotaUsed { until_ms } => {
                format!("Paused: monthly data used up, goes on {}", clock(until_ms))
            }
            PauseReason::ArchiveFull => "Paused: the archive is full".to_owned(),
        },
        RunState::Finishing { fetches_left: 0 } => "Leaving the network".to_owned(),
        RunState::Finishing { fetches_left } => {
            let pages = format::counted((*fetches_left).into(), "page", "pages");
            format!("Finishing: {pages} under way")
        }
        RunState::Stopped if model.has_run => "Stopped by you".to_owned(),
        RunState::Stopped => "Not started yet".to_owned(),
        RunState::NeedsYou { text, .. } => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Rates;

    #[test]
    fn the_sentence_always_gives_the_reason() {
        let mut model = Model {
            now_ms: 1_709_249_400_000,
            utc_offset_minutes: 60,
            state: RunState::Crawling,
            rates: Rates {
                peers: 12,
                pages_per_s: 34.0,
                ..Rates::default()
            },
            ..Model::default()
        };
        assert_eq!(sentence(&model), "Crawling · 12 peers · 34 pages/s");
        let at_ms = model.now_ms + 600_000;
        model.state = RunState::Paused(PauseReason::Until { at_ms });
        assert_eq!(sentence(&model), "Paused until 00:40");
        model.state = RunState::Paused(PauseReason::OnBattery);
        assert_eq!(sentence(&model), "Paused: on battery");
        let until_ms = model.now_ms + 4_200;
        model.state = RunState::Waiting(WaitReason::HostsRest { until_ms });
        assert!(sentence(&model).contains("next page in 5 s"));
        model.state = RunState::Waiting(WaitReason::Limits);
        let words = "Waiting: your limits allow no page at the moment · 12 peers";
        assert_eq!(sentence(&model), words);
        model.state = RunState::Waiting(WaitReason::AllFetched);
        let words = "Waiting: all pages of this crawl are fetched · 12 peers";
        assert_eq!(sentence(&model), words);
        model.state = RunState::Waiting(WaitReason::CatchingUp);
        let words = "Waiting: catching up with other peers · 12 peers";
        assert_eq!(sentence(&model), words);
        model.state = RunState::Waiting(WaitReason::CannotJoin);
        assert!(sentence(&model).starts_with("Waiting: cannot join the network"));
        model.state = RunState::Finishing { fetches_left: 1 };
        assert_eq!(sentence(&model), "Finishing: 1 page under way");
        model.state = RunState::Finishing { fetches_left: 0 };
        assert_eq!(sentence(&model), "Leaving the network");
    }
}
