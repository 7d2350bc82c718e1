//! Delays and rests as the server sees them, to the millisecond.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use peercrawl::config::Settings;
use peercrawl::crawl::CrawlDefinition;
use peercrawl::engine::{Engine, Surroundings};
use peercrawl::limits::Limits;
use peercrawl::resolver::{FixedNames, NameService, SystemNames};
use peercrawl_overlay::PeerId;
use peercrawl_overlay::memory::MemoryNetwork;

use crate::crew::{self, DEADLINE, settings, wait_until};
use crate::hostile::{HostileWeb, Site, page, redirect, respond};

/// The engine counts in whole milliseconds: what it takes for the end of a delay may be
/// early by less than one.
const TICK: Duration = Duration::from_millis(1);

/// A request, as a server writes it down.
#[derive(Debug, Clone)]
struct Asked {
    path: String,
    begun: Instant,
    ended: Instant,
}

type Log = Arc<Mutex<Vec<Asked>>>;

fn start(settings: &Settings, names: Arc<dyn NameService>, seeds: Vec<String>) -> Engine {
    crew::crawl_from(settings.clone(), names, seeds)
}

/// A site that thinks for a while about each answer, robots.txt included, and logs it.
fn logging(
    web: &mut HostileWeb,
    think: Duration,
    answer: impl Fn(&str, &std::net::TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> (Site, Log) {
    let log = Log::default();
    let written = log.clone();
    let site = web.http(move |path, stream| {
        let begun = Instant::now();
        thread::sleep(think);
        // Whoever asked has the answer after this moment, however long the thread that
        // gives it is held up then.
        let ended = Instant::now();
        written.lock().unwrap().push(Asked {
            path: path.into(),
            begun,
            ended,
        });
        answer(path, stream)
    });
    (site, log)
}

/// Crawls two hosts that share one address, and returns what their server saw, in order.
fn two_hosts_on_one_address(per_address: bool) -> Vec<Asked> {
    let mut web = HostileWeb::default();
    let (site, log) = logging(
        &mut web,
        Duration::from_millis(7),
        |path, stream| match path {
            "/robots.txt" => respond(stream, "404 Not Found", "", b""),
            _ => page(stream, format!("{path} of two hosts")),
        },
    );
    let ip = site.address.ip();
    let names = ["a.test", "b.test"].map(|name| (name.to_owned(), ip));
    let names = Arc::new(FixedNames(HashMap::from(names)));
    let mut settings = settings();
    settings.politeness.private_delay_ms = 60;
    settings.politeness.private_per_address = per_address;
    let port = site.address.port();
    let url = |host: &str, n: u32| format!("http://{host}.test:{port}/{host}{n}");
    let seeds = (0..10).flat_map(|n| [url("a", n), url("b", n)]).collect();
    let engine = start(&settings, names, seeds);
    assert!(engine.wait(DEADLINE).is_some());
    assert_eq!(engine.shutdown().pages, 20);
    let mut log = log.lock().unwrap().clone();
    assert_eq!(log.len(), 22, "two of them for robots.txt");
    log.sort_by_key(|asked| asked.begun);
    log
}

/// The time from the end of each answer to the beginning of the next request; negative
/// ones are overlaps, and come out as zero.
fn gaps(log: &[Asked]) -> Vec<Duration> {
    let pairs = log.windows(2);
    pairs
        .map(|pair| pair[1].begun.saturating_duration_since(pair[0].ended))
        .collect()
}

#[test]
fn two_hosts_on_one_address_never_overlap_and_never_come_too_early() {
    let log = two_hosts_on_one_address(true);
    let least = gaps(&log).into_iter().min().unwrap();
    println!("least gap: {least:?}");
    assert!(
        least + TICK >= Duration::from_millis(60),
        "{least:?} {log:#?}"
    );
    // Both hosts had their turns.
    let hosts: Vec<_> = log.iter().map(|asked| &asked.path[1..2]).collect();
    assert!(
        hosts[..12].contains(&"a") && hosts[..12].contains(&"b"),
        "{hosts:?}"
    );
    // Without the address level they do come together: the check above can fail.
    let least = gaps(&two_hosts_on_one_address(false)).into_iter().min();
    assert!(least.unwrap() < Duration::from_millis(50));
}

#[test]
fn one_host_is_asked_one_thing_at_a_time_with_its_delay() {
    let mut web = HostileWeb::default();
    let think = Duration::from_millis(5);
    let (site, log) = logging(&mut web, think, |path, stream| match path {
        "/robots.txt" => {
            let rules = b"User-agent: *\nCrawl-delay: 0.08\nDisallow: /no";
            respond(stream, "200 OK", "", rules)
        }
        "/" => page(
            stream,
            (0..12)
                .map(|n| format!("<a href=/{n}>"))
                .collect::<String>(),
        ),
        "/1" => respond(stream, "404 Not Found", "", b""),
        _ => page(stream, format!("{path} of one host")),
    });
    let mut settings = settings();
    settings.politeness.private_delay_ms = 30;
    let engine = start(&settings, Arc::new(SystemNames), vec![site.url("/")]);
    assert!(engine.wait(DEADLINE).is_some());
    let mut log = log.lock().unwrap().clone();
    log.sort_by_key(|asked| asked.begun);
    assert_eq!(log.len(), 14);
    let least = gaps(&log).into_iter().min().unwrap();
    assert!(least + TICK >= Duration::from_millis(80), "{least:?}");
}

/// Whatever a page turns out to be, the delay that robots.txt asks for follows it.
#[test]
fn a_crawl_delay_follows_refusals_and_failures_too() {
    let mut web = HostileWeb::default();
    let (site, log) = logging(&mut web, Duration::ZERO, |path, stream| match path {
        "/robots.txt" => respond(stream, "200 OK", "", b"User-agent: *\nCrawl-delay: 0.2"),
        "/0" => respond(stream, "200 OK", "Content-Type: video/mp4\r\n", b"film"),
        "/1" => respond(stream, "503 Service Unavailable", "Retry-After: 0\r\n", b""),
        "/2" => respond(stream, "200 OK", "Content-Length: 99999999\r\n", b""),
        _ => page(stream, path),
    });
    let seeds = (0..4).map(|n| site.url(&format!("/{n}"))).collect();
    let mut settings = settings();
    settings.politeness.private_backoff_ms = 1;
    let engine = start(&settings, Arc::new(SystemNames), seeds);
    assert!(engine.wait(DEADLINE).is_some());
    let log = log.lock().unwrap().clone();
    assert!(log.len() > 6, "{log:?}");
    let least = gaps(&log).into_iter().min().unwrap();
    assert!(
        least + TICK >= Duration::from_millis(200),
        "{least:?} {log:?}"
    );
}

/// Where a robots.txt leads elsewhere, each step is a request like any other.
#[test]
fn steps_to_a_robots_txt_keep_the_delay() {
    let mut web = HostileWeb::default();
    let delay = Duration::from_millis(100);
    let (site, log) = logging(&mut web, Duration::ZERO, |path, stream| match path {
        "/robots.txt" => redirect(stream, "/1"),
        "/1" => redirect(stream, "/2"),
        "/2" => redirect(stream, "/3"),
        "/3" => respond(stream, "200 OK", "", b"User-agent: *\nDisallow: /no"),
        _ => page(stream, path),
    });
    let mut settings = settings();
    settings.politeness.private_delay_ms = delay.as_millis() as u64;
    let seeds = vec![site.url("/yes"), site.url("/no")];
    let engine = start(&settings, Arc::new(SystemNames), seeds);
    assert!(engine.wait(DEADLINE).is_some());
    let paths: Vec<_> = log.lock().unwrap().iter().map(|a| a.path.clone()).collect();
    assert_eq!(paths, ["/robots.txt", "/1", "/2", "/3", "/yes"]);
    let least = gaps(&log.lock().unwrap()).into_iter().min().unwrap();
    assert!(least + TICK >= delay, "{least:?}");
}

/// Many sites say that their rules are at one other: that is still asked one thing at a
/// time, with its delay, also between its own pages.
#[test]
fn a_site_that_others_point_to_is_not_overrun() {
    let mut web = HostileWeb::default();
    let delay = Duration::from_millis(60);
    let (victim, log) = logging(
        &mut web,
        Duration::from_millis(5),
        |path, stream| match path {
            "/robots.txt" | "/heavy" => {
                respond(stream, "200 OK", "", b"User-agent: *\nDisallow: /no")
            }
            _ => page(stream, path),
        },
    );
    let target = victim.url("/heavy");
    let mut seeds: Vec<_> = (0..6).map(|n| victim.url(&format!("/{n}"))).collect();
    for number in 0..10 {
        let target = target.clone();
        let site = web.http(move |path, stream| match path {
            "/robots.txt" => redirect(stream, &target),
            _ => page(stream, format!("{path} of {number}")),
        });
        seeds.push(site.url("/a"));
    }
    let mut settings = settings();
    settings.politeness.private_delay_ms = delay.as_millis() as u64;
    let engine = start(&settings, Arc::new(SystemNames), seeds);
    assert!(engine.wait(DEADLINE).is_some());
    assert_eq!(engine.shutdown().pages, 16);
    let mut log = log.lock().unwrap().clone();
    log.sort_by_key(|asked| asked.begun);
    assert_eq!(
        log.len(),
        17,
        "its robots.txt, its six pages, and ten steps"
    );
    let least = gaps(&log).into_iter().min().unwrap();
    assert!(least + TICK >= delay, "{least:?} {log:#?}");
}

/// One host asks for a long rest; another at the same address goes on meanwhile.
#[test]
fn a_rest_is_for_the_host_that_asked_for_it() {
    let mut web = HostileWeb::default();
    let site = web.http(move |path, stream| match path {
        "/robots.txt" => respond(stream, "404 Not Found", "", b""),
        "/busy" => respond(
            stream,
            "429 Too Many Requests",
            "Retry-After: 3600\r\n",
            b"",
        ),
        _ => page(stream, path),
    });
    let ip = site.address.ip();
    let names = ["a.test", "b.test"].map(|name| (name.to_owned(), ip));
    let names = Arc::new(FixedNames(HashMap::from(names)));
    let mut settings = settings();
    settings.politeness.private_delay_ms = 10;
    settings.politeness.private_per_address = true;
    let port = site.address.port();
    let busy = format!("http://a.test:{port}/busy");
    let pages = (0..5).map(|n| format!("http://b.test:{port}/{n}"));
    let seeds = std::iter::once(busy).chain(pages).collect();
    let engine = start(&settings, names, seeds);
    wait_until("the other host is done", || engine.report().pages == 5);
}

/// A server that is busy at first, and says until when.
fn busy_once(
    status: &'static str,
    header: impl Fn() -> String + Send + Sync + 'static,
) -> (HostileWeb, Site, Log) {
    let mut web = HostileWeb::default();
    let is_busy = AtomicBool::new(true);
    let (site, log) = logging(&mut web, Duration::ZERO, move |path, stream| match path {
        "/robots.txt" => respond(stream, "404 Not Found", "", b""),
        _ if is_busy.swap(false, SeqCst) => {
            let headers = format!("Retry-After: {}\r\n", header());
            respond(stream, status, &headers, b"")
        }
        _ => page(stream, "at last"),
    });
    (web, site, log)
}

#[test]
fn retry_after_in_seconds_is_kept_to_the_second() {
    for status in ["503 Service Unavailable", "429 Too Many Requests"] {
        let (_web, site, log) = busy_once(status, || "2".into());
        let engine = start(&settings(), Arc::new(SystemNames), vec![site.url("/x")]);
        assert!(engine.wait(DEADLINE).is_some());
        assert_eq!(engine.shutdown().pages, 1);
        let log = log.lock().unwrap();
        let rest = log[2].begun.duration_since(log[1].ended);
        let kept = Duration::from_secs(2)..Duration::from_secs(3);
        assert!(kept.contains(&(rest + TICK)), "{status}: {rest:?}");
    }
}

#[test]
fn retry_after_as_a_date_is_kept_to_the_second() {
    let until = Arc::new(Mutex::new(None));
    let said = until.clone();
    let (_web, site, log) = busy_once("503 Service Unavailable", move || {
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3));
        *said.lock().unwrap() = Some((SystemTime::now(), Instant::now(), date.clone()));
        date
    });
    let engine = start(&settings(), Arc::new(SystemNames), vec![site.url("/x")]);
    assert!(engine.wait(DEADLINE).is_some());
    assert_eq!(engine.shutdown().pages, 1);
    let (wall, instant, date) = until.lock().unwrap().clone().unwrap();
    // A date has whole seconds, so this is between two and three seconds later.
    let rest = httpdate::parse_http_date(&date)
        .unwrap()
        .duration_since(wall)
        .unwrap();
    let due = instant + rest;
    let came = log.lock().unwrap()[2].begun;
    assert!(
        came + 2 * TICK >= due,
        "{:?} too early",
        due.duration_since(came)
    );
    let late = came.saturating_duration_since(due);
    assert!(late < Duration::from_secs(1), "{late:?} too late");
}

