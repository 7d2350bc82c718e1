//! The volunteer's limits, measured on a running peer, and what pausing means.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use peercrawl::conditions::{Reason, Verdict};
use peercrawl::config::Settings;
use peercrawl::crawl::CrawlDefinition;
use peercrawl::demo::fleet::WebNames;
use peercrawl::demo::web::{Web, WebSpec};
use peercrawl::downloader::connection::Dialer;
use peercrawl::engine::{Ending, Engine, Standing, Surroundings, WhyStopped};
use peercrawl::joining;
use peercrawl::limits::Limits;
use peercrawl::resolver::SystemNames;
use peercrawl_overlay::memory::MemoryNetwork;
use peercrawl_overlay::{Overlay, PeerId, Statistics};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::crew::{DEADLINE, crawl_from, engine, settings, wait_until, web, whole};
use crate::hostile::{HostileWeb, next_path, page};

const KIB: u64 = 1_024;

/// A web of plain pages, large enough not to run dry.
fn plain(hosts: u32, pages: u32) -> WebSpec {
    WebSpec {
        oddities: false,
        ..WebSpec::new(hosts, pages, 11)
    }
}

/// A web of many small pages: requests and messages are most of the traffic.
fn small_pages() -> WebSpec {
    WebSpec {
        page_bytes: 1_000,
        links: 5,
        ..plain(20, 4_000)
    }
}

/// Reads a counter for a while; gives the least and the greatest growth over any ten
/// seconds that begin two seconds after now, or later.
fn ten_seconds_of(count: impl Fn() -> u64) -> (u64, u64) {
    const STEP: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    let mut counts = Vec::new();
    while begun.elapsed() < Duration::from_millis(14_500) {
        counts.push((begun.elapsed(), count()));
        thread::sleep(STEP);
    }
    let (mut least, mut most) = (u64::MAX, 0);
    for (number, &(from, before)) in counts.iter().enumerate() {
        if from < Duration::from_secs(2) {
            continue;
        }
        let end = from + Duration::from_secs(10);
        // The first reading past the window has a little too much time, the one before
        // it a little too little.
        let Some(past) = counts[number..].iter().position(|&(at, _)| at > end) else {
            break;
        };
        least = least.min(counts[number + past].1 - before);
        most = most.max(counts[number + past - 1].1 - before);
    }
    (least, most)
}

fn assert_kept(limit_kib: u64, (least, most): (u64, u64), what: &str) {
    let share = |bytes: u64| bytes as f64 / (10 * limit_kib * KIB) as f64;
    println!(
        "{what} at {limit_kib} KiB/s: {:.4} to {:.4} of it",
        share(least),
        share(most)
    );
    assert!(share(most) <= 1.05, "{what}: {} of the limit", share(most));
    assert!(
        share(least) >= 0.90,
        "{what}: {} of the limit",
        share(least)
    );
}

#[test]
fn a_download_limit_is_kept_and_used_and_changes_while_it_runs() {
    let web = web(plain(20, 3_000));
    let mut settings = settings();
    settings.limits.download_kib = 100;
    let engine = engine(&settings, &MemoryNetwork::new(), 1, &web);
    engine.begin(whole(&web, &settings)).unwrap();
    let limits = engine.limits().clone();
    assert_kept(100, ten_seconds_of(|| limits.bytes_down()), "received");
    limits.change(|values| values.download_kib = 256);
    let rates = || limits.rates().down_bytes_per_sec;
    assert_kept(256, ten_seconds_of(|| limits.bytes_down()), "received");
    assert!((200.0..300.0).contains(&(rates() / 1_024.0)), "{}", rates());
    // The server saw the same, but for what waits in buffers: the count is honest.
    let (ours, theirs) = (limits.bytes_down(), web.log().bytes);
    assert!(theirs > ours - ours / 50, "{ours} {theirs}");
    assert!(theirs < ours + ours / 10, "{ours} {theirs}");
    // Nothing went wrong for being slow.
    let report = engine.report();
    assert_eq!((report.errors_in_all(), report.retries), (0, 0));
    limits.change(|values| values.download_kib = 0);
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    assert_eq!(engine.shutdown().pages, web.truth().reachable);
}

