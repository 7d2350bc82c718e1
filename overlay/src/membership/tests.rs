use super::*;

const A: PeerId = PeerId::repeat(1);
const B: PeerId = PeerId::repeat(2);
const ME: PeerId = PeerId::repeat(9);
const RENEWAL: u64 = 30_000;

fn at(ms: u64) -> Now {
    Now {
        wall_ms: 0,
        since_start_ms: ms,
    }
}

fn lease(incarnation: u64) -> Lease {
    Lease {
        incarnation,
        role: Role::Peer,
        offers: false,
        leaves: 0,
        is_farewell: false,
        addresses: vec![],
        via: vec![],
        facts: vec![],
    }
}

fn apply(members: &mut Membership, id: PeerId, lease: Lease, sequence: u64, ms: u64) -> News {
    let version = version(lease.incarnation, sequence);
    bring(members, id, id, lease, version, ms)
}

fn bring(
    members: &mut Membership,
    author: PeerId,
    from: PeerId,
    lease: Lease,
    version: Version,
    ms: u64,
) -> News {
    let arrival = Arrival {
        author,
        from,
        lease,
        version,
        bytes: Arc::new([]),
    };
    members.apply(arrival, at(ms))
}

fn version(incarnation: u64, sequence: u64) -> Version {
    Version {
        incarnation,
        sequence,
    }
}

/// A lease with a way to its author.
fn reachable(incarnation: u64) -> Lease {
    Lease {
        via: vec![A],
        ..lease(incarnation)
    }
}

fn id(number: u16) -> PeerId {
    let mut id = [7; 32];
    id[..2].copy_from_slice(&number.to_be_bytes());
    PeerId(id)
}

fn ids(members: &Membership) -> Vec<PeerId> {
    members.members().iter().map(|member| member.id).collect()
}

#[test]
fn members_are_ordered_by_id_whatever_the_order_of_their_leases() {
    let mut members = Membership::new(Timing::default());
    assert_eq!(apply(&mut members, B, lease(1), 1, 0), News::Joined);
    assert_eq!(apply(&mut members, A, lease(1), 1, 0), News::Joined);
    assert_eq!(ids(&members), [A, B]);
    assert_eq!(apply(&mut members, A, lease(1), 1, 1), News::Nothing);
    assert_eq!(apply(&mut members, A, lease(1), 2, 1), News::Renewed);
    let changed = Lease {
        facts: vec![1],
        ..lease(1)
    };
    assert_eq!(apply(&mut members, A, changed, 3, 1), News::Changed);
    assert_eq!(members.members()[0].facts[..], [1]);
}

/// Each list had a copy of all facts, and a thousand lists may wait.
#[test]
fn lists_of_members_share_the_facts_and_the_ways() {
    let mut members = Membership::new(Timing::default());
    let with_facts = Lease {
        facts: vec![7; 4_096],
        ..reachable(1)
    };
    apply(&mut members, A, with_facts.clone(), 1, 0);
    let first = members.members();
    apply(&mut members, A, with_facts, 2, 1);
    let second = members.members();
    assert!(Arc::ptr_eq(&first[0].facts, &second[0].facts));
    assert!(Arc::ptr_eq(&first[0].via, &second[0].via));
    assert_eq!(first[0].via[..], [A]);
    apply(&mut members, A, lease(1), 3, 1);
    assert!(members.members()[0].via.is_empty());
}

#[test]
fn what_is_held_already_is_told_by_its_number() {
    let mut members = Membership::new(Timing::default());
    apply(&mut members, A, lease(1), 7, 0);
    let held = [6, 7, 8].map(|sequence| members.holds(A, sequence));
    assert_eq!(held, [true, true, false]);
    assert!(!members.holds(B, 1));
    assert!(members.signed_by(A).is_some() && members.signed_by(B).is_none());
    members.expel(A, at(1));
    assert!(members.holds(A, 7) && members.signed_by(A).is_none());
}

#[test]
fn the_silent_become_suspect_then_die_unless_they_speak() {
    let mut members = Membership::new(Timing::default());
    apply(&mut members, A, lease(1), 1, 0);
    apply(&mut members, B, lease(1), 1, 0);
    assert_eq!(members.tick(ME, at(3 * RENEWAL)), (vec![], false));
    let (suspicions, _) = members.tick(ME, at(3 * RENEWAL + 1));
    assert_eq!(suspicions.len(), 2);
    assert_eq!(ids(&members), [A, B], "suspects are members");
    assert_eq!(
        apply(&mut members, A, lease(1), 2, 3 * RENEWAL + 2),
        News::Renewed
    );
    let (none, has_died) = members.tick(ME, at(3 * RENEWAL + 5_001));
    assert_eq!((none, has_died), (vec![], true));
    assert_eq!(ids(&members), [A]);
}

