//! Each rule on what a link is, in small pages.

use std::time::Duration;

use cpu_time::ThreadTime;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const PAGE: &str = "http://h.test/dir/page";

fn scanner() -> LinkScanner {
    LinkScanner::new("peercrawl")
}

fn links_of(body: &[u8], content_type: Option<&str>) -> Vec<String> {
    let mut scanner = scanner();
    let found = scanner.scan(body, content_type, &Url::parse(PAGE).unwrap());
    found.links().map(String::from).collect()
}

/// Each link of a page in UTF-8, without the page's own host.
fn links(body: &str) -> Vec<String> {
    let links = links_of(body.as_bytes(), Some("text/html; charset=utf-8"));
    let local = |link: String| link.replace("http://h.test/", "/");
    links.into_iter().map(local).collect()
}

#[test]
fn each_element_that_links_is_found() {
    for page in [
        "<a href=/x>",
        "<A HREF=\"/x\">",
        "<a title='>' href='/x'>",
        "<area href=/x>",
        "<iframe src=/x></iframe>",
        "<frame src=/x>",
        "<link rel=next href=/x>",
        "<link rel=\"shortlink\tCANONICAL\" href=/x>",
        "<link href=/x rel=alternate type=application/rss+xml>",
        "<meta http-equiv=Refresh content='5; url=/x'>",
        "<meta content=\"0;URL='/x'\" http-equiv=refresh>",
        "<noscript><a href=/x></noscript>",
        "<svg><a href=/x></svg>",
        "<a href=\" /x\n\">",
        "<a href=\"/\nx\t\">",
        "<a href=/x href=/y>",
        "<a href=http://h.test:80/x>",
        "<a href=../x>",
        "<a href=//h.test/x>",
        "<a href=\"&#47;x\">",
        "<a rel=\"noopener noreferrer ugc sponsored\" href=/x>",
    ] {
        assert_eq!(links(page), ["/x"], "{page}");
    }
}

#[test]
fn nothing_is_found_where_there_is_no_link() {
    for page in [
        "<a>",
        "<a name=/x>",
        "<a data-href=/x>",
        "<abbr href=/x>",
        "<img src=/x>",
        "<form action=/x>",
        "</a href=/x>",
        "<link rel=stylesheet href=/x>",
        "<link href=/x>",
        "<link rel=nextpage href=/x>",
        "<a rel=nofollow href=/x>",
        "<a rel='me NOFOLLOW' href=/x>",
        "<area rel=nofollow href=/x>",
        "<link rel='alternate nofollow' href=/x>",
        "<script>'<a href=/x>'</script>",
        "<style><a href=/x></style>",
        "<!-- <a href=/x> -->",
        "<textarea><a href=/x></textarea>",
        "<title><a href=/x></title>",
        "<template><a href=/x></template>",
        "<template><template></template><a href=/x></template>",
        "<iframe><a href=/x></iframe>",
        "<noembed><a href=/x></noembed>",
        "<noframes><a href=/x></noframes>",
        "<xmp><a href=/x></xmp>",
        "<plaintext></plaintext><a href=/x>",
        "<svg><![CDATA[ > <a href=/x> ]]></svg>",
        "<svg><link rel=next href=/x></svg>",
        "<a href=javascript:x()>",
        "<a href=mailto:a@h.test>",
        "<a href=ftp://h.test/x>",
        "<a href=data:,x>",
        "<a href='http://[/x'>",
        "<a href='/x",
        "<meta http-equiv=refresh content=5>",
        "<meta name=refresh content='5; url=/x'>",
    ] {
        assert_eq!(links(page), [""; 0], "{page}");
    }
}

#[test]
fn a_page_goes_on_after_what_holds_no_markup() {
    for page in [
        "<script></script><a href=/x>",
        "<template></template></template><a href=/x>",
        "<title></title><a href=/x>",
        "<svg><title/></svg><a href=/x>",
        "<svg><script/></svg><a href=/x>",
        "<svg><style>a</style></svg><a href=/x>",
        "<svg><p><title></title><a href=/x>",
        "<![CDATA[ > <a href=/x> ]]>",
        "<iframe></iframe><a href=/x>",
    ] {
        assert_eq!(links(page), ["/x"], "{page}");
    }
}

#[test]
fn links_keep_their_order_and_their_number() {
    let page = "<a href=b><link rel=next href=a><a href=b><a href=''><a href=#f>";
    let expected = ["/dir/b", "/dir/a", "/dir/b", "/dir/page", "/dir/page#f"];
    assert_eq!(links(page), expected);
}

