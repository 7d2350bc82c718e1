//! What goes over a connection, as it was sent: above TLS, below HTTP.
//!
//! The archive keeps the server's own bytes. A tape runs while a page is fetched that is
//! to be archived, and is blank otherwise; it holds one exchange, which is bounded by the
//! limits on headers and bodies.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use ureq::Error;
use ureq::unversioned::transport::{Buffers, NextTimeout, Transport};

/// See the module.
#[derive(Debug, Default)]
pub struct Tape(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_running: bool,
    exchange: Recording,
    address: Option<IpAddr>,
}

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

    /// The request is sent again: what was heard of the first try does not count.
    pub fn again(&self) {
        self.0.lock().exchange = Recording::default();
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

    fn record(&self, to: impl FnOnce(&mut Recording)) {
        let mut state = self.0.lock();
        if state.is_running {
            to(&mut state.exchange);
        }
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
        self.tape.record(|tape| tape.request.extend(output));
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let before = self.inner.buffers().input().len();
        let has_more = self.inner.await_input(timeout)?;
        let input = self.inner.buffers().input();
        self.tape
            .record(|tape| tape.response.extend(&input[before.min(input.len())..]));
        Ok(has_more)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
