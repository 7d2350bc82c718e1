//! Where peers were found: the way back into the network after a restart.
//!
//! A bounded list of addresses, each with its peer, that the latest leases (peer
//! exchange) and successful connections keep fresh. It is written to disk as text, a
//! line for each address: the time of the last success, a space, and the multiaddress
//! with its peer id.

use std::collections::BTreeMap;

use libp2p::Multiaddr;

/// See the module. Addresses end in the id of their peer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HostCache(BTreeMap<Multiaddr, u64>);

impl HostCache {
    /// Addresses kept.
    pub const MOST: usize = 500;

    /// The cache in a file's text. Lines that make no sense are left out: an old
    /// or torn file costs some addresses, never the start.
    pub fn parse(text: &str) -> Self {
        let mut cache = Self::default();
        for line in text.lines() {
            if let Some((time, address)) = line.split_once(' ')
                && let (Ok(time), Ok(address)) = (time.parse(), address.parse())
            {
                cache.found(address, time);
            }
        }
        cache
    }

    /// The cache as a file's text.
    pub fn to_text(&self) -> String {
        let lines = self
            .0
            .iter()
            .map(|(address, time)| format!("{time} {address}\n"));
        lines.collect()
    }

    /// Notes that a peer was there. The address that was good longest ago makes room.
    pub fn found(&mut self, address: Multiaddr, wall_ms: u64) {
        let time = self.0.entry(address).or_default();
        *time = wall_ms.max(*time);
        if self.0.len() > Self::MOST {
            let oldest = self.0.iter().min_by_key(|(_, time)| **time);
            if let Some(oldest) = oldest.map(|(address, _)| address.clone()) {
                self.0.remove(&oldest);
            }
        }
    }

    /// Whether no address is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The addresses, the latest success first.
    pub fn latest(&self) -> Vec<Multiaddr> {
        let mut hosts: Vec<_> = self.0.iter().collect();
        hosts.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
        hosts
            .into_iter()
            .map(|(address, _)| address.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Multiaddr {
        format!("/ip4/8.8.8.8/tcp/{port}").parse().unwrap()
    }

    #[test]
    fn a_cache_outlives_its_file() {
        let mut cache = HostCache::default();
        cache.found(address(1), 10);
        cache.found(address(2), 30);
        cache.found(address(1), 20);
        let read = HostCache::parse(&cache.to_text());
        assert_eq!(read, cache);
        assert_eq!(read.latest(), [address(2), address(1)]);
    }

    #[test]
    fn nonsense_costs_its_line_alone() {
        let text = "x\n5 /ip4/8.8.8.8/tcp/1\n\n7 nowhere\n-1 /ip4/8.8.8.8/tcp/2\n\u{0}";
        assert_eq!(HostCache::parse(text).latest(), [address(1)]);
    }

    #[test]
    fn the_oldest_success_makes_room() {
        let mut cache = HostCache::default();
        for port in 0..=HostCache::MOST as u16 {
            cache.found(address(port), u64::from(port));
        }
        let latest = cache.latest();
        assert_eq!(latest.len(), HostCache::MOST);
        assert!(!latest.contains(&address(0)));
    }
}
