//! Controls of the window that change an engine that runs, at once: from the command to what
//! a web site sees of it.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use peercrawl::clock::wall_ms;
use peercrawl::conditions::Sources;
use peercrawl::conditions::local_time::{minute_of_week, utc_offset_minutes};
use peercrawl::config::{OverlayChoice, Scope};
use peercrawl::data_directory::DataDirectory;
use peercrawl::limits::Limits;
use peercrawl_ui::command::{Begin, Screen};
use peercrawl_ui::model::{
    self as ui_model, DayHours, Found, OverlayKind, PauseReason, Role, RunState, Setting,
};
use peercrawl_ui::{Command, Model};
use tempfile::TempDir;

use crate::crew::wait_until;
use crate::desktop::{App, Site, long_crawl, read_config};

/// A computer that runs on its battery, in this folder.
fn on_battery(folder: &Path) -> Sources {
    let battery = folder.join("BAT0");
    fs::create_dir(&battery).unwrap();
    fs::write(battery.join("type"), "Battery\n").unwrap();
    fs::write(battery.join("status"), "Discharging\n").unwrap();
    Sources {
        power_supplies: folder.into(),
        processor: folder.join("none"),
        asks_desktop: false,
    }
}

/// Nothing is asked for any more; gives how much was.
fn assert_at_rest(app: &mut App, site: &Site) -> usize {
    let model = app.wait("at rest", |model| model.rates.pages_per_s == 0.0);
    let (requests, later) = (site.requests(), model.now_ms + 2_000);
    app.wait("some seconds", |model| model.now_ms > later);
    assert_eq!(site.requests(), requests, "a pause is a pause");
    requests
}

#[test]
fn the_battery_pauses_a_crawl_exactly_while_the_volunteer_wants_that() {
    let site = Site::start();
    let supplies = TempDir::new().unwrap();
    let sources = on_battery(supplies.path());
    let mut app = App::open(|opening| {
        long_crawl(&site)(opening);
        opening.settings.pause.on_battery = false;
        opening.conditions = Some(sources);
    });
    app.send(Command::Start);
    wait_until("it crawls on its battery", || site.requests() > 5);
    app.send(Command::Change(Setting::PauseOnBattery(true)));
    app.wait("paused", |model| {
        model.state == RunState::Paused(PauseReason::OnBattery) && model.fetching.is_empty()
    });
    let requests = assert_at_rest(&mut app, &site);
    app.send(Command::Change(Setting::PauseOnBattery(false)));
    wait_until("it goes on", || site.requests() > requests + 5);
    app.send(Command::Change(Setting::PauseOnBattery(true)));
    app.wait("paused again", |model| {
        model.state == RunState::Paused(PauseReason::OnBattery)
    });
    let config = app.config();
    let _folder = app.quit();
    assert!(read_config(&config).pause.on_battery);
}

/// It paused as soon as it was there, and its peers left each other.
#[test]
fn a_demo_goes_on_whatever_the_computer_is_up_to() {
    let supplies = TempDir::new().unwrap();
    let sources = on_battery(supplies.path());
    let mut app = App::open(|opening| {
        opening.settings.pause.on_battery = true;
        opening.conditions = Some(sources);
    });
    app.wait("the battery is seen", |model| model.abilities.battery);
    app.send(Command::Begin {
        // It must not end before the test does.
        settings: vec![Setting::DownloadKibPerS(256)],
        with: Begin::Demo,
    });
    let is_paused = |model: &Model| matches!(model.state, RunState::Paused(_));
    let model = app.wait("pages", |model| {
        assert!(!is_paused(model));
        model.demo.is_some() && model.totals.ever.pages > 0
    });
    let later = model.now_ms + 2_000;
    let model = app.wait("some seconds", |model| {
        assert!(!is_paused(model));
        model.now_ms > later
    });
    let pages = model.totals.ever.pages;
    app.wait("more pages", |model| model.totals.ever.pages > pages);
    app.quit();
}

#[test]
fn pages_a_minute_hold_from_the_change_until_they_are_lifted() {
    let site = Site::start();
    // 50 pages a second otherwise.
    let mut app = App::open(long_crawl(&site));
    app.send(Command::Start);
    wait_until("it crawls", || site.requests() > 20);
    app.send(Command::Change(Setting::PagesPerMin(60)));
    let model = app.wait("set", |model| model.settings.pages_per_min == 60);
    let settled = model.now_ms + 1_000;
    let model = app.wait("a second", |model| model.now_ms > settled);
    let (requests, later) = (site.requests(), model.now_ms + 5_000);
    let begun_ms = model.now_ms;
    let model = app.wait("five seconds", |model| model.now_ms > later);
    let pages = (site.requests() - requests) as u64;
    // One a second, three saved up, and one for a model that is late.
    let most = (model.now_ms - begun_ms) / 1_000 + 5;
    assert!((2..=most).contains(&pages), "{pages} of {most} pages");
    app.send(Command::Change(Setting::PagesPerMin(0)));
    let lifted = app.wait("lifted", |model| model.settings.pages_per_min == 0);
    let requests = site.requests();
    wait_until("it is fast again", || site.requests() > requests + 100);
    let model = app.wait("now", |model| model.now_ms > lifted.now_ms);
    let taken_ms = model.now_ms - lifted.now_ms;
    assert!(taken_ms < 50_000, "100 pages in {taken_ms} ms");
    app.quit();
}

