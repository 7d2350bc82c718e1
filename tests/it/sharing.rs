//! Several peers, one web: URLs and claims reach their owners, and a site can move.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use peercrawl::archive::{Entry, Reader};
use peercrawl::config::{DistributionChoice, OverlayChoice};
use peercrawl::crawl::CrawlDefinition;
use peercrawl::data_directory::DataDirectory;
use peercrawl::demo::fleet::Fleet;
use peercrawl::demo::web::WebSpec;
use peercrawl::distribution::{Key, Owner, Ownership};
use peercrawl::engine::{Ending, Engine, Surroundings};
use peercrawl::fingerprint::ContentFingerprint;
use peercrawl::limits::Limits;
use peercrawl::message::Message;
use peercrawl::report::Report;
use peercrawl::resolver::SystemNames;
use peercrawl::seen_content::{Answer, Claim};
use peercrawl_overlay::memory::{MemoryNetwork, MemoryOverlay};
use peercrawl_overlay::{Overlay, PeerId, Purpose};
use tempfile::TempDir;

use crate::crawling::{assert_covered, assert_exact};
use crate::crew::{DEADLINE, Settings, engine, settings, wait_until, web, whole};
use crate::durable::{assert_refers, kept_peer};
use crate::hostile::{HostileWeb, Site, page, stay_silent};

/// Whether no engine has anything left. Looks twice, because a URL in a message is
/// outstanding at its sender until its receiver has stored it.
fn all_done(engines: &[&Engine]) -> bool {
    let done = || engines.iter().all(|engine| engine.outstanding() == 0);
    let links = || -> u64 { engines.iter().map(|e| e.report().urls.discovered).sum() };
    let before = links();
    done() && done() && links() == before
}

fn two_peers_crawl(network: MemoryNetwork) -> [Report; 2] {
    let web = web(WebSpec::new(30, 900, 11));
    let mut settings = settings();
    settings.handing_on.resend_ms = 50;
    settings.handing_on.flush_ms = 5;
    let first = engine(&settings, &network, 1, &web);
    let second = engine(&settings, &network, 2, &web);
    wait_until("both see both", || {
        first.owners() == 2 && second.owners() == 2
    });
    first.begin(whole(&web, &settings)).unwrap();
    wait_until("the end of the crawl", || all_done(&[&first, &second]));
    let reports = [first.shutdown(), second.shutdown()];
    assert_exact(&web, &Report::sum(&reports));
    reports
}

#[test]
fn two_peers_share_a_web_and_know_each_others_duplicates() {
    for report in two_peers_crawl(MemoryNetwork::new()) {
        assert!(report.pages > 200, "a fair share: {}", report.pages);
        assert!(report.urls.out_of_range > 0, "URLs were handed on");
        assert!(report.content.duplicate > 0, "claims were answered");
    }
}

#[test]
fn a_network_that_loses_every_third_message_loses_no_url() {
    two_peers_crawl(MemoryNetwork::losing_every(3));
}

/// A site is frozen in the middle of a crawl, moves to another engine as bytes, and the
/// crawl goes on there: nothing is lost, and nothing is fetched twice.
#[test]
fn a_frozen_site_goes_on_elsewhere() {
    let web = web(WebSpec::new(1, 400, 21));
    let settings = settings();
    let definition = whole(&web, &settings);
    let first = engine(&settings, &MemoryNetwork::new(), 1, &web);
    first.begin(definition.clone()).unwrap();
    wait_until("the middle of the crawl", || first.report().pages > 100);
    first.set_paused(true);
    // In this order: what is queued may become more meanwhile, by a page that is not.
    wait_until("only queues are left", || {
        first.fetching() == 0 && first.queued() == first.outstanding()
    });

    let host = hosts(&web.seeds()).pop_first().unwrap();
    let bytes = first.freeze(&host).unwrap().unwrap();
    assert!(first.freeze(&host).is_none(), "it is gone");
    assert_eq!(first.outstanding(), 0, "and its URLs with it");
    let second = engine(&settings, &MemoryNetwork::new(), 2, &web);
    second.set_paused(true);
    second.begin(definition).unwrap();
    second.thaw(&bytes).unwrap();
    second.set_paused(false);
    assert_eq!(second.wait(DEADLINE), Some(Ending::Complete));

    let reports = [first.shutdown(), second.shutdown()];
    assert!(
        reports.iter().all(|report| report.pages > 50),
        "{reports:?}"
    );
    // Contents that the first peer has seen are not the second's to know.
    assert_covered(&web, &Report::sum(&reports));
}

