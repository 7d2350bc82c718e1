//! The rows of the tables.

/// Some rows of a table: those that the window asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct View<R> {
    /// Rows that there are in all, after search and filter.
    pub total: usize,
    /// The number of the first of `rows`, counted from 0.
    pub first: usize,
    /// The rows from there on.
    pub rows: Vec<R>,
}

impl<R> Default for View<R> {
    fn default() -> Self {
        Self {
            total: 0,
            first: 0,
            rows: Vec::new(),
        }
    }
}

impl<R> View<R> {
    /// A table that is held as a whole.
    pub fn whole(rows: Vec<R>) -> Self {
        Self {
            total: rows.len(),
            first: 0,
            rows,
        }
    }

    /// A row by its number, if it is among those that are here.
    pub fn get(&self, number: usize) -> Option<&R> {
        self.rows.get(number.checked_sub(self.first)?)
    }
}

/// What became of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A new page.
    Fetched,
    /// A page that was met before, elsewhere.
    Duplicate,
    /// The site asks robots to stay away from it.
    RobotsRefused,
    /// It took too long.
    Timeout,
    /// Anything else that went wrong.
    Error,
    /// It would have led into the volunteer's own network.
    PrivateRefused,
    /// It looked like one of endlessly many made-up pages.
    Trap,
}

impl Outcome {
    /// All of them, in the order in which they are offered as filters.
    pub const ALL: [Self; 7] = [
        Self::Fetched,
        Self::Duplicate,
        Self::RobotsRefused,
        Self::Timeout,
        Self::Error,
        Self::PrivateRefused,
        Self::Trap,
    ];
}

/// A fetch that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetching {
    /// Its URL.
    pub url: String,
    /// When it began.
    pub since_ms: u64,
}

/// What became of one fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRow {
    /// When it ended.
    pub at_ms: u64,
    /// Its URL.
    pub url: String,
    /// The host, for *block this site*.
    pub host: String,
    /// The page's title in whatever script; empty if there is none.
    pub title: String,
    /// What became of it.
    pub outcome: Outcome,
    /// More words, such as the status or the error; may be empty.
    pub detail: String,
    /// What came.
    pub bytes: u64,
    /// How long it took.
    pub took_ms: u64,
}

/// A host and what waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRow {
    /// Its name.
    pub host: String,
    /// URLs that wait in memory.
    pub in_memory: u64,
    /// URLs that wait on disk.
    pub on_disk: u64,
    /// When the next one may be fetched; `None` while one is being fetched.
    pub next_ms: Option<u64>,
    /// The time between two fetches.
    pub delay_ms: u64,
    /// Why it is so long ("robots.txt", "slow server", "rests: no answer in time").
    pub delay_why: String,
    /// Pages fetched.
    pub fetched: u64,
    /// Fetches that failed.
    pub errors: u64,
    /// URLs that were turned away because too many waited.
    pub dropped: u64,
    /// Whether it is on the block list.
    pub blocked: bool,
    /// Whether all of it is on disk: delay, pages and errors are not known before it is read.
    pub is_away: bool,
}

impl HostRow {
    /// URLs that wait.
    pub fn waiting(&self) -> u64 {
        self.in_memory + self.on_disk
    }
}

/// What a peer does in the network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// It passes messages on for others.
    Supernode,
    /// It is linked to a few supernodes.
    #[default]
    Leaf,
    /// It is one of many equals, as all are in a flat network.
    Peer,
}

/// A peer.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerRow {
    /// Its id, shortened for people.
    pub id: String,
    /// Where it was reached; empty if it was only heard of.
    pub address: String,
    /// Whether it is this one.
    pub me: bool,
    /// What it does.
    pub role: Role,
    /// Its part of all hosts, from 0 to 1.
    pub share: f64,
    /// How long an answer takes, in microseconds, if it is connected.
    pub rtt_us: Option<u64>,
    /// Received from it, if that is known.
    pub download_bytes: Option<u64>,
    /// Sent to it, if that is known.
    pub upload_bytes: Option<u64>,
    /// Its program's version; empty if unknown.
    pub version: String,
}

/// A file of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveFile {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Pages in it.
    pub pages: u64,
    /// When its first page was stored.
    pub from_ms: u64,
    /// When its last page was stored.
    pub to_ms: u64,
}

/// How much an event matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For whoever looks for a fault.
    Detail,
    /// Something happened.
    #[default]
    Info,
    /// Something is odd.
    Warning,
    /// Something failed.
    Error,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    /// When it happened.
    pub at_ms: u64,
    /// How much it matters.
    pub level: LogLevel,
    /// What happened.
    pub text: String,
}