#[test]
fn an_upload_limit_is_kept_and_used() {
    let web = web(small_pages());
    let mut settings = settings();
    settings.limits.upload_kib = 16;
    let engine = engine(&settings, &MemoryNetwork::new(), 1, &web);
    engine.begin(whole(&web, &settings)).unwrap();
    let limits = engine.limits().clone();
    assert_kept(16, ten_seconds_of(|| limits.bytes_up()), "sent");
    assert!(engine.queued() > 0, "there was work enough");
    assert_eq!(engine.shutdown().errors_in_all(), 0);
}

/// A site that speaks TLS and has a page of 100 KiB at each address; and its certificate.
fn secure_site(web: &mut HostileWeb) -> (String, CertificateDer<'static>) {
    let names = vec!["127.200.0.1".to_owned()];
    let certified = rcgen::generate_simple_self_signed(names).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let certificate = certified.cert.der().clone();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();
    let config = Arc::new(config);
    let body = vec![b'x'; 100 << 10];
    let site = web.raw(move |stream: &TcpStream| {
        let tls = rustls::ServerConnection::new(config.clone()).unwrap();
        let mut tls = std::io::BufReader::new(rustls::StreamOwned::new(tls, stream));
        while next_path(&mut tls).is_some() {
            if page(tls.get_mut(), &body)
                .and_then(|()| tls.get_mut().flush())
                .is_err()
            {
                return;
            }
        }
    });
    (format!("https://{}/", site.address), certificate)
}

/// The limit is below TLS: what encryption adds is in it. Nobody signs certificates for
/// this machine, so the connections are told whom to trust; they are the downloaders' own.
#[test]
fn a_download_limit_is_kept_and_used_over_tls() {
    let mut web = HostileWeb::default();
    let (url, certificate) = secure_site(&mut web);
    let mut settings = settings();
    settings.limits.download_kib = 100;
    let limits = Limits::new(&settings.limits);
    let dialer = Dialer::new(&settings, limits.clone());
    let roots = RootCerts::new_with_certs(&[Certificate::from_der(&certificate).to_owned()]);
    let tls = TlsConfig::builder().root_certs(roots).build();
    let (is_over, received) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let addresses = Arc::from(["127.200.0.1".parse().unwrap()]);
                let connection = dialer.connection(addresses);
                while !is_over.load(Relaxed) {
                    connection.tape.expect(1 << 20);
                    let request = connection.agent.get(&url).config();
                    let answer = request.tls_config(tls.clone()).build().call();
                    let body = answer.unwrap().body_mut().read_to_vec().unwrap();
                    received.fetch_add(body.len() as u64, Relaxed);
                }
            });
        }
        assert_kept(100, ten_seconds_of(|| limits.bytes_down()), "over TLS");
        is_over.store(true, Relaxed);
        limits.change(|values| values.download_kib = 0);
    });
    // All of the pages, and not much more.
    let (ours, pages) = (limits.bytes_down(), received.load(Relaxed));
    assert!(ours > pages && ours < pages + pages / 20, "{ours} {pages}");
}

/// Two peers on a real overlay that have met and share this web.
fn two_peers(settings: &mut Settings, web: &Arc<Web>) -> [Engine; 2] {
    settings.overlay.listen = vec!["/ip4/127.0.0.1/tcp/0".into()];
    settings.overlay.mdns = false;
    let start = |settings: &Settings, secret: u8| {
        let limits = Limits::new(&settings.limits);
        let overlay = joining::join(settings, [secret; 32], limits.clone()).unwrap();
        Engine::start(Surroundings {
            limits,
            settings: settings.clone(),
            overlay,
            names: Arc::new(WebNames(web.clone())),
            kept: None,
            receipts: None,
        })
        .unwrap()
    };
    let other = start(settings, 7);
    settings.overlay.bootstrap = other.overlay().listening();
    let engine = start(settings, 8);
    wait_until("they share the web", || {
        engine.owners() == 2 && other.owners() == 2
    });
    [engine, other]
}

