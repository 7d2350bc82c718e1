//! What this version keeps has to be read by every later one: format 1, byte by byte.

use peercrawl_overlay::PeerId;

use super::*;
use crate::archive::Digest;
use crate::config::Scope;
use crate::crawl::Bounds;
use crate::crawl_jobs::Site;
use crate::politeness::Pace;
use crate::robots::Robots;
use crate::seen_content::{Claim, SeenContent};

/// A value of each record. No number is the usual one, and some take more than a byte.
const FORMAT_1: &[&str] = &[
    r"totals of a crawl: \xac\x02\xf0\xa2\x04\xc8\x01c\x01",
    r"over: \xac\x02\xf0\xa2\x04\xc8\x01c\x01",
    r"successions: \x01\xf5\x03\x01\xf4\x03\xf5\x03",
    r"counters: \x01\ndiscovered\xac\x02",
    r"crawl: \x01\x11http://a.example/\x01\xe8\x07\xad\x02\xae\x02\xaf\x02\xb0\x02\x05\x06\xac\x02\xf0\xa2\x04\xc8\x01c\x01",
    r"queue: \x16http://a.example/x?y=1\xf4\x03\xad\x02\x02\x00\x02\xac\x02",
    r"outbox: \x16http://a.example/x?y=1\xf4\x03\xad\x02\x02\x01pppppppppppppppppppppppppppppppp",
    r"site: \x01\x01\xd8\x04\x01\x01\x13http://a.example:80\x05-/no\n\x01\xd0\x0f\x01\x14http://a.example/map\xe8\x07\xd0\x0f\x90\x03\x03\xc9\x01\xca\x01\xcb\x01",
    r"content: \x11http://a.example/\xb8\x17\x01ddddddddddddddddddddqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq\x00",
    r"recent: \x01\x10peercrawl-000001\xe8\x07\x01\xae\x02\x01\x07\xad\x02\x01\xf4\x03\xac\x02\xf0\xa2\x04\xc8\x01c\x01\x01ffffffffffffffff",
    r"seen: \x01\x00\x01\x00\x00\x00\x00\x00\x00\x00,\x01\x00\x00\x00\x00\x00\x00",
];

const TOTALS: PageTotals = PageTotals {
    pages: 300,
    bytes: 70_000,
    new: 200,
    duplicate: 99,
    unknown: 1,
};

fn definition() -> CrawlDefinition {
    CrawlDefinition {
        seeds: vec!["http://a.example/".into()],
        scope: Scope::Domain,
        bounds: Bounds {
            max_pages: 1_000,
            max_depth: 301,
            max_pages_per_site: 302,
            max_queries_per_path: 303,
            max_url_bytes: 304,
            max_segment_repeats: 5,
            max_redirects: 6,
        },
    }
}

fn record(from: Option<PeerId>) -> UrlRecord {
    let url = CanonicalForm::new(&[]).parse("http://a.example/x?y=1");
    UrlRecord {
        url: url.unwrap(),
        crawl: CrawlId(500),
        depth: 301,
        redirects: 2,
        from: from.map(Box::new),
    }
}

fn head() -> SiteHead {
    let mut site = Site::new("a.example");
    let robots = b"User-agent: *\nDisallow: /no\nCrawl-delay: 2\nSitemap: http://a.example/map\n";
    site.set_rules("http://a.example:80", Robots::parse(robots, "x"), 1_000);
    site.count_query(600);
    site.pace = Pace {
        next_fetch_ms: 2_000,
        delay_ms: 400,
        failures: 3,
    };
    site.counters.admitted = 201;
    site.counters.fetched = 202;
    site.counters.errors = 203;
    // In other hands it is of the next generation.
    Site::thaw(&site.freeze().unwrap()).unwrap().head()
}

/// Tells the ledger of all that it keeps, and gives the batch of it.
fn noted(ledger: &Arc<Ledger>) -> Batch {
    let mut other = definition();
    other.bounds.max_redirects = 7;
    let done = |number| Done { site: SITE, number };
    for (number, crawl) in [&definition(), &other].into_iter().enumerate() {
        ledger.crawl(crawl);
        ledger.done(done(number as u64), Some((crawl.id(), TOTALS)));
    }
    ledger.crawls_over(&[other.id()]);
    let mut successions = Successions::default();
    successions.begin(CrawlId(500), &[]);
    successions.begin(CrawlId(501), &[CrawlId(500)]);
    ledger.successions(&successions);
    let job = CrawlJob {
        record: record(None),
        attempts: 2,
        number: 300,
    };
    ledger.queued(SITE, &job);
    ledger.outbox_put(1, &record(Some(PeerId::repeat(b'p'))));
    ledger.site("a.example", &head());
    let contents = SeenContent::new(1, ledger.clone());
    let claim = Claim {
        fingerprint: ContentFingerprint([b'f'; 16]),
        url: "http://a.example/".into(),
        at_ms: 3_000,
        payload_digest: Some(Digest([b'd'; 20])),
    };
    contents.claim(&claim, PeerId::repeat(b'q'), 0);
    contents.confirm(claim.fingerprint, PeerId::repeat(b'q'));
    let (mut batch, ..) = keeper::take(&mut ledger.kept.as_ref().unwrap().pending.lock());

    let mut recent = Recent::default();
    recent.cleared(Key(302));
    recent.done(done(301), Some((CrawlId(500), TOTALS)));
    recent.seen(ContentFingerprint([b'f'; 16]));
    let place = Position {
        file: "peercrawl-000001".into(),
        offset: 1_000,
    };
    Unsettled::default().note(recent, Some(place), &mut batch);
    let counters = Counters::default();
    counters.discovered.add(300);
    let mut values = counters.values();
    // A name more or less is no change.
    values.retain(|name, _| name == "discovered");
    batch.counters(&postcard::to_stdvec(&values).unwrap());
    batch
}

#[test]
fn format_1_is_what_it_was() {
    let folder = TempDir::new().unwrap();
    let data = Arc::new(DataFolder::open(folder.path()).unwrap());
    let (ledger, _hands) = Ledger::keeping(Kept::open(data, "state", None).unwrap());
    let store = ledger.store().unwrap();
    store.commit(&noted(&ledger)).unwrap();

    let mut found = Vec::new();
    let mut add = |what: &str, bytes: &[u8]| {
        found.push(format!("{what}: {}", bytes.escape_ascii()));
    };
    let totals = store.crawl_totals(definition().id());
    let words = [
        ("totals of a crawl", totals),
        ("over", store.over()),
        ("successions", store.successions()),
        ("counters", store.counters()),
    ];
    for (what, bytes) in words {
        add(what, &bytes.unwrap().unwrap());
    }
    let mut read = store.for_each_crawl(|bytes| add("crawl", bytes));
    read = read.and(store.for_each_queued(|_, _, bytes| add("queue", bytes)));
    read = read.and(store.for_each_in_outbox(|_, bytes| add("outbox", bytes)));
    read = read.and(store.for_each_site(|_, bytes| add("site", bytes)));
    read = read.and(store.for_each_content(|_, bytes| add("content", bytes)));
    read = read.and(store.for_each_recent(|_, bytes| add("recent", bytes)));
    read.unwrap();
    let mut seen = SeenUrls::default();
    seen.insert(1);
    seen.insert(300);
    add("seen", &seen.to_bytes());
    let words = "an earlier state could not be read any more: this takes a migration and a new \
                 format number (src/store/folder.rs)";
    assert_eq!(found, FORMAT_1, "{words}");
}
