//! `peercrawl run`: one peer without a window, until it is told to stop.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use peercrawl::conditions::{Sources, Watcher};
use peercrawl::config::{Settings, UNPUBLISHED_BOT_PAGE};
use peercrawl::crawl::CrawlDefinition;
use peercrawl::data_directory::DataDirectory;
use peercrawl::engine::{Ending, Engine, Surroundings};
use peercrawl::joining;
use peercrawl::limits::Limits;
use peercrawl::resolver::SystemNames;
use peercrawl_overlay::{Overlay, Statistics};

use super::data::{DataArguments, once_there_is_room, tell};
use super::progress::{PERIOD, Progress, summary};
use super::{SettingsArguments, output};

/// How often there is a log line where there is no terminal.
const LOG_PERIOD: Duration = Duration::from_secs(10);
/// The first look at the conditions is over by then, or nobody waits for it any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// The arguments.
#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    settings: SettingsArguments,
    #[command(flatten)]
    data: DataArguments,
    /// Keep nothing
    #[arg(long)]
    no_store: bool,
}

impl Run {
    /// The same as `run` with these arguments.
    pub fn with(settings: SettingsArguments, data: DataArguments) -> Self {
        Self {
            settings,
            data,
            no_store: false,
        }
    }

    /// Runs a peer.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        super::log_from("info");
        // A start may take seconds, and whoever ends it then wants nothing lost either.
        let stop = super::stop_requests()?;
        let settings = self.settings.read()?;
        if settings.politeness.bot_page == UNPUBLISHED_BOT_PAGE && !settings.network.allow_private {
            tracing::warn!(
                "servers cannot find out who asks: publish docs/bot.md and name its address \
                 in politeness.bot_page"
            );
        }
        let definition = CrawlDefinition::from_settings(&settings.crawl);
        let directory = match self.no_store {
            true => None,
            false => Some(self.data.open(&stop)?),
        };
        let (secret, kept) = match &directory {
            Some(directory) => {
                let kept = once_there_is_room(&stop, || directory.keep_peer(&settings))?;
                tell(&kept.notices);
                (directory.secret(), Some(kept))
            }
            None => (super::passing_secret()?, None),
        };
        let receipts = directory.as_ref().map(DataDirectory::receipts);
        let limits = super::limits(&settings, directory.as_ref())?;
        let folder = directory.as_ref().map(|directory| directory.path());
        let overlay = overlay(&settings, secret, limits.clone(), folder);
        let network = overlay.clone();
        let engine = Engine::start_held(Surroundings {
            settings: settings.clone(),
            overlay,
            names: Arc::new(SystemNames),
            kept,
            receipts,
            limits,
        })?;
        let pausing = engine.pausing().clone();
        let watcher = Watcher::start(&settings, Sources::default(), move |verdict| {
            tracing::info!("{verdict}");
            pausing.set_verdict(verdict);
        })?;
        // It may have sites from an earlier run: none is asked before it is known whether
        // this is a moment to.
        let verdict = watcher.lookout().verdict_now(PATIENCE);
        engine.pausing().set_verdict(verdict);
        engine.let_go();
        if definition.seeds.is_empty() {
            tracing::info!("no seeds: waiting for URLs from other peers");
        } else {
            engine.begin(definition)?;
        }
        let is_terminal = std::io::stderr().is_terminal();
        let mut progress = Progress::new(None);
        let mut logged = Instant::now();
        let mut ending = None;
        let mut told = String::new();
        while stop.recv_timeout(PERIOD).is_err() {
            let snapshot = engine.snapshot();
            let statistics = network.statistics();
            if is_terminal {
                progress.also(refused(&statistics, " · "));
                progress.show(&snapshot.report, snapshot.queued_urls);
            } else if logged.elapsed() >= LOG_PERIOD {
                logged = Instant::now();
                tracing::info!(
                    "{} pages, {} URLs waiting, {} errors{}",
                    snapshot.report.pages,
                    snapshot.queued_urls,
                    snapshot.report.errors_in_all(),
                    refused(&statistics, ", ")
                );
            }
            let now = standing(&statistics);
            if !is_terminal && now != told {
                tracing::info!("{now}");
                told = now;
            }
            if ending.is_none() {
                ending = engine.wait(Duration::ZERO);
                match ending {
                    Some(Ending::Complete) => tracing::info!("nothing is left to fetch"),
                    Some(Ending::MaxPages) => tracing::info!("fetched as many pages as allowed"),
                    Some(Ending::OutOfPatience) => {
                        tracing::info!("gave up hosts that asked to wait");
                    }
                    None => {}
                }
            }
        }
        progress.finish();
        tracing::info!("stopping");
        drop(watcher);
        let ledger = engine.ledger().clone();
        let report = engine.shutdown();
        output::write(|out| write!(out, "{}", summary(&report)))?;
        if let Some(trouble) = ledger.trouble() {
            tracing::error!("not all of it is kept: {trouble}");
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// How this peer is connected, in a line that scripts can read.
fn standing(network: &Statistics) -> String {
    format!(
        "reachability={} direct={} relayed={} upgraded={} relays={} carried={}",
        network.reachability.name(),
        network.direct_connections,
        network.relayed_connections,
        network.upgraded_connections,
        network.relays,
        network.circuits_carried
    )
}

/// How many addresses of peers were refused, after a separator; nothing if there were none.
fn refused(network: &Statistics, separator: &str) -> String {
    match network.addresses_refused {
        0 => String::new(),
        number => format!("{separator}{number} addresses of peers refused"),
    }
}

/// The overlay of the settings; alone if it cannot start, which is no reason not to crawl.
fn overlay(
    settings: &Settings,
    secret: [u8; 32],
    limits: Arc<Limits>,
    folder: Option<&Path>,
) -> Arc<dyn Overlay> {
    match joining::join_and_rejoin(settings, secret, limits, folder) {
        Ok(overlay) => {
            for address in overlay.listening() {
                // Nobody may be there to read it, which is no reason to stay at home.
                if let Err(why) = output::line(format_args!("listening {address}")) {
                    tracing::warn!("{}", super::in_words(&why));
                }
            }
            overlay
        }
        Err(why) => {
            tracing::warn!("crawling alone: {why}");
            joining::alone(secret)
        }
    }
}
