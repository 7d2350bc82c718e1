//! What is kept: a crawl that is killed goes on, and the archive holds every page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use peercrawl::archive::{Reader, Record, Verified};
use peercrawl::data_directory::{DataDirectory, PEER_STATE};
use peercrawl::demo::fleet::WebNames;
use peercrawl::demo::web::{Web, WebSpec};
use peercrawl::distribution::Key;
use peercrawl::engine::{Ending, Engine, Surroundings};
use peercrawl::limits::Limits;
use peercrawl::store::{Batch, DataFolder, Store};
use peercrawl_overlay::PeerId;
use peercrawl_overlay::memory::MemoryNetwork;
use serde_json::Value;
use tempfile::TempDir;

use crate::crew::{self, DEADLINE, settings, wait_until, web, whole};

/// Pages that may be on their way through one process: threads and bounded queues.
pub const DOWNLOADERS: u64 = 16;
pub const PAGES_WAITING: u64 = 16;

/// `peercrawl crawl` on a web, with a data directory.
pub struct Crawler<'a> {
    pub web: &'a Web,
    pub data: &'a Path,
}

impl Crawler<'_> {
    pub fn start(&self) -> Child {
        self.command().spawn().unwrap()
    }

    /// No faster than 50 pages a second and host: it is not over, and a part of it is on disk,
    /// when something is done to it; and 50 ms of it are few pages on any machine.
    fn start_slowly(&self) -> Child {
        let mut command = self.command();
        command.args(["--set", "politeness.private_delay_ms=20"]);
        command.spawn().unwrap()
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_peercrawl"));
        command
            .arg("crawl")
            .args(self.web.seeds())
            .args(["--scope", "any", "--allow-private", "--json"])
            .args(["--set", &format!("threads.downloaders={DOWNLOADERS}")])
            .args(["--set", &format!("queues.pages={PAGES_WAITING}")])
            .args(["--set", "politeness.private_backoff_ms=10"])
            .args(["--set", "archive.file_bytes=4000000"])
            .arg("--data")
            .arg(self.data)
            .env("HOME", self.data)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        command
    }

    /// Runs to the end, and gives the report.
    pub fn finish(&self) -> Value {
        report(&self.start().wait_with_output().unwrap())
    }

    /// Kills a slow run after the server has been asked so many times more, and tells how
    /// long it was busy and how many pages it got; `None` if it ended before. It has to begin
    /// within `longest_pause`.
    fn kill_after(&self, requests: u64, longest_pause: Duration) -> Option<(Duration, u64)> {
        let before = self.web.log();
        let mut child = self.start_slowly();
        let started = Instant::now();
        let mut first = None;
        loop {
            let asked = self.web.log().requests - before.requests;
            if asked > 0 {
                first.get_or_insert_with(Instant::now);
            }
            if asked >= requests {
                break;
            }
            if child.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(started.elapsed() < DEADLINE, "nothing is fetched");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let pages = self.web.log().completed() - before.completed();
        let first = first?;
        let pause = first - started;
        assert!(pause < longest_pause, "it goes on after {pause:?}");
        Some((first.elapsed(), pages))
    }
}

pub fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// The archive is whole, and holds every page that can be reached, with its body.
pub fn assert_archived(data: &Path, web: &Web) -> Verified {
    let reader = Reader::new(data.join("archive"));
    let verified = reader.verify().unwrap();
    assert_eq!(verified.problems, []);
    let mut archived = BTreeSet::new();
    let (mut digests, mut bodies) = (BTreeSet::new(), BTreeSet::new());
    let add = |entry: peercrawl::archive::Entry| {
        if !entry.is_revisit() {
            bodies.insert(entry.digest.clone());
        }
        if entry.status == "200" {
            digests.insert(entry.digest);
            archived.insert(entry.url);
        }
    };
    reader.list(add).unwrap();
    let bodiless: Vec<_> = digests.difference(&bodies).take(5).collect();
    assert!(bodiless.is_empty(), "revisits of nothing: {bodiless:?}");
    let expected: BTreeSet<_> = web.truth().urls().into_iter().collect();
    let missing: Vec<_> = expected.difference(&archived).take(5).collect();
    assert!(missing.is_empty(), "not in the archive: {missing:?}");
    verified
}

