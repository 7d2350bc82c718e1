use super::*;
use crate::canonical::CanonicalForm;
use crate::crawl::CrawlId;

fn record(url: &str) -> UrlRecord {
    UrlRecord {
        url: CanonicalForm::new(&[]).parse(url).unwrap(),
        crawl: CrawlId(1),
        depth: 2,
        redirects: 0,
        from: None,
    }
}

fn push(site: &mut Site, url: &str) {
    let job = site.number(record(url));
    site.push(job, false);
}

fn next(site: &mut Site, now_ms: Millis) -> (Task, Vec<String>) {
    let mut away = Vec::new();
    let task = site.next_task(
        now_ms,
        |_| false,
        |job, _| away.push(job.record.url.to_string()),
    );
    (task, away)
}

#[test]
fn robots_come_first_for_each_origin_and_are_asked_again_after_a_day() {
    let mut site = Site::new("a.example");
    for url in [
        "http://a.example/1",
        "http://a.example/no/1",
        "https://a.example/2",
    ] {
        push(&mut site, url);
    }
    let (task, _) = next(&mut site, 0);
    assert!(matches!(task, Task::Robots { origin } if origin == "http://a.example"));
    site.set_rules(
        "http://a.example",
        Robots::parse(b"user-agent: *\ndisallow: /no", "x"),
        0,
    );
    let (task, _) = next(&mut site, 0);
    assert!(matches!(task, Task::Page(job) if job.record.url.as_str().ends_with("/1")));
    let (task, away) = next(&mut site, 0);
    assert!(matches!(task, Task::Robots { origin } if origin == "https://a.example"));
    assert_eq!(away, ["http://a.example/no/1"]);
    site.set_rules("https://a.example", Robots::allow_all(), 0);
    let (task, _) = next(&mut site, ROBOTS_LIFETIME_MS);
    assert!(matches!(task, Task::Robots { .. }), "a day old");
}

#[test]
fn rules_of_a_clock_that_was_ahead_are_asked_for_again_a_day_later() {
    let mut site = Site::new("a.example");
    push(&mut site, "http://a.example/1");
    let origin = "http://a.example:80";
    let now_ms = 1_000_000;
    site.set_rules(origin, Robots::allow_all(), now_ms * 1_000_000);
    let head = site.head();
    site.set_head(head, now_ms);
    assert!(site.rules(origin, now_ms).is_some());
    assert!(site.rules(origin, now_ms + ROBOTS_LIFETIME_MS).is_none());
}

#[test]
fn a_frozen_site_is_the_same_in_new_hands() {
    let mut site = Site::new("a.example");
    push(&mut site, "http://a.example/1");
    site.seen.insert(17);
    site.count_query(4);
    site.pace.failures = 3;
    site.set_rules("http://a.example", Robots::disallow_all(), 5);
    let moved = Site::thaw(&site.freeze().unwrap()).unwrap();
    assert_eq!(moved.generation(), 1);
    assert_eq!(moved.queue, site.queue);
    assert!(moved.seen.contains(17) && !moved.seen.contains(18));
    assert_eq!((moved.queries_of(4), moved.pace.failures), (1, 3));
    assert!(!moved.rules("http://a.example", 6).unwrap().is_allowed("/x"));
}

#[test]
fn two_records_of_one_site_become_one_and_nothing_is_queued_twice() {
    let fingerprint = |record: &UrlRecord| record.url.as_str().len() as u64;
    let url = |length: usize| format!("http://a.example/{}", "x".repeat(length));
    let site = |seen: &[usize], queued: &[usize]| {
        let mut site = Site::new("a.example");
        for &length in seen {
            site.seen.insert(url(length).len() as u64);
        }
        for &length in queued {
            push(&mut site, &url(length));
        }
        site
    };
    // Here 1 is done and 2, 3 wait; there 3 is done and 1, 2, 4 wait.
    let mut here = site(&[1, 2, 3], &[2, 3]);
    let united = here.unite(site(&[1, 2, 3, 4], &[1, 2, 4]), 0, fingerprint);
    let lengths = |jobs: &VecDeque<CrawlJob>| -> Vec<usize> {
        let length = |job: &CrawlJob| job.record.url.as_str().len() - url(0).len();
        jobs.iter().map(length).collect()
    };
    assert_eq!(lengths(&united.arrived), [2, 4], "to be fetched here, once");
    assert_eq!(
        lengths(&united.known),
        [2, 3],
        "no longer waiting on their own"
    );
    assert_eq!(here.queued(), 0);
}

#[test]
fn a_strange_record_is_refused() {
    assert!(matches!(Site::thaw(&[9, 9]), Err(SiteRecordError::Form(9))));
    assert!(matches!(Site::thaw(&[]), Err(SiteRecordError::Damaged(_))));
    assert!(matches!(
        Site::thaw(&[FORMAT, 200]),
        Err(SiteRecordError::Damaged(_))
    ));
    let mut site = Site::new("a.example");
    push(&mut site, "http://b.example/1");
    let bytes = site.freeze().unwrap();
    assert!(matches!(
        Site::thaw(&bytes),
        Err(SiteRecordError::ForeignUrl(_))
    ));
    let whole = Site::new("a.example").freeze().unwrap();
    for end in 1..whole.len() {
        assert!(Site::thaw(&whole[..end]).is_err(), "cut at {end}");
    }
}
