//! The program as a person or a script sees it: what it prints, and how it ends.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use peercrawl::demo::web::{Web, WebSpec};
use peercrawl::distribution::Key;
use serde_json::Value;

use crate::hostile::{HostileWeb, Site, page};

/// A program that has not ended by then hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// The object that `--json` prints, as the design gives it, and what has been added.
const REPORT: &str = r#"{"pages":0,"resumed_pages":0,"bytes":0,"elapsed_secs":0.0,
    "pages_per_sec":0.0,"urls":{"discovered":0,"duplicate":0,"out_of_scope":0,"out_of_range":0,
    "refused_overflow":0,"blocked_robots":0,"blocked_address":0,"blocked_port":0,
    "blocked_list":0,"given_up":0,"trap":{}},"content":{"new":0,"duplicate":0,"unknown":0},
    "redirects":0,"retries":0,"errors":{"dns":0,"connect":0,"timeout":0,"tls":0,"http_4xx":0,
    "http_5xx":0,"too_large":0,"other":0},"memory":{"used_bytes":0,"limit_bytes":0},
    "overflow":{"entered":0,"left":0}}"#;

/// A home folder of its own, so that the user's own settings play no part.
struct Home(PathBuf);

impl Home {
    fn new() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, SeqCst);
        let path = env::temp_dir().join(format!("peercrawl-it-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Writes a file there, and tells where it is.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_peercrawl"))
            .args(arguments)
            .env("HOME", &self.0)
            .env("XDG_CONFIG_HOME", self.0.join("config"))
            .env("XDG_DATA_HOME", self.0.join("data"))
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Running {
            stdout: read_all(child.stdout.take().unwrap()),
            stderr: read_all(child.stderr.take().unwrap()),
            child,
        }
    }

    fn run(&self, arguments: &[&str]) -> Done {
        self.start(arguments).wait()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// Reads to the end, on a thread of its own.
fn read_all(mut stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut text = String::new();
        let result = stream.read_to_string(&mut text).map(|_| text);
        // Nobody listens any more if the test has failed meanwhile.
        let _unheard = sender.send(result.unwrap());
    });
    receiver
}

/// The program at work.
struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    /// Waits until it ends.
    fn wait(mut self) -> Done {
        // Its output ends when it does.
        let stdout = self.stdout.recv_timeout(DEADLINE);
        let stderr = self.stderr.recv_timeout(DEADLINE);
        if stdout.is_err() || stderr.is_err() {
            self.child.kill().unwrap();
        }
        let status = self.child.wait().unwrap().code();
        Done {
            status,
            stdout: stdout.unwrap(),
            stderr: stderr.unwrap(),
        }
    }
}

/// How it ended.
#[derive(Debug)]
struct Done {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Done {
    fn expect_status(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "{self:?}");
        self
    }

    /// The object on the last line.
    fn json(&self) -> Value {
        let last = self.stdout.trim_end().lines().last();
        serde_json::from_str(last.unwrap_or_default()).unwrap()
    }

    fn pages(&self) -> u64 {
        self.json()["pages"].as_u64().unwrap()
    }
}

/// All names in an object, nested ones with their path; what is inside `but` may vary.
fn names(value: &Value, prefix: &str, but: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (name, value) in value.as_object().unwrap() {
        let full = format!("{prefix}{name}");
        if value.is_object() && full != but {
            all.extend(names(value, &format!("{full}."), but));
        }
        all.insert(full);
    }
    all
}

/// A site of 10 pages: the root links to the others, to itself, and to `elsewhere`.
fn site(web: &mut HostileWeb, elsewhere: String) -> Site {
    web.pages(move |path, stream| {
        let links: String = (0..10).map(|n| format!("<a href=/{n}>")).collect();
        match path {
            "/0" => page(stream, format!("{links}<a href={elsewhere}>")),
            _ => page(stream, format!("{path} <a href=/0>")),
        }
    })
}

