//! Overview: how it goes, at a glance.

use eframe::egui::{Align, Button, Color32, Label, Layout, RichText, TextStyle, Ui, vec2};

use crate::format;
use crate::frame::Scene;
use crate::graph::{Graph, Span, graph_ui};
use crate::model::{RunState, Total};
use crate::parts;
use crate::symbols;
use crate::theme;

/// What the screen remembers.
#[derive(Default)]
pub struct OverviewState {
    span: Span,
}

/// Heights in the smallest window; what a larger one has more is shared out.
const LARGE_GRAPH: f32 = 100.0;
const SMALL_GRAPH: f32 = 72.0;
const TOTAL_HEIGHT: f32 = 56.0;
/// What the large graphs give up at most where the status bar has a line more.
const MOST_LESS: f32 = 32.0;
/// Widths at least; a narrow window has fewer beside each other.
const GRAPH_WIDTH: f32 = 220.0;
const TOTAL_WIDTH: f32 = 160.0;
/// Everything from the first graph to the end of the screen but the graphs, and a little to
/// spare.
const OTHER_HEIGHT: f32 = 264.0;

/// Draws it.
pub fn overview_ui(ui: &mut Ui, scene: &mut Scene<'_>, state: &mut OverviewState) {
    // Inside a scroll area all heights are available; the visible one is meant.
    let screen_height = ui.clip_rect().height();
    parts::line_ui(ui, theme::NARROW, |ui, is_narrow| {
        parts::heading_ui(ui, "Overview");
        // At the right, and yet from left to right: that is how the Tab key goes.
        if !is_narrow {
            ui.add_space((ui.available_width() - spans_width(ui)).max(0.0));
        }
        spans_ui(ui, state);
    });
    needs_you_ui(ui, scene);
    let span = state.span;
    let used = ui.min_rect().height();
    let room = screen_height - used - OTHER_HEIGHT - LARGE_GRAPH - SMALL_GRAPH;
    let more = room.clamp(0.0, 400.0);
    // The small ones stay: lower ones would have no room for the numbers beside them.
    let less = (-room).clamp(0.0, MOST_LESS);
    let large_height = (LARGE_GRAPH - less + more * 0.6).floor();
    let small_height = SMALL_GRAPH + (more * 0.4).floor();
    let rates = scene.model.rates;
    let settings = scene.draft.get().clone();
    let large = [
        Graph {
            name: "Download",
            value: |sample| sample.download_bytes_per_s,
            write: format::byte_rate,
            exact: byte_rate_exact,
            unit: format::KIB,
            is_whole: false,
            limit: limit_bytes(settings.download_now_kib_per_s()),
            now: rates.download_bytes_per_s,
            height: large_height,
            least_top: 10.0 * format::KIB,
        },
        Graph {
            name: "Upload",
            value: |sample| sample.upload_bytes_per_s,
            write: format::byte_rate,
            exact: byte_rate_exact,
            unit: format::KIB,
            is_whole: false,
            limit: limit_bytes(settings.upload_now_kib_per_s()),
            now: rates.upload_bytes_per_s,
            height: large_height,
            least_top: 10.0 * format::KIB,
        },
    ];
    row_ui(ui, scene, span, &large);
    let pages_limit = f64::from(settings.pages_per_min) / 60.0;
    let small = [
        Graph {
            name: "Pages",
            value: |sample| sample.pages_per_s,
            write: format::page_rate,
            exact: |number| format!("{number:.2} pages/s"),
            unit: 1.0,
            is_whole: false,
            limit: (pages_limit > 0.0).then_some(pages_limit),
            now: rates.pages_per_s,
            height: small_height,
            least_top: 1.0,
        },
        Graph {
            name: "Waiting",
            value: |sample| sample.waiting_urls,
            write: |number| match number.round() as u64 {
                1 => "1 URL".to_owned(),
                _ => format!("{} URLs", short_count(number)),
            },
            exact: |number| format::counted(number.round() as u64, "URL", "URLs"),
            unit: 1.0,
            is_whole: true,
            limit: None,
            now: rates.waiting_urls as f64,
            height: small_height,
            least_top: 10.0,
        },
        Graph {
            name: "Peers",
            value: |sample| sample.peers,
            write: |number| format::counted(number.round() as u64, "peer", "peers"),
            exact: |number| format::counted(number.round() as u64, "peer", "peers"),
            unit: 1.0,
            is_whole: true,
            limit: None,
            now: rates.peers.into(),
            height: small_height,
            least_top: 3.0,
        },
    ];
    row_ui(ui, scene, span, &small);
    totals_ui(ui, scene);
}

/// Between two spans.
const SPAN_GAP: f32 = 4.0;

fn spans_width(ui: &Ui) -> f32 {
    let font = TextStyle::Button.resolve(ui.style());
    let around = 2.0 * ui.spacing().button_padding.x + SPAN_GAP;
    let width = |span: Span| {
        let text = span.name().to_owned();
        let text = ui
            .painter()
            .layout_no_wrap(text, font.clone(), Color32::BLACK);
        (text.size().x + around).ceil()
    };
    Span::ALL.into_iter().map(width).sum()
}

