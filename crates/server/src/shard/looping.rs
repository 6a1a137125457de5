//! The loop of a shard.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bellwether_core::shard::{Leading, TURN_INPUTS_MAX};
use bellwether_core::time::Time;
use bellwether_core::turn::{Assignment, Decided, Effect, Halt, Input, Memory, Reply};
use bellwether_core::waist::{Batch, Shard, StoreError};
use bellwether_store::Engine;
use bellwether_worker::guard::boot_ms;
use tokio::sync::oneshot;

use super::handle::{Answer, Claimed, Failure, Grant, Item, Message, ShardHandle};
use super::inbox::Inbox;
use crate::batches::Batches;
use crate::bounds::Desk;
use crate::clock;
use crate::cluster::Holders;
use crate::metrics::Metrics;
use crate::node::News;
use crate::work::{Dispatch, Remotes};

/// What a shard needs to run.
pub struct ShardParts {
    /// Where it stores.
    pub engine: Arc<dyn Engine>,
    /// Where its runs go.
    pub dispatch: Arc<Dispatch>,
    /// The workers that dial in.
    pub remotes: Arc<Remotes>,
    /// Where the bounds of queues are talked about.
    pub desk: Arc<Desk>,
    /// The workers elsewhere that hold runs.
    pub holders: Arc<Holders>,
    /// Who sees to batches.
    pub batches: Arc<Batches>,
    /// Where its figures go.
    pub metrics: Arc<Metrics>,
    /// Who hears what happens.
    pub notices: tokio::sync::broadcast::Sender<Arc<News>>,
}

struct Looping {
    parts: Arc<ShardParts>,
    leading: Leading,
    handle: ShardHandle,
    inbox: Arc<Inbox>,
    /// Messages that were taken from the inbox and did not fit into the last turn.
    left_over: VecDeque<Message>,
    /// What workers said in this turn: another leader may have to hear it.
    said: Vec<Item>,
    stopping: bool,
}

/// A request that was decided and waits for the commit.
type Pending = (Answer, Result<Reply, Failure>);

/// Starts a shard whose memory has been loaded and recovered. How its thread ends is told once
/// whatever it has not decided is on its way to whoever leads.
///
/// # Errors
/// When there can be no thread.
pub fn spawn(
    mut memory: Memory,
    parts: Arc<ShardParts>,
    handle: ShardHandle,
) -> std::io::Result<oneshot::Receiver<Result<(), StoreError>>> {
    let inbox = Arc::new(Inbox::default());
    handle.status.term.store(memory.term, Ordering::Relaxed);
    memory.notices = handle.status.listened_to.load(Ordering::Acquire);
    let name = format!("shard-{}", memory.shard);
    let mut looping = Looping {
        parts,
        leading: Leading::new(memory, clock::now()),
        handle,
        inbox: inbox.clone(),
        left_over: VecDeque::new(),
        said: Vec::new(),
        stopping: false,
    };
    let (end, ended) = oneshot::channel();
    looping.handle.open(inbox.clone());
    let handle = looping.handle.clone();
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| looping.run()));
        let outcome = outcome.unwrap_or_else(|_| {
            Err(StoreError::Failed("its thread has panicked, which is a bug".to_owned()))
        });
        looping.close();
        let _ = end.send(outcome);
    });
    if let Err(error) = thread {
        handle.close(Vec::new(), VecDeque::new(), &inbox);
        return Err(error);
    }
    Ok(ended)
}

impl Looping {
    fn run(&mut self) -> Result<(), StoreError> {
        loop {
            self.gather();
            if self.left_over.iter().any(|message| matches!(message, Message::Resign)) {
                return Ok(());
            }
            self.turn()?;
            if self.stopping && self.inbox.is_empty() && self.left_over.is_empty() {
                return Ok(());
            }
        }
    }

    /// Waits until there is something to do, and takes what has come.
    fn gather(&mut self) {
        let busy = self.stopping || !self.left_over.is_empty();
        let sleep = if busy { 0 } else { self.leading.rest_ms(clock::now()) };
        if sleep > 0 {
            self.inbox.wait(Duration::from_millis(sleep));
        }
        self.inbox.take(&mut self.left_over, TURN_INPUTS_MAX);
    }

