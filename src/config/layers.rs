//! Which layers there are, strongest last: the built-in file, the user's own file in
//! the platform's config folder, the file named by `--config`, and `--set` flags.
//! Other flags are laid over the result by their command.

use std::io;
use std::path::{Path, PathBuf};

use super::{BUILT_IN, ConfigError, Settings};

/// The layers that a command line names.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// The user's own file; it may be missing.
    pub user: Option<PathBuf>,
    /// The file named by `--config`; it must exist.
    pub config: Option<PathBuf>,
    /// `--set section.key=value` flags, in the order given.
    pub flags: Vec<String>,
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
        if let Some(path) = &self.user
            && let Some(text) = read_if_there(path)?
        {
            settings.apply(&path.to_string_lossy(), &text)?;
        }
        if let Some(path) = &self.config {
            let missing = || ConfigError {
                place: path.to_string_lossy().into(),
                what: "there is no such file".into(),
            };
            let text = read_if_there(path)?.ok_or_else(missing)?;
            settings.apply(&path.to_string_lossy(), &text)?;
        }
        for flag in &self.flags {
            settings.apply_flag(flag)?;
        }
        Ok(settings)
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
