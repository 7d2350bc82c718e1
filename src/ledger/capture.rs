//! An exchange with a server, on its way into the archive.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::archive::{
    Digest, Exchange, Original, Outlinks, Prepared, RecordBuilder, RecordId, Response, Truncated,
    interim_bytes,
};
use crate::clock::Millis;

/// Builders that nobody uses at present. Compressing needs 160 KB of tables: whoever comes
/// next takes those that were used last, which the processor still has at hand. There are
/// never more than were at work at once.
static BUILDERS: Mutex<Vec<RecordBuilder>> = Mutex::new(Vec::new());

fn with_builder(build: impl FnOnce(&mut RecordBuilder) -> Prepared) -> Prepared {
    let used_before = BUILDERS.lock().pop();
    let mut builder = used_before.unwrap_or_default();
    let prepared = build(&mut builder);
    BUILDERS.lock().push(builder);
    prepared
}

/// Gives every exchange bytes that no other has: its records are named by them.
pub struct Captures {
    prefix: [u8; 16],
    next: AtomicU64,
}

impl Captures {
    /// Captures of one run of one peer, which `prefix` stands for.
    pub fn new(prefix: [u8; 16]) -> Self {
        Self {
            prefix,
            next: AtomicU64::new(0),
        }
    }

    /// What was heard of one exchange.
    pub fn capture(&self, request: Vec<u8>, mut response: Vec<u8>, at_ms: Millis) -> Capture {
        response.drain(..interim_bytes(&response));
        let mut unique = [0; 24];
        unique[..16].copy_from_slice(&self.prefix);
        let number = self.next.fetch_add(1, Relaxed);
        unique[16..].copy_from_slice(&number.to_be_bytes());
        Capture {
            payload_digest: Response::new(&response).payload_digest(),
            request,
            response,
            at_ms,
            address: None,
            truncated: None,
            unique,
            whole: None,
        }
    }
}

/// See the module.
pub struct Capture {
    request: Vec<u8>,
    /// Once `whole` is there, its head alone.
    response: Vec<u8>,
    payload_digest: Digest,
    at_ms: Millis,
    /// Where the answer came from.
    pub address: Option<IpAddr>,
    /// Why the answer is not whole, if it is not.
    pub truncated: Option<Truncated>,
    unique: [u8; 24],
    /// Its records, made before it was known whether they are wanted.
    whole: Option<Prepared>,
}

impl Capture {
    /// The digest of the body as it was sent.
    pub fn payload_digest(&self) -> Digest {
        self.payload_digest
    }

    /// When it was asked for.
    pub fn at_ms(&self) -> Millis {
        self.at_ms
    }

    /// The memory that it holds.
    pub fn len(&self) -> usize {
        let whole = self.whole.as_ref().map_or(0, Prepared::len);
        self.request.len() + self.response.len() + whole
    }

    /// Whether nothing was heard.
    pub fn is_empty(&self) -> bool {
        self.response.is_empty()
    }

    /// Makes its records now, on this thread, as if its content were new: whoever waits
    /// for a verdict keeps the compressed form.
    pub fn prepare(&mut self, url: &str) {
        if self.whole.is_none() {
            self.whole = Some(self.build(url, None));
            let payload = Response::with_digest(&self.response, self.payload_digest).payload();
            let head = self.response.len() - payload.len();
            self.response.truncate(head);
            self.response.shrink_to_fit();
        }
    }

    /// Its records: a revisit if the same payload is known from elsewhere. They are made
    /// once: what was heard goes, for the page may have to wait for its links to be read.
    pub fn records(&mut self, url: &str, original: Option<&Original>) -> Prepared {
        let is_revisit = original.is_some_and(|o| o.payload_digest == self.payload_digest);
        let records = match self.whole.take() {
            Some(whole) if !is_revisit => whole,
            _ => self.build(url, original),
        };
        (self.request, self.response) = (Vec::new(), Vec::new());
        records
    }

    /// A record with the links of its page.
    pub fn links(&self, url: &str, links: &Outlinks) -> Prepared {
        let response = RecordId::derive(&self.unique, "response");
        with_builder(|builder| builder.links(url, self.at_ms, response, &self.unique, links))
    }

    fn build(&self, url: &str, original: Option<&Original>) -> Prepared {
        let exchange = Exchange {
            url,
            at_ms: self.at_ms,
            address: self.address,
            request: &self.request,
            response: Response::with_digest(&self.response, self.payload_digest),
            truncated: self.truncated,
            unique: &self.unique,
        };
        with_builder(|builder| builder.exchange(&exchange, original))
    }
}
