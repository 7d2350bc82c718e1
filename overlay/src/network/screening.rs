//! Addresses from others, screened before the swarm's own parts use them.
//!
//! Some parts of libp2p dial what a stranger names: AutoNAT calls a peer back, hole
//! punching calls where the other side says that it is, and a circuit is dialled at its
//! relay. [`DialGuard`] refuses such a dial if one of its addresses may not be dialled. The
//! dials of the node itself pass: it has looked at them, and may dial what its user has
//! configured.
//!
//! [`Screened`] keeps a part from hearing of what is not for it, such as the addresses at
//! which others see this peer: a stranger may say anything there, too. It can also tell
//! somebody else first whose connection the part is about to hear of.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use libp2p::core::transport::PortUse;
use libp2p::core::{ConnectedPoint, Endpoint};
use libp2p::swarm::behaviour::ConnectionEstablished;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};

use super::shared::Counters;
use crate::addresses;

/// A dial that a stranger has caused leads where it must not.
#[derive(Debug, thiserror::Error)]
#[error("{0} may not be dialled for others")]
struct Refused(Multiaddr);

/// See the module.
pub struct DialGuard {
    allow_private: bool,
    /// The dial that the node is about to make.
    own: Option<ConnectionId>,
    /// Where refusals are counted.
    counters: Arc<Counters>,
}

impl DialGuard {
    /// A guard that lets private addresses pass or not.
    pub fn new(allow_private: bool, counters: Arc<Counters>) -> Self {
        Self {
            allow_private,
            own: None,
            counters,
        }
    }

    /// The next dial is the node's own if it has this id.
    pub fn trust(&mut self, dial: ConnectionId) {
        self.own = Some(dial);
    }
}

impl NetworkBehaviour for DialGuard {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_outbound_connection(
        &mut self,
        connection: ConnectionId,
        _: Option<PeerId>,
        addresses: &[Multiaddr],
        _: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        if self.own.take() == Some(connection) {
            return Ok(Vec::new());
        }
        let may_dial = |address: &&Multiaddr| addresses::may_dial(address, self.allow_private);
        match addresses.iter().find(|address| !may_dial(address)) {
            Some(address) => {
                self.counters.refused_addresses(1);
                Err(ConnectionDenied::new(Refused(address.clone())))
            }
            None => Ok(Vec::new()),
        }
    }

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, _: FromSwarm) {}

    fn on_connection_handler_event(
        &mut self,
        _: PeerId,
        _: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}

/// A part of the swarm that does not hear of everything that happens there.
pub struct Screened<B> {
    inner: B,
    may_hear: Box<dyn Fn(&FromSwarm<'_>) -> bool + Send>,
    /// The dials that the part has begun, if it is to take no other for one of them.
    dials: Option<HashSet<ConnectionId>>,
    /// Told whose connection the part is about to hear of.
    herald: Option<Box<dyn Fn(PeerId) + Send>>,
}

impl<B> Screened<B> {
    /// A part that hears of everything, but of each connection only after `herald` was told
    /// whose it is.
    pub fn heralded(inner: B, herald: impl Fn(PeerId) + Send + 'static) -> Self {
        Self {
            inner,
            may_hear: Box::new(|_| true),
            dials: None,
            herald: Some(Box::new(herald)),
        }
    }

    fn announce(&self, peer: PeerId) {
        if let Some(herald) = &self.herald {
            herald(peer);
        }
    }

    /// A part that hears of some of the addresses at which others see this peer.
    pub fn of_seen(inner: B, may_hear: impl Fn(&Multiaddr) -> bool + Send + 'static) -> Self {
        let may_hear = Box::new(move |event: &FromSwarm<'_>| match event {
            FromSwarm::NewExternalAddrCandidate(candidate) => may_hear(candidate.addr),
            _ => true,
        });
        Self {
            inner,
            may_hear,
            dials: None,
            herald: None,
        }
    }

    /// The same part, which also takes no dial of others for its own: a hole that was punched
    /// while a peer is called back is no sign that it can be reached.
    pub fn by_own_dials(self) -> Self {
        let dials = Some(HashSet::new());
        Self { dials, ..self }
    }

