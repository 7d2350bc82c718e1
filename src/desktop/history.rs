//! The graphs' past: a point for each second of the last ten minutes and one for each
//! minute of the last day, in rings that are saved and read back.
//!
//! One sample a second goes in. A minute's point is the mean of its seconds, made when
//! the next minute begins; the minute that has begun has a point that moves on with the
//! time. A gap in time stays a gap. A clock may be behind when the program starts, and be set
//! right later: what was kept and is yet to come by it is neither shown nor forgotten.

use std::collections::VecDeque;

use peercrawl_ui::model::{Graphs, Sample};
use serde::{Deserialize, Serialize};

/// Seconds kept.
const SECONDS: usize = 600;
/// Minutes kept.
const MINUTES: usize = 24 * 60;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60_000;

/// A sample as it is saved, its time first.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Saved(u64, f32, f32, f32, f32, f32);

/// See the module.
#[derive(Debug, Default)]
pub struct History {
    seconds: VecDeque<Sample>,
    minutes: VecDeque<Sample>,
    /// The seconds of the minute that has begun.
    begun: Vec<Sample>,
    /// Seconds and minutes that were kept, and are yet to come.
    to_come: (Vec<Saved>, Vec<Saved>),
}

impl History {
    /// Takes in what the last second was like.
    pub fn add(&mut self, sample: Sample) {
        let latest_ms = self.latest_to_come_ms();
        if latest_ms.is_some_and(|latest_ms| latest_ms < sample.at_ms) {
            // The clock was set right, or has come so far by itself.
            *self = Self::load(&self.save(), sample.at_ms).unwrap_or_default();
        }
        if let Some(first) = self.begun.first()
            && minute(first) != minute(&sample)
        {
            push(&mut self.minutes, MINUTES, mean(&self.begun));
            self.begun.clear();
        }
        self.begun.push(sample);
        push(&mut self.seconds, SECONDS, sample);
    }

    /// The past, to be drawn.
    pub fn graphs(&self) -> Graphs {
        let begun = self.begun.last().map(|last| Sample {
            at_ms: last.at_ms,
            ..mean(&self.begun)
        });
        Graphs {
            seconds: self.seconds.iter().copied().collect(),
            minutes: self.minutes.iter().copied().chain(begun).collect(),
        }
    }

    /// When all that is yet to come will be over; `None` if nothing is.
    fn latest_to_come_ms(&self) -> Option<u64> {
        let (seconds, minutes) = &self.to_come;
        let second_ms = seconds.last().map(|second| second.0);
        let minute_ms = minutes
            .last()
            .map(|minute| minute.0.saturating_add(MINUTE_MS));
        second_ms.max(minute_ms)
    }

    /// The past, to be kept, with what is yet to come.
    pub fn save(&self) -> Vec<u8> {
        let seconds = joined(&self.seconds, &self.to_come.0, SECOND_MS);
        let minutes = joined(&self.minutes, &self.to_come.1, MINUTE_MS);
        // Encoding numbers into memory does not fail.
        postcard::to_stdvec(&(seconds, minutes)).unwrap_or_default()
    }

    /// A past that was kept; none if it cannot be read. Where the clock has been set back, some
    /// of it is yet to come: a line would run backwards through it.
    pub fn load(bytes: &[u8], now_ms: u64) -> Option<Self> {
        let (seconds, minutes): (Vec<Saved>, Vec<Saved>) = match bytes {
            [] => Default::default(),
            bytes => postcard::from_bytes(bytes).ok()?,
        };
        let (seconds, seconds_to_come) = split(seconds, SECONDS, |second| second.0 <= now_ms);
        let is_over = |minute: &Saved| minute.0 / MINUTE_MS < now_ms / MINUTE_MS;
        let (mut minutes, minutes_to_come) = split(minutes, MINUTES, is_over);
        let ring = |list: Vec<Saved>| -> VecDeque<Sample> { list.iter().map(sample).collect() };
        let seconds = ring(seconds);
        let last = seconds.back().map(minute);
        // That one is made when it is over.
        minutes.retain(|minute| Some(minute.0 / MINUTE_MS) != last);
        let begun = seconds.iter().filter(|one| Some(minute(one)) == last);
        Some(Self {
            begun: begun.copied().collect(),
            minutes: ring(minutes),
            seconds,
            to_come: (seconds_to_come, minutes_to_come),
        })
    }
}

/// What is over and what is yet to come, the latest of each.
fn split(
    list: Vec<Saved>,
    most: usize,
    is_over: impl Fn(&Saved) -> bool,
) -> (Vec<Saved>, Vec<Saved>) {
    let latest = |mut list: Vec<Saved>| list.split_off(list.len().saturating_sub(most));
    let (over, to_come) = list.into_iter().partition(is_over);
    (latest(over), latest(to_come))
}

/// Both in order. Where they have the same second or minute, what was lived through counts:
/// the clock may have been ahead before.
fn joined(ring: &VecDeque<Sample>, to_come: &[Saved], period_ms: u64) -> Vec<Saved> {
    let number = |one: &Saved| one.0 / period_ms;
    let mut all: Vec<Saved> = ring.iter().map(saved).collect();
    all.extend(to_come);
    // Keeps the order of equals.
    all.sort_by_key(number);
    all.dedup_by_key(|one| number(one));
    all
}

fn minute(sample: &Sample) -> u64 {
    sample.at_ms / MINUTE_MS
}

fn push(ring: &mut VecDeque<Sample>, most: usize, sample: Sample) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(sample);
}

