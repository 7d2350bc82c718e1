//! Answers of a name service, kept for a while.
//!
//! Many threads may ask at once. Whoever asks for a name that is being asked for waits
//! for that answer; whoever asks for one that was answered lately has it at once, be it
//! that the name leads nowhere. Questions under way are bounded, and so is what is kept.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::NameService;
use crate::clock::{Clock, Millis};

/// Names whose answers are kept at once.
const MOST_NAMES: usize = 65_536;

/// Addresses of one name that are kept: nobody tries as many.
const MOST_ADDRESSES: usize = 32;

/// How long answers are kept.
#[derive(Debug, Clone, Copy)]
pub struct Lifetimes {
    /// Addresses.
    pub found_ms: u64,
    /// That there are none, or that the name service did not answer.
    pub failed_ms: u64,
}

/// See the module.
pub struct CachingNames {
    inner: Arc<dyn NameService>,
    lifetimes: Lifetimes,
    most_questions: usize,
    state: Mutex<State>,
    /// Wakes those who wait for an answer, or for their turn to ask.
    answered: Condvar,
    now_ms: Box<dyn Fn() -> Millis + Send + Sync>,
}

#[derive(Default)]
struct State {
    names: HashMap<Box<str>, Entry>,
    questions: usize,
}

enum Entry {
    /// Somebody is asking.
    UnderWay,
    /// Known until then.
    Known(Result<Arc<[IpAddr]>, (io::ErrorKind, Arc<str>)>, Millis),
}

impl CachingNames {
    /// Keeps what `inner` says, and asks it at most so many questions at once.
    pub fn new(
        inner: Arc<dyn NameService>,
        lifetimes: Lifetimes,
        most_questions: usize,
        clock: Clock,
    ) -> Self {
        Self {
            inner,
            lifetimes,
            most_questions,
            state: Mutex::default(),
            answered: Condvar::new(),
            now_ms: Box::new(move || clock.now_ms()),
        }
    }

    /// What is known, or nothing if this thread is to ask.
    fn known_or_mine(&self, host: &str) -> Option<io::Result<Vec<IpAddr>>> {
        let mut state = self.state.lock();
        loop {
            match state.names.get(host) {
                Some(Entry::Known(answer, until_ms)) if (self.now_ms)() < *until_ms => {
                    return Some(match answer {
                        Ok(found) => Ok(found.to_vec()),
                        Err((kind, why)) => Err(io::Error::new(*kind, why.to_string())),
                    });
                }
                Some(Entry::UnderWay) => {}
                _ if state.questions >= self.most_questions => {}
                _ => {
                    state.make_room((self.now_ms)());
                    state.names.insert(host.into(), Entry::UnderWay);
                    state.questions += 1;
                    return None;
                }
            }
            self.answered.wait(&mut state);
        }
    }
}

impl State {
    /// Forgets what is no longer good and, if that is not enough, some of the rest.
    fn make_room(&mut self, now_ms: Millis) {
        if self.names.len() < MOST_NAMES {
            return;
        }
        let mut excess = MOST_NAMES / 8;
        self.names.retain(|_, entry| match entry {
            Entry::UnderWay => true,
            Entry::Known(_, until_ms) => {
                let goes = *until_ms <= now_ms || excess > 0;
                excess -= usize::from(goes).min(excess);
                !goes
            }
        });
    }
}

/// A question under way: whatever becomes of it, those who wait are woken.
struct Question<'a> {
    names: &'a CachingNames,
    host: &'a str,
    answer: Option<Entry>,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut state = self.names.state.lock();
        state.questions -= 1;
        match self.answer.take() {
            Some(entry) => state.names.insert(self.host.into(), entry),
            None => state.names.remove(self.host),
        };
        self.names.answered.notify_all();
    }
}

impl NameService for CachingNames {
    fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if let Some(known) = self.known_or_mine(host) {
            return known;
        }
        let mut question = Question {
            names: self,
            host,
            answer: None,
        };
        let mut result = self.inner.look_up(host);
        if let Ok(found) = &mut result {
            found.truncate(MOST_ADDRESSES);
        }
        let (answer, lifetime_ms) = match &result {
            Ok(found) if !found.is_empty() => {
                (Ok(found.as_slice().into()), self.lifetimes.found_ms)
            }
            Ok(_) => (Ok([].into()), self.lifetimes.failed_ms),
            Err(error) => {
                let why = error.to_string().into();
                (Err((error.kind(), why)), self.lifetimes.failed_ms)
            }
        };
        let until_ms = (self.now_ms)() + lifetime_ms;
        question.answer = Some(Entry::Known(answer, until_ms));
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// A name service that counts, and answers when it is let.
    #[derive(Default)]
    struct Slow {
        asked: AtomicUsize,
        under_way: AtomicUsize,
        most_under_way: AtomicUsize,
        delay: Duration,
    }

