//! Runs of shards that act elsewhere for the workers of this node.
//!
//! ```text
//!   leader                                   node with workers
//!   what waits ──────────── hint ──────────► sets slots aside
//!   claims, commits ◄────── claim ────────── for its workers
//!              └─────── assignments ───────► hands over
//! ```
//! One task for each shard, so claims, and questions about what workers hold, never overlap: what
//! the leader says is with a worker and this node knows nothing of never arrived, and is given back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bellwether_core::id::RunId;
use bellwether_core::shard::{StillHeld, with_workers};
use bellwether_core::turn::{Lane, Report, Reported};
use bellwether_core::waist::Shard;
use bellwether_protocol::node::v1;
use bellwether_store::Engine;
use bellwether_worker::guard::boot_ms;
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::Cluster;
use super::leases::GRACE;
use super::wire::claims::{
    Hint, decode_claimed, decode_held, encode_claim, encode_hints, encode_stops,
};
use crate::shard::{Claimed, Grant};
use crate::work::{Dispatch, LocalWorker, Remotes};

/// How long a hint may take.
const HINT_WITHIN: Duration = Duration::from_secs(1);
/// How often what waits is said again: a hint may have been lost.
const HINT_AGAIN: Duration = Duration::from_secs(1);
/// How long a leader may take to claim, or to say what is held.
const CLAIM_WITHIN: Duration = Duration::from_secs(5);
/// How long to wait before a leader is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// Runs that are claimed at once.
const CLAIMS_MAX: usize = 1_024;
/// How long this node must have had company before it trusts its own record of what was handed over.
const SETTLED: Duration = Duration::from_secs(2);
/// No leader acts under this term.
const NOT_SETTLED: u64 = 0;
/// How often workers are looked after.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The workers of this node.
pub struct Hands {
    /// Who has free slots.
    pub dispatch: Arc<Dispatch>,
    /// Those that dial in.
    pub remotes: Arc<Remotes>,
    /// The built-in one.
    pub worker: Option<Arc<LocalWorker>>,
    /// How long a worker may be silent.
    pub lease: Duration,
}

/// What came of a wish to claim.
enum Asked {
    Claimed(Claimed),
    /// Nothing was claimed.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// An attempt: a run under a token.
type AttemptId = (RunId, u64);
/// What workers of this node have, and which has it.
type Here = BTreeMap<AttemptId, String>;

/// What the leader counts as with workers that do not have it, and what workers have that the leader
/// does not count. The leader was asked after `before` and before `after`: a shard that acts on this
/// very node hands over more meanwhile, and that is nobody's fault.
fn compare(before: &Here, held: &BTreeSet<AttemptId>, after: Here) -> (BTreeSet<AttemptId>, Here) {
    let missing = held.iter().filter(|attempt| !after.contains_key(attempt)).copied().collect();
    let is_stranger = |attempt: &AttemptId| !held.contains(attempt) && before.contains_key(attempt);
    (missing, after.into_iter().filter(|(attempt, _)| is_stranger(attempt)).collect())
}

impl Cluster {
    pub(super) fn hands(&self) -> &Hands {
        // They are set before anything here is started.
        self.hands.wait()
    }

