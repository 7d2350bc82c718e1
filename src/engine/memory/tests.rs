//! Many more sites than there is memory for, and a peer of which only the queues are real.

use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::thread;

use tempfile::TempDir;

use super::*;
use crate::blocklist::BlockList;
use crate::canonical::CanonicalForm;
use crate::counters::{Counters, ErrorKind};
use crate::crawl::{Crawl, CrawlDefinition, Crawls};
use crate::crawl_jobs::{Addresses, Lease, Site, Task};
use crate::fingerprint::url_fingerprint;
use crate::handing_on::Outbox;
use crate::ledger::{self, Keeper, Kept, Resumed};
use crate::limits::Limits;
use crate::preprocessor::{Admission, Candidate};
use crate::record::UrlRecord;
use crate::resolver::ResolveQueue;
use crate::robots::Robots;
use crate::seen_urls::{EXACT_LIMIT, SeenUrls};
use crate::store::DataFolder;

#[test]
fn what_is_shared_out_follows_what_the_process_takes() {
    let after = |looks: usize, resident_bytes, parts| {
        (0..looks).fold(parts, |parts, _| parts_after(parts, resident_bytes, 800))
    };
    assert_eq!(after(1, 751, WHOLE), WHOLE - 4);
    assert_eq!(after(100, 751, WHOLE), LEAST);
    assert_eq!(after(100, 700, LEAST), LEAST, "near the limit it stays");
    assert_eq!(after(1, 600, LEAST), LEAST + 1);
    assert_eq!(after(100, 600, LEAST), WHOLE);
    assert_eq!(after(100, 0, WHOLE), WHOLE, "where nobody can tell");
}

/// The queues of a peer on a data directory, with room for some 8,000 sites.
struct Peer {
    settings: Settings,
    clock: Clock,
    counters: Arc<Counters>,
    resolve: Arc<ResolveQueue>,
    jobs: Arc<CrawlJobs>,
    preprocessor: Arc<Preprocessor>,
    blocklist: Arc<BlockList>,
    ledger: Arc<Ledger>,
    crawl: Arc<Crawl>,
    budget: MemoryBudget,
    keeper: thread::JoinHandle<()>,
    stop_keeper: crossbeam_channel::Sender<std::convert::Infallible>,
}

impl Peer {
    /// Goes on with what is in the folder, if there is anything.
    fn open(folder: &Path) -> Self {
        let mut settings = Settings::default();
        settings.memory.limit_bytes = 160 << 20;
        let data = Arc::new(DataFolder::open(folder).unwrap());
        let (ledger, hands) = Ledger::keeping(Kept::open(data, "state", None).unwrap());
        let (clock, counters) = (Clock::start(), Arc::new(Counters::default()));
        let resolve = Arc::new(ResolveQueue::default());
        let gate = Limits::new(&settings.limits).gate.clone();
        let jobs = CrawlJobs::new(
            clock,
            counters.clone(),
            resolve.clone(),
            false,
            gate,
            ledger.clone(),
        );
        let jobs = Arc::new(jobs);
        let blocklist = Arc::new(BlockList::new(&settings.crawl, 0));
        let preprocessor = Arc::new(Preprocessor::new(
            &settings,
            jobs.clone(),
            counters.clone(),
            ledger.clone(),
            blocklist.clone(),
        ));
        let processor = ContentProcessor::new(600, clock, ledger.clone());
        let budget = MemoryBudget::new(
            &settings,
            jobs.clone(),
            preprocessor.clone(),
            processor,
            ledger.clone(),
            clock,
        );
        let (crawls, form) = (Crawls::new(ledger.clone()), CanonicalForm::new(&[]));
        ledger::resume(&Resumed {
            ledger: &ledger,
            crawls: &crawls,
            form: &form,
            counters: &counters,
            preprocessor: &preprocessor,
            outbox: &Outbox::new(
                settings.handing_on.clone(),
                counters.clone(),
                jobs.outstanding.clone(),
                ledger.clone(),
            ),
        });
        let (stop_keeper, stop) = crossbeam_channel::bounded(0);
        let keeper = Keeper {
            ledger: ledger.clone(),
            hands,
            jobs: jobs.clone(),
            counters: counters.clone(),
            clock,
            stop,
        };
        let definition = CrawlDefinition::from_settings(&settings.crawl);
        Self {
            crawl: crawls.add(definition, &form),
            settings,
            clock,
            counters,
            resolve,
            jobs,
            preprocessor,
            blocklist,
            ledger,
            budget,
            keeper: thread::spawn(|| keeper.run()),
            stop_keeper,
        }
    }

