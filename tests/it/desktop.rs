//! The desktop app without its window: commands go in, models come out.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use peercrawl::archive::Reader;
use peercrawl::conditions::Sources;
use peercrawl::config::{Layers, Settings};
use peercrawl::data_directory::DataDirectory;
use peercrawl::desktop::{Desktop, EventLog, Link, Opening, knock, open_or_knock};
use peercrawl_ui::command::{Begin, Screen, ViewRequest};
use peercrawl_ui::model::{
    Field, Outcome, PauseReason, RunState, Setting, ThemeChoice, WaitReason,
};
use peercrawl_ui::{Backend, Command, Model};
use tempfile::TempDir;

use crate::crew::{DEADLINE, settings, wait_until};

/// An app on a folder of its own.
pub struct App {
    pub folder: TempDir,
    desktop: Option<Desktop>,
    link: Link,
}

impl App {
    pub fn open(change: impl FnOnce(&mut Opening)) -> Self {
        Self::open_in(TempDir::new().unwrap(), change)
    }

    pub fn open_in(folder: TempDir, change: impl FnOnce(&mut Opening)) -> Self {
        let mut settings = Settings { ..settings() };
        settings.overlay.listen = vec!["/ip4/127.0.0.1/tcp/0".into()];
        settings.overlay.mdns = false;
        let mut opening = Opening {
            settings,
            config_file: Some(folder.path().join("config.toml")),
            data: Some(DataDirectory::open(&folder.path().join("data"), [7; 32]).unwrap()),
            join_file: None,
            demo: None,
            conditions: None,
            log: EventLog::default(),
        };
        change(&mut opening);
        let desktop = Desktop::start(opening, || {}).unwrap();
        let link = desktop.link();
        Self {
            folder,
            desktop: Some(desktop),
            link,
        }
    }

    pub fn send(&mut self, command: Command) {
        self.link.send(command);
    }

    pub fn show(&mut self, screen: Screen) {
        let view = ViewRequest {
            screen,
            ..ViewRequest::default()
        };
        self.send(Command::Show(Box::new(view)));
    }

    pub fn wait(&mut self, what: &str, is_so: impl Fn(&Model) -> bool) -> Arc<Model> {
        let link = &mut self.link;
        wait_until(what, || is_so(&link.latest()));
        self.link.latest()
    }

    /// Follows a join file for the crawl of one site.
    fn join(&mut self, network: &str, site: &Site) {
        let file = self.folder.path().join(format!("{network}.peercrawl"));
        let (overlay, url) = (format!("[overlay]\nnetwork = '{network}'\n"), &site.url);
        let crawl = format!("[crawl]\nseeds = ['{url}']\nmax_depth = 10000\n");
        std::fs::write(&file, overlay + &crawl).unwrap();
        self.send(Command::ReadJoinFile(file));
        self.send(Command::AcceptJoin);
    }

    pub fn config(&self) -> PathBuf {
        self.folder.path().join("config.toml")
    }

    pub fn quit(mut self) -> TempDir {
        self.desktop.take().unwrap().quit();
        self.folder
    }
}

/// A web site with a chain of pages, which counts its requests.
pub struct Site {
    pub url: String,
    requests: Arc<AtomicUsize>,
}

impl Site {
    pub fn start() -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST, "/")
    }

    /// A site at this address, which links to another one.
    pub fn start_at(address: Ipv4Addr, other: &str) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("http://{address}:{port}/");
        let other: Arc<str> = other.into();
        let requests = Arc::new(AtomicUsize::new(0));
        let count = requests.clone();
        thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let (count, other) = (count.clone(), other.clone());
                thread::spawn(move || serve(caller, port, &other, &count));
            }
        });
        Self { url, requests }
    }

    pub fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }
}

