//! What a hostile neighbour puts into the mesh: it goes no further than to the first who
//! reads it, and its sender is dropped and remembered. Whoever passed such a thing on would
//! be dropped in turn, so friends that still talk have not heard of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use peercrawl_overlay::envelope::Errand;
use peercrawl_overlay::lease::Lease;
use peercrawl_overlay::network::{Kind, NetworkOverlay, start};
use peercrawl_overlay::{Event, Overlay, PeerId, Purpose, Verdict};
use tokio::runtime::Builder;

use crate::attacker::{Attacker, Frame, lease};
use crate::fleet::{DEADLINE, eventually, options};
use crate::hostile::{friends_still_talk, identity_of};

const HAND_ON: Errand = Errand::HandOn(Purpose::Urls);
/// How long something takes to get through, more or less.
const SHORT: Duration = Duration::from_millis(50);

/// What has come in, with verdicts that let it travel on.
fn heard(peer: &NetworkOverlay) -> Vec<(PeerId, Arc<[u8]>)> {
    let events = peer.events();
    let messages = events.try_iter().filter_map(|event| match event {
        Event::Message { id, from, bytes } => {
            peer.verdict(id, Verdict::Accept);
            Some((from, bytes))
        }
        _ => None,
    });
    messages.collect()
}

/// A victim, its friend, and an attacker that both know and that is a link of the victim
/// alone: what it broadcasts by the rules comes to the friend by way of the victim.
async fn meet() -> (Arc<NetworkOverlay>, Arc<NetworkOverlay>, Attacker) {
    let victim = start(Kind::Flat, options(1, &[])).unwrap();
    let friend = start(Kind::Flat, options(2, &victim.listening())).unwrap();
    let mut attacker = Attacker::new(66, &victim);
    attacker.join().await;
    let lease = Lease {
        via: vec![victim.me()],
        ..lease()
    };
    let lease = attacker.seal(Errand::Lease, None, &lease.encode());
    let records = Frame::Records(vec![lease]).bytes();
    attacker.says(records).await.unwrap();
    eventually("all know all", || {
        victim.members().len() == 3 && friend.members().len() == 3
    });
    let until = Instant::now() + DEADLINE;
    while heard(&friend).is_empty() {
        assert!(Instant::now() < until, "nothing gets through the mesh");
        let fine = attacker.seal(HAND_ON, None, b"fine");
        attacker.broadcasts(fine);
        attacker.waits(SHORT).await;
        heard(&victim);
    }
    (victim, friend, attacker)
}

/// Forwarded copies were in no purpose, and the figures did not add up to what the sockets say.
#[test]
fn what_the_mesh_passes_on_is_counted() {
    runs(async {
        let (victim, _friend, mut attacker) = meet().await;
        let until = Instant::now() + DEADLINE;
        while victim.statistics().carried.bytes_sent == 0 {
            assert!(Instant::now() < until, "it counts as nothing");
            let fine = attacker.seal(HAND_ON, None, b"fine");
            attacker.broadcasts(fine);
            attacker.waits(SHORT).await;
            heard(&victim);
        }
    });
}

fn runs(test: impl Future<Output = ()>) {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    runtime.block_on(test);
}

/// Broadcasts such things until their sender is an offender; there is a number for each.
fn attack(bad: impl Fn(&mut Attacker, u8) -> Vec<u8>) {
    runs(async {
        let (victim, friend, mut attacker) = meet().await;
        let id = attacker.sealer.author();
        for number in 0.. {
            if victim.offenders().contains(&id) {
                break;
            }
            assert!(number < 10, "it goes unpunished");
            let bad = bad(&mut attacker, number);
            attacker.broadcasts(bad);
            let until = Instant::now() + 4 * SHORT;
            while !victim.offenders().contains(&id) && Instant::now() < until {
                attacker.waits(SHORT).await;
            }
        }
        eventually("it is no member", || victim.members().len() == 2);
        friends_still_talk(&*victim, &*friend);
        friends_still_talk(&*friend, &*victim);
        assert_eq!(friend.offenders(), []);
    });
}

#[test]
fn garbage() {
    attack(|_, number| vec![number; 1_000]);
}

#[test]
fn a_forged_signature() {
    attack(|attacker, _| {
        let mut envelope = attacker.seal(HAND_ON, None, b"forged");
        envelope[9..41].copy_from_slice(&identity_of(2).0);
        envelope
    });
}

#[test]
fn another_network() {
    attack(|attacker, _| {
        let mut envelope = attacker.seal(HAND_ON, None, b"elsewhere");
        envelope[..8].copy_from_slice(b"elsewher");
        envelope
    });
}

/// The mesh itself lets a little more pass than a message may have.
#[test]
fn an_oversized_message() {
    attack(|attacker, _| attacker.seal(HAND_ON, None, &[0; (1 << 20) + 1]));
}

/// What came through the mesh from a neighbour before it was admitted was lost for good: the
/// mesh brings nothing twice.
#[test]
fn a_members_words_are_heard_from_whoever_is_connected_and_go_no_further() {
    runs(async {
        let (victim, friend, mut member) = meet().await;
        let words = member.seal(HAND_ON, None, b"early");
        let mut visitor = Attacker::new(67, &victim);
        visitor.connect().await;
        let until = Instant::now() + DEADLINE;
        let is_early = |(_, bytes): &(PeerId, Arc<[u8]>)| bytes[..] == *b"early";
        while !heard(&victim).iter().any(is_early) {
            assert!(Instant::now() < until, "it is lost");
            // The first time that somebody is there to hear it counts.
            visitor.broadcasts(words.clone());
            visitor.waits(SHORT).await;
        }
        victim
            .send(friend.me(), Purpose::Urls, Arc::new([9]))
            .unwrap();
        let mut all = Vec::new();
        eventually("the friend hears something else", || {
            all.extend(heard(&friend));
            all.iter().any(|(_, bytes)| bytes[..] == [9])
        });
        assert!(!all.iter().any(is_early));
    });
}
