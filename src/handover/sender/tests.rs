//! The handover of a peer, one round after another.

use super::super::delivery::{DEADLINE, PART_DEADLINE};
use super::*;
use crate::blocklist::BlockList;
use crate::canonical::CanonicalForm;
use crate::clock::Clock;
use crate::config::Settings;
use crate::crawl::{Crawl, CrawlDefinition};
use crate::crawl_jobs::{CrawlJobs, Phase, Site};
use crate::fingerprint::url_fingerprint;
use crate::handing_on::Outbox;
use crate::ledger::{Keeper, Kept, Ledger};
use crate::limits::Limits;
use crate::message::Message;
use crate::preprocessor::Candidate;
use crate::record::UrlRecord;
use crate::store::DataFolder;
use crate::url_range_validator::UrlRangeValidator;
use peercrawl_overlay::Event;
use peercrawl_overlay::memory::{MemoryNetwork, MemoryOverlay};
use std::collections::VecDeque;
use tempfile::TempDir;

/// A round that lasts until everybody has answered, or is late.
const PATIENT: Duration = Duration::from_secs(120);

/// A member with a part of the web.
fn member(network: &MemoryNetwork, number: u8) -> MemoryOverlay {
    let overlay = network.join(PeerId::repeat(number));
    let facts = ((16_u8, 1_u16), None::<u32>, [0_u16; 3]);
    overlay.announce(postcard::to_stdvec(&facts).unwrap().into());
    overlay
}

/// Takes all that a member is sent, until it is welcomed; gives the number of sites.
fn take_until_welcomed(member: &MemoryOverlay) -> usize {
    refuse_until_welcomed(member, &mut HashMap::new())
}

/// The same, but refuses some hosts so many times.
fn refuse_until_welcomed(member: &MemoryOverlay, refused: &mut HashMap<String, usize>) -> usize {
    let mut sites = 0;
    loop {
        let event = member.events().recv_timeout(Duration::from_secs(120));
        let Event::Request { bytes, replier, .. } = event.unwrap() else {
            continue;
        };
        let message = Message::decode(&bytes).unwrap();
        let times = match &message {
            Message::Site(part) => refused.get_mut(Site::host_of(&part.bytes).unwrap_or_default()),
            _ => None,
        };
        let is_taken = match times {
            Some(times) if *times > 0 => {
                *times -= 1;
                false
            }
            _ => true,
        };
        replier.answer(Message::Taken(is_taken).encode().unwrap());
        match message {
            Message::Site(_) => sites += usize::from(is_taken),
            Message::Welcome(_) => return sites,
            _ => {}
        }
    }
}

/// A peer whose handover is done by hand.
struct Home {
    sender: HandoverSender,
    jobs: Arc<CrawlJobs>,
    crawl: Arc<Crawl>,
}

impl Home {
    fn new(network: &MemoryNetwork) -> Self {
        Self::with(network, &Ledger::nothing())
    }

    /// One that tells this ledger what it does.
    fn with(network: &MemoryNetwork, ledger: &Arc<Ledger>) -> Self {
        let settings = Settings::default();
        let overlay: Arc<dyn Overlay> = Arc::new(member(network, 1));
        let view = Arc::new(View::new(overlay.clone(), &settings.distribution));
        let jobs = Arc::new(CrawlJobs::new(
            Clock::start(),
            Arc::default(),
            Arc::default(),
            false,
            Limits::new(&settings.limits).gate.clone(),
            ledger.clone(),
        ));
        let preprocessor = Arc::new(Preprocessor::new(
            &settings,
            jobs.clone(),
            Arc::default(),
            ledger.clone(),
            Arc::new(BlockList::new(&settings.crawl, 0)),
        ));
        let outbox = Outbox::new(
            settings.handing_on.clone(),
            Arc::default(),
            jobs.outstanding.clone(),
            ledger.clone(),
        );
        let range = UrlRangeValidator {
            view: view.clone(),
            preprocessor: preprocessor.clone(),
            outbox: Arc::new(outbox),
            allow_private: false,
            counters: Arc::default(),
        };
        let (crawls, form) = (Arc::new(Crawls::default()), CanonicalForm::new(&[]));
        let definition = CrawlDefinition::from_settings(&settings.crawl);
        let crawl = crawls.add(definition, &form);
        let arrivals = Arrivals::new(
            jobs.clone(),
            Arc::new(range),
            crawls.clone(),
            Arc::new(form),
            settings.memory.limit_bytes,
            Offer::first(16),
        );
        let sender = HandoverSender {
            overlay,
            view,
            keeps_to_itself: Arc::default(),
            preprocessor,
            crawls,
            arrivals: Arc::new(arrivals),
            dialer: Dialer::new(&settings, Limits::new(&settings.limits)),
            most_bytes: settings.memory.limit_bytes / 16,
            changed: never(),
            stop: never(),
        };
        Self {
            sender,
            jobs,
            crawl,
        }
    }

