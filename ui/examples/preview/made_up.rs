//! A made-up model with something on every screen, for the preview and the tests.

use std::sync::Arc;

use peercrawl_ui::command::{Command, ViewRequest};
use peercrawl_ui::model::*;

/// 2026-11-16 15:40:07 UTC.
pub const NOW_MS: u64 = 1_794_843_607_000;

/// Hosts in the table.
pub const HOSTS: usize = 100_000;

/// The host that is on disk alone.
pub const AWAY: u64 = 9;

const DELAYS: [&str; 4] = ["", "robots.txt", "slow server", "rests: no answer in time"];

/// A number that looks random but is the same in every run.
pub fn noise(number: u64) -> f64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits ^= bits >> 31;
    bits = bits.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^= bits >> 29;
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// A running crawl.
pub fn model() -> Model {
    Model {
        now_ms: NOW_MS,
        utc_offset_minutes: 60,
        state: RunState::Crawling,
        rates: Rates {
            download_bytes_per_s: 212.0 * 1_024.0,
            upload_bytes_per_s: 18.0 * 1_024.0,
            pages_per_s: 34.0,
            peers: 12,
            waiting_urls: 48_211,
        },
        graphs: Arc::new(graphs(NOW_MS)),
        totals: Totals {
            today: total(12_431, 311_000_000),
            this_month: total(402_117, 6_900_000_000),
            ever: total(8_120_400, 141_000_000_000),
        },
        quota: Quota {
            used_bytes: 6_900_000_000,
            limit_bytes: 10_000_000_000,
            renews_ms: NOW_MS + 14 * 86_400_000,
            reached_ms: Some(NOW_MS + 8 * 86_400_000),
            is_pace_known: true,
        },
        memory: Memory {
            used_bytes: 142_000_000,
            budget_bytes: 256 << 20,
        },
        refused: Refused {
            robots: 1_204,
            private_addresses: 3,
            blocked_sites: 1,
            traps: 17,
            unusual_ports: 2,
        },
        fetching: Arc::new(fetching()),
        results: Arc::new(View::whole((0..200).map(result).collect())),
        hosts: Arc::new(hosts(&ViewRequest::default())),
        network: Arc::new(network()),
        peers: Arc::new(View::whole((0..13).map(peer).collect())),
        crawl: Arc::new(crawl()),
        archive: Arc::new(archive()),
        archive_files: Arc::new(View::whole((0..12).map(archive_file).collect())),
        settings: Arc::new(Settings::default()),
        log: Arc::new(View::whole((0..300).map(log_row).collect())),
        abilities: Abilities {
            tray: true,
            file_dialog: true,
            battery: true,
            metered: true,
            processor: true,
            idle_time: false,
            start_at_login: true,
            most_fetches: 128,
        },
        ..Model::default()
    }
}

/// A first start.
pub fn first_run() -> Model {
    Model {
        state: RunState::Stopped,
        first_run: Some(FirstRun {
            has_crawl: false,
            memory_mb: 150,
            archive_folder: "/home/ada/.local/share/peercrawl/archive".to_owned(),
        }),
        ..empty()
    }
}

/// A program that has just been started and has nothing to show.
pub fn empty() -> Model {
    Model {
        now_ms: NOW_MS,
        utc_offset_minutes: 60,
        state: RunState::Waiting(WaitReason::NoAddresses),
        network: Arc::new(Network {
            takes_part: Some(true),
            ..Network::default()
        }),
        ..Model::default()
    }
}

/// What the backend would answer to a request: sorted and cut out, here by formula.
pub fn hosts(request: &ViewRequest) -> View<HostRow> {
    let search = &request.hosts.search;
    let total = if search.is_empty() { HOSTS } else { 3 };
    let rows = request.hosts.rows.start.min(total)..request.hosts.rows.end.min(total);
    View {
        total,
        first: rows.start,
        rows: rows
            .map(|number| host(number, request.hosts.descending))
            .collect(),
    }
}

fn host(number: usize, descending: bool) -> HostRow {
    let number = if descending {
        number
    } else {
        HOSTS - 1 - number
    } as u64;
    let waiting = (HOSTS as u64 - number) / 2;
    HostRow {
        host: format!("site-{number}.example.org"),
        in_memory: waiting.min(1_000),
        on_disk: waiting.saturating_sub(1_000),
        next_ms: (!number.is_multiple_of(7)).then(|| NOW_MS + (noise(number) * 30_000.0) as u64),
        delay_ms: 1_000 * (1 + number % 5),
        delay_why: DELAYS[number as usize % DELAYS.len()].to_owned(),
        fetched: (noise(number) * 5_000.0) as u64,
        errors: number % 13,
        dropped: number % 3 * 120,
        blocked: number == 5,
        is_away: number == AWAY,
    }
}

