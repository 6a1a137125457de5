//! Who has free slots, and who is waiting for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether_core::id::RunId;
use bellwether_core::shard::{Reserved, Slots};
use bellwether_core::turn::{Assignment, Demand, Lane, Offer, Report, Reported, Roster, Turnstile};
use bellwether_core::waist::Shard;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::hints::Hints;
use super::queues::QueueLimits;
use super::seat::{Room, Seat};
use super::table::Table;
use crate::shard::ShardHandle;

/// What a worker is told.
pub enum Order {
    /// Run these, which were asked for at this instant, by the clock of leases.
    Run(Vec<Assignment>, u64),
    /// Stop this attempt.
    Stop(RunId, u64),
    /// Finish what is under way and end.
    Drain,
    /// Answer once all orders before this one have been taken up.
    Flush(oneshot::Sender<()>),
}

/// Matches waiting runs with free slots.
#[derive(Default)]
pub struct Dispatch {
    state: Mutex<Table>,
    /// The workers that are there, for ticks that are meant for all of them. Changed only when they
    /// do, so that looking at it costs shards next to nothing.
    roster: Mutex<Arc<Roster>>,
    /// The workers of other nodes.
    afar: Mutex<Vec<RosterEntry>>,
    /// What waits here and workers of other nodes may take.
    pub hints: Hints,
    /// What was handed over and has not been taken up, while there are other nodes.
    promised: Mutex<BTreeMap<(RunId, u64), String>>,
}

