//! `peercrawl` and `peercrawl JOINFILE`: the desktop app.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use peercrawl::conditions::Sources;
use peercrawl::config::{Layers, Settings};
use peercrawl::data_directory::DataDirectory;
use peercrawl::desktop::{self, EventLog, Opening, Window, WindowError};
use peercrawl::store::StoreError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use super::data::DataArguments;
use super::{SettingsArguments, passing_secret, run};

/// Another PeerCrawl opens its window, or has ended, in this time.
const PATIENCE: Duration = Duration::from_secs(15);

/// The arguments.
#[derive(Args, Default)]
pub struct Desktop {
    /// A join file to open
    #[arg(value_name = "JOINFILE", value_parser = join_file)]
    join_file: Option<PathBuf>,
    #[command(flatten)]
    data: DataArguments,
    /// The window's size in points, such as 900x600
    #[arg(long, value_name = "WxH", value_parser = window_size, hide = true)]
    window_size: Option<[f32; 2]>,
    /// Begin without the window, as at login; a second start brings it
    #[arg(long)]
    hidden: bool,
    #[command(flatten)]
    settings: SettingsArguments,
}

/// A word that is no command is the name of a file, if there is such a file.
fn join_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.is_file() {
        true => Ok(path),
        false => Err("there is no such command, and no such file".to_owned()),
    }
}

/// Reads `900x600`.
pub fn window_size(text: &str) -> Result<[f32; 2], String> {
    let sides = text.split_once('x');
    let sides = sides.and_then(|(width, height)| Some([width.parse().ok()?, height.parse().ok()?]));
    sides.ok_or_else(|| "expected WIDTHxHEIGHT, such as 900x600".to_owned())
}

impl Desktop {
    /// Opens the window; without a display, runs headless.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if !desktop::has_display() {
            return self.run_headless("There is no display to open a window on");
        }
        let (settings, directory) = match self.prepare() {
            Ok(Some(prepared)) => prepared,
            Ok(None) => {
                eprintln!("PeerCrawl runs already: its window comes to the front.");
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) => {
                // First: nobody may be there to close the window.
                let status = super::report(&error);
                explain(&error);
                return Ok(status);
            }
        };
        let log = watch_events();
        for notice in &directory.notices {
            tracing::warn!("{notice}");
        }
        let config_file = self.settings.config.clone().or_else(Layers::user_file);
        let opening = Opening {
            settings,
            config_file,
            data: Some(directory),
            join_file: self.join_file.clone(),
            demo: None,
            conditions: Some(Sources::default()),
            log,
        };
        let window = Window {
            size: self.window_size,
            is_hidden: self.hidden,
        };
        match desktop::open(opening, window, super::stop_requests()?) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            // There never was one, and nothing has begun.
            Err(WindowError::Window(why)) => {
                self.run_headless(&format!("No window can be opened ({why})"))
            }
            Err(why) => Err(why.into()),
        }
    }

    /// The settings and the data directory; `None` if the window of another start has come
    /// to the front.
    fn prepare(&self) -> anyhow::Result<Option<(Settings, DataDirectory)>> {
        let settings = self.settings.read()?;
        let path = self.data.path()?;
        let join_file = self.join_file.as_deref();
        match desktop::open_or_knock(&path, passing_secret()?, join_file, PATIENCE) {
            Ok(directory) => Ok(directory.map(|directory| (settings, directory))),
            Err(error @ StoreError::InUse(..)) => {
                let text = format!(
                    "{error}. PeerCrawl runs there without a window. Stop it first, or start \
                     this one with a folder of its own: peercrawl --data DIR"
                );
                anyhow::bail!(text)
            }
            // Nothing goes on by itself before there is a window.
            Err(StoreError::DiskFull(path)) => {
                let path = path.display();
                anyhow::bail!(
                    "there is no room left on the disk for {path}: make room, and start \
                     PeerCrawl again"
                )
            }
            Err(error) => Err(error.into()),
        }
    }

    fn run_headless(self, why: &str) -> anyhow::Result<ExitCode> {
        eprintln!("{why}: running headless, as `peercrawl run` does.");
        if let Some(file) = &self.join_file {
            let file = file.display();
            eprintln!("{file} is not followed: a join file asks first, and that takes a window.");
        }
        run::Run::with(self.settings, self.data).run()
    }
}

/// Says in a window why it does not start, and waits until that is read: whoever
/// double-clicked an icon has no terminal. In a terminal it was read there.
fn explain(error: &anyhow::Error) {
    if std::io::stderr().is_terminal() {
        return;
    }
    let text = format!("PeerCrawl could not start. {}", super::in_words(error));
    if let Err(why) = peercrawl_ui::explain(&text) {
        tracing::debug!("no window to say it in: {why}");
    }
}

/// Keeps events for the window, and sends warnings to standard error.
pub fn watch_events() -> EventLog {
    let log = EventLog::default();
    let filter = EnvFilter::try_from_default_env();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_filter(filter.unwrap_or_else(|_| EnvFilter::new("warn")));
    // What libraries say is for engineers.
    let ours = EnvFilter::new("off,peercrawl=debug,peercrawl_overlay=debug");
    let subscriber = tracing_subscriber::registry()
        .with(log.clone().with_filter(ours))
        .with(lines);
    if let Err(why) = subscriber.try_init() {
        eprintln!("peercrawl: events cannot be logged: {why}");
    }
    log
}
