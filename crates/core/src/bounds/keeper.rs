//! Whoever divides the bounds of queues among the shards.

use std::collections::{BTreeMap, BTreeSet};

use super::bucket::Bucket;
use super::divide::{Claimant, hand_out, seats};
use super::{Answer, Ask, Left, Limit, Limits, Want};
use crate::waist::{Shard, Term};

/// How long an answer may be on its way before it is said again.
const AGAIN_MS: u64 = 1_000;

/// Divides the bounds of queues among the shards. Its clock is any that does not go back.
#[derive(Debug)]
pub struct Keeper {
    shards: Shard,
    limits: Limits,
    queues: BTreeMap<String, Kept>,
}

/// A queue.
#[derive(Debug)]
struct Kept {
    heard: BTreeMap<Shard, Heard>,
    bucket: Bucket,
    /// When shards that have not been heard were last asked to speak.
    asked_ms: u64,
}

/// What a shard has said last, and was told since.
#[derive(Debug)]
struct Heard {
    term: Term,
    seq: u64,
    wants: BTreeMap<String, Want>,
    given: BTreeMap<String, Given>,
    /// When it was last told something.
    told_ms: u64,
}

/// What a namespace was left.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    /// The last word.
    left: Left,
    /// The most that it may have under way by anything that was said.
    charge: u64,
    /// The most that it may launch by anything that was said.
    launches: u64,
}

impl Keeper {
    /// One that has yet to hear the shards. Its buckets are empty.
    #[must_use]
    pub fn new(shards: Shard, limits: Limits, now_ms: u64) -> Keeper {
        let kept = |name: &String| (name.clone(), Kept::new(Bucket::empty(now_ms), now_ms));
        Keeper { shards, queues: limits.keys().map(kept).collect(), limits }
    }

    /// Sets the bounds of all queues, and divides those that have changed.
    pub fn set_limits(&mut self, limits: Limits, now_ms: u64) -> Vec<Answer> {
        let before = std::mem::replace(&mut self.limits, limits);
        self.queues.retain(|name, _| self.limits.contains_key(name));
        let mut answers = Vec::new();
        for (name, limit) in &self.limits {
            let old = before.get(name).copied().unwrap_or_default();
            let fresh = || Kept::new(Bucket::full(limit.rate_milli, now_ms), now_ms);
            let kept = self.queues.entry(name.clone()).or_insert_with(fresh);
            if old.rate_milli == 0 && limit.rate_milli > 0 {
                kept.bucket = Bucket::full(limit.rate_milli, now_ms);
            }
            if old != *limit {
                answers.extend(kept.divide(name, *limit, self.shards, None, now_ms));
            }
        }
        answers
    }

    /// Hears a shard. Whoever speaks for it, and this keeper, must have been confirmed to lead since
    /// the first of them heard of the other. There is an answer to it, unless it is not the newest.
    pub fn hear(&mut self, ask: Ask, now_ms: u64) -> Vec<Answer> {
        let Ask { shard, term, queue, seq, wants } = ask;
        let (Some(limit), Some(kept)) = (self.limits.get(&queue), self.queues.get_mut(&queue))
        else {
            // It knows of a bound before this one does, or has not heard that there is none.
            let left = wants.iter().map(|(namespace, want)| (namespace.clone(), left_of(want)));
            return vec![Answer { shard, term, queue, seq: Some(seq), left: left.collect() }];
        };
        let before = kept.heard.get(&shard);
        if before.is_some_and(|heard| (heard.term, heard.seq) >= (term, seq)) {
            return Vec::new();
        }
        // What it was given and does not have it never got, or gives back. What another leader of
        // the shard had nobody knows.
        if let Some(before) = before.filter(|heard| heard.term == term) {
            let unused = before.given.iter().map(|(namespace, given)| {
                let has = wants.get(namespace).map_or(0, |want| want.launches);
                given.launches.saturating_sub(has)
            });
            let unused = unused.sum();
            kept.bucket.put(unused, limit.rate_milli);
        }
        let given = wants.iter().map(|(namespace, want)| {
            let charge = want.under_way.max(want.ceiling);
            let given = Given { left: left_of(want), charge, launches: want.launches };
            (namespace.clone(), given)
        });
        let given = given.collect();
        kept.heard.insert(shard, Heard { term, seq, wants, given, told_ms: now_ms });
        kept.divide(&queue, *limit, self.shards, Some(shard), now_ms)
    }