    /// A part that hears of direct connections alone.
    pub fn of_direct(inner: B) -> Self {
        let may_hear = Box::new(|event: &FromSwarm<'_>| match event {
            FromSwarm::ConnectionEstablished(new) => !new.endpoint.is_relayed(),
            FromSwarm::ConnectionClosed(old) => !old.endpoint.is_relayed(),
            _ => true,
        });
        Self {
            inner,
            may_hear,
            dials: None,
            herald: None,
        }
    }

    /// The part.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// The part, to be told something.
    pub fn inner_mut(&mut self) -> &mut B {
        &mut self.inner
    }
}

impl<B: NetworkBehaviour> NetworkBehaviour for Screened<B> {
    type ConnectionHandler = B::ConnectionHandler;
    type ToSwarm = B::ToSwarm;

    fn handle_pending_inbound_connection(
        &mut self,
        connection: ConnectionId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        self.inner
            .handle_pending_inbound_connection(connection, local, remote)
    }

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.announce(peer);
        self.inner
            .handle_established_inbound_connection(connection, peer, local, remote)
    }

    fn handle_pending_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: Option<PeerId>,
        addresses: &[Multiaddr],
        role: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        self.inner
            .handle_pending_outbound_connection(connection, peer, addresses, role)
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.announce(peer);
        self.inner
            .handle_established_outbound_connection(connection, peer, address, role, port)
    }

    fn on_swarm_event(&mut self, event: FromSwarm) {
        match (&mut self.dials, &event) {
            (Some(dials), FromSwarm::DialFailure(failed)) => {
                let is_own = dials.remove(&failed.connection_id);
                if !is_own {
                    return;
                }
            }
            (Some(dials), FromSwarm::ConnectionEstablished(new)) => {
                let is_own = dials.remove(&new.connection_id);
                if let (
                    false,
                    ConnectedPoint::Dialer {
                        address, port_use, ..
                    },
                ) = (is_own, new.endpoint)
                {
                    // As if it had been punched: nobody asked for it.
                    let endpoint = ConnectedPoint::Dialer {
                        address: address.clone(),
                        role_override: Endpoint::Listener,
                        port_use: *port_use,
                    };
                    let endpoint = &endpoint;
                    let new = ConnectionEstablished { endpoint, ..*new };
                    return self
                        .inner
                        .on_swarm_event(FromSwarm::ConnectionEstablished(new));
                }
            }
            _ => {}
        }
        if (self.may_hear)(&event) {
            self.inner.on_swarm_event(event);
        }
    }

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        self.inner
            .on_connection_handler_event(peer, connection, event);
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        let polled = self.inner.poll(cx);
        if let (Some(dials), Poll::Ready(ToSwarm::Dial { opts })) = (&mut self.dials, &polled) {
            dials.insert(opts.connection_id());
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(guard: &mut DialGuard, dial: usize, addresses: &[&str]) -> bool {
        let addresses: Vec<_> = addresses.iter().map(|a| a.parse().unwrap()).collect();
        let id = ConnectionId::new_unchecked(dial);
        guard
            .handle_pending_outbound_connection(id, None, &addresses, Endpoint::Dialer)
            .is_ok()
    }

    #[test]
    fn what_others_cause_is_dialled_only_if_it_is_public() {
        let counters = Arc::new(Counters::default());
        let mut guard = DialGuard::new(false, counters.clone());
        let (public, private) = ("/ip4/8.8.8.8/tcp/1", "/ip4/192.168.1.1/tcp/80");
        assert!(ask(&mut guard, 1, &[public]));
        assert!(!ask(&mut guard, 2, &[private]));
        assert!(!ask(&mut guard, 3, &[public, private]));
        assert!(!ask(&mut guard, 4, &["/dns4/router.local/tcp/80"]));
        guard.trust(ConnectionId::new_unchecked(5));
        assert!(ask(&mut guard, 5, &[private]), "its user may");
        assert!(!ask(&mut guard, 5, &[private]), "once");
        assert_eq!(counters.statistics().addresses_refused, 4);
        assert!(ask(&mut DialGuard::new(true, counters), 6, &[private]));
    }
}
