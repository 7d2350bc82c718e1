//! The network as the window shows it: a ring of nodes, and a table of peers.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use peercrawl_overlay::{Contact, Member, PeerId, Role, Statistics, Traffic, addresses, guard};
use peercrawl_ui::command::{PeerColumn, TableRequest};
use peercrawl_ui::model::{self, Network, Node, OverlayKind, PeerRow, View};

use crate::distribution::{self, Distribution, DistributionKind, Key, Ownership, StaticRanges};
use crate::engine::{Engine, Standing, version_of};

/// Nodes that are drawn at most.
const MOST_NODES: usize = 300;

/// Whether this engine is in its network. Who has left it, because the data is used up or
/// the line is metered, still remembers the last members.
pub fn takes_part(engine: &Engine) -> bool {
    engine.run_state().standing != Standing::Left
}

/// The picture.
pub fn network(
    engine: Option<&Engine>,
    overlay: OverlayKind,
    called: &[String],
    looks_nearby: bool,
) -> Network {
    let mut network = Network {
        overlay,
        called: called.to_vec(),
        looks_on_local_network: looks_nearby,
        takes_part: Some(false),
        ..Network::default()
    };
    let Some(engine) = engine else {
        return network;
    };
    let statistics = engine.overlay().statistics();
    network.traffic = traffic(&statistics);
    network.addresses_refused = statistics.addresses_refused;
    if !takes_part(engine) {
        return network;
    }
    let me = engine.overlay().me();
    let members = engine.overlay().members();
    let contacts = engine.overlay().contacts();
    let drawn = drawn(&members, me, &contacts);
    let is_supernode = |member: &&Member| member.role == Role::Supernode;
    let nodes = drawn.iter().map(|member| Node {
        id: short(member.id),
        place: place(member.id),
        role: role(member.role),
        me: member.id == me,
    });
    Network {
        takes_part: Some(true),
        my_share: shares(engine).get(&me).copied().unwrap_or(0.0),
        my_addresses: outside_first(engine.overlay().callable()),
        links: links(&drawn, me, &contacts),
        nodes: nodes.collect(),
        peers: members.len(),
        supernodes: members.iter().filter(is_supernode).count(),
        ..network
    }
}

/// Those who are drawn where there are very many, in the order of their ids: this peer, those
/// who answer it and the supernodes come before others, of whom there are then some from all
/// around the ring.
fn drawn<'a>(members: &'a [Member], me: PeerId, contacts: &[Contact]) -> Vec<&'a Member> {
    let answers = |id: PeerId| {
        let found = contacts.binary_search_by_key(&id, |one| one.peer);
        found.is_ok_and(|at| contacts[at].round_trip.is_some())
    };
    let rank = |member: &Member| match member.role {
        _ if member.id == me => 0,
        _ if answers(member.id) => 1,
        Role::Supernode => 2,
        Role::Leaf | Role::Peer => 3,
    };
    let mut drawn: Vec<&Member> = Vec::new();
    for wanted in 0..=3 {
        let those: Vec<&Member> = members.iter().filter(|one| rank(one) == wanted).collect();
        let room = MOST_NODES - drawn.len();
        let step = those.len().div_ceil(room.max(1)).max(1);
        drawn.extend(those.into_iter().step_by(step).take(room));
    }
    drawn.sort_unstable_by_key(|member| member.id);
    drawn
}

/// What has gone over the overlay, by its purpose.
fn traffic(statistics: &Statistics) -> model::Traffic {
    let moved = |traffic: &Traffic| model::Moved {
        download_bytes: traffic.bytes_received,
        upload_bytes: traffic.bytes_sent,
    };
    model::Traffic {
        membership: moved(&statistics.membership),
        urls: moved(&statistics.urls),
        content: moved(&statistics.content),
        handover: moved(&statistics.handover),
        carried: moved(&statistics.carried),
    }
}

/// The links between the numbers of these nodes: of this peer with those who answer, and of
/// other leaves with their supernodes.
fn links(nodes: &[&Member], me: PeerId, contacts: &[Contact]) -> Vec<(usize, usize)> {
    let number = |id: PeerId| nodes.binary_search_by_key(&id, |node| node.id).ok();
    let answering = contacts.iter().filter(|one| one.round_trip.is_some());
    let mine = answering.map(|one| (me, one.peer));
    let is_other_leaf = |node: &&&Member| node.role == Role::Leaf && node.id != me;
    let leaves = nodes.iter().filter(is_other_leaf);
    let theirs = leaves.flat_map(|leaf| leaf.via.iter().map(move |&via| (leaf.id, via)));
    let drawn = mine.chain(theirs).filter_map(|(one, other)| {
        let (one, other) = (number(one)?, number(other)?);
        Some((one.min(other), one.max(other)))
    });
    // A leaf of this peer is named by both.
    let drawn: BTreeSet<(usize, usize)> = drawn.collect();
    drawn.into_iter().collect()
}

