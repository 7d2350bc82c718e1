//! The overlay: the network of peers, and how messages travel in it.
//!
//! An overlay knows who is there and carries opaque bytes to them. It knows nothing
//! of URLs, pages or ranges; the crawler above knows nothing of sockets, and never
//! learns which overlay it runs on.
//!
//! Three ways lead to other peers. [`Overlay::hand_on`] may be lost on the way, so
//! its user waits for a receipt; how it travels (broadcast or routed) is the
//! overlay's affair. [`Overlay::send`] goes to one peer. [`Overlay::request`] goes to
//! one peer and brings an answer back, or none within its deadline. What others send
//! arrives as [`Event`]s on one bounded channel.
//!
//! - [`PeerId`], [`Member`], [`Role`]: who is there
//! - [`Purpose`], [`Statistics`]: what messages are about, and how many bytes that takes
//! - [`Contact`]: what is known of a peer from connections with it
//! - [`Event`], [`Reply`], [`Replier`], [`Outcome`], [`Verdict`]: what comes in
//! - [`memory`]: an overlay inside one process, for a peer alone and for tests
//! - [`network`]: the flat and the supernode overlay over libp2p
//! - [`membership`] and [`lease`], [`election`], [`topology`], [`routing`], [`host_cache`],
//!   [`back_off`], [`pace`], [`once`], [`handshake`], [`lan`], [`ports`], [`addresses`]: what
//!   those two decide, as state machines and functions that are told the time and touch no
//!   socket
//! - [`reachability`]: whether others can reach a peer; [`guard`]: where anybody may be
//!   made to connect
//! - [`meter`]: the seam for a limit on bytes; [`whole_file`]: small files, replaced
//! - [`envelope`], [`replay`], [`offenders`], [`identity`]: what strangers send, checked

pub mod addresses;
pub mod back_off;
pub mod clock;
pub mod election;
pub mod envelope;
mod event;
pub mod guard;
pub mod handshake;
pub mod host_cache;
pub mod identity;
pub mod lan;
pub mod lease;
pub mod membership;
pub mod memory;
pub mod meter;
pub mod network;
pub mod offenders;
pub mod once;
pub mod pace;
mod peer_id;
pub mod ports;
pub mod reachability;
pub mod replay;
pub mod routing;
pub mod topology;
pub mod whole_file;

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use serde::{Deserialize, Serialize};

pub use event::{Event, MessageId, Outcome, Replier, Reply, Verdict, reply_channel};
pub use peer_id::PeerId;
pub use reachability::Reachability;

/// What a peer does for the overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// One of many equals, as all are in a flat overlay.
    Peer,
    /// A peer that routes for others.
    Supernode,
    /// A peer that speaks to its supernodes alone.
    Leaf,
}

/// A live peer, as its own announcement describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Who it is.
    pub id: PeerId,
    /// What it does for the overlay.
    pub role: Role,
    /// What it says about itself to the layers above; opaque here.
    pub facts: Arc<[u8]>,
    /// Through whom it can be reached: a leaf's supernodes, the best first. Others can
    /// mostly be reached without anybody.
    pub via: Arc<[PeerId]>,
}

impl Member {
    /// Whether both are the same to the layers above, whichever way leads there.
    fn is_like(&self, other: &Self) -> bool {
        (self.id, self.role, &self.facts) == (other.id, other.role, &other.facts)
    }
}

/// What a message is about. The overlay reads no messages; it counts them by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// URLs for their owner, and its receipts.
    Urls,
    /// Whether a content was seen before.
    Content,
    /// A site for its new owner.
    Handover,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Urls, Self::Content, Self::Handover];
}

/// Why a message did not set out. That one which did may still be lost on the way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    /// The receiver is not a member.
    #[error("peer {0} is not a member")]
    Unknown(PeerId),
    /// Too much is under way already; try again later.
    #[error("too much is under way to peer {0}")]
    Busy(PeerId),
    /// The message is larger than messages may be.
    #[error("a message of {0} bytes is too large")]
    TooLarge(usize),
    /// This peer has left the overlay.
    #[error("this peer has left the overlay")]
    Left,
}

