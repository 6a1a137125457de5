//! Who has free slots, and who is waiting for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bellwether_core::id::RunId;
use bellwether_core::turn::{Assignment, Lane, Report, Reported, Turnstile};
use bellwether_core::waist::Shard;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::queues::{QueueLimits, QueueUse, RATE_EVERY};
use super::seat::{Offer, Room, Seat};
use crate::shard::ShardHandle;

/// What a worker is told.
pub enum Order {
    /// Run these.
    Run(Vec<Assignment>),
    /// Stop this attempt.
    Stop(RunId, u64),
    /// Finish what is under way and end.
    Drain,
    /// Answer once all orders before this one have been taken up.
    Flush(oneshot::Sender<()>),
}

/// Slots that were set aside.
pub struct Reserved {
    /// Whose.
    pub worker: Arc<str>,
    /// How many.
    pub slots: usize,
    /// How many other workers have room for the same.
    pub others: usize,
}

/// The first waiting run of a lane in a shard, and how many wait.
type Waiting = (Turnstile, usize);

#[derive(Default)]
struct State {
    workers: Vec<Seat>,
    /// Shards with runs that wait for slots, by lane.
    hungry: BTreeMap<Lane, BTreeMap<Shard, Waiting>>,
    shards: Vec<ShardHandle>,
    /// Queues that have something under way, or bounds.
    queues: BTreeMap<String, QueueUse>,
    closed: bool,
}

/// Matches waiting runs with free slots.
#[derive(Default)]
pub struct Dispatch {
    state: Mutex<State>,
}

impl Dispatch {
    /// Makes the shards known that are to be woken when slots become free.
    pub fn set_shards(&self, shards: Vec<ShardHandle>) {
        self.state.lock().shards = shards;
    }

    /// Adds a worker, in place of any that had its name. Its orders come through the channel that
    /// is returned.
    pub fn join(&self, name: Arc<str>, offer: Offer, room: Room) -> mpsc::UnboundedReceiver<Order> {
        let (orders, receiver) = mpsc::unbounded_channel();
        let mut state = self.state.lock();
        state.workers.retain(|seat| seat.name != name);
        state.workers.push(Seat { name, offer, room, closed: false, orders });
        for shard in &state.shards {
            shard.wake();
        }
        receiver
    }

    /// A worker gets nothing more, and is told. What it has been promised still reaches it.
    pub fn drain(&self, worker: &str) {
        let mut state = self.state.lock();
        if let Some(seat) = state.workers.iter_mut().find(|seat| &*seat.name == worker) {
            seat.closed = true;
            let _ = seat.orders.send(Order::Drain);
        }
    }

    /// A worker is gone.
    pub fn leave(&self, worker: &str) {
        self.state.lock().workers.retain(|seat| &*seat.name != worker);
    }

    /// Sets how much more a worker can take.
    pub fn set_room(&self, worker: &str, room: Room) {
        let mut state = self.state.lock();
        if let Some(seat) = state.workers.iter_mut().find(|seat| &*seat.name == worker) {
            seat.room = room;
        }
    }