/// Two peers join in the middle of a crawl. The sites that are now theirs follow them,
/// and no host is visited by two peers at once: the server's own log says so.
#[test]
fn peers_that_join_take_their_share() {
    let web = web(WebSpec::new(30, 3_000, 21));
    let network = MemoryNetwork::new();
    let mut settings = settings();
    settings.threads.downloaders = 4;
    let first = engine(&settings, &network, 1, &web);
    first.begin(whole(&web, &settings)).unwrap();
    wait_until("the middle of the crawl", || first.report().pages > 300);
    let second = engine(&settings, &network, 2, &web);
    let third = engine(&settings, &network, 3, &web);
    wait_until("the end of the crawl", || {
        all_done(&[&first, &second, &third])
    });

    let reports = [first.shutdown(), second.shutdown(), third.shutdown()];
    assert!(
        reports.iter().all(|report| report.pages > 100),
        "{reports:?}"
    );
    assert_covered(&web, &Report::sum(&reports));
}

/// The demo's peers, over real sockets.
fn a_fleet_crawls_exactly(peers: u8, overlay: OverlayChoice) {
    let web = web(WebSpec::new(30, 900, 31));
    let mut settings = settings();
    settings.overlay.kind = overlay;
    settings.threads.downloaders = 4;
    let mut fleet = Fleet::start(peers, &settings, &web).unwrap();
    fleet.begin(whole(&web, &settings)).unwrap();
    assert!(fleet.wait(DEADLINE), "{:?}", fleet.reports());
    let reports = fleet.shutdown();
    assert!(reports.iter().all(|report| report.pages > 0), "{reports:?}");
    assert_exact(&web, &Report::sum(&reports));
}

#[test]
fn four_peers_of_a_flat_overlay_crawl_exactly() {
    a_fleet_crawls_exactly(4, OverlayChoice::Flat);
}

#[test]
fn five_peers_of_a_supernode_overlay_crawl_exactly() {
    a_fleet_crawls_exactly(5, OverlayChoice::Supernode);
}

fn hosts(urls: &[String]) -> std::collections::BTreeSet<String> {
    let host = |url: &String| url::Url::parse(url).unwrap().host_str().unwrap().to_owned();
    urls.iter().map(host).collect()
}

#[test]
fn a_peer_whose_range_nobody_has_keeps_its_urls() {
    let web = web(WebSpec::new(10, 200, 2));
    let mut settings = settings();
    settings.distribution.kind = DistributionChoice::Static;
    settings.distribution.peers = 2;
    let first = engine(&settings, &MemoryNetwork::new(), 1, &web);
    first.begin(whole(&web, &settings)).unwrap();
    wait_until("nothing but the outbox is left", || {
        let report = first.report();
        report.pages > 0
            && report.urls.out_of_range > 0
            && first.outstanding() == first.handing_on()
    });
    let ownership: std::sync::Arc<Ownership> = first.ownership();
    let mine = |host: &String| ownership.owner(Key::of_host(host)) == Owner::Me;
    let truth = web.truth();
    assert!(hosts(&web.unserved(&truth)).iter().any(|host| !mine(host)));
    let report = first.shutdown();
    assert_eq!(web.log().fetched_twice, 0);
    assert!(report.pages < truth.reachable);
}