    /// What there is to say as time goes by: launches that may be made again, and what may have been
    /// lost on its way.
    pub fn tick(&mut self, now_ms: u64) -> Vec<Answer> {
        let mut answers = Vec::new();
        for (name, kept) in &mut self.queues {
            let limit = self.limits.get(name).copied().unwrap_or_default();
            if limit.rate_milli > 0 {
                answers.extend(kept.divide(name, limit, self.shards, None, now_ms));
            }
            answers.extend(kept.say_again(name, self.shards, now_ms));
        }
        answers
    }

    /// Whether it has heard all shards about a queue.
    #[must_use]
    pub fn knows(&self, queue: &str) -> bool {
        self.queues.get(queue).is_some_and(|kept| kept.heard.len() >= usize::from(self.shards))
    }
}

fn left_of(want: &Want) -> Left {
    Left { ceiling: want.ceiling, launches: want.launches }
}

impl Kept {
    fn new(bucket: Bucket, now_ms: u64) -> Kept {
        Kept { heard: BTreeMap::new(), bucket, asked_ms: now_ms }
    }

    /// Divides a bound anew. Whoever is left something else than before is told, and the one who has
    /// asked in any case.
    fn divide(
        &mut self,
        queue: &str,
        limit: Limit,
        shards: Shard,
        asked: Option<Shard>,
        now_ms: u64,
    ) -> Vec<Answer> {
        self.bucket.fill(limit.rate_milli, now_ms);
        let mut changed: BTreeSet<Shard> = asked.into_iter().collect();
        // Before everybody has been heard nobody knows what is free.
        if self.heard.len() >= usize::from(shards) {
            for (shard, namespace, left) in self.parts(limit) {
                let given =
                    self.heard.get_mut(&shard).and_then(|heard| heard.given.get_mut(&namespace));
                let Some(given) = given else { continue };
                self.bucket.take(left.launches.saturating_sub(given.launches));
                given.charge = given.charge.max(left.ceiling);
                given.launches = given.launches.max(left.launches);
                if given.left != left {
                    given.left = left;
                    changed.insert(shard);
                }
            }
        }
        let answers = changed.into_iter().filter_map(|shard| {
            let heard = self.heard.get_mut(&shard)?;
            heard.told_ms = now_ms;
            Some(heard.answer(shard, queue))
        });
        answers.collect()
    }

    /// What each is left.
    fn parts(&self, limit: Limit) -> Vec<(Shard, String, Left)> {
        let all = || {
            self.heard.iter().flat_map(|(shard, heard)| {
                heard.wants.iter().map(move |(namespace, want)| {
                    let given = heard.given.get(namespace).copied().unwrap_or_default();
                    (*shard, namespace, want, given)
                })
            })
        };
        let claimants: Vec<Claimant<'_>> =
            all().map(|(_, namespace, want, _)| Claimant { namespace, want }).collect();
        let given: Vec<Given> = all().map(|(.., given)| given).collect();
        let ceilings: Vec<u64> = match limit.concurrency {
            Some(bound) => affordable(bound, &seats(bound, &claimants), &given),
            None => given.iter().map(|given| given.left.ceiling).collect(),
        };
        let launches: Vec<u64> = match limit.rate_milli {
            0 => given.iter().map(|given| given.left.launches).collect(),
            _ => {
                let bounded = limit.concurrency.is_some();
                launches(self.bucket.whole(), &claimants, &given, bounded.then_some(&ceilings))
            }
        };
        let places = all().map(|(shard, namespace, ..)| (shard, namespace.clone()));
        let left = ceilings.into_iter().zip(launches);
        let left = left.map(|(ceiling, launches)| Left { ceiling, launches });
        places.zip(left).map(|((shard, namespace), left)| (shard, namespace, left)).collect()
    }

