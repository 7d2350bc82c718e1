//! Robots rules and redirects that lead astray.

use std::io::Write;

use super::{ONE_PAGE, expect, expect_page, impatient, settings};
use crate::hostile::{HostileWeb, page, redirect, respond, stay_silent};

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

/// Where a redirect to another host leads is a URL like any other: it has a site, robots
/// rules and a scope of its own.
#[test]
fn redirects_to_other_hosts_pass_every_check_again() {
    let mut web = HostileWeb::default();
    let other = web.http(|path, stream| match path {
        "/robots.txt" => respond(stream, "200 OK", "", b"User-agent: *\nDisallow: /no"),
        _ => page(stream, format!("{path} elsewhere")),
    });
    let (yes, no, port) = (other.url("/yes"), other.url("/no"), other.url("/again"));
    let site = web.pages(move |path, stream| match path {
        "/yes" => redirect(stream, &yes),
        "/no" => redirect(stream, &no),
        _ => redirect(stream, &port),
    });
    expect(
        &mut web,
        settings(),
        &[
            site.url("/yes"),
            site.url("/no"),
            site.url("/again"),
            other.url("/again"),
        ],
        &[
            ("pages", 2),
            ("content.new", 2),
            ("redirects", 3),
            ("urls.blocked_robots", 1),
            ("urls.duplicate", 1),
        ],
    );
    assert_eq!(other.asked_for("/robots.txt"), 1);
    assert_eq!(other.asked_for("/no"), 0);
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
