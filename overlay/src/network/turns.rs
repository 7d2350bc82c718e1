//! Whose turn it is to send something large.
//!
//! Small frames are read whenever they come. Of large ones only so many are read at once,
//! so that many senders together cannot fill the memory; and of one peer fewer, so that
//! one sender cannot keep the turns of all. Peers that are not admitted yet have turns of
//! their own. Whoever has a turn must make something of it: with nothing sent for a while,
//! or too little while others wait, the turn is over. A sender is not called slow for what
//! this peer's own limit holds back.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::{AsyncRead, AsyncReadExt};
use libp2p::PeerId;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::meter::{Direction, Meter};

/// Large frames of members that are read at once.
const LARGE_FRAMES: usize = 32;
/// Of these, those of one peer.
const OF_ONE_PEER: usize = 8;
/// Large frames of peers that are not admitted yet; one of each peer.
const OF_STRANGERS: usize = 32;
/// Bytes that are read at once.
const PORTION: usize = 16 << 10;
/// Peers whose lines are kept before those that have gone are looked for.
const MANY_LINES: usize = 1_024;

/// The sender of a frame took too long.
#[derive(Debug, thiserror::Error)]
#[error("it is sent too slowly")]
struct TooSlow;

/// What a frame fails with if its sender took too long.
pub fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, TooSlow)
}

/// Whether a frame failed because its sender took too long.
pub fn is_too_slow(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<TooSlow>())
}

/// How fast senders must be.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The longest that a small frame may take, and the beginning of a large one.
    pub small: Duration,
    /// How often a large frame's progress is looked at.
    pub look: Duration,
    /// What must have come by each look while others wait.
    pub bytes: usize,
    /// Looks at which nothing at all has come.
    pub silent: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            small: Duration::from_secs(30),
            look: Duration::from_secs(5),
            bytes: 64 << 10,
            silent: 2,
        }
    }
}

/// One peer's place, shared by all connections with it.
#[derive(Debug)]
pub struct Line {
    is_admitted: AtomicBool,
    member: Semaphore,
    stranger: Semaphore,
}

impl Line {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            is_admitted: AtomicBool::new(false),
            member: Semaphore::new(OF_ONE_PEER),
            stranger: Semaphore::new(1),
        })
    }

    /// Whether the peer has been admitted.
    pub fn is_admitted(&self) -> bool {
        self.is_admitted.load(Relaxed)
    }
}

#[derive(Default)]
struct Lines {
    /// Whose connection is the next.
    next: Option<PeerId>,
    of: HashMap<PeerId, Weak<Line>>,
}

/// See the module.
pub struct Turns {
    members: Semaphore,
    strangers: Semaphore,
    pace: Pace,
    /// Whoever may hold this peer itself back.
    meter: Option<Arc<dyn Meter>>,
    lines: Mutex<Lines>,
}

impl Turns {
    /// All turns are free.
    pub fn new(pace: Pace, meter: Option<Arc<dyn Meter>>) -> Arc<Self> {
        Arc::new(Self {
            members: Semaphore::new(LARGE_FRAMES),
            strangers: Semaphore::new(OF_STRANGERS),
            pace,
            meter,
            lines: Mutex::default(),
        })
    }

    /// The next connection is one with this peer.
    pub fn expect(&self, peer: PeerId) {
        self.lines().next = Some(peer);
    }