fn serve(caller: TcpStream, port: u16, other: &str, count: &AtomicUsize) -> Option<()> {
    let mut reader = BufReader::new(caller.try_clone().ok()?);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).ok()? == 0 {
            return None;
        }
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? <= 2 {
                break;
            }
        }
        count.fetch_add(1, SeqCst);
        let path = first.split(' ').nth(1)?;
        let (status, body) = match path {
            "/robots.txt" => ("200 OK", "User-agent: *\nDisallow: /no\n".to_owned()),
            _ => {
                let number: u64 = path[1..].parse().unwrap_or(0);
                let next = number + 1;
                let title = format!("<title>Seite №{number}</title>");
                let links = format!("<a href=/{next}>next</a><a href=/no/{next}>no</a>");
                let links = format!("{links}<a href={other}>other</a>");
                // Two sites must not look like mirrors of each other.
                ("200 OK", format!("<html>{title}{links}{port}"))
            }
        };
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\n");
        let length = body.len();
        let answer = format!("{head}content-length: {length}\r\n\r\n{body}");
        reader.get_mut().write_all(answer.as_bytes()).ok()?;
    }
}

pub fn read_config(path: &Path) -> Settings {
    let layers = Layers {
        config: Some(path.to_owned()),
        ..Layers::default()
    };
    layers.read().unwrap()
}

#[test]
fn nothing_is_fetched_before_the_volunteer_says_so() {
    let site = Site::start();
    let seeds = vec![site.url.clone()];
    let mut app = App::open(|opening| opening.settings.crawl.seeds = seeds);
    let model = app.wait("the first page", |model| model.first_run.is_some());
    assert!(model.first_run.as_ref().unwrap().has_crawl);
    // Not now: the window is there, and stands still until Start, which asks again.
    app.send(Command::NotNow);
    app.wait("not now", |model| model.first_run.is_none());
    app.send(Command::Start);
    let model = app.wait("asked again", |model| model.first_run.is_some());
    assert_eq!(model.state, RunState::Stopped);
    assert_eq!(site.requests(), 0);
    app.send(Command::Begin {
        settings: vec![Setting::Theme(ThemeChoice::Dark), Setting::MaxDepth(3)],
        with: Begin::AsConfigured,
    });
    let model = app.wait("pages", |model| model.totals.today.pages >= 4);
    assert!(model.first_run.is_none());
    app.show(Screen::Activity);
    let model = app.wait("results", |model| model.results.total >= 5);
    let rows = &model.results.rows;
    let title = |row: &peercrawl_ui::model::ResultRow| row.title == "Seite №1";
    assert!(rows.iter().any(title), "titles are read: {rows:?}");
    let refused = |row: &peercrawl_ui::model::ResultRow| row.outcome == Outcome::RobotsRefused;
    assert!(
        rows.iter().any(refused),
        "what robots.txt forbids is told of"
    );
    app.wait("nothing is left", |model| {
        model.state == RunState::Waiting(WaitReason::NoAddresses)
    });
    let requests = site.requests();
    assert_eq!(requests, 5, "robots.txt, the seed and three links");
    let config = app.config();
    let _folder = app.quit();
    assert!(read_config(&config).desktop.first_run_done);
}

#[test]
fn start_with_nothing_to_crawl_asks_where_to_begin() {
    let mut app = App::open(|opening| opening.settings.desktop.first_run_done = true);
    let model = app.wait("a model", |model| model.now_ms > 0);
    assert_eq!(
        (&model.state, model.first_run.is_some()),
        (&RunState::Stopped, false)
    );
    app.send(Command::Start);
    let model = app.wait("the first page", |model| model.first_run.is_some());
    assert!(!model.first_run.as_ref().unwrap().has_crawl);
    assert_eq!(
        model.raise_window, 1,
        "somebody sees it, also from the tray"
    );
    app.send(Command::Begin {
        settings: Vec::new(),
        with: Begin::Site("nonsense".into()),
    });
    let model = app.wait("a problem", |model| {
        model.problem(Field::FirstSite).is_some()
    });
    assert!(model.first_run.is_some(), "it stays until it is answered");
    app.quit();
}

