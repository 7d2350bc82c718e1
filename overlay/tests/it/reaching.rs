//! A peer that nobody can call, and those that reach it all the same. Routers that
//! translate addresses are in `.ci/namespaces`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use peercrawl_overlay::meter::{Direction, Meter};
use peercrawl_overlay::network::{Kind, NetworkOverlay, Options, RelayLimits, start};
use peercrawl_overlay::{Event, Overlay, Purpose, Reachability, Statistics};

use crate::fleet::{eventually, options};

/// A relay's circuit, as the library would have it, is over after so many bytes.
const LIBRARY_CIRCUIT_BYTES: usize = 128 << 10;

/// Counts what it is asked for, and allows it.
#[derive(Debug, Default)]
struct Counting {
    down: AtomicU64,
    up: AtomicU64,
}

impl Counting {
    fn of(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        }
    }
}

impl Meter for Counting {
    fn take(&self, direction: Direction, wanted: usize) -> Result<usize, Duration> {
        self.of(direction).fetch_add(wanted as u64, Relaxed);
        Ok(wanted)
    }

    fn put_back(&self, direction: Direction, unused: usize) {
        self.of(direction).fetch_sub(unused as u64, Relaxed);
    }
}

/// It listens where nobody sees it: it calls from another address of this machine, and
/// over TCP. So whoever calls back finds nobody.
fn hidden(number: u8, bootstrap: &[String]) -> Arc<NetworkOverlay> {
    let options = Options {
        listen: vec![format!("/ip4/127.0.0.{number}/udp/0/quic-v1")],
        ..options(number, bootstrap)
    };
    start(Kind::Flat, options).unwrap()
}

fn circuit_of(peer: &NetworkOverlay) -> Option<String> {
    let listening = peer.listening();
    listening.into_iter().find(|a| a.contains("/p2p-circuit/"))
}

/// What `relay` says once `peer` has a place there.
fn wait_for_place(relay: &NetworkOverlay, peer: &NetworkOverlay) -> (Statistics, Statistics) {
    eventually("it has a place", || circuit_of(peer).is_some());
    eventually("it says so", || peer.statistics().relays == 1);
    (relay.statistics(), peer.statistics())
}

#[test]
fn a_hidden_peer_is_called_through_a_relay_that_carries_real_work() {
    let meter = Arc::new(Counting::default());
    let relay = Options {
        meter: Some(meter.clone()),
        ..options(1, &[])
    };
    let relay = start(Kind::Flat, relay).unwrap();
    let hidden = hidden(2, &relay.listening());
    let (of_relay, of_hidden) = wait_for_place(&relay, &hidden);
    assert_eq!(of_relay.reachability, Reachability::Public);
    assert_eq!(of_hidden.reachability, Reachability::Private);

    // The caller knows of nothing but the way through the relay, and is hidden itself.
    let circuit = circuit_of(&hidden).unwrap();
    let caller = self::hidden(3, &[circuit]);
    eventually("they are connected", || {
        let relayed = |peer: &NetworkOverlay| peer.statistics().relayed_connections;
        relayed(&caller) == 1 && relayed(&hidden) == 1
    });
    eventually("they know each other", || {
        [&hidden, &caller].map(|peer| peer.members().len()) == [3; 2]
    });
    // Larger than all that the library would let through; the first one goes at once, before
    // another way may be found.
    let message: Arc<[u8]> = vec![7; 6 * LIBRARY_CIRCUIT_BYTES].into();
    for (from, to) in [(&caller, &hidden), (&hidden, &caller)] {
        from.send(to.me(), Purpose::Urls, message.clone()).unwrap();
        eventually("it arrives", || {
            let is_it = |event| matches!(event, Event::Message { bytes, .. } if bytes == message);
            to.events().try_iter().any(is_it)
        });
    }
    let of_relay = relay.statistics();
    for (bytes, way) in [
        (of_relay.socket_bytes_sent, Direction::Up),
        (of_relay.socket_bytes_received, Direction::Down),
    ] {
        println!("{way:?}: {bytes} bytes at the relay");
        assert!(bytes >= message.len() as u64, "{way:?}: {bytes}");
        let metered = meter.of(way).load(Relaxed);
        assert!(metered >= message.len() as u64, "{way:?}: {metered}");
    }
    assert_eq!(
        of_relay.carried.messages_sent, 0,
        "its sockets carry, not its node"
    );
}

#[test]
fn work_goes_on_when_a_circuit_has_carried_enough() {
    let relay = Options {
        relay: RelayLimits {
            circuit_bytes: 256 << 10,
            ..RelayLimits::default()
        },
        ..options(1, &[])
    };
    let relay = start(Kind::Flat, relay).unwrap();
    let hidden = hidden(2, &relay.listening());
    wait_for_place(&relay, &hidden);
    let circuit = circuit_of(&hidden).unwrap();
    let caller = start(Kind::Flat, options(3, &[circuit])).unwrap();
    eventually("they know each other", || {
        [&hidden, &caller].map(|peer| peer.members().len()) == [3; 2]
    });
    // Each of these takes most of what a circuit may carry; what is lost is sent again, as
    // it would from an outbox.
    let message: Arc<[u8]> = vec![9; 200 << 10].into();
    for _ in 0..3 {
        eventually("it arrives", || {
            let _again = caller.send(hidden.me(), Purpose::Urls, message.clone());
            let until = std::time::Instant::now() + std::time::Duration::from_millis(300);
            let is_it = |event| matches!(event, Event::Message { bytes, .. } if bytes == message);
            while std::time::Instant::now() < until {
                if hidden.events().try_iter().any(is_it) {
                    return true;
                }
                std::thread::yield_now();
            }
            false
        });
    }
}
