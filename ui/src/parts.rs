//! What several screens are built from: headings, cards, fields, messages.

use eframe::egui::{
    Align, Button, Color32, Label, Layout, Response, RichText, Stroke, TextEdit, Ui, WidgetInfo,
    WidgetType, vec2,
};

use crate::symbols;
use crate::theme;

/// A screen's or a card's title.
pub fn heading_ui(ui: &mut Ui, text: &str) -> Response {
    let response = ui.heading(text);
    ui.ctx().accesskit_node_builder(response.id, |node| {
        node.set_role(eframe::egui::accesskit::Role::Heading);
        node.set_label(text.to_owned());
    });
    response
}

/// The second line of things, wrapped.
pub fn weak_ui(ui: &mut Ui, text: impl Into<String>) -> Response {
    ui.add(Label::new(RichText::new(text).small().weak()).wrap())
}

/// A card that fills the width that there is.
pub fn card_ui<R>(ui: &mut Ui, add: impl FnOnce(&mut Ui) -> R) -> R {
    theme::card(ui)
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            // Columns stretch their lines to the full width, which looks odd in text.
            ui.vertical(add).inner
        })
        .inner
}

/// A card with a title.
pub fn titled_card_ui<R>(ui: &mut Ui, title: &str, add: impl FnOnce(&mut Ui) -> R) -> R {
    card_ui(ui, |ui| {
        ui.strong(title);
        add(ui)
    })
}

/// A width, or what the window has room for.
pub fn width_within(ui: &Ui, width: f32) -> f32 {
    width.min(ui.ctx().content_rect().width() - 6.0 * theme::GAP)
}

/// As many columns as there is room for, up to so many. Whoever fills them takes the
/// number of a column modulo how many there are.
pub fn columns_ui<R>(
    ui: &mut Ui,
    most: usize,
    least_width: f32,
    add: impl FnOnce(&mut [Ui]) -> R,
) -> R {
    let fit = (ui.available_width() + theme::GAP) / (least_width + theme::GAP);
    ui.columns((fit as usize).clamp(1, most), add)
}

/// Things side by side, or on several lines if one has no room for them all.
pub fn line_ui<R>(ui: &mut Ui, least_width: f32, add: impl FnOnce(&mut Ui, bool) -> R) -> R {
    if ui.available_width() < least_width {
        ui.horizontal_wrapped(|ui| add(ui, true)).inner
    } else {
        ui.horizontal(|ui| add(ui, false)).inner
    }
}

/// What a screen says while it has nothing to show: what will be here, and what to do.
pub fn empty_ui(ui: &mut Ui, what: &str, what_to_do: &str) {
    ui.add_space(theme::SECTION_GAP * 2.0);
    ui.vertical_centered(|ui| {
        ui.set_max_width((theme::TEXT_WIDTH * 0.75).min(ui.available_width()));
        ui.label(RichText::new(what).strong());
        ui.add(Label::new(RichText::new(what_to_do).weak()).wrap());
    });
    ui.add_space(theme::SECTION_GAP * 2.0);
}

/// What is wrong with the field above, if anything is.
pub fn problem_ui(ui: &mut Ui, problem: Option<&str>) {
    if let Some(text) = problem {
        let text = format!("{} {text}", symbols::PROBLEM);
        let color = theme::palette(ui).red;
        ui.add(Label::new(RichText::new(text).color(color)).wrap());
    }
}

/// The button of the thing that one most likely wants.
pub fn primary_button(ui: &Ui, text: &str) -> Button<'static> {
    let palette = theme::palette(ui);
    Button::new(RichText::new(text).strong().color(palette.on_accent))
        .fill(palette.accent)
        .stroke(Stroke::new(1.0, palette.accent))
        .min_size(vec2(96.0, theme::CONTROL_HEIGHT))
}

/// The one button that matters most, larger than all others.
pub fn main_button(ui: &Ui, text: &str) -> Button<'static> {
    let palette = theme::palette(ui);
    let text = RichText::new(text).strong().size(theme::MAIN_BUTTON_TEXT);
    Button::new(text.color(palette.on_accent))
        .fill(palette.accent)
        .stroke(Stroke::new(1.0, palette.accent))
        .min_size(theme::MAIN_BUTTON)
}