#[test]
fn a_site_that_would_never_be_visited_is_refused_when_it_is_typed() {
    let mut app = App::open(|opening| {
        opening.settings.network.allow_private = false;
        opening.settings.desktop.first_run_done = true;
    });
    app.send(Command::Begin {
        settings: Vec::new(),
        with: Begin::Site("http://192.168.1.1/".into()),
    });
    let model = app.wait("a problem", |model| {
        model.problem(Field::FirstSite).is_some()
    });
    let why = model.problem(Field::FirstSite).unwrap();
    assert!(why.contains("private network"), "{why}");
    let typed = "http://10.0.0.1/\nhttp://example.org:22/\n";
    app.send(Command::CheckSeeds(typed.into()));
    let model = app.wait("checked", |model| model.crawl.check.text == typed);
    let lines = &model.crawl.check.lines;
    assert!(lines.len() == 2 && lines.iter().all(|line| line.problem.is_some()));
    assert_eq!(model.state, RunState::Stopped);
    app.quit();
}

#[test]
fn a_site_that_cannot_be_reached_is_told_of_and_start_says_that_it_keeps_trying() {
    // Nobody listens there any more.
    let nobody = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let mut app = App::open(|opening| {
        opening.settings.crawl.seeds = vec![format!("http://127.0.0.2:{port}/")];
        opening.settings.desktop.first_run_done = true;
    });
    app.send(Command::Start);
    let model = app.wait("it needs the volunteer", |model| {
        matches!(model.state, RunState::NeedsYou { .. })
    });
    let RunState::NeedsYou {
        text, is_running, ..
    } = &model.state
    else {
        unreachable!()
    };
    assert!(text.contains("they do not answer"), "{text}");
    assert!(*is_running, "it keeps trying, and can be paused");
    let said = model.notices.len();
    app.send(Command::Start);
    let model = app.wait("a word", |model| model.notices.len() > said);
    let last = model.notices.last().unwrap();
    assert!(last.text.contains("It keeps trying"), "{last:?}");
    let site = Site::start();
    app.send(Command::AddSeeds(vec![site.url.clone()]));
    app.wait("another one is crawled", |model| {
        model.state == RunState::Crawling && model.totals.ever.pages > 0
    });
    app.quit();
}

#[test]
fn a_peers_address_is_called_once_it_is_one() {
    let mut app = App::open(|opening| opening.settings.desktop.first_run_done = true);
    app.show(Screen::Network);
    app.send(Command::AddPeer("example.org:80".into()));
    let model = app.wait("a problem", |model| {
        model.problem(Field::PeerAddress).is_some()
    });
    assert!(model.notices.is_empty() && model.network.called.is_empty());
    let address = "/ip4/127.0.0.1/tcp/9";
    app.send(Command::AddPeer(address.into()));
    let model = app.wait("on the list", |model| model.network.called == [address]);
    assert!(model.problem(Field::PeerAddress).is_none());
    let notice = model.notices.last().unwrap();
    assert!(notice.text.contains("when the crawl starts"), "{notice:?}");
    app.quit();
}

