//! Moving the archive: its files go to another folder, and a link stays where it was.

use std::io;
use std::path::Path;

/// Moves what is in a folder to another one, which may be on another disk. Each file is
/// copied as a whole before its original goes.
pub fn move_folder(from: &Path, to: &Path) -> io::Result<()> {
    if to.starts_with(from) {
        let why = "that folder is inside of the archive";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    std::fs::create_dir_all(to)?;
    let to = std::fs::canonicalize(to)?;
    let real = match std::fs::canonicalize(from) {
        Ok(real) => real,
        // Nothing has been stored yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => from.to_owned(),
        Err(error) => return Err(error),
    };
    if real == to {
        return Ok(());
    }
    if real.is_dir() {
        for entry in std::fs::read_dir(&real)? {
            let entry = entry?;
            let target = to.join(entry.file_name());
            if target.exists() {
                let why = format!("{} is there already", target.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
            if std::fs::rename(entry.path(), &target).is_err() {
                std::fs::copy(entry.path(), &target)?;
                std::fs::File::open(&target)?.sync_all()?;
                std::fs::remove_file(entry.path())?;
            }
        }
    }
    // What was there is empty now: the folder itself, or the link to the last place.
    match from.is_symlink() {
        true => std::fs::remove_file(from)?,
        false if from.is_dir() => std::fs::remove_dir(from)?,
        false => {}
    }
    link(&to, from)
}

#[cfg(unix)]
fn link(to: &Path, from: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, from)
}

#[cfg(windows)]
fn link(to: &Path, from: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_dir(to, from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_move_and_are_found_where_they_were() {
        let place = tempfile::tempdir().unwrap();
        let from = place.path().join("archive");
        std::fs::create_dir(&from).unwrap();
        std::fs::write(from.join("a.warc.gz"), "a").unwrap();
        let (second, third) = (place.path().join("second"), place.path().join("third"));
        for to in [&second, &third] {
            move_folder(&from, to).unwrap();
            assert_eq!(std::fs::read(to.join("a.warc.gz")).unwrap(), b"a");
            assert_eq!(std::fs::read(from.join("a.warc.gz")).unwrap(), b"a");
        }
        assert!(!second.join("a.warc.gz").exists());
        assert!(move_folder(&from, &from.join("inside")).is_err());
        move_folder(&from, &third).unwrap();
        std::fs::create_dir_all(&second).unwrap();
        std::fs::write(second.join("a.warc.gz"), "other").unwrap();
        assert!(
            move_folder(&from, &second).is_err(),
            "nothing is overwritten"
        );
        assert_eq!(std::fs::read(from.join("a.warc.gz")).unwrap(), b"a");
    }
}
