//! What the window remembers from run to run: the graphs, the sums, and whether it was
//! crawling. Two files in the data directory, each replaced as a whole: the graphs are a
//! thousand times as large as the rest, which is written more often, so that a crash costs
//! the sums a few seconds at most.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::config_file::replace;
use super::history::History;
use super::stage::Wish;
use super::totals::Sums;

/// The names of the files.
const FILE: &str = "window-memory";
const GRAPHS: &str = "window-graphs";
/// The first byte of the former; another form gets another number.
const FORM: u8 = 2;
/// The form in which the graphs were in the same file.
const FORM_WITH_GRAPHS: u8 = 1;

/// See the module.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keepsake {
    /// What the volunteer wanted last.
    pub wish: Wish,
    /// What was done so far.
    pub sums: Sums,
}

impl Keepsake {
    /// What was remembered, and the past of the graphs. What cannot be read is
    /// forgotten: nothing that matters hangs on it.
    pub fn read(data: &Path) -> (Self, History) {
        let bytes = std::fs::read(data.join(FILE)).unwrap_or_default();
        let graphs = std::fs::read(data.join(GRAPHS)).unwrap_or_default();
        match bytes.split_first() {
            Some((&FORM, rest)) => {
                let kept = postcard::from_bytes(rest).unwrap_or_default();
                (kept, History::load(&graphs))
            }
            Some((&FORM_WITH_GRAPHS, rest)) => {
                let (kept, graphs): (Self, Vec<u8>) =
                    postcard::from_bytes(rest).unwrap_or_default();
                (kept, History::load(&graphs))
            }
            _ => Default::default(),
        }
    }

    /// Remembers all but the graphs.
    pub fn write(&self, data: &Path) -> io::Result<()> {
        // Encoding numbers into memory does not fail.
        let bytes = postcard::to_extend(self, vec![FORM]).unwrap_or_default();
        replace(&data.join(FILE), &bytes)
    }
}

/// Remembers the graphs.
pub fn write_graphs(data: &Path, history: &History) -> io::Result<()> {
    replace(&data.join(GRAPHS), &history.save())
}

#[cfg(test)]
mod tests {
    use super::*;
    use peercrawl_ui::model::Sample;

    fn a_past() -> History {
        let mut history = History::default();
        history.add(Sample {
            at_ms: 5,
            ..Sample::default()
        });
        history
    }

    #[test]
    fn it_is_remembered_and_nonsense_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, history) = Keepsake::read(folder.path());
        assert_eq!(kept.wish, Wish::Stopped);
        assert!(history.graphs().seconds.is_empty());
        kept.wish = Wish::Pause { until_ms: Some(9) };
        kept.write(folder.path()).unwrap();
        write_graphs(folder.path(), &a_past()).unwrap();
        let (kept, history) = Keepsake::read(folder.path());
        assert_eq!(kept.wish, Wish::Pause { until_ms: Some(9) });
        assert_eq!(history.graphs().seconds.len(), 1);
        std::fs::write(folder.path().join(FILE), [FORM, 200, 1]).unwrap();
        assert_eq!(Keepsake::read(folder.path()).0.wish, Wish::Stopped);
    }

    #[test]
    fn what_was_one_file_is_read_too() {
        let folder = tempfile::tempdir().unwrap();
        let before = (Wish::Crawl, Sums::default(), a_past().save());
        let bytes = postcard::to_extend(&before, vec![FORM_WITH_GRAPHS]).unwrap();
        std::fs::write(folder.path().join(FILE), bytes).unwrap();
        let (kept, history) = Keepsake::read(folder.path());
        assert_eq!(kept.wish, Wish::Crawl);
        assert_eq!(history.graphs().seconds.len(), 1);
    }
}