/// What nobody had yet when a peer was stopped waits in its next run for whoever comes.
#[test]
fn what_waits_for_its_owner_outlives_a_restart() {
    let web = web(WebSpec::new(10, 300, 2));
    let part = |index| {
        let mut settings = settings();
        settings.distribution.kind = DistributionChoice::Static;
        settings.distribution.peers = 2;
        settings.distribution.index = index;
        settings.handing_on.resend_ms = 50;
        settings.handing_on.flush_ms = 5;
        settings
    };
    let (data, network) = (TempDir::new().unwrap(), MemoryNetwork::new());
    let first = kept_peer(&web, data.path(), &part(0), &network);
    first.begin(whole(&web, &part(0))).unwrap();
    wait_until("nothing but the outbox is left", || {
        let waiting = first.handing_on();
        first.report().pages > 0 && waiting > 0 && first.outstanding() == waiting
    });
    let waiting = first.handing_on();
    first.shutdown();

    let first = kept_peer(&web, data.path(), &part(0), &network);
    assert_eq!(first.handing_on(), waiting);
    assert_eq!(first.outstanding(), waiting);
    let second = engine(&part(1), &network, 2, &web);
    wait_until("the end of the crawl", || all_done(&[&first, &second]));
    let report = Report::sum(&[first.shutdown(), second.shutdown()]);
    let truth = web.truth();
    assert_eq!(web.unserved(&truth), [""; 0], "missed");
    assert_eq!(web.log().fetched_twice, 0);
    assert_eq!(report.pages, truth.reachable);
}

/// A server that drips kept its site with its old owner for a minute, and the newcomer did not
/// wait for so long: two were on that host.
#[test]
fn a_fetch_that_takes_long_keeps_no_site_from_its_new_owner() {
    let mut web = HostileWeb::default();
    let site = |_| {
        web.pages(|path, stream| match path {
            "/" => stay_silent(stream),
            _ => page(stream, String::new()),
        })
    };
    let sites: Vec<Site> = (0..16).map(site).collect();
    let (mut settings, network) = (settings(), MemoryNetwork::new());
    settings.network.fetch_timeout_ms = 60_000;
    settings.network.slow_grace_ms = 60_000;
    settings.threads.downloaders = 32;
    settings.crawl.seeds = sites.iter().map(|site| site.url("/")).collect();
    let peer = |number| {
        let surroundings = Surroundings {
            settings: settings.clone(),
            overlay: Arc::new(network.join(PeerId::repeat(number))),
            names: Arc::new(SystemNames),
            receipts: None,
            limits: Limits::new(&settings.limits),
            kept: None,
        };
        Engine::start(surroundings).unwrap()
    };
    let first = peer(1);
    let definition = CrawlDefinition::from_settings(&settings.crawl);
    first.begin(definition).unwrap();
    wait_until("all are silent", || {
        sites.iter().all(|site| site.asked_for("/") == 1)
    });
    let joined = Instant::now();
    let second = peer(2);
    wait_until("each host is with its owner alone", || {
        let ownership = second.ownership();
        let host = |site: &Site| Key::of_host(&site.address.ip().to_string());
        let is_its = |site: &&Site| ownership.owner(host(site)) == Owner::Me;
        let its = sites.iter().filter(is_its).count();
        let fetching = (first.fetching(), second.fetching());
        ownership.members().len() == 2 && fetching == (sites.len() - its, its)
    });
    assert!(joined.elapsed() < Duration::from_secs(10));
    assert!(second.fetching() > 0);
    first.shutdown();
    second.shutdown();
}

/// A peer that keeps what it fetches in this folder.
fn archiving(settings: &Settings, network: &MemoryNetwork, number: u8, data: &Path) -> Engine {
    let directory = DataDirectory::open(data, [number; 32]).unwrap();
    let surroundings = Surroundings {
        settings: settings.clone(),
        overlay: Arc::new(network.join(PeerId(directory.secret()))),
        names: Arc::new(SystemNames),
        receipts: Some(directory.receipts()),
        limits: Limits::new(&settings.limits),
        kept: Some(directory.keep_peer(settings).unwrap()),
    };
    Engine::start(surroundings).unwrap()
}

