//! The crawl behind the window, begun and changed while an engine is there.

use peercrawl::data_directory::DataDirectory;
use peercrawl::desktop::Opening;
use peercrawl_ui::Command;
use peercrawl_ui::command::{Begin, Screen};
use peercrawl_ui::model::{PauseReason, RunState, Setting, WaitReason};
use tempfile::TempDir;

use crate::crew::wait_until;
use crate::desktop::{App, Site, long_crawl, read_config};

const PAUSED: RunState = RunState::Paused(PauseReason::ByYou);

/// An app that has crawled this site for a while, and is paused.
fn paused(site: &Site) -> App {
    let mut app = App::open(long_crawl(site));
    app.send(Command::Start);
    app.wait("pages", |model| model.totals.ever.pages > 3);
    app.send(Command::Pause);
    app.wait("at rest, with more to do", |model| {
        model.state == PAUSED && model.fetching.is_empty() && model.rates.waiting_urls > 0
    });
    app
}

/// Where there was no room for a new host and none could be made, the desk waited for it
/// without end, and nobody could make room, pause or quit any more.
#[test]
fn the_desk_answers_while_web_sites_wait_for_room() {
    const LIMIT: u64 = 160_000;
    /// More hosts have no room in so little memory.
    const ROOM: usize = 4_000;
    let site = Site::start();
    let mut app = App::open(|opening| {
        long_crawl(&site)(opening);
        opening.settings.politeness.private_delay_ms = 5;
        opening.settings.memory.limit_bytes = 64 << 20;
        opening.settings.archive.limit_bytes = LIMIT;
        opening.settings.archive.file_bytes = LIMIT / 4;
    });
    app.send(Command::Start);
    let full = RunState::Paused(PauseReason::ArchiveFull);
    app.wait("a full archive", |model| model.state == full);
    let host = |number| format!("http://127.1.{}.{}:9/", number / 250, number % 250);
    let seeds: Vec<String> = (0..ROOM + 500).map(host).collect();
    app.send(Command::AddSeeds(seeds));
    app.wait("no room is left", |model| {
        model.crawl.seeds.len() > ROOM && model.rates.waiting_urls >= ROOM as u64 - 1
    });
    app.send(Command::Pause);
    app.wait("a pause", |model| model.state == PAUSED);
    app.send(Command::Change(Setting::MaxDepth(9_999)));
    app.send(Command::Change(Setting::DiskGb(1)));
    app.wait("a higher limit is room", |model| {
        model.archive.limit_bytes == 1_000_000_000 && !model.archive.full
    });
    app.quit();
}

#[test]
fn it_can_end_while_web_sites_wait_for_room() {
    let site = Site::start();
    let mut app = App::open(|opening| {
        long_crawl(&site)(opening);
        opening.settings.memory.limit_bytes = 64 << 20;
        opening.settings.archive.limit_bytes = 3_000;
    });
    app.send(Command::Start);
    let full = RunState::Paused(PauseReason::ArchiveFull);
    app.wait("a full archive", |model| model.state == full);
    let host = |number| format!("http://127.1.{}.{}:9/", number / 250, number % 250);
    app.send(Command::AddSeeds((0..4_500).map(host).collect()));
    app.wait("no room is left", |model| model.rates.waiting_urls > 3_900);
    app.quit();
}

/// The answer was written down, and nothing came of it.
#[test]
fn a_web_site_named_on_the_first_page_is_crawled_by_an_engine_that_is_there() {
    for is_finishing in [false, true] {
        let (first, second) = (Site::start(), Site::start());
        let mut app = paused(&first);
        app.send(Command::RemoveSeeds(vec![first.url.clone()]));
        if is_finishing {
            app.send(Command::FinishAndStop);
        }
        app.send(Command::Begin {
            settings: Vec::new(),
            with: Begin::Site(second.url.clone()),
        });
        wait_until("the second site", || second.requests() > 2);
        let model = app.wait("it goes on", |model| model.state == RunState::Crawling);
        assert_eq!(model.crawl.seeds, [second.url]);
        app.quit();
    }
}

#[test]
fn a_peer_named_on_the_first_page_is_called_by_an_engine_that_is_there() {
    let (first, second) = (Site::start(), Site::start());
    let mut theirs = App::open(long_crawl(&first));
    theirs.send(Command::Start);
    theirs.show(Screen::Network);
    let model = theirs.wait("an address", |model| !model.network.my_addresses.is_empty());
    let address = model.network.my_addresses[0].clone();
    let folder = TempDir::new().unwrap();
    let mut ours = App::open(|opening| {
        long_crawl(&second)(opening);
        // Another peer than the first.
        opening.data = Some(DataDirectory::open(folder.path(), [8; 32]).unwrap());
    });
    ours.send(Command::Start);
    ours.wait("pages", |model| model.totals.ever.pages > 3);
    ours.send(Command::Pause);
    ours.wait("paused", |model| model.state == PAUSED);
    ours.send(Command::Begin {
        settings: Vec::new(),
        with: Begin::Peer(address),
    });
    ours.wait("the peer", |model| model.rates.peers == 1);
    ours.quit();
    theirs.quit();
}

