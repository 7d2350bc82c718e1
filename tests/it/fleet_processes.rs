//! Peers in processes of their own, chained by the addresses that they print.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use peercrawl::demo::web::WebSpec;

use crate::crew::{wait_until, web};

/// A peer, which ends with this value.
struct Peer {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

impl Peer {
    /// Starts a peer on loopback, and reads where it listens.
    fn start(overlay: &str, more: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_peercrawl"));
        command.args(["run", "--no-store", "--allow-private"]);
        command.args(["--set", "overlay.mdns=false"]);
        command.args(["--set", "overlay.listen=['/ip4/127.0.0.1/tcp/0']"]);
        command.args(["--set", "threads.downloaders=8"]);
        command.args(["--set", &format!("overlay.kind={overlay:?}")]);
        for setting in more {
            command.args(["--set", setting]);
        }
        let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening ").unwrap().to_owned();
        Self {
            child,
            stdout,
            address,
        }
    }

    /// Ends it as a user would; gives how many pages it says it has fetched.
    fn stop(mut self) -> u64 {
        let pid = self.child.id().to_string();
        let kill = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(kill.unwrap().success());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        let pages = rest.lines().find_map(|line| line.split_once(" pages"));
        pages.unwrap().0.replace(',', "").parse().unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It has ended already, unless the test fails.
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}

fn processes_share_a_web(overlay: &str, count: usize) {
    let web = web(WebSpec::new(60, 900, 51));
    let seeds = format!("crawl.seeds={:?}", web.seeds());
    let first = Peer::start(overlay, &[]);
    let bootstrap = format!("overlay.bootstrap=[{:?}]", first.address);
    let mut peers = vec![first];
    for _ in 2..count {
        peers.push(Peer::start(overlay, std::slice::from_ref(&bootstrap)));
    }
    peers.push(Peer::start(overlay, &[bootstrap, seeds]));
    let truth = web.truth();
    wait_until("every page was served", || {
        std::thread::sleep(Duration::from_millis(20));
        web.unserved(&truth).is_empty()
    });
    let pages: Vec<_> = peers.into_iter().map(Peer::stop).collect();
    assert!(pages.iter().all(|&pages| pages > 0), "{pages:?}");
    assert_eq!(web.served_twice(&truth), [""; 0]);
    assert_eq!(web.log().overlaps, 0, "two requests at once on one host");
}

#[test]
fn processes_of_a_flat_overlay_share_a_web() {
    processes_share_a_web("flat", 3);
}

#[test]
fn processes_of_a_supernode_overlay_share_a_web() {
    processes_share_a_web("supernode", 5);
}
