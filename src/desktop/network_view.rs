//! The network as the window shows it: a ring of nodes, and a table of peers.

use std::cmp::Ordering;
use std::collections::HashMap;

use peercrawl_overlay::{Contact, Member, PeerId, Role, Statistics, Traffic, addresses, guard};
use peercrawl_ui::command::{PeerColumn, TableRequest};
use peercrawl_ui::model::{self, Network, Node, OverlayKind, PeerRow, View};

use crate::engine::{Engine, version_of};

/// Nodes that are drawn at most.
const MOST_NODES: usize = 300;

/// The picture.
pub fn network(
    engine: Option<&Engine>,
    overlay: OverlayKind,
    called: &[String],
    looks_nearby: bool,
) -> Network {
    let Some(engine) = engine else {
        return Network {
            overlay,
            called: called.to_vec(),
            looks_on_local_network: looks_nearby,
            ..Network::default()
        };
    };
    let me = engine.overlay().me();
    let members = engine.overlay().members();
    // This peer is always drawn; of very many others, some.
    let step = members.len().div_ceil(MOST_NODES).max(1);
    let is_drawn = |number: usize, id: PeerId| number.is_multiple_of(step) || id == me;
    let drawn = members.iter().enumerate();
    let drawn = drawn.filter(|(number, member)| is_drawn(*number, member.id));
    let drawn: Vec<&Member> = drawn.map(|(_, member)| member).collect();
    let nodes = drawn.iter().map(|member| Node {
        id: short(member.id),
        place: place(member.id),
        role: role(member.role),
        me: member.id == me,
    });
    let statistics = engine.overlay().statistics();
    let ids: Vec<PeerId> = drawn.iter().map(|member| member.id).collect();
    Network {
        overlay,
        my_share: shares(engine).get(&me).copied().unwrap_or(0.0),
        my_addresses: outside_first(engine.overlay().callable()),
        called: called.to_vec(),
        looks_on_local_network: looks_nearby,
        links: links(&ids, me, &engine.overlay().contacts()),
        nodes: nodes.collect(),
        traffic: traffic(&statistics),
        addresses_refused: statistics.addresses_refused,
    }
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

/// The links of this peer, between the numbers of these nodes: with those who answer.
fn links(nodes: &[PeerId], me: PeerId, contacts: &[Contact]) -> Vec<(usize, usize)> {
    let number = |id: PeerId| nodes.binary_search(&id).ok();
    let Some(me) = number(me) else {
        return Vec::new();
    };
    let answering = contacts.iter().filter(|one| one.round_trip.is_some());
    let others = answering.filter_map(|one| number(one.peer));
    others.map(|other| (me, other)).collect()
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
    let Some(engine) = engine else {
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
    let mut rows: Vec<PeerRow> = rows.filter(|row| row.id.contains(&search)).collect();
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

/// Each peer's part of all hosts: by its weight among those who are there.
fn shares(engine: &Engine) -> HashMap<PeerId, f64> {
    let ownership = engine.ownership();
    let members = ownership.members();
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn links_lead_to_those_who_answer() {
        let contact = |byte, round_trip| Contact {
            peer: PeerId::repeat(byte),
            address: String::new(),
            round_trip,
            bytes_sent: 1,
            bytes_received: 1,
        };
        let nodes = [1, 2, 3, 4].map(PeerId::repeat);
        let soon = Some(Duration::from_millis(1));
        // One is gone, and one is not drawn.
        let contacts = [contact(1, soon), contact(2, None), contact(9, soon)];
        assert_eq!(links(&nodes, nodes[2], &contacts), [(2, 0)]);
        assert_eq!(links(&nodes, PeerId::repeat(8), &contacts), []);
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