fn total(pages: u64, download_bytes: u64) -> Total {
    Total {
        pages,
        download_bytes,
        upload_bytes: download_bytes / 11,
    }
}

/// A day of samples up to now, with a gap where the computer was asleep.
pub fn graphs(now_ms: u64) -> Graphs {
    let sample = |at_ms: u64| {
        let wave = ((at_ms as f64) / 400_000.0).sin() * 0.15 + 0.75;
        let random = noise(at_ms / 1_000);
        Sample {
            at_ms,
            download_bytes_per_s: (256.0 * 1_024.0 * (wave + random * 0.1).min(1.0)) as f32,
            upload_bytes_per_s: (64.0 * 1_024.0 * (0.2 + random * 0.15)) as f32,
            pages_per_s: (40.0 * wave * (0.8 + random * 0.2)) as f32,
            waiting_urls: (48_000.0 * wave) as f32,
            peers: (9.0 + 4.0 * wave).round() as f32,
        }
    };
    let seconds = (0..600).rev().map(|ago| sample(now_ms - ago * 1_000));
    let minutes = (0..1_440)
        .rev()
        .filter(|ago| !(400..640).contains(ago))
        .map(|ago| sample(now_ms - ago * 60_000));
    Graphs {
        seconds: seconds.collect(),
        minutes: minutes.collect(),
    }
}

fn fetching() -> Vec<Fetching> {
    let fetch = |number: u64| Fetching {
        url: format!("https://site-{number}.example.org/articles/2026/{number}/index.html"),
        since_ms: NOW_MS - 400 * number,
    };
    (1..7).map(fetch).collect()
}

fn result(number: u64) -> ResultRow {
    let titles = [
        "Harbour timetable, winter",
        "雨の日の図書館 – 東京",
        "",
        "Рецепты бабушки: пироги",
        "مكتبة المدينة",
        "How bees find their way home, and what that tells us about maps",
    ];
    let outcome = match number % 12 {
        1 => Outcome::Duplicate,
        4 => Outcome::RobotsRefused,
        6 => Outcome::Timeout,
        8 => Outcome::Error,
        9 => Outcome::PrivateRefused,
        11 => Outcome::Trap,
        _ => Outcome::Fetched,
    };
    ResultRow {
        at_ms: NOW_MS - number * 730,
        url: format!("https://site-{number}.example.org/page/{number}"),
        host: format!("site-{number}.example.org"),
        title: titles[number as usize % titles.len()].to_owned(),
        outcome,
        detail: match outcome {
            Outcome::Error => "the server answered 503".to_owned(),
            _ => String::new(),
        },
        bytes: (noise(number) * 60_000.0) as u64,
        took_ms: 40 + (noise(number + 7) * 900.0) as u64,
    }
}

fn node(number: u64) -> Node {
    Node {
        id: format!("{:08x}", (noise(number) * f64::from(u32::MAX)) as u32),
        place: noise(number) as f32,
        role: if number.is_multiple_of(4) {
            Role::Supernode
        } else {
            Role::Leaf
        },
        me: number == 5,
    }
}

fn network() -> Network {
    let mut links: Vec<(usize, usize)> = vec![(0, 4), (4, 8), (8, 12), (12, 0), (0, 8), (4, 12)];
    for leaf in (0..13).filter(|number| number % 4 > 0) {
        links.extend([0, 4, 8].map(|supernode| (leaf, supernode)));
    }
    Network {
        overlay: OverlayKind::Supernode,
        takes_part: Some(true),
        my_share: 0.083,
        my_addresses: vec![
            "/ip4/198.51.100.7/tcp/4001/p2p/12D3KooWQk7cV3w".to_owned(),
            "/ip4/192.168.1.20/tcp/4001".to_owned(),
        ],
        called: Vec::new(),
        looks_on_local_network: true,
        peers: 13,
        supernodes: 4,
        nodes: (0..13).map(node).collect(),
        links,
        traffic: Traffic {
            membership: moved(2_400_000, 1_100_000),
            urls: moved(31_000_000, 12_500_000),
            content: moved(969, 962),
            handover: moved(640_000, 0),
            carried: moved(5_200_000, 5_200_000),
        },
        addresses_refused: 7,
    }
}

fn moved(download_bytes: u64, upload_bytes: u64) -> Moved {
    Moved {
        download_bytes,
        upload_bytes,
    }
}

fn peer(number: u64) -> PeerRow {
    let node = node(number);
    PeerRow {
        id: node.id,
        address: format!("198.51.100.{}:4001", 10 + number),
        me: node.me,
        role: node.role,
        share: 0.04 + noise(number + 3) * 0.08,
        rtt_us: (!number.is_multiple_of(5)).then_some((18 + number * 7) * 1_000),
        download_bytes: Some((noise(number + 1) * 9e7) as u64),
        upload_bytes: Some((noise(number + 2) * 9e6) as u64),
        version: "0.1.0".to_owned(),
    }
}