/// One that was offline for a moment stayed dead until it renewed its lease.
#[test]
fn the_dead_come_back_by_a_newer_lease_or_in_person() {
    let mut members = Membership::new(Timing::default());
    apply(&mut members, A, lease(1), 7, 0);
    apply(&mut members, B, lease(1), 1, 0);
    let suspicion = members.suspicion(A).unwrap();
    assert!(members.suspect(B, suspicion, at(10)));
    assert!(!members.suspect(B, suspicion, at(10)), "no news");
    assert!(members.tick(ME, at(5_010)).1);
    let by_b = bring(&mut members, A, B, lease(1), version(1, 7), 5_011);
    assert_eq!(by_b, News::Nothing);
    assert_eq!(apply(&mut members, A, lease(1), 6, 5_011), News::Nothing);
    assert_eq!((ids(&members), members.misses(A)), (vec![B], true));
    assert_eq!(apply(&mut members, A, lease(1), 7, 5_011), News::Joined);
    assert!(!members.misses(A) && members.signed_by(A).is_some());
    assert_eq!(apply(&mut members, A, lease(2), 1, 5_012), News::Changed);
    assert!(
        !members.suspect(B, suspicion, at(5_013)),
        "refuted long ago"
    );
    assert_eq!(ids(&members), [A, B]);
}

#[test]
fn a_farewell_ends_membership_at_once_and_is_forgotten_later() {
    let mut members = Membership::new(Timing::default());
    apply(&mut members, A, lease(1), 1, 0);
    let farewell = Lease {
        is_farewell: true,
        ..lease(1)
    };
    assert_eq!(apply(&mut members, A, farewell.clone(), 2, 5), News::Left);
    assert_eq!(apply(&mut members, A, farewell, 2, 5), News::Nothing);
    assert_eq!((ids(&members), members.misses(A)), (vec![], false));
    members.tick(ME, at(600_004));
    assert_eq!(members.entries.len(), 1);
    members.tick(ME, at(600_005));
    assert_eq!(members.entries.len(), 0);
}

#[test]
fn nobody_suspects_oneself() {
    let mut members = Membership::new(Timing::default());
    apply(&mut members, ME, lease(1), 1, 0);
    assert_eq!(members.tick(ME, at(u64::MAX / 2)), (vec![], false));
}

#[test]
fn renewals_slow_down_as_members_grow() {
    let mut members = Membership::new(Timing::default());
    assert_eq!(members.renewal_ms(), RENEWAL);
    for number in 0..128u8 {
        apply(&mut members, PeerId::repeat(number), lease(1), 1, 0);
    }
    assert_eq!(members.renewal_ms(), 2 * RENEWAL);
}

/// A suspicion of a version that nobody has written could not be refuted, and whoever liked
/// could put anybody out.
#[test]
fn a_suspicion_counts_from_a_member_and_for_the_lease_that_is_held() {
    let mut members = Membership::new(Timing::default());
    apply(&mut members, A, lease(5), 7, 0);
    apply(&mut members, B, lease(1), 1, 0);
    let of = |incarnation, sequence| Suspicion {
        peer: A,
        version: version(incarnation, sequence),
    };
    for wrong in [of(u64::MAX, u64::MAX), of(5, 8), of(6, 7), of(5, 6)] {
        assert!(!members.suspect(B, wrong, at(1)), "{wrong:?}");
    }
    let stranger = id(1);
    assert!(!members.suspect(stranger, of(5, 7), at(1)));
    members.tick(ME, at(10_000));
    assert_eq!(ids(&members), [A, B], "nobody is the worse for it");
    assert!(members.suspect(B, of(5, 7), at(10_000)));
    assert_eq!(apply(&mut members, A, lease(5), 8, 10_001), News::Renewed);
    members.tick(ME, at(20_000));
    assert_eq!(ids(&members), [A, B], "it has refuted");
}

#[test]
fn one_author_has_so_many_suspicions() {
    let mut members = Membership::new(Timing::default());
    apply(&mut members, B, lease(1), 1, 0);
    let mut believed = 0;
    for number in 0..1_000 {
        apply(&mut members, id(number), lease(1), 1, 0);
        let suspicion = members.suspicion(id(number)).unwrap();
        believed += u32::from(members.suspect(B, suspicion, at(0)));
    }
    assert_eq!(believed, SUSPICIONS.at_once);
}

