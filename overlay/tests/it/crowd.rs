//! Ten thousand connections to one peer. The peer is a process of its own, this same test
//! program, so that its memory and its sockets can be counted.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, io, thread};

use peercrawl_overlay::network::{Kind, start};
use peercrawl_overlay::{Event, Overlay, PeerId, Purpose};

use crate::fleet::{eventually, options};

/// Set in the process that is the victim.
const VICTIM: &str = "PEERCRAWL_TEST_VICTIM";
/// Connections that are made.
const CONNECTIONS: usize = 10_000;
/// How many of them are held open at once: far more than the victim allows, and few
/// enough for a test program's own limits.
const HELD: usize = 500;
/// Connections that a peer has by its defaults, those that are being made, and its files.
const MOST_DESCRIPTORS: usize = 200 + 64 + 64;
/// Memory that all of this may cost.
const MOST_GROWTH_KIB: u64 = 32 << 10;

/// Answers questions until its input ends.
fn be_a_victim() {
    let victim = start(Kind::Flat, options(1, &[])).unwrap();
    println!("\nvictim {}", victim.listening()[0]);
    let events = victim.events();
    thread::spawn(move || {
        for event in events {
            if let Event::Request { replier, .. } = event {
                replier.answer(b"here".to_vec());
            }
        }
    });
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

struct Victim {
    process: Child,
    address: String,
}

impl Victim {
    fn start() -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", "crowd::ten_thousand_connections", "--nocapture"])
            .env(VICTIM, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines
            .find_map(|line| line.unwrap().strip_prefix("victim ").map(str::to_owned))
            .unwrap();
        Self { process, address }
    }

    /// The most memory that it has ever used.
    fn peak_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let number = line.unwrap().split_whitespace().nth(1).unwrap();
        number.parse().unwrap()
    }

    fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.process.id());
        fs::read_dir(folder).unwrap().count()
    }

    /// Where it listens, as a socket.
    fn socket(&self) -> String {
        let parts: Vec<_> = self.address.split('/').collect();
        format!("{}:{}", parts[2], parts[4])
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

fn answers(asker: &dyn Overlay, victim: PeerId) -> bool {
    let patience = Duration::from_secs(10);
    let reply = asker.request(victim, Purpose::Content, Arc::new([]), patience);
    reply.is_ok_and(|reply| reply.wait().is_some_and(|bytes| &bytes[..] == b"here"))
}

#[test]
fn ten_thousand_connections() {
    if env::var_os(VICTIM).is_some() {
        return be_a_victim();
    }
    let victim = Victim::start();
    let friend = start(
        Kind::Flat,
        options(2, std::slice::from_ref(&victim.address)),
    )
    .unwrap();
    eventually("friends", || friend.members().len() == 2);
    let members = friend.members();
    let id = members.iter().find(|m| m.id != friend.me()).unwrap().id;
    eventually("it answers", || answers(&*friend, id));

    let before_kib = victim.peak_kib();
    let mut held = VecDeque::new();
    let mut most_descriptors = 0;
    for number in 0..CONNECTIONS {
        // Whether it is closed at once or waited for is the victim's affair.
        held.push_back(TcpStream::connect(victim.socket()).unwrap());
        if held.len() > HELD {
            held.pop_front();
        }
        if number % 100 == 0 {
            most_descriptors = most_descriptors.max(victim.descriptors());
        }
    }
    assert!(answers(&*friend, id), "its friends are still served");
    drop(held);
    let newcomer = start(
        Kind::Flat,
        options(3, std::slice::from_ref(&victim.address)),
    )
    .unwrap();
    eventually("others can join again", || newcomer.members().len() == 3);
    let growth_kib = victim.peak_kib() - before_kib;
    println!("{growth_kib} KiB more, {most_descriptors} descriptors at most");
    assert!(growth_kib <= MOST_GROWTH_KIB, "{growth_kib} KiB");
    assert!(most_descriptors <= MOST_DESCRIPTORS, "{most_descriptors}");
}
