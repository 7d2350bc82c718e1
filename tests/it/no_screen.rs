//! The real program, as far as it comes without a screen.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use peercrawl::data_directory::DataDirectory;
use tempfile::TempDir;

/// The program with a home of its own. It touches nobody else's network.
fn program(command: &[&str], home: &Path) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_peercrawl"));
    program.args(command).arg("--allow-private");
    program.arg("--data").arg(home.join("data"));
    program.args(["--set", "overlay.mdns=false", "--set", "overlay.upnp=false"]);
    program.args(["--set", "overlay.listen=['/ip4/127.0.0.1/tcp/0']"]);
    program.env("HOME", home);
    program.env("XDG_CONFIG_HOME", home.join("config"));
    for name in ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "RUST_LOG"] {
        program.env_remove(name);
    }
    program.stdin(Stdio::null());
    program.stdout(Stdio::piped()).stderr(Stdio::piped());
    program
}

/// A peer without a window, which ends with this value.
struct Headless {
    child: Child,
    /// Open until it ends: it writes a summary there.
    _stdout: BufReader<ChildStdout>,
}

impl Headless {
    /// Starts it, and waits until it listens.
    fn start(mut program: Command) -> Self {
        let mut child = program.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let headless = Self {
            child,
            _stdout: stdout,
        };
        let listens = line.starts_with("listening /ip4/127.0.0.1/tcp/");
        assert!(listens, "{line:?}");
        headless
    }

    /// Ends it as a system that shuts down would; gives what it said.
    fn stop(mut self) -> String {
        let pid = self.child.id().to_string();
        let kill = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(kill.unwrap().success());
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Headless {
    fn drop(&mut self) {
        // It has ended already, unless the test fails.
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}

#[test]
fn without_a_display_it_says_so_and_runs_headless() {
    let home = TempDir::new().unwrap();
    let said = Headless::start(program(&[], home.path())).stop();
    let why = "There is no display to open a window on: running headless";
    assert!(said.contains(why), "{said}");
}

/// One that nobody serves: the window fails after the data directory was opened.
#[test]
fn with_a_dead_display_it_says_so_and_runs_headless() {
    let home = TempDir::new().unwrap();
    let mut program = program(&[], home.path());
    program.env("DISPLAY", ":4093");
    let said = Headless::start(program).stop();
    let why = "No window can be opened (";
    assert!(said.contains(why), "{said}");
    assert!(said.contains("): running headless"), "{said}");
    assert!(home.path().join("data").exists());
}

#[test]
fn a_data_directory_that_is_in_use_is_named_and_left_alone() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    drop(DataDirectory::open(&data, [7; 32]).unwrap());
    let first = Headless::start(program(&["run"], home.path()));
    let named = data.display().to_string();
    // None, and one that nobody serves: there it looks for a window for some seconds,
    // and cannot say it in one of its own.
    for (display, words) in [
        ("", "is used by another PeerCrawl"),
        (":4093", "PeerCrawl runs there without a window"),
    ] {
        let mut second = program(&[], home.path());
        let output = second.env("DISPLAY", display).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&named) && said.contains(words), "{said}");
    }
    first.stop();
    let kept = DataDirectory::open(&data, [8; 32]).unwrap();
    assert_eq!(kept.secret(), [7; 32], "it is the same peer");
}