/// Each link was resolved against megabytes.
#[test]
fn a_base_that_is_longer_than_a_url_may_be_is_none() {
    let page = |base: usize| format!("<base href=/{}/><a href=x>", "b".repeat(base));
    assert_eq!(links(&page(URL_LIMIT_BYTES)), ["/dir/x"]);
    assert_eq!(links(&page(1_000))[0].len(), 1_003);
}

#[test]
fn the_first_base_counts_for_all_links() {
    for (page, expected) in [
        (
            "<a href=x><base href=/b/><base href=/c/><a href=y>",
            ["/b/x", "/b/y"],
        ),
        (
            "<base target=_top><base href=../b/><a href=x><a href=y>",
            ["/b/x", "/b/y"],
        ),
        (
            "<template><base href=/b/></template><a href=x><a href=y>",
            ["/dir/x", "/dir/y"],
        ),
        (
            "<base href='http://['><base href=/b/><a href=x><a href=y>",
            ["/dir/x", "/dir/y"],
        ),
        (
            "<base href=data:,b><a href=x><a href=y>",
            ["/dir/x", "/dir/y"],
        ),
        (
            "<base href=\"/b?&amp;/\"><a href=x><a href=?y>",
            ["/x", "/b?y"],
        ),
    ] {
        assert_eq!(links(page), expected, "{page}");
    }
}

#[test]
fn only_the_first_refresh_counts() {
    let page = "<meta http-equiv=refresh content=x><meta http-equiv=refresh content='1;url=/x'>\
                <meta http-equiv=refresh content='1;url=/y'>";
    assert_eq!(links(page), ["/x"]);
}

#[test]
fn robots_directives_are_heard() {
    for (page, nofollow, noarchive) in [
        ("<a href=x>", false, false),
        ("<a href=x><meta name=robots content=nofollow>", true, false),
        (
            "<META NAME=Robots CONTENT='NoIndex'><a href=x>",
            false,
            true,
        ),
        ("<meta name=robots content=none><a href=x>", true, true),
        (
            "<meta name=PeerCrawl content='noindex,nofollow'><a href=x>",
            true,
            true,
        ),
        ("<meta name=otherbot content=none><a href=x>", false, false),
        (
            "<meta name=robots content=noindex><meta name=peercrawl content=all><a href=x>",
            false,
            true,
        ),
        (
            "<template><meta name=robots content=none></template><a href=x>",
            false,
            false,
        ),
    ] {
        let mut scanner = scanner();
        let found = scanner.scan(page.as_bytes(), None, &Url::parse(PAGE).unwrap());
        assert_eq!(
            (found.directives.nofollow, found.directives.noarchive),
            (nofollow, noarchive),
            "{page}"
        );
        assert_eq!(found.links().count(), usize::from(!nofollow), "{page}");
    }
}

#[test]
fn pages_are_read_in_their_charset() {
    let path = "http://h.test/%C3%A9";
    for (body, query) in [
        (
            &b"<meta charset=windows-1252><a href='/\xe9?\xe9'>"[..],
            "%E9",
        ),
        (
            b"<meta charset=utf-8><a href='/\xc3\xa9?\xc3\xa9'>",
            "%C3%A9",
        ),
        (b"<a href='/\xc3\xa9?\xc3\xa9'>", "%C3%A9"),
        (b"<a href='/\xe9?\xe9'>", "%E9"),
        (
            b"<meta charset=shift_jis><a href='/&eacute;?&eacute;'>",
            "%26%23233%3B",
        ),
        (b"<meta charset=gbk><a href='/\xa8\xa6?\xa8\xa6'>", "%A8%A6"),
    ] {
        assert_eq!(
            links_of(body, None),
            [format!("{path}?{query}")],
            "{body:?}"
        );
    }
    let page = "<a href='/é?é'>";
    let little: Vec<u8> = page.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = page.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let marked = [b"\xff\xfe".to_vec(), little.clone()].concat();
    let expected = [format!("{path}?%C3%A9")];
    assert_eq!(
        links_of(&little, Some("text/html; charset=utf-16le")),
        expected
    );
    assert_eq!(
        links_of(&big, Some("text/html; charset=utf-16be")),
        expected
    );
    assert_eq!(links_of(&marked, None), expected);
    // In ISO-2022-JP, bytes that look like markup are halves of characters.
    let (kanji, ..) = encoding_rs::ISO_2022_JP.encode("<a href='/x' title='辞爾璽'><a href=/y>");
    let header = Some("text/html; charset=iso-2022-jp");
    assert_eq!(
        links_of(&kanji, header),
        ["http://h.test/x", "http://h.test/y"]
    );
}

