//! Archive.

use super::*;
use peercrawl_ui::model::{Field, Found, LookUp};
use std::path::PathBuf;

#[test]
fn size_and_files_are_shown() {
    let mut window = Window::at(Screen::Archive);
    for text in [
        "402,117 pages, 6.4 GB",
        "6.4 GB of 10 GB, 64 % full",
        "/home/ada/.local/share/peercrawl/archive",
        "Besides, 210 MB for notes",
        "peercrawl-20261116-00012.warc.gz",
    ] {
        assert!(window.has(text), "{text}");
    }
    window.press("Open folder");
    assert_eq!(window.sent(), [Command::OpenArchiveFolder]);
}

#[test]
fn a_page_is_looked_up() {
    let mut window = Window::at(Screen::Archive);
    let url = "https://example.org/a".to_owned();
    window.fill("Web address", &url);
    window.press("Look up");
    assert_eq!(window.sent(), [Command::LookUp(url.clone())]);
    window.fill("Web address", &url);
    window.key(Key::Enter);
    assert_eq!(window.sent(), [Command::LookUp(url.clone())]);
    let found = |found| {
        Some(LookUp {
            url: url.clone(),
            found,
        })
    };
    let look_up = found(Found::Nothing);
    window.change(|model| Arc::make_mut(&mut model.archive).look_up = look_up);
    assert!(window.has("is not stored on this computer"));
    let look_up = found(Found::Page {
        at_ms: made_up::NOW_MS,
        status: 200,
        mime: "text/html".to_owned(),
        bytes: 12_000,
        file: "peercrawl-1.warc.gz".to_owned(),
    });
    window.change(|model| Arc::make_mut(&mut model.archive).look_up = look_up);
    assert!(window.has("stored on 16 Nov 2026 at 16:40, 12 kB, text/html, answer 200"));
}

#[test]
fn a_full_archive_offers_three_ways_out() {
    let mut model = made_up::model();
    Arc::make_mut(&mut model.archive).full = true;
    let mut window = Window::open(model);
    window.go(Screen::Archive);
    assert!(window.has("The archive is full"));
    window.press("Raise the limit to 20 GB");
    assert_eq!(window.sent(), changed(Setting::DiskGb(20)));
    // The limit was lowered under what is stored: ten more than that would make no room.
    window.change(|model| Arc::make_mut(&mut model.archive).bytes = 60_000_000_001);
    window.press("Raise the limit to 71 GB");
    assert_eq!(window.sent(), changed(Setting::DiskGb(71)));
    window.fill("Move the files to", "/media/big");
    window.press("Move files");
    assert_eq!(
        window.sent(),
        [Command::MoveArchive(PathBuf::from("/media/big"))]
    );
    assert!(!window.has("Moving"), "it is said once it is true");
    window.press("Choose a folder…");
    assert_eq!(window.sent(), [Command::Browse(Field::ArchiveFolder)]);
}

#[test]
fn deleting_is_asked_for_because_it_cannot_be_undone() {
    let mut window = Window::at(Screen::Archive);
    window.press("Drop the oldest…");
    assert!(window.has("That frees 1.0 GB."));
    window.press("Keep them");
    assert_eq!(window.sent(), []);
    window.press("Drop the oldest…");
    window.key(Key::Escape);
    assert!(!window.has("Delete for good"));
    assert_eq!(window.sent(), []);
    window.press("Drop the oldest…");
    window.press("Delete for good");
    assert_eq!(window.sent(), [Command::DropOldest]);
}

#[test]
fn the_disk_limit_is_set_here_too() {
    let mut window = Window::at(Screen::Archive);
    window.set_number("Disk limit", "25");
    assert_eq!(window.sent(), changed(Setting::DiskGb(25)));
}