#[test]
fn leases_of_one_author_are_heard_at_a_pace() {
    let mut members = Membership::new(Timing::default());
    let heard = |members: &mut Membership, sequences: std::ops::Range<u64>, ms| {
        let heard = sequences.filter(|&sequence| {
            let lease = Lease {
                facts: vec![sequence as u8],
                ..lease(1)
            };
            apply(members, A, lease, sequence, ms) != News::Nothing
        });
        heard.count()
    };
    let at_once = LEASES.at_once as usize;
    assert_eq!(heard(&mut members, 1..1_000, 0), at_once + 1);
    assert_eq!(heard(&mut members, 1_000..2_000, 10_000), 20);
    // Whoever is accused may speak.
    apply(&mut members, B, lease(1), 1, 10_000);
    let suspicion = members.suspicion(A).unwrap();
    assert!(members.suspect(B, suspicion, at(10_000)));
    assert_eq!(heard(&mut members, 2_000..2_100, 10_000), 1);
    let farewell = Lease {
        is_farewell: true,
        ..lease(1)
    };
    assert_eq!(apply(&mut members, A, farewell, 3_000, 10_000), News::Left);
}

#[test]
fn a_neighbour_names_so_many_that_nobody_knows() {
    let mut members = Membership::new(Timing::default());
    let mut name = |from, numbers: std::ops::Range<u16>, ms| {
        let named = numbers.filter(|&number| {
            let news = bring(
                &mut members,
                id(number),
                from,
                reachable(1),
                version(1, u64::from(number) + 1),
                ms,
            );
            news == News::Joined
        });
        named.count()
    };
    let at_once = NEW_AUTHORS.at_once as usize;
    assert_eq!(name(A, 0..2_000, 0), at_once, "one liar");
    assert_eq!(
        name(B, 1_000..1_300, 0),
        300,
        "who takes nothing from others"
    );
    assert_eq!(
        name(A, 2_000..4_000, 60_000),
        NEW_AUTHORS.each_minute as usize
    );
}

/// A lease without an address, and without anybody who leads to its author, makes somebody
/// up.
#[test]
fn where_no_way_leads_there_is_nobody_unless_it_came_itself() {
    let mut members = Membership::new(Timing::default());
    let ghost = bring(&mut members, B, A, lease(1), version(1, 1), 0);
    assert_eq!(ghost, News::Nothing);
    let itself = bring(&mut members, B, B, lease(1), version(1, 1), 0);
    assert_eq!(itself, News::Joined);
}

#[test]
fn one_that_cannot_be_reached_is_accused_now_and_then() {
    let mut members = Membership::new(Timing::default());
    apply(&mut members, A, lease(1), 1, 0);
    assert!(members.unreachable(B, at(0)).is_none(), "no member");
    assert_eq!(members.unreachable(A, at(0)), members.suspicion(A));
    apply(&mut members, A, lease(1), 2, 1);
    assert!(members.unreachable(A, at(299_999)).is_none());
    apply(&mut members, A, lease(1), 3, 300_000);
    assert!(members.unreachable(A, at(300_000)).is_some());
}

#[test]
fn the_expelled_come_back_by_a_newer_lease_alone() {
    let mut members = Membership::new(Timing::default());
    apply(&mut members, A, lease(1), 1, 0);
    assert!(members.expel(A, at(1)) && !members.expel(A, at(1)));
    assert!(members.lease(A).is_none() && ids(&members).is_empty());
    assert_eq!(apply(&mut members, A, lease(1), 1, 2), News::Nothing);
    assert_eq!(apply(&mut members, A, lease(1), 2, 3), News::Joined);
}

/// Leases outlived what others accept from 794 members on, and everybody was refused.
#[test]
fn ten_thousand_members_write_leases_that_others_accept() {
    let mut members = Membership::new(Timing::default());
    for number in 0..MOST_MEMBERS as u16 {
        apply(&mut members, id(number), lease(1), 1, 0);
    }
    assert_eq!(ids(&members).len(), MOST_MEMBERS);
    assert_eq!(members.renewal_ms(), LONGEST_RENEWAL_MS);
    assert!(members.life_ms() <= LONGEST_LIFE_MS);
    assert!(members.life_ms() > MISSED_RENEWALS * members.renewal_ms());
    let late = id(u16::MAX);
    assert_eq!(apply(&mut members, late, lease(1), 1, 0), News::Nothing);
    members.expel(id(5), at(1));
    assert_eq!(apply(&mut members, late, lease(1), 1, 2), News::Joined);
    assert_eq!(members.entries.len(), MOST_MEMBERS);
}