/// Messages of one purpose, and the bytes in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages that left this peer, each copy counted.
    pub messages_sent: u64,
    /// Bytes in them.
    pub bytes_sent: u64,
    /// Messages that came in.
    pub messages_received: u64,
    /// Bytes in them.
    pub bytes_received: u64,
}

/// A peer that is no member of ours because it works by other rules, or we by its.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Who it is.
    pub peer: PeerId,
    /// Why, in a sentence for the user.
    pub reason: String,
}

/// A peer that this one has been connected with, and what is known of it from that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// Who it is.
    pub peer: PeerId,
    /// Where it was last reached, or called from.
    pub address: String,
    /// How long it takes to answer; `None` while there is no connection.
    pub round_trip: Option<Duration>,
    /// Bytes that were said to it, encryption not included.
    pub bytes_sent: u64,
    /// Bytes that it said.
    pub bytes_received: u64,
}

/// What has gone through an overlay since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Messages that left this peer, each copy counted.
    pub messages_sent: u64,
    /// Bytes in them.
    pub bytes_sent: u64,
    /// Messages that came in.
    pub messages_received: u64,
    /// Bytes in them.
    pub bytes_received: u64,
    /// Messages that were lost or given up here: there was no room for them or no way to
    /// their receiver, it was busy or too slow, or a test wanted it so.
    pub messages_dropped: u64,
    /// Messages of the gossip mesh that came in; of one that comes again only the first
    /// counts.
    pub gossip_heard: u64,
    /// Of these, those that were lost on purpose, for a test.
    pub gossip_lost: u64,
    /// Addresses of peers, named by other peers, that are not dialled because they are not
    /// public or lead nowhere.
    pub addresses_refused: u64,
    /// Of these, what keeps the network together.
    pub membership: Traffic,
    /// Of these, URLs and their receipts.
    pub urls: Traffic,
    /// Of these, what is about contents that were seen.
    pub content: Traffic,
    /// Of these, sites on the way to their new owners.
    pub handover: Traffic,
    /// Of these, what was carried for others.
    pub carried: Traffic,
    /// Bytes that went out over sockets, encryption included; QUIC's headers are estimated.
    pub socket_bytes_sent: u64,
    /// Bytes that came in over sockets, encryption included; QUIC's headers are estimated.
    pub socket_bytes_received: u64,
    /// Whether others can connect to this peer.
    pub reachability: Reachability,
    /// Connections to others that lead straight there, now.
    pub direct_connections: u64,
    /// Connections to others that lead through a relay, now.
    pub relayed_connections: u64,
    /// Connections through a relay that have become direct ones, so far.
    pub upgraded_connections: u64,
    /// Relays at which this peer has a place, now.
    pub relays: u64,
    /// Connections between others that lead through this peer, now.
    pub circuits_carried: u64,
}

impl Traffic {
    /// Both together.
    fn plus(self, other: Self) -> Self {
        Self {
            messages_sent: self.messages_sent + other.messages_sent,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            messages_received: self.messages_received + other.messages_received,
            bytes_received: self.bytes_received + other.bytes_received,
        }
    }
}

impl Statistics {
    /// What has gone through this overlay and an earlier one. What is now is this one's.
    pub fn after(self, earlier: Self) -> Self {
        Self {
            messages_sent: self.messages_sent + earlier.messages_sent,
            bytes_sent: self.bytes_sent + earlier.bytes_sent,
            messages_received: self.messages_received + earlier.messages_received,
            bytes_received: self.bytes_received + earlier.bytes_received,
            messages_dropped: self.messages_dropped + earlier.messages_dropped,
            gossip_heard: self.gossip_heard + earlier.gossip_heard,
            gossip_lost: self.gossip_lost + earlier.gossip_lost,
            addresses_refused: self.addresses_refused + earlier.addresses_refused,
            membership: self.membership.plus(earlier.membership),
            urls: self.urls.plus(earlier.urls),
            content: self.content.plus(earlier.content),
            handover: self.handover.plus(earlier.handover),
            carried: self.carried.plus(earlier.carried),
            socket_bytes_sent: self.socket_bytes_sent + earlier.socket_bytes_sent,
            socket_bytes_received: self.socket_bytes_received + earlier.socket_bytes_received,
            upgraded_connections: self.upgraded_connections + earlier.upgraded_connections,
            reachability: self.reachability,
            direct_connections: self.direct_connections,
            relayed_connections: self.relayed_connections,
            relays: self.relays,
            circuits_carried: self.circuits_carried,
        }
    }
}

