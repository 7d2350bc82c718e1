//! Members that lie about members: made-up suspicions, made-up peers, a name that is not
//! spoken to any more; and peers that come again and again.

use std::io::copy;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{io, thread};

use libp2p::Multiaddr;
use peercrawl_overlay::envelope::{Envelope, Errand, Sealer};
use peercrawl_overlay::lease::{Lease, Suspicion, Version};
use peercrawl_overlay::membership::Timing;
use peercrawl_overlay::network::{Kind, Limits, NetworkOverlay, Options, PROTOCOL_VERSION, start};
use peercrawl_overlay::{Overlay, PeerId, identity};
use serde::Deserialize;
use tokio::runtime::{Builder, Runtime};

use crate::attacker::{Attacker, Frame, lease, network_tag};
use crate::fleet::{DEADLINE, eventually, network, options};
use crate::hostile::{attack, friends_still_talk};

/// A welcome, as far as it is of interest here.
#[derive(Deserialize)]
enum Answer {
    Welcome {
        has_room: bool,
        records: Vec<Vec<u8>>,
    },
    Refused(String),
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

fn has_member(overlay: &NetworkOverlay, peer: PeerId) -> bool {
    overlay.members().iter().any(|member| member.id == peer)
}

/// Something must not happen: it is looked for as long as it would take.
#[track_caller]
fn always(what: &str, during: Duration, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + during;
    while Instant::now() < until {
        assert!(holds(), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Two friends who would miss each other quickly.
fn hasty_friends() -> (Arc<NetworkOverlay>, Arc<NetworkOverlay>) {
    let hasty = |options| Options {
        timing: Timing {
            refute_ms: 1_500,
            ..Timing::default()
        },
        ..options
    };
    let victim = start(Kind::Flat, hasty(options(1, &[]))).unwrap();
    let friend = start(Kind::Flat, hasty(options(2, &victim.listening()))).unwrap();
    eventually("friends", || {
        victim.members().len() == 2 && friend.members().len() == 2
    });
    (victim, friend)
}

fn suspicion(attacker: &mut Attacker, peer: PeerId, version: Version) -> Vec<u8> {
    let suspicion = Suspicion { peer, version };
    let record = attacker.seal(Errand::Suspicion, None, &suspicion.encode());
    Frame::Records(vec![record]).bytes()
}

/// The records with which the victim answers a hello.
pub async fn greets(attacker: &mut Attacker) -> Vec<Vec<u8>> {
    let hello = attacker.hello();
    let welcome = attacker.says(hello).await.unwrap();
    let Ok(Answer::Welcome { has_room, records }) = postcard::from_bytes(&welcome) else {
        panic!("no welcome");
    };
    assert!(has_room);
    records
}

/// The version of somebody's lease that the victim holds, as one who comes anew is told.
async fn version_of(number: u8, victim: &NetworkOverlay, peer: PeerId) -> Version {
    let mut attacker = Attacker::new(number, victim);
    attacker.connect().await;
    let records = greets(&mut attacker).await;
    let now = attacker.clock.now();
    let leases = records.into_iter().filter_map(|record| {
        let envelope = Envelope::open(record.into(), network_tag(), 8 << 10, now).unwrap();
        let (_, version) = Lease::decode(&envelope)?;
        (envelope.author == peer).then_some(version)
    });
    leases.max().unwrap()
}

#[test]
fn a_made_up_suspicion_costs_its_sender_alone() {
    attack(async |attacker, victim| {
        attacker.join().await;
        let members = victim.members();
        let friend = members.iter().find(|member| member.id != victim.me());
        let friend = friend.unwrap().id;
        let version = Version {
            incarnation: u64::MAX,
            sequence: u64::MAX,
        };
        for _ in 0..5 {
            let made_up = suspicion(attacker, friend, version);
            attacker.says(made_up).await;
        }
    });
}

/// A member may say so of the lease that all hold. The suspected hears it and refutes, even
/// if it has spoken just before.
#[test]
fn a_member_that_is_called_dead_refutes_it() {
    let (victim, friend) = hasty_friends();
    runtime().block_on(async {
        let mut attacker = Attacker::new(66, &victim);
        attacker.join().await;
        for number in 100..104 {
            let held = version_of(number, &victim, friend.me()).await;
            for incarnation in [held.incarnation, held.incarnation + 1, 1] {
                let version = Version {
                    incarnation,
                    ..held
                };
                let lie = suspicion(&mut attacker, friend.me(), version);
                attacker.says(lie).await.unwrap();
            }
            always("it is a member", Duration::from_millis(700), || {
                has_member(&victim, friend.me())
            });
        }
    });
    always("it stays one", Duration::from_millis(2_000), || {
        has_member(&victim, friend.me())
    });
}

/// A hello of a leaf that says no more about itself.
fn hello_of_a_leaf(attacker: &Attacker) -> Vec<u8> {
    let mut agreement = blake3::Hasher::new();
    // A supernode overlay.
    agreement.update(&[1]);
    agreement.update(&PROTOCOL_VERSION.to_be_bytes());
    agreement.update(&(network().len() as u64).to_be_bytes());
    agreement.update(network().as_bytes());
    let hello = Frame::Hello {
        version: PROTOCOL_VERSION,
        network: network(),
        wall_ms: attacker.clock.now().wall_ms,
        facts: vec![("kind of overlay".into(), "supernode".into())],
        agreement: *agreement.finalize().as_bytes(),
        is_leaf: true,
        records: vec![],
    };
    hello.bytes()
}

/// Only those counted whose leases said that they are here, which takes a while.
#[test]
fn a_supernode_takes_thirty_leaves() {
    let supernode = start(Kind::Supernode, options(1, &[])).unwrap();
    runtime().block_on(async {
        let mut leaves = Vec::new();
        // Whoever answers no ping is closed in the end, so a few more may come.
        while leaves.len() < 60 {
            let mut leaf = Attacker::new(100 + leaves.len() as u8, &supernode);
            leaf.connect().await;
            let hello = hello_of_a_leaf(&leaf);
            let answer = leaf.says(hello).await.unwrap();
            let Ok(Answer::Welcome { has_room, .. }) = postcard::from_bytes(&answer) else {
                panic!("it was refused");
            };
            if !has_room {
                break;
            }
            leaves.push(leaf);
        }
        assert!((30..60).contains(&leaves.len()), "{}", leaves.len());
    });
}

/// Leases of peers that do not exist, signed by keys of their own.
fn ghosts(attacker: &Attacker, count: u16, lease: &Lease) -> Vec<Vec<u8>> {
    let now = attacker.clock.now();
    let ghost = |number: u16| {
        let mut secret = [77; 32];
        secret[..2].copy_from_slice(&number.to_be_bytes());
        let keypair = identity::keypair(secret).unwrap();
        let mut sealer = Sealer::new(keypair, network_tag(), now).unwrap();
        let (_, bytes) = sealer
            .seal(Errand::Lease, None, &lease.encode(), now, 60_000)
            .unwrap();
        bytes.to_vec()
    };
    (0..count).map(ghost).collect()
}

#[test]
fn peers_to_whom_no_way_leads_do_not_count() {
    let (victim, friend) = hasty_friends();
    runtime().block_on(async {
        let mut attacker = Attacker::new(66, &victim);
        attacker.connect().await;
        let ghosts = ghosts(&attacker, 500, &lease());
        let now_ms = attacker.clock.now().wall_ms;
        let hello = attacker.hello_with(ghosts, now_ms);
        attacker.says(hello).await.unwrap();
        assert_eq!(victim.members().len(), 3);
    });
    friends_still_talk(&*victim, &*friend);
}

/// A neighbour names no more than some hundreds at once, and those who are not where their
/// leases say are found out.
#[test]
fn peers_that_were_made_up_are_few_and_do_not_last() {
    let (victim, friend) = hasty_friends();
    let nowhere: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
    runtime().block_on(async {
        let mut attacker = Attacker::new(66, &victim);
        attacker.connect().await;
        let lease = Lease {
            addresses: vec![nowhere.to_vec()],
            ..lease()
        };
        let ghosts = ghosts(&attacker, 1_200, &lease);
        let now_ms = attacker.clock.now().wall_ms;
        let hello = attacker.hello_with(ghosts, now_ms);
        attacker.says(hello).await.unwrap();
    });
    // Checking their signatures takes a while, in which a few more may come.
    let most = victim.members().len();
    assert!(most < 1_000, "{most}");
    let ids = [victim.me(), friend.me()];
    for (whose, peer) in [("the victim", &victim), ("the friend", &friend)] {
        let gone = || peer.members().len() <= 3;
        let begun = Instant::now();
        while !gone() && begun.elapsed() < DEADLINE {
            thread::sleep(Duration::from_millis(20));
        }
        let (members, links) = (peer.members().len(), peer.contacts());
        assert!(
            gone(),
            "{whose} still has {members} members and knows {links:?}"
        );
    }
    assert!(ids.iter().all(|&id| has_member(&victim, id)));
    friends_still_talk(&*victim, &*friend);
}

/// Whoever is not spoken to is not heard through others either.
#[test]
fn an_offender_is_no_member_whatever_others_pass_on() {
    let (victim, friend) = hasty_friends();
    runtime().block_on(async {
        let mut to_friend = Attacker::new(66, &friend);
        to_friend.join().await;
        let id = to_friend.sealer.author();
        let says = |attacker: &mut Attacker, word: u8| {
            let lease = Lease {
                via: vec![friend.me()],
                facts: vec![word],
                ..lease()
            };
            let lease = attacker.seal(Errand::Lease, None, &lease.encode());
            Frame::Records(vec![lease]).bytes()
        };
        let first = says(&mut to_friend, 1);
        to_friend.says(first).await.unwrap();
        eventually("both know it", || {
            has_member(&victim, id) && has_member(&friend, id)
        });
        let mut to_victim = Attacker::new(66, &victim);
        to_victim.connect().await;
        for _ in 0..2 {
            assert_eq!(to_victim.says(vec![0xff; 100]).await, None);
        }
        eventually("it is an offender", || victim.offenders().contains(&id));
        eventually("and no member", || !has_member(&victim, id));
        for word in 2..6 {
            let again = says(&mut to_friend, word);
            to_friend.says(again).await.unwrap();
            always("it stays outside", Duration::from_millis(200), || {
                !has_member(&victim, id)
            });
        }
        assert!(has_member(&friend, id), "the friend has nothing against it");
    });
}

#[test]
fn a_clock_that_is_wrong_is_said_to_both() {
    let victim = start(Kind::Flat, options(1, &[])).unwrap();
    runtime().block_on(async {
        let mut attacker = Attacker::new(66, &victim);
        attacker.connect().await;
        let wall_ms = attacker.clock.now().wall_ms + 420_000;
        let hello = attacker.hello_with(vec![], wall_ms);
        let answer = attacker.says(hello).await.unwrap();
        let Ok(Answer::Refused(reason)) = postcard::from_bytes(&answer) else {
            panic!("it was let in");
        };
        let ahead = "clock is 7 minutes ahead of this peer's";
        assert!(reason.starts_with(&format!("your {ahead}")), "{reason}");
        let refusals = victim.refusals();
        assert!(refusals[0].reason.starts_with(&format!("its {ahead}")));
    });
    assert_eq!(victim.members().len(), 1);
}

/// A door before a peer, where those who come are counted.
fn door(to: &NetworkOverlay) -> (String, Arc<AtomicU32>) {
    let address: Multiaddr = to.listening()[0].parse().unwrap();
    let socket = peercrawl_overlay::addresses::tcp_socket(&address).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicU32::new(0));
    let counted = count.clone();
    thread::spawn(move || -> io::Result<()> {
        for guest in listener.incoming() {
            counted.fetch_add(1, Relaxed);
            let (mut guest, mut host) = (guest?, TcpStream::connect(socket)?);
            let (mut back, mut forth) = (host.try_clone()?, guest.try_clone()?);
            thread::spawn(move || {
                let _ended = copy(&mut guest, &mut host);
                host.shutdown(std::net::Shutdown::Both)
            });
            thread::spawn(move || {
                let _ended = copy(&mut back, &mut forth);
                forth.shutdown(std::net::Shutdown::Both)
            });
        }
        Ok(())
    });
    (format!("/ip4/127.0.0.1/tcp/{port}"), count)
}

/// It came back five times a second.
#[test]
fn one_that_is_refused_does_not_come_again_at_once() {
    let one = start(Kind::Flat, options(1, &[])).unwrap();
    let (address, count) = door(&one);
    let other = Options {
        network: "elsewhere".into(),
        ..options(2, &[address])
    };
    let other = start(Kind::Flat, other).unwrap();
    eventually("it is refused", || !other.refusals().is_empty());
    always("it rests", Duration::from_secs(2), || {
        count.load(Relaxed) == 1
    });
}

/// So it did where there was no room, when bootstrap peers need it least.
#[test]
fn one_that_finds_no_room_comes_less_and_less() {
    let limits = Limits {
        connections: 1,
        ..Limits::default()
    };
    let full = Options {
        limits,
        ..options(1, &[])
    };
    let full = start(Kind::Flat, full).unwrap();
    let friend = start(Kind::Flat, options(2, &full.listening())).unwrap();
    eventually("it is full", || friend.members().len() == 2);
    let (address, count) = door(&full);
    let late = start(Kind::Flat, options(3, &[address])).unwrap();
    eventually("it came", || count.load(Relaxed) >= 2);
    // After one second, two, four; a half of that if chance will have it.
    let comes_less = || count.load(Relaxed) <= 5;
    always("it comes less and less", Duration::from_secs(4), comes_less);
    assert_eq!(late.members().len(), 1);
}
