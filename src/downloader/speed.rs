//! How slowly a server may answer.
//!
//! A server that sends a byte now and then holds a downloader for as long as a whole
//! request may take. So its speed is watched from the first byte of an answer on: after
//! a time of grace, what it has sent must be worth the time that was spent waiting for
//! it. Only that time counts: what our own limits cost is not the server's fault.

use std::time::Duration;

/// The least that is asked of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinSpeed {
    /// Bytes a second, on average; 0 asks for nothing.
    pub bytes_per_sec: u64,
    /// Waiting time before it is asked for.
    pub grace: Duration,
}

/// The server sends too slowly.
#[derive(Debug, thiserror::Error)]
#[error("the server sends fewer than {0} bytes a second")]
pub struct TooSlow(u64);

/// Watches one connection, answer by answer.
#[derive(Debug)]
pub struct SpeedWatch {
    least: MinSpeed,
    waited: Duration,
    bytes: u64,
}

impl SpeedWatch {
    /// A connection over which nothing has come yet.
    pub fn new(least: MinSpeed) -> Self {
        Self {
            least,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    /// Something was sent: what comes next is another answer.
    pub fn restart(&mut self) {
        self.waited = Duration::ZERO;
        self.bytes = 0;
    }

    /// How long to wait at most before looking at the speed again.
    pub fn patience(&self) -> Option<Duration> {
        (self.least.bytes_per_sec > 0).then_some(self.least.grace)
    }

    /// So many bytes came after so long a wait; none if there was nothing to read.
    pub fn received(&mut self, bytes: usize, waited: Duration) -> Result<(), TooSlow> {
        if self.bytes == 0 {
            // The time until a server begins is its time to think.
            self.bytes = bytes as u64;
            return Ok(());
        }
        self.bytes += bytes as u64;
        self.waited += waited;
        let least = self.least.bytes_per_sec;
        let is_slow = (self.bytes as f64) < least as f64 * self.waited.as_secs_f64();
        match self.waited >= self.least.grace && is_slow {
            true => Err(TooSlow(least)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn watch() -> SpeedWatch {
        SpeedWatch::new(MinSpeed {
            bytes_per_sec: 100,
            grace: 10 * SECOND,
        })
    }

    #[test]
    fn a_server_may_think_but_not_drip() {
        let mut watch = watch();
        assert!(watch.received(0, 30 * SECOND).is_ok(), "nothing yet");
        assert!(watch.received(1, 30 * SECOND).is_ok(), "it begins");
        for second in 1..10 {
            assert!(watch.received(1, SECOND).is_ok(), "grace, second {second}");
        }
        assert!(watch.received(1, SECOND).is_err());
    }

    #[test]
    fn what_was_sent_before_counts_and_the_next_answer_begins_anew() {
        let mut watch = watch();
        watch.received(2_000, SECOND).unwrap();
        watch.received(1, 19 * SECOND).unwrap();
        assert!(watch.received(1, 2 * SECOND).is_err());
        watch.restart();
        assert!(watch.received(1, 30 * SECOND).is_ok());
        assert!(watch.received(1, 9 * SECOND).is_ok());
        assert!(watch.received(0, SECOND).is_err(), "silence is slow too");
    }

    #[test]
    fn nothing_is_asked_of_servers_if_the_settings_say_so() {
        let mut watch = SpeedWatch::new(MinSpeed {
            bytes_per_sec: 0,
            grace: SECOND,
        });
        watch.received(1, SECOND).unwrap();
        assert!(watch.received(0, 3_600 * SECOND).is_ok());
        assert_eq!(watch.patience(), None);
    }
}
