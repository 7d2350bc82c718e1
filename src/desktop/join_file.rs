//! Join files: what a friend needs to take part in a crawl.
//!
//! A join file is a config file with few keys: the network and how to find it, what its
//! peers must agree on, and what is crawled. It comes from somebody else, so nothing but
//! these keys is taken from it, and what it would do is shown before it is done.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::Path;

use peercrawl_ui::format;
use peercrawl_ui::model::{JoinOffer, OverlayKind};
use toml_edit::{Array, DocumentMut, Item, Table, TomlError, Value};

use super::addresses;
use crate::canonical::CanonicalForm;
use crate::config::{BUILT_IN, OverlayChoice, Scope, Settings};
use crate::crawl::CrawlDefinition;
use crate::message::can_travel;

/// The keys that a join file may set.
const KEYS: &[&str] = &[
    "overlay.network",
    "overlay.kind",
    "overlay.bootstrap",
    "distribution.kind",
    "distribution.replicas",
    "distribution.peers",
    "crawl.seeds",
    "crawl.scope",
    "crawl.max_depth",
    "crawl.max_pages",
    "crawl.max_pages_per_site",
    "crawl.max_queries_per_path",
    "crawl.max_url_bytes",
    "crawl.max_segment_repeats",
    "crawl.max_redirects",
    "crawl.session_ids",
];

/// A join file is read up to this size.
const MOST_BYTES: u64 = 1 << 20;
/// Peers that a join file may name.
const MOST_PEERS: usize = 100;

/// The first lines of a join file.
const HEAD: &str = "# A PeerCrawl join file. Whoever opens it with PeerCrawl is shown what it would do,\n\
                    # and takes part in this crawl if they agree.\n\n";

/// A join file that was read and found in order.
#[derive(Debug, Clone)]
pub struct JoinFile {
    /// All keys that a join file may set: those that it leaves out are as in a fresh crawl,
    /// not as in the one before.
    pub keys: BTreeMap<String, Value>,
    /// The settings that a fresh peer would have with it.
    pub settings: Settings,
}

/// Why a join file cannot be used, in words for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JoinError(String);

impl JoinFile {
    /// Reads one.
    pub fn read(path: &Path) -> Result<Self, JoinError> {
        let cannot = |error| JoinError(format!("The file cannot be read: {error}"));
        let file = std::fs::File::open(path).map_err(cannot)?;
        let mut text = String::new();
        let bounded = file.take(MOST_BYTES + 1).read_to_string(&mut text);
        bounded.map_err(cannot)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(JoinError(
                "The file is far too large for a join file.".into(),
            ));
        }
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, JoinError> {
        let wrong = |why: &dyn std::fmt::Display| {
            JoinError(format!("This is no join file that can be used: {why}"))
        };
        let document: DocumentMut = text.parse().map_err(|error| wrong(&error))?;
        let mut keys = usual_values().map_err(|error| wrong(&error))?;
        for (section, item) in document.iter() {
            let table = item.as_table_like();
            let table = table.ok_or_else(|| wrong(&format!("it sets `{section}`")))?;
            for (name, item) in table.iter() {
                let key = format!("{section}.{name}");
                match item.as_value() {
                    Some(value) if KEYS.contains(&key.as_str()) => {
                        keys.insert(key, value.clone().decorated("", ""));
                    }
                    _ => {
                        let why = format!("it would change `{key}`, which is yours to decide");
                        return Err(wrong(&why));
                    }
                }
            }
        }
        let mut settings = Settings::default();
        settings
            .apply("join file", text)
            .map_err(|error| wrong(&error))?;
        let joined = Self { keys, settings };
        joined.check().map_err(|why| wrong(&why))?;
        Ok(joined)
    }

    fn check(&self) -> Result<(), String> {
        let (crawl, overlay) = (&self.settings.crawl, &self.settings.overlay);
        if crawl.seeds.is_empty() && overlay.bootstrap.is_empty() {
            return Err("it names neither a web site nor a peer".into());
        }
        let can_travel = can_travel(&definition(&self.settings));
        if !can_travel || overlay.bootstrap.len() > MOST_PEERS {
            return Err("it names too many web sites or peers".into());
        }
        let form = CanonicalForm::new(&crawl.session_ids);
        for seed in &crawl.seeds {
            form.parse(seed).map_err(|why| format!("{seed}: {why}"))?;
        }
        for address in &overlay.bootstrap {
            addresses::check(address).map_err(|why| format!("{address}: {why}"))?;
        }
        Ok(())
    }

