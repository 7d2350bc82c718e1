//! How busy other programs keep the processor: what all programs use, by `/proc/stat`,
//! without what this one uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cpu_time::ProcessTime;

/// Where Linux keeps it.
pub const FILE: &str = "/proc/stat";

/// Reads it again and again: each look tells of the time since the last.
#[derive(Debug)]
pub struct ProcessorReader {
    file: PathBuf,
    last: Option<(Ticks, Duration)>,
}

/// Ticks of all processors together, since the computer started.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ticks {
    busy: u64,
    all: u64,
    processors: u64,
}

impl ProcessorReader {
    /// Reads this file, which looks like `/proc/stat`.
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            last: None,
        }
    }

    /// The share of the whole processor that other programs have used since the last
    /// look, in percent; `None` where that cannot be told, and on the first look.
    pub fn others_percent(&mut self) -> Option<f64> {
        let text = fs::read_to_string(&self.file).ok()?;
        let own = ProcessTime::try_now().ok()?.as_duration();
        let now = (Ticks::parse(&text)?, own);
        let last = self.last.replace(now)?;
        percent(last, now)
    }
}

impl Ticks {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut fields = lines.next()?.split_whitespace();
        if fields.next()? != "cpu" {
            return None;
        }
        // user nice system idle iowait irq softirq steal; what follows is in user already.
        let ticks: Vec<u64> = fields
            .take(8)
            .map_while(|field| field.parse().ok())
            .collect();
        let all: u64 = ticks.iter().sum();
        let idle = ticks.get(3)? + ticks.get(4).unwrap_or(&0);
        let is_processor = |line: &&str| line.starts_with("cpu");
        Some(Self {
            busy: all - idle,
            all,
            processors: lines.take_while(is_processor).count().max(1) as u64,
        })
    }
}

fn percent(last: (Ticks, Duration), now: (Ticks, Duration)) -> Option<f64> {
    let all = now.0.all.checked_sub(last.0.all).filter(|&all| all > 0)? as f64;
    let busy = now.0.busy.saturating_sub(last.0.busy) as f64;
    // A tick is a hundredth of a second for user programs, on every Linux there is.
    let own = now.1.saturating_sub(last.1).as_secs_f64() * 100.0;
    Some(((busy - own) / all * 100.0).clamp(0.0, 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(user: u64, idle: u64) -> String {
        format!("cpu  {user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5\n")
    }

    #[test]
    fn our_own_work_does_not_count() {
        let at = |user, idle, own_ms| {
            let own = Duration::from_millis(own_ms);
            (Ticks::parse(&text(user, idle)).unwrap(), own)
        };
        // Ten seconds on two processors: 2,000 ticks, of which 1,000 busy, 800 ours.
        let share = percent(at(500, 500, 0), at(1_500, 1_500, 8_000)).unwrap();
        assert!((share - 10.0).abs() < 0.01, "{share}");
        assert_eq!(percent(at(500, 500, 0), at(600, 500, 2_000)), Some(0.0));
        assert_eq!(percent(at(500, 500, 0), at(500, 500, 0)), None);
        assert_eq!(at(1, 1, 0).0.processors, 2);
    }

    #[test]
    fn the_first_look_tells_nothing_and_a_missing_file_never_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stat");
        fs::write(&file, text(0, 100)).unwrap();
        let mut reader = ProcessorReader::new(&file);
        assert_eq!(reader.others_percent(), None);
        fs::write(&file, text(1_000_000, 1_000_100)).unwrap();
        let share = reader.others_percent().unwrap();
        assert!((45.0..=50.0).contains(&share), "{share}");
        assert_eq!(
            ProcessorReader::new(Path::new("/nowhere")).others_percent(),
            None
        );
        fs::write(&file, "nonsense\n").unwrap();
        assert_eq!(reader.others_percent(), None);
    }
}
