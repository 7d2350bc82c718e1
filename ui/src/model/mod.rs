//! What the window draws: plain data, made by whoever owns the engine.
//!
//! A [`Model`] is immutable and cheap to make 4 times a second: what is large is
//! behind an `Arc` and is shared from one model to the next while it did not
//! change, and tables hold only the rows that the window asked for
//! ([`ViewRequest`](crate::command::ViewRequest)) plus how many there are in all.
//! Times are milliseconds since 1970 in UTC; `utc_offset_minutes` turns them into
//! the volunteer's clock.
//!
//! - here: the state, the rates, graphs, totals, and what the rest hangs on.
//! - [`settings`]: everything that the volunteer can set, and single changes to it.
//! - [`tables`]: the rows of the tables.
//! - [`places`]: what the Network, Crawl and Archive screens show besides tables.

pub mod places;
pub mod settings;
pub mod tables;

use std::sync::Arc;

pub use places::{
    Archive, Crawl, Demo, FirstRun, Found, JoinOffer, LookUp, Moved, Network, Node, SeedCheck,
    SeedLine, Traffic,
};
pub use settings::{
    DayHours, OnClose, OverlayKind, Scope, Setting, Settings, ThemeChoice, WEEKDAYS,
};
pub use tables::{
    ArchiveFile, Fetching, HostRow, LogLevel, LogRow, Outcome, PeerRow, ResultRow, Role, View,
};

/// Everything that there is to draw.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// When this model was made, in milliseconds since 1970 (UTC).
    pub now_ms: u64,
    /// What the volunteer's clock is ahead of UTC.
    pub utc_offset_minutes: i32,
    /// Set until the volunteer has answered the first page; nothing is fetched before.
    pub first_run: Option<FirstRun>,
    /// Set while this is a demo: a made-up web on this computer, of which nothing is kept.
    pub demo: Option<Demo>,
    /// What the crawl does, and why.
    pub state: RunState,
    /// Whether it has ever crawled.
    pub has_run: bool,
    /// What else the volunteer should know for as long as it is so, in sentences.
    pub warnings: Vec<String>,
    /// How fast it goes now.
    pub rates: Rates,
    /// The past as graphs.
    pub graphs: Arc<Graphs>,
    /// Sums since midnight, since the first of the month, and ever.
    pub totals: Totals,
    /// The monthly data limit and what is left of it.
    pub quota: Quota,
    /// The memory that it takes.
    pub memory: Memory,
    /// What was not fetched on purpose, in this crawl.
    pub refused: Refused,
    /// What is being fetched at this moment.
    pub fetching: Arc<Vec<Fetching>>,
    /// What was fetched last, newest first.
    pub results: Arc<View<ResultRow>>,
    /// The hosts and what waits for them.
    pub hosts: Arc<View<HostRow>>,
    /// Hosts that are on disk alone. They are among `hosts` while nothing is searched for; a
    /// search finds them by their whole name only.
    pub on_disk_alone: usize,
    /// The picture of the network.
    pub network: Arc<Network>,
    /// The peers.
    pub peers: Arc<View<PeerRow>>,
    /// The crawl that this peer takes part in.
    pub crawl: Arc<Crawl>,
    /// What has been stored.
    pub archive: Arc<Archive>,
    /// The files of the archive, newest first.
    pub archive_files: Arc<View<ArchiveFile>>,
    /// Everything that can be set.
    pub settings: Arc<Settings>,
    /// Events, newest last.
    pub log: Arc<View<LogRow>>,
    /// What is wrong with what was typed into a field. An entry is drawn beside its
    /// field until a later model no longer has it.
    pub problems: Vec<(Field, String)>,
    /// What was done or went wrong; each is shown once, for a few seconds. The ids
    /// grow; entries may be dropped after a minute.
    pub notices: Vec<Notice>,
    /// What this desktop can do.
    pub abilities: Abilities,
    /// Whether the desktop is dark; `None` where it does not tell.
    pub system_is_dark: Option<bool>,
    /// Each time that this grows the window comes to the front: a second start of the
    /// program, a click on the tray icon.
    pub raise_window: u64,
    /// The program ends, and its window with it: somebody asked for that elsewhere.
    pub quits: bool,
}

impl Model {
    /// Whether it says anything yet. Before the first one is made, there are the settings at
    /// most, for the looks of a window that is just being opened.
    pub fn is_made(&self) -> bool {
        self.now_ms > 0
    }
}

/// What the crawl does, and why.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum RunState {
    /// Opening its files, looking for peers.
    #[default]
    Starting,
    /// Pages come in.
    Crawling,
    /// It would fetch, but cannot.
    Waiting(WaitReason),
    /// It does not fetch, on purpose.
    Paused(PauseReason),
    /// It completes what it began and takes nothing new.
    Finishing {
        /// Fetches that are still under way.
        fetches_left: u32,
    },
    /// It does nothing.
    Stopped,
    /// Something needs the volunteer.
    NeedsYou {
        /// What happened and what to do.
        text: String,
        /// Whether it goes on nevertheless, and so can be paused and finished.
        is_running: bool,
        /// Whether it tries again by itself to start, until it is told to stop.
        tries_again: bool,
    },
}

impl RunState {
    /// Whether *Start* makes sense (else *Pause* does). Against a pause that the schedule
    /// or the computer makes, it could do nothing.
    pub fn can_start(&self) -> bool {
        match self {
            Self::Paused(reason) => reason.is_by_volunteer(),
            Self::NeedsYou { is_running, .. } => !is_running,
            Self::Finishing { .. } | Self::Stopped => true,
            Self::Starting | Self::Crawling | Self::Waiting(_) => false,
        }
    }