#[test]
fn a_join_file_named_on_the_first_page_is_followed_by_an_engine_that_is_there() {
    let (first, second) = (Site::start(), Site::start());
    let mut app = paused(&first);
    let file = app.folder.path().join("theirs.peercrawl");
    let text = format!("[crawl]\nseeds = ['{}']\n", second.url);
    std::fs::write(&file, text).unwrap();
    app.send(Command::Begin {
        settings: Vec::new(),
        with: Begin::JoinFile(file),
    });
    let model = app.wait("the offer", |model| model.crawl.offer.is_some());
    let leaves = &model.crawl.offer.as_ref().unwrap().leaves;
    assert!(leaves.contains("the place of 1 web site"), "{leaves}");
    assert_eq!(second.requests(), 0);
    app.send(Command::AcceptJoin);
    wait_until("the second site", || second.requests() > 2);
    app.quit();
}

/// *Start* asked where to begin, although enough was waiting.
#[test]
fn a_paused_crawl_goes_on_although_its_web_site_is_off_the_list() {
    let site = Site::start();
    let mut app = paused(&site);
    app.send(Command::RemoveSeeds(vec![site.url.clone()]));
    app.wait("off the list", |model| model.crawl.seeds.is_empty());
    let requests = site.requests();
    app.send(Command::Start);
    wait_until("it goes on", || site.requests() > requests + 3);
    let model = app.wait("crawling", |model| model.state == RunState::Crawling);
    assert!(model.first_run.is_none());
    app.quit();
}

/// They were written into the config before they were refused, and then nothing could start.
#[test]
fn more_web_sites_than_peers_can_be_told_of_are_not_added() {
    let site = Site::start();
    let mut app = App::open(long_crawl(&site));
    let long = |number| format!("https://{number}.example/{}", "x".repeat(90));
    let many: Vec<String> = (0..6_000).map(long).collect();
    let typed = many.join("\n");
    app.send(Command::CheckSeeds(typed.clone()));
    let model = app.wait("checked", |model| model.crawl.check.text == typed);
    let is_good = |line: &peercrawl_ui::model::SeedLine| line.problem.is_none();
    let good = model
        .crawl
        .check
        .lines
        .iter()
        .take_while(|line| is_good(line));
    let good = good.count();
    assert!((4_000..6_000).contains(&good), "{good} of them fit");
    assert!(!model.crawl.check.lines[good..].iter().any(is_good));
    app.send(Command::AddSeeds(many[..=good].to_vec()));
    let model = app.wait("a word", |model| !model.notices.is_empty());
    let notice = &model.notices[0];
    assert!(
        notice.failed && notice.text.contains("too many"),
        "{notice:?}"
    );
    assert_eq!(model.crawl.seeds, [site.url.as_str()]);
    app.send(Command::AddSeeds(many[..good].to_vec()));
    app.wait("as many as fit", |model| {
        model.crawl.seeds.len() == good + 1
    });
    let config = app.config();
    let _folder = app.quit();
    assert_eq!(read_config(&config).crawl.seeds.len(), good + 1);
}

/// Its last web site removed, it was stopped by the next start of the program, and *Start*
/// asked where to begin although there was more to do.
#[test]
fn without_web_sites_it_goes_on_with_what_waits() {
    let site = Site::start();
    let mut app = App::open(long_crawl(&site));
    app.send(Command::Start);
    app.wait("pages", |model| model.totals.ever.pages > 3);
    app.send(Command::RemoveSeeds(vec![site.url.clone()]));
    app.wait("it is removed", |model| model.crawl.seeds.is_empty());
    let without_seeds = |opening: &mut Opening| {
        long_crawl(&site)(opening);
        opening.settings.crawl.seeds.clear();
    };
    let mut app = App::open_in(app.quit(), without_seeds);
    let requests = site.requests();
    wait_until("it goes on by itself", || site.requests() > requests + 3);
    app.send(Command::FinishAndStop);
    app.wait("stopped", |model| model.state == RunState::Stopped);
    let mut app = App::open_in(app.quit(), without_seeds);
    app.wait("stopped as before", |model| {
        model.now_ms > 0 && model.state == RunState::Stopped
    });
    let requests = site.requests();
    app.send(Command::Start);
    app.wait("it goes on when it is told to", |model| {
        assert!(model.first_run.is_none());
        site.requests() > requests + 3
    });
    app.quit();
}

#[test]
fn without_web_sites_and_with_nothing_left_it_asks_where_to_begin() {
    let site = Site::start();
    let mut app = App::open(|opening| {
        long_crawl(&site)(opening);
        opening.settings.crawl.max_depth = 0;
    });
    app.send(Command::Start);
    app.wait("all of it", |model| {
        model.state == RunState::Waiting(WaitReason::NoAddresses)
    });
    app.send(Command::RemoveSeeds(vec![site.url.clone()]));
    app.send(Command::FinishAndStop);
    app.wait("stopped", |model| model.state == RunState::Stopped);
    app.send(Command::Start);
    app.wait("the first page", |model| model.first_run.is_some());
    app.wait("stopped again", |model| model.state == RunState::Stopped);
    app.quit();
}
