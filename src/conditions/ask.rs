//! Asks a program of the desktop, within bounds: it may not be there, may say nothing,
//! and may hang.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A program that does not answer within this time is ended.
const PATIENCE: Duration = Duration::from_secs(2);
/// Answers are a few words.
const MOST_BYTES: u64 = 4_096;
/// How often to look whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// What the program prints, if it is there, ends well and in time.
pub fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    ask_within(program, arguments, PATIENCE)
}

fn ask_within(program: &str, arguments: &[&str], patience: Duration) -> Option<String> {
    let child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.ok()?;
    let until = Instant::now() + patience;
    let has_succeeded = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if Instant::now() < until => thread::sleep(LOOK),
            _ => {
                // It may have ended this very moment, which is as good.
                let _ended = child.kill();
                let _reaped = child.wait();
                return None;
            }
        }
    };
    let mut answer = Vec::new();
    // It has ended: what it printed is in the pipe, and reading does not wait.
    let output = child.stdout.take()?;
    output.take(MOST_BYTES).read_to_end(&mut answer).ok()?;
    has_succeeded.then(|| String::from_utf8_lossy(&answer).trim().to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_what_was_printed() {
        assert_eq!(ask("echo", &["u", "4"]).as_deref(), Some("u 4"));
        assert_eq!(ask("sh", &["-c", "echo no; exit 1"]), None);
        assert_eq!(ask("no-program-of-this-name", &[]), None);
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let begun = Instant::now();
        let answer = ask_within("sleep", &["3600"], Duration::from_millis(50));
        assert_eq!(answer, None);
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