    /// Whether there is something to finish.
    pub fn can_finish(&self) -> bool {
        match self {
            Self::NeedsYou {
                is_running,
                tries_again,
                ..
            } => *is_running || *tries_again,
            Self::Finishing { .. } | Self::Stopped => false,
            Self::Starting | Self::Crawling | Self::Waiting(_) | Self::Paused(_) => true,
        }
    }
}

/// Why nothing is fetched although it could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitReason {
    /// Nothing is known that could be fetched.
    NoAddresses,
    /// Every host that is known has asked for a pause.
    HostsRest {
        /// When the first may be visited again.
        until_ms: u64,
    },
    /// The crawl has fetched as many pages as it may.
    AllFetched,
    /// There is no way to the internet at the moment.
    Offline,
    /// It has left the network to save data, and cannot come back yet.
    CannotJoin,
    /// Hosts become this peer's, and others may still be fetching from them.
    CatchingUp,
    /// The volunteer's limits leave room for no page at the moment.
    Limits,
}

/// Why it is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseReason {
    /// The volunteer said so.
    ByYou,
    /// The volunteer said so, for a time.
    Until {
        /// When it goes on.
        at_ms: u64,
    },
    /// The computer runs on its battery.
    OnBattery,
    /// The connection is paid by volume.
    Metered,
    /// Other programs keep the processor busy.
    ComputerBusy,
    /// Somebody uses the computer.
    InUse,
    /// The weekly schedule says so.
    Schedule {
        /// When it goes on, if it ever does.
        until_ms: Option<u64>,
    },
    /// The monthly data is used up.
    QuotaUsed {
        /// When it starts anew.
        until_ms: u64,
    },
    /// The archive has reached its limit.
    ArchiveFull,
}

impl PauseReason {
    /// Whether the volunteer paused it, and *Start* ends that.
    pub fn is_by_volunteer(self) -> bool {
        matches!(self, Self::ByYou | Self::Until { .. })
    }
}

/// How fast it goes now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Received.
    pub download_bytes_per_s: f64,
    /// Sent.
    pub upload_bytes_per_s: f64,
    /// Pages fetched.
    pub pages_per_s: f64,
    /// Peers that we know of and that are there.
    pub peers: u32,
    /// URLs that wait.
    pub waiting_urls: u64,
}

/// One point of all graphs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// When, in milliseconds since 1970 (UTC).
    pub at_ms: u64,
    /// Received, a second.
    pub download_bytes_per_s: f32,
    /// Sent, a second.
    pub upload_bytes_per_s: f32,
    /// Pages, a second.
    pub pages_per_s: f32,
    /// URLs that wait.
    pub waiting_urls: f32,
    /// Peers.
    pub peers: f32,
}

/// The past, oldest first, at two resolutions. A gap (the program was closed) is a
/// jump in time, and is drawn as such.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Graphs {
    /// A point for each second of the last 10 minutes.
    pub seconds: Vec<Sample>,
    /// A point for each minute of the last 24 hours.
    pub minutes: Vec<Sample>,
}

/// Sums.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// Since midnight.
    pub today: Total,
    /// Since the first of the month.
    pub this_month: Total,
    /// Since the first start.
    pub ever: Total,
}

/// One sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// Pages fetched.
    pub pages: u64,
    /// Received.
    pub download_bytes: u64,
    /// Sent.
    pub upload_bytes: u64,
}

/// URLs that were not fetched on purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refused {
    /// The site's robots.txt says no.
    pub robots: u64,
    /// They lead into a private network.
    pub private_addresses: u64,
    /// Their site is blocked.
    pub blocked_sites: u64,
    /// They looked like traps.
    pub traps: u64,
    /// At ports where web sites seldom are.
    pub unusual_ports: u64,
}

/// Memory of the whole program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// In use; 0 where the system does not tell.
    pub used_bytes: u64,
    /// What it keeps to, apart from the window itself.
    pub budget_bytes: u64,
}

/// The monthly data limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Used in the current 30 days.
    pub used_bytes: u64,
    /// Allowed in 30 days; 0 for no limit.
    pub limit_bytes: u64,
    /// When the next 30 days begin.
    pub renews_ms: u64,
    /// When it will be reached if it goes on like this; `None`: not before it renews.
    pub reached_ms: Option<u64>,
    /// Whether it is known how fast it goes. It is not in the first minute.
    pub is_pace_known: bool,
}

/// A field that something can be wrong with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The web site to begin with, on the first page.
    FirstSite,
    /// The address of a peer.
    PeerAddress,
    /// The join file to open.
    JoinFile,
    /// Where to write a join file.
    NewJoinFile,
    /// The URL to look up in the archive.
    LookUp,
    /// Where to move the archive.
    ArchiveFolder,
}

/// Something that was done or went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Grows from one notice to the next.
    pub id: u64,
    /// What happened and, where needed, what to do.
    pub text: String,
    /// Whether it went wrong.
    pub failed: bool,
}

/// What this desktop can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Abilities {
    /// There is a tray with our icon in it.
    pub tray: bool,
    /// A dialog to choose a file or a folder can be opened.
    pub file_dialog: bool,
    /// It is known whether the computer runs on its battery.
    pub battery: bool,
    /// It is known whether the connection is paid by volume.
    pub metered: bool,
    /// It is known how busy other programs keep the processor.
    pub processor: bool,
    /// It is known whether somebody uses the computer.
    pub idle_time: bool,
    /// The program can be started at login.
    pub start_at_login: bool,
    /// Fetches that this computer can have under way at once; 0 if that is unknown.
    pub most_fetches: u32,
}

impl Model {
    /// What is wrong with what was typed into a field.
    pub fn problem(&self, field: Field) -> Option<&str> {
        let found = self.problems.iter().find(|(of, _)| *of == field);
        found.map(|(_, text)| text.as_str())
    }
}
