//! Who has behaved badly, and who is not spoken to any more.
//!
//! Every fault costs its sender points. Points fade, so that a slow clock or a lost race
//! does no lasting harm; a peer that collects too many is an offender, and stays one
//! for an hour. Offenders are written to disk as text, a line for each: when it is over,
//! in milliseconds since 1970, a space, and the id in hexadecimal.

use std::collections::BTreeMap;

use crate::clock::Now;
use crate::envelope::{Fault, Label};
use crate::{PeerId, Verdict};

/// Points that make an offender.
const TOO_MANY: u64 = 100;
/// Points of what hardly happens by accident: the second time within minutes is too much.
const SERIOUS: u64 = 60;
/// A point fades in so long.
const FADE_MS: u64 = 10_000;
/// Frames that a neighbour gives up, or sends too early, within so long count once: much may
/// be under way when a link fails, or when two peers differ about whether they have one.
const BREATH_MS: u64 = 1_000;
/// How long an offender is remembered.
const MEMORY_MS: u64 = 3_600_000;
/// Peers remembered.
const PEERS: usize = 4_096;

/// Something that a peer did wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offence {
    /// It sent a faulty envelope.
    Envelope(Fault),
    /// It sent bytes that are no frame.
    Frame,
    /// It broke off in the middle of a frame, though it is a neighbour.
    Torn,
    /// It spoke before it was admitted.
    OutOfTurn,
    /// It kept others waiting.
    Slow,
    /// It answered nothing, though much was said to it.
    Deaf,
    /// The crawler rejected what it wrote.
    Rejected,
}

impl Offence {
    /// What a neighbour did wrong by bringing an envelope with a fault. One that has expired
    /// may have been late when its author gave it away, so only its author is to blame.
    pub fn of_bringer(from: PeerId, envelope: &[u8], fault: Fault) -> Option<Self> {
        let is_author = || Label::read(envelope).is_some_and(|label| label.author == from);
        (fault != Fault::Expired || is_author()).then_some(Self::Envelope(fault))
    }

    /// Its points. What cannot happen by accident makes an offender at once.
    fn points(self) -> u64 {
        match self {
            Self::Envelope(Fault::Forged) => TOO_MANY,
            Self::Envelope(Fault::TooLarge | Fault::Undecodable | Fault::WrongNetwork) => SERIOUS,
            Self::Frame => SERIOUS,
            // A machine that sleeps does so once, not three times within minutes.
            Self::Deaf => 40,
            Self::Rejected | Self::Envelope(Fault::Ahead) => 20,
            Self::Envelope(Fault::Replayed) => 5,
            // A bad line breaks many frames at once.
            Self::Slow => 7,
            Self::OutOfTurn | Self::Torn | Self::Envelope(Fault::Expired) => 1,
        }
    }
}

impl Verdict {
    /// Whether the author of a message with this verdict is blamed for it.
    pub(crate) fn offence(self) -> Option<Offence> {
        (self == Self::Reject).then_some(Offence::Rejected)
    }
}

#[derive(Default)]
struct Record {
    points: u64,
    /// The latest offence.
    counted_ms: u64,
    /// Up to when points have faded: behind the present by what makes no whole point yet.
    faded_ms: u64,
    offender_until_ms: u64,
}

impl Record {
    fn fade(&mut self, now_ms: u64) {
        let faded = now_ms.saturating_sub(self.faded_ms) / FADE_MS;
        self.points = self.points.saturating_sub(faded);
        self.faded_ms = match self.points {
            0 => now_ms,
            _ => self.faded_ms + faded * FADE_MS,
        };
    }
}

/// See the module.
#[derive(Default)]
pub struct Offenders {
    records: BTreeMap<PeerId, Record>,
    /// Offenders for whom there was no more room, until the next time that those who are none
    /// any more are asked for.
    evicted: Vec<PeerId>,
}

impl Offenders {
    /// Counts an offence; tells whether it has just made its author an offender.
    pub fn blame(&mut self, peer: PeerId, offence: Offence, now_ms: u64) -> bool {
        if !self.records.contains_key(&peer) && self.records.len() >= PEERS {
            self.evict_mildest();
        }
        let record = self.records.entry(peer).or_default();
        let is_same_breath = record.points > 0 && now_ms < record.counted_ms + BREATH_MS;
        if matches!(offence, Offence::Torn | Offence::OutOfTurn) && is_same_breath {
            return false;
        }
        record.fade(now_ms);
        record.points += offence.points();
        record.counted_ms = now_ms;
        let was_offender = record.offender_until_ms > now_ms;
        if record.points >= TOO_MANY {
            record.offender_until_ms = now_ms + MEMORY_MS;
        }
        record.points >= TOO_MANY && !was_offender
    }

