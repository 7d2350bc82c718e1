//! The archive as the window shows it: its files, its size, and single pages.
//!
//! Looking through the archive reads its indexes, which can be long. That is done in a
//! thread of its own, now and then while the screen is open.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use peercrawl_ui::format;
use peercrawl_ui::model::{self, ArchiveFile, Field, Found, LookUp, View};

use super::desk::Desk;
use super::engine_stage::EngineStage;
use super::link::Order;
use super::moving::{self, COMPLETE, INDEX};
use super::settings::GB;
use super::{addresses, tasks};
use crate::archive::{ArchiveError, Reader};
use crate::canonical::CanonicalForm;
use crate::engine::Engine;

/// How often the files are looked through while somebody looks.
const PERIOD: Duration = Duration::from_secs(5);

impl Desk {
    /// Where the archive is; `None` if nothing is kept.
    pub fn archive_folder(&self) -> Option<PathBuf> {
        let data = self.data.as_ref().filter(|_| self.demo.is_none());
        data.map(|data| data.archive())
    }

    /// Has the archive looked through, if that was not done just now.
    pub fn look_through_archive(&mut self) {
        let now = Instant::now();
        let asked = &mut self.state.picture.archive_asked;
        if asked.is_some_and(|at| now < at + PERIOD) {
            return;
        }
        *asked = Some(now);
        if let Some(folder) = self.archive_folder() {
            let look = move || files(&folder).map(Order::Archive);
            tasks::start(&self.orders, "archive", move || {
                look().unwrap_or_else(|why| Order::Done(Err(why.to_string())))
            });
        }
    }

    /// What the screen shows besides the files.
    pub fn archive(&self) -> model::Archive {
        let files = &self.state.picture.archive_files;
        let folder = self.archive_folder();
        let limit_gb = u64::from(self.shown.disk_gb);
        let exact = self.config.archive.limit_bytes;
        let writer = self.engine().map(Engine::ledger);
        let writer = writer.filter(|ledger| ledger.archives());
        let on_disk = || files.iter().map(|file| file.bytes).sum();
        model::Archive {
            // Another folder may stand behind a link.
            folder: folder.map_or_else(String::new, |path| {
                let real = std::fs::canonicalize(&path).unwrap_or(path);
                real.display().to_string()
            }),
            pages: files.iter().map(|file| file.pages).sum(),
            // Who writes it knows best.
            bytes: writer.map_or_else(on_disk, |ledger| ledger.archive_bytes()),
            limit_bytes: match exact.div_ceil(GB) == limit_gb {
                true => exact,
                false => limit_gb * GB,
            },
            oldest_bytes: files.last().map_or(0, |file| file.bytes),
            full: writer.is_some_and(|ledger| ledger.is_archive_full()),
            look_up: self.state.look_up.clone(),
        }
    }

    /// Whether the archive's files have an owner that is neither there nor gone.
    fn is_archive_between_owners(&self) -> bool {
        let engine = &self.state.engine;
        matches!(engine, EngineStage::Starting(_) | EngineStage::Ending(_))
    }

    /// Looks a page up.
    pub fn look_up(&mut self, text: &str) {
        self.forget_problem(Field::LookUp);
        let form = CanonicalForm::new(&self.config.crawl.session_ids);
        let url = match addresses::web_address(&form, text) {
            Ok(url) => url.to_string(),
            Err(why) => return self.problem(Field::LookUp, why),
        };
        let mut answer = LookUp {
            url: url.clone(),
            found: Found::Looking,
        };
        match self.archive_folder() {
            Some(folder) => {
                tasks::start(&self.orders, "look-up", move || match find(&folder, &url) {
                    Ok(found) => Order::Found(url, found),
                    Err(why) => Order::Done(Err(format!("The archive cannot be read: {why}"))),
                })
            }
            None => answer.found = Found::Nothing,
        }
        self.state.look_up = Some(answer);
    }

    /// Deletes the oldest file and its index. Whoever writes the archive does it, so that
    /// the room counts at once.
    pub fn drop_oldest(&mut self) {
        let Some(folder) = self.archive_folder() else {
            return self.fail("The demo keeps no pages.");
        };
        if self.is_archive_between_owners() {
            return self.fail("Try again in a moment: the crawl is just starting or ending.");
        }
        self.state.picture.archive_asked = None;
        let nothing = "There is no file that could be deleted.";
        let deleted = |bytes: u64| match bytes {
            0 => Err(nothing.to_owned()),
            bytes => Ok(format!(
                "The oldest file was deleted. {} are free.",
                format::bytes(bytes)
            )),
        };
        if let Some(engine) = self.engine() {
            let orders = self.orders.clone();
            let is_taken = engine.ledger().with_archive(move |writer| {
                let dropped = writer.drop_oldest().map_err(|why| why.to_string());
                // A desk with so many orders waiting tells the volunteer of the next one.
                let _busy = orders.try_send(Order::ArchiveChanged(dropped.and_then(deleted)));
            });
            if !is_taken {
                self.fail(nothing);
            }
            return;
        }
        match moving::drop_oldest(&folder) {
            Ok(true) => self.say("The oldest file was deleted."),
            Ok(false) => self.fail(nothing),
            Err(why) => self.fail(format!("The oldest file could not be deleted: {why}")),
        }
    }

