//! From the bytes of a file to the rules that bind one crawler.
//!
//! Two passes over the lines: the first finds which product token of the file
//! names us best, the second collects the rules of every group that lists that
//! token. So rules meant for others are never stored, however many there are.

use super::matching::RuleSet;
use super::normal_form::spell_pattern;
use super::{CRAWL_DELAY_LIMIT_MS, PARSED_LIMIT_BYTES, Robots, SITEMAPS_LIMIT};

/// A sitemap's address longer than this is no address that we would fetch.
const SITEMAP_LIMIT_BYTES: usize = 2_048;

/// A line that means something to us.
enum Record<'a> {
    Agent(&'a [u8]),
    Rule { allow: bool, pattern: &'a [u8] },
    CrawlDelay(&'a [u8]),
    Sitemap(&'a [u8]),
}

pub(super) fn parse(text: &[u8], agent: &str) -> Robots {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let text = within_limit(text);
    let agent = product_token(agent.as_bytes());
    let chosen = records(text)
        .filter_map(|record| match record {
            Record::Agent(name) => match_length(name, agent),
            _ => None,
        })
        .max();

    let mut rules = String::new();
    let mut crawl_delay_ms = None;
    let mut sitemaps = Vec::new();
    // A group is a run of agents and what follows up to the next run. Only
    // rules end a run: other records in between change nothing (§2.2.4).
    let mut listing_agents = false;
    let mut ours = false;
    for record in records(text) {
        match record {
            Record::Agent(name) => {
                ours &= listing_agents;
                listing_agents = true;
                ours |= chosen.is_some() && match_length(name, agent) == chosen;
            }
            Record::Rule { allow, pattern } => {
                listing_agents = false;
                // An empty pattern matches nothing; nor does one that starts
                // with neither `/` nor a wildcard, as every path starts with `/`.
                if ours && matches!(pattern.first(), Some(b'/' | b'*')) {
                    rules.push(if allow { '+' } else { '-' });
                    spell_pattern(pattern, &mut rules);
                    rules.push('\n');
                }
            }
            Record::CrawlDelay(seconds) if ours => {
                crawl_delay_ms = crawl_delay_ms.max(delay_ms(seconds));
            }
            Record::CrawlDelay(_) => {}
            Record::Sitemap(address) => {
                if sitemaps.len() < SITEMAPS_LIMIT
                    && (1..=SITEMAP_LIMIT_BYTES).contains(&address.len())
                    && let Ok(address) = std::str::from_utf8(address)
                {
                    sitemaps.push(Box::from(address));
                }
            }
        }
    }
    Robots {
        rules: RuleSet::from_lines(rules),
        crawl_delay_ms,
        sitemaps: sitemaps.into_boxed_slice(),
    }
}

/// The part of a file that is read: whole lines within the limit. Half a line
/// could say the opposite of the whole one (`Disallow: /` of `Disallow: /tmp`).
fn within_limit(text: &[u8]) -> &[u8] {
    let is_line_end = |&byte: &u8| matches!(byte, b'\r' | b'\n');
    match text.get(PARSED_LIMIT_BYTES) {
        None => text,
        Some(next) if is_line_end(next) => &text[..PARSED_LIMIT_BYTES],
        Some(_) => {
            let kept = &text[..PARSED_LIMIT_BYTES];
            let end = kept.iter().rposition(is_line_end);
            &kept[..end.unwrap_or(0)]
        }
    }
}

fn records(text: &[u8]) -> impl Iterator<Item = Record<'_>> {
    text.split(|&byte| matches!(byte, b'\r' | b'\n'))
        .filter_map(record)
}

fn record(line: &[u8]) -> Option<Record<'_>> {
    if line.is_empty() {
        return None;
    }
    let end = memchr::memchr(b'#', line).unwrap_or(line.len());
    let colon = memchr::memchr(b':', &line[..end])?;
    let key = line[..colon].trim_ascii();
    let value = line[colon + 1..end].trim_ascii();
    let is = |name: &str| key.eq_ignore_ascii_case(name.as_bytes());
    if is("user-agent") {
        Some(Record::Agent(value))
    } else if is("disallow") || is("allow") {
        Some(Record::Rule {
            allow: is("allow"),
            pattern: value,
        })
    } else if is("crawl-delay") {
        Some(Record::CrawlDelay(value))
    } else if is("sitemap") {
        Some(Record::Sitemap(value))
    } else {
        None
    }
}

/// The part of a user agent that names the product: `FooBot` of `FooBot/2.1`.
/// The RFC allows letters, `-` and `_`; real crawlers have digits and dots too.
pub(super) fn product_token(name: &[u8]) -> &[u8] {
    let end = name
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'_' | b'.'))
        .unwrap_or(name.len());
    &name[..end]
}

/// How well a `User-agent` line fits us: 0 for `*`, the length of its product
/// token if it is ours or a more general form of ours (`foobot` for
/// `foobot-news`), nothing for another crawler's.
pub(super) fn match_length(name: &[u8], agent: &[u8]) -> Option<usize> {
    let token = product_token(name);
    if token.is_empty() {
        return matches!(name, [b'*'] | [b'*', b' ' | b'\t', ..]).then_some(0);
    }
    let start = agent.get(..token.len())?;
    let whole_word = matches!(agent.get(token.len()), None | Some(b'-' | b'_'));
    (whole_word && start.eq_ignore_ascii_case(token)).then_some(token.len())
}

/// Reads a number of seconds such as `2` or `0.5`, and caps it.
fn delay_ms(seconds: &[u8]) -> Option<u32> {
    if !seconds
        .iter()
        .all(|byte| byte.is_ascii_digit() || *byte == b'.')
    {
        return None;
    }
    let seconds: f64 = std::str::from_utf8(seconds).ok()?.parse().ok()?;
    // In range: it has no sign and the cap is far below the largest u32.
    Some(
        (seconds * 1000.0)
            .ceil()
            .min(f64::from(CRAWL_DELAY_LIMIT_MS)) as u32,
    )
}
