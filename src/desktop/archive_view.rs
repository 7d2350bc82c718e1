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
use peercrawl_ui::model::{self, ArchiveFile, Field, Found, LookUp, View};

use super::desk::Desk;
use super::link::Order;
use super::settings::GB;
use super::{addresses, tasks};
use crate::archive::{ArchiveError, Reader};
use crate::canonical::CanonicalForm;

/// How often the files are looked through while somebody looks.
const PERIOD: Duration = Duration::from_secs(5);

/// The ending of a complete file.
const COMPLETE: &str = ".warc.gz";
/// The endings that belong to one file of the archive.
const ENDINGS: [&str; 2] = [COMPLETE, ".cdxj"];

impl Desk {
    /// Where the archive is.
    pub fn archive_folder(&self) -> Option<PathBuf> {
        self.data.as_ref().map(|data| data.archive())
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
        let limit_bytes = u64::from(self.shown.disk_gb) * GB;
        let bytes = files.iter().map(|file| file.bytes).sum();
        let oldest = files.last().filter(|file| file.name.ends_with(COMPLETE));
        model::Archive {
            folder: folder.map_or_else(String::new, |path| path.display().to_string()),
            pages: files.iter().map(|file| file.pages).sum(),
            bytes,
            limit_bytes,
            oldest_bytes: oldest.map_or(0, |file| file.bytes),
            disk_free_bytes: None,
            full: limit_bytes > 0 && bytes >= limit_bytes,
            look_up: self.state.look_up.clone(),
        }
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

    /// Deletes the oldest complete file and its index.
    pub fn drop_oldest(&mut self) {
        let files = &self.state.picture.archive_files;
        let oldest = files
            .iter()
            .rev()
            .find(|file| file.name.ends_with(COMPLETE));
        let (Some(folder), Some(oldest)) = (self.archive_folder(), oldest) else {
            return self.fail("There is no complete file that could be deleted.");
        };
        let name = oldest.name.trim_end_matches(COMPLETE).to_owned();
        for ending in ENDINGS {
            let path = folder.join(format!("{name}{ending}"));
            if let Err(why) = std::fs::remove_file(&path) {
                return self.fail(format!("{}: {why}", path.display()));
            }
        }
        self.state.picture.archive_asked = None;
        self.say("The oldest file was deleted.");
    }
}

/// The files in a folder, newest first.
fn files(folder: &Path) -> Result<Vec<ArchiveFile>, ArchiveError> {
    let mut files: BTreeMap<String, ArchiveFile> = BTreeMap::new();
    Reader::new(folder).list(|entry| {
        let at_ms = millis(&entry.timestamp);
        let file = files.entry(entry.filename).or_insert_with_key(|name| {
            let path = folder.join(name);
            let open = folder.join(format!("{name}.open"));
            let size = |path: &Path| std::fs::metadata(path).map(|found| found.len()).ok();
            let (is_open, bytes) = match size(&path) {
                Some(bytes) => (false, bytes),
                None => (true, size(&open).unwrap_or(0)),
            };
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
