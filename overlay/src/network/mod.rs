//! The flat and the supernode overlay, over libp2p.
//!
//! A [`NetworkOverlay`] is the handle that the crawler holds. Behind it one thread, named
//! "overlay", runs one task (`node`) that owns the swarm and all state. The handle's
//! methods put commands into bounded channels and never wait; what comes in from
//! others goes through the task's checks into one bounded channel of events.
//!
//! - `options`: what must be known before it starts
//! - `transport`: the libp2p parts; `metered`: their sockets, counted and held back;
//!   `screening`: what strangers may make them dial
//! - `contacts`: what is known of each peer from its connections
//! - `frame`: what two linked peers say to each other; `turns`: who may say much
//! - `node`: the task, with a file for each thing that it does: links, leases and
//!   suspicions, packets that are routed, gossip that is broadcast
//! - `shared`: counters, and views for the handle
//! - `bounds`: how many bytes may wait; `event_queue`: the way above
//! - `alone`: when to say that nobody answers
//!
//! How both overlays differ is in [`crate::topology`] (who has links to whom),
//! [`crate::election`] (who is a supernode) and in the way of what is handed on.

mod alone;
mod bounds;
mod contacts;
mod event_queue;
mod frame;
mod metered;
mod node;
mod options;
mod screening;
mod shared;
mod transport;
mod turns;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::Receiver;
use tokio::sync::mpsc;

pub use crate::topology::Kind;
use bounds::Bounds;
use node::{Command, Control, Node};
pub use options::{Limits, Options, PROTOCOL_VERSION, RelayLimits, StartError};
use shared::{Counters, Shared};
pub use transport::LONGEST_REQUEST;

use crate::{
    Contact, Event, Member, MessageId, Overlay, OverlayError, PeerId, Purpose, Refusal, Reply,
    Statistics, Verdict, identity, reply_channel,
};

/// Messages that may wait for the task.
const COMMANDS: usize = 1_024;
/// Verdicts, answers and the like that may wait for the task.
const CONTROLS: usize = 4_096;

/// A peer's end of a networked overlay.
///
/// Dropping it leaves the network and waits until that is said, a second at most.
pub struct NetworkOverlay {
    me: PeerId,
    limits: Limits,
    commands: mpsc::Sender<Command>,
    controls: mpsc::Sender<Control>,
    events: Receiver<Event>,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Starts a peer. It listens when this returns, and looks for its network from then on.
pub fn start(kind: Kind, options: Options) -> Result<Arc<NetworkOverlay>, StartError> {
    let keypair = identity::keypair(options.secret).ok_or(StartError::BadSecret)?;
    let me = identity::peer_of(&keypair).ok_or(StartError::BadSecret)?;
    let limits = options.limits;
    let (commands, command_queue) = mpsc::channel(COMMANDS);
    let (controls, control_queue) = mpsc::channel(CONTROLS);
    let (event_sender, events) = crossbeam_channel::bounded(limits.events);
    let (started_sender, started) = crossbeam_channel::bounded(1);
    let counters = Arc::new(Counters::default());
    let shared = Arc::new(Shared::new(counters, Bounds::new(&limits)));
    let is_allowed = options.allow_supernode;
    shared.may_be_supernode.store(is_allowed, Relaxed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let task = {
        let (shared, controls) = (shared.clone(), controls.downgrade());
        move || {
            runtime.block_on(async {
                let node = Node::start(kind, options, keypair, shared, event_sender, controls);
                match node.await {
                    Ok(node) => {
                        let _waiting = started_sender.send(Ok(()));
                        node.run(command_queue, control_queue).await;
                    }
                    Err(error) => {
                        let _waiting = started_sender.send(Err(error));
                    }
                }
            });
            // A name look-up that hangs must not keep the process from ending.
            runtime.shutdown_timeout(Duration::ZERO);
        }
    };
    let thread = thread::Builder::new().name("overlay".into()).spawn(task)?;
    match started.recv() {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(error),
        Err(_) => return Err(std::io::Error::other("its thread ended").into()),
    }
    Ok(Arc::new(NetworkOverlay {
        me,
        limits,
        commands,
        controls,
        events,
        shared,
        thread: Mutex::new(Some(thread)),
    }))
}

impl NetworkOverlay {
    /// Ends at once and tells nobody, as a crash would. For tests of those who stay.
    pub fn abort(&self) {
        self.shared.is_aborted.store(true, Relaxed);
        self.leave();
        self.join();
    }

    /// Peers that are not spoken to because of what they did.
    pub fn offenders(&self) -> Vec<PeerId> {
        self.shared.offenders()
    }

    fn join(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // If it panicked, there is nothing left to wait for.
            let _panicked = thread.join();
        }
    }

    fn may_set_out(&self, bytes: usize, to: PeerId) -> Result<(), OverlayError> {
        if self.shared.has_left.load(Relaxed) {
            return Err(OverlayError::Left);
        }
        if bytes > self.limits.message_bytes {
            return Err(OverlayError::TooLarge(bytes));
        }
        match self.shared.set_out(to, bytes, self.limits.under_way) {
            true => Ok(()),
            false => {
                self.shared.counters.dropped(1);
                Err(OverlayError::Busy(to))
            }
        }
    }

    /// Hands a message of so many bytes to the task. It has been counted as under way.
    fn command(&self, to: PeerId, bytes: usize, command: Command) -> Result<(), OverlayError> {
        self.commands.try_send(command).map_err(|error| {
            self.shared.arrived(to, bytes);
            match error {
                mpsc::error::TrySendError::Full(_) => {
                    self.shared.counters.dropped(1);
                    OverlayError::Busy(to)
                }
                mpsc::error::TrySendError::Closed(_) => OverlayError::Left,
            }
        })
    }
}

impl Overlay for NetworkOverlay {
    fn me(&self) -> PeerId {
        self.me
    }

