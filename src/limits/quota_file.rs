//! Where the account of the thirty days is kept from run to run: a small file that is
//! replaced as a whole, so that a crash leaves the old one or the new one.

use std::path::{Path, PathBuf};
use std::{fs, io};

use peercrawl_overlay::whole_file;

use crate::clock::Millis;
use crate::store::{SetAside, StoreError};

/// How much of the account a crash can lose.
const PERIOD_MS: Millis = 30_000;

/// See the module.
#[derive(Debug)]
pub struct QuotaFile {
    path: PathBuf,
    saved_ms: Millis,
}

impl QuotaFile {
    /// Keeps the account in this file. Gives what an earlier run has left there, if
    /// there was one.
    pub fn open(path: &Path) -> io::Result<(Self, Option<Vec<u8>>)> {
        let left = match fs::read(path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let file = Self {
            path: path.to_owned(),
            saved_ms: 0,
        };
        Ok((file, left))
    }

    /// What was left there is no account: it gets another name, and is not written over.
    pub fn set_aside(&self) -> Result<SetAside, StoreError> {
        SetAside::rename(&self.path, "it is no account of data".to_owned())
    }

    /// Whether it is time to save again.
    pub fn is_due(&self, now_ms: Millis) -> bool {
        now_ms >= self.saved_ms + PERIOD_MS
    }

    /// Replaces what the file holds.
    pub fn save(&mut self, bytes: &[u8], now_ms: Millis) {
        self.saved_ms = now_ms;
        if let Err(error) = whole_file::write(&self.path, bytes) {
            let path = self.path.display();
            tracing::warn!("cannot save the data of the thirty days to {path}: {error}");
        }
    }
}
