//! `peercrawl crawl`: one crawl on this machine alone, which ends when it is done.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use crossbeam_channel::Receiver;
use peercrawl::config::{Distribution, Flag, Layers, Scope, Settings};
use peercrawl::crawl::CrawlDefinition;
use peercrawl::data_directory::{DataDirectory, crawl_state};
use peercrawl::engine::{Engine, Surroundings};
use peercrawl::joining;
use peercrawl::resolver::SystemNames;

use super::data::{DataArguments, once_there_is_room, tell};
use super::progress::{PERIOD, Progress, summary, tell_losses};
use super::{SettingsArguments, output};

/// The arguments.
#[derive(Args)]
pub struct Crawl {
    /// Where to begin
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// How far to go from there [default: host, unless the settings say otherwise]
    #[arg(long, value_enum)]
    scope: Option<Scope>,
    /// Stop after so many pages; never exceeded. 0 for no bound
    #[arg(long, value_name = "N")]
    max_pages: Option<u64>,
    /// Follow so many links from the first page at most
    #[arg(long, value_name = "D")]
    max_depth: Option<u64>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArguments,
    #[command(flatten)]
    data: DataArguments,
    /// Keep nothing
    #[arg(long)]
    no_store: bool,
}

impl Crawl {
    /// Crawls.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        super::log_from("warn");
        // A start may take seconds, and whoever ends it then wants nothing lost either.
        let stop = super::stop_requests()?;
        let settings = self.settings()?;
        let definition = CrawlDefinition::from_settings(&settings.crawl);
        let state = crawl_state(definition.id());
        let directory = match self.no_store {
            true => None,
            false => self.data.open_if_free(&stop)?,
        };
        let (secret, kept) = match &directory {
            Some(directory) => {
                let kept = once_there_is_room(&stop, || directory.keep(&state, &settings))?;
                tell(&kept.notices);
                (directory.secret(), Some(kept))
            }
            None => (super::passing_secret()?, None),
        };
        let receipts = directory.as_ref().map(DataDirectory::receipts);
        let overlay = joining::alone(secret);
        let limits = super::limits(&settings, directory.as_ref())?;
        let engine = Engine::start(Surroundings {
            settings,
            overlay,
            names: Arc::new(SystemNames),
            kept,
            receipts,
            limits,
        })?;
        engine.begin_alone(definition)?;
        let is_over = watch(&engine, &stop);
        let ledger = engine.ledger().clone();
        let report = engine.shutdown();
        let trouble = ledger.trouble();
        drop(ledger);
        if let (true, None, Some(directory)) = (is_over, &trouble, &directory) {
            // Begun again, it begins anew.
            directory.forget(&state)?;
        }
        if self.json {
            tell_losses(&report);
            output::line(serde_json::to_string(&report)?)?;
        } else {
            output::write(|out| write!(out, "{}", summary(&report)))?;
        }
        if let Some(trouble) = trouble {
            eprintln!("peercrawl: {trouble}");
            eprintln!("peercrawl: not all of it is kept: the same command goes on from here");
            return Ok(ExitCode::FAILURE);
        }
        if report.pages == 0 {
            eprintln!("peercrawl: no seed gave a page");
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let scope = self.scope.as_ref().map(super::word);
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let own = [
            ("--scope", "crawl.scope", scope),
            ("--max-pages", "crawl.max_pages", number(self.max_pages)),
            ("--max-depth", "crawl.max_depth", number(self.max_depth)),
        ];
        let own = own
            .into_iter()
            .filter_map(|(name, key, value)| Some(Flag::named(name, key, &value?)));
        let layers = Layers {
            granted: vec!["crawl.scope=host"],
            ..self.settings.layers(own)
        };
        let mut settings = layers.read()?;
        settings.crawl.seeds = self.urls.iter().map(|url| with_scheme(url)).collect();
        // Whoever crawls alone has the whole web, whatever part the settings give to a peer.
        settings.distribution = Distribution::default();
        Ok(settings)
    }
}

/// A person may leave the scheme out.
fn with_scheme(url: &str) -> String {
    if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    }
}

/// Waits until the crawl is over or the user has had enough; tells whether it is over.
fn watch(engine: &Engine, stop: &Receiver<()>) -> bool {
    let mut progress = Progress::new(None);
    let is_over = loop {
        if engine.wait(PERIOD).is_some() {
            break true;
        }
        if stop.try_recv().is_ok() {
            break false;
        }
        let snapshot = engine.snapshot();
        progress.show(&snapshot.report, snapshot.queued_urls);
    };
    progress.finish();
    is_over
}
