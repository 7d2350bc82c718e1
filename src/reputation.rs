//! The reputation guard: a peer that many sites turn away slows down as a whole.
//!
//! One site that refuses us has its reasons. When unrelated sites (by registered domain)
//! begin to answer with 403, 429 or a challenge page, this computer's address has got a
//! bad name, and going on would make it worse, for the volunteer too. So each answer is
//! told to the guard; when the share of sites that refuse rises above a bound, every
//! request of the peer has to wait its turn, twice as long with each step, and when it
//! falls, the steps are taken back.
//!
//! [`Reputation`] is pure: times and answers go in, the step and the sentence for the
//! volunteer come out. [`ReputationGuard`] is what threads share: it looks at a site at
//! most once in a few seconds, so that it costs nothing on the way of a page, and it
//! makes downloaders wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::{Clock, Millis};
use crate::config;
use crate::crawl::rules::registered_domain;

/// Steps at most: a sixteenth of the speed.
const MOST_STEPS: u8 = 4;
/// The longest wait between two requests of the peer.
const MOST_SPACING_MS: u64 = 30_000;
/// Sites that are remembered at once.
const MOST_SITES: usize = 20_000;
/// A site that goes on answering is looked at again after so long.
const LOOK_AGAIN_MS: u64 = 5_000;
/// Slots of the filter that remembers who was looked at lately.
const SLOTS: usize = 4_096;

/// How a site has treated us lately.
#[derive(Debug, Clone, Copy)]
struct Treatment {
    answered_ms: Millis,
    refused_ms: Option<Millis>,
}

/// See the module: the pure part.
#[derive(Debug)]
pub struct Reputation {
    settings: config::Reputation,
    /// By the hash of the registered domain.
    sites: HashMap<u64, Treatment>,
    step: u8,
    /// When the step was last changed: only what came after it counts.
    changed_ms: Millis,
    /// Requests so far at the beginning of the present window, and when that was.
    counted: (Millis, u64),
    /// Requests a second before the first step was taken.
    usual_rate: f64,
    /// Sites that refused, and all, when the step was last raised.
    cause: (usize, usize),
}

impl Reputation {
    /// A good name, from this moment on.
    pub fn new(settings: config::Reputation, now_ms: Millis) -> Self {
        Self {
            settings,
            sites: HashMap::new(),
            step: 0,
            changed_ms: now_ms,
            counted: (now_ms, 0),
            usual_rate: 0.0,
            cause: (0, 0),
        }
    }

    /// A host has answered; refused or not.
    pub fn answered(&mut self, now_ms: Millis, host: &str, is_refusal: bool) {
        let site = xxhash_rust::xxh3::xxh3_64(registered_domain(host).as_bytes());
        if self.sites.len() >= MOST_SITES && !self.sites.contains_key(&site) {
            self.forget_old(now_ms);
            if self.sites.len() >= MOST_SITES {
                // More sites than anybody needs to judge by.
                return;
            }
        }
        let treatment = self.sites.entry(site).or_insert(Treatment {
            answered_ms: now_ms,
            refused_ms: None,
        });
        treatment.answered_ms = now_ms;
        if is_refusal {
            treatment.refused_ms = Some(now_ms);
        }
    }

    /// Takes a step if it is time for one; to be called now and then, with the number
    /// of requests so far.
    pub fn consider(&mut self, now_ms: Millis, requests: u64) {
        let hold_ms = self.settings.step_secs * 1_000;
        let window_ms = self.settings.window_secs * 1_000;
        if self.step == 0 && now_ms >= self.counted.0 + window_ms {
            self.counted = (now_ms, requests);
        }
        if !self.settings.enabled || now_ms < self.changed_ms + hold_ms {
            return;
        }
        self.forget_old(now_ms);
        let (refused, all) = self.shares(now_ms);
        let is_sample = all >= self.settings.min_sites;
        let percent = refused * 100 / all.max(1);
        if is_sample && percent >= usize::from(self.settings.refused_percent) {
            if self.step == 0 {
                let elapsed_ms = (now_ms - self.counted.0).max(1);
                let made = requests.saturating_sub(self.counted.1);
                self.usual_rate = made as f64 * 1_000.0 / elapsed_ms as f64;
            }
            self.cause = (refused, all);
            self.set_step((self.step + 1).min(MOST_STEPS), now_ms, requests);
        } else if self.step > 0 {
            // Few refusals, or nobody left to refuse for a whole window.
            let is_better = is_sample && percent * 2 < usize::from(self.settings.refused_percent);
            if is_better || now_ms >= self.changed_ms + window_ms {
                self.set_step(self.step - 1, now_ms, requests);
            }
        }
    }

