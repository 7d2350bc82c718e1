//! Bodies that arrive, and are not what a page should be.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use peercrawl::config::Scope;
use peercrawl::engine::Ending;

use super::{HEALTHY_PAGES, ONE_PAGE, crawl, expect, expect_page, healthy, settings};
use crate::hostile::{HostileWeb, page, respond};

/// Bodies that grow to 20 MiB, a thousand times their size, by the encoding's name.
pub fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let zeros = vec![0; 20 << 20];
    let gzip = |body: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    };
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(&zeros).unwrap();
    let mut bare = DeflateEncoder::new(Vec::new(), Compression::best());
    bare.write_all(&zeros).unwrap();
    let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4_096, 3, 20);
    brotli.write_all(&zeros).unwrap();
    let bombs = vec![
        ("gzip", gzip(&zeros)),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", bare.finish().unwrap()),
        ("br", brotli.into_inner()),
        ("gzip, gzip", gzip(&gzip(&zeros))),
        ("gzip, gzip, x-gzip", gzip(&gzip(&gzip(&zeros)))),
    ];
    for (name, body) in &bombs {
        assert!(body.len() * 1_000 <= zeros.len(), "{name}: {}", body.len());
    }
    bombs
}

#[test]
fn encodings_in_each_other_are_undone_up_to_a_point() {
    let gzip = |body: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    };
    let mut body = b"a page".to_vec();
    for layers in 1..=5 {
        body = gzip(&body);
        let body = body.clone();
        let expected = match layers {
            1..=3 => &ONE_PAGE[..],
            _ => &[("errors.other", 1)],
        };
        expect_page(
            settings(),
            move |stream| {
                let names = vec!["gzip"; layers].join(", ");
                let headers = format!("Content-Encoding: {names}\r\n");
                respond(stream, "200 OK", &headers, &body)
            },
            expected,
        );
    }
}

/// The header says that it is a film: its body is not read.
#[test]
fn content_that_is_not_wanted() {
    let mut web = HostileWeb::default();
    let site = web.pages(|path, mut stream| match path {
        "/film" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n")?;
            // Without an end: whoever reads it never gets to the next page.
            loop {
                stream.write_all(&[0; 4_096])?;
            }
        }
        _ => page(stream, "a page"),
    });
    expect(
        &mut web,
        settings(),
        &[site.url("/film"), site.url("/")],
        &[&ONE_PAGE[..], &[("errors.content_type", 1)]].concat(),
    );
    assert_eq!(site.asked_for("/film"), 1, "not tried again");
}

/// What is no page has any type it likes: the status counts.
#[test]
fn types_of_redirects_and_errors_do_not_matter() {
    let mut web = HostileWeb::default();
    let film = "Content-Type: video/mp4\r\n";
    let site = web.http(move |path, stream| match path {
        "/robots.txt" => respond(stream, "200 OK", film, b"User-agent: *\nDisallow: /no"),
        "/" => respond(
            stream,
            "302 Found",
            &format!("Location: /gone\r\n{film}"),
            b"",
        ),
        _ => respond(stream, "404 Not Found", film, b""),
    });
    expect(
        &mut web,
        settings(),
        &[site.url("/"), site.url("/no")],
        &[
            ("errors.http_4xx", 1),
            ("redirects", 1),
            ("urls.blocked_robots", 1),
        ],
    );
}

#[test]
fn ten_megabytes_of_attributes() {
    let mut settings = settings();
    settings.network.max_body_bytes = 12 << 20;
    expect_page(
        settings,
        |stream| {
            let attributes = "a=\"bcd\" ".repeat((5 << 20) / 8);
            page(stream, format!("<p {attributes}><a {attributes} href=/>"))
        },
        &[
            ("pages", 1),
            ("content.new", 1),
            ("urls.discovered", 1),
            ("urls.duplicate", 1),
        ],
    );
}

#[test]
fn bombs_do_not_go_off() {
    for (name, body) in bombs() {
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

#[test]
fn a_hundred_thousand_links() {
    // With the page itself, as many as a site may have.
    const LINKS: u64 = 99_999;
    let mut web = HostileWeb::default();
    let site = web.http(|path, stream| match path {
        "/robots.txt" => respond(stream, "200 OK", "", b"User-agent: *\nDisallow: /no/"),
        _ => {
            let links = (0..LINKS).map(|n| format!("<a href=/no/{n}>"));
            page(stream, links.collect::<String>())
        }
    });
    let mut settings = settings();
    settings.network.max_body_bytes = 4 << 20;
    settings.queues.site_urls = 100_000;
    expect(
        &mut web,
        settings,
        &[site.url("/")],
        &[
            ("pages", 1),
            ("content.new", 1),
            ("urls.discovered", LINKS),
            ("urls.blocked_robots", LINKS),
        ],
    );
}

/// Some kilobytes, compressed, that once took gigabytes: each link is as long as the base.
#[test]
fn very_many_links_to_a_long_base_are_taken_as_far_as_a_page_has_room() {
    const LINKS: u64 = 100_000;
    const ROOM: u64 = 4 << 20;
    let base = format!("/{}/", "b".repeat(1_900));
    let mut web = HostileWeb::default();
    let site = web.http({
        let base = base.clone();
        move |path, stream| match path {
            "/robots.txt" => respond(stream, "200 OK", "", b"User-agent: *\nDisallow: /b"),
            _ => {
                let links = (0..LINKS).map(|n| format!("<a href={n:06}>"));
                page(
                    stream,
                    format!("<base href={base}>{}", links.collect::<String>()),
                )
            }
        }
    });
    let mut settings = settings();
    settings.network.max_body_bytes = 4 << 20;
    let seed = site.url("/");
    let link = seed.trim_end_matches('/').len() + base.len() + 6;
    let taken = ROOM / link as u64;
    expect(
        &mut web,
        settings,
        &[seed],
        &[
            ("pages", 1),
            ("content.new", 1),
            ("urls.discovered", LINKS),
            ("urls.blocked_robots", taken),
            ("urls.trap.page_links", LINKS - taken),
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
