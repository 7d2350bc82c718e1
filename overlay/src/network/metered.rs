//! Sockets whose bytes are counted, and wait for their turn if there is a limit.
//!
//! A TCP socket is wrapped below Noise: what is counted there is what the system moves.
//! The QUIC socket is the library's own, so its streams are wrapped instead, and each
//! byte of theirs costs a little more, for headers and acknowledgements.
//!
//! A connection that takes nothing for a while is given up: its other end does not read,
//! and closing it would wait for that forever. Over QUIC it takes nothing if none of its
//! streams does. Only what the meter has granted counts, so that a limit is never the cause.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{AsyncRead, AsyncWrite};
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::shared::Counters;
use crate::meter::{Direction, Meter};

/// Bytes that are moved at once at most, so that nobody holds what others wait for.
const PORTION: usize = 64 << 10;
/// A meter is not asked more often, whatever it says.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// One byte in so many of a QUIC stream is added for what surrounds it: a datagram of
/// 1,200 bytes carries some 40 of its own, and every other one is acknowledged.
const QUIC_OVERHEAD: usize = 20;

/// A connection that takes no byte for so long has nobody at its other end who reads.
const STALLED: Duration = Duration::from_secs(20);

/// The other end of a connection does not read.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads")]
struct Unread;

/// Whether a connection failed because its other end does not read, whatever that is wrapped in.
pub fn is_unread(error: &(dyn Error + 'static)) -> bool {
    let inner = match error.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    };
    error.is::<Unread>() || inner.is_some_and(is_unread)
}

fn unread() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, Unread)
}

/// Whether a connection takes anything; all of its streams share it.
#[derive(Default)]
struct Appetite {
    /// When one of them last did.
    took: Option<Instant>,
    /// None of them did for too long.
    is_unread: bool,
}

type SharedAppetite = Arc<Mutex<Appetite>>;

fn lock(appetite: &SharedAppetite) -> MutexGuard<'_, Appetite> {
    // Every change is one assignment: a panic elsewhere leaves it whole.
    appetite.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts bytes, and knows whom to ask.
#[derive(Clone)]
pub struct Gauge {
    counters: Arc<Counters>,
    meter: Option<Arc<dyn Meter>>,
    /// One byte in so many is added; none if it is 0.
    overhead: usize,
}

impl Gauge {
    /// For sockets.
    pub fn of_sockets(counters: Arc<Counters>, meter: Option<Arc<dyn Meter>>) -> Self {
        Self {
            counters,
            meter,
            overhead: 0,
        }
    }

    /// The same for the streams of QUIC.
    pub fn of_quic(self) -> Self {
        Self {
            overhead: QUIC_OVERHEAD,
            ..self
        }
    }

    /// What moving so many bytes takes at the socket.
    fn cost(&self, bytes: usize) -> usize {
        match self.overhead {
            0 => bytes,
            every => bytes + bytes.div_ceil(every),
        }
    }

    /// Asks for bytes: gives how many may be moved, and how many the meter granted.
    fn poll_grant(
        &self,
        direction: Direction,
        wanted: usize,
        turn: &mut Option<Pin<Box<Sleep>>>,
        cx: &mut Context<'_>,
    ) -> Poll<Grant> {
        let Some(meter) = self.meter.as_ref().filter(|_| wanted > 0) else {
            return Poll::Ready(Grant {
                bytes: wanted,
                granted: 0,
            });
        };
        let wanted = wanted.min(PORTION);
        loop {
            if let Some(sleep) = turn {
                ready!(sleep.as_mut().poll(cx));
                *turn = None;
            }
            match meter.take(direction, self.cost(wanted)) {
                Ok(granted) => {
                    // Overhead included, at least one byte goes.
                    let fits = match self.overhead {
                        0 => granted,
                        every => granted * every / (every + 1),
                    };
                    let bytes = fits.clamp(1, wanted);
                    return Poll::Ready(Grant { bytes, granted });
                }
                Err(wait) => *turn = Some(Box::pin(sleep(wait.max(SHORTEST_WAIT)))),
            }
        }
    }

    /// Says how many of the granted bytes were moved.
    fn settle(&self, direction: Direction, grant: Grant, moved: usize) {
        let used = self.cost(moved);
        if moved > 0 {
            match direction {
                Direction::Down => self.counters.socket_received(used),
                Direction::Up => self.counters.socket_sent(used),
            }
        }
        let unused = grant.granted.saturating_sub(used);
        if let Some(meter) = self.meter.as_ref().filter(|_| unused > 0) {
            meter.put_back(direction, unused);
        }
    }
}

/// What a meter has granted.
#[derive(Clone, Copy)]
struct Grant {
    /// Bytes that may be moved.
    bytes: usize,
    /// Bytes that were taken from the meter for that.
    granted: usize,
}

