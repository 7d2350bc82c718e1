//! What two linked peers say to each other, and how it goes over a stream.
//!
//! Each exchange has a stream of its own: one request, one response, both encoded
//! by postcard and ended by closing the stream. What is too large is not read, nor what
//! comes too slowly; from a peer that is not admitted yet, nothing larger than a hello is.

use std::io;
use std::sync::Arc;

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use libp2p::{StreamProtocol, request_response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::turns::{Line, Turns, is_too_slow};
use crate::envelope::OVERHEAD_BYTES;

/// The exchange of frames.
pub const PROTOCOL: StreamProtocol = StreamProtocol::new("/peercrawl/1");
/// What a frame may add to an envelope of the largest size.
const FRAME_BYTES: usize = 64;
/// Frames up to this size are read whenever they come. Larger ones wait for their
/// [turn](super::turns).
const SMALL_BYTES: usize = 4 << 10;
/// What is read from a peer that is not admitted yet: a hello or a welcome, with as many
/// records as they may have.
const HELLO_BYTES: usize = RECORDS_BYTES + (16 << 10);

/// Bytes of records in one frame.
pub const RECORDS_BYTES: usize = 256 << 10;

/// Signed envelopes.
pub type Records = Vec<Vec<u8>>;

/// What a peer asks its neighbour.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// To be admitted.
    Hello {
        /// The version of the protocol.
        version: u16,
        /// The network's name.
        network: String,
        /// What time it is there, in milliseconds since 1970.
        wall_ms: u64,
        /// What else members agree on, by name and value.
        facts: Vec<(String, String)>,
        /// The hash of everything that members agree on.
        agreement: [u8; 32],
        /// Whether it wants to be a leaf here.
        is_leaf: bool,
        /// The asker's own lease first, then those that it knows.
        records: Records,
    },
    /// To take in leases and suspicions.
    Records(Records),
    /// To bring an envelope closer to its receiver.
    Packet {
        /// Peers that it may still pass.
        hops: u8,
        /// How long an answer is waited for.
        deadline_ms: u32,
        /// The envelope, written from where it is kept.
        #[serde(serialize_with = "write_shared", deserialize_with = "read_shared")]
        envelope: Arc<[u8]>,
    },
    /// It sent something that is no request, or too large for one. The library would
    /// close the stream without a word, and the sender would go unpunished.
    #[serde(skip)]
    Malformed,
    /// It broke off in the middle of a request. One that gives up waiting does so.
    #[serde(skip)]
    Torn,
    /// It took too long to send a request.
    #[serde(skip)]
    Late,
    /// It sent more than a hello before it was admitted; that was not kept.
    #[serde(skip)]
    Early,
}

/// What the neighbour says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Response {
    /// Admitted.
    Welcome {
        /// Whether there is room for one more: it is no link otherwise.
        has_room: bool,
        /// The leases that it knows, its own among them.
        records: Records,
    },
    /// Not admitted, and why.
    Refused(String),
    /// Taken.
    Done,
    /// Not taken: too much is under way here.
    Busy,
    /// The receiver's answer, in an envelope.
    Answer(Vec<u8>),
    /// Not taken: there is no link on this side. Say hello first.
    Stranger,
}

/// Reads and writes frames.
///
/// The library makes a clone for each connection, and clones of that for its streams. The
/// first kind finds out whose connection it is.
pub struct FrameCodec {
    limit_bytes: usize,
    turns: Arc<Turns>,
    /// The place of the peer at the other end; `None` in the one that all come from.
    line: Option<Arc<Line>>,
}