    /// What it would do, for a peer with these settings.
    pub fn offer(&self, path: &Path, current: &Settings, is_crawling: bool) -> JoinOffer {
        let theirs = &self.settings;
        let ours = &current.overlay.network;
        let leaves = if is_crawling && *ours != theirs.overlay.network {
            format!(
                "You leave the crawl “{ours}” that runs now. What it has fetched stays, and what \
                 waits there goes on if you join it again."
            )
        } else if is_crawling && !definition(theirs).has_rules_of(&definition(current)) {
            "It is in the network that you are in: what waits there goes on by its rules."
                .to_owned()
        } else if is_crawling && current.crawl.seeds != theirs.crawl.seeds {
            "It is in the network that you are in: the crawl that runs now goes on beside it."
                .to_owned()
        } else {
            String::new()
        };
        let leaves = [leaves, self.replaces(current)];
        let leaves = leaves.iter().filter(|words| !words.is_empty());
        let leaves: Vec<&str> = leaves.map(String::as_str).collect();
        JoinOffer {
            file: path.display().to_string(),
            network_name: theirs.overlay.network.clone(),
            overlay: match theirs.overlay.kind {
                OverlayChoice::Flat => OverlayKind::Flat,
                OverlayChoice::Supernode => OverlayKind::Supernode,
            },
            seeds: theirs.crawl.seeds.clone(),
            scope: format!("{}, {}", scope_words(theirs), depth_words(theirs)),
            peers: theirs.overlay.bootstrap.clone(),
            leaves: leaves.join(" "),
        }
    }

    /// What it would take the place of in these settings; empty if they lose nothing.
    fn replaces(&self, current: &Settings) -> String {
        let lost = |ours: &[String], theirs: &[String]| {
            let theirs: HashSet<&String> = theirs.iter().collect();
            ours.iter().filter(|one| !theirs.contains(one)).count() as u64
        };
        let theirs = &self.settings;
        let sites = lost(&current.crawl.seeds, &theirs.crawl.seeds);
        let peers = lost(&current.overlay.bootstrap, &theirs.overlay.bootstrap);
        let sites = (sites > 0).then(|| format::counted(sites, "web site", "web sites"));
        let peers = (peers > 0).then(|| format::counted(peers, "peer", "peers"));
        let what: Vec<String> = [sites, peers].into_iter().flatten().collect();
        match what.is_empty() {
            true => String::new(),
            false => format!(
                "It takes the place of {} on your own list. To keep that, make a join file of \
                 it first.",
                what.join(" and ")
            ),
        }
    }
}

fn definition(settings: &Settings) -> CrawlDefinition {
    CrawlDefinition::from_settings(&settings.crawl)
}

fn scope_words(settings: &Settings) -> &'static str {
    match settings.crawl.scope {
        Scope::Host => "only on these web sites",
        Scope::Domain => "on these web sites and others of the same name",
        Scope::Any => "anywhere that links lead",
    }
}

fn depth_words(settings: &Settings) -> String {
    match settings.crawl.max_depth {
        0 => "following no links".to_owned(),
        depth => {
            let links = format::counted(depth.into(), "link", "links");
            format!("at most {links} from the first page")
        }
    }
}

/// What the keys of a join file are in a fresh crawl.
fn usual_values() -> Result<BTreeMap<String, Value>, TomlError> {
    let document: DocumentMut = BUILT_IN.parse()?;
    let value = |key: &str| {
        let (section, name) = key.split_once('.')?;
        let value = document.get(section)?.get(name)?.as_value()?;
        Some((key.to_owned(), value.clone().decorated("", "")))
    };
    Ok(KEYS.iter().filter_map(|key| value(key)).collect())
}

