//! The loop of a shard.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bellwether_core::agenda::Agenda;
use bellwether_core::time::Time;
use bellwether_core::turn::{Assignment, Decided, Effect, Halt, Input, Memory, Reply, Turn};
use bellwether_core::waist::{Batch, Shard, StoreError};
use bellwether_store::Engine;
use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::handle::{Answer, Failure, Message, ShardHandle, ShardStatus};
use crate::batches::Batches;
use crate::clock;
use crate::metrics::Metrics;
use crate::node::News;
use crate::work::{Dispatch, Remotes};

/// Entries of the due index a shard holds in memory.
const AGENDA_ENTRIES_MAX: usize = 32_768;
/// Messages and due entries dealt with in one turn.
const TURN_INPUTS_MAX: usize = 1_024;
/// Keys after which a turn takes no more inputs. What is left waits for the next turn.
const TURN_WRITES_MAX: usize = 8_192;
/// Runs claimed in one turn. A flood of requests does not keep runs from being launched.
const TURN_CLAIMS_MAX: usize = 4_096;
/// The longest a shard sleeps. It wakes for work; this only bounds the effect of a clock that was set.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// How often old history is looked for.
const PRUNE_EVERY: Duration = Duration::from_secs(60);

/// What a shard needs to run.
pub struct ShardParts {
    /// Where it stores.
    pub engine: Arc<dyn Engine>,
    /// Where its runs go.
    pub dispatch: Arc<Dispatch>,
    /// The workers that dial in, once they can.
    pub remotes: Arc<OnceLock<Arc<Remotes>>>,
    /// Who sees to batches.
    pub batches: Arc<Batches>,
    /// Where its figures go.
    pub metrics: Arc<Metrics>,
    /// Who hears what happens.
    pub notices: tokio::sync::broadcast::Sender<Arc<News>>,
    /// Who hears that it has failed.
    pub failed: tokio::sync::mpsc::UnboundedSender<(Shard, StoreError)>,
}

struct Looping {
    parts: ShardParts,
    memory: Memory,
    agenda: Agenda,
    status: Arc<ShardStatus>,
    inbox: Receiver<Message>,
    /// Messages that were taken from the inbox and did not fit into the last turn.
    left_over: VecDeque<Message>,
    /// Whether runs wait that could have been claimed, had the last turn not been full.
    more_to_claim: bool,
    pruned: Instant,
    more_to_prune: bool,
    stopping: bool,
}

/// A request that was decided and waits for the commit.
type Pending = (Answer, Result<Reply, Failure>);

/// Starts a shard whose memory has been loaded and recovered.
///
/// # Errors
/// When there can be no thread.
pub fn spawn(memory: Memory, parts: ShardParts) -> std::io::Result<(ShardHandle, JoinHandle<()>)> {
    let (sender, inbox) = crossbeam_channel::unbounded();
    let status = Arc::new(ShardStatus::default());
    status.term.store(memory.term, Ordering::Relaxed);
    let handle = ShardHandle { shard: memory.shard, status: status.clone(), inbox: sender };
    let from = Time(memory.row.due_from_ms);
    let agenda = Agenda::new(memory.shard, from, clock::now(), AGENDA_ENTRIES_MAX);
    let name = format!("shard-{}", memory.shard);
    let pruned = Instant::now();
    let mut looping = Looping {
        parts,
        memory,
        agenda,
        status,
        inbox,
        left_over: VecDeque::new(),
        more_to_claim: false,
        pruned,
        more_to_prune: false,
        stopping: false,
    };
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let _guard = PanicGuard(looping.memory.shard, looping.parts.failed.clone());
        if let Err(error) = looping.run() {
            let shard = looping.memory.shard;
            tracing::error!(shard, %error, "shard has stopped: its store failed");
            let _ = looping.parts.failed.send((shard, error));
        }
    })?;
    Ok((handle, thread))
}

