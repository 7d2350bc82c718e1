//! The door: what is let in, and what a site knows that memory has forgotten.

use super::*;
use crate::canonical::CanonicalForm;
use crate::clock::Clock;
use crate::crawl::{CrawlDefinition, Crawls};
use crate::crawl_jobs::{OnDisk, SiteRecordError, Task, Unfinished};
use crate::fingerprint::url_fingerprint;
use crate::ledger::{Hands, Keeper, Kept};
use crate::resolver::ResolveQueue;

struct Door {
    preprocessor: Preprocessor,
    crawl: Arc<Crawl>,
    counters: Arc<Counters>,
    jobs: Arc<CrawlJobs>,
}

fn door(change: impl FnOnce(&mut config::Settings)) -> Door {
    door_with(change, Ledger::nothing())
}

fn door_with(change: impl FnOnce(&mut config::Settings), ledger: Arc<Ledger>) -> Door {
    let mut settings = config::Settings::default();
    change(&mut settings);
    let counters = Arc::new(Counters::default());
    let resolve = Arc::new(ResolveQueue::default());
    let gate = crate::limits::Limits::new(&settings.limits).gate.clone();
    let jobs = CrawlJobs::new(
        Clock::start(),
        counters.clone(),
        resolve,
        false,
        gate,
        ledger.clone(),
    );
    let jobs = Arc::new(jobs);
    let definition = CrawlDefinition::from_settings(&settings.crawl);
    let form = CanonicalForm::new(&[]);
    let blocklist = Arc::new(BlockList::new(&settings.crawl, 0));
    Door {
        preprocessor: Preprocessor::new(
            &settings,
            jobs.clone(),
            counters.clone(),
            ledger,
            blocklist,
        ),
        crawl: Crawls::default().add(definition, &form),
        counters,
        jobs,
    }
}

/// A door whose ledger is kept in a folder.
fn kept_door(folder: &std::path::Path) -> (Door, Arc<Ledger>, Hands) {
    let data = crate::store::DataFolder::open(folder).unwrap();
    let kept = Kept::open(Arc::new(data), "state", None).unwrap();
    let (ledger, hands) = Ledger::keeping(kept);
    (door_with(|_| {}, ledger.clone()), ledger, hands)
}

/// The thread that writes a ledger down, until it is closed and this is dropped.
fn write_down(
    door: &Door,
    ledger: &Arc<Ledger>,
    hands: Hands,
) -> (
    crossbeam_channel::Sender<std::convert::Infallible>,
    std::thread::JoinHandle<()>,
) {
    let (stop, stopped) = crossbeam_channel::bounded(0);
    let keeper = Keeper {
        ledger: ledger.clone(),
        hands,
        jobs: door.jobs.clone(),
        counters: door.counters.clone(),
        clock: Clock::start(),
        stop: stopped,
    };
    (stop, std::thread::spawn(|| keeper.run()))
}

impl Door {
    /// Takes the first page out of a site's queue. Its robots rules allow everything.
    fn begin_page(&self, cell: &SiteCell) -> Unfinished {
        let next_task = || {
            let mut state = cell.lock();
            self.jobs.next_task(&mut state, |_| false, |_, _| {})
        };
        if let (Task::Robots { origin }, _) = next_task() {
            let rules = crate::robots::Robots::allow_all();
            let now_ms = self.jobs.now_ms();
            cell.lock().site.set_rules(&origin, rules, now_ms);
        }
        let (task, unfinished) = next_task();
        assert!(matches!(task, Task::Page(_)));
        unfinished.unwrap()
    }

    fn knock(&self, url: &str) -> Admission {
        self.knock_at(url, 1)
    }

    /// The same, so many links from a seed.
    fn knock_at(&self, url: &str, depth: u16) -> Admission {
        let candidate = self.candidate(url, depth);
        let mut admission = None;
        self.preprocessor
            .admit(&self.crawl, [candidate], |a| admission = Some(a));
        admission.unwrap()
    }

    fn candidate(&self, url: &str, depth: u16) -> Candidate {
        let url = CanonicalForm::new(&[]).parse(url).unwrap();
        Candidate {
            key: Key::of_host(url.host()),
            fingerprint: url_fingerprint(url.as_str()),
            record: UrlRecord {
                url,
                crawl: self.crawl.id,
                depth,
                redirects: 0,
                from: None,
            },
        }
    }

    /// Nothing waits for a host any more.
    fn drain(&self, host: &str) {
        let cell = self.preprocessor.classifier.find(host).unwrap();
        self.jobs.drain(&mut cell.lock());
    }
}

