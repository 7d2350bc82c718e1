//! Faults of our own: what panics costs what was at hand, and the crawl goes on and ends.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use peercrawl::resolver::{NameService, SystemNames};

use super::{expect_where, settings};
use crate::hostile::{HostileWeb, page, redirect};

/// A name that is too much for us.
const FAULTY: &str = "faulty.test";

/// The system's names, with a fault in it.
struct Faulty;

impl NameService for Faulty {
    fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        assert_ne!(host, FAULTY, "a fault, made for this test");
        SystemNames.look_up(host)
    }
}

/// The rules of the site are where our fault is: the downloader that follows them panics,
/// and must neither die nor keep the site for ever.
#[test]
fn a_downloader_that_panics_gives_its_site_back() {
    let mut web = HostileWeb::default();
    let site = web.http(|path, stream| match path {
        "/robots.txt" => redirect(stream, &format!("http://{FAULTY}/robots.txt")),
        _ => page(stream, "never asked for"),
    });
    let mut settings = settings();
    // One thread less, and nothing would be fetched at all.
    settings.threads.downloaders = 1;
    expect_where(
        Arc::new(Faulty),
        &mut web,
        settings,
        &[site.url("/")],
        &[("errors.fault", 3), ("urls.given_up", 1)],
    );
    assert_eq!(site.asked_for("/"), 0);
}

#[test]
fn a_resolver_that_panics_gives_its_site_up() {
    let mut settings = settings();
    settings.network.resolvers = 1;
    // Unknown names rest as public hosts do.
    settings.politeness.max_host_failures = 1;
    expect_where(
        Arc::new(Faulty),
        &mut HostileWeb::default(),
        settings,
        &[format!("http://{FAULTY}/")],
        &[("errors.dns", 1), ("urls.given_up", 1)],
    );
}
