//! Graphs of the past, with the limit as a dashed line.

use eframe::egui::{
    Align2, FontId, Frame, Margin, RichText, Sense, Stroke, Ui, Vec2, WidgetInfo, WidgetType, vec2,
};
use egui_plot::{
    GridMark, HLine, HoverPosition, Line, LineStyle, Plot, PlotBounds, PlotPoint, PlotPoints,
    PlotUi, Text,
};

use crate::format::Local;
use crate::model::{Graphs, Sample};
use crate::theme;

/// How much of the past is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Span {
    Min1,
    #[default]
    Min5,
    Min30,
    H6,
    H24,
}

impl Span {
    /// All of them, shortest first.
    pub const ALL: [Self; 5] = [Self::Min1, Self::Min5, Self::Min30, Self::H6, Self::H24];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Min1 => "1 min",
            Self::Min5 => "5 min",
            Self::Min30 => "30 min",
            Self::H6 => "6 h",
            Self::H24 => "24 h",
        }
    }

    /// Its length and the distance of the marks on the time axis.
    fn secs_and_mark(self) -> (f64, f64) {
        match self {
            Self::Min1 => (60.0, 15.0),
            Self::Min5 => (300.0, 60.0),
            Self::Min30 => (1_800.0, 300.0),
            Self::H6 => (21_600.0, 3_600.0),
            Self::H24 => (86_400.0, 14_400.0),
        }
    }

    /// The samples of it, and the time between two of them.
    fn samples(self, graphs: &Graphs) -> (&[Sample], f64) {
        match self {
            Self::Min1 | Self::Min5 => (&graphs.seconds, 1.0),
            Self::Min30 | Self::H6 | Self::H24 => (&graphs.minutes, 60.0),
        }
    }
}

/// One graph.
pub struct Graph<'a> {
    /// What it shows.
    pub name: &'a str,
    /// Which figure of a sample.
    pub value: fn(&Sample) -> f32,
    /// How a value is written.
    pub write: fn(f64) -> String,
    /// The same without anything left out.
    pub exact: fn(f64) -> String,
    /// How many of the values make one of what is written: the scale has round numbers
    /// of those.
    pub unit: f64,
    /// Whether there are whole ones only.
    pub is_whole: bool,
    /// The limit, in the unit of the values.
    pub limit: Option<f64>,
    /// The value now.
    pub now: f64,
    /// Height of the picture.
    pub height: f32,
    /// The top of the scale is at least this, so that next to nothing looks like it.
    pub least_top: f64,
}

/// Width of the scale at the left.
const AXIS_WIDTH: f32 = 40.0;
/// The part of the time axis, from its left end, that has no words under it.
const LEFT_MARGIN: f64 = 0.04;
/// Width of a mark on the time axis at least; below that there are fewer of them.
const LEAST_MARK_WIDTH: f64 = 56.0;

/// When "now" is, and what the clock is ahead of UTC.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    pub now_ms: u64,
    pub utc_offset_minutes: i32,
}

impl Clock {
    /// Seconds on the volunteer's clock, so that marks fall on its full minutes.
    fn secs(self, at_ms: u64) -> f64 {
        at_ms as f64 / 1_000.0 + f64::from(self.utc_offset_minutes) * 60.0
    }
}

