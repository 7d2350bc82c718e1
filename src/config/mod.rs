//! The settings: what a volunteer may change, and within which bounds.
//!
//! Every key stands once in [`Settings`], with its default and its bounds, and once
//! in `config.toml`, with a comment; a test holds the two together. Settings come in
//! layers (built-in file, user's file, `--config`, `--set`, flags), each of which may
//! be partial; a layer is read by [`Settings::apply`], which refuses a key that does
//! not exist, a value of the wrong type and a value out of bounds, and says where it
//! stands and what would be allowed. What several keys must keep to together is judged
//! by [`Layers::read`] at the end. A `Settings` that came from there is therefore valid.
//!
//! - [`keys`]: the sections and their keys
//! - [`layers`]: which files and flags are read, and in which order
//! - `text`: what a text must be like, where a key does not take any
//! - `together`: what several keys must keep to together
//! - [`value`]: how a TOML value becomes a setting, and what "allowed" means

pub mod keys;
pub mod layers;
mod text;
mod together;
pub mod value;

#[cfg(test)]
mod tests;

pub use keys::*;
pub use layers::{Flag, Layers};

use std::ops::Range;

use toml_edit::{Document, Item, TableLike};

/// The built-in `config.toml`, which is also the documentation of every key.
pub const BUILT_IN: &str = include_str!("../../config.toml");

/// A setting that was refused: where it stands, which one it is, and what is wrong.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{place}: {what}")]
pub struct ConfigError {
    /// `file:line`, or the name of a flag.
    pub place: String,
    /// The key, and what is allowed.
    pub what: String,
}

impl ConfigError {
    fn at_line(file: &str, text: &str, offset: usize, what: String) -> Self {
        let line = 1 + text.as_bytes()[..offset.min(text.len())]
            .iter()
            .filter(|&&b| b == b'\n')
            .count();
        Self {
            place: format!("{file}:{line}"),
            what,
        }
    }
}

impl Settings {
    /// Lays the TOML text of `file` over these settings; keys that it leaves out keep
    /// their value.
    pub fn apply(&mut self, file: &str, text: &str) -> Result<(), ConfigError> {
        self.apply_and_tell(file, text, &mut |_, _| {})
    }

    /// The same, and tells each key that was set, and where in the text.
    fn apply_and_tell(
        &mut self,
        file: &str,
        text: &str,
        tell: &mut dyn FnMut(String, usize),
    ) -> Result<(), ConfigError> {
        let document = Document::parse(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let what = format!("not TOML: {}", error.message());
            ConfigError::at_line(file, text, offset, what)
        })?;
        let refuse = |span: Option<Range<usize>>, what: String| {
            ConfigError::at_line(file, text, span.map_or(0, |s| s.start), what)
        };
        let root = document.as_table();
        for (section, item) in root.iter() {
            let span = root
                .key(section)
                .and_then(|key| key.span())
                .or_else(|| item.span());
            let Some(table) = item.as_table_like() else {
                return Err(refuse(span, self.unknown_key(section)));
            };
            for (name, item) in table.iter() {
                let span = key_span(table, name).or_else(|| item.span());
                let key = format!("{section}.{name}");
                match item {
                    Item::Value(value) => self.set(&key, value),
                    _ => Err(self.unknown_key(&key)),
                }
                .map_err(|what| refuse(span.clone(), what))?;
                tell(key, span.map_or(0, |span| span.start));
            }
            if table.is_empty() && !SECTIONS.contains(&section) {
                return Err(refuse(span, self.unknown_key(section)));
            }
        }
        Ok(())
    }

    /// Sets one key from a `--set section.key=value` flag. The value is TOML; what is
    /// not TOML is taken as a string, so that `--set crawl.scope=host` needs no quotes.
    pub fn apply_flag(&mut self, flag: &str) -> Result<(), ConfigError> {
        Flag::set(flag).apply_to(self).map(|_| ())
    }

    fn unknown_key(&self, key: &str) -> String {
        let section = key.split('.').next().unwrap_or(key);
        let siblings: Vec<_> = KEYS
            .iter()
            .filter_map(|known| known.strip_prefix(section)?.strip_prefix('.'))
            .collect();
        if siblings.is_empty() {
            format!(
                "unknown key `{key}`; the sections are {}",
                SECTIONS.join(", ")
            )
        } else {
            format!(
                "unknown key `{key}`; the keys of [{section}] are {}",
                siblings.join(", ")
            )
        }
    }
}

fn key_span(table: &dyn TableLike, name: &str) -> Option<Range<usize>> {
    table.key(name)?.span()
}
