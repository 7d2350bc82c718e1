//! The published tables row by row, and what must hold for any text.

// A test that cannot be set up has failed, and says so.
#![allow(clippy::expect_used)]

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use url::Url;

use super::{CanonicalForm, CanonicalUrl, Refusal, TEXT_LIMIT_BYTES, URL_LIMIT_BYTES};

const PAGE: &str = include_str!("../../docs/canonical-form.md");

/// The rows of the page's tables: the cells that stand between backquotes, then
/// the last cell.
fn rows() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    PAGE.lines().filter_map(|line| {
        let cells = line.strip_prefix("| `")?.strip_suffix(" |")?;
        let (quoted, last) = cells.rsplit_once("` | ")?;
        Some((quoted.split("` | `").collect(), last))
    })
}

#[test]
fn published_examples() {
    let form = CanonicalForm::default();
    let mut checked = 0;
    for (cells, rule) in rows() {
        let [text, expected] = cells[..] else {
            continue;
        };
        checked += 1;
        let canonical = form.parse(text);
        assert_eq!(
            canonical.as_ref().map(CanonicalUrl::as_str),
            Ok(expected),
            "{text}: {rule}"
        );
        assert_eq!(form.parse(expected), canonical, "{expected} is not stable");
    }
    assert!(checked >= 60, "only {checked} rows were found");
}

#[test]
fn published_refusals() {
    let form = CanonicalForm::default();
    let mut checked = 0;
    for (cells, reason) in rows() {
        let [text] = cells[..] else { continue };
        checked += 1;
        let found = match form.parse(text) {
            Err(Refusal::Scheme) => "scheme",
            Err(Refusal::Host) => "host",
            Err(Refusal::NotAUrl(_)) => "not a URL",
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(found, reason, "{text}");
    }
    assert!(checked >= 15, "only {checked} rows were found");
}

#[test]
fn length_is_counted_when_the_session_ids_are_gone() {
    let form = CanonicalForm::default();
    let fits = format!("http://a.example/{}", "x".repeat(URL_LIMIT_BYTES - 17));
    assert!(form.parse(&fits).is_ok());
    assert!(form.parse(&format!("{fits}?utm_source=newsletter")).is_ok());
    assert_eq!(form.parse(&format!("{fits}x")), Err(Refusal::TooLong));
    let endless = "x".repeat(TEXT_LIMIT_BYTES + 1);
    assert_eq!(form.parse(&endless), Err(Refusal::TooLong));
}

#[test]
fn host_names_have_the_lengths_of_the_dns() {
    let form = CanonicalForm::default();
    let label = |n: usize| "a".repeat(n);
    let host = |last: usize| format!("{0}.{0}.{0}.{1}", label(63), label(last));
    assert!(form.parse(&format!("http://{}/", host(61))).is_ok());
    assert!(form.parse(&format!("http://{}./", host(61))).is_ok());
    assert_eq!(
        form.parse(&format!("http://{}/", host(62))),
        Err(Refusal::Host)
    );
    assert_eq!(
        form.parse(&format!("http://{}/", label(64))),
        Err(Refusal::Host)
    );
}

#[test]
fn parts() {
    let form = CanonicalForm::default();
    let url = form
        .parse("https://u@Example.com:8443/a?b#c")
        .expect("canonical");
    assert_eq!(url.scheme(), "https");
    assert_eq!(url.host(), "example.com");
    assert_eq!(url.port(), 8443);
    assert_eq!(url.origin(), "https://example.com:8443");
    assert_eq!(url.path_and_query(), "/a?b");
    assert!(url.is_https());
    assert_eq!(url.to_string(), "https://example.com:8443/a?b");

    let url = form.parse("http://[::1]/").expect("canonical");
    assert_eq!(
        (url.scheme(), url.host(), url.port()),
        ("http", "[::1]", 80)
    );
    assert_eq!((url.origin(), url.path_and_query()), ("http://[::1]", "/"));
    let url = form.parse("http://[::1]:81?x").expect("canonical");
    assert_eq!(
        (url.host(), url.port(), url.path_and_query()),
        ("[::1]", 81, "/?x")
    );
}

/// The promise of the fast path: the string that the parser made is the one kept.
#[test]
fn a_canonical_url_is_not_copied() {
    let form = CanonicalForm::default();
    for text in ["http://example.com/a?b=%20", "http://example.com/a;b?c#d"] {
        let url = Url::parse(text).expect("a URL");
        let before = url.as_str().as_ptr();
        let canonical = form.of(url).expect("canonical");
        assert_eq!(canonical.as_str().as_ptr(), before, "{text}");
    }
}

#[test]
fn the_list_of_session_ids_is_the_configured_one() {
    let form = CanonicalForm::new(&["Sid".into(), "track*".into(), String::new(), "*".into()]);
    let canonical = form
        .parse("http://a.example/;sid=1?sid=1&sids=2&TRACKER=3&track=4&=5&jsessionid=6")
        .expect("canonical");
    assert_eq!(
        canonical.as_str(),
        "http://a.example/?sids=2&=5&jsessionid=6"
    );
}

#[test]
fn peers_notice_different_rules() {
    let of = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        CanonicalForm::new(&names).rules_fingerprint()
    };
    assert_eq!(of(&["a", "B*"]), of(&["b*", "A", "a"]));
    assert_ne!(of(&["a", "b*"]), of(&["a", "b"]));
    assert_ne!(of(&["a", "b"]), of(&["a"]));
    assert_ne!(of(&["ab"]), of(&["a", "b"]));
    // Frozen: another value means another protocol. See RULES_VERSION.
    assert_eq!(
        CanonicalForm::default().rules_fingerprint(),
        0x63bf_d4f1_8365_2d8a
    );
}