/// A robots.txt that is asked for again after a while counts like any request, and until
/// it is there, nothing else is asked for.
#[test]
fn a_busy_robots_txt_is_waited_for_and_blocks_its_host() {
    let mut web = HostileWeb::default();
    let is_busy = AtomicBool::new(true);
    let (site, log) = logging(&mut web, Duration::ZERO, move |path, stream| match path {
        "/robots.txt" if is_busy.swap(false, SeqCst) => {
            respond(stream, "503 Service Unavailable", "Retry-After: 1\r\n", b"")
        }
        "/robots.txt" => respond(stream, "200 OK", "", b"User-agent: *\nDisallow: /no"),
        _ => page(stream, "a page"),
    });
    let seeds = vec![site.url("/no"), site.url("/yes")];
    let engine = start(&settings(), Arc::new(SystemNames), seeds);
    assert!(engine.wait(DEADLINE).is_some());
    assert_eq!(engine.shutdown().urls.blocked_robots, 1);
    assert_eq!(site.requests(), ["/robots.txt", "/robots.txt", "/yes"]);
    let log = log.lock().unwrap();
    let rest = log[1].begun.duration_since(log[0].ended);
    let kept = Duration::from_secs(1)..Duration::from_secs(2);
    assert!(kept.contains(&(rest + TICK)), "{rest:?}");
}

