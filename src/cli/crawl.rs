//! `peercrawl crawl`: one crawl on this machine alone, which ends when it is done.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use peercrawl::config::{Scope, Settings};
use peercrawl::crawl::CrawlDefinition;
use peercrawl::data_directory::{DataDirectory, crawl_state};
use peercrawl::engine::Engine;
use peercrawl::joining;
use peercrawl::resolver::SystemNames;

use super::SettingsArguments;
use super::data::{DataArguments, tell};
use super::progress::{PERIOD, Progress, summary};

/// The arguments.
#[derive(Args)]
pub struct Crawl {
    /// Where to begin
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// How far to go from there
    #[arg(long, value_enum, default_value = "host")]
    scope: Scope,
    /// Stop after so many pages; never exceeded
    #[arg(long, value_name = "N")]
    max_pages: Option<u64>,
    /// Follow so many links from the first page at most
    #[arg(long, value_name = "D")]
    max_depth: Option<u16>,
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
        let settings = self.settings()?;
        let definition = CrawlDefinition::from_settings(&settings.crawl);
        let state = crawl_state(definition.id());
        let directory = match self.no_store {
            true => None,
            false => self.data.open_if_free()?,
        };
        let (secret, kept) = match &directory {
            Some(directory) => {
                let kept = directory.keep(&state, &settings)?;
                tell(&kept.notices);
                (directory.secret(), Some(kept))
            }
            None => (super::passing_secret()?, None),
        };
        let receipts = directory.as_ref().map(DataDirectory::receipts);
        let overlay = joining::alone(secret);
        let limits = super::limits(&settings, directory.as_ref())?;
        let engine = super::start(
            settings,
            overlay,
            Arc::new(SystemNames),
            kept,
            receipts,
            limits,
        )?;
        engine.begin(definition)?;
        let is_over = watch(&engine)?;
        let report = engine.shutdown();
        if let (true, Some(directory)) = (is_over, &directory) {
            // Begun again, it begins anew.
            directory.forget(&state)?;
        }
        if self.json {
            println!("{}", serde_json::to_string(&report)?);
        } else {
            print!("{}", summary(&report));
        }
        if report.pages == 0 {
            eprintln!("peercrawl: no seed gave a page");
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let mut settings = self.settings.read()?;
        let crawl = &mut settings.crawl;
        crawl.seeds = self.urls.iter().map(|url| with_scheme(url)).collect();
        crawl.scope = self.scope;
        crawl.max_pages = self.max_pages.unwrap_or(crawl.max_pages);
        crawl.max_depth = self.max_depth.unwrap_or(crawl.max_depth);
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
fn watch(engine: &Engine) -> anyhow::Result<bool> {
    let stop = super::stop_requests()?;
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
    Ok(is_over)
}
