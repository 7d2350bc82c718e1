//! Fields for whole numbers: dragged, stepped by the arrow keys or a screen reader, or typed.
//!
//! A number is handed out once the hand has let go of it. What a crawl loses to a limit that was
//! only met on the way to another one is gone.

use std::cell::Cell;
use std::ops::RangeInclusive;

use eframe::egui::accesskit::{Action, ActionData};
use eframe::egui::{Context, DragValue, Id, Key, Response, Ui, vec2};

use crate::format;
use crate::frame::Scene;
use crate::theme;

/// One field.
pub struct NumberField<'a> {
    /// Its name. Two that are drawn together never have the same.
    pub name: &'a str,
    /// What is set now. It stays even where it is out of range.
    pub value: u32,
    /// What can be typed.
    pub range: RangeInclusive<u32>,
    /// What dragging and steps lead to at least.
    pub least: u32,
    /// What dragging by a point changes.
    pub drag_speed: f64,
    /// Its width.
    pub width: f32,
    /// How a number is written.
    pub write: &'a dyn Fn(u32) -> String,
    /// How one is read; [`read`] does most of it.
    pub read: &'a dyn Fn(&str) -> Option<u32>,
    /// What the number is, and what can be typed: for words about what cannot be.
    pub what: &'a str,
    /// See `what`.
    pub hint: &'a str,
}

/// Letters of a refused text that are repeated at most.
const TYPED_SHOWN: usize = 24;

impl NumberField<'_> {
    /// Draws it; the caller gives it its label. Gives a new number once the hand has let go of
    /// it, and says so if what was typed cannot be one.
    pub fn field_ui(&self, ui: &mut Ui, scene: &mut Scene<'_>) -> (Response, Option<u32>) {
        let aside = Id::new(("number aside", self.name));
        let pass = ui.ctx().cumulative_pass_nr();
        let kept = ui.data(|data| data.get_temp::<(u64, u32)>(aside));
        // What was not drawn in between was let go of elsewhere, and is forgotten.
        let kept = kept.filter(|(drawn, _)| drawn + 1 >= pass);
        let shown = kept.map_or(self.value, |(_, number)| number);
        // What is set may be out of range: a step up from there must not lead down.
        let least = self.least.min(self.value);
        let most = self.value.max(*self.range.end());
        // A step by a key or a screen reader is as long as the speed.
        let is_pressed = ui.input(|input| input.pointer.any_down());
        let speed = if is_pressed { self.drag_speed } else { 1.0 };
        let mut changed = shown;
        let typed = Cell::new(None);
        let field = DragValue::new(&mut changed)
            .range(least..=most)
            .clamp_existing_to_range(false)
            .speed(speed)
            // Typing 256 must not set a limit of 2 on the way.
            .update_while_editing(false)
            // A step is drawn before it is kept within its bounds.
            .custom_formatter(|number, _| (self.write)((number as u32).clamp(least, most)))
            .custom_parser(|text| {
                typed.set(Some(text.to_owned()));
                None
            });
        let response = ui.add_sized(vec2(self.width, theme::CONTROL_HEIGHT), field);
        let is_escape = ui.input(|input| input.key_pressed(Key::Escape));
        let is_taken_back = response.lost_focus() && is_escape;
        let (typed, given) = (typed.take(), given(ui, response.id));
        if is_taken_back || typed.is_some() || given.is_some() {
            // It would read its text again in the next frame, even after Escape (egui 0.35).
            ui.data_mut(|data| data.remove_temp::<String>(response.id));
        }
        ui.ctx().accesskit_node_builder(response.id, |node| {
            // Steps do not lead there, but it can be set.
            node.set_min_numeric_value((*self.range.start()).into());
        });
        let wanted = match (typed, given) {
            _ if is_taken_back => self.value,
            (Some(text), _) => self.read_or_refuse(scene, &text, shown),
            (None, Some(number)) => self.possible(number, shown),
            (None, None) => changed.clamp(least, most),
        };
        let is_changed = wanted != self.value;
        let is_held = response.dragged() || response.has_focus();
        if is_changed && is_held && given.is_none() {
            ui.data_mut(|data| data.insert_temp(aside, (pass, wanted)));
            return (response, None);
        }
        ui.data_mut(|data| data.remove_temp::<(u64, u32)>(aside));
        (response, is_changed.then_some(wanted))
    }

    fn read_or_refuse(&self, scene: &mut Scene<'_>, text: &str, shown: u32) -> u32 {
        if let Some(number) = (self.read)(text) {
            return self.possible(number, shown);
        }
        let stays = format!("{} stays as it was. {}", self.name, self.hint);
        let text: String = text.trim().chars().take(TYPED_SHOWN).collect();
        scene.refuse(match text.is_empty() {
            true => format!("Nothing was typed: {stays}"),
            false => format!("“{text}” cannot be {}: {stays}", self.what),
        });
        self.value
    }

    /// What comes of a number that was meant as it is. What is shown, steps have led to.
    fn possible(&self, number: u32, shown: u32) -> u32 {
        match [self.value, shown].contains(&number) {
            true => number,
            false => number.clamp(*self.range.start(), *self.range.end()),
        }
    }
}

