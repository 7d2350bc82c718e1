//! A power cut: what no `fsync` has brought to the disk is gone.
//!
//! The data directory is on a file system inside a file. While the crawler stands still,
//! that file holds what a disk would hold: a copy of it is the disk after the cut. It
//! takes the right to mount.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use peercrawl::demo::web::{Web, WebSpec};
use tempfile::TempDir;

use crate::crew::{DEADLINE, web};
use crate::durable::{Crawler, DOWNLOADERS, PAGES_WAITING, assert_archived, draws};

/// What a power cut may cost, besides what is in flight.
const LOST: Duration = Duration::from_secs(2);

/// Runs a program that has to succeed.
fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    assert!(status.unwrap().success(), "{program} {arguments:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A disk in a file, mounted while this lives.
struct Disk {
    image: PathBuf,
    root: PathBuf,
}

impl Disk {
    fn mount(image: PathBuf) -> Self {
        let root = image.with_extension("root");
        std::fs::create_dir(&root).unwrap();
        run("mount", &["-o", "loop", text(&image), text(&root)]);
        Self { image, root }
    }

    fn new(image: PathBuf) -> Self {
        run("truncate", &["--size", "600M", text(&image)]);
        run("mkfs.ext4", &["-q", "-F", text(&image)]);
        Self::mount(image)
    }

    /// The disk as a power cut at this moment would leave it. Whoever writes to it must
    /// stand still; the system may still be writing, so it is copied until that is over.
    fn after_cut(&self, copy: PathBuf) -> Self {
        let arguments = ["--sparse=always", text(&self.image), text(&copy)];
        let is_same = || Command::new("cmp").args(&arguments[1..]).output().unwrap();
        let begun = Instant::now();
        loop {
            run("cp", &arguments);
            if is_same().status.success() {
                return Self::mount(copy);
            }
            assert!(begun.elapsed() < DEADLINE, "the disk is never at rest");
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A test that has failed already should not fail twice.
        let _ended = Command::new("umount").arg(&self.root).status();
    }
}

/// The tables of the crawl's state.
fn tables(data: &Path) -> BTreeSet<PathBuf> {
    let entries = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.flatten().map(|entry| entry.path())
    };
    let is_state = |path: &PathBuf| text(path).contains("/crawl-");
    let states = entries(data).filter(is_state);
    let keyspaces = states.flat_map(|state| entries(&state.join("keyspaces")));
    keyspaces
        .flat_map(|keyspace| entries(&keyspace.join("tables")))
        .collect()
}

/// When the power is cut.
enum Cut {
    /// So long after the first page.
    After(Duration),
    /// When the database has just written a table, and brought its journal to the disk
    /// for that: then the state is ahead of the archive.
    WithTable,
}

/// Crawls, cuts the power, and tells what that may cost.
fn cut(when: &Cut, web: &Web, disk: &Disk, copy: PathBuf) -> (Disk, u64) {
    let data = disk.root.join("data");
    let mut child = Crawler { web, data: &data }.start();
    let mut fetched = VecDeque::new();
    let before = web.log().completed();
    let begun = Instant::now();
    let mut known = None;
    loop {
        // As long as there is no page, the crawl has not begun.
        if let Some(&(first, _)) = fetched.front() {
            let is_time = match when {
                Cut::After(time) => begun.elapsed() - first >= *time,
                Cut::WithTable => {
                    let now = tables(&data);
                    let known = known.get_or_insert_with(|| now.clone());
                    !now.is_subset(known)
                }
            };
            if is_time {
                break;
            }
        }
        assert_eq!(child.try_wait().unwrap(), None, "the web is too small");
        assert!(begun.elapsed() < DEADLINE, "nothing is fetched");
        let pages = web.log().completed();
        if pages > before {
            fetched.push_back((begun.elapsed(), pages));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    run("kill", &["-STOP", &child.id().to_string()]);
    let (stopped, now) = (begun.elapsed(), web.log().completed());
    let lost_from = fetched.iter().rfind(|&&(at, _)| at + LOST < stopped);
    let lost = now - lost_from.map_or(before, |&(_, pages)| pages);
    let after = disk.after_cut(copy);
    let open_bytes = |disk: &Disk| -> u64 {
        let files = std::fs::read_dir(disk.root.join("data/archive")).unwrap();
        let open = files.flatten().filter(|file| {
            let name = file.file_name();
            name.to_str().unwrap().ends_with(".warc.gz.open")
        });
        open.map(|file| file.metadata().unwrap().len()).sum()
    };
    let (there, written) = (open_bytes(&after), open_bytes(disk));
    println!("{there} of {written} bytes of the open archive file were on the disk");
    child.kill().unwrap();
    child.wait().unwrap();
    (after, lost + DOWNLOADERS + PAGES_WAITING)
}

/// Run by `.ci/run` with a time limit of its own.
#[test]
#[ignore = "mounts file systems"]
fn power_cuts_cost_two_seconds_at_most() {
    let web = web(WebSpec::new(60, 45_000, 14));
    let folder = TempDir::new().unwrap();
    let mut draw = draws(14);
    let mut disk = Disk::new(folder.path().join("0.disk"));
    let (mut bound, mut costs) = (0, Vec::new());
    let after = Cut::After(Duration::from_millis(2_500 + draw(1_500)));
    let cuts = [after, Cut::WithTable, Cut::WithTable];
    for (number, when) in cuts.iter().enumerate() {
        let copy = folder.path().join(format!("{}.disk", number + 1));
        let (after, lost) = cut(when, &web, &disk, copy);
        costs.push(lost);
        bound += lost;
        disk = after;
    }
    let data = disk.root.join("data");
    let report = Crawler {
        web: &web,
        data: &data,
    }
    .finish();
    let (truth, log) = (web.truth(), web.log());
    println!("{} pages again, at most {costs:?}", log.fetched_again);
    assert_eq!(web.unserved(&truth), [""; 0], "missed: {report}");
    assert_eq!(report["pages"], truth.reachable, "{report}");
    assert!(
        log.fetched_again <= bound,
        "{} > {bound}",
        log.fetched_again
    );
    assert_archived(&data, &web);
}
