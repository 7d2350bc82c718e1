//! The graphs' past: a point for each second of the last ten minutes and one for each
//! minute of the last day, in rings that are saved and read back.
//!
//! One sample a second goes in. A minute's point is the mean of its seconds, made when
//! the next minute begins. A gap in time stays a gap.

use std::collections::VecDeque;

use peercrawl_ui::model::{Graphs, Sample};
use serde::{Deserialize, Serialize};

/// Seconds kept.
const SECONDS: usize = 600;
/// Minutes kept.
const MINUTES: usize = 24 * 60;

/// A sample as it is saved.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Saved(u64, f32, f32, f32, f32, f32);

/// See the module.
#[derive(Debug, Default)]
pub struct History {
    seconds: VecDeque<Sample>,
    minutes: VecDeque<Sample>,
    /// The seconds of the minute that has begun.
    begun: Vec<Sample>,
}

impl History {
    /// Takes in what the last second was like.
    pub fn add(&mut self, sample: Sample) {
        let minute = |sample: &Sample| sample.at_ms / 60_000;
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
        Graphs {
            seconds: self.seconds.iter().copied().collect(),
            minutes: self.minutes.iter().copied().collect(),
        }
    }

    /// The past, to be kept.
    pub fn save(&self) -> Vec<u8> {
        let list = |ring: &VecDeque<Sample>| -> Vec<Saved> { ring.iter().map(saved).collect() };
        // Encoding numbers into memory does not fail.
        postcard::to_stdvec(&(list(&self.seconds), list(&self.minutes))).unwrap_or_default()
    }

    /// A past that was kept; an empty one if it cannot be read.
    pub fn load(bytes: &[u8]) -> Self {
        let (seconds, minutes): (Vec<Saved>, Vec<Saved>) =
            postcard::from_bytes(bytes).unwrap_or_default();
        let ring = |list: Vec<Saved>, most: usize| {
            let first = list.len().saturating_sub(most);
            list[first..].iter().map(sample).collect()
        };
        Self {
            seconds: ring(seconds, SECONDS),
            minutes: ring(minutes, MINUTES),
            begun: Vec::new(),
        }
    }
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
        at_ms: samples
            .first()
            .map_or(0, |first| first.at_ms / 60_000 * 60_000),
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
        assert_eq!(graphs.minutes.len(), MINUTES);
        let last = graphs.minutes.last().unwrap();
        assert_eq!(last.at_ms, (25 * 3_600 - 120) * 1_000);
        assert!((last.pages_per_s - 5.0).abs() < 0.01);
    }

    #[test]
    fn the_past_outlives_a_restart_and_damage_costs_only_the_past() {
        let mut history = History::default();
        for second in 0..200 {
            history.add(at(second, 3.0));
        }
        let bytes = history.save();
        assert_eq!(History::load(&bytes).graphs(), history.graphs());
        assert!(History::load(&bytes[..9]).graphs().seconds.is_empty());
    }
}
