//! What two peers compare before they have a link: which network they are in, by which
//! rules they work, and what time it is. A difference is told in a sentence that names it,
//! in two voices: one for the peer that refuses, one for the peer that is refused.

use crate::envelope::CLOCK_SKEW_MS;

/// A hello may be so long under way.
const ON_THE_WAY_MS: u64 = 30_000;
/// Clocks that differ by more do not go together. A message is valid for a minute, and two
/// more for the clocks: within this bound every message of each is valid for the other.
pub const CLOCKS_APART_MS: u64 = CLOCK_SKEW_MS + ON_THE_WAY_MS;
/// Characters of what a stranger says that are shown.
const SHOWN: usize = 64;

/// Something that all members agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is, as in "its … is".
    pub name: String,
    /// How it is here.
    pub value: String,
}

impl Fact {
    /// A fact.
    pub fn new(name: &str, value: impl ToString) -> Self {
        Self {
            name: name.into(),
            value: value.to_string(),
        }
    }
}

/// What a peer brings to the handshake.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The version of the protocol.
    pub version: u16,
    /// The network's name.
    pub network: &'a str,
    /// What time it is, in milliseconds since 1970.
    pub wall_ms: u64,
    /// Everything else that members agree on, by name and value.
    pub facts: &'a [(String, String)],
    /// The hash of everything that members agree on.
    pub agreement: &'a [u8; 32],
}

/// Whom a sentence is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// For the peer that refuses: about the other.
    Of,
    /// For the other.
    To,
}

impl Voice {
    fn is(self) -> &'static str {
        match self {
            Self::Of => "it is",
            Self::To => "you are",
        }
    }

    fn speaks(self) -> &'static str {
        match self {
            Self::Of => "it speaks",
            Self::To => "you speak",
        }
    }

    fn whose(self) -> &'static str {
        match self {
            Self::Of => "its",
            Self::To => "your",
        }
    }
}

/// Why a peer with such terms is refused; `None` if it is not.
pub fn difference(mine: Terms<'_>, theirs: Terms<'_>, voice: Voice) -> Option<String> {
    if mine.network != theirs.network {
        let (is, their, my) = (voice.is(), shown(theirs.network), mine.network);
        return Some(format!(
            "{is} in the network \"{their}\", this peer is in \"{my}\""
        ));
    }
    if mine.version != theirs.version {
        let (speaks, their, my) = (voice.speaks(), theirs.version, mine.version);
        return Some(format!(
            "{speaks} version {their} of the protocol, this peer {my}"
        ));
    }
    let whose = voice.whose();
    let apart_ms = mine.wall_ms.abs_diff(theirs.wall_ms);
    if apart_ms > CLOCKS_APART_MS {
        let (time, side) = match theirs.wall_ms > mine.wall_ms {
            true => (long(apart_ms), "ahead of"),
            false => (long(apart_ms), "behind"),
        };
        return Some(format!(
            "{whose} clock is {time} {side} this peer's; one of them must be put right"
        ));
    }
    if mine.agreement == theirs.agreement {
        return None;
    }
    let differing = mine.facts.iter().filter_map(|(name, my)| {
        let their = theirs.facts.iter().find(|(other, _)| other == name);
        match their {
            Some((_, their)) if their == my => None,
            Some((_, their)) => {
                let their = shown(their);
                Some(format!(
                    "{whose} {name} is \"{their}\", this peer's \"{my}\""
                ))
            }
            None => Some(format!("{whose} {name} is not told")),
        }
    });
    let differing: Vec<_> = differing.collect();
    match differing.is_empty() {
        // It has rules that this peer does not even know by name.
        true => Some(format!("{whose} rules differ from this peer's")),
        false => Some(differing.join("; ")),
    }
}

/// What a stranger says, fit to be shown.
pub fn shown(text: &str) -> String {
    let fit = text.chars().filter(|c| !c.is_control());
    fit.take(SHOWN).collect()
}

/// A time in words.
fn long(ms: u64) -> String {
    let minutes = (ms + 30_000) / 60_000;
    match minutes {
        0..120 => format!("{minutes} minutes"),
        120..2_880 => format!("{} hours", minutes / 60),
        _ => format!("{} days", minutes / 1_440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: [u8; 32] = [1; 32];
    const OTHER: [u8; 32] = [2; 32];

    fn facts(overlay: &str, distribution: &str) -> Vec<(String, String)> {
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            fact("kind of overlay", overlay),
            fact("distribution", distribution),
        ]
    }

    fn terms(facts: &[(String, String)]) -> Terms<'_> {
        Terms {
            version: 1,
            network: "home",
            wall_ms: 1_800_000_000_000,
            facts,
            agreement: &MINE,
        }
    }

    #[test]
    fn each_difference_is_named() {
        let same = facts("flat", "rendezvous");
        let mine = terms(&same);
        assert_eq!(difference(mine, mine, Voice::Of), None);
        let says = |theirs: Terms<'_>| difference(mine, theirs, Voice::Of).unwrap();
        let other = Terms {
            network: "else\u{7}where",
            ..mine
        };
        let expected = "it is in the network \"elsewhere\", this peer is in \"home\"";
        assert_eq!(says(other), expected);
        let newer = Terms { version: 9, ..mine };
        assert!(says(newer).contains("version 9"));
        for (theirs, named, equal) in [
            (
                facts("supernode", "rendezvous"),
                "kind of overlay is \"supernode\"",
                "distribution",
            ),
            (
                facts("flat", "static"),
                "distribution is \"static\"",
                "overlay",
            ),
        ] {
            let agreement = &OTHER;
            let theirs = Terms {
                agreement,
                ..terms(&theirs)
            };
            let said = says(theirs);
            assert!(said.contains(named) && !said.contains(equal), "{said}");
            let told = difference(mine, theirs, Voice::To).unwrap();
            assert!(told.starts_with("your "), "{told}");
        }
        let silent = Terms {
            agreement: &OTHER,
            facts: &[],
            ..mine
        };
        assert!(says(silent).contains("its distribution is not told"));
        let unknown = Terms {
            agreement: &OTHER,
            ..mine
        };
        assert_eq!(says(unknown), "its rules differ from this peer's");
    }

    #[test]
    fn clocks_may_differ_by_two_minutes_and_the_way() {
        let same = facts("flat", "rendezvous");
        let mine = terms(&same);
        let at = |wall_ms| {
            let theirs = Terms { wall_ms, ..mine };
            difference(mine, theirs, Voice::Of)
        };
        assert_eq!(at(mine.wall_ms + CLOCKS_APART_MS), None);
        assert_eq!(at(mine.wall_ms - CLOCKS_APART_MS), None);
        let ahead = at(mine.wall_ms + 7 * 60_000).unwrap();
        assert!(ahead.contains("7 minutes ahead of"), "{ahead}");
        let behind = at(mine.wall_ms - 36 * 3_600_000).unwrap();
        assert!(behind.contains("36 hours behind"), "{behind}");
        assert!(at(0).unwrap().contains("days behind"));
    }
}
