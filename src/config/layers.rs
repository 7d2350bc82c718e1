//! Which layers there are, strongest last: the built-in file, what a command takes for
//! granted instead, the user's own file in the platform's config folder, the file named
//! by `--config`, `--set` flags, and the flags that have a name of their own.

use std::io;
use std::path::{Path, PathBuf};

use toml_edit::Value;

use super::together::broken_rule;
use super::{BUILT_IN, ConfigError, Settings};

/// A setting on the command line.
#[derive(Debug, Clone)]
pub struct Flag {
    /// As the user wrote it.
    place: String,
    /// `section.key=value`; the value is TOML, or else a string.
    setting: String,
}

impl Flag {
    /// `--set section.key=value`.
    pub fn set(setting: &str) -> Self {
        Self {
            place: format!("--set {setting}"),
            setting: setting.to_owned(),
        }
    }

    /// A flag with a name of its own, which stands for a key.
    pub fn named(name: &str, key: &str, value: &str) -> Self {
        Self {
            place: format!("{name} {value}"),
            setting: format!("{key}={value}"),
        }
    }

    /// Sets its key, and tells which one it is.
    pub(super) fn apply_to(&self, settings: &mut Settings) -> Result<&str, ConfigError> {
        let refuse = |what| ConfigError {
            place: self.place.clone(),
            what,
        };
        let (key, text) = self
            .setting
            .split_once('=')
            .ok_or_else(|| refuse("expected section.key=value".into()))?;
        let value = text.parse::<Value>().unwrap_or_else(|_| Value::from(text));
        settings.set(key.trim(), &value).map_err(refuse)?;
        Ok(key.trim())
    }
}

/// The layers that a command line names.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// What the command takes for granted where no layer below says otherwise:
    /// `section.key=value`.
    pub granted: Vec<&'static str>,
    /// The user's own file; it may be missing.
    pub user: Option<PathBuf>,
    /// The file named by `--config`; it must exist.
    pub config: Option<PathBuf>,
    /// Flags, in the order in which they hold: the last one wins.
    pub flags: Vec<Flag>,
}

impl Layers {
    /// Where the platform keeps the user's own settings, if it has such a place.
    pub fn user_file() -> Option<PathBuf> {
        let folders = directories::ProjectDirs::from("", "", "peercrawl")?;
        Some(folders.config_dir().join("config.toml"))
    }

    /// Reads all layers.
    pub fn read(&self) -> Result<Settings, ConfigError> {
        let mut settings = Settings::default();
        settings.apply("built-in config.toml", BUILT_IN)?;
        for setting in &self.granted {
            settings.apply_flag(setting)?;
        }
        let mut places = Places::default();
        if let Some(path) = &self.user
            && let Some(text) = read_if_there(path)?
        {
            places.apply(&mut settings, path, &text)?;
        }
        if let Some(path) = &self.config {
            let missing = || ConfigError {
                place: path.to_string_lossy().into(),
                what: "there is no such file".into(),
            };
            let text = read_if_there(path)?.ok_or_else(missing)?;
            places.apply(&mut settings, path, &text)?;
        }
        for flag in &self.flags {
            let key = flag.apply_to(&mut settings)?.to_owned();
            places.0.push((key, flag.place.clone()));
        }
        places.judge(&settings)?;
        Ok(settings)
    }
}

/// Which keys the user has set, and where, in that order.
#[derive(Default)]
struct Places(Vec<(String, String)>);

impl Places {
    fn apply(
        &mut self,
        settings: &mut Settings,
        path: &Path,
        text: &str,
    ) -> Result<(), ConfigError> {
        let file = path.to_string_lossy();
        settings.apply_and_tell(&file, text, &mut |key, offset| {
            let place = ConfigError::at_line(&file, text, offset, String::new()).place;
            self.0.push((key, place));
        })
    }

    /// Refuses keys that do not go together, where the last of them was set.
    fn judge(&self, settings: &Settings) -> Result<(), ConfigError> {
        let Some((keys, allowed)) = broken_rule(settings) else {
            return Ok(());
        };
        let is_meant = |(key, _): &&(String, String)| keys.contains(&key.as_str());
        let last = self.0.iter().rev().find(is_meant).cloned();
        let (key, place) =
            last.unwrap_or_else(|| (keys.join("`, `"), "built-in config.toml".into()));
        let what = format!("`{key}` does not fit; allowed: {allowed}");
        Err(ConfigError { place, what })
    }
}

fn read_if_there(path: &Path) -> Result<Option<String>, ConfigError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigError {
            place: path.to_string_lossy().into(),
            what: format!("cannot be read: {error}"),
        }),
    }
}
