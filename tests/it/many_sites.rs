//! Many more hosts than there is memory for.

use std::time::Duration;

use peercrawl::demo::web::{Naming, WebSpec};
use peercrawl::engine::tables::{SiteColumn, SiteQuery};
use peercrawl::engine::{Ending, Engine};
use peercrawl_overlay::memory::MemoryNetwork;
use tempfile::TempDir;

use crate::crew::{self, Settings, settings, web, whole};
use crate::durable::kept_peer;

const HOSTS: u32 = 6_000;
const PAGES: u32 = 18_000;
/// More sites than these have no room in the memory that there is.
const ROOM: usize = 4_000;

fn spec() -> WebSpec {
    WebSpec {
        page_bytes: 1_024,
        oddities: false,
        // One listener for all of them.
        naming: Naming::Names,
        ..WebSpec::new(HOSTS, PAGES, 31)
    }
}

fn little_memory() -> Settings {
    let mut settings = settings();
    settings.memory.limit_bytes = 64 << 20;
    settings
}

/// Waits for the end, and tells how many sites were in memory at most.
fn most_sites(engine: &Engine) -> usize {
    let all = SiteQuery {
        search: String::new(),
        sort_by: SiteColumn::Fetched,
        descending: true,
        rows: 0..0,
    };
    let mut most = 0;
    loop {
        let table = engine.sites(&all);
        most = most.max(table.total - table.away);
        if let Some(ending) = engine.wait(Duration::from_millis(50)) {
            assert_eq!(ending, Ending::Complete);
            return most;
        }
    }
}

/// They take turns: each is on disk while another is in memory, and no page is missed.
#[test]
fn hosts_beyond_memory_wait_on_disk() {
    let (web, data, settings) = (web(spec()), TempDir::new().unwrap(), little_memory());
    let engine = kept_peer(&web, data.path(), &settings, &MemoryNetwork::new());
    engine.begin(whole(&web, &settings)).unwrap();
    let most = most_sites(&engine);
    assert!(most <= ROOM, "{most} sites");
    let report = engine.shutdown();
    assert_eq!(web.unserved(&web.truth()), [""; 0], "{report:?}");
    assert_eq!(report.pages, u64::from(PAGES));
    assert_eq!(web.log().fetched_twice, 0);
}

/// Without a data directory there is nowhere to wait: the rest is turned away, and counted.
#[test]
fn without_a_disk_hosts_beyond_memory_are_turned_away() {
    let (web, settings) = (web(spec()), little_memory());
    let engine = crew::engine(&settings, &MemoryNetwork::new(), 1, &web);
    engine.begin(whole(&web, &settings)).unwrap();
    let most = most_sites(&engine);
    assert!(most <= ROOM, "{most} sites");
    let report = engine.shutdown();
    assert!(report.urls.refused_overflow > 0, "{report:?}");
    assert_eq!(web.log().fetched_twice, 0);
}
