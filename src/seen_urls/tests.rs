use std::collections::HashSet;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::bloom::{Filter, Probe, word_count};
use super::{EXACT_LIMIT, Malformed, SeenUrls};

/// Different fingerprints for different numbers, spread like hashes.
fn fingerprint(n: u64) -> u64 {
    let x = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 29)).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

fn seen(range: std::ops::Range<u64>) -> SeenUrls {
    let mut seen = SeenUrls::default();
    for n in range {
        seen.insert(fingerprint(n));
    }
    seen
}

#[test]
fn exact_up_to_its_bound() {
    let limit = EXACT_LIMIT as u64;
    let mut seen = SeenUrls::default();
    for n in 0..limit {
        assert!(seen.insert(fingerprint(n)), "{n} is new");
        assert!(!seen.insert(fingerprint(n)), "{n} is seen");
    }
    assert_eq!(seen.len(), limit);
    assert!((limit..2 * limit).all(|n| !seen.contains(fingerprint(n))));
    assert_eq!(seen.expected_losses(), 0.0);
    let before = seen.memory_bytes();
    assert!(seen.insert(fingerprint(limit)));
    assert_eq!(seen.len(), limit + 1);
    assert!((0..=limit).all(|n| seen.contains(fingerprint(n))));
    assert!(seen.memory_bytes() < before / 4, "layers are smaller");
}

/// A million URLs, and a million that are not there: at most one in ten thousand is
/// taken for seen, and the expectation that the set publishes is close to the truth.
#[test]
fn one_false_positive_in_ten_thousand_at_most() {
    let million = 1_000_000;
    let mut seen = SeenUrls::default();
    let lost = (0..million)
        .filter(|&n| !seen.insert(fingerprint(n)))
        .count();
    assert_eq!(seen.len(), million - lost as u64);
    let expected = seen.expected_losses();
    assert!(expected > 5.0 && expected < 50.0, "{expected}");
    let noise = 4.0 * expected.sqrt();
    assert!(
        (lost as f64 - expected).abs() < noise,
        "{lost} for {expected}"
    );
    let false_positives = (million..2 * million).filter(|&n| seen.contains(fingerprint(n)));
    let false_positives = false_positives.count();
    assert!((1..=100).contains(&false_positives), "{false_positives}");
    assert!((0..million).all(|n| seen.contains(fingerprint(n))));
    assert!(seen.memory_bytes() < 4_000_000, "{}", seen.memory_bytes());
}

#[test]
fn bytes_bring_every_form_back() {
    for count in [0, 1, 32, 33, 1_000, 65_536, 65_537, 300_000] {
        let before = seen(0..count);
        let bytes = postcard::to_stdvec(&before).unwrap();
        let mut after: SeenUrls = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(after.to_bytes(), before.to_bytes(), "{count}");
        assert_eq!(after.len(), before.len());
        assert_eq!(after.expected_losses(), before.expected_losses());
        assert!((0..count).all(|n| after.contains(fingerprint(n))));
        assert!(after.insert(fingerprint(count)), "{count}: it goes on");
    }
}

#[test]
fn bytes_do_not_depend_on_the_order_of_arrival() {
    let mut backwards = SeenUrls::default();
    (0..1_000)
        .rev()
        .for_each(|n| _ = backwards.insert(fingerprint(n)));
    assert_eq!(backwards.to_bytes(), seen(0..1_000).to_bytes());
}

#[test]
fn a_union_holds_both_sets_in_all_forms() {
    let sizes = [0u64, 5, 40, 5_000, 50_000, 70_000, 200_000];
    for mine in sizes {
        for theirs in sizes {
            // A third of theirs is mine too.
            let from = mine.saturating_sub(theirs / 3);
            let mut united = seen(0..mine);
            united.union(seen(from..from + theirs));
            let all = mine.max(from + theirs);
            assert!((0..all).all(|n| united.contains(fingerprint(n))));
            let wrong = (all..all + 100_000).filter(|&n| united.contains(fingerprint(n)));
            assert!(wrong.count() <= 10, "{mine} with {theirs}");
            if all <= EXACT_LIMIT as u64 {
                assert_eq!(united.len(), all);
            }
        }
    }
}

/// A site that moved away and came back: its two sets share all but the newest.
#[test]
fn uniting_with_a_later_copy_costs_nothing() {
    let mut mine = seen(0..400_000);
    let mut later = mine.clone();
    (400_000..410_000).for_each(|n| _ = later.insert(fingerprint(n)));
    let before = mine.memory_bytes();
    let length = later.len();
    mine.union(later);
    assert_eq!(mine.memory_bytes(), before);
    assert!(mine.len().abs_diff(length) < length / 100, "{}", mine.len());
    assert!((0..410_000).all(|n| mine.contains(fingerprint(n))));
}

/// However many strangers' sets come, the bound on false positives holds, and nothing
/// of our own is forgotten.
#[test]
fn many_unions_keep_the_bound() {
    let mut united = seen(0..120_000);
    for stranger in 1..10 {
        let from = stranger * 1_000_000;
        united.union(seen(from..from + 120_000));
    }
    assert!((0..120_000).all(|n| united.contains(fingerprint(n))));
    let absent = 100_000_000..101_000_000;
    let wrong = absent.filter(|&n| united.contains(fingerprint(n))).count();
    assert!(wrong <= 100, "{wrong}");
    let bytes = united.to_bytes();
    assert!(SeenUrls::from_bytes(&bytes).is_ok(), "our own is accepted");
}