    /// Sets what a worker takes and how much of it, and looks for that.
    pub fn set_seat(&self, worker: &str, offer: Offer, room: Room) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(seat) = state.workers.iter_mut().find(|seat| &*seat.name == worker) {
            seat.offer = offer;
            seat.room = room;
            for shard in &state.shards {
                shard.wake();
            }
        }
    }

    /// Grants no more slots.
    pub fn close(&self) {
        self.state.lock().closed = true;
    }

    /// Reserves up to `want` slots for the first runs of a lane in a shard: a worker and how many.
    /// Runs of other shards with a better claim are left their share.
    pub fn reserve(
        &self,
        shard: Shard,
        lane: &Lane,
        first: Turnstile,
        want: usize,
    ) -> Option<Reserved> {
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.closed {
            return None;
        }
        let better = state.ahead(shard, lane, first);
        let others = state.other_namespaces(lane);
        let queue = state.queues.entry(lane.queue.clone()).or_default();
        // Whoever was asked last comes last, so that work spreads over the workers.
        for at in 0..state.workers.len() {
            let seat = &mut state.workers[at];
            if seat.closed || !seat.offer.serves(lane) {
                continue;
            }
            let free = seat.room.free(&lane.work).saturating_sub(better);
            // What only one namespace can use need not be shared.
            let others = if seat.offer.namespace.is_some() { 0 } else { others };
            let granted = queue.allowed(&lane.namespace, want, free, others, Instant::now());
            if granted > 0 {
                queue.take(&lane.namespace, granted);
                seat.room.take(&lane.work, granted);
                let worker = seat.name.clone();
                state.workers[at..].rotate_left(1);
                let others = state.others_with_room(&worker, lane);
                return Some(Reserved { worker, slots: granted, others });
            }
        }
        None
    }

    /// Notes what still waits in a shard, and wakes shards that have a better claim to what is free.
    pub fn declare(&self, shard: Shard, heads: Vec<(Lane, Turnstile, usize)>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if heads.is_empty() && state.hungry.is_empty() {
            return;
        }
        // A lane that nobody serves waits for a worker to join, which wakes all shards.
        let heads: BTreeMap<Lane, Waiting> = heads
            .into_iter()
            .filter(|(lane, _, _)| state.workers.iter().any(|seat| seat.offer.serves(lane)))
            .map(|(lane, first, count)| (lane, (first, count)))
            .collect();
        let mut changed = false;
        state.hungry.retain(|lane, shards| {
            if !heads.contains_key(lane) {
                changed |= shards.remove(&shard).is_some();
            }
            !shards.is_empty()
        });
        for (lane, waiting) in heads {
            state.hungry.entry(lane).or_default().insert(shard, waiting);
        }
        if changed {
            // Somebody may have held back for this shard.
            wake_best(state, None);
        }
    }

    /// Returns slots: attempts have ended.
    pub fn give_back(&self, worker: &str, lane: &Lane, slots: usize) {
        self.put(worker, lane, slots, false);
    }

    /// Returns slots that were reserved and not used.
    pub fn put_back(&self, worker: &str, lane: &Lane, slots: usize) {
        self.put(worker, lane, slots, true);
    }

    fn put(&self, worker: &str, lane: &Lane, slots: usize, unused: bool) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(seat) = state.workers.iter_mut().find(|seat| &*seat.name == worker) {
            seat.room.put(&lane.work, slots);
        }
        if let Some(queue) = state.queues.get_mut(&lane.queue) {
            queue.put(&lane.namespace, slots, unused);
            if queue.is_idle() {
                state.queues.remove(&lane.queue);
            }
        }
        wake_best(state, Some(lane));
    }

    /// Notes runs that are with workers since before this process was started.
    pub fn already_under_way(&self, lane: &Lane, count: usize) {
        let mut state = self.state.lock();
        state.queues.entry(lane.queue.clone()).or_default().take(&lane.namespace, count);
    }

    /// Sets the bounds of all queues: those that are not named have none.
    pub fn set_limits(&self, limits: BTreeMap<String, QueueLimits>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        for (name, queue) in &mut state.queues {
            queue.limits = limits.get(name).copied().unwrap_or_default();
        }
        for (name, limits) in limits {
            state.queues.entry(name).or_default().limits = limits;
        }
        for shard in &state.shards {
            shard.wake();
        }
    }

    /// How many runs of each queue are under way.
    #[must_use]
    pub fn under_way(&self) -> BTreeMap<String, usize> {
        let state = self.state.lock();
        state.queues.iter().map(|(name, queue)| (name.clone(), queue.total())).collect()
    }

    /// Wakes shards whose queues may launch again, as time goes by. Runs for ever.
    pub async fn keep_rates(&self) {
        let mut interval = tokio::time::interval(RATE_EVERY);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let state = self.state.lock();
            for (lane, shards) in &state.hungry {
                let queue = state.queues.get(&lane.queue);
                if queue.is_some_and(|queue| queue.limits.per_second.is_some()) {
                    wake_first(&state, shards);
                }
            }
        }
    }

    /// Hands committed claims over to their workers.
    pub fn hand_over(&self, assignments: Vec<Assignment>) {
        let mut by_worker: BTreeMap<String, Vec<Assignment>> = BTreeMap::new();
        for assignment in assignments {
            match by_worker.get_mut(&assignment.worker) {
                Some(list) => list.push(assignment),
                None => {
                    by_worker.insert(assignment.worker.clone(), vec![assignment]);
                }
            }
        }
        let mut state = self.state.lock();
        for (worker, list) in by_worker {
            let seat = state.workers.iter().find(|seat| *seat.name == worker);
            let order = Order::Run(list);
            let undelivered = match seat {
                Some(seat) => seat.orders.send(order).err().map(|failed| failed.0),
                None => Some(order),
            };
            if let Some(Order::Run(list)) = undelivered {
                // The worker is gone: nothing was started, so nothing is lost.
                state.workers.retain(|seat| *seat.name != worker);
                for assignment in list {
                    let lane = Lane::of(&assignment.definition);
                    if let Some(queue) = state.queues.get_mut(&lane.queue) {
                        queue.put(&lane.namespace, 1, true);
                    }
                    let shard = state.shards.get(usize::from(assignment.run.job.shard()));
                    let what = Reported::HandedBack;
                    let report = Report { run: assignment.run, token: assignment.token, what };
                    if let Some(shard) = shard {
                        shard.report(vec![report]);
                    }
                }
            }
        }
    }

    /// Waits until the workers have taken up all orders given so far.
    pub async fn flush(&self) {
        let mut answers = Vec::new();
        // One that polls takes up what it was promised when it asks again.
        let polls = |seat: &&Seat| matches!(seat.room, Room::Asked(_));
        for seat in self.state.lock().workers.iter().filter(|seat| !polls(seat)) {
            let (sender, answer) = oneshot::channel();
            if seat.orders.send(Order::Flush(sender)).is_ok() {
                answers.push(answer);
            }
        }
        for answer in answers {
            let _ = answer.await;
        }
    }

    /// Tells a worker to stop an attempt. False if it is not there to be told.
    pub fn stop(&self, worker: &str, run: RunId, token: u64) -> bool {
        let state = self.state.lock();
        let seat = state.workers.iter().find(|seat| &*seat.name == worker);
        seat.is_some_and(|seat| seat.orders.send(Order::Stop(run, token)).is_ok())
    }
}