/// Draws one.
pub fn graph_ui(ui: &mut Ui, graph: &Graph<'_>, graphs: &Graphs, span: Span, clock: Clock) {
    let palette = theme::palette(ui);
    let (secs, mut mark_secs) = span.secs_and_mark();
    let width = f64::from(ui.available_width() - AXIS_WIDTH);
    while width * mark_secs / secs < LEAST_MARK_WIDTH && mark_secs < secs {
        mark_secs *= 2.0;
    }
    let end = clock.secs(clock.now_ms);
    let (samples, step_secs) = span.samples(graphs);
    let from = samples.partition_point(|sample| clock.secs(sample.at_ms) < end - secs - step_secs);
    let lines = unbroken(&samples[from..], graph.value, clock, step_secs);
    let highest = lines.iter().flatten().map(|at| at[1]).fold(0.0, f64::max);
    let limit = graph.limit.unwrap_or(0.0);
    // A little room above the line.
    let highest = (highest * 1.05).max(limit * 1.1).max(graph.least_top);
    let top = round_up(highest / graph.unit, graph.is_whole) * graph.unit;

    let plot = Plot::new(graph.name)
        .height(graph.height - TIME_HEIGHT)
        .allow_zoom(false)
        .allow_drag(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .allow_double_click_reset(false)
        .show_crosshair(false)
        .show_background(false)
        // Those of the library take the keyboard, and have no name.
        .show_axes(false)
        .sense(Sense::hover())
        .grid_color(palette.edge)
        .x_grid_spacer(move |_| marks(end - secs, end, mark_secs))
        .y_grid_spacer(move |_| thirds(top))
        .label_formatter(|at| hover_text(at, graph.write));
    let scales = Frame::new().inner_margin(Margin {
        left: AXIS_WIDTH as i8,
        bottom: TIME_HEIGHT as i8,
        ..Margin::ZERO
    });
    let draw = |plot: &mut PlotUi<'_>| {
        plot.set_plot_bounds(PlotBounds::from_min_max([end - secs, 0.0], [end, top]));
        for line in lines {
            plot.line(
                Line::new(graph.name, PlotPoints::new(line))
                    .stroke(Stroke::new(1.5, palette.accent))
                    .fill(0.0)
                    .fill_alpha(0.16),
            );
        }
        if let Some(limit) = graph.limit {
            plot.hline(
                HLine::new("limit", limit)
                    .stroke(Stroke::new(1.0, palette.amber))
                    .style(LineStyle::Dashed { length: 6.0 })
                    .allow_hover(false),
            );
            let text = format!("limit {}", (graph.write)(limit));
            let (anchor, away) = match is_above(limit, top, graph.height) {
                true => (Align2::RIGHT_BOTTOM, top * 0.01),
                false => (Align2::RIGHT_TOP, -top * 0.01),
            };
            plot.text(
                Text::new(
                    "limit",
                    PlotPoint::new(end - secs * 0.01, limit + away),
                    // What is behind the words may have any shape.
                    RichText::new(text)
                        .size(theme::SMALL_SIZE)
                        .background_color(palette.card),
                )
                .color(palette.amber)
                .anchor(anchor)
                .allow_hover(false),
            );
        }
    };
    let response = scales.show(ui, |ui| plot.show(ui, draw)).inner;
    let write_at = |at: [f64; 2], away: Vec2, anchor: Align2, text: String| {
        let at = response
            .transform
            .position_from_point(&PlotPoint::new(at[0], at[1]))
            + away;
        let font = FontId::proportional(theme::SMALL_SIZE - 1.0);
        ui.painter().text(at, anchor, text, font, palette.weak);
    };
    for mark in thirds(top) {
        let text = value_words(mark.value, graph.write);
        let beside = vec2(-4.0, 0.0);
        write_at([end - secs, mark.value], beside, Align2::RIGHT_CENTER, text);
    }
    for mark in marks(end - secs, end, mark_secs) {
        if has_room(1.0 - (end - mark.value) / secs, width) {
            let text = time_words(mark.value, span);
            write_at([mark.value, 0.0], vec2(0.0, 2.0), Align2::CENTER_TOP, text);
        }
    }
    let words = match graph.limit {
        Some(limit) => format!(
            "{} graph: now {}, limit {}",
            graph.name,
            (graph.write)(graph.now),
            (graph.write)(limit)
        ),
        None => format!("{} graph: now {}", graph.name, (graph.write)(graph.now)),
    };
    response
        .response
        .widget_info(|| WidgetInfo::labeled(WidgetType::Image, true, &words));
}

/// Height of the words under the time axis, and of those at the limit.
const TIME_HEIGHT: f32 = 20.0;
const LIMIT_HEIGHT: f64 = 18.0;

/// Whether the words at the limit have room above its line.
fn is_above(limit: f64, top: f64, height: f32) -> bool {
    (top - limit) / top * f64::from(height - TIME_HEIGHT) >= LIMIT_HEIGHT
}

/// The samples as lines that break where the program did not run.
fn unbroken(
    samples: &[Sample],
    value: fn(&Sample) -> f32,
    clock: Clock,
    step_secs: f64,
) -> Vec<Vec<[f64; 2]>> {
    let mut lines: Vec<Vec<[f64; 2]>> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for sample in samples {
        let at = clock.secs(sample.at_ms);
        if at - last > 3.0 * step_secs {
            lines.push(Vec::new());
        }
        last = at;
        if let Some(line) = lines.last_mut() {
            line.push([at, f64::from(value(sample))]);
        }
    }
    lines
}