    fn members(&self) -> Arc<[Member]> {
        self.shared.members()
    }

    fn announce(&self, facts: Arc<[u8]>) {
        self.shared.set_facts(facts);
        // If this is full, the task looks by itself soon.
        let _full = self.controls.try_send(Control::Announce);
    }

    fn hand_on(
        &self,
        _: u64,
        owner: Option<PeerId>,
        purpose: Purpose,
        bytes: Arc<[u8]>,
    ) -> Result<(), OverlayError> {
        // What goes to all is counted as if it went to oneself.
        let to = owner.unwrap_or(self.me);
        let size = bytes.len();
        self.may_set_out(size, to)?;
        let command = Command::HandOn {
            owner,
            purpose,
            bytes,
        };
        self.command(to, size, command)
    }

    fn send(&self, to: PeerId, purpose: Purpose, bytes: Arc<[u8]>) -> Result<(), OverlayError> {
        if !self.shared.is_member(to) {
            return Err(OverlayError::Unknown(to));
        }
        let size = bytes.len();
        self.may_set_out(size, to)?;
        self.command(to, size, Command::Send { to, purpose, bytes })
    }

    fn request(
        &self,
        to: PeerId,
        purpose: Purpose,
        bytes: Arc<[u8]>,
        deadline: Duration,
    ) -> Result<Reply, OverlayError> {
        if !self.shared.is_member(to) {
            return Err(OverlayError::Unknown(to));
        }
        let size = bytes.len();
        self.may_set_out(size, to)?;
        let (replier, reply) = reply_channel(deadline);
        let command = Command::Ask {
            to,
            purpose,
            bytes,
            deadline,
            replier,
        };
        self.command(to, size, command)?;
        Ok(reply)
    }

    fn events(&self) -> Receiver<Event> {
        self.events.clone()
    }

    fn verdict(&self, message: MessageId, verdict: Verdict) {
        // A verdict that is lost means that the message travels no further.
        let _full = self.controls.try_send(Control::Verdict(message, verdict));
    }

    fn statistics(&self) -> Statistics {
        self.shared.counters.statistics()
    }

    fn serve_others(&self, does: bool) {
        // The task looks at each tick.
        self.shared.is_resting.store(!does, Relaxed);
    }

    fn allow_supernode(&self, allowed: bool) {
        // The task looks at each tick.
        self.shared.may_be_supernode.store(allowed, Relaxed);
    }

    fn contacts(&self) -> Vec<Contact> {
        self.shared.counters.contacts.list()
    }

    fn leave(&self) {
        self.shared.has_left.store(true, Relaxed);
        // If this is full, the task looks by itself soon.
        let _full = self.controls.try_send(Control::Leave);
    }

    fn seek_at(&self, addresses: &[String]) -> bool {
        let parsed: Result<Vec<_>, _> = addresses.iter().map(|text| text.parse()).collect();
        // The task looks at each tick.
        parsed.is_ok_and(|addresses| self.shared.seek_at(addresses))
    }

    fn is_joining(&self) -> bool {
        self.shared.is_joining.load(Relaxed)
    }

    fn listening(&self) -> Vec<String> {
        self.shared.listening()
    }

    fn callable(&self) -> Vec<String> {
        self.shared.callable()
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.shared.refusals()
    }
}

impl Drop for NetworkOverlay {
    fn drop(&mut self) {
        self.leave();
        self.join();
    }
}
