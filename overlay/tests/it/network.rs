//! What only networked overlays have: refusals, roles, a host cache, QUIC.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use peercrawl_overlay::handshake::Fact;
use peercrawl_overlay::network::{Kind, NetworkOverlay, Options, StartError, start};
use peercrawl_overlay::{Contact, Event, Overlay, Purpose, Role, Verdict};

use crate::fleet::{DEADLINE, Net, eventually, options};

#[test]
fn a_peer_of_another_network_is_refused_with_the_reason() {
    for kind in [Kind::Flat, Kind::Supernode] {
        let one = start(kind, options(1, &[])).unwrap();
        let other = Options {
            network: "elsewhere".into(),
            ..options(2, &one.listening())
        };
        let other = start(kind, other).unwrap();
        let says_why = |overlay: &dyn Overlay| {
            let refusals = overlay.refusals();
            refusals
                .iter()
                .any(|refusal| refusal.reason.contains("elsewhere"))
        };
        eventually("both say why", || says_why(&*one) && says_why(&*other));
        assert_eq!((one.members().len(), other.members().len()), (1, 1));
    }
}

#[test]
fn a_peer_with_other_rules_is_refused_with_the_reason() {
    let with = |number, bootstrap: &[String], distribution: &str| Options {
        agreement: vec![Fact::new("distribution", distribution)],
        ..options(number, bootstrap)
    };
    let one = start(Kind::Flat, with(1, &[], "rendezvous")).unwrap();
    let at = one.listening();
    let other = start(Kind::Flat, with(2, &at, "static")).unwrap();
    let supernode = start(Kind::Supernode, with(3, &at, "rendezvous")).unwrap();
    let says = |overlay: &dyn Overlay, what: &str| {
        let refusals = overlay.refusals();
        refusals.iter().any(|refusal| refusal.reason.contains(what))
    };
    eventually("all say what differs", || {
        let kind = "kind of overlay is \"supernode\", this peer's \"flat\"";
        let distribution = "distribution is \"static\", this peer's \"rendezvous\"";
        says(&*one, &format!("its {kind}"))
            && says(&*supernode, &format!("your {kind}"))
            && says(&*one, &format!("its {distribution}"))
            && says(&*other, &format!("your {distribution}"))
    });
    assert_eq!(one.members().len(), 1);
}

#[test]
fn a_port_that_is_taken_is_an_error_in_one_sentence() {
    let one = start(Kind::Flat, options(1, &[])).unwrap();
    let taken = one.listening()[0].split("/p2p/").next().unwrap().to_owned();
    let second = Options {
        listen: vec![taken.clone()],
        ..options(2, &[])
    };
    let error = start(Kind::Flat, second).map(drop).unwrap_err();
    assert!(matches!(error, StartError::CannotListen { .. }));
    let text = error.to_string();
    assert!(text.contains(&taken) && text.contains("in use"), "{text}");
    let nonsense = Options {
        listen: vec!["localhost:80".into()],
        ..options(2, &[])
    };
    let error = start(Kind::Flat, nonsense).map(drop).unwrap_err();
    assert!(matches!(error, StartError::BadAddress { .. }), "{error}");
}

#[test]
fn peers_find_each_other_over_quic() {
    let fleet = Net::Flat.fleet_with(3, |options| Options {
        listen: vec!["/ip4/127.0.0.1/udp/0/quic-v1".into()],
        ..options
    });
    fleet.peers[0]
        .overlay
        .send(fleet.peers[2].id(), Purpose::Urls, Arc::new([1]))
        .unwrap();
    fleet.gets(2, 0, &[1]);
}

