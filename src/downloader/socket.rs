//! TCP below `ureq`: connects, with the address guard at that very moment, and moves
//! bytes with as few system calls as will do.
//!
//! `ureq` brings a transport of its own. This one differs in seven ways: it refuses
//! addresses that the guard refuses, whatever the resolver said; it sets a socket's
//! time limits only when they have changed enough to matter; it looks whether an idle
//! connection is still good with one system call; it does not let a reset pass for
//! the end of a body (`docs/decisions/0003-ureq.md`); every byte is counted here and held
//! to the volunteer's limits; a server's time is up when the server has used it, not when
//! our own limits have; and a server that drips is let go before its time is up.
//!
//! Under a limit, what has arrived is looked at first, then waited for in the line of the
//! limit, and only then read: nothing is granted that is not there, and the operating
//! system's small buffer makes TCP slow the server down.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use super::speed::{MinSpeed, SpeedWatch};
use crate::guard;
use crate::limits::{Limits, Stopwatch};

/// What connecting costs each way, about.
const CONNECT_BYTES: usize = 60;
/// Under a limit, a socket's buffer holds what this part of a second brings in, within
/// these bounds; above the upper one the system's own buffer will do.
const BUFFERS_PER_SEC: u64 = 4;
const LEAST_BUFFER: u64 = 16 << 10;
const MOST_BUFFER: u64 = 256 << 10;

/// Why no connection was made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The guard refuses the address.
    #[error("{0} is not a public address")]
    Refused(SocketAddr),
    /// Nobody answered there.
    #[error("cannot connect to {0}: {1}")]
    Failed(SocketAddr, io::Error),
    /// The name has no addresses.
    #[error("no address to connect to")]
    NoAddress,
}

/// The server broke the connection off. `ureq` takes a plain "connection reset" in the
/// middle of a body for its end, and a body without a length would be cut in silence.
#[derive(Debug, thiserror::Error)]
#[error("the server broke off the connection: {0}")]
pub struct BrokenOff(io::Error);

/// We cut the connection off ourselves: the server is not to blame.
#[derive(Debug, thiserror::Error)]
#[error("this peer stopped the fetch")]
pub struct CutOff;

/// How long a server may take, our own limits apart.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// To connect.
    pub connect: Duration,
    /// For one request, from its first byte to the answer's last, TLS included.
    pub fetch: Duration,
    /// How fast it must send, once it has begun.
    pub speed: MinSpeed,
}

/// Makes [`Socket`]s, and can cut those that are open.
#[derive(Debug)]
pub struct SocketConnector {
    allow_private: bool,
    patience: Patience,
    limits: Arc<Limits>,
    open: Arc<OpenSockets>,
}

/// The sockets that are open, so that a stop need not wait for slow servers.
#[derive(Debug, Default)]
struct OpenSockets {
    numbers: AtomicU64,
    /// How often all were cut: a connection that was being made meanwhile is cut, too.
    cuts: AtomicU64,
    wires: Mutex<HashMap<u64, Weak<Wire>>>,
}

/// A stream, and whether we have cut it.
#[derive(Debug)]
struct Wire {
    stream: TcpStream,
    /// Whom it leads to, as a URL writes it.
    host: Box<str>,
    is_cut: AtomicBool,
}

impl SocketConnector {
    /// Private addresses may be visited, or not. All traffic keeps these limits.
    pub fn new(allow_private: bool, patience: Patience, limits: Arc<Limits>) -> Self {
        Self {
            allow_private,
            patience,
            limits,
            open: Arc::default(),
        }
    }

    /// Cuts all open connections: whoever waits on one, or for the limits, gets an error.
    pub fn cut_all(&self) {
        self.open.cuts.fetch_add(1, Relaxed);
        self.cut(|_| true);
    }

    /// Cuts the open connections to one host.
    pub fn cut_host(&self, host: &str) {
        self.cut(|wire| *wire.host == *host);
    }

    fn cut(&self, is_meant: impl Fn(&Wire) -> bool) {
        let open: Vec<_> = self.open.wires.lock().values().cloned().collect();
        let open = open.iter().filter_map(Weak::upgrade);
        for wire in open.filter(|wire| is_meant(wire)) {
            wire.is_cut.store(true, Relaxed);
            // An error means that it is closed already.
            let _closed = wire.stream.shutdown(Shutdown::Both);
        }
        self.limits.wake();
    }

    fn socket(
        &self,
        stream: TcpStream,
        address: IpAddr,
        buffer: Option<usize>,
        details: &ConnectionDetails,
    ) -> Socket {
        let config = details.config;
        let sizes = (config.input_buffer_size(), config.output_buffer_size());
        let wire = Arc::new(Wire {
            stream,
            host: details.uri.host().unwrap_or_default().into(),
            is_cut: AtomicBool::new(false),
        });
        let number = self.open.numbers.fetch_add(1, Relaxed);
        let weak = Arc::downgrade(&wire);
        self.open.wires.lock().insert(number, weak);
        Socket {
            wire,
            address,
            number,
            open: self.open.clone(),
            limits: self.limits.clone(),
            buffers: LazyBuffers::new(sizes.0, sizes.1),
            system_buffer: buffer,
            patience: self.patience.fetch,
            watch: Stopwatch::start(),
            speed: SpeedWatch::new(self.patience.speed),
            read_limit: None,
            write_limit: None,
        }
    }
}

