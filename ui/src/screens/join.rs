//! Join files: opening one, and what it would do before it does it.

use std::path::PathBuf;

use eframe::egui::{Label, RichText, Ui};

use crate::command::Command;
use crate::format;
use crate::frame::Scene;
use crate::model::{Field, OverlayKind};
use crate::parts;
use crate::theme;

/// Seeds and peers of an offer that are listed at most.
const LISTED: usize = 8;

/// A field to open a join file with. Files dropped onto the window mostly work too.
pub fn open_ui(ui: &mut Ui, scene: &mut Scene<'_>, path: &mut String) {
    parts::text_field_ui(ui, "Open a join file", path, "crawl.peercrawl");
    parts::problem_ui(ui, scene.model.problem(Field::JoinFile));
    let typed = path.trim().to_owned();
    ui.horizontal_wrapped(|ui| {
        ui.add_enabled_ui(!typed.is_empty(), |ui| {
            if ui.add(parts::button("Open join file")).clicked() {
                scene.send(Command::ReadJoinFile(PathBuf::from(typed)));
            }
        });
        browse_ui(ui, scene, Field::JoinFile, "Browse…");
        if !scene.is_wayland {
            parts::weak_ui(ui, "or drop it onto this window");
        }
    });
}

/// A button for the desktop's own dialog, where it has one.
pub fn browse_ui(ui: &mut Ui, scene: &mut Scene<'_>, field: Field, name: &str) {
    if scene.model.abilities.file_dialog && ui.add(parts::button(name)).clicked() {
        scene.send(Command::Browse(field));
    }
}

/// Says what an opened join file would do.
pub fn offer_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let Some(offer) = &scene.model.crawl.offer else {
        return;
    };
    ui.vertical_centered(|ui| {
        ui.set_max_width(theme::TEXT_WIDTH.min(ui.available_width()));
        parts::card_ui(ui, |ui| {
            parts::heading_ui(ui, &format!("Join “{}”?", offer.network_name));
            parts::weak_ui(ui, format!("From {}", offer.file));
            ui.label("If you join, this computer will:");
            line_ui(
                ui,
                format!("fetch web pages, {}, beginning with:", offer.scope),
            );
            list_ui(ui, &offer.seeds, "web site", "web sites");
            line_ui(ui, "connect to other volunteers, first at:".to_owned());
            list_ui(ui, &offer.peers, "peer", "peers");
            line_ui(
                ui,
                match offer.overlay {
                    OverlayKind::Flat => "pass messages on like every other peer",
                    OverlayKind::Supernode => {
                        "pass messages on for others if it becomes a supernode"
                    }
                }
                .to_owned(),
            );
            if !offer.leaves.is_empty() {
                let color = theme::palette(ui).amber;
                ui.add(Label::new(RichText::new(&offer.leaves).color(color)).wrap());
            }
            parts::weak_ui(
                ui,
                "Your own limits stay as they are. It never visits your private network and \
                 always follows the rules that sites have for robots.",
            );
            ui.add_space(theme::GAP);
            ui.horizontal_wrapped(|ui| {
                if ui
                    .add(parts::primary_button(ui, "Join this crawl"))
                    .clicked()
                {
                    scene.send(Command::AcceptJoin);
                }
                if ui.add(parts::button("Do not join")).clicked() {
                    scene.send(Command::DeclineJoin);
                }
            });
        });
    });
}

fn line_ui(ui: &mut Ui, text: String) {
    ui.add(Label::new(format!("•  {text}")).wrap());
}

fn list_ui(ui: &mut Ui, items: &[String], one: &str, many: &str) {
    ui.indent(many, |ui| {
        ui.spacing_mut().item_spacing.y = 2.0;
        for item in items.iter().take(LISTED) {
            ui.add(Label::new(RichText::new(item).monospace()).truncate());
        }
        if items.len() > LISTED {
            let more = (items.len() - LISTED) as u64;
            ui.weak(format!("and {}", format::counted(more, one, many)));
        }
        if items.is_empty() {
            ui.weak(format!("no {many} named"));
        }
    });
}
