//! The volunteer's config file, changed from the window without losing a comment.
//!
//! Changes are collected for a moment, so that several that come together, as those of the
//! first page do, are one write. Then the file is read again (somebody may have edited it
//! meanwhile), changed in place, and replaced as a whole: there is always either the old
//! file or the new one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use toml_edit::{Array, Decor, DocumentMut, Item, RawString, Table, Value};

/// How long a change may wait for others.
const DELAY: Duration = Duration::from_millis(500);
/// How long to wait before what could not be written is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// See the module.
pub struct ConfigFile {
    /// `None` where nothing is to be kept, as in the demo.
    path: Option<PathBuf>,
    changes: BTreeMap<String, Value>,
    due: Option<Instant>,
    /// The error that was last told: it is told once, however often it is met.
    told: String,
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
            told: String::new(),
        }
    }

    /// Where it is, if changes are kept.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// A `section.key` has another value.
    pub fn set(&mut self, key: &str, value: Value, now: Instant) {
        self.changes.insert(key.to_owned(), value);
        let due = now + DELAY;
        self.due = Some(self.due.map_or(due, |at| at.min(due)));
    }

    /// Writes what has waited long enough.
    pub fn write_if_due(&mut self, now: Instant) -> Result<(), WriteError> {
        match self.due {
            Some(due) if now >= due => self.write_at(now),
            _ => Ok(()),
        }
    }

    /// Writes what waits.
    pub fn write(&mut self) -> Result<(), WriteError> {
        self.write_at(Instant::now())
    }

    /// What cannot be written goes on waiting: the disk may have room again, and whoever
    /// edits the file may be done with it.
    fn write_at(&mut self, now: Instant) -> Result<(), WriteError> {
        self.due = None;
        let written = match &self.path {
            Some(path) if !self.changes.is_empty() => write_to(path, &self.changes),
            _ => Ok(()),
        };
        match written {
            Ok(()) => {
                self.changes.clear();
                self.told.clear();
                Ok(())
            }
            Err(why) => {
                self.due = Some(now + AGAIN);
                let before = std::mem::replace(&mut self.told, why.to_string());
                match before == self.told {
                    true => Ok(()),
                    false => Err(why),
                }
            }
        }
    }
}

/// Makes these changes in the file.
fn write_to(path: &Path, changes: &BTreeMap<String, Value>) -> Result<(), WriteError> {
    let io = |error| WriteError::Io(path.to_owned(), error);
    let old = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(io(error)),
    };
    let new = edited(&old, changes).map_err(|error| match error {
        EditError::Toml(why) => WriteError::NotToml(path.to_owned(), why),
        EditError::NoSection(name) => WriteError::NoSection(name),
    })?;
    replace(path, new.as_bytes()).map_err(io)
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
            Some(old) => change(old, value),
            None => {
                table.insert(name, Item::Value(value.clone()));
            }
        }
    }
    Ok(document.to_string())
}

/// Gives a value in the file another one.
fn change(old: &mut Value, new: &Value) {
    if let Some(list) = old.as_array_mut()
        && let Some(wanted) = new.as_array().and_then(words)
        && words(list).is_some()
    {
        return change_list(list, &wanted);
    }
    // A comment behind the value belongs to the line, not to the value.
    let decor = old.decor().clone();
    *old = new.clone();
    *old.decor_mut() = decor;
}

/// The items of a list of words; `None` if it is a list of something else.
fn words(list: &Array) -> Option<Vec<&str>> {
    list.iter().map(Value::as_str).collect()
}

/// Makes a list one of these words, in this order: a crawl is known by it. What stays keeps
/// the comments before it and the one behind it, on the same line. That one comes after a
/// comma, so that for the parser it belongs to the next item, or to the end of the list.
fn change_list(list: &mut Array, wanted: &[&str]) {
    let here = words(list).unwrap_or_default();
    let (behind, before) = around(list);
    // How the first item and the others begin, apart from comments.
    let first = match here.is_empty() {
        true => "",
        false => without_comments(&before[0]),
    };
    let later = first.rfind('\n').map_or(" ", |at| &first[at..]);
    // What stays, by its word; comments of what goes stand before what comes after it.
    let goes_on: HashSet<&str> = wanted.iter().copied().collect();
    let mut staying: HashMap<&str, (&Value, String, &str)> = HashMap::new();
    let mut left_over = String::new();
    for (number, item) in list.iter().enumerate() {
        let (word, lead) = (here[number], joined(&left_over, &before[number]));
        if goes_on.contains(word) && !staying.contains_key(word) {
            staying.insert(word, (item, lead, behind[number + 1].as_str()));
            left_over.clear();
        } else {
            left_over = lead.trim_end().to_owned();
        }
    }
    let mut new = Array::new();
    // What stands behind the last item so far.
    let mut last = behind[0].as_str();
    for &word in wanted {
        let stays = staying.remove(word);
        let (mut item, lead, trail) = match stays {
            Some((item, lead, trail)) => (item.clone(), lead, trail),
            None => (Value::from(word), later.to_owned(), ""),
        };
        let lead = match (new.is_empty(), lead.trim().is_empty()) {
            (true, true) => first,
            (false, _) if lead.is_empty() => later,
            _ => lead.as_str(),
        };
        *item.decor_mut() = Decor::new(joined(last, lead), "");
        new.push_formatted(item);
        last = trail;
    }
    let end = joined(&left_over, &before[here.len()]);
    new.set_trailing(joined(last, &end));
    new.set_trailing_comma(list.trailing_comma());
    *new.decor_mut() = list.decor().clone();
    *list = new;
}