#[test]
fn inspect_links() {
    let home = Home::new();
    let file = home.write(
        "page.html",
        "<base href=/b/><a href='x?a=1&amp;b=2'>x</a><A HREF=/y#part>y</A><a href=/y>again</a>\
         <a href=mailto:z@example.org>z</a><a href='/p?utm_source=q&r=2'>p</a>\
         <script>'<a href=/script>'</script><!-- <a href=/comment> -->",
    );
    let done = home.run(&["inspect", "links", &file, "--base", "http://a.example/dir/"]);
    assert_eq!(
        done.expect_status(0).stdout,
        "http://a.example/b/x?a=1&b=2\nhttp://a.example/y\nhttp://a.example/p?r=2\n"
    );
    let missing = home.0.join("missing.html");
    let missing = missing.to_str().unwrap();
    let done = home.run(&["inspect", "links", missing, "--base", "http://a.example/"]);
    assert!(done.expect_status(1).stderr.contains(missing));
}

#[test]
fn inspect_robots() {
    let home = Home::new();
    let rules = "User-agent: *\nDisallow: /\n\nUser-agent: cat\nDisallow: /no\nAllow: /no/but\n";
    let file = home.write("robots.txt", rules);
    let urls = [
        "http://a.example/",
        "http://a.example/no?x",
        "http://a.example/no/but",
    ];
    let judge = |agent| {
        let arguments = [&["inspect", "robots", &file, "--agent", agent], &urls[..]].concat();
        home.run(&arguments).expect_status(0).stdout
    };
    let [root, no, but] = urls;
    assert_eq!(
        judge("cat"),
        format!("allowed\t{root}\ndisallowed\t{no}\nallowed\t{but}\n")
    );
    assert_eq!(
        judge("dog"),
        format!("disallowed\t{root}\ndisallowed\t{no}\ndisallowed\t{but}\n")
    );
}

#[test]
fn inspect_url() {
    let home = Home::new();
    let inspect = |arguments: &[&str]| {
        let arguments = [&["inspect", "url"], arguments].concat();
        home.run(&arguments).expect_status(0).stdout
    };
    let key = Key::of_host("www.a.example").0;
    assert_eq!(
        inspect(&["HTTP://WWW.A.example:80/x/../%7eb?utm_id=1&c=2#d"]),
        format!("canonical\thttp://www.a.example/~b?c=2\nhost\twww.a.example\nkey\t{key:016x}\n")
    );
    for (url, why) in [
        ("ftp://a.example/", ""),
        ("http://a.example/x/x/x/x", "segment_repeats"),
        ("http://192.168.1.1/", "192.168.1.1"),
        ("http://[::1]/", "::1"),
        ("http://a.example:22/", "22"),
    ] {
        let printed = inspect(&[url]);
        let refusal = printed
            .lines()
            .find_map(|line| line.strip_prefix("refused\t"));
        assert!(refusal.is_some_and(|text| text.contains(why)), "{printed}");
    }
    let printed = inspect(&["--allow-private", "http://192.168.1.1/"]);
    assert!(!printed.contains("refused"), "{printed}");
}

#[test]
fn the_json_object_has_the_names_that_scripts_rely_on() {
    let mut web = HostileWeb::default();
    let site = site(&mut web, "http://10.0.0.1/".into());
    let home = Home::new();
    let done = home.run(&["crawl", &site.url("/0"), "--allow-private", "--json"]);
    let done = done.expect_status(0);
    let expected = serde_json::from_str(REPORT).unwrap();
    let but = "urls.trap";
    assert_eq!(names(&done.json(), "", but), names(&expected, "", but));
    assert_eq!(done.json()["pages"], 10);
    assert_eq!(done.json()["urls"]["out_of_scope"], 1);
    assert!(done.json()["urls"]["trap"].is_object());
    let memory = &done.json()["memory"];
    assert!(memory["used_bytes"].as_u64() > Some(0), "{memory}");
    assert_eq!(memory["limit_bytes"], 256 << 20);
    // Nobody has said where the data goes: to the platform's own place.
    if cfg!(target_os = "linux") {
        assert!(home.0.join("data/peercrawl/archive").is_dir());
    }
}

