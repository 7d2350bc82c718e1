//! Who is a supernode.
//!
//! Every peer decides for itself, from what the leases say: there should be one supernode
//! to ten leaves, three at least. If some are missing, the longest-running peers that
//! offer themselves step forward; if there are many too many, the youngest steps back, and
//! so does one that others cannot reach any more if there are enough without it.
//! All wait for a while first, so that peers that come and go do not make others
//! change roles all the time.

use crate::{PeerId, Role};

/// Supernodes at least.
pub const FEWEST: usize = 3;
/// Leaves that one supernode is meant to have.
const LEAVES_EACH: usize = 10;
/// Leaves that one supernode takes at most.
pub const MOST_LEAVES: usize = 30;

/// How patient an election is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How long a peer runs before it offers itself, unless supernodes are scarce.
    pub uptime_ms: u64,
    /// How long supernodes are missing before somebody steps forward.
    pub promote_ms: u64,
    /// How long there are too many, or one is of no use, before somebody steps back.
    pub demote_ms: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            uptime_ms: 600_000,
            promote_ms: 1_000,
            demote_ms: 120_000,
        }
    }
}

/// A peer in an election, as its lease describes it. Ordered by seniority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// When it started.
    pub incarnation: u64,
    /// Who it is.
    pub id: PeerId,
}

/// What an election depends on.
#[derive(Debug, Clone, Default)]
pub struct Electorate {
    /// The supernodes, this peer included if it is one.
    pub supernodes: Vec<Candidate>,
    /// How many of the others among them can be reached and have bandwidth to spare.
    pub fit: usize,
    /// The leaves that offer themselves, this peer included if it does.
    pub offers: Vec<Candidate>,
    /// How many leaves there are.
    pub leaves: usize,
}

/// What this peer could do.
#[derive(Debug, Clone, Copy)]
pub struct Ability {
    /// The user lets it be a supernode.
    pub is_allowed: bool,
    /// Others can connect to it.
    pub is_reachable: bool,
    /// It is not paused, and has bandwidth to spare.
    pub has_capacity: bool,
    /// How long it has run.
    pub uptime_ms: u64,
    /// It is still looking for its network.
    pub is_joining: bool,
}

/// How many supernodes there should be for so many leaves.
pub fn wanted(leaves: usize) -> usize {
    leaves.div_ceil(LEAVES_EACH).max(FEWEST)
}

/// See the module.
#[derive(Debug)]
pub struct Election {
    patience: Patience,
    role: Role,
    missing_since_ms: Option<u64>,
    surplus_since_ms: Option<u64>,
    unfit_since_ms: Option<u64>,
}

impl Ability {
    /// Whether it can serve leaves, however long it has run.
    pub fn is_fit(self) -> bool {
        self.is_allowed && self.is_reachable && self.has_capacity
    }
}

impl Election {
    /// A peer begins as a leaf.
    pub fn new(patience: Patience) -> Self {
        Self {
            patience,
            role: Role::Leaf,
            missing_since_ms: None,
            surplus_since_ms: None,
            unfit_since_ms: None,
        }
    }

    /// The present role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether this peer offers itself.
    pub fn offers(&self, ability: Ability, supernodes: usize) -> bool {
        let is_old_enough = ability.uptime_ms >= self.patience.uptime_ms;
        ability.is_fit() && (is_old_enough || supernodes < FEWEST)
    }

    /// Decides this peer's role.
    pub fn decide(
        &mut self,
        me: Candidate,
        ability: Ability,
        electorate: &Electorate,
        now_ms: u64,
    ) -> Role {
        let wanted = wanted(electorate.leaves);
        let count = electorate.supernodes.len();
        let is_supernode = if self.role == Role::Supernode {
            !self.steps_back(me, ability, electorate, wanted, now_ms)
        } else {
            // Without any supernode there is no network: reachable or not, try it.
            let is_needed = count == 0 && ability.is_allowed && !ability.is_joining;
            is_needed || self.steps_forward(me, electorate, wanted, now_ms)
        };
        self.role = if is_supernode {
            Role::Supernode
        } else {
            Role::Leaf
        };
        if self.role == Role::Supernode {
            self.missing_since_ms = None;
        } else {
            self.surplus_since_ms = None;
            self.unfit_since_ms = None;
        }
        self.role
    }

