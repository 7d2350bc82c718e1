//! What is known of each peer from the connections with it: where it was reached, how
//! long it takes to answer, and how many bytes went each way.
//!
//! Bytes are counted where a connection's streams begin, whatever carries it: what is
//! said is counted, encryption and its headers are not. A peer's figures go on over many
//! connections; those of peers without one are forgotten when there are too many.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{AsyncRead, AsyncWrite};
use libp2p::core::muxing::{StreamMuxer, StreamMuxerBox, StreamMuxerEvent, SubstreamBox};
use libp2p::core::transport::Boxed;
use libp2p::{Multiaddr, PeerId as Libp2pPeerId, Transport};

use super::shared::Counters;
use crate::{Contact, PeerId, identity};

/// Peers that are remembered at most, beside those that are connected.
const MOST: usize = 4_096;

/// See the module.
#[derive(Default)]
pub struct Contacts {
    list: Mutex<BTreeMap<PeerId, Arc<Tally>>>,
}

/// The figures of one peer.
#[derive(Default)]
pub struct Tally {
    sent: AtomicU64,
    received: AtomicU64,
    manner: Mutex<Manner>,
}

/// How a peer was met.
#[derive(Default)]
struct Manner {
    address: Option<Multiaddr>,
    round_trip: Option<Duration>,
    /// When it last answered.
    answered_ms: Option<u64>,
}

/// Every change under these locks is one call: a panic elsewhere leaves them whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Contacts {
    /// The figures of a peer, to be counted on.
    fn of(&self, peer: PeerId) -> Arc<Tally> {
        let mut list = lock(&self.list);
        if list.len() >= MOST && !list.contains_key(&peer) {
            // A connection holds its peer's figures, too.
            list.retain(|_, tally| Arc::strong_count(tally) > 1);
        }
        list.entry(peer).or_default().clone()
    }

    /// A peer is connected, at this address.
    pub fn reached(&self, peer: PeerId, address: &Multiaddr) {
        lock(&self.of(peer).manner).address = Some(address.clone());
    }

    /// A peer has answered now, after so long.
    pub fn answered(&self, peer: PeerId, after: Duration, now_ms: u64) {
        let tally = self.of(peer);
        let mut manner = lock(&tally.manner);
        manner.round_trip = Some(after);
        manner.answered_ms = Some(now_ms);
    }

    /// Bytes that were said to a peer.
    pub fn sent(&self, peer: PeerId) -> u64 {
        self.of(peer).sent.load(Relaxed)
    }

    /// Bytes that a peer said.
    pub fn received(&self, peer: PeerId) -> u64 {
        self.of(peer).received.load(Relaxed)
    }

    /// Whether anybody else than this peer has answered within such a time.
    pub fn others_answer(&self, than: PeerId, within_ms: u64, now_ms: u64) -> bool {
        let answers = |tally: &Tally| {
            let answered_ms = lock(&tally.manner).answered_ms;
            answered_ms.is_some_and(|at_ms| now_ms <= at_ms + within_ms)
        };
        let list = lock(&self.list);
        let mut others = list.iter().filter(|&(&peer, _)| peer != than);
        others.any(|(_, tally)| answers(tally))
    }

    /// The last connection with a peer is gone: how long it would take now is not known.
    pub fn lost(&self, peer: PeerId) {
        lock(&self.of(peer).manner).round_trip = None;
    }

    /// All that is known, ordered by id.
    pub fn list(&self) -> Vec<Contact> {
        let list = lock(&self.list);
        let contact = |(&peer, tally): (&PeerId, &Arc<Tally>)| {
            let manner = lock(&tally.manner);
            let address = manner.address.as_ref();
            Contact {
                peer,
                address: address.map_or_else(String::new, Multiaddr::to_string),
                round_trip: manner.round_trip,
                bytes_sent: tally.sent.load(Relaxed),
                bytes_received: tally.received.load(Relaxed),
            }
        };
        list.iter().map(contact).collect()
    }
}