#[test]
fn a_person_gets_words() {
    let mut web = HostileWeb::default();
    let site = site(&mut web, "/0".into());
    // A person may leave the scheme out, too.
    let url = format!("{}/0", site.address);
    let done = Home::new().run(&["crawl", &url, "--allow-private", "--no-store"]);
    let done = done.expect_status(0);
    assert!(done.stdout.starts_with("10 pages (10 new"), "{done:?}");
}

/// A static range of two once left the other half waiting for a peer that never came.
#[test]
fn whoever_crawls_alone_has_every_range() {
    let mut web = HostileWeb::default();
    let sites: Vec<_> = (0..8).map(|_| site(&mut web, "/0".into())).collect();
    let urls: Vec<_> = sites.iter().map(|site| site.url("/0")).collect();
    let mut arguments = vec!["crawl", "--allow-private", "--no-store", "--json"];
    arguments.extend(["--set", "distribution.kind=static"]);
    arguments.extend([
        "--set",
        "distribution.peers=2",
        "--set",
        "distribution.index=1",
    ]);
    arguments.extend(urls.iter().map(String::as_str));
    let done = Home::new().run(&arguments).expect_status(0);
    assert_eq!(done.json()["urls"]["out_of_range"], 0);
    assert!(sites.iter().all(|site| site.asked_for("/0") == 1));
}

#[test]
fn max_pages_is_never_exceeded() {
    let home = Home::new();
    for (run, most) in [1, 2, 20, 37].into_iter().enumerate() {
        let web = Web::start(WebSpec::new(20, 300, run as u64)).unwrap();
        let seeds = web.seeds();
        let most_text = most.to_string();
        let mut arguments = vec!["crawl", "--allow-private", "--json", "--scope", "any"];
        arguments.extend(["--max-pages", &most_text, "--set", "threads.downloaders=64"]);
        arguments.extend(seeds.iter().map(String::as_str));
        let done = home.run(&arguments).expect_status(0);
        assert_eq!(done.pages(), most, "run {run}");
        assert!(web.log().served <= most, "run {run}: {:?}", web.log());
    }
}

#[test]
fn depth_zero_is_the_seeds_alone() {
    let mut web = HostileWeb::default();
    let site = site(&mut web, "/elsewhere".into());
    let (first, second) = (site.url("/0"), site.url("/3"));
    let mut arguments = vec!["crawl", &first, &second, "--allow-private", "--json"];
    arguments.extend(["--max-depth", "0"]);
    let done = Home::new().run(&arguments).expect_status(0);
    assert_eq!(site.requests(), ["/robots.txt", "/0", "/3"]);
    assert_eq!(done.pages(), 2);
    assert_eq!(done.json()["urls"]["trap"]["depth"], 12);
}

/// Addresses have no domain: each is its own. Names are judged alike, which the tests of
/// the rules show.
#[test]
fn scope_is_host_unless_told_otherwise() {
    let home = Home::new();
    let file = home.write("any.toml", "[crawl]\nscope = 'any'\n");
    for (arguments, pages, out_of_scope) in [
        (&[][..], 10, 1),
        (&["--scope", "host"], 10, 1),
        (&["--scope", "domain"], 10, 1),
        (&["--scope", "any"], 11, 0),
        // The flag's default once won over these.
        (&["--set", "crawl.scope=any"], 11, 0),
        (&["--config", &file], 11, 0),
        (&["--config", &file, "--scope", "host"], 10, 1),
    ] {
        let mut web = HostileWeb::default();
        let other = web.pages(|_, stream| page(stream, "another host"));
        let site = site(&mut web, other.url("/"));
        let url = site.url("/0");
        let arguments = [&["crawl", &url, "--allow-private", "--json"], arguments].concat();
        let done = home.run(&arguments).expect_status(0);
        assert_eq!(done.pages(), pages, "{arguments:?}");
        assert_eq!(
            done.json()["urls"]["out_of_scope"],
            out_of_scope,
            "{arguments:?}"
        );
        assert_eq!(other.asked_for("/"), usize::from(pages == 11));
    }
}

