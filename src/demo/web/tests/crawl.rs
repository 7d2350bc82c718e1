//! A small crawler of another make than ours, against the truth: html5ever's tokenizer reads
//! the links, the `url` crate resolves them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use url::Url;

use super::super::{Naming, Web, WebSpec};
use super::client::{Client, Page};
use super::rules::Rules;
use super::{namings, small, start};

#[derive(Default)]
struct Links {
    found: RefCell<Vec<String>>,
    base: RefCell<Option<String>>,
    nofollow: Cell<bool>,
    templates: Cell<u32>,
}

impl Links {
    fn tag(&self, tag: &Tag) {
        let attribute = |name: &str| {
            let found = tag
                .attrs
                .iter()
                .find(|attribute| &*attribute.name.local == name);
            found.map(|attribute| attribute.value.to_string())
        };
        let rel = attribute("rel").unwrap_or_default().to_ascii_lowercase();
        let rel: Vec<&str> = rel.split_ascii_whitespace().collect();
        let link = match &*tag.name {
            "a" | "area" if !rel.contains(&"nofollow") => attribute("href"),
            "link"
                if rel
                    .iter()
                    .any(|rel| ["next", "canonical", "alternate"].contains(rel)) =>
            {
                attribute("href")
            }
            "iframe" | "frame" => attribute("src"),
            "base" => {
                self.base
                    .borrow_mut()
                    .get_or_insert_with(|| attribute("href").unwrap_or_default());
                None
            }
            "meta" => {
                let content = attribute("content").unwrap_or_default();
                let robots =
                    attribute("name").is_some_and(|name| name.eq_ignore_ascii_case("robots"));
                if robots && content.to_ascii_lowercase().contains("nofollow") {
                    self.nofollow.set(true);
                }
                let refresh = attribute("http-equiv")
                    .is_some_and(|name| name.eq_ignore_ascii_case("refresh"));
                refresh.then(|| content.split('\'').nth(1).expect("a quoted URL").to_owned())
            }
            _ => None,
        };
        if self.templates.get() == 0 {
            self.found.borrow_mut().extend(link);
        }
    }
}

