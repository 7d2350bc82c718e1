//! Servers that misbehave: each is one counted error with the right reason, while a
//! healthy site in the same crawl is complete and the crawl ends by itself.
//!
//! A test names what its hostile site adds to the report; everything else in the report
//! must be what the healthy site alone would give, so that a second count of the same
//! mishap, or a count in the wrong place, fails the test.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use peercrawl::config::{Scope, Settings};
use peercrawl::crawl::CrawlDefinition;
use peercrawl::engine::{Ending, Engine, Surroundings};
use peercrawl::report::Report;
use peercrawl::resolver::SystemNames;
use peercrawl_overlay::PeerId;
use peercrawl_overlay::memory::MemoryNetwork;
use serde_json::Value;

use crate::hostile::{
    HostileWeb, Site, drip, hang_up, page, redirect, reset, respond, stay_silent,
};

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
    let healthy = healthy(web);
    let (report, ending) = crawl(settings, [&[healthy.url("/")], seeds].concat());
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

fn crawl(mut settings: Settings, seeds: Vec<String>) -> (Report, Option<Ending>) {
    settings.crawl.seeds = seeds;
    let definition = CrawlDefinition::from_settings(&settings.crawl);
    let engine = Engine::start(Surroundings {
        settings,
        overlay: Arc::new(MemoryNetwork::new().join(PeerId([1; 32]))),
        names: Arc::new(SystemNames),
    })
    .unwrap();
    engine.begin(definition).unwrap();
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

const ONE_PAGE: [(&str, u64); 2] = [("pages", 1), ("content.new", 1)];

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
fn robots_rules_that_never_come() {
    let mut web = HostileWeb::default();
    let site = web.http(|path, stream| match path {
        "/robots.txt" => stay_silent(stream),
        _ => page(stream, "a page"),
    });
    expect(
        &mut web,
        impatient(),
        &[site.url("/a"), site.url("/b")],
        &[("errors.timeout", 1), ("urls.given_up", 2), ("retries", 2)],
    );
    assert_eq!(site.requests(), ["/robots.txt"; 3], "no page without rules");
}

#[test]
fn robots_rules_of_a_server_in_trouble() {
    let mut web = HostileWeb::default();
    let site = web.http(|path, stream| match path {
        "/robots.txt" => respond(stream, "500 Internal Server Error", "", b"sorry"),
        _ => page(stream, "a page"),
    });
    expect(
        &mut web,
        settings(),
        &[site.url("/a"), site.url("/b")],
        &[("errors.http_5xx", 1), ("urls.given_up", 2), ("retries", 2)],
    );
    assert_eq!(site.requests(), ["/robots.txt"; 3], "no page without rules");
}

#[test]
fn robots_rules_without_end() {
    let mut web = HostileWeb::default();
    let site = web.http(|path, mut stream| match path {
        "/robots.txt" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nUser-agent: *\nDisallow: /no\n")?;
            loop {
                stream.write_all(&[b'#'; 4_096])?;
            }
        }
        _ => page(stream, "a page"),
    });
    expect(
        &mut web,
        settings(),
        &[site.url("/no"), site.url("/yes")],
        &[&ONE_PAGE[..], &[("urls.blocked_robots", 1)]].concat(),
    );
}

#[test]
fn a_page_that_never_comes() {
    expect_page(
        impatient(),
        stay_silent,
        &[("errors.timeout", 1), ("retries", 1)],
    );
}

#[test]
fn a_body_that_never_ends() {
    expect_page(
        settings(),
        |mut stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 4_096])?;
            }
        },
        &[("errors.too_large", 1)],
    );
}

#[test]
fn a_body_that_drips() {
    expect_page(
        impatient(),
        |mut stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
            drip(stream, b"x")
        },
        &[("errors.timeout", 1), ("retries", 1)],
    );
}

#[test]
fn a_header_that_drips() {
    expect_page(
        impatient(),
        |mut stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nX-Slow: ")?;
            drip(stream, b"x")
        },
        &[("errors.timeout", 1), ("retries", 1)],
    );
}

#[test]
fn a_header_of_a_megabyte() {
    expect_page(
        settings(),
        |stream| {
            let headers = format!("X-Large: {}\r\n", "x".repeat(1 << 20));
            respond(stream, "200 OK", &headers, b"a page")
        },
        &[("errors.too_large", 1)],
    );
}

/// More fields than an HTTP client has room for are no HTTP that it understands.
#[test]
fn a_header_of_a_megabyte_in_small_lines() {
    expect_page(
        settings(),
        |stream| {
            let headers = "X-Small: x\r\n".repeat((1 << 20) / 12);
            respond(stream, "200 OK", &headers, b"a page")
        },
        &[("errors.other", 1), ("retries", 1)],
    );
}

