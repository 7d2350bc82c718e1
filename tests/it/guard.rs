//! The address guard, from a URL to the wire: not one connection to a private target.
//!
//! [`PRIVATE`] is the table of spellings. The first test asks for all of them, on a
//! machine where most lead nowhere, with listeners on loopback. The others run in a
//! network namespace of their own, where every address of the world leads to one
//! listener (`.ci/run` makes it), so that a connection to any of them would be seen; there
//! are redirects from a public address to each of them as well.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

use peercrawl::config::Settings;
use peercrawl::report::Report;
use peercrawl::resolver::{FixedNames, NameService};
use socket2::{Domain, Socket, Type};

use crate::crew::{self, DEADLINE};

/// Private hosts, in all the spellings that we could think of.
const PRIVATE: &[&str] = &[
    // Loopback: as everybody writes it, shortened, in other bases, as one number.
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0X7F000001",
    "017700000001",
    "0x7f.1",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "0177.1",
    "127.0x0.0.01",
    "127.000.000.001",
    "00000177.0.0.1",
    "127.0.0.1.",
    "127.65535",
    // Escaped, full-width and circled digits, full stops of other scripts.
    "%31%32%37.0.0.1",
    "127%2e0%2e0%2e1",
    "１２７.０.０.１",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "127．0．0．1",
    "user@127.0.0.1",
    "8.8.8.8@127.0.0.1",
    "8.8.8.8:80@127.0.0.1",
    // This machine.
    "0.0.0.0",
    "0",
    "0x0",
    "00",
    "0.1.2.3",
    // IPv6 loopback and nothing.
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000::0001]",
    "[::]",
    // IPv4 inside IPv6: mapped, compatible, NAT64, 6to4.
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::FFFF:7F00:0001]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::ffff:10.0.0.1]",
    "[::ffff:192.168.1.1]",
    "[::ffff:169.254.169.254]",
    "[::127.0.0.1]",
    "[::10.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a00:1]",
    "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::10.0.0.1]",
    "[2002:7f00:1::]",
    "[2002:c0a8:101::1]",
    "[2002:a9fe:a9fe::1]",
    // Private networks.
    "10.0.0.1",
    "10.255.255.255",
    "10.1",
    "167772161",
    "0x0a000001",
    "012.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.1.1",
    "192.168.257",
    "0xc0a80101",
    "3232235777",
    // Carrier NAT, link-local and metadata.
    "100.64.0.1",
    "100.127.255.254",
    "169.254.0.1",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    // Multicast, broadcast, reserved, documentation, benchmarks.
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "198.18.0.1",
    // IPv6 that is not for everybody.
    "[fe80::1]",
    "[fc00::1]",
    "[fd12:3456::1]",
    "[ff02::1]",
    "[2001:db8::1]",
    // A name that leads home.
    "router.test",
];

/// Public ones, which must not be refused.
const PUBLIC: &[&str] = &[
    "1.1.1.1",
    "8.8.8.8",
    "9.9.9.9",
    "11.0.0.1",
    "100.63.255.255",
    "172.32.0.1",
    "192.169.0.1",
    "134744072",
    "[2606:4700::1111]",
    "[2a00:1450::1]",
    "[2001:4860::8888]",
    "public.test",
];

/// Where the redirecting server is, in the namespace.
const REDIRECTING: &str = "93.184.216.34";

fn names() -> Arc<FixedNames> {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    Arc::new(FixedNames(HashMap::from([
        ("router.test".into(), address("192.168.1.1")),
        ("public.test".into(), address("8.8.4.4")),
        ("one.test".into(), address("9.9.9.10")),
        ("two.test".into(), address("9.9.9.10")),
    ])))
}

/// Settings of a stranger's peer, but for its patience with names and refusals.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.threads.downloaders = 8;
    settings.politeness.max_host_failures = 1;
    settings
}

fn crawl(settings: Settings, names: Arc<dyn NameService>, seeds: Vec<String>) -> Report {
    let engine = crew::crawl_from(settings, names, seeds);
    assert!(engine.wait(DEADLINE).is_some());
    engine.shutdown()
}

/// A URL for each host, none of them the same in canonical form.
fn urls(hosts: &[&str], port: u16) -> Vec<String> {
    let url = |(number, host): (usize, &&str)| format!("http://{host}:{port}/{number}");
    hosts.iter().enumerate().map(url).collect()
}

