//! How this peer joins its network: the settings become an overlay.
//!
//! This is the one place that knows which overlays there are; another one is one more
//! arm here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use peercrawl_overlay::handshake::Fact;
use peercrawl_overlay::memory::MemoryNetwork;
use peercrawl_overlay::network::{self, Kind, NetworkOverlay, Options, StartError};
use peercrawl_overlay::{Overlay, PeerId, identity};

use crate::canonical::CanonicalForm;
use crate::config::{OverlayChoice, Settings};
use crate::fingerprint::URL_SEED;
use crate::limits::Limits;
use crate::rejoining::Rejoining;

/// The file that leads back into the network, in the folder of a peer.
const HOST_CACHE: &str = "peers.txt";
/// The file of those who have behaved badly, in the same folder.
const OFFENDERS: &str = "offenders.txt";
/// The file of the ports at which others know this peer, in the same folder.
const PORTS: &str = "ports.txt";

/// Starts the overlay that the settings describe, under the identity that this secret
/// stands for. Its traffic keeps these limits.
pub fn join(
    settings: &Settings,
    secret: [u8; 32],
    limits: Arc<Limits>,
) -> Result<Arc<NetworkOverlay>, StartError> {
    start(settings, options(settings, secret, limits))
}

/// The same, as an overlay that can be left and joined again. It keeps what it learns
/// about other peers in a folder, if it has one.
pub fn join_and_rejoin(
    settings: &Settings,
    secret: [u8; 32],
    limits: Arc<Limits>,
    folder: Option<&Path>,
) -> Result<Arc<dyn Overlay>, StartError> {
    let settings = settings.clone();
    let folder = folder.map(Path::to_owned);
    let join = move || {
        let options = Options {
            host_cache: folder.as_ref().map(|folder| folder.join(HOST_CACHE)),
            offenders: folder.as_ref().map(|folder| folder.join(OFFENDERS)),
            ports: folder.as_ref().map(|folder| folder.join(PORTS)),
            ..options(&settings, secret, limits.clone())
        };
        Ok(start(&settings, options)? as Arc<dyn Overlay>)
    };
    Ok(Arc::new(Rejoining::start(join)?))
}

/// A network of one, under the same identity: for a peer whose overlay cannot start.
pub fn alone(secret: [u8; 32]) -> Arc<dyn Overlay> {
    let me = identity::keypair(secret).and_then(|keypair| identity::peer_of(&keypair));
    // A secret that is no key names nobody; whoever is alone needs no name.
    let me = me.unwrap_or(PeerId::repeat(1));
    Arc::new(MemoryNetwork::new().join(me))
}

/// Starts the overlay that the settings describe, with options that differ from theirs.
pub fn start(settings: &Settings, options: Options) -> Result<Arc<NetworkOverlay>, StartError> {
    network::start(kind(settings), options)
}

fn kind(settings: &Settings) -> Kind {
    match settings.overlay.kind {
        OverlayChoice::Flat => Kind::Flat,
        OverlayChoice::Supernode => Kind::Supernode,
    }
}

/// What the settings mean to an overlay.
pub fn options(settings: &Settings, secret: [u8; 32], limits: Arc<Limits>) -> Options {
    let overlay = &settings.overlay;
    Options {
        agreement: agreement(settings),
        listen: overlay.listen.clone(),
        bootstrap: overlay.bootstrap.clone(),
        mdns: overlay.mdns,
        upnp: overlay.upnp,
        allow_supernode: overlay.allow_supernode,
        allow_private: settings.network.allow_private,
        limits: network::Limits {
            connections: overlay.max_connections,
            memory_bytes: usize::try_from(settings.memory.limit_bytes).unwrap_or(usize::MAX),
            ..network::Limits::default()
        },
        relay: network::RelayLimits {
            slots: overlay.relay_slots,
            circuits: overlay.relay_circuits,
            circuit_bytes: overlay.relay_circuit_mib << 20,
            circuit_duration: Duration::from_secs(u64::from(overlay.relay_circuit_minutes) * 60),
        },
        meter: Some(limits),
        ..Options::new(secret, &overlay.network)
    }
}

/// What all peers of a network must agree on, or they would hand URLs to peers that do
/// not own them, and not know each other's fingerprints. A peer that differs is told in
/// which of these. The overlay adds its own kind.
fn agreement(settings: &Settings) -> Vec<Fact> {
    let distribution = &settings.distribution;
    let form = CanonicalForm::new(&settings.crawl.session_ids);
    let kind = format!("{:?}", distribution.kind).to_lowercase();
    let rules = format!("{:016x}", form.rules_fingerprint());
    vec![
        Fact::new("distribution.kind", kind),
        Fact::new("distribution.replicas", distribution.replicas),
        Fact::new("distribution.peers", distribution.peers),
        Fact::new("form of URLs with crawl.session_ids", rules),
        Fact::new("seed of hashes", URL_SEED),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DistributionChoice;

    #[test]
    fn peers_agree_on_rules_and_not_on_tastes() {
        let settings = Settings::default();
        let same = |change: fn(&mut Settings)| {
            let mut other = settings.clone();
            change(&mut other);
            agreement(&settings) == agreement(&other)
        };
        assert!(same(|other| other.politeness.delay_ms = 9_999));
        assert!(same(|other| other.distribution.capacity = 16));
        assert!(same(|other| other.distribution.index = 7));
        assert!(!same(|other| other.distribution.peers = 9));
        assert!(!same(
            |other| other.distribution.kind = DistributionChoice::Static
        ));
        assert!(!same(|other| other.crawl.session_ids.clear()));
    }
}
