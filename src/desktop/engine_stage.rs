//! The engine's stages: started and ended in threads of their own, so that the desk always
//! answers, and told to run or to rest as the volunteer and the conditions want.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::crew::{Crew, NoStart};
use super::desk::Desk;
use super::reach::Reach;
use super::stage::{Stage, Wish};
use super::totals::Count;
use crate::conditions::local_time::utc_offset_minutes;
use crate::conditions::{Verdict, Watcher};
use crate::engine::{Engine, Standing, pausing};

/// Finishing gives up on fetches that take longer than this.
const FINISH_LIMIT: Duration = Duration::from_secs(120);

/// How soon it tries again to start, when the disk was full.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// The engine, and how far it is.
#[derive(Default)]
pub enum EngineStage {
    /// There is none.
    #[default]
    Absent,
    /// A thread starts it.
    Starting(JoinHandle<Result<Crew, NoStart>>),
    /// It is there.
    Present(Crew),
    /// It completes what is under way, since then.
    Finishing(Crew, Instant),
    /// A thread ends it, and tells what it has counted in all.
    Ending(JoinHandle<Option<Count>>),
}

impl EngineStage {
    /// How far it is.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Absent => Stage::Absent,
            Self::Starting(_) => Stage::Starting,
            Self::Present(_) => Stage::Present,
            Self::Finishing(..) => Stage::Finishing,
            Self::Ending(_) => Stage::Ending,
        }
    }

    /// The crew, while there is one.
    pub fn crew(&self) -> Option<&Crew> {
        match self {
            Self::Present(crew) | Self::Finishing(crew, _) => Some(crew),
            _ => None,
        }
    }
}

impl Desk {
    /// Starts an engine, in a thread of its own.
    pub fn start(&mut self) {
        self.forget_trouble();
        self.start_engine();
    }

    /// Nothing is wrong any more, or nobody wants to know.
    pub fn forget_trouble(&mut self) {
        self.state.trouble = None;
        self.state.tries_again = None;
    }

    fn start_engine(&mut self) {
        let is_demo = self.demo.is_some();
        let crew = self.state.engine.crew();
        if crew.is_some_and(|crew| crew.is_demo() != is_demo) {
            return self.start_again();
        }
        match self.state.engine {
            EngineStage::Absent => {}
            // It starts anew when it has ended.
            EngineStage::Ending(_) => return self.state.starts_again = true,
            _ => return,
        }
        self.sums_mut().begin();
        self.state.started_with = Some(self.config.clone());
        self.state.told = None;
        self.state.is_demo_told = false;
        let (config, data, demo) = (self.config.clone(), self.data.clone(), self.demo.clone());
        let lookout = self.watcher.as_ref().map(Watcher::lookout);
        let work = move || match demo {
            Some(spec) => Crew::demo(&spec, config),
            None => Crew::peer(config, data.as_deref(), lookout.as_ref()),
        };
        self.state.engine = match thread::Builder::new().name("starting".into()).spawn(work) {
            Ok(thread) => EngineStage::Starting(thread),
            Err(why) => self.not_started(why.to_string().into()),
        };
    }

    /// Ends the engine, in a thread of its own.
    pub fn end(&mut self) {
        match std::mem::take(&mut self.state.engine) {
            EngineStage::Present(crew) | EngineStage::Finishing(crew, _) => {
                let work = move || crew.shutdown();
                match thread::Builder::new().name("ending".into()).spawn(work) {
                    Ok(thread) => self.state.engine = EngineStage::Ending(thread),
                    // The crew was dropped with the closure, which ends it as well.
                    Err(why) => tracing::warn!("no thread to end the engine in: {why}"),
                }
            }
            other => self.state.engine = other,
        }
    }

    /// Ends the engine and starts it again, with the settings as they are by then.
    pub fn start_again(&mut self) {
        if let EngineStage::Absent | EngineStage::Ending(_) = self.state.engine {
            return;
        }
        self.state.starts_again = true;
        // One that is still starting ends when it is there.
        self.end();
    }

    /// An engine that was starting may be there, and one that was ending gone.
    pub(super) fn move_on(&mut self) {
        let next = match std::mem::take(&mut self.state.engine) {
            EngineStage::Starting(thread) if thread.is_finished() => match thread.join() {
                Ok(Ok(crew)) => self.welcome(crew),
                Ok(Err(why)) => self.not_started(why),
                Err(_) => self.not_started("the log says more".to_owned().into()),
            },
            EngineStage::Ending(thread) if thread.is_finished() => {
                self.count_last(join(thread));
                EngineStage::Absent
            }
            other => other,
        };
        self.state.engine = next;
        self.catch_up();
        if let EngineStage::Finishing(crew, since) = &self.state.engine {
            let has_left = |engine: &Engine| engine.run_state().standing == Standing::Left;
            if crew.engines().iter().all(has_left) || since.elapsed() > FINISH_LIMIT {
                self.end();
            }
        }
        if matches!(self.state.engine, EngineStage::Absent) {
            let is_wanted = self.state.kept.wish != Wish::Stopped;
            let starts_again = std::mem::take(&mut self.state.starts_again);
            let is_due = |at: Instant| at <= Instant::now();
            if starts_again && is_wanted {
                self.start();
            } else if is_wanted && self.state.tries_again.is_some_and(is_due) {
                // What was wrong stays said until it is no longer so.
                self.start_engine();
            }
        }
    }

