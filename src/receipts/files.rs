//! The files of a receipts folder: `receipts-00000001.jsonl` and so on.
//!
//! Only the last one is written to, and only at its end. Numbers go up and are not used
//! again, so an exported file never changes its name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The open end of the record.
pub struct Files {
    folder: PathBuf,
    most_bytes: u64,
    most_files: usize,
    number: u64,
    file: File,
    /// What is known to be whole; whatever is beyond was torn and is cut.
    bytes: u64,
    /// Whether the last line has no end, after a crash. It must not swallow the next one.
    is_torn: bool,
}

/// The files of a folder by their numbers, oldest first; none if there is no folder.
pub fn folder_files(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name
            .strip_prefix("receipts-")
            .and_then(|rest| rest.strip_suffix(".jsonl"))
            .and_then(|number| number.parse().ok());
        files.extend(number.map(|number| (number, path.clone())));
    }
    files.sort();
    Ok(files)
}

fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("receipts-{number:08}.jsonl"))
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(path)
}

impl Files {
    /// Goes on where the last run ended.
    pub fn open(folder: &Path, most_bytes: u64, most_files: usize) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let number = folder_files(folder)?.last().map_or(1, |last| last.0);
        let mut file = open(&path_of(folder, number))?;
        let bytes = file.metadata()?.len();
        let mut last = *b"\n";
        if bytes > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            most_bytes,
            most_files,
            number,
            file,
            bytes,
            // It is ended with the next receipt: there may be no room now.
            is_torn: last != *b"\n",
        })
    }

    /// Size of a file at most.
    pub fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Appends whole lines. After an error nothing of them stays, and the same lines may
    /// be appended again.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.file.write_all(b"\n")?;
            self.bytes += 1;
            self.is_torn = false;
        }
        if self.bytes > 0 && self.bytes + lines.len() as u64 > self.most_bytes {
            self.begin_next()?;
        }
        if let Err(error) = self.file.write_all(lines) {
            // If cutting fails too, the torn line is passed over when it is read.
            self.is_torn = self.file.set_len(self.bytes).is_err();
            return Err(error);
        }
        self.bytes += lines.len() as u64;
        Ok(())
    }

    /// What was appended is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn begin_next(&mut self) -> io::Result<()> {
        self.sync()?;
        self.file = open(&path_of(&self.folder, self.number + 1))?;
        self.number += 1;
        self.bytes = 0;
        let files = folder_files(&self.folder)?;
        for (_, path) in &files[..files.len().saturating_sub(self.most_files)] {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}
