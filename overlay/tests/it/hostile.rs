//! A client that means harm. After each attack the peer is up, its friends are still its
//! members, and the attacker is dropped and remembered.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use peercrawl_overlay::clock::Clock;
use peercrawl_overlay::envelope::{Errand, Sealer};
use peercrawl_overlay::lease::Lease;
use peercrawl_overlay::network::{Kind, NetworkOverlay, Options, start};
use peercrawl_overlay::{Overlay, PeerId, Purpose, identity};
use tokio::time::sleep;

use crate::attacker::{Attacker, Frame, lease, network_tag};
use crate::fleet::{DEADLINE, eventually, options, secret};
use crate::serving::Limited;

/// Runs an attack against a peer with a friend.
pub fn attack(attack: impl AsyncFnOnce(&mut Attacker, &NetworkOverlay)) {
    let victim = start(Kind::Flat, options(1, &[])).unwrap();
    let friend = start(Kind::Flat, options(2, &victim.listening())).unwrap();
    eventually("friends", || {
        victim.members().len() == 2 && friend.members().len() == 2
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let id = runtime.block_on(async {
        let mut attacker = Attacker::new(66, &victim);
        attack(&mut attacker, &victim).await;
        let id = attacker.sealer.author();
        eventually("the attacker is remembered", || {
            victim.offenders().contains(&id)
        });
        // It is not let in again.
        let again = attacker.says(Frame::Records(vec![]).bytes());
        assert_eq!(again.await, None);
        id
    });
    assert_ne!(id, friend.me());
    assert!(!victim.offenders().contains(&friend.me()));
    assert!(
        victim
            .members()
            .iter()
            .any(|member| member.id == friend.me())
    );
    friend
        .send(victim.me(), Purpose::Urls, Arc::new([1, 2, 3]))
        .unwrap();
    eventually("friends still talk", || {
        let events = victim.events();
        events.try_iter().any(|event| {
            matches!(event, peercrawl_overlay::Event::Message { from, bytes, .. }
                if from == friend.me() && bytes[..] == [1, 2, 3])
        })
    });
}

#[test]
fn garbage() {
    attack(async |attacker, _| {
        attacker.connect().await;
        for byte in [0xff, 0xfe, 0x03] {
            assert_eq!(attacker.says(vec![byte; 1_000]).await, None);
        }
    });
}

#[test]
fn truncated_frames() {
    attack(async |attacker, _| {
        attacker.connect().await;
        let hello = attacker.hello();
        for length in [hello.len() - 1, hello.len() / 2, 1] {
            assert_eq!(attacker.says(hello[..length].to_vec()).await, None);
        }
    });
}

#[test]
fn oversized_frames() {
    attack(async |attacker, _| {
        attacker.connect().await;
        for _ in 0..3 {
            let large = Frame::Records(vec![vec![0; 8 << 20]]).bytes();
            assert_eq!(attacker.says(large).await, None);
        }
    });
}

#[test]
fn a_forged_signature() {
    attack(async |attacker, victim| {
        attacker.join().await;
        let mut envelope = attacker.seal(Errand::Send(Purpose::Urls), Some(victim.me()), b"forged");
        // Somebody else's name over the attacker's words.
        let author = envelope[9..41].to_vec();
        envelope[9..41].copy_from_slice(&identity_of(2).0);
        assert_ne!(author, envelope[9..41]);
        let packet = Frame::Packet {
            hops: 3,
            deadline_ms: 0,
            envelope,
        };
        attacker.says(packet.bytes()).await;
    });
}

#[test]
fn a_forged_lease() {
    attack(async |attacker, victim| {
        attacker.join().await;
        let farewell = Lease {
            incarnation: u64::MAX,
            is_farewell: true,
            ..lease()
        };
        let mut envelope = attacker.seal(Errand::Lease, None, &farewell.encode());
        envelope[9..41].copy_from_slice(&identity_of(2).0);
        attacker.says(Frame::Records(vec![envelope]).bytes()).await;
        assert!(
            victim
                .members()
                .iter()
                .any(|member| member.id == identity_of(2))
        );
    });
}

#[test]
fn replays() {
    attack(async |attacker, victim| {
        attacker.join().await;
        let envelope = attacker.seal(Errand::Send(Purpose::Urls), Some(victim.me()), b"again");
        let packet = Frame::Packet {
            hops: 3,
            deadline_ms: 0,
            envelope,
        };
        for _ in 0..30 {
            attacker.says(packet.bytes()).await;
        }
        let events = victim.events();
        let delivered = events.try_iter().filter(|event| {
            matches!(event, peercrawl_overlay::Event::Message { bytes, .. } if bytes[..] == *b"again")
        });
        assert_eq!(delivered.count(), 1);
    });
}

/// What a stranger says is not remembered, or its name would fill the memory: it counts as
/// new once its author is a member.
#[test]
fn the_words_of_strangers_are_forgotten() {
    attack(async |attacker, victim| {
        attacker.join().await;
        let clock = Clock::start();
        let keypair = identity::keypair([77; 32]).unwrap();
        let mut late = Sealer::new(keypair, network_tag(), clock.now()).unwrap();
        let author = late.author();
        let mut seal = |errand, to, body: &[u8]| {
            let sealed = late.seal(errand, to, body, clock.now(), 60_000);
            sealed.unwrap().1.to_vec()
        };
        let packet = Frame::Packet {
            hops: 3,
            deadline_ms: 0,
            envelope: seal(Errand::Send(Purpose::Urls), Some(victim.me()), b"early"),
        };
        attacker.says(packet.bytes()).await;
        let lease = Lease {
            via: vec![attacker.sealer.author()],
            ..lease()
        };
        let lease = seal(Errand::Lease, None, &lease.encode());
        attacker.says(Frame::Records(vec![lease]).bytes()).await;
        eventually("it is a member", || {
            victim.members().iter().any(|member| member.id == author)
        });
        attacker.says(packet.bytes()).await;
        let events = victim.events();
        let heard = events.try_iter().filter(|event| {
            matches!(event, peercrawl_overlay::Event::Message { bytes, .. } if bytes[..] == *b"early")
        });
        assert_eq!(heard.count(), 1);
        for _ in 0..2 {
            assert_eq!(attacker.says(vec![0xff; 1_000]).await, None);
        }
    });
}

/// One that began thirty-two frames stopped the large frames of everybody for a minute.
#[test]
fn frames_that_never_end() {
    attack(async |attacker, victim| {
        attacker.join().await;
        attacker.begins(60);
        let id = attacker.sealer.author();
        let friend = start(Kind::Flat, options(3, &victim.listening())).unwrap();
        eventually("one more friend", || friend.members().len() >= 3);
        let large: Arc<[u8]> = vec![1; 100_000].into();
        let mut has_arrived = false;
        let until = Instant::now() + DEADLINE;
        while !victim.offenders().contains(&id) {
            assert!(Instant::now() < until, "it goes unpunished");
            attacker.waits(Duration::from_millis(20)).await;
            if !has_arrived {
                let _busy = friend.send(victim.me(), Purpose::Urls, large.clone());
            }
            let events = victim.events();
            has_arrived |= events.try_iter().any(|event| {
                matches!(event, peercrawl_overlay::Event::Message { from, .. }
                    if from == friend.me())
            });
        }
        assert!(has_arrived, "the friend had to wait until it was gone");
    });
}

/// What the crawler calls nonsense is blamed on its author, be it a message or a question.
#[test]
fn questions_that_are_nonsense() {
    attack(async |attacker, victim| {
        attacker.join().await;
        let id = attacker.sealer.author();
        for count in 1.. {
            let envelope = attacker.seal(Errand::Ask(Purpose::Urls), Some(victim.me()), b"???");
            let packet = Frame::Packet {
                hops: 3,
                deadline_ms: 10_000,
                envelope,
            };
            let events = victim.events();
            let crawler = tokio::task::spawn_blocking(move || {
                let next = || events.recv_timeout(DEADLINE).unwrap();
                std::iter::repeat_with(next).find_map(|event| match event {
                    peercrawl_overlay::Event::Request { from, replier, .. } => {
                        replier.reject();
                        Some(from)
                    }
                    _ => None,
                })
            });
            let (_, from) = tokio::join!(attacker.says(packet.bytes()), crawler);
            assert_eq!(from.unwrap(), Some(id));
            if victim.offenders().contains(&id) {
                assert!(count > 1, "once is no crime");
                break;
            }
            assert!(count < 10, "it should be an offender by now");
        }
    });
}

#[test]
fn an_offender_is_remembered_after_a_restart() {
    let path = env::temp_dir().join(format!("peercrawl-offenders-{}", process::id()));
    fs::write(&path, b"12 nonsense\n\xff\0").unwrap();
    let victim = || {
        let options = Options {
            offenders: Some(path.clone()),
            ..options(1, &[])
        };
        start(Kind::Flat, options).unwrap()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let first = victim();
        let mut attacker = Attacker::new(67, &first);
        let id = attacker.sealer.author();
        attacker.connect().await;
        for _ in 0..2 {
            assert_eq!(attacker.says(vec![0xff; 100]).await, None);
        }
        eventually("it is an offender", || first.offenders().contains(&id));
        eventually("that is written at once", || {
            fs::read_to_string(&path).is_ok_and(|text| text.contains(&id.to_hex()))
        });
        first.abort();
        let second = victim();
        assert_eq!(second.offenders(), [id]);
        let mut attacker = Attacker::new(67, &second);
        let hello = attacker.hello();
        assert_eq!(attacker.says(hello).await, None);
    });
    fs::remove_file(&path).unwrap();
}

#[test]
fn envelopes_of_another_network() {
    attack(async |attacker, victim| {
        attacker.join().await;
        for _ in 0..3 {
            let mut envelope = attacker.seal(Errand::Send(Purpose::Urls), Some(victim.me()), b"x");
            envelope[..8].copy_from_slice(b"elsewhere"[..8].as_ref());
            let packet = Frame::Packet {
                hops: 3,
                deadline_ms: 0,
                envelope,
            };
            attacker.says(packet.bytes()).await;
        }
    });
}

#[test]
fn many_connections_leave_room_for_friends() {
    let limits = peercrawl_overlay::network::Limits {
        connections: 40,
        ..Default::default()
    };
    let victim = start(
        Kind::Flat,
        peercrawl_overlay::network::Options {
            limits,
            ..options(1, &[])
        },
    )
    .unwrap();
    let friend = start(Kind::Flat, options(2, &victim.listening())).unwrap();
    eventually("friends", || victim.members().len() == 2);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut crowd: Vec<_> = (100..200).map(|n| Attacker::new(n, &victim)).collect();
        let mut refused = 0;
        for attacker in &mut crowd {
            attacker.connect().await;
            // It stays connected and says nothing, or is closed at once.
            refused += u32::from(attacker.waits(Duration::from_millis(50)).await);
        }
        assert!(refused >= 60, "{refused}");
    });
    friends_still_talk(&*victim, &*friend);
}

