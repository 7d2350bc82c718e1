//! Overview.

use super::*;
use peercrawl_ui::egui::epaint::{ColorMode, PathShape};
use peercrawl_ui::egui::{Pos2, Shape};
use peercrawl_ui::model::{Demo, PauseReason, Quota, RunState, Sample, ThemeChoice};
use peercrawl_ui::theme;

#[test]
fn graphs_have_their_value_and_their_limit() {
    let window = Window::at(Screen::Overview);
    for words in [
        "Download graph: now 212 KiB/s, limit 256 KiB/s",
        "Upload graph: now 18 KiB/s, limit 64 KiB/s",
        "Pages graph: now 34 pages/s",
        "Waiting graph: now 48k URLs",
        "Peers graph: now 12 peers",
    ] {
        window.0.get_by_role_and_label(Role::Image, words);
    }
}

/// What is drawn of a graph: how many dashes of its limit, and the points of its curve. With it
/// the area that they are in.
fn drawn(window: &Window, graph: &str) -> (usize, Vec<Pos2>, Rect) {
    fn collect(shape: &Shape, area: Rect, dashes: &mut usize, points: &mut Vec<Pos2>) {
        let is_of = |path: &PathShape, color| {
            let is_solid = path.stroke.color == ColorMode::Solid(color);
            is_solid && area.intersects(path.visual_bounding_rect())
        };
        match shape {
            Shape::Vec(shapes) => shapes
                .iter()
                .for_each(|shape| collect(shape, area, dashes, points)),
            Shape::LineSegment {
                points: ends,
                stroke,
            } if stroke.color == theme::LIGHT.amber => {
                *dashes += usize::from(ends.iter().all(|&end| area.contains(end)));
            }
            Shape::Path(path) if is_of(path, theme::LIGHT.accent) => points.extend(&path.points),
            _ => {}
        }
    }
    let image = By::new().role(Role::Image).label_contains(graph);
    let area = window.0.get(image).rect();
    let (mut dashes, mut points) = (0, Vec::new());
    for clipped in &window.0.output().shapes {
        collect(&clipped.shape, area, &mut dashes, &mut points);
    }
    (dashes, points, area)
}

/// The same as two numbers.
fn counts(window: &Window, graph: &str) -> (usize, usize) {
    let (dashes, points, _) = drawn(window, graph);
    (dashes, points.len())
}

fn light() -> Window {
    let mut model = made_up::model();
    Arc::make_mut(&mut model.settings).theme = ThemeChoice::Light;
    Window::open(model)
}