/// Tells of a shard that ended by a bug: it must not just be missing.
struct PanicGuard(Shard, tokio::sync::mpsc::UnboundedSender<(Shard, StoreError)>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = StoreError::Failed("its thread has panicked, which is a bug".to_owned());
            let _ = self.1.send((self.0, error));
        }
    }
}

impl Looping {
    fn run(&mut self) -> Result<(), StoreError> {
        loop {
            self.gather();
            self.turn()?;
            if self.stopping && self.inbox.is_empty() && self.left_over.is_empty() {
                return Ok(());
            }
        }
    }

    /// Waits until there is something to do, and takes what has come.
    fn gather(&mut self) {
        let now = clock::now();
        let wake = self.agenda.next_wake();
        let busy = self.stopping
            || self.more_to_prune
            || self.more_to_claim
            || !self.left_over.is_empty()
            || self.agenda.wants_load(now);
        let mut sleep = clock::until(wake, now, SLEEP_MAX);
        if busy {
            sleep = Duration::ZERO;
        } else if !self.memory.row.classes.is_empty() {
            sleep = sleep.min(PRUNE_EVERY.saturating_sub(self.pruned.elapsed()));
        }
        let first = if sleep.is_zero() {
            self.inbox.try_recv().ok()
        } else {
            match self.inbox.recv_timeout(sleep) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    self.stopping = true;
                    None
                }
            }
        };
        self.left_over.extend(first);
        while self.left_over.len() < TURN_INPUTS_MAX {
            match self.inbox.try_recv() {
                Ok(message) => self.left_over.push_back(message),
                Err(_) => break,
            }
        }
    }

    /// One turn: decide, commit, act.
    fn turn(&mut self) -> Result<(), StoreError> {
        let now = clock::now();
        let view = self.parts.engine.view();
        if self.agenda.wants_load(now) {
            self.agenda.load(&*view, now)?;
        }
        let due =
            if self.stopping { Vec::new() } else { self.agenda.take_due(now, TURN_INPUTS_MAX) };
        let prune = self.more_to_prune
            || (self.pruned.elapsed() >= PRUNE_EVERY && !self.memory.row.classes.is_empty());
        self.memory.advance_cursor(
            due.first().map_or_else(|| self.agenda.earliest(now), |(entry, _)| entry.time),
        );
        let mut pending: Vec<Pending> = Vec::new();
        let mut barriers = Vec::new();
        let shard = self.memory.shard;
        self.memory.workers = self.parts.dispatch.roster();
        let mut turn = Turn::new(&*view, &mut self.memory, now);
        while turn.size() < TURN_WRITES_MAX
            && let Some(message) = self.left_over.pop_front()
        {
            match message {
                Message::Request(input, answer) => {
                    self.status.requests.fetch_sub(1, Ordering::Relaxed);
                    match turn.decide(*input) {
                        Err(Halt::Store(error)) => return Err(error),
                        decided => pending.push((answer, decided.map_err(Failure::from))),
                    }
                }
                Message::Reports(reports, stored) => {
                    for report in reports {
                        decided(turn.decide(Input::Report(report)))?;
                    }
                    barriers.extend(stored);
                }
                Message::Lost(run, token, detail) => {
                    decided(turn.decide(Input::Lost { run, token, detail }))?;
                }
                Message::Wake => self.status.waking.store(false, Ordering::Release),
                Message::Listen(on) => turn.set_notices(on),
                Message::Barrier(answer) => barriers.push(answer),
                Message::Stop => self.stopping = true,
            }
        }
        for (entry, value) in due {
            decided(turn.decide(Input::Due { entry, value }))?;
        }
        if prune {
            self.pruned = Instant::now();
            self.more_to_prune = decided(turn.decide(Input::Prune))? == Some(Reply::More(true));
        }
        self.more_to_claim = !self.stopping && claim(&mut turn, shard, &self.parts.dispatch)?;
        let Decided { ops, effects } = turn.finish();
        if !ops.is_empty() {
            let begun = Instant::now();
            let batch = Batch { shard, term: self.memory.term, ops };
            let committed = self.parts.engine.commit(batch);
            self.parts.metrics.commit(begun.elapsed());
            if let Err(error) = committed {
                for (answer, _) in pending {
                    let _ = answer.send(Err(Failure::Store(error.clone())));
                }
                return Err(error);
            }
        }
        // What was decided is durable. Only now may it be seen outside.
        for (answer, result) in pending {
            let _ = answer.send(result);
        }
        self.act(effects, now);
        self.publish();
        for barrier in barriers {
            let _ = barrier.send(());
        }
        Ok(())
    }

    /// Performs what was decided.
    fn act(&mut self, effects: Vec<Effect>, now: Time) {
        let mut assignments: Vec<Assignment> = Vec::new();
        for effect in effects {
            match effect {
                Effect::Plan(entry, value) => self.agenda.plan(entry, value),
                Effect::Unplan(entry) => self.agenda.unplan(entry),
                Effect::Assign(assignment) => assignments.push(*assignment),
                Effect::Stop { run, token, worker } => {
                    if !self.parts.dispatch.stop(&worker, run, token)
                        && let Some(remotes) = self.parts.remotes.get()
                    {
                        remotes.stop_later(&worker, run, token);
                    }
                }
                Effect::Notice(notice) => {
                    let _ = self.parts.notices.send(Arc::new(News::Run(notice)));
                }
                Effect::Held(held) => {
                    tracing::error!(job = %held.job, why = held.why, "a job was paused");
                    let _ = self.parts.notices.send(Arc::new(News::Held(held)));
                }
                Effect::Batch(id) => self.parts.batches.changed(id),
            }
        }
        if !assignments.is_empty() {
            self.parts.metrics.launched(&assignments, clock::now().max(now));
            self.parts.dispatch.hand_over(assignments);
        }
    }

    fn publish(&self) {
        let status = &self.status;
        status.open_runs.store(self.memory.open_runs, Ordering::Relaxed);
        status.wheel_entries.store(self.agenda.len() as u64, Ordering::Relaxed);
        *status.tally.lock() = self.memory.tally;
        let mut ready = status.ready.lock();
        ready.clear();
        ready.extend(
            self.memory.ready.lanes().map(|(lane, count)| (lane.queue.clone(), count as u64)),
        );
    }
}

