//! The tables of `docs/decisions/0001-distribution-function.md`: how far each
//! distribution function strays from the fair share, and what a look-up costs.
//!
//! Members, hosts and keys come from fixed seeds, so the first three tables are the
//! same on every machine. Run it with `cargo bench --bench distribution`.

// A measurement that cannot go on has nothing better to do than stop.
#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use peercrawl::distribution::{
    ConsistentRing, Distribution, DistributionKind, Key, Member, Rendezvous, build,
};
use peercrawl_overlay::PeerId;

const HOSTS: usize = 100_000;
const ID_SETS: u64 = 10;
const REPLICAS: [u16; 3] = [100, 200, 1_000];
const MEMBERS: [usize; 6] = [2, 4, 8, 16, 32, 64];

fn main() {
    let keys: Vec<Key> = host_names(HOSTS).iter().map(|h| Key::of_host(h)).collect();
    sampled_shares(&keys);
    exact_shares();
    shares_by_capacity();
    cost_of_a_look_up();
    cost_of_a_change();
}

/// Table 1: what 64 volunteers would see with 100,000 hosts.
fn sampled_shares(keys: &[Key]) {
    println!("## Deviation from the fair share, {HOSTS} hosts, equal capacities\n");
    println!(
        "Greatest deviation of any member: mean over {ID_SETS} sets of ids (worst set); then the standard deviation over members. The paper's figure: 6 % for 100 replicas, 4.5 % for 200.\n"
    );
    heading(" rendezvous | a perfect function (binomial noise) |");
    for count in MEMBERS {
        print!("| {count} |");
        for kind in kinds() {
            let sets: Vec<Deviation> = (0..ID_SETS)
                .map(|set| {
                    let members = equal_members(set, count);
                    let owned = owned(build(kind, &members).as_ref(), keys);
                    let fair = 1.0 / count as f64;
                    let share = |m: &Member| owned[&m.id] as f64 / keys.len() as f64 / fair - 1.0;
                    Deviation::of(members.iter().map(share))
                })
                .collect();
            print!(" {} |", Deviation::summary(&sets));
        }
        // The reference: the same members dealt hosts by a generator instead of a function.
        let mut random = Generator(7);
        let sets: Vec<Deviation> = (0..ID_SETS)
            .map(|_| {
                let mut owned = vec![0.0; count];
                (0..keys.len()).for_each(|_| owned[random.below(count)] += 1.0);
                let fair = keys.len() as f64 / count as f64;
                Deviation::of(owned.iter().map(|o| o / fair - 1.0))
            })
            .collect();
        println!(" {} |", Deviation::summary(&sets));
    }
}

/// Table 2: the same without the noise of a sample. For the ring the arcs are
/// measured; for rendezvous every member's chance is equal by symmetry, and eight
/// million keys show what is left of that.
fn exact_shares() {
    println!("\n## Deviation of the part of the key space itself, equal capacities\n");
    println!(
        "Ring: exact arc lengths. Rendezvous: 8,000,000 keys, whose own noise is given beside it.\n"
    );
    heading(" rendezvous | noise of that sample (sd) |");
    let sample = 8_000_000;
    for count in MEMBERS {
        print!("| {count} |");
        let fair = 1.0 / count as f64;
        for replicas in REPLICAS {
            let sets: Vec<Deviation> = (0..ID_SETS)
                .map(|set| {
                    let ring = ring(replicas, &equal_members(set, count));
                    Deviation::of(ring.shares().iter().map(|s| s.1 / fair - 1.0))
                })
                .collect();
            print!(" {} |", Deviation::summary(&sets));
        }
        let members = equal_members(0, count);
        let mut random = Generator(11);
        let keys: Vec<Key> = (0..sample).map(|_| Key(random.next())).collect();
        let owned = owned(&Rendezvous::new(&members), &keys);
        let of_sample = |m: &Member| owned[&m.id] as f64 / sample as f64 / fair - 1.0;
        let deviation = Deviation::of(members.iter().map(of_sample));
        let noise = ((1.0 - fair) / (fair * sample as f64)).sqrt();
        println!(
            " {} | {:.2} % |",
            Deviation::summary(&[deviation]),
            noise * 100.0
        );
    }
}