    /// Tells other nodes what waits here, until told to stop.
    pub async fn keep_hinting(self: Arc<Self>, stop: CancellationToken) {
        let mut waiting: BTreeMap<Shard, Hint> = BTreeMap::new();
        let mut said = Instant::now();
        loop {
            let taken = tokio::select! {
                () = stop.cancelled() => return,
                taken = tokio::time::timeout(HINT_AGAIN, self.hands().dispatch.hints.take()) => taken,
            };
            let again = said.elapsed() >= HINT_AGAIN;
            let changed: BTreeSet<Shard> = match taken {
                Ok(changed) => {
                    let shards = changed.keys().copied().collect();
                    for (shard, heads) in changed {
                        let term =
                            self.shards[usize::from(shard)].status.term.load(Ordering::Relaxed);
                        waiting.insert(shard, Hint { shard, term, heads });
                    }
                    shards
                }
                Err(_) => BTreeSet::new(),
            };
            let acts = |shard: Shard| self.shards[usize::from(shard)].acts_here();
            let told: Vec<Hint> = waiting
                .values()
                .filter(|hint| acts(hint.shard) && (again || changed.contains(&hint.shard)))
                .cloned()
                .collect();
            waiting.retain(|shard, hint| !hint.heads.is_empty() && acts(*shard));
            if told.is_empty() {
                continue;
            }
            if again {
                said = Instant::now();
            }
            let request = encode_hints(&told);
            let up = self.book.all().into_iter().filter(|known| known.is_up());
            join_all(up.map(|known| self.hint(known.row.node, request.clone()))).await;
        }
    }

    async fn hint(&self, node: u64, request: v1::HintRequest) {
        if let Ok(mut way) = self.to(node) {
            // One that is lost is said again.
            let _ = tokio::time::timeout(HINT_WITHIN, way.hint(request)).await;
        }
    }

    /// Another node has said what waits there.
    pub(super) fn hinted(&self, hints: Vec<Hint>) {
        for hint in hints {
            if let Some(handle) = self.shards.get(usize::from(hint.shard)) {
                self.heads.lock().insert(hint.shard, (hint.term, hint.heads));
                handle.wake_afar();
            }
        }
    }

    /// Claims runs of a shard for the workers of this node while it acts elsewhere, until told to
    /// stop.
    pub async fn keep_claiming(self: Arc<Self>, shard: Shard, stop: CancellationToken) {
        let handle = self.shards[usize::from(shard)].clone();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = handle.woken_afar() => {}
            }
            let working = async {
                if self.settle_with_leader(shard).await && !handle.acts_here() {
                    while self.claim_round(shard).await {}
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = working => {}
            }
        }
    }

    /// The term under which a shard acts, wherever that is.
    fn acting_term(&self, shard: Shard) -> Option<u64> {
        let handle = &self.shards[usize::from(shard)];
        if handle.acts_here() {
            return Some(handle.status.term.load(Ordering::Relaxed));
        }
        let leader = self.leader(shard)?;
        let replicas = self.book.replicas(shard);
        let (_, said) = replicas.into_iter().find(|(node, _)| *node == leader)?;
        said.acting.map(|acting| acting.term)
    }

    /// Wakes those who claim where the leader has changed since they last asked it, or where a claim
    /// of which nobody knew what came of it may have arrived late, after the leader was asked.
    pub(super) fn look_at_leaders(&self) {
        let lease = self.hands().lease;
        self.unsure.lock().retain(|shard, since| {
            if since.elapsed() > lease {
                self.settled.lock().insert(*shard, NOT_SETTLED);
            }
            since.elapsed() <= lease
        });
        for handle in &self.shards {
            let known = self.settled.lock().get(&handle.shard).copied();
            if self.acting_term(handle.shard).is_some_and(|term| Some(term) != known) {
                handle.wake_afar();
            }
        }
    }

    /// Makes sure that the leader and this node agree on what is with its workers. Whether they do.
    async fn settle_with_leader(&self, shard: Shard) -> bool {
        let Some(term) = self.acting_term(shard) else { return false };
        if self.settled.lock().get(&shard) == Some(&term) {
            return true;
        }
        self.company_for() > SETTLED && self.agree(shard).await.is_some()
    }