/// Whether the owner of a content says that somebody has it on a disk.
fn is_kept(visitor: &MemoryOverlay, peer: &Engine, body: &str) -> bool {
    let fingerprint = ContentFingerprint::of(body.as_bytes());
    let owner = match peer.ownership().owner(Key::of_content(&fingerprint.0)) {
        Owner::Me => peer.overlay().me(),
        Owner::Peer(owner) => owner,
        Owner::Nobody => panic!("each content has an owner"),
    };
    let claim = Claim {
        fingerprint,
        url: "http://visitor.example/".into(),
        at_ms: 0,
        payload_digest: None,
    };
    let claims = Message::Claims(vec![claim]).encode().unwrap();
    let reply = visitor.request(owner, Purpose::Content, claims.into(), DEADLINE);
    let Ok(Message::Answers(answers)) = Message::decode(&reply.unwrap().wait().unwrap()) else {
        panic!("a claim has an answer");
    };
    let [Answer::DuplicateOf { payload_digest, .. }] = &answers[..] else {
        panic!("it was seen before: {answers:?}");
    };
    payload_digest.is_some()
}

/// Copies are stored as references once the first one is safe on a disk: then each content
/// is in one archive, once, whichever peers have met it.
#[test]
fn what_mirrors_have_is_kept_once_in_all_archives() {
    const SITES: usize = 6;
    const PAGES: usize = 8;
    let body = |site: usize, path: &str| format!("<p>{path} of site {site}");
    let mut web = HostileWeb::default();
    let mut site = |number| web.pages(move |path, stream| page(stream, body(number, path)));
    let [firsts, mirrors] = [(); 2].map(|()| (0..SITES).map(&mut site).collect::<Vec<_>>());
    let mut settings = settings();
    settings.handing_on.flush_ms = 5;
    settings.content.answer_ms = 60_000;
    let (network, folders) = (
        MemoryNetwork::new(),
        [(); 3].map(|()| TempDir::new().unwrap()),
    );
    let peers: Vec<_> = (1..)
        .zip(&folders)
        .map(|(number, folder)| archiving(&settings, &network, number, folder.path()))
        .collect();
    let all: Vec<_> = peers.iter().collect();
    wait_until("all see all", || {
        peers.iter().all(|peer| peer.owners() == 3)
    });
    let crawl = |sites: &[Site]| {
        let mut crawl = settings.crawl.clone();
        for site in sites {
            let urls = (0..PAGES).map(|page| site.url(&format!("/{page}")));
            crawl.seeds.extend(urls);
        }
        peers[0]
            .begin(CrawlDefinition::from_settings(&crawl))
            .unwrap();
        wait_until("the end of the crawl", || all_done(&all));
    };
    crawl(&firsts);
    let visitor = network.join(PeerId::repeat(9));
    for number in 0..SITES * PAGES {
        let content = body(number / PAGES, &format!("/{}", number % PAGES));
        wait_until("the first copy is on a disk", || {
            is_kept(&visitor, &peers[0], &content)
        });
    }
    visitor.leave();
    crawl(&mirrors);
    let reports: Vec<_> = peers.into_iter().map(Engine::shutdown).collect();
    let report = Report::sum(&reports);
    let count = (SITES * PAGES) as u64;
    let found = (report.content.new, report.content.duplicate);
    assert_eq!(found, (count, count), "{reports:?}");

    // By content, which archives have it whole and under which URL, and which as a reference.
    type Copies = Vec<(usize, String)>;
    let mut copies: BTreeMap<String, [Copies; 2]> = BTreeMap::new();
    let readers = folders
        .each_ref()
        .map(|folder| Reader::new(folder.path().join("archive")));
    for (peer, reader) in readers.iter().enumerate() {
        let add = |entry: Entry| {
            if entry.status == "200" {
                let is_revisit = usize::from(entry.is_revisit());
                copies.entry(entry.digest).or_default()[is_revisit].push((peer, entry.url));
            }
        };
        reader.list(add).unwrap();
    }
    assert_eq!(copies.len() as u64, count);
    for [whole, references] in copies.values() {
        let ([whole], [reference]) = (&whole[..], &references[..]) else {
            panic!("{copies:?}");
        };
        let record = |(peer, url): &(usize, String)| readers[*peer].get(url).unwrap().unwrap();
        assert_refers(&record(reference).record, &record(whole).record);
    }
    let is_across = |[whole, references]: &&[Copies; 2]| whole[0].0 != references[0].0;
    assert!(
        copies.values().filter(is_across).count() > 0,
        "of different peers"
    );
}
