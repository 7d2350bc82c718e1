//! The volunteer's limits: they bind everything that the app does, and can be changed at
//! any time.
//!
//! One [`Limits`] serves a peer, for its fetches and its overlay alike. Every byte that
//! goes through a socket passes one of its two [`Pipe`]s, below TLS and below Noise; every
//! fetch passes its [`Gate`]; the [`quota`] counts what the pipes have let through.
//! 0 means unlimited everywhere, and then costs next to nothing.
//!
//! - [`bucket`]: the bytes that may be moved, over time
//! - [`pipe`]: one direction of all traffic, shared by many
//! - [`gate`]: whether one more fetch may begin
//! - [`quota`], [`quota_file`]: the data of thirty days, also over restarts
//! - [`rates`]: how fast it goes at present
//! - [`stopwatch`]: time that was not spent waiting for all this

pub mod bucket;
pub mod gate;
pub mod pipe;
pub mod quota;
pub mod quota_file;
pub mod rates;
pub mod stopwatch;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use peercrawl_overlay::meter::{Direction, Meter};

pub use gate::Gate;
pub use pipe::Pipe;
pub use quota::{Quota, QuotaState};
use quota_file::QuotaFile;
pub use rates::Rates;
pub use stopwatch::Stopwatch;

use crate::clock::Millis;
use crate::config;

/// A gigabyte, as volunteers count them.
const GB: u64 = 1_000_000_000;

/// See the module.
#[derive(Debug)]
pub struct Limits {
    /// What comes in.
    pub down: Arc<Pipe>,
    /// What goes out.
    pub up: Arc<Pipe>,
    /// What begins.
    pub gate: Arc<Gate>,
    values: Mutex<config::Limits>,
    account: Mutex<Account>,
    /// Where the account is kept. Held while it is written, by the one thread that does.
    file: Mutex<Option<QuotaFile>>,
}

/// What the ticks of the clock keep up to date.
#[derive(Debug, Default)]
struct Account {
    quota: Quota,
    /// Of the bytes that went through the pipes, those that the quota knows.
    counted: u64,
    meter: rates::RateMeter,
}

impl Limits {
    /// Limits with these values.
    pub fn new(values: &config::Limits) -> Arc<Self> {
        let down = Arc::new(Pipe::new(bytes_per_sec(values.download_now_kib())));
        let limits = Self {
            gate: Arc::new(Gate::new(down.clone())),
            down,
            up: Arc::new(Pipe::new(bytes_per_sec(values.upload_now_kib()))),
            values: Mutex::new(values.clone()),
            account: Mutex::default(),
            file: Mutex::default(),
        };
        limits.apply(values);
        Arc::new(limits)
    }

    /// Sets all values.
    pub fn apply(&self, values: &config::Limits) {
        self.change(|current| *current = values.clone());
    }

    /// Changes some of the values; the others stay as they are.
    pub fn change(&self, change: impl FnOnce(&mut config::Limits)) {
        let mut current = self.values.lock();
        change(&mut current);
        self.down
            .set_limit(bytes_per_sec(current.download_now_kib()));
        self.up.set_limit(bytes_per_sec(current.upload_now_kib()));
        self.gate.set(
            current.pages_per_min,
            current.connections,
            current.cpu_percent,
        );
    }

    /// The values as they were set, slow mode apart.
    pub fn values(&self) -> config::Limits {
        self.values.lock().clone()
    }

    /// Bytes received since the start, over all sockets.
    pub fn bytes_down(&self) -> u64 {
        self.down.bytes()
    }

    /// Bytes sent since the start, over all sockets.
    pub fn bytes_up(&self) -> u64 {
        self.up.bytes()
    }

    /// How fast it goes at present.
    pub fn rates(&self) -> Rates {
        self.account.lock().meter.rates()
    }

    /// How the data of the current thirty days stands.
    pub fn quota(&self, now_ms: Millis) -> QuotaState {
        let limit_bytes = u64::from(self.values.lock().monthly_gb) * GB;
        self.account.lock().quota.state(limit_bytes, now_ms)
    }

    /// The account of the thirty days itself: it can be asked when nothing runs any more.
    pub fn account(&self) -> Quota {
        self.account.lock().quota.clone()
    }

    /// Keeps the account of the thirty days in this file, and goes on with what an earlier
    /// run has left there.
    pub fn keep_quota(&self, path: &Path) -> io::Result<()> {
        let (file, left) = QuotaFile::open(path)?;
        match left.as_deref().map(Quota::load) {
            Some(Some(quota)) => self.account.lock().quota = quota,
            Some(None) => match file.set_aside() {
                Ok(set_aside) => tracing::warn!("{set_aside}; counting begins anew"),
                Err(error) => tracing::warn!("counting begins anew: {error}"),
            },
            None => {}
        }
        *self.file.lock() = Some(file);
        Ok(())
    }

    /// Saves the account, where one is kept.
    pub fn save_quota(&self, now_ms: Millis) {
        if let Some(file) = &mut *self.file.lock() {
            let bytes = self.account.lock().quota.save();
            file.save(&bytes, now_ms);
        }
    }