    /// Asks the leader what is with the workers of this node. What they do not have is given back;
    /// what they should not have is stopped.
    async fn agree(&self, shard: Shard) -> Option<()> {
        let hands = self.hands();
        let seated: Vec<String> =
            hands.dispatch.seated().into_iter().map(|(name, _, _)| name.to_string()).collect();
        let before = self.here(shard, &seated);
        let (term, held) = self.ask_held(shard, &seated).await?;
        let counted = held.iter().map(|held| (held.run, held.token)).collect();
        let (missing, strangers) = compare(&before, &counted, self.here(shard, &seated));
        let handle = &self.shards[usize::from(shard)];
        let own = hands.worker.as_ref().map(|worker| worker.name().to_owned());
        let first = !self.settled.lock().contains_key(&shard);
        let is_missing = |held: &StillHeld| missing.contains(&(held.run, held.token));
        let strays: Vec<StillHeld> = held.into_iter().filter(is_missing).collect();
        let elsewhere = self.connected_elsewhere(shard, &strays).await?;
        // One whose lease has ended meanwhile is not here any more, and neither is what it has: that it
        // did not arrive does not follow.
        let is_own = |worker: &String| own.as_ref() == Some(worker);
        let is_here = |worker: &String| is_own(worker) || hands.remotes.knows(worker);
        if strays.iter().any(|held| !is_here(&held.worker) && !elsewhere.contains(&held.worker)) {
            return None;
        }
        for held in strays {
            let StillHeld { run, token, .. } = held;
            if elsewhere.contains(&held.worker) {
                // The other node may have handed it out.
                if is_own(&held.worker) {
                    tracing::error!(worker = held.worker, "another node has a worker of this name");
                } else {
                    hands.remotes.take_up_if_polls(held);
                }
                continue;
            }
            if first && is_own(&held.worker) {
                let detail = "the server was stopped while it ran".to_owned();
                handle.lost(run, token, detail);
            } else {
                handle.report(vec![Report { run, token, what: Reported::HandedBack }]);
            }
        }
        for ((run, token), worker) in strangers {
            tracing::warn!(%run, worker, "a worker has a run that is not its own any more");
            hands.dispatch.stop(&worker, run, token);
        }
        self.settled.lock().insert(shard, term);
        Some(())
    }

    /// What the workers of this node have of a shard.
    fn here(&self, shard: Shard, seated: &[String]) -> Here {
        let hands = self.hands();
        let mut here = Here::new();
        let mut add = |worker: &str, run: RunId, token: u64| {
            if run.job.shard() == shard {
                here.insert((run, token), worker.to_owned());
            }
        };
        // What was on its way is looked at first: from there it moves on, and not back.
        for (worker, run, token) in hands.dispatch.promised() {
            add(&worker, run, token);
        }
        if let Some(worker) = &hands.worker {
            for (run, token) in worker.running().attempts() {
                add(worker.name(), run, token);
            }
        }
        for worker in seated {
            for (run, token) in hands.remotes.held_by(worker) {
                add(worker, run, token);
            }
        }
        here
    }

    /// Sets slots aside for what waits in a shard, and claims. Whether there may be more.
    async fn claim_round(&self, shard: Shard) -> bool {
        let dispatch = &self.hands().dispatch;
        let heads = self.heads.lock().get(&shard).map(|(_, heads)| heads.clone());
        let heads = heads.unwrap_or_default();
        let mut grants: Vec<Grant> = Vec::new();
        let mut left = CLAIMS_MAX;
        for (lane, first, count) in &heads {
            let mut want = (*count).min(left);
            while want > 0
                && let Some(reserved) = dispatch.reserve(shard, lane, *first, want)
            {
                want -= reserved.slots;
                left -= reserved.slots;
                grants.push(Grant {
                    lane: lane.clone(),
                    worker: reserved.worker,
                    slots: reserved.slots,
                    others: reserved.others > 0,
                });
            }
        }
        if grants.is_empty() {
            dispatch.declare(shard, heads);
            return false;
        }
        let asked_ms = boot_ms();
        match self.ask_claim(shard, &grants).await {
            Asked::Claimed(claimed) => {
                let more = !claimed.assignments.is_empty() && !claimed.heads.is_empty();
                self.use_up(grants, &claimed);
                dispatch.hand_over(claimed.assignments, asked_ms);
                dispatch.declare(shard, claimed.heads.clone());
                self.heads.lock().insert(shard, (claimed.term, claimed.heads));
                more
            }
            asked => {
                // At once: the shard may stay without a leader, and others have use for the slots. What
                // may have been claimed is not handed over in any case.
                for grant in grants {
                    dispatch.put_back(&grant.worker, &grant.lane, grant.slots);
                }
                self.heads.lock().remove(&shard);
                dispatch.declare(shard, Vec::new());
                if let Asked::Unknown = asked {
                    self.settled.lock().insert(shard, NOT_SETTLED);
                    while self.agree(shard).await.is_none() {
                        tokio::time::sleep(AGAIN).await;
                    }
                    self.unsure.lock().insert(shard, Instant::now());
                }
                false
            }
        }
    }