/// The text of a join file for the crawl of these settings. A friend calls us at
/// `addresses`, or those whom we call.
pub fn text(settings: &Settings, addresses: &[String]) -> String {
    let (crawl, overlay) = (&settings.crawl, &settings.overlay);
    let usual = Settings::default();
    let list = |items: &mut dyn Iterator<Item = &String>| -> Value {
        let mut array: Array = items.map(String::as_str).collect();
        for item in array.iter_mut() {
            item.decor_mut().set_prefix("\n    ");
        }
        if !array.is_empty() {
            array.set_trailing_comma(true);
            array.set_trailing("\n");
        }
        array.into()
    };
    let mut document = DocumentMut::new();
    let mut set = |key: &str, value: Value| {
        let (section, name) = key.split_once('.').unwrap_or(("", key));
        let item = document
            .entry(section)
            .or_insert_with(|| Item::Table(Table::new()));
        if let Some(table) = item.as_table_like_mut() {
            table.insert(name, Item::Value(value));
        }
    };
    set("overlay.network", overlay.network.as_str().into());
    set("overlay.kind", word(&overlay.kind));
    let peers = addresses.iter().chain(&overlay.bootstrap);
    set("overlay.bootstrap", list(&mut peers.take(MOST_PEERS)));
    set("distribution.kind", word(&settings.distribution.kind));
    set("crawl.seeds", list(&mut crawl.seeds.iter()));
    set("crawl.scope", word(&crawl.scope));
    set("crawl.max_depth", i64::from(crawl.max_depth).into());
    // All peers of a crawl keep the same bounds; those that are as usual go without saying.
    let (ours, theirs) = (&settings.distribution, &usual.distribution);
    let numbers = [
        (
            "distribution.replicas",
            ours.replicas.into(),
            theirs.replicas.into(),
        ),
        ("distribution.peers", ours.peers.into(), theirs.peers.into()),
        ("crawl.max_pages", crawl.max_pages, usual.crawl.max_pages),
        (
            "crawl.max_pages_per_site",
            crawl.max_pages_per_site.into(),
            usual.crawl.max_pages_per_site.into(),
        ),
        (
            "crawl.max_queries_per_path",
            crawl.max_queries_per_path.into(),
            usual.crawl.max_queries_per_path.into(),
        ),
        (
            "crawl.max_url_bytes",
            crawl.max_url_bytes.into(),
            usual.crawl.max_url_bytes.into(),
        ),
        (
            "crawl.max_segment_repeats",
            crawl.max_segment_repeats.into(),
            usual.crawl.max_segment_repeats.into(),
        ),
        (
            "crawl.max_redirects",
            crawl.max_redirects.into(),
            usual.crawl.max_redirects.into(),
        ),
    ];
    for (key, ours, usual) in numbers {
        let ours: u64 = ours;
        if ours != usual {
            set(key, Value::from(ours as i64));
        }
    }
    if crawl.session_ids != usual.crawl.session_ids {
        set("crawl.session_ids", list(&mut crawl.session_ids.iter()));
    }
    format!("{HEAD}{document}")
}