impl Clone for FrameCodec {
    fn clone(&self) -> Self {
        let line = self.line.clone().unwrap_or_else(|| self.turns.expected());
        Self {
            limit_bytes: self.limit_bytes,
            turns: self.turns.clone(),
            line: Some(line),
        }
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn write_shared<S: Serializer>(bytes: &Arc<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    bytes[..].serialize(serializer)
}

fn read_shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[u8]>, D::Error> {
    Vec::<u8>::deserialize(deserializer).map(Arc::from)
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(|error| {
        let kind = match error {
            postcard::Error::DeserializeUnexpectedEnd => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    })
}

impl FrameCodec {
    /// A codec for messages up to so many bytes.
    pub fn new(message_bytes: usize, turns: Arc<Turns>) -> Self {
        Self {
            limit_bytes: message_bytes + OVERHEAD_BYTES + FRAME_BYTES,
            turns,
            line: None,
        }
    }

    /// Reads what follows the first bytes of a frame; tells whether all of it was kept.
    async fn read_rest(
        &self,
        io: &mut (impl AsyncRead + Unpin + Send),
        bytes: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let Some(line) = &self.line else {
            return Err(io::Error::other("a frame from nobody"));
        };
        let most = match line.is_admitted() {
            true => self.limit_bytes,
            false => self.limit_bytes.min(HELLO_BYTES),
        };
        if bytes.len() == SMALL_BYTES {
            self.turns.read_rest(line, io, bytes, most + 1).await?;
        }
        if bytes.len() <= most {
            return Ok(true);
        }
        // The rest tells whether it came too early, or would always be too much.
        let mut read = bytes.len();
        let mut portion = [0; 1 << 10];
        while read <= self.limit_bytes {
            match io.read(&mut portion).await? {
                0 => return Ok(false),
                more => read += more,
            }
        }
        Err(invalid("frame too large"))
    }

    async fn write(
        &self,
        io: &mut (impl AsyncWrite + Unpin + Send),
        frame: &(impl Serialize + Sync),
    ) -> io::Result<()> {
        let bytes = postcard::to_stdvec(frame).map_err(io::Error::other)?;
        io.write_all(&bytes).await
    }
}

impl request_response::Codec for FrameCodec {
    type Protocol = StreamProtocol;
    type Request = Request;
    type Response = Response;

    async fn read_request<T>(&mut self, _: &Self::Protocol, io: &mut T) -> io::Result<Request>
    where
        T: AsyncRead + Unpin + Send,
    {
        let request = async {
            let mut bytes = self.turns.read_first(io, SMALL_BYTES).await?;
            match self.read_rest(io, &mut bytes).await? {
                true => decode(&bytes),
                false => Ok(Request::Early),
            }
        };
        match request.await {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Request::Malformed),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Request::Torn),
            Err(error) if is_too_slow(&error) => Ok(Request::Late),
            request => request,
        }
    }

    async fn read_response<T>(&mut self, _: &Self::Protocol, io: &mut T) -> io::Result<Response>
    where
        T: AsyncRead + Unpin + Send,
    {
        let mut bytes = Vec::new();
        // It may take its time to answer.
        (&mut *io)
            .take(SMALL_BYTES as u64)
            .read_to_end(&mut bytes)
            .await?;
        match self.read_rest(io, &mut bytes).await? {
            true => decode(&bytes),
            false => Err(invalid("more than a welcome before there was one")),
        }
    }

    async fn write_request<T>(
        &mut self,
        _: &Self::Protocol,
        io: &mut T,
        request: Request,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        self.write(io, &request).await
    }

    async fn write_response<T>(
        &mut self,
        _: &Self::Protocol,
        io: &mut T,
        response: Response,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        self.write(io, &response).await
    }
}

#[cfg(test)]
mod tests {
    use libp2p::PeerId;
    use libp2p::request_response::Codec;

    use super::super::turns::Pace;
    use super::*;

    /// Reads a request from a peer that is admitted or not.
    fn read_from(is_member: bool, bytes: &[u8], message_bytes: usize) -> Request {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let turns = Turns::new(Pace::default(), None);
        let peer = PeerId::random();
        turns.expect(peer);
        let mut codec = FrameCodec::new(message_bytes, turns.clone()).clone();
        if is_member {
            turns.admit(&peer);
        }
        let mut reader = futures::io::Cursor::new(bytes.to_vec());
        runtime
            .block_on(async { codec.read_request(&PROTOCOL, &mut reader).await })
            .unwrap()
    }

    fn is_malformed(bytes: &[u8], message_bytes: usize) -> bool {
        let read = read_from(true, bytes, message_bytes);
        matches!(read, Request::Malformed)
    }

    fn packet(size: usize) -> Vec<u8> {
        let request = Request::Packet {
            hops: 1,
            deadline_ms: 2,
            envelope: vec![7; size].into(),
        };
        postcard::to_stdvec(&request).unwrap()
    }

    #[test]
    fn frames_of_all_sizes_up_to_the_limit_are_read() {
        for size in [0, 1, SMALL_BYTES - 8, SMALL_BYTES, SMALL_BYTES + 1, 1 << 20] {
            let read = read_from(true, &packet(size), 1 << 20);
            assert!(
                matches!(read, Request::Packet { envelope: e, .. } if *e == vec![7; size]),
                "{size}"
            );
        }
    }

    #[test]
    fn what_is_too_large_or_no_frame_is_an_error() {
        let records = Request::Records(vec![vec![0; 100_000]]);
        let bytes = postcard::to_stdvec(&records).unwrap();
        assert!(is_malformed(&bytes, 50_000));
        assert!(is_malformed(&[0xff; 30], 1 << 20));
        let is_torn = |bytes: &[u8]| matches!(read_from(true, bytes, 1 << 20), Request::Torn);
        assert!(is_torn(&bytes[..bytes.len() - 1]));
        assert!(is_torn(b""));
        // A length that promises more than there is must not be believed.
        assert!(is_torn(&[1, 0xff, 0xff, 0xff, 0xff, 0x0f]));
    }

    #[test]
    fn a_stranger_may_say_no_more_than_a_hello() {
        let read = |size, limit| read_from(false, &packet(size), limit);
        assert!(matches!(
            read(RECORDS_BYTES, 1 << 20),
            Request::Packet { .. }
        ));
        assert!(matches!(read(HELLO_BYTES, 1 << 20), Request::Early));
        assert!(matches!(read(1 << 20, 1 << 20), Request::Early));
        assert!(matches!(read(2 << 20, 1 << 20), Request::Malformed));
        assert!(matches!(read(60_000, 50_000), Request::Malformed));
    }
}