    /// Hosts of these owners, so many of each, with one URL each. Their names are being
    /// looked up, which keeps nobody here.
    fn sites_of(&self, owners: &[PeerId], of_each: usize) -> Vec<String> {
        self.sender.view.refresh();
        let owner_of = |host: &str| self.sender.view.owner(Key::of_host(host));
        let mut hosts = Vec::new();
        for &owner in owners {
            let all = (0..).map(|number| format!("h{number}.example"));
            let its = all.filter(|host| owner_of(host) == Owner::Peer(owner));
            hosts.extend(its.take(of_each));
        }
        for host in &hosts {
            let url = CanonicalForm::new(&[]).parse(&format!("http://{host}/"));
            let url = url.unwrap();
            let candidate = Candidate {
                key: Key::of_host(host),
                fingerprint: url_fingerprint(url.as_str()),
                record: UrlRecord {
                    url,
                    crawl: self.crawl.definition.id(),
                    depth: 0,
                    redirects: 0,
                    from: None,
                },
            };
            let preprocessor = &self.sender.preprocessor;
            preprocessor.admit(&self.crawl, [candidate], |_| {});
        }
        hosts
    }

    /// Somebody is at work on this site, or nobody any more.
    fn set_phase(&self, host: &str, phase: Phase) {
        for cell in self.sender.preprocessor.sites() {
            let mut state = cell.lock();
            if state.site.host() == host {
                state.phase = phase;
            }
        }
    }
}

/// After months alone, millions of hosts are another's when somebody joins: all of their names
/// were once in memory together.
#[test]
fn of_very_many_sites_on_disk_few_are_named_and_all_of_them_move() {
    const SITES: usize = 700;
    let (network, folder) = (MemoryNetwork::new(), TempDir::new().unwrap());
    let data = Arc::new(DataFolder::open(folder.path()).unwrap());
    let (ledger, hands) = Ledger::keeping(Kept::open(data, "state", None).unwrap());
    let mut home = Home::with(&network, &ledger);
    let (stop, stopped) = crossbeam_channel::bounded(0);
    let keeper = Keeper {
        ledger: ledger.clone(),
        hands,
        jobs: home.jobs.clone(),
        counters: Arc::default(),
        clock: Clock::start(),
        stop: stopped,
    };
    let keeper = std::thread::spawn(|| keeper.run());
    home.sender.most_bytes = 200 * NAME_BYTES;
    let other = member(&network, 2);
    home.sites_of(&[other.me()], SITES);
    let (sender, written) = crossbeam_channel::bounded(1);
    ledger.once_on_disk(move || sender.send(()).unwrap());
    written.recv().unwrap();
    for cell in home.sender.preprocessor.sites() {
        cell.lock().is_touched = false;
        assert!(home.sender.preprocessor.put_away(&cell));
    }
    home.jobs.let_go();
    assert_eq!(home.jobs.sites_away(), SITES);
    let mut memory = Memory::new();
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| take_until_welcomed(&other));
        while !memory.welcomed.contains_key(&other.me()) {
            home.sender.round(&mut memory, PATIENT);
            assert!(memory.foreign.values().all(|named| named.len() <= 200));
        }
        assert_eq!(
            taken.join().unwrap(),
            SITES,
            "each once, before it is welcome"
        );
    });
    assert_eq!(home.jobs.outstanding.count(), 0);
    ledger.close();
    drop(stop);
    keeper.join().unwrap();
}