/// Table 3: capacities 1 to 16 side by side, four members of each.
fn shares_by_capacity() {
    println!(
        "\n## 64 members of capacities 1 to 16, deviation of each capacity's members together\n"
    );
    println!("Rendezvous: 8,000,000 keys. Ring: exact arcs.\n");
    println!(
        "| capacity | ring, 200 replicas | ring, 1000 replicas | rendezvous | noise of that sample (sd) |"
    );
    println!("|---|---|---|---|---|");
    let members: Vec<Member> = equal_members(0, 64)
        .into_iter()
        .zip(0..)
        .map(|(member, n)| Member {
            capacity: 1 + n % 16,
            ..member
        })
        .collect();
    let sample = 8_000_000;
    let mut random = Generator(13);
    let keys: Vec<Key> = (0..sample).map(|_| Key(random.next())).collect();
    let owned = owned(&Rendezvous::new(&members), &keys);
    let rings = [200, 1_000].map(|r| HashMap::<_, _>::from_iter(ring(r, &members).shares()));
    let whole: f64 = members.iter().map(|m| f64::from(m.capacity)).sum();
    for capacity in [1, 2, 4, 8, 16] {
        let class: Vec<&Member> = members.iter().filter(|m| m.capacity == capacity).collect();
        let fair = class.len() as f64 * f64::from(capacity) / whole;
        let percent = |share: f64| (share / fair - 1.0) * 100.0;
        print!("| {capacity} |");
        for ring in &rings {
            print!(
                " {:+.2} % |",
                percent(class.iter().map(|m| ring[&m.id]).sum())
            );
        }
        let share = class.iter().map(|m| owned[&m.id]).sum::<u32>() as f64 / sample as f64;
        let noise = ((1.0 - fair) / (fair * sample as f64)).sqrt();
        println!(" {:+.2} % | {:.2} % |", percent(share), noise * 100.0);
    }
}

const CROWDS: [usize; 8] = [1, 2, 4, 16, 64, 256, 1_000, 10_000];

/// Table 4: nanoseconds for a look-up of a key not met before.
fn cost_of_a_look_up() {
    println!("\n## Cost of a look-up, ns\n");
    heading(" rendezvous | rendezvous, capacities 1 to 16 |");
    for count in CROWDS {
        print!("| {count} |");
        let members = equal_members(0, count);
        for kind in kinds() {
            print!(
                " {:.0} |",
                nanos_per_look_up(build(kind, &members).as_ref())
            );
        }
        let mixed: Vec<Member> = members
            .iter()
            .zip(0u32..)
            .map(|(m, n)| Member {
                capacity: 1 + (n % 16) as u8,
                ..*m
            })
            .collect();
        println!(" {:.0} |", nanos_per_look_up(&Rendezvous::new(&mixed)));
    }
}

fn nanos_per_look_up(function: &dyn Distribution) -> f64 {
    let mut random = Generator(17);
    let keys: Vec<Key> = (0..1 << 16).map(|_| Key(random.next())).collect();
    let mut look_ups = 0;
    let start = Instant::now();
    // The clock is read once in 256 look-ups, so that it does not count.
    for batch in keys.chunks_exact(256).cycle() {
        for &key in batch {
            black_box(function.owner(key));
        }
        look_ups += batch.len();
        if start.elapsed() > Duration::from_millis(200) {
            break;
        }
    }
    start.elapsed().as_nanos() as f64 / look_ups as f64
}

/// Table 5: what every peer pays when a volunteer comes or goes, and keeps in memory.
fn cost_of_a_change() {
    println!("\n## Cost of a change of members: time to rebuild, and memory held\n");
    println!("| members | ring, 200 replicas | ring, 1000 replicas | rendezvous |");
    println!("|---|---|---|---|");
    for count in [64, 1_000, 10_000] {
        let members = equal_members(0, count);
        print!("| {count} |");
        for replicas in [200, 1_000] {
            let start = Instant::now();
            let ring = ring(replicas, &members);
            let bytes = ring.points() * 12 + count * 32;
            print!(" {:.2?}, {} KiB |", start.elapsed(), bytes / 1024);
        }
        let start = Instant::now();
        black_box(Rendezvous::new(&members));
        println!(" {:.2?}, {} KiB |", start.elapsed(), count * 40 / 1024);
    }
}

