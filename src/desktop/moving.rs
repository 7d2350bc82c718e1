//! Moving files of the archive elsewhere: to another folder, perhaps on another disk.

use std::io;
use std::path::{Path, PathBuf};

/// The ending of a complete file.
pub const COMPLETE: &str = ".warc.gz";
/// The ending of its index.
pub const INDEX: &str = ".cdxj";

/// The complete files in a folder, without their endings, the oldest first. Only of use
/// while nobody writes there.
pub fn complete(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(COMPLETE)) {
            names.push(name.to_owned());
        }
    }
    // Their numbers have leading zeros.
    names.sort();
    Ok(names)
}

/// Makes the folder that files are to be moved to, and says why that is no place for them.
pub fn prepare(from: &Path, to: &Path) -> io::Result<PathBuf> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    std::fs::create_dir_all(to)?;
    let to = std::fs::canonicalize(to)?;
    // Nothing may have been stored yet.
    let from = std::fs::canonicalize(from).unwrap_or_else(|_| from.to_owned());
    if to.starts_with(from) {
        return refuse("that folder is inside of the archive");
    }
    // A folder that cannot be written to is told of now, not after the first file.
    tempfile_in(&to)?;
    Ok(to)
}

fn tempfile_in(folder: &Path) -> io::Result<()> {
    let trial = folder.join(".peercrawl-trial");
    std::fs::write(&trial, b"")?;
    std::fs::remove_file(&trial)
}

/// Moves these files and their indexes. Each is copied as a whole before its original
/// goes, and nothing is overwritten.
pub fn move_files(from: &Path, to: &Path, names: &[String]) -> io::Result<()> {
    for name in names {
        for ending in [COMPLETE, INDEX] {
            let file = format!("{name}{ending}");
            let (source, target) = (from.join(&file), to.join(&file));
            if !source.exists() {
                continue;
            }
            if target.exists() {
                let why = format!("{} is there already", target.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
            if std::fs::rename(&source, &target).is_err() {
                std::fs::copy(&source, &target)?;
                std::fs::File::open(&target)?.sync_all()?;
                std::fs::remove_file(&source)?;
            }
        }
    }
    Ok(())
}

/// Deletes the oldest complete file and its index; false if there is none.
pub fn drop_oldest(folder: &Path) -> io::Result<bool> {
    let Some(oldest) = complete(folder)?.into_iter().next() else {
        return Ok(false);
    };
    // The index goes first: a file without one is still a whole archive.
    for ending in [INDEX, COMPLETE] {
        match std::fs::remove_file(folder.join(format!("{oldest}{ending}"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_move_with_their_indexes_and_nothing_is_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let from = place.path().join("archive");
        std::fs::create_dir(&from).unwrap();
        for file in [
            "b.warc.gz",
            "b.cdxj",
            "a.warc.gz",
            "a.cdxj",
            "c.warc.gz.open",
        ] {
            std::fs::write(from.join(file), file).unwrap();
        }
        let names = complete(&from).unwrap();
        assert_eq!(names, ["a", "b"]);
        let to = prepare(&from, &place.path().join("new/place")).unwrap();
        move_files(&from, &to, &names).unwrap();
        assert_eq!(std::fs::read(to.join("a.cdxj")).unwrap(), b"a.cdxj");
        assert_eq!(complete(&from).unwrap(), [""; 0]);
        assert!(from.join("c.warc.gz.open").exists());
        std::fs::write(from.join("a.warc.gz"), "other").unwrap();
        assert!(move_files(&from, &to, &names).is_err());
        assert_eq!(std::fs::read(to.join("a.warc.gz")).unwrap(), b"a.warc.gz");
        assert!(prepare(&from, &from.join("inside")).is_err());
    }

    #[test]
    fn the_oldest_goes_first() {
        let place = tempfile::tempdir().unwrap();
        for file in ["p-02.warc.gz", "p-01.warc.gz", "p-01.cdxj"] {
            std::fs::write(place.path().join(file), "x").unwrap();
        }
        assert!(drop_oldest(place.path()).unwrap());
        assert_eq!(complete(place.path()).unwrap(), ["p-02"]);
        assert!(drop_oldest(place.path()).unwrap());
        assert!(!drop_oldest(place.path()).unwrap());
    }
}
