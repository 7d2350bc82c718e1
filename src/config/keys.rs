//! Every key: its section, its type, its default, and what it takes.

use toml_edit::Value;

use crate::canonical::DEFAULT_SESSION_IDS;
use crate::conditions::DayHours;

use super::text;
use super::value::{Allowed, Allowed::Any, Allowed::Between, Allowed::Text, Setting, choice};

choice! {
    /// How far from its seeds a crawl may go.
    Scope {
        /// Only the seeds' own hosts.
        Host = "host",
        /// Any host under the seeds' registered domains.
        Domain = "domain",
        /// Anywhere.
        Any = "any",
    }
}

choice! {
    /// Which function decides who is responsible for a key.
    DistributionChoice {
        /// Equal ranges, by number.
        Static = "static",
        /// A ring of replicas seeded by the members' ids.
        Consistent = "consistent",
        /// Weighted highest random weight.
        Rendezvous = "rendezvous",
    }
}

choice! {
    /// How peers are connected.
    OverlayChoice {
        /// All are equal, and messages for others are broadcast.
        Flat = "flat",
        /// Some route for the others.
        Supernode = "supernode",
    }
}

choice! {
    /// The colours of the window.
    Theme {
        /// As the desktop has them.
        System = "system",
        /// Dark on light.
        Light = "light",
        /// Light on dark.
        Dark = "dark",
    }
}

choice! {
    /// What closing the window does.
    OnClose {
        /// It asks.
        Ask = "ask",
        /// The crawl goes on without it.
        KeepCrawling = "keep-crawling",
        /// The program ends.
        Quit = "quit",
    }
}

