//! The window itself: takes models, draws the frame and the current screen, sends
//! what the user wants.

use std::sync::Arc;
use std::time::Duration;

use eframe::egui::{
    CentralPanel, Context, Event, Frame, IconData, ImeEvent, Margin, Panel, ThemePreference, Ui,
    UserAttentionType, ViewportBuilder, ViewportCommand, Visuals,
};

use crate::command::{Command, Screen, ViewRequest};
use crate::fonts::{SystemFonts, foreign_texts};
use crate::frame::dialogs::{self, Outlook};
use crate::frame::{Dialog, Draft, Scene, Toasts, rail, shortcuts, status};
use crate::model::{Model, OnClose, RunState, ThemeChoice};
use crate::number_field;
use crate::screens::{self, Screens};
use crate::scroll::Follower;
use crate::theme;

/// Where models come from and commands go to. Neither may block: the window waits
/// for them.
pub trait Backend {
    /// The newest model. Whoever makes a new one wakes the window ([`Waker`]); the
    /// window never asks by itself.
    fn latest(&mut self) -> Arc<Model>;

    /// Takes a command to be carried out.
    fn send(&mut self, command: Command);
}

/// The window's title and its id, which equals the name of the `.desktop` file.
pub const TITLE: &str = "PeerCrawl";
/// See [`TITLE`].
pub const APP_ID: &str = "peercrawl";

/// Wakes the window: there is a new model.
#[derive(Debug, Clone)]
pub struct Waker(Context);

impl Waker {
    /// Has the window drawn once, soon. Can be called from any thread.
    pub fn wake(&self) {
        // `request_repaint` draws twice, "to let things settle"; a delay draws once, and
        // one so short is over at once.
        self.0.request_repaint_after(Duration::from_millis(1));
    }
}

/// How the window opens.
#[derive(Debug, Clone, Default)]
pub struct WindowOptions {
    /// Its icon, as pixels.
    pub icon: Option<IconData>,
    /// Its size in points; `None` for the usual one.
    pub size: Option<[f32; 2]>,
    /// Whether it begins out of sight, as at login.
    pub is_hidden: bool,
}

/// An icon from the bytes of a PNG file; `None` if they are none.
pub fn icon(png: &[u8]) -> Option<IconData> {
    eframe::icon_data::from_png_bytes(png).ok()
}

/// Opens the window and stays until it is closed. The renderer is OpenGL: it works in
/// virtual machines and in software too, where others often do not.
pub fn run<B: Backend + 'static>(
    window: WindowOptions,
    make: impl FnOnce(Waker) -> B,
) -> eframe::Result {
    let is_hidden = window.is_hidden;
    let is_wayland = is_wayland();
    let mut viewport = ViewportBuilder::default()
        .with_title(TITLE)
        .with_app_id(APP_ID)
        .with_inner_size(window.size.unwrap_or(theme::FIRST_WINDOW))
        .with_min_inner_size(theme::MIN_WINDOW);
    if let Some(icon) = window.icon {
        viewport = viewport.with_icon(icon);
    }
    let mut options = eframe::NativeOptions {
        viewport,
        renderer: eframe::Renderer::Glow,
        // Hides steps in gradients, of which there are none, and costs time on a
        // processor that has to draw by itself.
        dithering: false,
        ..eframe::NativeOptions::default()
    };
    // On Wayland, drawing would wait for as long as the window is minimised.
    options.glow_options.vsync = !is_wayland;
    eframe::run_native(
        TITLE,
        options,
        Box::new(|creation| {
            let ctx = &creation.egui_ctx;
            let backend = make(Waker(ctx.clone()));
            let mut app = App::new(ctx, backend).with_system_fonts();
            app.begins_hidden = is_hidden;
            app.is_wayland = is_wayland;
            Ok(Box::new(app))
        }),
    )
}

/// Whether the window is going to be one of Wayland, which winit takes wherever it can.
fn is_wayland() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "linux") && (is_set("WAYLAND_DISPLAY") || is_set("WAYLAND_SOCKET"))
}

