//! A client that says whatever it likes, by the rules or not.

use std::io;
use std::time::Duration;

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, StreamExt};
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::gossipsub::{self, IdentTopic};
use libp2p::identity::Keypair;
use libp2p::request_response::{self, Codec, Event, Message, ProtocolSupport, ResponseChannel};
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, StreamProtocol, Swarm, Transport, core::upgrade, noise, quic, tcp, yamux};
use peercrawl_overlay::clock::Clock;
use peercrawl_overlay::envelope::{Errand, NetworkTag, Sealer};
use peercrawl_overlay::lease::Lease;
use peercrawl_overlay::network::{NetworkOverlay, PROTOCOL_VERSION};
use peercrawl_overlay::{Overlay, PeerId, Role, identity};
use serde::Serialize;
use tokio::time::{Instant, timeout, timeout_at};

use crate::fleet::{DEADLINE, network, secret};

/// Frames as bytes: whatever the attacker likes.
#[derive(Clone, Default)]
struct Raw;

/// What it says, and whether it ever comes to an end.
#[derive(Debug)]
struct Words {
    bytes: Vec<u8>,
    has_end: bool,
}

async fn read(io: &mut (impl AsyncRead + Unpin + Send)) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io.read_to_end(&mut bytes).await?;
    Ok(bytes)
}

impl Codec for Raw {
    type Protocol = StreamProtocol;
    type Request = Words;
    type Response = Vec<u8>;

    async fn read_request<T: AsyncRead + Unpin + Send>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
    ) -> io::Result<Words> {
        let has_end = true;
        read(io).await.map(|bytes| Words { bytes, has_end })
    }

    async fn read_response<T: AsyncRead + Unpin + Send>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
    ) -> io::Result<Vec<u8>> {
        read(io).await
    }

    async fn write_request<T: AsyncWrite + Unpin + Send>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        words: Words,
    ) -> io::Result<()> {
        io.write_all(&words.bytes).await?;
        io.flush().await?;
        match words.has_end {
            true => Ok(()),
            false => futures::future::pending().await,
        }
    }

    async fn write_response<T: AsyncWrite + Unpin + Send>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        bytes: Vec<u8>,
    ) -> io::Result<()> {
        io.write_all(&bytes).await
    }
}

/// The frames that peers understand, written anew so that a change of them is noticed.
#[derive(Serialize)]
pub enum Frame {
    Hello {
        version: u16,
        network: String,
        wall_ms: u64,
        facts: Vec<(String, String)>,
        agreement: [u8; 32],
        is_leaf: bool,
        records: Vec<Vec<u8>>,
    },
    Records(Vec<Vec<u8>>),
    Packet {
        hops: u8,
        deadline_ms: u32,
        envelope: Vec<u8>,
    },
}

impl Frame {
    pub fn bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap()
    }
}

/// What all of the test network agree on.
pub fn agreement() -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    // A flat overlay.
    hasher.update(&[0]);
    hasher.update(&PROTOCOL_VERSION.to_be_bytes());
    hasher.update(&(network().len() as u64).to_be_bytes());
    hasher.update(network().as_bytes());
    *hasher.finalize().as_bytes()
}

/// A lease that says nothing.
pub fn lease() -> Lease {
    Lease {
        incarnation: 1,
        role: Role::Peer,
        offers: false,
        leaves: 0,
        is_farewell: false,
        addresses: vec![],
        via: vec![],
        facts: vec![],
    }
}

pub fn network_tag() -> NetworkTag {
    agreement()[..8].try_into().unwrap()
}

/// What it speaks: frames, and the mesh if it likes.
#[derive(NetworkBehaviour)]
struct Tongues {
    frames: request_response::Behaviour<Raw>,
    mesh: gossipsub::Behaviour,
}

/// A mesh in which messages may be larger than they may.
fn mesh() -> gossipsub::Behaviour {
    let config = gossipsub::ConfigBuilder::default()
        .validation_mode(gossipsub::ValidationMode::Anonymous)
        .message_id_fn(|message| blake3::hash(&message.data).as_bytes().to_vec().into())
        .max_transmit_size(4 << 20)
        .build()
        .unwrap();
    gossipsub::Behaviour::new(gossipsub::MessageAuthenticity::Anonymous, config).unwrap()
}

pub struct Attacker {
    swarm: Swarm<Tongues>,
    pub sealer: Sealer,
    pub clock: Clock,
    victim: libp2p::PeerId,
    pub address: Multiaddr,
}

impl Attacker {
    pub fn new(number: u8, victim: &NetworkOverlay) -> Self {
        let keypair: Keypair = identity::keypair(secret(number)).unwrap();
        let tcp = tcp::tokio::Transport::new(tcp::Config::default())
            .upgrade(upgrade::Version::V1)
            .authenticate(noise::Config::new(&keypair).unwrap())
            .multiplex(yamux::Config::default())
            .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
        // Nobody has to take much.
        let mut config = quic::Config::new(&keypair);
        (config.max_stream_data, config.max_connection_data) = (64 << 10, 256 << 10);
        let quic = quic::tokio::Transport::new(config)
            .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
        let transport = tcp.or_transport(quic);
        let transport = transport.map(|either, _| either.into_inner()).boxed();
        let protocol = (StreamProtocol::new("/peercrawl/1"), ProtocolSupport::Full);
        let config = request_response::Config::default().with_request_timeout(2 * DEADLINE);
        let frames = request_response::Behaviour::with_codec(Raw, [protocol], config);
        let mesh = mesh();
        let behaviour = Tongues { frames, mesh };
        let config = libp2p::swarm::Config::with_tokio_executor();
        let config = config.with_idle_connection_timeout(DEADLINE);
        let me = keypair.public().to_peer_id();
        let clock = Clock::start();
        let mut swarm = Swarm::new(transport, behaviour, me, config);
        // It comes back whenever it is thrown out.
        let address: Multiaddr = victim.listening()[0].parse().unwrap();
        let victim_peer = identity::to_libp2p(victim.me()).unwrap();
        swarm.add_peer_address(victim_peer, address.clone());
        Self {
            swarm,
            sealer: Sealer::new(keypair, network_tag(), clock.now()).unwrap(),
            clock,
            victim: victim_peer,
            address,
        }
    }