#[test]
fn upload_and_slow_mode_hold_from_the_change_until_they_are_lifted() {
    let site = Site::start();
    // 50 pages a second otherwise.
    let mut app = App::open(long_crawl(&site));
    app.send(Command::Start);
    for (changes, lifted) in [
        (vec![Setting::UploadKibPerS(1)], Setting::UploadKibPerS(0)),
        (
            vec![Setting::SlowMode(true), Setting::SlowUploadKibPerS(1)],
            Setting::SlowUploadKibPerS(0),
        ),
        (
            vec![Setting::SlowDownloadKibPerS(1)],
            Setting::SlowMode(false),
        ),
    ] {
        app.wait("it is fast", |model| model.rates.pages_per_s > 12.0);
        changes
            .iter()
            .for_each(|change| app.send(Command::Change(change.clone())));
        let changed_ms = app.wait("now", |_| true).now_ms;
        let model = app.wait("two seconds", |model| model.now_ms > changed_ms + 2_000);
        let (requests, begun_ms) = (site.requests(), model.now_ms);
        let model = app.wait("three more", |model| model.now_ms > begun_ms + 3_000);
        let pages = (site.requests() - requests) as u64;
        // Neither a request nor an answer has less than a hundred bytes.
        let most = (model.now_ms - begun_ms) / 100;
        assert!(
            (2..most).contains(&pages),
            "{pages} pages after {changes:?}"
        );
        app.send(Command::Change(lifted));
    }
    app.wait("it is fast again", |model| model.rates.pages_per_s > 12.0);
    app.quit();
}

#[test]
fn hours_of_the_schedule_hold_from_the_change_on() {
    let site = Site::start();
    let nowhere = TempDir::new().unwrap();
    let mut app = App::open(|opening| {
        long_crawl(&site)(opening);
        opening.settings.schedule.enabled = true;
        opening.conditions = Some(Sources {
            power_supplies: nowhere.path().into(),
            processor: nowhere.path().join("none"),
            asks_desktop: false,
        });
    });
    app.send(Command::Start);
    wait_until("it crawls at any hour", || site.requests() > 5);
    let now_ms = wall_ms();
    let hour = minute_of_week(now_ms, utc_offset_minutes(now_ms)) / 60 % 24;
    // Every day, from so many hours after this one.
    let hours = |after: u32, count: u32| {
        let from = (hour + after) % 24;
        let every_day = DayHours {
            on: true,
            from_hour: from as u8,
            to_hour: ((from + count - 1) % 24 + 1) as u8,
        };
        Command::Change(Setting::Schedule([every_day; 7]))
    };
    app.send(hours(2, 1));
    app.wait("paused until then", |model| {
        use PauseReason::Schedule;
        let is_paused = matches!(
            model.state,
            RunState::Paused(Schedule { until_ms: Some(_) })
        );
        is_paused && model.fetching.is_empty()
    });
    let requests = assert_at_rest(&mut app, &site);
    app.send(hours(0, 3));
    wait_until("it goes on", || site.requests() > requests + 5);
    app.quit();
}

#[test]
fn a_stored_page_is_looked_up_while_the_crawl_runs() {
    let site = Site::start();
    let mut app = App::open(long_crawl(&site));
    app.show(Screen::Archive);
    app.send(Command::Start);
    app.wait("pages", |model| model.totals.ever.pages > 3);
    app.send(Command::LookUp("http://127.0.0.1:9/never".into()));
    let answered = |model: &Model, url: &str| {
        let answer = model.archive.look_up.as_ref();
        answer
            .filter(|one| one.url == url && one.found != Found::Looking)
            .cloned()
    };
    let model = app.wait("an answer", |model| {
        answered(model, "http://127.0.0.1:9/never").is_some()
    });
    assert_eq!(
        model.archive.look_up.as_ref().unwrap().found,
        Found::Nothing
    );
    app.send(Command::LookUp(site.url.clone()));
    let model = app.wait("another", |model| answered(model, &site.url).is_some());
    let found = &model.archive.look_up.as_ref().unwrap().found;
    assert!(
        matches!(found, Found::Page { status: 200, .. }),
        "{found:?}"
    );
    // As it is typed, without a scheme: it came over http.
    let typed = site.url.trim_start_matches("http://").to_owned();
    app.send(Command::LookUp("127.0.0.1:9/never".into()));
    let never = "https://127.0.0.1:9/never";
    app.wait("neither", |model| {
        answered(model, never).is_some_and(|one| one.found == Found::Nothing)
    });
    app.send(Command::LookUp(typed));
    app.wait("the page", |model| {
        let answer = answered(model, &site.url);
        answer.is_some_and(|one| matches!(one.found, Found::Page { .. }))
    });
    app.quit();
}

