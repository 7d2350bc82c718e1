//! Crawl: where it begins, how far it goes, and how friends can join.

use std::path::PathBuf;

use eframe::egui::accesskit::{Action, NodeId};
use eframe::egui::{Event, Label, Rect, RichText, ScrollArea, TextEdit, Ui, vec2};

use super::join;
use crate::command::Command;
use crate::format;
use crate::frame::Scene;
use crate::model::{Field, Scope, Setting, Settings};
use crate::number_field::{self, NumberField};
use crate::parts;
use crate::symbols;
use crate::theme;

/// What the screen remembers.
#[derive(Default)]
pub struct CrawlState {
    /// The seeds that are being typed.
    seeds: String,
    /// The text that was last sent to be checked.
    sent: String,
    /// Where to write a join file; the model's proposal until it is changed.
    new_join_file: String,
    /// The proposal that was last followed.
    proposed: String,
    /// The join file to open.
    pub join_file: String,
}

/// Draws it.
pub fn crawl_ui(ui: &mut Ui, scene: &mut Scene<'_>, state: &mut CrawlState) {
    parts::heading_ui(ui, "Crawl");
    if scene.model.demo.is_some() {
        return demo_ui(ui, scene);
    }
    parts::titled_card_ui(ui, "Add web sites", |ui| add_ui(ui, scene, state));
    parts::titled_card_ui(ui, "Where the crawl begins", |ui| seeds_ui(ui, scene));
    parts::titled_card_ui(ui, "How far it goes", |ui| scope_ui(ui, scene));
    parts::titled_card_ui(ui, "Crawl with friends", |ui| join_ui(ui, scene, state));
    parts::titled_card_ui(ui, "Blocked sites", |ui| blocked_ui(ui, scene));
}

/// A demo has a web of its own, and nothing else can be done with it.
fn demo_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    parts::titled_card_ui(ui, "Where the demo begins", |ui| {
        for seed in scene.model.crawl.seeds.iter().take(LINES_SHOWN) {
            ui.add(Label::new(RichText::new(seed).monospace()).truncate());
        }
        parts::weak_ui(
            ui,
            "A demo crawls its own made-up web and nothing else. To add web sites or to join \
             friends, leave the demo.",
        );
    });
    parts::titled_card_ui(ui, "Blocked sites", |ui| blocked_ui(ui, scene));
}

fn add_ui(ui: &mut Ui, scene: &mut Scene<'_>, state: &mut CrawlState) {
    let label = parts::weak_ui(
        ui,
        "One web address a line. They are added while the crawl runs.",
    );
    let field = ui
        .add(
            TextEdit::multiline(&mut state.seeds)
                .hint_text("https://example.org/")
                .desired_rows(3)
                .margin(vec2(8.0, 5.0))
                .desired_width(f32::INFINITY),
        )
        .labelled_by(label.id);
    let enabled = ui.is_enabled();
    let shown = state.seeds.clone();
    field.widget_info(|| {
        let mut info = eframe::egui::WidgetInfo::text_edit(enabled, "", shown.as_str(), "");
        info.label = Some("Web addresses to add".to_owned());
        info
    });
    if state.seeds != state.sent {
        state.sent.clone_from(&state.seeds);
        scene.send(Command::CheckSeeds(state.seeds.clone()));
    }
    let check = &scene.model.crawl.check;
    let checked = check.text == state.seeds;
    let palette = theme::palette(ui);
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for line in check.lines.iter().filter(|_| checked) {
        match &line.problem {
            None => good.push(line.text.clone()),
            Some(problem) => {
                bad.push(line.text.as_str());
                if bad.len() <= LINES_SHOWN {
                    let text = format!("{} {}: {problem}", symbols::PROBLEM, line.text);
                    ui.add(Label::new(RichText::new(text).color(palette.red)).wrap());
                }
            }
        }
    }
    more_ui(ui, bad.len());
    ui.horizontal_wrapped(|ui| {
        let name = match good.len() as u64 {
            0 | 1 => "Add web site".to_owned(),
            number => format!("Add {} web sites", format::count(number)),
        };
        ui.add_enabled_ui(!good.is_empty(), |ui| {
            if ui.add(parts::primary_button(ui, &name)).clicked() {
                let text = format!(
                    "{} added.",
                    format::counted(good.len() as u64, "web site", "web sites")
                );
                // What is wrong stays, to be mended, and what was too much to be checked at once.
                let lines = state.seeds.lines().filter(|line| !line.trim().is_empty());
                let unchecked = lines.skip(check.lines.len());
                let left: Vec<&str> = bad.iter().copied().chain(unchecked).collect();
                state.seeds = left.join("\n");
                scene.send(Command::AddSeeds(good.clone()));
                // No Undo: what the crawl has begun with, it does not forget.
                scene.toasts.say(text, None, scene.time_secs);
            }
        });
        if !bad.is_empty() {
            let number = format::counted(bad.len() as u64, "line", "lines");
            ui.weak(format!("{number} cannot be added"));
        }
    });
}

/// Lines of a list that does not scroll by itself, at most; the rest is counted.
const LINES_SHOWN: usize = 50;

/// Says how many are not listed, if any are not.
fn more_ui(ui: &mut Ui, number: usize) {
    if number > LINES_SHOWN {
        let more = (number - LINES_SHOWN) as u64;
        ui.weak(format!("and {} more", format::count(more)));
    }
}

/// Rows of a list in sight at once; a longer one scrolls.
const IN_SIGHT: usize = 10;