/// From how far away an address can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reaches {
    /// From anywhere.
    Anywhere,
    /// From anywhere, as long as a relay carries it.
    ThroughRelay,
    /// From the local network.
    LocalNetwork,
    /// From this computer.
    ThisComputer,
}

/// From how far away this address can be called.
pub fn reaches(address: &str) -> Reaches {
    let Ok(address) = addresses::parse(address) else {
        return Reaches::ThisComputer;
    };
    match addresses::ip(&address) {
        _ if addresses::is_relayed(&address) => Reaches::ThroughRelay,
        Some(ip) if ip.is_loopback() => Reaches::ThisComputer,
        Some(ip) if !guard::is_public(ip) => Reaches::LocalNetwork,
        // A name is what somebody has made for others.
        _ => Reaches::Anywhere,
    }
}

/// Addresses that can be called from farther away come first.
pub fn outside_first(mut addresses: Vec<String>) -> Vec<String> {
    addresses.sort_by_key(|address| (reaches(address), address.contains("/udp/")));
    addresses
}

/// The table.
pub fn peers(engine: Option<&Engine>, request: &TableRequest<PeerColumn>) -> View<PeerRow> {
    let Some(engine) = engine.filter(|engine| takes_part(engine)) else {
        return View::default();
    };
    let me = engine.overlay().me();
    let members = engine.overlay().members();
    let search = request.search.trim().to_lowercase();
    let contacts = engine.overlay().contacts();
    let contact = |id: PeerId| {
        let found = contacts.binary_search_by_key(&id, |contact| contact.peer);
        found.ok().map(|at| &contacts[at])
    };
    let shares = shares(engine);
    let rows = members.iter().map(|member| {
        let contact = contact(member.id);
        PeerRow {
            id: short(member.id),
            address: contact.map_or_else(String::new, |contact| contact.address.clone()),
            me: member.id == me,
            role: role(member.role),
            share: shares.get(&member.id).copied().unwrap_or(0.0),
            rtt_us: contact
                .and_then(|contact| contact.round_trip)
                .map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
            download_bytes: contact.map(|contact| contact.bytes_received),
            upload_bytes: contact.map(|contact| contact.bytes_sent),
            version: version_of(member).unwrap_or_default(),
        }
    });
    let mut rows: Vec<PeerRow> = rows.filter(|row| is_found(row, &search)).collect();
    rows.sort_by(|one, other| {
        let order = compare(one, other, request.sort_by);
        let order = match request.descending {
            true => order.reverse(),
            false => order,
        };
        order.then_with(|| one.id.cmp(&other.id))
    });
    let total = rows.len();
    let end = request.rows.end.min(total);
    let first = request.rows.start.min(end);
    View {
        total,
        first,
        rows: rows.drain(first..end).collect(),
    }
}

/// Whether a peer is meant by this text, in small letters.
fn is_found(row: &PeerRow, search: &str) -> bool {
    row.id.contains(search) || row.address.to_lowercase().contains(search)
}

fn compare(one: &PeerRow, other: &PeerRow, column: PeerColumn) -> Ordering {
    match column {
        PeerColumn::Id => one.id.cmp(&other.id),
        PeerColumn::Role => (one.role as u8).cmp(&(other.role as u8)),
        PeerColumn::Share => one.share.total_cmp(&other.share),
        PeerColumn::RoundTrip => one.rtt_us.cmp(&other.rtt_us),
        PeerColumn::Download => one.download_bytes.cmp(&other.download_bytes),
        PeerColumn::Upload => one.upload_bytes.cmp(&other.upload_bytes),
        PeerColumn::Version => one.version.cmp(&other.version),
    }
}

/// Each peer's part of all hosts: by its weight among those who are there, or a range of the
/// same size for each, whoever is there.
fn shares(engine: &Engine) -> HashMap<PeerId, f64> {
    shares_in(&engine.ownership())
}

