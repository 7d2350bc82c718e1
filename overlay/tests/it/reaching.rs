//! A peer that nobody can call, and those that reach it all the same. Routers that
//! translate addresses are in `.ci/namespaces`.

use std::sync::Arc;

use peercrawl_overlay::network::{Kind, NetworkOverlay, Options, RelayLimits, start};
use peercrawl_overlay::{Event, Overlay, Purpose, Reachability, Statistics};

use crate::fleet::{eventually, options};

/// A relay's circuit, as the library would have it, is over after so many bytes.
const LIBRARY_CIRCUIT_BYTES: usize = 128 << 10;

/// It listens where nobody sees it: it calls from another address of this machine, and
/// over TCP. So whoever calls back finds nobody.
fn hidden(number: u8, bootstrap: &[String]) -> Arc<NetworkOverlay> {
    let options = Options {
        listen: vec!["/ip4/127.0.0.2/udp/0/quic-v1".into()],
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
    let relay = start(Kind::Flat, options(1, &[])).unwrap();
    let hidden = hidden(2, &relay.listening());
    let (of_relay, of_hidden) = wait_for_place(&relay, &hidden);
    assert_eq!(of_relay.reachability, Reachability::Public);
    assert_eq!(of_hidden.reachability, Reachability::Private);

    // The caller knows of nothing but the way through the relay.
    let circuit = circuit_of(&hidden).unwrap();
    let caller = start(Kind::Flat, options(3, &[circuit])).unwrap();
    eventually("they are connected", || {
        let relayed = |peer: &NetworkOverlay| peer.statistics().relayed_connections;
        relayed(&caller) == 1 && relayed(&hidden) == 1
    });
    eventually("the relay knows", || {
        relay.statistics().circuits_carried == 1
    });
    eventually("all see all", || {
        [&relay, &hidden, &caller].map(|peer| peer.members().len()) == [3; 3]
    });
    let message: Arc<[u8]> = vec![7; 3 * LIBRARY_CIRCUIT_BYTES].into();
    let mut arrived = 0;
    for (from, to) in [(&caller, &hidden), (&hidden, &caller)] {
        for _ in 0..4 {
            from.send(to.me(), Purpose::Urls, message.clone()).unwrap();
            eventually("it arrives", || {
                let is_it =
                    |event| matches!(event, Event::Message { bytes, .. } if bytes == message);
                to.events().try_iter().any(is_it)
            });
            arrived += message.len();
        }
    }
    let bytes = relay.statistics();
    assert!(bytes.socket_bytes_sent >= arrived as u64, "{bytes:?}");
    assert_eq!(
        bytes.carried.messages_sent, 0,
        "its sockets carry, not its node"
    );
}

#[test]
fn a_circuit_that_has_carried_enough_is_made_anew() {
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
    // Each of these takes most of what a circuit may carry; what is lost comes again, as
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
