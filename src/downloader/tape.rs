//! What goes over a connection, as it was sent: above TLS, below HTTP.
//!
//! The archive keeps the server's own bytes. A tape runs while a page is fetched that is
//! to be archived, and is blank otherwise. It counts the bytes of each answer, whether it
//! runs or not, and ends the fetch when they are more than the bound: the limits on headers
//! and bodies do not see what stands between chunks or behind the last one.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use ureq::Error;
use ureq::unversioned::transport::{Buffers, NextTimeout, Transport};

/// Room for an answer at first: a page of usual size with its header lines.
const ROOM_BYTES: usize = 18 << 10;

/// See the module.
#[derive(Debug, Default)]
pub struct Tape(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_running: bool,
    /// Bytes of an answer that may still come.
    left: u64,
    exchange: Recording,
    address: Option<IpAddr>,
}

/// An answer went on beyond its bound.
#[derive(Debug, thiserror::Error)]
#[error("the answer takes more bytes than a page and its headers may")]
pub struct TooLong;

/// What was heard.
#[derive(Debug, Default)]
pub struct Recording {
    /// The request as sent.
    pub request: Vec<u8>,
    /// The answer as sent.
    pub response: Vec<u8>,
}

impl Tape {
    /// Begins to record; what was recorded before is gone.
    pub fn start(&self) {
        let mut state = self.0.lock();
        state.is_running = true;
        state.exchange = Recording::default();
    }

    /// A request is about to be sent, for the first time or again: what was heard before
    /// does not count. The answer may have so many bytes in all.
    pub fn expect(&self, most_bytes: u64) {
        let mut state = self.0.lock();
        state.left = most_bytes;
        state.exchange = Recording::default();
    }

    /// Ends the recording, and gives it out with the server's address.
    pub fn stop(&self) -> (Recording, Option<IpAddr>) {
        let mut state = self.0.lock();
        state.is_running = false;
        (std::mem::take(&mut state.exchange), state.address)
    }

    /// Puts what goes over a connection on this tape.
    pub(super) fn over(self: &Arc<Self>, inner: Box<dyn Transport>, address: IpAddr) -> Taped {
        self.0.lock().address = Some(address);
        let tape = self.clone();
        Taped { inner, tape }
    }

    fn sent(&self, bytes: &[u8]) {
        let mut state = self.0.lock();
        if state.is_running {
            state.exchange.request.extend(bytes);
        }
    }

    fn heard(&self, bytes: &[u8]) -> Result<(), TooLong> {
        let mut state = self.0.lock();
        let left = state.left.checked_sub(bytes.len() as u64);
        state.left = left.ok_or(TooLong)?;
        if state.is_running && !bytes.is_empty() {
            let response = &mut state.exchange.response;
            if response.is_empty() {
                response.reserve(bytes.len().max(ROOM_BYTES));
            }
            response.extend(bytes);
        }
        Ok(())
    }
}

/// A connection that is being listened to.
#[derive(Debug)]
pub struct Taped {
    inner: Box<dyn Transport>,
    tape: Arc<Tape>,
}

impl Transport for Taped {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let output = &self.inner.buffers().output()[..amount];
        self.tape.sent(output);
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let before = self.inner.buffers().input().len();
        let has_more = self.inner.await_input(timeout)?;
        let input = self.inner.buffers().input();
        self.tape
            .heard(&input[before.min(input.len())..])
            .map_err(|too_long| Error::Other(Box::new(too_long)))?;
        Ok(has_more)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