impl Connector<()> for SocketConnector {
    type Out = Socket;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Socket>, Error> {
        let mut last = ConnectError::NoAddress;
        // Each address gets its share of the time.
        let share = details.addrs.len().max(1) as u32;
        let limit = shorter(details.timeout, self.patience.connect) / share;
        let cuts = self.open.cuts.load(Relaxed);
        let buffer = system_buffer(self.limits.down.limit());
        for &address in details.addrs.iter() {
            if !self.allow_private && !guard::is_public(address.ip()) {
                last = ConnectError::Refused(address);
                continue;
            }
            self.limits.up.charge(CONNECT_BYTES);
            let connected = connect_to(address, limit, buffer);
            if self.open.cuts.load(Relaxed) != cuts {
                return Err(Error::Other(Box::new(CutOff)));
            }
            match connected {
                Ok(stream) => {
                    self.limits.down.charge(CONNECT_BYTES);
                    return Ok(Some(self.socket(stream, address.ip(), buffer, details)));
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(Error::Timeout(details.timeout.reason));
                }
                Err(error) => last = ConnectError::Failed(address, error),
            }
        }
        Err(Error::Other(Box::new(last)))
    }
}

fn connect_to(
    address: SocketAddr,
    limit: Duration,
    buffer: Option<usize>,
) -> io::Result<TcpStream> {
    let stream = match buffer {
        None => TcpStream::connect_timeout(&address, limit)?,
        // The size must be known when the connection is made, since it is agreed on then.
        Some(bytes) => {
            let domain = socket2::Domain::for_address(address);
            let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
            socket.set_recv_buffer_size(bytes)?;
            socket.connect_timeout(&address.into(), limit)?;
            socket.into()
        }
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// How large the system's buffer should be under this limit; `None` for its own choice.
fn system_buffer(bytes_per_sec: u64) -> Option<usize> {
    let wanted = bytes_per_sec / BUFFERS_PER_SEC;
    (bytes_per_sec > 0 && wanted < MOST_BUFFER).then(|| wanted.max(LEAST_BUFFER) as usize)
}

/// The time that is left, by `ureq` and by us. Never nothing at all, which sockets would
/// take for no limit.
fn shorter(timeout: NextTimeout, ours: Duration) -> Duration {
    let theirs = timeout.not_zero().map_or(ours, |limit| *limit);
    theirs.min(ours).max(Duration::from_micros(1))
}

/// A connection below TLS.
#[derive(Debug)]
pub struct Socket {
    wire: Arc<Wire>,
    address: IpAddr,
    number: u64,
    open: Arc<OpenSockets>,
    limits: Arc<Limits>,
    buffers: LazyBuffers,
    /// The size of the system's buffer, if we have set it.
    system_buffer: Option<usize>,
    /// How long one request may take.
    patience: Duration,
    /// Runs from the beginning of each request.
    watch: Stopwatch,
    /// How fast the answer comes.
    speed: SpeedWatch,
    read_limit: Option<Duration>,
    write_limit: Option<Duration>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.open.wires.lock().remove(&self.number);
    }
}

impl Socket {
    /// Where it leads.
    pub fn address(&self) -> IpAddr {
        self.address
    }
}

/// Whether a limit that is set serves for the one wanted: not shorter, and longer by no
/// more than an eighth. Setting one costs a system call, and the time left differs from
/// call to call by microseconds.
fn serves(set: Option<Duration>, wanted: Option<Duration>) -> bool {
    match (set, wanted) {
        (Some(set), Some(wanted)) => set >= wanted && set <= wanted + wanted / 8,
        (set, wanted) => set == wanted,
    }
}

/// A limit with some room above it, so that it serves for a while.
fn with_room(wanted: Option<Duration>) -> Option<Duration> {
    wanted.map(|wanted| wanted + wanted / 16)
}

fn in_time<T>(result: io::Result<T>, timeout: NextTimeout) -> Result<T, Error> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
            Error::Other(Box::new(BrokenOff(error)))
        }
        _ => Error::Io(error),
    })
}

fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => return result,
        }
    }
}

impl Wire {
    fn is_cut(&self) -> bool {
        self.is_cut.load(Relaxed)
    }

    /// An error or an end of our own making is told apart from the server's.
    fn told_apart(&self, result: Result<usize, Error>) -> Result<usize, Error> {
        match result {
            Ok(1..) => result,
            _ if self.is_cut() => Err(Error::Other(Box::new(CutOff))),
            _ => result,
        }
    }
}

impl Socket {
    /// The time that is left for the request.
    fn left(&self, timeout: NextTimeout) -> Result<Duration, Error> {
        match self.patience.checked_sub(self.watch.elapsed()) {
            Some(left) if !left.is_zero() => Ok(shorter(timeout, left)),
            _ => Err(Error::Timeout(timeout.reason)),
        }
    }

