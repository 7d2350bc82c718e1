//! Peers that mean harm, as the crawler sees them: members of the network that say what no
//! honest peer says. The overlay's own defences have tests of their own.

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::Receiver;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use peercrawl::canonical::CanonicalForm;
use peercrawl::config::Scope;
use peercrawl::crawl::{CrawlDefinition, CrawlId};
use peercrawl::crawl_jobs::Site;
use peercrawl::demo::fleet::WebNames;
use peercrawl::demo::web::{Web, WebSpec};
use peercrawl::distribution::{Key, Owner};
use peercrawl::engine::{Ending, Engine, Surroundings, offer_of};
use peercrawl::fingerprint::{ContentFingerprint, url_fingerprint};
use peercrawl::handover::transfers::SitePart;
use peercrawl::limits::Limits;
use peercrawl::message::{Message, SentUrl};
use peercrawl::record::UrlRecord;
use peercrawl::report::resident_bytes;
use peercrawl::seen_content::{Answer, Claim};
use peercrawl_overlay::memory::{MemoryNetwork, MemoryOverlay};
use peercrawl_overlay::{
    Event, Member, MessageId, Overlay, OverlayError, PeerId, Purpose, Reply, Statistics, Verdict,
};
use tempfile::TempDir;

use crate::crawling::assert_covered;
use crate::crew::{DEADLINE, Settings, engine, settings, wait_until, web, whole};
use crate::durable::kept_peer;

const VICTIM: PeerId = PeerId::repeat(1);

/// A member that says what it likes.
struct Stranger(MemoryOverlay);

impl Stranger {
    fn join(network: &MemoryNetwork, number: u8) -> Self {
        Self(network.join(PeerId::repeat(number)))
    }

    /// Takes a part of the web upon itself, as leases say it.
    fn offers(&self, capacity: u8) {
        let facts = ((capacity, 1_u16), None::<u32>, [0_u16; 3]);
        self.0.announce(postcard::to_stdvec(&facts).unwrap().into());
    }

    /// Ends the wait of a peer that has just met this one.
    fn welcomes(&self, peer: PeerId) {
        let members = self.0.members();
        let member = members.iter().find(|member| member.id == peer).unwrap();
        let welcome = Message::Welcome(offer_of(member));
        assert_eq!(self.asks(peer, &welcome), Some(Message::Taken(true)));
    }

    fn asks(&self, peer: PeerId, message: &Message) -> Option<Message> {
        self.asks_raw(peer, message.encode().unwrap(), DEADLINE)
    }

    fn asks_raw(&self, peer: PeerId, bytes: Vec<u8>, deadline: Duration) -> Option<Message> {
        let reply = self
            .0
            .request(peer, Purpose::Handover, bytes.into(), deadline);
        let answer = reply.ok()?.wait()?;
        Some(Message::decode(&answer).unwrap())
    }

    fn tells(&self, peer: PeerId, bytes: Vec<u8>) {
        let bytes: Arc<[u8]> = bytes.into();
        // A full channel is not what is tested.
        wait_until("there is room for a message", || {
            self.0.send(peer, Purpose::Urls, bytes.clone()).is_ok()
        });
    }

    fn broadcasts(&self, bytes: Vec<u8>) {
        let handed = self.0.hand_on(0, None, Purpose::Urls, bytes.into());
        handed.unwrap();
    }

    /// URLs that reach it, until there are so many.
    fn hears_urls(&self, count: usize) -> Vec<SentUrl> {
        let mut heard: Vec<SentUrl> = Vec::new();
        while heard.len() < count {
            let event = self.0.events().recv_timeout(DEADLINE).unwrap();
            if let Event::Message { bytes, .. } = event
                && let Ok(Message::Urls { urls, .. }) = Message::decode(&bytes)
            {
                heard.extend(urls);
            }
        }
        heard
    }

    /// The next receipt that reaches it: what is stored, busy and not the other's.
    fn hears_receipt(&self) -> [Vec<u64>; 3] {
        loop {
            let event = self.0.events().recv_timeout(DEADLINE).unwrap();
            if let Event::Message { bytes, .. } = event
                && let Ok(Message::Receipt {
                    to,
                    stored,
                    busy,
                    not_mine,
                }) = Message::decode(&bytes)
            {
                assert_eq!(to, self.0.me());
                return [stored, busy, not_mine];
            }
        }
    }
}

