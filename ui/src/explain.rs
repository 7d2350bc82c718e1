//! A small window that says one thing, for whoever has no terminal to read it in.

use eframe::egui::{CentralPanel, Label, Ui, ViewportBuilder, ViewportCommand};

use crate::app::{APP_ID, TITLE};
use crate::{parts, theme};

struct Explanation(String);

impl eframe::App for Explanation {
    fn ui(&mut self, ui: &mut Ui, _frame: &mut eframe::Frame) {
        CentralPanel::default().show(ui, |ui| explanation_ui(ui, &self.0));
    }
}

fn explanation_ui(ui: &mut Ui, text: &str) {
    ui.add_space(theme::GAP);
    ui.add(Label::new(text).wrap());
    ui.add_space(theme::GAP);
    if ui.add(parts::primary_button(ui, "Close")).clicked() {
        ui.ctx().send_viewport_cmd(ViewportCommand::Close);
    }
}

/// Says one thing, and stays until it is closed.
pub fn explain(text: &str) -> eframe::Result {
    let options = eframe::NativeOptions {
        viewport: ViewportBuilder::default()
            .with_title(TITLE)
            .with_app_id(APP_ID)
            .with_inner_size([460.0, 180.0]),
        renderer: eframe::Renderer::Glow,
        ..eframe::NativeOptions::default()
    };
    let text = text.to_owned();
    eframe::run_native(
        TITLE,
        options,
        Box::new(|creation| {
            theme::install(&creation.egui_ctx);
            Ok(Box::new(Explanation(text)))
        }),
    )
}
