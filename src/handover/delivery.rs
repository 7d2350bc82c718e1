//! How crawls, sites and welcomes get to other peers, and what becomes of them.
//!
//! Each peer has its line: the crawls that it has to know, its sites, those of several parts
//! last and part by part, and its welcome. Many questions are under way at once, but few to
//! one peer: it has other messages to get. Whoever answers gets what is next in its line,
//! and nobody waits for anybody else. A round has its time; what is still under way then is
//! heard in a later one.
//!
//! What a peer refuses goes to the end of the line and is in nobody's way; only a peer that
//! is silent, or refuses one site after another, gets nothing more in that round. Who was
//! silent about a site may be on a slow line: it gets one at a time from then on, until it
//! has taken a few.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use peercrawl_overlay::{OverlayError, PeerId, Purpose, Reply};

use super::sender::{HandoverSender, Memory, tell_of_failure};
use super::transfers::SitePart;
use crate::crawl::CrawlId;
use crate::distribution::{Key, Owner};
use crate::engine::Offer;
use crate::message::Message;
use crate::preprocessor::Frozen;

/// How long a peer has to take in one part: it may be on a slow line, and has to bring the
/// last part to its disk.
pub(super) const PART_DEADLINE: Duration = Duration::from_secs(10);
/// How long it has to answer everything else.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);
/// Bytes in one part: they get through in that time even in slow mode.
const PART_BYTES: usize = 64 << 10;
/// Questions under way to one peer: a part of what the overlay has room for.
const AT_ONCE: usize = 16;
/// Bytes in them: they get through in that time with the limits that volunteers begin with.
const BYTES_AT_ONCE: usize = 256 << 10;
/// After so many refusals a peer gets no more sites in this round.
const MOST_REFUSALS: usize = 16;

/// A site that was frozen and has not reached its owner yet.
pub(super) struct OnTheWay {
    pub(super) key: Key,
    pub(super) site: Frozen,
    /// How far it has come, if it has set out.
    transfer: Option<Transfer>,
    /// Whether it was said why it cannot come back.
    pub(super) is_failure_told: bool,
}

/// How far a record has come.
#[derive(Clone, Copy)]
struct Transfer {
    to: PeerId,
    number: u64,
    /// Parts that have arrived.
    parts: usize,
}

impl OnTheWay {
    pub(super) fn new(key: Key, site: Frozen) -> Self {
        Self {
            key,
            site,
            transfer: None,
            is_failure_told: false,
        }
    }

    fn has_one_part(&self) -> bool {
        self.site.bytes.len() <= PART_BYTES
    }

    fn is_begun(&self, owner: PeerId) -> bool {
        self.transfer.is_some_and(|begun| begun.to == owner)
    }

    /// The part that its owner gets next.
    fn next_part(&mut self, owner: PeerId, transfers: &mut u64) -> SitePart {
        let transfer = match self.transfer {
            Some(begun) if begun.to == owner => begun,
            _ => {
                *transfers += 1;
                Transfer {
                    to: owner,
                    number: *transfers,
                    parts: 0,
                }
            }
        };
        self.transfer = Some(transfer);
        let mut parts = self.site.bytes.chunks(PART_BYTES).skip(transfer.parts);
        SitePart {
            transfer: transfer.number,
            part: transfer.parts as u32,
            bytes: parts.next().unwrap_or_default().to_vec(),
            is_last: parts.next().is_none(),
        }
    }

    /// One more part has arrived; true if it was the last one.
    fn part_arrived(&mut self) -> bool {
        let Some(transfer) = &mut self.transfer else {
            return false;
        };
        transfer.parts += 1;
        transfer.parts * PART_BYTES >= self.site.bytes.len()
    }
}

/// What a peer was asked to take.
enum Errand {
    Crawl(CrawlId),
    Site(OnTheWay),
    Welcome(Offer),
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The peer has it.
    Taken,
    /// It has heard it, and does not want it now.
    Refused,
    /// It will never take it.
    Unfit,
    /// It did not get there: there was no room, here or there.
    Lost,
    /// No answer in time.
    Silence,
}

/// A question whose answer is awaited.
pub(super) struct Asked {
    peer: PeerId,
    errand: Errand,
    reply: Reply,
    at: Instant,
    until: Instant,
    bytes: usize,
}

impl Asked {
    /// The site that it is about, if it is about one.
    pub(super) fn site(&self) -> Option<&OnTheWay> {
        match &self.errand {
            Errand::Site(frozen) => Some(frozen),
            Errand::Crawl(_) | Errand::Welcome(_) => None,
        }
    }
}