/// Two peers crawl, and what one of them passes with sites and with the other keeps one limit
/// of 64 KiB/s, and uses it.
fn assert_held_together(
    settings: &mut Settings,
    passed: fn(&Limits) -> u64,
    with_peers: fn(&Statistics) -> u64,
    what: &str,
) {
    let web = web(small_pages());
    let [engine, other] = two_peers(settings, &web);
    engine.begin(whole(&web, settings)).unwrap();
    let (limits, overlay) = (engine.limits().clone(), engine.overlay().clone());
    let with_peers = || with_peers(&overlay.statistics());
    let before = with_peers();
    assert_kept(64, ten_seconds_of(|| passed(&limits)), what);
    let with_peers = with_peers() - before;
    println!("of it {with_peers} bytes with the other peer");
    assert!(with_peers > 10 * KIB, "{with_peers} bytes with the other");
    assert!(engine.queued() > 0, "there was work enough");
    assert_eq!(engine.shutdown().errors_in_all(), 0);
    other.shutdown();
}

/// What comes from sites and what comes from other peers is one download.
#[test]
fn a_download_limit_holds_fetches_and_overlay_together() {
    let mut settings = settings();
    settings.limits.download_kib = 64;
    // Many small messages.
    settings.handing_on.batch_urls = 2;
    let of_peers = |statistics: &Statistics| statistics.socket_bytes_received;
    assert_held_together(&mut settings, Limits::bytes_down, of_peers, "received");
}

/// What a peer sends to sites and what it sends to other peers is one upload.
#[test]
fn an_upload_limit_holds_fetches_and_overlay_together() {
    let mut settings = settings();
    settings.limits.upload_kib = 64;
    // Requests so long that a few of them are all that is allowed.
    settings.politeness.bot_page = format!("https://bot.example/{}", "a".repeat(1_500));
    let of_peers = |statistics: &Statistics| statistics.socket_bytes_sent;
    assert_held_together(&mut settings, Limits::bytes_up, of_peers, "sent");
}

/// A page that takes long because of our own limit is not the server's fault.
#[test]
fn waiting_for_the_limit_is_no_timeout() {
    let web = web(WebSpec {
        page_bytes: 64 << 10,
        ..plain(6, 18)
    });
    let mut settings = settings();
    settings.network.fetch_timeout_ms = 400;
    settings.limits.download_kib = 256;
    let engine = engine(&settings, &MemoryNetwork::new(), 1, &web);
    engine.begin(whole(&web, &settings)).unwrap();
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    let report = engine.shutdown();
    assert_eq!(
        (report.errors_in_all(), report.retries),
        (0, 0),
        "{report:?}"
    );
    assert_eq!(report.pages, 18);
}

/// An engine in the midst of a crawl.
fn at_work(settings: &Settings, network: &MemoryNetwork, spec: WebSpec) -> (Engine, Arc<Web>) {
    let web = web(spec);
    let engine = engine(settings, network, 1, &web);
    engine.begin(whole(&web, settings)).unwrap();
    wait_until("pages come in", || engine.report().pages > 50);
    (engine, web)
}

/// Whoever joins now finds nobody.
fn assert_alone(network: &MemoryNetwork) {
    let members = network.join(PeerId::repeat(9)).members();
    assert_eq!(members.len(), 1, "it has left");
}

fn wait_for(engine: &Engine, standing: Standing, limit: Duration) {
    let begun = Instant::now();
    wait_until("the engine stands as it should", || {
        engine.run_state().standing == standing
    });
    assert!(begun.elapsed() < limit, "{:?}", begun.elapsed());
}

