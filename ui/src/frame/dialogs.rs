//! Questions that must be answered: before what cannot be undone, and when the
//! window is closed.

use eframe::egui::{Context, Id, Modal, Ui};

use super::Scene;
use crate::command::Command;
use crate::format;
use crate::model::{OnClose, OverlayKind, Setting};
use crate::parts;

/// The question that is being asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialog {
    /// Delete the oldest file of the archive?
    DropOldest,
    /// Leave all peers for a network of this kind?
    ChangeOverlay(OverlayKind),
    /// The window was closed: go on or end?
    Close {
        /// Whether the answer holds from now on, and this is not asked again.
        remember: bool,
    },
}

/// What an answered dialog means for the window itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Outlook {
    /// Nothing.
    #[default]
    Stays,
    /// It hides.
    Hides,
    /// It closes.
    Closes,
}

/// Draws the dialog that is open, if one is.
pub fn dialog_ui(ctx: &Context, scene: &mut Scene<'_>) -> Outlook {
    let Some(mut dialog) = scene.dialog.take() else {
        return Outlook::Stays;
    };
    let mut outlook = Outlook::Stays;
    let mut done = false;
    let modal = Modal::new(Id::new("dialog")).show(ctx, |ui| {
        ui.set_width(parts::width_within(ui, 420.0));
        done = match &mut dialog {
            Dialog::DropOldest => drop_oldest_ui(ui, scene),
            Dialog::ChangeOverlay(kind) => change_overlay_ui(ui, scene, *kind),
            Dialog::Close { remember } => close_ui(ui, scene, remember, &mut outlook),
        };
    });
    if !done && !modal.should_close() {
        *scene.dialog = Some(dialog);
    }
    outlook
}

fn drop_oldest_ui(ui: &mut Ui, scene: &mut Scene<'_>) -> bool {
    parts::heading_ui(ui, "Delete the oldest pages?");
    ui.label(format!(
        "The oldest file of the archive will be deleted for good. That frees {}.",
        format::bytes(scene.model.archive.oldest_bytes)
    ));
    let (yes, no) = answers_ui(ui, "Delete for good", "Keep them");
    if yes {
        scene.send(Command::DropOldest);
    }
    yes || no
}

fn change_overlay_ui(ui: &mut Ui, scene: &mut Scene<'_>, kind: OverlayKind) -> bool {
    parts::heading_ui(ui, "Leave this network?");
    let leaves = match scene.model.rates.peers {
        0 => String::new(),
        peers => format!(
            "leave {} and ",
            format::counted(peers.into(), "peer", "peers")
        ),
    };
    ui.label(format!(
        "All peers of a network have the same kind. You would {leaves}start again, alone until \
         you meet peers of the new kind. What is stored stays."
    ));
    let (yes, no) = answers_ui(ui, "Leave and start again", "Cancel");
    if yes {
        scene.change(Setting::Overlay(kind));
    }
    yes || no
}

fn close_ui(
    ui: &mut Ui,
    scene: &mut Scene<'_>,
    remember: &mut bool,
    outlook: &mut Outlook,
) -> bool {
    parts::heading_ui(ui, "Keep crawling without the window?");
    ui.label(if scene.is_wayland {
        "PeerCrawl can go on with its window minimised."
    } else if scene.model.abilities.tray {
        "PeerCrawl can go on in the background. Its icon in the tray brings the window back."
    } else {
        "PeerCrawl can go on in the background. Start it again to bring the window back."
    });
    ui.checkbox(remember, "Do not ask again");
    ui.add_space(8.0);
    ui.horizontal_wrapped(|ui| {
        if ui.add(parts::primary_button(ui, "Keep crawling")).clicked() {
            *outlook = Outlook::Hides;
        }
        if ui.add(parts::button("Stop and quit")).clicked() {
            *outlook = Outlook::Closes;
        }
        if ui.add(parts::button("Cancel")).clicked() {
            return true;
        }
        let choice = match *outlook {
            Outlook::Stays => return false,
            Outlook::Hides => OnClose::KeepCrawling,
            Outlook::Closes => OnClose::Quit,
        };
        if *remember {
            scene.change(Setting::OnClose(choice));
        }
        true
    })
    .inner
}

/// The two answers; the harmless one comes last, where Enter does not hit it by habit.
fn answers_ui(ui: &mut Ui, yes: &str, no: &str) -> (bool, bool) {
    ui.add_space(8.0);
    ui.horizontal_wrapped(|ui| {
        let yes = ui.add(parts::button(yes)).clicked();
        let no = ui.add(parts::primary_button(ui, no)).clicked();
        (yes, no)
    })
    .inner
}
