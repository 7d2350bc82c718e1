//! What the window tells the volunteer for as long as it is so.

use peercrawl::data_directory::DataDirectory;
use peercrawl_ui::Command;
use peercrawl_ui::command::{Begin, Screen};
use tempfile::TempDir;

use crate::desktop::App;
use crate::hostile::{HostileWeb, page, respond};

const START: fn() -> Command = || Command::Begin {
    settings: Vec::new(),
    with: Begin::AsConfigured,
};

#[test]
fn sites_that_turn_this_computer_away_are_told_of_in_plain_words() {
    let mut web = HostileWeb::default();
    let sites: Vec<_> = (0..12)
        .map(|_| {
            web.pages(|path, stream| match path {
                "/" => respond(stream, "403 Forbidden", "", b"go away"),
                _ => page(stream, path),
            })
        })
        .collect();
    let seeds = sites.iter().map(|site| site.url("/")).collect();
    let mut app = App::open(|opening| {
        opening.settings.crawl.seeds = seeds;
        opening.settings.reputation.step_secs = 1;
        opening.settings.reputation.window_secs = 6;
    });
    assert!(app.wait("a model", |_| true).warnings.is_empty());
    app.send(START());
    let model = app.wait("a word about it", |model| !model.warnings.is_empty());
    let words = "12 of the 12 sites asked lately have turned this computer away";
    assert!(model.warnings[0].starts_with(words), "{:?}", model.warnings);
    // Nobody is asked any more, so nobody refuses.
    app.wait("it is over", |model| model.warnings.is_empty());
    app.quit();
}

#[test]
fn a_peer_that_cannot_join_says_why_and_crawls_alone() {
    let mut web = HostileWeb::default();
    let site = web.pages(|path, stream| page(stream, path));
    let seeds = vec![site.url("/")];
    let mut app = App::open(|opening| {
        opening.settings.crawl.seeds = seeds;
        // No address of this machine.
        opening.settings.overlay.listen = vec!["/ip4/192.0.2.1/tcp/4001".into()];
    });
    app.send(START());
    let model = app.wait("a page", |model| model.totals.ever.pages > 0);
    let why = "Crawling alone, without other peers: cannot listen on /ip4/192.0.2.1/tcp/4001: ";
    assert_eq!(model.warnings.len(), 1, "{:?}", model.warnings);
    assert!(model.warnings[0].starts_with(why), "{:?}", model.warnings);
    app.quit();
}

#[test]
fn a_peer_of_another_network_is_told_of_by_who_is_alone() {
    let mut web = HostileWeb::default();
    let site = web.pages(|path, stream| page(stream, path));
    let seeds = vec![site.url("/")];
    let mut maps = App::open(|opening| {
        opening.settings.crawl.seeds = seeds;
        opening.settings.overlay.network = "maps".into();
    });
    maps.send(START());
    maps.show(Screen::Network);
    let model = maps.wait("an address", |model| !model.network.my_addresses.is_empty());
    assert!(model.warnings.is_empty(), "{:?}", model.warnings);
    let address = model.network.my_addresses[0].clone();
    let folder = TempDir::new().unwrap();
    let mut globes = App::open(|opening| {
        // Another peer than the first.
        opening.data = Some(DataDirectory::open(folder.path(), [8; 32]).unwrap());
        opening.settings.overlay.network = "globes".into();
        opening.settings.overlay.bootstrap = vec![address];
    });
    globes.send(START());
    for (app, words) in [
        (&mut globes, "it says: you are in the network \"globes\""),
        (&mut maps, "it is in the network \"globes\""),
    ] {
        let model = app.wait("a word about it", |model| !model.warnings.is_empty());
        let warning = &model.warnings[0];
        assert!(warning.contains(words), "{warning}");
        assert!(warning.contains("open the join file"), "{warning}");
    }
    maps.quit();
    globes.quit();
}