/// The next of a few numbers times a power of ten: the scale seldom changes. Its thirds are
/// whole where it has to be.
fn round_up(number: f64, is_whole: bool) -> f64 {
    if is_whole && number < 10.0 {
        return (number / 3.0).ceil() * 3.0;
    }
    let ten = 10_f64.powf(number.max(1e-9).log10().floor());
    // All of them have thirds that are short to write.
    for factor in [1.2, 1.5, 1.8, 2.4, 3.0, 4.5, 6.0, 7.5, 9.0] {
        if number <= factor * ten {
            return factor * ten;
        }
    }
    12.0 * ten
}

fn marks(from: f64, to: f64, step_secs: f64) -> Vec<GridMark> {
    let first = (from / step_secs).ceil() as i64;
    let last = (to / step_secs).floor() as i64;
    let mark = |number| GridMark {
        value: number as f64 * step_secs,
        step_size: step_secs,
    };
    (first..=last).map(mark).collect()
}

fn thirds(top: f64) -> Vec<GridMark> {
    let mark = |third| GridMark {
        value: top * f64::from(third) / 3.0,
        step_size: top / 3.0,
    };
    (0..=3).map(mark).collect()
}

/// Half of a mark on the time axis.
const HALF_MARK_WIDTH: f64 = 24.0;

/// Whether a mark has room for its words: at the very left they would run into the numbers
/// of the other axis, at the very right over the edge.
fn has_room(part: f64, width: f64) -> bool {
    part >= LEFT_MARGIN && (1.0 - part) * width >= HALF_MARK_WIDTH
}

/// What is written at a mark of the time axis.
fn time_words(secs: f64, span: Span) -> String {
    let local = Local::new((secs.max(0.0) * 1_000.0).round() as u64, 0);
    match span {
        Span::Min1 => local.clock_secs(),
        _ => local.clock(),
    }
}

/// What is written at a mark of the other axis.
fn value_words(value: f64, write: fn(f64) -> String) -> String {
    let text = write(value);
    // The unit is in the title; the axis has no room for it.
    let number = text.split(' ').next().unwrap_or_default();
    number.strip_suffix(".0").unwrap_or(number).to_owned()
}

fn hover_text(at: &HoverPosition<'_>, write: fn(f64) -> String) -> Option<String> {
    let HoverPosition::NearDataPoint { position, .. } = at else {
        return None;
    };
    let local = Local::new((position.x.max(0.0) * 1_000.0).round() as u64, 0);
    Some(format!("{}\n{}", local.clock_secs(), write(position.y)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_samples_breaks_the_line() {
        let clock = Clock {
            now_ms: 0,
            utc_offset_minutes: 0,
        };
        let at = |at_ms| Sample {
            at_ms,
            peers: 2.0,
            ..Sample::default()
        };
        let samples = [at(1_000), at(2_000), at(9_000)];
        let lines = unbroken(&samples, |sample| sample.peers, clock, 1.0);
        assert_eq!(lines, [vec![[1.0, 2.0], [2.0, 2.0]], vec![[9.0, 2.0]]]);
    }

    #[test]
    fn words_are_written_where_they_have_room() {
        assert!(is_above(256.0, 320.0, 112.0));
        // 16 KiB/s on a scale up to 18.
        assert!(!is_above(16.0, 18.0, 112.0));
        assert!(has_room(0.5, 300.0));
        assert!(!has_room(0.01, 300.0) && !has_room(0.95, 300.0));
        assert!(has_room(0.95, 600.0));
    }

    #[test]
    fn the_scale_grows_in_few_steps() {
        assert_eq!(round_up(256.0 * 1.1, false), 300.0);
        assert_eq!(round_up(99.0, false), 120.0);
        assert_eq!(round_up(8.0, false), 9.0);
        assert_eq!(round_up(1.0, false), 1.2);
        assert_eq!(round_up(4.2, true), 6.0);
        assert_eq!(round_up(99.0, true), 120.0);
    }
}
