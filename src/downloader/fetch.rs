//! One request over a site's connection, within bounds.

use std::io::{self, Read};
use std::sync::Arc;

use peercrawl_overlay::PeerId;
use ureq::http::{HeaderMap, HeaderName, header};

use super::connection::{Connection, Dialer, Heard, TlsError};
use super::content_types::ContentTypes;
use super::socket::{BrokenOff, ConnectError, CutOff};
use super::speed::TooSlow;
use super::tape::TooLong;
use crate::clock::Millis;
use crate::counters::ErrorKind;
use crate::receipts::{Outcome, Receipt, RobotsVerdict};

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Where it leads, if it leads elsewhere.
    pub location: Option<String>,
    /// What the body is.
    pub content_type: Option<String>,
    /// How the body is encoded.
    pub content_encoding: Option<String>,
    /// How long to wait.
    pub retry_after: Option<String>,
    /// What may be done with it.
    pub robots_tags: Vec<Vec<u8>>,
    /// The body as received: transfer encoding undone, content encoding not.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The guard refused the address at the moment of connecting.
    #[error("{0}")]
    AddressRefused(ConnectError),
    /// This peer stopped it, for reasons of its own.
    #[error("{CutOff}")]
    CutOff,
    /// Any other reason, by its kind.
    #[error("{1}")]
    Failed(ErrorKind, String),
}

impl FetchError {
    fn new(error: ureq::Error) -> Self {
        use ureq::Error;
        let kind = match &error {
            Error::Timeout(_) => ErrorKind::Timeout,
            Error::LargeResponseHeader(..) | Error::BodyExceedsLimit(_) => ErrorKind::TooLarge,
            // More fields than there is room for; `ureq` keeps the type to itself.
            Error::Protocol(inner) if inner.to_string().contains("too many headers") => {
                ErrorKind::TooLarge
            }
            Error::HostNotFound => ErrorKind::Dns,
            Error::Other(inner) if inner.is::<TooSlow>() => ErrorKind::Timeout,
            Error::Other(inner) if inner.is::<TooLong>() => ErrorKind::TooLarge,
            Error::Other(inner) if inner.is::<TlsError>() => ErrorKind::Tls,
            Error::Other(inner) if inner.is::<ConnectError>() => ErrorKind::Connect,
            _ => ErrorKind::Other,
        };
        match error {
            Error::Other(inner) if inner.is::<CutOff>() => Self::CutOff,
            Error::Other(inner) => match inner.downcast::<ConnectError>() {
                Ok(refused) if matches!(*refused, ConnectError::Refused(_)) => {
                    Self::AddressRefused(*refused)
                }
                Ok(failed) => Self::Failed(kind, failed.to_string()),
                Err(other) => Self::Failed(kind, other.to_string()),
            },
            error => Self::Failed(kind, error.to_string()),
        }
    }

    /// The kind under which it is counted; none for a refusal and for a fetch that this
    /// peer stopped, which are no errors.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::AddressRefused(_) | Self::CutOff => None,
            Self::Failed(kind, _) => Some(*kind),
        }
    }
}

/// How much of a body is read.
#[derive(Debug, Clone, Copy)]
pub enum BodyLimit {
    /// A larger body is an error.
    Whole(usize),
    /// Of a larger body, the beginning is enough.
    Beginning(usize),
}

/// What the framing of an answer may add, however short that is.
const SMALL_CHUNKS_BYTES: usize = 64 << 10;

/// Sends requests.
#[derive(Clone)]
pub struct Fetcher {
    /// Opens connections.
    pub dialer: Dialer,
    /// What is worth reading, of pages.
    pub content_types: Arc<ContentTypes>,
    /// Header lines of an answer at most.
    pub max_header_bytes: usize,
}

impl Fetcher {
    /// Asks for `url` over `connection`, which goes on living if the server lets it.
    /// A kept-alive connection that the server has closed meanwhile is opened again,
    /// once, without anybody noticing.
    pub fn get(
        &self,
        connection: &mut Connection,
        url: &str,
        limit: BodyLimit,
    ) -> Result<Answer, FetchError> {
        let (most, is_whole) = match limit {
            BodyLimit::Whole(most) => (most, true),
            BodyLimit::Beginning(most) => (most, false),
        };
        // The framing of chunks may add a quarter.
        let most_bytes = (most + most / 4 + SMALL_CHUNKS_BYTES + self.max_header_bytes) as u64;
        connection.tape.expect(most_bytes);
        connection.heard = Heard::default();
        let mut response = match connection.agent.get(url).call() {
            Err(error) if connection.was_used && is_stale(&error) => {
                connection.was_used = false;
                connection.tape.expect(most_bytes);
                connection.agent.get(url).call()
            }
            result => result,
        }
        .map_err(FetchError::new)?;
        let mut answer = Answer {
            status: response.status().as_u16(),
            location: text(response.headers(), header::LOCATION),
            content_type: text(response.headers(), header::CONTENT_TYPE),
            content_encoding: text(response.headers(), header::CONTENT_ENCODING),
            retry_after: text(response.headers(), header::RETRY_AFTER),
            robots_tags: response
                .headers()
                .get_all("x-robots-tag")
                .iter()
                .map(|value| value.as_bytes().to_vec())
                .collect(),
            body: Vec::new(),
        };
        connection.heard.status = Some(answer.status);
        let body = response.body_mut();
        let announced = body.content_length().unwrap_or(0);
        let is_page = is_whole && (200..=299).contains(&answer.status);
        if is_page && !self.content_types.allow(answer.content_type.as_deref()) {
            let why = format!("content type {:?}", answer.content_type.unwrap_or_default());
            return Err(FetchError::Failed(ErrorKind::ContentType, why));
        }
        if is_whole && announced > most as u64 {
            let why = format!("body of {announced} bytes");
            return Err(FetchError::Failed(ErrorKind::TooLarge, why));
        }
        // A header that lies must not make us allocate: at most one large page's worth.
        answer.body.reserve_exact((announced as usize).min(1 << 20));
        let mut reader = body.as_reader().take(most as u64 + u64::from(is_whole));
        let read = reader.read_to_end(&mut answer.body);
        connection.heard.bytes = answer.body.len() as u64;
        read.map_err(|error| FetchError::new(error.into()))?;
        if is_whole && answer.body.len() > most {
            let why = format!("body of more than {most} bytes");
            return Err(FetchError::Failed(ErrorKind::TooLarge, why));
        }
        connection.was_used = true;
        Ok(answer)
    }
}

/// The receipt of a request that was made at this time.
pub fn receipt(
    at_ms: Millis,
    url: &str,
    (heard, error): (Heard, Option<&FetchError>),
    robots: RobotsVerdict,
    asked_by: Option<PeerId>,
) -> Receipt {
    let outcome = match error {
        None => Outcome::Answered,
        Some(FetchError::Failed(kind, _)) => Outcome::Failed(*kind),
        Some(FetchError::AddressRefused(_)) => Outcome::AddressRefused,
        Some(FetchError::CutOff) => Outcome::CutOff,
    };
    Receipt {
        at_ms,
        url: url.to_owned(),
        status: heard.status,
        outcome,
        bytes: heard.bytes,
        robots,
        asked_by,
    }
}

/// Whether an error is what a connection that was closed meanwhile looks like.
fn is_stale(error: &ureq::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, UnexpectedEof};
    match error {
        ureq::Error::Io(error) => matches!(error.kind(), BrokenPipe | UnexpectedEof),
        ureq::Error::Other(inner) => inner.is::<BrokenOff>(),
        _ => false,
    }
}

/// A header as text, whatever bytes it holds.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}