    fn evict_mildest(&mut self) {
        let by_harm = |(_, r): &(&PeerId, &Record)| (r.offender_until_ms, r.points);
        let mildest = self.records.iter().min_by_key(by_harm);
        let Some(mildest) = mildest.map(|(&id, _)| id) else {
            return;
        };
        let record = self.records.remove(&mildest);
        if record.is_some_and(|record| record.offender_until_ms > 0) {
            self.evicted.push(mildest);
        }
    }

    /// Whether a peer is not to be spoken to.
    pub fn contains(&self, peer: PeerId, now_ms: u64) -> bool {
        self.records
            .get(&peer)
            .is_some_and(|record| record.offender_until_ms > now_ms)
    }

    /// Forgets what is over; gives those that are offenders no more, also those for whom
    /// there was no room.
    pub fn forget(&mut self, now_ms: u64) -> Vec<PeerId> {
        let mut released = std::mem::take(&mut self.evicted);
        // One may have been caught again.
        released.retain(|&id| !self.contains(id, now_ms));
        self.records.retain(|&id, record| {
            let was_offender = record.offender_until_ms > 0;
            let is_over = record.offender_until_ms <= now_ms;
            record.fade(now_ms);
            let has_faded = record.points == 0;
            if is_over && was_offender {
                released.push(id);
            }
            !is_over || !(was_offender || has_faded)
        });
        released
    }

    /// The offenders in a file's text, as a later run reads them. Lines that make no
    /// sense are left out.
    pub fn parse(text: &str, now: Now) -> Self {
        let mut records = BTreeMap::new();
        for line in text.lines() {
            let Some((until, id)) = line.split_once(' ') else {
                continue;
            };
            let until: Option<u64> = until.parse().ok();
            let left_ms = until.map_or(0, |until| until.saturating_sub(now.wall_ms));
            let Some(id) = PeerId::from_hex(id).filter(|_| left_ms > 0) else {
                continue;
            };
            let record = Record {
                points: 0,
                counted_ms: now.since_start_ms,
                faded_ms: now.since_start_ms,
                // Whatever the clocks say, nobody is shut out for longer.
                offender_until_ms: now.since_start_ms + left_ms.min(MEMORY_MS),
            };
            if records.len() < PEERS {
                records.insert(id, record);
            }
        }
        Self {
            records,
            evicted: Vec::new(),
        }
    }

    /// The offenders as a file's text.
    pub fn to_text(&self, now: Now) -> String {
        let left = |record: &Record| record.offender_until_ms.saturating_sub(now.since_start_ms);
        let offenders = self.records.iter().filter(|(_, record)| left(record) > 0);
        offenders
            .map(|(id, record)| format!("{} {}\n", now.wall_ms + left(record), id.to_hex()))
            .collect()
    }

