//! The desktop app: what connects the engine with the window.
//!
//! The window (crate `peercrawl-ui`) draws models and sends commands; it knows no engine
//! and never waits. One thread, the `desk`, owns the engine: it carries out commands,
//! looks around four times a second, and puts a new model where the window finds it.
//!
//! ```text
//!   window ── Command ──> link (bounded) ──> desk ──> engine, config file, join files
//!          <── Model ──── link (arc-swap) <──     <── counters, activity, tables
//! ```
//!
//! - `link`: what is between the two
//! - `desk`, `commands`: the thread, and what the user wants from it
//! - `crew`: the engine of a peer, or of the demo; `engine_stage`: how it starts, rests and
//!   ends; `stage`: what it does and why; `reach`: whether anybody can be reached; `demo`:
//!   what a demo may do
//! - `picture`, `network_view`, `archive_view`: the model and its tables
//! - `settings`, `config_file`: the volunteer's settings, and the file that they are in
//! - `join_file`, `addresses`: what friends send and people type, checked
//! - `history`, `totals`, `keepsake`: the past, and how it is kept
//! - `doorbell`: a second start brings the first one's window forward
//! - `tray`: the icon in the tray, where there is one
//! - `looks`: whether the desktop is dark
//! - `autostart`, `tasks`, `moving`, `log`: what else a desktop app needs

mod addresses;
mod archive_view;
mod autostart;
mod commands;
mod config_file;
mod crew;
mod demo;
mod desk;
mod doorbell;
mod engine_stage;
mod history;
mod join_file;
mod keepsake;
mod link;
mod log;
mod looks;
mod moving;
mod network_view;
mod picture;
mod reach;
mod settings;
mod stage;
mod tasks;
mod totals;
mod tray;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, Sender, bounded};
use peercrawl_ui::model::Abilities;
use peercrawl_ui::{Model, WindowOptions};

pub use crew::DemoSpec;
pub use doorbell::{knock, open_or_knock};
pub use link::Link;
pub use log::EventLog;

use crate::conditions::{Sources, Watcher};
use crate::config::Settings;
use crate::data_directory::DataDirectory;
use config_file::ConfigFile;
use desk::{Desk, State};
use doorbell::Doorbell;
use link::{ORDERS, Order};

/// The program's icon, as the window shows it.
const ICON: &[u8] = include_bytes!("../../assets/icons/peercrawl-128.png");

/// What the desktop app starts with.
pub struct Opening {
    /// The settings of all layers.
    pub settings: Settings,
    /// The file that changes are written to; `None` to keep none.
    pub config_file: Option<PathBuf>,
    /// The data directory; `None` to keep nothing.
    pub data: Option<DataDirectory>,
    /// A join file to open.
    pub join_file: Option<PathBuf>,
    /// Set to show a demo.
    pub demo: Option<DemoSpec>,
    /// Where it is read whether this is a moment to crawl; `None` if it always is.
    pub conditions: Option<Sources>,
    /// The latest events.
    pub log: EventLog,
}

impl Opening {
    /// Whether the volunteer has to answer the first page before anything is fetched.
    fn asks_first(&self) -> bool {
        !self.settings.desktop.first_run_done && self.demo.is_none()
    }
}

/// How the window opens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Window {
    /// Its size in points; `None` for the usual one.
    pub size: Option<[f32; 2]>,
    /// Whether it begins out of sight, as at login.
    pub is_hidden: bool,
}

/// A desk at work.
pub struct Desktop {
    orders: Sender<Order>,
    model: Arc<ArcSwap<Model>>,
    thread: JoinHandle<()>,
}

impl Desktop {
    /// Sets the desk to work; `wake` is called for each new model.
    pub fn start(opening: Opening, wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (orders, receiver) = bounded(ORDERS);
        let data = opening.data.as_ref();
        let doorbell = data.and_then(|data| hang(data.path(), &orders));
        let mut shown = settings::view(&opening.settings);
        if opening.asks_first() {
            settings::propose(&mut shown);
        }
        let model = Arc::new(ArcSwap::from_pointee(Model {
            settings: Arc::new(shown.clone()),
            ..Model::default()
        }));
        let watcher = opening.conditions.and_then(|sources| {
            // The desk tells what comes of a verdict: nothing may run at present, or a demo.
            let watcher = Watcher::start(&opening.settings, sources, |_| {});
            // Without it the volunteer still decides.
            watcher
                .inspect_err(|why| tracing::warn!("the conditions cannot be watched: {why}"))
                .ok()
        });
        let keeps_settings = opening.config_file.is_some();
        let desk = Desk {
            shown,
            watcher,
            config: opening.settings,
            file: ConfigFile::new(opening.config_file),
            data: opening.data.map(Arc::new),
            demo: opening.demo,
            log: opening.log,
            orders: orders.clone(),
            model: model.clone(),
            wake: Box::new(wake),
            doorbell,
            abilities: Abilities {
                file_dialog: tasks::dialog_program().is_some(),
                // Where no setting is kept, none of the desktop is changed either.
                start_at_login: keeps_settings && autostart::is_possible(),
                ..Abilities::default()
            },
            state: State::default(),
        };
        let thread = thread::Builder::new()
            .name("desk".into())
            .spawn(move || desk.run(&receiver))?;
        if let Some(path) = opening.join_file {
            let first = Order::User(peercrawl_ui::Command::ReadJoinFile(path));
            // The queue is new: there is room for one.
            let _room = orders.try_send(first);
        }
        Ok(Self {
            orders,
            model,
            thread,
        })
    }

