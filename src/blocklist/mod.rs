//! The block list: sites that this peer never visits.
//!
//! Entries come from three places: the settings (`crawl.blocked_sites`), a file
//! (`crawl.block_file`) that is read again when it changes, and the user of a running
//! engine. Whoever admits or fetches asks [`BlockList::is_blocked`], which costs a few
//! look-ups however long the list is. The format, which is also the format in which site
//! owners can opt out, is in `docs/opt-out.md`.
//!
//! Invariant: an entry that cannot be read is told of and passed over; a file that cannot
//! be read leaves what was blocked blocked.
//!
//! - [`pattern`]: what one entry means
//! - `file`: the file, and when it has changed

mod file;
pub mod pattern;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use file::BlockFile;
pub use pattern::{NoPattern, Pattern};

use crate::clock::Millis;
use crate::config;

/// See the module.
pub struct BlockList {
    /// What is asked; replaced as a whole when any source changes.
    current: ArcSwap<Patterns>,
    sources: Mutex<Sources>,
    /// Goes up whenever more may be blocked than before.
    version: AtomicU64,
}

/// Where entries come from.
struct Sources {
    settings: Vec<Pattern>,
    file: Option<BlockFile>,
    from_file: Vec<Pattern>,
    by_user: Vec<Pattern>,
}

/// All entries, ready to be asked.
#[derive(Debug, Default)]
struct Patterns {
    domains: HashSet<Box<str>>,
    under: HashSet<Box<str>>,
    only: HashSet<Box<str>>,
    globs: Vec<Box<str>>,
    /// Most lists are, and most questions come on the way of a page.
    is_empty: bool,
}

impl Patterns {
    fn new<'a>(all: impl Iterator<Item = &'a Pattern>) -> Self {
        let mut all = all.peekable();
        let mut patterns = Self {
            is_empty: all.peek().is_none(),
            ..Self::default()
        };
        let mut globs = BTreeSet::new();
        for pattern in all.cloned() {
            match pattern {
                Pattern::Domain(name) => drop(patterns.domains.insert(name)),
                Pattern::Under(name) => drop(patterns.under.insert(name)),
                Pattern::Only(name) => drop(patterns.only.insert(name)),
                Pattern::Glob(name) => drop(globs.insert(name)),
            }
        }
        patterns.globs = globs.into_iter().collect();
        patterns
    }

    fn is_blocked(&self, host: &str) -> bool {
        if self.is_empty {
            return false;
        }
        if self.only.contains(host) || self.domains.contains(host) {
            return true;
        }
        // An address has no hosts under it, though its parts look like names.
        let is_address = host.starts_with('[') || host.ends_with(|c: char| c.is_ascii_digit());
        let mut rest = host;
        while let Some((_, above)) = rest.split_once('.').filter(|_| !is_address) {
            if self.domains.contains(above) || self.under.contains(above) {
                return true;
            }
            rest = above;
        }
        let globs = self.globs.iter();
        globs
            .into_iter()
            .any(|glob| pattern::glob_matches(glob, host))
    }
}

impl BlockList {
    /// The list of these settings, with its file read for the first time.
    pub fn new(settings: &config::Crawl, now_ms: Millis) -> Self {
        let read = |text: &String| match Pattern::parse(text) {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                tracing::warn!("crawl.blocked_sites: {error}");
                None
            }
        };
        let file = Some(settings.block_file.as_str()).filter(|path| !path.is_empty());
        let list = Self {
            current: ArcSwap::default(),
            sources: Mutex::new(Sources {
                settings: settings.blocked_sites.iter().filter_map(read).collect(),
                file: file.map(|path| BlockFile::new(PathBuf::from(path))),
                from_file: Vec::new(),
                by_user: Vec::new(),
            }),
            // What an earlier run left waiting has not been looked through.
            version: AtomicU64::new(1),
        };
        list.rebuild(&list.sources.lock());
        list.reload(now_ms);
        list
    }

    /// A list of these entries alone. Those that cannot be read are passed over: whoever reads
    /// them from the settings tells of that.
    pub fn of(entries: &[String]) -> Self {
        let read = |text: &String| Pattern::parse(text).ok();
        let list = Self {
            current: ArcSwap::default(),
            sources: Mutex::new(Sources {
                settings: entries.iter().filter_map(read).collect(),
                file: None,
                from_file: Vec::new(),
                by_user: Vec::new(),
            }),
            version: AtomicU64::new(1),
        };
        list.rebuild(&list.sources.lock());
        list
    }

    /// Whether a host, as canonical URLs spell it, is never visited.
    pub fn is_blocked(&self, host: &str) -> bool {
        self.current.load().is_blocked(host)
    }

    /// Whether nothing is blocked at all.
    pub fn is_empty(&self) -> bool {
        self.current.load().is_empty
    }

    /// Goes up whenever more may be blocked than before: then what is queued must be
    /// looked through.
    pub fn version(&self) -> u64 {
        self.version.load(SeqCst)
    }

    /// Blocks what an entry means, from now on.
    pub fn block(&self, pattern: Pattern) {
        let mut sources = self.sources.lock();
        if !sources.by_user.contains(&pattern) {
            sources.by_user.push(pattern);
        }
        self.rebuild(&sources);
        self.version.fetch_add(1, SeqCst);
    }

    /// Takes back what the user of the running engine or the settings blocked. An entry
    /// of the file stays until it is taken out of the file. Tells whether there was one.
    pub fn unblock(&self, pattern: &Pattern) -> bool {
        let mut sources = self.sources.lock();
        let Sources {
            by_user, settings, ..
        } = &mut *sources;
        let before = by_user.len() + settings.len();
        by_user.retain(|other| other != pattern);
        settings.retain(|other| other != pattern);
        let is_gone = by_user.len() + settings.len() < before;
        self.rebuild(&sources);
        is_gone
    }

    /// Reads the file again if it has changed; to be called every second or so, from a
    /// thread that may wait for the disk.
    pub fn reload(&self, now_ms: Millis) {
        // The file is taken out meanwhile: no lock is held across I/O.
        let Some(mut file) = self.sources.lock().file.take() else {
            return;
        };
        let news = file.read_if_changed(now_ms);
        let mut sources = self.sources.lock();
        sources.file = Some(file);
        if let Some(patterns) = news {
            sources.from_file = patterns;
            self.rebuild(&sources);
            self.version.fetch_add(1, SeqCst);
        }
    }

    fn rebuild(&self, sources: &Sources) {
        let settings = sources.settings.iter();
        let all = settings.chain(&sources.from_file).chain(&sources.by_user);
        self.current.store(Patterns::new(all).into());
    }
}
