//! Large tables: only the visible rows are drawn, and only they are asked for.

use std::ops::Range;

use eframe::egui::{Align, Button, Layout, RichText, ScrollArea, Ui, WidgetInfo, WidgetType};

use crate::command::TableRequest;
use crate::symbols;

/// Rows are asked for in steps of so many, so that scrolling by a line seldom asks anew.
const STEP: usize = 64;

/// Which rows were drawn.
#[derive(Debug, Default)]
pub struct Drawn(Option<Range<usize>>);

impl Drawn {
    /// This one was.
    pub fn row(&mut self, number: usize) {
        let range = self.0.get_or_insert(number..number + 1);
        range.start = range.start.min(number);
        range.end = range.end.max(number + 1);
    }

    /// What to ask for: these rows and a step more on either side.
    pub fn ask(self) -> Range<usize> {
        let range = self.0.unwrap_or(0..1);
        let start = (range.start / STEP).saturating_sub(1) * STEP;
        start..(range.end.div_ceil(STEP) + 1) * STEP
    }
}

/// Room for a table that is at least so wide: a narrow window scrolls it sideways.
pub fn wide_ui<R>(ui: &mut Ui, least_width: f32, add: impl FnOnce(&mut Ui) -> R) -> R {
    if ui.available_width() >= least_width {
        return add(ui);
    }
    let area = ScrollArea::horizontal().auto_shrink(false);
    area.show(ui, |ui| {
        ui.set_width(least_width);
        add(ui)
    })
    .inner
}

/// A column's head that does nothing.
pub fn head_ui(ui: &mut Ui, name: &str, to_the_right: bool) {
    let text = RichText::new(name).small().strong();
    if to_the_right {
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| ui.label(text));
    } else {
        ui.label(text);
    }
}

/// A column's head that sorts by it.
pub fn sort_head_ui<C: Copy + PartialEq>(
    ui: &mut Ui,
    name: &str,
    column: C,
    request: &mut TableRequest<C>,
) {
    let sorted = request.sort_by == column;
    let arrow = match (sorted, request.descending) {
        (false, _) => None,
        (true, true) => Some((symbols::DESCENDING, "greatest first")),
        (true, false) => Some((symbols::ASCENDING, "smallest first")),
    };
    let text = match arrow {
        Some((glyph, _)) => format!("{name} {glyph}"),
        None => name.to_owned(),
    };
    let response = ui.add(Button::new(RichText::new(text).small().strong()).frame(false));
    let label = match arrow {
        Some((_, words)) => format!("Sort by {name}, now {words}"),
        None => format!("Sort by {name}"),
    };
    response.widget_info(|| WidgetInfo::labeled(WidgetType::Button, true, &label));
    if response.on_hover_text(&label).clicked() {
        request.descending = if sorted { !request.descending } else { true };
        request.sort_by = column;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_more_is_asked_for_on_either_side() {
        let ask = |rows: Range<usize>| {
            let mut drawn = Drawn::default();
            rows.for_each(|row| drawn.row(row));
            drawn.ask()
        };
        assert_eq!(Drawn::default().ask(), 0..128);
        assert_eq!(ask(0..20), 0..128);
        assert_eq!(ask(100..120), 0..192);
        // A line further asks for the same.
        assert_eq!(ask(1_000..1_020), ask(1_001..1_021));
    }
}