#[test]
fn endless_queries_on_one_path_are_a_trap() {
    let door = door(|settings| settings.crawl.max_queries_per_path = 3);
    for number in 0..3 {
        let url = format!("http://a.example/list?page={number}");
        assert_eq!(door.knock(&url), Admission::Queued);
    }
    assert_eq!(
        door.knock("http://a.example/list?page=3"),
        Admission::Refused
    );
    assert_eq!(door.counters.trap(Trap::QueryVariations).get(), 1);
    assert_eq!(
        door.knock("http://a.example/list?page=1"),
        Admission::Duplicate
    );
    assert_eq!(
        door.knock("http://a.example/list"),
        Admission::Queued,
        "no query"
    );
    assert_eq!(
        door.knock("http://a.example/other?page=3"),
        Admission::Queued
    );
    assert_eq!(
        door.knock("http://b.example/list?page=3"),
        Admission::Queued
    );
}

/// Sites that arrived once passed every bound, and the block list.
#[test]
fn a_site_that_arrives_passes_the_same_bounds() {
    let door = door(|settings| {
        settings.queues.site_urls = 3;
        settings.queues.total_urls = 8;
        settings.queues.refuse_percent = 100;
        settings.crawl.blocked_sites = vec!["blocked.example".into()];
    });
    let take_in = |host: &str, paths: std::ops::Range<usize>| {
        let mut site = crate::crawl_jobs::Site::new(host);
        for path in paths {
            let url = format!("http://{host}/{path}");
            let record = UrlRecord {
                url: CanonicalForm::new(&[]).parse(&url).unwrap(),
                crawl: door.crawl.definition.id(),
                depth: 1,
                redirects: 0,
                from: None,
            };
            // Twice, and some are not noted as seen, as they would be in an honest record.
            if path > 1 {
                site.seen.insert(url_fingerprint(&url));
            }
            for record in [record.clone(), record] {
                let job = site.number(record);
                site.push(job, false);
            }
        }
        let crawls = [(door.crawl.definition.id(), door.crawl.clone())];
        door.preprocessor.take_in(site, &crawls.into())
    };
    take_in("blocked.example", 0..2).unwrap();
    assert_eq!(
        (door.jobs.queued(), door.counters.blocked_list.get()),
        (0, 4)
    );
    take_in("a.example", 0..2).unwrap();
    assert_eq!(door.jobs.queued(), 2, "each once");
    assert_eq!(door.knock("http://a.example/1"), Admission::Duplicate);
    take_in("a.example", 2..4).unwrap();
    assert!(
        take_in("a.example", 4..5).is_err(),
        "no room in its queue now"
    );
    assert_eq!(door.jobs.queued(), 4);
    take_in("b.example", 0..5).unwrap();
    assert_eq!(
        door.jobs.queued(),
        7,
        "no queue has room for more than three"
    );
    assert_eq!(door.counters.refused_overflow.get(), 2);
    door.drain("b.example");
    assert_eq!(door.knock("http://b.example/2"), Admission::Duplicate);
    for path in 3..5 {
        // They once counted as seen for ever.
        let url = format!("http://b.example/{path}");
        assert_eq!(door.knock(&url), Admission::Queued, "it was left out");
    }
    assert_eq!(door.knock("http://b.example/5"), Admission::Queued);
    assert!(
        take_in("c.example", 0..2).is_err(),
        "no room in all queues now"
    );
    assert_eq!(door.jobs.queued(), 7);
}

/// Widening a scope once started nothing, because the seeds were seen.
#[test]
fn a_crawl_under_other_rules_begins_again_once() {
    const SEED: &str = "http://a.example/?seed";
    const LINK: &str = "http://a.example/link";
    let mut door = door(|settings| settings.crawl.max_pages_per_site = 2);
    let (crawls, form) = (Crawls::default(), CanonicalForm::new(&[]));
    let mut definition = door.crawl.definition.clone();
    definition.seeds = vec![SEED.into()];
    door.crawl = crawls.add(definition.clone(), &form);
    assert_eq!(door.knock_at(SEED, 0), Admission::Queued);
    assert_eq!(door.knock(LINK), Admission::Queued);
    definition.scope = config::Scope::Host;
    door.crawl = crawls.add(definition.clone(), &form);
    assert_eq!(door.knock_at(SEED, 0), Admission::Duplicate, "it waits");
    door.drain("a.example");
    assert_eq!(door.knock(LINK), Admission::Duplicate);
    assert_eq!(door.knock(SEED), Admission::Duplicate, "a link to it");
    let again = door.knock_at(SEED, 0);
    assert_eq!(again, Admission::Queued, "it was counted the first time");
    door.drain("a.example");
    assert_eq!(door.knock_at(SEED, 0), Admission::Duplicate, "once");
    // With one more seed and the same rules, it begins with that one alone.
    definition.seeds.push(LINK.into());
    door.crawl = crawls.add(definition, &form);
    assert_eq!(door.knock_at(SEED, 0), Admission::Duplicate);
    assert_eq!(door.knock_at(LINK, 0), Admission::Queued);
}

