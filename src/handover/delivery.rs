//! How crawls, sites and welcomes get to other peers in a round, and what becomes of them.
//!
//! Many questions are under way at once, but few to one peer: it has other messages to get.
//! What a peer refuses goes to the end of the line and is in nobody's way; only a peer that
//! is silent, or refuses one site after another, gets nothing more in that round. Who was
//! silent about a site may be on a slow line: it gets one at a time from then on. Of records
//! that take several parts each owner gets one part a round, after everything else.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use peercrawl_overlay::{OverlayError, PeerId, Purpose, Reply};

use super::sender::{HandoverSender, Memory};
use super::transfers::SitePart;
use crate::crawl::CrawlId;
use crate::distribution::{Key, Owner};
use crate::engine::Offer;
use crate::message::Message;
use crate::preprocessor::Frozen;

/// How long a peer has to take in one part: it may be on a slow line, and has to bring the
/// last part to its disk.
const PART_DEADLINE: Duration = Duration::from_secs(10);
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
struct Asked {
    peer: PeerId,
    errand: Errand,
    reply: Reply,
    until: Instant,
    bytes: usize,
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
    refusals: HashMap<PeerId, usize>,
    /// Who is to be told again of which crawl, in the next round.
    untold: Vec<(PeerId, CrawlId)>,
    under_way: VecDeque<Asked>,
    /// Sites that wait for the next round, before those that were refused.
    waiting: Vec<OnTheWay>,
}

impl Round {
    /// One in which these get nothing.
    pub(super) fn without(stopped: HashSet<PeerId>) -> Self {
        Self {
            stopped,
            ..Self::default()
        }
    }

    /// Whether a peer has enough to do before it is asked to take so much.
    fn is_busy(&self, peer: PeerId, bytes: usize, is_slow: bool) -> bool {
        let its = || self.under_way.iter().filter(|asked| asked.peer == peer);
        let (count, most) = (its().count(), if is_slow { 1 } else { AT_ONCE });
        let under_way: usize = its().map(|asked| asked.bytes).sum();
        count >= most || count > 0 && under_way + bytes > BYTES_AT_ONCE
    }
}

impl HandoverSender {
    /// Tells owners of the crawls of the sites that they are to get: without them they could
    /// do nothing with the URLs.
    pub(super) fn tell_of_crawls(&self, memory: &mut Memory, round: &mut Round) {
        let mut untold = BTreeSet::new();
        for frozen in &memory.frozen {
            if let Some(owner) = self.destination(round, frozen) {
                let crawls = frozen.site.crawls.iter().map(|&id| (owner, id));
                untold.extend(crawls.filter(|one| !memory.told.contains(one)));
            }
        }
        for (owner, id) in untold {
            if let Some(crawl) = self.crawls.get(id) {
                let message = Message::Crawl(crawl.definition.clone());
                self.send(memory, round, owner, &message, Errand::Crawl(id));
            }
        }
        self.hear_all(memory, round);
    }

    /// Sends the sites whose records are of one part to their owners.
    pub(super) fn move_sites(&self, memory: &mut Memory, round: &mut Round) {
        self.move_those(memory, round, |_, frozen| frozen.has_one_part());
    }

    /// Sends each owner one part of the first of its larger records.
    pub(super) fn move_parts(&self, memory: &mut Memory, round: &mut Round) {
        let mut first: HashMap<PeerId, usize> = HashMap::new();
        for (position, frozen) in memory.frozen.iter().enumerate() {
            match self.destination(round, frozen) {
                Some(_) if frozen.has_one_part() => {}
                // The beginning of another would end it.
                Some(owner) if frozen.is_begun(owner) => {
                    first.insert(owner, position);
                }
                Some(owner) => {
                    first.entry(owner).or_insert(position);
                }
                None => {}
            }
        }
        let first: HashSet<usize> = first.into_values().collect();
        self.move_those(memory, round, |position, _| first.contains(&position));
    }

    fn move_those(
        &self,
        memory: &mut Memory,
        round: &mut Round,
        goes: impl Fn(usize, &OnTheWay) -> bool,
    ) {
        let frozen = std::mem::take(&mut memory.frozen);
        for (position, frozen) in frozen.into_iter().enumerate() {
            match self.destination(round, &frozen) {
                Some(owner) if goes(position, &frozen) => {
                    self.move_one(memory, round, owner, frozen);
                }
                _ => round.waiting.push(frozen),
            }
        }
        self.hear_all(memory, round);
        for told in round.untold.drain(..) {
            memory.told.remove(&told);
        }
        // Those that were refused are at the end.
        round.waiting.append(&mut memory.frozen);
        memory.frozen = std::mem::take(&mut round.waiting);
    }

    fn move_one(
        &self,
        memory: &mut Memory,
        round: &mut Round,
        owner: PeerId,
        mut frozen: OnTheWay,
    ) {
        let crawls = &frozen.site.crawls;
        // Asked for even if it was told of: a crawl that is asked for is not forgotten.
        if crawls.iter().any(|&id| self.crawls.get(id).is_none()) {
            // Nobody knows any more what its URLs are for, here or there.
            return self.keep(owner, memory, frozen);
        }
        let is_told = |&id: &CrawlId| memory.told.contains(&(owner, id));
        if !crawls.iter().all(is_told) {
            // Its owner takes no part in one of them for now. Sites of others may go.
            return memory.frozen.push(frozen);
        }
        let part = frozen.next_part(owner, &mut memory.transfers);
        let message = Message::Site(part);
        self.send(memory, round, owner, &message, Errand::Site(frozen));
    }

