//! What is known from outside: what was acknowledged, what really started where, and what of that
//! must not have been.
//!
//! Nothing here is known to nodes, workers or clients. They tell it, and it judges.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::id::{JobId, RunId};
use bellwether_core::record::{Definition, OverlapPolicy};
use bellwether_core::turn::Assignment;
use bellwether_core::waist::{Shard, Term};

use crate::asked::Asked;
use crate::coverage::Coverage;
use crate::links::Place;

/// A job that was acknowledged.
pub struct Known {
    /// What it is.
    pub definition: Definition,
    /// Whether somebody has asked for its deletion: then nobody knows whether it is there.
    pub deleted: bool,
}

/// An attempt that is really running.
struct Alive {
    worker: Place,
    definition: Definition,
}

/// What is known from outside.
#[derive(Default)]
pub struct Record {
    /// Jobs that were acknowledged.
    pub jobs: BTreeMap<JobId, Known>,
    /// How often each run was really started.
    pub starts: BTreeMap<RunId, u32>,
    /// What the runs that were started are of.
    pub definitions: BTreeMap<RunId, Definition>,
    /// Retries that somebody has asked for.
    pub asked: BTreeMap<RunId, u32>,
    /// Everything else that somebody has asked for, and was told.
    pub wishes: Asked,
    /// What happened how often.
    pub coverage: Coverage,
    /// Attempts that really failed.
    pub failed: BTreeMap<RunId, u32>,
    /// Whose turn it is, by ordering key.
    pub current: BTreeMap<Vec<u8>, RunId>,
    /// The term of whoever looked last at whose turn it is.
    pub looked: BTreeMap<Shard, Term>,
    /// Whether any clock has ever gone back.
    pub went_back: bool,
    alive: BTreeMap<(RunId, u64), Alive>,
    /// Attempts of which their shard has concluded that nobody runs them.
    given_up: BTreeSet<(RunId, u64)>,
    /// Workers whose machine stands still: nothing of theirs is really running.
    still: BTreeSet<Place>,
    /// Where in a shard's log its terms begin.
    terms: BTreeMap<Shard, BTreeMap<u64, Term>>,
    /// Who took a shard over in which of Raft's own terms.
    elected: BTreeMap<(Shard, u64), Place>,
    /// What must not have been.
    wrong: Vec<String>,
    /// Under which term was committed what is at a place of a shard's log.
    commits: BTreeMap<Shard, BTreeMap<u64, Term>>,
    /// Times that a shard was taken over.
    pub take_overs: u64,
    /// Requests that were answered.
    pub answers: u64,
}

impl Record {
    /// Something must not have been.
    pub fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// What must not have been, so far.
    #[must_use]
    pub fn all_wrong(&self) -> &[String] {
        &self.wrong
    }

    /// A node has taken a shard over.
    pub fn took_over(&mut self, shard: Shard, term: Term, index: u64, by: (u64, Place)) {
        self.take_overs += 1;
        self.coverage.saw("a shard was taken over");
        let (raft_term, node) = by;
        let other = *self.elected.entry((shard, raft_term)).or_insert(node);
        if other != node {
            let text = format!("nodes {other} and {node} both lead shard {shard} in {raft_term}");
            self.wrong.push(text);
        }
        let terms = self.terms.entry(shard).or_default();
        if let Some((at, other)) = terms.iter().find(|(_, other)| **other == term) {
            let text = format!("term {term} of shard {shard} was given out twice: {other} at {at}");
            self.wrong.push(text);
        }
        self.terms.entry(shard).or_default().insert(index, term);
    }

    /// A batch has been committed.
    pub fn committed(&mut self, shard: Shard, term: Term, index: u64) {
        self.commits.entry(shard).or_default().insert(index, term);
    }

    /// Whether everything was committed under the term that was valid at its place in the log.
    pub fn check_terms(&mut self) {
        let commits = self.commits.iter();
        let commits = commits.flat_map(|(shard, all)| all.iter().map(move |one| (shard, one)));
        for (shard, (index, term)) in commits {
            let terms = self.terms.get(shard);
            let valid = terms.and_then(|terms| terms.range(..index).next_back());
            if let Some((at, valid)) = valid
                && valid != term
            {
                self.wrong.push(format!(
                    "two leaders act for shard {shard}: term {term} commits at {index}, term \
                     {valid} has begun at {at}"
                ));
            }
        }
    }

    /// An attempt really starts.
    pub fn begins(&mut self, worker: Place, start: &Assignment) {
        let id = start.run;
        *self.starts.entry(id).or_default() += 1;
        self.definitions.insert(id, start.definition.clone());
        if start.attempt > 1 {
            self.coverage.saw("an attempt was a retry");
        }
        let mut wrong = Vec::new();
        if self.given_up.contains(&(id, start.token)) {
            wrong.push(format!("R94: {id} is started by {worker} after it was given up"));
        }
        for ((other, token), alive) in &self.alive {
            if self.still.contains(&alive.worker) {
                continue;
            }
            let key = &start.definition.ordering_key;
            let overlap = start.definition.overlap.map(|overlap| overlap.policy);
            let allowed = overlap == Some(OverlapPolicy::Allow as i32);
            let what = if *other == id {
                "R65: it runs already"
            } else if !key.is_empty() && *key == alive.definition.ordering_key {
                "R72: another of its ordering key runs"
            } else if other.job == id.job && !allowed {
                "R34: another run of its job runs"
            } else {
                continue;
            };
            wrong.push(format!(
                "{what}: {id} is started by {worker} under {}, while {} has {other} under {token}",
                start.token, alive.worker
            ));
        }
        self.wrong.extend(wrong);
        let alive = Alive { worker, definition: start.definition.clone() };
        self.alive.insert((id, start.token), alive);
    }

    /// A shard has concluded that nobody runs these, or will.
    pub fn given_up(&mut self, lost: &[(RunId, u64)]) {
        for (run, token) in lost {
            self.given_up.insert((*run, *token));
            let alive = self.alive.get(&(*run, *token));
            if let Some(alive) = alive.filter(|alive| !self.still.contains(&alive.worker)) {
                let text = format!("R94: {run} is given up while {} runs it", alive.worker);
                self.wrong.push(text);
            }
        }
    }

    /// An attempt has really ended.
    pub fn ends(&mut self, run: RunId, token: u64, failed: bool) {
        self.alive.remove(&(run, token));
        if failed {
            *self.failed.entry(run).or_default() += 1;
        }
    }

    /// A machine of a worker goes down, and with it all that it ran.
    pub fn dies(&mut self, worker: Place) {
        self.alive.retain(|_, alive| alive.worker != worker);
    }

    /// A machine of a worker stands still, or goes on.
    pub fn stands_still(&mut self, worker: Place, still: bool) {
        if still {
            self.still.insert(worker);
        } else {
            self.still.remove(&worker);
        }
    }
}
