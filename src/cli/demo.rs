//! `peercrawl demo`: a built-in web and peers that crawl it, all on this machine.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use peercrawl::config::{self, Flag, Layers, OverlayChoice, Settings};
use peercrawl::crawl::CrawlDefinition;
use peercrawl::demo::fleet::Fleet;
use peercrawl::demo::web::{Web, WebSpec};
use peercrawl::desktop::{self, DemoSpec, Opening, Window, WindowError};
use peercrawl::report::Report;
use serde::Serialize;

use super::progress::{PERIOD, Progress, summary, tell_losses};
use super::{SettingsArguments, log_from, output};

/// Hosts of the built-in web for each peer, unless the user says otherwise.
const HOSTS_PER_PEER: u32 = 50;

/// What the peers of the demo may use together while somebody watches in the window.
const WINDOW_DOWNLOAD_KIB: u32 = 1_024;
const WINDOW_UPLOAD_KIB: u32 = 256;

/// The arguments.
#[derive(Args)]
pub struct Demo {
    /// How many peers
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    peers: u8,
    /// How they are connected [default: flat, unless the settings say otherwise]
    #[arg(long, value_enum)]
    overlay: Option<OverlayChoice>,
    /// How many hosts the built-in web has [default: 50 for each peer]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    hosts: Option<u32>,
    /// How many pages it has in all
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(3..))]
    pages: u32,
    /// Another number, another web
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Show no window
    #[arg(long)]
    headless: bool,
    /// The window's size in points, such as 900x600
    #[arg(long, value_name = "WxH", value_parser = super::desktop::window_size, hide = true)]
    window_size: Option<[f32; 2]>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArguments,
}

/// What `--json` prints.
#[derive(Serialize)]
struct DemoReport {
    #[serde(flatten)]
    report: Report,
    peers: Vec<PeerReport>,
    reachable: u64,
    distinct_contents: u64,
    fetched_twice: u64,
}

/// What it prints of one peer.
#[derive(Serialize)]
struct PeerReport {
    #[serde(flatten)]
    report: Report,
    capacity: u8,
}

impl Demo {
    /// Runs the demo.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if !self.headless && !self.json {
            if desktop::has_display() {
                match self.show() {
                    Ok(()) => return Ok(ExitCode::SUCCESS),
                    // Who has lost a window has seen the demo.
                    Err(error) if matches!(error.downcast_ref(), Some(WindowError::Window(_))) => {
                        eprintln!("{}: running headless.", super::in_words(&error));
                    }
                    Err(error) => return Err(error),
                }
            } else {
                eprintln!("There is no display to open a window on: running headless.");
            }
        }
        self.run_headless()
    }

    /// The demo is the same on every machine: the user's own file has no part in it.
    fn settings(&self) -> anyhow::Result<Settings> {
        let overlay = self.overlay.as_ref().map(super::word);
        let overlay = overlay.map(|kind| Flag::named("--overlay", "overlay.kind", &kind));
        let layers = Layers {
            user: None,
            ..self.settings.layers(overlay)
        };
        let mut settings = layers.read()?;
        settings.network.allow_private = true;
        Ok(settings)
    }

    fn hosts(&self) -> u32 {
        let usual = HOSTS_PER_PEER * u32::from(self.peers);
        self.hosts.unwrap_or(usual).min(self.pages / 3)
    }

    /// Shows the first peer in the window.
    fn show(&self) -> anyhow::Result<()> {
        let mut settings = self.settings()?;
        // At full speed it would be over before anybody has seen anything: unless the
        // user says otherwise, it uses what four volunteers would.
        if settings.limits == config::Limits::default() {
            settings.limits.download_kib = WINDOW_DOWNLOAD_KIB;
            settings.limits.upload_kib = WINDOW_UPLOAD_KIB;
        }
        let opening = Opening {
            settings,
            config_file: None,
            data: None,
            join_file: None,
            demo: Some(DemoSpec {
                peers: self.peers,
                hosts: self.hosts(),
                pages: self.pages,
                seed: self.seed,
            }),
            conditions: None,
            log: super::desktop::watch_events(),
        };
        let window = Window {
            size: self.window_size,
            ..Window::default()
        };
        Ok(desktop::open(opening, window, super::stop_requests()?)?)
    }

    fn run_headless(self) -> anyhow::Result<ExitCode> {
        log_from("warn");
        let mut settings = self.settings()?;
        let web = Web::start(WebSpec::new(self.hosts(), self.pages, self.seed));
        let web = Arc::new(web.context("cannot start the built-in web")?);
        let truth = web.truth();
        settings.crawl.seeds = web.seeds();
        let definition = CrawlDefinition::from_settings(&settings.crawl);

        let stop = super::stop_requests()?;
        let mut fleet =
            Fleet::start(self.peers, &settings, &web).context("cannot start the peers' threads")?;
        fleet.begin(definition)?;
        let mut progress = Progress::new(Some(truth.reachable));
        let mut is_stopped = false;
        while !is_stopped && !fleet.wait(PERIOD) {
            let snapshots = fleet.engines().iter().map(|engine| engine.snapshot());
            let waiting = snapshots.map(|snapshot| snapshot.queued_urls).sum();
            progress.show(&Report::sum(&fleet.reports()), waiting);
            is_stopped = stop.try_recv().is_ok();
        }
        progress.finish();
        let capacities = fleet.capacities();
        let reports = fleet.shutdown();
        let report = DemoReport {
            report: Report::sum(&reports),
            peers: std::iter::zip(reports, capacities)
                .map(|(report, capacity)| PeerReport { report, capacity })
                .collect(),
            reachable: truth.reachable,
            distinct_contents: truth.distinct_contents,
            fetched_twice: web.log().fetched_twice,
        };
        self.print(&report, &web)?;
        if report.report.pages == 0 {
            bail!("no page of the built-in web could be fetched");
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, report: &DemoReport, web: &Web) -> anyhow::Result<()> {
        if self.json {
            tell_losses(&report.report);
            return output::line(serde_json::to_string(report)?);
        }
        let log = web.log();
        output::line(format_args!(
            "{}The built-in web has {} pages that can be reached. It was asked {} times; it served \
             {} pages twice, {} against its robots rules, {} that do not exist.",
            summary(&report.report),
            report.reachable,
            log.requests,
            log.fetched_twice,
            log.robots_violations,
            log.phantom_hits + log.unknown_hits + log.trap_hits,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arguments, Command};
    use super::*;
    use clap::Parser;

    fn overlay(arguments: &[&str]) -> OverlayChoice {
        let arguments = ["peercrawl", "demo"].iter().chain(arguments);
        let arguments = Arguments::try_parse_from(arguments).unwrap();
        let Some(Command::Demo(demo)) = arguments.command else {
            panic!("it is another command");
        };
        demo.settings().unwrap().overlay.kind
    }

    /// The flag's default once won over everything.
    #[test]
    fn the_overlay_comes_from_the_strongest_layer_that_names_it() {
        let set = ["--set", "overlay.kind=supernode"];
        assert_eq!(overlay(&[]), OverlayChoice::Flat);
        assert_eq!(overlay(&set), OverlayChoice::Supernode);
        assert_eq!(
            overlay(&[set[0], set[1], "--overlay", "flat"]),
            OverlayChoice::Flat
        );
    }
}
