//! Starting with the desktop: a file in the folder that desktops look through at login.
//!
//! Known on Linux, where that folder is a standard; elsewhere it is not offered.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::Layers;
use crate::data_directory::DataDirectory;

/// The file's name.
const FILE: &str = "peercrawl.desktop";

/// What Linux adds to the path of a program that runs, once its file is gone.
const DELETED: &str = " (deleted)";

/// Whether this desktop can do it.
pub fn is_possible() -> bool {
    cfg!(target_os = "linux") && folder().is_some()
}

/// Does it from now on, with this data directory and this config file.
pub fn set(data: Option<&Path>, config: Option<&Path>) -> io::Result<()> {
    let program = in_place(std::env::current_exe()?)?;
    let data = to_be_named(data, DataDirectory::usual_place())?;
    let config = to_be_named(config, Layers::user_file())?;
    write(
        &folder_there_is()?,
        &program,
        data.as_deref(),
        config.as_deref(),
    )
}

/// Does it no longer with this config file. An entry that another one has made stays.
pub fn unset(config: Option<&Path>) -> io::Result<()> {
    let config = to_be_named(config, Layers::user_file())?;
    remove(&folder_there_is()?, config.as_deref())
}

fn folder() -> Option<PathBuf> {
    let folders = directories::BaseDirs::new()?;
    Some(folders.config_dir().join("autostart"))
}

fn folder_there_is() -> io::Result<PathBuf> {
    folder().ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Where a program is that runs from this file. An upgrade may have put another file in its
/// place meanwhile.
fn in_place(running: PathBuf) -> io::Result<PathBuf> {
    if running.is_file() {
        return Ok(running);
    }
    let before = running.to_str().and_then(|path| path.strip_suffix(DELETED));
    let before = before.map(PathBuf::from).filter(|path| path.is_file());
    before.ok_or_else(|| {
        let why = format!("the program is not at {} any more", running.display());
        io::Error::new(io::ErrorKind::NotFound, why)
    })
}

/// A path that has to be named because it is not the usual one; a login knows nothing of the
/// folder that this run was started in.
fn to_be_named(path: Option<&Path>, usual: Option<PathBuf>) -> io::Result<Option<PathBuf>> {
    let unusual = path.filter(|path| usual.as_deref() != Some(*path));
    unusual.map(std::path::absolute).transpose()
}

fn write(
    folder: &Path,
    program: &Path,
    data: Option<&Path>,
    config: Option<&Path>,
) -> io::Result<()> {
    let mut command = format!("{} --hidden", quoted(program));
    if let Some(path) = data {
        command += &format!(" --data {}", quoted(path));
    }
    if let Some(path) = config {
        command += &naming_config(path);
    }
    let text = format!(
        "[Desktop Entry]\nType=Application\nName=PeerCrawl\nExec={command}\n\
         Icon=peercrawl\nTerminal=false\nX-GNOME-Autostart-enabled=true\n"
    );
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(FILE), text)
}

fn remove(folder: &Path, config: Option<&Path>) -> io::Result<()> {
    let file = folder.join(FILE);
    let text = match std::fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    // The config file tells profiles apart: whether to start at login stands there.
    let is_own = match config {
        Some(path) => text.contains(&naming_config(path)),
        None => !text.contains(CONFIG),
    };
    match is_own {
        true => std::fs::remove_file(file),
        false => Ok(()),
    }
}

/// What comes before the config file in a command. A quote in a path has backslashes before it,
/// so no path looks like this.
const CONFIG: &str = " --config \"";

/// The part of a command that names its config file.
fn naming_config(path: &Path) -> String {
    format!(" --config {}", quoted(path))
}

/// A word of a command. The standard escapes what is special in quotes with a backslash, and
/// every backslash in the file with one more.
fn quoted(word: &Path) -> String {
    let word = word.display().to_string();
    let letters = word.chars().map(|letter| match letter {
        '"' | '`' | '$' => format!(r"\\{letter}"),
        '\\' => r"\\\\".to_owned(),
        '%' => "%%".to_owned(),
        other => other.to_string(),
    });
    format!("\"{}\"", letters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(folder: &Path) -> String {
        let text = std::fs::read_to_string(folder.join(FILE)).unwrap();
        let mut lines = text.lines();
        let command = lines.find_map(|line| line.strip_prefix("Exec="));
        command.unwrap().to_owned()
    }

    #[test]
    fn the_file_comes_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("autostart");
        write(&folder, Path::new("/opt/a b/peercrawl"), None, None).unwrap();
        assert_eq!(command(&folder), r#""/opt/a b/peercrawl" --hidden"#);
        remove(&folder, None).unwrap();
        assert!(!folder.join(FILE).exists());
        remove(&folder, None).unwrap();
    }

    /// Whoever switched it off took the entry of another profile away.
    #[test]
    fn the_entry_of_another_profile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (program, data) = (Path::new("/p"), Some(Path::new("/d")));
        let (mine, other) = (Path::new("/my config"), Path::new("/my"));
        let is_left = |made_by, switched_off_by| {
            write(folder, program, data, made_by).unwrap();
            remove(folder, switched_off_by).unwrap();
            folder.join(FILE).exists()
        };
        assert!(is_left(Some(mine), None) && is_left(Some(mine), Some(other)));
        assert!(is_left(None, Some(mine)));
        assert!(!is_left(Some(mine), Some(mine)) && !is_left(None, None));
    }

    /// Login opened another profile than the one that asked for it.
    #[test]
    fn a_profile_of_its_own_is_named_and_the_usual_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let usual = Path::new("/home/me/data");
        let named = |path| to_be_named(Some(path), Some(usual.to_owned())).unwrap();
        assert_eq!(named(usual), None);
        let here = std::env::current_dir().unwrap();
        assert_eq!(named(Path::new("mine")), Some(here.join("mine")));
        assert_eq!(to_be_named(None, Some(usual.to_owned())).unwrap(), None);
        let (data, config) = (Path::new("/a b/$c"), Path::new(r"/100%\d"));
        write(folder.path(), Path::new("/p"), Some(data), Some(config)).unwrap();
        let expected = r#""/p" --hidden --data "/a b/\\$c" --config "/100%%\\\\d""#;
        assert_eq!(command(folder.path()), expected);
    }

    /// After an upgrade, the entry named a file that nobody can start.
    #[test]
    fn a_program_that_was_replaced_is_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("peercrawl");
        let running = folder.path().join("peercrawl (deleted)");
        let gone = in_place(running.clone()).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
        std::fs::write(&program, "").unwrap();
        assert_eq!(in_place(running).unwrap(), program);
        assert_eq!(in_place(program.clone()).unwrap(), program);
    }
}
