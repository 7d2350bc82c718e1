//! Block 5: the URL range validator, which knows whose a URL is.
//!
//! URLs come from the extractors, from redirects, from seeds and from other peers.
//! What the crawl does not want is turned away here, before anybody is bothered with
//! it, and so is what names a private address outright: a name is judged when it is
//! looked up. What is of our own range goes to the preprocessor, host by host; the rest
//! goes into the outbox, to be handed on.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use peercrawl_overlay::{PeerId, guard};

use crate::activity::How;
use crate::canonical::CanonicalUrl;
use crate::counters::Counters;
use crate::crawl::{Crawl, Crawls, Unwanted};
use crate::crawl_jobs::{Site, SiteRecordError};
use crate::distribution::{Key, Owner};
use crate::engine::View;
use crate::fingerprint::url_fingerprint;
use crate::handing_on::Outbox;
use crate::preprocessor::{Admission, Candidate, Preprocessor};
use crate::record::UrlRecord;

/// See the module.
pub struct UrlRangeValidator {
    /// Who owns what, at present.
    pub view: Arc<View>,
    /// Block 1, for what is ours.
    pub preprocessor: Arc<Preprocessor>,
    /// Where the rest waits to be handed on.
    pub outbox: Arc<Outbox>,
    /// Whether URLs may name private addresses.
    pub allow_private: bool,
    /// What has been done.
    pub counters: Arc<Counters>,
}

/// What became of a URL that another peer sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reception {
    /// Ours, and dealt with.
    Stored,
    /// Ours, but there is no room now.
    Busy,
    /// Somebody else's.
    NotMine,
}

impl UrlRangeValidator {
    /// Sends URLs that this peer has met where they belong.
    pub fn route(&self, crawl: &Crawl, records: impl IntoIterator<Item = UrlRecord>) {
        let mut wanted = self.wanted(crawl, records);
        // Stable, so that URLs of one host keep the order of the page.
        wanted.sort_by_key(|candidate| candidate.key);
        let ownership = self.view.current();
        let mut wanted = wanted.into_iter().peekable();
        while let Some(key) = wanted.peek().map(|candidate| candidate.key) {
            let kin = std::iter::from_fn(|| wanted.next_if(|candidate| candidate.key == key));
            match ownership.owner(key) {
                Owner::Me => self.preprocessor.admit_own(crawl, kin),
                Owner::Peer(owner) => self.hand_on(kin, Some(owner)),
                Owner::Nobody => self.hand_on(kin, None),
            }
        }
    }

    fn hand_on(&self, kin: impl Iterator<Item = Candidate>, owner: Option<PeerId>) {
        for url in kin {
            self.counters.out_of_range.add(1);
            self.outbox.put(url, owner);
        }
    }

    /// Takes in a URL that another peer sent, or that comes back from the outbox, and tells
    /// what became of it.
    pub fn receive(&self, crawl: &Crawl, record: UrlRecord) -> Reception {
        let Some(candidate) = self.wanted(crawl, [record]).pop() else {
            // Not wanted, and counted: there is nothing to come back to.
            return Reception::Stored;
        };
        match self.view.owner(candidate.key) {
            // What could not be written down would only pile up, and is sent again.
            Owner::Me if self.preprocessor.is_stalled() => Reception::Busy,
            Owner::Me => {
                let mut reception = Reception::Stored;
                self.preprocessor.admit(crawl, [candidate], |admission| {
                    if admission == Admission::NoRoom {
                        reception = Reception::Busy;
                    }
                });
                reception
            }
            Owner::Peer(_) | Owner::Nobody => Reception::NotMine,
        }
    }

    /// Takes in a site that another peer had, with those of its URLs that their crawls want.
    pub fn take_site(&self, mut site: Site, crawls: &Crawls) -> Result<(), SiteRecordError> {
        let host: Box<str> = site.host().into();
        let mut of_crawls = HashMap::new();
        let mut unknown = false;
        site.retain(|record| {
            let crawl = match of_crawls.entry(record.crawl) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => match crawls.get(record.crawl) {
                    Some(crawl) => new.insert(crawl),
                    None => {
                        unknown = true;
                        return false;
                    }
                },
            };
            !self.wanted(crawl, [record.clone()]).is_empty()
        });
        if unknown {
            return Err(SiteRecordError::UnknownCrawl(host));
        }
        self.preprocessor.take_in(site, &of_crawls)
    }

    /// Whether a URL names a private address, where those are not visited.
    pub fn refuses_address(&self, url: &CanonicalUrl) -> bool {
        !self.allow_private && is_private(url.host())
    }

    /// Those that the crawl wants, judged by the URL alone, and hashed.
    fn wanted(
        &self,
        crawl: &Crawl,
        records: impl IntoIterator<Item = UrlRecord>,
    ) -> Vec<Candidate> {
        let judged = records.into_iter().filter_map(|record| {
            let judgement = crawl
                .rules
                .judge(&record.url, record.depth, record.redirects);
            match judgement {
                Ok(()) if self.refuses_address(&record.url) => {
                    self.counters.blocked_address.add(1);
                    let activity = &self.counters.activity;
                    activity.turned_away(record.url.as_str(), How::Private, "");
                    None
                }
                Ok(()) => Some(Candidate {
                    key: Key::of_host(record.url.host()),
                    fingerprint: url_fingerprint(record.url.as_str()),
                    record,
                }),
                Err(Unwanted::OutOfScope) => {
                    self.counters.out_of_scope.add(1);
                    None
                }
                Err(Unwanted::Trap(trap)) => {
                    self.counters.trap(trap).add(1);
                    let activity = &self.counters.activity;
                    activity.turned_away(record.url.as_str(), How::Trap, trap.name());
                    None
                }
            }
        });
        judged.collect()
    }
}

/// Whether a host, as a URL writes it, is this computer or an address that is not public.
fn is_private(host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    match bare.parse::<IpAddr>() {
        Ok(address) => !guard::is_public(address),
        Err(_) => bare == "localhost" || bare.ends_with(".localhost"),
    }
}
