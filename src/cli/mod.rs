//! The command line: what a person or a script can ask the program to do.
//!
//! Each command is a file here. A command that did its job ends with status 0, one that
//! could not with 1; wrong usage and a bad config end with 2, and say where.
//!
//! - [`archive`]: what has been stored
//! - [`crawl`]: one crawl on this machine alone
//! - [`desktop`]: the window, or one peer without it where there is no display
//! - [`data`]: the data directory
//! - [`demo`]: everything on this machine, with a built-in web
//! - [`inspect`]: what the crawler makes of a page, a robots.txt or a URL
//! - [`output`]: the way to standard output
//! - [`receipts`]: the record of every request
//! - [`run`]: one peer without a window
//! - [`progress`]: the line that shows how it goes

mod archive;
mod crawl;
mod data;
mod demo;
mod desktop;
mod inspect;
mod output;
mod progress;
mod receipts;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};
use crossbeam_channel::{Receiver, bounded};
use peercrawl::config::{ConfigError, Flag, Layers, Settings};
use peercrawl::data_directory::DataDirectory;
use peercrawl::engine::CrawlError;
use peercrawl::limits::Limits;

/// Donates bandwidth to a decentralised web crawl.
#[derive(Parser)]
#[command(
    version,
    about,
    max_term_width = 100,
    args_conflicts_with_subcommands = true
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    desktop: desktop::Desktop,
}

#[derive(Subcommand)]
enum Command {
    /// Crawl a built-in web on this machine, to see everything work with no network
    Demo(demo::Demo),
    /// Run one peer without a window, until it is told to stop
    Run(run::Run),
    /// Crawl from these addresses, on this machine alone
    Crawl(crawl::Crawl),
    /// Show what has been stored
    Archive(archive::Archive),
    /// Show what the crawler makes of a page, a robots.txt or a URL
    #[command(subcommand)]
    Inspect(inspect::Inspect),
    /// Show the record of every request
    #[command(subcommand)]
    Receipts(receipts::Receipts),
}

/// Where settings come from.
#[derive(Args, Default)]
struct SettingsArguments {
    /// A config file, laid over the user's own
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, such as crawl.max_depth=3; may be given often
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Allow private addresses: short for --set network.allow_private=true
    #[arg(long)]
    allow_private: bool,
}

impl SettingsArguments {
    fn read(&self) -> Result<Settings, ConfigError> {
        self.layers([]).read()
    }

    /// The layers, with the command's own flags on top.
    fn layers(&self, own: impl IntoIterator<Item = Flag>) -> Layers {
        let set = self.set.iter().map(|setting| Flag::set(setting));
        let private = Flag::named("--allow-private", "network.allow_private", "true");
        Layers {
            granted: Vec::new(),
            user: Layers::user_file(),
            config: self.config.clone(),
            flags: set
                .chain(self.allow_private.then_some(private))
                .chain(own)
                .collect(),
        }
    }
}

/// The word that a choice is on the command line and in the config file.
fn word(choice: &impl ValueEnum) -> String {
    let value = choice.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Does what was asked, and says what went wrong if something did.
pub fn run(arguments: Arguments) -> ExitCode {
    let result = match arguments.command {
        Some(Command::Demo(demo)) => demo.run(),
        Some(Command::Run(run)) => run.run(),
        Some(Command::Crawl(crawl)) => crawl.run(),
        Some(Command::Archive(archive)) => archive.run(),
        Some(Command::Inspect(inspect)) => inspect.run(),
        Some(Command::Receipts(receipts)) => receipts.run(),
        None => arguments.desktop.run(),
    };
    result.unwrap_or_else(|error| report(&error))
}

/// Says what went wrong; gives the status to end with.
fn report(error: &anyhow::Error) -> ExitCode {
    eprintln!("peercrawl: {}", in_words(error));
    let is_seed = matches!(
        error.downcast_ref(),
        Some(CrawlError::Seed(..) | CrawlError::TooManySeeds(_))
    );
    match is_seed || error.is::<ConfigError>() {
        true => ExitCode::from(2),
        false => ExitCode::FAILURE,
    }
}

/// An error and its causes. Many errors tell their cause themselves: it is not told twice.
fn in_words(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The limits of the settings; what was used of them is kept in the data directory.
fn limits(settings: &Settings, directory: Option<&DataDirectory>) -> anyhow::Result<Arc<Limits>> {
    let limits = Limits::new(&settings.limits);
    if let Some(directory) = directory {
        let path = directory.quota();
        let why = || format!("cannot read {}", path.display());
        limits.keep_quota(&path).with_context(why)?;
    }
    Ok(limits)
}

/// The secret of a peer that lives as long as this process.
fn passing_secret() -> anyhow::Result<[u8; 32]> {
    let mut secret = [0; 32];
    match getrandom::fill(&mut secret) {
        Ok(()) => Ok(secret),
        Err(error) => anyhow::bail!("the system has no randomness to give: {error}"),
    }
}

/// Hears when the user or the system asks the program to stop. A second time, it stops
/// at once.
fn stop_requests() -> anyhow::Result<Receiver<()>> {
    // A window that could not be opened has asked for it already.
    static REQUESTS: OnceLock<Receiver<()>> = OnceLock::new();
    if let Some(receiver) = REQUESTS.get() {
        return Ok(receiver.clone());
    }
    let (sender, receiver) = bounded(1);
    ctrlc::set_handler(move || {
        if sender.try_send(()).is_err() {
            std::process::exit(130);
        }
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(REQUESTS.get_or_init(|| receiver).clone())
}

/// Sends log lines to standard error: our own from `level` up and the libraries' from
/// `warn` up, unless `RUST_LOG` says otherwise.
fn log_from(level: &str) {
    let ours = format!("warn,peercrawl={level},peercrawl_overlay={level}");
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(ours));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // A window that could not be opened has begun a log already.
    let _begun = lines.try_init();
}