#[test]
fn pause_finish_and_start_do_what_they_say() {
    let site = Site::start();
    let seeds = vec![site.url.clone()];
    let change = |opening: &mut Opening| {
        opening.settings.crawl.seeds = seeds;
        // The site is one long way, which must not end before the test does.
        opening.settings.crawl.max_depth = 10_000;
        opening.settings.politeness.private_delay_ms = 20;
        // Reached within days at this pace, so there is a day to show.
        opening.settings.limits.monthly_gb = 1;
    };
    let mut app = App::open(change);
    app.send(Command::Begin {
        settings: Vec::new(),
        with: Begin::AsConfigured,
    });
    app.wait("crawling", |model| model.totals.ever.pages > 3);
    app.send(Command::Pause);
    app.wait("paused", |model| {
        model.state == RunState::Paused(PauseReason::ByYou) && model.fetching.is_empty()
    });
    let model = app.wait("no rate", |model| model.rates.pages_per_s == 0.0);
    let pages = model.totals.ever.pages;
    let requests = site.requests();
    let later = model.now_ms + 6_000;
    let drawn = RefCell::new(BTreeSet::new());
    let model = app.wait("some seconds", |model| {
        drawn.borrow_mut().insert(model.now_ms);
        model.now_ms > later
    });
    let drawn = drawn.into_inner().len();
    assert!(drawn <= 4, "drawn {drawn} times in six seconds of rest");
    assert_eq!(model.totals.ever.pages, pages, "a pause is a pause");
    assert_eq!(site.requests(), requests);
    app.send(Command::PauseFor { minutes: 60 });
    let model = app.wait("paused for a time", |model| {
        matches!(model.state, RunState::Paused(PauseReason::Until { .. }))
    });
    let RunState::Paused(PauseReason::Until { at_ms }) = model.state else {
        unreachable!()
    };
    assert!((3_590_000..=3_600_500).contains(&(at_ms - model.now_ms)));
    app.send(Command::Start);
    app.wait("it goes on", |model| model.totals.ever.pages > pages);
    app.send(Command::FinishAndStop);
    app.wait("stopped", |model| model.state == RunState::Stopped);
    let requests = site.requests();
    app.send(Command::Start);
    app.wait("started again", |model| model.state == RunState::Crawling);
    wait_until("more requests", || site.requests() > requests);
    app.quit();
}

/// The window takes *Finish and stop* back with what it was in before.
#[test]
fn finishing_is_taken_back_into_the_pause_before_it() {
    let site = Site::start();
    let mut app = App::open(long_crawl(&site));
    app.send(Command::Start);
    app.wait("pages", |model| model.totals.ever.pages > 0);
    app.send(Command::Pause);
    let paused = RunState::Paused(PauseReason::ByYou);
    app.wait("paused", |model| model.state == paused);
    app.send(Command::FinishAndStop);
    app.wait("stopped", |model| model.state == RunState::Stopped);
    let requests = site.requests();
    app.send(Command::Pause);
    app.wait("paused again", |model| model.state == paused);
    assert_eq!(site.requests(), requests);
    app.send(Command::Start);
    wait_until("more requests", || site.requests() > requests);
    app.quit();
}

#[test]
fn the_past_and_the_wish_outlive_a_restart_and_the_config_keeps_its_comments() {
    let site = Site::start();
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, "# mine\n[crawl]\nmax_depth = 9 # deep\n").unwrap();
    let seeds = vec![site.url.clone()];
    let mut app = App::open_in(folder, |opening| {
        opening.settings.crawl.seeds = seeds.clone()
    });
    app.send(Command::Begin {
        settings: Vec::new(),
        with: Begin::AsConfigured,
    });
    app.send(Command::Change(Setting::MaxDepth(2)));
    app.send(Command::Change(Setting::TextPercent(120)));
    app.wait("pages and a past", |model| {
        model.totals.ever.pages > 1 && model.graphs.seconds.len() > 2
    });
    app.send(Command::Pause);
    let model = app.wait("paused", |model| matches!(model.state, RunState::Paused(_)));
    let pages = model.totals.ever.pages;
    let folder = app.quit();
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(
        text.starts_with("# mine\n[crawl]\nmax_depth = 2 # deep\n"),
        "{text}"
    );
    let written = read_config(&config);
    assert!(written.desktop.first_run_done);
    assert_eq!(written.desktop.text_percent, 120);
    let mut app = App::open_in(folder, |opening| {
        opening.settings.crawl.seeds = seeds;
        opening.settings.desktop = written.desktop.clone();
    });
    let model = app.wait("paused as before", |model| {
        model.state == RunState::Paused(PauseReason::ByYou)
    });
    assert!(model.totals.ever.pages >= pages && model.first_run.is_none());
    assert!(model.graphs.seconds.len() > 2, "the graphs have a past");
    app.quit();
}