#[test]
fn what_is_turned_away_for_lack_of_room_can_come_again() {
    let door = door(|settings| {
        settings.queues.site_urls = 1;
        settings.queues.sites = 2;
    });
    assert_eq!(door.knock("http://a.example/1"), Admission::Queued);
    assert_eq!(door.knock("http://a.example/2"), Admission::NoRoom);
    assert_eq!(door.knock("http://b.example/"), Admission::Queued);
    assert_eq!(
        door.knock("http://c.example/"),
        Admission::NoRoom,
        "too many sites"
    );
    assert_eq!(door.counters.refused_overflow.get(), 2);
    door.drain("a.example");
    assert_eq!(door.knock("http://a.example/2"), Admission::Queued);
    assert_eq!(door.knock("http://a.example/1"), Admission::Duplicate);
}

/// A site that was put away or thinned out knows what it has seen, from disk.
#[test]
fn what_memory_has_forgotten_the_disk_knows() {
    let folder = tempfile::TempDir::new().unwrap();
    let (door, ledger, hands) = kept_door(folder.path());
    let (stop, keeper) = write_down(&door, &ledger, hands);
    let url = |number: u32| format!("http://a.example/{number}");
    let find = || door.preprocessor.classifier.find("a.example").unwrap();
    for number in 0..200 {
        assert_eq!(door.knock(&url(number)), Admission::Queued);
    }
    let last = url_fingerprint(&url(199));
    let store = ledger.store().unwrap();
    while !store.is_seen(Key::of_host("a.example"), last).unwrap() {
        std::thread::yield_now();
    }
    for round in 0..3 {
        _ = find().lock().thin();
        door.preprocessor.set_roomy(round == 2);
        assert_eq!(door.knock(&url(200 + round)), Admission::Queued);
        for number in 0..200 {
            assert_eq!(door.knock(&url(number)), Admission::Duplicate, "{number}");
        }
        assert_eq!(find().lock().is_whole, round == 2);
    }
    // Put away, once nothing waits for it and all of it is written.
    let cell = find();
    let mut state = cell.lock();
    door.jobs.drain(&mut state);
    state.phase = Phase::Idle;
    state.site.pace.failures = 2;
    state.is_touched = false;
    drop(state);
    let last = url_fingerprint(&url(202));
    while !store.is_seen(Key::of_host("a.example"), last).unwrap() {
        std::thread::yield_now();
    }
    assert!(door.preprocessor.put_away(&cell));
    assert!(door.preprocessor.classifier.find("a.example").is_none());
    // Its record is on its way to the disk.
    let (sender, is_written) = crossbeam_channel::bounded(1);
    ledger.once_on_disk(move || sender.send(()).unwrap());
    is_written.recv().unwrap();
    assert_eq!(door.knock(&url(202)), Admission::Duplicate);
    assert_eq!(door.knock(&url(203)), Admission::Queued);
    assert_eq!(find().lock().site.pace.failures, 2);
    drop(stop);
    keeper.join().unwrap();
}

#[test]
fn blocked_hosts_and_hosts_that_were_given_up_take_nothing() {
    let door = door(|settings| settings.crawl.blocked_sites = vec!["bad.example".into()]);
    assert_eq!(door.knock("http://www.bad.example/"), Admission::Refused);
    assert_eq!(door.counters.blocked_list.get(), 1);
    assert_eq!(door.knock("http://a.example/1"), Admission::Queued);
    let cell = door.preprocessor.classifier.find("a.example").unwrap();
    let kind = crate::counters::ErrorKind::Connect;
    door.jobs.give_up(&mut cell.lock(), kind);
    assert_eq!(door.knock("http://a.example/2"), Admission::Refused);
    assert_eq!(
        door.counters.given_up.get(),
        2,
        "the queued one and the new one"
    );
    assert_eq!(door.counters.error(kind).get(), 1);
    assert_eq!(door.jobs.outstanding.count(), 0);
    // A day later.
    cell.lock().site.pace.next_fetch_ms = 0;
    assert_eq!(door.knock("http://a.example/3"), Admission::Queued);
    let failures = cell.lock().site.pace.failures + 1;
    assert_eq!(
        failures, door.preprocessor.max_host_failures,
        "one more try"
    );
}