/// It joins by the rules and from then on leaves everything in its socket. It answers no
/// ping either: it never said that it would. It was closed after twenty seconds, and let in
/// again as often as it came.
#[test]
fn a_reader_that_never_reads() {
    never_reads(|options| options, false);
}

/// If the victim's user had set any limit, that was taken for the cause.
#[test]
fn a_reader_that_never_reads_from_one_with_a_limit() {
    let limited = |options| Options {
        meter: Some(Arc::new(Limited(1 << 20))),
        ..options
    };
    never_reads(limited, false);
}

/// Over QUIC it keeps the connection alive, and takes no more than its windows hold.
#[test]
fn a_reader_that_never_reads_over_quic_from_one_with_a_limit() {
    let limited = |options| Options {
        listen: vec!["/ip4/127.0.0.1/udp/0/quic-v1".into()],
        meter: Some(Arc::new(Limited(1 << 20))),
        ..options
    };
    never_reads(limited, true);
}

/// Something joins the victim again and again, and reads nothing. Its system may go on working
/// for it all the same.
fn never_reads(change: impl Fn(Options) -> Options, is_system_up: bool) {
    let victim = start(Kind::Flat, change(options(1, &[]))).unwrap();
    let friend = start(Kind::Flat, options(2, &victim.listening())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut attacker = Attacker::new(66, &victim);
    let id = attacker.sealer.author();
    let connections = || victim.statistics().direct_connections;
    let dropped = || victim.statistics().messages_dropped;
    let message: Arc<[u8]> = vec![1; 256 << 10].into();
    let mut times = 0;
    while !victim.offenders().contains(&id) {
        times += 1;
        assert!(times <= 4, "it is forgiven each time");
        runtime.block_on(attacker.join());
        eventually("it is a member", || {
            victim.members().iter().any(|member| member.id == id)
        });
        eventually("both are connected", || connections() >= 2);
        // From here on nobody looks at what comes, so after a few frames nobody reads.
        let (before, mut taken) = (dropped(), 0);
        while victim.send(id, Purpose::Urls, message.clone()).is_ok() {
            taken += 1;
            assert!(taken <= 64, "what waits for one peer is bounded");
        }
        eventually("its connection is closed", || {
            if is_system_up {
                runtime.block_on(async {
                    sleep(Duration::from_millis(5)).await;
                });
            }
            connections() == 1
        });
        // The one that was refused is counted, too.
        eventually("what waited for it is given up", || {
            dropped() > before + taken
        });
        let is_thrown_out = runtime.block_on(attacker.waits(DEADLINE));
        assert!(is_thrown_out);
    }
    assert!(times > 1, "once is no crime");
    let again = attacker.says(Frame::Records(vec![]).bytes());
    assert_eq!(runtime.block_on(again), None);
    friends_still_talk(&*victim, &*friend);
}

/// What a friend sends arrives, whatever others have done.
pub fn friends_still_talk(victim: &dyn Overlay, friend: &dyn Overlay) {
    friend
        .send(victim.me(), Purpose::Urls, Arc::new([4]))
        .unwrap();
    eventually("friends still talk", || {
        let events = victim.events();
        let is_friends = |from| from == friend.me();
        events.try_iter().any(|event| {
            matches!(event, peercrawl_overlay::Event::Message { from, .. } if is_friends(from))
        })
    });
}

pub fn identity_of(number: u8) -> PeerId {
    identity::peer_of(&identity::keypair(secret(number)).unwrap()).unwrap()
}