    fn close(self) {
        self.ledger.close();
        drop(self.stop_keeper);
        self.keeper.join().unwrap();
    }

    fn candidate(&self, host: &str, page: usize) -> Candidate {
        let url = CanonicalForm::new(&[]).parse(&format!("http://{host}/{page}"));
        let url = url.unwrap();
        Candidate {
            key: Key::of_host(host),
            fingerprint: url_fingerprint(url.as_str()),
            record: UrlRecord {
                url,
                crawl: self.crawl.id,
                depth: 1,
                redirects: 0,
                from: None,
            },
        }
    }

    fn knock(&self, host: &str, page: usize) -> Admission {
        let mut admission = None;
        let outcome = |what| admission = Some(what);
        let candidate = self.candidate(host, page);
        self.preprocessor.admit(&self.crawl, [candidate], outcome);
        admission.unwrap()
    }

    /// A host is met, and its site.
    fn meet(&self, host: &str) -> Arc<SiteCell> {
        assert_eq!(self.knock(host, 1), Admission::Queued);
        let mut sites = self.preprocessor.sites().into_iter();
        sites.find(|cell| cell.lock().site.host() == host).unwrap()
    }

    /// Everything that is here can leave.
    fn settle(&mut self) {
        self.budget.look();
        self.write();
    }

    /// Waits until the disk has everything up to now.
    fn write(&self) {
        let (sender, written) = crossbeam_channel::bounded(1);
        self.ledger.once_on_disk(move || sender.send(()).unwrap());
        written.recv().unwrap();
    }

    fn sites(&self) -> usize {
        self.preprocessor.sites().len()
    }

    /// Nothing takes more than its share.
    fn check(&self) {
        let (sites, urls) = (self.sites(), self.jobs.in_memory());
        assert!(
            sites <= self.budget.sites_bytes / SITE_BYTES,
            "{sites} sites"
        );
        assert!(urls <= self.budget.most_urls / 4 * 5, "{urls} URLs");
    }