#[test]
fn what_is_said_to_each_peer_is_counted_and_how_fast_it_answers_is_known() {
    for listen in ["/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"] {
        let on = |seed, bootstrap: &[String]| Options {
            listen: vec![listen.into()],
            ..options(seed, bootstrap)
        };
        let one = start(Kind::Flat, on(1, &[])).unwrap();
        let two = start(Kind::Flat, on(2, &one.listening())).unwrap();
        let known = |of: &NetworkOverlay, peer| {
            let contacts = of.contacts();
            contacts.into_iter().find(|contact| contact.peer == peer)
        };
        let answers = |of, peer| known(of, peer).is_some_and(|known| known.round_trip.is_some());
        eventually("each has answered the other", || {
            one.members().len() + two.members().len() == 4
                && answers(&one, two.me())
                && answers(&two, one.me())
        });
        let before = known(&one, two.me()).unwrap();
        assert!(before.round_trip.unwrap() < Duration::from_secs(5));
        assert!(before.address.starts_with("/ip4/127.0.0.1/"), "{before:?}");
        let bytes: Arc<[u8]> = vec![7; 10_000].into();
        one.send(two.me(), Purpose::Urls, bytes).unwrap();
        let has_come =
            |event: &Event| matches!(event, Event::Message { bytes, .. } if bytes.len() == 10_000);
        let events = two.events();
        while !has_come(&events.recv_timeout(Duration::from_secs(20)).unwrap()) {}
        let after = known(&one, two.me()).unwrap();
        let theirs = known(&two, one.me()).unwrap();
        assert!(after.bytes_sent >= before.bytes_sent + 10_000, "{after:?}");
        assert!(theirs.bytes_received >= 10_000, "{theirs:?}");
        // What is said is counted once: a few hundred bytes of membership come on top.
        assert!(after.bytes_sent < before.bytes_sent + 15_000, "{after:?}");
        two.leave();
        eventually("the other is gone", || !answers(&one, two.me()));
        let gone = known(&one, two.me()).unwrap();
        assert!(gone.bytes_sent >= after.bytes_sent, "{gone:?}");
    }
}

#[test]
fn a_host_cache_leads_back_into_the_network() {
    let path = env::temp_dir().join(format!("peercrawl-hosts-{}", process::id()));
    let one = start(Kind::Flat, options(1, &[])).unwrap();
    let with_cache = |bootstrap: &[String]| Options {
        host_cache: Some(path.clone()),
        ..options(2, bootstrap)
    };
    let two = start(Kind::Flat, with_cache(&one.listening())).unwrap();
    eventually("both see both", || {
        one.members().len() + two.members().len() == 4
    });
    drop(two);
    eventually("it has left", || one.members().len() == 1);
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"\xff\xfe\0 7 nowhere\n12\n").unwrap();
    let again = start(Kind::Flat, with_cache(&[])).unwrap();
    eventually("it is back", || again.members().len() == 2);
    fs::remove_file(&path).unwrap();
}

/// Two networks that had lost each other stayed apart unless one had a bootstrap list that led
/// to the other.
#[test]
fn a_host_cache_leads_from_one_network_to_another() {
    let path = env::temp_dir().join(format!("peercrawl-islands-{}", process::id()));
    let before = start(Kind::Flat, options(3, &[])).unwrap();
    let address = before.listening()[0].clone();
    drop(before);
    fs::write(&path, format!("1 {address}\n")).unwrap();
    let two = start(Kind::Flat, options(2, &[])).unwrap();
    let one = Options {
        host_cache: Some(path.clone()),
        ..options(1, &two.listening())
    };
    let one = start(Kind::Flat, one).unwrap();
    let see = |pair: [&NetworkOverlay; 2], count| {
        let mut pair = pair.iter();
        pair.all(|overlay| overlay.members().len() == count)
    };
    eventually("one network", || see([&one, &two], 2));
    // Nobody was there when it looked.
    let three = Options {
        listen: vec![address.split("/p2p/").next().unwrap().to_owned()],
        ..options(3, &[])
    };
    let three = start(Kind::Flat, three).unwrap();
    let four = start(Kind::Flat, options(4, &three.listening())).unwrap();
    eventually("all see all", || {
        see([&one, &two], 4) && see([&three, &four], 4)
    });
    drop(one);
    fs::remove_file(&path).unwrap();
}