/// Numbers that look random and are the same every time.
pub fn draws(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    }
}

/// Kills a crawl again and again, lets it end, and holds the result against the web.
fn survives_kills(
    kills: u64,
    spec: WebSpec,
    most_requests: u64,
    longest_pause: Duration,
    data: &Path,
) {
    let mut draw = draws(spec.seed);
    let web = web(spec);
    let crawler = Crawler { web: &web, data };
    // What each kill may cost: 50 ms of pages at the rate of its run, and what was in flight.
    let (mut in_50_ms, mut fetched) = (0, 0);
    for _ in 0..kills {
        let ran = crawler.kill_after(1 + draw(most_requests), longest_pause);
        let (busy, pages) = ran.expect("the web is too small for so many kills");
        in_50_ms += (pages as f64 / busy.as_secs_f64() * 0.05).ceil() as u64;
        fetched += pages;
    }
    let report = crawler.finish();
    let (truth, log) = (web.truth(), web.log());
    assert_eq!(web.unserved(&truth), [""; 0], "missed: {report}");
    assert_eq!(log.examples, [""; 0], "should not have been asked for");
    assert_eq!(report["pages"], truth.reachable, "{report}");
    let (new, duplicate) = (&report["content"]["new"], &report["content"]["duplicate"]);
    let contents = new.as_u64().unwrap() + duplicate.as_u64().unwrap();
    assert_eq!(contents, truth.reachable, "{report}");
    assert_eq!(*new, truth.distinct_contents);
    let again = log.fetched_again;
    let bound = in_50_ms + kills * (DOWNLOADERS + PAGES_WAITING);
    println!(
        "{kills} kills: {again} pages again, at most {bound}; {fetched} pages in those runs, \
         {} in 50 ms",
        in_50_ms / kills
    );
    assert!(again <= bound, "{again} pages again, at most {bound}");
    // Whoever kept nothing would have fetched nearly all of them again.
    assert!(fetched > 2 * bound, "too short: {fetched} pages");
    let verified = assert_archived(data, &web);
    println!("{verified:?}");
}

#[test]
fn a_crawl_that_is_killed_goes_on() {
    let data = TempDir::new().unwrap();
    // Beside all other tests, how soon it goes on says nothing.
    let spec = WebSpec::new(20, 2_000, 11);
    survives_kills(4, spec, 800, DEADLINE, data.path());
}

/// Two crawls share a data directory and its archive: neither costs the other a page.
#[test]
fn a_crawl_that_goes_on_leaves_the_archive_of_another_alone() {
    let (first, second) = (
        web(WebSpec::new(10, 600, 21)),
        web(WebSpec::new(10, 300, 22)),
    );
    let data = TempDir::new().unwrap();
    let crawler = |web| Crawler {
        web,
        data: data.path(),
    };
    crawler(&first).kill_after(300, DEADLINE).unwrap();
    crawler(&second).finish();
    assert_archived(data.path(), &second);
    let report = crawler(&first).finish();
    assert!(report["resumed_pages"].as_u64() > Some(0), "{report}");
    assert_archived(data.path(), &first);
    assert_archived(data.path(), &second);
}

/// Run by `.ci/run` with a time limit of its own. The files stay under the build's own folder,
/// where `.ci/warcio-check` holds them against the world's tools.
#[test]
#[ignore = "takes minutes"]
fn fifty_kills_cost_no_page() {
    let data = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kills");
    let _gone = fs::remove_dir_all(&data);
    let (spec, soon) = (WebSpec::new(40, 26_000, 12), Duration::from_secs(5));
    survives_kills(50, spec, 800, soon, &data);
}

