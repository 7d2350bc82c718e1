//! Moving files of the archive elsewhere: to another folder, perhaps on another disk.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::archive::is_ours;

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

/// Says why that is no place for files, as far as its path tells.
pub fn check(from: &Path, to: &Path) -> io::Result<()> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    match (to.is_absolute(), to.starts_with(from)) {
        (false, _) => refuse("Write the whole path of the folder, such as /media/stick/pages."),
        (_, true) => refuse("That folder is inside of the archive."),
        _ => Ok(()),
    }
}

/// Makes the folder that files are to be moved to, and says why that is no place for them.
/// That disk may be slow, or not answer at all.
pub fn prepare(from: &Path, to: &Path) -> io::Result<PathBuf> {
    check(from, to)?;
    std::fs::create_dir_all(to)?;
    let to = std::fs::canonicalize(to)?;
    // Nothing may have been stored yet.
    let from = std::fs::canonicalize(from).unwrap_or_else(|_| from.to_owned());
    check(&from, &to)?;
    try_out(&from, &to)?;
    Ok(to)
}

/// Writes a file, and deletes it again: a folder that cannot be written to is told of now,
/// not after the first file. It must not appear in the archive, which some disks and
/// networks show at two places: there, files would be moved to where they are.
fn try_out(from: &Path, to: &Path) -> io::Result<()> {
    const TRIAL: &str = ".peercrawl-trial";
    std::fs::write(to.join(TRIAL), b"")?;
    let is_same = from.join(TRIAL).exists();
    std::fs::remove_file(to.join(TRIAL))?;
    match is_same {
        true => Err(io::Error::other("That folder is the archive itself.")),
        false => Ok(()),
    }
}

/// Why not all files were moved.
#[derive(Debug, thiserror::Error)]
#[error(
    "{moved} of {all} files were moved to {to}. {file} could not be moved: {why}. It stays in \
     the archive, with those after it. Put that right or choose another folder, and move them \
     again."
)]
pub struct Unmoved {
    moved: usize,
    all: usize,
    to: PathBuf,
    file: String,
    why: io::Error,
}

/// Moves these files and their indexes, until one cannot be moved. Nothing is overwritten.
pub fn move_files(from: &Path, to: &Path, names: &[String]) -> Result<(), Unmoved> {
    for (moved, name) in names.iter().enumerate() {
        move_file(from, to, name).map_err(|why| Unmoved {
            moved,
            all: names.len(),
            to: to.to_owned(),
            file: format!("{name}{COMPLETE}"),
            why,
        })?;
    }
    Ok(())
}

/// Moves a file and its index. The originals go only when the other disk has both, so that
/// what goes wrong on the way leaves them as they were.
fn move_file(from: &Path, to: &Path, name: &str) -> io::Result<()> {
    // The index goes first: a file without one is still a whole archive.
    let mut files = [INDEX, COMPLETE]
        .map(|ending| format!("{name}{ending}"))
        .to_vec();
    files.retain(|file| from.join(file).exists());
    let mut missing = files.clone();
    missing.retain(|file| !to.join(file).exists());
    for file in files.iter().filter(|file| !missing.contains(file)) {
        let target = to.join(file);
        // One that was ended before it could delete the original has left the same.
        if !are_same(&from.join(file), &target)? {
            let why = format!("{} is there already", target.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
    }
    let mut all = missing.iter();
    let brought = all.try_for_each(|file| bring(&from.join(file), &to.join(file)));
    if let Err(why) = brought.and_then(|()| sync_folder(to)) {
        for file in &missing {
            // It may not have come so far.
            let _gone = std::fs::remove_file(to.join(file));
        }
        return Err(why);
    }
    for file in &files {
        std::fs::remove_file(from.join(file))?;
    }
    Ok(())
}

/// Whether two files hold the same bytes.
fn are_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    loop {
        let (some, others) = (one.fill_buf()?, other.fill_buf()?);
        let most = some.len().min(others.len());
        if some[..most] != others[..most] {
            return Ok(false);
        }
        if most == 0 {
            return Ok(some.len() == others.len());
        }
        one.consume(most);
        other.consume(most);
    }
}

/// Brings a file to another folder, as a whole or not at all. On the same disk it only
/// gets a second name.
fn bring(source: &Path, target: &Path) -> io::Result<()> {
    std::fs::hard_link(source, target).or_else(|_| copy(source, target))
}

/// Copies a file, which has another name until the disk has all of it.
fn copy(source: &Path, target: &Path) -> io::Result<()> {
    let mut part = target.as_os_str().to_owned();
    part.push(".part");
    let write = || {
        let mut file = File::create(&part)?;
        io::copy(&mut File::open(source)?, &mut file)?;
        file.sync_all()
    };
    let copied = write().and_then(|()| std::fs::rename(&part, target));
    if copied.is_err() {
        // What cannot be removed either is written over the next time.
        let _gone = std::fs::remove_file(&part);
    }
    copied
}

/// Makes names last through a power cut. Windows keeps them by itself and cannot open a
/// folder as a file; the file systems of some sticks and networks have no such thing, and
/// say so.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(why) if cfg!(unix) && why.kind() != io::ErrorKind::InvalidInput => Err(why),
        _ => Ok(()),
    }
}

