//! What takes a while and may not keep the desk: dialogs, programs of the desktop, long
//! looks into files. Each has a thread, and what comes of it is an order to the desk.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use crossbeam_channel::Sender;
use peercrawl_ui::model::Field;

use super::link::Order;

/// Does something in a thread of its own.
pub fn start(orders: &Sender<Order>, name: &str, work: impl FnOnce() -> Order + Send + 'static) {
    let orders = orders.clone();
    let thread = thread::Builder::new().name(name.to_owned());
    let run = move || {
        // The desk has ended: nobody wants to know.
        let _ended = orders.send(work());
    };
    if let Err(why) = thread.spawn(run) {
        tracing::warn!("no thread for {name}: {why}");
    }
}

/// The programs that can ask for a file, in the order in which they are tried.
const DIALOGS: [&str; 2] = ["zenity", "kdialog"];

/// The program that can ask for a file on this desktop, if there is one.
pub fn dialog_program() -> Option<&'static str> {
    DIALOGS.into_iter().find(|name| is_installed(name))
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// The desktop's dialog for a file or folder. There is one at a time.
#[derive(Debug, Default)]
pub struct Dialog {
    /// The thread that waits for it to be closed has a share in this as long as it does.
    waiting: Arc<()>,
}

impl Dialog {
    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        Arc::strong_count(&self.waiting) > 1
    }

    /// Opens it; the answer comes as an order, if there is one.
    pub fn open(&self, orders: &Sender<Order>, field: Field, start_at: &Path) {
        let Some(program) = dialog_program() else {
            return;
        };
        let mut command = Command::new(program);
        command.args(arguments(program, field, start_at));
        self.open_with(orders, field, command);
    }

    fn open_with(&self, orders: &Sender<Order>, field: Field, mut command: Command) {
        let token = self.waiting.clone();
        start(orders, "dialog", move || {
            let _waiting = token;
            match command.output() {
                Ok(output) if output.status.success() => {
                    let text = String::from_utf8_lossy(&output.stdout);
                    Order::Chosen(field, PathBuf::from(text.trim_end_matches('\n')))
                }
                // Cancelled.
                Ok(_) => Order::Done(Ok(String::new())),
                Err(why) => Order::Done(Err(format!("The dialog did not open: {why}"))),
            }
        });
    }
}

fn arguments(program: &str, field: Field, start_at: &Path) -> Vec<String> {
    let at = start_at.display().to_string();
    let own = |list: &[&str]| list.iter().map(|&one| one.to_owned()).collect();
    match (program, field) {
        ("zenity", Field::NewJoinFile) => own(&["--file-selection", "--save", "--filename", &at]),
        ("zenity", Field::ArchiveFolder) => own(&["--file-selection", "--directory"]),
        ("zenity", _) => own(&[
            "--file-selection",
            "--file-filter",
            "Join files | *.peercrawl",
        ]),
        (_, Field::NewJoinFile) => own(&["--getsavefilename", &at]),
        (_, Field::ArchiveFolder) => own(&["--getexistingdirectory"]),
        _ => own(&["--getopenfilename", ".", "*.peercrawl"]),
    }
}

/// Tells the volunteer something outside of the window, where the desktop can.
pub fn notify(text: &str) {
    const PROGRAM: &str = "notify-send";
    if !is_installed(PROGRAM) {
        return;
    }
    let mut command = Command::new(PROGRAM);
    command.args([
        "--app-name=PeerCrawl",
        "--icon=peercrawl",
        "PeerCrawl",
        text,
    ]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let wait = move || {
        if let Err(why) = command.status() {
            tracing::debug!("{PROGRAM}: {why}");
        }
    };
    if let Err(why) = thread::Builder::new().name("notice".into()).spawn(wait) {
        tracing::debug!("no thread for a notice: {why}");
    }
}

/// What was last told in this way. It is told once: what is tried again and again fails
/// again and again.
#[derive(Debug, Default)]
pub struct Told(String);

impl Told {
    /// Tells the volunteer something, unless that was the last they were told.
    pub fn tell(&mut self, text: &str) {
        if self.is_news(text) {
            notify(text);
        }
    }

    fn is_news(&mut self, text: &str) -> bool {
        let is_news = self.0 != text;
        text.clone_into(&mut self.0);
        is_news
    }

    /// The same would be news again.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// Something that is told in this way each time that it begins, and not while it lasts: its
/// figures may change.
#[derive(Debug, Default)]
pub struct Lasting(bool);

impl Lasting {
    /// Takes in what is to be told at present, if anything is.
    pub fn tell(&mut self, text: Option<&str>) {
        if let Some(text) = self.news(text) {
            notify(text);
        }
    }

    fn news<'a>(&mut self, text: Option<&'a str>) -> Option<&'a str> {
        let was_so = std::mem::replace(&mut self.0, text.is_some());
        text.filter(|_| !was_so)
    }
}