#[test]
fn a_pause_begins_nothing_new_and_goes_on_where_it_was() {
    let settings = settings();
    let (engine, web) = at_work(&settings, &MemoryNetwork::new(), plain(20, 3_000));
    engine.pause();
    let asked = web.log().requests;
    wait_for(&engine, Standing::Paused, Duration::from_secs(5));
    assert_eq!(engine.run_state().why, Some(WhyStopped::Volunteer));
    assert_eq!(engine.run_state().fetches, 0);
    let under_way = web.log().requests - asked;
    assert!(
        under_way <= settings.threads.downloaders as u64,
        "{under_way}"
    );
    wait_until("the others know", || engine.owners() == 0);
    assert_eq!(engine.overlay().members().len(), 1, "it is a member still");
    let (asked, moved) = (web.log().requests, engine.limits().bytes_down());
    thread::sleep(Duration::from_millis(500));
    assert_eq!(web.log().requests, asked);
    assert_eq!(engine.limits().bytes_down(), moved);
    engine.resume();
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    assert_eq!(engine.run_state().standing, Standing::Running);
    assert_eq!(engine.owners(), 1);
    let report = engine.shutdown();
    crate::crawling::assert_covered(&web, &report);
}

#[test]
fn what_is_cut_by_a_pause_is_fetched_again_and_nobody_is_blamed() {
    let settings = settings();
    let (engine, web) = at_work(&settings, &MemoryNetwork::new(), plain(20, 400));
    engine.limits().change(|values| values.download_kib = 1);
    wait_until("downloads are stuck", || engine.limits().down.waiting() > 0);
    engine.pause();
    wait_for(&engine, Standing::Paused, Duration::from_secs(5));
    engine.limits().change(|values| values.download_kib = 0);
    engine.resume();
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    let report = engine.shutdown();
    assert_eq!(
        (report.errors_in_all(), report.retries),
        (0, 0),
        "{report:?}"
    );
    assert_eq!(report.pages, web.truth().reachable);
}

#[test]
fn to_finish_is_to_complete_what_is_under_way_and_to_leave() {
    let network = MemoryNetwork::new();
    let (engine, web) = at_work(&settings(), &network, plain(20, 3_000));
    engine.finish();
    wait_for(&engine, Standing::Left, DEADLINE);
    assert_alone(&network);
    // Every page that was served was completed: nothing was cut.
    let report = engine.report();
    assert_eq!(report.pages, web.log().served);
    assert_eq!(
        engine.outstanding(),
        engine.queued(),
        "all links are stored"
    );
    assert!(engine.queued() > 0);
    // It can be started again, and goes on where it was.
    engine.resume();
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    assert_eq!(engine.overlay().members().len(), 1);
    crate::crawling::assert_covered(&web, &engine.shutdown());
}

/// The same over real sockets, where an overlay that was left is gone for good.
#[test]
fn a_peer_that_has_left_its_network_joins_again() {
    let mut settings = settings();
    settings.overlay.listen = vec!["/ip4/127.0.0.1/tcp/0".into()];
    settings.overlay.mdns = false;
    let web = web(plain(20, 3_000));
    let limits = Limits::new(&settings.limits);
    let member = joining::join(&settings, [7; 32], Limits::new(&settings.limits)).unwrap();
    settings.overlay.bootstrap = member.listening();
    let overlay = joining::join_and_rejoin(&settings, [8; 32], limits.clone(), None).unwrap();
    let me = overlay.me();
    let knows_us = || member.members().iter().any(|member| member.id == me);
    wait_until("they have met", knows_us);
    assert!(
        limits.bytes_down() > 500 && limits.bytes_up() > 500,
        "it is counted, too"
    );
    let engine = Engine::start(Surroundings {
        limits,
        settings: settings.clone(),
        overlay,
        names: Arc::new(WebNames(web.clone())),
        kept: None,
        receipts: None,
    })
    .unwrap();
    engine.begin(whole(&web, &settings)).unwrap();
    wait_until("pages come in", || engine.report().pages > 50);
    engine.finish();
    wait_for(&engine, Standing::Left, DEADLINE);
    wait_until("the other knows", || !knows_us());
    engine.resume();
    wait_until("they have met again", knows_us);
    // It is a member a moment before it goes on.
    wait_for(&engine, Standing::Running, Duration::from_secs(5));
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    crate::crawling::assert_covered(&web, &engine.shutdown());
}