/// A page that waited for its verdict or its links when its site was handed over was lost if
/// this peer was killed before it was done.
#[test]
fn a_site_moves_when_nobody_is_at_work_on_its_pages() {
    let door = door(|_| {});
    assert_eq!(door.knock("http://a.example/1"), Admission::Queued);
    assert_eq!(door.knock("http://a.example/2"), Admission::Queued);
    let cell = door.preprocessor.classifier.find("a.example").unwrap();
    let unfinished = door.begin_page(&cell);
    let freeze = || door.preprocessor.freeze_at_once("a.example").unwrap();
    assert!(matches!(freeze(), Err(SiteRecordError::Busy(_))));
    assert!(!cell.has_left(), "it stays as it is");
    drop(unfinished);
    assert!(freeze().is_ok());
    assert_eq!(door.jobs.outstanding.count(), 1, "the one that goes along");
}

/// The first URL of a queue that could not be read once cost the site all of the others.
#[test]
fn what_cannot_be_read_of_a_queue_is_passed_over() {
    let folder = tempfile::TempDir::new().unwrap();
    let (door, ledger, _hands) = kept_door(folder.path());
    let key = Key::of_host("a.example");
    let url = CanonicalForm::new(&[]).parse("http://a.example/").unwrap();
    let mut site = crate::crawl_jobs::Site::new("a.example");
    let mut job = site.number(UrlRecord {
        url,
        crawl: door.crawl.id,
        depth: 1,
        redirects: 0,
        from: None,
    });
    let mut batch = crate::store::Batch::new();
    let damaged = 20;
    job.number = damaged;
    for number in 0..damaged {
        batch.queue_push(key, number, &[0xff]);
    }
    batch.queue_push(key, damaged, &postcard::to_stdvec(&job).unwrap());
    let store = ledger.store().unwrap();
    store.commit(&batch).unwrap();
    let queue = crate::crawl_jobs::AwayQueue {
        on_disk: OnDisk {
            urls: damaged as usize + 1,
            from: 0,
        },
        next_number: damaged + 1,
    };
    door.jobs.continue_queue(key, queue);
    let host = door.preprocessor.host_of_away(key);
    assert_eq!(host.as_deref(), Some("a.example"));
    let cell = door.preprocessor.bring_back(key).unwrap();
    door.jobs.set_memory_urls(0);
    assert!(door.jobs.bring(&cell).unwrap());
    assert_eq!(cell.lock().site.records().count(), 1);
    // With nothing that can be read, there is nothing to go on with.
    let other = Key::of_host("b.example");
    let mut batch = crate::store::Batch::new();
    batch.queue_push(other, 0, &[0xff]);
    store.commit(&batch).unwrap();
    let on_disk = OnDisk { urls: 1, from: 0 };
    let queue = crate::crawl_jobs::AwayQueue {
        on_disk,
        next_number: 1,
    };
    door.jobs.continue_queue(other, queue);
    assert!(door.preprocessor.bring_back(other).is_none());
    assert!(door.jobs.away(other).is_none());
}

/// When the engine ended while memory was short, links without room were turned away, and
/// their page was done: nobody met them again.
#[test]
fn a_page_whose_links_find_no_room_at_the_end_is_not_done() {
    let folder = tempfile::TempDir::new().unwrap();
    let (door, ledger, hands) = kept_door(folder.path());
    let (stop, keeper) = write_down(&door, &ledger, hands);
    assert_eq!(door.knock("http://a.example/"), Admission::Queued);
    let cell = door.preprocessor.classifier.find("a.example").unwrap();
    let unfinished = door.begin_page(&cell);
    door.preprocessor.set_room(1);
    door.jobs.close();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let link = door.candidate("http://b.example/", 1);
            door.preprocessor.admit_own(&door.crawl, [link]);
            drop(unfinished);
        });
        let begun = Instant::now();
        while begun.elapsed() < std::time::Duration::from_millis(300) {
            assert!(!reading.is_finished(), "its page would be done");
            std::thread::yield_now();
        }
        ledger.close();
    });
    drop(stop);
    keeper.join().unwrap();
    let store = ledger.store().unwrap();
    let queue = store.queue_segment(Key::of_host("a.example"), 0, 9);
    assert_eq!(queue.unwrap().len(), 1, "it is fetched again");
}

#[test]
fn a_site_that_moves_waits_for_no_name() {
    let door = door(|_| {});
    assert_eq!(door.knock("http://a.example/"), Admission::Queued);
    // Nobody looks the name up any more: a handover that waited for that never ended.
    door.jobs.close();
    assert!(door.preprocessor.freeze("a.example").unwrap().is_ok());
}