    /// Reads what comes next.
    fn read(&mut self, timeout: NextTimeout) -> Result<usize, Error> {
        if !self.limits.down.is_free() || self.system_buffer.is_some() {
            return self.read_within_limits(timeout);
        }
        let room = self.buffers.input_append_buf();
        let read = in_time(retried(|| (&self.wire.stream).read(room)), timeout);
        self.limits.down.charge(*read.as_ref().unwrap_or(&0));
        read
    }

    /// Reads what is there, once it may be read.
    fn read_within_limits(&mut self, timeout: NextTimeout) -> Result<usize, Error> {
        let down = &self.limits.down;
        let buffer = system_buffer(down.limit());
        if buffer != self.system_buffer {
            self.system_buffer = buffer;
            let bytes = buffer.unwrap_or(MOST_BUFFER as usize);
            socket2::SockRef::from(&self.wire.stream).set_recv_buffer_size(bytes)?;
        }
        let room = self.buffers.input_append_buf();
        let most = room.len().min(down.most_granted());
        let room = &mut room[..most];
        let there = in_time(retried(|| self.wire.stream.peek(room)), timeout);
        let there = match self.wire.told_apart(there)? {
            0 => return Ok(0),
            there => there,
        };
        let Some(granted) = down.wait(there, || self.wire.is_cut()) else {
            return Err(Error::Other(Box::new(CutOff)));
        };
        let read = retried(|| (&self.wire.stream).read(&mut room[..granted]));
        down.give_back(granted - read.as_ref().map_or(0, |&read| read));
        in_time(read, timeout)
    }
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.speed.restart();
        let wanted = Some(self.left(timeout)?);
        if !serves(self.write_limit, wanted) {
            self.write_limit = with_room(wanted);
            self.wire.stream.set_write_timeout(self.write_limit)?;
        }
        let mut output = &self.buffers.output()[..amount];
        while !output.is_empty() {
            let Some(granted) = self.limits.up.wait(output.len(), || self.wire.is_cut()) else {
                return Err(Error::Other(Box::new(CutOff)));
            };
            let written = in_time((&self.wire.stream).write_all(&output[..granted]), timeout);
            self.wire.told_apart(written.map(|()| granted))?;
            output = &output[granted..];
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let begun = self.watch.elapsed();
        loop {
            let before = self.watch.elapsed();
            let left = self.left(timeout)?;
            // No longer than until the server's speed must be looked at again.
            let wanted = Some(self.speed.patience().map_or(left, |look| look.min(left)));
            if !serves(self.read_limit, wanted) {
                self.read_limit = with_room(wanted);
                self.wire.stream.set_read_timeout(self.read_limit)?;
            }
            let read = self.read(timeout);
            let now = self.watch.elapsed();
            let amount = *read.as_ref().unwrap_or(&0);
            let speed = self.speed.received(amount, now.saturating_sub(before));
            let read = self.wire.told_apart(read);
            if let (Ok(_) | Err(Error::Timeout(_)), Err(slow)) = (&read, speed) {
                return Err(Error::Other(Box::new(slow)));
            }
            let theirs = timeout.not_zero().map(|limit| *limit);
            let has_time = theirs.is_none_or(|limit| now.saturating_sub(begun) < limit);
            match read {
                // It was only time to look; whether any is left is seen above.
                Err(Error::Timeout(_)) if has_time => continue,
                read => {
                    let amount = read?;
                    self.buffers.input_appended(amount);
                    return Ok(amount > 0);
                }
            }
        }
    }

    fn is_open(&mut self) -> bool {
        // Asked between requests: the next one has its time ahead of it.
        self.watch = Stopwatch::start();
        !self.wire.is_cut() && is_quiet(&self.wire.stream)
    }
}

/// Whether a connection is open and the server has sent nothing unasked: what came
/// unasked would be taken for the next answer.
#[cfg(unix)]
fn is_quiet(stream: &TcpStream) -> bool {
    let mut byte = [std::mem::MaybeUninit::uninit()];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    let peeked = socket2::SockRef::from(stream).recv_with_flags(&mut byte, flags);
    peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(not(unix))]
fn is_quiet(stream: &TcpStream) -> bool {
    let mut byte = [0];
    let peeked = stream
        .set_nonblocking(true)
        .and_then(|()| stream.peek(&mut byte));
    let is_blocking_again = stream.set_nonblocking(false).is_ok();
    is_blocking_again && peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_connection_is_quiet_until_the_server_speaks_or_goes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert!(is_quiet(&client));
        server.write_all(b"x").unwrap();
        while is_quiet(&client) {
            std::thread::yield_now();
        }
        let second = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        while is_quiet(&second) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn limits_are_set_again_only_when_it_matters() {
        let secs = |n| Some(Duration::from_secs(n));
        assert!(serves(with_room(secs(60)), secs(60)));
        assert!(serves(secs(60), secs(59)));
        assert!(!serves(secs(60), secs(61)));
        assert!(!serves(secs(60), secs(40)));
        assert!(!serves(None, secs(1)));
        assert!(serves(None, None));
    }
}
