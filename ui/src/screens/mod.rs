//! The screens, one file each.
//!
//! A screen is a function that draws from a [`Scene`](crate::frame::Scene). What it
//! must remember while the user is at it (text in fields, a chosen span) is in its
//! part of [`Screens`]; everything else comes from the model.

mod activity;
mod archive;
mod crawl;
mod first_run;
mod join;
mod limits;
mod log;
mod network;
mod overview;
mod queues;
mod ring;
mod schedule;

use eframe::egui::{Frame, Panel, ScrollArea, Ui};

use crate::command::Screen;
use crate::frame::Scene;
use crate::model::Model;
use crate::number_field;
use crate::scroll;
use crate::theme;

/// What the screens remember.
#[derive(Default)]
pub struct Screens {
    first_run: first_run::FirstRunState,
    overview: overview::OverviewState,
    network: network::NetworkState,
    crawl: crawl::CrawlState,
    archive: archive::ArchiveState,
}

impl Screens {
    /// Forgets the answers of the first page once it is gone: when it comes again, it shows
    /// what is set by then.
    pub fn follow(&mut self, model: &Model) {
        if model.first_run.is_none() {
            self.first_run = first_run::FirstRunState::default();
        }
    }
}

/// Draws the screen that is chosen.
pub fn screen_ui(ui: &mut Ui, scene: &mut Scene<'_>, screens: &mut Screens) {
    // Tables scroll by themselves; the other screens as a whole.
    match scene.view.screen {
        Screen::Overview => scroll_ui(ui, "overview", |ui| {
            overview::overview_ui(ui, scene, &mut screens.overview);
        }),
        Screen::Activity => table_ui(ui, "activity", theme::LOW, |ui| {
            activity::activity_ui(ui, scene);
        }),
        Screen::Queues => table_ui(ui, "queues", theme::LOW, |ui| queues::queues_ui(ui, scene)),
        Screen::Network => table_ui(ui, "network", network::LEAST_HEIGHT, |ui| {
            network::network_ui(ui, scene, &mut screens.network);
        }),
        Screen::Crawl => scroll_ui(ui, "crawl", |ui| {
            crawl::crawl_ui(ui, scene, &mut screens.crawl);
        }),
        Screen::Archive => scroll_ui(ui, "archive", |ui| {
            archive::archive_ui(ui, scene, &mut screens.archive);
        }),
        Screen::Limits => scroll_ui(ui, "limits", |ui| limits::limits_ui(ui, scene)),
        Screen::Log => table_ui(ui, "log", theme::LOW, |ui| log::log_ui(ui, scene)),
    }
}

/// Draws what must be answered before anything else is shown.
pub fn before_all_ui(ui: &mut Ui, scene: &mut Scene<'_>, screens: &mut Screens) {
    if scene.model.crawl.offer.is_some() {
        return scroll_ui(ui, "before all", |ui| join::offer_ui(ui, scene));
    }
    let state = &mut screens.first_run;
    let answers = Panel::bottom("answers").frame(Frame::new().inner_margin(theme::GAP));
    // They take their room first and are carried out last: a field above takes over what was
    // typed only when it is drawn.
    let answer = answers.show(ui, first_run::answers_ui).inner;
    if answer.is_some() {
        number_field::end_typing(ui.ctx());
    }
    scroll_ui(ui, "before all", |ui| {
        first_run::first_run_ui(ui, scene, state);
    });
    if let Some(answer) = answer {
        first_run::take(answer, scene, state);
    }
}

/// A screen whose table takes the room that is left; a lower window scrolls all of it.
fn table_ui(ui: &mut Ui, name: &str, least_height: f32, add: impl FnOnce(&mut Ui)) {
    if ui.available_height() >= least_height {
        return add(ui);
    }
    scroll_ui(ui, name, |ui| {
        ui.set_max_height(1.5 * theme::LOW);
        add(ui);
    });
}

fn scroll_ui(ui: &mut Ui, name: &str, add: impl FnOnce(&mut Ui)) {
    ScrollArea::vertical()
        .id_salt(name)
        .auto_shrink(false)
        .animated(false)
        .show(ui, |ui| {
            add(ui);
            let content = ui.min_rect();
            scroll::by_keys(ui, content.top(), content.height());
        });
}
