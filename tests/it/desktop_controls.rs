//! Controls of the window that change an engine that runs, at once: from the command to what
//! a web site sees of it.

use std::fs;

use peercrawl::conditions::Sources;
use peercrawl_ui::Command;
use peercrawl_ui::command::Screen;
use peercrawl_ui::model::{Found, PauseReason, RunState, Setting};
use tempfile::TempDir;

use crate::crew::wait_until;
use crate::desktop::{App, Site, long_crawl, read_config};

#[test]
fn the_battery_pauses_a_crawl_exactly_while_the_volunteer_wants_that() {
    let site = Site::start();
    let supplies = TempDir::new().unwrap();
    let battery = supplies.path().join("BAT0");
    fs::create_dir(&battery).unwrap();
    fs::write(battery.join("type"), "Battery\n").unwrap();
    fs::write(battery.join("status"), "Discharging\n").unwrap();
    let sources = Sources {
        power_supplies: supplies.path().into(),
        processor: supplies.path().join("none"),
        asks_desktop: false,
    };
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
    let model = app.wait("at rest", |model| model.rates.pages_per_s == 0.0);
    let (requests, later) = (site.requests(), model.now_ms + 2_000);
    app.wait("some seconds", |model| model.now_ms > later);
    assert_eq!(site.requests(), requests, "a pause is a pause");
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
fn a_stored_page_is_looked_up_while_the_crawl_runs() {
    let site = Site::start();
    let mut app = App::open(long_crawl(&site));
    app.show(Screen::Archive);
    app.send(Command::Start);
    app.wait("pages", |model| model.totals.ever.pages > 3);
    app.send(Command::LookUp("http://127.0.0.1:9/never".into()));
    let answered = |model: &peercrawl_ui::Model, url: &str| {
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
    app.quit();
}
