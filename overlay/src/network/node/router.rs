//! The router, asked to let others in (UPnP).
//!
//! The library looks for a router once. But a router may be slower to start than a
//! computer, and a laptop is carried from one to another: whoever found none, or lost what
//! it had opened, looks again after a while.

use libp2p::core::transport::ListenerId;
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::swarm::{FromSwarm, NetworkBehaviour, NewListenAddr};
use libp2p::upnp;

use super::Node;
use crate::addresses;

/// How long after a search in vain the router is looked for again.
const AGAIN_MS: u64 = 600_000;

impl Node {
    pub(super) fn on_router(&mut self, event: upnp::Event) {
        match event {
            upnp::Event::NewExternalAddr { external_addr, .. } => {
                tracing::info!("the router lets others in at {external_addr}");
                // Others try at once, although they may have failed before.
                let autonat = self.swarm.behaviour_mut().autonat.inner_mut();
                autonat.probe_address(external_addr);
                self.update_lease();
            }
            upnp::Event::ExpiredExternalAddr { external_addr, .. } => {
                tracing::info!("the router no longer lets others in at {external_addr}");
                self.look_for_router_later();
                self.update_lease();
            }
            upnp::Event::GatewayNotFound => {
                tracing::debug!("no router here can be asked to let others in");
                self.look_for_router_later();
            }
            upnp::Event::NonRoutableGateway => {
                tracing::debug!("the router is not on the internet itself");
                self.look_for_router_later();
            }
        }
    }

    fn look_for_router_later(&mut self) {
        self.router_due_ms = Some(self.now_ms() + AGAIN_MS);
    }

    /// Looks for the router again, if it is time.
    pub(super) fn tick_router(&mut self) {
        let now_ms = self.now_ms();
        if self
            .router_due_ms
            .take_if(|due_ms| *due_ms <= now_ms)
            .is_none()
        {
            return;
        }
        let mut router = upnp::tokio::Behaviour::default();
        let listening = self.swarm.listeners();
        for addr in listening.filter(|address| !addresses::is_relayed(address)) {
            // It has missed where this peer listens, and only wants names to tell by.
            let listener_id = ListenerId::next();
            router.on_swarm_event(FromSwarm::NewListenAddr(NewListenAddr {
                listener_id,
                addr,
            }));
        }
        self.swarm.behaviour_mut().upnp = Toggle::from(Some(router));
    }
}