/// An overlay that notes what the crawler thinks of messages.
struct Noting {
    inner: MemoryOverlay,
    verdicts: Arc<Mutex<Vec<Verdict>>>,
}

impl Overlay for Noting {
    fn me(&self) -> PeerId {
        self.inner.me()
    }

    fn members(&self) -> Arc<[Member]> {
        self.inner.members()
    }

    fn announce(&self, facts: Arc<[u8]>) {
        self.inner.announce(facts);
    }

    fn hand_on(
        &self,
        key: u64,
        owner: Option<PeerId>,
        purpose: Purpose,
        bytes: Arc<[u8]>,
    ) -> Result<(), OverlayError> {
        self.inner.hand_on(key, owner, purpose, bytes)
    }

    fn send(&self, to: PeerId, purpose: Purpose, bytes: Arc<[u8]>) -> Result<(), OverlayError> {
        self.inner.send(to, purpose, bytes)
    }

    fn request(
        &self,
        to: PeerId,
        purpose: Purpose,
        bytes: Arc<[u8]>,
        deadline: Duration,
    ) -> Result<Reply, OverlayError> {
        self.inner.request(to, purpose, bytes, deadline)
    }

    fn events(&self) -> Receiver<Event> {
        self.inner.events()
    }

    fn verdict(&self, _: MessageId, verdict: Verdict) {
        self.verdicts.lock().unwrap().push(verdict);
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn leave(&self) {
        self.inner.leave();
    }
}

/// A peer whose verdicts are noted.
fn noted_engine(
    settings: &Settings,
    network: &MemoryNetwork,
    web: &Arc<Web>,
) -> (Engine, Arc<Mutex<Vec<Verdict>>>) {
    let verdicts = Arc::default();
    let overlay = Noting {
        inner: network.join(VICTIM),
        verdicts: Arc::clone(&verdicts),
    };
    let surroundings = Surroundings {
        settings: settings.clone(),
        overlay: Arc::new(overlay),
        names: Arc::new(WebNames(web.clone())),
        receipts: None,
        limits: Limits::new(&settings.limits),
        kept: None,
    };
    (Engine::start(surroundings).unwrap(), verdicts)
}

fn definition(number: usize) -> CrawlDefinition {
    let mut crawl = settings().crawl;
    crawl.seeds = vec![format!("http://made.up.example/{number}")];
    crawl.scope = Scope::Any;
    CrawlDefinition::from_settings(&crawl)
}

fn urls(crawl: CrawlDefinition, urls: &[String], is_direct: bool) -> Message {
    let sent = urls.iter().enumerate().map(|(number, url)| SentUrl {
        number: number as u64,
        url: url.as_str().into(),
        depth: 0,
        redirects: 0,
    });
    Message::Urls {
        crawl,
        urls: sent.collect(),
        is_direct,
    }
}

/// A peer once did not start again after a stranger had told it of a thousand crawls.
#[test]
fn a_thousand_crawls_of_strangers_stop_nobody() {
    let web = web(WebSpec::new(5, 100, 71));
    let (data, settings) = (TempDir::new().unwrap(), settings());
    let network = MemoryNetwork::new();
    let peer = kept_peer(&web, data.path(), &settings, &network);
    let victim = peer.overlay().me();
    let stranger = Stranger::join(&network, 9);
    let taken = (0..1_030)
        .map(|number| stranger.asks(victim, &Message::Crawl(definition(number))))
        .filter(|answer| *answer == Some(Message::Taken(true)))
        .count();
    assert!((1..=200).contains(&taken), "{taken}");
    for number in 0..1_030 {
        let message = urls(definition(number), &[], true);
        stranger.tells(victim, message.encode().unwrap());
    }
    stranger.welcomes(victim);
    drop(peer.shutdown());

    let peer = kept_peer(&web, data.path(), &settings, &network);
    stranger.welcomes(victim);
    peer.begin(whole(&web, &settings)).unwrap();
    assert_eq!(peer.wait(DEADLINE), Some(Ending::Complete));
    assert_covered(&web, &peer.shutdown());
}

/// Waits until a paused peer has sent its seeds where they belong.
fn wait_for_seeds(peer: &Engine) {
    wait_until("the seeds are routed", || {
        // In this order: what waits may become more meanwhile.
        let waiting = peer.queued() + peer.handing_on();
        waiting == peer.outstanding()
    });
}

/// The user's own crawls are not counted, however many an earlier run has left.
#[test]
fn a_peer_with_very_many_crawls_of_its_own_takes_one_more() {
    let web = web(WebSpec::new(5, 100, 72));
    let (data, settings) = (TempDir::new().unwrap(), settings());
    let peer = kept_peer(&web, data.path(), &settings, &MemoryNetwork::new());
    peer.set_paused(true);
    let seed = web.seeds().swap_remove(0);
    for number in 0..1_030 {
        let mut one = definition(number);
        one.seeds = vec![format!("{seed}?{number}")];
        peer.begin(one).unwrap();
    }
    drop(peer.shutdown());
    let peer = kept_peer(&web, data.path(), &settings, &MemoryNetwork::new());
    peer.begin(whole(&web, &settings)).unwrap();
    assert_eq!(peer.wait(DEADLINE), Some(Ending::Complete));
    assert_eq!(web.unserved(&web.truth()), [""; 0]);
}

/// A receipt of somebody who was sent nothing once emptied the outbox: the seeds of a crawl
/// were gone, and it ended.
#[test]
fn only_those_concerned_give_receipts() {
    let web = web(WebSpec::new(20, 100, 73));
    let network = MemoryNetwork::new();
    let mut settings = settings();
    settings.handing_on.flush_ms = 5;
    let (peer, verdicts) = noted_engine(&settings, &network, &web);
    let (owner, stranger) = (Stranger::join(&network, 2), Stranger::join(&network, 9));
    owner.offers(16);
    wait_until("the owner is known", || peer.owners() == 2);
    peer.set_paused(true);
    peer.begin(whole(&web, &settings)).unwrap();
    wait_for_seeds(&peer);
    let waiting = peer.handing_on() as usize;
    assert!(waiting > 0, "some seeds are the other's");

    // A broadcast tells everybody their numbers.
    let heard = stranger.hears_urls(waiting);
    let receipt = |to| {
        let stored = heard.iter().map(|sent| sent.number).collect();
        let receipt = Message::Receipt {
            to,
            stored,
            busy: Vec::new(),
            not_mine: Vec::new(),
        };
        receipt.encode().unwrap()
    };
    let judged = |count: usize| {
        wait_until("the verdicts", || verdicts.lock().unwrap().len() == count);
        verdicts.lock().unwrap().last().copied()
    };
    stranger.tells(VICTIM, receipt(VICTIM));
    assert_eq!(judged(1), Some(Verdict::Ignore));
    assert_eq!(peer.handing_on() as usize, waiting);
    // For somebody else, so it was broadcast.
    owner.broadcasts(receipt(PeerId::repeat(9)));
    assert_eq!(judged(2), Some(Verdict::Reject));
    assert_eq!(peer.handing_on() as usize, waiting);
    owner.tells(VICTIM, receipt(VICTIM));
    assert_eq!(judged(3), Some(Verdict::Ignore), "it travels no further");
    assert_eq!(peer.handing_on(), 0);
}

/// The first page of each host of a web.
fn roots(web: &Web) -> Vec<String> {
    let mut urls = web.truth().urls();
    urls.dedup_by_key(|url| host_of(url));
    urls
}

fn host_of(url: &str) -> String {
    url::Url::parse(url).unwrap().host_str().unwrap().to_owned()
}

/// Whoever asks the wrong peer hears that it is the wrong one: no verdict, and no receipt
/// that would make it forget its URLs.
#[test]
fn what_is_another_peers_gets_no_verdict() {
    let web = web(WebSpec::new(40, 120, 80));
    let network = MemoryNetwork::new();
    let settings = settings();
    let peer = engine(&settings, &network, 1, &web);
    let (owner, stranger) = (Stranger::join(&network, 2), Stranger::join(&network, 9));
    owner.offers(16);
    wait_until("the owner is known", || peer.owners() == 2);
    owner.welcomes(VICTIM);
    peer.set_paused(true);
    let ownership = peer.ownership();
    let is_mine = |key| match ownership.owner(key) {
        Owner::Me => true,
        Owner::Peer(other) => {
            assert_eq!(other, owner.0.me());
            false
        }
        Owner::Nobody => panic!("all have an owner"),
    };

    let claims: Vec<_> = (0..40_u8)
        .map(|number| Claim {
            fingerprint: ContentFingerprint::of(&[number]),
            url: format!("http://a.example/{number}").into(),
            at_ms: 0,
            payload_digest: None,
        })
        .collect();
    // The second time it would be known, had it been noted down.
    for verdict in [Answer::New, Answer::Yours] {
        let expected: Vec<_> = claims
            .iter()
            .map(
                |claim| match is_mine(Key::of_content(&claim.fingerprint.0)) {
                    true => verdict.clone(),
                    false => Answer::NotMine,
                },
            )
            .collect();
        assert!(expected.contains(&verdict) && expected.contains(&Answer::NotMine));
        let answer = stranger.asks(VICTIM, &Message::Claims(claims.clone()));
        assert_eq!(answer, Some(Message::Answers(expected)));
    }

    let roots = roots(&web);
    let number = |is_wanted: bool| {
        let numbers = (0..).zip(&roots);
        let wanted = numbers.filter(|(_, url)| is_mine(Key::of_host(&host_of(url))) == is_wanted);
        wanted.map(|(number, _)| number).collect::<Vec<u64>>()
    };
    let (mine, others) = (number(true), number(false));
    assert!(!mine.is_empty() && !others.is_empty());
    let tells = |is_direct| {
        let message = urls(whole(&web, &settings), &roots, is_direct);
        message.encode().unwrap()
    };
    stranger.tells(VICTIM, tells(true));
    assert_eq!(stranger.hears_receipt(), [mine.clone(), vec![], others]);
    // Of a broadcast most is other peers', which goes without saying.
    stranger.broadcasts(tells(false));
    assert_eq!(stranger.hears_receipt(), [mine.clone(), vec![], vec![]]);
    assert_eq!(peer.queued(), mine.len() as u64, "it has its own, once");
}

/// A queue that is full turns a URL away, and says so; sent again, it is taken.
#[test]
fn a_full_queue_says_that_it_is_busy_and_takes_the_url_later() {
    let web = web(WebSpec {
        oddities: false,
        ..WebSpec::new(1, 10, 81)
    });
    let network = MemoryNetwork::new();
    let mut settings = settings();
    settings.queues.site_urls = 1;
    // No links: what is fetched is what was sent.
    settings.crawl.max_depth = 0;
    let peer = engine(&settings, &network, 1, &web);
    let stranger = Stranger::join(&network, 9);
    stranger.welcomes(VICTIM);
    peer.set_paused(true);
    let two = &web.truth().urls()[..2];
    let message = urls(whole(&web, &settings), two, true).encode().unwrap();
    for _ in 0..2 {
        stranger.tells(VICTIM, message.clone());
        assert_eq!(stranger.hears_receipt(), [vec![0], vec![1], vec![]]);
    }
    peer.set_paused(false);
    wait_until("there is room", || peer.outstanding() == 0);
    peer.set_paused(true);
    stranger.tells(VICTIM, message);
    assert_eq!(stranger.hears_receipt(), [vec![0, 1], vec![], vec![]]);
    assert_eq!(peer.queued(), 1, "the first one was fetched before");
    peer.set_paused(false);
    assert_eq!(peer.wait(DEADLINE), Some(Ending::Complete));
    assert_eq!(peer.shutdown().pages, 2);
    assert_eq!(web.log().fetched_twice, 0);
}

fn record(url: &str, crawl: CrawlId) -> UrlRecord {
    UrlRecord {
        url: CanonicalForm::new(&[]).parse(url).unwrap(),
        crawl,
        depth: 0,
        redirects: 0,
        from: None,
    }
}

fn site(host: &str, urls: impl IntoIterator<Item = UrlRecord>) -> Site {
    let mut site = Site::new(host);
    for record in urls {
        site.seen.insert(url_fingerprint(record.url.as_str()));
        let job = site.number(record);
        site.push(job, false);
    }
    site
}

fn whole_part(site: &Site) -> Message {
    Message::Site(SitePart {
        transfer: 1,
        part: 0,
        is_last: true,
        bytes: site.freeze().unwrap(),
    })
}

/// Whoever never had a site does not say what was seen of it, and its URLs pass the rules
/// of their crawl.
#[test]
fn a_strangers_site_hides_nothing_and_brings_nothing_past_the_rules() {
    let web = web(WebSpec::new(5, 200, 74));
    let network = MemoryNetwork::new();
    let settings = settings();
    let peer = engine(&settings, &network, 1, &web);
    let stranger = Stranger::join(&network, 9);
    stranger.welcomes(VICTIM);
    peer.set_paused(true);
    let id = peer.begin(whole(&web, &settings)).unwrap();
    wait_for_seeds(&peer);

    for url in web.truth().urls() {
        let host = url::Url::parse(&url)
            .unwrap()
            .host_str()
            .unwrap()
            .to_owned();
        let mut hiding = site(&host, []);
        hiding.seen.insert(url_fingerprint(&url));
        hiding.counters.admitted = u64::MAX;
        hiding.counters.fetched = u64::MAX;
        let answer = stranger.asks(VICTIM, &whole_part(&hiding));
        assert_eq!(answer, Some(Message::Taken(true)));
    }
    let mut too_deep = record("http://other.example/", id);
    too_deep.depth = u16::MAX;
    stranger.asks(VICTIM, &whole_part(&site("other.example", [too_deep])));
    let unknown = site(
        "other.example",
        [record("http://other.example/", CrawlId(7))],
    );
    let answer = stranger.asks(VICTIM, &whole_part(&unknown));
    assert_eq!(
        answer,
        Some(Message::Taken(false)),
        "it has to say what for"
    );
    let nonsense = site("No Host", []);
    let answer = stranger.asks(VICTIM, &whole_part(&nonsense));
    assert_eq!(answer, Some(Message::Unfit));

    peer.set_paused(false);
    assert_eq!(peer.wait(DEADLINE), Some(Ending::Complete));
    let report = peer.shutdown();
    assert_covered(&web, &report);
    assert!(report.urls.trap["depth"] > 0, "{report:?}");
    assert_eq!(report.errors["dns"], 0, "{report:?}");
}

/// A record that its new owner can never take was once sent again and again, while nobody
/// fetched its pages.
#[test]
fn a_site_that_its_owner_cannot_take_goes_on_where_it_is() {
    const URLS: usize = 2_500;
    let web = web(WebSpec::new(4, 40, 75));
    let network = MemoryNetwork::new();
    let large = settings();
    let mut small = large.clone();
    small.memory.limit_bytes = 64 << 20;
    let first = engine(&large, &network, 1, &web);
    first.set_paused(true);
    let id = first.begin(whole(&web, &large)).unwrap();
    wait_for_seeds(&first);
    let mut hosts = 0;
    for seed in web.seeds() {
        let host = url::Url::parse(&seed)
            .unwrap()
            .host_str()
            .unwrap()
            .to_owned();
        let url = |number| format!("{seed}{number}-{}", "x".repeat(1_900));
        let long = (0..URLS).map(|number| record(&url(number), id));
        first.thaw(&site(&host, long).freeze().unwrap()).unwrap();
        hosts += 1;
    }
    let second = engine(&small, &network, 2, &web);
    wait_until("both see both", || {
        first.owners() == 2 && second.owners() == 2
    });
    first.set_paused(false);
    wait_until("the end of the crawl", || {
        first.outstanding() == 0 && second.outstanding() == 0
    });
    let reports = [first.shutdown(), second.shutdown()];
    let missing: u64 = reports.iter().map(|report| report.errors["http_4xx"]).sum();
    assert!(missing >= (hosts * URLS) as u64, "{reports:?}");
}

/// URLs that lead to the volunteer's own network are never followed, and are counted.
#[test]
fn private_addresses_that_a_peer_sends_are_never_connected_to() {
    let router = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    router.set_nonblocking(true).unwrap();
    let port = router.local_addr().unwrap().port();
    let web = web(WebSpec::new(1, 10, 76));
    let network = MemoryNetwork::new();
    let mut settings = settings();
    settings.network.allow_private = false;
    let (peer, verdicts) = noted_engine(&settings, &network, &web);
    let stranger = Stranger::join(&network, 9);
    stranger.welcomes(VICTIM);
    let aims = [
        format!("http://127.0.0.1:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        "http://10.0.0.1/".to_owned(),
        "http://192.168.1.1/admin".to_owned(),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
    ];
    let message = urls(definition(0), &aims, true);
    stranger.tells(VICTIM, message.encode().unwrap());
    wait_until("the verdict", || verdicts.lock().unwrap().len() == 1);
    // In a site record, too.
    let hidden = record(&format!("http://127.0.0.2:{port}/"), definition(0).id());
    let answer = stranger.asks(VICTIM, &whole_part(&site("127.0.0.2", [hidden])));
    assert_eq!(answer, Some(Message::Taken(true)));
    assert_eq!(peer.wait(DEADLINE), Some(Ending::Complete));
    let report = peer.shutdown();
    let blocked = report.urls.blocked_address + report.urls.blocked_port;
    assert_eq!(blocked, aims.len() as u64 + 1, "{report:?}");
    assert_eq!(report.pages, 0);
    assert!(router.accept().is_err(), "nobody has connected");
}

/// A broadcast that aims at volunteers' own networks once travelled on through all of them.
#[test]
fn private_addresses_in_a_broadcast_travel_no_further() {
    let aims = [
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://192.168.1.1:8080/admin",
        "http://localhost/",
        "http://some.localhost/",
    ];
    for allow_private in [false, true] {
        let web = web(WebSpec::new(1, 10, 78));
        let network = MemoryNetwork::new();
        let mut settings = settings();
        settings.network.allow_private = allow_private;
        let (peer, verdicts) = noted_engine(&settings, &network, &web);
        peer.set_paused(true);
        let stranger = Stranger::join(&network, 9);
        let judged = |sent: &[String]| {
            let before = verdicts.lock().unwrap().len();
            let message = urls(definition(0), sent, false);
            stranger.broadcasts(message.encode().unwrap());
            wait_until("the verdict", || verdicts.lock().unwrap().len() > before);
            verdicts.lock().unwrap()[before]
        };
        let good = |number: usize| format!("http://8.8.8.8/{number}");
        assert_eq!(judged(&[good(0)]), Verdict::Accept);
        for (number, aim) in (1..).zip(aims) {
            let verdict = match allow_private {
                true => Verdict::Accept,
                false => Verdict::Ignore,
            };
            assert_eq!(judged(&[aim.into(), good(number)]), verdict, "{aim}");
        }
        let blocked = peer.report().urls.blocked_address as usize;
        match allow_private {
            true => assert_eq!(blocked, 0),
            false => {
                assert_eq!(blocked, aims.len());
                let queued = peer.queued() as usize;
                assert_eq!(queued, aims.len() + 1, "the good ones are taken");
            }
        }
    }
}

/// Pages have links to private addresses: nobody else is bothered with them.
#[test]
fn private_addresses_are_not_handed_on() {
    let web = web(WebSpec::new(1, 10, 79));
    let network = MemoryNetwork::new();
    let mut settings = settings();
    settings.network.allow_private = false;
    let peer = engine(&settings, &network, 1, &web);
    let owner = Stranger::join(&network, 2);
    owner.offers(16);
    wait_until("the owner is known", || peer.owners() == 2);
    let mut crawl = settings.crawl.clone();
    crawl.seeds = (0..64).map(|n| format!("http://10.0.0.{n}/")).collect();
    peer.begin(CrawlDefinition::from_settings(&crawl)).unwrap();
    wait_until("none waits for its owner", || peer.outstanding() == 0);
    assert_eq!(peer.report().urls.blocked_address, 64);
}

/// Packed in pieces: what it unpacks to is never in memory here.
fn packed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut packed = DeflateEncoder::new(vec![1], Compression::best());
    for piece in pieces {
        packed.write_all(piece).unwrap();
    }
    packed.finish().unwrap()
}

/// Messages that are none.
fn garbage() -> Vec<Vec<u8>> {
    const MILLION: [u8; 3] = [0xc0, 0x84, 0x3d];
    // It ends with the number of its URLs, and with whether they are direct.
    let mut beginning = postcard::to_stdvec(&urls(definition(0), &[], false)).unwrap();
    beginning.truncate(beginning.len() - 2);
    beginning.extend(MILLION);
    let url = SentUrl {
        number: 1,
        url: "http://a.example/".into(),
        depth: 0,
        redirects: 0,
    };
    let url = postcard::to_stdvec(&url).unwrap();
    let million = std::iter::repeat_n(url.as_slice(), 1_000_000);
    let million = packed(
        [beginning.as_slice()]
            .into_iter()
            .chain(million)
            .chain([&[0][..]]),
    );
    assert!(million.len() < 1 << 20, "it fits into a message");
    beginning.insert(0, 0);
    vec![
        packed(std::iter::repeat_n(&[0; 1 << 20][..], 100)),
        million,
        beginning,
        vec![],
        vec![0xff; 1_000],
        Message::Taken(true).encode().unwrap(),
        urls(definition(0), &["no url".into()], false)
            .encode()
            .unwrap(),
    ]
}

/// What a stranger can throw at a peer, all of it.
fn throw_everything(stranger: &Stranger, garbage: &[Vec<u8>]) {
    for bytes in garbage {
        for _ in 0..4 {
            stranger.broadcasts(bytes.clone());
            stranger.asks_raw(VICTIM, bytes.clone(), Duration::ZERO);
        }
    }
    for number in 0..1_030 {
        let crawl = Message::Crawl(definition(number)).encode().unwrap();
        stranger.asks_raw(VICTIM, crawl, Duration::from_millis(100));
    }
    for round in 0..40_u64 {
        let claim = |number: u64, url: usize| Claim {
            fingerprint: ContentFingerprint::of(&(round << 32 | number).to_be_bytes()),
            url: "u".repeat(url).into(),
            at_ms: 0,
            payload_digest: None,
        };
        let long = Message::Claims(vec![claim(0, 1_000_000)]).encode().unwrap();
        assert_eq!(
            stranger.asks_raw(VICTIM, long, Duration::from_millis(1)),
            None
        );
        let many = (1..60).map(|number| claim(number, 16_000)).collect();
        stranger.asks(VICTIM, &Message::Claims(many));
    }
    let host = postcard::to_stdvec("a.example").unwrap();
    for transfer in 0..8 {
        for part in 0..4 {
            let mut bytes = vec![0; 900 << 10];
            bytes[0] = 2;
            bytes[1..=host.len()].copy_from_slice(&host);
            let part = SitePart {
                transfer,
                part,
                is_last: false,
                bytes,
            };
            stranger.asks(VICTIM, &Message::Site(part));
        }
    }
    let receipt = Message::Receipt {
        to: VICTIM,
        stored: (0..10_000).collect(),
        busy: Vec::new(),
        not_mine: Vec::new(),
    };
    stranger.broadcasts(receipt.encode().unwrap());
    stranger.tells(VICTIM, receipt.encode().unwrap());
}

const CHILD: &str = "PEERCRAWL_TEST_STRANGERS_CHILD";

/// Everything at once, in a process of its own, whose memory is looked at: it stays
/// bounded, the peer crawls on, and nothing of it may travel further.
#[test]
fn whatever_strangers_send_memory_stays_bounded_and_work_goes_on() {
    if std::env::var_os(CHILD).is_none() {
        let name = "strangers::whatever_strangers_send_memory_stays_bounded_and_work_goes_on";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(
            child.status.success(),
            "{}",
            String::from_utf8_lossy(&child.stderr)
        );
        return;
    }
    // Without bounds, the claims alone would take as much, and the transfers again.
    const MORE_BYTES: u64 = 96 << 20;
    let web = web(WebSpec::new(10, 300, 77));
    let network = MemoryNetwork::new();
    let settings = settings();
    let (peer, verdicts) = noted_engine(&settings, &network, &web);
    let strangers: Vec<_> = (10..13).map(|n| Stranger::join(&network, n)).collect();
    strangers.iter().for_each(|one| one.welcomes(VICTIM));
    peer.set_paused(true);
    peer.begin(whole(&web, &settings)).unwrap();
    let garbage = garbage();
    let before = resident_bytes();
    let mut most = before;
    for stranger in &strangers {
        throw_everything(stranger, &garbage);
        most = most.max(resident_bytes());
    }
    let verdicts = verdicts.lock().unwrap().clone();
    assert!(!verdicts.contains(&Verdict::Accept), "nothing travels on");
    let rejected = verdicts.iter().filter(|one| **one == Verdict::Reject);
    assert!(rejected.count() > 30);
    println!("{before} bytes before, {most} at most");
    assert!(most - before < MORE_BYTES, "{before} became {most}");
    peer.set_paused(false);
    assert_eq!(peer.wait(DEADLINE), Some(Ending::Complete));
    assert_covered(&web, &peer.shutdown());
}
