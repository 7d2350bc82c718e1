//! The address guard: which addresses a volunteer's computer may be made to visit.
//!
//! What a stranger sends, a URL or the address of a peer, may aim at the volunteer's own
//! router. So the guard looks at the address itself, after the name was resolved and at
//! the moment of connecting, on every hop. It refuses everything that is not plainly the
//! public internet, in all the forms in which such an address can be wrapped. The overlay
//! and the crawler use this one table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address belongs to the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match embedded_v4(v6) {
            Some(v4) => is_public_v4(v4),
            None => is_public_v6(v6),
        },
    }
}

/// Blocks from the IANA special-purpose registry (RFC 6890 and its updates) that are
/// not globally reachable, as (network, prefix length).
const SPECIAL_V4: [([u8; 4], u32); 16] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 31, 196, 0], 24),
    ([192, 52, 193, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    // Multicast and everything above it, the broadcast address included.
    ([224, 0, 0, 0], 3),
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = u32::from(address);
    SPECIAL_V4.iter().all(|&(network, length)| {
        let network = u32::from(Ipv4Addr::from(network));
        (bits ^ network) >> (32 - length) != 0
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Only 2000::/3 is given out; of that, 2001::/23 is for protocols, 2001:db8::/32
    // and 3fff::/20 for documentation.
    let global = first & 0xe000 == 0x2000;
    let protocols = first == 0x2001 && second < 0x0200;
    let documentation =
        (first == 0x2001 && second == 0x0db8) || (first == 0x3fff && second & 0xf000 == 0);
    global && !protocols && !documentation
}

/// The IPv4 address inside an IPv6 one: mapped (`::ffff:0:0/96`), compatible
/// (`::/96`), NAT64 (`64:ff9b::/96` and `64:ff9b:1::/48`), 6to4 (`2002::/16`).
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match s {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x64, 0xff9b, 1, ..] => Some(Ipv4Addr::UNSPECIFIED),
        [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_seen_in_every_wrapping() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.7",
            "192.88.99.1",
            "192.168.0.1",
            "192.168.255.255",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.9",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::192.168.1.1",
            "64:ff9b:1::1",
            "2002:c0a8:0101::1",
            "2002:7f00:1::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "3fff::1",
            "100::1",
            "5f00::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn public_addresses_are_not_refused() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.0.1",
            "169.255.0.1",
            "172.15.255.255",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.1.1",
            "192.169.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:0808:0808::1",
        ] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }
}
