//! How many requests the built-in web answers: it should be 30,000 a second at least, so that
//! no crawl waits for it.
//!
//! A thread for each processor asks over kept-alive connections, one request at a time on
//! each, for the page that a host begins with. Askers and web share the machine. The best of
//! a few turns is printed: 49,600 for pages of 16 KiB and 55,600 for pages of 1 KiB on a
//! two-core machine with much else to do. Run it with `cargo bench --bench web`.

// A measurement that cannot go on has nothing better to do than stop.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use peercrawl::demo::web::{Web, WebSpec};
use url::Url;

/// Connections of each thread.
const CONNECTIONS: u32 = 32;
/// Requests on each connection in a turn.
const ROUNDS: u32 = 1_000;
const TURNS: usize = 5;

fn main() {
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    for page_bytes in [1 << 10, 4 << 10, 16 << 10] {
        let rate = (0..TURNS).map(|_| requests_per_sec(page_bytes, threads));
        let best = rate.fold(0.0, f64::max);
        println!("pages of {page_bytes:6} bytes: {best:7.0} requests/s");
    }
}

fn requests_per_sec(page_bytes: usize, threads: usize) -> f64 {
    let web = Web::start(WebSpec {
        page_bytes,
        links: 3,
        oddities: false,
        threads,
        ..WebSpec::new(threads as u32 * 8, threads as u32 * 80, 7)
    });
    let web = web.unwrap();
    let seeds: Vec<Url> = web.seeds().iter().map(|url| url.parse().unwrap()).collect();
    let begun = Instant::now();
    thread::scope(|scope| {
        for seed in seeds.iter().cycle().take(threads) {
            scope.spawn(move || ask(seed));
        }
    });
    f64::from(threads as u32 * CONNECTIONS * ROUNDS) / begun.elapsed().as_secs_f64()
}

/// One thread's requests: all connections are asked, then all are listened to.
fn ask(url: &Url) {
    let address = url.socket_addrs(|| None).unwrap()[0];
    let connect = |_| TcpStream::connect(address).unwrap();
    let mut connections: Vec<_> = (0..CONNECTIONS).map(connect).collect();
    let host = url.host_str().unwrap();
    let request = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n\r\n", url.path());
    let mut answer = vec![0; 256 << 10];
    for _ in 0..ROUNDS {
        for connection in &mut connections {
            connection.write_all(request.as_bytes()).unwrap();
        }
        for connection in &mut connections {
            read_answer(connection, &mut answer);
        }
    }
}

/// Reads one answer to its end.
fn read_answer(connection: &mut TcpStream, answer: &mut [u8]) {
    let mut read = 0;
    let mut whole = None;
    while whole.is_none_or(|whole| read < whole) {
        let more = connection.read(&mut answer[read..]).unwrap();
        assert!(more > 0, "the web hung up");
        read += more;
        whole = whole.or_else(|| length(&answer[..read]));
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "no page");
}

/// How long an answer is, once its head is there.
fn length(answer: &[u8]) -> Option<usize> {
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let text = std::str::from_utf8(&answer[..head]).unwrap();
    let field = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().unwrap())
    });
    Some(head + 4 + field.unwrap())
}