    /// The line of the peer that was expected.
    pub fn expected(&self) -> Arc<Line> {
        let mut lines = self.lines();
        let Some(peer) = lines.next.take() else {
            return Line::new();
        };
        if lines.of.len() >= MANY_LINES {
            lines.of.retain(|_, line| line.strong_count() > 0);
        }
        let known = lines.of.get(&peer).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let line = Line::new();
            lines.of.insert(peer, Arc::downgrade(&line));
            line
        })
    }

    /// A peer has been admitted: it has the turns of members from now on.
    pub fn admit(&self, peer: &PeerId) {
        if let Some(line) = self.lines().of.get(peer).and_then(Weak::upgrade) {
            line.is_admitted.store(true, Relaxed);
        }
    }

    /// The last connection with a peer has ended: the next one begins anew.
    pub fn forget(&self, peer: &PeerId) {
        self.lines().of.remove(peer);
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        // Every change is one call: a panic elsewhere leaves them whole.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this peer itself may receive in a second; `None` for any number of bytes.
    fn own_limit(&self) -> Option<u64> {
        self.meter
            .as_ref()
            .and_then(|meter| meter.limit(Direction::Down))
    }

    /// Reads the first bytes of a frame.
    pub async fn read_first(
        &self,
        io: &mut (impl AsyncRead + Unpin + Send),
        most: usize,
    ) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let until = Instant::now() + self.pace.small;
        let mut io = io.take(most as u64);
        let read = io.read_to_end(&mut bytes);
        match self.own_limit() {
            // The library gives up on it in time.
            Some(_) => read.await?,
            None => timeout_at(until, read).await.map_err(|_| too_slow())??,
        };
        Ok(bytes)
    }

    /// Reads what follows, until there are so many bytes, when it is this peer's turn.
    pub async fn read_rest(
        &self,
        line: &Line,
        io: &mut (impl AsyncRead + Unpin + Send),
        bytes: &mut Vec<u8>,
        most: usize,
    ) -> io::Result<()> {
        let (own, all) = match line.is_admitted() {
            true => (&line.member, &self.members),
            false => (&line.stranger, &self.strangers),
        };
        let _own = own.acquire().await.map_err(io::Error::other)?;
        let _turn = all.acquire().await.map_err(io::Error::other)?;
        let mut portion = vec![0; PORTION];
        let (mut look, mut silent) = (Look::begin(self, bytes.len()), 0);
        while bytes.len() < most {
            let wanted = PORTION.min(most - bytes.len());
            let read = io.read(&mut portion[..wanted]);
            if let Ok(read) = timeout_at(look.at, read).await {
                match read? {
                    0 => break,
                    read => bytes.extend_from_slice(&portion[..read]),
                }
            }
            if Instant::now() < look.at {
                continue;
            }
            let came = bytes.len() - look.bytes;
            silent = if came == 0 { silent + 1 } else { 0 };
            let limit = look.limit.into_iter().chain(self.own_limit()).min();
            let is_waited_for = all.available_permits() == 0;
            if (is_waited_for && came < self.least(limit))
                || (limit.is_none() && silent >= self.pace.silent)
            {
                return Err(too_slow());
            }
            look = Look::begin(self, bytes.len());
        }
        Ok(())
    }

    /// What must come between two looks while others wait. All who have a turn share what
    /// this peer's own limit lets through, and none needs more than half of its part.
    fn least(&self, limit: Option<u64>) -> usize {
        let part = |limit: u64| {
            let bytes = limit.saturating_mul(self.pace.look.as_millis() as u64) / 1_000;
            bytes as usize / (2 * LARGE_FRAMES)
        };
        limit.map_or(self.pace.bytes, |limit| part(limit).min(self.pace.bytes))
    }
}

/// A look at how a large frame comes along.
struct Look {
    at: Instant,
    /// What had come before.
    bytes: usize,
    /// This peer's own limit, before.
    limit: Option<u64>,
}

impl Look {
    fn begin(turns: &Turns, bytes: usize) -> Self {
        Self {
            at: Instant::now() + turns.pace.look,
            bytes,
            limit: turns.own_limit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::time::{Sleep, sleep, timeout};

    use super::*;

    /// How long anything may take on a busy machine.
    const DEADLINE: Duration = Duration::from_secs(20);
    const QUICK: Pace = Pace {
        small: Duration::from_millis(20),
        look: Duration::from_millis(20),
        bytes: 10_000,
        silent: 2,
    };

    /// Sends one byte at a time, with a rest before each; none if it rests for ever.
    struct Slow {
        rest: Option<Duration>,
        left: usize,
        until: Option<Pin<Box<Sleep>>>,
    }

    impl Slow {
        fn new(rest: Option<Duration>, left: usize) -> Self {
            Self {
                rest,
                left,
                until: None,
            }
        }
    }

    impl AsyncRead for Slow {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            let Some(rest) = self.rest else {
                return Poll::Pending;
            };
            let until = self.until.get_or_insert_with(|| Box::pin(sleep(rest)));
            std::task::ready!(until.as_mut().poll(cx));
            self.until = None;
            let more = self.left.min(1);
            buffer[..more].fill(7);
            self.left -= more;
            Poll::Ready(Ok(more))
        }
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async { timeout(DEADLINE, test).await.unwrap() });
    }