/// Crawls a web that does not end in the time there is, and watches the memory of the
/// process. Run by `.ci/run` for three minutes, with half the usual budget so that all of
/// it is used up soon; `PEERCRAWL_SOAK_SECS=3600` is the long form, with the usual one.
#[test]
#[ignore = "takes minutes"]
fn memory_stays_flat() {
    let seconds = std::env::var("PEERCRAWL_SOAK_SECS").map_or(180, |text| text.parse().unwrap());
    // The database fills its memory and empties it again, 15 MiB in a minute and a half. In
    // three minutes that looks like a slope; it can be told from one over half an hour.
    let is_short = seconds < 1_800;
    let (budget_mib, settles_after, steepest) = match is_short {
        true => (128, seconds / 6, 8.0),
        false => (256, seconds / 2, 0.2),
    };
    // The queues have to become too full in the time there is.
    let total_urls = if is_short { 300_000 } else { 1_000_000 };
    const ARCHIVE_BYTES: u64 = 400_000_000;
    let web = web(WebSpec {
        page_bytes: 4_096,
        oddities: false,
        // More than can be fetched in the time: a fast machine was once done after 52 minutes.
        ..WebSpec::new(3_000, (seconds as u32 * 10_000).max(6_000_000), 3)
    });
    let data = TempDir::new().unwrap();
    let start = || {
        Command::new(env!("CARGO_BIN_EXE_peercrawl"))
            .arg("crawl")
            .args(web.seeds())
            .args(["--scope", "any", "--allow-private", "--json", "--data"])
            .arg(data.path())
            .args(["--set", &format!("memory.limit_bytes={}", budget_mib << 20)])
            .args(["--set", &format!("queues.total_urls={total_urls}")])
            // The disk of whoever runs this is not the point.
            .args(["--set", &format!("archive.limit_bytes={ARCHIVE_BYTES}")])
            .args(["--set", "archive.file_bytes=50000000"])
            .args(["--set", "archive.when_full=remove-oldest"])
            .env("HOME", data.path())
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut child = start();
    let begun = Instant::now();
    let mut samples: Vec<(f64, f64)> = Vec::new();
    let mut pages_before = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(child.try_wait().unwrap(), None, "it ended");
        let resident = memory_mib(child.id(), "VmRSS:");
        samples.push((begun.elapsed().as_secs_f64(), resident));
        if samples.len().is_multiple_of(60) {
            let pages = web.log().served;
            println!("{} s: {resident:.0} MiB, {pages} pages", samples.len());
            // A crawl that stood still once took half an hour's memory for flat.
            assert!(pages > pages_before + 6_000, "it stands still");
            pages_before = pages;
        }
    }
    assert_eq!(web.log().fetched_twice, 0);
    // The most that it ever was, also between two samples.
    let most = memory_mib(child.id(), "VmHWM:");
    samples.retain(|sample| sample.0 > settles_after as f64);
    let slope = slope(&samples) * 60.0;
    println!("{seconds} s: {most:.0} MiB at most, {slope:+.2} MiB a minute");
    // With all this on disk, a start after a crash takes no longer than it should.
    child.kill().unwrap();
    child.wait().unwrap();
    // What it had asked for before may still be on its way to the server.
    let mut before = 0;
    wait_until("the server has heard all of it", || {
        std::thread::sleep(Duration::from_millis(200));
        before == std::mem::replace(&mut before, web.log().requests)
    });
    let killed = Instant::now();
    child = start();
    wait_until("it goes on", || web.log().requests > before);
    let pause = killed.elapsed();
    let stopped = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(stopped.unwrap().success());
    let report = report(&child.wait_with_output().unwrap());
    println!("it goes on {pause:?} after a crash; {report}");
    assert!(pause < Duration::from_secs(5), "{pause:?}");
    assert!(most < f64::from(budget_mib) + 64.0, "{most} MiB");
    assert!(slope < steepest, "{slope} MiB a minute");
    let overflow = &report["overflow"];
    assert!(overflow["entered"].as_u64() > Some(0), "{report}");
    assert!(overflow["left"].as_u64() > Some(0), "{report}");
    assert!(
        report["pages"].as_u64().unwrap() > 100 * seconds,
        "{report}"
    );
    // Most of the archive's files were removed on the way; what is left is whole.
    let archive = data.path().join("archive");
    let verified = Reader::new(&archive).verify().unwrap();
    assert!(
        verified.problems.is_empty() && verified.pages > 0,
        "{verified:?}"
    );
    let files = fs::read_dir(&archive).unwrap();
    let bytes: u64 = files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    let is_full = ARCHIVE_BYTES / 2..=ARCHIVE_BYTES;
    assert!(is_full.contains(&bytes), "{bytes} bytes in the archive");
}

/// Memory of a process: what is resident (`VmRSS:`), or the most that ever was (`VmHWM:`).
fn memory_mib(process: u32, which: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with(which)).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1_024.0
}