/// Back-off is part of the site's record: whoever takes it over keeps it.
#[test]
fn back_off_goes_with_the_record() {
    let (_web, site, log) = busy_once("503 Service Unavailable", || "2".into());
    let first = start(&settings(), Arc::new(SystemNames), vec![site.url("/x")]);
    let host = site.address.ip().to_string();
    wait_until("it was told to wait", || log.lock().unwrap().len() == 2);
    let record = first.freeze(&host).unwrap().unwrap();
    drop(first);
    let mut other = settings();
    other.crawl.seeds = vec!["http://127.0.0.1:1/".into()];
    let second = Engine::start(Surroundings {
        limits: Limits::new(&other.limits),
        settings: other,
        overlay: Arc::new(MemoryNetwork::new().join(PeerId::repeat(2))),
        names: Arc::new(SystemNames),
        kept: None,
        receipts: None,
    })
    .unwrap();
    // It takes part in the same crawl, whose only seed it has by the record.
    let mut definition = settings().crawl;
    definition.seeds = vec![site.url("/x")];
    second.thaw(&record).unwrap();
    second
        .begin(CrawlDefinition::from_settings(&definition))
        .unwrap();
    assert!(second.wait(DEADLINE).is_some());
    assert_eq!(second.shutdown().pages, 1);
    let log = log.lock().unwrap();
    let rest = log[2].begun.duration_since(log[1].ended);
    assert!(rest + TICK >= Duration::from_secs(2), "{rest:?}");
    // What another peer says of a site's rules is not taken for the site's own word.
    let paths: Vec<_> = log[2..].iter().map(|asked| &*asked.path).collect();
    assert_eq!(paths, ["/robots.txt", "/x"]);
}

