//! An overlay that can be left and joined again, behind one handle.
//!
//! An overlay over a network ends when it is left: its sockets are closed and its thread is
//! gone. Whoever holds a [`Rejoining`] sees one overlay all the time; behind it another one
//! is started each time that this peer comes back.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use crossbeam_channel::Receiver;
use parking_lot::Mutex;
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
    /// What went through those before the current one.
    earlier: Mutex<Statistics>,
    /// Where else to look for the network, beside where `join` looks.
    sought: Mutex<Vec<String>>,
    /// What the user has said since `join` was made, if anything.
    may_be_supernode: Mutex<Option<bool>>,
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
            earlier: Mutex::default(),
            sought: Mutex::default(),
            may_be_supernode: Mutex::default(),
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
        // Held, so that nothing is counted twice or not at all while it is exchanged.
        let earlier = self.earlier.lock();
        self.current.load().statistics().after(*earlier)
    }

    fn serve_others(&self, does: bool) {
        self.current.load().serve_others(does);
    }

    fn allow_supernode(&self, allowed: bool) {
        let mut wish = self.may_be_supernode.lock();
        *wish = Some(allowed);
        self.current.load().allow_supernode(allowed);
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
                if !overlay.seek_at(&self.sought.lock()) {
                    tracing::warn!("there are too many addresses of peers to call all of them");
                }
                // Held, so that no wish gets lost while it is exchanged.
                let wish = self.may_be_supernode.lock();
                if let Some(allowed) = *wish {
                    overlay.allow_supernode(allowed);
                }
                let mut earlier = self.earlier.lock();
                let before = self.current.swap(Arc::new(overlay));
                *earlier = before.statistics().after(*earlier);
                drop(earlier);
                drop(wish);
                true
            }
            Err(why) => {
                tracing::warn!("cannot join the network again: {why}");
                false
            }
        }
    }

    fn seek_at(&self, addresses: &[String]) -> bool {
        let is_sought = self.current.load().seek_at(addresses);
        if is_sought {
            // Each start of an engine names the same ones.
            let mut sought = self.sought.lock();
            let new = addresses.iter().filter(|one| !sought.contains(one));
            let new: Vec<_> = new.cloned().collect();
            sought.extend(new);
        }
        is_sought
    }

    fn is_joining(&self) -> bool {
        self.current.load().is_joining()
    }

    fn listening(&self) -> Vec<String> {
        self.current.load().listening()
    }

    fn callable(&self) -> Vec<String> {
        self.current.load().callable()
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.current.load().refusals()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use peercrawl_overlay::Role;
    use peercrawl_overlay::memory::MemoryNetwork;
    use peercrawl_overlay::network::{self, Kind, Options};

    use super::*;

    /// The settings that `join` holds may be older than the user's wish.
    #[test]
    fn what_the_user_allowed_is_allowed_after_it_came_back() {
        let join = || {
            let options = Options {
                listen: vec!["/ip4/127.0.0.1/tcp/0".into()],
                allow_supernode: false,
                ..Options::new([7; 32], "test")
            };
            Ok(network::start(Kind::Supernode, options)? as Arc<dyn Overlay>)
        };
        let overlay = Rejoining::start(join).unwrap();
        assert_eq!(overlay.members()[0].role, Role::Leaf);
        overlay.allow_supernode(true);
        overlay.leave();
        assert!(overlay.rejoin());
        let until = Instant::now() + Duration::from_secs(20);
        while overlay.members()[0].role != Role::Supernode {
            assert!(Instant::now() < until, "it is still forbidden");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_was_counted_before_it_left_still_counts() {
        let me = PeerId::repeat(1);
        let join = move || Ok(Arc::new(MemoryNetwork::new().join(me)) as Arc<dyn Overlay>);
        let overlay = Rejoining::start(join).unwrap();
        let say = |bytes: &[u8]| overlay.send(me, Purpose::Urls, bytes.into()).unwrap();
        say(&[1; 100]);
        for times in 2..4 {
            overlay.leave();
            assert!(overlay.rejoin());
            say(&[1; 100]);
            let statistics = overlay.statistics();
            assert_eq!(statistics.urls.bytes_sent, times * 100);
            assert_eq!(statistics.urls.messages_received, times);
            assert_eq!(statistics.bytes_received, times * 100);
        }
    }
}