    /// Brings rates and quota up to date; to be called a few times a second.
    pub fn tick(&self, now_ms: Millis) {
        let (down, up) = (self.bytes_down(), self.bytes_up());
        let mut account = self.account.lock();
        account.meter.count(down, up, now_ms);
        let all = down + up;
        let new = all.saturating_sub(account.counted);
        account.counted = account.counted.max(all);
        account.quota.count(new, now_ms);
        drop(account);
        let is_due = self
            .file
            .lock()
            .as_ref()
            .is_some_and(|file| file.is_due(now_ms));
        if is_due {
            self.save_quota(now_ms);
        }
    }

    /// Lets nothing through any more, or everything that is within the limits.
    pub fn set_shut(&self, is_shut: bool) {
        self.down.set_shut(is_shut);
        self.up.set_shut(is_shut);
    }

    /// Makes all who wait look whether they still should.
    pub fn wake(&self) {
        self.down.wake();
        self.up.wake();
    }

    fn pipe(&self, direction: Direction) -> &Pipe {
        match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        }
    }
}

impl Meter for Limits {
    fn take(&self, direction: Direction, wanted: usize) -> Result<usize, Duration> {
        self.pipe(direction).take(wanted)
    }

    fn put_back(&self, direction: Direction, unused: usize) {
        self.pipe(direction).put_back(unused);
    }

    fn limit(&self, direction: Direction) -> Option<u64> {
        self.pipe(direction).allowance()
    }
}

fn bytes_per_sec(kib: u32) -> u64 {
    u64::from(kib) << 10
}

impl config::Limits {
    /// The download limit that holds now, in KiB/s, slow mode included; 0 for none.
    pub fn download_now_kib(&self) -> u32 {
        match self.slow_mode {
            true => smaller(self.download_kib, self.slow_download_kib),
            false => self.download_kib,
        }
    }

    /// The upload limit that holds now, in KiB/s, slow mode included; 0 for none.
    pub fn upload_now_kib(&self) -> u32 {
        match self.slow_mode {
            true => smaller(self.upload_kib, self.slow_upload_kib),
            false => self.upload_kib,
        }
    }
}

/// The smaller of two limits, where 0 is none.
fn smaller(one: u32, other: u32) -> u32 {
    match (one, other) {
        (0, limit) | (limit, 0) => limit,
        _ => one.min(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_mode_never_raises_a_limit() {
        let limits = Limits::new(&config::Limits::default());
        assert_eq!((limits.down.limit(), limits.up.limit()), (0, 0));
        limits.change(|values| values.slow_mode = true);
        assert_eq!(
            (limits.down.limit(), limits.up.limit()),
            (64 << 10, 16 << 10)
        );
        limits.change(|values| values.download_kib = 32);
        assert_eq!(limits.down.limit(), 32 << 10);
        limits.change(|values| values.slow_download_kib = 0);
        limits.change(|values| values.download_kib = 256);
        assert_eq!(limits.down.limit(), 256 << 10);
        limits.change(|values| values.slow_mode = false);
        assert_eq!(limits.up.limit(), 0);
        assert_eq!(limits.values().slow_upload_kib, 16);
    }

    #[test]
    fn the_overlay_knows_what_it_may_move_now() {
        let limits = Limits::new(&config::Limits::default());
        let may_move = |direction| Meter::limit(&*limits, direction);
        assert_eq!(may_move(Direction::Up), None);
        limits.change(|values| values.upload_kib = 3);
        assert_eq!(may_move(Direction::Up), Some(3 << 10));
        assert_eq!(may_move(Direction::Down), None);
        limits.set_shut(true);
        assert_eq!(may_move(Direction::Up), Some(0));
        assert_eq!(may_move(Direction::Down), Some(0));
        limits.set_shut(false);
        limits.change(|values| values.upload_kib = 0);
        assert_eq!(may_move(Direction::Up), None);
    }

    #[test]
    fn what_goes_through_is_counted_against_the_quota() {
        let limits = Limits::new(&config::Limits::default());
        limits.change(|values| values.monthly_gb = 1);
        limits.tick(1_000_000);
        limits.down.charge(600_000_000);
        limits.tick(1_001_000);
        assert!(!limits.quota(1_001_000).is_used_up());
        assert_eq!(limits.rates().down_bytes_per_sec, 600_000_000.0);
        limits.up.take(400_000_000).unwrap();
        limits.tick(1_002_000);
        assert!(limits.quota(1_002_000).is_used_up());
        limits.change(|values| values.monthly_gb = 0);
        assert!(!limits.quota(1_002_000).is_used_up());
    }

    #[test]
    fn the_account_goes_on_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quota");
        let run = |bytes, now_ms| {
            let limits = Limits::new(&config::Limits::default());
            limits.keep_quota(&path).unwrap();
            limits.down.charge(bytes);
            limits.tick(now_ms);
            limits.quota(now_ms).used_bytes
        };
        assert_eq!(run(500, 1_000_000), 500);
        assert_eq!(run(70, 2_000_000), 570);
        std::fs::write(&path, b"nonsense").unwrap();
        assert_eq!(run(3, 3_000_000), 3);
        let aside = folder.path().join("quota.damaged-1");
        assert_eq!(std::fs::read(aside).unwrap(), b"nonsense");
        let limits = Limits::new(&config::Limits::default());
        assert!(
            limits.keep_quota(folder.path()).is_err(),
            "a folder is no file"
        );
    }
}
