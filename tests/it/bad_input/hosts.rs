//! Hosts that cannot be talked to, or not for long.

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use peercrawl::activity::{How, Outcome};
use peercrawl::counters::ErrorKind;
use peercrawl::crawl::CrawlDefinition;
use peercrawl::engine::{Ending, Engine, Surroundings};
use peercrawl::limits::Limits;
use peercrawl::resolver::FixedNames;
use peercrawl_overlay::PeerId;
use peercrawl_overlay::memory::MemoryNetwork;

use super::{HEALTHY_PAGES, crawl, expect, expect_page, healthy, impatient, settings};
use crate::crew::wait_until;
use crate::hostile::{HostileWeb, hang_up, page, redirect, reset, respond, stay_silent};

#[test]
fn nobody_listens() {
    let mut web = HostileWeb::default();
    let dead = web.dead();
    expect(
        &mut web,
        settings(),
        &[dead],
        &[("errors.connect", 1), ("urls.given_up", 1), ("retries", 2)],
    );
}

#[test]
fn a_name_that_leads_nowhere() {
    let mut web = HostileWeb::default();
    let mut settings = settings();
    // Unknown names rest as public hosts do.
    settings.politeness.max_host_failures = 1;
    expect(
        &mut web,
        settings,
        &["http://nowhere.invalid/".into()],
        &[("errors.dns", 1), ("urls.given_up", 1)],
    );
}

#[test]
fn a_host_that_never_answers() {
    let mut web = HostileWeb::default();
    let silent = web.raw(|stream| drop(stay_silent(stream)));
    expect(
        &mut web,
        impatient(),
        &[silent.url("/")],
        &[("errors.timeout", 1), ("urls.given_up", 1), ("retries", 2)],
    );
}

#[test]
fn a_server_that_speaks_no_http() {
    let mut web = HostileWeb::default();
    let site = web.raw(|mut stream| {
        drop(stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n"));
        drop(stay_silent(stream));
    });
    expect(
        &mut web,
        settings(),
        &[site.url("/")],
        &[("errors.other", 1), ("urls.given_up", 1), ("retries", 2)],
    );
}

fn certificate_for_another() -> Arc<rustls::ServerConfig> {
    let certified = rcgen::generate_simple_self_signed(vec!["another.example".into()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    Arc::new(config)
}

#[test]
fn a_certificate_that_does_not_match() {
    let mut web = HostileWeb::default();
    let config = certificate_for_another();
    let site = web.raw(move |mut stream| {
        let mut tls = rustls::ServerConnection::new(config.clone()).unwrap();
        // The client refuses, so that nothing more can be said.
        assert!(tls.complete_io(&mut stream).is_err());
    });
    expect(
        &mut web,
        settings(),
        &[format!("https://{}/", site.address)],
        &[("errors.tls", 1), ("urls.given_up", 1)],
    );
}

#[test]
fn a_server_that_speaks_no_tls() {
    let mut web = HostileWeb::default();
    let plain = web.raw(|stream| drop(page(stream, "plain")));
    expect(
        &mut web,
        settings(),
        &[format!("https://{}/", plain.address)],
        &[("errors.tls", 1), ("urls.given_up", 1)],
    );
}

#[test]
fn a_handshake_that_never_comes() {
    let mut web = HostileWeb::default();
    let silent = web.raw(|stream| drop(stay_silent(stream)));
    expect(
        &mut web,
        impatient(),
        &[format!("https://{}/", silent.address)],
        &[("errors.timeout", 1), ("urls.given_up", 1), ("retries", 2)],
    );
}

/// Servers may close a kept-alive connection at any time; that is no error.
#[test]
fn connections_that_end_after_each_answer() {
    for end in [|_: &TcpStream| hang_up(), reset] {
        let mut web = HostileWeb::default();
        let site = web.http(move |path, stream| {
            page(stream, format!("# {path}"))?;
            // A reset may overtake what was written: wait until the client has it.
            stream.set_read_timeout(Some(Duration::from_millis(50)))?;
            drop(stream.peek(&mut [0]));
            end(stream)
        });
        let seeds: Vec<String> = (0..5).map(|n| site.url(&format!("/{n}"))).collect();
        let added = [("pages", 5), ("content.new", 5)];
        expect(&mut web, settings(), &seeds, &added);
    }
}

#[test]
fn a_server_that_is_always_busy() {
    expect_page(
        settings(),
        |stream| respond(stream, "503 Service Unavailable", "Retry-After: 0\r\n", b""),
        &[("errors.http_5xx", 1), ("retries", 1)],
    );
}

#[test]
fn a_server_that_asks_for_too_much_patience() {
    let mut web = HostileWeb::default();
    let site = web.pages(|_, stream| {
        let headers = "Retry-After: 3600\r\n";
        respond(stream, "503 Service Unavailable", headers, b"")
    });
    let healthy = healthy(&mut web);
    let seeds = vec![site.url("/a"), site.url("/b"), healthy.url("/")];
    let (report, ending) = crawl(settings(), seeds);
    assert_eq!(ending, Some(Ending::OutOfPatience));
    assert_eq!(report.pages, HEALTHY_PAGES);
    assert_eq!((report.urls.given_up, report.errors["http_5xx"]), (2, 1));
    assert_eq!(site.requests(), ["/robots.txt", "/a"]);
}

/// A page that is tried for the last time when its host is given up is counted with its
/// host, not twice.
#[test]
fn a_last_attempt_that_is_also_the_hosts_last() {
    let mut settings = settings();
    settings.politeness.max_attempts = 3;
    settings.politeness.max_host_failures = 3;
    expect_page(
        settings,
        |_| hang_up(),
        &[("errors.other", 1), ("urls.given_up", 1), ("retries", 2)],
    );
}

/// A mistyped host, or one whose robots.txt cannot be had, was nowhere among the results.
#[test]
fn whoever_looks_on_hears_of_hosts_of_which_nothing_is_fetched() {
    let mut web = HostileWeb::default();
    let busy = web.http(|_, stream| respond(stream, "503 Busy", "", b"later"));
    let astray = web.pages(|_, stream| redirect(stream, "javascript:x"));
    let expected = [
        ("http://gone.test/".to_owned(), ErrorKind::Dns, "not in"),
        (web.dead(), ErrorKind::Connect, "robots.txt: "),
        (busy.url("/"), ErrorKind::Http5xx, "robots.txt: 503"),
        (astray.url("/"), ErrorKind::Other, "leads nowhere"),
    ];
    let (mut settings, names) = (settings(), FixedNames(HashMap::new()));
    settings.crawl.seeds = expected.iter().map(|(url, ..)| url.clone()).collect();
    let definition = CrawlDefinition::from_settings(&settings.crawl);
    let engine = Engine::start(Surroundings {
        limits: Limits::new(&settings.limits),
        settings,
        overlay: Arc::new(MemoryNetwork::new().join(PeerId::repeat(1))),
        names: Arc::new(names),
        kept: None,
        receipts: None,
    })
    .unwrap();
    engine.activity().watch(true);
    engine.begin(definition).unwrap();
    for (url, kind, detail) in &expected {
        wait_until(url, || {
            let told = |one: &Outcome| {
                one.url == *url && one.how == How::Failed(*kind) && one.detail.contains(detail)
            };
            engine.activity().results(0..1, told).0 > 0
        });
    }
    engine.shutdown();
}
