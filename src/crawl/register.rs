//! The crawls that this peer takes part in, and how many of them may be strangers'.
//!
//! The user's own crawls are always taken. Other peers' come with their URLs and sites: so
//! many of each peer and so many in all, by number and by bytes. Whoever asks for more is
//! turned away and may come again; meanwhile the crowd is thinned: a stranger's crawl goes
//! when nothing of it is left (no URL in a queue or in the outbox) and nobody has asked for
//! it since the last two looks, which covers pages on their way through this peer.
//!
//! A crawl is written down only when something of it is: a definition alone leaves no
//! trace on disk.
//!
//! A crawl of the user's with another scope or other bounds takes the place of those that
//! the user began before ([`Successions`]). Whoever fetches goes by what is in force
//! ([`Crawls::in_force`]); whatever travels goes with the definition of its own id
//! ([`Crawls::get`]), here and at other peers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use parking_lot::RwLock;
use peercrawl_overlay::PeerId;

use super::{Crawl, CrawlDefinition, CrawlId, Successions};
use crate::canonical::CanonicalForm;
use crate::fingerprint::url_fingerprint;
use crate::ledger::Ledger;

/// Crawls of strangers, in all.
pub const MOST_FOREIGN: usize = 1_024;
/// Crawls of one stranger.
pub const MOST_OF_ONE: usize = 128;
/// What the definitions of all strangers may take, in bytes.
const MOST_FOREIGN_BYTES: usize = 16 << 20;
/// What those of one stranger may take: more than the largest message.
const MOST_BYTES_OF_ONE: usize = 3 << 20;
/// Looks that a crawl outlives after it was last asked for.
const LOOKS: u8 = 2;

/// See the module.
#[derive(Default)]
pub struct Crawls {
    crawls: RwLock<HashMap<CrawlId, Place>>,
    /// Which of the user's took whose place. Locked before `crawls`, never after.
    successions: RwLock<Successions>,
    /// Whether some of them should go.
    is_crowded: AtomicBool,
    ledger: Arc<Ledger>,
}

/// A crawl in its place.
struct Place {
    crawl: Arc<Crawl>,
    origin: Origin,
    /// About what its definition takes.
    bytes: usize,
    /// Looks that it has outlived since it was last asked for.
    looks: AtomicU8,
}

/// How this peer came to take part in a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Its user wants it.
    Own,
    /// An earlier run took part in it, for whatever reason.
    Earlier,
    /// This peer has sent something of it.
    Peer(PeerId),
}

impl Crawls {
    /// None yet; the ledger is told of each of which something is kept.
    pub fn new(ledger: Arc<Ledger>) -> Self {
        Self {
            ledger,
            ..Self::default()
        }
    }

    /// Takes part in a crawl that this peer's user wants, and writes that down. It takes
    /// the place of what the user began before under other rules, and begins again.
    pub fn add(&self, definition: CrawlDefinition, form: &CanonicalForm) -> Arc<Crawl> {
        let crawl = self.insert(definition, form, Origin::Own);
        crawl.keep(&self.ledger);
        let mut successions = self.successions.write();
        if successions.in_force().contains(&crawl.id) {
            // Begun before, in this run or an earlier one: it goes on.
            return crawl;
        }
        let others = successions.in_force().iter().filter_map(|&id| self.get(id));
        let (beside, outdated): (Vec<_>, Vec<_>) =
            others.partition(|other| other.definition.has_rules_of(&crawl.definition));
        if !successions.in_force().is_empty() {
            let begun = beside.iter().flat_map(|other| &other.definition.seeds);
            let begun: HashSet<&String> = begun.collect();
            let seeds = crawl.definition.seeds.iter();
            let begun = seeds.filter(|seed| begun.contains(seed));
            let begun = begun.filter_map(|seed| form.parse(seed).ok());
            crawl.begin_again(begun.map(|url| url_fingerprint(url.as_str())).collect());
        }
        let outdated: Vec<CrawlId> = outdated.iter().map(|other| other.id).collect();
        successions.begin(crawl.id, &outdated);
        self.count_inherited(&successions);
        self.ledger.successions(&successions);
        crawl
    }

    /// Takes part in a crawl again that an earlier run has written down.
    pub fn restore(&self, definition: CrawlDefinition, form: &CanonicalForm) -> Arc<Crawl> {
        let crawl = self.insert(definition, form, Origin::Earlier);
        crawl.is_kept.store(true, Relaxed);
        crawl
    }

    /// What the user has replaced in earlier runs; after those crawls are restored.
    pub fn restore_successions(&self, restored: Successions) {
        let mut successions = self.successions.write();
        *successions = restored;
        self.count_inherited(&successions);
    }

