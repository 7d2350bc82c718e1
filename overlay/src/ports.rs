//! The ports that a peer listens on, from run to run.
//!
//! A port of 0 means any that is free. But whoever was given this peer's address, in a join
//! file or by other peers, calls it there after a restart too: so each place with such a
//! port gets the one that it had before, unless somebody else has it now.

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};

use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;

use crate::addresses;

/// Places remembered.
const MOST: usize = 64;

/// The port of each place, by its address with a port of 0.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ports(BTreeMap<Multiaddr, u16>);

impl Ports {
    /// Reads what [`to_text`](Self::to_text) wrote; lines that make no sense are left out.
    pub fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let (place, port) = line.split_once(' ')?;
            Some((place.parse().ok()?, port.parse().ok()?))
        };
        Self(text.lines().filter_map(line).take(MOST).collect())
    }

    /// A line for each place.
    pub fn to_text(&self) -> String {
        let lines = self
            .0
            .iter()
            .map(|(place, port)| format!("{place} {port}\n"));
        lines.collect()
    }

    /// The place with the port that it had, if it can have it again.
    pub fn before(&self, place: &Multiaddr) -> Option<Multiaddr> {
        let port = *self.0.get(place)?;
        let address = with_port(place, port);
        is_free(&address).then_some(address)
    }

    /// A place has got this address.
    pub fn got(&mut self, place: &Multiaddr, address: &Multiaddr) {
        if addresses::port(place) == Some(0)
            && let Some(port) = addresses::port(address)
            && (self.0.contains_key(place) || self.0.len() < MOST)
        {
            self.0.insert(place.clone(), port);
        }
    }
}

fn with_port(place: &Multiaddr, port: u16) -> Multiaddr {
    let parts = place.iter().map(|part| match part {
        Protocol::Tcp(0) => Protocol::Tcp(port),
        Protocol::Udp(0) => Protocol::Udp(port),
        part => part,
    });
    parts.collect()
}

fn is_free(address: &Multiaddr) -> bool {
    match (addresses::ip(address), address.iter().nth(1)) {
        (Some(ip), Some(Protocol::Tcp(port))) => TcpListener::bind((ip, port)).is_ok(),
        (Some(ip), Some(Protocol::Udp(port))) => UdpSocket::bind((ip, port)).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_gets_its_port_again_unless_somebody_has_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let place: Multiaddr = "/ip4/127.0.0.1/tcp/0".parse().unwrap();
        let address: Multiaddr = format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap();
        let mut ports = Ports::default();
        ports.got(&place, &address);
        // One that the user has chosen is in the config.
        ports.got(&address, &address);
        let ports = Ports::parse(&format!("nonsense\n{}", ports.to_text()));
        assert_eq!(ports.0.len(), 1);
        assert_eq!(ports.before(&place), None, "it is taken");
        drop(listener);
        assert_eq!(ports.before(&place), Some(address));
        let quic = "/ip4/127.0.0.1/udp/0/quic-v1".parse().unwrap();
        assert_eq!(ports.before(&quic), None);
    }
}