#[test]
fn a_join_file_is_shown_before_it_is_followed() {
    let site = Site::start();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("friends.peercrawl");
    let text = format!(
        "[overlay]\nnetwork = 'friends'\n[crawl]\nseeds = ['{}']\n",
        site.url
    );
    std::fs::write(&file, text).unwrap();
    let opened = file.clone();
    let mut app = App::open(|opening| opening.join_file = Some(opened));
    let model = app.wait("the offer", |model| model.crawl.offer.is_some());
    let offer = model.crawl.offer.clone().unwrap();
    assert_eq!(
        (offer.network_name.as_str(), offer.seeds.len()),
        ("friends", 1)
    );
    assert_eq!(site.requests(), 0);
    app.send(Command::DeclineJoin);
    app.wait("declined", |model| model.crawl.offer.is_none());
    // A second start hands the file to the first, which comes forward.
    let data = app.folder.path().join("data");
    knock(&data, Some(&file)).unwrap();
    let model = app.wait("the offer again", |model| model.crawl.offer.is_some());
    assert_eq!(model.raise_window, 1);
    app.send(Command::AcceptJoin);
    // What it takes is seen and answered first.
    let model = app.wait("the first page", |model| model.crawl.offer.is_none());
    let first = model.first_run.as_ref().unwrap();
    assert!(first.has_crawl);
    assert_eq!(
        model.settings.download_kib_per_s, 256,
        "limits are proposed"
    );
    assert_eq!((&model.state, site.requests()), (&RunState::Stopped, 0));
    app.send(Command::Begin {
        settings: vec![Setting::UploadKibPerS(77)],
        with: Begin::AsConfigured,
    });
    app.wait("pages", |model| model.totals.ever.pages > 0);
    let made = app.folder.path().join("mine.peercrawl");
    app.send(Command::MakeJoinFile(made.clone()));
    wait_until("a join file", || made.exists());
    let config = app.config();
    let _folder = app.quit();
    let written = read_config(&config);
    assert_eq!(written.overlay.network, "friends");
    let limits = (written.limits.download_kib, written.limits.upload_kib);
    assert_eq!(limits, (256, 77));
    assert_eq!(written.crawl.seeds, [site.url]);
    let passed_on = std::fs::read_to_string(&made).unwrap();
    assert!(passed_on.contains("network = \"friends\""), "{passed_on}");
    assert!(passed_on.contains("/ip4/127.0.0.1/tcp/"), "{passed_on}");
}

/// A crawl of this site, which does not end before the test does.
pub fn long_crawl(site: &Site) -> impl FnOnce(&mut Opening) {
    let seeds = vec![site.url.clone()];
    move |opening| {
        opening.settings.crawl.seeds = seeds;
        opening.settings.crawl.max_depth = 10_000;
        opening.settings.politeness.private_delay_ms = 20;
        opening.settings.desktop.first_run_done = true;
    }
}

#[test]
fn another_network_leaves_the_crawl_of_the_last_one_until_that_is_joined_again() {
    let (ours, theirs) = (Site::start(), Site::start());
    let mut app = App::open(long_crawl(&ours));
    app.send(Command::Start);
    wait_until("our site", || ours.requests() > 5);
    app.join("theirs", &theirs);
    wait_until("their site", || theirs.requests() > 0);
    let requests = ours.requests();
    wait_until("more of it", || theirs.requests() > 20);
    assert_eq!(ours.requests(), requests, "our network was left");
    app.join(&Settings::default().overlay.network, &ours);
    app.show(Screen::Activity);
    let is_ours = |row: &peercrawl_ui::model::ResultRow| row.url.starts_with(&ours.url);
    let model = app.wait("it goes on", |model| model.results.rows.iter().any(is_ours));
    let is_first = |row: &peercrawl_ui::model::ResultRow| row.url == ours.url;
    let rows = &model.results.rows;
    assert!(!rows.iter().any(is_first), "where it was: {rows:?}");
    app.quit();
}

#[test]
fn a_join_file_is_followed_also_by_an_engine_that_is_just_starting() {
    let (ours, theirs) = (Site::start(), Site::start());
    let mut app = App::open(long_crawl(&ours));
    app.send(Command::Start);
    app.join("theirs", &theirs);
    wait_until("their site", || theirs.requests() > 3);
    app.quit();
}

