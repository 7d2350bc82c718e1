//! A state whose making was cut short, by a kill or by a full disk.
//!
//! The database makes a folder for its tables and an empty journal, then a file that says
//! which version of it this is, and only then its first table. Nothing can be written into it
//! before that. Without the file it makes everything anew, and fails over the journal that
//! is there; with a part of the file, it takes the state for damaged.
//!
//! Later each table has a file, too, that says which of its parts are in force. The database
//! takes a table without it for one whose making was cut short, and deletes it with all of its
//! parts. One that has parts was finished: its state is damaged, and must not be opened.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::StoreError;

/// What the database has made until then.
const LOCK: &str = "lock";
const TABLES: &str = "keyspaces";
const JOURNAL: &str = "0.jnl";
const VERSION: &str = "version";
/// The size of that last file.
const VERSION_BYTES: usize = 4;
/// What a table has, which is a folder: the file that says which parts are in force, and those.
const CURRENT: &str = "current";
const PARTS: &str = "tables";
const FIRST_TABLE: &str = "0";
/// A journal is written from its beginning, and no entry begins with a zero.
const BEGINNING_BYTES: u64 = 4_096;

/// Removes what is in the way of a state that was never made whole. One that may hold
/// anything is not touched: without its version, it is damaged.
pub(super) fn clear(state: &Path) -> Result<(), StoreError> {
    let version = match fs::read(state.join(VERSION)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.map_err(StoreError::io(state))?,
    };
    if version.len() >= VERSION_BYTES {
        return match without_current(state).map_err(StoreError::io(state))? {
            Some(table) => {
                let why = format!("the file that says what is in table {table} is gone");
                Err(StoreError::Damaged(state.to_owned(), why))
            }
            None => Ok(()),
        };
    }
    if !is_only_begun(state).map_err(StoreError::io(state))? {
        let why = "the file that says its version is gone, or cut short".to_owned();
        return Err(StoreError::Damaged(state.to_owned(), why));
    }
    for name in [JOURNAL, VERSION] {
        match fs::remove_file(state.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(StoreError::io(state))?,
        }
    }
    Ok(())
}

/// A table that was finished, and that nobody knows the parts of.
fn without_current(state: &Path) -> io::Result<Option<String>> {
    let (mut without, mut with) = (Vec::new(), 0);
    let folder = state.join(TABLES);
    if !folder.is_dir() {
        return Ok(None);
    }
    for table in fs::read_dir(folder)? {
        let table = table?;
        if table.path().join(CURRENT).exists() {
            with += 1;
        } else if table.file_type()?.is_dir() {
            without.push(table);
        }
    }
    for table in without {
        // The first is made before all others, and names them.
        let is_first = table.file_name() == FIRST_TABLE && with > 0;
        let parts = table.path().join(PARTS);
        if is_first || (parts.is_dir() && fs::read_dir(parts)?.next().is_some()) {
            return Ok(Some(table.file_name().to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

/// Whether nothing is there but what the database makes first, and all of it empty.
fn is_only_begun(state: &Path) -> io::Result<bool> {
    for item in fs::read_dir(state)? {
        let item = item?;
        let (path, kind) = (item.path(), item.file_type()?);
        let is_begun = match item.file_name().to_str() {
            Some(LOCK | VERSION) => kind.is_file(),
            Some(JOURNAL) => kind.is_file() && is_blank(&path)?,
            Some(TABLES) => kind.is_dir() && fs::read_dir(path)?.next().is_none(),
            _ => false,
        };
        if !is_begun {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether nothing was ever written into a journal.
fn is_blank(journal: &Path) -> io::Result<bool> {
    let mut beginning = Vec::new();
    let mut journal = File::open(journal)?.take(BEGINNING_BYTES);
    journal.read_to_end(&mut beginning)?;
    Ok(beginning.iter().all(|&byte| byte == 0))
}