#[test]
fn read_back_only_in_canonical_shape() {
    let url = CanonicalForm::default()
        .parse("http://a.example:81/x?y")
        .expect("canonical");
    let bytes = postcard::to_stdvec(&url).expect("serialises");
    let back: CanonicalUrl = postcard::from_bytes(&bytes).expect("deserialises");
    assert_eq!(back, url);
    assert_eq!(
        (back.host(), back.port(), back.origin()),
        ("a.example", 81, url.origin())
    );

    let long = format!("http://a.example/{}", "x".repeat(URL_LIMIT_BYTES));
    for refused in [
        "",
        "http",
        "http://",
        "http:///",
        "/x",
        "a.example",
        "http://a.example",
        "ftp://a.example/",
        "HTTP://a.example/",
        "http://A.example/",
        "http://a.example./",
        "http://u@a.example/",
        "http://a.example:80/",
        "https://a.example:443/",
        "http://a.example:/",
        "http://a.example:081/",
        "http://a.example:+81/",
        "http://a.example:99999/",
        "http://a.example/#x",
        "http://a.example/ x",
        "http://a.example/\r\nHost: b",
        "http://a.example/ü",
        "http://ü.example/",
        "http://[::1/",
        "http://[::1]x/",
        "http://[x]/",
        "http://[::1]:80/",
        &long,
    ] {
        let bytes = postcard::to_stdvec(refused).expect("serialises");
        assert!(
            postcard::from_bytes::<CanonicalUrl>(&bytes).is_err(),
            "{refused}"
        );
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2_048,
        rng_seed: RngSeed::Fixed(3986),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Pieces that have interacted badly with each other in somebody's crawler.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "/",
        "//",
        ".",
        "..",
        "/../",
        "/./",
        "%2e",
        "%2E%2e",
        ";",
        "&",
        "=",
        "?",
        "#",
        "%",
        "%%",
        "%2",
        "%25",
        "%34",
        "%31",
        "%41",
        "%7e",
        "%2f",
        "%zz",
        "%3B",
        "a",
        "4",
        "1",
        "ü",
        " ",
        "\\",
        "\t",
        "'",
        "|",
        "^",
        "+",
        "*",
        "$",
        ";jsessionid=1",
        "jsessionid",
        "jsessionid=",
        "%6Asessionid",
        "utm_",
        "utm_a=",
        "UTM%5Fb",
        "&phpsessid=2",
        "..;jsessionid=1",
        ".;cfid=",
        "@",
        ":",
        ":80",
    ])
}

fn url_like() -> impl Strategy<Value = String> {
    let authority = prop::sample::select(vec![
        "example.com",
        "EXAMPLE.com.",
        "u:p@a.example:80",
        "127.1",
        "[::1]:81",
        "b\u{fc}cher.example",
        "a.example:443",
    ]);
    let scheme = prop::sample::select(vec!["http://", "https://", "HTTP:", "http:\\\\"]);
    let pieces = prop::collection::vec(piece(), 0..16);
    (scheme, authority, pieces)
        .prop_map(|(scheme, authority, pieces)| format!("{scheme}{authority}/{}", pieces.concat()))
}

fn check_stable(text: &str) -> Result<(), TestCaseError> {
    let form = CanonicalForm::default();
    if let Ok(once) = form.parse(text) {
        let twice = form.parse(once.as_str());
        prop_assert_eq!(twice.as_ref(), Ok(&once), "from {:?}", text);
        let parsed = Url::parse(once.as_str()).expect("canonical URLs parse");
        prop_assert_eq!(
            parsed.as_str(),
            once.as_str(),
            "not as the standard spells it"
        );
        prop_assert_eq!(Some(once.host()), parsed.host_str());
        prop_assert_eq!(Some(once.port()), parsed.port_or_known_default());
        let bytes = postcard::to_stdvec(&once).expect("serialises");
        let back: CanonicalUrl =
            postcard::from_bytes(&bytes).expect("canonical URLs are read back");
        prop_assert_eq!(back, once);
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_stable(text in ".{0,60}") {
        check_stable(&text)?;
        check_stable(&format!("http://{text}"))?;
        check_stable(&format!("http://example.com/{text}"))?;
    }

    #[test]
    fn urls_are_stable(text in url_like()) {
        prop_assert!(!matches!(CanonicalForm::default().parse(&text), Err(Refusal::Scheme)));
        check_stable(&text)?;
    }

    #[test]
    fn escaped_spellings_are_one(path in "[a-z0-9._~-]{1,20}", mask in any::<u32>()) {
        let form = CanonicalForm::default();
        let escaped: String = path
            .bytes()
            .enumerate()
            .map(|(n, byte)| match mask >> (n % 32) & 1 {
                1 => format!("%{byte:02x}"),
                _ => char::from(byte).to_string(),
            })
            .collect();
        for prefix in ["http://example.com/", "http://example.com/?"] {
            let plain = form.parse(&format!("{prefix}{path}"));
            prop_assert_eq!(form.parse(&format!("{prefix}{escaped}")), plain);
        }
    }
}
