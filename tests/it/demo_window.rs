//! The demo behind the window: what its user wants concerns all of its peers.

use peercrawl::desktop::{DemoSpec, knock};
use peercrawl_ui::command::{Begin, Screen};
use peercrawl_ui::model::{Demo, RunState, Setting, Totals};
use peercrawl_ui::{Command, Model};

use crate::desktop::{App, Site, read_config};

/// A demo of three peers, which may fetch so much a second.
fn demo(pages: u32, download_kib: u32) -> App {
    App::open(|opening| {
        opening.data = None;
        opening.config_file = None;
        opening.settings.limits.download_kib = download_kib;
        opening.demo = Some(DemoSpec {
            peers: 3,
            hosts: 9,
            pages,
            seed: 5,
        });
    })
}

fn is_complete(model: &Model) -> bool {
    let mut notices = model.notices.iter();
    notices.any(|notice| notice.text.starts_with("The demo is complete"))
}

#[test]
fn the_demo_shows_its_first_peer_and_tells_when_it_is_over() {
    let mut app = demo(300, 0);
    app.show(Screen::Network);
    let model = app.wait("peers", |model| model.peers.total == 3);
    let share: f64 = model.peers.rows.iter().map(|row| row.share).sum();
    assert!((share - 1.0).abs() < 0.01, "they share all of it: {share}");
    assert_eq!(model.network.nodes.iter().filter(|node| node.me).count(), 1);
    let can_start = model.abilities.start_at_login;
    assert!(!can_start, "nothing of the real desktop is changed");
    let model = app.wait("the others are spoken to", |model| {
        let others = model.peers.rows.iter().filter(|row| !row.me);
        others
            .filter(|row| row.rtt_us.is_some() && row.download_bytes > Some(0))
            .count()
            == 2
    });
    for row in &model.peers.rows {
        assert_eq!(row.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(row.me, row.upload_bytes.is_none(), "{row:?}");
        assert_eq!(row.me, row.address.is_empty(), "{row:?}");
    }
    app.wait("the end", is_complete);
    app.show(Screen::Queues);
    let model = app.wait("hosts", |model| model.hosts.total > 0);
    assert!(model.hosts.rows.iter().any(|row| row.fetched > 0));
    app.quit();
}

#[test]
fn a_pause_and_a_limit_hold_for_all_peers_of_a_demo_together() {
    const KIB: u64 = 1_024;
    let mut app = demo(6_000, 512);
    app.wait("pages", |model| model.totals.ever.pages > 30);
    app.send(Command::Pause);
    let model = app.wait("at rest", |model| {
        matches!(model.state, RunState::Paused(_)) && model.rates.pages_per_s == 0.0
    });
    // What was under way has ended or was cut by then.
    let cut_ms = model.now_ms + 6_000;
    let model = app.wait("what was under way ends", |model| model.now_ms > cut_ms);
    let (pages, later_ms) = (model.totals.ever.pages, model.now_ms + 5_000);
    let model = app.wait("some seconds", |model| model.now_ms > later_ms);
    assert_eq!(model.totals.ever.pages, pages, "no peer fetches anything");

    app.send(Command::Change(Setting::DownloadKibPerS(128)));
    app.send(Command::Start);
    let start_ms = model.now_ms;
    let before = app.wait("it goes on", |model| {
        model.now_ms > start_ms + 4_000 && model.totals.ever.pages > pages
    });
    let end_ms = before.now_ms + 8_000;
    let after = app.wait("eight seconds", |model| model.now_ms > end_ms);
    let seconds = (after.now_ms - before.now_ms) as f64 / 1_000.0;
    let bytes = after.totals.ever.download_bytes - before.totals.ever.download_bytes;
    // The sums are brought up to date once a second.
    let allowed = (seconds + 1.5) * (128 * KIB) as f64 * 1.05;
    assert!((bytes as f64) < allowed, "{bytes} bytes in {seconds} s");
    let used = bytes as f64 / (seconds * (128 * KIB) as f64);
    assert!(used > 0.5, "{used} of the limit");

    app.send(Command::Change(Setting::DownloadKibPerS(0)));
    app.wait("the end", is_complete);
    app.quit();
}

#[test]
fn a_demo_is_closed_in_and_leaves_nothing_behind() {
    let site = Site::start();
    let mut app = App::open(|_| {});
    app.wait("the first page", |model| model.first_run.is_some());
    app.send(Command::Begin {
        settings: vec![Setting::DownloadKibPerS(0)],
        with: Begin::Demo,
    });
    let model = app.wait("the demo", |model| model.totals.ever.pages > 20);
    assert_eq!(model.demo, Some(Demo { can_leave: true }));
    let seeds = model.crawl.seeds.clone();
    let join_file = app.folder.path().join("friends.peercrawl");
    let text = format!(
        "[overlay]\nnetwork = 'x'\n[crawl]\nseeds = ['{}']\n",
        site.url
    );
    std::fs::write(&join_file, text).unwrap();
    let mut said = model.notices.len();
    for command in [
        Command::AddSeeds(vec![site.url.clone()]),
        Command::RemoveSeeds(seeds.clone()),
        Command::AddPeer("/ip4/127.0.0.1/tcp/1".into()),
        Command::Change(Setting::MaxDepth(3)),
        Command::ReadJoinFile(join_file.clone()),
        Command::MakeJoinFile(app.folder.path().join("mine.peercrawl")),
    ] {
        app.send(command);
        said += 1;
        let model = app.wait("refused", |model| model.notices.len() >= said);
        let last = model.notices.last().unwrap();
        assert!(last.failed && last.text.contains("demo"), "{last:?}");
        said = model.notices.len();
    }
    // A second start hands the file over: the same.
    knock(&app.folder.path().join("data"), Some(&join_file)).unwrap();
    app.wait("refused", |model| model.notices.len() > said);
    app.send(Command::BlockSite("a.demo".into()));
    let model = app.wait("blocked", |model| model.crawl.blocked_sites == ["a.demo"]);
    assert!(model.crawl.offer.is_none() && model.crawl.seeds == seeds);
    assert!(model.archive.folder.is_empty());
    app.send(Command::LeaveDemo);
    let model = app.wait("back on the first page", |model| {
        model.first_run.is_some() && model.state == RunState::Stopped
    });
    assert_eq!((model.demo, model.totals), (None, Totals::default()));
    assert!(model.graphs.seconds.iter().all(|at| at.pages_per_s == 0.0));
    assert!(model.crawl.blocked_sites.is_empty() && model.crawl.seeds.is_empty());
    let limits = (
        model.settings.download_kib_per_s,
        model.settings.upload_kib_per_s,
    );
    assert_eq!(limits, (0, 64), "what was chosen, and what was proposed");
    assert_eq!(site.requests(), 0);
    let config = app.config();
    let folder = app.quit();
    let written = read_config(&config);
    assert!(written.crawl.seeds.is_empty() && written.overlay.bootstrap.is_empty());
    assert!(written.crawl.blocked_sites.is_empty() && !written.desktop.first_run_done);
    assert_eq!(written.limits.upload_kib, 64);
    let mut app = App::open_in(folder, |_| {});
    let model = app.wait("a model", |model| model.first_run.is_some());
    assert_eq!(model.totals, Totals::default());
    app.quit();
}
