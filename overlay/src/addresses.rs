//! Which addresses of others may be dialled.
//!
//! A stranger's list of addresses may aim at the volunteer's own router. Addresses
//! that come from other peers are dialled only if they are public, unless the user
//! allows otherwise.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};

use crate::guard::is_public;

/// Reads an address that a person has typed, or says what is wrong with it.
pub fn parse(text: &str) -> Result<Multiaddr, String> {
    text.trim()
        .parse()
        .map_err(|error: libp2p::multiaddr::Error| error.to_string())
}

/// Whether an address from another peer may be dialled: a plain TCP or QUIC address,
/// and public unless `allow_private`.
pub fn may_dial(address: &Multiaddr, allow_private: bool) -> bool {
    let mut parts = address.iter();
    let is_host_fine = match parts.next() {
        Some(Protocol::Ip4(ip)) => allow_private || is_public(ip.into()),
        Some(Protocol::Ip6(ip)) => allow_private || is_public(ip.into()),
        // A name can lead anywhere: it is for the user's own configuration.
        _ => false,
    };
    let is_transport_fine = match (parts.next(), parts.next()) {
        (Some(Protocol::Udp(_)), Some(Protocol::QuicV1)) => {
            matches!(parts.next(), None | Some(Protocol::P2p(_)))
        }
        (Some(Protocol::Tcp(_)), None | Some(Protocol::P2p(_))) => true,
        _ => false,
    };
    is_host_fine && is_transport_fine && parts.next().is_none()
}

/// The relay in an address that leads through one, and the relay's own address. `None` for
/// an address that leads to its peer directly, or through a relay that nobody names.
pub fn circuit(address: &Multiaddr) -> Option<(PeerId, Multiaddr)> {
    let mut relay = Multiaddr::empty();
    for part in address {
        match part {
            Protocol::P2pCircuit => {
                let Some(Protocol::P2p(peer)) = relay.pop() else {
                    return None;
                };
                return Some((peer, relay));
            }
            part => relay.push(part),
        }
    }
    None
}

/// Whether an address leads through a relay.
pub fn is_relayed(address: &Multiaddr) -> bool {
    address.iter().any(|part| part == Protocol::P2pCircuit)
}

/// Whether an address of `peer` from another peer may be used: one that
/// [may be dialled](may_dial), or one through a relay that may be.
pub fn may_use(address: &Multiaddr, peer: PeerId, allow_private: bool) -> bool {
    let Some((relay, relay_address)) = circuit(address) else {
        return may_dial(address, allow_private);
    };
    let mut behind = address
        .iter()
        .skip_while(|part| *part != Protocol::P2pCircuit);
    let is_one_hop = match (behind.nth(1), behind.next()) {
        (None, _) => true,
        (Some(Protocol::P2p(end)), None) => end == peer,
        _ => false,
    };
    is_one_hop && relay != peer && may_dial(&relay_address, allow_private)
}

/// The peer that an address names: the last one, as there is another before it if it leads
/// through a relay.
pub fn name(address: &Multiaddr) -> Option<PeerId> {
    let names = address.iter().filter_map(|part| match part {
        Protocol::P2p(peer) => Some(peer),
        _ => None,
    });
    names.last()
}

/// The network that a public address is in, as providers give them out to one customer: the
/// first 24 bits of IPv4, 48 of IPv6. `None` for a private address.
pub fn neighbourhood(ip: IpAddr) -> Option<IpAddr> {
    if !is_public(ip) {
        return None;
    }
    Some(match ip.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            Ipv4Addr::new(a, b, c, 0).into()
        }
        IpAddr::V6(v6) => {
            let [a, b, c, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).into()
        }
    })
}

/// The place that somebody comes from, whatever port it uses: its neighbourhood, or the
/// address of its machine if that is private.
pub fn place(address: &Multiaddr) -> String {
    let place = ip(address).map(|ip| neighbourhood(ip).unwrap_or(ip));
    place.map_or_else(|| "an unknown place".into(), |ip| ip.to_string())
}

/// The address of the machine in an address.
pub fn ip(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(ip.into()),
        Protocol::Ip6(ip) => Some(ip.into()),
        _ => None,
    }
}

/// The port in an address.
pub fn port(address: &Multiaddr) -> Option<u16> {
    match address.iter().nth(1)? {
        Protocol::Tcp(port) | Protocol::Udp(port) => Some(port),
        _ => None,
    }
}