/// The head of a table that has a column for each number of replicas, and two more.
fn heading(last_two: &str) {
    let rings = REPLICAS.map(|r| format!("ring, {r} replicas"));
    println!("| members | {} |{last_two}", rings.join(" | "));
    println!("|---|---|---|---|---|---|");
}

fn kinds() -> [DistributionKind; 4] {
    let ring = |replicas| DistributionKind::Consistent {
        replicas: NonZeroU16::new(replicas).unwrap(),
    };
    let [few, more, many] = REPLICAS.map(ring);
    [few, more, many, DistributionKind::Rendezvous]
}

fn ring(replicas: u16, members: &[Member]) -> ConsistentRing {
    ConsistentRing::new(NonZeroU16::new(replicas).unwrap(), members)
}

fn owned(function: &dyn Distribution, keys: &[Key]) -> HashMap<PeerId, u32> {
    let mut owned = HashMap::new();
    for &key in keys {
        *owned.entry(function.owner(key).unwrap()).or_default() += 1;
    }
    owned
}

/// How far shares are from fair, as a part of the fair share.
struct Deviation {
    greatest: f64,
    standard: f64,
}

impl Deviation {
    fn of(off: impl Iterator<Item = f64>) -> Self {
        let off: Vec<f64> = off.collect();
        let squares: f64 = off.iter().map(|d| d * d).sum();
        Self {
            greatest: off.iter().fold(0.0, |greatest, d| d.abs().max(greatest)),
            standard: (squares / off.len() as f64).sqrt(),
        }
    }

    fn summary(sets: &[Self]) -> String {
        let mean = |f: fn(&Self) -> f64| sets.iter().map(f).sum::<f64>() / sets.len() as f64;
        let greatest = mean(|d| d.greatest) * 100.0;
        let worst = sets.iter().fold(0.0, |w: f64, d| w.max(d.greatest)) * 100.0;
        let standard = mean(|d| d.standard) * 100.0;
        if sets.len() == 1 {
            return format!("{greatest:.2} %; sd {standard:.2} %");
        }
        format!("{greatest:.1} % ({worst:.1} %); sd {standard:.1} %")
    }
}

/// Members with ids as random as public keys are, from a seed.
fn equal_members(set: u64, count: usize) -> Vec<Member> {
    let mut random = Generator(set.wrapping_mul(0x0100_0000_01b3) + 1);
    let mut member = || {
        let mut id = [0; 32];
        for part in id.chunks_exact_mut(8) {
            part.copy_from_slice(&random.next().to_le_bytes());
        }
        Member {
            id: PeerId(id),
            capacity: 1,
            index: None,
        }
    };
    (0..count).map(|_| member()).collect()
}

/// Distinct names of the shapes that the web has: words, numbers, sub-domains, endings.
fn host_names(count: usize) -> Vec<String> {
    const WORDS: [&str; 24] = [
        "blue", "river", "news", "shop", "garden", "photo", "city", "museum", "travel", "school",
        "music", "forum", "data", "green", "north", "market", "health", "light", "book", "sport",
        "house", "radio", "science", "kitchen",
    ];
    const FIRST: [&str; 8] = ["", "", "", "www.", "www.", "www.", "blog.", "m."];
    const LAST: [&str; 8] = ["com", "com", "org", "net", "de", "co.uk", "fr", "info"];
    let mut random = Generator(3);
    let mut seen = HashSet::new();
    while seen.len() < count {
        let mut pick = |list: &[&'static str]| list[random.below(list.len())];
        let (first, one, two, last) = (pick(&FIRST), pick(&WORDS), pick(&WORDS), pick(&LAST));
        let name = match random.below(3) {
            0 => format!("{first}{one}{two}.{last}"),
            1 => format!("{first}{one}-{two}.{last}"),
            _ => format!("{first}{one}{two}{}.{last}", random.below(100)),
        };
        seen.insert(name);
    }
    let mut names: Vec<String> = seen.into_iter().collect();
    names.sort_unstable();
    names
}

/// SplitMix64.
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}
