//! The window as its user sees it: every screen is drawn from a made-up model, every
//! control is found by its label, and the commands that come out are checked. No
//! display and no GPU is needed.
//!
//! `Harness::run` fails if the window asks to be drawn again and again, so every test
//! is also a check that it sleeps when nothing happens.

#![allow(clippy::expect_used, reason = "a panic is how a test fails")]

#[path = "../../examples/preview/made_up.rs"]
mod made_up;

mod activity;
mod archive;
mod closing;
mod crawl;
mod everywhere;
mod first_run;
mod frame;
mod limits;
mod log;
mod network;
mod numbers;
mod overview;
mod queues;

use std::sync::Arc;

use egui_kittest::Harness;
use egui_kittest::kittest::{By, NodeT, Queryable};
use peercrawl_ui::command::{Command, Screen, ViewRequest};
use peercrawl_ui::egui::accesskit::Role;
use peercrawl_ui::egui::{Event, Key, Modifiers, MouseWheelUnit, Rect, TouchPhase, vec2};
use peercrawl_ui::model::{Model, Setting};
use peercrawl_ui::{App, Backend};

/// A backend that remembers what it was sent and answers like the made-up crawl.
struct Fake {
    model: Arc<Model>,
    sent: Vec<Command>,
    shown: Option<ViewRequest>,
}

impl Backend for Fake {
    fn latest(&mut self) -> Arc<Model> {
        Arc::clone(&self.model)
    }

    fn send(&mut self, command: Command) {
        made_up::answer(Arc::make_mut(&mut self.model), &command);
        match command {
            Command::Show(request) => self.shown = Some(*request),
            command => self.sent.push(command),
        }
    }
}

/// A window in a test.
struct Window(Harness<'static, App<Fake>>);

impl Window {
    /// Large enough that nothing has to be scrolled to.
    fn open(model: Model) -> Self {
        Self::open_sized(model, 1_280.0, 1_800.0)
    }

    fn open_sized(model: Model, width: f32, height: f32) -> Self {
        Self::open_as(model, width, height, |app| app)
    }

    /// A window that is made otherwise.
    fn open_as(
        model: Model,
        width: f32,
        height: f32,
        make: impl FnOnce(App<Fake>) -> App<Fake>,
    ) -> Self {
        let fake = Fake {
            model: Arc::new(model),
            sent: Vec::new(),
            shown: None,
        };
        let mut harness = Harness::builder()
            .with_size(vec2(width, height))
            .build_eframe(|creation| make(App::new(&creation.egui_ctx, fake)));
        harness.run();
        Self(harness)
    }

    /// A running crawl at this screen.
    fn at(screen: Screen) -> Self {
        let mut window = Self::open(made_up::model());
        window.go(screen);
        window
    }

    fn go(&mut self, screen: Screen) {
        self.press(screen.name());
    }

    /// Clicks the button of this label.
    fn press(&mut self, label: &str) {
        self.click(Role::Button, label);
    }

    /// The same as a screen reader does it, which leaves the focus where it is.
    fn press_by_reader(&mut self, label: &str) {
        let button = self.0.get_by_role_and_label(Role::Button, label);
        button.click_accesskit();
        self.0.run();
    }

    /// Clicks the oldest *Undo*.
    fn undo(&mut self) {
        let undo = self.0.query_all_by_label_contains("Undo: ").next();
        undo.expect("an Undo").click();
        self.0.run();
    }

    /// Presses the Tab key; gives the label of what has the focus then.
    fn tab(&mut self) -> String {
        self.0.key_press(Key::Tab);
        self.0.run();
        let focused = By::new().predicate(|node| node.is_focused());
        let mut focused = self.0.query_all(focused);
        let label = focused.find_map(|node| node.accesskit_node().label());
        label.unwrap_or_default()
    }

    /// Clicks what has this role and label.
    fn click(&mut self, role: Role, label: &str) {
        self.0.get_by_role_and_label(role, label).click();
        self.0.run();
    }

    /// Replaces what is in the field of this label.
    fn fill(&mut self, label: &str, text: &str) {
        self.0.get(fields(label)).focus();
        self.0.run();
        self.0.key_press_modifiers(Modifiers::COMMAND, Key::A);
        self.0.get(fields(label)).type_text(text);
        self.0.run();
    }

    /// Types a number into a field and presses Enter.
    fn set_number(&mut self, label: &str, text: &str) {
        self.type_number(label, text);
        self.key(Key::Enter);
    }

    /// Types a number into a field, which has the focus then.
    fn type_number(&mut self, label: &str, text: &str) {
        self.click(Role::SpinButton, label);
        self.0.key_press_modifiers(Modifiers::COMMAND, Key::A);
        self.0.event(Event::Text(text.to_owned()));
        self.0.run();
    }

    /// What the number field of this label shows.
    fn number(&self, label: &str) -> Option<String> {
        let field = self.0.get_by_role_and_label(Role::SpinButton, label);
        field.value()
    }

    /// The place of what has this role and label.
    fn rect(&self, role: Role, label: &str) -> Rect {
        self.0.get_by_role_and_label(role, label).rect()
    }

    /// Turns the wheel far down over the control of this label.
    fn wheel_down(&mut self, label: &str) {
        let at = self.rect(Role::Button, label).center();
        self.0.hover_at(at);
        self.0.event(Event::MouseWheel {
            unit: MouseWheelUnit::Point,
            delta: vec2(0.0, -600.0),
            modifiers: Modifiers::NONE,
            phase: TouchPhase::Move,
        });
        self.0.run_steps(4);
    }

    /// Whether this text is drawn somewhere.
    fn has(&self, text: &str) -> bool {
        self.0.query_all_by_label_contains(text).next().is_some()
    }

    /// What was sent since the last call, without requests for views.
    fn sent(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.0.state_mut().backend_mut().sent)
    }

    /// The last request for views.
    fn shown(&self) -> &ViewRequest {
        self.0.state().backend().shown.as_ref().expect("a request")
    }

    /// Changes the model, as a running crawl would, and draws.
    fn change(&mut self, change: impl FnOnce(&mut Model)) {
        change(Arc::make_mut(&mut self.0.state_mut().backend_mut().model));
        self.0.run();
    }

    /// Presses a key.
    fn key(&mut self, key: Key) {
        self.0.key_press(key);
        self.0.run();
    }

    /// Presses a key together with Ctrl (Cmd on macOS).
    fn shortcut(&mut self, key: Key) {
        self.0.key_press_modifiers(Modifiers::COMMAND, key);
        self.0.run();
    }
}

fn fields(label: &str) -> By<'_> {
    By::new()
        .label(label)
        .predicate(|node| matches!(node.role(), Role::TextInput | Role::MultilineTextInput))
}

/// What a changed setting sends.
fn changed(setting: Setting) -> Vec<Command> {
    vec![Command::Change(setting)]
}

/// Whether what has this role can be used.
fn is_control(role: Role) -> bool {
    matches!(
        role,
        Role::Button
            | Role::CheckBox
            | Role::RadioButton
            | Role::ComboBox
            | Role::SpinButton
            | Role::TextInput
            | Role::MultilineTextInput
    )
}

/// Every node that can be used.
fn controls(window: &Window) -> Vec<(Role, String, Rect)> {
    let usable = By::new().predicate(|node| is_control(node.role()));
    let nodes = window.0.query_all(usable);
    nodes
        .map(|node| {
            let label = node.accesskit_node().label().unwrap_or_default();
            (node.accesskit_node().role(), label, node.rect())
        })
        .collect()
}
