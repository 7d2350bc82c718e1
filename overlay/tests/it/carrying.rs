//! Neighbours that bring what others wrote, or too much of it; and what becomes of packets
//! that come too early.

use std::sync::Arc;
use std::time::{Duration, Instant};

use peercrawl_overlay::clock::Now;
use peercrawl_overlay::envelope::{Errand, Sealer};
use peercrawl_overlay::lease::Lease;
use peercrawl_overlay::network::{Kind, Limits, NetworkOverlay, Options, start};
use peercrawl_overlay::{Event, Overlay, PeerId, Purpose, identity};
use tokio::runtime::{Builder, Runtime};

use crate::attacker::{Attacker, Frame, lease, network_tag};
use crate::fleet::{eventually, options};
use crate::hostile::{attack, identity_of};
use crate::impostors::greets;

const URLS: Errand = Errand::Send(Purpose::Urls);

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

fn packet(envelope: Vec<u8>) -> Vec<u8> {
    Frame::Packet {
        hops: 3,
        deadline_ms: 0,
        envelope,
    }
    .bytes()
}

/// An author whose words others bring.
fn author(now: Now) -> Sealer {
    let keypair = identity::keypair([77; 32]).unwrap();
    Sealer::new(keypair, network_tag(), now).unwrap()
}

/// They took all the room that there is for packets, and came back to nobody.
#[test]
fn packets_to_oneself() {
    attack(async |attacker, _| {
        attacker.join().await;
        let me = attacker.sealer.author();
        for _ in 0..2 {
            let envelope = attacker.seal(URLS, Some(me), b"back to me");
            attacker.says(packet(envelope)).await;
        }
    });
}

/// Only the receiver of a packet blamed whoever sent it again and again, and did not get it.
#[test]
fn packets_for_somebody_else_again_and_again() {
    attack(async |attacker, _| {
        attacker.join().await;
        let envelope = attacker.seal(URLS, Some(identity_of(2)), b"again");
        for _ in 0..30 {
            attacker.says(packet(envelope.clone())).await;
        }
    });
}

/// A question that got no answer in time was dropped without a word. Its asker took that for
/// a link that fails, and closed it with the next packet.
#[test]
fn whoever_asks_in_vain_hears_that() {
    let victim = start(Kind::Flat, options(1, &[])).unwrap();
    runtime().block_on(async {
        let mut attacker = Attacker::new(66, &victim);
        attacker.join().await;
        let errand = Errand::Ask(Purpose::Content);
        let question = Frame::Packet {
            hops: 3,
            deadline_ms: 100,
            envelope: attacker.seal(errand, Some(victim.me()), b"?"),
        };
        // It stays where the crawler would take it from. Three is "busy".
        assert_eq!(attacker.says(question.bytes()).await, Some(vec![3]));
    });
}

/// Joins, and says that the victim leads to it.
async fn joins_behind(attacker: &mut Attacker, carrier: &NetworkOverlay) {
    attacker.join().await;
    let via = Lease {
        via: vec![carrier.me()],
        ..lease()
    };
    let lease = attacker.seal(Errand::Lease, None, &via.encode());
    let records = Frame::Records(vec![lease]).bytes();
    attacker.says(records).await.unwrap();
}

/// A question waited a minute for a receiver that held it, at each hop, whatever its deadline.
const SOON: Duration = Duration::from_secs(20);

/// Its carrier was taken for one that does not read.
#[test]
fn whoever_asks_one_that_holds_questions_hears_from_the_carrier() {
    let carrier = start(Kind::Flat, options(1, &[])).unwrap();
    runtime().block_on(async {
        let [mut asker, mut holder] = [66, 67].map(|number| Attacker::new(number, &carrier));
        asker.join().await;
        joins_behind(&mut holder, &carrier).await;
        let to = Some(holder.sealer.author());
        let question = Frame::Packet {
            hops: 3,
            deadline_ms: 300,
            envelope: asker.seal(Errand::Ask(Purpose::Content), to, b"?"),
        };
        let begun = Instant::now();
        let (heard, _held) = tokio::join!(asker.says(question.bytes()), holder.holds_packet());
        // Three is "busy".
        assert_eq!(heard, Some(vec![3]));
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!(carrier.offenders(), []);
    });
}