/// The buffer was smaller than the bound: such a header passed for a broken connection.
#[test]
fn a_header_just_within_the_bound() {
    expect_page(
        settings(),
        |stream| {
            let headers = format!("X-Large: {}\r\n", "x".repeat(60_000));
            respond(stream, "200 OK", &headers, b"a page")
        },
        &ONE_PAGE,
    );
}

#[test]
fn promises_of_an_answer_without_end() {
    expect_page(
        impatient(),
        |stream| drip(stream, b"HTTP/1.1 100 Continue\r\n\r\n"),
        &[("errors.timeout", 1), ("retries", 1)],
    );
}

#[test]
fn a_hint_before_the_answer_is_skipped() {
    expect_page(
        settings(),
        |mut stream| {
            stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n")?;
            page(stream, "a page")
        },
        &ONE_PAGE,
    );
}

#[test]
fn bombs_do_not_go_off() {
    let zeros = vec![0; 20 << 20];
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&zeros).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4_096, 3, 20);
    brotli.write_all(&zeros).unwrap();
    let brotli = brotli.into_inner();
    for (name, body) in [("gzip", gzip), ("br", brotli)] {
        assert!(body.len() < 1 << 20, "{name}: {}", body.len());
        expect_page(
            settings(),
            move |stream| {
                let headers = format!("Content-Encoding: {name}\r\n");
                respond(stream, "200 OK", &headers, &body)
            },
            &[("errors.too_large", 1)],
        );
    }
}

#[test]
fn compression_that_is_none() {
    for name in ["gzip", "br", "deflate", "zstd"] {
        expect_page(
            settings(),
            move |stream| {
                let headers = format!("Content-Encoding: {name}\r\n");
                respond(stream, "200 OK", &headers, b"plain text")
            },
            &[("errors.other", 1)],
        );
    }
}

#[test]
fn bytes_that_are_no_text() {
    let mut web = HostileWeb::default();
    let site = web.pages(|path, mut stream| match path {
        "/" => {
            let body = b"\xfa\xff<p>\xc3(\x80</p><a href=\"/\xff\">\xf0\x28<a href=/second>";
            page(stream, body)
        }
        "/second" => {
            let body = b"<a href=/third>";
            let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=\xff\xfe\r\n\
                X-Robots-Tag: \xff\xc3(\r\nX-Odd: \x80\xfe\r\nContent-Length: 15\r\n\r\n";
            stream.write_all(&[&head[..], body].concat())
        }
        "/third" => stream
            .write_all(b"HTTP/1.1 302 Found\r\nLocation: /fourth\xff\r\nContent-Length: 0\r\n\r\n"),
        _ => page(stream, format!("{path} is reached")),
    });
    expect(
        &mut web,
        settings(),
        &[site.url("/")],
        &[
            ("pages", 4),
            ("content.new", 4),
            ("urls.discovered", 3),
            ("redirects", 1),
        ],
    );
}

#[test]
fn an_empty_body_is_a_page() {
    expect_page(settings(), |stream| page(stream, ""), &ONE_PAGE);
    expect_page(
        settings(),
        |mut stream| stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n"),
        &ONE_PAGE,
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

#[test]
fn a_length_that_is_too_long() {
    expect_page(
        settings(),
        |mut stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort")?;
            hang_up()
        },
        &[("errors.other", 1), ("retries", 1)],
    );
}

#[test]
fn a_length_that_is_absurd() {
    expect_page(
        settings(),
        |mut stream| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", u64::MAX);
            stream.write_all(head.as_bytes())?;
            stay_silent(stream)
        },
        &[("errors.too_large", 1)],
    );
}

/// What comes after the announced end is no answer to the next request, even if it looks
/// like one.
#[test]
fn a_length_that_is_too_short() {
    let mut web = HostileWeb::default();
    let site = web.pages(|path, mut stream| match path {
        "/" => {
            let first = "<a href=/real>";
            let smuggled = "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\
                Content-Type: text/html\r\n\r\n<a href=/false>";
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 14";
            stream.write_all(format!("{head}\r\n\r\n{first}{smuggled}").as_bytes())
        }
        _ => page(stream, format!("{path} <a href=/last>")),
    });
    expect(
        &mut web,
        settings(),
        &[site.url("/")],
        &[
            ("pages", 3),
            ("content.new", 3),
            ("urls.discovered", 3),
            ("urls.duplicate", 1),
        ],
    );
    assert_eq!(site.asked_for("/false"), 0);
    assert_eq!(site.asked_for("/real"), 1);
}

#[test]
fn a_reset_in_the_middle_of_a_body_without_length() {
    expect_page(
        settings(),
        |mut stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nthe beginning")?;
            reset(stream)
        },
        &[("errors.other", 1), ("retries", 1)],
    );
}

