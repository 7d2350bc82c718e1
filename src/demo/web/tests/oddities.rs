//! That what is odd is really there, on the wire and in the bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::time::{Duration, SystemTime};

use super::super::page::{Encoding, Framing, Kind, Manner};
use super::super::paths::{Target, What};
use super::super::render::Desk;
use super::super::{Web, WebSpec};
use super::client::{Client, connect};
use super::{small, start};

/// All pages of the web, with what they are.
fn pages(web: &Web) -> Vec<(Target, Kind)> {
    (0..web.plan.spec.pages)
        .map(|id| web.plan.place(id))
        .map(|(host, number)| {
            (
                Target {
                    host,
                    what: What::Page(number),
                },
                web.plan.kind(host, number),
            )
        })
        .collect()
}

fn number(target: Target) -> u32 {
    match target.what {
        What::Page(number) => number,
        other => panic!("{other:?} is no page"),
    }
}

/// The answer to one request, byte for byte.
fn raw(web: &Web, target: Target, accept: &str) -> Vec<u8> {
    let url = web.plan.url(target);
    let authority = &*web.plan.hosts[target.host as usize].authority;
    let path = &url["http://".len() + authority.len()..];
    let mut stream = connect(web, authority).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\nAccept-Encoding: {accept}\r\n\r\n")
        .expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    bytes
}

fn has(bytes: &[u8], what: &str) -> bool {
    memchr::memmem::find(bytes, what.as_bytes()).is_some()
}

#[test]
fn a_web_of_some_size_has_pages_of_every_kind() {
    let web = start(small(20, 3_000, 6));
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    for (_, kind) in pages(&web) {
        let name = format!("{kind:?}");
        *kinds
            .entry(name.split('(').next().unwrap_or_default().to_owned())
            .or_default() += 1;
    }
    // All but the plain pages of a web without oddities.
    assert_eq!(kinds.len(), 18, "{kinds:?}");
    assert_eq!(kinds["Empty"], 1);
    assert!(kinds["Mirror"] > 150 && kinds["Rich"] > 1_800, "{kinds:?}");
}

#[test]
fn bodies_travel_in_every_way_and_are_the_same_in_each() {
    let web = start(small(5, 700, 12));
    let mut met = BTreeSet::new();
    let mut desk = Desk::default();
    for (target, _) in pages(&web) {
        let (encoding, framing) = web.plan.wire(target.host, number(target));
        let usual = (encoding, framing) == (Encoding::Identity, Framing::Length);
        if usual || web.plan.manner(target.host, number(target)) != Manner::Prompt {
            continue;
        }
        let bytes = raw(&web, target, "gzip, deflate, br");
        assert_eq!(
            has(&bytes, "Content-Encoding: gzip"),
            encoding == Encoding::Gzip
        );
        assert_eq!(
            has(&bytes, "Content-Encoding: deflate"),
            encoding == Encoding::Deflate
        );
        assert_eq!(
            has(&bytes, "Content-Encoding: br"),
            encoding == Encoding::Brotli
        );
        assert_eq!(
            has(&bytes, "Transfer-Encoding: chunked"),
            framing == Framing::Chunked
        );
        assert_eq!(
            bytes.starts_with(b"HTTP/1.0 200"),
            framing == Framing::Http10
        );
        assert_eq!(has(&bytes, "Content-Length"), framing == Framing::Length);
        // Who does not offer to decompress gets it as it is.
        assert!(!has(
            &raw(&web, target, "identity, gzip;q=0"),
            "Content-Encoding"
        ));
        let mut body = Vec::new();
        web.plan
            .body(target.host, number(target), &mut desk, &mut body);
        let page = Client::new(&web)
            .get(&web.plan.url(target))
            .expect("a page");
        assert!(page.body == body, "{target:?}");
        met.insert(format!("{encoding:?}"));
        met.insert(format!("{framing:?}"));
    }
    assert_eq!(met.len(), 8, "{met:?}");
}