/// Each member that did not answer once cost ten seconds, in every round.
#[test]
fn silent_members_are_waited_for_together_and_then_left_alone() {
    let network = MemoryNetwork::new();
    let home = Home::new(&network);
    let silent: Vec<_> = (2..7).map(|number| member(&network, number)).collect();
    let other = member(&network, 7);
    let ids: Vec<_> = silent.iter().chain([&other]).map(|one| one.me()).collect();
    home.sites_of(&ids, 2);
    let mut memory = Memory::new();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| take_until_welcomed(&other));
        home.sender.round(&mut memory, PATIENT);
        assert_eq!(other.join().unwrap(), 2);
    });
    // In a row, they would take all of their time.
    assert!(begun.elapsed() < DEADLINE * silent.len() as u32);
    assert_eq!(memory.frozen.len(), 2 * silent.len());
    assert!(memory.welcomed.keys().eq([&other.me()]));
    assert!(memory.silent.is_due(&other.me(), 0));
    for one in &silent {
        assert!(!memory.silent.is_due(&one.me(), 0), "it is left alone");
        let events = one.events();
        let asked = events
            .try_iter()
            .filter(|event| matches!(event, Event::Request { .. }));
        assert_eq!(asked.count(), 1, "and asked nothing more");
    }
}

/// A fetch of a minute once held up every other site, and every welcome.
#[test]
fn a_site_that_is_at_work_moves_in_a_later_round_and_the_welcome_after_it() {
    let network = MemoryNetwork::new();
    let home = Home::new(&network);
    let other = member(&network, 2);
    let hosts = home.sites_of(&[other.me()], 2);
    home.set_phase(&hosts[1], Phase::Leased);
    let mut memory = Memory::new();
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| take_until_welcomed(&other));
        assert_eq!(home.sender.round(&mut memory, PATIENT), RoundEnd::GoesOn);
        assert!(memory.welcomed.is_empty(), "there is something to come");
        let left = home.sender.preprocessor.sites();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].lock().site.host(), hosts[1]);
        assert!(memory.frozen.is_empty(), "the other has left");
        home.set_phase(&hosts[1], Phase::Waiting);
        home.sender.round(&mut memory, PATIENT);
        assert_eq!(taken.join().unwrap(), 2);
    });
    assert!(memory.welcomed.contains_key(&other.me()));
    assert_eq!(home.jobs.outstanding.count(), 0);
}

/// One site that its owner refused once kept all of the others here for ever.
#[test]
fn a_refused_site_is_in_no_other_sites_way() {
    let network = MemoryNetwork::new();
    let home = Home::new(&network);
    let other = member(&network, 2);
    let hosts = home.sites_of(&[other.me()], 40);
    let mut memory = Memory::new();
    let mut refused = HashMap::from([(hosts[0].clone(), 2)]);
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| refuse_until_welcomed(&other, &mut refused));
        assert_eq!(home.sender.round(&mut memory, PATIENT), RoundEnd::GoesOn);
        assert_eq!(memory.frozen.len(), 1, "the others have left");
        assert_eq!(memory.frozen[0].site.host(), hosts[0]);
        assert!(memory.welcomed.is_empty(), "there is something to come");
        assert!(!memory.is_left_alone(&other.me()), "it has answered");
        assert_eq!(home.sender.round(&mut memory, PATIENT), RoundEnd::Stuck);
        home.sender.round(&mut memory, PATIENT);
        assert_eq!(taken.join().unwrap(), 40);
    });
    assert!(memory.welcomed.contains_key(&other.me()));
    assert_eq!(home.jobs.outstanding.count(), 0);
}

