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

const TCP: &str = "/ip4/127.0.0.1/tcp/0";
const QUIC: &str = "/ip4/127.0.0.1/udp/0/quic-v1";
/// What the system and the library hold in buffers beyond the limit.
const SLACK: u64 = 128 << 10;

/// A bucket for each direction. Like the crawler's, each holds what a tenth of a second
/// brings in, and grants a thirtieth of a second's at once.
#[derive(Debug)]
struct Buckets {
    rate: u64,
    of: Mutex<[(f64, Instant); 2]>,
}

impl Buckets {
    fn new(rate: u64) -> Arc<Self> {
        let of = Mutex::new([(0.0, Instant::now()); 2]);
        Arc::new(Self { rate, of })
    }
}

impl Meter for Buckets {
    fn take(&self, direction: Direction, wanted: usize) -> Result<usize, Duration> {
        let (level, filled) = &mut self.of.lock().unwrap()[direction as usize];
        let gained = filled.elapsed().as_secs_f64() * self.rate as f64;
        let most = (self.rate / 10) as f64;
        (*level, *filled) = ((*level + gained).min(most), Instant::now());
        let granted = wanted.min(self.rate as usize / 30);
        if *level < granted as f64 {
            return Err(Duration::from_millis(5));
        }
        *level -= granted as f64;
        Ok(granted)
    }

    fn put_back(&self, direction: Direction, unused: usize) {
        self.of.lock().unwrap()[direction as usize].0 += unused as f64;
    }

    fn limit(&self, _: Direction) -> Option<u64> {
        Some(self.rate)
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

/// How many messages have come in since the last time.
fn arrived(peer: &NetworkOverlay) -> usize {
    let is_message = |event: &Event| matches!(event, Event::Message { .. });
    peer.events().try_iter().filter(is_message).count()
}

/// Takes in so many messages.
fn takes_in(peer: &NetworkOverlay, messages: usize) {
    let mut missing = messages;
    eventually("all messages are there", || {
        missing -= arrived(peer);
        missing == 0
    });
}

/// An address that leads to a port, and what passes there.
type Proxy = fn(u16) -> (String, Arc<Passed>);

/// Two that know each other, the second with a limit, and what passes between them.
fn meet(
    listen: &str,
    proxy: Proxy,
    rate: u64,
) -> (Arc<NetworkOverlay>, Arc<NetworkOverlay>, Arc<Passed>) {
    let server = Options {
        listen: vec![listen.into()],
        ..options(1, &[])
    };
    let server = start(Kind::Flat, server).unwrap();
    let (address, passed) = proxy(port_of(&server));
    let limited = Options {
        listen: vec![],
        meter: Some(Buckets::new(rate)),
        ..options(2, &[address])
    };
    let limited = start(Kind::Flat, limited).unwrap();
    eventually("both see both", || {
        limited.members().len() == 2 && server.members().len() == 2
    });
    (server, limited, passed)
}

/// Sends in both directions, to and from a peer with a limit, and looks at what passes.
fn a_transfer_stays_within_the_limit(listen: &str, proxy: Proxy, overhead_percent: u64) {
    const MESSAGES: usize = 4;
    const RATE: u64 = 256 << 10;
    let (server, limited, passed) = meet(listen, proxy, RATE);
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
            moved <= allowed + SLACK + RATE / 10,
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
    a_transfer_stays_within_the_limit(TCP, tcp_proxy, 0);
}

#[test]
fn a_transfer_over_quic_stays_within_the_limit() {
    a_transfer_stays_within_the_limit(QUIC, udp_proxy, 5);
}

/// What volunteers are promised, also where the meter is asked behind the socket: over any ten
/// seconds no more than 105 %, headers and all.
#[test]
fn over_quic_a_limit_of_64_kib_a_second_is_kept() {
    const RATE: u64 = 64 << 10;
    const SPAN: Duration = Duration::from_secs(10);
    let (server, limited, passed) = meet(QUIC, udp_proxy, RATE);
    let begun = Instant::now();
    let look = || {
        let moved = [&passed.up, &passed.down].map(|count| count.load(Relaxed));
        (begun.elapsed(), moved)
    };
    let (mut looks, mut missing) = (vec![look()], 2);
    let bytes: Arc<[u8]> = vec![7; 800 << 10].into();
    for (from, to) in [(&limited, &server), (&server, &limited)] {
        from.send(to.me(), Purpose::Urls, bytes.clone()).unwrap();
    }
    eventually("both messages are there", || {
        looks.push(look());
        missing -= arrived(&server) + arrived(&limited);
        missing == 0
    });
    passed.is_over.store(true, Relaxed);
    let mut spans = 0;
    for (number, (begin, before)) in looks.iter().enumerate() {
        let mut later = looks[number..].iter();
        let Some((end, after)) = later.find(|(at, _)| *at >= *begin + SPAN) else {
            break;
        };
        spans += 1;
        let took = *end - *begin;
        let allowed = RATE * took.as_millis() as u64 / 1_000 * 105 / 100;
        let moved = [after[0] - before[0], after[1] - before[1]];
        let is_kept = moved.iter().all(|&moved| moved <= allowed);
        assert!(is_kept, "{moved:?} bytes in {took:?}, {allowed} allowed");
    }
    assert!(spans > 0, "it took {:?}", begun.elapsed());
}

/// Frames that wait for their turn are not read. They took all that the connection may bring,
/// and those whose turn it was came to no end.
#[test]
fn many_large_messages_over_quic_stand_in_nobodys_way() {
    const MESSAGES: usize = 48;
    let (server, limited, passed) = meet(QUIC, udp_proxy, 8 << 20);
    let bytes: Arc<[u8]> = vec![7; 100 << 10].into();
    for _ in 0..MESSAGES {
        let sent = server.send(limited.me(), Purpose::Urls, bytes.clone());
        sent.unwrap();
    }
    takes_in(&limited, MESSAGES);
    passed.is_over.store(true, Relaxed);
}