    /// Says again what may not have arrived, and asks those who have not spoken.
    fn say_again(&mut self, queue: &str, shards: Shard, now_ms: u64) -> Vec<Answer> {
        let mut answers = Vec::new();
        for (shard, heard) in &mut self.heard {
            let late = now_ms.saturating_sub(heard.told_ms) >= AGAIN_MS;
            if late && heard.is_unconfirmed() {
                heard.told_ms = now_ms;
                answers.push(heard.answer(*shard, queue));
            } else if late && heard.may_have_more() {
                heard.told_ms = now_ms;
                let (queue, left) = (queue.to_owned(), BTreeMap::new());
                answers.push(Answer { shard: *shard, term: heard.term, queue, seq: None, left });
            }
        }
        if now_ms.saturating_sub(self.asked_ms) >= AGAIN_MS {
            self.asked_ms = now_ms;
            let missing = (0..shards).filter(|shard| !self.heard.contains_key(shard));
            answers.extend(missing.map(|shard| {
                let (queue, left) = (queue.to_owned(), BTreeMap::new());
                Answer { shard, term: 0, queue, seq: None, left }
            }));
        }
        answers
    }
}

impl Heard {
    fn answer(&self, shard: Shard, queue: &str) -> Answer {
        let left = self.given.iter().map(|(namespace, given)| (namespace.clone(), given.left));
        let (term, seq, queue) = (self.term, Some(self.seq), queue.to_owned());
        Answer { shard, term, queue, seq, left: left.collect() }
    }

    /// Whether it was left something else than it last said it has.
    fn is_unconfirmed(&self) -> bool {
        self.given.iter().any(|(name, given)| self.wants.get(name).map(left_of) != Some(given.left))
    }

    /// Whether it was given something that was taken back before it said that it has it: it has
    /// nothing to confirm, and nobody else can be given that until it has spoken again.
    fn may_have_more(&self) -> bool {
        self.given.iter().any(|(name, given)| {
            let want = self.wants.get(name).copied().unwrap_or_default();
            given.charge > want.under_way.max(want.ceiling) || given.launches > want.launches
        })
    }
}

/// Ceilings that a bound allows for already: what is wanted, but no more than is free of what anybody
/// may have.
fn affordable(bound: u64, wanted: &[u64], given: &[Given]) -> Vec<u64> {
    let charged: u64 = given.iter().map(|given| given.charge).sum();
    let mut free = bound.saturating_sub(charged);
    let ceiling = |(wanted, given): (&u64, &Given)| {
        let more = wanted.saturating_sub(given.charge).min(free);
        free -= more;
        (*wanted).min(given.charge + more)
    };
    wanted.iter().zip(given).map(ceiling).collect()
}

/// How many launches each may have made, of those that a bucket has.
fn launches(
    whole: u64,
    claimants: &[Claimant<'_>],
    given: &[Given],
    ceilings: Option<&Vec<u64>>,
) -> Vec<u64> {
    let needs: Vec<u64> = claimants
        .iter()
        .zip(given)
        .enumerate()
        .map(|(at, (Claimant { want, .. }, given))| {
            let room =
                ceilings.map_or(u64::MAX, |ceilings| ceilings[at].saturating_sub(want.under_way));
            let has = given.left.launches.saturating_sub(want.launched);
            want.waiting.min(room).saturating_sub(has)
        })
        .collect();
    let mut loads = BTreeMap::new();
    for Claimant { namespace, want } in claimants {
        *loads.entry(*namespace).or_default() += want.under_way;
    }
    let more = hand_out(whole, claimants, &needs, &mut loads);
    let lacking = (0..claimants.len()).any(|at| !claimants[at].want.stuck && more[at] < needs[at]);
    let of = |at: usize| {
        let want = claimants[at].want;
        // What cannot be used goes to those who can.
        if want.stuck && lacking { want.launched } else { given[at].left.launches + more[at] }
    };
    (0..claimants.len()).map(of).collect()
}
