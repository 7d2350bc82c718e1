//! A small window that says one thing, for whoever has no terminal to read it in.

use eframe::egui::{CentralPanel, Label, ScrollArea, Ui, ViewportBuilder, ViewportCommand};

use crate::app::APP_ID;
use crate::{parts, theme};

struct Explanation(String);

impl eframe::App for Explanation {
    fn ui(&mut self, ui: &mut Ui, _frame: &mut eframe::Frame) {
        CentralPanel::default().show(ui, |ui| {
            // What is wrong with a file may take many words.
            ScrollArea::vertical().show(ui, |ui| explanation_ui(ui, &self.0));
        });
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

/// Not the name of the window that people look for.
const EXPLANATION: &str = "A word from PeerCrawl";

/// Says one thing, and stays until it is closed.
pub fn explain(text: &str) -> eframe::Result {
    let options = eframe::NativeOptions {
        viewport: ViewportBuilder::default()
            .with_title(EXPLANATION)
            .with_app_id(APP_ID)
            .with_inner_size([520.0, 220.0]),
        renderer: eframe::Renderer::Glow,
        ..eframe::NativeOptions::default()
    };
    let text = text.to_owned();
    eframe::run_native(
        EXPLANATION,
        options,
        Box::new(|creation| {
            theme::install(&creation.egui_ctx);
            Ok(Box::new(Explanation(text)))
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable;

    #[test]
    fn it_says_its_one_thing_and_can_be_closed() {
        let mut harness = Harness::new_ui(|ui| explanation_ui(ui, "It runs already."));
        harness.get_by_label("It runs already.");
        harness.get_by_label("Close").click();
        let mut is_closed = false;
        for _ in 0..4 {
            harness.step();
            let mut viewports = harness.output().viewport_output.values();
            is_closed |= viewports.any(|one| one.commands.contains(&ViewportCommand::Close));
        }
        assert!(is_closed);
    }
}