/// Shows a folder in the desktop's file browser.
pub fn open_folder(orders: &Sender<Order>, folder: PathBuf) {
    let program = match std::env::consts::OS {
        "windows" => "explorer",
        "macos" => "open",
        _ => "xdg-open",
    };
    start(orders, "open-folder", move || {
        let opened = open_with(program, &folder);
        let words = |why| {
            let folder = folder.display();
            format!("The folder could not be opened ({why}). It is {folder}.")
        };
        Order::Done(opened.map(|()| String::new()).map_err(words))
    });
}

/// Has a program show a folder, which is made if it is not there: before the first crawl it
/// is not.
fn open_with(program: &str, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|why| why.to_string())?;
    let mut command = Command::new(program);
    command
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command.status();
    let status = status.map_err(|why| format!("{program}: {why}"))?;
    // The one of Windows says that it failed whatever came of it.
    match status.success() || cfg!(windows) {
        true => Ok(()),
        false => Err(format!("{program}: {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A desktop without a file browser did nothing, and nobody was told.
    #[test]
    fn a_folder_that_cannot_be_shown_is_told_of() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("not/there/yet");
        assert_eq!(open_with("true", &folder), Ok(()));
        assert!(folder.is_dir(), "it is made");
        let why = open_with("false", &folder).unwrap_err();
        assert!(why.starts_with("false: "), "{why}");
        assert!(open_with("no-such-program", &folder).is_err());
        std::fs::write(home.path().join("file"), "").unwrap();
        assert!(open_with("true", &home.path().join("file/x")).is_err());
    }

    /// Each click on *Browse…* opened one more.
    #[test]
    fn a_dialog_is_open_until_it_is_answered() {
        let folder = tempfile::tempdir().unwrap();
        let answer = folder.path().join("answer");
        let mut command = Command::new("sh");
        let script = "until [ -e \"$0\" ]; do sleep 0.01; done; echo /a/file";
        command.arg("-c").arg(script).arg(&answer);
        let (orders, told) = crossbeam_channel::unbounded();
        let dialog = Dialog::default();
        assert!(!dialog.is_open());
        dialog.open_with(&orders, Field::JoinFile, command);
        assert!(dialog.is_open());
        std::fs::write(&answer, "").unwrap();
        let order = told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(!dialog.is_open());
        let file = Path::new("/a/file");
        assert!(
            matches!(&order, Order::Chosen(Field::JoinFile, path) if path == file),
            "{order:?}"
        );
    }

    #[test]
    fn what_lasts_is_told_each_time_that_it_begins() {
        let mut told = Lasting::default();
        assert_eq!(told.news(None), None);
        assert_eq!(told.news(Some("12 sites refuse")), Some("12 sites refuse"));
        assert_eq!(told.news(Some("13 sites refuse")), None, "it lasts");
        assert_eq!(told.news(None), None);
        assert_eq!(told.news(Some("12 sites refuse")), Some("12 sites refuse"));
    }

    #[test]
    fn the_same_is_told_once_until_it_is_forgotten() {
        let mut told = Told::default();
        assert!(told.is_news("no site answers"));
        assert!(!told.is_news("no site answers"), "it was tried again");
        assert!(told.is_news("the disk is full"));
        told.forget();
        assert!(told.is_news("the disk is full"), "pages came in between");
    }
}