fn shares_in(ownership: &Ownership) -> HashMap<PeerId, f64> {
    let members = ownership.members();
    if let DistributionKind::Static { peers } = ownership.kind() {
        let ranges = StaticRanges::new(peers, members);
        // Two may have the same number, and one of them the range.
        let has_range = |one: &&distribution::Member| {
            let range = one.index.and_then(|index| ranges.range(index));
            range.is_some_and(|range| ranges.owner(Key(*range.start())) == Some(one.id))
        };
        let part = 1.0 / f64::from(peers.get());
        let owners = members.iter().filter(has_range);
        return owners.map(|one| (one.id, part)).collect();
    }
    let all: u32 = members.iter().map(|one| u32::from(one.capacity)).sum();
    let share = |capacity: u8| match all {
        0 if members.len() <= 1 => 1.0,
        0 => 0.0,
        all => f64::from(capacity) / f64::from(all),
    };
    let each = members.iter().map(|one| (one.id, share(one.capacity)));
    each.collect()
}

fn short(id: PeerId) -> String {
    let bytes = id.0[..4].iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn place(id: PeerId) -> f32 {
    f32::from(u16::from_be_bytes([id.0[0], id.0[1]])) / 65_536.0
}

fn role(role: Role) -> model::Role {
    match role {
        Role::Peer => model::Role::Peer,
        Role::Supernode => model::Role::Supernode,
        Role::Leaf => model::Role::Leaf,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use peercrawl_overlay::memory::MemoryNetwork;
    use peercrawl_ui::command::ViewRequest;

    use super::*;
    use crate::config::Settings;
    use crate::engine::Surroundings;
    use crate::limits::Limits;
    use crate::resolver::SystemNames;

    /// The last members stayed in the picture for as long as the data was used up.
    #[test]
    fn who_has_left_the_network_sees_nobody_in_it() {
        let settings = Settings::default();
        let network_of_two = MemoryNetwork::new();
        let _other = network_of_two.join(PeerId::repeat(2));
        let engine = Engine::start(Surroundings {
            overlay: Arc::new(network_of_two.join(PeerId::repeat(1))),
            names: Arc::new(SystemNames),
            limits: Limits::new(&settings.limits),
            receipts: None,
            kept: None,
            settings,
        });
        let engine = engine.unwrap();
        let seen = || {
            let drawn = network(Some(&engine), OverlayKind::Flat, &[], false);
            let rows = peers(Some(&engine), &ViewRequest::default().peers).total;
            (drawn.takes_part, drawn.nodes.len(), rows)
        };
        assert_eq!(seen(), (Some(true), 2, 2));
        // Nothing is under way.
        engine.finish();
        assert_eq!(engine.overlay().members().len(), 1, "the other one");
        assert_eq!(seen(), (Some(false), 0, 0));
    }

    /// One of four ranges was shown as a third of all hosts while the fourth peer was away.
    #[test]
    fn a_static_range_is_as_large_whoever_is_there() {
        let member = |number: u8, capacity, index| distribution::Member {
            id: PeerId::repeat(number),
            capacity,
            index: Some(index),
        };
        let members = [
            member(1, 4, 0),
            member(2, 16, 1),
            member(3, 0, 2),
            member(4, 4, 1),
        ];
        let peers = std::num::NonZeroU32::new(4).unwrap();
        let shares = |kind| {
            let shares = shares_in(&Ownership::new(PeerId::repeat(1), kind, &members));
            let share = |number| shares.get(&PeerId::repeat(number)).copied();
            [1, 2, 3, 4].map(|number| share(number).unwrap_or(0.0))
        };
        let cut = shares(DistributionKind::Static { peers });
        assert_eq!(cut, [0.25, 0.25, 0.0, 0.0], "paused, and a number twice");
        let weighed = shares(DistributionKind::Rendezvous);
        assert_eq!(weighed[1], 16.0 / 24.0);
    }

    #[test]
    fn peers_are_found_by_id_and_by_address() {
        let row = PeerRow {
            id: "0a1b2c3d".into(),
            address: "/dns4/Maps.example/tcp/4001".into(),
            me: false,
            role: model::Role::Peer,
            share: 0.5,
            rtt_us: None,
            download_bytes: None,
            upload_bytes: None,
            version: String::new(),
        };
        let found = ["", "1b2c", "maps.ex", "4001", "globes"].map(|text| is_found(&row, text));
        assert_eq!(found, [true, true, true, true, false]);
    }

    #[test]
    fn links_lead_to_those_who_answer_and_from_leaves_to_their_supernodes() {
        let contact = |byte, round_trip| Contact {
            peer: PeerId::repeat(byte),
            address: String::new(),
            round_trip,
            bytes_sent: 1,
            bytes_received: 1,
        };
        let member = |byte, role, via: &[u8]| Member {
            id: PeerId::repeat(byte),
            role,
            facts: Arc::new([]),
            via: via.iter().map(|&byte| PeerId::repeat(byte)).collect(),
        };
        let nodes = [
            member(1, Role::Leaf, &[3, 4, 9]),
            member(2, Role::Leaf, &[4]),
            member(3, Role::Supernode, &[]),
            member(4, Role::Supernode, &[1]),
        ];
        let nodes: Vec<&Member> = nodes.iter().collect();
        let soon = Some(Duration::from_millis(1));
        // One is gone, and one is not drawn.
        let contacts = [contact(1, soon), contact(2, None), contact(9, soon)];
        let drawn = links(&nodes, PeerId::repeat(3), &contacts);
        assert_eq!(drawn, [(0, 2), (0, 3), (1, 3)]);
        // Its own supernodes are known by whether they answer.
        let drawn = links(&nodes, PeerId::repeat(2), &contacts);
        assert_eq!(drawn, [(0, 1), (0, 2), (0, 3)]);
    }

    /// Every third peer was drawn, whoever it was: most supernodes were missing.
    #[test]
    fn of_very_many_peers_those_who_matter_are_drawn() {
        let id = |number: u16| {
            let mut bytes = [0; 32];
            bytes[..2].copy_from_slice(&number.to_be_bytes());
            PeerId(bytes)
        };
        let member = |number: u16| Member {
            id: id(number),
            role: match number % 10 {
                7 => Role::Supernode,
                _ => Role::Leaf,
            },
            facts: Arc::new([]),
            via: Arc::new([]),
        };
        let contact = |number| Contact {
            peer: id(number),
            address: String::new(),
            round_trip: Some(Duration::from_millis(1)),
            bytes_sent: 1,
            bytes_received: 1,
        };
        let members: Vec<Member> = (0..1_000).map(member).collect();
        let contacts = [11, 12, 13].map(contact);
        let drawn = drawn(&members, id(998), &contacts);
        assert!((250..=MOST_NODES).contains(&drawn.len()), "{}", drawn.len());
        assert!(drawn.is_sorted_by_key(|one| one.id), "links are found so");
        let is_drawn = |number| drawn.iter().any(|one| one.id == id(number));
        assert!([998, 11, 12, 13].into_iter().all(is_drawn));
        assert!((7..1_000).step_by(10).all(is_drawn), "all supernodes");
        let leaf_beyond = |number| {
            let is_leaf = |one: &&Member| one.role == Role::Leaf && one.id != id(998);
            drawn.iter().any(|one| is_leaf(one) && one.id > id(number))
        };
        assert!(leaf_beyond(900), "from all around the ring");
    }

    #[test]
    fn each_kind_of_traffic_has_a_place_of_its_own() {
        let of = |number| Traffic {
            bytes_received: number,
            bytes_sent: number + 100,
            ..Traffic::default()
        };
        let shown = traffic(&Statistics {
            membership: of(1),
            urls: of(2),
            content: of(3),
            handover: of(4),
            carried: of(5),
            ..Statistics::default()
        });
        let kinds = [
            shown.membership,
            shown.urls,
            shown.content,
            shown.handover,
            shown.carried,
        ];
        assert_eq!(kinds.map(|moved| moved.download_bytes), [1, 2, 3, 4, 5]);
        assert_eq!(
            kinds.map(|moved| moved.upload_bytes),
            [101, 102, 103, 104, 105]
        );
    }

    #[test]
    fn addresses_for_others_come_first() {
        let relay = "12D3KooWExtqEGbsLqRh8ivXhrK4xES6VDsZsMxVFAarz4TNKsBC";
        let list = [
            "/ip4/127.0.0.1/tcp/1".to_owned(),
            "/ip4/192.168.0.2/tcp/1".to_owned(),
            format!("/ip4/9.9.9.9/tcp/1/p2p/{relay}/p2p-circuit"),
            "/ip4/9.9.9.9/udp/1/quic-v1".to_owned(),
            "/dns4/example.org/tcp/1".to_owned(),
        ];
        let sorted = outside_first(list.to_vec());
        let expected: Vec<_> = list.into_iter().rev().collect();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn the_ring_begins_at_its_top() {
        assert_eq!(place(PeerId::repeat(0)), 0.0);
        assert!((place(PeerId::repeat(0x80)) - 0.5).abs() < 0.01);
    }
}
