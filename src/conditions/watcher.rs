//! The thread that watches the conditions and tells whoever wants to know.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use parking_lot::{Condvar, Mutex};

use super::processor::{self, ProcessorReader};
use super::{Abilities, Judge, Reading, Verdict, battery, desktop, local_time};
use crate::clock::wall_ms;
use crate::config::{Pause, Schedule, Settings};

/// How often files are read.
const PERIOD: Duration = Duration::from_secs(2);
/// How often programs are asked, which costs more.
const ASKING_PERIOD: Duration = Duration::from_secs(10);
/// How often they are asked that have never answered, and that no rule needs: the window
/// offers only rules that can work.
const TRYING_PERIOD: Duration = Duration::from_secs(60);

/// Where the readings come from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// A folder like `/sys/class/power_supply`.
    pub power_supplies: PathBuf,
    /// A file like `/proc/stat`.
    pub processor: PathBuf,
    /// Whether the desktop is asked what only it knows.
    pub asks_desktop: bool,
}

impl Default for Sources {
    /// Those of this computer.
    fn default() -> Self {
        Self {
            power_supplies: battery::FOLDER.into(),
            processor: processor::FILE.into(),
            asks_desktop: true,
        }
    }
}

/// What the thread shares.
#[derive(Debug)]
struct Shared {
    rules: Mutex<Rules>,
    seen: Mutex<Seen>,
    looked: Condvar,
}

/// What is watched for.
#[derive(Debug, Clone)]
struct Rules {
    schedule: Schedule,
    pause: Pause,
    /// Grows with every change.
    version: u64,
}

/// What was seen.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    verdict: Verdict,
    abilities: Abilities,
    /// The rules that it was judged by; 0 for none yet.
    version: u64,
}

/// A look at the verdict from any thread.
#[derive(Debug, Clone)]
pub struct Lookout(Arc<Shared>);

impl Lookout {
    /// The verdict by the rules as they are now. Waits for it, but no longer than this:
    /// a program of the desktop that does not answer keeps nobody from crawling.
    pub fn verdict_now(&self, patience: Duration) -> Verdict {
        let version = self.0.rules.lock().version;
        let until = Instant::now() + patience;
        let mut seen = self.0.seen.lock();
        while seen.version < version {
            if self.0.looked.wait_until(&mut seen, until).timed_out() {
                tracing::warn!("the conditions are not known yet: it begins without them");
                break;
            }
        }
        seen.verdict
    }
}

/// See the module. The thread ends when this is dropped.
#[derive(Debug)]
pub struct Watcher {
    shared: Arc<Shared>,
    /// Wakes the thread; dropped, it ends it.
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Begins to watch. Each verdict that differs from the one before is told to `tell`,
    /// on the watcher's thread; the first one is taken to follow [`Verdict::Run`].
    pub fn start(
        settings: &Settings,
        sources: Sources,
        tell: impl Fn(Verdict) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            rules: Mutex::new(Rules {
                schedule: settings.schedule.clone(),
                pause: settings.pause.clone(),
                version: 1,
            }),
            seen: Mutex::default(),
            looked: Condvar::new(),
        });
        let (wake, woken) = bounded(1);
        let theirs = shared.clone();
        let thread = thread::Builder::new()
            .name("conditions".into())
            .spawn(move || {
                let mut reader = Reader::new(sources);
                let mut judge = Judge::default();
                loop {
                    let Rules {
                        schedule,
                        pause,
                        version,
                    } = theirs.rules.lock().clone();
                    // The schedule is about the clock that the volunteer sees.
                    let now_ms = wall_ms();
                    let reading = reader.read(&pause, now_ms);
                    let offset = local_time::utc_offset_minutes(now_ms);
                    let verdict = judge.judge(&schedule, &pause, &reading, now_ms, offset);
                    let now = Seen {
                        verdict,
                        abilities: reading.abilities(),
                        version,
                    };
                    let before = std::mem::replace(&mut *theirs.seen.lock(), now);
                    theirs.looked.notify_all();
                    if verdict != before.verdict {
                        tell(verdict);
                    }
                    use crossbeam_channel::RecvTimeoutError::Disconnected;
                    if woken.recv_timeout(PERIOD) == Err(Disconnected) {
                        return;
                    }
                }
            })?;
        Ok(Self {
            shared,
            wake: Some(wake),
            thread: Some(thread),
        })
    }

    /// Other rules hold, at once.
    pub fn set_rules(&self, schedule: &Schedule, pause: &Pause) {
        let mut rules = self.shared.rules.lock();
        *rules = Rules {
            schedule: schedule.clone(),
            pause: pause.clone(),
            version: rules.version + 1,
        };
        drop(rules);
        if let Some(wake) = &self.wake {
            // Full means that it is about to look anyway.
            let _woken = wake.try_send(());
        }
    }

    /// The verdict as of a few seconds ago at most.
    pub fn verdict(&self) -> Verdict {
        self.shared.seen.lock().verdict
    }

    /// For threads that want to know before they begin.
    pub fn lookout(&self) -> Lookout {
        Lookout(self.shared.clone())
    }

    /// What this computer can tell, as of the last look: who does not answer at first may later.
    pub fn abilities(&self) -> Abilities {
        self.shared.seen.lock().abilities
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that watches the conditions panicked");
        }
    }
}

