//! What the window remembers from run to run: the graphs, the sums, and whether it was
//! crawling. Two files in the data directory, each replaced as a whole: the graphs are a
//! thousand times as large as the rest, which is written more often, so that a crash costs
//! the sums a few seconds at most.

use std::io;
use std::path::Path;
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};

use super::config_file::replace;
use super::history::History;
use super::stage::Wish;
use super::totals::Sums;
use crate::store::SetAside;

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
    /// What was remembered, and the past of the graphs, by the clock as it is now. A file that
    /// cannot be read, or that a newer version wrote, is set aside: the next one would replace it.
    pub fn read(data: &Path, now_ms: u64) -> (Self, History) {
        let bytes = std::fs::read(data.join(FILE)).unwrap_or_default();
        let read = match bytes.split_first() {
            None => Some(Default::default()),
            Some((&FORM, rest)) => postcard::from_bytes(rest).ok().map(|kept| (kept, None)),
            Some((&FORM_WITH_GRAPHS, rest)) => {
                let read: Option<(Self, Vec<u8>)> = postcard::from_bytes(rest).ok();
                read.map(|(kept, graphs)| (kept, Some(graphs)))
            }
            Some(_) => None,
        };
        if read.is_none() {
            set_aside(&data.join(FILE));
        }
        let (kept, graphs) = read.unwrap_or_default();
        let graphs = graphs.unwrap_or_else(|| std::fs::read(data.join(GRAPHS)).unwrap_or_default());
        let history = History::load(&graphs, now_ms).unwrap_or_else(|| {
            set_aside(&data.join(GRAPHS));
            History::default()
        });
        (kept, history)
    }

    /// Remembers all but the graphs.
    pub fn write(&self, data: &Path) -> io::Result<()> {
        // Encoding numbers into memory does not fail.
        let bytes = postcard::to_extend(self, vec![FORM]).unwrap_or_default();
        replace(&data.join(FILE), &bytes)
    }
}

fn set_aside(file: &Path) {
    match SetAside::rename(file, "it is nothing that the window remembered".to_owned()) {
        Ok(set_aside) => tracing::warn!("{set_aside}"),
        Err(error) => tracing::warn!("{error}"),
    }
}

/// Writes it down, each time in a thread of its own: a disk may take its time, and whoever
/// remembers something has more to do.
#[derive(Debug, Default)]
pub struct Writing {
    thread: Option<JoinHandle<io::Result<()>>>,
    /// What is in the file, or on its way there.
    written: Option<Keepsake>,
    /// Whether there was more to write while the thread was at it.
    is_late: bool,
    is_failing: bool,
}

impl Writing {
    /// Begins to write, if it is something new.
    pub fn begin(&mut self, kept: Keepsake, data: &Path) {
        let is_busy = self.thread.as_ref().is_some_and(|one| !one.is_finished());
        if is_busy {
            self.is_late = true;
            return;
        }
        self.end();
        if self.written == Some(kept) {
            return;
        }
        self.written = Some(kept);
        let folder = data.to_owned();
        let work = move || kept.write(&folder);
        match thread::Builder::new().name("keepsake".into()).spawn(work) {
            Ok(thread) => self.thread = Some(thread),
            Err(why) => self.note(Err(why)),
        }
    }

    /// Whether there was more to write than could be begun.
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Writes, and waits until that is done.
    pub fn finish(&mut self, kept: Keepsake, data: &Path) {
        self.end();
        if self.written != Some(kept) {
            self.written = Some(kept);
            self.note(kept.write(data));
        }
    }

    fn end(&mut self) {
        self.is_late = false;
        if let Some(thread) = self.thread.take() {
            let panicked = |_| Err(io::Error::other("its thread panicked"));
            self.note(thread.join().unwrap_or_else(panicked));
        }
    }

    fn note(&mut self, written: io::Result<()>) {
        let was_failing = std::mem::replace(&mut self.is_failing, written.is_err());
        if let Err(why) = written {
            self.written = None;
            // Once is enough.
            if !was_failing {
                tracing::warn!("what the window remembers could not be written: {why}");
            }
        }
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

    const NOW_MS: u64 = 5;

    fn a_past() -> History {
        let mut history = History::default();
        history.add(Sample {
            at_ms: NOW_MS,
            ..Sample::default()
        });
        history
    }

    #[test]
    fn it_is_remembered_and_nonsense_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, history) = Keepsake::read(folder.path(), NOW_MS);
        assert_eq!(kept.wish, Wish::Stopped);
        assert!(history.graphs().seconds.is_empty());
        kept.wish = Wish::Pause { until_ms: Some(9) };
        kept.write(folder.path()).unwrap();
        write_graphs(folder.path(), &a_past()).unwrap();
        let (kept, history) = Keepsake::read(folder.path(), NOW_MS);
        assert_eq!(kept.wish, Wish::Pause { until_ms: Some(9) });
        assert_eq!(history.graphs().seconds.len(), 1);
        // Damage, and what a newer version has written.
        for (number, nonsense) in [&[FORM, 200, 1][..], &[FORM + 1]].iter().enumerate() {
            for file in [FILE, GRAPHS] {
                std::fs::write(folder.path().join(file), nonsense).unwrap();
            }
            let (kept, history) = Keepsake::read(folder.path(), NOW_MS);
            assert_eq!(kept.wish, Wish::Stopped);
            assert!(history.graphs().seconds.is_empty());
            for file in [FILE, GRAPHS] {
                let aside = format!("{file}.damaged-{}", number + 1);
                assert_eq!(std::fs::read(folder.path().join(aside)).unwrap(), *nonsense);
            }
        }
    }

    #[test]
    fn it_is_written_beside_other_work_and_the_last_word_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut writing = Writing::default();
        let wish = |until_ms| Keepsake {
            wish: Wish::Pause { until_ms },
            ..Keepsake::default()
        };
        for number in 0..20 {
            writing.begin(wish(Some(number)), folder.path());
        }
        writing.finish(wish(None), folder.path());
        assert_eq!(Keepsake::read(folder.path(), NOW_MS).0, wish(None));
        assert!(!writing.is_late());
        // What could not be written is tried again.
        let nowhere = folder.path().join(FILE).join("x");
        writing.finish(wish(Some(9)), &nowhere);
        writing.finish(wish(Some(9)), folder.path());
        assert_eq!(Keepsake::read(folder.path(), NOW_MS).0, wish(Some(9)));
    }

    #[test]
    fn what_was_one_file_is_read_too() {
        let folder = tempfile::tempdir().unwrap();
        let before = (Wish::Crawl, Sums::default(), a_past().save());
        let bytes = postcard::to_extend(&before, vec![FORM_WITH_GRAPHS]).unwrap();
        std::fs::write(folder.path().join(FILE), bytes).unwrap();
        let (kept, history) = Keepsake::read(folder.path(), NOW_MS);
        assert_eq!(kept.wish, Wish::Crawl);
        assert_eq!(history.graphs().seconds.len(), 1);
    }
}