#[test]
fn private_targets_are_refused_in_every_spelling() {
    let v4 = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = v4.local_addr().unwrap().port();
    let v6 = TcpListener::bind(("::1", port));
    v4.set_nonblocking(true).unwrap();
    let mut expected = PRIVATE.len() as u64;
    let mut seeds = urls(PRIVATE, port);
    // The usual ports too.
    seeds.extend(
        [
            "http://127.0.0.1/",
            "https://[::1]/",
            "http://router.test:8080/",
        ]
        .map(String::from),
    );
    expected += 3;
    let report = crawl(settings(), names(), seeds);
    assert_eq!(report.urls.blocked_address, expected, "{report:?}");
    assert_eq!(report.pages + report.errors_in_all(), 0, "{report:?}");
    assert!(v4.accept().is_err(), "somebody connected");
    if let Ok(v6) = v6 {
        v6.set_nonblocking(true).unwrap();
        assert!(v6.accept().is_err(), "somebody connected");
    }
}

/// The server to which every address leads, in the namespace.
struct World {
    /// What is asked is asked since then.
    since: Instant,
}

/// A request: at which address, for what, and from when to when it was answered.
type Request = (IpAddr, String, Instant, Instant);

/// What was asked of the world, in all tests of this process.
static ASKED: Mutex<Vec<Request>> = Mutex::new(Vec::new());

impl World {
    /// Listens on the port everywhere, for all tests of this process. On the redirecting
    /// address, `/to/N` leads to the private host number N; elsewhere there is a page.
    fn listen() -> Self {
        static LISTENING: Once = Once::new();
        LISTENING.call_once(|| {
            let v4 = TcpListener::bind("0.0.0.0:8080").unwrap();
            let v6 = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
            v6.set_only_v6(true).unwrap();
            let everywhere: SocketAddr = "[::]:8080".parse().unwrap();
            v6.bind(&everywhere.into()).unwrap();
            v6.listen(128).unwrap();
            for listener in [v4, v6.into()] {
                // The end of the process is the end of these.
                thread::spawn(move || {
                    for stream in listener.incoming() {
                        thread::spawn(move || serve(&stream.unwrap()));
                    }
                });
            }
        });
        Self {
            since: Instant::now(),
        }
    }

    /// What was asked since, in order.
    fn asked(&self) -> Vec<Request> {
        let all = ASKED.lock().unwrap();
        let mut asked: Vec<_> = all.iter().filter(|r| r.2 >= self.since).cloned().collect();
        asked.sort_by_key(|request| request.2);
        asked
    }
}

fn serve(stream: &TcpStream) -> io::Result<()> {
    let address = stream.local_addr()?.ip();
    let mut reader = BufReader::new(stream);
    // A connection alone is too much, at a private address.
    if !is_plainly_public(address) {
        let now = Instant::now();
        ASKED
            .lock()
            .unwrap()
            .push((address, "a connection".into(), now, now));
    }
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let begun = Instant::now();
        while line.trim() != "" {
            line.clear();
            reader.read_line(&mut line)?;
        }
        line.clear();
        let target = path
            .strip_prefix("/to/")
            .and_then(|number| number.parse::<usize>().ok());
        let (status, location) = match target {
            Some(number) => (
                "302 Found",
                format!("Location: http://{}:8080/{number}\r\n", PRIVATE[number]),
            ),
            None if path == "/robots.txt"
                && address == "93.184.216.35".parse::<IpAddr>().unwrap() =>
            {
                (
                    "302 Found",
                    "Location: http://127.0.0.1:8080/robots.txt\r\n".into(),
                )
            }
            None if path == "/robots.txt" => ("404 Not Found", String::new()),
            None => ("200 OK", String::new()),
        };
        let body = format!("{address} {path}");
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{location}\r\n",
            body.len()
        );
        // Whoever asked has the answer after this moment.
        let ended = Instant::now();
        ASKED.lock().unwrap().push((address, path, begun, ended));
        (&*stream).write_all(format!("{head}{body}").as_bytes())?;
    }
    Ok(())
}

/// The addresses of these tests that are public, by hand: the guard must not judge itself.
fn is_plainly_public(address: IpAddr) -> bool {
    let text = address.to_string();
    [
        "1.1.1.1",
        "8.8.8.8",
        "9.9.9.9",
        "11.0.0.1",
        "100.63.255.255",
        "172.32.0.1",
        "192.169.0.1",
        "2606:4700::1111",
        "2a00:1450::1",
        "2001:4860::8888",
        "8.8.4.4",
        "93.184.216.34",
        "93.184.216.35",
        "9.9.9.10",
    ]
    .contains(&text.as_str())
}

/// Answers that change between look-ups: public at first, then at home.
struct Rebinding(AtomicUsize);

impl NameService for Rebinding {
    fn look_up(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let address = match self.0.fetch_add(1, SeqCst) {
            0 => [9, 9, 9, 9],
            _ => [192, 168, 1, 1],
        };
        Ok(vec![address.into()])
    }
}