/// An answer that is too dear to be asked for each time.
struct Asked<T> {
    answer: Option<T>,
    /// Whether nobody answered the last time.
    is_silent: bool,
    at: Option<Instant>,
}

impl<T: Copy> Asked<T> {
    fn nobody() -> Self {
        Self {
            answer: None,
            is_silent: false,
            at: None,
        }
    }

    /// The answer, asked for anew if it is old and a rule needs it, or if there is none.
    fn get(
        &mut self,
        is_needed: bool,
        now: impl Fn() -> Instant,
        ask: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        let period = match is_needed {
            true => ASKING_PERIOD,
            false if self.answer.is_none() => TRYING_PERIOD,
            false => return self.answer,
        };
        if self.at.is_none_or(|at| now() - at >= period) {
            self.take_in(ask());
            // By now: where nobody answers, to ask may take as long as the period.
            self.at = Some(now());
        }
        self.answer
    }

    /// A busy desktop may miss one question: its last answer holds until it misses two.
    fn take_in(&mut self, answer: Option<T>) {
        let was_silent = std::mem::replace(&mut self.is_silent, answer.is_none());
        if answer.is_some() || was_silent {
            self.answer = answer;
        }
    }
}

/// Reads, and remembers what was asked.
struct Reader {
    sources: Sources,
    processor: ProcessorReader,
    others_percent: Option<f64>,
    is_metered: Asked<bool>,
    unused_for: Asked<Duration>,
}

impl Reader {
    fn new(sources: Sources) -> Self {
        Self {
            processor: ProcessorReader::new(&sources.processor),
            sources,
            others_percent: None,
            is_metered: Asked::nobody(),
            unused_for: Asked::nobody(),
        }
    }