    /// Puts back what was set aside and not used.
    fn use_up(&self, grants: Vec<Grant>, claimed: &Claimed) {
        let mut used: BTreeMap<(String, Lane), usize> = BTreeMap::new();
        for assignment in &claimed.assignments {
            *used.entry((assignment.worker.clone(), assignment.lane())).or_default() += 1;
        }
        for grant in grants {
            let mine = used.get_mut(&(grant.worker.to_string(), grant.lane.clone()));
            let taken = mine.map_or(0, |used| {
                let taken = (*used).min(grant.slots);
                *used -= taken;
                taken
            });
            if taken < grant.slots {
                let unused = grant.slots - taken;
                self.hands().dispatch.put_back(&grant.worker, &grant.lane, unused);
            }
        }
    }

    async fn ask_claim(&self, shard: Shard, grants: &[Grant]) -> Asked {
        use v1::claim_answer::Answer;
        let leader = self.leader(shard).filter(|leader| *leader != self.identity.node);
        let Some(mut way) = leader.and_then(|leader| self.to(leader).ok()) else {
            return Asked::Refused;
        };
        let request = encode_claim(shard, grants);
        match tokio::time::timeout(CLAIM_WITHIN, way.claim(request)).await {
            Ok(Ok(answer)) => match answer.into_inner().answer {
                Some(Answer::Claimed(claimed)) => {
                    decode_claimed(claimed).map_or(Asked::Unknown, Asked::Claimed)
                }
                Some(Answer::NotLeader(_)) => Asked::Refused,
                None => Asked::Unknown,
            },
            Ok(Err(_)) | Err(_) => Asked::Unknown,
        }
    }

    /// What is with workers, as whoever leads a shard knows, and under which term it acts.
    pub async fn ask_held(
        &self,
        shard: Shard,
        workers: &[String],
    ) -> Option<(u64, Vec<StillHeld>)> {
        use v1::held_answer::Answer;
        let leader = self.leader(shard)?;
        if leader == self.identity.node {
            return self.held_here(shard, workers.to_vec()).await;
        }
        let mut way = self.to(leader).ok()?;
        let request = v1::HeldRequest { shard: Some(u32::from(shard)), workers: workers.to_vec() };
        let answer = tokio::time::timeout(CLAIM_WITHIN, way.held(request)).await.ok()?.ok()?;
        match answer.into_inner().answer? {
            Answer::Held(held) => decode_held(held).ok(),
            Answer::NotLeader(_) => None,
        }
    }

    /// The same for a shard that acts here. When it returns, everything that it found has been
    /// handed over.
    pub(super) async fn held_here(
        &self,
        shard: Shard,
        workers: Vec<String>,
    ) -> Option<(u64, Vec<StillHeld>)> {
        let handle = &self.shards[usize::from(shard)];
        let term = handle.status.term.load(Ordering::Relaxed);
        if term == 0 || self.engine.read_point(shard).await.is_err() {
            return None;
        }
        // What was asked for before this, be it a claim that nobody waits for any more, can be seen.
        handle.barrier().await;
        let engine = self.engine.clone();
        let wanted: BTreeSet<String> = workers.into_iter().collect();
        let looking = tokio::task::spawn_blocking(move || {
            with_workers(&*engine.view(), shard, &|worker| wanted.contains(worker))
        });
        let held = looking.await.ok()?.ok()?;
        // Whoever asks looks after them from now on; if it cannot any more, this node has to notice.
        held.iter().for_each(|held| self.holders.note(&held.worker));
        handle.barrier().await;
        (handle.status.term.load(Ordering::Relaxed) == term).then_some((term, held))
    }

