//! The file of a block list, read again when it changes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::Pattern;
use crate::clock::Millis;

/// A file larger than this is no list that somebody maintains.
const MOST_BYTES: u64 = 32 << 20;
/// How often the file is looked at.
const PERIOD_MS: u64 = 1_000;
/// A file that changed so lately may change again within the same tick of its clock.
const SETTLED: Duration = Duration::from_secs(3);
/// Lines that are complained about one by one.
const MOST_COMPLAINTS: usize = 5;

/// See the module.
pub struct BlockFile {
    path: PathBuf,
    /// What the file looked like when it was read; none if it must be read again.
    seen: Option<(SystemTime, u64)>,
    /// What is wrong with it, as last told: a complaint is not repeated every second.
    trouble: Option<String>,
    next_look_ms: Millis,
}

impl BlockFile {
    /// A file that has not been read yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: None,
            trouble: None,
            next_look_ms: 0,
        }
    }

    /// Its entries, if they may differ from those read last.
    pub fn read_if_changed(&mut self, now_ms: Millis) -> Option<Vec<Pattern>> {
        if now_ms < self.next_look_ms {
            return None;
        }
        self.next_look_ms = now_ms + PERIOD_MS;
        match self.look() {
            Ok(news) => {
                self.trouble = None;
                news
            }
            Err(error) => {
                let trouble = error.to_string();
                if self.trouble.as_ref() != Some(&trouble) {
                    let path = self.path.display();
                    tracing::warn!("block list {path}: {trouble}; what it blocked stays blocked");
                    self.trouble = Some(trouble);
                }
                None
            }
        }
    }

    fn look(&mut self) -> io::Result<Option<Vec<Pattern>>> {
        let known = fs::metadata(&self.path)?;
        let looks = (known.modified()?, known.len());
        if self.seen == Some(looks) {
            return Ok(None);
        }
        let mut text = Vec::new();
        File::open(&self.path)?
            .take(MOST_BYTES + 1)
            .read_to_end(&mut text)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(io::Error::other(format!("larger than {MOST_BYTES} bytes")));
        }
        let age = SystemTime::now().duration_since(looks.0);
        let is_settled = age.is_ok_and(|age| age > SETTLED) && text.len() as u64 == looks.1;
        self.seen = is_settled.then_some(looks);
        Ok(Some(parse(&String::from_utf8_lossy(&text), &self.path)))
    }
}

/// One entry a line; `#` begins a comment. Lines that are none are told of and passed over.
fn parse(text: &str, path: &Path) -> Vec<Pattern> {
    let mut patterns = Vec::new();
    let mut refused = 0;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in text.lines().enumerate() {
        let entry = line.split('#').next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        match Pattern::parse(entry) {
            Ok(pattern) => patterns.push(pattern),
            Err(error) => {
                refused += 1;
                if refused <= MOST_COMPLAINTS {
                    tracing::warn!("{}:{}: {error}", path.display(), number + 1);
                }
            }
        }
    }
    if refused > MOST_COMPLAINTS {
        tracing::warn!("{}: {refused} lines could not be read", path.display());
    }
    patterns
}