/// A worker: its name, what it takes, and how much one run may ask for.
pub type RosterEntry = (Arc<str>, Offer, Demand);

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
        state.sit(Seat { name, offer, room, closed: false, orders });
        self.note_workers(&state);
        state.wake_all();
        receiver
    }

    /// A worker gets nothing more, and is told. What it has been promised still reaches it.
    pub fn drain(&self, worker: &str) {
        let mut state = self.state.lock();
        if let Some(seat) = state.workers.iter_mut().find(|seat| &*seat.name == worker) {
            seat.closed = true;
            let _ = seat.orders.send(Order::Drain);
        }
        self.note_workers(&state);
    }

    /// A worker is gone.
    pub fn leave(&self, worker: &str) {
        let mut state = self.state.lock();
        state.workers.retain(|seat| &*seat.name != worker);
        self.note_workers(&state);
    }

    /// The workers that are there and take something: not those that leave, and not those that ask
    /// request by request, of which nobody knows whether they will come back.
    #[must_use]
    pub fn roster(&self) -> Arc<Roster> {
        self.roster.lock().clone()
    }

    fn note_workers(&self, state: &Table) {
        let stays = |seat: &&Seat| !seat.closed && !matches!(seat.room, Room::Asked(_));
        let seats = state.workers.iter().filter(stays);
        let of = |seat: &Seat| (seat.name.clone(), seat.offer.clone(), seat.room.most());
        let afar = self.afar.lock().clone();
        *self.roster.lock() = Arc::new(seats.map(of).chain(afar).collect());
    }

    /// Notes the workers of other nodes.
    pub fn set_afar(&self, workers: Vec<RosterEntry>) {
        let state = self.state.lock();
        if *self.afar.lock() != workers {
            *self.afar.lock() = workers;
            self.note_workers(&state);
            state.wake_all();
        }
    }

    /// The workers that are connected here.
    #[must_use]
    pub fn seated(&self) -> Vec<RosterEntry> {
        let state = self.state.lock();
        let of = |seat: &Seat| (seat.name.clone(), seat.offer.clone(), seat.room.most());
        state.workers.iter().map(of).collect()
    }

    /// What was handed over to workers here and has not been taken up.
    #[must_use]
    pub fn promised(&self) -> Vec<(String, RunId, u64)> {
        let promised = self.promised.lock();
        promised.iter().map(|((run, token), worker)| (worker.clone(), *run, *token)).collect()
    }

    /// Attempts have been taken up by their worker, or never will be.
    pub fn taken_up(&self, attempts: impl Iterator<Item = (RunId, u64)>) {
        if self.hints.are_wanted() {
            let mut promised = self.promised.lock();
            for attempt in attempts {
                promised.remove(&attempt);
            }
        }
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
            state.wake_all();
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
        if state.closed {
            return None;
        }
        let reserved = state.grant(shard, lane, first, want);
        let granted = reserved.as_ref().map_or(0, |reserved| reserved.slots);
        state.note(shard, lane, first, want, granted);
        reserved
    }

    /// Notes what still waits in a shard, and wakes shards that have a better claim to what is free.
    pub fn declare(&self, shard: Shard, heads: Vec<(Lane, Turnstile, usize)>) {
        let mut state = self.state.lock();
        if heads.is_empty() && state.hungry.is_empty() {
            return;
        }
        if state.set_hungry(shard, heads) {
            state.wake_best();
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
            seat.room.put(lane, slots);
        }
        if unused {
            state.arrived(worker, lane, slots);
        }
        if let Some(queue) = state.queues.get_mut(&lane.queue) {
            queue.put(&lane.namespace, slots);
            if queue.is_idle() {
                state.queues.remove(&lane.queue);
            }
        }
        state.wake_for(worker, lane);
    }

    /// Notes that runs which a worker was granted are with it. Whoever says so counts them as held.
    pub fn arrived<'a>(&self, worker: &str, lanes: impl Iterator<Item = &'a Lane>) {
        let mut state = self.state.lock();
        for lane in lanes {
            state.arrived(worker, lane, 1);
        }
    }

    /// Notes runs that are with workers since before this process was started.
    pub fn already_under_way(&self, lane: &Lane, count: usize) {
        let mut state = self.state.lock();
        state.queues.entry(lane.queue.clone()).or_default().take(&lane.namespace, count);
    }

    /// How many runs of a queue are counted as with workers of this node.
    #[cfg(test)]
    pub fn under_way(&self, queue: &str) -> usize {
        self.state.lock().queues.get(queue).map_or(0, super::queues::QueueUse::total)
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
        state.wake_all();
    }

    /// Why no worker that is connected could ever take a run of a lane, in words; `None` if one
    /// could.
    #[must_use]
    pub fn obstacle(&self, lane: &Lane) -> Option<String> {
        if self.is_served_afar(lane) {
            return None;
        }
        self.state.lock().obstacle(lane)
    }

    fn is_served_afar(&self, lane: &Lane) -> bool {
        let takes = |(name, offer, most): &RosterEntry| {
            offer.serves(name, lane) && lane.demand.fits_into(*most)
        };
        self.afar.lock().iter().any(takes)
    }

    /// Whether a worker that is connected anywhere takes runs of a lane, when it has room.
    #[must_use]
    pub fn serves(&self, lane: &Lane) -> bool {
        self.is_served_afar(lane)
            || self.state.lock().workers.iter().any(|seat| seat.could_take(lane))
    }

    /// Hands committed claims over to their workers, which were asked for at an instant.
    pub fn hand_over(&self, assignments: Vec<Assignment>, asked_ms: u64) {
        let mut by_worker: BTreeMap<String, Vec<Assignment>> = BTreeMap::new();
        for assignment in assignments {
            match by_worker.get_mut(&assignment.worker) {
                Some(list) => list.push(assignment),
                None => {
                    by_worker.insert(assignment.worker.clone(), vec![assignment]);
                }
            }
        }
        if self.hints.are_wanted() {
            let mut promised = self.promised.lock();
            for (worker, list) in &by_worker {
                let of = |a: &Assignment| ((a.run, a.token), worker.clone());
                promised.extend(list.iter().map(of));
            }
        }
        let mut state = self.state.lock();
        for (worker, list) in by_worker {
            let seat = state.workers.iter().find(|seat| *seat.name == worker);
            let order = Order::Run(list, asked_ms);
            let undelivered = match seat {
                Some(seat) => seat.orders.send(order).err().map(|failed| failed.0),
                None => Some(order),
            };
            if let Some(Order::Run(list, _)) = undelivered {
                // The worker is gone: nothing was started, so nothing is lost.
                state.workers.retain(|seat| *seat.name != worker);
                self.note_workers(&state);
                self.taken_up(list.iter().map(|a| (a.run, a.token)));
                for assignment in list {
                    let lane = assignment.lane();
                    state.arrived(&worker, &lane, 1);
                    if let Some(queue) = state.queues.get_mut(&lane.queue) {
                        queue.put(&lane.namespace, 1);
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

impl Slots for Dispatch {
    fn roster(&self) -> Arc<Roster> {
        Dispatch::roster(self)
    }

    fn reserve(
        &self,
        shard: Shard,
        lane: &Lane,
        first: Turnstile,
        want: usize,
    ) -> Option<Reserved> {
        Dispatch::reserve(self, shard, lane, first, want)
    }

    fn put_back(&self, worker: &str, lane: &Lane, slots: usize) {
        Dispatch::put_back(self, worker, lane, slots);
    }

    fn serves(&self, lane: &Lane) -> bool {
        Dispatch::serves(self, lane)
    }

    fn declare(&self, shard: Shard, heads: Vec<(Lane, Turnstile, usize)>) {
        self.hints.put(shard, &heads);
        Dispatch::declare(self, shard, heads);
    }
}

#[cfg(test)]
mod tests {
    use bellwether_core::id::JobId;
    use bellwether_core::record::Definition;
    use bellwether_core::time::Time;

    use super::*;
    use crate::work::budget::{Budget, Offered};

    fn granted(dispatch: &Dispatch, lane: &Lane) -> usize {
        let run = RunId { job: JobId(1), n: 1 };
        let first = Turnstile { rank: 0, scheduled: Time(1), run };
        dispatch.reserve(0, lane, first, 10).map_or(0, |reserved| reserved.slots)
    }

    /// A worker dials in again while runs are on their way to it.
    #[track_caller]
    fn check_counted_once(room: impl Fn() -> Room) {
        let lane = Lane::of(&Definition::default(), "");
        let offer = Offer { commands: true, ..Offer::default() };
        let dispatch = Dispatch::default();
        let join = || dispatch.join("w".into(), offer.clone(), room());
        let first = join();
        assert_eq!(granted(&dispatch, &lane), 2);
        let second = join();
        assert_eq!(granted(&dispatch, &lane), 0, "what is on its way takes room of the new seat");
        dispatch.put_back("w", &lane, 1);
        assert_eq!(granted(&dispatch, &lane), 1, "what came back does not");
        dispatch.arrived("w", [&lane, &lane].into_iter());
        assert_eq!(granted(&dispatch, &lane), 0, "what has arrived is held");
        let third = join();
        assert_eq!(granted(&dispatch, &lane), 2, "who dials in says what it holds");
        drop((first, second, third));
    }

    #[test]
    fn r49_what_is_on_its_way_to_a_worker_that_dials_again_takes_room() {
        check_counted_once(|| Room::Shared(2));
        check_counted_once(|| {
            let offered = Offered { cpu_milli: Some(2_500), memory_bytes: None };
            Room::Resources(Budget::new(offered, bellwether_core::turn::Demand::NONE))
        });
    }
}