    /// Connects; tells whether the connection lives long enough for a request.
    pub async fn connect(&mut self) {
        self.swarm.dial(self.address.clone()).unwrap();
        let connected = async {
            loop {
                if let SwarmEvent::ConnectionEstablished { .. } =
                    self.swarm.select_next_some().await
                {
                    return;
                }
            }
        };
        timeout(DEADLINE, connected).await.unwrap();
    }

    /// Sends a frame and waits for the response; `None` if there is none.
    pub async fn says(&mut self, frame: Vec<u8>) -> Option<Vec<u8>> {
        let frames = &mut self.swarm.behaviour_mut().frames;
        let words = Words {
            bytes: frame,
            has_end: true,
        };
        let id = frames.send_request(&self.victim, words);
        let response = async {
            loop {
                let event = self.swarm.select_next_some().await;
                let SwarmEvent::Behaviour(TonguesEvent::Frames(event)) = event else {
                    continue;
                };
                match event {
                    Event::Message {
                        message:
                            Message::Response {
                                request_id,
                                response,
                            },
                        ..
                    } if request_id == id => return Some(response),
                    Event::OutboundFailure { request_id, .. } if request_id == id => {
                        return None;
                    }
                    _ => {}
                }
            }
        };
        let response = timeout(DEADLINE, response).await.unwrap();
        response.filter(|response| !response.is_empty())
    }

    /// The next frame of the victim, and where the answer goes.
    async fn asked(&mut self) -> (Vec<u8>, ResponseChannel<Vec<u8>>) {
        let asked = async {
            loop {
                let event = self.swarm.select_next_some().await;
                if let SwarmEvent::Behaviour(TonguesEvent::Frames(Event::Message {
                    message:
                        Message::Request {
                            request, channel, ..
                        },
                    ..
                })) = event
                {
                    return (request.bytes, channel);
                }
            }
        };
        timeout(DEADLINE, asked).await.unwrap()
    }

    /// Answers the next frame of the victim; gives that frame.
    pub async fn answers(&mut self, answer: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let (frame, channel) = self.asked().await;
        let frames = &mut self.swarm.behaviour_mut().frames;
        frames.send_response(channel, answer(&frame)).unwrap();
        frame
    }

    /// Holds the next packet that the victim brings: it reads it, and answers only what else
    /// comes. It is held for as long as what this gives.
    pub async fn holds_packet(&mut self) -> ResponseChannel<Vec<u8>> {
        loop {
            let (frame, channel) = self.asked().await;
            // Two is a packet as a question, and "done" as an answer.
            if frame[0] == 2 {
                return channel;
            }
            let frames = &mut self.swarm.behaviour_mut().frames;
            frames.send_response(channel, vec![2]).unwrap();
        }
    }

    /// Puts bytes into the mesh; tells whether the victim is there to hear them.
    pub fn broadcasts(&mut self, bytes: Vec<u8>) -> bool {
        let topic = IdentTopic::new(blake3::Hash::from(agreement()).to_string());
        self.swarm
            .behaviour_mut()
            .mesh
            .publish(topic, bytes)
            .is_ok()
    }

    /// Lets what it has begun go on for a while, or until it is thrown out; tells whether it
    /// was.
    pub async fn waits(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while let Ok(event) = timeout_at(until, self.swarm.select_next_some()).await {
            if matches!(event, SwarmEvent::ConnectionClosed { .. }) {
                return true;
            }
        }
        false
    }

    /// Begins frames that it never ends.
    pub fn begins(&mut self, frames: usize) {
        let behaviour = &mut self.swarm.behaviour_mut().frames;
        for _ in 0..frames {
            let bytes = Frame::Records(vec![vec![0; 6_000]; 2]).bytes()[..6_000].to_vec();
            let words = Words {
                bytes,
                has_end: false,
            };
            behaviour.send_request(&self.victim, words);
        }
    }

    pub fn seal(&mut self, errand: Errand, to: Option<PeerId>, body: &[u8]) -> Vec<u8> {
        let now = self.clock.now();
        self.sealer
            .seal(errand, to, body, now, 60_000)
            .unwrap()
            .1
            .to_vec()
    }

    pub fn hello(&mut self) -> Vec<u8> {
        let wall_ms = self.clock.now().wall_ms;
        self.hello_with(vec![], wall_ms)
    }

    /// A hello that also tells of others, by a clock of its own.
    pub fn hello_with(&mut self, others: Vec<Vec<u8>>, wall_ms: u64) -> Vec<u8> {
        let lease = self.seal(Errand::Lease, None, &lease().encode());
        Frame::Hello {
            version: PROTOCOL_VERSION,
            network: network(),
            wall_ms,
            facts: vec![("kind of overlay".into(), "flat".into())],
            agreement: agreement(),
            is_leaf: false,
            records: [vec![lease], others].concat(),
        }
        .bytes()
    }

    /// Becomes a member by the rules.
    pub async fn join(&mut self) {
        self.connect().await;
        let hello = self.hello();
        let welcome = self.says(hello).await.unwrap();
        assert_eq!(welcome[0], 0, "welcome");
    }
}