    /// Moves the files elsewhere. They are part of this archive no more: they do not
    /// count, and what comes later is stored where it always was.
    pub fn move_archive(&mut self, folder: &Path) {
        self.forget_problem(Field::ArchiveFolder);
        let Some(from) = self.archive_folder() else {
            return self.problem(Field::ArchiveFolder, "The demo keeps no pages.");
        };
        if self.is_archive_between_owners() {
            let why = "Try again in a moment: the crawl is just starting or ending.";
            return self.problem(Field::ArchiveFolder, why);
        }
        let to = match moving::prepare(&from, folder) {
            Ok(to) => to,
            Err(why) => return self.problem(Field::ArchiveFolder, why.to_string()),
        };
        let orders = self.orders.clone();
        let begin = move |names: Result<Vec<String>, String>| match names {
            Err(why) => Order::ArchiveChanged(Err(why)),
            Ok(names) if names.is_empty() => {
                Order::ArchiveChanged(Err("There is no file to move yet.".to_owned()))
            }
            Ok(names) => Order::MoveFiles { from, to, names },
        };
        if let Some(engine) = self.engine() {
            let is_taken = engine.ledger().with_archive(move |writer| {
                let names = writer.give_away().map_err(|why| why.to_string());
                // See above; the files count again when the program starts the next time.
                let _busy = orders.try_send(begin(names));
            });
            if !is_taken {
                self.problem(Field::ArchiveFolder, "There is no file to move yet.");
            }
            return;
        }
        let names = self.archive_folder().map(|from| moving::complete(&from));
        let names = names.unwrap_or_else(|| Ok(Vec::new()));
        let order = begin(names.map_err(|why| why.to_string()));
        self.take(order);
    }

    /// Moves files that nobody writes to any more, in a thread of its own.
    pub fn move_files(&mut self, from: PathBuf, to: PathBuf, names: Vec<String>) {
        let files = format::counted(names.len() as u64, "file", "files");
        self.say(format!("Moving {files} to {}.", to.display()));
        tasks::start(&self.orders, "move-archive", move || {
            Order::ArchiveChanged(match moving::move_files(&from, &to, &names) {
                Ok(()) => Ok(format!(
                    "{files} moved to {}. What is there no longer counts here.",
                    to.display()
                )),
                Err(why) => Err(format!("Not all files could be moved: {why}")),
            })
        });
    }
}

/// The files in a folder, newest first.
fn files(folder: &Path) -> Result<Vec<ArchiveFile>, ArchiveError> {
    let mut files: BTreeMap<String, ArchiveFile> = BTreeMap::new();
    Reader::new(folder).list(|entry| {
        let at_ms = millis(&entry.timestamp);
        let file = files.entry(entry.filename).or_insert_with_key(|name| {
            let size = |name: &str| std::fs::metadata(folder.join(name)).map(|found| found.len());
            let is_open = size(name).is_err();
            let open = if is_open { ".open" } else { "" };
            let index = name.trim_end_matches(COMPLETE);
            // With its index, as the limit counts it. A file that has just been completed
            // or removed is looked at again soon.
            let bytes = size(&format!("{name}{open}")).unwrap_or(0)
                + size(&format!("{index}{INDEX}{open}")).unwrap_or(0);
            ArchiveFile {
                name: if is_open {
                    format!("{name}.open")
                } else {
                    name.clone()
                },
                bytes,
                pages: 0,
                from_ms: at_ms,
                to_ms: at_ms,
            }
        });
        file.pages += 1;
        file.from_ms = file.from_ms.min(at_ms);
        file.to_ms = file.to_ms.max(at_ms);
    })?;
    let mut files: Vec<ArchiveFile> = files.into_values().collect();
    files.sort_by(|one, other| (other.to_ms, &other.name).cmp(&(one.to_ms, &one.name)));
    Ok(files)
}

/// The rows of the table that the window wants.
pub fn rows(files: &[ArchiveFile], rows: &Range<usize>) -> View<ArchiveFile> {
    let end = rows.end.min(files.len());
    let first = rows.start.min(end);
    View {
        total: files.len(),
        first,
        rows: files[first..end].to_vec(),
    }
}

fn find(folder: &Path, url: &str) -> Result<Found, ArchiveError> {
    let found = Reader::new(folder).get(url)?;
    Ok(found.map_or(Found::Nothing, |found| Found::Page {
        at_ms: millis(&found.entry.timestamp),
        status: found.entry.status.parse().unwrap_or(0),
        bytes: found.entry.length,
        mime: match found.entry.is_revisit() {
            true => "same as a page stored before".to_owned(),
            false => found.entry.media_type,
        },
        file: found.entry.filename,
    }))
}

/// The time of an index line; 0 if it is none.
fn millis(timestamp: &str) -> u64 {
    let time = DateTime::strptime("%Y%m%d%H%M%S", timestamp).ok();
    let time = time.and_then(|time| time.to_zoned(TimeZone::UTC).ok());
    time.map_or(0, |time| time.timestamp().as_millisecond().max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_archive_and_a_time_are_read() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(files(folder.path()).unwrap(), []);
        assert_eq!(find(folder.path(), "http://a/").unwrap(), Found::Nothing);
        assert_eq!(millis("20261116043626"), 1_794_803_786_000);
        assert_eq!(millis("yesterday"), 0);
    }
}