/// Drops a rejection of an input that nobody waits for, and passes a failure of the store on.
fn decided(outcome: Result<Reply, Halt>) -> Result<Option<Reply>, StoreError> {
    match outcome {
        Ok(reply) => Ok(Some(reply)),
        Err(Halt::Rejected(_)) => Ok(None),
        Err(Halt::Store(error)) => Err(error),
    }
}

/// Claims waiting runs for workers with free slots. What is claimed is committed with the turn.
/// Whether the turn was full before all was claimed that could be.
fn claim(turn: &mut Turn<'_>, shard: Shard, dispatch: &Dispatch) -> Result<bool, StoreError> {
    let mut budget = TURN_CLAIMS_MAX;
    let mut heads = turn.heads();
    heads.sort_by_key(|(_, first, _)| (first.rank, first.scheduled));
    for (lane, first, count) in heads {
        let mut left = count;
        let mut left_to_others = 0;
        while left > 0 && budget > 0 {
            let want = left.min(budget);
            let Some(reserved) = dispatch.reserve(shard, &lane, first, want) else {
                break;
            };
            // Each worker may pass runs on once; then whoever is there takes them.
            let others = reserved.others > left_to_others;
            let claims = turn.claim(&lane, &reserved.worker, reserved.slots, others)?;
            budget -= claims.claimed;
            left = left.saturating_sub(claims.claimed);
            if claims.claimed < reserved.slots {
                dispatch.put_back(&reserved.worker, &lane, reserved.slots - claims.claimed);
                if claims.left_to_others == 0 {
                    break;
                }
                left_to_others += 1;
            }
        }
    }
    dispatch.declare(shard, turn.heads());
    Ok(budget == 0)
}
