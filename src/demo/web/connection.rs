//! One client's connection: bytes in, requests one after the other, answers out. It never
//! blocks, and it says what it is waiting for.

use std::io::{self, ErrorKind, IoSlice, Read as _, Write as _};
use std::time::{Duration, SystemTime};

use mio::net::TcpStream;

use super::answer::{Answer, Answerer, Delivery};
use super::log::Counters;
use super::plan::Plan;
use super::request::{self, MAX_HEAD_BYTES, Read};

/// The pieces that a slow answer comes in.
const DRIBBLE_PIECES: u64 = 4;
/// How long the first half of an answer has to arrive before the connection is reset.
const BEFORE_RESET: Duration = Duration::from_millis(15);
/// How much is read at once; more than most requests take.
const READ_BYTES: usize = 2 * 1024;
/// An answer with more left to send than this gives its buffer back afterwards.
const KEPT_OUTBOX_BYTES: usize = 64 * 1024;

/// What all connections of a thread share.
pub(super) struct Service<'a> {
    pub(super) plan: &'a Plan,
    pub(super) counters: &'a Counters,
    pub(super) answerer: &'a mut Answerer,
}

/// What a connection waits for, having done all that it could.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// For the socket.
    Event,
    /// For time to pass.
    Timer(Duration),
    /// For nothing: it is over.
    Close,
}

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// The host whose listener took it in.
    likely: u32,
    inbox: Vec<u8>,
    /// What of an answer could not, or should not, be sent at once.
    outbox: Vec<u8>,
    /// How far the outbox has been sent.
    sent: usize,
    /// How far it may be sent for now.
    allowed: usize,
    answer: Option<Answer>,
    /// Bytes of the answer that have left.
    written: usize,
    /// A timer is running; until it fires, the socket is left alone.
    asleep: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, likely: u32) -> Self {
        Connection {
            stream,
            likely,
            inbox: Vec::new(),
            outbox: Vec::new(),
            sent: 0,
            allowed: 0,
            answer: None,
            written: 0,
            asleep: false,
        }
    }

    /// Does all that can be done now. An error is the end of the connection, and nothing more.
    pub(super) fn drive(&mut self, service: &mut Service<'_>) -> io::Result<Next> {
        if self.asleep {
            return Ok(Next::Event);
        }
        loop {
            if self.answer.is_some() {
                if let Some(wait) = self.send()? {
                    self.asleep = matches!(wait, Next::Timer(_));
                    return Ok(wait);
                }
                if self.finish(service.counters, true) {
                    return Ok(Next::Close);
                }
            }
            match request::read(&self.inbox) {
                Read::Head(request, length) => {
                    let Service {
                        plan,
                        counters,
                        answerer,
                    } = service;
                    let answer =
                        answerer.compose(plan, counters, &request, self.likely, SystemTime::now());
                    if let Some(host) = answer.host {
                        counters.visited(host, request.agent);
                    }
                    self.inbox.drain(..length);
                    self.begin(answer, answerer)?;
                }
                Read::Bad => {
                    // Best effort: whoever sends this is no client of ours.
                    let _ = self
                        .stream
                        .write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
                    return Ok(Next::Close);
                }
                Read::Partial => match self.fill() {
                    Ok(0) => return Ok(Next::Close),
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Next::Event),
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// The timer that [`Next::Timer`] asked for has fired.
    pub(super) fn wake(&mut self, service: &mut Service<'_>) -> io::Result<Next> {
        self.asleep = false;
        match self.answer.map(|answer| answer.delivery) {
            Some(Delivery::Cut) => {
                // Without lingering, closing sends a reset.
                socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO))?;
                Ok(Next::Close)
            }
            _ => {
                let piece = (self.outbox.len() / DRIBBLE_PIECES as usize).max(1);
                self.allowed = (self.allowed + piece).min(self.outbox.len());
                self.drive(service)
            }
        }
    }

    /// Tells the counters of an answer that is done, or that will not be. True if the
    /// connection ends with it.
    pub(super) fn finish(&mut self, counters: &Counters, complete: bool) -> bool {
        let Some(answer) = self.answer.take() else {
            return false;
        };
        if let Some(host) = answer.host {
            counters.finish(host, answer.page.filter(|_| complete), self.written);
        }
        self.outbox.clear();
        self.outbox.shrink_to(KEPT_OUTBOX_BYTES);
        answer.close
    }

    /// Starts to send an answer: straight from the shared buffers as far as the socket takes it.
    fn begin(&mut self, answer: Answer, answerer: &Answerer) -> io::Result<()> {
        let (head, body) = (answerer.head.as_slice(), answerer.body.as_slice());
        (self.sent, self.written) = (0, 0);
        self.answer = Some(answer);
        if answer.delivery == Delivery::Whole {
            self.written = match self
                .stream
                .write_vectored(&[IoSlice::new(head), IoSlice::new(body)])
            {
                Ok(written) => written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
        }
        self.outbox
            .extend_from_slice(&head[self.written.min(head.len())..]);
        self.outbox
            .extend_from_slice(&body[self.written.saturating_sub(head.len())..]);
        self.allowed = match answer.delivery {
            Delivery::Whole => self.outbox.len(),
            Delivery::Dribble { .. } => 0,
            Delivery::Cut => head.len() + body.len() / 2,
        };
        Ok(())
    }

    /// Sends what may be sent; `None` once all of it has left.
    fn send(&mut self) -> io::Result<Option<Next>> {
        while self.sent < self.allowed {
            match self.stream.write(&self.outbox[self.sent..self.allowed]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.sent += written;
                    self.written += written;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(Some(Next::Event));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(match self.answer.map(|answer| answer.delivery) {
            Some(Delivery::Cut) => Some(Next::Timer(BEFORE_RESET)),
            Some(Delivery::Dribble { total_ms }) if self.sent < self.outbox.len() => Some(
                Next::Timer(Duration::from_millis(total_ms / DRIBBLE_PIECES)),
            ),
            _ => None,
        })
    }

    fn fill(&mut self) -> io::Result<usize> {
        let length = self.inbox.len();
        // A partial head is shorter than the bound, which bounds the buffer too.
        self.inbox
            .resize((length + READ_BYTES).min(MAX_HEAD_BYTES), 0);
        let read = loop {
            match self.stream.read(&mut self.inbox[length..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.inbox.truncate(length + *read.as_ref().unwrap_or(&0));
        read
    }
}