/// An ordinary button that is as high as the others.
pub fn button(text: &str) -> Button<'_> {
    Button::new(text).min_size(vec2(0.0, theme::CONTROL_HEIGHT))
}

/// Words under the pointer, made once it is there: the rows of a table have hundreds of them.
pub fn with_tip(response: Response, words: impl FnOnce() -> String) -> Response {
    response.on_hover_ui(|ui| {
        // As `on_hover_text` does it: a longer text would keep the width of a shorter one.
        ui.set_max_width(ui.spacing().tooltip_width);
        ui.label(words());
    })
}

/// A button of a table's row. All rows have the same word on it; the label tells them apart.
pub fn row_button_ui(ui: &mut Ui, text: &str, label: impl Fn() -> String) -> Response {
    let response = ui
        .scope(|ui| {
            ui.spacing_mut().button_padding.x = 6.0;
            ui.add(Button::new(RichText::new(text).small()).small())
        })
        .inner;
    let enabled = ui.is_enabled();
    response.widget_info(|| WidgetInfo::labeled(WidgetType::Button, enabled, label()));
    with_tip(response, label)
}

/// A field for text under its name.
pub fn text_field_ui(ui: &mut Ui, name: &str, text: &mut String, hint: &str) -> Response {
    text_field_before_ui(ui, name, text, hint, 0.0)
}

/// Width of a field for text at least; a narrower line has it below its name.
const LEAST_FIELD_WIDTH: f32 = 160.0;

/// A field for text that leaves so much of its line to what comes after it.
pub fn text_field_before_ui(
    ui: &mut Ui,
    name: &str,
    text: &mut String,
    hint: &str,
    after_width: f32,
) -> Response {
    let label = ui.label(name);
    let room = ui.available_size_before_wrap().x - after_width;
    let width = room.clamp(LEAST_FIELD_WIDTH, theme::TEXT_WIDTH * 0.75);
    ui.add(
        TextEdit::singleline(text)
            .hint_text(hint)
            .margin(vec2(8.0, 5.0))
            .desired_width(width),
    )
    .labelled_by(label.id)
}

/// A field to search with; its name is for screen readers alone.
pub fn search_field_ui(ui: &mut Ui, name: &str, text: &mut String, width: f32) -> Response {
    let response = ui.add(
        TextEdit::singleline(text)
            .hint_text(name)
            .margin(vec2(8.0, 5.0))
            .desired_width(width),
    );
    let enabled = ui.is_enabled();
    let shown = text.clone();
    response.widget_info(|| {
        let mut info = WidgetInfo::text_edit(enabled, "", shown.as_str(), name);
        info.label = Some(name.to_owned());
        info
    });
    response
}

/// A number in a table: to the right.
pub fn number_ui(ui: &mut Ui, text: String) -> Response {
    let layout = Layout::right_to_left(Align::Center);
    ui.with_layout(layout, |ui| ui.add(Label::new(text).truncate()))
        .inner
}

/// Text of a fixed width, to the right, so that its neighbours stay where they are.
pub fn fixed_ui(ui: &mut Ui, width: f32, text: RichText, exact: impl FnOnce() -> String) {
    let size = vec2(width, ui.spacing().interact_size.y);
    ui.allocate_ui_with_layout(size, Layout::right_to_left(Align::Center), |ui| {
        ui.set_min_size(size);
        with_tip(ui.add(Label::new(text).extend()), exact);
    });
}

/// A part of a whole as a bar, with words for those who cannot see it.
pub fn bar_ui(ui: &mut Ui, part: f32, color: Color32, label: &str) {
    let width = ui.available_width();
    let (rect, response) =
        ui.allocate_exact_size(vec2(width, theme::GRID), eframe::egui::Sense::hover());
    let palette = theme::palette(ui);
    ui.painter().rect_filled(rect, 4.0, palette.edge);
    let mut filled = rect;
    filled.set_width(rect.width() * part.clamp(0.0, 1.0));
    ui.painter().rect_filled(filled, 4.0, color);
    response.widget_info(|| WidgetInfo::labeled(WidgetType::ProgressIndicator, true, label));
    response.on_hover_text(label);
}