#[test]
fn a_scanner_carries_nothing_over_to_the_next_page() {
    let mut scanner = scanner();
    let page = Url::parse(PAGE).unwrap();
    let first = "<base href=/b/><meta name=robots content=none><svg><template><a href=/x>";
    assert!(
        scanner
            .scan(first.as_bytes(), None, &page)
            .directives
            .nofollow
    );
    let found = scanner.scan(b"<template></template><a href=y>", None, &page);
    assert_eq!((found.directives.nofollow, &found.base), (false, &page));
    assert_eq!(found.hrefs().collect::<Vec<_>>(), ["y"]);
}

#[test]
fn one_huge_page_does_not_keep_its_memory() {
    let mut scanner = scanner();
    let page = Url::parse(PAGE).unwrap();
    let huge = "<a href=/x>".repeat(1_000_000);
    assert_eq!(
        scanner.scan(huge.as_bytes(), None, &page).hrefs().len(),
        1_000_000
    );
    scanner.scan(b"", None, &page);
    assert!(scanner.hrefs.text.capacity() <= KEPT_BYTES);
    assert!(scanner.hrefs.ends.capacity() * size_of::<usize>() <= KEPT_BYTES);
}

/// Pages built to be slow. Four times the page may take about four times as
/// long; a quadratic scanner would take sixteen times. Only this thread's own time on a
/// processor counts: what else the machine does is none of the page's fault.
#[test]
fn hostile_pages_cost_no_more_than_their_length() {
    let page = Url::parse(PAGE).unwrap();
    for part in [
        "<div>",
        "<svg>",
        "<template>",
        "<svg><title>",
        "<a x='",
        "<a x y=1 ",
        " x=y",
        "<",
        "</",
        "<!",
        "<!--",
        "<!--->",
        "--!",
        "<script>",
        "<script><!--",
        "<title>",
        "</title",
        "<a href='&#1",
        "&",
        "&#9",
        "&ampamp",
        "<a href=/x>",
        "<meta charset",
        "<svg><![CDATA[",
        "<math><mi>",
        "<p",
        "<a rel='a a' href=x>",
        "<base href=x>",
        "]]",
        "-",
        "\0",
        "\u{e9}",
    ] {
        for prefix in [
            "",
            "<a href=\"",
            "<script><!--<script>",
            "<!--",
            "<svg><![CDATA[",
            "<a ",
        ] {
            let time = |parts: usize| {
                let body = format!("{prefix}{}", part.repeat(parts / part.len()));
                (0..3)
                    .map(|_| {
                        let start = ThreadTime::now();
                        scanner().scan(body.as_bytes(), None, &page);
                        start.elapsed()
                    })
                    .min()
                    .unwrap()
            };
            let (small, large) = (time(50_000), time(200_000));
            // A little more: whoever shares a processor shares its caches, too.
            let limit = small * 8 + Duration::from_millis(50);
            assert!(large <= limit, "{prefix} {part}: {small:?}, then {large:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_bytes_make_it_panic(body: Vec<u8>, content_type: Option<String>) {
        let page = Url::parse(PAGE).unwrap();
        let mut scanner = scanner();
        let found = scanner.scan(&body, content_type.as_deref(), &page);
        prop_assert!(found.links().count() <= body.len());
    }

    #[test]
    fn no_markup_makes_it_panic(
        parts in prop::collection::vec(prop::sample::select(PARTS), 0..40),
        charset in prop::sample::select(&["utf-8", "utf-16", "gb18030", "iso-2022-jp", "big5"][..]),
    ) {
        let body = parts.concat();
        let page = Url::parse(PAGE).unwrap();
        let mut scanner = scanner();
        let header = format!("text/html; charset={charset}");
        let found = scanner.scan(&body, Some(&header), &page);
        prop_assert!(found.links().count() <= body.len());
    }
}

#[rustfmt::skip] // One a line would fill screens.
const PARTS: &[&[u8]] = &[
    b"<", b">", b"/", b"=", b"'", b"\"", b" ", b"a", b"<a href=", b"<a ", b"&", b"&#", b"&amp",
    b"<!--", b"-->", b"--!>", b"<![CDATA[", b"]]>", b"<script>", b"</script", b"<svg>",
    b"<title/>", b"</svg>", b"<template>", b"</template>",
    b"<meta http-equiv=refresh content='", b"0;url=", b"<base href=", b"\x80", b"\xc3\xa9",
    b"\xff\xfe", b"\x1b$B", b"\0", b"\n", b"<meta charset=",
];