/// Writes the sections as structs, the defaults, the list of keys, and the one
/// function that sets a key by its name.
macro_rules! settings {
    ($($(#[$section_doc:meta])* $section:ident: $type:ident {
        $($(#[$doc:meta])* $key:ident: $kind:ty = $default:expr, $allowed:expr;)+
    })+) => {
        $(
            $(#[$section_doc])*
            #[derive(Debug, Clone, PartialEq)]
            pub struct $type { $($(#[$doc])* pub $key: $kind,)+ }

            impl Default for $type {
                fn default() -> Self {
                    Self { $($key: $default,)+ }
                }
            }
        )+

        /// All settings, by section.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct Settings { $($(#[$section_doc])* pub $section: $type,)+ }

        /// The names of the sections, in the order of the file.
        pub const SECTIONS: &[&str] = &[$(stringify!($section)),+];

        /// The full name of every key, in the order of the file.
        pub const KEYS: &[&str] = &[$($(concat!(stringify!($section), ".", stringify!($key)),)+)+];

        impl Settings {
            /// Sets the key of this name, or says what is wrong with it.
            pub(super) fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
                match key {
                    $($(concat!(stringify!($section), ".", stringify!($key)) => {
                        const ALLOWED: Allowed = $allowed;
                        self.$section.$key = <$kind>::read(value, ALLOWED).ok_or_else(|| format!(
                            "`{key}` cannot be {}; allowed: {}",
                            value.clone().decorated("", ""), <$kind>::describe(ALLOWED)
                        ))?;
                        Ok(())
                    })+)+
                    _ => Err(self.unknown_key(key)),
                }
            }
        }
    };
}

/// The page about the bot before anybody has published one: an address that belongs to
/// nobody, and never will.
pub const UNPUBLISHED_BOT_PAGE: &str = "https://peercrawl.example/bot";
choice! {
    /// What happens when the archive has all the disk that it may have.
    WhenFull {
        /// The crawl pauses.
        Stop = "stop",
        /// The oldest files are removed.
        RemoveOldest = "remove-oldest",
    }
}

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;
const MIB: u64 = 1 << 20;

settings! {
    /// What to crawl, and how far.
    crawl: Crawl {
        /// Where the crawl begins.
        seeds: Vec<String> = vec![], Text(text::is_web_address, "a list of web addresses, each with http:// or https://");
        /// How far it may go from there.
        scope: Scope = Scope::Any, Any("");
        /// Complete pages, all together; 0 for no bound.
        max_pages: u64 = 0, Between(0, 1 << 40);
        /// Links from a seed to a page at most.
        max_depth: u16 = 100, Between(0, 10_000);
        /// Pages of one host at most.
        max_pages_per_site: u32 = 100_000, Between(1, 1 << 30);
        /// Different queries of one path at most.
        max_queries_per_path: u32 = 1_000, Between(1, 1 << 30);
        /// Length of a URL at most.
        max_url_bytes: u32 = 2_048, Between(64, 16_384);
        /// How often one path segment may occur in a URL.
        max_segment_repeats: u16 = 3, Between(1, 1_000);
        /// Redirects in a row at most.
        max_redirects: u8 = 5, Between(0, 50);
        /// A crawl that is to end does so when no host may be asked within so long.
        patience_secs: u64 = 60, Between(0, SECONDS_PER_DAY);
        /// Query and path parameters that are left out of a URL.
        session_ids: Vec<String> = DEFAULT_SESSION_IDS.iter().map(|&id| id.into()).collect(), Any("a list of parameter names; a trailing * stands for any ending");
        /// Hosts and domains that are never visited.
        blocked_sites: Vec<String> = vec![], Text(text::is_block_entry, "a list of host names; \"example.org\" stands for its subdomains too");
        /// A file with more of them, read again when it changes.
        block_file: String = String::new(), Any("a file of host names, one a line, or nothing");
    }

    /// How gently servers are treated.
    politeness: Politeness {
        /// The product token that robots.txt rules are looked up by.
        agent: String = "peercrawl".into(), Text(text::is_product_token, "a product token: letters, - and _");
        /// The page about the bot that servers are told of.
        bot_page: String = UNPUBLISHED_BOT_PAGE.into(), Text(text::is_bot_page, "a web address in ASCII letters, or nothing");
        /// Least time between two requests to a public host or address.
        delay_ms: u64 = 1_000, Between(500, 3_600_000);
        /// Most that a slow server's own pace can ask for; not less than `delay_ms`.
        max_delay_ms: u64 = 30_000, Between(500, 3_600_000);
        /// The delay is this many times the server's own response time, between the two above.
        response_factor: u32 = 10, Between(0, 1_000);
        /// Least time between two requests to a private host, where those are allowed.
        private_delay_ms: u64 = 0, Between(0, 3_600_000);
        /// Whether hosts that share a private address share its delay.
        private_per_address: bool = false, Any("");
        /// Rest after a first failure of a public host; it doubles with each further one.
        backoff_ms: u64 = 2_000, Between(1_000, 3_600_000);
        /// The same for a private host.
        private_backoff_ms: u64 = 100, Between(0, 3_600_000);
        /// How often a URL is tried when its server is busy or breaks off.
        max_attempts: u8 = 3, Between(1, 100);
        /// A host that fails so often in a row is given up.
        max_host_failures: u8 = 5, Between(1, 100);
    }

    /// What happens when many sites turn this peer away.
    reputation: Reputation {
        /// Whether the peer then slows down as a whole.
        enabled: bool = true, Any("");
        /// Answers of so long ago do not count any more.
        window_secs: u64 = 600, Between(1, SECONDS_PER_DAY);
        /// Sites that must have answered before they are judged by.
        min_sites: usize = 10, Between(2, 10_000);
        /// Share of them that refuse (403, 429, challenge pages) from which it slows down.
        refused_percent: u8 = 30, Between(2, 100);
        /// Least time between two steps, slower or faster.
        step_secs: u64 = 60, Between(1, SECONDS_PER_DAY);
    }

    /// What may be reached, and how large and slow an answer may be.
    network: Network {
        /// Whether loopback, private and other special addresses may be visited.
        allow_private: bool = false, Any("");
        /// Ports of public addresses that may be visited.
        ports: Vec<u16> = vec![80, 443, 8_000, 8_080, 8_443], Between(1, 65_535);
        /// Time to connect, TLS not included.
        connect_timeout_ms: u64 = 10_000, Between(10, 600_000);
        /// Time for a whole request, from the first byte sent to the last byte read.
        fetch_timeout_ms: u64 = 60_000, Between(10, 3_600_000);
        /// Header of an answer at most.
        max_header_bytes: usize = 65_536, Between(1_024, MIB);
        /// Body of an answer at most, before and after decompression.
        max_body_bytes: usize = 4 << 20, Between(1_024, 256 * MIB);
        /// Kinds of content that are fetched; of others, only the header is read.
        content_types: Vec<String> = [
            "text/*", "image/*", "application/xhtml+xml", "application/xml", "application/*+xml",
            "application/json", "application/*+json", "application/javascript", "application/pdf",
            "application/rtf", "application/msword", "application/vnd.*", "application/epub+zip",
        ].map(String::from).to_vec(), Any("a list of content types; a * stands for anything");
        /// Bytes a second that a server must send on average; 0 for no bound.
        min_bytes_per_sec: u64 = 256, Between(0, 1 << 30);
        /// Waiting time for an answer's bytes before that bound holds.
        slow_grace_ms: u64 = 10_000, Between(10, 3_600_000);
        /// Connections kept open between requests at most.
        idle_connections: usize = 256, Between(0, 65_536);
        /// How long a connection is kept open between requests.
        idle_secs: u64 = 15, Between(0, 3_600);
        /// Name look-ups under way at once.
        resolvers: usize = 16, Between(1, 256);
        /// How long an answer of the name service is trusted.
        dns_lifetime_secs: u64 = 600, Between(1, SECONDS_PER_DAY);
        /// How long it is believed that a name leads nowhere.
        dns_failure_secs: u64 = 10, Between(0, SECONDS_PER_DAY);
    }

    /// How many threads share the work.
    threads: Threads {
        /// Fetches under way at once, as far as `memory.limit_bytes` has room for them.
        downloaders: usize = 32, Between(1, 4_096);
        /// Pages read for links at once; 0 for one to each processor.
        extractors: usize = 0, Between(0, 256);
    }

    /// How much may wait.
    queues: Queues {
        /// URLs waiting for one host at most.
        site_urls: usize = 50_000, Between(1, 1 << 30);
        /// URLs waiting for all hosts at most.
        total_urls: usize = 1_000_000, Between(1, 1 << 32);
        /// Hosts known at most.
        sites: usize = 1_000_000, Between(1, 1 << 32);
        /// How much work one host may have queued, in hours at its own pace.
        horizon_hours: u64 = 24, Between(1, 24 * 365);
        /// Fill (percent of total_urls) from which only shallow URLs are taken in.
        shallow_percent: u8 = 75, Between(1, 100);
        /// Fill from which nothing more is taken in.
        refuse_percent: u8 = 95, Between(1, 100);
        /// Fill at which a state of overflow is left again.
        leave_percent: u8 = 60, Between(0, 99);
        /// Links from a seed that still count as shallow.
        shallow_depth: u16 = 3, Between(0, 10_000);
        /// Pages that wait for a verdict or for the extractor at most.
        pages: usize = 256, Between(1, 65_536);
        /// Memory that those pages may hold at most.
        pages_bytes: usize = 32 << 20, Between(MIB, 1 << 40);
    }

    /// What is kept of the pages.
    archive: Archive {
        /// Whether pages are kept, as WARC files.
        enabled: bool = true, Any("");
        /// Disk that they may take, indexes included; 0 for no bound.
        limit_bytes: u64 = 10_000_000_000, Between(0, 1 << 50);
        /// What happens when they have it.
        when_full: WhenFull = WhenFull::Stop, Any("");
        /// A file of this size is complete, and the next one begins.
        file_bytes: u64 = 256 << 20, Between(MIB, 1 << 40);
        /// Whether the links of a page are kept with it.
        links: bool = true, Any("");
    }

    /// How much memory all of it may take.
    memory: Memory {
        /// What is over goes to disk, where a data directory is kept.
        limit_bytes: u64 = 256 << 20, Between(64 * MIB, 1 << 40);
    }

    /// How it is found out whether a page's content was seen.
    content: Content {
        /// How long a claim is held for a peer that does not confirm it.
        claim_secs: u64 = 600, Between(1, SECONDS_PER_DAY);
        /// How long the owner of a fingerprint has to answer.
        answer_ms: u64 = 5_000, Between(10, 600_000);
        /// Claims in one message at most.
        batch_claims: usize = 64, Between(1, 10_000);
    }

    /// How URLs reach the peers that they belong to.
    handing_on: HandingOn {
        /// URLs that wait for their owner's receipt at most; fewer if they are long, or if they
        /// would take more than an eighth of `memory.limit_bytes`.
        outbox_urls: usize = 100_000, Between(1, 1 << 30);
        /// URLs in one message at most.
        batch_urls: usize = 500, Between(1, 10_000);
        /// How long a URL may wait for its message to fill.
        flush_ms: u64 = 250, Between(1, 60_000);
        /// How long a receipt is waited for before a URL is sent again.
        resend_ms: u64 = 2_000, Between(10, 600_000);
    }

    /// The record of every request.
    receipts: Receipts {
        /// Whether one is kept, in the data directory.
        enabled: bool = true, Any("");
        /// Size of one of its files at most.
        file_bytes: u64 = 16 << 20, Between(4_096, 1 << 40);
        /// Files at most; then the oldest go.
        files: usize = 16, Between(2, 10_000);
    }

    /// How much of the volunteer's line and computer may be used; 0 is unlimited everywhere.
    limits: Limits {
        /// Download at most, in KiB/s.
        download_kib: u32 = 0, Between(0, 1 << 22);
        /// Upload at most, in KiB/s.
        upload_kib: u32 = 0, Between(0, 1 << 22);
        /// Pages a minute at most.
        pages_per_min: u32 = 0, Between(0, 100_000_000);
        /// Fetches under way at once at most.
        connections: u32 = 0, Between(0, 4_096);
        /// Share of the processor at most, in percent; 100 is the whole of it, too.
        cpu_percent: u32 = 0, Between(0, 100);
        /// Data in thirty days at most, both ways together, in GB of 10⁹ bytes.
        monthly_gb: u32 = 0, Between(0, 1_000_000);
        /// Whether the limits of slow mode hold, too.
        slow_mode: bool = false, Any("");
        /// Download at most in slow mode, in KiB/s.
        slow_download_kib: u32 = 64, Between(0, 1 << 22);
        /// Upload at most in slow mode, in KiB/s.
        slow_upload_kib: u32 = 16, Between(0, 1 << 22);
    }

    /// At which hours of the week it may run.
    schedule: Schedule {
        /// Whether the schedule is kept.
        enabled: bool = false, Any("");
        /// The hours of Monday.
        monday: DayHours = DayHours::ALL_DAY, Any("");
        /// The hours of Tuesday.
        tuesday: DayHours = DayHours::ALL_DAY, Any("");
        /// The hours of Wednesday.
        wednesday: DayHours = DayHours::ALL_DAY, Any("");
        /// The hours of Thursday.
        thursday: DayHours = DayHours::ALL_DAY, Any("");
        /// The hours of Friday.
        friday: DayHours = DayHours::ALL_DAY, Any("");
        /// The hours of Saturday.
        saturday: DayHours = DayHours::ALL_DAY, Any("");
        /// The hours of Sunday.
        sunday: DayHours = DayHours::ALL_DAY, Any("");
    }

    /// When it pauses by itself.
    pause: Pause {
        /// While the computer runs on its battery.
        on_battery: bool = true, Any("");
        /// While the connection is paid by volume.
        on_metered: bool = true, Any("");
        /// While other programs keep the processor busy.
        when_busy: bool = false, Any("");
        /// How busy that is, in percent of the whole processor.
        busy_percent: u32 = 50, Between(5, 100);
        /// While somebody uses the computer.
        while_used: bool = false, Any("");
        /// After so many minutes without a key or the mouse, nobody uses it.
        unused_minutes: u32 = 5, Between(1, 1_440);
    }

    /// How peers find and reach each other.
    overlay: Overlay {
        /// How they are connected; all peers of a network use the same.
        kind: OverlayChoice = OverlayChoice::Flat, Any("");
        /// The name of the network; peers of another name are strangers.
        network: String = "peercrawl".into(), Any("a name");
        /// Where to listen for other peers.
        listen: Vec<String> = vec![
            "/ip4/0.0.0.0/tcp/0".into(), "/ip4/0.0.0.0/udp/0/quic-v1".into(),
        ], Text(text::is_multiaddress, "a list of multiaddresses, such as \"/ip4/0.0.0.0/tcp/0\"");
        /// Where to find the network.
        bootstrap: Vec<String> = vec![], Text(text::is_multiaddress, "a list of multiaddresses, such as \"/ip4/0.0.0.0/tcp/0\"");
        /// Whether to look for peers on the local network.
        mdns: bool = true, Any("");
        /// Whether to ask the router for a way in.
        upnp: bool = true, Any("");
        /// Whether this peer may route for others.
        allow_supernode: bool = true, Any("");
        /// Connections to other peers at most.
        max_connections: u32 = 200, Between(1, 10_000);
        /// Peers behind routers that may be reached through this one.
        relay_slots: u32 = 64, Between(0, 10_000);
        /// Connections between others that may lead through this peer at once.
        relay_circuits: u32 = 128, Between(0, 10_000);
        /// MiB that one of them may carry before it has to be made anew.
        relay_circuit_mib: u64 = 128, Between(1, 1 << 20);
        /// Minutes that one of them may last before it has to be made anew.
        relay_circuit_minutes: u32 = 60, Between(1, 10_080);
    }

    /// Who is responsible for which part of the web.
    distribution: Distribution {
        /// The function that decides it; all peers of a network use the same.
        kind: DistributionChoice = DistributionChoice::Rendezvous, Any("");
        /// Points of each member on the ring ("consistent").
        replicas: u32 = 200, Between(1, 10_000);
        /// Number of ranges ("static").
        peers: u32 = 1, Between(1, 1 << 20);
        /// Which of them is ours, counted from 0 ("static").
        index: u32 = 0, Between(0, 1 << 20);
        /// Our weight among the members; 0: as the download limit allows.
        capacity: u8 = 0, Between(0, 16);
    }
    /// The window.
    desktop: Desktop {
        /// Whether the first page has been answered: nothing is fetched before.
        first_run_done: bool = false, Any("");
        /// Whether the program starts with the desktop.
        start_at_login: bool = false, Any("");
        /// Its colours.
        theme: Theme = Theme::System, Any("");
        /// The size of text and everything else, in percent.
        text_percent: u32 = 100, Between(50, 300);
        /// What closing it does.
        on_close: OnClose = OnClose::Ask, Any("");
    }
}
