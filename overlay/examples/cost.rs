//! What an overlay costs, over real sockets on loopback.
//!
//! `cargo run -p peercrawl-overlay --example cost -- [REST_SECS]` prints one line
//! for each overlay and number of peers: bytes that all sockets sent for each handed-on
//! URL (100 bytes, 100 to a message), copies of each message by those bytes, messages
//! that arrived of the 100 that were handed on (a broadcast at each other peer), and
//! what one peer sends each second when nothing happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use peercrawl_overlay::network::{Kind, NetworkOverlay, Options, start};
use peercrawl_overlay::{Event, Overlay, Purpose, Verdict};

const MESSAGES: usize = 100;
const URLS: usize = 100;
const URL_BYTES: usize = 100;

fn main() {
    let rest_secs = std::env::args().nth(1).and_then(|secs| secs.parse().ok());
    let rest = Duration::from_secs(rest_secs.unwrap_or(60));
    println!("overlay peers bytes/url copies arrived rest_bytes/s/peer");
    let plans = [2, 4, 8, 16].map(|peers| (Kind::Flat, peers));
    for (kind, peers) in plans.into_iter().chain([(Kind::Supernode, 16)]) {
        measure(kind, peers, rest);
    }
}

fn fleet(kind: Kind, count: u8) -> Vec<Arc<NetworkOverlay>> {
    let mut peers: Vec<Arc<NetworkOverlay>> = Vec::new();
    for number in 1..=count {
        let options = Options {
            listen: vec!["/ip4/127.0.0.1/tcp/0".into()],
            bootstrap: peers.first().map_or(vec![], |first| first.listening()),
            allow_private: true,
            ..Options::new([number; 32], "cost")
        };
        match start(kind, options) {
            Ok(peer) => peers.push(peer),
            Err(error) => panic!("{error}"),
        }
    }
    while !peers.iter().all(|peer| peer.members().len() == peers.len()) {
        thread::sleep(Duration::from_millis(50));
    }
    peers
}

fn socket_bytes(peers: &[Arc<NetworkOverlay>]) -> u64 {
    let sent = |peer: &Arc<NetworkOverlay>| peer.statistics().socket_bytes_sent;
    peers.iter().map(sent).sum()
}

fn measure(kind: Kind, count: u8, rest: Duration) {
    let peers = fleet(kind, count);
    let arrived = Arc::new(AtomicU64::new(0));
    for peer in &peers {
        let (events, peer, arrived) = (peer.events(), Arc::downgrade(peer), arrived.clone());
        thread::spawn(move || {
            for event in events {
                let (Event::Message { id, .. }, Some(peer)) = (event, peer.upgrade()) else {
                    continue;
                };
                arrived.fetch_add(1, Relaxed);
                peer.verdict(id, Verdict::Accept);
            }
        });
    }
    // Roles and links settle first.
    thread::sleep(Duration::from_secs(10));
    let (before, begun) = (socket_bytes(&peers), Instant::now());
    thread::sleep(rest);
    let rest_bytes = (socket_bytes(&peers) - before) as f64;
    let at_rest = rest_bytes / begun.elapsed().as_secs_f64() / f64::from(count);

    let before = socket_bytes(&peers);
    for message in 0..MESSAGES {
        let from = message % peers.len();
        let owner = peers[(from + 1 + message / peers.len()) % peers.len()].me();
        let owner = if owner == peers[from].me() {
            peers[(from + 1) % peers.len()].me()
        } else {
            owner
        };
        let bytes: Vec<u8> = (0..URLS * URL_BYTES)
            .map(|at| (at ^ message) as u8)
            .collect();
        if let Err(error) = peers[from].hand_on(0, Some(owner), Purpose::Urls, bytes.into()) {
            println!("{error}");
        }
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_secs(3));
    let bytes = (socket_bytes(&peers) - before) as f64 - at_rest * f64::from(count) * 5.0;
    println!(
        "{kind:?} {count} {:.1} {:.2} {} {at_rest:.0}",
        bytes / (MESSAGES * URLS) as f64,
        bytes / (MESSAGES * URLS * URL_BYTES) as f64,
        arrived.load(Relaxed),
    );
}
