//! What outlives a run: where peers were found, and who has behaved badly.
//!
//! Both are small text files. They are read before the first event, and written now and
//! then by a thread that the swarm does not wait for. A file that is torn, too large or
//! full of nonsense costs its contents, never the start.

use std::fs;
use std::path::PathBuf;

use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;

use super::Node;
use crate::host_cache::HostCache;
use crate::{addresses, identity, whole_file};

/// Bytes of a file that are read at most.
const MOST_FILE_BYTES: u64 = 1 << 20;
/// How often the files are written.
pub const SAVE_MS: u64 = 60_000;
/// Addresses that others have named are worth less than those that were good.
const HEARSAY_MS: u64 = 3_600_000;

/// The text of a file; nothing if it cannot be had.
pub fn read(path: Option<&PathBuf>) -> String {
    let Some(path) = path else {
        return String::new();
    };
    let is_small = fs::metadata(path).is_ok_and(|data| data.len() <= MOST_FILE_BYTES);
    let bytes = is_small.then(|| fs::read(path).ok()).flatten();
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

/// Writes each file as a whole; what cannot be written is as it was.
pub fn write_all(files: Vec<(PathBuf, String)>) {
    for (path, text) in files {
        if let Err(error) = whole_file::write(&path, text.as_bytes()) {
            tracing::warn!("cannot write {}: {error}", path.display());
        }
    }
}

impl Node {
    /// The files as they should be now.
    fn files(&mut self) -> Vec<(PathBuf, String)> {
        let mut files = Vec::new();
        if let Some(path) = self.options.host_cache.clone() {
            self.note_hearsay();
            // Better an old file than an empty one.
            if !self.hosts.is_empty() {
                files.push((path, self.hosts.to_text()));
            }
        }
        if let Some(path) = self.options.offenders.clone() {
            files.push((path, self.offenders.to_text(self.now())));
        }
        files
    }

    /// Peer exchange: whoever the members say that they are may still be there after a
    /// restart.
    fn note_hearsay(&mut self) {
        let found_ms = self.now().wall_ms.saturating_sub(HEARSAY_MS);
        let mut found = Vec::new();
        for (peer, lease) in self.membership.leases().filter(|(id, _)| *id != self.me) {
            let Some(libp2p_peer) = identity::to_libp2p(peer) else {
                continue;
            };
            for bytes in &lease.addresses {
                if let Ok(mut address) = Multiaddr::try_from(bytes.clone())
                    && addresses::may_dial(&address, self.options.allow_private)
                {
                    if !address.iter().any(|part| matches!(part, Protocol::P2p(_))) {
                        address.push(Protocol::P2p(libp2p_peer));
                    }
                    found.push(address);
                }
            }
        }
        for address in found.into_iter().take(HostCache::MOST) {
            self.hosts.found(address, found_ms);
        }
    }

    /// Writes the files if it is time, unless the last writing is not over yet.
    pub(super) fn tick_files(&mut self) {
        let now_ms = self.now_ms();
        let is_writing = self
            .writing
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if now_ms >= self.save_due_ms && !is_writing {
            self.save_due_ms = now_ms + SAVE_MS;
            let files = self.files();
            if !files.is_empty() {
                self.writing = Some(tokio::task::spawn_blocking(|| write_all(files)));
            }
        }
    }

    /// There is something new that should not be lost: the files are written soon.
    pub(super) fn save_soon(&mut self) {
        self.save_due_ms = 0;
    }

    /// Writes the files for the last time; nothing else is left to do.
    pub(super) async fn save_last(&mut self) {
        if let Some(task) = self.writing.take() {
            // If it panicked, the files are written all the same.
            let _panicked = task.await;
        }
        write_all(self.files());
    }
}