/// Deletes the oldest complete file of this program and its index; false if there is none.
pub fn drop_oldest(folder: &Path) -> io::Result<bool> {
    let mut names = complete(folder)?.into_iter();
    let Some(oldest) = names.find(|name| is_ours(name)) else {
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
        let error = prepare(&from, Path::new("pages")).unwrap_err();
        assert!(error.to_string().contains("whole path"), "{error}");
        assert!(!Path::new("pages").exists());
    }

    /// Every move after one that was ended in its midst stopped at what that had left.
    #[test]
    fn what_a_killed_move_has_left_is_no_obstacle() {
        let place = tempfile::tempdir().unwrap();
        let from = place.path().join("archive");
        std::fs::create_dir(&from).unwrap();
        let to = prepare(&from, &place.path().join("stick")).unwrap();
        for file in ["a.cdxj", "a.warc.gz", "b.warc.gz"] {
            std::fs::write(from.join(file), file).unwrap();
        }
        std::fs::write(to.join("a.cdxj"), "a.cdxj").unwrap();
        std::fs::hard_link(from.join("a.warc.gz"), to.join("a.warc.gz")).unwrap();
        std::fs::write(to.join("b.warc.gz"), "of others").unwrap();
        let names = ["a", "b"].map(str::to_owned);
        let error = move_files(&from, &to, &names).unwrap_err().to_string();
        assert!(error.starts_with("1 of 2 files"), "{error}");
        assert_eq!(complete(&from).unwrap(), ["b"], "it is not the same");
        assert_eq!(std::fs::read(to.join("b.warc.gz")).unwrap(), b"of others");
        assert_eq!(std::fs::read(to.join("a.warc.gz")).unwrap(), b"a.warc.gz");
    }

    /// Files with the same bytes are taken for moved: nowhere would be where they stay.
    #[test]
    fn the_archive_at_another_place_is_not_another_place() {
        let place = tempfile::tempdir().unwrap();
        let error = try_out(place.path(), place.path()).unwrap_err();
        assert!(error.to_string().contains("the archive itself"), "{error}");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    /// Half of a move used to strand its files: the next one found them there already.
    #[test]
    fn what_cannot_be_moved_stays_and_is_moved_the_next_time() {
        let place = tempfile::tempdir().unwrap();
        let from = place.path().join("archive");
        let to = prepare(&from, &place.path().join("stick")).unwrap();
        std::fs::create_dir(&from).unwrap();
        for file in ["a.warc.gz", "a.cdxj", "b.cdxj", "c.warc.gz"] {
            std::fs::write(from.join(file), file).unwrap();
        }
        // Nothing that can be copied.
        std::fs::create_dir(from.join("b.warc.gz")).unwrap();
        let names = ["a", "b", "c"].map(str::to_owned);
        let error = move_files(&from, &to, &names).unwrap_err().to_string();
        let words = format!("1 of 3 files were moved to {}. b.warc.gz", to.display());
        assert!(error.starts_with(&words), "{error}");
        let there = |folder: &Path| {
            let items = std::fs::read_dir(folder).unwrap();
            let names = items.map(|item| item.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        assert_eq!(there(&to), ["a.cdxj", "a.warc.gz"]);
        assert_eq!(there(&from), ["b.cdxj", "b.warc.gz", "c.warc.gz"]);
        std::fs::remove_dir(from.join("b.warc.gz")).unwrap();
        std::fs::write(from.join("b.warc.gz"), "b").unwrap();
        move_files(&from, &to, &complete(&from).unwrap()).unwrap();
        assert_eq!(there(&from), [""; 0]);
        assert_eq!(there(&to).len(), 5);
    }

    /// A disk that is full left half a file under the name of a whole one.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_leaves_no_half_files() {
        let place = tempfile::tempdir().unwrap();
        let (source, target) = (place.path().join("a"), place.path().join("b"));
        std::fs::write(&source, "whole").unwrap();
        let part = place.path().join("b.part");
        std::os::unix::fs::symlink("/dev/full", &part).unwrap();
        let error = copy(&source, &target).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(!target.exists() && part.symlink_metadata().is_err());
        // There is room again, and what a crash left is no obstacle.
        std::fs::write(&part, "half of something longer").unwrap();
        copy(&source, &target).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"whole");
        assert!(source.exists() && !part.exists());
    }

    #[test]
    fn the_oldest_goes_first_and_what_is_not_ours_stays() {
        let place = tempfile::tempdir().unwrap();
        let first = "peercrawl-000001-20260101000000-state";
        let second = "peercrawl-000002-20260101000000-state";
        for name in [second, first, "another"] {
            for ending in [COMPLETE, INDEX] {
                let file = place.path().join(format!("{name}{ending}"));
                std::fs::write(file, "x").unwrap();
            }
        }
        assert!(drop_oldest(place.path()).unwrap());
        assert_eq!(complete(place.path()).unwrap(), ["another", second]);
        assert!(drop_oldest(place.path()).unwrap());
        assert!(!drop_oldest(place.path()).unwrap());
        let left = std::fs::read_dir(place.path()).unwrap();
        assert_eq!(left.count(), 2, "another's file and its index");
    }
}