    /// Passes on what has not been decided, and what workers said that may not have been stored.
    fn close(&mut self) {
        let (said, taken) = (std::mem::take(&mut self.said), std::mem::take(&mut self.left_over));
        self.handle.close(said, taken, &self.inbox);
    }

    /// One turn: decide, commit, act.
    fn turn(&mut self) -> Result<(), StoreError> {
        let (now, asked_ms) = (clock::now(), boot_ms());
        let view = self.parts.engine.view();
        let (shard, term) = (self.leading.memory().shard, self.leading.memory().term);
        let mut pending: Vec<Pending> = Vec::new();
        let mut barriers = Vec::new();
        let shared = self.handle.status.shared.load(Ordering::Relaxed);
        // Claims for workers elsewhere, and which of them a worker's runs belong to.
        let mut claims = Vec::new();
        let mut granted = BTreeMap::new();
        self.mind_bounds();
        let mut step = self.leading.begin(&*view, now, &*self.parts.dispatch, self.stopping)?;
        while step.has_room()
            && let Some(message) = self.left_over.pop_front()
        {
            match message {
                Message::Item(Item::Request(input, answer)) | Message::Brought(input, answer) => {
                    self.handle.status.requests.fetch_sub(1, Ordering::Relaxed);
                    match step.decide(*input) {
                        Err(Halt::Store(error)) => return Err(error),
                        decided => pending.push((answer, decided.map_err(Failure::from))),
                    }
                }
                Message::Item(Item::Reports(reports, stored)) => {
                    if shared {
                        self.said.push(Item::Reports(reports.clone(), stored));
                    } else {
                        barriers.extend(stored);
                    }
                    for report in reports {
                        step.take_note(Input::Report(report))?;
                    }
                }
                Message::Item(Item::Lost(run, token, detail)) => {
                    if shared {
                        self.said.push(Item::Lost(run, token, detail.clone()));
                    }
                    step.take_note(Input::Lost { run, token, detail })?;
                }
                // Nobody waits for it any more, and nobody would hear what was claimed.
                Message::Claim(_, answer) if answer.is_closed() => {}
                Message::Claim(grants, answer) => {
                    for grant in &grants {
                        let Grant { lane, worker, slots, others } = grant;
                        step.claim_for(lane, worker, *slots, *others)?;
                        granted.insert(worker.to_string(), claims.len());
                    }
                    claims.push(answer);
                }
                Message::Left(_) | Message::SayBounds => {} // Taken before the turn began.
                Message::Wake => self.handle.status.waking.store(false, Ordering::Release),
                Message::Listen(on) => step.set_notices(on),
                Message::Barrier(answer) => barriers.push(answer),
                Message::Stop => self.stopping = true,
                Message::Resign => {}
            }
        }
        let Decided { ops, effects } = step.finish(&*self.parts.dispatch, self.stopping)?;
        // What changes nothing is an answer all the same: that a job is there, or is not. Whoever was
        // replaced without noticing must not give it, so a majority is asked also about nothing.
        let answers = !pending.is_empty() || !self.said.is_empty() || !barriers.is_empty();
        if !ops.is_empty() || (shared && answers) {
            let begun = Instant::now();
            let batch = Batch { shard, term, ops };
            let committed = self.parts.engine.commit(batch);
            self.parts.metrics.commit(begun.elapsed());
            if let Err(error) = committed {
                for (answer, _) in pending {
                    let _ = answer.send(Err(undecided(shard, error.clone())));
                }
                return Err(error);
            }
        }
        // What was decided is durable. Only now may it be seen outside.
        for (answer, result) in pending {
            let _ = answer.send(result);
        }
        let afar = self.act(effects, now, asked_ms, &granted);
        self.answer_claims(claims, afar);
        self.publish();
        let asks = self.leading.tell(now, &*self.parts.dispatch);
        if !asks.is_empty() {
            self.parts.desk.ask(asks);
        }
        for item in std::mem::take(&mut self.said) {
            if let Item::Reports(_, Some(stored)) = item {
                let _ = stored.send(());
            }
        }
        for barrier in barriers {
            let _ = barrier.send(());
        }
        Ok(())
    }