    /// Welcomes those who have got all that is theirs and have not been welcomed.
    pub(super) fn welcome(
        &self,
        memory: &mut Memory,
        round: &mut Round,
        offers: &HashMap<PeerId, Offer>,
    ) {
        let mut awaiting = HashSet::new();
        for frozen in &memory.frozen {
            if let Owner::Peer(owner) = self.view.owner(frozen.key) {
                awaiting.insert(owner);
            }
        }
        for (&peer, &offer) in offers {
            let has_all = !round.stopped.contains(&peer)
                && !round.to_come.contains(&peer)
                && !awaiting.contains(&peer);
            if has_all && !memory.is_welcome(&peer, &offer) {
                let message = Message::Welcome(offer);
                self.send(memory, round, peer, &message, Errand::Welcome(offer));
            }
        }
        self.hear_all(memory, round);
    }

    /// Where a site goes in this round, if it does.
    fn destination(&self, round: &Round, frozen: &OnTheWay) -> Option<PeerId> {
        match self.view.owner(frozen.key) {
            Owner::Peer(owner) if !round.stopped.contains(&owner) => Some(owner),
            _ => None,
        }
    }

    /// Asks a peer once there is room for one more question to it.
    fn send(
        &self,
        memory: &mut Memory,
        round: &mut Round,
        peer: PeerId,
        message: &Message,
        errand: Errand,
    ) {
        let bytes: Arc<[u8]> = message.encode().unwrap_or_default().into();
        let is_busy = |memory: &Memory, round: &Round| {
            round.is_busy(peer, bytes.len(), memory.slow.contains(&peer))
        };
        while is_busy(memory, round) && self.hear(memory, round) {}
        let deadline = match errand {
            Errand::Site(_) => PART_DEADLINE,
            Errand::Crawl(_) | Errand::Welcome(_) => DEADLINE,
        };
        // It may have turned out to be silent meanwhile.
        while !bytes.is_empty() && !round.stopped.contains(&peer) {
            let until = Instant::now() + deadline;
            let purpose = Purpose::Handover;
            match self.overlay.request(peer, purpose, bytes.clone(), deadline) {
                Ok(reply) => {
                    return round.under_way.push_back(Asked {
                        peer,
                        errand,
                        reply,
                        until,
                        bytes: bytes.len(),
                    });
                }
                // What was heard has made room.
                Err(OverlayError::Busy(_)) if self.hear(memory, round) => {}
                Err(_) => break,
            }
        }
        self.conclude(memory, round, peer, errand, Answer::Lost);
    }

    fn hear_all(&self, memory: &mut Memory, round: &mut Round) {
        while self.hear(memory, round) {}
    }

    /// Waits for the answer to the oldest question; false if there is none.
    fn hear(&self, memory: &mut Memory, round: &mut Round) -> bool {
        let Some(asked) = round.under_way.pop_front() else {
            return false;
        };
        let answer = asked.reply.wait().map(|bytes| Message::decode(&bytes));
        let answer = match answer {
            Some(Ok(Message::Taken(true))) => Answer::Taken,
            Some(Ok(Message::Unfit)) => Answer::Unfit,
            Some(_) => Answer::Refused,
            // Who had no room for the question is not late, unless others were waited for
            // first.
            None if Instant::now() < asked.until => Answer::Lost,
            None => Answer::Silence,
        };
        self.conclude(memory, round, asked.peer, asked.errand, answer);
        true
    }

    fn conclude(
        &self,
        memory: &mut Memory,
        round: &mut Round,
        peer: PeerId,
        errand: Errand,
        answer: Answer,
    ) {
        if matches!(answer, Answer::Lost | Answer::Silence) {
            round.stopped.insert(peer);
        }
        if answer == Answer::Silence {
            memory.was_silent(peer);
            if matches!(errand, Errand::Site(_)) {
                memory.slow.insert(peer);
            }
        }
        match errand {
            Errand::Crawl(id) if answer == Answer::Taken => {
                memory.told.insert((peer, id));
            }
            Errand::Welcome(offer) if answer == Answer::Taken => {
                memory.welcomed.insert(peer, offer);
                round.arrived += 1;
            }
            Errand::Crawl(_) | Errand::Welcome(_) => {}
            Errand::Site(frozen) => self.conclude_site(memory, round, peer, frozen, answer),
        }
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
            Answer::Taken if frozen.part_arrived() => {
                tracing::debug!("{} is handed over to {owner}", frozen.site.host());
                self.preprocessor.has_left(&frozen.site);
                round.arrived += 1;
            }
            Answer::Taken => {
                round.parts += 1;
                round.waiting.push(frozen);
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
                memory.frozen.push(frozen);
            }
            // The same part is sent again.
            Answer::Lost | Answer::Silence => round.waiting.push(frozen),
            Answer::Unfit => self.keep(owner, memory, frozen),
        }
    }
}
