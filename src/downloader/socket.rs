//! TCP below `ureq`: connects, with the address guard at that very moment, and moves
//! bytes with as few system calls as will do.
//!
//! `ureq` brings a transport of its own. This one differs in four ways: it refuses
//! addresses that the guard refuses, whatever the resolver said; it sets a socket's
//! time limits only when they have changed enough to matter; it looks whether an idle
//! connection is still good with one system call; and it does not let a reset pass for
//! the end of a body (`docs/decisions/0003-ureq.md`).

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use crate::guard;

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

/// Makes [`Socket`]s, and can cut all that are open.
#[derive(Debug)]
pub struct SocketConnector {
    allow_private: bool,
    open: Arc<OpenSockets>,
}

/// The sockets that are open, so that a stop need not wait for slow servers.
#[derive(Debug, Default)]
struct OpenSockets {
    numbers: AtomicU64,
    streams: Mutex<HashMap<u64, Weak<TcpStream>>>,
}

impl SocketConnector {
    /// Private addresses may be visited, or not.
    pub fn new(allow_private: bool) -> Self {
        Self {
            allow_private,
            open: Arc::default(),
        }
    }

    /// Cuts all open connections: whoever waits on one gets an error.
    pub fn cut_all(&self) {
        let open: Vec<_> = self.open.streams.lock().values().cloned().collect();
        for stream in open.iter().filter_map(Weak::upgrade) {
            // An error means that it is closed already.
            let _closed = stream.shutdown(Shutdown::Both);
        }
    }

    fn socket(&self, stream: TcpStream, address: IpAddr, details: &ConnectionDetails) -> Socket {
        let config = details.config;
        let sizes = (config.input_buffer_size(), config.output_buffer_size());
        let stream = Arc::new(stream);
        let number = self.open.numbers.fetch_add(1, Relaxed);
        let weak = Arc::downgrade(&stream);
        self.open.streams.lock().insert(number, weak);
        Socket {
            stream,
            address,
            number,
            open: self.open.clone(),
            buffers: LazyBuffers::new(sizes.0, sizes.1),
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
        let limit = details.timeout.not_zero().map(|limit| *limit / share);
        for &address in details.addrs.iter() {
            if !self.allow_private && !guard::is_public(address.ip()) {
                last = ConnectError::Refused(address);
                continue;
            }
            match connect_to(address, limit) {
                Ok(stream) => return Ok(Some(self.socket(stream, address.ip(), details))),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(Error::Timeout(details.timeout.reason));
                }
                Err(error) => last = ConnectError::Failed(address, error),
            }
        }
        Err(Error::Other(Box::new(last)))
    }
}

fn connect_to(address: SocketAddr, limit: Option<Duration>) -> io::Result<TcpStream> {
    let stream = match limit {
        Some(limit) => TcpStream::connect_timeout(&address, limit)?,
        None => TcpStream::connect(address)?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A connection below TLS.
#[derive(Debug)]
pub struct Socket {
    stream: Arc<TcpStream>,
    address: IpAddr,
    number: u64,
    open: Arc<OpenSockets>,
    buffers: LazyBuffers,
    read_limit: Option<Duration>,
    write_limit: Option<Duration>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.open.streams.lock().remove(&self.number);
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

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let wanted = timeout.not_zero().map(|limit| *limit);
        if !serves(self.write_limit, wanted) {
            self.write_limit = with_room(wanted);
            self.stream.set_write_timeout(self.write_limit)?;
        }
        let output = &self.buffers.output()[..amount];
        in_time((&*self.stream).write_all(output), timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let wanted = timeout.not_zero().map(|limit| *limit);
        if !serves(self.read_limit, wanted) {
            self.read_limit = with_room(wanted);
            self.stream.set_read_timeout(self.read_limit)?;
        }
        let amount = loop {
            match (&*self.stream).read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => break in_time(result, timeout)?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        is_quiet(&self.stream)
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