/// A network of peers, as the crawler sees it.
///
/// No method blocks, but for [`rejoin`](Self::rejoin): what cannot be taken now is refused.
pub trait Overlay: Send + Sync {
    /// Who this peer is.
    fn me(&self) -> PeerId;

    /// The live members, this peer included, ordered by id. Members with equal lists
    /// compute equal owners.
    fn members(&self) -> Arc<[Member]>;

    /// Tells all members what this peer says about itself.
    fn announce(&self, facts: Arc<[u8]>);

    /// Brings `bytes` towards the peer that is responsible for `key`; `owner` is who
    /// that is as far as the sender knows. Delivery is not certain.
    fn hand_on(
        &self,
        key: u64,
        owner: Option<PeerId>,
        purpose: Purpose,
        bytes: Arc<[u8]>,
    ) -> Result<(), OverlayError>;

    /// Sends `bytes` to one peer.
    fn send(&self, to: PeerId, purpose: Purpose, bytes: Arc<[u8]>) -> Result<(), OverlayError>;

    /// Asks one peer, and gives its answer until the deadline.
    fn request(
        &self,
        to: PeerId,
        purpose: Purpose,
        bytes: Arc<[u8]>,
        deadline: Duration,
    ) -> Result<Reply, OverlayError>;

    /// What comes in. All clones of the receiver share one bounded channel.
    fn events(&self) -> Receiver<Event>;

    /// What the crawler thinks of a message: whether it may travel on, and whether
    /// its sender earned blame.
    fn verdict(&self, message: MessageId, verdict: Verdict);

    /// What has gone through so far.
    fn statistics(&self) -> Statistics;

    /// Whether this peer does for others what they need not have from it: a peer that is
    /// paused becomes no supernode and no relay. It does until told otherwise.
    fn serve_others(&self, _does: bool) {}

    /// Whether the user lets this peer be a supernode, from now on. One that is steps back
    /// as soon as there is another. Where all are equals this means nothing.
    fn allow_supernode(&self, _allowed: bool) {}

    /// The peers that this one has been connected with, ordered by id.
    fn contacts(&self) -> Vec<Contact> {
        Vec::new()
    }

    /// Leaves the network; nothing is sent afterwards.
    fn leave(&self);

    /// Joins the network again after having left it; tells whether that worked. What was
    /// announced has to be announced again, and [`events`](Self::events) may be another
    /// channel from then on. It waits until the system says where this peer listens, which
    /// may take five seconds.
    fn rejoin(&self) -> bool {
        false
    }

    /// Looks for the network at these multiaddresses too, now and from now on; tells
    /// whether it does. Nothing that is under way is disturbed.
    fn seek_at(&self, _addresses: &[String]) -> bool {
        false
    }

    /// Whether this peer knows of a network that it may still find: whoever has just
    /// started had better not think that it is alone.
    fn is_joining(&self) -> bool {
        false
    }

    /// Where this machine listens: multiaddresses that end in this peer's id.
    fn listening(&self) -> Vec<String> {
        Vec::new()
    }

    /// Where this peer tells others to call it: where it listens, and if others see it
    /// from outside, at the address of its router or through a relay, also there.
    fn callable(&self) -> Vec<String> {
        self.listening()
    }

    /// The latest peers that were refused or refused us, and why.
    fn refusals(&self) -> Vec<Refusal> {
        Vec::new()
    }
}