/// A graph's name and what sets its figure.
type Figure = (&'static str, fn(&mut Sample));

#[test]
fn each_graph_draws_its_own_figure() {
    let figures: [Figure; 5] = [
        ("Download", |sample| sample.download_bytes_per_s = 9e4),
        ("Upload", |sample| sample.upload_bytes_per_s = 9e4),
        ("Pages", |sample| sample.pages_per_s = 9.0),
        ("Waiting", |sample| sample.waiting_urls = 90.0),
        ("Peers", |sample| sample.peers = 9.0),
    ];
    let mut window = light();
    for (name, set) in figures {
        let sample = |ago: u64| {
            let mut sample = Sample {
                at_ms: made_up::NOW_MS - ago * 1_000,
                ..Sample::default()
            };
            set(&mut sample);
            sample
        };
        window.change(|model| {
            let graphs = Arc::make_mut(&mut model.graphs);
            graphs.seconds = (0..600).rev().map(sample).collect();
        });
        for (graph, _) in figures {
            let (_, points, area) = drawn(&window, &format!("{graph} graph"));
            assert!(!points.is_empty(), "{graph}");
            let rises = points.iter().all(|at| at.y < area.bottom() - 8.0);
            assert_eq!(rises, graph == name, "{graph} of {name}");
        }
    }
}

#[test]
fn limits_are_lines_and_curves_are_as_long_as_their_span() {
    let mut window = light();
    let (dashes, points) = counts(&window, "Download graph");
    assert!(dashes > 10, "{dashes} dashes");
    let (dashes, _) = counts(&window, "Upload graph");
    assert!(dashes > 10, "{dashes} dashes");
    let span = |points: usize, seconds: usize| points.abs_diff(seconds) <= 3;
    assert!(span(points, 300), "{points} points in five minutes");
    assert_eq!(counts(&window, "Pages graph").0, 0, "there is no limit");
    window.press("1 min");
    let (_, points) = counts(&window, "Download graph");
    assert!(span(points, 60), "{points} points in a minute");
    window.press("24 h");
    let (_, points) = counts(&window, "Download graph");
    // The program did not run for four hours.
    assert!(span(points, 1_200), "{points} points in a day");
    window.change(|model| {
        let settings = Arc::make_mut(&mut model.settings);
        (settings.download_kib_per_s, settings.slow_mode) = (0, false);
    });
    assert_eq!(counts(&window, "Download graph").0, 0, "the limit is gone");
    let (dashes, _) = counts(&window, "Upload graph");
    assert!(dashes > 10, "that of the upload is not");
}

#[test]
fn one_of_something_is_not_many() {
    let mut window = Window::at(Screen::Overview);
    window.change(|model| {
        model.rates.peers = 1;
        model.rates.waiting_urls = 1;
    });
    assert!(window.has("Waiting graph: now 1 URL") && !window.has("1 URLs"));
    assert!(window.has("Peers graph: now 1 peer") && !window.has("1 peers"));
}

#[test]
fn start_and_pause_are_larger_than_the_rest() {
    let window = Window::at(Screen::Overview);
    let height = |name| {
        let button = window.0.get_by_role_and_label(Role::Button, name);
        button.rect().height()
    };
    assert!(height("Pause") >= 1.4 * height("Pause 1 h"));
}

/// A demo or a line of warning used to push the totals out of the smallest window.
#[test]
fn the_smallest_window_shows_all_of_it() {
    let demo = Some(Demo { can_leave: true });
    let warnings = vec!["Many sites have turned this computer away.".to_owned()];
    let models = [
        made_up::model(),
        Model {
            demo,
            ..made_up::model()
        },
        Model {
            demo,
            state: RunState::Paused(PauseReason::OnBattery),
            ..made_up::model()
        },
        Model {
            demo,
            warnings,
            ..made_up::model()
        },
    ];
    for model in models {
        let case = (model.demo, model.state.clone(), model.warnings.clone());
        let mut window = Window::open_sized(model, 900.0, 600.0);
        let before = window.rect(Role::Button, "5 min");
        window.wheel_down("5 min");
        let after = window.rect(Role::Button, "5 min");
        assert_eq!(before, after, "{case:?}: there is more below");
    }
}

#[test]
fn without_a_limit_there_is_no_line() {
    let mut window = Window::at(Screen::Overview);
    window.change(|model| {
        Arc::make_mut(&mut model.settings).download_kib_per_s = 0;
    });
    window
        .0
        .get_by_role_and_label(Role::Image, "Download graph: now 212 KiB/s");
}

#[test]
fn every_span_can_be_chosen() {
    let mut window = Window::at(Screen::Overview);
    for span in ["1 min", "5 min", "30 min", "6 h", "24 h"] {
        window.press(span);
        let chosen = window.0.get_by_role_and_label(Role::Button, span);
        let toggled = chosen.accesskit_node().toggled();
        assert_eq!(toggled, Some(peercrawl_ui::egui::accesskit::Toggled::True));
    }
}

#[test]
fn the_tab_key_goes_from_the_shortest_span_to_the_longest() {
    let mut window = Window::at(Screen::Overview);
    window
        .0
        .get_by_role_and_label(Role::Button, "1 min")
        .focus();
    window.0.run();
    let order: Vec<String> = (0..4).map(|_| window.tab()).collect();
    assert_eq!(order, ["5 min", "30 min", "6 h", "24 h"]);
}

#[test]
fn the_exact_figure_under_the_pointer_has_a_unit() {
    let mut window = Window::at(Screen::Overview);
    window.0.get_by_label("212 KiB/s").hover();
    // Each step is a quarter of a second.
    window.0.run_steps(8);
    assert!(window.has("217,088 bytes/s"));
}

#[test]
fn totals_and_quota_are_in_words() {
    let mut window = Window::at(Screen::Overview);
    for text in [
        "12,431 pages",
        "402,117 pages",
        "8,120,400 pages",
        "311 MB down",
        "141 GB down",
        "3.1 GB left",
        "Reached about 24 Nov",
    ] {
        assert!(window.has(text), "{text}");
    }
    window.change(|model| model.quota.reached_ms = None);
    assert!(window.has("Enough until 30 Nov"));
    window.change(|model| model.quota.is_pace_known = false);
    assert!(window.has("Not known yet how long it lasts"));
    window.change(|model| model.quota = Quota::default());
    assert!(window.has("No limit is set."));
}

#[test]
fn what_needs_the_volunteer_is_written_in_full() {
    let mut window = Window::at(Screen::Overview);
    let text = "The disk is gone. Plug it in again.".to_owned();
    window.change(|model| {
        model.state = RunState::NeedsYou {
            text,
            is_running: false,
            tries_again: false,
        };
    });
    assert_eq!(
        window
            .0
            .query_all_by_label_contains("The disk is gone.")
            .count(),
        2
    );
}
