//! How a second start finds the first: a bell at its door.
//!
//! The program that has the data directory listens on a port of this machine and writes
//! that port with a secret word into the file `window` of the directory, which only its
//! user can read. A second start that finds the directory taken knocks there, hands over
//! the join file that it was to open, and ends; the first one's window comes forward.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The file that tells where to knock.
const FILE: &str = "window";
/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(3);
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
    /// Listens; `rung` is called with the join file, if one is handed over.
    pub fn hang(
        data: &Path,
        word: [u8; 16],
        rung: impl Fn(Option<PathBuf>) + Send + 'static,
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
                // A caller who hangs up or talks nonsense is no reason to stop listening.
                if let Ok(caller) = caller
                    && let Ok(join_file) = answer(&caller, &word)
                {
                    rung(join_file);
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

fn answer(caller: &TcpStream, word: &str) -> io::Result<Option<PathBuf>> {
    caller.set_read_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(caller.take(MOST_BYTES)).lines();
    let mut next = || lines.next().unwrap_or_else(|| Ok(String::new()));
    if next()? != word {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let path = next()?;
    let mut caller = caller;
    writeln!(caller, "{WELCOME}")?;
    Ok(Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty()))
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
        let bell = Doorbell::hang(folder.path(), [7; 16], move |path| {
            sender.send(path).unwrap();
        })
        .unwrap();
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
}