/// A record of layers with these filters, as a stranger could write it.
fn record(losses: f64, filters: &[Filter]) -> Vec<u8> {
    let mut bytes = vec![1, 1];
    bytes.extend(losses.to_le_bytes());
    for filter in filters {
        bytes.push(filter.level());
        bytes.extend(filter.count().to_le_bytes());
        bytes.extend(filter.words().iter().flat_map(|w| w.to_le_bytes()));
    }
    bytes
}

#[test]
fn hostile_bytes_are_refused() {
    let refused = |bytes: &[u8]| SeenUrls::from_bytes(bytes).unwrap_err();
    assert_eq!(refused(&[]), Malformed::UnknownForm);
    assert_eq!(refused(&[1]), Malformed::UnknownForm);
    assert_eq!(refused(&[2, 0]), Malformed::UnknownForm);
    assert_eq!(refused(&[1, 2]), Malformed::UnknownForm);
    assert_eq!(refused(&[1, 0, 7]), Malformed::Length);

    let mut twice = vec![1, 0];
    twice.extend([5; 16]);
    assert_eq!(refused(&twice), Malformed::Fingerprints);
    let mut too_many = vec![1, 0];
    too_many.extend((0..=EXACT_LIMIT as u64).flat_map(u64::to_le_bytes));
    assert_eq!(refused(&too_many), Malformed::Fingerprints);

    let empty = Filter::new(0);
    assert!(SeenUrls::from_bytes(&record(0.0, std::slice::from_ref(&empty))).is_ok());
    assert_eq!(refused(&record(0.0, &[])), Malformed::Filters);
    for losses in [f64::NAN, f64::INFINITY, -1.0] {
        let bytes = record(losses, std::slice::from_ref(&empty));
        assert_eq!(refused(&bytes), Malformed::Filters);
    }
    let all_seen = Filter::from_words(0, 1, vec![u64::MAX; word_count(0)]);
    assert_eq!(refused(&record(0.0, &[all_seen])), Malformed::Filters);
    let miscounted = Filter::from_words(0, u64::MAX, vec![1; word_count(0)]);
    assert_eq!(refused(&record(0.0, &[miscounted])), Malformed::Filters);
    let descending = [Filter::new(1), Filter::new(0)];
    assert_eq!(refused(&record(0.0, &descending)), Malformed::Filters);
    let too_many = vec![empty.clone(); 6];
    assert_eq!(refused(&record(0.0, &too_many)), Malformed::Filters);

    // It claims 8 GiB and holds nothing: refused before any of it is allocated.
    let mut huge = vec![1, 1];
    huge.extend([0; 8]);
    huge.push(15);
    huge.extend([0; 8]);
    assert_eq!(refused(&huge), Malformed::Length);
    let mut no_such_level = huge.clone();
    no_such_level[10] = 16;
    assert_eq!(refused(&no_such_level), Malformed::Filters);
    let whole = record(0.0, &[empty]);
    assert_eq!(refused(&whole[..whole.len() - 1]), Malformed::Length);
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(2),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Against the standard set, from few values so that they repeat.
    #[test]
    fn behaves_like_a_set(
        inserts in prop::collection::vec((any::<bool>(), 0u64..60), 0..200),
        other in prop::collection::hash_set(0u64..60, 0..60),
    ) {
        let (mut seen, mut model) = (SeenUrls::default(), HashSet::new());
        for (insert, value) in inserts {
            if insert {
                prop_assert_eq!(seen.insert(value), model.insert(value));
            }
            prop_assert_eq!(seen.contains(value), model.contains(&value));
            prop_assert_eq!(seen.len(), model.len() as u64);
        }
        let mut theirs = SeenUrls::default();
        other.iter().for_each(|&value| _ = theirs.insert(value));
        seen.union(theirs);
        model.extend(other);
        prop_assert_eq!(seen.len(), model.len() as u64);
        prop_assert!(model.iter().all(|&value| seen.contains(value)));
        let back = SeenUrls::from_bytes(&seen.to_bytes()).unwrap();
        prop_assert_eq!(back.to_bytes(), seen.to_bytes());
    }

    #[test]
    fn any_bytes_are_a_set_or_refused(
        start in prop_oneof![Just(vec![1, 0]), Just(vec![1, 1]), Just(vec![])],
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = [start, rest].concat();
        if let Ok(seen) = SeenUrls::from_bytes(&bytes) {
            prop_assert_eq!(seen.to_bytes(), bytes);
        }
    }
}

/// The probe is what the filters' documentation says, from the fingerprint alone.
#[test]
fn a_fingerprint_is_found_in_a_filter_of_any_level() {
    for level in 0..4 {
        let mut filter = Filter::new(level);
        assert!(!filter.contains(Probe::of(7)));
        filter.insert(Probe::of(7));
        assert!(filter.contains(Probe::of(7)));
        assert!(!filter.contains(Probe::of(8)));
    }
}
