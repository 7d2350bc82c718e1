//! Which of the user's definitions is in force for which.
//!
//! A crawl is named by the hash of its definition: whoever changes its scope or its bounds
//! has another crawl. The new definition then takes the place of the former one: what
//! waits for that is judged by the new one when its turn comes, and fetched for it. Seeds
//! are no rules: a definition that differs in them alone has its place beside the others,
//! and what was found from a seed that is gone is still fetched.
//!
//! Only the user's own definitions are in it. [`Crawls`](super::Crawls) keeps it, and the
//! ledger writes it down as it is.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::CrawlId;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Successions {
    /// The user's definitions that were not replaced.
    in_force: Vec<CrawlId>,
    /// Those that were, each with the one that is in force instead: never a chain.
    replaced: HashMap<CrawlId, CrawlId>,
}

impl Successions {
    /// The user's definitions that were not replaced.
    pub fn in_force(&self) -> &[CrawlId] {
        &self.in_force
    }

    /// Those that were, each with the one that is in force instead.
    pub fn replaced(&self) -> &HashMap<CrawlId, CrawlId> {
        &self.replaced
    }

    /// The definition that is in force for URLs of this one: itself, if nobody has
    /// replaced it.
    pub fn in_force_for(&self, id: CrawlId) -> CrawlId {
        self.replaced.get(&id).copied().unwrap_or(id)
    }

    /// The user has begun a definition, which takes the place of the `outdated` ones.
    pub fn begin(&mut self, new: CrawlId, outdated: &[CrawlId]) {
        // It may have been replaced before.
        self.replaced.remove(&new);
        for successor in self.replaced.values_mut() {
            if outdated.contains(successor) {
                *successor = new;
            }
        }
        self.replaced.extend(outdated.iter().map(|&old| (old, new)));
        self.in_force.retain(|id| !outdated.contains(id));
        self.in_force.push(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: CrawlId = CrawlId(1);
    const B: CrawlId = CrawlId(2);
    const C: CrawlId = CrawlId(3);
    const OTHER: CrawlId = CrawlId(9);

    #[test]
    fn there_are_no_chains_and_whoever_goes_back_is_in_force_again() {
        let mut successions = Successions::default();
        successions.begin(A, &[]);
        successions.begin(B, &[A]);
        successions.begin(C, &[B]);
        let all = |successions: &Successions| [A, B, C].map(|id| successions.in_force_for(id));
        assert_eq!(all(&successions), [C; 3]);
        assert_eq!(successions.in_force(), [C]);
        successions.begin(A, &[C]);
        assert_eq!(all(&successions), [A; 3]);
        successions.begin(B, &[]);
        assert_eq!(all(&successions), [A, B, A], "beside it");
        successions.begin(C, &[A, B]);
        assert_eq!(all(&successions), [C; 3]);
        assert_eq!(successions.in_force_for(OTHER), OTHER);
    }
}
