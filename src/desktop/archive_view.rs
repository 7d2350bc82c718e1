//! The archive as the window shows it: its files, its size, and single pages.
//!
//! Looking through the archive reads its indexes, which can be long. That is done in a
//! thread of its own, now and then while the screen is open, and once for each complete
//! file.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use peercrawl_ui::format;
use peercrawl_ui::model::{self, ArchiveFile, Field, Found, LookUp, View};

use super::desk::Desk;
use super::engine_stage::EngineStage;
use super::link::Order;
use super::moving;
use super::settings::GB;
use super::{addresses, tasks};
use crate::archive::{ArchiveError, Reader, StoredFile, Writer, is_ours};
use crate::canonical::{CanonicalForm, CanonicalUrl};
use crate::engine::Engine;
use crate::ledger::NotTaken;

/// How often the files are looked through while somebody looks.
const PERIOD: Duration = Duration::from_secs(5);

/// What is known of the archive's files.
#[derive(Debug, Default)]
pub struct Shelf {
    /// The files, newest first.
    pub files: Vec<ArchiveFile>,
    /// What the rest of the data directory takes.
    pub besides_bytes: u64,
    /// Why they could not be looked through the last time; empty if they could.
    pub trouble: String,
    /// When they were last looked through.
    looked: Option<Instant>,
    /// Where they are, as it was found out once.
    folder: OnceCell<String>,
    /// The thread that looks through them has a share in this as long as it does.
    looking: Arc<()>,
    /// The same of the thread that moves some of them elsewhere.
    moving: Arc<()>,
    /// The same of the thread that looks a page up.
    looking_up: Arc<()>,
}

impl Shelf {
    /// Whether it is time to look through the files. A look may take longer than the time
    /// between two, and nobody needs a second one meanwhile.
    fn is_due(&self, now: Instant) -> bool {
        !is_held(&self.looking) && self.looked.is_none_or(|at| now >= at + PERIOD)
    }
}

fn is_held(token: &Arc<()>) -> bool {
    Arc::strong_count(token) > 1
}

impl Desk {
    /// Where the archive is; `None` if nothing is kept.
    pub fn archive_folder(&self) -> Option<PathBuf> {
        let data = self.data.as_ref().filter(|_| self.demo.is_none());
        data.map(|data| data.archive())
    }

    /// Has the archive looked through, if that was not done just now.
    pub fn look_through_archive(&mut self) {
        let (now, folder) = (Instant::now(), self.archive_folder());
        let data = self.data.clone();
        let shelf = &mut self.state.picture.shelf;
        if !shelf.is_due(now) {
            return;
        }
        shelf.looked = Some(now);
        if let Some(folder) = folder {
            let (token, known) = (shelf.looking.clone(), shelf.files.clone());
            tasks::start(&self.orders, "archive", move || {
                let _looking = token;
                match files(&folder, &known) {
                    Ok(files) => Order::Archive {
                        files,
                        besides_bytes: data.map_or(0, |data| besides(data.path(), &folder)),
                    },
                    Err(why) => Order::ArchiveUnreadable(why.to_string()),
                }
            });
        }
    }

    /// Files were moved or deleted, or should have been: they are looked through again,
    /// and whoever writes the archive counts what is here. What is on its way does not
    /// count; if it stays, that is told when the move is over.
    pub fn archive_changed(&mut self) {
        self.state.picture.shelf.looked = None;
        if let Some(engine) = self.engine()
            && !is_held(&self.state.picture.shelf.moving)
        {
            match engine.ledger().with_archive(count_again) {
                Ok(()) | Err(NotTaken::NoArchive) => {}
                Err(busy) => tracing::warn!("the archive is counted with the next change: {busy}"),
            }
        }
    }

