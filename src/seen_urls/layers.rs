//! Bloom filters in layers: the set grows without being told how far.

use super::bloom::{Filter, MAX_LEVEL, Probe, full_rate};

/// The greatest rate at which new URLs may be taken for seen, whatever comes.
const MAX_RATE: f64 = 1e-4;

/// A list of filters. Fingerprints go into the last; once it is full, the next one
/// has twice the bits and half the error.
///
/// The errors of one lineage, level after level, add up to less than 2^-15, about
/// 3 in 100,000. Three lineages fit below [`MAX_RATE`], so two sets can be united, and
/// the result once more.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    /// By ascending level, never empty, and [`is_within_bound`].
    filters: Vec<Filter>,
    /// The rate of false positives of all filters but the last, which alone changes.
    settled_rate: f64,
    expected_losses: f64,
}

impl Layers {
    /// The set of these fingerprints, no two of them equal.
    pub fn from_distinct(fingerprints: impl Iterator<Item = u64>) -> Self {
        let mut layers = Self::of(vec![Filter::new(0)], 0.0);
        fingerprints.for_each(|f| layers.push(Probe::of(f)));
        layers
    }

    fn of(filters: Vec<Filter>, expected_losses: f64) -> Self {
        let mut layers = Self {
            filters,
            settled_rate: 0.0,
            expected_losses,
        };
        layers.settle();
        layers
    }

    /// The set of these filters, unless they break what every set of ours keeps to.
    pub fn from_filters(filters: Vec<Filter>, expected_losses: f64) -> Option<Self> {
        let sound = !filters.is_empty()
            && filters.iter().all(Filter::is_sound)
            && filters.is_sorted_by_key(Filter::level)
            && is_within_bound(&filters);
        sound.then(|| Self::of(filters, expected_losses))
    }

    /// Like [`Layers::insert`], and counts the chance that a URL just as new would
    /// have been taken for seen.
    pub fn insert_new_url(&mut self, fingerprint: u64) -> bool {
        let rate = self.rate();
        let new = self.insert(fingerprint);
        if new {
            self.expected_losses += rate;
        }
        new
    }

    /// Adds a fingerprint; true if it was new.
    pub fn insert(&mut self, fingerprint: u64) -> bool {
        let probe = Probe::of(fingerprint);
        let new = !self.has(probe);
        if new {
            self.push(probe);
        }
        new
    }

    pub fn contains(&self, fingerprint: u64) -> bool {
        self.has(Probe::of(fingerprint))
    }

    /// The last filter is the largest and holds the most, so it is asked first.
    fn has(&self, probe: Probe) -> bool {
        self.filters.iter().rev().any(|f| f.contains(probe))
    }

    fn push(&mut self, probe: Probe) {
        if let Some(last) = self.filters.last_mut() {
            // Past the greatest level there is nowhere to grow; the rate then rises,
            // and shows in the losses.
            if !last.is_full() || last.level() == MAX_LEVEL {
                return last.insert(probe);
            }
        }
        let level = self.filters.last().map_or(0, |last| last.level() + 1);
        let mut filter = Filter::new(level);
        filter.insert(probe);
        self.filters.push(filter);
        self.settle();
    }

    fn settle(&mut self) {
        let settled = self.filters.len().saturating_sub(1);
        let rates = self.filters[..settled].iter();
        self.settled_rate = rates.map(Filter::false_positive_rate).sum();
    }

    /// The chance that a new URL is now taken for seen (as a sum, which is its upper
    /// bound, and equal to it as far as such small numbers go).
    fn rate(&self) -> f64 {
        let last = self.filters.last().map_or(0.0, Filter::false_positive_rate);
        self.settled_rate + last
    }

    /// Takes in another set. Filters that both have (a site that moved keeps its full
    /// ones for ever) or that fit into one are united in place; the others are added,
    /// the fullest first, for as long as the bound holds.
    pub fn union(&mut self, other: Layers) {
        let mut theirs = other.filters;
        theirs.sort_by_key(|f| std::cmp::Reverse(f.count()));
        for filter in theirs {
            if self.filters.iter_mut().any(|mine| mine.absorb(&filter)) {
                continue;
            }
            let at = self
                .filters
                .partition_point(|f| f.level() <= filter.level());
            self.filters.insert(at, filter);
            if !is_within_bound(&self.filters) {
                self.filters.remove(at);
            }
        }
        self.expected_losses += other.expected_losses;
        self.settle();
    }

    pub fn len(&self) -> u64 {
        self.filters.iter().map(Filter::count).sum()
    }

    pub fn expected_losses(&self) -> f64 {
        self.expected_losses
    }

    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    pub fn memory_bytes(&self) -> usize {
        let bits = self.filters.iter().map(|f| f.words().len() * 8);
        bits.sum::<usize>() + self.filters.capacity() * size_of::<Filter>()
    }
}

/// Whether the error stays below [`MAX_RATE`] for ever: all filters full, and
/// beyond the last one a further filter for each level, whose errors add up to
/// no more than that last one's.
fn is_within_bound(filters: &[Filter]) -> bool {
    let now: f64 = filters.iter().map(|f| full_rate(f.level())).sum();
    let to_come = filters.last().map_or(0.0, |last| full_rate(last.level()));
    now + to_come <= MAX_RATE
}
