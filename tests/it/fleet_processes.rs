//! Peers in processes of their own, chained by the addresses that they print.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use peercrawl::archive::{Entry, Reader};
use peercrawl::demo::web::{Web, WebSpec};
use tempfile::TempDir;

use crate::crew::{wait_until, web};

/// A peer, which ends with this value.
struct Peer {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
    data: Arc<TempDir>,
}

impl Peer {
    /// Starts a peer on loopback, and reads where it listens.
    fn start(overlay: &str, more: &[String]) -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().unwrap()), overlay, more)
    }

    /// The same with this data.
    fn start_in(data: Arc<TempDir>, overlay: &str, more: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_peercrawl"));
        command.args(["run", "--allow-private", "--data"]);
        command.arg(data.path());
        command.args(["--set", "overlay.mdns=false", "--set", "overlay.upnp=false"]);
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
            data,
        }
    }

    fn archive(&self) -> Reader {
        Reader::new(self.data.path().join("archive"))
    }

    /// Pulls its plug; gives the data that it leaves.
    fn kill(mut self) -> Arc<TempDir> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.data.clone()
    }

    /// Ends it as a user would; gives how many pages it says it has fetched.
    fn stop(&mut self) -> u64 {
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

/// A port that is taken is no reason not to crawl: one sentence says so.
#[test]
fn a_peer_whose_port_is_taken_says_so_and_goes_on_alone() {
    let web = web(WebSpec::new(2, 20, 53));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for listen in [
        format!("overlay.listen=['/ip4/127.0.0.1/tcp/{port}']"),
        // No address of this machine.
        "overlay.listen=['/ip4/192.0.2.1/tcp/4001']".into(),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_peercrawl"));
        command.args(["run", "--no-store", "--allow-private", "--set", &listen]);
        command.args(["--set", "overlay.mdns=false", "--set", "overlay.upnp=false"]);
        command.args(["--set", &format!("crawl.seeds={:?}", web.seeds())]);
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = Vec::new();
        for line in stderr.lines().map_while(Result::ok) {
            let is_over = line.contains("nothing is left to fetch");
            said.push(line);
            if is_over {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let why: Vec<_> = said.iter().filter(|l| l.contains("WARN")).collect();
        assert_eq!(why.len(), 1, "{said:?}");
        assert!(
            why[0].contains("crawling alone: cannot listen on"),
            "{why:?}"
        );
        assert!(web.unserved(&web.truth()).is_empty(), "{said:?}");
    }
}

fn processes_share_a_web(overlay: &str, count: usize) {
    let web = web(WebSpec::new(60, 900, 51));
    let seeds = format!("crawl.seeds={:?}", web.seeds());
    // Whoever begins was once done before it had met the others.
    let pace = "politeness.private_delay_ms=200".to_owned();
    let first = Peer::start(overlay, std::slice::from_ref(&pace));
    let bootstrap = format!("overlay.bootstrap=[{:?}]", first.address);
    let mut peers = vec![first];
    for _ in 2..count {
        peers.push(Peer::start(overlay, &[bootstrap.clone(), pace.clone()]));
    }
    peers.push(Peer::start(overlay, &[bootstrap, pace, seeds]));
    let truth = web.truth();
    wait_for_the_end(&web);
    // Before they go: what is still on its way to one who leaves finds another owner.
    let (twice, overlaps) = (web.served_twice(&truth), web.log().overlaps);
    let pages: Vec<_> = peers.iter_mut().map(Peer::stop).collect();
    assert!(pages.iter().all(|&pages| pages > 0), "{pages:?}");
    assert_eq!(twice, [""; 0]);
    assert_eq!(overlaps, 0, "two requests at once on one host");

    let copies = assert_kept(&peers, &web);
    let spare: u64 = copies
        .values()
        .map(|(whole, _)| whole.saturating_sub(1))
        .sum();
    let revisits: u64 = copies.values().map(|(_, revisits)| revisits).sum();
    println!("{overlay}: {revisits} duplicates as references, {spare} whole");
}

/// Waits until every page was served, and nothing is asked for any more.
fn wait_for_the_end(web: &Web) {
    let truth = web.truth();
    wait_until("every page was served", || web.unserved(&truth).is_empty());
    wait_until("nothing is asked for any more", || {
        let before = web.log().requests;
        std::thread::sleep(Duration::from_millis(500));
        web.log().requests == before
    });
}

/// What peers have kept together is every page, each content with its body. Tells how often
/// each was kept whole, and how often as a reference: copies that are met before the first one
/// is on a disk are kept whole too, and such a web is small; `sharing` shows the rest.
fn assert_kept(peers: &[Peer], web: &Web) -> BTreeMap<String, (u64, u64)> {
    let expected: BTreeSet<_> = web.truth().urls().into_iter().collect();
    let mut kept = BTreeSet::new();
    let mut copies: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for peer in peers {
        let reader = peer.archive();
        assert_eq!(reader.verify().unwrap().problems, []);
        let add = |entry: Entry| {
            if entry.status == "200" && expected.contains(&entry.url) {
                let (whole, revisits) = copies.entry(entry.digest.clone()).or_default();
                *whole += u64::from(!entry.is_revisit());
                *revisits += u64::from(entry.is_revisit());
                kept.insert(entry.url);
            }
        };
        reader.list(add).unwrap();
    }
    assert!(expected == kept, "{} of {}", kept.len(), expected.len());
    assert!(
        copies.values().all(|&(whole, _)| whole > 0),
        "a body that nobody has kept"
    );
    copies
}

/// With URLs on their way to it and from it, claims open, and sites that others take over for as
/// long as it is away.
#[test]
fn a_process_that_is_killed_among_others_comes_back_and_no_page_is_missed() {
    let web = web(WebSpec::new(60, 900, 52));
    let pace = "politeness.private_delay_ms=200".to_owned();
    let first = Peer::start("flat", std::slice::from_ref(&pace));
    let bootstrap = format!("overlay.bootstrap=[{:?}]", first.address);
    let seeds = format!("crawl.seeds={:?}", web.seeds());
    let second = [bootstrap.clone(), pace.clone()];
    let third = [bootstrap, pace, seeds];
    let killed = Peer::start("flat", &second);
    let mut peers = vec![first, Peer::start("flat", &third)];
    for pages in [150, 300, 450] {
        wait_until("some pages", || web.log().served > pages);
        // Both of the others know it: one of them began the crawl.
        let data = peers.pop().unwrap().kill();
        peers.push(Peer::start_in(data, "flat", &third));
    }
    let data = killed.kill();
    peers.push(Peer::start_in(data, "flat", &second));
    // Those that come back have to meet the others before they go on.
    let expected: BTreeSet<_> = web.truth().urls().into_iter().collect();
    wait_until("every page is kept", || {
        let mut missing = expected.clone();
        for peer in &peers {
            let found = |entry: Entry| _ = missing.remove(&entry.url);
            peer.archive().list(found).unwrap();
        }
        missing.is_empty()
    });
    wait_for_the_end(&web);
    for peer in &mut peers {
        peer.stop();
    }
    assert_kept(&peers, &web);
}

#[test]
fn processes_of_a_flat_overlay_share_a_web() {
    processes_share_a_web("flat", 3);
}

#[test]
fn processes_of_a_supernode_overlay_share_a_web() {
    processes_share_a_web("supernode", 5);
}
