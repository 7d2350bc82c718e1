//! What two linked peers say to each other, and how it goes over a stream.
//!
//! Each exchange has a stream of its own: one request, one response, both encoded
//! by postcard and ended by closing the stream. What is too large is not read.

use std::io;
use std::sync::Arc;

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use libp2p::{StreamProtocol, request_response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::envelope::OVERHEAD_BYTES;

/// The exchange of frames.
pub const PROTOCOL: StreamProtocol = StreamProtocol::new("/peercrawl/1");
/// What a frame may add to an envelope of the largest size.
const FRAME_BYTES: usize = 64;
/// Frames up to this size are read whenever they come. Larger ones wait for their
/// turn, so that many senders together cannot fill the memory.
const SMALL_BYTES: usize = 4 << 10;
/// Large frames that are read at once.
const LARGE_FRAMES: usize = 32;

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
        /// The envelope.
        envelope: Vec<u8>,
    },
    /// It sent something that is no request, or too large for one. The library would
    /// close the stream without a word, and the sender would go unpunished.
    #[serde(skip)]
    Malformed,
    /// It broke off in the middle of a request. One that gives up waiting does so.
    #[serde(skip)]
    Torn,
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
#[derive(Clone)]
pub struct FrameCodec {
    limit_bytes: usize,
    large: Arc<Semaphore>,
}

impl FrameCodec {
    /// A codec for messages up to so many bytes.
    pub fn new(message_bytes: usize) -> Self {
        Self {
            limit_bytes: message_bytes + OVERHEAD_BYTES + FRAME_BYTES,
            large: Arc::new(Semaphore::new(LARGE_FRAMES)),
        }
    }

    async fn read<T: DeserializeOwned>(
        &self,
        io: &mut (impl AsyncRead + Unpin + Send),
    ) -> io::Result<T> {
        let mut bytes = Vec::new();
        (&mut *io)
            .take(SMALL_BYTES as u64)
            .read_to_end(&mut bytes)
            .await?;
        if bytes.len() == SMALL_BYTES {
            let _turn = self.large.acquire().await.map_err(io::Error::other)?;
            let rest = self.limit_bytes - SMALL_BYTES.min(self.limit_bytes) + 1;
            (&mut *io).take(rest as u64).read_to_end(&mut bytes).await?;
        }
        if bytes.len() > self.limit_bytes {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "frame too large",
            ));
        }
        postcard::from_bytes(&bytes).map_err(|error| {
            let kind = match error {
                postcard::Error::DeserializeUnexpectedEnd => io::ErrorKind::UnexpectedEof,
                _ => io::ErrorKind::InvalidData,
            };
            io::Error::new(kind, error)
        })
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
        match self.read(io).await {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Request::Malformed),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Request::Torn),
            request => request,
        }
    }

    async fn read_response<T>(&mut self, _: &Self::Protocol, io: &mut T) -> io::Result<Response>
    where
        T: AsyncRead + Unpin + Send,
    {
        self.read(io).await
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
    use super::*;

    fn read(bytes: &[u8], message_bytes: usize) -> io::Result<Request> {
        let mut reader = futures::io::Cursor::new(bytes.to_vec());
        futures::executor::block_on(FrameCodec::new(message_bytes).read(&mut reader))
    }

    #[test]
    fn frames_of_all_sizes_up_to_the_limit_are_read() {
        for size in [0, 1, SMALL_BYTES - 8, SMALL_BYTES, SMALL_BYTES + 1, 1 << 20] {
            let envelope = vec![7; size];
            let request = Request::Packet {
                hops: 1,
                deadline_ms: 2,
                envelope: envelope.clone(),
            };
            let bytes = postcard::to_stdvec(&request).unwrap();
            let read = read(&bytes, 1 << 20).unwrap();
            assert!(matches!(read, Request::Packet { envelope: e, .. } if e == envelope));
        }
    }

    #[test]
    fn what_is_too_large_or_no_frame_is_an_error() {
        let records = Request::Records(vec![vec![0; 100_000]]);
        let bytes = postcard::to_stdvec(&records).unwrap();
        assert!(read(&bytes, 50_000).is_err());
        assert!(read(&bytes[..bytes.len() - 1], 1 << 20).is_err());
        assert!(read(b"", 1 << 20).is_err());
        assert!(read(&[0xff; 30], 1 << 20).is_err());
        // A length that promises more than there is must not be believed.
        assert!(read(&[1, 0xff, 0xff, 0xff, 0xff, 0x0f], 1 << 20).is_err());
    }
}