/// What a screen reader sets this field to in this frame, if it does. That is meant as it is,
/// and 0 too: no hand was on its way to somewhere else.
fn given(ui: &Ui, field: Id) -> Option<u32> {
    ui.input(|input| {
        let requests = input.accesskit_action_requests(field, Action::SetValue);
        let numbers = requests.filter_map(|request| match request.data {
            // A part of one is not none at all.
            Some(ActionData::NumericValue(number)) => Some(number.ceil() as u32),
            _ => None,
        });
        numbers.last()
    })
}

/// A number that may be 0 for "no limit", after its name.
pub fn limit_field_ui(
    ui: &mut Ui,
    scene: &mut Scene<'_>,
    name: &str,
    value: u32,
    most: u32,
    unit: &str,
    tip: &str,
) -> Option<u32> {
    let label = ui.label(name).on_hover_text(tip);
    let field = NumberField {
        name,
        value,
        range: 0..=most,
        // No limit at all is not met at the end of ever smaller ones: it is typed.
        least: 1,
        drag_speed: f64::from(value.max(16)) / 64.0,
        width: 128.0,
        write: &|number| match number {
            0 => "no limit".to_owned(),
            _ => format!("{} {unit}", format::count(number.into())),
        },
        read: &|text| read_limit(text, unit),
        what: "a limit",
        hint: "Type a whole number, or 0 for no limit.",
    };
    let (response, changed) = field.field_ui(ui, scene);
    response
        .labelled_by(label.id)
        .on_hover_text(format!("{tip}. Drag, or click and type. 0 means no limit."));
    changed
}

/// Ends typing. A field that is drawn after that takes over what was typed into it.
pub fn end_typing(ctx: &Context) {
    if ctx.text_edit_focused() {
        ctx.memory_mut(|memory| memory.stop_text_input());
    }
}

/// Reads what may be typed into a limit: a number, `no limit`.
fn read_limit(text: &str, unit: &str) -> Option<u32> {
    match text.trim() {
        words if words.eq_ignore_ascii_case("no limit") => Some(0),
        number => read(number, unit),
    }
}

/// Reads a whole number, alone or with its unit: `256`, `1,000 KiB/s`.
pub fn read(text: &str, unit: &str) -> Option<u32> {
    let text = text.trim().to_lowercase();
    let number = text.strip_suffix(&unit.to_lowercase());
    whole(number.unwrap_or(&text).trim_end())
}

/// What may stand between groups of three digits; the last two are spaces that do not break.
const BETWEEN: [char; 5] = [',', '.', ' ', '\u{a0}', '\u{202f}'];

/// Digits, or groups of three of them with the same sign between any two. `0.500` may be the half
/// of something, and `2,5` two and a half: neither is read.
fn whole(text: &str) -> Option<u32> {
    let sign = text.chars().find(|at| !at.is_ascii_digit()).unwrap_or(',');
    let mut groups = text.split(sign);
    let first = groups.next().unwrap_or_default();
    let is_grouped = text.contains(sign);
    let is_written_so = BETWEEN.contains(&sign)
        && (1..=3).contains(&first.len())
        && !first.starts_with('0')
        && groups.all(|group| group.len() == 3);
    let digits = text.replace(sign, "");
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    // More than fits is the most that does.
    (is_number && (is_written_so || !is_grouped)).then(|| digits.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::{read, read_limit};

    #[test]
    fn a_limit_can_be_typed_as_it_is_shown() {
        for (text, unit, limit) in [
            ("256", "KiB/s", 256),
            ("256 KiB/s", "KiB/s", 256),
            ("12,345 KiB/s", "KiB/s", 12_345),
            ("10 GB", "GB", 10),
            (" 10gb ", "GB", 10),
            ("20 a minute", "a minute", 20),
            ("50%", "%", 50),
            ("no limit", "GB", 0),
            ("No Limit", "GB", 0),
            ("0", "GB", 0),
        ] {
            assert_eq!(read_limit(text, unit), Some(limit), "{text}");
        }
    }

    #[test]
    fn thousands_can_be_separated_as_anywhere() {
        for text in [
            "1000",
            "1,000",
            "1.000",
            "1 000",
            "1\u{a0}000",
            "1\u{202f}000 GB",
        ] {
            assert_eq!(read_limit(text, "GB"), Some(1_000), "{text}");
        }
        assert_eq!(read_limit("1.234.567", "GB"), Some(1_234_567));
        assert_eq!(read_limit("99,999,999,999", "GB"), Some(u32::MAX));
    }

    /// Nothing and `0.5` were no limit at all, `2,5` was 25, and `500 MB` were 500 GB.
    #[test]
    fn what_is_no_whole_number_of_the_unit_is_not_read() {
        for text in [
            "",
            " ",
            "0.5",
            "0.500",
            "2,5",
            "1.00",
            "1,0000",
            "1,000.000",
            "1..000",
            ".000",
            "1.000.",
            "500 MB",
            "1 TB",
            "10 GB/s",
            "10 GB GB",
            "1 0",
            "-5",
            "1e3",
            "fast",
            "GB",
            ",",
            "٣",
        ] {
            assert_eq!(read_limit(text, "GB"), None, "{text}");
        }
    }

    #[test]
    fn an_hour_is_a_full_one() {
        assert_eq!(read("7", ":00"), Some(7));
        assert_eq!(read("22:00", ":00"), Some(22));
        assert_eq!(read("7:30", ":00"), None);
        assert_eq!(read("", ":00"), None);
    }
}