/// Sixteen records at once over a line too slow for them were sent again for ever.
#[test]
fn whoever_was_silent_about_a_site_gets_one_at_a_time() {
    let network = MemoryNetwork::new();
    let home = Home::new(&network);
    let other = member(&network, 2);
    home.sites_of(&[other.me()], 5);
    let mut memory = Memory::new();
    memory.slow.insert(other.me(), 0);
    std::thread::scope(|scope| {
        let one_by_one = scope.spawn(|| {
            let mut sites = 0;
            loop {
                let event = other.events().recv_timeout(Duration::from_secs(60));
                let Event::Request { bytes, replier, .. } = event.unwrap() else {
                    continue;
                };
                let more = other.events().recv_timeout(Duration::from_millis(50));
                assert!(!matches!(more, Ok(Event::Request { .. })), "one at a time");
                replier.answer(Message::Taken(true).encode().unwrap());
                match Message::decode(&bytes).unwrap() {
                    Message::Site(_) => sites += 1,
                    Message::Welcome(_) => return sites,
                    _ => {}
                }
            }
        });
        while !memory.welcomed.contains_key(&other.me()) {
            home.sender.round(&mut memory, PATIENT);
        }
        assert_eq!(one_by_one.join().unwrap(), 5);
    });
    assert_eq!(memory.slow.get(&other.me()), Some(&5));
}

/// Whoever was silent once got one site at a time for as long as it was a member.
#[test]
fn whoever_has_taken_some_in_a_row_is_not_slow_any_more() {
    let network = MemoryNetwork::new();
    let home = Home::new(&network);
    let other = member(&network, 2);
    home.sites_of(&[other.me()], TAKEN_IN_A_ROW as usize);
    let mut memory = Memory::new();
    memory.slow.insert(other.me(), 0);
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| take_until_welcomed(&other));
        home.sender.round(&mut memory, PATIENT);
        assert_eq!(taken.join().unwrap(), TAKEN_IN_A_ROW as usize);
    });
    assert!(memory.slow.is_empty());
}

/// One peer on a slow line once kept all newcomers waiting until it had got all of its sites:
/// their patience ended, and pages were fetched twice.
#[test]
fn a_newcomer_is_welcomed_while_another_peer_takes_its_time() {
    const SITES: usize = 100;
    let network = MemoryNetwork::new();
    let home = Home::new(&network);
    let slow = member(&network, 2);
    home.sites_of(&[slow.me()], SITES);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let rounds = scope.spawn(|| {
            let mut memory = Memory::new();
            while !is_over.load(Relaxed) {
                home.sender.round(&mut memory, ROUND);
            }
            memory
        });
        let (begun, has_begun) = crossbeam_channel::bounded(1);
        let one_second_each = scope.spawn(|| {
            let begun = begun;
            let mut asked = VecDeque::new();
            let mut sites = 0;
            while !is_over.load(Relaxed) {
                let event = slow.events().recv_timeout(Duration::from_millis(20));
                if let Ok(Event::Request { bytes, replier, .. }) = event {
                    let delay = match Message::decode(&bytes).unwrap() {
                        Message::Site(_) => {
                            sites += 1;
                            let _known = begun.try_send(());
                            Duration::from_secs(1)
                        }
                        _ => Duration::ZERO,
                    };
                    asked.push_back((Instant::now() + delay, replier));
                }
                while asked.front().is_some_and(|(at, _)| *at <= Instant::now()) {
                    let (_, replier) = asked.pop_front().unwrap();
                    replier.answer(Message::Taken(true).encode().unwrap());
                }
            }
            sites
        });
        has_begun.recv().unwrap();
        let newcomer = member(&network, 3);
        let joined = Instant::now();
        home.sites_of(&[newcomer.me()], 2);
        let taken = take_until_welcomed(&newcomer);
        let took = joined.elapsed();
        is_over.store(true, Relaxed);
        let memory = rounds.join().unwrap();
        assert!(one_second_each.join().unwrap() < SITES, "it is not done");
        assert!(taken >= 2, "{taken}");
        assert!(took < Duration::from_secs(3), "{took:?}");
        assert!(!memory.welcomed.contains_key(&slow.me()));
        assert!(!memory.is_left_alone(&slow.me()), "it has answered in time");
    });
}

