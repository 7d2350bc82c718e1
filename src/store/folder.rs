//! The data directory: one process at a time, one format, one identity.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use peercrawl_overlay::whole_file;

use super::StoreError;

/// Brings a data directory from the format of its place in the list (the first from 1
/// to 2) to the next one. What is only added, and can be told from what was before where it
/// is read, needs none. It must be able to run twice: a kill before the new number is written
/// has the next start repeat it.
type Migration = fn(&Path) -> Result<(), StoreError>;

const MIGRATIONS: &[Migration] = &[];

/// The ending of a state that is being removed: half of one must not be taken for a state.
const ERASED: &str = ".erased";

/// Something that could not be used, and has another name now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{was} could not be used and is kept as {now}: {why}", was = was.display(), now = now.display())]
pub struct SetAside {
    /// Its old name.
    pub was: PathBuf,
    /// Its new name.
    pub now: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl SetAside {
    /// Gives a file or folder the next free name that ends in `.damaged` and a number.
    pub(crate) fn rename(was: &Path, why: String) -> Result<Self, StoreError> {
        let mut number = 1;
        let now = loop {
            let mut name = was.as_os_str().to_owned();
            name.push(format!(".damaged-{number}"));
            if !Path::new(&name).exists() {
                break PathBuf::from(name);
            }
            number += 1;
        };
        fs::rename(was, &now).map_err(StoreError::io(was))?;
        Ok(Self {
            was: was.to_owned(),
            now,
            why,
        })
    }
}

/// A data directory that is ours as long as this value lives.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    /// The lock goes with it, however this process ends.
    _lock: File,
}

impl DataFolder {
    /// Takes a directory into use; it is made if there is none.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open_with(path.into(), MIGRATIONS)
    }

    fn open_with(path: PathBuf, migrations: &[Migration]) -> Result<Self, StoreError> {
        fs::create_dir_all(&path).map_err(StoreError::io(&path))?;
        let lock = lock(&path)?;
        bring_up_to_date(&path, migrations)?;
        remove_erased(&path)?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the archive's files are.
    pub fn archive(&self) -> PathBuf {
        self.path.join("archive")
    }

    /// Removes the state of this name, which nobody may have open: what it was kept for
    /// is done.
    pub fn erase(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path.join(name);
        let erased = self.path.join(format!("{name}{ERASED}"));
        fs::rename(&path, &erased).map_err(StoreError::io(&path))?;
        fs::remove_dir_all(&erased).map_err(StoreError::io(&erased))
    }

    /// The secret key of this peer, which only its owner can read. `fresh` gives one if
    /// there is none yet, or if what is there is no key.
    pub fn identity(
        &self,
        fresh: impl FnOnce() -> [u8; 32],
    ) -> Result<([u8; 32], Option<SetAside>), StoreError> {
        let path = self.path.join("identity");
        let mut set_aside = None;
        match fs::read(&path) {
            Ok(bytes) => match <[u8; 32]>::try_from(bytes) {
                Ok(key) => {
                    keep_private(&path)?;
                    return Ok((key, None));
                }
                Err(bytes) => {
                    let why = format!("a key has 32 bytes, not {}", bytes.len());
                    set_aside = Some(SetAside::rename(&path, why)?);
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io(&path)(error)),
        }
        let key = fresh();
        if let Err(error) = write_whole(&path, &key) {
            // Whoever tries again then finds none, and nothing to tell of.
            if let Some(set_aside) = set_aside {
                tracing::warn!("{set_aside}");
            }
            return Err(error);
        }
        Ok((key, set_aside))
    }

    /// Makes the names in it last through a power cut, those of a new state and a new archive
    /// above all. Windows keeps them by itself and cannot open a folder as a file.
    pub fn sync(&self) -> Result<(), StoreError> {
        if cfg!(unix) {
            let synced = File::open(&self.path).and_then(|folder| folder.sync_all());
            synced.map_err(StoreError::io(&self.path))?;
        }
        Ok(())
    }
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join("lock");
    let opened = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path);
    let mut file = opened.map_err(StoreError::io(&path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            // Whose it is helps to find it; a message without it will do.
            let mut who = String::new();
            let _ = file.take(20).read_to_string(&mut who);
            let who = match who.trim().parse::<u32>() {
                Ok(process) => format!(" (process {process})"),
                Err(_) => String::new(),
            };
            return Err(StoreError::InUse(folder.to_owned(), who));
        }
        Err(TryLockError::Error(error)) => return Err(StoreError::io(&path)(error)),
    }
    // On a full disk it cannot be told whose it is, which is no reason not to start.
    let _unnamed = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

/// Reads the format version, and migrates what is older.
fn bring_up_to_date(folder: &Path, migrations: &[Migration]) -> Result<(), StoreError> {
    let path = folder.join("format");
    let known = migrations.len() as u32 + 1;
    let found = match fs::read_to_string(&path) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(found) if found > 0 => found,
            _ => {
                let why = format!(
                    "it holds no format number; if this folder is PeerCrawl's, write {known} into \
                     that file, else choose another --data directory"
                );
                return Err(StoreError::Damaged(path, why));
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return write_whole(&path, format!("{known}\n").as_bytes());
        }
        Err(error) => return Err(StoreError::io(&path)(error)),
    };
    if found > known {
        return Err(StoreError::Newer { path, found, known });
    }
    for (migrate, version) in migrations.iter().zip(2..).skip(found as usize - 1) {
        migrate(folder)?;
        write_whole(&path, format!("{version}\n").as_bytes())?;
    }
    Ok(())
}

