//! `peercrawl inspect`: what the crawler makes of a page, a robots.txt or a URL.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use peercrawl::blocklist::BlockList;
use peercrawl::canonical::{CanonicalForm, CanonicalUrl};
use peercrawl::config::Settings;
use peercrawl::crawl::{CrawlDefinition, rules};
use peercrawl::distribution::Key;
use peercrawl::extractor::LinkScanner;
use peercrawl::guard;
use peercrawl::robots::Robots;
use url::Url;

use super::{SettingsArguments, output};

/// The arguments.
#[derive(Subcommand)]
pub enum Inspect {
    /// The links of a page, one canonical URL a line
    Links {
        /// A file with the page's HTML
        file: PathBuf,
        /// The page's own URL
        #[arg(long, value_name = "URL")]
        base: Url,
        #[command(flatten)]
        settings: SettingsArguments,
    },
    /// Whether a robots.txt allows URLs
    Robots {
        /// The robots.txt
        file: PathBuf,
        /// The crawler's product token
        #[arg(long, value_name = "NAME")]
        agent: String,
        /// The URLs to judge
        #[arg(required = true, value_name = "URL", value_parser = web_address)]
        urls: Vec<WebAddress>,
    },
    /// The canonical form and key of a URL, and why it would be refused, if it would
    Url {
        /// The URL
        url: String,
        #[command(flatten)]
        settings: SettingsArguments,
    },
}

impl Inspect {
    /// Inspects.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Links {
                file,
                base,
                settings,
            } => links(&file, &base, &settings.read()?)?,
            Self::Robots { file, agent, urls } => robots(&file, &agent, &urls)?,
            Self::Url { url, settings } => inspect_url(&url, &settings.read()?)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

fn links(file: &Path, page: &Url, settings: &Settings) -> anyhow::Result<()> {
    let body = read(file)?;
    let form = CanonicalForm::new(&settings.crawl.session_ids);
    let mut scanner = LinkScanner::new(&settings.politeness.agent);
    let found = scanner.scan(&body, None, page);
    let mut printed = HashSet::new();
    output::write(|out| {
        for link in found.links().filter_map(|link| form.of(link).ok()) {
            if printed.insert(link.to_string()) {
                writeln!(out, "{link}")?;
            }
        }
        Ok(())
    })
}

/// A URL that robots.txt can have a say about.
#[derive(Clone)]
pub struct WebAddress {
    /// As it was given.
    text: String,
    url: Url,
}

fn web_address(text: &str) -> Result<WebAddress, String> {
    let url = Url::parse(text).map_err(|why| why.to_string())?;
    match url.scheme() {
        "http" | "https" => Ok(WebAddress {
            text: text.to_owned(),
            url,
        }),
        _ => Err("expected http:// or https://".into()),
    }
}

fn robots(file: &Path, agent: &str, urls: &[WebAddress]) -> anyhow::Result<()> {
    let robots = Robots::parse(&read(file)?, agent);
    output::write(|out| {
        for WebAddress { text, url } in urls {
            let path = match url.query() {
                Some(query) => format!("{}?{query}", url.path()),
                None => url.path().to_owned(),
            };
            let verdict = match robots.is_allowed(&path) {
                true => "allowed",
                false => "disallowed",
            };
            writeln!(out, "{verdict}\t{text}")?;
        }
        Ok(())
    })
}

fn inspect_url(text: &str, settings: &Settings) -> anyhow::Result<()> {
    let parsed = CanonicalForm::new(&settings.crawl.session_ids).parse(text);
    output::write(|out| {
        let url = match parsed {
            Ok(url) => url,
            Err(why) => return writeln!(out, "refused\t{why}"),
        };
        writeln!(out, "canonical\t{url}")?;
        writeln!(out, "host\t{}", url.host())?;
        writeln!(out, "key\t{:016x}", Key::of_host(url.host()).0)?;
        match refusal(&url, settings) {
            Some(why) => writeln!(out, "refused\t{why}"),
            None => Ok(()),
        }
    })
}

/// Why the URL would not be fetched, as far as the URL alone tells.
fn refusal(url: &CanonicalUrl, settings: &Settings) -> Option<String> {
    let bounds = CrawlDefinition::from_settings(&settings.crawl).bounds;
    if let Some(trap) = rules::url_trap(url, &bounds) {
        return Some(format!("it looks like a trap: {}", trap.name()));
    }
    if BlockList::new(&settings.crawl, 0).is_blocked(url.host()) {
        return Some("its host is on the block list".into());
    }
    let bare = url.host().trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>().ok();
    if address.is_some_and(|address| !guard::is_public(address)) {
        let is_refused = !settings.network.allow_private;
        return is_refused.then(|| format!("{bare} is not a public address"));
    }
    let port = url.port();
    (!settings.network.ports.contains(&port)).then(|| format!("port {port} is not on the list"))
}