    fn set_step(&mut self, step: u8, now_ms: Millis, requests: u64) {
        if step == self.step {
            // Already as slow as it gets: judge again by what comes from now on.
            self.changed_ms = now_ms;
            return;
        }
        tracing::info!("reputation: step {} after {}", step, self.step);
        self.step = step;
        self.changed_ms = now_ms;
        if step == 0 {
            self.counted = (now_ms, requests);
        }
    }

    /// Sites that refused us since the last step and within the window, and all that
    /// answered.
    fn shares(&self, now_ms: Millis) -> (usize, usize) {
        let since_ms = self.since_ms(now_ms);
        let lately = self
            .sites
            .values()
            .filter(|site| site.answered_ms >= since_ms);
        let refused = |site: &&Treatment| site.refused_ms.is_some_and(|at| at >= since_ms);
        (lately.clone().filter(refused).count(), lately.count())
    }

    fn since_ms(&self, now_ms: Millis) -> Millis {
        let window_ms = self.settings.window_secs * 1_000;
        now_ms.saturating_sub(window_ms).max(self.changed_ms)
    }

    fn forget_old(&mut self, now_ms: Millis) {
        let since_ms = self.since_ms(now_ms);
        self.sites.retain(|_, site| site.answered_ms >= since_ms);
    }

    /// How far it has slowed down: 0 for not at all.
    pub fn step(&self) -> u8 {
        self.step
    }

    /// The time between two requests of the peer; 0 for none.
    pub fn spacing_ms(&self) -> u64 {
        if self.step == 0 {
            return 0;
        }
        let slowed = self.usual_rate / f64::from(1_u32 << self.step);
        // In range: the least rate gives the longest wait.
        ((1_000.0 / slowed.max(0.001)) as u64).clamp(1, MOST_SPACING_MS)
    }

    /// What to tell the volunteer, if anything.
    pub fn sentence(&self) -> Option<String> {
        let speed = match self.step {
            0 => return None,
            1 => "half",
            2 => "a quarter",
            3 => "an eighth",
            _ => "a sixteenth",
        };
        let (refused, all) = self.cause;
        Some(format!(
            "{refused} of the {all} sites asked lately have turned this computer away, so \
             PeerCrawl now fetches at {speed} of its usual speed. It speeds up by itself when \
             sites are content again."
        ))
    }
}

/// See the module: what threads share.
pub struct ReputationGuard {
    state: Mutex<Reputation>,
    /// Requests so far.
    requests: AtomicU64,
    /// Who was looked at lately: the hash of a host mixed with the time.
    looked_at: Vec<AtomicU64>,
    /// The time between two requests, copied out of the state.
    spacing_ms: AtomicU64,
    turns: Mutex<Turns>,
    closed: Condvar,
    is_closed: AtomicBool,
    clock: Clock,
}

#[derive(Default)]
struct Turns {
    next_ms: Millis,
}

impl ReputationGuard {
    /// A good name.
    pub fn new(settings: config::Reputation, clock: Clock) -> Self {
        Self {
            state: Mutex::new(Reputation::new(settings, clock.now_ms())),
            requests: AtomicU64::new(0),
            looked_at: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            spacing_ms: AtomicU64::new(0),
            turns: Mutex::default(),
            closed: Condvar::new(),
            is_closed: AtomicBool::new(false),
            clock,
        }
    }

    /// A host, whose name hashes to `key`, has answered.
    pub fn answered(&self, key: u64, host: &str, is_refusal: bool) {
        self.requests.fetch_add(1, Relaxed);
        let now_ms = self.clock.now_ms();
        let mark = key ^ (now_ms / LOOK_AGAIN_MS).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let slot = &self.looked_at[key as usize % SLOTS];
        if !is_refusal && slot.load(Relaxed) == mark {
            return;
        }
        slot.store(mark, Relaxed);
        self.state.lock().answered(now_ms, host, is_refusal);
    }