/// It kept its place among those that are under way, and there are few.
#[test]
fn a_question_that_is_held_is_under_way_until_its_deadline() {
    let carrier = start(Kind::Flat, options(1, &[])).unwrap();
    let asker = Options {
        listen: vec![],
        limits: Limits {
            under_way: 1,
            ..Limits::default()
        },
        ..options(2, &carrier.listening())
    };
    let asker = start(Kind::Flat, asker).unwrap();
    let runtime = runtime();
    let mut holder = Attacker::new(66, &carrier);
    let id = holder.sealer.author();
    runtime.block_on(joins_behind(&mut holder, &carrier));
    eventually("all know all", || {
        carrier.members().len() == 3 && asker.members().len() == 3
    });
    let deadline = Duration::from_millis(300);
    let ask = || asker.request(id, Purpose::Content, Arc::new([]), deadline);
    let begun = Instant::now();
    let reply = ask().unwrap();
    let _held = runtime.block_on(holder.holds_packet());
    assert_eq!(reply.wait(), None);
    eventually("there is room for another one", || ask().is_ok());
    eventually("the carrier has given it up, too", || {
        carrier.statistics().messages_dropped > 0
    });
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

/// An author that gave two messages one number, or sent them late, made offenders of those
/// who carried them.
#[test]
fn carriers_are_not_blamed_for_what_an_author_did() {
    let victim = start(Kind::Flat, options(1, &[])).unwrap();
    runtime().block_on(async {
        let mut carriers = [66, 67].map(|number| Attacker::new(number, &victim));
        let now = carriers[0].clock.now();
        let [mut lying, mut again] = [author(now), author(now)];
        let id = lying.author();
        for carrier in &mut carriers {
            carrier.join().await;
        }
        let via = Lease {
            via: vec![carriers[0].sealer.author()],
            ..lease()
        };
        let seal = |sealer: &mut Sealer, errand, to: Option<PeerId>, body: &[u8], now| {
            let sealed = sealer.seal(errand, to, body, now, 60_000);
            sealed.unwrap().1.to_vec()
        };
        let record = seal(&mut lying, Errand::Lease, None, &via.encode(), now);
        // Both count from the same number.
        seal(&mut again, Errand::Lease, None, &via.encode(), now);
        let records = Frame::Records(vec![record]).bytes();
        carriers[0].says(records).await.unwrap();
        eventually("it is a member", || {
            victim.members().iter().any(|member| member.id == id)
        });
        let to = Some(victim.me());
        let long_ago = Now {
            wall_ms: now.wall_ms - 300_000,
            ..now
        };
        for _ in 0..30 {
            let first = packet(seal(&mut lying, URLS, to, b"one", now));
            carriers[0].says(first).await.unwrap();
            let second = packet(seal(&mut again, URLS, to, b"two", now));
            carriers[1].says(second).await.unwrap();
        }
        for _ in 0..120 {
            let late = packet(seal(&mut again, URLS, to, b"late", long_ago));
            carriers[1].says(late).await.unwrap();
        }
        assert_eq!(victim.offenders(), []);
        let events = victim.events();
        let heard = events.try_iter().filter_map(|event| match event {
            Event::Message { bytes, .. } => Some(bytes),
            _ => None,
        });
        let heard: Vec<_> = heard.collect();
        assert_eq!(heard.len(), 30);
        assert!(heard.iter().all(|bytes| bytes[..] == *b"one"));
    });
}

/// Who brings its own words too late is to blame for that.
#[test]
fn own_words_that_are_always_late() {
    attack(async |attacker, victim| {
        attacker.join().await;
        let now = attacker.clock.now();
        let long_ago = Now {
            wall_ms: now.wall_ms - 300_000,
            ..now
        };
        for _ in 0..150 {
            let sealed = attacker
                .sealer
                .seal(URLS, Some(victim.me()), b"late", long_ago, 0);
            let envelope = sealed.unwrap().1.to_vec();
            if attacker.says(packet(envelope)).await.is_none() {
                break;
            }
        }
    });
}

/// Nobody says as much at once, and all of it is known.
#[test]
fn frames_of_more_records_than_anybody_sends() {
    attack(async |attacker, _| {
        attacker.join().await;
        for _ in 0..2 {
            let record = attacker.seal(Errand::Lease, None, &lease().encode());
            let records = vec![record; 2_000];
            attacker.says(Frame::Records(records).bytes()).await;
        }
    });
}

/// A signature takes time to check. What is known already is not even looked at, so a lie
/// about it does no harm, not even to the liar.
#[test]
fn what_is_known_is_not_checked_again() {
    let victim = start(Kind::Flat, options(1, &[])).unwrap();
    let friend = start(Kind::Flat, options(2, &victim.listening())).unwrap();
    eventually("friends", || victim.members().len() == 2);
    runtime().block_on(async {
        let mut attacker = Attacker::new(66, &victim);
        attacker.join().await;
        let mut record = attacker.seal(Errand::Lease, None, &lease().encode());
        record[9..41].copy_from_slice(&identity_of(2).0);
        record[73..81].copy_from_slice(&1u64.to_be_bytes());
        let records = Frame::Records(vec![record]).bytes();
        attacker.says(records).await.unwrap();
    });
    assert_eq!(victim.offenders(), []);
    assert!(victim.members().iter().any(|m| m.id == friend.me()));
}

/// Each hello, also a repeated one, brought the whole table.
#[test]
fn whoever_greets_again_hears_of_one_peer_alone() {
    let victim = start(Kind::Flat, options(1, &[])).unwrap();
    let friend = start(Kind::Flat, options(2, &victim.listening())).unwrap();
    eventually("friends", || victim.members().len() == 2);
    runtime().block_on(async {
        let mut attacker = Attacker::new(66, &victim);
        attacker.connect().await;
        assert!(greets(&mut attacker).await.len() >= 2);
        for _ in 0..3 {
            assert_eq!(greets(&mut attacker).await.len(), 1);
        }
    });
    drop(friend);
}

/// A packet may overtake the welcome. It was lost, and what is handed on is sent once.
#[test]
fn a_packet_that_came_too_early_goes_again_after_the_greeting() {
    let victim = start(Kind::Flat, options(1, &[])).unwrap();
    runtime().block_on(async {
        let mut attacker = Attacker::new(66, &victim);
        attacker.join().await;
        let id = attacker.sealer.author();
        victim
            .send(id, Purpose::Urls, b"once more".as_slice().into())
            .unwrap();
        let (mut packets, mut is_greeted) = (Vec::new(), false);
        while packets.len() < 2 {
            let is_early = packets.is_empty();
            let frame = attacker.answers(|frame| match frame[0] {
                // A welcome with room and without records.
                0 => vec![0, 1, 0],
                // There is no link here.
                2 if is_early => vec![5],
                _ => vec![2],
            });
            let frame = frame.await;
            is_greeted |= frame[0] == 0;
            if frame[0] == 2 {
                assert_eq!(is_greeted, !is_early);
                // All but the number of hops that are left.
                packets.push(frame[2..].to_vec());
            }
        }
        assert_eq!(packets[0], packets[1]);
        assert_eq!(victim.statistics().messages_dropped, 0);
    });
}