#[test]
fn charsets_are_as_wrong_as_they_should_be() {
    let web = start(small(20, 3_000, 6));
    let all = pages(&web);
    let answer = |wanted: Kind| {
        let plain = |target: Target| {
            web.plan.wire(target.host, number(target)) == (Encoding::Identity, Framing::Length)
        };
        let found = all
            .iter()
            .find(|&&(target, kind)| kind == wanted && plain(target));
        raw(&web, found.expect("a page of this kind").0, "identity")
    };
    let latin1 = answer(Kind::Latin1Header);
    assert!(has(&latin1, "charset=iso-8859-1\r\n") && has(&latin1, "<meta charset=\"utf-8\">"));
    assert!(has(
        &answer(Kind::Utf8Bom),
        "\r\n\r\n\u{feff}<!DOCTYPE html>"
    ));
    assert!(std::str::from_utf8(&answer(Kind::InvalidUtf8)).is_err());
    let cyrillic = answer(Kind::Windows1251);
    let (text, _, malformed) = encoding_rs::WINDOWS_1251.decode(&cyrillic);
    assert!(text.contains(">Ссылка</a>") && !malformed);
    let wide = answer(Kind::Utf16Le);
    let at = memchr::memmem::find(&wide, b"\r\n\r\n").expect("a head") + 4;
    assert!(
        encoding_rs::UTF_16LE
            .decode(&wide[at..])
            .0
            .starts_with("<!DOCTYPE html>")
    );
    assert!(!has(&answer(Kind::NoType), "Content-Type"));
    assert!(has(
        &answer(Kind::NoFollowHeader),
        "X-Robots-Tag: nofollow\r\n"
    ));
    for kind in [
        Kind::NoFollowMeta,
        Kind::NoFollowHeader,
        Kind::Text,
        Kind::Pdf,
        Kind::Png,
    ] {
        assert!(has(&answer(kind), "/phantom/"), "{kind:?}");
    }
}

#[test]
fn the_first_request_is_refused_where_it_should_be_and_says_when_to_come_back() {
    let web = start(WebSpec {
        request_log: 1_000,
        ..small(20, 2_000, 4)
    });
    let mut client = Client::new(&web);
    let mut waits = BTreeSet::new();
    for (target, _) in pages(&web) {
        let Manner::RefusedFirst { status, as_date } = web.plan.manner(target.host, number(target))
        else {
            continue;
        };
        let url = web.plan.url(target);
        let refused = client.get(&url).expect("an answer");
        assert_eq!(refused.status, status);
        let wait = &refused.headers["retry-after"];
        if as_date {
            let date = httpdate::parse_http_date(wait).expect("a date");
            assert!(date < SystemTime::now() + Duration::from_secs(3));
        } else {
            assert_eq!(wait, "1");
        }
        waits.insert((status, as_date));
        assert_eq!(client.get(&url).expect("the page").status, 200);
    }
    assert_eq!(
        waits.into_iter().collect::<Vec<_>>(),
        [(429, false), (503, false), (503, true)]
    );
}

#[test]
fn resets_are_resets_and_loops_are_loops() {
    let web = start(small(1, 300, 4));
    let mut client = Client::new(&web);
    let root = web.seeds()[0].clone();
    for _ in 0..2 {
        assert!(client.get(&format!("{root}cut.html")).is_err());
    }
    let reset = web.plan.hosts[0].roles.reset_first.expect("such a page");
    let reset = web.plan.url(Target {
        host: 0,
        what: What::Page(reset),
    });
    assert!(client.get(&reset).is_err());
    assert_eq!(client.get(&reset).expect("the page").status, 200);
    for path in ["loop/a", "loop/b", "loop/self", "moved/inside"] {
        let status = client
            .get(&format!("{root}{path}"))
            .expect("an answer")
            .status;
        assert!(
            [301, 302, 303, 307, 308].contains(&status),
            "{path} {status}"
        );
    }
    let served = web.log();
    assert_eq!((served.served, served.overlaps), (1, 0), "{served:?}");
}