    fn steps_forward(
        &mut self,
        me: Candidate,
        electorate: &Electorate,
        wanted: usize,
        now_ms: u64,
    ) -> bool {
        let missing = wanted.saturating_sub(electorate.supernodes.len());
        if missing == 0 {
            self.missing_since_ms = None;
            return false;
        }
        let since_ms = *self.missing_since_ms.get_or_insert(now_ms);
        let seniors = electorate
            .offers
            .iter()
            .filter(|&&other| other < me)
            .count();
        electorate.offers.contains(&me)
            && seniors < missing
            && now_ms >= since_ms + self.patience.promote_ms
    }

    fn steps_back(
        &mut self,
        me: Candidate,
        ability: Ability,
        electorate: &Electorate,
        wanted: usize,
        now_ms: u64,
    ) -> bool {
        let count = electorate.supernodes.len();
        if !ability.is_allowed && count > 1 {
            return true;
        }
        if self.is_of_no_use(ability, electorate, wanted, now_ms) {
            return true;
        }
        // Half as many again are not worth a change.
        if count <= wanted + wanted.div_ceil(2) {
            self.surplus_since_ms = None;
            return false;
        }
        let since_ms = *self.surplus_since_ms.get_or_insert(now_ms);
        let is_youngest = electorate.supernodes.iter().all(|&other| other <= me);
        is_youngest && now_ms >= since_ms + self.patience.demote_ms
    }

    /// Whether this supernode has not been fit for a while, and there are enough that are.
    /// Only those count of whom it is known: if nobody can be reached, all go on as well
    /// as they can.
    fn is_of_no_use(
        &mut self,
        ability: Ability,
        electorate: &Electorate,
        wanted: usize,
        now_ms: u64,
    ) -> bool {
        if ability.is_fit() {
            self.unfit_since_ms = None;
            return false;
        }
        let since_ms = *self.unfit_since_ms.get_or_insert(now_ms);
        let has_others = electorate.fit + electorate.offers.len() >= wanted;
        has_others && now_ms >= since_ms + self.patience.demote_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        uptime_ms: 600_000,
        promote_ms: 1_000,
        demote_ms: 120_000,
    };
    const ABLE: Ability = Ability {
        is_allowed: true,
        is_reachable: true,
        has_capacity: true,
        uptime_ms: 0,
        is_joining: false,
    };

    fn peer(number: u8) -> Candidate {
        Candidate {
            incarnation: u64::from(number),
            id: PeerId::repeat(number),
        }
    }

    fn network(supernodes: &[u8], offers: &[u8], leaves: usize) -> Electorate {
        Electorate {
            supernodes: supernodes.iter().map(|&n| peer(n)).collect(),
            fit: supernodes.len().saturating_sub(1),
            offers: offers.iter().map(|&n| peer(n)).collect(),
            leaves,
        }
    }

    #[test]
    fn three_at_least_and_one_to_ten_leaves() {
        let counts = [0, 30, 31, 100, 1_000].map(wanted);
        assert_eq!(counts, [3, 3, 4, 10, 100]);
    }

    #[test]
    fn with_none_in_sight_a_peer_becomes_one_at_once() {
        let mut election = Election::new(PATIENCE);
        let nobody = network(&[], &[], 1);
        let joining = Ability {
            is_joining: true,
            ..ABLE
        };
        assert_eq!(election.decide(peer(1), joining, &nobody, 0), Role::Leaf);
        assert_eq!(election.decide(peer(1), ABLE, &nobody, 0), Role::Supernode);
        let forbidden = Ability {
            is_allowed: false,
            ..ABLE
        };
        let mut election = Election::new(PATIENCE);
        assert_eq!(election.decide(peer(1), forbidden, &nobody, 0), Role::Leaf);
    }

    #[test]
    fn the_senior_among_those_who_offer_step_forward_after_a_while() {
        let view = network(&[1], &[4, 5, 6], 9);
        for (number, role) in [(4, Role::Supernode), (5, Role::Supernode), (6, Role::Leaf)] {
            let mut election = Election::new(PATIENCE);
            assert_eq!(election.decide(peer(number), ABLE, &view, 0), Role::Leaf);
            assert_eq!(
                election.decide(peer(number), ABLE, &view, 1_000),
                role,
                "{number}"
            );
        }
        let mut silent = Election::new(PATIENCE);
        silent.decide(peer(2), ABLE, &view, 0);
        assert_eq!(
            silent.decide(peer(2), ABLE, &view, 1_000),
            Role::Leaf,
            "it did not offer"
        );
    }