    /// It did not start. The same trouble as before is no news.
    fn not_started(&mut self, NoStart { why, is_disk_full }: NoStart) -> EngineStage {
        self.forget_trouble();
        if self.state.kept.wish == Wish::Stopped {
            // It was told to stop meanwhile.
            tracing::error!("cannot start: {why}");
            return EngineStage::Absent;
        }
        let mut trouble = format!("It cannot start: {why}");
        if is_disk_full {
            let seconds = TRY_AGAIN.as_secs();
            trouble = format!("{trouble}. It tries again every {seconds} seconds.");
            self.state.tries_again = Some(Instant::now() + TRY_AGAIN);
        }
        self.state.trouble = Some(trouble);
        EngineStage::Absent
    }

    fn welcome(&mut self, crew: Crew) -> EngineStage {
        self.state.has_run |= !crew.is_demo();
        self.forget_trouble();
        if self.state.starts_again || crew.is_demo() != self.demo.is_some() {
            // It was left before it had begun.
            self.state.starts_again = self.state.kept.wish != Wish::Stopped;
            self.state.engine = EngineStage::Present(crew);
            self.end();
            return std::mem::take(&mut self.state.engine);
        }
        let activity = crew.engine().map(|engine| engine.activity().clone());
        self.state.picture.begin(activity);
        self.state.reach = Reach::default();
        if let Some(text) = crew.demo_introduction() {
            self.say(text);
        }
        let asks_if_idle = std::mem::take(&mut self.state.asks_if_idle);
        let is_meant = self.state.kept.wish != Wish::Stopped && !crew.is_demo();
        let is_idle = || crew.engines().iter().all(|one| one.outstanding() == 0);
        if asks_if_idle && is_meant && !self.has_crawl() && is_idle() {
            self.state.kept.wish = Wish::Stopped;
            self.keep();
            self.come_forward();
            self.ask_first();
        }
        if self.state.kept.wish == Wish::Stopped {
            return EngineStage::Finishing(crew, Instant::now());
        }
        EngineStage::Present(crew)
    }

    /// An engine that has just come is told what was changed while it started.
    fn catch_up(&mut self) {
        if self.state.engine.crew().is_some()
            && let Some(before) = self.state.started_with.take()
        {
            self.tell_engine(&before);
        }
    }

    /// Has the engine run or rest, as the volunteer and the conditions want.
    pub(super) fn run_or_rest(&mut self) {
        let now_ms = self.now_ms();
        if let Wish::Pause {
            until_ms: Some(until_ms),
        } = self.state.kept.wish
            && now_ms >= until_ms
        {
            self.state.kept.wish = Wish::Crawl;
        }
        let wish = match (self.state.engine.stage(), self.state.kept.wish) {
            (Stage::Finishing, _) => pausing::Wish::Finish,
            (_, Wish::Crawl) => pausing::Wish::Run,
            _ => pausing::Wish::Pause,
        };
        let verdict = self.verdict();
        for engine in self.engines() {
            engine.pausing().set_verdict(verdict);
            if self.state.told != Some(wish) {
                engine.pausing().set_wish(wish);
            }
            if self.state.told.is_none() {
                // It has just come, and a peer's was held until it had heard this; those of a
                // demo never are.
                engine.let_go();
            }
        }
        if !self.engines().is_empty() {
            self.state.told = Some(wish);
        }
        if !self.state.is_demo_told
            && let Some(crew) = self.state.engine.crew()
            && crew.is_finished_demo()
        {
            let result = crew.demo_result();
            self.state.is_demo_told = true;
            self.say(result.unwrap_or_default());
        }
    }

    /// Whether this is a moment for what runs. It always is for a demo: it is there to be looked
    /// at, and uses no line.
    fn verdict(&self) -> Verdict {
        let watcher = self.watcher.as_ref().filter(|_| !self.is_demo());
        watcher.map(Watcher::verdict).unwrap_or_default()
    }

    /// Ends the engine, and waits for it.
    pub(super) fn end_now(&mut self) {
        let count = match std::mem::take(&mut self.state.engine) {
            EngineStage::Present(crew) | EngineStage::Finishing(crew, _) => crew.shutdown(),
            // A demo that has not begun has nothing to lose.
            EngineStage::Starting(_) if self.demo.is_some() => None,
            EngineStage::Starting(thread) => match thread.join() {
                Ok(Ok(crew)) => crew.shutdown(),
                _ => None,
            },
            EngineStage::Ending(thread) => join(thread),
            EngineStage::Absent => None,
        };
        self.count_last(count);
    }

    /// What an engine has completed while it ended counts too.
    fn count_last(&mut self, count: Option<Count>) {
        if let Some(count) = count {
            let now_ms = self.now_ms();
            let offset = utc_offset_minutes(now_ms);
            // It was a peer's, whatever there is now.
            self.state.kept.sums.count(count, now_ms, offset);
        }
    }
}

fn join(thread: JoinHandle<Option<Count>>) -> Option<Count> {
    let ended = thread.join();
    ended.unwrap_or_else(|_| {
        tracing::error!("the engine could not end in order");
        None
    })
}