/// Rules that the second file left out stayed as the first had them, and nobody saw that.
#[test]
fn a_second_join_file_leaves_no_rule_of_the_first() {
    let site = Site::start();
    let mut app = App::open(long_crawl(&site));
    let file = app.folder.path().join("strict.peercrawl");
    let rules = "[distribution]\nkind = 'consistent'\nreplicas = 77\n";
    let crawl = format!(
        "[crawl]\nseeds = ['{}']\nmax_pages_per_site = 9\n",
        site.url
    );
    std::fs::write(&file, format!("{rules}{crawl}")).unwrap();
    app.send(Command::ReadJoinFile(file));
    app.send(Command::AcceptJoin);
    app.join("theirs", &site);
    app.wait("joined", |model| model.crawl.network_name == "theirs");
    let config = app.config();
    let _folder = app.quit();
    let (written, usual) = (read_config(&config), Settings::default());
    assert_eq!(written.distribution, usual.distribution);
    let per_site = usual.crawl.max_pages_per_site;
    assert_eq!(written.crawl.max_pages_per_site, per_site);
    assert_eq!(written.crawl.max_depth, 10_000, "what it does say");
}

/// What was changed while the engine started never reached it.
#[test]
fn changes_reach_also_an_engine_that_is_just_starting() {
    let (first, second) = (Site::start(), Site::start());
    let mut app = App::open(long_crawl(&first));
    app.send(Command::Start);
    app.send(Command::AddSeeds(vec![second.url.clone()]));
    wait_until("the new site", || second.requests() > 0);
    app.send(Command::FinishAndStop);
    app.wait("stopped", |model| model.state == RunState::Stopped);
    app.send(Command::Start);
    app.send(Command::BlockSite("127.0.0.1".into()));
    app.wait("both are left alone", |model| {
        model.state == RunState::Waiting(WaitReason::NoAddresses)
    });
    app.quit();
}

#[test]
fn a_path_is_read_as_people_write_it() {
    let mut app = App::open(|opening| opening.settings.desktop.first_run_done = true);
    app.send(Command::ReadJoinFile("~/no/such/file.peercrawl".into()));
    let model = app.wait("a word", |model| !model.notices.is_empty());
    let text = &model.notices[0].text;
    assert!(text.contains("/no/such/file"), "{text}");
    assert!(!text.contains('~'), "{text}");
    app.send(Command::MoveArchive("pages".into()));
    let model = app.wait("a problem", |model| {
        model.problem(Field::ArchiveFolder).is_some()
    });
    let why = model.problem(Field::ArchiveFolder).unwrap();
    assert!(why.contains("whole path"), "{why}");
    assert!(!Path::new("pages").exists());
    app.quit();
}

#[test]
fn a_start_while_the_first_one_ends_is_not_answered_but_takes_over() {
    let mut app = App::open(|_| {});
    let data = app.folder.path().join("data");
    knock(&data, None).unwrap();
    // The window is closed, and the desk ends what there is to end.
    app.send(Command::Quit);
    wait_until("nobody answers", || knock(&data, None).is_err());
    let opened = open_or_knock(&data, [7; 32], None, DEADLINE).unwrap();
    assert!(opened.is_some());
    app.quit();
}

#[test]
fn results_that_pour_in_do_not_have_the_window_drawn_at_each_look() {
    let site = Site::start();
    let mut app = App::open(long_crawl(&site));
    app.show(Screen::Activity);
    app.send(Command::Start);
    let model = app.wait("results", |model| model.results.total > 20);
    let (results, later) = (model.results.total, model.now_ms + 6_000);
    let drawn = RefCell::new(BTreeSet::new());
    let model = app.wait("some seconds", |model| {
        drawn.borrow_mut().insert(model.now_ms);
        model.now_ms > later
    });
    assert!(model.results.total > results + 30, "they pour in");
    let drawn = drawn.into_inner().len();
    // There are 24 looks.
    assert!(drawn <= 18, "drawn {drawn} times in six seconds");
    app.quit();
}

