//! What is typed into the window: checked again when something changes, and not written over
//! what is somebody else's.

use std::fs;

use peercrawl_ui::model::Field;
use peercrawl_ui::{Command, Model};

use crate::desktop::App;

#[test]
fn typed_web_sites_are_checked_again_when_the_list_changes() {
    let mut app = App::open(|opening| opening.settings.desktop.first_run_done = true);
    let site = "http://127.0.0.1:9/";
    let is_known = |model: &Model| {
        let line = model.crawl.check.lines.first();
        line.map(|line| line.problem.is_some())
    };
    app.send(Command::CheckSeeds(site.into()));
    app.wait("it can be added", |model| is_known(model) == Some(false));
    app.send(Command::AddSeeds(vec![site.into()]));
    app.wait("it was", |model| is_known(model) == Some(true));
    app.send(Command::RemoveSeeds(vec![site.into()]));
    app.wait("it can be again", |model| is_known(model) == Some(false));
    app.send(Command::BlockSite("127.0.0.1".into()));
    let model = app.wait("not while it is blocked", |model| {
        is_known(model) == Some(true)
    });
    let why = model.crawl.check.lines[0].problem.as_deref();
    assert_eq!(why, Some("you blocked this site"));
    app.send(Command::AddSeeds(vec![site.into()]));
    app.wait("that is said", |model| {
        let mut notices = model.notices.iter();
        notices.any(|one| one.failed && one.text.contains("you blocked this site"))
    });
    app.send(Command::UnblockSite("127.0.0.1".into()));
    let model = app.wait("it can be once more", |model| {
        is_known(model) == Some(false)
    });
    assert_eq!(model.crawl.seeds, [""; 0]);
    app.quit();
}

#[test]
fn a_join_file_takes_the_place_of_one_of_its_own_network_alone() {
    let mut app = App::open(|opening| opening.settings.desktop.first_run_done = true);
    let of = |network: &str| {
        format!("[overlay]\nnetwork = '{network}'\n[crawl]\nseeds = ['http://a.example/']\n")
    };
    let file = app.folder.path().join("friends.peercrawl");
    for (text, why) in [
        ("a letter".to_owned(), "no join file"),
        (of("friends"), "another network"),
    ] {
        fs::write(&file, &text).unwrap();
        app.send(Command::MakeJoinFile(file.clone()));
        app.wait(why, |model| {
            let problem = model.problem(Field::NewJoinFile);
            problem.is_some_and(|words| words.contains(why))
        });
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    fs::write(&file, of("peercrawl")).unwrap();
    app.send(Command::MakeJoinFile(file.clone()));
    let model = app.wait("a new one", |model| !model.notices.is_empty());
    assert!(model.problem(Field::NewJoinFile).is_none());
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("join file") && !text.contains("a.example"),
        "{text}"
    );
    app.quit();
}