    /// The offenders.
    pub fn list(&self, now_ms: u64) -> Vec<PeerId> {
        let is_one = |record: &Record| record.offender_until_ms > now_ms;
        let offenders = self.records.iter().filter(|(_, record)| is_one(record));
        offenders.map(|(&id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId::repeat(1);

    fn peer(number: u64) -> PeerId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&number.to_be_bytes());
        PeerId(id)
    }

    #[test]
    fn a_forger_is_an_offender_at_once_and_for_an_hour() {
        let mut offenders = Offenders::default();
        let forged = Offence::Envelope(Fault::Forged);
        assert!(offenders.blame(A, forged, 1_000));
        assert!(!offenders.blame(A, forged, 1_001), "is one already");
        assert!(offenders.contains(A, 1_001 + MEMORY_MS - 1));
        assert_eq!(offenders.forget(1_000), []);
        assert_eq!(offenders.forget(1_001 + MEMORY_MS), [A]);
        assert!(!offenders.contains(A, 1_001 + MEMORY_MS));
    }

    #[test]
    fn an_offender_is_remembered_from_run_to_run_and_released_in_time() {
        let at = |wall_ms, since_start_ms| Now {
            wall_ms,
            since_start_ms,
        };
        let mut offenders = Offenders::default();
        offenders.blame(A, Offence::Envelope(Fault::Forged), 5_000);
        offenders.blame(PeerId::repeat(2), Offence::Frame, 5_000);
        let text = offenders.to_text(at(1_000_000, 6_000));
        assert_eq!(text.lines().count(), 1, "the other is none yet: {text}");
        let garbage = format!("x\n\n9 zz\n{text}{} {}\n\u{0}", u64::MAX, "0".repeat(63));
        let later = Offenders::parse(&garbage, at(1_100_000, 0));
        assert_eq!(later.list(0), [A]);
        assert!(later.contains(A, MEMORY_MS - 101_001));
        assert!(!later.contains(A, MEMORY_MS - 101_000));
        let much_later = Offenders::parse(&text, at(1_000_000 + MEMORY_MS, 0));
        assert_eq!(much_later.list(0), []);
        let by_a_wrong_clock = Offenders::parse(&text, at(0, 0));
        assert!(!by_a_wrong_clock.contains(A, MEMORY_MS));
    }

    #[test]
    fn a_second_malformed_frame_is_too_much_even_a_minute_later() {
        let mut offenders = Offenders::default();
        assert!(!offenders.blame(A, Offence::Frame, 0));
        assert!(offenders.blame(A, Offence::Frame, 60_000));
    }

    /// Two frames that a busy neighbour gave up made an offender of it, and one that is no
    /// member any more.
    #[test]
    fn what_a_busy_neighbour_gives_up_is_forgiven() {
        for offence in [Offence::Torn, Offence::OutOfTurn] {
            let mut offenders = Offenders::default();
            let mut give_up = |seconds: std::ops::Range<u64>| {
                let mut frames = seconds.flat_map(|second| [second * 1_000; 48]);
                frames.any(|ms| offenders.blame(A, offence, ms))
            };
            assert!(!give_up(0..60), "{offence:?}");
            assert!(give_up(60..180), "but not for ever");
        }
    }

    #[test]
    fn one_may_be_deaf_now_and_then() {
        let mut offenders = Offenders::default();
        let minutes = [0, 10, 20, 30, 31, 32].map(|minute| minute * 60_000);
        let made_one = minutes.map(|ms| offenders.blame(A, Offence::Deaf, ms));
        assert_eq!(made_one, [false, false, false, false, false, true]);
    }

    #[test]
    fn small_faults_add_up_but_fade() {
        let mut offenders = Offenders::default();
        let replayed = Offence::Envelope(Fault::Replayed);
        for minute in 0..100 {
            assert!(!offenders.blame(A, replayed, minute * 60_000), "{minute}");
        }
        let made_one = (0..30).filter(|&ms| offenders.blame(A, replayed, 6_000_000 + ms));
        assert_eq!(made_one.count(), 1);
    }

    /// Of what came every nine seconds nothing ever faded.
    #[test]
    fn small_faults_fade_also_while_more_come() {
        let mut offenders = Offenders::default();
        let late = Offence::Envelope(Fault::Expired);
        for count in 0..900 {
            assert!(!offenders.blame(A, late, count * 9_000), "{count}");
            offenders.forget(count * 9_000 + 4_000);
        }
        let mut more = (0..500).map(|count| 8_100_000 + count * 4_500);
        assert!(more.any(|ms| offenders.blame(A, late, ms)));
    }

    #[test]
    fn what_its_author_did_is_not_its_carriers_fault() {
        let keypair = crate::identity::keypair([3; 32]).unwrap();
        let now = Now {
            wall_ms: 1_000,
            since_start_ms: 0,
        };
        let mut sealer = crate::envelope::Sealer::new(keypair, *b"network1", now).unwrap();
        let errand = crate::envelope::Errand::Send(crate::Purpose::Urls);
        let (_, envelope) = sealer.seal(errand, None, b"", now, 0).unwrap();
        let of = |from, fault| Offence::of_bringer(from, &envelope, fault);
        let (author, expired) = (sealer.author(), Offence::Envelope(Fault::Expired));
        assert_eq!(of(author, Fault::Expired), Some(expired));
        assert_eq!(of(A, Fault::Expired), None);
        let forged = Offence::Envelope(Fault::Forged);
        assert_eq!(of(A, Fault::Forged), Some(forged));
        assert_eq!(Offence::of_bringer(A, b"", Fault::Expired), None);
    }

    #[test]
    fn what_has_faded_is_forgotten_and_memory_is_bounded() {
        let mut offenders = Offenders::default();
        for number in 0..2 * PEERS as u64 {
            offenders.blame(peer(number), Offence::Frame, 0);
        }
        assert_eq!(offenders.records.len(), PEERS);
        assert_eq!(offenders.forget(SERIOUS * FADE_MS), []);
        assert!(offenders.records.is_empty());
    }

    /// They were blocked for as long as the program ran, and there was no bound to that.
    #[test]
    fn an_offender_for_whom_there_is_no_room_is_released() {
        let mut offenders = Offenders::default();
        let forged = Offence::Envelope(Fault::Forged);
        for number in 0..=PEERS as u64 {
            assert!(offenders.blame(peer(number), forged, number));
        }
        assert_eq!(offenders.forget(PEERS as u64), [peer(0)]);
        assert_eq!(offenders.forget(PEERS as u64), []);
        assert!(!offenders.contains(peer(0), PEERS as u64));
        // Who goes and comes back within one tick is still one.
        offenders.blame(peer(0), forged, PEERS as u64);
        offenders.blame(peer(1), forged, PEERS as u64);
        assert_eq!(offenders.forget(PEERS as u64), [peer(2)]);
    }
}