#[test]
fn seeds_are_checked_as_typed_and_added_while_it_runs() {
    let (first, second) = (Site::start(), Site::start());
    let seeds = vec![first.url.clone()];
    let mut app = App::open(|opening| {
        opening.settings.crawl.seeds = seeds;
        opening.settings.crawl.max_depth = 2;
    });
    app.send(Command::Begin {
        settings: Vec::new(),
        with: Begin::AsConfigured,
    });
    app.wait("the first site", |model| model.totals.ever.pages >= 3);
    let typed = format!("{}\nftp://x\n", second.url);
    app.send(Command::CheckSeeds(typed.clone()));
    let model = app.wait("checked", |model| model.crawl.check.text == typed);
    let problems: Vec<bool> = model
        .crawl
        .check
        .lines
        .iter()
        .map(|line| line.problem.is_some())
        .collect();
    assert_eq!(problems, [false, true]);
    app.send(Command::AddSeeds(vec![second.url.clone()]));
    app.wait("both sites", |model| model.totals.ever.pages >= 6);
    assert_eq!(first.requests(), 4, "what was fetched is not fetched again");
    app.send(Command::RemoveSeeds(vec![first.url.clone()]));
    let model = app.wait("one is gone", |model| model.crawl.seeds.len() == 1);
    assert_eq!(model.crawl.seeds, [second.url]);
    app.quit();
}

#[test]
fn a_blocked_site_is_left_alone_at_once() {
    let site = Site::start();
    let seeds = vec![site.url.clone()];
    let mut app = App::open(|opening| {
        opening.settings.crawl.seeds = seeds;
        opening.settings.politeness.private_delay_ms = 20;
    });
    app.send(Command::Begin {
        settings: Vec::new(),
        with: Begin::AsConfigured,
    });
    app.wait("crawling", |model| model.totals.ever.pages > 3);
    app.send(Command::BlockSite("127.0.0.1".into()));
    app.wait("on the list", |model| {
        model.crawl.blocked_sites == ["127.0.0.1"]
    });
    app.wait("nothing waits for it", |model| {
        model.rates.waiting_urls == 0
    });
    let model = app.wait("at rest", |model| model.rates.pages_per_s == 0.0);
    let (requests, later) = (site.requests(), model.now_ms + 3_000);
    app.wait("some seconds", |model| model.now_ms > later);
    assert_eq!(site.requests(), requests);
    app.send(Command::UnblockSite("127.0.0.1".into()));
    app.wait("off the list", |model| model.crawl.blocked_sites.is_empty());
    // It stayed away for good.
    wait_until("it comes back", || site.requests() > requests + 3);
    let config = app.config();
    let _folder = app.quit();
    assert!(read_config(&config).crawl.blocked_sites.is_empty());
}