/// A stream of bytes under a gauge.
pub struct Metered<S> {
    stream: S,
    gauge: Gauge,
    /// While reading waits for its turn.
    reading: Option<Pin<Box<Sleep>>>,
    /// While writing waits for its turn.
    writing: Option<Pin<Box<Sleep>>>,
    /// Of its connection.
    appetite: SharedAppetite,
    /// While it takes nothing: since when, and until its connection may be given up.
    stalled: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S> Metered<S> {
    /// Wraps a socket.
    pub fn of_socket(stream: S, gauge: Gauge) -> Self {
        Self::of_connection(stream, gauge, Arc::default())
    }

    /// Wraps a stream of a connection.
    fn of_connection(stream: S, gauge: Gauge, appetite: SharedAppetite) -> Self {
        Self {
            stream,
            gauge,
            reading: None,
            writing: None,
            appetite,
            stalled: None,
        }
    }

    /// Whether the time of a connection that takes nothing is up.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let (since, stalled) = self.stalled.get_or_insert_with(|| {
            let now = Instant::now();
            (now, Box::pin(sleep_until(now + STALLED)))
        });
        // Another stream may have taken something meanwhile.
        let took = lock(&self.appetite).took;
        let until = took.map_or(*since, |took| took.max(*since)) + STALLED;
        if stalled.deadline() < until {
            stalled.as_mut().reset(until);
        }
        ready!(stalled.as_mut().poll(cx));
        lock(&self.appetite).is_unread = true;
        Poll::Ready(unread())
    }
}

fn moved(result: &Poll<io::Result<usize>>) -> usize {
    match result {
        Poll::Ready(Ok(bytes)) => *bytes,
        _ => 0,
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let me = &mut *self;
        let wanted = buffer.len();
        let asked = me
            .gauge
            .poll_grant(Direction::Down, wanted, &mut me.reading, cx);
        let grant = ready!(asked);
        let read = Pin::new(&mut me.stream).poll_read(cx, &mut buffer[..grant.bytes]);
        me.gauge.settle(Direction::Down, grant, moved(&read));
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let me = &mut *self;
        let wanted = bytes.len();
        let asked = me
            .gauge
            .poll_grant(Direction::Up, wanted, &mut me.writing, cx);
        let grant = ready!(asked);
        let written = Pin::new(&mut me.stream).poll_write(cx, &bytes[..grant.bytes]);
        me.gauge.settle(Direction::Up, grant, moved(&written));
        match written {
            Poll::Pending => me.poll_stalled(cx).map(Err),
            written => {
                lock(&me.appetite).took = Some(Instant::now());
                me.stalled = None;
                written
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

/// A connection of many streams, each under a gauge.
pub struct MeteredStreams<M> {
    muxer: M,
    gauge: Gauge,
    appetite: SharedAppetite,
}

impl<M> MeteredStreams<M> {
    /// Wraps a connection.
    pub fn new(muxer: M, gauge: Gauge) -> Self {
        Self {
            muxer,
            gauge,
            appetite: Arc::default(),
        }
    }

    fn wrap<S>(&self, stream: S) -> Metered<S> {
        Metered::of_connection(stream, self.gauge.clone(), self.appetite.clone())
    }
}

impl<M: StreamMuxer + Unpin> StreamMuxer for MeteredStreams<M>
where
    M::Substream: Unpin,
    M::Error: Send + Sync + 'static,
{
    type Substream = Metered<M::Substream>;
    type Error = io::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Self::Substream>> {
        let stream = ready!(Pin::new(&mut self.muxer).poll_inbound(cx));
        Poll::Ready(
            stream
                .map(|stream| self.wrap(stream))
                .map_err(io::Error::other),
        )
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Self::Substream>> {
        let stream = ready!(Pin::new(&mut self.muxer).poll_outbound(cx));
        Poll::Ready(
            stream
                .map(|stream| self.wrap(stream))
                .map_err(io::Error::other),
        )
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.muxer).poll_close(cx);
        closed.map_err(io::Error::other)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
        if lock(&self.appetite).is_unread {
            return Poll::Ready(Err(unread()));
        }
        let event = Pin::new(&mut self.muxer).poll(cx);
        event.map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_does_not_read_is_known_through_all_wrapping() {
        let wrapped = io::Error::other(io::Error::other(unread()));
        assert!(is_unread(&wrapped));
        let of_swarm = libp2p::swarm::ConnectionError::IO(wrapped);
        assert!(is_unread(&of_swarm));
        let other = io::Error::other(io::Error::from(io::ErrorKind::TimedOut));
        assert!(!is_unread(&other));
    }
}