/// The socket of a TCP address.
pub fn tcp_socket(address: &Multiaddr) -> Option<SocketAddr> {
    match address.iter().nth(1)? {
        Protocol::Tcp(port) => Some((ip(address)?, port).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(address: &str, allow_private: bool) -> bool {
        may_dial(&address.parse().unwrap(), allow_private)
    }

    #[test]
    fn public_addresses_may_be_dialled() {
        for address in [
            "/ip4/8.8.8.8/tcp/4001",
            "/ip4/8.8.8.8/udp/4001/quic-v1",
            "/ip6/2606:4700::1111/tcp/4001",
        ] {
            assert!(allowed(address, false), "{address}");
        }
    }

    #[test]
    fn private_ones_only_if_allowed() {
        for address in [
            "/ip4/127.0.0.1/tcp/1",
            "/ip4/10.1.2.3/tcp/1",
            "/ip4/192.168.1.1/udp/1/quic-v1",
            "/ip4/169.254.169.254/tcp/80",
            "/ip4/100.64.0.1/tcp/1",
            "/ip4/0.0.0.0/tcp/1",
            "/ip4/224.0.0.1/tcp/1",
            "/ip6/::1/tcp/1",
            "/ip6/fe80::1/tcp/1",
            "/ip6/fd00::1/tcp/1",
            "/ip6/::ffff:10.0.0.1/tcp/1",
            "/ip6/64:ff9b::a00:1/tcp/1",
            "/ip6/2002:a00:1::/tcp/1",
        ] {
            assert!(!allowed(address, false), "{address}");
            assert!(allowed(address, true), "{address}");
        }
    }

    /// What a stranger may say of a volunteer's own network, in every wrapping, over both
    /// transports and with a peer's name behind it.
    #[test]
    fn a_stranger_sends_nobody_home() {
        let hosts = [
            "ip4/0.1.2.3",
            "ip4/10.255.255.255",
            "ip4/100.127.255.255",
            "ip4/127.255.255.254",
            "ip4/169.254.0.1",
            "ip4/172.16.0.1",
            "ip4/172.31.255.255",
            "ip4/192.0.0.1",
            "ip4/192.0.2.1",
            "ip4/192.31.196.1",
            "ip4/192.52.193.1",
            "ip4/192.88.99.1",
            "ip4/198.18.0.1",
            "ip4/198.19.255.255",
            "ip4/198.51.100.1",
            "ip4/203.0.113.1",
            "ip4/239.255.255.250",
            "ip4/240.0.0.1",
            "ip4/255.255.255.255",
            "ip6/::",
            "ip6/::127.0.0.1",
            "ip6/::ffff:127.0.0.1",
            "ip6/::ffff:169.254.169.254",
            "ip6/64:ff9b::7f00:1",
            "ip6/64:ff9b:1::1",
            "ip6/100::1",
            "ip6/2001::1",
            "ip6/2001:db8::1",
            "ip6/2001:1ff::1",
            "ip6/3fff::1",
            "ip6/2002:7f00:1::",
            "ip6/2002:c0a8:101::1",
            "ip6/fc00::1",
            "ip6/fe80::1",
            "ip6/fec0::1",
            "ip6/ff02::1",
        ];
        let name = "p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA";
        for host in hosts {
            for way in ["tcp/4001", "udp/4001/quic-v1"] {
                let address = format!("/{host}/{way}");
                assert!(!allowed(&address, false), "{address}");
                assert!(!allowed(&format!("{address}/{name}"), false), "{address}");
            }
        }
    }

    const RELAY: &str = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA";
    const PEER: &str = "12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp";

    #[test]
    fn a_circuit_may_be_used_if_its_relay_may_be_dialled() {
        let peer = PEER.parse().unwrap();
        let used = |text: &str, allow_private| {
            let address = text.parse().unwrap();
            may_use(&address, peer, allow_private)
        };
        let through = |host: &str| format!("/{host}/p2p/{RELAY}/p2p-circuit/p2p/{PEER}");
        let public = through("ip4/8.8.8.8/tcp/4001");
        assert!(used(&public, false));
        assert!(!allowed(&public, true), "not by those who dial directly");
        assert!(used(&through("ip4/8.8.8.8/udp/4001/quic-v1"), false));
        assert!(used("/ip4/8.8.8.8/tcp/4001", false));
        let private = through("ip4/192.168.1.1/tcp/80");
        assert!(!used(&private, false) && used(&private, true));
        for odd in [
            through("dns4/router.local/tcp/80"),
            format!("{public}/p2p-circuit/p2p/{RELAY}"),
            format!("/ip4/8.8.8.8/tcp/1/p2p/{RELAY}/p2p-circuit/p2p/{RELAY}"),
            format!("/ip4/8.8.8.8/tcp/1/p2p/{PEER}/p2p-circuit/p2p/{PEER}"),
            format!("/ip4/8.8.8.8/tcp/1/p2p-circuit/p2p/{PEER}"),
            format!("/p2p/{RELAY}/p2p-circuit/p2p/{PEER}"),
        ] {
            assert!(!used(&odd, true), "{odd}");
        }
    }

    #[test]
    fn a_neighbourhood_is_what_one_customer_may_have() {
        let near = |text: &str| neighbourhood(text.parse().unwrap());
        assert_eq!(near("8.8.8.8"), near("8.8.8.200"));
        assert_eq!(near("::ffff:8.8.8.8"), near("8.8.8.9"));
        assert_ne!(near("8.8.8.8"), near("8.8.9.8"));
        assert_eq!(near("2606:4700:1:2::3"), near("2606:4700:1:ffff::4"));
        assert_ne!(near("2606:4700:1::"), near("2606:4700:2::"));
        for private in ["127.0.0.1", "192.168.3.4", "fe80::1", "::1"] {
            assert_eq!(near(private), None, "{private}");
        }
    }

    #[test]
    fn names_and_odd_transports_never() {
        for address in [
            "/dns4/router.local/tcp/80",
            "/ip4/8.8.8.8/tcp/80/ws",
            "/ip4/8.8.8.8/udp/53",
            "/ip4/8.8.8.8",
        ] {
            assert!(!allowed(address, true), "{address}");
        }
    }
}
