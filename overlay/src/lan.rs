//! Who has been seen on the local network, and where.
//!
//! These addresses are private, so leases that travel do not lead there for others; but
//! whoever has heard them itself may use them for as long as they are announced.

use std::collections::BTreeMap;

use libp2p::Multiaddr;

use crate::PeerId;

/// Peers remembered.
const PEERS: usize = 256;
/// Addresses of each.
const ADDRESSES: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub struct Lan(BTreeMap<PeerId, Vec<Multiaddr>>);

impl Lan {
    /// A peer was heard at an address. Beyond the bounds nobody new is remembered.
    pub fn found(&mut self, peer: PeerId, address: Multiaddr) {
        if self.0.len() >= PEERS && !self.0.contains_key(&peer) {
            return;
        }
        let addresses = self.0.entry(peer).or_default();
        if addresses.len() < ADDRESSES && !addresses.contains(&address) {
            addresses.push(address);
        }
    }

    /// It has not been heard there for long.
    pub fn expired(&mut self, peer: PeerId, address: &Multiaddr) {
        if let Some(addresses) = self.0.get_mut(&peer) {
            addresses.retain(|other| other != address);
            if addresses.is_empty() {
                self.0.remove(&peer);
            }
        }
    }

    /// Where a peer is.
    pub fn of(&self, peer: PeerId) -> &[Multiaddr] {
        self.0.get(&peer).map_or(&[], Vec::as_slice)
    }

    /// All addresses of all peers: the first that a peer announces may lead nowhere.
    pub fn all(&self) -> impl Iterator<Item = &Multiaddr> {
        self.0.values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u32) -> Multiaddr {
        format!("/ip4/192.168.1.7/tcp/{port}").parse().unwrap()
    }

    #[test]
    fn addresses_are_kept_until_they_expire_and_bounded() {
        let (mut lan, peer) = (Lan::default(), PeerId::repeat(1));
        for port in [1, 2, 2, 3, 4, 5] {
            lan.found(peer, address(port));
        }
        assert_eq!(lan.of(peer), [1, 2, 3, 4].map(address));
        lan.expired(peer, &address(1));
        assert!(lan.all().eq(&[2, 3, 4].map(address)));
        for port in [2, 3, 4] {
            lan.expired(peer, &address(port));
        }
        assert!(lan.of(peer).is_empty() && lan.0.is_empty());
        for number in 0..=255 {
            lan.found(PeerId::repeat(number), address(1));
        }
        let mut one_more = [0; 32];
        one_more[0] = 1;
        lan.found(PeerId(one_more), address(1));
        assert_eq!(lan.0.len(), PEERS);
    }
}