    /// Pages of definitions that were replaced count towards `max_pages` of those that are
    /// in force instead.
    fn count_inherited(&self, successions: &Successions) {
        let mut pages: HashMap<CrawlId, u64> = HashMap::new();
        for (&old, &new) in successions.replaced() {
            let fetched = self.get(old).map_or(0, |old| old.budget.pages());
            *pages.entry(new).or_default() += fetched;
        }
        for (id, pages) in pages {
            if let Some(crawl) = self.get(id) {
                crawl.budget.inherit(pages);
            }
        }
    }

    fn insert(
        &self,
        definition: CrawlDefinition,
        form: &CanonicalForm,
        origin: Origin,
    ) -> Arc<Crawl> {
        let id = definition.id();
        let mut crawls = self.crawls.write();
        let place = crawls
            .entry(id)
            .or_insert_with(|| Place::new(definition, form, origin));
        if origin == Origin::Own {
            place.origin = origin;
        }
        place.crawl.clone()
    }

    /// Takes part in a crawl that another peer has sent something of; `None` if there are
    /// too many already.
    pub fn add_from(
        &self,
        peer: PeerId,
        definition: CrawlDefinition,
        form: &CanonicalForm,
    ) -> Option<Arc<Crawl>> {
        let id = definition.id();
        if let Some(known) = self.get(id) {
            return Some(known);
        }
        // Compiled before anybody has to wait for it.
        let place = Place::new(definition, form, Origin::Peer(peer));
        let mut crawls = self.crawls.write();
        if let Some(known) = crawls.get(&id) {
            return Some(known.crawl.clone());
        }
        let (mut of_one, mut of_all) = ((0, 0), (0, 0));
        for other in crawls.values().filter(|place| place.origin != Origin::Own) {
            of_all = (of_all.0 + 1, of_all.1 + other.bytes);
            if other.origin == place.origin {
                of_one = (of_one.0 + 1, of_one.1 + other.bytes);
            }
        }
        let has_room = of_one.0 < MOST_OF_ONE
            && of_all.0 < MOST_FOREIGN
            && of_one.1 + place.bytes <= MOST_BYTES_OF_ONE
            && of_all.1 + place.bytes <= MOST_FOREIGN_BYTES;
        if !has_room || of_all.0 >= MOST_FOREIGN / 4 * 3 {
            self.is_crowded.store(true, Relaxed);
        }
        has_room.then(|| crawls.entry(id).or_insert(place).crawl.clone())
    }

    /// The crawl that URLs of this id are fetched for, and by whose rules: this one, or
    /// the one that took its place.
    pub fn in_force(&self, id: CrawlId) -> Option<Arc<Crawl>> {
        let in_force = self.successions.read().in_force_for(id);
        self.get(in_force)
    }

