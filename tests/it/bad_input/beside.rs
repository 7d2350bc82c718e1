//! All hostile sites at once, and what healthy sites beside them notice of it.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use peercrawl::config::Settings;
use serde_json::Value;

use super::contents::bombs;
use super::{crawl, settings};
use crate::hostile::{HostileWeb, Site, drip, hang_up, page, redirect, respond, stay_silent};

const HEALTHY_SITES: usize = 4;
const PAGES: usize = 60;

/// Sites that answer at once, and the times at which their pages were asked for.
fn healthy_sites(web: &mut HostileWeb, times: &Arc<Mutex<Vec<Instant>>>) -> Vec<String> {
    let sites = (0..HEALTHY_SITES).map(|number| {
        let times = times.clone();
        let site = web.pages(move |path, stream| {
            times.lock().unwrap().push(Instant::now());
            let links: String = match path {
                "/" => (1..PAGES).map(|n| format!("<a href=/{n}>")).collect(),
                _ => String::new(),
            };
            page(stream, format!("{path} of {number} {links}"))
        });
        site.url("/")
    });
    sites.collect()
}

/// One site of each hostile kind, with what it should come to.
fn hostile_sites(web: &mut HostileWeb) -> Vec<(Site, &'static str)> {
    let mut sites = vec![
        (web.pages(|_, stream| stay_silent(stream)), "timeout"),
        (web.http(|_, stream| stay_silent(stream)), "timeout"),
        (
            web.pages(|_, mut stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\nX-Slow: ")?;
                drip(stream, b"x")
            }),
            "timeout",
        ),
        (
            web.pages(|_, mut stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
                drip(stream, b"x")
            }),
            "timeout",
        ),
        (
            web.pages(|_, mut stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
                loop {
                    stream.write_all(&b"X-Short: x\r\n".repeat(300))?;
                }
            }),
            "too_large",
        ),
        (
            web.pages(|_, mut stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
                loop {
                    stream.write_all(&[b'x'; 4_096])?;
                }
            }),
            "too_large",
        ),
        (
            web.pages(|_, mut stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort")?;
                hang_up()
            }),
            "other",
        ),
        (
            web.pages(|_, stream| redirect(stream, "javascript:x")),
            "other",
        ),
        (
            web.pages(|_, stream| respond(stream, "200 OK", "Content-Type: video/mp4\r\n", b"x")),
            "content_type",
        ),
    ];
    for (name, body) in bombs() {
        let site = web.pages(move |_, stream| {
            let headers = format!("Content-Encoding: {name}\r\n");
            respond(stream, "200 OK", &headers, &body)
        });
        sites.push((site, "too_large"));
    }
    sites
}

fn bounds() -> Settings {
    let mut settings = settings();
    settings.network.fetch_timeout_ms = 3_000;
    settings.network.slow_grace_ms = 1_000;
    settings.threads.downloaders = 8;
    settings.politeness.private_delay_ms = 20;
    settings.politeness.max_attempts = 1;
    settings
}

/// From the beginning of a crawl to the last page of the healthy sites.
fn healthy_time(with_hostile: bool) -> Duration {
    let mut web = HostileWeb::default();
    let times = Arc::default();
    let hostile = match with_hostile {
        true => hostile_sites(&mut web),
        false => Vec::new(),
    };
    let hostile: Vec<_> = hostile.iter().map(|(site, _)| site.url("/")).collect();
    // The hostile ones come first, so that they are leased first.
    let seeds = [hostile, healthy_sites(&mut web, &times)].concat();
    let begun = Instant::now();
    let (report, ending) = crawl(bounds(), seeds);
    assert!(ending.is_some(), "{report:?}");
    let times = times.lock().unwrap();
    assert_eq!(times.len(), HEALTHY_SITES * PAGES);
    times.iter().max().unwrap().duration_since(begun)
}

/// Healthy sites are bound by their own delay, and stay so: at least nine tenths of their
/// pages a second come while everything hostile is fetched beside them. More hostile
/// sites than downloaders are slow, so without the lane they would hold them all.
#[test]
fn healthy_sites_are_not_held_up() {
    let pages_per_sec =
        |with_hostile| (HEALTHY_SITES * PAGES) as f64 / healthy_time(with_hostile).as_secs_f64();
    // The machine that runs this has other tests to do. Those come and go, and only slow things
    // down: the best of each kind so far are held against each other. Whoever is held up by
    // hostile sites is so each time. A first run alone that was slowed down is not enough.
    let (mut alone, mut beside) = (pages_per_sec(false), 0.0_f64);
    let mut tries = (0..5).map(|_| {
        alone = alone.max(pages_per_sec(false));
        beside = beside.max(pages_per_sec(true));
        let percent = 100.0 * beside / alone;
        println!(
            "healthy pages/s: {alone:.0} alone, {beside:.0} beside hostile sites: {percent:.1} %"
        );
        percent
    });
    assert!(tries.any(|percent| percent >= 90.0), "held up each time");
}

/// The program as a whole: each site is one counted reason, and memory stays bounded.
#[test]
fn everything_at_once_stays_within_bounds() {
    let mut web = HostileWeb::default();
    let times = Arc::default();
    let hostile = hostile_sites(&mut web);
    let healthy = healthy_sites(&mut web, &times);
    let mut program = Command::new(env!("CARGO_BIN_EXE_peercrawl"));
    let home = tempfile::tempdir().unwrap();
    program.args(["crawl", "--json", "--allow-private"]);
    for setting in [
        "network.fetch_timeout_ms=3000",
        "network.slow_grace_ms=1000",
        "network.max_body_bytes=1048576",
        "politeness.max_attempts=1",
        "politeness.private_backoff_ms=1",
        "politeness.max_host_failures=2",
    ] {
        program.args(["--set", setting]);
    }
    program
        .args(hostile.iter().map(|(site, _)| site.url("/")))
        .args(&healthy);
    let mut child = program
        .env("HOME", home.path())
        .env("XDG_CONFIG_HOME", home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut peak_kib = 0;
    while child.try_wait().unwrap().is_none() {
        peak_kib = peak_kib.max(peak_memory_kib(child.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["pages"], HEALTHY_SITES * PAGES);
    for reason in ["timeout", "too_large", "other", "content_type"] {
        let expected = hostile.iter().filter(|(_, why)| *why == reason).count();
        assert_eq!(report["errors"][reason], expected, "{reason}: {report}");
    }
    println!("peak memory: {} MiB", peak_kib >> 10);
    assert!((1..150 << 10).contains(&peak_kib), "{peak_kib} KiB");
}

fn peak_memory_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
