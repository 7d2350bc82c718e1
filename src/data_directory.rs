//! The data directory: where a peer keeps what must outlive it.
//!
//! One process at a time has it. It holds the peer's identity, the archive, the receipts,
//! and the state of what is being crawled: one for each network that the peer takes part in,
//! and one for each crawl that was begun by `peercrawl crawl` and is not finished.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::archive::{self, DiskLimit};
use crate::config::{self, Settings, WhenFull};
use crate::crawl::CrawlId;
use crate::ledger::{KeepError, Kept};
use crate::receipts;
use crate::store::{DataFolder, StoreError};

/// The state of a peer that takes part in the usual network.
pub const PEER_STATE: &str = "state";

/// The state of a peer that takes part in this network. Each has its own: what waits in one
/// network is not for the peers of another, and is there again for whoever comes back.
fn peer_state(network: &str) -> String {
    if network == Settings::default().overlay.network {
        return PEER_STATE.to_owned();
    }
    let hash = blake3::hash(network.as_bytes()).to_hex();
    format!("{PEER_STATE}-{}", &hash[..16])
}

/// The state of one crawl alone.
pub fn crawl_state(crawl: CrawlId) -> String {
    format!("crawl-{:016x}", crawl.0)
}

/// See the module.
pub struct DataDirectory {
    folder: Arc<DataFolder>,
    secret: [u8; 32],
    /// What had to be put right, in words for people.
    pub notices: Vec<String>,
}

impl DataDirectory {
    /// Where the platform keeps such things, if it has such a place. On this machine alone: an
    /// archive does not follow its user from one to the next.
    pub fn usual_place() -> Option<PathBuf> {
        let folders = directories::ProjectDirs::from("", "", "peercrawl")?;
        Some(folders.data_local_dir().to_owned())
    }

    /// Takes a directory into use; `fresh` is the secret of a peer that has none yet.
    pub fn open(path: &Path, fresh: [u8; 32]) -> Result<Self, StoreError> {
        let folder = DataFolder::open(path)?;
        let (secret, set_aside) = folder.identity(|| fresh)?;
        Ok(Self {
            folder: Arc::new(folder),
            secret,
            notices: set_aside.iter().map(ToString::to_string).collect(),
        })
    }

    /// The secret key of this peer.
    pub fn secret(&self) -> [u8; 32] {
        self.secret
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where the account of the volunteer's data is.
    pub fn quota(&self) -> PathBuf {
        self.folder.path().join("quota")
    }

    /// Where the archive's files are.
    pub fn archive(&self) -> PathBuf {
        self.folder.archive()
    }

    /// Where the receipts are.
    pub fn receipts(&self) -> PathBuf {
        self.path().join(receipts::FOLDER)
    }

    /// Opens the state of a peer in the network of the settings, and the archive if they
    /// want one.
    pub fn keep_peer(&self, settings: &Settings) -> Result<Kept, KeepError> {
        self.keep(&peer_state(&settings.overlay.network), settings)
    }

    /// Opens the state of this name, and the archive if the settings want one.
    pub fn keep(&self, state: &str, settings: &Settings) -> Result<Kept, KeepError> {
        let archive = settings.archive.enabled.then(|| archive::Settings {
            folder: self.archive(),
            owner: state.to_owned(),
            file_bytes: settings.archive.file_bytes,
            unique: blake3::derive_key("peercrawl archive files 1", &self.secret).to_vec(),
            info: vec![
                (
                    "software".into(),
                    concat!("PeerCrawl/", env!("CARGO_PKG_VERSION")).into(),
                ),
                ("format".into(), "WARC File Format 1.1".into()),
                ("robots".into(), "obey".into()),
            ],
            limit: disk_limit(&settings.archive),
        });
        Kept::open(self.folder.clone(), state, archive)
    }

    /// Forgets the state of this name, which no engine may have open.
    pub fn forget(&self, state: &str) -> Result<(), StoreError> {
        self.folder.erase(state)
    }
}

/// The disk that the archive may have, as the settings say.
pub fn disk_limit(settings: &config::Archive) -> DiskLimit {
    DiskLimit {
        limit_bytes: match settings.limit_bytes {
            0 => u64::MAX,
            bytes => bytes,
        },
        when_full: match settings.when_full {
            WhenFull::Stop => archive::WhenFull::Stop,
            WhenFull::RemoveOldest => archive::WhenFull::RemoveOldest,
        },
    }
}