#[test]
fn a_body_without_length_ends_with_its_connection() {
    expect_page(
        settings(),
        |mut stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nall there is")?;
            hang_up()
        },
        &ONE_PAGE,
    );
}

#[test]
fn chunks_without_a_last_one() {
    expect_page(
        settings(),
        |mut stream| {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n")?;
            hang_up()
        },
        &[("errors.other", 1), ("retries", 1)],
    );
}

#[test]
fn chunks_of_nonsense() {
    expect_page(
        settings(),
        |stream| {
            let mut stream = stream;
            stream.write_all(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nbody",
            )?;
            hang_up()
        },
        &[("errors.other", 1), ("retries", 1)],
    );
}

#[test]
fn redirects_in_a_circle() {
    let mut web = HostileWeb::default();
    let site = web.pages(|path, stream| match path {
        "/a" => redirect(stream, "/b"),
        "/b" => redirect(stream, "/a"),
        _ => redirect(stream, "/self"),
    });
    expect(
        &mut web,
        settings(),
        &[site.url("/a"), site.url("/self")],
        &[("redirects", 3), ("urls.duplicate", 2)],
    );
}

#[test]
fn redirects_to_nowhere() {
    for target in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "http://",
        "http://[::1",
    ] {
        expect_page(
            settings(),
            move |stream| redirect(stream, target),
            &[("errors.other", 1)],
        );
    }
    expect_page(
        settings(),
        |stream| respond(stream, "302 Found", "", b""),
        &[("errors.other", 1)],
    );
}

#[test]
fn a_chain_of_redirects_that_is_too_long() {
    let mut web = HostileWeb::default();
    let site = web.pages(|path, stream| {
        let number: u32 = path[1..].parse().unwrap();
        redirect(stream, &format!("/{}", number + 1))
    });
    let mut settings = settings();
    settings.crawl.max_redirects = 4;
    expect(
        &mut web,
        settings,
        &[site.url("/0")],
        &[("redirects", 5), ("urls.trap.redirects", 1)],
    );
    assert_eq!(site.asked_for("/4"), 1);
    assert_eq!(site.asked_for("/5"), 0);
}

#[test]
fn a_hundred_thousand_links() {
    let mut web = HostileWeb::default();
    let site = web.http(|path, stream| match path {
        "/robots.txt" => respond(stream, "200 OK", "", b"User-agent: *\nDisallow: /no/"),
        _ => {
            let links = (0..100_000).map(|n| format!("<a href=/no/{n}>"));
            page(stream, links.collect::<String>())
        }
    });
    let mut settings = settings();
    settings.network.max_body_bytes = 4 << 20;
    settings.queues.site_urls = 30_000;
    expect(
        &mut web,
        settings,
        &[site.url("/")],
        &[
            ("pages", 1),
            ("content.new", 1),
            ("urls.discovered", 100_000),
            ("urls.blocked_robots", 30_000),
            ("urls.refused_overflow", 70_000),
        ],
    );
}

#[test]
fn a_hundred_thousand_nested_tags() {
    expect_page(
        settings(),
        |stream| {
            let tags = "<div>".repeat(100_000) + "<a href=/>";
            page(stream, tags)
        },
        &[
            ("pages", 1),
            ("content.new", 1),
            ("urls.discovered", 1),
            ("urls.duplicate", 1),
        ],
    );
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
fn markup_that_is_hard_to_read() {
    let nasty = [
        ("<svg>", "<a href=/>"),
        ("<math><mi>", ""),
        ("<template>", "</template>"),
        ("<table><tr><td>", ""),
        ("<select><option>", ""),
        ("<a href=/ ", ""),
        ("<a href='/", ""),
        ("<!-- -", ""),
        ("<![CDATA[", ""),
        ("<script><!--<script>", ""),
        ("</", ""),
        ("<base href=/>", ""),
        ("<a href=/&amp", "'>"),
    ];
    let mut web = HostileWeb::default();
    let site = web.pages(move |path, stream| match path[1..].parse::<usize>() {
        Ok(number) => {
            let (again, end) = nasty[number];
            page(stream, again.repeat(900_000 / again.len()) + end)
        }
        Err(_) => respond(stream, "404 Not Found", "", b""),
    });
    let healthy = healthy(&mut web);
    let hostile = (0..nasty.len()).map(|n| site.url(&format!("/{n}")));
    let seeds = hostile.chain([healthy.url("/")]).collect();
    let mut settings = settings();
    settings.crawl.max_depth = 1;
    settings.crawl.scope = Scope::Host;
    let (report, ending) = crawl(settings, seeds);
    assert_eq!(ending, Some(Ending::Complete));
    assert_eq!(
        report.pages,
        HEALTHY_PAGES + nasty.len() as u64,
        "{report:?}"
    );
}
