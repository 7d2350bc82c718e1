//! Starting with the desktop: a file in the folder that desktops look through at login.
//!
//! Known on Linux, where that folder is a standard; elsewhere it is not offered.

use std::io;
use std::path::{Path, PathBuf};

/// The file's name.
const FILE: &str = "peercrawl.desktop";

/// Whether this desktop can do it.
pub fn is_possible() -> bool {
    cfg!(target_os = "linux") && folder().is_some()
}

/// Does it from now on, or no longer.
pub fn set(starts: bool) -> io::Result<()> {
    let folder = folder().ok_or(io::ErrorKind::Unsupported)?;
    set_in(&folder, &std::env::current_exe()?, starts)
}

fn folder() -> Option<PathBuf> {
    let folders = directories::BaseDirs::new()?;
    Some(folders.config_dir().join("autostart"))
}

fn set_in(folder: &Path, program: &Path, starts: bool) -> io::Result<()> {
    let file = folder.join(FILE);
    if !starts {
        return match std::fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    std::fs::create_dir_all(folder)?;
    let program = program.display().to_string();
    // The characters that are special inside quotes, as the standard has it.
    let quoted: String = program
        .chars()
        .flat_map(|letter| match letter {
            '"' | '`' | '$' | '\\' => vec!['\\', '\\', letter],
            '%' => vec!['%', '%'],
            other => vec![other],
        })
        .collect();
    let text = format!(
        "[Desktop Entry]\nType=Application\nName=PeerCrawl\nExec=\"{quoted}\" --hidden\n\
         Icon=peercrawl\nTerminal=false\nX-GNOME-Autostart-enabled=true\n"
    );
    std::fs::write(file, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_comes_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("autostart");
        set_in(&folder, Path::new("/opt/a b/peercrawl"), true).unwrap();
        let text = std::fs::read_to_string(folder.join(FILE)).unwrap();
        assert!(
            text.contains("Exec=\"/opt/a b/peercrawl\" --hidden\n"),
            "{text}"
        );
        set_in(&folder, Path::new("/x"), false).unwrap();
        assert!(!folder.join(FILE).exists());
        set_in(&folder, Path::new("/x"), false).unwrap();
    }
}