    /// Waits for this thread's turn to make a request; at once, unless the peer has
    /// slowed down. `false` means that there is none any more: the engine stops.
    pub fn wait_for_turn(&self) -> bool {
        let spacing_ms = self.spacing_ms.load(Relaxed);
        if spacing_ms == 0 {
            return true;
        }
        let mut turns = self.turns.lock();
        let now_ms = self.clock.now_ms();
        // A turn that was long ago must not make up for the time between.
        let turn_ms = turns.next_ms.max(now_ms);
        turns.next_ms = turn_ms + spacing_ms;
        loop {
            if self.is_closed.load(Relaxed) {
                return false;
            }
            let now_ms = self.clock.now_ms();
            if now_ms >= turn_ms {
                return true;
            }
            let wait = Duration::from_millis(turn_ms - now_ms);
            self.closed.wait_for(&mut turns, wait);
        }
    }

    /// Takes a step if it is time for one, and says what to tell the volunteer; to be
    /// called several times a second.
    pub fn consider(&self) -> (u8, Option<String>) {
        let mut state = self.state.lock();
        state.consider(self.clock.now_ms(), self.requests.load(Relaxed));
        self.spacing_ms.store(state.spacing_ms(), Relaxed);
        (state.step(), state.sentence())
    }

    /// Nobody waits any more.
    pub fn close(&self) {
        // Under the lock, so that nobody falls asleep in between.
        let _turns = self.turns.lock();
        self.is_closed.store(true, Relaxed);
        self.closed.notify_all();
    }
}

/// Whether an answer turns us away: by its status, or as a page that wants to know
/// whether we are a person.
pub fn is_refusal(status: u16, body: &[u8]) -> bool {
    match status {
        403 | 429 => true,
        200..=299 | 503 => is_challenge(body),
        _ => false,
    }
}

/// Titles of pages that stand in front of the page that was asked for.
const CHALLENGES: [&str; 10] = [
    "just a moment",
    "attention required",
    "checking your browser",
    "please wait while we verify",
    "access denied",
    "ddos-guard",
    "pardon our interruption",
    "are you a robot",
    "robot or human",
    "security check",
];