#[test]
#[ignore = "needs a network namespace where all addresses are local; .ci/run makes one"]
fn namespace_no_spelling_and_no_redirect_reaches_a_private_target() {
    let world = World::listen();
    let mut settings = settings();
    // The redirects are all of one host; it must not take minutes.
    settings.politeness.delay_ms = 500;
    settings.politeness.response_factor = 0;
    let redirects = (0..PRIVATE.len()).map(|n| format!("http://{REDIRECTING}:8080/to/{n}"));
    // Rules that are somewhere private are rules that cannot be had.
    let rules = "http://93.184.216.35:8080/page".to_owned();
    let seeds = urls(PRIVATE, 8080)
        .into_iter()
        .chain(redirects)
        .chain([rules]);
    let report = crawl(settings, names(), seeds.collect());
    let private: Vec<_> = world
        .asked()
        .into_iter()
        .filter(|r| !is_plainly_public(r.0))
        .collect();
    assert_eq!(private, [], "connections to private targets");
    let count = PRIVATE.len() as u64;
    assert_eq!(report.redirects, count, "{report:?}");
    // Each is refused by itself, and by way of a redirect: that is the same URL again
    // and would be a duplicate, had it been taken in at all.
    let refused = report.urls.blocked_address + report.urls.duplicate;
    // The step to those rules is refused as well, and nothing is allowed without them.
    assert_eq!(refused, 2 * count + 1, "{report:?}");
    assert_eq!(report.urls.blocked_robots, 1, "{report:?}");
    assert_eq!(report.pages, 0, "{report:?}");
}

#[test]
#[ignore = "needs a network namespace where all addresses are local; .ci/run makes one"]
fn namespace_public_addresses_are_not_refused() {
    let world = World::listen();
    let report = crawl(settings(), names(), urls(PUBLIC, 8080));
    assert_eq!(report.pages, PUBLIC.len() as u64, "{report:?}");
    assert_eq!(report.urls.blocked_address, 0);
    assert!(
        world
            .asked()
            .iter()
            .all(|request| is_plainly_public(request.0))
    );
    // A port that is not on the list is another matter.
    let report = crawl(settings(), names(), vec!["http://8.8.8.8:8081/".into()]);
    assert_eq!((report.pages, report.urls.blocked_port), (0, 1));
}

#[test]
#[ignore = "needs a network namespace where all addresses are local; .ci/run makes one"]
fn namespace_a_name_that_moves_home_is_not_followed() {
    let world = World::listen();
    let mut settings = settings();
    settings.network.dns_lifetime_secs = 2;
    let seeds = (0..4)
        .map(|n| format!("http://moves.test:8080/{n}"))
        .collect();
    let report = crawl(settings, Arc::new(Rebinding(AtomicUsize::new(0))), seeds);
    assert!(
        world
            .asked()
            .iter()
            .all(|request| is_plainly_public(request.0))
    );
    assert!(
        report.pages >= 1 && report.urls.blocked_address >= 1,
        "{report:?}"
    );
    assert_eq!(report.pages + report.urls.blocked_address, 4, "{report:?}");
}

/// Whatever the settings say: no public host and no public address is asked more than
/// twice a second, and never twice at once.
#[test]
#[ignore = "needs a network namespace where all addresses are local; .ci/run makes one"]
fn namespace_public_hosts_get_two_requests_a_second_at_most() {
    let world = World::listen();
    let mut settings = settings();
    // Less than a config file is allowed to say.
    settings.politeness.delay_ms = 0;
    settings.politeness.max_delay_ms = 0;
    settings.politeness.response_factor = 0;
    settings.politeness.private_delay_ms = 0;
    let url = |host: &str, n: u32| format!("http://{host}:8080/{host}/{n}");
    let hosts = ["one.test", "two.test", "8.8.8.8"];
    let seeds = (0..6)
        .flat_map(|n| hosts.map(|host| url(host, n)))
        .collect();
    let report = crawl(settings, names(), seeds);
    assert_eq!(report.pages, 18, "{report:?}");
    for (address, requests) in [("9.9.9.10", 14), ("8.8.8.8", 7)] {
        let address: IpAddr = address.parse().unwrap();
        let asked: Vec<_> = world
            .asked()
            .into_iter()
            .filter(|r| r.0 == address)
            .collect();
        assert_eq!(asked.len(), requests, "{address}");
        let gaps = asked
            .windows(2)
            .map(|pair| pair[1].2.saturating_duration_since(pair[0].3));
        let least = gaps.min().unwrap();
        println!("{address}: at least {least:?} between two of {requests} requests");
        assert!(
            least + Duration::from_millis(1) >= Duration::from_millis(500),
            "{least:?}"
        );
    }
}
