//! A limit on bytes binds everything that an overlay does. A proxy between two peers
//! counts what really passes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use peercrawl_overlay::meter::{Direction, Meter};
use peercrawl_overlay::network::{Kind, NetworkOverlay, Options, start};
use peercrawl_overlay::{Event, Overlay, Purpose};

use crate::fleet::{eventually, options};

const RATE: u64 = 256 << 10;
/// What the system and the library hold in buffers beyond the limit.
const SLACK: u64 = 128 << 10;

/// Bytes that a bucket holds.
const BUCKET: f64 = 32_768.0;

/// A bucket for each direction, as simple as can be.
#[derive(Debug)]
struct Buckets(Mutex<[(f64, Instant); 2]>);

impl Buckets {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new([(0.0, Instant::now()); 2])))
    }
}

impl Meter for Buckets {
    fn take(&self, direction: Direction, wanted: usize) -> Result<usize, Duration> {
        let (level, filled) = &mut self.0.lock().unwrap()[direction as usize];
        let gained = filled.elapsed().as_secs_f64() * RATE as f64;
        (*level, *filled) = ((*level + gained).min(BUCKET), Instant::now());
        match level.min(wanted as f64) as usize {
            0 => Err(Duration::from_millis(5)),
            granted => {
                *level -= granted as f64;
                Ok(granted)
            }
        }
    }

    fn put_back(&self, direction: Direction, unused: usize) {
        self.0.lock().unwrap()[direction as usize].0 += unused as f64;
    }
}

/// What passed between two peers.
#[derive(Default)]
struct Passed {
    /// From the one that dials.
    up: AtomicU64,
    /// To it.
    down: AtomicU64,
    is_over: AtomicBool,
}

fn pump(mut from: TcpStream, mut to: TcpStream, count: &AtomicU64) {
    let mut buffer = [0; 16 << 10];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        count.fetch_add(bytes as u64, Relaxed);
        if to.write_all(&buffer[..bytes]).is_err() {
            return;
        }
    }
}

/// An address that leads to `server`, and what passes there.
fn tcp_proxy(server: u16) -> (String, Arc<Passed>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let passed = Arc::new(Passed::default());
    let shared = passed.clone();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
            let (up, down) = (shared.clone(), shared.clone());
            let pair = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || pump(pair.0, pair.1, &up.up));
            thread::spawn(move || pump(server, client, &down.down));
        }
    });
    (format!("/ip4/127.0.0.1/tcp/{port}"), passed)
}

/// The same for datagrams of one client.
fn udp_proxy(server: u16) -> (String, Arc<Passed>) {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
    back.connect(("127.0.0.1", server)).unwrap();
    for socket in [&front, &back] {
        let patience = Some(Duration::from_millis(100));
        socket.set_read_timeout(patience).unwrap();
    }
    let port = front.local_addr().unwrap().port();
    let passed = Arc::new(Passed::default());
    let client = Arc::new(Mutex::new(None));
    let (front_up, back_up) = (front.try_clone().unwrap(), back.try_clone().unwrap());
    let (up, caller) = (passed.clone(), client.clone());
    thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while !up.is_over.load(Relaxed) {
            if let Ok((bytes, from)) = front_up.recv_from(&mut buffer) {
                *caller.lock().unwrap() = Some(from);
                up.up.fetch_add(bytes as u64, Relaxed);
                let _lost = back_up.send(&buffer[..bytes]);
            }
        }
    });
    let down = passed.clone();
    thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while !down.is_over.load(Relaxed) {
            if let Ok(bytes) = back.recv(&mut buffer) {
                down.down.fetch_add(bytes as u64, Relaxed);
                if let Some(client) = *client.lock().unwrap() {
                    let _lost = front.send_to(&buffer[..bytes], client);
                }
            }
        }
    });
    (format!("/ip4/127.0.0.1/udp/{port}/quic-v1"), passed)
}

fn port_of(peer: &NetworkOverlay) -> u16 {
    let address = peer.listening()[0].clone();
    address.split('/').nth(4).unwrap().parse().unwrap()
}

/// Takes in so many messages of `from`.
fn takes_in(peer: &NetworkOverlay, messages: usize) {
    let mut missing = messages;
    eventually("all messages are there", || {
        let events = peer.events();
        let arrived = events
            .try_iter()
            .filter(|event| matches!(event, Event::Message { .. }));
        missing -= arrived.count();
        missing == 0
    });
}

/// Sends in both directions, to and from a peer with a limit, and looks at what passes.
fn a_transfer_stays_within_the_limit(
    listen: &str,
    proxy: fn(u16) -> (String, Arc<Passed>),
    overhead_percent: u64,
) {
    const MESSAGES: usize = 4;
    let server = Options {
        listen: vec![listen.into()],
        ..options(1, &[])
    };
    let server = start(Kind::Flat, server).unwrap();
    let (address, passed) = proxy(port_of(&server));
    let limited = Options {
        listen: vec![],
        meter: Some(Buckets::new()),
        ..options(2, &[address])
    };
    let limited = start(Kind::Flat, limited).unwrap();
    eventually("both see both", || {
        limited.members().len() == 2 && server.members().len() == 2
    });
    let bytes: Arc<[u8]> = vec![7; 200 << 10].into();
    for (from, to, counter) in [
        (&limited, &server, &passed.up),
        (&server, &limited, &passed.down),
    ] {
        let (begun, before) = (Instant::now(), counter.load(Relaxed));
        for _ in 0..MESSAGES {
            from.send(to.me(), Purpose::Urls, bytes.clone()).unwrap();
        }
        takes_in(to, MESSAGES);
        let (took, moved) = (begun.elapsed(), counter.load(Relaxed) - before);
        assert!(moved >= (MESSAGES * bytes.len()) as u64);
        let allowed = RATE * took.as_millis() as u64 / 1_000 * (100 + overhead_percent) / 100;
        assert!(
            moved <= allowed + SLACK + BUCKET as u64,
            "{moved} bytes in {took:?}, {allowed} allowed"
        );
    }
    passed.is_over.store(true, Relaxed);
    let statistics = limited.statistics();
    for (counted, real) in [
        (statistics.socket_bytes_sent, passed.up.load(Relaxed)),
        (statistics.socket_bytes_received, passed.down.load(Relaxed)),
    ] {
        let difference = counted.abs_diff(real);
        assert!(
            difference <= real * overhead_percent / 100 + 4_096,
            "{counted} counted, {real} passed"
        );
    }
}

#[test]
fn a_transfer_over_tcp_stays_within_the_limit() {
    a_transfer_stays_within_the_limit("/ip4/127.0.0.1/tcp/0", tcp_proxy, 0);
}

#[test]
fn a_transfer_over_quic_stays_within_the_limit() {
    a_transfer_stays_within_the_limit("/ip4/127.0.0.1/udp/0/quic-v1", udp_proxy, 5);
}
