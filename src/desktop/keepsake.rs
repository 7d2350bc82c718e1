//! What the window remembers from run to run: the graphs, the sums, and whether it was
//! crawling. One small file in the data directory, replaced as a whole.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::config_file::replace;
use super::history::History;
use super::stage::Wish;
use super::totals::Sums;

/// Its name.
const FILE: &str = "window-memory";
/// Its first byte; another form gets another number.
const FORM: u8 = 1;

/// See the module.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Keepsake {
    /// What the volunteer wanted last.
    pub wish: Wish,
    /// What was done so far.
    pub sums: Sums,
    history: Vec<u8>,
}

impl Keepsake {
    fn path(data: &Path) -> PathBuf {
        data.join(FILE)
    }

    /// What was remembered, and the past of the graphs. What cannot be read is
    /// forgotten: nothing that matters hangs on it.
    pub fn read(data: &Path) -> (Self, History) {
        let bytes = std::fs::read(Self::path(data)).unwrap_or_default();
        let kept = match bytes.split_first() {
            Some((&FORM, rest)) => postcard::from_bytes(rest).unwrap_or_default(),
            _ => Self::default(),
        };
        let history = History::load(&kept.history);
        (kept, history)
    }

    /// Remembers.
    pub fn write(&mut self, data: &Path, history: &History) -> std::io::Result<()> {
        self.history = history.save();
        // Encoding numbers into memory does not fail.
        let bytes = postcard::to_extend(self, vec![FORM]).unwrap_or_default();
        replace(&Self::path(data), &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peercrawl_ui::model::Sample;

    #[test]
    fn it_is_remembered_and_nonsense_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, mut history) = Keepsake::read(folder.path());
        assert_eq!(kept.wish, Wish::Stopped);
        kept.wish = Wish::Pause { until_ms: Some(9) };
        history.add(Sample {
            at_ms: 5,
            ..Sample::default()
        });
        kept.write(folder.path(), &history).unwrap();
        let (kept, history) = Keepsake::read(folder.path());
        assert_eq!(kept.wish, Wish::Pause { until_ms: Some(9) });
        assert_eq!(history.graphs().seconds.len(), 1);
        std::fs::write(folder.path().join(FILE), [FORM, 200, 1]).unwrap();
        assert_eq!(Keepsake::read(folder.path()).0.wish, Wish::Stopped);
    }
}
