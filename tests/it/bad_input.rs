//! Servers that misbehave: each is one counted error with the right reason, while a
//! healthy site in the same crawl is complete and the crawl ends by itself.
//!
//! A test names what its hostile site adds to the report; everything else in the report
//! must be what the healthy site alone would give, so that a second count of the same
//! mishap, or a count in the wrong place, fails the test.
//!
//! - `hosts`: hosts that cannot be talked to, or not for long
//! - `beside`: all of them at once, and what healthy sites notice of it
//! - `answers`: answers that are too long, too slow, or not as long as they say
//! - `contents`: bodies that arrive, and are not what a page should be
//! - `directions`: robots rules and redirects that lead astray
//! - `faults`: faults of our own that they find

mod answers;
mod beside;
mod contents;
mod directions;
mod faults;
mod hosts;

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use peercrawl::config::Settings;
use peercrawl::engine::Ending;
use peercrawl::report::Report;
use peercrawl::resolver::{NameService, SystemNames};
use serde_json::Value;

use crate::crew::crawl_from;
use crate::hostile::{HostileWeb, Site, page};

/// Pages of the healthy site.
const HEALTHY_PAGES: u64 = 10;
/// A crawl that has not ended by then hangs.
const DEADLINE: Duration = Duration::from_secs(20);

/// Bounds small enough for a test. A page is tried twice, a host is given up at its
/// third failure.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.network.allow_private = true;
    settings.network.connect_timeout_ms = 5_000;
    settings.network.fetch_timeout_ms = 10_000;
    settings.network.max_body_bytes = 1 << 20;
    settings.politeness.private_backoff_ms = 1;
    settings.politeness.max_attempts = 2;
    settings.politeness.max_host_failures = 3;
    settings.threads.downloaders = 4;
    settings.threads.extractors = 1;
    settings
}

/// The same, for sites that never answer.
fn impatient() -> Settings {
    let mut settings = settings();
    settings.network.fetch_timeout_ms = 400;
    settings
}

/// A site whose pages all link to each other's root.
fn healthy(web: &mut HostileWeb) -> Site {
    web.pages(|path, stream| {
        let links: String = match path {
            "/" => (1..HEALTHY_PAGES)
                .map(|n| format!("<a href=/{n}>"))
                .collect(),
            _ => "<a href=/>".into(),
        };
        page(stream, format!("{path} {links}"))
    })
}

/// Crawls the hostile seeds together with a healthy site, and compares the report with
/// what `added` says that they add to it.
fn expect(web: &mut HostileWeb, settings: Settings, seeds: &[String], added: &[(&str, u64)]) {
    expect_where(Arc::new(SystemNames), web, settings, seeds, added);
}

/// The same, where names lead as `names` says.
fn expect_where(
    names: Arc<dyn NameService>,
    web: &mut HostileWeb,
    settings: Settings,
    seeds: &[String],
    added: &[(&str, u64)],
) {
    let healthy = healthy(web);
    let engine = crawl_from(settings, names, [&[healthy.url("/")], seeds].concat());
    let ending = engine.wait(DEADLINE);
    let report = engine.shutdown();
    assert_eq!(ending, Some(Ending::Complete), "{report:?}");
    let mut expected = BTreeMap::from([
        ("pages".to_owned(), HEALTHY_PAGES),
        ("content.new".to_owned(), HEALTHY_PAGES),
        ("urls.discovered".to_owned(), 2 * (HEALTHY_PAGES - 1)),
        ("urls.duplicate".to_owned(), HEALTHY_PAGES - 1),
    ]);
    for &(name, count) in added {
        *expected.entry(name.to_owned()).or_default() += count;
    }
    assert_eq!(counts(&report), expected);
    for number in 1..HEALTHY_PAGES {
        assert_eq!(healthy.asked_for(&format!("/{number}")), 1, "page {number}");
    }
}

fn crawl(settings: Settings, seeds: Vec<String>) -> (Report, Option<Ending>) {
    let engine = crawl_from(settings, Arc::new(SystemNames), seeds);
    let ending = engine.wait(DEADLINE);
    (engine.shutdown(), ending)
}

/// All counters of a report that are not zero, by their names in the JSON object. Sizes
/// and times are left out.
fn counts(report: &Report) -> BTreeMap<String, u64> {
    fn flatten(prefix: &str, value: &Value, into: &mut BTreeMap<String, u64>) {
        for (name, value) in value.as_object().unwrap() {
            match value {
                Value::Object(_) => flatten(&format!("{prefix}{name}."), value, into),
                _ => {
                    into.extend(
                        value
                            .as_u64()
                            .map(|count| (format!("{prefix}{name}"), count)),
                    );
                }
            }
        }
    }
    let mut all = BTreeMap::new();
    flatten("", &serde_json::to_value(report).unwrap(), &mut all);
    all.retain(|name, count| *count > 0 && name != "bytes" && !name.starts_with("memory."));
    all
}

/// One hostile page on an otherwise ordinary site.
fn expect_page(
    settings: Settings,
    answer: impl Fn(&TcpStream) -> io::Result<()> + Send + Sync + 'static,
    added: &[(&str, u64)],
) {
    let mut web = HostileWeb::default();
    let site = web.pages(move |_, stream| answer(stream));
    expect(&mut web, settings, &[site.url("/")], added);
}

/// What one page without links adds.
const ONE_PAGE: [(&str, u64); 2] = [("pages", 1), ("content.new", 1)];
