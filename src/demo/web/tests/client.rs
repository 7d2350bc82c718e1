//! A naive HTTP client, and what it must see of a running web.

use std::collections::{BTreeMap, HashMap};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::super::{Naming, Web, WebSpec};
use super::{namings, small, start};

/// An answer, its body unchunked and decompressed.
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: Vec<u8>,
}

/// A client with one kept-alive connection for each host.
pub(super) struct Client<'a> {
    web: &'a Web,
    connections: HashMap<String, TcpStream>,
    pub(super) opened: usize,
}

impl<'a> Client<'a> {
    pub(super) fn new(web: &'a Web) -> Self {
        Client {
            web,
            connections: HashMap::new(),
            opened: 0,
        }
    }

    /// Fetches a URL; an error is what the socket said.
    pub(super) fn get(&mut self, url: &str) -> std::io::Result<Page> {
        let rest = url.strip_prefix("http://").expect("an http URL");
        let slash = rest.find('/').expect("a path");
        let (authority, path) = rest.split_at(slash);
        let mut stream = match self.connections.remove(authority) {
            Some(stream) => stream,
            None => {
                self.opened += 1;
                connect(self.web, authority)?
            }
        };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: peercrawl/test\r\nAccept-Encoding: gzip, deflate, br\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let (page, reusable) = read_page(&mut stream)?;
        if reusable {
            self.connections.insert(authority.to_owned(), stream);
        }
        Ok(page)
    }
}

pub(super) fn connect(web: &Web, authority: &str) -> std::io::Result<TcpStream> {
    let (host, port) = authority.split_once(':').expect("a port");
    let address = web.address_of(host).expect("a host of the web");
    let stream = TcpStream::connect(SocketAddr::new(address, port.parse().expect("a number")))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(stream)
}

fn read_page(stream: &mut TcpStream) -> std::io::Result<(Page, bool)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            break end;
        }
        if read_some(stream, &mut bytes)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).expect("an ASCII head");
    let mut body = bytes.split_off(end + 4);
    let mut lines = head.split("\r\n");
    let first = lines.next().expect("a status line");
    let status = first[9..12].parse().expect("a status");
    let headers: HashMap<String, String> = lines
        .map(|line| line.split_once(": ").expect("a header"))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut reusable = headers
        .get("connection")
        .is_none_or(|value| value != "close");
    if let Some(length) = headers.get("content-length") {
        let length: usize = length.parse().expect("a length");
        while body.len() < length {
            if read_some(stream, &mut body)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        assert_eq!(body.len(), length, "more than was advertised");
    } else if headers.contains_key("transfer-encoding") {
        body = read_chunks(stream, body)?;
    } else {
        reusable = false;
        while read_some(stream, &mut body)? > 0 {}
    }
    let mut decoded = Vec::new();
    match headers.get("content-encoding").map(String::as_str) {
        Some("gzip") => flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut decoded)?,
        Some("deflate") => flate2::read::ZlibDecoder::new(&body[..]).read_to_end(&mut decoded)?,
        Some("br") => {
            brotli_decompressor::Decompressor::new(&body[..], 4_096).read_to_end(&mut decoded)?
        }
        _ => {
            decoded = body;
            0
        }
    };
    Ok((
        Page {
            status,
            headers,
            body: decoded,
        },
        reusable,
    ))
}