    /// Looks until something is so.
    fn look_until(&mut self, what: &str, mut is_true: impl FnMut(&Self) -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !is_true(self) {
            assert!(Instant::now() < until, "waited in vain: {what}");
            self.budget.look();
            self.check();
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// All names lead to this machine.
fn resolve(queue: &ResolveQueue, jobs: &CrawlJobs) {
    while let Some(cell) = queue.take() {
        let mut state = cell.lock();
        if state.phase == Phase::Resolving {
            let addresses = Addresses {
                allowed: [IpAddr::V4(Ipv4Addr::LOCALHOST)].into(),
                is_public: false,
                resolved_ms: jobs.now_ms(),
            };
            jobs.resolved(&cell, &mut state, addresses);
        }
        drop(state);
        queue.done();
    }
}

/// Takes every URL that is handed out, and gives them back once there are no more.
fn fetch(jobs: &CrawlJobs) -> HashSet<String> {
    let mut fetched = HashSet::new();
    while let Some(lease) = jobs.lease() {
        fetch_one(jobs, lease, &mut fetched);
    }
    fetched
}

fn fetch_one(jobs: &CrawlJobs, lease: Lease, fetched: &mut HashSet<String>) {
    let cell = lease.cell.clone();
    assert!(jobs.bring(&cell).unwrap(), "all of a queue is on disk");
    let mut state = cell.lock();
    let (task, unfinished) = jobs.next_task(&mut state, |_| false, |_, _| {});
    match task {
        Task::Robots { origin } => {
            let now_ms = jobs.now_ms();
            state.site.set_rules(&origin, Robots::allow_all(), now_ms);
        }
        Task::Page(job) => {
            let url = job.record.url.as_str();
            assert!(fetched.insert(url.to_owned()), "{url} a second time");
        }
        Task::Nothing => {}
    }
    jobs.settle(lease, &mut state);
    drop((state, unfinished));
}

/// As many hosts as on the open web, and something waits for each of them: once, all of them
/// stayed in memory.
#[test]
fn many_sites_wait_on_disk_and_no_url_is_forgotten() {
    const HOSTS: usize = 50_000;
    const PAGES: usize = 6;
    let folder = TempDir::new().unwrap();
    let mut peer = Peer::open(folder.path());
    peer.jobs.set_paused(true);
    peer.resolve.set_paused(true);
    let host = |number: usize| format!("h{number}.example");
    for number in 0..HOSTS {
        for page in 0..PAGES {
            // What there is no room for comes again.
            peer.look_until("there is room", |peer| {
                peer.knock(&host(number), page) == Admission::Queued
            });
        }
        if number % 100 == 0 {
            peer.check();
        }
    }
    assert_eq!(peer.jobs.queued(), HOSTS * PAGES);
    peer.look_until("most are away", |peer| {
        peer.jobs.sites_away() > HOSTS * 3 / 4
    });
    for number in (0..HOSTS).step_by(1_000) {
        assert_eq!(peer.knock(&host(number), 0), Admission::Duplicate);
    }
    // Another run goes on with that, and has no more memory for it.
    peer.close();
    let mut peer = Peer::open(folder.path());
    assert_eq!(peer.jobs.outstanding.count() as usize, HOSTS * PAGES);
    assert_eq!(peer.sites(), 1_000, "a start looks few of them up");
    peer.check();
    let (jobs, queue) = (peer.jobs.clone(), peer.resolve.clone());
    let resolver = thread::spawn(move || resolve(&queue, &jobs));
    let jobs = peer.jobs.clone();
    let downloader = thread::spawn(move || fetch(&jobs));
    peer.look_until("all is done", |peer| peer.jobs.outstanding.count() == 0);
    peer.resolve.close();
    peer.jobs.close();
    resolver.join().unwrap();
    let fetched = downloader.join().unwrap();
    assert_eq!(fetched.len(), HOSTS * PAGES);
    assert_eq!((peer.jobs.queued(), peer.jobs.on_disk()), (0, 0));
    assert_eq!(peer.jobs.sites_away(), 0);
    peer.close();
}

#[test]
fn sites_that_are_away_can_move_and_be_blocked() {
    let folder = TempDir::new().unwrap();
    let mut peer = Peer::open(folder.path());
    for page in 0..3 {
        assert_eq!(peer.knock("a.example", page), Admission::Queued);
        assert_eq!(peer.knock("b.example", page), Admission::Queued);
    }
    let cells = peer.preprocessor.sites();
    assert!(!peer.preprocessor.put_away(&cells[0]), "not on disk yet");
    peer.budget.look();
    peer.write();
    // One of the names is being looked up.
    let taken = peer.resolve.take().unwrap();
    assert!(cells.iter().all(|cell| peer.preprocessor.put_away(cell)));
    peer.jobs.let_go();
    peer.resolve.done();
    assert_eq!(taken.lock().phase, Phase::Moved);
    assert!(peer.resolve.is_idle(), "the other waits there no more");
    peer.write();
    let counts = |peer: &Peer| {
        let (jobs, outstanding) = (&peer.jobs, peer.jobs.outstanding.count());
        let in_all = (jobs.queued(), jobs.on_disk(), outstanding);
        (peer.sites(), jobs.sites_away(), in_all)
    };
    assert_eq!(counts(&peer), (0, 2, (6, 6, 6)));
    let mut hosts = BTreeSet::new();
    let mut note = |host: &str| {
        hosts.insert(host.to_owned());
    };
    peer.preprocessor.for_each_host_on_disk(|_| true, &mut note);
    assert!(hosts.iter().eq(["a.example", "b.example"]), "{hosts:?}");
    // What was seen is known without bringing the site back, and what is new is not.
    assert_eq!(peer.knock("a.example", 0), Admission::Duplicate);
    assert_eq!(counts(&peer), (0, 2, (6, 6, 6)));
    assert_eq!(peer.knock("a.example", 3), Admission::Queued);
    assert_eq!(counts(&peer), (1, 1, (7, 7, 7)));
    peer.write();
    // A fetch that has just ended, so that nobody waits for a name.
    peer.resolve.take().unwrap().lock().phase = Phase::Idle;
    let frozen = peer.preprocessor.freeze("a.example").unwrap().unwrap();
    assert_eq!(counts(&peer), (0, 1, (3, 3, 7)));
    peer.preprocessor.has_left(&frozen).unwrap();
    assert_eq!(counts(&peer), (0, 1, (3, 3, 3)));
    let frozen = crate::crawl_jobs::Site::thaw(&frozen.bytes).unwrap();
    assert_eq!(frozen.queued(), 4);
    let pattern = crate::blocklist::Pattern::parse("b.example").unwrap();
    peer.blocklist.block(pattern);
    assert!(peer.preprocessor.forget_blocked());
    let mut after = String::new();
    while !peer.preprocessor.forget_blocked_on_disk(&mut after) {}
    assert_eq!(counts(&peer), (0, 0, (0, 0, 0)));
    peer.close();
}

/// A host that is given up stayed in memory for ever, and every dead name is given up.
#[test]
fn a_site_that_is_given_up_leaves_and_is_still_given_up_when_it_comes_back() {
    let folder = TempDir::new().unwrap();
    let mut peer = Peer::open(folder.path());
    // So little that everything must leave that nobody needs.
    peer.budget.sites_bytes = SITE_BYTES;
    let leave = |peer: &mut Peer| {
        let until = Instant::now() + Duration::from_secs(60);
        while peer.sites() > 0 {
            assert!(Instant::now() < until, "it stays");
            peer.budget.look();
            thread::sleep(Duration::from_millis(5));
        }
        // Its record is on its way to the disk.
        peer.write();
    };
    assert_eq!(peer.knock("a.example", 1), Admission::Queued);
    let site = |peer: &Peer| peer.preprocessor.sites().pop().unwrap();
    let cell = site(&peer);
    let mut state = cell.lock();
    state.site.pace.failures = peer.settings.politeness.max_host_failures;
    peer.jobs.give_up(&mut state, ErrorKind::Dns);
    drop(state);
    for round in 1..3 {
        leave(&mut peer);
        assert_eq!(peer.knock("a.example", 2), Admission::Refused);
        assert_eq!(site(&peer).lock().phase, Phase::GivenUp);
        assert_eq!(peer.counters.given_up.get(), 1 + round);
    }
    // A day later.
    site(&peer).lock().site.pace.next_fetch_ms = peer.clock.now_ms();
    leave(&mut peer);
    assert_eq!(peer.knock("a.example", 2), Admission::Queued);
    let failures = site(&peer).lock().site.pace.failures + 1;
    let most = peer.settings.politeness.max_host_failures;
    assert_eq!(failures, most, "one more try");
    peer.close();
}

/// A site whose delay is long began it anew whenever it came back, and was never fetched; and
/// hosts that had never been visited were always before those that had.
#[test]
fn sites_come_back_when_they_are_due_and_in_the_order_in_which_they_left() {
    let folder = TempDir::new().unwrap();
    let mut peer = Peer::open(folder.path());
    let (slow, visited, new) = ("slow.example", "visited.example", "new.example");
    let cells = [slow, visited, new].map(|host| peer.meet(host));
    let due_ms = peer.clock.now_ms() + 15_000;
    let pace_of = |cell: &SiteCell, delay_ms, next_fetch_ms| {
        let pace = &mut cell.lock().site.pace;
        (pace.delay_ms, pace.next_fetch_ms) = (delay_ms, next_fetch_ms);
    };
    pace_of(&cells[0], 30_000, due_ms);
    pace_of(&cells[1], 1_000, peer.clock.now_ms());
    peer.settle();
    for cell in &cells {
        let since_ms = peer.clock.now_ms();
        while peer.clock.now_ms() == since_ms {
            thread::yield_now();
        }
        assert!(peer.preprocessor.put_away(cell));
    }
    let order = [visited, new, slow].map(Key::of_host);
    assert_eq!(peer.jobs.due_away(Millis::MAX, 9), order);
    peer.jobs.let_go();
    peer.write();
    let back = peer.preprocessor.bring_back(Key::of_host(slow)).unwrap();
    let pace = back.lock().site.pace.clone();
    assert_eq!((pace.delay_ms, pace.next_fetch_ms), (30_000, due_ms));
    peer.close();
}

/// Sites that have seen very much were never thinned out: some hundreds of them would have
/// taken more than all sites may.
#[test]
fn sites_with_layers_are_thinned_out_too_and_forget_nothing() {
    let folder = TempDir::new().unwrap();
    let mut peer = Peer::open(folder.path());
    let hosts = ["a.example", "b.example", "c.example", "d.example"];
    let cells = hosts.map(|host| peer.meet(host));
    for cell in &cells {
        let mut state = cell.lock();
        for url in 0..=EXACT_LIMIT as u64 {
            let fingerprint = url.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            state.site.seen.insert(fingerprint);
        }
        assert!(!state.site.seen.is_exact());
    }
    peer.budget.sites_bytes = 200_000;
    let taken = || {
        cells
            .iter()
            .map(|cell| bytes_of(&cell.lock()))
            .sum::<usize>()
    };
    let before = taken();
    let lost: f64 = cells.iter().map(|cell| cell.lock().expected_losses()).sum();
    peer.look_until("they take less", |_| taken() < before / 10);
    let still = cells.iter().map(|cell| cell.lock().expected_losses());
    let told = *peer.counters.losses_forgotten.lock() + still.sum::<f64>();
    assert!(
        lost > 0.0 && told >= lost * 0.999,
        "{told}, {lost} were lost"
    );
    for host in hosts {
        assert_eq!(peer.knock(host, 1), Admission::Duplicate, "it is on disk");
        assert_eq!(peer.knock(host, 2), Admission::Queued);
    }
    peer.close();
}

/// So many sites once stayed whatever they knew: long robots rules filled all memory.
#[test]
fn fewer_sites_stay_where_each_knows_much() {
    const HOSTS: usize = 300;
    let folder = TempDir::new().unwrap();
    let mut peer = Peer::open(folder.path());
    let lines = (0..4_000).map(|number| format!("Disallow: /a/path/of/some/length/{number}\n"));
    let rules = format!("User-agent: *\n{}", lines.collect::<String>());
    let host = |number: usize| format!("h{number}.example");
    for number in 0..HOSTS {
        let cell = peer.meet(&host(number));
        let mut state = cell.lock();
        let origin = format!("http://{}", host(number));
        let rules = Robots::parse(rules.as_bytes(), "peercrawl");
        state.site.set_rules(&origin, rules, peer.clock.now_ms());
    }
    let taken = |peer: &Peer| -> usize {
        let sites = peer.preprocessor.sites();
        sites.iter().map(|cell| bytes_of(&cell.lock())).sum()
    };
    let most = peer.budget.sites_bytes * MOST_SHARES;
    assert!(taken(&peer) > most, "{} of {most}", taken(&peer));
    peer.look_until("fewer stay", |peer| taken(peer) <= most);
    assert!(peer.sites() >= FEWEST_SITES, "{} sites", peer.sites());
    for number in 0..HOSTS {
        assert_eq!(peer.knock(&host(number), 1), Admission::Duplicate);
    }
    peer.close();
}

/// The bound was a count of URLs, and some have two thousand letters.
#[test]
fn fewer_urls_wait_in_memory_if_they_are_long() {
    let folder = TempDir::new().unwrap();
    let mut peer = Peer::open(folder.path());
    peer.meet("a.example");
    peer.budget.look();
    let usual = peer.budget.most_urls;
    let long = format!("http://b.example/{}", "x".repeat(1_900));
    let url = CanonicalForm::new(&[]).parse(&long).unwrap();
    let mut candidate = peer.candidate("b.example", 1);
    candidate.fingerprint = url_fingerprint(url.as_str());
    candidate.record.url = url;
    peer.preprocessor.admit(&peer.crawl, [candidate], |what| {
        assert_eq!(what, Admission::Queued);
    });
    peer.budget.look();
    let fewer = peer.budget.most_urls;
    assert!(fewer < usual / 3, "{fewer}, {usual} as usual");
    peer.close();
}

/// By its record a host is found that is to move, or is blocked, before it was ever visited.
#[test]
fn what_has_a_queue_on_disk_has_a_record() {
    let folder = TempDir::new().unwrap();
    let peer = Peer::open(folder.path());
    peer.meet("a.example");
    peer.write();
    let store = peer.ledger.store().unwrap();
    assert!(store.site("a.example").unwrap().is_some());
    peer.close();
}

/// The second of two arrivals once replaced what the first had seen, on disk.
#[test]
fn layers_that_arrive_one_after_the_other_are_kept_together() {
    let folder = TempDir::new().unwrap();
    let peer = Peer::open(folder.path());
    let fingerprint = |url: u64| url.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let firsts = [0, 1 << 32];
    for first in firsts {
        let mut site = Site::new("a.example");
        let urls = first..=first + EXACT_LIMIT as u64;
        urls.for_each(|url| {
            site.seen.insert(fingerprint(url));
        });
        assert!(!site.seen.is_exact());
        let record = site.freeze().unwrap();
        peer.preprocessor.thaw(&record).unwrap();
    }
    peer.write();
    let store = peer.ledger.store().unwrap();
    let bytes = store.seen_elsewhere("a.example").unwrap().unwrap();
    let seen = SeenUrls::from_bytes(&bytes).unwrap();
    assert!(firsts.iter().all(|&url| seen.contains(fingerprint(url))));
    peer.close();
}

/// A later run gave numbers again that URLs on disk still had.
#[test]
fn a_later_run_goes_on_counting() {
    let folder = TempDir::new().unwrap();
    let peer = Peer::open(folder.path());
    for page in 0..5 {
        assert_eq!(peer.knock("a.example", page), Admission::Queued);
    }
    peer.close();
    let peer = Peer::open(folder.path());
    assert_eq!(peer.ledger.next_number(), 5);
    peer.close();
}

/// Between the look whether there is room and the taking of it, somebody else took it.
#[test]
fn what_this_peer_has_met_itself_waits_for_room() {
    let folder = TempDir::new().unwrap();
    let mut peer = Peer::open(folder.path());
    let cell = peer.meet("a.example");
    peer.settle();
    peer.preprocessor.set_room(1);
    assert_eq!(peer.knock("b.example", 1), Admission::NoRoom);
    let (preprocessor, crawl) = (peer.preprocessor.clone(), peer.crawl.clone());
    let candidate = peer.candidate("b.example", 1);
    let waiting = thread::spawn(move || preprocessor.admit_own(&crawl, [candidate]));
    assert!(peer.preprocessor.put_away(&cell));
    waiting.join().unwrap();
    assert_eq!(peer.knock("b.example", 1), Admission::Duplicate);
    assert_eq!((peer.sites(), peer.jobs.queued()), (1, 2));
    peer.close();
}