/// The slope of the straight line that fits best.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let above: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let below: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    above / below
}

#[test]
fn a_crawl_that_is_told_to_stop_goes_on_with_nothing_twice() {
    let web = web(WebSpec {
        oddities: false,
        ..WebSpec::new(20, 2_000, 5)
    });
    let data = TempDir::new().unwrap();
    let crawler = Crawler {
        web: &web,
        data: data.path(),
    };
    let child = crawler.start_slowly();
    wait_until("some pages", || web.log().served > 300);
    let stopped = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(stopped.unwrap().success());
    let first = report(&child.wait_with_output().unwrap());
    let second = crawler.finish();
    assert!(first["pages"].as_u64() < Some(2_000), "{first}");
    assert_eq!(second["resumed_pages"], first["pages"]);
    assert_eq!(second["pages"], 2_000);
    assert_eq!(web.log().fetched_twice, 0);
    assert_archived(data.path(), &web);
    // Finished, it starts anew.
    let third = crawler.finish();
    assert_eq!(
        (&third["pages"], &third["resumed_pages"]),
        (&2_000.into(), &0.into())
    );
    assert_eq!(web.log().fetched_twice, 2_000);
}

/// The archive of a whole crawl: warcio reads it afterwards (`.ci/run`), and every answer in
/// it, pages and errors and redirects, is what the server sends when it is asked again. The
/// pages that are refused or cut at first are in it as they came in the end.
#[test]
fn a_replay_gives_what_the_server_sent() {
    let web = web(WebSpec::new(10, 300, 8));
    let data = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("crawl");
    let _gone = fs::remove_dir_all(&data);
    let crawler = Crawler {
        web: &web,
        data: &data,
    };
    let report = crawler.finish();
    let verified = assert_archived(&data, &web);
    assert!(verified.pages >= report["pages"].as_u64().unwrap());
    let reader = Reader::new(data.join("archive"));
    let mut urls = BTreeSet::new();
    let add = |entry: peercrawl::archive::Entry| assert!(urls.insert(entry.url), "once");
    reader.list(add).unwrap();
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for url in &urls {
        let found = reader.get(url).unwrap().unwrap();
        let (kind, payload) = match &found.original {
            Some(original) => {
                assert_refers(&found.record, original);
                ("revisit", original.payload())
            }
            None => {
                let why = found.record.field("WARC-Truncated");
                (why.unwrap_or(&found.entry.status), found.record.payload())
            }
        };
        *kinds.entry(kind.to_owned()).or_default() += 1;
        let (head, body) = ask(url);
        let is_sent = match kind {
            // Nobody hears more of it than its beginning.
            "disconnect" => body.starts_with(payload),
            _ => body == payload,
        };
        let lengths = (payload.len(), body.len());
        assert!(is_sent, "{url}, {kind}: {lengths:?} bytes, {head}");
        let stored = String::from_utf8_lossy(&found.record.block);
        // All but the line that answers the client's own.
        let lines = |text: &str| -> Vec<String> {
            let lines = text.lines().take_while(|line| !line.is_empty());
            let lines = lines.filter(|line| !line.starts_with("Connection:"));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(lines(&stored), lines(&head), "{url}");
    }
    let truth = web.truth();
    let count = |kind: &str| -> u64 {
        let of_it = kinds.iter().filter(|(one, _)| one.starts_with(kind));
        of_it.map(|(_, count)| count).sum()
    };
    let counts = ["200", "revisit", "3", "4", "5", "disconnect"].map(count);
    assert!(!counts.contains(&0), "it tests too little: {kinds:?}");
    let [whole, revisits, others @ ..] = counts;
    assert_eq!(whole + revisits, truth.reachable, "{kinds:?}");
    let errors = [truth.client_errors, truth.server_errors, truth.resets];
    assert_eq!((others[0], &others[1..]), (truth.redirects, &errors[..]));
    assert_eq!(counts.iter().sum::<u64>(), urls.len() as u64, "{kinds:?}");
    let get = Command::new(env!("CARGO_BIN_EXE_peercrawl"))
        .args(["archive", "get", &web.seeds()[0], "--data"])
        .arg(&data)
        .output()
        .unwrap();
    assert!(get.stdout.ends_with(&ask(&web.seeds()[0]).1), "{get:?}");
    let archive = |command: &str| {
        let mut peercrawl = Command::new(env!("CARGO_BIN_EXE_peercrawl"));
        peercrawl.args(["archive", command, "--data"]).arg(&data);
        peercrawl.output().unwrap()
    };
    let list = archive("list");
    let listed = String::from_utf8_lossy(&list.stdout);
    assert_eq!(listed.lines().count() as u64, verified.pages);
    for url in web.truth().urls() {
        assert!(listed.contains(&format!("\t{url}\n")), "{url}");
    }
    let verify = archive("verify");
    let told = String::from_utf8_lossy(&verify.stdout);
    let sum = format!("{} answers, 0 problems\n", verified.pages);
    assert!(verify.status.success() && told.ends_with(&sum), "{told}");
    let aside = data.join("archive/x.warc.gz.damaged");
    fs::write(&aside, "").unwrap();
    let verify = archive("verify");
    fs::remove_file(aside).unwrap();
    let told = String::from_utf8_lossy(&verify.stdout);
    assert!(
        !verify.status.success() && told.contains("was damaged"),
        "{told}"
    );
    // `| head -1` closes the pipe: no error.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let get = Command::new(env!("CARGO_BIN_EXE_peercrawl"))
        .args(["archive", "get", &web.seeds()[0], "--data"])
        .arg(&data)
        .stdout(writer)
        .output()
        .unwrap();
    assert!(get.status.success() && get.stderr.is_empty(), "{get:?}");
}

/// A revisit names the record that has its payload, in all the fields that the standard has
/// for that.
pub fn assert_refers(revisit: &Record, original: &Record) {
    let expected = [
        ("WARC-Type", Some("revisit")),
        (
            "WARC-Profile",
            Some("http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"),
        ),
        (
            "WARC-Refers-To-Target-URI",
            original.field("WARC-Target-URI"),
        ),
        ("WARC-Refers-To-Date", original.field("WARC-Date")),
        ("WARC-Payload-Digest", original.field("WARC-Payload-Digest")),
        ("WARC-Truncated", Some("length")),
    ];
    for (name, value) in expected {
        assert!(value.is_some(), "{name}");
        assert_eq!(revisit.field(name), value, "{name}");
    }
    assert_eq!(original.kind(), "response");
}

/// Asks the server as the crawler does, and gives the head and the body as sent.
fn ask(url: &str) -> (String, Vec<u8>) {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nhost: {host}\r\naccept-encoding: gzip, deflate, br\r\n\
         connection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    // What came before a reset stays in it.
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{url}");
    }
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    (head, answer.split_off(end))
}