    /// Takes what is known of the bounds of queues, before anything is claimed.
    fn mind_bounds(&mut self) {
        let (term, limits) = (self.leading.memory().term, self.parts.desk.limits());
        let shares = self.leading.shares();
        shares.set_limits(&limits);
        self.left_over.retain(|message| {
            match message {
                Message::Left(answer) if answer.term == term || answer.seq.is_none() => {
                    shares.take(answer);
                }
                Message::Left(_) => {}
                Message::SayBounds => shares.unheard(None),
                _ => return true,
            }
            false
        });
    }

    /// Performs what was decided. What workers get was asked for at an instant. Returns what was claimed for workers elsewhere, by claim.
    fn act(
        &mut self,
        effects: Vec<Effect>,
        now: Time,
        asked_ms: u64,
        granted: &BTreeMap<String, usize>,
    ) -> Vec<(usize, Assignment)> {
        let mut assignments: Vec<Assignment> = Vec::new();
        let mut afar: Vec<(usize, Assignment)> = Vec::new();
        for effect in self.leading.committed(effects) {
            match effect {
                Effect::Plan(..) | Effect::Unplan(_) => {} // The agenda's own.
                Effect::Assign(assignment) => match granted.get(&assignment.worker) {
                    Some(claim) => afar.push((*claim, *assignment)),
                    None => assignments.push(*assignment),
                },
                Effect::Stop { run, token, worker } => {
                    if !self.parts.remotes.stop_attempt(&worker, run, token) {
                        self.parts.holders.stop(worker, run, token);
                    }
                }
                Effect::Notice(notice) => {
                    let _ = self.parts.notices.send(Arc::new(News::Run(notice)));
                }
                Effect::Held(held) => {
                    tracing::error!(job = %held.job, why = held.why, "a job was paused");
                    let _ = self.parts.notices.send(Arc::new(News::Held(held)));
                }
                Effect::Batch(id) => {
                    self.parts.batches.changed(id, self.leading.memory().shard);
                }
            }
        }
        let launched = assignments.iter().chain(afar.iter().map(|(_, assignment)| assignment));
        self.parts.metrics.launched(launched, clock::now().max(now));
        if !assignments.is_empty() {
            self.parts.dispatch.hand_over(assignments, asked_ms);
        }
        afar
    }

    /// Answers those who claimed for workers elsewhere.
    fn answer_claims(&self, claims: Vec<oneshot::Sender<Claimed>>, afar: Vec<(usize, Assignment)>) {
        if claims.is_empty() {
            return;
        }
        let memory = self.leading.memory();
        let mut assignments: Vec<Vec<Assignment>> = claims.iter().map(|_| Vec::new()).collect();
        for (claim, assignment) in afar {
            self.parts.holders.note(&assignment.worker);
            assignments[claim].push(assignment);
        }
        let heads = self.leading.heads();
        for (answer, assignments) in claims.into_iter().zip(assignments) {
            // If nobody waits any more, whoever claimed asks what became of it.
            let _ = answer.send(Claimed { assignments, heads: heads.clone(), term: memory.term });
        }
    }

    fn publish(&self) {
        let (status, memory) = (&self.handle.status, self.leading.memory());
        status.open_runs.store(memory.open_runs, Ordering::Relaxed);
        status.wheel_entries.store(self.leading.entries() as u64, Ordering::Relaxed);
        status.counted.lock().set(memory.tally);
        let mut ready = status.ready.lock();
        ready.clear();
        ready.extend(memory.ready.lanes().map(|(lane, count)| (lane.queue.clone(), count as u64)));
        let mut running = status.running.lock();
        running.clear();
        running.extend(memory.shares.under_way().map(|(queue, count)| (queue.to_owned(), count)));
    }
}

/// What became of a request whose commit failed.
fn undecided(shard: Shard, error: StoreError) -> Failure {
    match error {
        StoreError::NotLeader { .. } | StoreError::Fenced { .. } => Failure::NoLeader(shard),
        StoreError::Replaced { .. } => Failure::Unknown(shard),
        other => Failure::Store(other),
    }
}