/// See the module.
pub struct App<B> {
    backend: B,
    model: Arc<Model>,
    view: ViewRequest,
    /// What the backend was last told that we need.
    told: Option<ViewRequest>,
    draft: Draft,
    screens: Screens,
    toasts: Toasts,
    dialog: Option<Dialog>,
    /// `None` in tests, where nothing may depend on the machine.
    fonts: Option<SystemFonts>,
    /// The model and the screen whose texts need no further font.
    covered: Option<(Arc<Model>, Screen)>,
    /// What was last scrolled to because it has the focus.
    follower: Follower,
    /// Once it may close, it does.
    closing: bool,
    /// What becomes of it once this frame is drawn.
    outlook: Outlook,
    /// The last `raise_window` that was followed.
    raised: u64,
    /// Whether it is to be out of sight from its first frame on.
    begins_hidden: bool,
    /// Whether it is a window of Wayland, which can neither be hidden nor take a file.
    is_wayland: bool,
    /// What decided on the layout of the last frame.
    laid_out: Option<Layout>,
}

/// What decides on the layout. Some things find their place in their second frame only.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Layout {
    /// The screen that was drawn, and the one that is drawn next.
    drawn: Screen,
    next: Screen,
    asks_first: bool,
    asks_to_join: bool,
    is_demo: bool,
    has_way_out: bool,
    is_network_known: bool,
    warnings: usize,
    dialog: Option<Dialog>,
    toasts: usize,
}

impl<B: Backend> App<B> {
    /// The window's content, for a window that was made already.
    pub fn new(ctx: &Context, mut backend: B) -> Self {
        theme::install(ctx);
        let model = backend.latest();
        let mut draft = Draft::default();
        draft.follow(&model.settings, 0.0);
        let app = Self {
            raised: model.raise_window,
            backend,
            model,
            view: ViewRequest::default(),
            told: None,
            draft,
            screens: Screens::default(),
            toasts: Toasts::default(),
            dialog: None,
            fonts: None,
            covered: None,
            follower: Follower::default(),
            closing: false,
            outlook: Outlook::Stays,
            begins_hidden: false,
            is_wayland: false,
            laid_out: None,
        };
        app.follow_looks(ctx);
        app
    }

    /// Looks for fonts of the system where the built-in ones lack a script.
    pub fn with_system_fonts(mut self) -> Self {
        self.fonts = Some(SystemFonts::default());
        self
    }

    /// Makes it a window of Wayland: for tests.
    pub fn on_wayland(mut self) -> Self {
        self.is_wayland = true;
        self
    }

    /// Where models come from: for tests.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The same, to be changed.
    pub fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Has the window hide or close once this frame is drawn: a field takes over what was typed
    /// only when it is drawn.
    fn leave(&mut self, ctx: &Context, outlook: Outlook) {
        number_field::end_typing(ctx);
        self.outlook = outlook;
        // One that is minimised is not drawn.
        let is_drawn = ctx.input(|input| input.viewport().visible().unwrap_or(true));
        if !is_drawn {
            self.follow_outlook(ctx);
        }
    }

    fn follow_outlook(&mut self, ctx: &Context) {
        match std::mem::take(&mut self.outlook) {
            Outlook::Stays => {}
            Outlook::Hides => self.hide(ctx),
            Outlook::Closes => self.quit(ctx),
        }
    }

    fn quit(&mut self, ctx: &Context) {
        self.closing = true;
        self.backend.send(Command::Quit);
        ctx.send_viewport_cmd(ViewportCommand::Close);
    }

    fn hide(&mut self, ctx: &Context) {
        if self.is_wayland {
            // Nobody tells when it is looked at again, so models have to go on coming.
            ctx.send_viewport_cmd(ViewportCommand::Minimized(true));
            return;
        }
        self.backend.send(Command::Hidden);
        ctx.send_viewport_cmd(ViewportCommand::Visible(false));
    }