/// Each time that such an address was tried, there was one connection more.
#[test]
fn addresses_without_a_name_cost_one_connection() {
    let one = Options {
        listen: vec![
            "/ip4/127.0.0.1/tcp/0".into(),
            "/ip4/127.0.0.1/udp/0/quic-v1".into(),
        ],
        ..options(1, &[])
    };
    let one = start(Kind::Flat, one).unwrap();
    let without_name = |address: &String| address.split("/p2p/").next().unwrap().to_owned();
    let mut unnamed: Vec<_> = one.listening().iter().map(without_name).collect();
    let two = start(Kind::Flat, options(2, &unnamed)).unwrap();
    eventually("both see both", || two.members().len() == 2);
    // All are tried again, and somebody else last of all.
    let three = start(Kind::Flat, options(3, &[])).unwrap();
    unnamed.extend(three.listening());
    assert!(two.seek_at(&unnamed));
    eventually("all see all", || two.members().len() == 3);
    eventually("there is one connection with each", || {
        two.statistics().direct_connections == 2
    });
}

#[test]
fn sixteen_peers_elect_three_supernodes_and_the_user_can_forbid_it() {
    let fleet = Net::Supernode.fleet_with(16, |options| Options {
        allow_supernode: options.secret[0] % 2 == 1,
        ..options
    });
    let overlay = &fleet.peers[7].overlay;
    eventually("there are three", || {
        let members = overlay.members();
        members.iter().filter(|m| m.role == Role::Supernode).count() >= 3
    });
    for (number, peer) in (1..).zip(&fleet.peers) {
        let members = overlay.members();
        let member = members
            .iter()
            .find(|member| member.id == peer.id())
            .unwrap();
        assert!(
            number % 2 == 1 || member.role == Role::Leaf,
            "peer {number}"
        );
    }
    for (from, to) in [(15, 1), (1, 15), (3, 13), (0, 9)] {
        let overlay = &fleet.peers[from].overlay;
        overlay
            .send(fleet.peers[to].id(), Purpose::Urls, Arc::new([from as u8]))
            .unwrap();
        fleet.gets(to, from, &[from as u8]);
    }
}

#[test]
fn leaves_find_another_supernode_within_ten_seconds() {
    let mut fleet = Net::Supernode.fleet(8);
    let count = |role| {
        let members = fleet.peers[7].overlay.members();
        members.iter().filter(|member| member.role == role).count()
    };
    eventually("there are three supernodes", || count(Role::Supernode) >= 3);
    // The first peer is a supernode: it was alone.
    fleet.peers.remove(0).crash();
    let begun = Instant::now();
    let last = fleet.peers.len() - 1;
    for from in 0..last {
        let overlay = &fleet.peers[from].overlay;
        eventually("messages pass", || {
            let _again = overlay.send(
                fleet.peers[last].id(),
                Purpose::Urls,
                Arc::new([from as u8]),
            );
            let until = Instant::now() + Duration::from_millis(100);
            while Instant::now() < until {
                if fleet.peers[last].next_message() == Some((overlay.me(), vec![from as u8])) {
                    return true;
                }
            }
            false
        });
    }
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}