impl State {
    /// How many runs of a lane in other shards come before this one.
    fn ahead(&self, shard: Shard, lane: &Lane, first: Turnstile) -> usize {
        let Some(shards) = self.hungry.get(lane) else {
            return 0;
        };
        let ahead = shards.iter().filter(|(other, (head, _))| {
            **other != shard && (head.rank, head.scheduled) < (first.rank, first.scheduled)
        });
        ahead.map(|(_, (_, count))| count).sum()
    }

    /// How many other workers could take a run of a lane now.
    fn others_with_room(&mut self, worker: &str, lane: &Lane) -> usize {
        let open = self
            .workers
            .iter_mut()
            .filter(|seat| &*seat.name != worker && !seat.closed && seat.offer.serves(lane));
        open.filter_map(|seat| (seat.room.free(&lane.work) > 0).then_some(())).count()
    }

    /// How many other namespaces wait for what this lane wants.
    fn other_namespaces(&self, lane: &Lane) -> usize {
        let waiting: BTreeSet<&str> = self
            .hungry
            .keys()
            .filter(|other| other.queue == lane.queue && other.work == lane.work)
            .filter(|other| other.namespace != lane.namespace)
            .map(|other| other.namespace.as_str())
            .collect();
        waiting.len()
    }
}

/// Wakes, for each lane that may get what a lane has given back, the shard whose waiting run comes
/// first.
fn wake_best(state: &State, freed: Option<&Lane>) {
    for (lane, shards) in &state.hungry {
        if freed.is_none_or(|freed| freed.work == lane.work || freed.queue == lane.queue) {
            wake_first(state, shards);
        }
    }
}

fn wake_first(state: &State, shards: &BTreeMap<Shard, Waiting>) {
    let best = shards.iter().min_by_key(|(_, (head, _))| (head.rank, head.scheduled));
    if let Some((shard, _)) = best
        && let Some(handle) = state.shards.get(usize::from(*shard))
    {
        handle.wake();
    }
}
