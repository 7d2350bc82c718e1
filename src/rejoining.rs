//! An overlay that can be left and joined again, behind one handle.
//!
//! An overlay over a network ends when it is left: its sockets are closed and its thread is
//! gone. Whoever holds a [`Rejoining`] sees one overlay all the time; behind it another one
//! is started each time that this peer comes back.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use crossbeam_channel::Receiver;
use peercrawl_overlay::network::StartError;
use peercrawl_overlay::{
    Contact, Event, Member, MessageId, Overlay, OverlayError, PeerId, Purpose, Refusal, Reply,
    Statistics, Verdict,
};

/// Starts an overlay, always under the same identity.
type Join = dyn Fn() -> Result<Arc<dyn Overlay>, StartError> + Send + Sync;

/// See the module.
pub struct Rejoining {
    join: Box<Join>,
    current: ArcSwap<Arc<dyn Overlay>>,
}

impl Rejoining {
    /// Joins for the first time.
    pub fn start(
        join: impl Fn() -> Result<Arc<dyn Overlay>, StartError> + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        let current = ArcSwap::from_pointee(join()?);
        Ok(Self {
            join: Box::new(join),
            current,
        })
    }
}

impl Overlay for Rejoining {
    fn me(&self) -> PeerId {
        self.current.load().me()
    }

    fn members(&self) -> Arc<[Member]> {
        self.current.load().members()
    }

    fn announce(&self, facts: Arc<[u8]>) {
        self.current.load().announce(facts);
    }

    fn hand_on(
        &self,
        key: u64,
        owner: Option<PeerId>,
        purpose: Purpose,
        bytes: Arc<[u8]>,
    ) -> Result<(), OverlayError> {
        self.current.load().hand_on(key, owner, purpose, bytes)
    }

    fn send(&self, to: PeerId, purpose: Purpose, bytes: Arc<[u8]>) -> Result<(), OverlayError> {
        self.current.load().send(to, purpose, bytes)
    }

    fn request(
        &self,
        to: PeerId,
        purpose: Purpose,
        bytes: Arc<[u8]>,
        deadline: Duration,
    ) -> Result<Reply, OverlayError> {
        self.current.load().request(to, purpose, bytes, deadline)
    }

    fn events(&self) -> Receiver<Event> {
        self.current.load().events()
    }

    fn verdict(&self, message: MessageId, verdict: Verdict) {
        self.current.load().verdict(message, verdict);
    }

    fn statistics(&self) -> Statistics {
        self.current.load().statistics()
    }

    fn contacts(&self) -> Vec<Contact> {
        self.current.load().contacts()
    }

    fn leave(&self) {
        self.current.load().leave();
    }

    fn rejoin(&self) -> bool {
        match (self.join)() {
            Ok(overlay) => {
                self.current.store(Arc::new(overlay));
                true
            }
            Err(why) => {
                tracing::warn!("cannot join the network again: {why}");
                false
            }
        }
    }

    fn is_joining(&self) -> bool {
        self.current.load().is_joining()
    }

    fn listening(&self) -> Vec<String> {
        self.current.load().listening()
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.current.load().refusals()
    }
}