#[test]
fn a_used_up_quota_leaves_and_sends_nothing() {
    let network = MemoryNetwork::new();
    let mut settings = settings();
    settings.limits.monthly_gb = 1;
    let (engine, web) = at_work(&settings, &network, plain(20, 3_000));
    engine.limits().down.charge(1_000_000_000);
    wait_for(&engine, Standing::Left, Duration::from_secs(10));
    let why = engine.run_state().why;
    assert!(matches!(why, Some(WhyStopped::QuotaUsed { .. })), "{why:?}");
    assert_alone(&network);
    let (asked, sent) = (web.log().requests, engine.limits().bytes_up());
    engine.resume();
    thread::sleep(Duration::from_millis(500));
    assert_eq!(web.log().requests, asked);
    assert_eq!(engine.limits().bytes_up(), sent);
    // More is allowed: it comes back by itself.
    engine.limits().change(|values| values.monthly_gb = 2);
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    assert_eq!(engine.run_state().why, None);
    let report = engine.shutdown();
    assert_eq!(
        (report.errors_in_all(), report.retries),
        (0, 0),
        "{report:?}"
    );
    assert_eq!(report.pages, web.truth().reachable);
}

#[test]
fn a_verdict_of_the_conditions_pauses_and_a_metered_line_leaves() {
    let network = MemoryNetwork::new();
    let (engine, _web) = at_work(&settings(), &network, plain(20, 3_000));
    let pausing = engine.pausing().clone();
    pausing.set_verdict(Verdict::Pause(Reason::OnBattery));
    wait_for(&engine, Standing::Paused, Duration::from_secs(5));
    let why = engine.run_state().why;
    assert_eq!(why, Some(WhyStopped::Conditions(Reason::OnBattery)));
    pausing.set_verdict(Verdict::Run);
    let pages = engine.report().pages;
    wait_until("it goes on", || engine.report().pages > pages);
    pausing.set_verdict(Verdict::Pause(Reason::Metered));
    wait_for(&engine, Standing::Left, Duration::from_secs(10));
}

#[test]
fn pages_a_minute_and_fetches_at_once_are_bounded() {
    let web = web(plain(20, 600));
    let mut settings = settings();
    settings.limits.pages_per_min = 1_200;
    settings.limits.connections = 2;
    let engine = engine(&settings, &MemoryNetwork::new(), 1, &web);
    let begun = Instant::now();
    engine.begin(whole(&web, &settings)).unwrap();
    while begun.elapsed() < Duration::from_secs(3) {
        assert!(engine.run_state().fetches <= 2);
        let pages = engine.report().pages as f64;
        let most = 60.0 + 1.0 + begun.elapsed().as_secs_f64() * 20.0;
        assert!(pages <= most, "{pages} of {most}");
        thread::sleep(Duration::from_millis(2));
    }
    assert!(engine.report().pages >= 50, "{}", engine.report().pages);
    engine.limits().change(|values| values.pages_per_min = 0);
    engine.limits().change(|values| values.connections = 0);
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
}

/// Connections that were kept for the next page came on top of the limit, up to 256 of them.
#[test]
fn connections_that_nobody_uses_count_towards_their_limit() {
    const SITES: usize = 10;
    let mut web = HostileWeb::default();
    let sites: Vec<_> = (0..SITES)
        .map(|number| web.pages(move |path, stream| page(stream, format!("{number} {path}"))))
        .collect();
    let mut settings = settings();
    settings.network.idle_secs = 1_000;
    let seeds = sites.iter().map(|site| site.url("/")).collect();
    let engine = crawl_from(settings, Arc::new(SystemNames), seeds);
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    wait_until("all are kept", || web.open_connections() == SITES);
    engine.limits().change(|values| values.connections = 3);
    wait_until("those beyond the limit are closed", || {
        web.open_connections() == 3
    });
    let mut again = Settings::default().crawl;
    again.seeds = sites.iter().map(|site| site.url("/again")).collect();
    engine
        .begin(CrawlDefinition::from_settings(&again))
        .unwrap();
    assert_eq!(engine.wait(DEADLINE), Some(Ending::Complete));
    assert_eq!(engine.report().pages, 2 * SITES as u64);
    wait_until("no more are kept", || web.open_connections() <= 3);
    engine.shutdown();
}
