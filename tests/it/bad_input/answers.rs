//! Answers that are too long, too slow, or not as long as they say.

use std::io::Write;

use super::{ONE_PAGE, expect, expect_page, impatient, settings};
use crate::hostile::{HostileWeb, drip, hang_up, page, reset, respond, stay_silent};

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

/// More fields than an HTTP client has room for.
#[test]
fn a_header_of_a_megabyte_in_small_lines() {
    expect_page(
        settings(),
        |stream| {
            let headers = "X-Small: x\r\n".repeat((1 << 20) / 12);
            respond(stream, "200 OK", &headers, b"a page")
        },
        &[("errors.too_large", 1)],
    );
}

/// Each line is short, and there is always another one.
#[test]
fn a_header_that_never_ends() {
    for line in [
        "X-Short: x\r\n",
        "X: \r\n",
        "Set-Cookie: a=b; path=/; secure\r\n",
    ] {
        expect_page(
            settings(),
            move |mut stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
                let lines = line.repeat(4_096 / line.len());
                loop {
                    stream.write_all(lines.as_bytes())?;
                }
            },
            &[("errors.too_large", 1)],
        );
    }
}

/// A server that drips is let go long before the time for a whole request is over.
#[test]
fn drips_end_early() {
    let mut hurried = settings();
    hurried.network.fetch_timeout_ms = 60_000;
    hurried.network.slow_grace_ms = 300;
    hurried.network.min_bytes_per_sec = 10_000;
    for begins in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        b"HTTP/1.1 200 O",
    ] {
        expect_page(
            hurried.clone(),
            |mut stream| {
                stream.write_all(begins)?;
                drip(stream, b"x")
            },
            &[("errors.timeout", 1), ("retries", 1)],
        );
    }
}

/// A server that falls silent in the middle is too slow as well; one that takes its time
/// to begin is not.
#[test]
fn silence_in_the_middle_is_slow_and_at_the_beginning_is_not() {
    let mut hurried = settings();
    hurried.network.slow_grace_ms = 200;
    hurried.network.min_bytes_per_sec = 10_000;
    expect_page(
        hurried.clone(),
        |mut stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")?;
            stay_silent(stream)
        },
        &[("errors.timeout", 1), ("retries", 1)],
    );
    expect_page(
        hurried,
        |mut stream| {
            stream.set_read_timeout(Some(std::time::Duration::from_millis(700)))?;
            // Nothing comes, so this takes as long as the server takes to think.
            let _thought = std::io::Read::read(&mut stream, &mut [0]);
            stream.set_read_timeout(None)?;
            page(stream, "thought over")
        },
        &ONE_PAGE,
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
fn trailers_without_end() {
    expect_page(
        settings(),
        |mut stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            stream.write_all(b"1\r\na\r\n0\r\n")?;
            loop {
                stream
                    .write_all(&b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(100))?;
            }
        },
        &[("errors.too_large", 1)],
    );
}

#[test]
fn chunks_that_are_mostly_frame() {
    expect_page(
        settings(),
        |mut stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            loop {
                stream.write_all(&b"1;xxxxxxxxxxxxxxxx\r\na\r\n".repeat(100))?;
            }
        },
        &[("errors.too_large", 1)],
    );
}