    /// The crawl of this very id, if this peer takes part in it.
    pub fn get(&self, id: CrawlId) -> Option<Arc<Crawl>> {
        let crawls = self.crawls.read();
        let place = crawls.get(&id)?;
        place.looks.store(0, Relaxed);
        Some(place.crawl.clone())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.crawls.read().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every crawl that is in force has fetched as many pages as it may.
    pub fn all_spent(&self) -> bool {
        let successions = self.successions.read();
        let crawls = self.crawls.read();
        let is_over = |(id, place): (&CrawlId, &Place)| {
            place.crawl.budget.is_spent() || successions.replaced().contains_key(id)
        };
        !crawls.is_empty() && crawls.iter().all(is_over)
    }

    /// Whether somebody was turned away, or soon will be.
    pub fn is_crowded(&self) -> bool {
        self.is_crowded.load(Relaxed)
    }

    /// Looks around: strangers' crawls of which nothing is left go, here and on disk.
    /// `in_use` are those of which something waits.
    pub fn forget_unused(&self, in_use: &HashSet<CrawlId>) {
        self.is_crowded.store(false, Relaxed);
        let mut gone = Vec::new();
        let mut has_idle = false;
        let successions = self.successions.read();
        let successors: HashSet<&CrawlId> = successions.replaced().values().collect();
        self.crawls.write().retain(|id, place| {
            // Whoever holds it is at work for it.
            let is_held = Arc::strong_count(&place.crawl) > 1;
            let is_in_use = in_use.contains(id) || successors.contains(id);
            if place.origin == Origin::Own || is_held || is_in_use {
                place.looks.store(0, Relaxed);
                return true;
            }
            let stays = place.looks.fetch_add(1, Relaxed) < LOOKS;
            has_idle |= stays;
            if !stays && place.crawl.is_kept.load(Relaxed) {
                gone.push(*id);
            }
            stays
        });
        if has_idle {
            // They are looked at again, or they would be here until somebody is turned
            // away.
            self.is_crowded.store(true, Relaxed);
        }
        self.ledger.crawls_over(&gone);
    }
}

impl Place {
    fn new(definition: CrawlDefinition, form: &CanonicalForm, origin: Origin) -> Self {
        let seeds = definition.seeds.iter();
        // Each seed is there twice: as it was written, and as a home of the rules.
        let bytes = 256 + seeds.map(|seed| 2 * seed.len() + 64).sum::<usize>();
        Self {
            crawl: Arc::new(Crawl::new(definition, form)),
            origin,
            bytes,
            looks: AtomicU8::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    const A: PeerId = PeerId::repeat(1);
    const B: PeerId = PeerId::repeat(2);

    fn definition(number: usize) -> CrawlDefinition {
        let mut definition = CrawlDefinition::from_settings(&config::Crawl::default());
        definition.seeds = vec![format!("http://a.example/{number}")];
        definition
    }

    fn form() -> CanonicalForm {
        CanonicalForm::new(&[])
    }

    /// A peer once refused its own user's crawl, because strangers had filled its list.
    #[test]
    fn strangers_are_bounded_and_the_user_is_not() {
        let (crawls, form) = (Crawls::default(), form());
        let taken = (0..1_030).filter(|&n| crawls.add_from(A, definition(n), &form).is_some());
        assert_eq!(taken.count(), MOST_OF_ONE);
        assert!(crawls.is_crowded());
        assert!(
            crawls.add_from(B, definition(2_000), &form).is_some(),
            "one peer takes no other peer's place"
        );
        for number in 0..3 * MOST_FOREIGN {
            let peer = PeerId([(number / 100) as u8 + 10; 32]);
            crawls.add_from(peer, definition(10_000 + number), &form);
        }
        assert_eq!(crawls.len(), MOST_FOREIGN);
        for own in 5_000..5_010 {
            crawls.add(definition(own), &form);
        }
        assert_eq!(crawls.len(), MOST_FOREIGN + 10);
    }

    #[test]
    fn definitions_are_bounded_in_bytes() {
        let (crawls, form) = (Crawls::default(), form());
        let mut large = definition(0);
        large.seeds = vec!["http://a.example/".repeat(20_000)];
        assert!(crawls.add_from(A, large.clone(), &form).is_some());
        for number in 0..100 {
            large.bounds.max_pages += 1;
            let peer = PeerId([number; 32]);
            crawls.add_from(peer, large.clone(), &form);
        }
        assert!(crawls.len() <= MOST_FOREIGN_BYTES / (2 * large.seeds[0].len()));
        assert!(crawls.add_from(B, definition(1), &form).is_some());
    }

    /// Narrowing a scope once stopped nothing: what waited kept the rules of its own id.
    #[test]
    fn other_rules_take_the_place_of_the_users_and_of_nobody_elses() {
        let (crawls, form) = (Crawls::default(), form());
        let narrow = |number| CrawlDefinition {
            scope: config::Scope::Host,
            ..definition(number)
        };
        let in_force = |of: &CrawlDefinition| crawls.in_force(of.id()).unwrap().id;
        crawls.add_from(A, definition(7), &form).unwrap();
        let [first, second] = [1, 2].map(|number| crawls.add(definition(number), &form));
        assert_eq!(
            in_force(&definition(1)),
            first.id,
            "other seeds are beside it"
        );
        for _ in 0..2 {
            first.budget.reserve().unwrap().complete();
            second.budget.reserve().unwrap().complete();
        }
        let third = crawls.add(narrow(3), &form);
        assert_eq!(in_force(&definition(1)), third.id);
        assert_eq!(in_force(&definition(2)), third.id);
        assert_eq!(in_force(&definition(7)), definition(7).id(), "a stranger's");
        let travels = crawls.get(first.id).unwrap();
        assert_eq!(travels.definition, definition(1), "under its own id");
        let mut bounded = narrow(3);
        bounded.bounds.max_pages = 5;
        let bounded = crawls.add(bounded, &form);
        bounded.budget.reserve().unwrap().complete();
        assert!(
            bounded.budget.reserve().is_none(),
            "four were fetched before"
        );
        assert!(!crawls.all_spent(), "the stranger's has no bound");
        crawls.add(definition(1), &form);
        assert_eq!(in_force(&narrow(3)), first.id, "the user went back to it");
    }

    #[test]
    fn what_is_over_makes_room_and_what_is_wanted_stays() {
        let (crawls, form) = (Crawls::default(), form());
        crawls.add(definition(0), &form);
        for number in 1..=MOST_OF_ONE {
            assert!(crawls.add_from(A, definition(number), &form).is_some());
        }
        let late = definition(MOST_OF_ONE + 1);
        assert!(crawls.add_from(A, late.clone(), &form).is_none());
        let in_use = HashSet::from([definition(1).id()]);
        let held = crawls.get(definition(2).id()).unwrap();
        for look in 0..=LOOKS {
            assert!(crawls.is_crowded(), "look {look}");
            assert!(crawls.len() > 4);
            assert!(crawls.get(definition(3).id()).is_some(), "asked for");
            crawls.forget_unused(&in_use);
        }
        assert_eq!(crawls.len(), 4, "own, in use, held, asked for");
        drop(held);
        assert!(crawls.add_from(A, late, &form).is_some());
    }
}