/// The word that a choice is in the config file.
fn word(choice: &impl clap::ValueEnum) -> Value {
    let value = choice.to_possible_value();
    let word = value.map_or_else(String::new, |value| value.get_name().to_owned());
    word.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DistributionChoice;

    fn settings() -> Settings {
        let mut settings = Settings::default();
        settings.overlay.network = "old \"maps\"".into();
        settings.overlay.kind = OverlayChoice::Supernode;
        settings.distribution.kind = DistributionChoice::Consistent;
        settings.distribution.replicas = 77;
        settings.crawl.seeds = vec!["https://maps.example/".into()];
        settings.crawl.scope = Scope::Domain;
        settings.crawl.max_pages_per_site = 9;
        settings
    }

    #[test]
    fn a_friend_gets_the_same_crawl() {
        let ours = settings();
        let address = "/ip4/192.0.2.7/tcp/4001".to_owned();
        let text = text(&ours, std::slice::from_ref(&address));
        let joined = JoinFile::parse(&text).unwrap();
        let theirs = &joined.settings;
        assert_eq!(theirs.overlay.network, ours.overlay.network);
        assert_eq!(theirs.overlay.kind, ours.overlay.kind);
        assert_eq!(theirs.overlay.bootstrap, [address]);
        assert_eq!(theirs.distribution, ours.distribution);
        let id = |settings: &Settings| definition(settings).id();
        assert_eq!(id(theirs), id(&ours), "one crawl, not two:\n{text}");
        // Key by key, as it is written into the friend's own config file.
        let mut again = Settings::default();
        for (key, value) in &joined.keys {
            again.apply_flag(&format!("{key}={value}")).unwrap();
        }
        assert_eq!(again, joined.settings);
    }

    /// The rules of the crawl before stayed, although the offer did not show them.
    #[test]
    fn what_a_file_leaves_out_is_as_in_a_fresh_crawl() {
        let joined = JoinFile::parse("[crawl]\nseeds = ['http://a.example/']\n").unwrap();
        assert_eq!(joined.keys.len(), KEYS.len());
        let mut ours = settings();
        for (key, value) in &joined.keys {
            ours.apply_flag(&format!("{key}={value}")).unwrap();
        }
        assert_eq!(ours, joined.settings);
    }

    #[test]
    fn what_becomes_of_the_crawl_that_runs_is_told_as_it_is() {
        let (file, mut theirs) = (Path::new("x.peercrawl"), settings());
        let leaves = |theirs: &Settings, is_crawling| {
            let joined = JoinFile::parse(&text(theirs, &[])).unwrap();
            joined.offer(file, &settings(), is_crawling).leaves
        };
        assert_eq!(leaves(&theirs, true), "", "the same crawl");
        theirs.crawl.seeds = vec!["https://globes.example/".into()];
        assert!(leaves(&theirs, true).contains("goes on beside it"));
        theirs.crawl.max_depth = 3;
        assert!(leaves(&theirs, true).contains("goes on by its rules"));
        theirs.overlay.network = "globes".into();
        let words = leaves(&theirs, true);
        assert!(words.contains("leave the crawl “old \"maps"), "{words}");
        // None runs: the volunteer's own list went without a word.
        let words = leaves(&theirs, false);
        assert!(
            words.starts_with("It takes the place of 1 web site on"),
            "{words}"
        );
        theirs = settings();
        theirs.overlay.network = "globes".into();
        assert_eq!(leaves(&theirs, false), "", "nothing is lost");
        let mut ours = settings();
        ours.overlay.bootstrap = vec!["/ip4/192.0.2.7/tcp/4001".into()];
        ours.crawl.seeds.push("https://atlas.example/".into());
        let joined = JoinFile::parse(&text(&theirs, &[])).unwrap();
        let words = joined.offer(file, &ours, false).leaves;
        assert!(words.contains("1 web site and 1 peer"), "{words}");
    }

    #[test]
    fn how_far_it_goes_is_told() {
        let mut theirs = settings();
        theirs.crawl.max_depth = 1;
        let joined = JoinFile::parse(&text(&theirs, &[])).unwrap();
        let scope = joined.offer(Path::new("x"), &settings(), false).scope;
        let depth = "of the same name, at most 1 link from the first page";
        assert!(scope.ends_with(depth), "{scope}");
    }

    /// They were written into the config, and then nothing could start.
    #[test]
    fn more_web_sites_than_peers_can_be_told_of_are_refused() {
        let mut theirs = settings();
        let site = |number| format!("https://{number}.example/{}", "x".repeat(90));
        theirs.crawl.seeds = (0..4_000).map(site).collect();
        assert!(JoinFile::parse(&text(&theirs, &[])).is_ok());
        theirs.crawl.seeds = (0..6_000).map(site).collect();
        let refused = JoinFile::parse(&text(&theirs, &[])).unwrap_err();
        assert!(refused.to_string().contains("too many"), "{refused}");
    }

    #[test]
    fn it_may_not_touch_what_is_the_volunteers_own() {
        let refused = |text: &str| JoinFile::parse(text).unwrap_err().to_string();
        let seeds = "[crawl]\nseeds = ['http://a.example/']\n";
        assert!(JoinFile::parse(seeds).is_ok());
        let private = format!("{seeds}[network]\nallow_private = true\n");
        assert!(refused(&private).contains("network.allow_private"));
        assert!(refused("[crawl]\nblocked_sites = []\n").contains("yours to decide"));
        assert!(refused("[crawl]\n").contains("neither a web site nor a peer"));
        assert!(refused("[crawl]\nseeds = ['ftp://a.example/']\n").contains("ftp://a.example/"));
        assert!(refused("[overlay]\nbootstrap = ['a.example:80']\n").contains("a.example:80"));
        assert!(refused("not toml").contains("no join file"));
        assert!(refused("crawl = 1").contains("crawl"));
    }
}