fn crawl() -> Crawl {
    Crawl {
        network_name: "Libraries of the world".to_owned(),
        seeds: vec![
            "https://library.example.org/".to_owned(),
            "https://museum.example.net/collection/".to_owned(),
        ],
        blocked_sites: vec!["site-5.example.org".to_owned()],
        join_file_path: "/home/ada/libraries.peercrawl".to_owned(),
        ..Crawl::default()
    }
}

/// A join file that waits for an answer.
pub fn offer() -> JoinOffer {
    JoinOffer {
        file: "/home/ada/Downloads/libraries.peercrawl".to_owned(),
        network_name: "Libraries of the world".to_owned(),
        overlay: OverlayKind::Supernode,
        seeds: (0..11)
            .map(|number| format!("https://library-{number}.example.org/"))
            .collect(),
        scope: "only on the hosts named here".to_owned(),
        peers: vec!["/dns4/peer.example.org/tcp/4001".to_owned()],
        leaves: "You would leave the crawl “Museums”. What it has stored stays.".to_owned(),
    }
}

fn archive() -> Archive {
    Archive {
        folder: "/home/ada/.local/share/peercrawl/archive".to_owned(),
        pages: 402_117,
        bytes: 6_400_000_000,
        besides_bytes: 210_000_000,
        limit_bytes: 10_000_000_000,
        oldest_bytes: 1_000_000_000,
        ..Archive::default()
    }
}

fn archive_file(number: u64) -> ArchiveFile {
    ArchiveFile {
        name: format!("peercrawl-20261116-{:05}.warc.gz", 12 - number),
        bytes: 900_000_000 + number * 7_000_000,
        pages: 33_000 + number * 171,
        from_ms: NOW_MS - (number + 1) * 9_000_000,
        to_ms: NOW_MS - number * 9_000_000,
    }
}

fn log_row(number: u64) -> LogRow {
    let (level, text) = match number % 9 {
        2 => (
            LogLevel::Warning,
            "museum.example.net asked us to wait 120 s".to_owned(),
        ),
        5 => (
            LogLevel::Error,
            "The archive's disk answers slowly: 2.1 s for a write".to_owned(),
        ),
        _ => (
            LogLevel::Info,
            format!("Peer {:08x} joined", number * 7_919_113),
        ),
    };
    LogRow {
        at_ms: NOW_MS - (300 - number) * 4_000,
        level,
        text,
    }
}

/// What a real backend does with commands that change what is drawn.
pub fn answer(model: &mut Model, command: &Command) {
    match command {
        Command::Show(request) if model.hosts.total > 0 => {
            model.hosts = Arc::new(hosts(request));
        }
        Command::Change(setting) => Arc::make_mut(&mut model.settings).apply(setting),
        Command::Start => model.state = RunState::Crawling,
        Command::Pause => model.state = RunState::Paused(PauseReason::ByYou),
        Command::PauseFor { minutes } => {
            let at_ms = model.now_ms + u64::from(*minutes) * 60_000;
            model.state = RunState::Paused(PauseReason::Until { at_ms });
        }
        Command::FinishAndStop => model.state = RunState::Finishing { fetches_left: 6 },
        Command::NotNow => model.first_run = None,
        Command::Begin { settings, .. } => {
            for setting in settings {
                Arc::make_mut(&mut model.settings).apply(setting);
            }
            model.first_run = None;
            model.state = RunState::Crawling;
        }
        Command::CheckSeeds(text) => {
            Arc::make_mut(&mut model.crawl).check = check(text);
        }
        Command::AddSeeds(seeds) => {
            Arc::make_mut(&mut model.crawl)
                .seeds
                .extend(seeds.iter().cloned());
        }
        Command::RemoveSeeds(gone) => {
            let crawl = Arc::make_mut(&mut model.crawl);
            crawl.seeds.retain(|seed| !gone.contains(seed));
        }
        Command::ReadJoinFile(_) => Arc::make_mut(&mut model.crawl).offer = Some(offer()),
        Command::AcceptJoin | Command::DeclineJoin => {
            Arc::make_mut(&mut model.crawl).offer = None;
        }
        _ => {}
    }
}

fn check(text: &str) -> SeedCheck {
    let line = |line: &str| SeedLine {
        text: line.trim().to_owned(),
        problem: (!line.trim().starts_with("http"))
            .then(|| "a web address begins with http:// or https://".to_owned()),
    };
    SeedCheck {
        text: text.to_owned(),
        lines: text
            .lines()
            .filter(|text| !text.trim().is_empty())
            .map(line)
            .collect(),
    }
}