    /// What the screen shows besides the files.
    pub fn archive(&self) -> model::Archive {
        let shelf = &self.state.picture.shelf;
        let files = &shelf.files;
        let folder = self.archive_folder();
        let limit_gb = u64::from(self.shown.disk_gb);
        let exact = self.config.archive.limit_bytes;
        let writer = self.engine().map(Engine::ledger);
        let writer = writer.filter(|ledger| ledger.archives());
        let on_disk = || files.iter().map(|file| file.bytes).sum();
        // The files of others are never dropped.
        let oldest = files.iter().rev().find(|file| is_ours(&file.name));
        model::Archive {
            // Another folder may stand behind a link.
            folder: folder.map_or_else(String::new, |path| {
                let real = || std::fs::canonicalize(&path).unwrap_or(path);
                let shown = shelf.folder.get_or_init(|| real().display().to_string());
                shown.clone()
            }),
            pages: files.iter().map(|file| file.pages).sum(),
            // Who writes it knows best.
            bytes: writer.map_or_else(on_disk, |ledger| ledger.archive_bytes()),
            besides_bytes: shelf.besides_bytes,
            limit_bytes: match exact.div_ceil(GB) == limit_gb {
                true => exact,
                false => limit_gb * GB,
            },
            oldest_bytes: oldest.map_or(0, |file| file.bytes),
            full: writer.is_some_and(|ledger| ledger.is_archive_full()),
            look_up: self.state.look_up.clone().filter(|answer| {
                // What went wrong has been said, and nobody looks any more.
                answer.found != Found::Looking || is_held(&shelf.looking_up)
            }),
        }
    }