/// It would be asked again and again, as fast as it refuses.
#[test]
fn whoever_refuses_its_welcome_is_welcomed_again_in_the_next_round() {
    let network = MemoryNetwork::new();
    let home = Home::new(&network);
    let other = member(&network, 2);
    let mut memory = Memory::new();
    std::thread::scope(|scope| {
        let refusing = scope.spawn(|| {
            let mut welcomes = 0;
            while welcomes < 2 {
                let event = other.events().recv_timeout(Duration::from_secs(60));
                if let Event::Request { replier, .. } = event.unwrap() {
                    welcomes += 1;
                    replier.answer(Message::Taken(welcomes == 2).encode().unwrap());
                }
            }
        });
        assert_eq!(home.sender.round(&mut memory, PATIENT), RoundEnd::Stuck);
        assert!(memory.welcomed.is_empty());
        home.sender.round(&mut memory, PATIENT);
        refusing.join().unwrap();
    });
    assert!(memory.welcomed.contains_key(&other.me()));
}

/// A round once waited for the last answer of each peer, however long that took.
#[test]
fn what_is_under_way_outlives_its_round() {
    let network = MemoryNetwork::new();
    let home = Home::new(&network);
    let other = member(&network, 2);
    home.sites_of(&[other.me()], 1);
    let mut memory = Memory::new();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let (answer, answers) = crossbeam_channel::bounded::<()>(0);
        let taken = scope.spawn(|| {
            let answers = answers;
            let mut asked = Vec::new();
            loop {
                let event = other.events().recv_timeout(Duration::from_secs(60));
                let Event::Request { bytes, replier, .. } = event.unwrap() else {
                    continue;
                };
                let message = Message::decode(&bytes).unwrap();
                if matches!(message, Message::Site(_)) {
                    // Held back until it is allowed.
                    let _allowed = answers.recv();
                }
                replier.answer(Message::Taken(true).encode().unwrap());
                asked.push(message);
                if matches!(asked.last(), Some(Message::Welcome(_))) {
                    return asked.len();
                }
            }
        });
        while memory.under_way.iter().all(|asked| asked.site().is_none()) {
            let end = home.sender.round(&mut memory, Duration::from_millis(10));
            assert_eq!(end, RoundEnd::GoesOn);
        }
        assert!(begun.elapsed() < PART_DEADLINE, "nobody waited for it");
        assert!(memory.welcomed.is_empty(), "its site is on its way");
        drop(answer);
        while memory.welcomed.is_empty() {
            home.sender.round(&mut memory, PATIENT);
        }
        assert_eq!(
            taken.join().unwrap(),
            3,
            "the crawl, the site once, the welcome"
        );
    });
    assert_eq!(home.jobs.outstanding.count(), 0);
}

/// A newcomer once pulled half of the disk into memory, before anything was sent.
#[test]
fn sites_are_taken_out_as_far_as_there_is_room_and_the_rest_in_later_rounds() {
    const SITES: usize = 50;
    let network = MemoryNetwork::new();
    let mut home = Home::new(&network);
    home.sender.most_bytes = 20 * LEAST_BYTES;
    let other = member(&network, 2);
    home.sites_of(&[other.me()], SITES);
    let mut memory = Memory::new();
    home.sender.view.refresh();
    let to_come = home.sender.freeze_foreign(&mut memory);
    assert!(to_come.contains(&other.me()));
    assert_eq!(memory.frozen.len(), 10, "half is left to others");
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| take_until_welcomed(&other));
        let mut rounds = 0;
        while !memory.welcomed.contains_key(&other.me()) {
            rounds += 1;
            let end = home.sender.round(&mut memory, PATIENT);
            assert!(end == RoundEnd::GoesOn || rounds >= SITES / 10, "{end:?}");
        }
        assert_eq!(taken.join().unwrap(), SITES);
    });
    assert!(memory.foreign.is_empty() && memory.frozen.is_empty());
}

/// A peer that came back was once left alone for what it had been before.
#[test]
fn a_peer_that_says_something_new_is_not_left_alone() {
    let (peer, offer) = (PeerId::repeat(2), Offer::first(4));
    let mut memory = Memory::new();
    for now in [Some(offer.next(4)), None] {
        memory.meet(&HashMap::from([(peer, offer)]));
        memory.was_silent(peer, Instant::now());
        memory.meet(&HashMap::from([(peer, offer)]));
        assert!(memory.is_left_alone(&peer));
        memory.meet(&now.map(|now| (peer, now)).into_iter().collect());
        assert!(!memory.is_left_alone(&peer));
    }
}
