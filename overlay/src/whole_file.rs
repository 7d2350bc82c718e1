//! Small files that are there as a whole or not at all, also after a power cut.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Replaces a file, for its owner only. The new bytes are on the disk before they get
/// the name: otherwise the name may outlive a power cut, and the bytes not. Then the name
/// is brought there too, or the old bytes might come back.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".draft");
    let draft = PathBuf::from(draft);
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&draft, path)?;
    // Windows keeps names by itself, and cannot open a folder as a file.
    #[cfg(unix)]
    {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = std::env::temp_dir().join(format!("whole-file-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("hosts.txt");
        for text in ["a long first text", "short"] {
            write(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        }
        assert!(write(&folder.join("none/x"), b"").is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