/// What a peer is to get in a round.
#[derive(Default)]
struct Line {
    /// What it offers, if it is a member.
    offer: Option<Offer>,
    /// Crawls that it has to know first: without them it could do nothing with the URLs.
    crawls: BTreeSet<CrawlId>,
    /// Its sites whose records are of one part.
    small: VecDeque<OnTheWay>,
    /// The others. The beginning of another would end the one that has begun, so that is the
    /// first.
    large: VecDeque<OnTheWay>,
    /// Those that wait for the next round: they were refused, or did not get there.
    later: Vec<OnTheWay>,
    /// Whether it was welcomed in this round. Who does not take that is welcomed again in the
    /// next one.
    is_welcomed: bool,
}

impl Line {
    /// A site is the next again.
    fn push_front(&mut self, frozen: OnTheWay) {
        match frozen.has_one_part() {
            true => self.small.push_front(frozen),
            false => self.large.push_front(frozen),
        }
    }
}

/// What happens in one round.
#[derive(Default)]
pub(super) struct Round {
    /// Who gets nothing more in it.
    pub(super) stopped: HashSet<PeerId>,
    /// Whose sites could not all be taken out yet.
    pub(super) to_come: HashSet<PeerId>,
    /// Sites and welcomes that have arrived.
    pub(super) arrived: usize,
    /// Parts that have, and were not the last ones.
    pub(super) parts: usize,
    /// Who cannot be asked before something else has been answered.
    crowded: BTreeSet<PeerId>,
    refusals: HashMap<PeerId, usize>,
    /// Who is to be told again of which crawl, in the next round.
    untold: Vec<(PeerId, CrawlId)>,
    lines: BTreeMap<PeerId, Line>,
    /// Sites that are in nobody's line.
    aside: Vec<OnTheWay>,
}

impl Round {
    /// One in which these get nothing.
    pub(super) fn without(stopped: HashSet<PeerId>) -> Self {
        Self {
            stopped,
            ..Self::default()
        }
    }
}

impl Memory {
    /// Whether a peer has enough to do before it is asked to take so much.
    fn is_busy(&self, peer: PeerId, bytes: usize) -> bool {
        let its = || self.under_way.iter().filter(|asked| asked.peer == peer);
        let is_slow = self.slow.contains_key(&peer);
        let (count, most) = (its().count(), if is_slow { 1 } else { AT_ONCE });
        let under_way: usize = its().map(|asked| asked.bytes).sum();
        count >= most || count > 0 && under_way + bytes > BYTES_AT_ONCE
    }

    /// Whether a peer has been asked such a thing and has not answered.
    fn is_asked(&self, peer: PeerId, is_it: impl Fn(&Errand) -> bool) -> bool {
        let mut asked = self.under_way.iter();
        asked.any(|asked| asked.peer == peer && is_it(&asked.errand))
    }
}

impl HandoverSender {
    /// Sends everybody what is theirs, until all of it is answered or the time is up.
    pub(super) fn deliver(
        &self,
        memory: &mut Memory,
        round: &mut Round,
        offers: &HashMap<PeerId, Offer>,
        until: Instant,
    ) {
        self.line_up(memory, round, offers);
        let peers: Vec<PeerId> = round.lines.keys().copied().collect();
        for peer in peers {
            self.serve(memory, round, peer);
        }
        while let Some(peer) = self.hear(memory, round, until) {
            self.serve(memory, round, peer);
            // What was heard has made room.
            for peer in std::mem::take(&mut round.crowded) {
                self.serve(memory, round, peer);
            }
        }
        for told in round.untold.drain(..) {
            memory.told.remove(&told);
        }
        // Those that were refused are at the end.
        let mut later = Vec::new();
        for line in std::mem::take(&mut round.lines).into_values() {
            memory
                .frozen
                .extend(line.small.into_iter().chain(line.large));
            later.extend(line.later);
        }
        memory.frozen.append(&mut round.aside);
        memory.frozen.append(&mut later);
    }

    /// Puts everything into its owner's line.
    fn line_up(&self, memory: &mut Memory, round: &mut Round, offers: &HashMap<PeerId, Offer>) {
        for (&peer, &offer) in offers {
            round.lines.entry(peer).or_default().offer = Some(offer);
        }
        for frozen in std::mem::take(&mut memory.frozen) {
            let Owner::Peer(owner) = self.view.owner(frozen.key) else {
                round.aside.push(frozen);
                continue;
            };
            let line = round.lines.entry(owner).or_default();
            let is_known = |id: &CrawlId| {
                let is_it = |errand: &Errand| matches!(errand, Errand::Crawl(asked) if asked == id);
                memory.told.contains(&(owner, *id))
                    || memory.too_large.contains(id)
                    || memory.is_asked(owner, is_it)
            };
            let crawls = frozen.site.crawls.iter().copied();
            line.crawls.extend(crawls.filter(|id| !is_known(id)));
            match frozen.has_one_part() {
                true => line.small.push_back(frozen),
                false if frozen.is_begun(owner) => line.large.push_front(frozen),
                false => line.large.push_back(frozen),
            }
        }
    }