#[test]
fn a_full_archive_says_so_and_every_way_out_leads_out() {
    // A file has room for many more pages than wait to be written.
    const LIMIT: u64 = 160_000;
    let site = Site::start();
    let seeds = vec![site.url.clone()];
    let mut app = App::open(|opening| {
        opening.settings.crawl.seeds = seeds;
        opening.settings.crawl.max_depth = 10_000;
        opening.settings.politeness.private_delay_ms = 5;
        opening.settings.archive.limit_bytes = LIMIT;
        opening.settings.archive.file_bytes = LIMIT / 4;
        opening.settings.desktop.first_run_done = true;
    });
    app.show(Screen::Archive);
    app.send(Command::Start);
    // What is so now was held against what was so a quarter of a second before.
    let no_false_alarm = |model: &Model| {
        let needs_you = matches!(model.state, RunState::NeedsYou { .. });
        assert!(!needs_you, "{:?}", model.state);
        true
    };
    let is_full = |model: &Model| {
        no_false_alarm(model)
            && model.state == RunState::Paused(PauseReason::ArchiveFull)
            && model.archive.full
    };
    let model = app.wait("full", is_full);
    let archive = &model.archive;
    assert_eq!(archive.limit_bytes, LIMIT);
    let nearly = LIMIT * 9 / 10..=LIMIT;
    assert!(nearly.contains(&archive.bytes), "{} bytes", archive.bytes);

    let model = app.wait("its files", |model| model.archive_files.total > 2);
    let oldest = model.archive_files.rows.last().unwrap().name.clone();
    let folder = PathBuf::from(&model.archive.folder);
    assert!(folder.join(&oldest).exists() && model.archive.oldest_bytes > 0);
    let requests = site.requests();
    app.send(Command::DropOldest);
    app.wait("the oldest made room", |model| {
        no_false_alarm(model) && site.requests() > requests + 3
    });
    assert!(!folder.join(&oldest).exists());
    app.wait("full again", is_full);

    let requests = site.requests();
    let elsewhere = app.folder.path().join("elsewhere");
    app.send(Command::MoveArchive(elsewhere.clone()));
    let is_told = |model: &Model| {
        let mut notices = model.notices.iter();
        no_false_alarm(model)
            && notices.any(|notice| notice.text.contains("moved to") && !notice.failed)
    };
    app.wait("moved", is_told);
    app.wait("moving made room", |model| {
        no_false_alarm(model) && site.requests() > requests + 3
    });
    let moved = Reader::new(&elsewhere).verify().unwrap();
    assert!(moved.problems.is_empty() && moved.pages > 10, "{moved:?}");
    app.wait("full once more", is_full);

    app.send(Command::Change(Setting::DiskGb(1)));
    let model = app.wait("a higher limit is room", |model| {
        no_false_alarm(model) && !model.archive.full && model.archive.bytes > LIMIT
    });
    assert_eq!(model.archive.limit_bytes, 1_000_000_000);
    let _folder = app.quit();
    assert_eq!(Reader::new(&folder).verify().unwrap().problems, []);
}

#[test]
fn outside_the_hours_of_the_schedule_nothing_is_fetched_from_the_start() {
    let site = Site::start();
    let seeds = vec![site.url.clone()];
    let nowhere = TempDir::new().unwrap();
    let sources = Sources {
        power_supplies: nowhere.path().into(),
        processor: nowhere.path().join("none"),
        asks_desktop: false,
    };
    let never = |opening: &mut Opening| {
        opening.settings.crawl.seeds = seeds.clone();
        opening.settings.desktop.first_run_done = true;
        opening.settings.crawl.max_depth = 10_000;
        opening.settings.politeness.private_delay_ms = 100;
        opening.settings.schedule.enabled = true;
        for day in peercrawl_ui::model::WEEKDAYS {
            let key = format!("schedule.{}=off", day.to_lowercase());
            opening.settings.apply_flag(&key).unwrap();
        }
        opening.conditions = Some(sources.clone());
    };
    let mut app = App::open(never);
    app.send(Command::Start);
    let paused = RunState::Paused(PauseReason::Schedule { until_ms: None });
    let model = app.wait("paused", |model| model.state == paused);
    let later = model.now_ms + 2_000;
    app.wait("some seconds", |model| model.now_ms > later);
    assert_eq!(site.requests(), 0);
    app.send(Command::Change(Setting::ScheduleOn(false)));
    app.wait("it goes on", |model| model.totals.ever.pages > 1);
    app.send(Command::Pause);
    app.wait("paused", |model| matches!(model.state, RunState::Paused(_)));
    app.wait("at rest, with more to do", |model| {
        model.rates.pages_per_s == 0.0 && model.rates.waiting_urls > 0
    });
    let requests = site.requests();
    // What waits from the last time is left alone too.
    let folder = app.quit();
    let mut app = App::open_in(folder, never);
    app.send(Command::Start);
    let model = app.wait("paused again", |model| model.state == paused);
    let later = model.now_ms + 2_000;
    app.wait("some seconds", |model| model.now_ms > later);
    assert_eq!(site.requests(), requests);
    app.quit();
}
