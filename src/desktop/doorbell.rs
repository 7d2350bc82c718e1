//! How a second start finds the first: a bell at its door.
//!
//! The program that has the data directory listens on a port of this machine and writes
//! that port with a secret word into the file `window` of the directory, which only its
//! user can read. A second start that finds the directory taken knocks there, hands over
//! the join file that it was to open, and ends; the first one's window comes forward. If
//! nobody answers, the first one may have only just begun, or be about to end: the second
//! tries both the directory and the bell for a while.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::data_directory::DataDirectory;
use crate::store::StoreError;

/// The file that tells where to knock.
const FILE: &str = "window";
/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(3);
/// How soon a second start tries again.
const RETRY_PERIOD: Duration = Duration::from_millis(200);
/// What is said at most.
const MOST_BYTES: u64 = 16 << 10;
/// The answer to whoever knows the word.
const WELCOME: &str = "peercrawl";

/// The bell of the program that has the data directory. Dropped, it rings no more.
pub struct Doorbell {
    file: PathBuf,
    address: SocketAddr,
    is_closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Doorbell {
    /// Listens; `rung` is called with the join file, if one is handed over, and tells
    /// whether anybody has heard it.
    pub fn hang(
        data: &Path,
        word: [u8; 16],
        rung: impl Fn(Option<PathBuf>) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let word: String = word.iter().map(|byte| format!("{byte:02x}")).collect();
        let file = data.join(FILE);
        write_private(&file, &format!("{} {word}\n", address.port()))?;
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = is_closed.clone();
        let listen = move || {
            for caller in listener.incoming() {
                if closed.load(Relaxed) {
                    return;
                }
                if let Ok(caller) = caller {
                    // One who hangs up or talks nonsense is no reason to stop listening.
                    let _stranger = answer(&caller, &word, &rung);
                }
            }
        };
        let thread = thread::Builder::new()
            .name("doorbell".into())
            .spawn(listen)?;
        Ok(Self {
            file,
            address,
            is_closed,
            thread: Some(thread),
        })
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        // It may be gone with the whole directory.
        let _gone = std::fs::remove_file(&self.file);
        self.is_closed.store(true, Relaxed);
        // Wakes the thread. If nobody can connect, it cannot be woken, and ends with us.
        if TcpStream::connect_timeout(&self.address, PATIENCE).is_ok()
            && let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread behind the doorbell panicked");
        }
    }
}

/// Takes a data directory into use, or knocks at the door of the program that has it, until
/// one of the two succeeds or it has been tried for this long. `None` if somebody answered.
pub fn open_or_knock(
    data: &Path,
    fresh: [u8; 32],
    join_file: Option<&Path>,
    patience: Duration,
) -> Result<Option<DataDirectory>, StoreError> {
    let until = Instant::now() + patience;
    loop {
        match DataDirectory::open(data, fresh) {
            Err(StoreError::InUse(..)) if knock(data, join_file).is_ok() => return Ok(None),
            Err(StoreError::InUse(..)) if Instant::now() < until => thread::sleep(RETRY_PERIOD),
            opened => return opened.map(Some),
        }
    }
}

/// Knocks at the door of the program that has this data directory.
pub fn knock(data: &Path, join_file: Option<&Path>) -> io::Result<()> {
    let bad = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "it does not answer as PeerCrawl",
        )
    };
    let text = std::fs::read_to_string(data.join(FILE))?;
    let (port, word) = text.trim().split_once(' ').ok_or_else(bad)?;
    let port: u16 = port.parse().map_err(|_| bad())?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut door = TcpStream::connect_timeout(&address, PATIENCE)?;
    door.set_read_timeout(Some(PATIENCE))?;
    // The other program may have another working directory.
    let path = join_file.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()));
    let path = path.map_or_else(String::new, |path| path.display().to_string());
    write!(door, "{word}\n{path}\n")?;
    let mut welcome = String::new();
    BufReader::new(door.take(MOST_BYTES)).read_line(&mut welcome)?;
    match welcome.trim() == WELCOME {
        true => Ok(()),
        false => Err(bad()),
    }
}

fn answer(
    caller: &TcpStream,
    word: &str,
    rung: impl Fn(Option<PathBuf>) -> bool,
) -> io::Result<()> {
    caller.set_read_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(caller.take(MOST_BYTES)).lines();
    let mut next = || lines.next().unwrap_or_else(|| Ok(String::new()));
    if next()? != word {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let path = Some(PathBuf::from(next()?));
    if rung(path.filter(|path| !path.as_os_str().is_empty())) {
        let mut caller = caller;
        writeln!(caller, "{WELCOME}")?;
    }
    Ok(())
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_start_is_heard_with_its_join_file_and_a_stranger_is_not() {
        let folder = tempfile::tempdir().unwrap();
        assert!(knock(folder.path(), None).is_err(), "nobody is there");
        let (sender, rung) = crossbeam_channel::unbounded();
        let hear = move |path| sender.send(path).is_ok();
        let bell = Doorbell::hang(folder.path(), [7; 16], hear).unwrap();
        knock(folder.path(), None).unwrap();
        assert_eq!(rung.recv_timeout(PATIENCE), Ok(None));
        let file = folder.path().join("a friend's.peercrawl");
        knock(folder.path(), Some(&file)).unwrap();
        assert_eq!(rung.recv_timeout(PATIENCE), Ok(Some(file)));
        let mut stranger = TcpStream::connect(bell.address).unwrap();
        stranger.write_all(b"let me in\n\n").unwrap();
        let mut answer = String::new();
        // It is hung up on, in one way or the other.
        let _reset = stranger.read_to_string(&mut answer);
        assert_eq!(answer, "");
        knock(folder.path(), None).unwrap();
        assert_eq!(
            rung.recv_timeout(PATIENCE),
            Ok(None),
            "and only this one rang"
        );
        drop(bell);
        assert!(
            knock(folder.path(), None).is_err(),
            "nobody is there any more"
        );
    }

    #[test]
    fn a_second_start_waits_for_a_first_that_has_no_bell_yet_or_no_more() {
        const LONG: Duration = Duration::from_secs(60);
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        let first = DataDirectory::open(data, [1; 32]).unwrap();
        let second = |patience| open_or_knock(data, [2; 32], None, patience);
        let gave_up = second(Duration::ZERO);
        assert!(matches!(gave_up, Err(StoreError::InUse(..))));
        thread::scope(|threads| {
            let started = threads.spawn(|| second(LONG));
            let (sender, rung) = crossbeam_channel::unbounded();
            let deaf = Doorbell::hang(data, [7; 16], move |_| sender.send(()).is_err()).unwrap();
            rung.recv_timeout(LONG).unwrap();
            drop(deaf);
            let hears = Doorbell::hang(data, [7; 16], |_| true).unwrap();
            let answered = started.join().unwrap().unwrap();
            assert!(answered.is_none(), "the first one is there by now");
            drop(hears);
            let started = threads.spawn(|| second(LONG));
            drop(first);
            let opened = started.join().unwrap().unwrap();
            assert!(opened.is_some(), "the first one is gone");
        });
    }
}