/// Removes what is left of states that were being removed when the program ended. It harms
/// nobody if it stays.
fn remove_erased(folder: &Path) -> Result<(), StoreError> {
    for item in fs::read_dir(folder).map_err(StoreError::io(folder))? {
        let path = item.map_err(StoreError::io(folder))?.path();
        if path.to_str().is_some_and(|path| path.ends_with(ERASED))
            && let Err(error) = fs::remove_dir_all(&path)
        {
            tracing::warn!("cannot remove {}: {error}", path.display());
        }
    }
    Ok(())
}

/// Writes a small file so that it is there as a whole or not at all, for its owner only.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    whole_file::write(path, bytes).map_err(StoreError::io(path))
}

/// Takes everybody else's rights to a file away. On Windows the user's own folder does.
fn keep_private(path: &Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let owner_only = fs::Permissions::from_mode(0o600);
        fs::set_permissions(path, owner_only).map_err(StoreError::io(path))?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn one_at_a_time() {
        let folder = TempDir::new().unwrap();
        let first = DataFolder::open(folder.path()).unwrap();
        let error = DataFolder::open(folder.path()).unwrap_err();
        assert!(matches!(error, StoreError::InUse(..)));
        let process = format!("(process {})", std::process::id());
        assert!(error.to_string().contains(&process), "{error}");
        drop(first);
        DataFolder::open(folder.path()).unwrap();
    }

    #[test]
    fn newer_formats_are_refused_and_older_ones_migrated_one_by_one() {
        let folder = TempDir::new().unwrap();
        static STEPS: &[Migration] = &[
            |f| fs::write(f.join("one"), "").map_err(StoreError::io(f)),
            |f| fs::rename(f.join("one"), f.join("two")).map_err(StoreError::io(f)),
        ];
        let open = |steps| DataFolder::open_with(folder.path().to_owned(), steps).map(drop);
        open(&STEPS[..0]).unwrap();
        open(STEPS).unwrap();
        assert!(folder.path().join("two").exists(), "both steps, in order");
        assert_eq!(
            fs::read_to_string(folder.path().join("format")).unwrap(),
            "3\n"
        );
        open(STEPS).unwrap();
        let error = open(&STEPS[..1]).unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::Newer {
                    found: 3,
                    known: 2,
                    ..
                }
            ),
            "{error}"
        );
        fs::write(folder.path().join("format"), "what").unwrap();
        assert!(matches!(open(STEPS), Err(StoreError::Damaged(..))));
    }

    /// A state that was half removed once came back as a whole one.
    #[test]
    fn a_state_is_removed_as_a_whole_whenever_the_program_ends() {
        let folder = TempDir::new().unwrap();
        let state = folder.path().join("crawl-1");
        let erased = folder.path().join("crawl-1.erased");
        let data = DataFolder::open(folder.path()).unwrap();
        fs::create_dir_all(state.join("keyspaces")).unwrap();
        data.erase("crawl-1").unwrap();
        assert!(!state.exists() && !erased.exists());
        drop(data);
        fs::create_dir_all(erased.join("keyspaces")).unwrap();
        let data = DataFolder::open(folder.path()).unwrap();
        assert!(!erased.exists());
        fs::create_dir(&state).unwrap();
        data.erase("crawl-1").unwrap();
    }

    #[test]
    fn the_identity_stays_and_is_private() {
        let folder = TempDir::new().unwrap();
        let data = DataFolder::open(folder.path()).unwrap();
        assert_eq!(data.identity(|| [7; 32]).unwrap(), ([7; 32], None));
        let path = folder.path().join("identity");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            data.identity(|| [8; 32]).unwrap();
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
        assert_eq!(data.identity(|| [8; 32]).unwrap(), ([7; 32], None));
        fs::write(&path, "short").unwrap();
        let (key, set_aside) = data.identity(|| [9; 32]).unwrap();
        assert_eq!(key, [9; 32]);
        assert_eq!(fs::read(set_aside.unwrap().now).unwrap(), b"short");
    }
}