    /// The window's end of it.
    pub fn link(&self) -> Link {
        Link {
            model: self.model.clone(),
            orders: self.orders.clone(),
            held_back: Default::default(),
        }
    }

    /// What tells the window to close and the program to end, from any thread.
    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let orders = self.orders.clone();
        move || {
            // A desk that has quit already takes no orders.
            let _quit = orders.send(Order::Stop);
        }
    }

    /// Quits, and waits until the engine has ended and everything is written.
    pub fn quit(self) {
        // A desk that has quit already takes no orders.
        let _quit = self.orders.send(Order::User(peercrawl_ui::Command::Quit));
        if self.thread.join().is_err() {
            tracing::error!("the desk panicked");
        }
    }
}

/// A door without a bell is no reason not to crawl.
fn hang(data: &Path, orders: &Sender<Order>) -> Option<Doorbell> {
    let orders = orders.clone();
    let mut word = [0; 16];
    getrandom::fill(&mut word).ok()?;
    // A desk that is too busy, or has quit, has not heard it. Waiting for the desk could keep
    // the bell from being closed by it.
    let rung = move |join_file| orders.try_send(Order::Rung(join_file)).is_ok();
    let hung = Doorbell::hang(data, word, rung);
    hung.inspect_err(|why| tracing::warn!("a second start will not find this one: {why}"))
        .ok()
}

/// Whether there is a screen to open a window on.
pub fn has_display() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match std::env::consts::OS {
        "windows" | "macos" => true,
        _ => ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"]
            .into_iter()
            .any(is_set),
    }
}

/// Why there is no window.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// The system has no threads to give.
    #[error("cannot start: {0}")]
    Threads(#[from] io::Error),
    /// The desktop or its graphics refused.
    #[error("no window can be opened: {0}")]
    Window(String),
    /// There was one, and it is gone.
    #[error("the window has come to an end: {0}")]
    Lost(String),
}

/// Opens the window and stays until it is closed and everything has ended; what comes
/// through `stop` closes it. If no window can be opened, nothing has begun.
pub fn open(opening: Opening, window: Window, stop: Receiver<()>) -> Result<(), WindowError> {
    let window = WindowOptions {
        icon: peercrawl_ui::icon(ICON),
        size: window.size,
        // Somebody has to see the first page.
        is_hidden: window.is_hidden && !opening.asks_first(),
    };
    let mut started = None;
    let mut failed = None;
    let started_here = &mut started;
    let result = peercrawl_ui::run(window, |waker| {
        let desktop = Desktop::start(opening, move || waker.wake());
        match desktop {
            Ok(desktop) => {
                let (link, stopper) = (desktop.link(), desktop.stopper());
                // It ends with the program.
                let heed = move || stop.iter().for_each(|()| stopper());
                let spawned = thread::Builder::new()
                    .name("stop-requests".into())
                    .spawn(heed);
                if let Err(why) = spawned {
                    tracing::warn!("Ctrl-C and SIGTERM will not close the window: {why}");
                }
                *started_here = Some(desktop);
                link
            }
            Err(why) => {
                failed = Some(why);
                Link::dead()
            }
        }
    });
    let was_there = started.is_some();
    if let Some(desktop) = started {
        desktop.quit();
    }
    if let Some(why) = failed {
        return Err(why.into());
    }
    result.map_err(|why| no_window(why.to_string(), was_there))
}

/// What it means that the window has failed. Who had one is not served by a crawl without it,
/// which would not even know what they wanted last.
fn no_window(why: String, was_there: bool) -> WindowError {
    match was_there {
        true => WindowError::Lost(why),
        false => WindowError::Window(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A paused crawl went on without its window, and could not be stopped by SIGTERM.
    #[test]
    fn only_a_window_that_was_never_there_can_be_done_without() {
        let never = no_window("no display".to_owned(), false);
        assert!(matches!(never, WindowError::Window(_)), "{never}");
        let lost = no_window("the display is gone".to_owned(), true);
        assert!(matches!(lost, WindowError::Lost(_)), "{lost}");
        assert!(lost.to_string().ends_with("the display is gone"));
    }
}
