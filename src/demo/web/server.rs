//! The HTTP server: an event loop on each thread, with a listener for each host (or one for all
//! names), its connections, and the timers of slow answers. Nothing in it waits but the poll.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};

use super::answer::Answerer;
use super::connection::{Connection, Next, Service};
use super::log::Counters;
use super::plan::{Plan, host_address};
use super::spec::{Naming, WebError, WebSpec};

/// The token of the waker; listeners and connections follow.
pub(super) const WAKER: Token = Token(0);
/// Ports that are tried for one that is free on all hosts.
const PORT_TRIES: u32 = 20;
/// How long to leave a listener alone that cannot take in anybody, for want of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// File handles besides the listeners: connections, and whatever else the process has open.
const SPARE_HANDLES: u64 = 4_096;

/// Opens a listener for each host, all on one port, and says which.
pub(super) fn listen(spec: &WebSpec) -> Result<(Vec<TcpListener>, u16), WebError> {
    // Where it cannot be raised, opening a listener will say so.
    let _ = rlimit::increase_nofile_limit(u64::from(spec.hosts) * 2 + SPARE_HANDLES);
    let addresses = match spec.naming {
        Naming::Addresses => spec.hosts,
        Naming::Names => 1,
    };
    let mut tries = if spec.port == 0 { PORT_TRIES } else { 1 };
    loop {
        tries -= 1;
        match listen_once(spec, addresses) {
            Err(WebError::Listen { source, .. })
                if source.kind() == ErrorKind::AddrInUse && tries > 0 => {}
            result => return result,
        }
    }
}

fn listen_once(spec: &WebSpec, addresses: u32) -> Result<(Vec<TcpListener>, u16), WebError> {
    let mut port = spec.port;
    let mut listeners = Vec::with_capacity(addresses as usize);
    for host in 0..addresses {
        let ip = match spec.naming {
            Naming::Addresses => host_address(host),
            Naming::Names => Ipv4Addr::LOCALHOST,
        };
        let address = SocketAddr::from((ip, port));
        let listener =
            TcpListener::bind(address).map_err(|source| WebError::Listen { address, source })?;
        port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok((listeners, port))
}

/// One thread's share of the server.
pub(super) struct EventLoop {
    pub(super) poll: Poll,
    /// Each with the number of its host.
    pub(super) listeners: Vec<(TcpListener, u32)>,
    pub(super) plan: Arc<Plan>,
    pub(super) counters: Arc<Counters>,
    /// Which of the serving threads this is.
    pub(super) thread: usize,
    /// Set before the waker is used.
    pub(super) stop: Arc<AtomicBool>,
}

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    /// To try a listener again.
    Accept(usize),
    /// To go on with a connection, if its place has not been given to another since.
    Connection { slot: usize, generation: u64 },
}

/// The state of a running loop.
#[derive(Default)]
struct State {
    /// The place of each connection, with how often the place has been given away.
    slots: Vec<(Option<Connection>, u64)>,
    free: Vec<usize>,
    alarms: BinaryHeap<Reverse<(Instant, Alarm)>>,
    answerer: Answerer,
}

impl EventLoop {
    /// Registers the listeners, so that no request is missed from now on.
    pub(super) fn register(&mut self) -> io::Result<()> {
        for (at, (listener, _)) in self.listeners.iter_mut().enumerate() {
            self.poll
                .registry()
                .register(listener, Token(1 + at), Interest::READABLE)?;
        }
        Ok(())
    }

    /// Serves until told to stop.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1_024);
        let mut state = State::default();
        while !self.stop.load(Relaxed) {
            let timeout = state
                .alarms
                .peek()
                .map(|Reverse((at, _))| at.saturating_duration_since(Instant::now()));
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            self.counters.turn(self.thread);
            for event in &events {
                match event.token() {
                    WAKER => {}
                    Token(token) if token <= self.listeners.len() => {
                        self.accept(&mut state, token - 1)
                    }
                    Token(token) => self.drive(&mut state, token - 1 - self.listeners.len(), false),
                }
            }
            self.ring(&mut state);
            self.counters.turn(self.thread);
        }
        Ok(())
    }

    /// Takes in everybody who waits at a listener.
    fn accept(&self, state: &mut State, at: usize) {
        let (listener, host) = &self.listeners[at];
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    // Only the last piece of a slow answer would be later for it.
                    let _ = stream.set_nodelay(true);
                    self.admit(state, Connection::new(stream, *host));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The peer has gone again.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                Err(_) => {
                    state
                        .alarms
                        .push(Reverse((Instant::now() + ACCEPT_PAUSE, Alarm::Accept(at))));
                    return;
                }
            }
        }
    }

    fn admit(&self, state: &mut State, mut connection: Connection) {
        let slot = state.free.pop().unwrap_or_else(|| {
            state.slots.push((None, 0));
            state.slots.len() - 1
        });
        let token = Token(1 + self.listeners.len() + slot);
        let both = Interest::READABLE | Interest::WRITABLE;
        if self
            .poll
            .registry()
            .register(&mut connection.stream, token, both)
            .is_err()
        {
            state.free.push(slot);
            return;
        }
        state.slots[slot].0 = Some(connection);
        self.drive(state, slot, false);
    }

    /// Lets a connection do what it can, and sees to what it waits for then.
    fn drive(&self, state: &mut State, slot: usize, timer: bool) {
        let Some((Some(connection), generation)) = state.slots.get_mut(slot) else {
            return;
        };
        let mut service = Service {
            plan: &self.plan,
            counters: &self.counters,
            answerer: &mut state.answerer,
        };
        let next = if timer {
            connection.wake(&mut service)
        } else {
            connection.drive(&mut service)
        };
        match next {
            Ok(Next::Event) => {}
            Ok(Next::Timer(wait)) => {
                let alarm = Alarm::Connection {
                    slot,
                    generation: *generation,
                };
                state.alarms.push(Reverse((Instant::now() + wait, alarm)));
            }
            Ok(Next::Close) | Err(_) => {
                connection.finish(&self.counters, false);
                // The socket is closed next, which takes it out of the poll in any case.
                let _ = self.poll.registry().deregister(&mut connection.stream);
                state.slots[slot].0 = None;
                state.slots[slot].1 += 1;
                state.free.push(slot);
            }
        }
    }

    /// Serves the timers that are due.
    fn ring(&self, state: &mut State) {
        let now = Instant::now();
        while let Some(&Reverse((at, alarm))) = state.alarms.peek()
            && at <= now
        {
            state.alarms.pop();
            match alarm {
                Alarm::Accept(listener) => self.accept(state, listener),
                Alarm::Connection { slot, generation } => {
                    if state.slots[slot].1 == generation {
                        self.drive(state, slot, true);
                    }
                }
            }
        }
    }
}