#[test]
fn a_month_that_is_used_up_ends_the_traffic_until_more_is_allowed() {
    let site = Site::start();
    let mut app = App::open(|opening| {
        long_crawl(&site)(opening);
        // An earlier run has taken more than the limit that is about to be set.
        let before = Limits::new(&opening.settings.limits);
        let data = opening.data.as_ref().unwrap();
        before.keep_quota(&data.quota()).unwrap();
        before.down.charge(1_200_000_000);
        let now_ms = wall_ms();
        before.tick(now_ms);
        before.save_quota(now_ms);
    });
    app.send(Command::Start);
    wait_until("it crawls", || site.requests() > 5);
    app.send(Command::Change(Setting::MonthlyGb(1)));
    app.wait("the month is used up", |model| {
        let used_up = matches!(model.state, RunState::Paused(PauseReason::QuotaUsed { .. }));
        used_up && model.fetching.is_empty()
    });
    let requests = assert_at_rest(&mut app, &site);
    app.send(Command::Change(Setting::MonthlyGb(2)));
    wait_until("it goes on", || site.requests() > requests + 5);
    let config = app.config();
    let _folder = app.quit();
    assert_eq!(read_config(&config).limits.monthly_gb, 2);
}

#[test]
fn a_peer_serves_others_only_as_long_as_the_volunteer_allows_it() {
    let site = Site::start();
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let in_the_network = |secret: u8, called: &[String]| {
        let called = called.to_vec();
        let crawl = long_crawl(&site);
        // Each is another peer.
        let data = DataDirectory::open(folders[usize::from(secret)].path(), [secret; 32]);
        App::open(move |opening| {
            crawl(opening);
            opening.data = Some(data.unwrap());
            opening.settings.overlay.kind = OverlayChoice::Supernode;
            opening.settings.overlay.bootstrap = called;
        })
    };
    let mut first = in_the_network(0, &[]);
    first.show(Screen::Network);
    first.send(Command::Start);
    let model = first.wait("an address", |model| !model.network.my_addresses.is_empty());
    let mut app = in_the_network(1, &model.network.my_addresses);
    app.send(Command::Start);
    let mut others_role = |what: &str, role: Role| {
        first.wait(what, |model| {
            let mut others = model.network.nodes.iter().filter(|node| !node.me);
            others.any(|node| node.role == role)
        });
    };
    others_role("it serves", Role::Supernode);
    app.send(Command::Change(Setting::AllowSupernode(false)));
    others_role("it serves no more", Role::Leaf);
    app.send(Command::Change(Setting::AllowSupernode(true)));
    others_role("it serves again", Role::Supernode);
    let config = app.config();
    let _folder = app.quit();
    assert!(read_config(&config).overlay.allow_supernode);
    first.quit();
}

#[test]
fn another_kind_of_network_and_a_wider_scope_reach_the_crawl_that_runs() {
    let other = Site::start_at(Ipv4Addr::new(127, 0, 0, 2), "/");
    let site = Site::start_at(Ipv4Addr::LOCALHOST, &other.url);
    let mut app = App::open(|opening| {
        long_crawl(&site)(opening);
        opening.settings.crawl.scope = Scope::Host;
    });
    app.show(Screen::Network);
    app.send(Command::Start);
    wait_until("it crawls", || site.requests() > 5);
    app.wait("equals", |model| model.network.overlay == OverlayKind::Flat);
    app.send(Command::Change(Setting::Overlay(OverlayKind::Supernode)));
    // Alone, it is the one that serves.
    app.wait("it serves", |model| {
        let is_leaving = matches!(model.state, RunState::Finishing { .. });
        assert!(!is_leaving, "it is about to start again");
        let mut nodes = model.network.nodes.iter();
        nodes.any(|node| node.me && node.role == Role::Supernode)
    });
    let requests = site.requests();
    wait_until("it goes on", || site.requests() > requests + 5);
    assert_eq!(other.requests(), 0, "only where it began");
    app.send(Command::Change(Setting::Scope(ui_model::Scope::Any)));
    wait_until("the other site", || other.requests() > 1);
    let config = app.config();
    let _folder = app.quit();
    let written = read_config(&config);
    assert_eq!(written.crawl.scope, Scope::Any);
    assert_eq!(written.overlay.kind, OverlayChoice::Supernode);
}

/// What was clicked while it started was heard by an engine that had begun by then.
#[test]
fn a_pause_is_heard_also_by_an_engine_that_is_just_starting() {
    let site = Site::start();
    let mut app = App::open(long_crawl(&site));
    app.show(Screen::Network);
    app.send(Command::Start);
    app.send(Command::Pause);
    let paused = RunState::Paused(PauseReason::ByYou);
    let model = app.wait("it is there, and paused", |model| {
        model.state == paused && !model.network.my_addresses.is_empty()
    });
    let later = model.now_ms + 2_000;
    app.wait("some seconds", |model| model.now_ms > later);
    assert_eq!(site.requests(), 0);
    app.send(Command::Start);
    wait_until("it goes on", || site.requests() > 3);
    app.quit();
}
