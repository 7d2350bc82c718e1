//! The robots parser, fed with mutated files for a minute.
//!
//! `.ci/run` runs it on the stable toolchain (`PEERCRAWL_FUZZ_SECS`, 60 unless told). The
//! corpus is every file of `docs/robots-cases.md`, so that mutations begin where the
//! rules are. The generator is seeded: a failure prints the file, and comes again.

use std::time::{Duration, Instant};

use peercrawl::robots::{PARSED_LIMIT_BYTES, Robots, RobotsTag};

/// What mutations splice in.
const WORDS: &[&str] = &[
    "User-agent:",
    "user-agent : *",
    "Disallow:",
    "Allow:",
    "Crawl-delay:",
    "Sitemap:",
    "*",
    "$",
    "**",
    "*$",
    "/",
    "//",
    "%",
    "%2F",
    "%2a",
    "%zz",
    "%E3%83%84",
    "ツ",
    "\u{feff}",
    "\r",
    "\n",
    "\r\n",
    "#",
    ":",
    "?",
    "&",
    "=",
    "peercrawl",
    "foobot",
    "0",
    "9999999999999999999999",
    "1e9",
    ".5",
    " ",
    "\t",
    "\0",
    "noindex",
    "unavailable_after:",
];

/// A generator of numbers, the same in every run (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound.max(1)
    }
}

/// The files of the published table.
fn corpus() -> Vec<Vec<u8>> {
    let page = include_str!("../../docs/robots-cases.md");
    let mut files = Vec::new();
    let mut file: Option<Vec<u8>> = None;
    for line in page.lines() {
        match (&mut file, line) {
            (None, "```robots") => file = Some(Vec::new()),
            (Some(_), "```") => files.extend(file.take()),
            (Some(text), line) => text.extend([line.as_bytes(), b"\n"].concat()),
            _ => {}
        }
    }
    assert!(files.len() > 10, "{} files", files.len());
    files
}

fn mutate(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut text = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(12) {
        let at = random.below(text.len() + 1);
        let until = at + random.below(40).min(text.len() - at);
        match random.below(9) {
            0 => drop(text.splice(at..at, WORDS[random.below(WORDS.len())].bytes())),
            1 => drop(text.drain(at..until)),
            2 => {
                let piece = text[at..until].to_vec();
                let again = 1 + random.below(30);
                drop(text.splice(at..at, piece.repeat(again)));
            }
            3 if at < text.len() => text[at] ^= 1 << random.below(8),
            4 if at < text.len() => text[at] = random.next() as u8,
            5 => text.truncate(at),
            6 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len() + 1);
                drop(text.splice(at..at, other[from..].iter().copied()));
            }
            // Once in a while, around the limit of what is read.
            7 if random.below(200) == 0 && !text.is_empty() => {
                text = text.repeat(PARSED_LIMIT_BYTES / text.len() + 1);
                text.truncate(PARSED_LIMIT_BYTES - 20 + random.below(40));
            }
            _ => drop(text.splice(at..at, WORDS[random.below(WORDS.len())].bytes())),
        }
    }
    text
}

/// What must hold for any bytes at all.
fn check(text: &[u8], agent: &str, path: &str) {
    let robots = Robots::parse(text, agent);
    let verdict = robots.is_allowed(path);
    assert!(
        robots.is_allowed("/robots.txt"),
        "the file itself is always allowed"
    );
    assert!(robots.crawl_delay().unwrap_or_default() <= Duration::from_secs(300));
    assert!(robots.sitemaps().len() <= 100);
    assert_eq!(Robots::parse(text, agent), robots, "the same again");
    let record = postcard::to_stdvec(&robots).unwrap();
    let moved: Robots = postcard::from_bytes(&record).unwrap();
    assert_eq!(moved, robots, "the same on another peer");
    assert_eq!(moved.is_allowed(path), verdict);
    // However lines end, and whatever comes in comments between them, while all of it is read.
    let lines: Vec<_> = text.split(|byte| matches!(byte, b'\r' | b'\n')).collect();
    for end in ["\r", "\r\n", "\n# Allow: /\n"] {
        let other = lines.join(end.as_bytes());
        if text.len().max(other.len()) <= PARSED_LIMIT_BYTES {
            assert_eq!(Robots::parse(&other, agent), robots, "lines end in {end:?}");
        }
    }
    let tag = RobotsTag::from_headers([text, b"none"], agent);
    assert!(
        tag.noarchive && tag.nofollow,
        "whatever stands in other headers"
    );
}

/// Tells which file it was, if a check fails.
struct OnFailure<'a>(&'a [u8], &'a str, &'a str);

impl Drop for OnFailure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (text, agent, path) = (self.0.escape_ascii(), self.1, self.2);
            eprintln!("agent {agent:?}, path {path:?}, file b\"{text}\"");
        }
    }
}

fn fuzz(time: Duration) -> u64 {
    let corpus = corpus();
    let mut random = Random(9309);
    let begun = Instant::now();
    let mut executions = 0;
    while begun.elapsed() < time {
        let text = mutate(&mut random, &corpus);
        let agent = ["peercrawl", "foobot", "foobot-news", "", "*", "ü"][random.below(6)];
        let from = random.below(text.len() + 1);
        let until = from + random.below(60).min(text.len() - from);
        let path = match random.below(3) {
            0 => "/foo/bar?baz=https://foo.bar".to_owned(),
            // A piece of the file, so that rules have something to match.
            _ => format!("/{}", String::from_utf8_lossy(&text[from..until])),
        };
        let _told = OnFailure(&text, agent, &path);
        check(&text, agent, &path);
        executions += 1;
    }
    executions
}

#[test]
fn a_second_of_mutated_robots_files() {
    assert!(fuzz(Duration::from_secs(1)) > 100);
}

#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn robots_fuzz_for_a_minute() {
    let secs = std::env::var("PEERCRAWL_FUZZ_SECS");
    let secs = secs.map_or(60, |secs| secs.parse().unwrap());
    let executions = fuzz(Duration::from_secs(secs));
    println!("{executions} executions in {secs} s");
    assert!(executions > 1_000);
}