/// Lists what may be many thousands, each with a button, of which only what is in sight is
/// drawn. Gives the one whose button was pressed.
fn list_ui<'a>(
    ui: &mut Ui,
    name: &str,
    items: &'a [String],
    word: &str,
    style: fn(RichText) -> RichText,
) -> Option<&'a String> {
    ui.spacing_mut().item_spacing.y = 0.0;
    let area = ScrollArea::vertical()
        .id_salt(name)
        .auto_shrink([false, true])
        .max_height(IN_SIGHT as f32 * theme::ROW_HEIGHT)
        .animated(false);
    let mut pressed = None;
    // What is to be brought into sight; a widget that is drawn takes its call away.
    let called: Vec<NodeId> = ui.input(|input| {
        let calls = input.events.iter().filter_map(|event| match event {
            Event::AccessKitActionRequest(call) => Some(call),
            _ => None,
        });
        let calls = calls.filter(|call| call.action == Action::ScrollIntoView);
        calls.map(|call| call.target_node).collect()
    });
    let mut wanted: Option<Rect> = None;
    let drawn = area.show_rows(ui, theme::ROW_HEIGHT, items.len(), |ui, rows| {
        for item in items.get(rows).unwrap_or_default() {
            ui.horizontal(|ui| {
                let label = || format!("{word} {item}");
                let button = parts::row_button_ui(ui, word, label);
                if button.clicked() {
                    pressed = Some(item);
                }
                let text = ui.add(Label::new(style(RichText::new(item))).truncate());
                for part in [button, text] {
                    let is_called = called.contains(&part.id.accesskit_id());
                    wanted = is_called.then_some(part.rect).or(wanted);
                }
            });
        }
    });
    if let Some(part) = wanted {
        // The list scrolls to it. The screen around it has to, as well, and is not told.
        let (top, bottom) = (drawn.inner_rect.top(), drawn.inner_rect.bottom());
        let moves = part.center().y.min(bottom).max(top) - part.center().y;
        ui.scroll_to_rect(part.translate(vec2(0.0, moves)), None);
    }
    pressed
}

fn seeds_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let seeds = &scene.model.crawl.seeds;
    if seeds.is_empty() {
        parts::weak_ui(
            ui,
            "No web site of your own yet. This computer fetches what its peers send.",
        );
    }
    let remove = list_ui(ui, "seeds", seeds, "Remove", RichText::monospace);
    if seeds.len() > IN_SIGHT {
        ui.weak(format!("{} web sites", format::count(seeds.len() as u64)));
    }
    if let Some(seed) = remove.cloned() {
        let text = format!(
            "{seed} is no beginning any more. What was found from there is still fetched; \
             block the site to end that."
        );
        let undo = Command::AddSeeds(vec![seed.clone()]);
        scene.send_with_undo(Command::RemoveSeeds(vec![seed]), text, undo);
    }
}

fn scope_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    ui.spacing_mut().item_spacing.y = 2.0;
    let now = scene.draft.get().scope;
    let choices = [
        (Scope::Host, "Only the hosts above"),
        (
            Scope::Domain,
            "The hosts above and others of the same name (www., blog., …)",
        ),
        (Scope::Any, "Anywhere that links lead"),
    ];
    for (scope, words) in choices {
        if ui.radio(now == scope, words).clicked() && now != scope {
            scene.change(Setting::Scope(scope));
        }
    }
    ui.horizontal_wrapped(|ui| {
        let name = "Links to follow from there at most";
        let label = ui.label(name);
        let field = NumberField {
            name,
            value: scene.draft.get().max_depth,
            range: 0..=Settings::MOST_DEPTH,
            least: 0,
            drag_speed: 0.25,
            width: 64.0,
            write: &|depth| format::count(depth.into()),
            read: &|text| number_field::read(text, ""),
            what: "a number of links",
            hint: "Type a whole number.",
        };
        let (response, changed) = field.field_ui(ui, scene);
        response
            .labelled_by(label.id)
            .on_hover_text("0 fetches only the web sites above");
        if let Some(depth) = changed {
            scene.change(Setting::MaxDepth(depth));
        }
    });
}

fn join_ui(ui: &mut Ui, scene: &mut Scene<'_>, state: &mut CrawlState) {
    parts::weak_ui(
        ui,
        "A join file holds what a friend needs to take part in this crawl: send it to them, \
         and they double-click it.",
    );
    let proposal = &scene.model.crawl.join_file_path;
    if state.proposed != *proposal {
        if state.new_join_file == state.proposed {
            state.new_join_file.clone_from(proposal);
        }
        state.proposed.clone_from(proposal);
    }
    let path = &mut state.new_join_file;
    parts::text_field_ui(ui, "Write a join file to", path, "");
    parts::problem_ui(ui, scene.model.problem(Field::NewJoinFile));
    let path = path.trim().to_owned();
    ui.horizontal_wrapped(|ui| {
        ui.add_enabled_ui(!path.is_empty(), |ui| {
            if ui.add(parts::button("Make join file")).clicked() {
                scene.send(Command::MakeJoinFile(PathBuf::from(path)));
            }
        });
        join::browse_ui(ui, scene, Field::NewJoinFile, "Choose where…");
    });
    ui.add_space(theme::GAP);
    join::open_ui(ui, scene, &mut state.join_file);
}

fn blocked_ui(ui: &mut Ui, scene: &mut Scene<'_>) {
    let blocked = &scene.model.crawl.blocked_sites;
    if blocked.is_empty() {
        parts::weak_ui(ui, "None. Block a site on the Activity or Queues screen.");
    }
    let unblock = list_ui(ui, "blocked", blocked, "Unblock", |text| text);
    if let Some(entry) = unblock.cloned() {
        scene.unblock(entry);
    }
}