/// A server said how long to wait; the program is killed meanwhile, and started again.
#[test]
fn back_off_survives_a_kill_and_a_restart() {
    let (_web, site, log) = busy_once("503 Service Unavailable", || "5".into());
    let home = tempfile::tempdir().unwrap();
    let start = || {
        Command::new(env!("CARGO_BIN_EXE_peercrawl"))
            .args([
                "crawl",
                &site.url("/x"),
                "--allow-private",
                "--json",
                "--data",
            ])
            .arg(home.path().join("data"))
            .env("HOME", home.path())
            .env("XDG_CONFIG_HOME", home.path().join("config"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut first = start();
    wait_until("it was told to wait", || log.lock().unwrap().len() == 2);
    // What happened is with the system within 50 ms, which cannot be seen from outside.
    thread::sleep(Duration::from_millis(700));
    first.kill().unwrap();
    first.wait().unwrap();
    let output = start().wait_with_output().unwrap();
    assert!(output.status.success());
    let log = log.lock().unwrap();
    let pages: Vec<_> = log.iter().filter(|asked| asked.path == "/x").collect();
    assert_eq!(pages.len(), 2, "{log:?}");
    let rest = pages[1].begun.duration_since(pages[0].ended);
    let kept = Duration::from_secs(5)..Duration::from_secs(6);
    assert!(kept.contains(&(rest + TICK)), "{rest:?}");
}

/// Sites begin to turn the peer away: it slows down as a whole and says so, and is back
/// to its speed when they are content again.
#[test]
fn a_bad_name_slows_the_whole_peer_down_for_a_while() {
    let mut web = HostileWeb::default();
    let is_cross = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let sites: Vec<_> = (0..12)
        .map(|number| {
            let (is_cross, asked) = (is_cross.clone(), asked.clone());
            web.pages(move |path, stream| {
                asked.lock().unwrap().push(Instant::now());
                let links: String = match path {
                    "/" => (0..3_000).map(|n| format!("<a href=/{n}>")).collect(),
                    _ if number < 6 && is_cross.load(SeqCst) => {
                        return respond(stream, "403 Forbidden", "", b"go away");
                    }
                    _ => String::new(),
                };
                page(stream, format!("{path} of {number} {links}"))
            })
        })
        .collect();
    let mut settings = settings();
    settings.politeness.private_delay_ms = 20;
    settings.reputation.step_secs = 1;
    settings.reputation.window_secs = 30;
    let seeds = sites.iter().map(|site| site.url("/")).collect();
    let engine = start(&settings, Arc::new(SystemNames), seeds);
    wait_until("it is under way", || asked.lock().unwrap().len() > 300);
    assert_eq!(engine.snapshot().reputation_step, 0);
    let rate = |span: Duration| {
        let since = Instant::now();
        thread::sleep(span);
        let asked = asked.lock().unwrap();
        let count = asked.iter().filter(|&&at| at > since).count();
        count as f64 / span.as_secs_f64()
    };
    let usual = rate(Duration::from_millis(500));
    is_cross.store(true, SeqCst);
    wait_until("it slows down", || engine.snapshot().reputation_step >= 2);
    let slow = rate(Duration::from_millis(500));
    assert!(
        slow < usual / 2.0,
        "{usual} and then {slow} requests a second"
    );
    let notice = engine.snapshot().reputation_notice.clone().unwrap();
    assert!(
        notice.contains("have turned this computer away"),
        "{notice}"
    );
    is_cross.store(false, SeqCst);
    wait_until("it is well again", || {
        engine.snapshot().reputation_step == 0
    });
    assert_eq!(engine.snapshot().reputation_notice, None);
    let begun = Instant::now();
    drop(engine);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "nobody waits for a turn"
    );
}
