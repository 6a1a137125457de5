//! The loop of a shard.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bellwether_core::shard::{Leading, TURN_INPUTS_MAX};
use bellwether_core::time::Time;
use bellwether_core::turn::{Assignment, Decided, Effect, Halt, Input, Memory, Reply};
use bellwether_core::waist::{Batch, Shard, StoreError};
use bellwether_store::Engine;
use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::handle::{Answer, Failure, Message, ShardHandle, ShardStatus};
use crate::batches::Batches;
use crate::clock;
use crate::metrics::Metrics;
use crate::node::News;
use crate::work::{Dispatch, Remotes};

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
    leading: Leading,
    status: Arc<ShardStatus>,
    inbox: Receiver<Message>,
    /// Messages that were taken from the inbox and did not fit into the last turn.
    left_over: VecDeque<Message>,
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
    let name = format!("shard-{}", memory.shard);
    let mut looping = Looping {
        parts,
        leading: Leading::new(memory, clock::now()),
        status,
        inbox,
        left_over: VecDeque::new(),
        stopping: false,
    };
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let _guard = PanicGuard(looping.leading.memory().shard, looping.parts.failed.clone());
        if let Err(error) = looping.run() {
            let shard = looping.leading.memory().shard;
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
        let busy = self.stopping || !self.left_over.is_empty();
        let sleep = if busy { 0 } else { self.leading.rest_ms(clock::now()) };
        let sleep = Duration::from_millis(sleep);
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
        let (shard, term) = (self.leading.memory().shard, self.leading.memory().term);
        let mut pending: Vec<Pending> = Vec::new();
        let mut barriers = Vec::new();
        let mut step = self.leading.begin(&*view, now, &*self.parts.dispatch, self.stopping)?;
        while step.has_room()
            && let Some(message) = self.left_over.pop_front()
        {
            match message {
                Message::Request(input, answer) => {
                    self.status.requests.fetch_sub(1, Ordering::Relaxed);
                    match step.decide(*input) {
                        Err(Halt::Store(error)) => return Err(error),
                        decided => pending.push((answer, decided.map_err(Failure::from))),
                    }
                }
                Message::Reports(reports, stored) => {
                    for report in reports {
                        step.take_note(Input::Report(report))?;
                    }
                    barriers.extend(stored);
                }
                Message::Lost(run, token, detail) => {
                    step.take_note(Input::Lost { run, token, detail })?;
                }
                Message::Wake => self.status.waking.store(false, Ordering::Release),
                Message::Listen(on) => step.set_notices(on),
                Message::Barrier(answer) => barriers.push(answer),
                Message::Stop => self.stopping = true,
            }
        }
        let Decided { ops, effects } = step.finish(&*self.parts.dispatch, self.stopping)?;
        if !ops.is_empty() {
            let begun = Instant::now();
            let batch = Batch { shard, term, ops };
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
        for effect in self.leading.committed(effects) {
            match effect {
                Effect::Plan(..) | Effect::Unplan(_) => {} // The agenda's own.
                Effect::Assign(assignment) => assignments.push(*assignment),
                Effect::Stop { run, token, worker } => {
                    // Right after a start it may have to wait for them for a moment.
                    self.parts.remotes.wait().stop_attempt(&worker, run, token);
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
        let (status, memory) = (&self.status, self.leading.memory());
        status.open_runs.store(memory.open_runs, Ordering::Relaxed);
        status.wheel_entries.store(self.leading.entries() as u64, Ordering::Relaxed);
        *status.tally.lock() = memory.tally;
        let mut ready = status.ready.lock();
        ready.clear();
        ready.extend(memory.ready.lanes().map(|(lane, count)| (lane.queue.clone(), count as u64)));
    }
}