    fn read(&mut self, pause: &Pause, now_ms: u64) -> Reading {
        // Two looks that come right after each other tell nothing of the processor.
        self.others_percent = self.processor.others_percent().or(self.others_percent);
        let mut reading = Reading {
            is_on_battery: battery::is_on_battery(&self.sources.power_supplies),
            others_percent: self.others_percent,
            ..Reading::default()
        };
        if self.sources.asks_desktop {
            let (is_metered, unused_for) = (&mut self.is_metered, &mut self.unused_for);
            let ask = desktop::is_metered;
            reading.is_metered = is_metered.get(pause.on_metered, Instant::now, ask);
            let ask = || desktop::unused_for(now_ms);
            reading.unused_for = unused_for.get(pause.while_used, Instant::now, ask);
        }
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Reason;
    use std::cell::Cell;
    use std::fs;

    /// What did not answer at login was never asked again, and its rule never to be had.
    #[test]
    fn who_does_not_answer_is_asked_again_and_who_is_not_needed_is_left_alone() {
        let (mut asked, start) = (Asked::nobody(), Instant::now());
        let mut at = |seconds, is_needed, answer| {
            let mut is_asked = false;
            let now = start + Duration::from_secs(seconds);
            let ask = || {
                is_asked = true;
                answer
            };
            let said = asked.get(is_needed, || now, ask);
            (is_asked, said)
        };
        assert_eq!(at(0, false, None), (true, None));
        assert_eq!(at(30, false, Some(1)), (false, None));
        assert_eq!(at(60, false, Some(1)), (true, Some(1)));
        assert_eq!(at(900, false, Some(2)), (false, Some(1)), "nobody needs it");
        assert_eq!(at(901, true, Some(2)), (true, Some(2)), "at once");
        assert_eq!(at(902, true, Some(3)), (false, Some(2)));
        // A crawl that paused while somebody typed went on because of one late answer.
        assert_eq!(at(911, true, None), (true, Some(2)), "once says nothing");
        assert_eq!(at(920, true, Some(4)), (false, Some(2)));
        assert_eq!(at(921, true, Some(4)), (true, Some(4)));
        assert_eq!(at(931, true, None), (true, Some(4)), "not in a row");
        assert_eq!(
            at(941, true, None),
            (true, None),
            "nobody is there any more"
        );
        assert_eq!(at(951, true, Some(5)), (true, Some(5)));
    }

    /// Where nobody answered, the next question was always due at once, and between two of them
    /// the battery and the clock were looked at only once.
    #[test]
    fn the_time_that_a_question_takes_is_no_part_of_the_period() {
        let clock = Cell::new(Instant::now());
        let pass = |period| clock.set(clock.get() + period);
        let (mut asked, mut questions) = (Asked::nobody(), 0);
        let mut look = || {
            let ask = || {
                questions += 1;
                pass(ASKING_PERIOD);
                Some(questions)
            };
            asked.get(true, || clock.get(), ask)
        };
        assert_eq!(look(), Some(1));
        pass(PERIOD);
        assert_eq!(look(), Some(1), "there is time to read files");
        pass(ASKING_PERIOD - PERIOD);
        assert_eq!(look(), Some(2));
    }

    #[test]
    fn a_verdict_follows_the_computer_and_the_rules() {
        let folder = tempfile::tempdir().unwrap();
        let battery = folder.path().join("BAT0");
        fs::create_dir(&battery).unwrap();
        fs::write(battery.join("type"), "Battery\n").unwrap();
        fs::write(battery.join("status"), "Discharging\n").unwrap();
        let sources = Sources {
            power_supplies: folder.path().into(),
            processor: folder.path().join("no-such-file"),
            asks_desktop: false,
        };
        let (tell, told) = crossbeam_channel::unbounded();
        let settings = Settings::default();
        let watcher = Watcher::start(&settings, sources, move |verdict| {
            tell.send(verdict).unwrap();
        })
        .unwrap();
        let patience = Duration::from_secs(60);
        let paused = Verdict::Pause(Reason::OnBattery);
        let lookout = watcher.lookout();
        assert_eq!(
            lookout.verdict_now(patience),
            paused,
            "even if asked at once"
        );
        assert_eq!(told.recv_timeout(patience), Ok(paused));
        assert_eq!(watcher.verdict(), paused);
        let abilities = watcher.abilities();
        assert!(abilities.battery && !abilities.metered && !abilities.processor);
        let indifferent = Pause {
            on_battery: false,
            ..settings.pause.clone()
        };
        watcher.set_rules(&settings.schedule, &indifferent);
        // A battery must be gone for a while before it does not count; a rule must not.
        assert_eq!(lookout.verdict_now(patience), Verdict::Run);
        assert_eq!(told.recv_timeout(patience), Ok(Verdict::Run));
    }
}
