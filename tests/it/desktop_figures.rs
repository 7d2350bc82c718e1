//! What the window shows of an engine that runs, and of the volunteer's account.

use peercrawl::clock::wall_ms;
use peercrawl::limits::Limits;
use peercrawl_ui::Command;
use peercrawl_ui::command::Screen;

use crate::desktop::App;
use crate::hostile::{HostileWeb, page, stay_silent};

#[test]
fn what_a_slow_web_site_does_not_send_is_being_fetched_until_a_pause() {
    let mut web = HostileWeb::default();
    let site = web.pages(|path, stream| match path {
        "/slow" => stay_silent(stream),
        _ => page(stream, "<a href=/slow>slow</a>"),
    });
    let (seed, slow) = (site.url("/"), site.url("/slow"));
    let mut app = App::open(|opening| {
        opening.settings.crawl.seeds = vec![seed];
        opening.settings.desktop.first_run_done = true;
    });
    app.show(Screen::Activity);
    app.send(Command::Start);
    let model = app.wait("a fetch under way", |model| {
        model.fetching.iter().any(|one| one.url == slow)
    });
    assert_eq!(model.fetching.len(), 1);
    let since_ms = model.fetching[0].since_ms;
    assert!(since_ms.abs_diff(model.now_ms) < 60_000, "{since_ms}");
    app.send(Command::Pause);
    app.wait("it is cut off", |model| model.fetching.is_empty());
    app.quit();
}

#[test]
fn it_is_shown_when_the_data_of_the_month_will_be_used_up() {
    let mut app = App::open(|opening| {
        opening.settings.desktop.first_run_done = true;
        opening.settings.limits.monthly_gb = 1;
        // An earlier run has taken a tenth of that in the last minute.
        let before = Limits::new(&opening.settings.limits);
        let data = opening.data.as_ref().unwrap();
        before.keep_quota(&data.quota()).unwrap();
        let now_ms = wall_ms();
        before.tick(now_ms - 60_000);
        before.down.charge(100_000_000);
        before.tick(now_ms);
        before.save_quota(now_ms);
    });
    let model = app.wait("the account", |model| model.quota.used_bytes == 100_000_000);
    let left_ms = model.quota.reached_ms.unwrap() - model.now_ms;
    assert!((539_000..=541_000).contains(&left_ms), "{left_ms} ms");
    app.quit();
}