fn mean(samples: &[Sample]) -> Sample {
    let count = samples.len().max(1) as f32;
    let of = |value: fn(&Sample) -> f32| samples.iter().map(value).sum::<f32>() / count;
    Sample {
        at_ms: samples.first().map_or(0, |first| minute(first) * MINUTE_MS),
        download_bytes_per_s: of(|sample| sample.download_bytes_per_s),
        upload_bytes_per_s: of(|sample| sample.upload_bytes_per_s),
        pages_per_s: of(|sample| sample.pages_per_s),
        waiting_urls: of(|sample| sample.waiting_urls),
        peers: of(|sample| sample.peers),
    }
}

fn saved(sample: &Sample) -> Saved {
    Saved(
        sample.at_ms,
        sample.download_bytes_per_s,
        sample.upload_bytes_per_s,
        sample.pages_per_s,
        sample.waiting_urls,
        sample.peers,
    )
}

fn sample(saved: &Saved) -> Sample {
    Sample {
        at_ms: saved.0,
        download_bytes_per_s: saved.1,
        upload_bytes_per_s: saved.2,
        pages_per_s: saved.3,
        waiting_urls: saved.4,
        peers: saved.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64, pages_per_s: f32) -> Sample {
        Sample {
            at_ms: second * 1_000,
            pages_per_s,
            ..Sample::default()
        }
    }

    #[test]
    fn a_day_fits_and_a_minute_is_the_mean_of_its_seconds() {
        let mut history = History::default();
        for second in 0..25 * 3_600 {
            history.add(at(second, (second % 2) as f32 * 10.0));
        }
        let graphs = history.graphs();
        assert_eq!(graphs.seconds.len(), SECONDS);
        let (begun, minutes) = graphs.minutes.split_last().unwrap();
        assert_eq!(minutes.len(), MINUTES);
        let last = minutes.last().unwrap();
        assert_eq!(last.at_ms, (25 * 3_600 - 120) * 1_000);
        assert!((last.pages_per_s - 5.0).abs() < 0.01);
        // The line ended up to two minutes ago.
        assert_eq!(begun.at_ms, (25 * 3_600 - 1) * 1_000);
        assert!((begun.pages_per_s - 5.0).abs() < 0.01);
    }

    #[test]
    fn the_past_outlives_a_restart_and_damage_costs_only_the_past() {
        let mut history = History::default();
        for second in 0..200 {
            history.add(at(second, 3.0));
        }
        let bytes = history.save();
        let mut again = History::load(&bytes, 200_000).unwrap();
        assert_eq!(again.graphs(), history.graphs());
        // A minute that was cut in two is one all the same.
        again.add(at(200, 45.0));
        let minutes = again.graphs().minutes;
        assert_eq!(minutes.len(), 4);
        assert!((minutes[3].pages_per_s - 5.0).abs() < 0.01);
        assert!(History::load(&bytes[..9], 200_000).is_none());
    }

    /// A line ran backwards for as long as the clock had been ahead.
    #[test]
    fn what_is_yet_to_come_is_no_past() {
        let mut history = History::default();
        for second in 0..600 {
            history.add(at(second, 3.0));
        }
        let mut again = History::load(&history.save(), 330_000).unwrap();
        let graphs = again.graphs();
        assert_eq!(graphs.seconds.len(), 331);
        let minutes: Vec<u64> = graphs.minutes.iter().map(|one| one.at_ms).collect();
        let expected = [0, 60_000, 120_000, 180_000, 240_000, 330_000];
        assert_eq!(minutes, expected, "the last one has just begun");
        again.add(at(331, 3.0));
        let graphs = again.graphs();
        assert!(graphs.seconds.is_sorted_by_key(|one| one.at_ms));
        assert!(graphs.minutes.is_sorted_by_key(|one| one.at_ms));
    }

    /// Where the clock was behind for a moment, a day was gone for good.
    #[test]
    fn a_clock_that_was_behind_costs_nothing_once_it_is_set_right() {
        const DAY: u64 = 24 * 3_600;
        let mut history = History::default();
        for second in DAY..DAY + 600 {
            history.add(at(second, 3.0));
        }
        let before = history.graphs();
        let mut again = History::load(&history.save(), 500_000).unwrap();
        for second in 500..800 {
            again.add(at(second, 7.0));
        }
        assert_eq!(again.graphs().seconds.len(), 300, "the rest is yet to come");
        // It is set right while the program runs, or does not.
        let restarted = History::load(&again.save(), (DAY + 600) * 1_000).unwrap();
        again.add(at(DAY + 600, 3.0));
        assert_eq!(restarted.graphs().seconds, before.seconds);
        assert_eq!(again.graphs().seconds[..599], before.seconds[1..]);
        for graphs in [restarted.graphs(), again.graphs()] {
            let kept = |one: &&Sample| before.minutes[..9].contains(one);
            assert_eq!(graphs.minutes.iter().filter(kept).count(), 9);
            assert!(graphs.minutes.is_sorted_by_key(|one| one.at_ms));
        }
    }

    /// It was ahead before, and what comes now is what counts.
    #[test]
    fn time_that_is_lived_through_again_has_one_point_each() {
        let mut history = History::default();
        for second in 0..600 {
            history.add(at(second, 3.0));
        }
        let mut again = History::load(&history.save(), 330_000).unwrap();
        for second in 331..700 {
            again.add(at(second, 7.0));
        }
        let graphs = again.graphs();
        assert_eq!(graphs.seconds.len(), 600);
        let again = graphs.seconds.iter().filter(|one| one.pages_per_s == 7.0);
        assert_eq!(again.count(), 369);
        assert_eq!(graphs.minutes.len(), 12);
        assert!(graphs.minutes.is_sorted_by_key(|one| one.at_ms));
    }
}