/// The same transport, with each connection's bytes counted for its peer.
pub fn counted(
    transport: Boxed<(Libp2pPeerId, StreamMuxerBox)>,
    counters: Arc<Counters>,
) -> Boxed<(Libp2pPeerId, StreamMuxerBox)> {
    let counted = transport.map(move |(peer, muxer), _| {
        // Whoever has no name here is sent away as soon as it is connected.
        let muxer = match identity::from_libp2p(&peer) {
            Some(known) => StreamMuxerBox::new(CountedStreams {
                muxer,
                tally: counters.contacts.of(known),
            }),
            None => muxer,
        };
        (peer, muxer)
    });
    counted.boxed()
}

/// A connection whose streams are counted.
struct CountedStreams {
    muxer: StreamMuxerBox,
    tally: Arc<Tally>,
}

/// One of its streams.
struct CountedStream {
    stream: SubstreamBox,
    tally: Arc<Tally>,
}

impl CountedStreams {
    fn wrap(&self, stream: SubstreamBox) -> CountedStream {
        let tally = self.tally.clone();
        CountedStream { stream, tally }
    }
}

impl StreamMuxer for CountedStreams {
    type Substream = CountedStream;
    type Error = io::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<CountedStream>> {
        let stream = ready!(Pin::new(&mut self.muxer).poll_inbound(cx))?;
        Poll::Ready(Ok(self.wrap(stream)))
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<CountedStream>> {
        let stream = ready!(Pin::new(&mut self.muxer).poll_outbound(cx))?;
        Poll::Ready(Ok(self.wrap(stream)))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.muxer).poll_close(cx)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
        Pin::new(&mut self.muxer).poll(cx)
    }
}

fn count(counter: &AtomicU64, moved: &Poll<io::Result<usize>>) {
    if let Poll::Ready(Ok(bytes)) = moved {
        counter.fetch_add(*bytes as u64, Relaxed);
    }
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        count(&self.tally.received, &read);
        read
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        count(&self.tally.sent, &written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_gone_keeps_its_bytes_and_has_no_round_trip() {
        let contacts = Contacts::default();
        let peer = PeerId::repeat(7);
        contacts.reached(peer, &"/ip4/127.0.0.1/tcp/1".parse().unwrap());
        contacts.answered(peer, Duration::from_millis(3), 0);
        contacts.of(peer).sent.fetch_add(5, Relaxed);
        assert_eq!(
            contacts.list()[0].round_trip,
            Some(Duration::from_millis(3))
        );
        contacts.lost(peer);
        let known = contacts.list();
        assert_eq!((known[0].round_trip, known[0].bytes_sent), (None, 5));
        assert_eq!(known[0].address, "/ip4/127.0.0.1/tcp/1");
    }

    #[test]
    fn whoever_answers_vouches_for_the_line_to_all_others() {
        let contacts = Contacts::default();
        let [one, other] = [1, 2].map(PeerId::repeat);
        contacts.reached(other, &"/ip4/127.0.0.1/tcp/1".parse().unwrap());
        contacts.answered(one, Duration::ZERO, 5_000);
        assert!(contacts.others_answer(other, 60_000, 65_000));
        assert!(
            !contacts.others_answer(other, 60_000, 65_001),
            "too long ago"
        );
        assert!(!contacts.others_answer(one, 60_000, 5_000), "only itself");
    }

    #[test]
    fn of_very_many_peers_those_without_a_connection_are_forgotten() {
        let contacts = Contacts::default();
        let id = |number: usize| {
            let mut id = PeerId::repeat(0);
            id.0[..8].copy_from_slice(&number.to_be_bytes());
            id
        };
        let connected = contacts.of(id(0));
        connected.sent.fetch_add(1, Relaxed);
        for number in 1..=MOST {
            contacts.answered(id(number), Duration::ZERO, 0);
        }
        let left = contacts.list();
        assert_eq!(left.len(), 2);
        assert_eq!((left[0].peer, left[0].bytes_sent), (id(0), 1));
    }
}