    /// Closing the window may mean to go on without it.
    fn answer_close(&mut self, ctx: &Context) {
        let asked = ctx.input(|input| input.viewport().close_requested());
        if !asked || self.closing {
            return;
        }
        let state = &self.model.state;
        // What is being finished was stopped already. Something that cannot start, and does not
        // try to, does nothing either.
        let idle = match state {
            RunState::Stopped | RunState::Finishing { .. } => true,
            RunState::NeedsYou { .. } => !state.can_finish(),
            _ => false,
        };
        // Nothing would bring the window of a demo back that is all there is.
        let is_lone_demo = self.model.demo.is_some_and(|demo| !demo.can_leave);
        if idle || is_lone_demo || self.model.first_run.is_some() {
            return self.leave(ctx, Outlook::Closes);
        }
        match self.draft.get().on_close {
            OnClose::Quit => self.leave(ctx, Outlook::Closes),
            OnClose::KeepCrawling => {
                ctx.send_viewport_cmd(ViewportCommand::CancelClose);
                self.leave(ctx, Outlook::Hides);
            }
            OnClose::Ask => {
                ctx.send_viewport_cmd(ViewportCommand::CancelClose);
                number_field::end_typing(ctx);
                self.dialog = Some(Dialog::Close { remember: true });
            }
        }
    }

    fn follow_raise(&mut self, ctx: &Context) {
        if self.model.raise_window > self.raised {
            self.raised = self.model.raise_window;
            ctx.send_viewport_cmd(ViewportCommand::Visible(true));
            ctx.send_viewport_cmd(ViewportCommand::Minimized(false));
            ctx.send_viewport_cmd(ViewportCommand::Focus);
            // A window of Wayland can do none of that, but ask to be looked at. Elsewhere that
            // mark would stay on a window that is in front already.
            let has_focus = ctx.input(|input| input.viewport().focused == Some(true));
            if self.is_wayland && !has_focus {
                let urgent = UserAttentionType::Critical;
                ctx.send_viewport_cmd(ViewportCommand::RequestUserAttention(urgent));
            }
        }
    }

    fn follow_looks(&self, ctx: &Context) {
        let settings = self.draft.get();
        ctx.set_theme(match settings.theme {
            ThemeChoice::System => match self.model.system_is_dark {
                Some(true) => ThemePreference::Dark,
                Some(false) => ThemePreference::Light,
                None => ThemePreference::System,
            },
            ThemeChoice::Light => ThemePreference::Light,
            ThemeChoice::Dark => ThemePreference::Dark,
        });
        let zoom = settings.text_percent.clamp(50, 300) as f32 / 100.0;
        if (ctx.zoom_factor() - zoom).abs() > 0.001 {
            ctx.set_zoom_factor(zoom);
        }
    }

    /// A join file that was dropped onto the window is opened, on whatever screen.
    fn take_dropped(&mut self, ctx: &Context) {
        let dropped = ctx.input(|input| input.raw.dropped_files.clone());
        let paths = dropped.into_iter().filter_map(|file| file.path);
        for path in paths.filter(|path| path.extension().is_some_and(|end| end == "peercrawl")) {
            self.backend.send(Command::ReadJoinFile(path));
        }
    }

    /// Has the window drawn once more if its layout is another one.
    fn settle(&mut self, ctx: &Context, drawn: Screen) {
        let layout = Layout {
            drawn,
            next: self.view.screen,
            asks_first: self.model.first_run.is_some(),
            asks_to_join: self.model.crawl.offer.is_some(),
            is_demo: self.model.demo.is_some(),
            has_way_out: status::way_out(&self.model.state).is_some(),
            is_network_known: self.model.network.takes_part.is_some(),
            warnings: self.model.warnings.len(),
            dialog: self.dialog.clone(),
            toasts: self.toasts.count(),
        };
        if self.laid_out.as_ref() != Some(&layout) {
            self.laid_out = Some(layout);
            ctx.request_repaint_after(Duration::from_millis(1));
        }
    }

    /// Looks for fonts that the texts from elsewhere need, and what is being typed.
    fn cover_scripts(&mut self, ctx: &Context) {
        let Some(fonts) = &mut self.fonts else { return };
        fonts.take(ctx);
        for event in ctx.input(|input| input.events.clone()) {
            if let Event::Text(text) | Event::Paste(text) | Event::Ime(ImeEvent::Commit(text)) =
                event
            {
                fonts.cover(ctx, &text);
            }
        }
        let screen = self.view.screen;
        let is_covered =
            |(model, of): &(Arc<Model>, Screen)| Arc::ptr_eq(model, &self.model) && *of == screen;
        if self.covered.as_ref().is_some_and(is_covered) {
            return;
        }
        for text in foreign_texts(&self.model, screen) {
            fonts.cover(ctx, text);
        }
        // A font that is still coming may not be the only one.
        self.covered = (!fonts.is_looking()).then(|| (Arc::clone(&self.model), screen));
    }
}