    /// Why the archive's files must be left alone at present, if that is so: their owner is
    /// neither there nor gone, or they are on their way elsewhere.
    fn why_not_now(&self) -> Option<&'static str> {
        match self.state.engine {
            EngineStage::Starting(_) | EngineStage::Ending(_) => {
                Some("Try again in a moment: the crawl is just starting or ending.")
            }
            _ if is_held(&self.state.picture.shelf.moving) => {
                Some("Try again later: files are just being moved.")
            }
            _ => None,
        }
    }

    /// Looks a page up.
    pub fn look_up(&mut self, text: &str) {
        self.forget_problem(Field::LookUp);
        let form = CanonicalForm::new(&self.config.crawl.session_ids);
        let (url, other) = match addresses::either_address(&form, text) {
            Ok((url, other)) => (url.to_string(), other.map(CanonicalUrl::into_string)),
            Err(why) => return self.problem(Field::LookUp, why),
        };
        let mut answer = LookUp {
            url: url.clone(),
            found: Found::Looking,
        };
        match self.archive_folder() {
            Some(folder) => {
                let token = self.state.picture.shelf.looking_up.clone();
                tasks::start(&self.orders, "look-up", move || {
                    let _looking_up = token;
                    match find_either(&folder, &url, other) {
                        Ok(answer) => Order::Found(url, answer),
                        Err(why) => Order::Done(Err(format!("The archive cannot be read: {why}"))),
                    }
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
        if let Some(why) = self.why_not_now() {
            return self.fail(why);
        }
        self.state.picture.shelf.looked = None;
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
            let taken = engine.ledger().with_archive(move |writer| {
                let dropped = writer.drop_oldest().map_err(|why| why.to_string());
                // A desk with so many orders waiting tells the volunteer of the next one.
                let _busy = orders.try_send(Order::ArchiveChanged(dropped.and_then(deleted)));
            });
            match taken {
                Ok(()) => {}
                Err(NotTaken::NoArchive) => self.fail(nothing),
                Err(busy) => self.fail(format!("The oldest file was not deleted: {busy}")),
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
        if let Some(why) = self.why_not_now() {
            return self.problem(Field::ArchiveFolder, why);
        }
        if let Err(why) = moving::check(&from, folder) {
            return self.problem(Field::ArchiveFolder, why.to_string());
        }
        let (orders, to) = (self.orders.clone(), folder.to_owned());
        let begin = move |names: Result<Vec<String>, String>| match names {
            Err(why) => Order::ArchiveChanged(Err(why)),
            Ok(names) if names.is_empty() => {
                Order::ArchiveChanged(Err("There is no file to move yet.".to_owned()))
            }
            Ok(names) => Order::MoveFiles { from, to, names },
        };
        if let Some(engine) = self.engine() {
            let taken = engine.ledger().with_archive(move |writer| {
                let names = writer.give_away().map_err(|why| why.to_string());
                if orders.try_send(begin(names)).is_err() {
                    // See above; nobody moves them.
                    count_again(writer);
                }
            });
            match taken {
                Ok(()) => {}
                Err(NotTaken::NoArchive) => {
                    self.problem(Field::ArchiveFolder, "There is no file to move yet.");
                }
                Err(busy) => {
                    self.problem(Field::ArchiveFolder, format!("Nothing was moved: {busy}"));
                }
            }
            return;
        }
        // Nothing may have been stored yet.
        let from = self.archive_folder().filter(|from| from.exists());
        let names = from.map(|from| moving::complete(&from));
        let names = names.unwrap_or_else(|| Ok(Vec::new()));
        let order = begin(names.map_err(|why| why.to_string()));
        self.take(order);
    }

    /// Moves files that nobody writes to any more, in a thread of its own.
    pub fn move_files(&mut self, from: PathBuf, to: PathBuf, names: Vec<String>) {
        let files = format::counted(names.len() as u64, "file", "files");
        self.say(format!("Moving {files} to {}.", to.display()));
        let token = self.state.picture.shelf.moving.clone();
        tasks::start(&self.orders, "move-archive", move || {
            let _moving = token;
            let moved = moving::prepare(&from, &to)
                .map_err(|why| format!("No file was moved to {}: {why}", to.display()))
                .and_then(|to| {
                    let moved = moving::move_files(&from, &to, &names);
                    moved.map_err(|why| why.to_string())
                });
            Order::ArchiveChanged(moved.map(|()| {
                let to = to.display();
                format!("{files} moved to {to}. What is there no longer counts here.")
            }))
        });
    }
}

fn count_again(writer: &mut Writer) {
    if let Err(why) = writer.count_again() {
        tracing::warn!("the archive counts its files at the next start: {why}");
    }
}

/// The files in a folder that have pages, newest first. One that is complete never
/// changes: if it is known, by its name and size, it is not read again.
fn files(folder: &Path, known: &[ArchiveFile]) -> Result<Vec<ArchiveFile>, ArchiveError> {
    let known: HashMap<&str, &ArchiveFile> = known
        .iter()
        .map(|file| (file.name.as_str(), file))
        .collect();
    let mut files = Vec::new();
    for stored in Reader::new(folder).files()? {
        let is_same = |file: &&&ArchiveFile| stored.is_complete && file.bytes == stored.bytes;
        files.push(match known.get(stored.name.as_str()).filter(is_same) {
            Some(&file) => file.clone(),
            None => read(&stored)?,
        });
    }
    files.retain(|file| file.pages > 0);
    files.sort_by(|one, other| (other.to_ms, &other.name).cmp(&(one.to_ms, &one.name)));
    Ok(files)
}

/// What a folder takes without its archive. Files come and go meanwhile: those that are not
/// there any more take nothing.
fn besides(folder: &Path, archive: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let bytes = entries.flatten().map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() && entry.path() != archive => besides(&entry.path(), archive),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |file| file.len()),
        _ => 0,
    });
    bytes.sum()
}

fn read(stored: &StoredFile) -> Result<ArchiveFile, ArchiveError> {
    let mut file = ArchiveFile {
        name: stored.name.clone(),
        bytes: stored.bytes,
        pages: 0,
        from_ms: u64::MAX,
        to_ms: 0,
    };
    stored.list(|entry| {
        let at_ms = millis(&entry.timestamp);
        file.pages += 1;
        file.from_ms = file.from_ms.min(at_ms);
        file.to_ms = file.to_ms.max(at_ms);
    })?;
    Ok(file)
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

/// Takes in what was found. A look-up may take longer than the one after it: what nobody waits
/// for any more is no answer.
pub fn take_answer(asked: &mut Option<LookUp>, url: &str, answer: LookUp) {
    if let Some(asked) = asked.as_mut().filter(|asked| asked.url == url) {
        *asked = answer;
    }
}

/// What is stored of a page, or else of the other one that may have been meant.
fn find_either(folder: &Path, url: &str, other: Option<String>) -> Result<LookUp, ArchiveError> {
    let found = find(folder, url)?;
    if found == Found::Nothing
        && let Some(other) = other
    {
        let found = find(folder, &other)?;
        if found != Found::Nothing {
            return Ok(LookUp { url: other, found });
        }
    }
    let url = url.to_owned();
    Ok(LookUp { url, found })
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
        assert_eq!(files(folder.path(), &[]).unwrap(), []);
        let nothing_yet = folder.path().join("archive");
        assert_eq!(files(&nothing_yet, &[]).unwrap(), []);
        assert_eq!(find(folder.path(), "http://a/").unwrap(), Found::Nothing);
        assert_eq!(millis("20261116043626"), 1_794_803_786_000);
        assert_eq!(millis("yesterday"), 0);
    }

    #[test]
    fn what_is_no_archive_is_counted_too() {
        let data = tempfile::tempdir().unwrap();
        let archive = data.path().join("archive");
        for (folder, bytes) in [("", 3), ("state/tables", 40), ("archive", 500)] {
            let folder = data.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("file"), vec![0; bytes]).unwrap();
        }
        assert_eq!(besides(data.path(), &archive), 43);
        assert_eq!(besides(&data.path().join("nowhere"), &archive), 0);
    }

    /// All indexes were read every five seconds, as long as somebody looked.
    #[test]
    fn a_complete_file_is_read_once_and_an_open_one_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let index = |name: &str, timestamps: &[&str]| {
            let line = |at: &&str| {
                format!(
                    r#"a)/ {at} {{"url":"http://a/","mime":"text/html","status":"200","digest":"","length":"1","offset":"0","filename":"{name}.warc.gz"}}"#
                ) + "\n"
            };
            timestamps.iter().map(line).collect::<String>()
        };
        let write =
            |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
        write("a.warc.gz", "archive");
        write("a.cdxj", &index("a", &["20261116043626", "20261116043628"]));
        write("b.warc.gz.open", "");
        write("b.cdxj.open", &index("b", &["20261116043629"]));
        let first = files(folder.path(), &[]).unwrap();
        let told: Vec<_> = first
            .iter()
            .map(|one| (one.name.as_str(), one.pages))
            .collect();
        assert_eq!(told, [("b.warc.gz.open", 1), ("a.warc.gz", 2)]);
        assert_eq!(first[1].to_ms - first[1].from_ms, 2_000);
        // Other lines of the same length: whoever reads them sees the difference.
        write("a.cdxj", &index("a", &["20261116043626", "20261116043627"]));
        write("b.cdxj.open", &index("b", &["20261116043620"]));
        let second = files(folder.path(), &first).unwrap();
        assert_eq!(second[0], first[1]);
        assert_eq!(second[1].to_ms, first[0].to_ms - 9_000);
        write("a.warc.gz", "another archive");
        let third = files(folder.path(), &second).unwrap();
        assert_eq!(third[0].to_ms, first[1].to_ms - 1_000);
    }

    /// A slow look-up took the place of the answer to the one after it.
    #[test]
    fn only_the_last_look_up_is_answered() {
        let looking = |url: &str| {
            Some(LookUp {
                url: url.to_owned(),
                found: Found::Looking,
            })
        };
        let answer = |url: &str| LookUp {
            url: url.to_owned(),
            found: Found::Nothing,
        };
        let mut asked = looking("http://b/");
        take_answer(&mut asked, "http://a/", answer("http://a/"));
        assert_eq!(asked, looking("http://b/"));
        take_answer(&mut asked, "http://b/", answer("http://b/"));
        assert_eq!(asked, Some(answer("http://b/")));
        let mut nobody = None;
        take_answer(&mut nobody, "http://a/", answer("http://a/"));
        assert_eq!(nobody, None);
    }

    #[test]
    fn one_look_at_a_time() {
        let (mut shelf, now) = (Shelf::default(), Instant::now());
        assert!(shelf.is_due(now));
        let token = shelf.looking.clone();
        assert!(!shelf.is_due(now), "a slow one is still under way");
        drop(token);
        shelf.looked = Some(now);
        assert!(!shelf.is_due(now));
        assert!(shelf.is_due(now + PERIOD));
    }
}