fn spans_ui(ui: &mut Ui, state: &mut OverviewState) {
    ui.spacing_mut().item_spacing.x = SPAN_GAP;
    for span in Span::ALL {
        let chosen = state.span == span;
        if ui.add(Button::selectable(chosen, span.name())).clicked() {
            state.span = span;
        }
    }
}

/// What needs the volunteer, in full: the status bar may have no room for it.
fn needs_you_ui(ui: &mut Ui, scene: &Scene<'_>) {
    if let RunState::NeedsYou { text, .. } = &scene.model.state {
        let color = theme::palette(ui).red;
        parts::card_ui(ui, |ui| {
            let text = format!("{} {text}", symbols::PROBLEM);
            ui.add(Label::new(RichText::new(text).color(color)).wrap());
        });
    }
}

fn limit_bytes(kib_per_s: u32) -> Option<f64> {
    (kib_per_s > 0).then(|| f64::from(kib_per_s) * format::KIB)
}

fn byte_rate_exact(bytes_per_s: f64) -> String {
    let bytes = bytes_per_s.max(0.0).round() as u64;
    format!("{} bytes/s", format::count(bytes))
}

/// `950`, `12k`, `1.2M`: the axis of a small graph has no room for more.
fn short_count(number: f64) -> String {
    match number {
        ..10_000.0 => format::count(number.max(0.0).round() as u64),
        ..1e6 => format!("{}k", format::decimal(number / 1e3)),
        _ => format!("{}M", format::decimal(number / 1e6)),
    }
}

fn row_ui(ui: &mut Ui, scene: &Scene<'_>, span: Span, graphs: &[Graph<'_>]) {
    parts::columns_ui(ui, graphs.len(), GRAPH_WIDTH, |columns| {
        for (number, graph) in graphs.iter().enumerate() {
            let count = columns.len();
            let ui = &mut columns[number % count];
            parts::card_ui(ui, |ui| {
                ui.horizontal(|ui| {
                    ui.strong(graph.name);
                    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                        ui.label((graph.write)(graph.now))
                            .on_hover_text((graph.exact)(graph.now));
                    });
                });
                graph_ui(ui, graph, &scene.model.graphs, span, scene.clock());
            });
        }
    });
}

fn totals_ui(ui: &mut Ui, scene: &Scene<'_>) {
    let totals = scene.model.totals;
    parts::columns_ui(ui, 4, TOTAL_WIDTH, |columns| {
        let count = columns.len();
        let sums = [
            ("Today", totals.today),
            ("This month", totals.this_month),
            ("Ever", totals.ever),
        ];
        for (number, (name, total)) in sums.into_iter().enumerate() {
            parts::titled_card_ui(&mut columns[number % count], name, |ui| {
                ui.set_min_height(TOTAL_HEIGHT);
                total_ui(ui, total);
            });
        }
        parts::titled_card_ui(&mut columns[3 % count], "Monthly data", |ui| {
            ui.set_min_height(TOTAL_HEIGHT);
            quota_ui(ui, scene);
        });
    });
}

fn total_ui(ui: &mut Ui, total: Total) {
    ui.spacing_mut().item_spacing = vec2(theme::GAP, 4.0);
    ui.label(format::counted(total.pages, "page", "pages"));
    let exact = |bytes| format!("{} bytes", format::count(bytes));
    let down = format!(
        "{} {} down",
        symbols::DOWNLOAD,
        format::bytes(total.download_bytes)
    );
    parts::weak_ui(ui, down).on_hover_text(exact(total.download_bytes));
    let up = format!(
        "{} {} up",
        symbols::UPLOAD,
        format::bytes(total.upload_bytes)
    );
    parts::weak_ui(ui, up).on_hover_text(exact(total.upload_bytes));
}

fn quota_ui(ui: &mut Ui, scene: &Scene<'_>) {
    ui.spacing_mut().item_spacing = vec2(theme::GAP, 4.0);
    let quota = scene.model.quota;
    let used = format::bytes(quota.used_bytes);
    if quota.limit_bytes == 0 {
        ui.label(format!("{used} used"));
        parts::weak_ui(ui, "No limit is set.");
        return;
    }
    let left = quota.limit_bytes.saturating_sub(quota.used_bytes);
    let limit = format::bytes(quota.limit_bytes);
    ui.label(format!("{} left", format::bytes(left)));
    let part = quota.used_bytes as f32 / quota.limit_bytes as f32;
    let palette = theme::palette(ui);
    let color = if part < 0.9 {
        palette.accent
    } else {
        palette.amber
    };
    parts::bar_ui(ui, part, color, &format!("{used} of {limit} used"));
    let until = match quota.reached_ms {
        _ if left == 0 => format!("Goes on {}", scene.clock_or_day(quota.renews_ms)),
        Some(at_ms) => format!("Reached about {}", scene.clock_or_day(at_ms)),
        None if !quota.is_pace_known => "Not known yet how long it lasts".to_owned(),
        None => format!("Enough until {}", scene.local(quota.renews_ms).date()),
    };
    parts::weak_ui(ui, until).on_hover_text(format!(
        "Starts anew on {}",
        scene.local(quota.renews_ms).date_with_year()
    ));
}
