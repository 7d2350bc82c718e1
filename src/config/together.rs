//! What several keys must keep to together. A layer may be partial, so this is judged
//! when all of them have been read, and laid at the door of the key that was set last.

use super::keys::{DistributionChoice, Settings};

/// Some keys, and what is wrong with them if something is.
type Rule = (&'static [&'static str], fn(&Settings) -> Option<String>);

const RULES: [Rule; 3] = [
    (
        &[
            "distribution.kind",
            "distribution.peers",
            "distribution.index",
        ],
        |settings| {
            let ours = &settings.distribution;
            let is_wrong = ours.kind == DistributionChoice::Static && ours.index >= ours.peers;
            is_wrong.then(|| {
                format!(
                    "distribution.index ({}) below distribution.peers ({}) where \
                     distribution.kind is \"static\"",
                    ours.index, ours.peers
                )
            })
        },
    ),
    (
        &[
            "queues.leave_percent",
            "queues.shallow_percent",
            "queues.refuse_percent",
        ],
        |settings| {
            let queues = &settings.queues;
            let steps = [
                queues.leave_percent,
                queues.shallow_percent,
                queues.refuse_percent,
            ];
            let [leave, shallow, refuse] = steps;
            (!steps.is_sorted_by(|lower, upper| lower < upper)).then(|| {
                format!(
                    "queues.leave_percent ({leave}) below queues.shallow_percent ({shallow}) \
                     below queues.refuse_percent ({refuse})"
                )
            })
        },
    ),
    (
        &["politeness.delay_ms", "politeness.max_delay_ms"],
        |settings| {
            let ours = &settings.politeness;
            (ours.delay_ms > ours.max_delay_ms).then(|| {
                format!(
                    "politeness.delay_ms ({}) up to politeness.max_delay_ms ({})",
                    ours.delay_ms, ours.max_delay_ms
                )
            })
        },
    ),
];

/// The first rule that does not hold: the keys that it is about, and what is allowed.
pub fn broken_rule(settings: &Settings) -> Option<(&'static [&'static str], String)> {
    let judge = |&(keys, judge): &Rule| judge(settings).map(|allowed| (keys, allowed));
    RULES.iter().find_map(judge)
}
