//! The same assertions for every overlay.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use peercrawl_overlay::{Event, Member, MessageId, OverlayError, PeerId, Purpose, Role, Verdict};

use crate::fleet::{DEADLINE, Net, Peer, eventually};

macro_rules! for_every_overlay {
    ($($test:ident),* $(,)?) => {
        mod memory { $(#[test] fn $test() { super::$test(crate::fleet::Net::Memory); })* }
        mod flat { $(#[test] fn $test() { super::$test(crate::fleet::Net::Flat); })* }
        mod supernode { $(#[test] fn $test() { super::$test(crate::fleet::Net::Supernode); })* }
    };
}

for_every_overlay![
    all_see_the_same_members_and_their_facts,
    what_is_handed_on_reaches_its_owner,
    what_has_no_owner_reaches_all_others,
    what_is_sent_reaches_its_receiver_alone,
    a_request_brings_its_answer_back,
    a_request_without_an_answer_ends_at_its_deadline,
    a_request_that_is_rejected_ends_at_once,
    a_peer_that_leaves_is_missed_and_sends_no_more,
    a_peer_that_dies_is_missed,
    a_peer_that_left_comes_back,
    only_a_rejected_message_is_held_against_its_author,
    a_full_receiver_makes_drops_that_are_counted,
    a_stranger_gets_nothing,
    both_ends_count_by_purpose,
];

/// It took a restart to change one's mind.
#[test]
fn a_supernode_whose_user_forbids_it_becomes_a_leaf_and_another_one_takes_its_place() {
    let fleet = Net::Supernode.fleet(4);
    let first = &fleet.peers[0];
    let members = || fleet.peers[3].overlay.members();
    let is = |peer: &Peer, role: Role| {
        let members = members();
        members.iter().any(|m| m.id == peer.id() && m.role == role)
    };
    let other = || fleet.peers[1..].iter().find(|&p| is(p, Role::Supernode));
    eventually("two can serve", || {
        is(first, Role::Supernode) && other().is_some()
    });
    let other = other().unwrap();
    first.overlay.allow_supernode(false);
    eventually("it steps back, and says who leads to it", || {
        let members = members();
        let is_it = |m: &&Member| m.id == first.id() && m.role == Role::Leaf;
        members
            .iter()
            .find(is_it)
            .is_some_and(|m| !m.via.is_empty())
    });
    first.overlay.allow_supernode(true);
    other.overlay.allow_supernode(false);
    eventually("it is the other way round", || {
        is(first, Role::Supernode) && is(other, Role::Leaf)
    });
}

fn both_ends_count_by_purpose(net: Net) {
    let fleet = net.fleet(3);
    let (from, to) = (&fleet.peers[1].overlay, &fleet.peers[2].overlay);
    let before = to.statistics();
    from.send(to.me(), Purpose::Handover, vec![1; 5_000].into())
        .unwrap();
    fleet.gets(2, 1, &[1; 5_000]);
    let (sent, received) = (from.statistics(), to.statistics());
    assert!(sent.handover.bytes_sent >= 5_000, "{sent:?}");
    assert!(received.handover.bytes_received >= 5_000, "{received:?}");
    assert_eq!(received.handover.messages_received, 1);
    assert_eq!(received.urls, before.urls);
    assert!(received.bytes_received >= before.bytes_received + 5_000);
    let reply = from.request(to.me(), Purpose::Content, Arc::new([1]), DEADLINE);
    let events = to.events();
    while let Ok(event) = events.recv_timeout(DEADLINE) {
        if let Event::Request { replier, .. } = event {
            replier.answer(vec![2; 300]);
            break;
        }
    }
    assert_eq!(reply.unwrap().wait(), Some(vec![2; 300]));
    assert!(from.statistics().content.bytes_received >= 300);
    assert!(to.statistics().content.bytes_sent >= 300);
}

fn all_see_the_same_members_and_their_facts(net: Net) {
    let fleet = net.fleet(6);
    for (number, peer) in fleet.peers.iter().enumerate() {
        peer.overlay.announce(Arc::new([number as u8, 7]));
    }
    eventually("all know all facts", || {
        fleet.peers.iter().all(|peer| {
            let members = peer.overlay.members();
            fleet.peers.iter().enumerate().all(|(number, other)| {
                let mut with_facts = members.iter().filter(|m| m.facts[..] == [number as u8, 7]);
                with_facts.any(|member| member.id == other.id())
            })
        })
    });
    eventually("members are told", || {
        let events = fleet.peers[5].overlay.events();
        events
            .try_iter()
            .any(|event| matches!(event, Event::Members(m) if m.len() == 6))
    });
}

fn what_is_handed_on_reaches_its_owner(net: Net) {
    let fleet = net.fleet(5);
    for owner in 0..5 {
        let sender = (owner + 3) % 5;
        let bytes = vec![owner as u8; 10_000];
        let overlay = &fleet.peers[sender].overlay;
        // Handing on gives no receipt: a mesh that is still forming may lose it.
        eventually("the owner gets it", || {
            let id = fleet.peers[owner].id();
            overlay
                .hand_on(1, Some(id), Purpose::Urls, bytes.clone().into())
                .unwrap();
            let until = Instant::now() + Duration::from_millis(500);
            while Instant::now() < until {
                match fleet.peers[owner].next_message() {
                    Some((from, got)) if got == bytes => return from == overlay.me(),
                    _ => thread::yield_now(),
                }
            }
            false
        });
    }
}

fn what_has_no_owner_reaches_all_others(net: Net) {
    let fleet = net.fleet(6);
    for sender in [0, 5] {
        let mut missing: Vec<_> = (0..6).filter(|&peer| peer != sender).collect();
        eventually("all others get it", || {
            let overlay = &fleet.peers[sender].overlay;
            overlay
                .hand_on(1, None, Purpose::Urls, Arc::new([sender as u8, 9]))
                .unwrap();
            let until = Instant::now() + Duration::from_millis(500);
            while Instant::now() < until && !missing.is_empty() {
                missing.retain(|&peer| {
                    let message = fleet.peers[peer].next_message();
                    message.is_none_or(|(from, bytes)| {
                        from != overlay.me() || bytes != [sender as u8, 9]
                    })
                });
                thread::yield_now();
            }
            missing.is_empty()
        });
        let own = fleet.peers[sender].next_message();
        assert!(own.is_none_or(|(from, _)| from != fleet.peers[sender].id()));
    }
}

fn what_is_sent_reaches_its_receiver_alone(net: Net) {
    let fleet = net.fleet(5);
    for (from, to) in [(0, 1), (1, 0), (4, 3), (3, 4), (2, 4)] {
        let overlay = &fleet.peers[from].overlay;
        overlay
            .send(fleet.peers[to].id(), Purpose::Urls, Arc::new([from as u8]))
            .unwrap();
        fleet.gets(to, from, &[from as u8]);
    }
    let large = vec![5; 1 << 20];
    fleet.peers[4]
        .overlay
        .send(fleet.peers[3].id(), Purpose::Urls, large.clone().into())
        .unwrap();
    fleet.gets(3, 4, &large);
    assert!(fleet.peers.iter().all(|peer| peer.next_message().is_none()));
}

fn a_request_brings_its_answer_back(net: Net) {
    let fleet = net.fleet(5);
    for (from, to) in [(0, 4), (4, 0), (3, 4), (4, 3)] {
        let reply = fleet.peers[from]
            .overlay
            .request(
                fleet.peers[to].id(),
                Purpose::Content,
                Arc::new([1, 2]),
                DEADLINE,
            )
            .unwrap();
        let events = fleet.peers[to].overlay.events();
        let answerer = thread::spawn(move || {
            while let Ok(event) = events.recv_timeout(DEADLINE) {
                if let Event::Request {
                    from,
                    bytes,
                    replier,
                } = event
                {
                    assert_eq!(bytes[..], [1, 2]);
                    replier.answer([&bytes[..], &[3]].concat());
                    return Some(from);
                }
            }
            None
        });
        assert_eq!(reply.wait(), Some(vec![1, 2, 3]), "{from} to {to}");
        assert_eq!(answerer.join().unwrap(), Some(fleet.peers[from].id()));
    }
}

fn a_request_without_an_answer_ends_at_its_deadline(net: Net) {
    let fleet = net.fleet(4);
    let begun = Instant::now();
    let deadline = Duration::from_millis(300);
    let reply = fleet.peers[2]
        .overlay
        .request(
            fleet.peers[3].id(),
            Purpose::Content,
            Arc::new([]),
            deadline,
        )
        .unwrap();
    assert_eq!(reply.wait(), None);
    assert!(begun.elapsed() >= deadline);
    assert!(begun.elapsed() < DEADLINE);
}

fn a_request_that_is_rejected_ends_at_once(net: Net) {
    let fleet = net.fleet(4);
    let begun = Instant::now();
    let reply = fleet.peers[2]
        .overlay
        .request(
            fleet.peers[3].id(),
            Purpose::Content,
            Arc::new([]),
            DEADLINE,
        )
        .unwrap();
    let events = fleet.peers[3].overlay.events();
    while let Ok(event) = events.recv_timeout(DEADLINE) {
        if let Event::Request { replier, .. } = event {
            replier.reject();
            break;
        }
    }
    assert_eq!(reply.wait(), None);
    assert!(begun.elapsed() < DEADLINE / 2, "{:?}", begun.elapsed());
}

fn a_peer_that_leaves_is_missed_and_sends_no_more(net: Net) {
    let mut fleet = net.fleet(5);
    for leaver in [4, 0] {
        let begun = Instant::now();
        let peer = fleet.peers.remove(leaver);
        peer.overlay.leave();
        fleet.agree();
        // It said so: nobody had to find out.
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
        let nobody = fleet.peers[0]
            .overlay
            .send(peer.id(), Purpose::Urls, Arc::new([]));
        assert_eq!(nobody, Err(OverlayError::Unknown(peer.id())));
        let late = peer.overlay.hand_on(0, None, Purpose::Urls, Arc::new([]));
        assert_eq!(late, Err(OverlayError::Left));
        let to = fleet.peers[0].id();
        let late = peer.overlay.send(to, Purpose::Urls, Arc::new([]));
        assert_eq!(late, Err(OverlayError::Left));
        let request = peer
            .overlay
            .request(to, Purpose::Content, Arc::new([]), DEADLINE);
        assert_eq!(request.map(drop), Err(OverlayError::Left));
    }
}

fn a_peer_that_dies_is_missed(net: Net) {
    let mut fleet = net.fleet(6);
    for victim in [5, 0] {
        fleet.peers.remove(victim).crash();
        fleet.agree();
    }
    // The others still work together.
    let to = fleet.peers[0].id();
    eventually("a message arrives", || {
        let _again = fleet.peers[3]
            .overlay
            .send(to, Purpose::Urls, Arc::new([8]));
        let until = Instant::now() + Duration::from_millis(200);
        while Instant::now() < until {
            if let Some((_, bytes)) = fleet.peers[0].next_message() {
                return bytes == [8];
            }
        }
        false
    });
}

fn a_peer_that_left_comes_back(net: Net) {
    let mut fleet = net.fleet(4);
    let mut peer = fleet.peers.remove(3);
    let id = peer.id();
    peer.overlay.announce(Arc::new([6]));
    peer.overlay.leave();
    fleet.agree();
    let bootstrap = fleet.peers[0].overlay.listening();
    peer.comes_back(net, 4, &bootstrap);
    assert_eq!(peer.id(), id);
    fleet.peers.push(peer);
    fleet.agree();
    let says = |facts: &[u8]| {
        let is_it = |m: &Member| m.id == id && m.facts[..] == *facts;
        let mut peers = fleet.peers.iter();
        peers.all(|peer| peer.overlay.members().iter().any(is_it))
    };
    eventually("what it said before is over", || says(&[]));
    fleet.peers[3].overlay.announce(Arc::new([7]));
    eventually("what it says now is heard", || says(&[7]));
    for (from, to) in [(0, 3), (3, 0), (2, 3)] {
        let (sender, to_id) = (&fleet.peers[from].overlay, fleet.peers[to].id());
        let bytes = [from as u8];
        sender.send(to_id, Purpose::Urls, Arc::new(bytes)).unwrap();
        fleet.gets(to, from, &bytes);
    }
}

fn only_a_rejected_message_is_held_against_its_author(net: Net) {
    let fleet = net.fleet(3);
    let (author, judge) = (&fleet.peers[1], &fleet.peers[2]);
    let send = || {
        author
            .overlay
            .send(judge.id(), Purpose::Urls, Arc::new([5]))
    };
    // Judges what has come; tells how many that were.
    let judged = |verdict| {
        let events = judge.overlay.events();
        let of_author = events.try_iter().filter_map(|event| match event {
            Event::Message { id, from, .. } if from == author.id() => Some(id),
            _ => None,
        });
        of_author
            .map(|id| judge.overlay.verdict(id, verdict))
            .count()
    };
    let is_member = || {
        let members = judge.overlay.members();
        members.iter().any(|member| member.id == author.id())
    };
    // Nothing has this name.
    judge.overlay.verdict(MessageId(u64::MAX), Verdict::Reject);
    for verdict in [Verdict::Ignore, Verdict::Accept] {
        for _ in 0..10 {
            send().unwrap();
            eventually("it arrives", || judged(verdict) == 1);
        }
    }
    assert!(is_member() && judge.offenders().is_empty());
    let mut rejected = 0;
    // Nobody is blamed inside one process; elsewhere its author is no member soon.
    eventually("messages are rejected", || {
        let _busy = send();
        rejected += judged(Verdict::Reject);
        match net {
            Net::Memory => rejected >= 10,
            Net::Flat | Net::Supernode => !is_member(),
        }
    });
    assert!(rejected >= 5, "{rejected}");
    let is_blamed = judge.offenders().contains(&author.id());
    assert_eq!(
        (is_blamed, is_member()),
        match net {
            Net::Memory => (false, true),
            Net::Flat | Net::Supernode => (true, false),
        }
    );
}

fn a_full_receiver_makes_drops_that_are_counted(net: Net) {
    let fleet = net.fleet(4);
    let (from, to) = (&fleet.peers[2].overlay, &fleet.peers[3]);
    let before = from.statistics().messages_dropped + to.overlay.statistics().messages_dropped;
    let mut refused = 0;
    eventually("something is dropped", || {
        for _ in 0..500 {
            refused += u64::from(from.send(to.id(), Purpose::Urls, Arc::new([1])).is_err());
        }
        let dropped = from.statistics().messages_dropped + to.overlay.statistics().messages_dropped;
        dropped > before && refused > 0
    });
    assert!(from.statistics().messages_sent > 0);
    // It recovers.
    eventually("messages arrive again", || {
        while to.next_message().is_some() {}
        from.send(to.id(), Purpose::Urls, Arc::new([2])).is_ok()
    });
}

fn a_stranger_gets_nothing(net: Net) {
    let fleet = net.fleet(2);
    let stranger = PeerId::repeat(200);
    let overlay = &fleet.peers[0].overlay;
    let unknown = Err(OverlayError::Unknown(stranger));
    assert_eq!(overlay.send(stranger, Purpose::Urls, Arc::new([])), unknown);
    let request = overlay.request(stranger, Purpose::Content, Arc::new([]), DEADLINE);
    assert_eq!(request.map(drop), unknown);
}
