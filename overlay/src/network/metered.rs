//! Sockets whose bytes are counted, and wait for their turn if there is a limit.
//!
//! A TCP socket is wrapped below Noise: what is counted there is what the system moves.
//! The QUIC socket is the library's own, so its streams are wrapped instead, and each
//! byte of theirs costs a little more, for headers and acknowledgements.
//!
//! A TCP socket that takes nothing for a while is given up: its other end does not read,
//! and closing such a connection would wait for it forever.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{AsyncRead, AsyncWrite};
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use tokio::time::{Sleep, sleep};

use super::shared::Counters;
use crate::meter::{Direction, Meter};

/// Bytes that are moved at once at most, so that nobody holds what others wait for.
const PORTION: usize = 64 << 10;
/// A meter is not asked more often, whatever it says.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// One byte in so many of a QUIC stream is added for what surrounds it: a datagram of
/// 1,200 bytes carries some 40 of its own, and every other one is acknowledged.
const QUIC_OVERHEAD: usize = 20;

/// A socket that takes no byte for so long has nobody at its other end who reads.
const STALLED: Duration = Duration::from_secs(20);

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
    /// Whether it is given up when it takes nothing.
    is_socket: bool,
    /// While it takes nothing: when it is given up.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Metered<S> {
    /// Wraps a stream.
    pub fn new(stream: S, gauge: Gauge) -> Self {
        Self {
            stream,
            gauge,
            reading: None,
            writing: None,
            is_socket: false,
            stalled: None,
        }
    }

    /// Wraps a socket, which is given up when it takes nothing.
    pub fn of_socket(stream: S, gauge: Gauge) -> Self {
        Self {
            is_socket: true,
            ..Self::new(stream, gauge)
        }
    }

    /// Whether the time of a socket that takes nothing is up.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if !self.is_socket {
            return Poll::Pending;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALLED)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "nobody reads"))
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
}

impl<M> MeteredStreams<M> {
    /// Wraps a connection.
    pub fn new(muxer: M, gauge: Gauge) -> Self {
        Self { muxer, gauge }
    }
}

impl<M: StreamMuxer + Unpin> StreamMuxer for MeteredStreams<M>
where
    M::Substream: Unpin,
{
    type Substream = Metered<M::Substream>;
    type Error = M::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.muxer).poll_inbound(cx))?;
        Poll::Ready(Ok(Metered::new(stream, self.gauge.clone())))
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.muxer).poll_outbound(cx))?;
        Poll::Ready(Ok(Metered::new(stream, self.gauge.clone())))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Pin::new(&mut self.muxer).poll_close(cx)
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<StreamMuxerEvent, Self::Error>> {
        Pin::new(&mut self.muxer).poll(cx)
    }
}