    fn member(turns: &Turns, peer: PeerId) -> Arc<Line> {
        turns.expect(peer);
        let line = turns.expected();
        turns.admit(&peer);
        line
    }

    async fn read(turns: &Turns, line: &Line, mut from: Slow) -> io::Result<usize> {
        let mut bytes = Vec::new();
        turns
            .read_rest(line, &mut from, &mut bytes, 1 << 20)
            .await?;
        Ok(bytes.len())
    }

    /// One peer with thirty-two streams kept everybody's large frames waiting for a minute.
    #[test]
    fn one_peer_cannot_keep_the_turns_of_all() {
        run(async {
            let turns = Turns::new(Pace::default(), None);
            let greedy = member(&turns, PeerId::random());
            let stalled: Vec<_> = (0..100)
                .map(|_| {
                    let (turns, greedy) = (turns.clone(), greedy.clone());
                    tokio::spawn(
                        async move { read(&turns, &greedy, Slow::new(None, 1)).await.is_ok() },
                    )
                })
                .collect();
            while greedy.member.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            let friend = member(&turns, PeerId::random());
            let from = Slow::new(Some(Duration::ZERO), 100);
            assert_eq!(read(&turns, &friend, from).await.unwrap(), 100);
            assert!(stalled.iter().all(|task| !task.is_finished()));
        });
    }

    #[test]
    fn strangers_take_no_turns_of_members() {
        run(async {
            let turns = Turns::new(Pace::default(), None);
            let crowd = (0..OF_STRANGERS).map(|_| {
                turns.expect(PeerId::random());
                let (turns, line) = (turns.clone(), turns.expected());
                tokio::spawn(async move { read(&turns, &line, Slow::new(None, 1)).await.is_ok() })
            });
            let crowd: Vec<_> = crowd.collect();
            while turns.strangers.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            let friend = member(&turns, PeerId::random());
            let from = Slow::new(Some(Duration::ZERO), 100);
            assert_eq!(read(&turns, &friend, from).await.unwrap(), 100);
            assert!(crowd.iter().all(|task| !task.is_finished()));
        });
    }

    #[test]
    fn a_turn_of_which_nothing_is_made_is_over() {
        run(async {
            let turns = Turns::new(QUICK, None);
            let line = member(&turns, PeerId::random());
            let error = read(&turns, &line, Slow::new(None, 1)).await.unwrap_err();
            assert!(is_too_slow(&error), "{error}");
            assert_eq!(turns.members.available_permits(), LARGE_FRAMES);
            let mut silent = Slow::new(None, 1);
            let error = turns.read_first(&mut silent, 10).await.unwrap_err();
            assert!(is_too_slow(&error), "{error}");
        });
    }

    #[test]
    fn a_slow_sender_may_be_slow_while_nobody_waits() {
        run(async {
            let turns = Turns::new(QUICK, None);
            let line = member(&turns, PeerId::random());
            let slow = || Slow::new(Some(Duration::from_millis(3)), 30);
            assert_eq!(read(&turns, &line, slow()).await.unwrap(), 30);
            let others = turns.members.acquire_many(LARGE_FRAMES as u32 - 1).await;
            let error = read(&turns, &line, slow()).await.unwrap_err();
            assert!(is_too_slow(&error), "{error}");
            drop(others);
            assert_eq!(read(&turns, &line, slow()).await.unwrap(), 30);
        });
    }

    #[test]
    fn nobody_is_slow_for_what_this_peer_holds_back() {
        let turns = Turns::new(Pace::default(), None);
        assert_eq!(turns.least(None), 64 << 10);
        assert_eq!(turns.least(Some(u64::MAX / 10_000)), 64 << 10);
        assert_eq!(turns.least(Some(64 << 10)), 5 << 10);
        assert_eq!(turns.least(Some(0)), 0);
    }

    #[test]
    fn a_peer_has_one_line_until_it_is_gone() {
        let turns = Turns::new(QUICK, None);
        let peer = PeerId::random();
        let first = member(&turns, peer);
        turns.expect(peer);
        let second = turns.expected();
        assert!(Arc::ptr_eq(&first, &second) && second.is_admitted());
        turns.forget(&peer);
        turns.expect(peer);
        assert!(!turns.expected().is_admitted());
        for _ in 0..3 * MANY_LINES {
            member(&turns, PeerId::random());
        }
        assert!(turns.lines().of.len() <= MANY_LINES);
    }
}