/// The spaces before an item, of which comments leave its line's.
fn without_comments(before: &str) -> &str {
    match before.contains('#') {
        true => before.rfind('\n').map_or("", |at| &before[at..]),
        false => before,
    }
}

/// Spaces, line breaks and comments of a list: what stands on the same line behind its
/// beginning and behind each item, and what stands before each item and before its end.
fn around(list: &Array) -> (Vec<String>, Vec<String>) {
    let mut gaps = Vec::new();
    let mut gap = String::new();
    for item in list.iter() {
        gaps.push(gap + raw_text(item.decor().prefix()));
        gap = raw_text(item.decor().suffix()).to_owned();
    }
    gaps.push(gap + raw_text(Some(list.trailing())));
    let split = |gap: &String| {
        let (behind, before) = gap.split_at(gap.find('\n').unwrap_or(0));
        (behind.to_owned(), before.to_owned())
    };
    gaps.iter().map(split).unzip()
}

fn raw_text(raw: Option<&RawString>) -> &str {
    raw.and_then(RawString::as_str).unwrap_or_default()
}

/// Both, one after the other: a comment ends with its line.
fn joined(one: &str, other: &str) -> String {
    let is_cut = one.contains('#') && !other.starts_with('\n');
    [one, if is_cut { "\n" } else { "" }, other].concat()
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

    fn list_after(text: &str, wanted: &[&str]) -> String {
        let list: Array = wanted.iter().copied().collect();
        let list = [("crawl.seeds", Value::Array(list))];
        let Ok(new) = edited(&format!("[crawl]\nseeds = {text}\n"), &changes(&list)) else {
            panic!("refused");
        };
        let list = new.split_once(" = ").unwrap().1;
        let read: DocumentMut = new.parse().unwrap();
        assert_eq!(
            words(read["crawl"]["seeds"].as_array().unwrap()).unwrap(),
            wanted
        );
        list.trim_end().to_owned()
    }

    /// A site that was added in the window cost all comments in the list.
    #[test]
    fn a_list_keeps_the_comments_of_what_stays() {
        let text = "[ # all\n  # Mine.\n  'a', # home\n  'b', # gone\n  \
                    # Theirs.\n  'c' # far\n]";
        let added = text.replace("'c' # far\n", "'c', # far\n  \"d\"\n");
        assert_eq!(list_after(text, &["a", "b", "c", "d"]), added);
        let without = text.replace("  'b', # gone\n", "");
        assert_eq!(list_after(text, &["a", "c"]), without);
        let first_gone = text.replace("  'a', # home\n", "");
        assert_eq!(list_after(text, &["b", "c"]), first_gone);
        let none = "[ # all\n  # Mine.\n  # Theirs.\n]";
        assert_eq!(list_after(text, &[]), none);
        assert_eq!(list_after("['a', 'b']", &["b", "c"]), "['b', \"c\"]");
        assert_eq!(list_after("[]", &["a", "b"]), "[\"a\", \"b\"]");
        assert_eq!(list_after("[ # none\n]", &["a"]), "[ # none\n\"a\"\n]");
        assert_eq!(list_after("['a', # x\n 'b']", &["a"]), "['a' # x\n]");
        // Another order used to be ignored, and then to cost the comments.
        assert_eq!(list_after("['a', 'b']", &["b", "a"]), "['b', 'a']");
        assert_eq!(
            list_after("['b', # x\n]", &["a", "b"]),
            "[\"a\", 'b', # x\n]"
        );
        let text = "[\n  # Mine.\n  'a', # home\n  'b', # far\n]";
        let turned = "[\n  'b', # far\n  # Mine.\n  'a', # home\n]";
        assert_eq!(list_after(text, &["b", "a"]), turned);
        let between = "[\n  'b', # far\n  \"c\",\n  # Mine.\n  'a', # home\n]";
        assert_eq!(list_after(text, &["b", "c", "a"]), between);
        assert_eq!(list_after("['a', 'a', 'b']", &["b", "a"]), "['b', 'a']");
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

    /// What could not be written was forgotten, and the first page came again.
    #[test]
    fn what_cannot_be_written_is_told_once_and_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, "[crawl\n").unwrap();
        let mut file = ConfigFile::new(Some(path.clone()));
        let now = Instant::now();
        file.set("crawl.max_depth", Value::from(1), now);
        assert!(file.write_if_due(now + DELAY).is_err());
        assert!(
            file.write_if_due(now + DELAY + AGAIN).is_ok(),
            "told before"
        );
        std::fs::write(&path, "").unwrap();
        let later = now + DELAY + 2 * AGAIN;
        file.write_if_due(later - DELAY).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "", "not yet");
        file.write_if_due(later).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "[crawl]\nmax_depth = 1\n");
    }
}
