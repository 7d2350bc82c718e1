//! The volunteer's config file, changed from the window without losing a comment.
//!
//! Changes are collected for a moment, so that a field that is being dragged is not
//! written a hundred times. Then the file is read again (somebody may have edited it
//! meanwhile), changed in place, and replaced as a whole: there is always either the old
//! file or the new one.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use toml_edit::{DocumentMut, Item, Table, Value};

/// How long a change may wait for others.
const DELAY: Duration = Duration::from_millis(500);

/// See the module.
pub struct ConfigFile {
    /// `None` where nothing is to be kept, as in the demo.
    path: Option<PathBuf>,
    changes: BTreeMap<String, Value>,
    due: Option<Instant>,
}

/// Why the file could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It is no TOML: somebody is editing it, perhaps.
    #[error("{0} is not in order, and was left as it is: {1}")]
    NotToml(PathBuf, toml_edit::TomlError),
    /// A part of it is no section.
    #[error("`{0}` is no section of the config file")]
    NoSection(String),
    /// It could not be read or written.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
}

impl ConfigFile {
    /// The file at this path; it need not be there yet.
    pub fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            changes: BTreeMap::new(),
            due: None,
        }
    }

    /// A `section.key` has another value.
    pub fn set(&mut self, key: &str, value: Value, now: Instant) {
        self.changes.insert(key.to_owned(), value);
        self.due.get_or_insert(now + DELAY);
    }

    /// Writes what has waited long enough.
    pub fn write_if_due(&mut self, now: Instant) -> Result<(), WriteError> {
        match self.due {
            Some(due) if now >= due => self.write(),
            _ => Ok(()),
        }
    }

    /// Writes what waits. What cannot be written is given up: the next change would meet
    /// the same error, and the volunteer has been told.
    pub fn write(&mut self) -> Result<(), WriteError> {
        self.due = None;
        let changes = std::mem::take(&mut self.changes);
        let Some(path) = self.path.as_deref().filter(|_| !changes.is_empty()) else {
            return Ok(());
        };
        let io = |error| WriteError::Io(path.to_owned(), error);
        let old = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(io(error)),
        };
        let new = edited(&old, &changes).map_err(|error| match error {
            EditError::Toml(why) => WriteError::NotToml(path.to_owned(), why),
            EditError::NoSection(name) => WriteError::NoSection(name),
        })?;
        replace(path, new.as_bytes()).map_err(io)
    }
}

enum EditError {
    Toml(toml_edit::TomlError),
    NoSection(String),
}

/// The text with these keys changed, and everything else as it was.
fn edited(text: &str, changes: &BTreeMap<String, Value>) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse().map_err(EditError::Toml)?;
    for (key, value) in changes {
        let (section, name) = key.split_once('.').unwrap_or(("", key));
        let item = document
            .entry(section)
            .or_insert_with(|| Item::Table(Table::new()));
        let table = item
            .as_table_like_mut()
            .ok_or_else(|| EditError::NoSection(section.to_owned()))?;
        match table.get_mut(name).and_then(Item::as_value_mut) {
            Some(old) => {
                // A comment behind the value belongs to the line, not to the value.
                let decor = old.decor().clone();
                *old = value.clone();
                *old.decor_mut() = decor;
            }
            None => {
                table.insert(name, Item::Value(value.clone()));
            }
        }
    }
    Ok(document.to_string())
}

/// Replaces a file as a whole, through links, with the rights that it had.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A file that is a link elsewhere stays one.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut draft = path.clone().into_os_string();
    draft.push(".draft");
    let draft = PathBuf::from(draft);
    let mut file = std::fs::File::create(&draft)?;
    file.write_all(bytes)?;
    if let Ok(old) = std::fs::metadata(&path) {
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()?;
    std::fs::rename(&draft, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(list: &[(&str, Value)]) -> BTreeMap<String, Value> {
        let own = |(key, value): &(&str, Value)| ((*key).to_owned(), value.clone());
        list.iter().map(own).collect()
    }

    #[test]
    fn comments_order_and_spacing_survive() {
        let text = "# Mine.\n[crawl]\n# How deep?\nmax_depth = 3   # not far\n\n\
                    seeds = [\n  'http://a/', # home\n]\n\n# The last.\n";
        let list = [
            ("crawl.max_depth", Value::from(7)),
            ("desktop.theme", Value::from("dark")),
        ];
        let Ok(new) = edited(text, &changes(&list)) else {
            panic!("refused");
        };
        let expected = text.replace("= 3 ", "= 7 ");
        for line in expected.lines() {
            assert!(new.contains(line), "lost {line:?} of\n{new}");
        }
        assert!(new.contains("[desktop]\ntheme = \"dark\"\n"), "{new}");
        let mut settings = crate::config::Settings::default();
        settings.apply("new", &new).unwrap();
        assert_eq!(settings.crawl.max_depth, 7);
        assert_eq!(settings.crawl.seeds, ["http://a/"]);
    }

    #[test]
    fn the_built_in_file_keeps_every_line_but_the_changed_one() {
        let list = [("crawl.max_depth", Value::from(42))];
        let Ok(new) = edited(crate::config::BUILT_IN, &changes(&list)) else {
            panic!("refused");
        };
        let differ = |(old, new): &(&str, &str)| old != new;
        let lines = crate::config::BUILT_IN.lines().zip(new.lines());
        let different: Vec<_> = lines.filter(differ).collect();
        assert_eq!(different, [("max_depth = 100", "max_depth = 42")]);
    }

    #[test]
    fn a_file_is_written_once_it_is_due_and_a_broken_one_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/config.toml");
        let mut file = ConfigFile::new(Some(path.clone()));
        let now = Instant::now();
        file.set("crawl.max_depth", Value::from(1), now);
        file.set("crawl.max_depth", Value::from(2), now);
        file.write_if_due(now).unwrap();
        assert!(!path.exists(), "it waits for more");
        file.write_if_due(now + DELAY).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "[crawl]\nmax_depth = 2\n");
        std::fs::write(&path, "[crawl\n").unwrap();
        file.set("crawl.max_depth", Value::from(3), now);
        assert!(matches!(file.write(), Err(WriteError::NotToml(..))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[crawl\n");
    }
}