#[test]
fn no_page_is_status_1() {
    let home = Home::new();
    let mut web = HostileWeb::default();
    let dead = web.dead();
    let mut arguments = vec!["crawl", &dead, "--allow-private", "--json"];
    arguments.extend(["--set", "politeness.private_backoff_ms=1"]);
    let done = home.run(&arguments).expect_status(1);
    assert_eq!(done.json()["errors"]["connect"], 1);
    assert!(done.stderr.contains("no seed gave a page"), "{done:?}");
}

#[test]
fn a_bad_config_is_status_2_with_file_line_and_key() {
    let home = Home::new();
    for (text, line, key) in [
        ("[crawl]\n\nmax_pagse = 3\n", 3, "crawl.max_pagse"),
        ("[crawl]\nmax_pages = 'many'\n", 2, "crawl.max_pages"),
        (
            "# bounds\n[threads]\ndownloaders = 0\n",
            3,
            "threads.downloaders",
        ),
        ("[nonsense]\n", 1, "nonsense"),
        ("[crawl]\nscope = 'galaxy'\n", 2, "crawl.scope"),
        ("[crawl\n", 1, "TOML"),
        ("[cra]\n", 1, "cra"),
        ("[politeness]\nagent = \"a\\nb\"\n", 2, "politeness.agent"),
        ("[crawl]\nseeds = ['nonsense']\n", 2, "crawl.seeds"),
        ("[overlay]\nlisten = ['nonsense']\n", 2, "overlay.listen"),
        (
            "[distribution]\nkind = 'static'\nindex = 1\n",
            3,
            "distribution.index",
        ),
    ] {
        let file = home.write("bad.toml", text);
        let done = home.run(&["crawl", "http://a.example/", "--config", &file]);
        let done = done.expect_status(2);
        let place = format!("{file}:{line}:");
        assert!(done.stderr.contains(&place), "{done:?}");
        assert!(done.stderr.contains(key), "{done:?}");
        assert_eq!(done.stdout, "");
        home.run(&["run", "--config", &file]).expect_status(2);
    }
    let missing = home.0.join("missing.toml");
    let missing = missing.to_str().unwrap();
    let done = home.run(&["run", "--config", missing]).expect_status(2);
    assert!(done.stderr.contains(missing), "{done:?}");
}

#[test]
fn wrong_usage_is_status_2() {
    let home = Home::new();
    for setting in [
        "crawl.max_pagse=3",
        "crawl.max_pages=many",
        "crawl",
        "=",
        "",
    ] {
        let done = home.run(&["crawl", "http://a.example/", "--set", setting]);
        let done = done.expect_status(2);
        assert!(done.stderr.contains("--set"), "{done:?}");
    }
    for arguments in [
        &["crawl", "http://a.example/", "--no-such-flag"][..],
        &["crawl"],
        &["crawl", "http://a.example/", "--max-pages", "some"],
        &["crawl", "http://a.example/", "--scope", "galaxy"],
        &["no-such-command"],
        &["demo", "--peers", "0", "--headless"],
        &["inspect", "url"],
        &["inspect", "links", "page.html", "--base", "no address"],
        &["crawl", "http://"],
        &["crawl", "ftp://a.example/"],
        &["crawl", "http://a.example/", "--max-depth", "10001"],
        &["crawl", "http://a.example/", "--max-depth", "70000"],
        &["crawl", "http://a.example/", "--max-pages", "2199023255552"],
        &["inspect", "robots", "x", "--agent", "a", "no address"],
        &["inspect", "robots", "x", "--agent", "a", "ftp://a.example/"],
    ] {
        let done = home.run(arguments).expect_status(2);
        assert!(!done.stderr.is_empty(), "{arguments:?}");
    }
    let done = home.run(&["crawl", "http://a.example/", "--max-depth", "10001"]);
    assert_eq!(
        done.stderr,
        "peercrawl: --max-depth 10001: `crawl.max_depth` cannot be 10001; allowed: a whole number \
         from 0 to 10000\n"
    );
}