/// Such a page says so in its title, which stands near its beginning. An ordinary page
/// of that title exists, but not on many unrelated sites at once.
fn is_challenge(body: &[u8]) -> bool {
    let beginning = &body[..body.len().min(4_096)];
    let Some(at) = memchr::memmem::find(beginning, b"<title") else {
        return false;
    };
    let rest = &beginning[at + 6..];
    let Some(end) = memchr::memchr(b'>', rest) else {
        return false;
    };
    let title = rest[end + 1..].trim_ascii_start();
    CHALLENGES.iter().any(|challenge| {
        let start = title.get(..challenge.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(challenge.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    fn reputation() -> Reputation {
        Reputation::new(config::Reputation::default(), 0)
    }

    /// A minute in which every site answers twice, the first `refusing` of them with a
    /// refusal, at ten requests a second.
    fn minute(guard: &mut Reputation, now_ms: &mut Millis, sites: u64, refusing: u64) {
        for half in 0..2 {
            for site in 0..sites {
                let host = format!("www.site{site}.example");
                guard.answered(*now_ms + half * MINUTE / 2, &host, site < refusing);
            }
        }
        *now_ms += MINUTE;
        guard.consider(*now_ms, *now_ms / 100);
    }

    #[test]
    fn refusals_of_many_sites_slow_down_step_by_step_and_back() {
        let mut guard = reputation();
        let mut now_ms = 0;
        minute(&mut guard, &mut now_ms, 20, 0);
        assert_eq!(
            (guard.step(), guard.spacing_ms(), guard.sentence()),
            (0, 0, None)
        );
        let mut spacings = Vec::new();
        for _ in 0..6 {
            minute(&mut guard, &mut now_ms, 20, 10);
            spacings.push(guard.spacing_ms());
        }
        // Ten a second before: one in 200 ms, then half of that, and so on.
        assert_eq!(spacings, [200, 400, 800, 1_600, 1_600, 1_600]);
        assert_eq!(guard.step(), MOST_STEPS);
        let sentence = guard.sentence().unwrap();
        assert!(sentence.starts_with("10 of the 20 sites"), "{sentence}");
        assert!(sentence.contains("a sixteenth"), "{sentence}");
        let mut steps = Vec::new();
        for _ in 0..5 {
            minute(&mut guard, &mut now_ms, 20, 1);
            steps.push(guard.step());
        }
        assert_eq!(steps, [3, 2, 1, 0, 0]);
        assert_eq!((guard.spacing_ms(), guard.sentence()), (0, None));
    }

    #[test]
    fn one_operator_is_no_reputation_and_neither_are_a_few_sites() {
        let mut guard = reputation();
        let mut now_ms = 0;
        // Hundreds of hosts of one registered domain refuse.
        for host in 0..500 {
            guard.answered(now_ms, &format!("shop{host}.one-owner.co.uk"), true);
        }
        minute(&mut guard, &mut now_ms, 20, 0);
        assert_eq!(guard.step(), 0);
        let mut guard = reputation();
        minute(&mut guard, &mut now_ms, 9, 9);
        assert_eq!(guard.step(), 0, "too few to judge");
        let mut guard = reputation();
        minute(&mut guard, &mut now_ms, 20, 5);
        assert_eq!(guard.step(), 0, "a quarter is below the bound");
        minute(&mut guard, &mut now_ms, 20, 6);
        assert_eq!(guard.step(), 1);
        minute(&mut guard, &mut now_ms, 20, 4);
        assert_eq!(guard.step(), 1, "between the bounds it stays");
    }

    #[test]
    fn a_step_is_judged_by_what_came_after_it_and_silence_heals() {
        let mut guard = reputation();
        let mut now_ms = 0;
        minute(&mut guard, &mut now_ms, 20, 20);
        assert_eq!(guard.step(), 1);
        guard.consider(now_ms + 1, 0);
        guard.consider(now_ms + 5 * MINUTE, 0);
        assert_eq!(guard.step(), 1, "nobody has answered since");
        guard.consider(now_ms + 10 * MINUTE, 0);
        assert_eq!(guard.step(), 0, "a window without answers");
    }

    #[test]
    fn it_can_be_switched_off() {
        let settings = config::Reputation {
            enabled: false,
            ..config::Reputation::default()
        };
        let mut guard = Reputation::new(settings, 0);
        let mut now_ms = 0;
        minute(&mut guard, &mut now_ms, 20, 20);
        assert_eq!(guard.step(), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut guard = reputation();
        for site in 0..3 * MOST_SITES {
            guard.answered(1, &format!("site{site}.example"), true);
        }
        assert_eq!(guard.sites.len(), MOST_SITES);
        guard.consider(60 * MINUTE, 0);
        assert!(guard.sites.is_empty());
    }

    #[test]
    fn refusals_are_known_by_status_or_title() {
        let challenge = b"<html><head><TITLE>x</TITLE><title>\n Just a moment...</title>";
        for (status, body, expected) in [
            (403, &b""[..], true),
            (429, b"", true),
            (200, challenge, true),
            (503, challenge, true),
            (404, challenge, false),
            (503, b"<title>Down for maintenance</title>", false),
            (200, b"<title>A moment, just</title>", false),
            (200, b"<title", false),
            (200, b"<title>Just a", false),
            (200, b"Just a moment", false),
        ] {
            assert_eq!(
                is_refusal(status, body),
                expected,
                "{status} {}",
                body.escape_ascii()
            );
        }
    }

    #[test]
    fn threads_take_turns_and_a_stop_ends_the_wait() {
        let guard = ReputationGuard::new(config::Reputation::default(), Clock::start());
        assert!(guard.wait_for_turn(), "at once");
        guard.spacing_ms.store(20, Relaxed);
        let begun = std::time::Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| assert!(guard.wait_for_turn()));
            }
        });
        assert!(
            begun.elapsed() >= Duration::from_millis(80),
            "five turns, four waits"
        );
        guard.spacing_ms.store(MOST_SPACING_MS, Relaxed);
        assert!(guard.wait_for_turn());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| guard.wait_for_turn());
            guard.close();
            assert!(!waiter.join().unwrap());
        });
    }
}