/// A peer alone with a data directory, which crawls this web.
pub fn kept_engine(
    web: &Arc<Web>,
    data: &Path,
    change: impl FnOnce(&mut crew::Settings),
) -> Engine {
    let mut settings = settings();
    change(&mut settings);
    let engine = kept_peer(web, data, &settings, &MemoryNetwork::new());
    engine.begin(whole(web, &settings)).unwrap();
    engine
}

/// A peer of this network with a data directory, for this web.
pub fn kept_peer(
    web: &Arc<Web>,
    data: &Path,
    settings: &crew::Settings,
    network: &MemoryNetwork,
) -> Engine {
    let directory = DataDirectory::open(data, [7; 32]).unwrap();
    let kept = directory.keep(PEER_STATE, settings).unwrap();
    assert_eq!(kept.notices, [""; 0]);
    let engine = Engine::start(Surroundings {
        limits: Limits::new(&settings.limits),
        settings: settings.clone(),
        overlay: Arc::new(network.join(PeerId(directory.secret()))),
        names: Arc::new(WebNames(web.clone())),
        kept: Some(kept),
        receipts: None,
    });
    engine.unwrap()
}

/// Tables of the state and how large they are, the largest last.
fn table_files(state: &Path) -> Vec<(u64, PathBuf)> {
    let mut files = Vec::new();
    for keyspace in fs::read_dir(state.join("keyspaces")).unwrap() {
        let tables = keyspace.unwrap().path().join("tables");
        let found = fs::read_dir(tables).into_iter().flatten();
        // One that is no longer needed may go at any moment.
        let sized = |file: fs::DirEntry| Some((file.metadata().ok()?.len(), file.path()));
        files.extend(found.filter_map(|file| sized(file.unwrap())));
    }
    files.sort();
    files
}