#[test]
fn flags_win_over_set_over_config_over_the_users_file() {
    let home = Home::new();
    home.write(
        "config/peercrawl/config.toml",
        "[crawl]\nmax_pages = 1\n[network]\nallow_private = true\n",
    );
    let config = home.write("more.toml", "[crawl]\nmax_pages = 2\n");
    let layers = [
        &[][..],
        &["--config", &config],
        &["--set", "crawl.max_pages=3"],
        &["--max-pages", "4"],
    ];
    for most in 1..=layers.len() {
        let mut web = HostileWeb::default();
        let url = site(&mut web, "/".into()).url("/0");
        let arguments = [&["crawl", &url, "--json"], &layers[..most].concat()[..]].concat();
        let done = home.run(&arguments).expect_status(0);
        assert_eq!(done.pages(), most as u64);
    }
    let file = home.write("config/peercrawl/config.toml", "[crawl]\nmax_pagse = 1\n");
    let done = home.run(&["crawl", "http://a.example/"]).expect_status(2);
    assert!(done.stderr.contains(&format!("{file}:2:")), "{done:?}");
}

#[test]
#[cfg(unix)]
fn run_leaves_gracefully_when_told_to() {
    let home = Home::new();
    let mut web = HostileWeb::default();
    let (sender, asked) = channel();
    let site = web.pages(move |path, stream| {
        sender.send(path.to_owned()).unwrap();
        page(stream, "a page")
    });
    let seeds = format!("crawl.seeds=[{:?}]", site.url("/here"));
    let mut arguments = vec!["run", "--allow-private", "--set", &seeds];
    arguments.extend(["--set", "overlay.mdns=false"]);
    arguments.extend(["--set", "overlay.listen=['/ip4/127.0.0.1/tcp/0']"]);
    let running = home.start(&arguments);
    assert_eq!(asked.recv_timeout(DEADLINE).unwrap(), "/here");
    let begun = Instant::now();
    let pid = running.child.id().to_string();
    let kill = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(kill.unwrap().success());
    let done = running.wait().expect_status(0);
    assert!(begun.elapsed() < Duration::from_secs(5));
    let lines: Vec<_> = done.stdout.lines().collect();
    assert!(
        lines[0].starts_with("listening /ip4/127.0.0.1/tcp/"),
        "{done:?}"
    );
    assert!(
        lines[0].contains("/p2p/") && lines[1].starts_with("1 pages"),
        "{done:?}"
    );
}

#[test]
fn a_private_address_is_not_even_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let home = Home::new();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let url = format!("http://{host}:{port}/");
        let done = home.run(&["crawl", &url, "--json"]).expect_status(1);
        assert_eq!(done.json()["urls"]["blocked_address"], 1, "{host}");
        let came = listener.accept().map_err(|error| error.kind());
        assert_eq!(came.err(), Some(ErrorKind::WouldBlock), "{host}");
    }
}

#[test]
fn the_demo_reaches_every_page_once() {
    let mut arguments = vec!["demo", "--headless", "--json", "--peers", "1"];
    arguments.extend(["--hosts", "5", "--pages", "100"]);
    let done = Home::new().run(&arguments).expect_status(0);
    let report = done.json();
    assert_eq!(report["pages"], report["reachable"]);
    assert!(done.pages() >= 90, "{done:?}");
    assert_eq!(report["fetched_twice"], 0);
    let but = "urls.trap";
    let mut expected = names(&serde_json::from_str(REPORT).unwrap(), "", but);
    assert_eq!(report["peers"].as_array().unwrap().len(), 1);
    let mut of_peer = expected.clone();
    of_peer.insert("capacity".to_owned());
    assert_eq!(names(&report["peers"][0], "", but), of_peer);
    let more = ["peers", "reachable", "distinct_contents", "fetched_twice"];
    expected.extend(more.map(String::from));
    assert_eq!(names(&report, "", but), expected);
}

