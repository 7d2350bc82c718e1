//! What the first page and the Network, Crawl and Archive screens show.

use super::settings::OverlayKind;
use super::tables::Role;

/// What the first page needs to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstRun {
    /// There is a crawl to take part in already (from the config or a join file), so
    /// that the volunteer need not say where to begin.
    pub has_crawl: bool,
    /// Memory that the program will use about.
    pub memory_mb: u32,
    /// Where pages will be stored.
    pub archive_folder: String,
}

/// What the window needs to know of a demo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demo {
    /// Whether there is something to go back to.
    pub can_leave: bool,
}

/// The network as a picture.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Network {
    /// How it is organised.
    pub overlay: OverlayKind,
    /// Whether this peer is in it; not while it is stopped, or stays away to save data.
    /// `None` before anybody has looked.
    pub takes_part: Option<bool>,
    /// This peer's part of all hosts, from 0 to 1.
    pub my_share: f64,
    /// This peer's addresses, to be given to others.
    pub my_addresses: Vec<String>,
    /// The peers that are called first.
    pub called: Vec<String>,
    /// Whether peers are being looked for on the local network.
    pub looks_on_local_network: bool,
    /// Peers that there are, this one included.
    pub peers: usize,
    /// Those of them that are supernodes.
    pub supernodes: usize,
    /// The nodes to draw, at most a few hundred; this peer among them.
    pub nodes: Vec<Node>,
    /// Links between two of `nodes`, by their numbers.
    pub links: Vec<(usize, usize)>,
    /// What has gone between this computer and other peers, by what it was for.
    pub traffic: Traffic,
    /// Addresses of peers, named by other peers, that are not called.
    pub addresses_refused: u64,
}

/// Bytes between this computer and other peers, by what they were for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// To know who is there.
    pub membership: Moved,
    /// URLs for whoever takes care of them.
    pub urls: Moved,
    /// Whether a content was seen before.
    pub content: Moved,
    /// Hosts for whoever takes care of them now.
    pub handover: Moved,
    /// What other peers had to say to each other.
    pub carried: Moved,
}

/// Bytes in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Received.
    pub download_bytes: u64,
    /// Sent.
    pub upload_bytes: u64,
}

/// A node of the picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its id, shortened for people.
    pub id: String,
    /// Its place on the ring of all ids: 0 and 1 are the top, 0.25 is to the right.
    pub place: f32,
    /// What it does.
    pub role: Role,
    /// Whether it is this peer.
    pub me: bool,
}

/// The crawl that this peer takes part in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Crawl {
    /// The name of the network; empty for none.
    pub network_name: String,
    /// Where the crawl begins.
    pub seeds: Vec<String>,
    /// Hosts that are never visited.
    pub blocked_sites: Vec<String>,
    /// The seeds that were typed, checked.
    pub check: SeedCheck,
    /// Where a new join file would be written.
    pub join_file_path: String,
    /// A join file that was opened and waits for an answer.
    pub offer: Option<JoinOffer>,
}

/// What is right and wrong with seeds that were typed or pasted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeedCheck {
    /// The text that was checked, exactly.
    pub text: String,
    /// Its lines that are not empty, in order; of very many the first ones alone.
    pub lines: Vec<SeedLine>,
}

/// One line of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedLine {
    /// What was typed.
    pub text: String,
    /// What is wrong with it; `None` if it can be added.
    pub problem: Option<String>,
}

/// What a join file would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JoinOffer {
    /// Where it was read from.
    pub file: String,
    /// The name of its network.
    pub network_name: String,
    /// How that network is organised.
    pub overlay: OverlayKind,
    /// Its seeds.
    pub seeds: Vec<String>,
    /// How far it goes, in words.
    pub scope: String,
    /// The peers that it would call first.
    pub peers: Vec<String>,
    /// What would change for the crawl that runs now; empty if nothing would.
    pub leaves: String,
}

/// What has been stored.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Archive {
    /// Where.
    pub folder: String,
    /// Pages in it.
    pub pages: u64,
    /// Its size.
    pub bytes: u64,
    /// What the crawl takes besides: what waits, what was seen, receipts.
    pub besides_bytes: u64,
    /// Its size at most; 0 for no limit.
    pub limit_bytes: u64,
    /// What the oldest file would free, if it were dropped; 0 if there is none to drop.
    pub oldest_bytes: u64,
    /// Whether it is full, and the crawl waits for room.
    pub full: bool,
    /// The answer to the last look-up.
    pub look_up: Option<LookUp>,
}

/// The answer to a look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookUp {
    /// What was looked up.
    pub url: String,
    /// What was found.
    pub found: Found,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It is still being looked for.
    Looking,
    /// It is not stored here.
    Nothing,
    /// A page.
    Page {
        /// When it was stored.
        at_ms: u64,
        /// The server's answer, such as 200.
        status: u16,
        /// What kind of document it is.
        mime: String,
        /// Its size.
        bytes: u64,
        /// The file that it is in.
        file: String,
    },
}