/// A queue that cannot be read is no reason to start no more: the state is kept under
/// another name, and the crawl begins anew.
#[test]
fn a_damaged_queue_is_set_aside_and_the_crawl_begins_anew() {
    let web = web(WebSpec {
        oddities: false,
        ..WebSpec::new(4, 200, 5)
    });
    let (data, settings) = (TempDir::new().unwrap(), settings());
    let engine = kept_engine(&web, data.path(), |_| {});
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    engine.shutdown();
    // A queue that is long enough to be written to a table.
    {
        let folder = DataFolder::open(data.path()).unwrap();
        let (store, _) = Store::open(&folder, PEER_STATE).unwrap();
        let mut draw = draws(1);
        for site in 0..100 {
            let mut batch = Batch::new();
            for number in 0..1_000 {
                let url: Vec<u8> = (0..80).map(|_| draw(256) as u8).collect();
                batch.queue_push(Key(site), number, &url);
            }
            store.commit(&batch).unwrap();
        }
        wait_until("a large table", || {
            let largest = table_files(&data.path().join(PEER_STATE)).pop();
            largest.is_some_and(|(bytes, _)| bytes > 1_000_000)
        });
    }
    let (_, table) = table_files(&data.path().join(PEER_STATE)).pop().unwrap();
    let mut bytes = fs::read(&table).unwrap();
    assert!(bytes.len() > 1_000_000, "{}", bytes.len());
    let middle = bytes.len() / 2;
    bytes[middle..middle + 5_000].fill(0x55);
    fs::write(&table, bytes).unwrap();

    let directory = DataDirectory::open(data.path(), [7; 32]).unwrap();
    let kept = directory.keep(PEER_STATE, &settings).unwrap();
    assert!(
        kept.notices.join(" ").contains("state.damaged-1"),
        "{:?}",
        kept.notices
    );
    drop((kept, directory));
    assert!(data.path().join("state.damaged-1/keyspaces").is_dir());
    let engine = kept_engine(&web, data.path(), |_| {});
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    assert_eq!(engine.shutdown().pages, 200);
    assert_eq!(web.log().fetched_twice, 200);
    assert_archived(data.path(), &web);
}

/// A peer that has fetched everything and was started again hands over what it knows of
/// sites, from disk, to a peer that joins: nothing is fetched again.
#[test]
fn what_was_done_in_an_earlier_run_is_handed_over() {
    let web = web(WebSpec {
        oddities: false,
        ..WebSpec::new(20, 400, 9)
    });
    let (data, settings) = (TempDir::new().unwrap(), settings());
    let network = MemoryNetwork::new();
    let first = kept_peer(&web, data.path(), &settings, &network);
    first.begin(whole(&web, &settings)).unwrap();
    assert_eq!(first.wait(DEADLINE), Some(Ending::Complete));
    assert_eq!(first.shutdown().pages, 400);

    let first = kept_peer(&web, data.path(), &settings, &network);
    let second = crew::engine(&settings, &network, 2, &web);
    wait_until("both to see both", || {
        first.owners() == 2 && second.owners() == 2
    });
    second.begin(whole(&web, &settings)).unwrap();
    wait_until("the end", || {
        first.outstanding() == 0 && second.outstanding() == 0
    });
    assert_eq!(first.report().resumed_pages, 400);
    assert_eq!(web.log().fetched_twice, 0);
    assert_eq!(first.report().pages + second.report().pages, 400);
}

/// Far more URLs than memory may hold: they wait on disk, and none is lost.
#[test]
fn queues_beyond_memory_wait_on_disk() {
    let web = web(WebSpec {
        links: 200,
        oddities: false,
        ..WebSpec::new(4, 3_000, 5)
    });
    let data = TempDir::new().unwrap();
    let engine = kept_engine(&web, data.path(), |_| {});
    engine.set_memory_urls(50);
    let mut most = 0;
    while engine.wait(Duration::from_millis(5)) != Some(Ending::Complete) {
        most = most.max(engine.snapshot().urls_on_disk);
    }
    assert!(most > 500, "{most}");
    assert_eq!(engine.shutdown().pages, 3_000);
    assert_eq!(web.log().fetched_twice, 0);
}