    #[test]
    fn offers_need_reach_capacity_consent_and_age() {
        let election = Election::new(PATIENCE);
        assert!(election.offers(ABLE, 2), "scarce: age does not matter");
        assert!(!election.offers(ABLE, 3));
        let old = Ability {
            uptime_ms: 600_000,
            ..ABLE
        };
        assert!(election.offers(old, 3));
        for ability in [
            Ability {
                is_allowed: false,
                ..old
            },
            Ability {
                is_reachable: false,
                ..old
            },
            Ability {
                has_capacity: false,
                ..old
            },
        ] {
            assert!(!election.offers(ability, 0), "{ability:?}");
        }
    }

    #[test]
    fn the_youngest_steps_back_from_a_lasting_surplus() {
        let crowd = network(&[1, 2, 3, 4, 5, 6], &[], 10);
        let supernode = || {
            let mut election = Election::new(PATIENCE);
            election.role = Role::Supernode;
            election
        };
        let (mut youngest, mut senior) = (supernode(), supernode());
        for ms in [0, 119_999] {
            assert_eq!(youngest.decide(peer(6), ABLE, &crowd, ms), Role::Supernode);
        }
        senior.decide(peer(1), ABLE, &crowd, 0);
        assert_eq!(
            senior.decide(peer(1), ABLE, &crowd, 120_000),
            Role::Supernode
        );
        assert_eq!(youngest.decide(peer(6), ABLE, &crowd, 120_000), Role::Leaf);
        let fair = network(&[1, 2, 3, 4, 5], &[], 10);
        let mut fifth = supernode();
        fifth.decide(peer(5), ABLE, &fair, 0);
        assert_eq!(fifth.decide(peer(5), ABLE, &fair, 500_000), Role::Supernode);
    }

    /// A supernode whose router has closed, or whose line is spent, stayed one for ever.
    #[test]
    fn one_that_is_of_no_use_steps_back_while_others_can_serve() {
        let private = Ability {
            is_reachable: false,
            ..ABLE
        };
        let spent = Ability {
            has_capacity: false,
            ..ABLE
        };
        for unfit in [private, spent] {
            let others = network(&[1, 2, 3, 4], &[], 10);
            let mut senior = Election::new(PATIENCE);
            senior.role = Role::Supernode;
            for ms in [0, 119_999] {
                let role = senior.decide(peer(1), unfit, &others, ms);
                assert_eq!(role, Role::Supernode);
            }
            let mut spell = Election::new(PATIENCE);
            spell.role = Role::Supernode;
            for (ability, ms) in [(unfit, 0), (ABLE, 60_000), (unfit, 120_000)] {
                let role = spell.decide(peer(1), ability, &others, ms);
                assert_eq!(role, Role::Supernode, "it was fit in between");
            }
            assert_eq!(senior.decide(peer(1), unfit, &others, 120_000), Role::Leaf);
            let again = senior.decide(peer(1), unfit, &others, 500_000);
            assert_eq!(again, Role::Leaf, "it does not come back");
        }
        // Nobody else can serve: it goes on, as all of them do.
        let nobody = Electorate {
            fit: 1,
            ..network(&[1, 2, 3, 4], &[], 10)
        };
        let mut last = Election::new(PATIENCE);
        last.role = Role::Supernode;
        last.decide(peer(1), private, &nobody, 0);
        let role = last.decide(peer(1), private, &nobody, 500_000);
        assert_eq!(role, Role::Supernode);
        let replaced = Electorate {
            offers: vec![peer(7), peer(8)],
            ..nobody
        };
        let role = last.decide(peer(1), private, &replaced, 500_001);
        assert_eq!(role, Role::Leaf);
    }

    #[test]
    fn a_peer_near_the_threshold_does_not_flap() {
        // Leaves come and go around the number that needs a fourth supernode.
        let mut election = Election::new(PATIENCE);
        let mut changes = 0;
        let mut role = Role::Leaf;
        for step in 0..1_000u64 {
            let leaves = 30 + (step % 2) as usize;
            let supernodes: &[u8] = match role {
                Role::Supernode => &[1, 2, 3, 4],
                _ => &[1, 2, 3],
            };
            let view = network(supernodes, &[4], leaves);
            let next = election.decide(peer(4), ABLE, &view, step * 700);
            changes += u32::from(next != role);
            role = next;
        }
        assert!(changes <= 1, "{changes}");
    }
}