    /// Has attempts stopped that workers of other nodes hold, until told to stop. One whose worker is
    /// nowhere is told when it is back.
    pub async fn keep_stopping(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let stops = tokio::select! {
                () = stop.cancelled() => return,
                stops = self.holders.stops() => stops,
            };
            // Those that do not have the worker ignore it: it may have come to one just now.
            let request = encode_stops(&stops);
            let up = self.book.all().into_iter().filter(|known| known.is_up());
            join_all(up.map(|known| self.have_stopped(known.row.node, request.clone()))).await;
        }
    }

    async fn have_stopped(&self, node: u64, request: v1::StopRequest) {
        if let Ok(mut way) = self.to(node) {
            let _ = tokio::time::timeout(HINT_WITHIN, way.stop(request)).await;
        }
    }

    /// How long nobody may have seen a worker until what it has is given up.
    pub(super) fn given_up_after(&self) -> Duration {
        self.hands().lease + GRACE
    }

    /// Gives up workers that are connected nowhere, until told to stop.
    pub async fn keep_watching(self: Arc<Self>, stop: CancellationToken) {
        let mut interval = tokio::time::interval(LOOK_EVERY);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = interval.tick() => {}
            }
            if self.book.is_empty() {
                continue;
            }
            let unseen = self.holders.unseen(self.given_up_after(), |worker| {
                (!self.is_here(worker)).then(|| self.book.has_worker(worker))
            });
            if !unseen.is_empty() {
                self.give_up(unseen).await;
            }
        }
    }

    /// Gives up what workers have that are connected nowhere. Those of whom a shard cannot be asked
    /// are looked at again.
    async fn give_up(&self, workers: Vec<String>) {
        let lease = self.hands().lease;
        for handle in self.shards.iter().filter(|handle| handle.acts_here()) {
            let held = self.held_here(handle.shard, workers.clone());
            let Ok(Some((_, held))) = tokio::time::timeout(CLAIM_WITHIN, held).await else {
                workers.iter().for_each(|worker| self.holders.note(worker));
                continue;
            };
            for StillHeld { worker, run, token, .. } in held {
                tracing::warn!(worker, %run, "a worker is connected to no node: given up");
                let detail = format!(
                    "the worker '{worker}' was connected to no node for {} s",
                    lease.as_secs_f64()
                );
                handle.lost(run, token, detail);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bellwether_core::id::JobId;
    use bellwether_core::time::Time;

    use super::*;

    fn attempt(number: u16) -> AttemptId {
        (RunId { job: JobId::new(Time(1), 0, number), n: 1 }, 7)
    }

    fn here(numbers: &[u16]) -> Here {
        numbers.iter().map(|number| (attempt(*number), "w".to_owned())).collect()
    }

    #[test]
    fn r65_what_is_handed_over_while_the_leader_is_asked_is_left_alone() {
        // 1 is where it should be, 2 never arrived, 3 is not the worker's any more; 4 and 5 were handed
        // over meanwhile, 4 before the leader looked and 5 after; 6 has ended meanwhile.
        let held = [1, 2, 4].map(attempt).into();
        let (missing, strangers) = compare(&here(&[1, 3, 6]), &held, here(&[1, 3, 4, 5]));
        assert_eq!(missing, [attempt(2)].into());
        assert_eq!(strangers, here(&[3]));
    }
}