/// A leaf called a supernode that it had let go of at once, to see whether it lived, and let go
/// of it again: for ever, with all leases told each time.
#[test]
fn a_leaf_that_lets_go_of_a_supernode_does_not_call_it_again() {
    // Each is alone at first, and so a supernode.
    let alone = (1..=5).map(|number| start(Kind::Supernode, options(number, &[])).unwrap());
    let supernodes: Vec<_> = alone.collect();
    eventually("all are supernodes", || {
        let is_one = |peer: &Arc<NetworkOverlay>| peer.members()[0].role == Role::Supernode;
        supernodes.iter().all(is_one)
    });
    for peer in &supernodes[1..] {
        assert!(peer.seek_at(&supernodes[0].listening()));
    }
    eventually("they are one network", || {
        supernodes.iter().all(|peer| peer.members().len() == 5)
    });
    let known: Vec<_> = supernodes
        .iter()
        .flat_map(|peer| peer.listening())
        .collect();
    let leaf = Options {
        allow_supernode: false,
        ..options(6, &known)
    };
    let leaf = start(Kind::Supernode, leaf).unwrap();
    // Those that it has met, beside the three that lead to it.
    let others = || {
        let members = leaf.members();
        let me = members
            .iter()
            .find(|member| member.id == leaf.me())
            .unwrap();
        let mut contacts = leaf.contacts();
        contacts.retain(|contact| !me.via.contains(&contact.peer));
        (me.via.len() == 3 && contacts.len() == 2).then_some(contacts)
    };
    let are_linked = |linked: bool| {
        let is_so = |other: &Contact| other.round_trip.is_some() == linked;
        others().is_some_and(|others| others.iter().all(is_so))
    };
    eventually("it has two too many", || are_linked(true));
    eventually("it has let go of them", || are_linked(false));
    let said = || others().map(|others| others.iter().map(|other| other.bytes_sent).sum::<u64>());
    let (before, until) = (said(), Instant::now() + Duration::from_secs(4));
    while Instant::now() < until {
        assert_eq!(said(), before, "it calls them again");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn one_that_finds_nobody_is_alone_and_goes_on_trying() {
    let nowhere = options(1, &[]);
    let first = start(Kind::Flat, nowhere).unwrap();
    let address = first.listening();
    let port = address[0].clone();
    drop(first);
    let lonely = start(Kind::Flat, options(2, &address)).unwrap();
    assert_eq!(lonely.members().len(), 1);
    let listen = port.split("/p2p/").next().unwrap().to_owned();
    let late = Options {
        listen: vec![listen],
        ..options(1, &[])
    };
    let late = start(Kind::Flat, late).unwrap();
    eventually("both see both", || {
        let ids = [&late, &lonely].map(|peer| {
            let members = peer.members();
            members.iter().map(|member| member.id).collect::<Vec<_>>()
        });
        ids[0].len() == 2 && ids[0] == ids[1]
    });
}

#[test]
fn two_that_cannot_reach_each_other_talk_through_a_third() {
    for net in [Net::Flat, Net::Supernode] {
        // Whoever listens nowhere cannot be dialled, as behind a home router.
        let fleet = net.fleet_with(3, |options| Options {
            listen: match options.secret[0] {
                1 => options.listen,
                _ => vec![],
            },
            ..options
        });
        for (from, to) in [(1, 2), (2, 1)] {
            let (sender, receiver) = (&fleet.peers[from], &fleet.peers[to]);
            sender
                .overlay
                .send(receiver.id(), Purpose::Urls, Arc::new([from as u8]))
                .unwrap();
            fleet.gets(to, from, &[from as u8]);
            let reply =
                sender
                    .overlay
                    .request(receiver.id(), Purpose::Content, Arc::new([]), DEADLINE);
            eventually("it is asked", || {
                let events = receiver.overlay.events();
                events.try_iter().any(|event| match event {
                    Event::Request { replier, .. } => {
                        replier.answer(vec![7]);
                        true
                    }
                    _ => false,
                })
            });
            assert_eq!(reply.unwrap().wait(), Some(vec![7]));
        }
        let carried = fleet.peers[0].overlay.statistics().carried;
        assert!(carried.messages_sent >= 4, "{carried:?}");
    }
}

/// A mesh takes a second or two to form. What was handed on before was lost once.
#[test]
fn what_is_handed_on_at_once_needs_no_mesh() {
    let fleet = Net::Flat.fleet(6);
    for owner in 1..6 {
        let sender = &fleet.peers[owner - 1].overlay;
        let (id, bytes) = (fleet.peers[owner].id(), Arc::new([owner as u8, 8]));
        sender.hand_on(1, Some(id), Purpose::Urls, bytes).unwrap();
    }
    let mut missing: Vec<_> = (1..6).collect();
    eventually("each owner gets it, although it is sent once", || {
        // Whoever is on the way judges, and lets it pass.
        let messages: Vec<_> = fleet.peers.iter().map(|peer| peer.next_message()).collect();
        missing.retain(|&owner| {
            let expected = (fleet.peers[owner - 1].id(), vec![owner as u8, 8]);
            messages[owner].as_ref() != Some(&expected)
        });
        missing.is_empty()
    });
}

/// What a message is about is counted at both ends, and on the way as carried.
#[test]
fn bytes_are_counted_by_purpose() {
    let fleet = Net::Flat.fleet(2);
    let (from, to) = (&fleet.peers[0], &fleet.peers[1]);
    for (purpose, size) in Purpose::ALL.into_iter().zip([1_000, 2_000, 4_000]) {
        let bytes = vec![size as u8; size];
        from.overlay
            .send(to.id(), purpose, bytes.clone().into())
            .unwrap();
        fleet.gets(1, 0, &bytes);
    }
    let (sent, received) = (from.overlay.statistics(), to.overlay.statistics());
    for (sent, received, size) in [
        (sent.urls, received.urls, 1_000),
        (sent.content, received.content, 2_000),
        (sent.handover, received.handover, 4_000),
    ] {
        assert_eq!(sent.bytes_sent, received.bytes_received);
        assert!((size..size + 500).contains(&sent.bytes_sent), "{sent:?}");
    }
    assert!(sent.membership.bytes_sent > 0);
    let by_purpose = sent.membership.bytes_sent + 7_000;
    assert!(sent.socket_bytes_sent > by_purpose, "{sent:?}");
}

#[test]
fn a_broadcast_passes_between_peers_that_are_no_neighbours() {
    // Two ends that only the one in the middle has links to.
    let fleet = Net::Flat.fleet_with(3, |options| Options {
        listen: match options.secret[0] {
            1 => options.listen,
            _ => vec![],
        },
        ..options
    });
    eventually("the far end hears it", || {
        let sender = &fleet.peers[1].overlay;
        sender
            .hand_on(1, None, Purpose::Urls, Arc::new([3, 3]))
            .unwrap();
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            // The one in the middle judges; its verdict lets the message pass.
            fleet.peers[0].next_message();
            if fleet.peers[2].next_message() == Some((sender.me(), vec![3, 3])) {
                return true;
            }
        }
        false
    });
}

#[test]
fn what_the_crawler_rejects_travels_no_further_and_its_author_is_blamed() {
    let fleet = Net::Flat.fleet_with(3, |options| Options {
        listen: match options.secret[0] {
            1 => options.listen,
            _ => vec![],
        },
        ..options
    });
    let (judge, author) = (&fleet.peers[0], &fleet.peers[1]);
    let mut rejected = 0;
    eventually("the author is an offender", || {
        let _busy = author
            .overlay
            .hand_on(1, None, Purpose::Urls, Arc::new([rejected as u8]));
        let until = Instant::now() + Duration::from_millis(20);
        while Instant::now() < until {
            if let Ok(Event::Message { id, .. }) = judge.overlay.events().try_recv() {
                judge.overlay.verdict(id, Verdict::Reject);
                rejected += 1;
            }
        }
        judge.offenders().contains(&author.id())
    });
    assert!(rejected >= 5, "{rejected}");
    assert_eq!(fleet.peers[2].next_message(), None);
}

#[test]
fn a_bootstrap_address_may_be_a_name() {
    let one = start(Kind::Flat, options(1, &[])).unwrap();
    let by_name: Vec<_> = one
        .listening()
        .iter()
        .map(|address| {
            let address = address.split("/p2p/").next().unwrap();
            address.replace("/ip4/127.0.0.1", "/dns4/localhost")
        })
        .collect();
    let two = start(Kind::Flat, options(2, &by_name)).unwrap();
    eventually("it is found", || two.members().len() == 2);
}