#[test]
fn a_demo_with_supernodes_shows_that_all_was_fetched_once_and_shared() {
    let mut arguments = vec!["demo", "--headless", "--json", "--overlay", "supernode"];
    arguments.extend(["--peers", "4", "--hosts", "40", "--pages", "400"]);
    arguments.extend(["--set", "content.answer_ms=60000"]);
    let done = Home::new().run(&arguments).expect_status(0);
    let report = done.json();
    assert_eq!(report["pages"], report["reachable"]);
    assert!(done.pages() >= 360, "{done:?}");
    assert_eq!(report["fetched_twice"], 0);
    assert_eq!(report["content"]["new"], report["distinct_contents"]);
    assert_eq!(report["content"]["unknown"], 0);
    let peers = report["peers"].as_array().unwrap();
    assert_eq!(peers.len(), 4);
    assert!(peers.iter().all(|peer| peer["pages"].as_u64() > Some(0)));
    assert!(peers.iter().all(|peer| peer["capacity"] == 16), "{report}");
}

/// All peers once had the same number, and most ranges nobody.
#[test]
fn a_demo_with_static_ranges_ends_by_itself() {
    let mut arguments = vec!["demo", "--headless", "--json", "--peers", "3"];
    arguments.extend(["--hosts", "12", "--pages", "200"]);
    arguments.extend(["--set", "distribution.kind=static"]);
    let done = Home::new().run(&arguments).expect_status(0);
    let report = done.json();
    assert_eq!(report["pages"], report["reachable"]);
    let worked = report["peers"].as_array().unwrap().iter();
    assert!(worked.clone().all(|peer| peer["pages"].as_u64() > Some(0)));
}

/// A reader that has seen enough and a disk that is full once ended in a panic.
#[test]
#[cfg(target_os = "linux")]
fn an_output_that_ends_early_is_no_panic() {
    let home = Home::new();
    let links: String = (0..10_000).map(|n| format!("<a href=/{n}>")).collect();
    let file = home.write("page.html", &links);
    let base = "http://a.example/";
    let inspect = [
        &["inspect", "links", &file, "--base", base][..],
        &["inspect", "url", base],
        &["inspect", "robots", &file, "--agent", "a", base],
    ];
    for arguments in inspect {
        let end = |output: Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_peercrawl"));
            let command = command.args(arguments).stdin(Stdio::null()).stdout(output);
            let output = command.env("HOME", &home.0).output().unwrap();
            let told = String::from_utf8(output.stderr).unwrap();
            (output.status.code(), told)
        };
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let (status, told) = end(full.unwrap().into());
        assert_eq!(status, Some(1), "{told}");
        assert!(told.starts_with("peercrawl: cannot write to standard output"));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(end(writer.into()), (Some(0), String::new()));
    }
}

#[test]
fn a_data_directory_of_a_newer_version_is_refused_and_left_alone() {
    let home = Home::new();
    let format = home.write("kept/format", "9\n");
    let data = home.0.join("kept");
    let data = data.to_str().unwrap();
    for command in [&["crawl", "http://a.example/"][..], &["run"]] {
        let done = home.run(&[command, &["--data", data]].concat());
        let done = done.expect_status(1);
        let why = format!(
            "peercrawl: {format} has format 9 and this version of PeerCrawl knows 1: install a \
             newer one"
        );
        assert_eq!(done.stderr.lines().last(), Some(&*why), "{done:?}");
        assert_eq!(done.stdout, "");
        assert_eq!(fs::read_to_string(&format).unwrap(), "9\n");
        let names = fs::read_dir(data).unwrap().map(|item| item.unwrap());
        let names = names.map(|item| item.file_name().into_string().unwrap());
        let names: BTreeSet<_> = names.collect();
        assert!(names.iter().eq(["format", "lock"]), "{names:?}");
    }
}

#[test]
fn a_cause_is_told_once() {
    let home = Home::new();
    let file = home.write("data", "in the way");
    let done = home.run(&["crawl", "http://a.example/", "--data", &file]);
    let told = done.expect_status(1).stderr;
    assert_eq!(told.matches("os error").count(), 1, "{told}");
}