impl TokenSink for Links {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else {
            return TokenSinkResult::Continue;
        };
        let start = tag.kind == TagKind::StartTag;
        match &*tag.name {
            "template" if start => self.templates.set(self.templates.get() + 1),
            "template" => self.templates.set(self.templates.get().saturating_sub(1)),
            "script" if start => return TokenSinkResult::RawData(RawKind::ScriptData),
            "title" | "textarea" if start => return TokenSinkResult::RawData(RawKind::Rcdata),
            "style" if start => return TokenSinkResult::RawData(RawKind::Rawtext),
            "iframe" if start => {
                self.tag(&tag);
                return TokenSinkResult::RawData(RawKind::Rawtext);
            }
            _ if start => self.tag(&tag),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

/// The links of a page that may be followed, resolved.
fn links(url: &Url, page: &Page) -> Vec<Url> {
    let content_type = page
        .headers
        .get("content-type")
        .map_or("text/html", String::as_str)
        .to_ascii_lowercase();
    if !content_type.starts_with("text/html") || page.headers.contains_key("x-robots-tag") {
        return Vec::new();
    }
    let label = content_type
        .split("charset=")
        .nth(1)
        .unwrap_or("utf-8")
        .trim_matches('"');
    let charset = encoding_rs::Encoding::for_label(label.as_bytes()).expect("a known charset");
    // `decode` lets a byte order mark win, as the standard does.
    let text = charset.decode(&page.body).0;
    let tokenizer = Tokenizer::new(Links::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(&*text));
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    if tokenizer.sink.nofollow.get() {
        return Vec::new();
    }
    let base = match &*tokenizer.sink.base.borrow() {
        Some(base) => url.join(base).expect("a base"),
        None => url.clone(),
    };
    let found = tokenizer.sink.found.borrow();
    found
        .iter()
        .map(|link| canonical(base.join(link).expect("a URL")))
        .filter(|url| url.scheme() == "http")
        .collect()
}

/// As much of a canonical form as the web's spellings need.
fn canonical(mut url: Url) -> Url {
    url.set_fragment(None);
    let query: Vec<&str> = url
        .query()
        .map(|query| query.split('&').collect())
        .unwrap_or_default();
    let kept: Vec<&str> = query
        .into_iter()
        .filter(|pair| !pair.starts_with("utm_"))
        .collect();
    let kept = (!kept.is_empty()).then(|| kept.join("&"));
    url.set_query(kept.as_deref());
    let path = url
        .path()
        .replace("%7E", "~")
        .replace("%7e", "~")
        .replace("%c3%a9", "%C3%A9");
    let path = path
        .split(";jsessionid=")
        .next()
        .unwrap_or_default()
        .to_owned();
    if url.scheme() == "http" {
        url.set_path(&path);
    }
    url
}

fn is_trap(url: &Url) -> bool {
    let repeated = url
        .path_segments()
        .into_iter()
        .flatten()
        .filter(|&segment| segment == "next")
        .count();
    repeated > 3 || url.as_str().len() > 2_048
}

/// The rules of each host, read over HTTP as a crawler reads them.
fn rules(web: &Web, client: &mut Client<'_>) -> HashMap<String, Rules> {
    let authorities = web.plan.hosts.iter().map(|host| host.authority.to_string());
    let mut fetch = |url: &Url| client.get(url.as_str()).expect("robots.txt or none");
    authorities
        .map(|authority| {
            let mut url = Url::parse(&format!("http://{authority}/robots.txt")).expect("a URL");
            let mut page = fetch(&url);
            while let Some(location) = page.headers.get("location") {
                url = canonical(url.join(location).expect("a location"));
                page = fetch(&url);
            }
            let text = if page.status == 200 {
                String::from_utf8(page.body).expect("UTF-8")
            } else {
                String::new()
            };
            (authority, Rules::read(&text, "peercrawl"))
        })
        .collect()
}

struct Outcome {
    pages: BTreeSet<String>,
    contents: HashSet<Vec<u8>>,
    redirects: u64,
    client_errors: u64,
    server_errors: u64,
    resets: u64,
    forbidden: u64,
    traps: u64,
}

/// Crawls the web, newest URL first if `deep`, so that the order is another.
fn crawl(web: &Web, deep: bool) -> Outcome {
    let mut outcome = Outcome {
        pages: BTreeSet::new(),
        contents: HashSet::new(),
        redirects: 0,
        client_errors: 0,
        server_errors: 0,
        resets: 0,
        forbidden: 0,
        traps: 0,
    };
    let mut client = Client::new(web);
    let rules = rules(web, &mut client);
    let mut queue: VecDeque<Url> = web
        .seeds()
        .iter()
        .map(|seed| Url::parse(seed).expect("a URL"))
        .collect();
    let mut seen: HashSet<Url> = queue.iter().cloned().collect();
    while let Some(url) = if deep {
        queue.pop_back()
    } else {
        queue.pop_front()
    } {
        if is_trap(&url) {
            outcome.traps += 1;
            continue;
        }
        if !rules[url.authority()].allow(&url[url::Position::BeforePath..]) {
            outcome.forbidden += 1;
            continue;
        }
        let page = match client.get(url.as_str()) {
            Ok(Page {
                status: 429 | 503, ..
            })
            | Err(_) => client.get(url.as_str()),
            page => page,
        };
        let mut found = Vec::new();
        match page {
            Err(_) => outcome.resets += 1,
            Ok(page) => match page.status {
                200 => {
                    // As our crawler does: only new content is read for links.
                    if outcome.contents.insert(page.body.clone()) {
                        found = links(&url, &page);
                    }
                    outcome.pages.insert(url.to_string());
                }
                300..400 => {
                    outcome.redirects += 1;
                    found.push(canonical(
                        url.join(&page.headers["location"]).expect("a location"),
                    ));
                }
                400..500 => outcome.client_errors += 1,
                _ => outcome.server_errors += 1,
            },
        }
        queue.extend(found.into_iter().filter(|url| seen.insert(url.clone())));
    }
    outcome
}

fn check(spec: WebSpec, deep: bool) {
    let web = start(spec);
    let truth = web.truth();
    let outcome = crawl(&web, deep);
    let log = web.log();
    assert_eq!(log.examples, Vec::<String>::new());
    let missed: Vec<String> = truth
        .urls()
        .into_iter()
        .filter(|url| !outcome.pages.contains(url))
        .collect();
    assert_eq!(missed, Vec::<String>::new());
    assert_eq!(outcome.pages.len() as u64, truth.reachable);
    assert_eq!(outcome.contents.len() as u64, truth.distinct_contents);
    assert_eq!(outcome.redirects, truth.redirects);
    assert_eq!(
        (outcome.client_errors, outcome.server_errors),
        (truth.client_errors, truth.server_errors)
    );
    assert_eq!(outcome.resets, truth.resets);
    assert_eq!(outcome.forbidden, truth.robots_blocked);
    assert_eq!(outcome.traps, truth.trapped_repeated + truth.trapped_long);
    assert_eq!(
        (log.served, log.fetched_twice, log.overlaps),
        (truth.reachable, 0, 0)
    );
}

#[test]
fn another_crawler_finds_just_what_the_truth_says() {
    for naming in namings() {
        check(
            WebSpec {
                naming,
                ..small(20, 1_500, 21)
            },
            false,
        );
    }
}

#[test]
fn the_order_of_visits_changes_nothing() {
    check(small(6, 700, 33), true);
    check(small(1, 300, 34), true);
}

#[test]
fn webs_of_all_sizes_and_seeds_are_as_they_say() {
    for seed in 1..4 {
        check(small(1, 3, seed), false);
        check(small(3, 30, seed), true);
        check(small(9, 250, seed), false);
    }
    // Its host 2 has its robots.txt elsewhere.
    check(small(9, 250, 100), false);
    check(
        WebSpec {
            oddities: false,
            ..small(5, 200, 1)
        },
        false,
    );
    check(
        WebSpec {
            naming: Naming::Names,
            threads: 3,
            ..small(3, 100, 2)
        },
        false,
    );
}