    impl NameService for Slow {
        fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
            self.asked.fetch_add(1, SeqCst);
            let now = self.under_way.fetch_add(1, SeqCst) + 1;
            self.most_under_way.fetch_max(now, SeqCst);
            thread::sleep(self.delay);
            self.under_way.fetch_sub(1, SeqCst);
            match host.strip_prefix("no") {
                Some("panic") => panic!("a name service that fails"),
                Some(_) => Err(io::Error::new(io::ErrorKind::NotFound, "no such name")),
                None if host == "many" => Ok(vec![[10, 0, 0, 1].into(); 1_000]),
                None => Ok(vec![[10, 0, 0, 1].into()]),
            }
        }
    }

    fn caching(inner: &Arc<Slow>, now_ms: &Arc<AtomicU64>, most_questions: usize) -> CachingNames {
        let now_ms = now_ms.clone();
        let lifetimes = Lifetimes {
            found_ms: 1_000,
            failed_ms: 100,
        };
        let clock = Clock::start();
        let mut names = CachingNames::new(inner.clone(), lifetimes, most_questions, clock);
        names.now_ms = Box::new(move || now_ms.load(SeqCst));
        names
    }

    #[test]
    fn answers_live_as_long_as_they_are_good() {
        let (inner, now_ms) = (Arc::new(Slow::default()), Arc::default());
        let names = caching(&inner, &now_ms, 4);
        let asked = |host: &str, at_ms: u64| {
            now_ms.store(at_ms, SeqCst);
            let found = names.look_up(host).map_err(|error| error.kind());
            (found.map(|all| all.len()), inner.asked.load(SeqCst))
        };
        let none = Err(io::ErrorKind::NotFound);
        assert_eq!(asked("a", 0), (Ok(1), 1));
        assert_eq!(asked("a", 999), (Ok(1), 1));
        assert_eq!(asked("a", 1_000), (Ok(1), 2), "its time is over");
        assert_eq!(asked("none", 1_000), (none, 3));
        assert_eq!(asked("none", 1_099), (none, 3), "a failure is an answer");
        assert_eq!(asked("none", 1_100), (none, 4), "but not for as long");
        assert_eq!(asked("a", 1_200), (Ok(1), 4));
    }

    #[test]
    fn one_question_for_many_who_wait() {
        let delay = Duration::from_millis(50);
        let inner = Arc::new(Slow {
            delay,
            ..Slow::default()
        });
        let names = caching(&inner, &Arc::default(), 4);
        let start = Barrier::new(20);
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    start.wait();
                    assert_eq!(names.look_up("a").unwrap().len(), 1);
                });
            }
        });
        assert_eq!(inner.asked.load(SeqCst), 1);
    }

    #[test]
    fn many_questions_are_under_way_and_no_more_than_the_bound() {
        let delay = Duration::from_millis(20);
        let inner = Arc::new(Slow {
            delay,
            ..Slow::default()
        });
        let names = caching(&inner, &Arc::default(), 8);
        let start = Barrier::new(32);
        let (names, start) = (&names, &start);
        thread::scope(|scope| {
            for n in 0..32 {
                scope.spawn(move || {
                    start.wait();
                    names.look_up(&format!("a{n}")).unwrap();
                });
            }
        });
        assert_eq!(inner.asked.load(SeqCst), 32);
        assert_eq!(inner.most_under_way.load(SeqCst), 8);
    }

    #[test]
    fn a_question_that_panics_leaves_nobody_waiting() {
        let inner = Arc::new(Slow::default());
        let names = caching(&inner, &Arc::default(), 1);
        thread::scope(|scope| {
            let asking = scope.spawn(|| names.look_up("nopanic"));
            assert!(asking.join().is_err());
        });
        assert!(names.look_up("a").is_ok());
        assert_eq!(names.state.lock().questions, 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let inner = Arc::new(Slow::default());
        let names = caching(&inner, &Arc::default(), 1);
        for n in 0..MOST_NAMES + 100 {
            names.look_up(&format!("a{n}")).unwrap();
        }
        assert!(names.state.lock().names.len() <= MOST_NAMES);
        assert_eq!(names.look_up("many").unwrap().len(), MOST_ADDRESSES);
    }
}
