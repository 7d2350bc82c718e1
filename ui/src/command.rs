//! What the user wants.
//!
//! Every button, field and shortcut ends in one of these. A command never answers:
//! what became of it shows in a later [`Model`](crate::Model).

use std::ops::Range;
use std::path::PathBuf;

use crate::model::{Field, LogLevel, Outcome, Setting};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The first page was answered with *Start crawling*.
    Begin {
        /// The settings that differ from those of the model.
        settings: Vec<Setting>,
        /// Where to begin.
        with: Begin,
    },
    /// The first page was answered with *Not now*.
    NotNow,
    /// Crawl, or go on with it. If there is nothing to crawl, the backend shows the
    /// first page again: *Start* never leads to nothing.
    Start,
    /// Stop fetching, stay in the network.
    Pause,
    /// The same, for a time.
    PauseFor {
        /// How long.
        minutes: u32,
    },
    /// Complete what is under way, then leave the network.
    FinishAndStop,
    /// End the demo, and go back to where it was begun.
    LeaveDemo,
    /// Change a setting: at once, and in the config file.
    Change(Setting),
    /// What tables and graphs the window needs from now on.
    Show(Box<ViewRequest>),
    /// Never visit this host again.
    BlockSite(String),
    /// Visit it again.
    UnblockSite(String),
    /// Check these lines; the answer is `model.crawl.check`.
    CheckSeeds(String),
    /// Begin at these addresses too.
    AddSeeds(Vec<String>),
    /// Do not begin at these any more.
    RemoveSeeds(Vec<String>),
    /// Call a peer at this address.
    AddPeer(String),
    /// Read a join file; what it would do becomes `model.crawl.offer`.
    ReadJoinFile(PathBuf),
    /// Do what the offer says.
    AcceptJoin,
    /// Forget the offer.
    DeclineJoin,
    /// Write a join file of this crawl.
    MakeJoinFile(PathBuf),
    /// Open the desktop's dialog for this field and then do as if the user had typed
    /// its answer. Sent only where `abilities.file_dialog` is set.
    Browse(Field),
    /// Open the archive's folder in the desktop's file browser.
    OpenArchiveFolder,
    /// Look a URL up in the archive; the answer is `model.archive.look_up`.
    LookUp(String),
    /// Move the archive to this folder.
    MoveArchive(PathBuf),
    /// Delete the archive's oldest file. The user was asked.
    DropOldest,
    /// The window was hidden; the crawl goes on.
    Hidden,
    /// The window is closing; the program ends.
    Quit,
}

/// Where a crawl begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// With what is configured already.
    AsConfigured,
    /// At this web site.
    Site(String),
    /// With a join file.
    JoinFile(PathBuf),
    /// With whatever the peer at this address crawls.
    Peer(String),
    /// With the built-in demo.
    Demo,
}

/// A screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the rail")]
pub enum Screen {
    #[default]
    Overview,
    Activity,
    Queues,
    Network,
    Crawl,
    Archive,
    Limits,
    Log,
}

impl Screen {
    /// All screens, in the order of the rail and of their shortcuts.
    pub const ALL: [Self; 8] = [
        Self::Overview,
        Self::Activity,
        Self::Queues,
        Self::Network,
        Self::Crawl,
        Self::Archive,
        Self::Limits,
        Self::Log,
    ];

    /// Its name on the rail.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Activity => "Activity",
            Self::Queues => "Queues",
            Self::Network => "Network",
            Self::Crawl => "Crawl",
            Self::Archive => "Archive",
            Self::Limits => "Limits",
            Self::Log => "Log",
        }
    }
}

/// What the window needs. Only what the current screen shows has to be kept up to
/// date; the rest of the model may be empty or old.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewRequest {
    /// The screen that is shown.
    pub screen: Screen,
    /// Results: search in URL and title.
    pub results_search: String,
    /// Only results with this outcome.
    pub outcome: Option<Outcome>,
    /// The results that are visible and some more, counted from the newest.
    pub results_rows: Range<usize>,
    /// Hosts: search in the name.
    pub hosts: TableRequest<HostColumn>,
    /// Peers: search in id and address.
    pub peers: TableRequest<PeerColumn>,
    /// The archive's files, always newest first.
    pub archive_rows: Range<usize>,
    /// Log: search in the text; always the newest [`LOG_ROWS`].
    pub log_search: String,
    /// Only events that matter so much.
    pub log_level: LogLevel,
}

/// Events that the window asks for at most.
pub const LOG_ROWS: usize = 1_000;

impl Default for ViewRequest {
    fn default() -> Self {
        Self {
            screen: Screen::default(),
            results_search: String::new(),
            outcome: None,
            results_rows: 0..64,
            hosts: TableRequest::by(HostColumn::Waiting),
            peers: TableRequest::by(PeerColumn::Share),
            archive_rows: 0..64,
            log_search: String::new(),
            log_level: LogLevel::default(),
        }
    }
}

/// The part of a table that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRequest<C> {
    /// Only rows that hold this text, upper and lower case alike; empty for all.
    pub search: String,
    /// The column to sort by.
    pub sort_by: C,
    /// Greatest first.
    pub descending: bool,
    /// The rows that are visible, and some more around them.
    pub rows: Range<usize>,
}

impl<C> TableRequest<C> {
    fn by(column: C) -> Self {
        Self {
            search: String::new(),
            sort_by: column,
            descending: true,
            rows: 0..64,
        }
    }
}

/// A column of the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the columns")]
pub enum HostColumn {
    Host,
    Waiting,
    InMemory,
    OnDisk,
    Next,
    Delay,
    Fetched,
    Errors,
    Dropped,
}

/// A column of the peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the columns")]
pub enum PeerColumn {
    Id,
    Role,
    Share,
    RoundTrip,
    Download,
    Upload,
    Version,
}