/// With a data directory too, the queues have a bound, and a report tells of it.
#[test]
fn a_report_tells_of_overflow_that_was_entered_and_left() {
    let web = web(WebSpec {
        links: 600,
        oddities: false,
        ..WebSpec::new(1, 200, 5)
    });
    let data = TempDir::new().unwrap();
    let crawler = Crawler {
        web: &web,
        data: data.path(),
    };
    let child = crawler
        .command()
        .args(["--set", "queues.total_urls=40"])
        .spawn()
        .unwrap();
    let report = report(&child.wait_with_output().unwrap());
    let count = |name: &str| report["overflow"][name].as_u64().unwrap();
    assert!(count("entered") > 0 && count("left") > 0, "{report}");
    assert!(report["urls"]["refused_overflow"].as_u64() > Some(200));
    assert_eq!(report["pages"], 200, "all were met again, and fetched then");
    assert_eq!(web.log().fetched_twice, 0);
}

/// The archive may have so much disk and no more: the crawl pauses and says why, and
/// goes on when there is room.
#[test]
fn a_full_archive_pauses_the_crawl_until_there_is_room() {
    // Twice as much as may wait in memory to be written.
    let web = web(WebSpec {
        oddities: false,
        ..WebSpec::new(4, 2_000, 5)
    });
    let data = TempDir::new().unwrap();
    let engine = kept_engine(&web, data.path(), |settings| {
        settings.archive.limit_bytes = 200_000;
    });
    wait_until("trouble", || engine.snapshot().trouble.is_some());
    let why = engine.snapshot().trouble.clone().unwrap();
    assert!(why.contains("of 200.0 kB"), "{why}");
    wait_until("quiet", || {
        let before = web.log().requests;
        std::thread::sleep(Duration::from_millis(100));
        web.log().requests == before
    });
    assert!(engine.report().pages < 2_000);
    engine
        .ledger()
        .set_archive_limit(peercrawl::archive::DiskLimit::NONE);
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    assert_eq!(engine.ledger().trouble(), None);
    engine.shutdown();
    assert_archived(data.path(), &web);
    assert_eq!(web.log().fetched_twice, 0);
}

/// As many pages as allowed were fetched, and the last ones were nowhere: nothing is over
/// before it is written.
#[test]
fn a_crawl_is_not_over_while_its_last_page_cannot_be_written() {
    let web = web(WebSpec {
        oddities: false,
        ..WebSpec::new(1, 3, 5)
    });
    let data = TempDir::new().unwrap();
    let engine = kept_engine(&web, data.path(), |settings| {
        settings.archive.limit_bytes = 3_000;
        settings.crawl.max_pages = 1;
    });
    wait_until("trouble", || engine.ledger().trouble().is_some());
    assert_eq!(engine.wait(Duration::from_millis(500)), None);
    engine
        .ledger()
        .set_archive_limit(peercrawl::archive::DiskLimit::NONE);
    assert_eq!(engine.wait(DEADLINE), Some(Ending::MaxPages));
    let (ledger, report) = (engine.ledger().clone(), engine.shutdown());
    assert_eq!((ledger.trouble(), report.pages), (None, 1));
    let verified = Reader::new(data.path().join("archive")).verify().unwrap();
    assert!(verified.pages > 0 && verified.problems.is_empty());
}

/// Such a crawl can be ended, says why it is not done, and goes on when it is begun again.
#[test]
fn a_crawl_that_ends_with_a_full_archive_keeps_its_state() {
    let web = web(WebSpec {
        oddities: false,
        ..WebSpec::new(2, 60, 5)
    });
    let data = TempDir::new().unwrap();
    let crawler = Crawler {
        web: &web,
        data: data.path(),
    };
    let mut child = crawler
        .command()
        .args(["--set", "archive.limit_bytes=3000"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let pauses = |line: std::io::Result<String>| line.unwrap().contains("the crawl pauses");
    assert!(told.any(pauses));
    let stopped = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(stopped.unwrap().success());
    let told: Vec<String> = told.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{told:?}");
    assert!(
        told.join(" ").contains("raise the limit or make room"),
        "{told:?}"
    );
    assert_eq!(crawler.finish()["pages"], 60);
    assert_archived(data.path(), &web);
}