    /// Asks a peer to take what is next in its line, and so on, while there is room for one
    /// more question to it.
    fn serve(&self, memory: &mut Memory, round: &mut Round, peer: PeerId) {
        while !round.stopped.contains(&peer) && !memory.is_busy(peer, 0) {
            let Some(errand) = self.next_errand(memory, round, peer) else {
                return;
            };
            let Some(errand) = self.ask(memory, round, peer, errand) else {
                continue;
            };
            match (round.lines.get_mut(&peer), errand) {
                (Some(line), Errand::Crawl(id)) => {
                    line.crawls.insert(id);
                }
                (Some(line), Errand::Site(frozen)) => line.push_front(frozen),
                (None, Errand::Site(frozen)) => round.aside.push(frozen),
                (Some(line), Errand::Welcome(_)) => line.is_welcomed = false,
                (None, Errand::Crawl(_) | Errand::Welcome(_)) => {}
            }
            return;
        }
    }

    /// What is next in a peer's line, if there is anything that need not wait for an answer.
    fn next_errand(&self, memory: &mut Memory, round: &mut Round, peer: PeerId) -> Option<Errand> {
        let line = round.lines.get_mut(&peer)?;
        if let Some(id) = line.crawls.pop_first() {
            return Some(Errand::Crawl(id));
        }
        if memory.is_asked(peer, |errand| matches!(errand, Errand::Crawl(_))) {
            return None;
        }
        let is_part = |errand: &Errand| matches!(errand, Errand::Site(one) if !one.has_one_part());
        loop {
            let next = match line.small.pop_front() {
                None if memory.is_asked(peer, is_part) => return None,
                None => line.large.pop_front(),
                small => small,
            };
            let Some(frozen) = next else { break };
            let crawls = &frozen.site.crawls;
            // Asked for even if it was told of: a crawl that is asked for is not forgotten.
            let is_lost = |id: &CrawlId| self.crawls.get(*id).is_none();
            if crawls
                .iter()
                .any(|id| is_lost(id) || memory.too_large.contains(id))
            {
                // Nobody knows what its URLs are for, here or there.
                self.keep(peer, memory, frozen);
            } else if crawls.iter().all(|&id| memory.told.contains(&(peer, id))) {
                return Some(Errand::Site(frozen));
            } else {
                // Its owner takes no part in one of them for now. Sites of others may go.
                line.later.push(frozen);
            }
        }
        let may_welcome = line.later.is_empty() && !line.is_welcomed;
        let offer = line.offer.filter(|_| may_welcome)?;
        let is_to_come = round.to_come.contains(&peer) || self.has_more_for(memory, peer);
        let is_said = |errand: &Errand| matches!(errand, Errand::Welcome(said) if *said == offer);
        let is_next = !memory.is_welcome(&peer, &offer) && !is_to_come;
        line.is_welcomed = is_next && !memory.is_asked(peer, is_said);
        line.is_welcomed.then_some(Errand::Welcome(offer))
    }

    /// Whether sites of a peer are on their way, to whomever, or could not be taken back.
    fn has_more_for(&self, memory: &Memory, peer: PeerId) -> bool {
        let is_its = |frozen: &OnTheWay| self.view.owner(frozen.key) == Owner::Peer(peer);
        let under_way = |asked: &Asked| {
            let is_its = |frozen| asked.peer == peer || is_its(frozen);
            asked.site().is_some_and(is_its)
        };
        memory.under_way.iter().any(under_way) || memory.frozen.iter().any(is_its)
    }

    /// Asks a peer to take something; gives it back if the peer cannot be asked now.
    fn ask(
        &self,
        memory: &mut Memory,
        round: &mut Round,
        peer: PeerId,
        mut errand: Errand,
    ) -> Option<Errand> {
        let (message, deadline) = match &mut errand {
            // Its sites are kept when it is their turn.
            Errand::Crawl(id) => (
                Message::Crawl(self.crawls.get(*id)?.definition.clone()),
                DEADLINE,
            ),
            Errand::Site(frozen) => {
                let part = frozen.next_part(peer, &mut memory.transfers);
                (Message::Site(part), PART_DEADLINE)
            }
            Errand::Welcome(offer) => (Message::Welcome(*offer), DEADLINE),
        };
        let bytes: Arc<[u8]> = match message.encode() {
            Ok(bytes) => bytes.into(),
            Err(error) => {
                tracing::error!("{peer} cannot be sent what is its own: {error}");
                match errand {
                    Errand::Crawl(id) => {
                        memory.too_large.insert(id);
                    }
                    Errand::Site(frozen) => self.keep(peer, memory, frozen),
                    Errand::Welcome(_) => {
                        round.stopped.insert(peer);
                    }
                }
                return None;
            }
        };
        if memory.is_busy(peer, bytes.len()) {
            return Some(errand);
        }
        let (at, size) = (Instant::now(), bytes.len());
        let asked = self
            .overlay
            .request(peer, Purpose::Handover, bytes, deadline);
        match asked {
            Ok(reply) => {
                memory.under_way.push(Asked {
                    peer,
                    errand,
                    reply,
                    at,
                    until: at + deadline,
                    bytes: size,
                });
                return None;
            }
            Err(OverlayError::Busy(_)) => round.crowded.insert(peer),
            Err(_) => round.stopped.insert(peer),
        };
        Some(errand)
    }