fn read_chunks(stream: &mut TcpStream, mut bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    let mut at = 0;
    let mut line =
        |bytes: &mut Vec<u8>, at: &mut usize, need: Option<usize>| -> std::io::Result<Vec<u8>> {
            loop {
                let found = match need {
                    Some(length) => (bytes.len() >= *at + length).then_some(length),
                    None => memchr::memmem::find(&bytes[*at..], b"\r\n").map(|end| end + 2),
                };
                if let Some(length) = found {
                    *at += length;
                    return Ok(bytes[*at - length..*at].to_vec());
                }
                if read_some(stream, bytes)? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
        };
    loop {
        let size = String::from_utf8(line(&mut bytes, &mut at, None)?).expect("an ASCII size");
        let size = size.split(';').next().expect("a size").trim();
        let size = usize::from_str_radix(size, 16).expect("a hexadecimal size");
        if size == 0 {
            while line(&mut bytes, &mut at, None)? != b"\r\n" {}
            assert_eq!(at, bytes.len(), "more than the last chunk");
            return Ok(body);
        }
        body.extend_from_slice(&line(&mut bytes, &mut at, Some(size))?);
        assert_eq!(line(&mut bytes, &mut at, Some(2))?, b"\r\n");
    }
}

fn read_some(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut buffer = [0; 16 * 1024];
    let read = stream.read(&mut buffer)?;
    bytes.extend_from_slice(&buffer[..read]);
    Ok(read)
}

/// Fetches every URL of the truth, with one more try where the web asks for it.
fn fetch_all(web: &Web) -> BTreeMap<String, Vec<u8>> {
    let mut client = Client::new(web);
    let mut bodies = BTreeMap::new();
    for url in web.truth().urls() {
        let page = match client.get(&url) {
            Ok(page) if page.status == 200 => page,
            Ok(Page {
                status: 429 | 503,
                headers,
                ..
            }) => {
                assert!(headers.contains_key("retry-after"));
                client.get(&url).expect("the second time it is there")
            }
            Ok(page) => panic!("{} for {url}", page.status),
            Err(_) => client.get(&url).expect("only the first try is reset"),
        };
        assert_eq!(page.status, 200, "{url}");
        bodies.insert(url, page.body);
    }
    bodies
}

#[test]
fn every_url_of_the_truth_is_there_and_the_duplicates_are_those_it_names() {
    for naming in namings() {
        let web = start(WebSpec {
            naming,
            ..small(7, 400, 11)
        });
        let truth = web.truth();
        let bodies = fetch_all(&web);
        assert_eq!(bodies.len() as u64, truth.reachable);
        let mut by_body: BTreeMap<&[u8], Vec<String>> = BTreeMap::new();
        for (url, body) in &bodies {
            by_body.entry(body).or_default().push(url.clone());
        }
        assert_eq!(by_body.len() as u64, truth.distinct_contents);
        let mut groups: Vec<Vec<String>> = by_body
            .into_values()
            .filter(|group| group.len() > 1)
            .collect();
        groups.sort_unstable();
        assert_eq!(groups, truth.mirrors());
        assert!(truth.duplicates >= 8, "{}", truth.duplicates);
        let log = web.log();
        assert_eq!(
            (log.served, log.fetched_twice, log.unknown_hits),
            (truth.reachable, 0, 0),
            "{log:?}"
        );
        assert_eq!(
            (log.overlaps, log.phantom_hits, log.robots_violations),
            (0, 0, 0)
        );
        assert!(web.unserved(&truth).is_empty() && web.served_twice(&truth).is_empty());
    }
}

#[test]
fn plain_pages_have_the_size_that_was_asked_for_over_one_connection() {
    let web = start(WebSpec {
        oddities: false,
        ..WebSpec::new(1, 60, 5)
    });
    let mut client = Client::new(&web);
    for url in web.truth().urls() {
        assert_eq!(
            client.get(&url).expect("a page").body.len(),
            16 * 1024,
            "{url}"
        );
    }
    assert_eq!(client.opened, 1);
}

#[test]
fn the_log_tells_what_should_not_have_been_asked() {
    let web = start(WebSpec {
        request_log: 100,
        ..small(20, 600, 3)
    });
    let mut client = Client::new(&web);
    let seed = web.seeds()[0].clone();
    for _ in 0..2 {
        client.get(&seed).expect("the root");
    }
    assert_eq!(
        client
            .get(&format!("{seed}nothing/p7000"))
            .expect("an answer")
            .status,
        404
    );
    assert_eq!(
        client
            .get(&format!("{seed}?utm_source=x"))
            .expect("an answer")
            .status,
        404
    );
    client
        .get(&format!("{seed}phantom/1.html"))
        .expect("an answer");
    client
        .get(&format!("{seed}calendar/next/next/next/next"))
        .expect("an answer");
    client.get(&format!("{seed}robots.txt")).expect("an answer");
    let log = web.log();
    assert_eq!((log.requests, log.served, log.fetched_twice), (7, 1, 1));
    assert_eq!(
        (log.unknown_hits, log.phantom_hits, log.trap_hits),
        (2, 1, 1)
    );
    assert_eq!(log.robots_requests.iter().sum::<u32>(), 1);
    assert_eq!(log.examples.len(), 4, "{:?}", log.examples);
    let statuses: Vec<u16> = log.lines.iter().map(|line| line.status).collect();
    assert_eq!(statuses[..6], [200, 200, 404, 404, 200, 200]);
    assert_eq!(web.served_twice(&web.truth()), [seed]);
}

#[test]
fn forbidden_pages_are_counted_on_every_host_with_rules() {
    let web = start(small(12, 400, 8));
    let mut client = Client::new(&web);
    let mut forbidden = 0;
    for host in 0..12 {
        let root = web.plan.url(super::super::Target {
            host,
            what: super::super::What::Page(0),
        });
        if web.plan.hosts[host as usize].extras.forbidden {
            assert_eq!(
                client
                    .get(&format!("{root}private/f0.html"))
                    .expect("an answer")
                    .status,
                200
            );
            forbidden += 1;
        } else {
            assert_eq!(
                client
                    .get(&format!("{root}robots.txt"))
                    .expect("an answer")
                    .status,
                404
            );
        }
    }
    assert!((1..12).contains(&forbidden));
    assert_eq!(web.log().robots_violations, forbidden);
}

#[test]
fn two_requests_at_once_on_a_host_are_an_overlap() {
    // One host has every part to play, the slow page among them.
    let web = start(small(1, 200, 1));
    let slow = web.plan.hosts[0].roles.slow.expect("a slow page");
    let slow = web.plan.url(super::super::Target {
        host: 0,
        what: super::super::What::Page(slow),
    });
    let root = web.seeds()[0].clone();
    let authority = root
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned();
    let mut first = connect(&web, &authority).expect("a connection");
    let path = &slow[root.len() - 1..];
    write!(first, "GET {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n").expect("sent");
    // The server has read it once it counts it.
    while web.log().requests == 0 {
        std::thread::yield_now();
    }
    Client::new(&web).get(&root).expect("the root");
    assert_eq!(web.log().overlaps, 1);
    let started = Instant::now();
    assert_eq!(read_page(&mut first).expect("the slow page").0.status, 200);
    assert!(started.elapsed() < Duration::from_secs(5));
    Client::new(&web).get(&root).expect("the root");
    assert_eq!(web.log().overlaps, 1);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let web = start(WebSpec {
        oddities: false,
        naming: Naming::Names,
        ..WebSpec::new(1, 9, 2)
    });
    let authority = format!("h0.peercrawl.test:{}", web.port());
    let mut stream = connect(&web, &authority).expect("a connection");
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    let all = ["/", "/d3/p3.html", "/nothing", "/"].map(get).concat();
    stream.write_all(all.as_bytes()).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("shut");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("all answers");
    let statuses: Vec<&[u8]> = memchr::memmem::find_iter(&bytes, b"HTTP/1.1 ")
        .map(|at| &bytes[at + 9..at + 12])
        .collect();
    assert_eq!(statuses, [b"200", b"200", b"404", b"200"]);
}

#[test]
fn shutting_down_closes_open_connections_at_once() {
    let mut web = start(WebSpec {
        threads: 2,
        ..small(4, 100, 4)
    });
    let authorities: Vec<String> = web
        .plan
        .hosts
        .iter()
        .map(|host| host.authority.to_string())
        .collect();
    let mut open: Vec<TcpStream> = authorities
        .iter()
        .map(|authority| connect(&web, authority).expect("a connection"))
        .collect();
    write!(open[0], "GET / HT").expect("sent");
    let started = Instant::now();
    web.shutdown();
    assert!(started.elapsed() < Duration::from_secs(2));
    for mut stream in open {
        // Closed or reset, but over.
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }
    assert!(
        TcpStream::connect(authorities[0].as_str()).is_err() || authorities[0].starts_with('h')
    );
}