impl<B: Backend> eframe::App for App<B> {
    fn logic(&mut self, ctx: &Context, _frame: &mut eframe::Frame) {
        let time_secs = ctx.input(|input| input.time);
        self.model = self.backend.latest();
        self.draft.follow(&self.model.settings, time_secs);
        self.screens.follow(&self.model);
        self.toasts.take_notices(&self.model.notices, time_secs);
        self.toasts.expire(ctx, time_secs);
        self.follow_looks(ctx);
        if std::mem::take(&mut self.begins_hidden) {
            self.hide(ctx);
        }
        self.follow_raise(ctx);
        self.answer_close(ctx);
        if self.model.quits && !self.closing {
            self.leave(ctx, Outlook::Closes);
        }
        self.take_dropped(ctx);
        self.cover_scripts(ctx);
    }

    fn clear_color(&self, visuals: &Visuals) -> [f32; 4] {
        // The window is cleared anyway: with the background, no panel has to paint it again.
        visuals.panel_fill.to_normalized_gamma_f32()
    }

    fn ui(&mut self, ui: &mut Ui, _frame: &mut eframe::Frame) {
        if !self.model.is_made() {
            // It has just been opened, and is empty for a moment.
            return self.follow_outlook(ui.ctx());
        }
        let ctx = ui.ctx().clone();
        let model = Arc::clone(&self.model);
        let mut commands = Vec::new();
        self.follower.follow(&ctx);
        let mut scene = Scene {
            model: &model,
            draft: &mut self.draft,
            view: &mut self.view,
            next_screen: None,
            commands: &mut commands,
            toasts: &mut self.toasts,
            has_refused: false,
            dialog: &mut self.dialog,
            is_wayland: self.is_wayland,
            time_secs: ctx.input(|input| input.time),
        };
        let is_asked = model.first_run.is_some() || model.crawl.offer.is_some();
        if scene.dialog.is_none() && !is_asked {
            shortcuts::take(&ctx, &mut scene);
        }
        window_ui(ui, &mut scene, &mut self.screens);
        let outlook = dialogs::dialog_ui(&ctx, &mut scene);
        let drawn = scene.view.screen;
        if let Some(screen) = scene.next_screen {
            self.view.screen = screen;
        }
        let undone = self.toasts.toasts_ui(&ctx);
        commands.extend(undone);
        if self.told.as_ref() != Some(&self.view) {
            self.told = Some(self.view.clone());
            commands.push(Command::Show(Box::new(self.view.clone())));
        }
        for command in commands {
            self.backend.send(command);
        }
        self.settle(&ctx, drawn);
        if self.follower.is_behind(&ctx) {
            ctx.request_repaint_after(Duration::from_millis(1));
        }
        if self.outlook == Outlook::Stays {
            self.outlook = outlook;
        }
        self.follow_outlook(&ctx);
    }
}

/// The frame and what is in it.
fn window_ui(ui: &mut Ui, scene: &mut Scene<'_>, screens: &mut Screens) {
    let palette = theme::palette(ui);
    let bar = Frame::new().fill(palette.frame);
    if scene.model.first_run.is_some() || scene.model.crawl.offer.is_some() {
        CentralPanel::default()
            .frame(Frame::new().inner_margin(theme::SCREEN_MARGIN))
            .show(ui, |ui| screens::before_all_ui(ui, scene, screens));
        return;
    }
    Panel::top("status")
        .frame(bar.inner_margin(Margin::symmetric(16, 8)))
        .resizable(false)
        .show(ui, |ui| status::status_ui(ui, scene));
    Panel::left("rail")
        .frame(bar.inner_margin(8))
        .exact_size(theme::RAIL_WIDTH)
        .resizable(false)
        .show(ui, |ui| rail::rail_ui(ui, scene));
    if scene.next_screen.is_some() {
        number_field::end_typing(ui.ctx());
    }
    CentralPanel::default()
        .frame(Frame::new().inner_margin(theme::SCREEN_MARGIN))
        .show(ui, |ui| screens::screen_ui(ui, scene, screens));
}