    /// Waits for the next answer, or for the end of somebody's time to give one; tells whose
    /// it was, or nothing if nobody is asked, or the time of the round is up.
    fn hear(&self, memory: &mut Memory, round: &mut Round, until: Instant) -> Option<PeerId> {
        if Instant::now() >= until {
            return None;
        }
        let replies = memory.under_way.iter().map(|asked| &asked.reply);
        let first = Reply::first_of(replies, until)?;
        let asked = memory.under_way.swap_remove(first);
        let (peer, errand, at) = (asked.peer, asked.errand, asked.at);
        let answer = asked.reply.wait().map(|bytes| Message::decode(&bytes));
        let answer = match answer {
            Some(Ok(Message::Taken(true))) => Answer::Taken,
            Some(Ok(Message::Unfit)) => Answer::Unfit,
            Some(_) => Answer::Refused,
            // Who had no room for the question is not late.
            None if Instant::now() < asked.until => Answer::Lost,
            None => Answer::Silence,
        };
        match answer {
            Answer::Lost => {
                round.stopped.insert(peer);
            }
            Answer::Silence => {
                round.stopped.insert(peer);
                memory.was_silent(peer, at);
            }
            Answer::Taken | Answer::Refused | Answer::Unfit => memory.has_answered(peer, at),
        }
        match errand {
            Errand::Crawl(id) if answer == Answer::Taken => {
                memory.told.insert((peer, id));
            }
            // It may have offered something else meanwhile.
            Errand::Welcome(offer) if answer == Answer::Taken => {
                if memory.offers.get(&peer) == Some(&offer) {
                    memory.welcomed.insert(peer, offer);
                }
                round.arrived += 1;
            }
            Errand::Crawl(_) | Errand::Welcome(_) => {}
            Errand::Site(frozen) => self.conclude_site(memory, round, peer, frozen, answer),
        }
        Some(peer)
    }

    fn conclude_site(
        &self,
        memory: &mut Memory,
        round: &mut Round,
        owner: PeerId,
        mut frozen: OnTheWay,
        answer: Answer,
    ) {
        match answer {
            Answer::Taken => memory.has_taken(owner),
            Answer::Silence => {
                memory.slow.insert(owner, 0);
            }
            Answer::Refused | Answer::Unfit | Answer::Lost => {}
        }
        match answer {
            Answer::Taken if frozen.part_arrived() => {
                tracing::debug!("{} is handed over to {owner}", frozen.site.host());
                round.arrived += 1;
                match self.preprocessor.has_left(&frozen.site) {
                    Ok(()) => {
                        let noted = self.preprocessor.noted();
                        memory.has_left(frozen.site.host().into(), noted);
                    }
                    Err(error) => {
                        let host = frozen.site.host();
                        tell_of_failure(host, &error, &mut frozen.is_failure_told);
                        frozen.transfer = None;
                        self.put_off(round, frozen);
                    }
                }
            }
            Answer::Taken => {
                round.parts += 1;
                match round.lines.get_mut(&owner) {
                    Some(line) if self.view.owner(frozen.key) == Owner::Peer(owner) => {
                        line.push_front(frozen);
                    }
                    _ => self.put_off(round, frozen),
                }
            }
            Answer::Refused => {
                let refusals = round.refusals.entry(owner).or_default();
                *refusals += 1;
                if *refusals >= MOST_REFUSALS {
                    round.stopped.insert(owner);
                }
                // It may have forgotten what it was told, and what it got.
                let crawls = frozen.site.crawls.iter();
                round.untold.extend(crawls.map(|&id| (owner, id)));
                frozen.transfer = None;
                self.put_off(round, frozen);
            }
            // The same part is sent again.
            Answer::Lost | Answer::Silence => self.put_off(round, frozen),
            Answer::Unfit => self.keep(owner, memory, frozen),
        }
    }

    /// A site waits for the next round.
    fn put_off(&self, round: &mut Round, frozen: OnTheWay) {
        let owner = match self.view.owner(frozen.key) {
            Owner::Peer(owner) => round.lines.get_mut(&owner),
            Owner::Me | Owner::Nobody => None,
        };
        match owner {
            Some(line) => line.later.push(frozen),
            None => round.aside.push(frozen),
        }
    }
}
