//! Who sits where, who waits for what, and who comes first.
//!
//! Runs that wait are served by priority, then by their time. Each shard keeps that order for its
//! own runs; here it is kept between shards.
//!
//! Workers that count resources need one rule more, or a run that wants much would wait for ever
//! behind small ones that fit into whatever becomes free. The rule: *of what such a worker has free,
//! the first run of every lane that comes before another one is left its share, whether it fits yet
//! or not.* So the worker runs empty until the large run fits, and only what does not delay it may
//! go ahead. Runs that could never fit into the worker, and those that their queue does not let go,
//! are not waited for. The price is that resources may be idle for a while; guessing how long runs
//! take, to fill such gaps, is not tried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bellwether_core::shard::Reserved;
use bellwether_core::turn::{Demand, Lane, Turnstile};
use bellwether_core::waist::Shard;

use super::ahead::{Ahead, is_before};
use super::queues::QueueUse;
use super::seat::{Room, Seat};
use crate::shard::ShardHandle;

/// The first waiting run of a lane in a shard, and how many wait.
pub type Waiting = (Turnstile, usize);

/// Shards with runs that wait for slots, by lane.
pub type Hungry = BTreeMap<Lane, BTreeMap<Shard, Waiting>>;

/// Workers and those who wait for them.
#[derive(Default)]
pub struct Table {
    /// The workers.
    pub workers: Vec<Seat>,
    /// Who waits.
    pub hungry: Hungry,
    /// The shards, to be woken.
    pub shards: Vec<ShardHandle>,
    /// Queues that have something under way, or bounds.
    pub queues: BTreeMap<String, QueueUse>,
    /// What was granted to workers that keep a stream and has not reached them, by worker and lane.
    /// It takes room also of a seat that has come in the place of the one that it was granted to.
    on_the_way: BTreeMap<Arc<str>, BTreeMap<Lane, usize>>,
    /// Whether nothing more is granted.
    pub closed: bool,
    /// Whether somebody has stopped waiting since shards were last woken for that.
    eased: bool,
    /// How often a lane that waits was looked at for what it is to be left.
    #[cfg(test)]
    pub looked: usize,
}

impl Table {
    /// Grants up to `want` slots for the first runs of a lane in a shard.
    pub fn grant(
        &mut self,
        shard: Shard,
        lane: &Lane,
        first: Turnstile,
        want: usize,
    ) -> Option<Reserved> {
        if !self.queues.contains_key(&lane.queue) {
            self.queues.insert(lane.queue.clone(), QueueUse::default());
        }
        let (at, granted) = self.find_room(shard, lane, first, want)?;
        self.queues.get_mut(&lane.queue)?.take(&lane.namespace, granted);
        self.workers[at].room.take(lane, granted);
        let worker = self.workers[at].name.clone();
        if matches!(self.workers[at].room, Room::Shared(_) | Room::Resources(_)) {
            let lanes = self.on_the_way.entry(worker.clone()).or_default();
            *lanes.entry(lane.clone()).or_default() += granted;
        }
        // Whoever was asked last comes last, so that work spreads over the workers.
        self.workers[at..].rotate_left(1);
        let others = self.others_with_room(&worker, lane);
        Some(Reserved { worker, slots: granted, others })
    }

    /// The first worker that has room for runs of a lane, by its place, and for how many.
    fn find_room(
        &mut self,
        shard: Shard,
        lane: &Lane,
        first: Turnstile,
        want: usize,
    ) -> Option<(usize, usize)> {
        let better = self.ahead(shard, lane, first);
        // Worked out once, and only if anybody has room.
        let (mut ahead, mut others) = (None, None);
        let mut found = None;
        for (at, seat) in self.workers.iter_mut().enumerate() {
            if !seat.takes(lane) {
                continue;
            }
            let free = match &mut seat.room {
                Room::Resources(budget) if budget.free(lane.demand, Demand::NONE) == 0 => continue,
                Room::Resources(budget) => {
                    let budget = *budget;
                    let ahead =
                        ahead.get_or_insert_with(|| Ahead::new(&self.hungry, shard, lane, first));
                    ahead.leave(seat, budget, lane.demand, &mut self.queues)
                }
                room => room.free(lane).saturating_sub(better),
            };
            if free == 0 {
                continue;
            }
            // What only one namespace can use need not be shared.
            let others = match seat.offer.namespace {
                Some(_) => 0,
                None => *others.get_or_insert_with(|| other_namespaces(&self.hungry, lane)),
            };
            let queue = self.queues.get_mut(&lane.queue)?;
            let granted = queue.allowed(&lane.namespace, want, free, others);
            if granted > 0 {
                found = Some((at, granted));
                break;
            }
        }
        #[cfg(test)]
        {
            self.looked += ahead.map_or(0, |ahead| ahead.looked);
        }
        found
    }

    /// Gives a worker its seat, in place of any that had its name.
    pub fn sit(&mut self, mut seat: Seat) {
        self.workers.retain(|other| other.name != seat.name);
        for (lane, count) in self.on_the_way.get(&seat.name).into_iter().flatten() {
            seat.room.take(lane, *count);
        }
        self.workers.push(seat);
    }

    /// So many runs of a lane are with their worker, or will never be: it holds them from here on,
    /// or nobody does.
    pub fn arrived(&mut self, worker: &str, lane: &Lane, count: usize) {
        let Some(lanes) = self.on_the_way.get_mut(worker) else { return };
        if let Some(left) = lanes.get_mut(lane) {
            *left = left.saturating_sub(count);
            if *left == 0 {
                lanes.remove(lane);
            }
        }
        if lanes.is_empty() {
            self.on_the_way.remove(worker);
        }
    }

    /// How many runs in other shards come before this one, of its lane and of those that differ from
    /// it only in their demand.
    fn ahead(&self, shard: Shard, lane: &Lane, first: Turnstile) -> usize {
        if self.hungry.is_empty() {
            return 0;
        }
        let least = Lane { demand: Demand::NONE, ..lane.clone() };
        let most = Lane { demand: Demand::MOST, ..lane.clone() };
        let alike = self.hungry.range(least..=most).flat_map(|(_, shards)| shards);
        alike
            .filter(|(other, (head, _))| **other != shard && is_before(head, &first))
            .map(|(_, (_, count))| count)
            .sum()
    }

    /// How many other workers could take a run of a lane now.
    fn others_with_room(&mut self, worker: &str, lane: &Lane) -> usize {
        let others = self.workers.iter_mut().filter(|seat| &*seat.name != worker);
        let open = others.filter(|seat| seat.takes(lane));
        open.filter_map(|seat| (seat.room.free(lane) > 0).then_some(())).count()
    }

    fn counts_resources(&self) -> bool {
        self.workers.iter().any(|seat| matches!(seat.room, Room::Resources(_)))
    }

    /// Notes at once how many of a lane still wait after a grant, for those of the same shard that
    /// ask next. Only workers that count resources have to know so soon.
    pub fn note(
        &mut self,
        shard: Shard,
        lane: &Lane,
        first: Turnstile,
        want: usize,
        granted: usize,
    ) {
        if !self.counts_resources() {
            return;
        }
        if granted < want {
            if self.workers.iter().any(|seat| seat.could_take(lane)) {
                let shards = self.hungry.entry(lane.clone()).or_default();
                shards.insert(shard, (first, want - granted));
            }
        } else if let Some(shards) = self.hungry.get_mut(lane) {
            self.eased |= shards.remove(&shard).is_some();
            if shards.is_empty() {
                self.hungry.remove(lane);
            }
        }
    }

    /// Notes what waits in a shard. Whether somebody may have held back for what no longer does.
    pub fn set_hungry(&mut self, shard: Shard, heads: Vec<(Lane, Turnstile, usize)>) -> bool {
        // A lane that nobody serves waits for a worker to join, which wakes all shards.
        let heads: BTreeMap<Lane, Waiting> = heads
            .into_iter()
            .filter(|(lane, _, _)| self.workers.iter().any(|seat| seat.could_take(lane)))
            .map(|(lane, first, count)| (lane, (first, count)))
            .collect();
        let mut eased = std::mem::take(&mut self.eased);
        self.hungry.retain(|lane, shards| {
            if !heads.contains_key(lane) {
                eased |= shards.remove(&shard).is_some();
            }
            !shards.is_empty()
        });
        let counts_resources = !heads.is_empty() && self.counts_resources();
        for (lane, waiting) in heads {
            let before = self.hungry.entry(lane).or_default().insert(shard, waiting);
            eased |= counts_resources && before.is_some_and(|(first, _)| first != waiting.0);
        }
        eased
    }

    /// Wakes, for each lane that may get what a worker's run of a lane has given back, the shard
    /// whose waiting run comes first.
    pub fn wake_for(&self, worker: &str, freed: &Lane) {
        let seat = self.workers.iter().find(|seat| &*seat.name == worker);
        for (lane, shards) in &self.hungry {
            let alike = freed.work == lane.work || freed.queue == lane.queue;
            if alike || seat.is_some_and(|seat| seat.takes(lane)) {
                self.wake_first(shards);
            }
        }
    }

    /// The same for all lanes.
    pub fn wake_best(&self) {
        for shards in self.hungry.values() {
            self.wake_first(shards);
        }
    }

    /// Wakes the shard whose waiting run comes first.
    pub fn wake_first(&self, shards: &BTreeMap<Shard, Waiting>) {
        let best = shards.iter().min_by_key(|(_, (head, _))| (head.rank, head.scheduled));
        if let Some((shard, _)) = best
            && let Some(handle) = self.shards.get(usize::from(*shard))
        {
            handle.wake();
        }
    }

    /// Wakes all shards.
    pub fn wake_all(&self) {
        for shard in &self.shards {
            shard.wake();
        }
    }

    /// Why no worker that is there could ever take a run of a lane, in words; `None` if one could.
    #[must_use]
    pub fn obstacle(&self, lane: &Lane) -> Option<String> {
        let serving: Vec<&Seat> = self.workers.iter().filter(|seat| seat.serves(lane)).collect();
        if serving.iter().any(|seat| seat.could_take(lane)) {
            return None;
        }
        if serving.is_empty() {
            return Some(nobody(lane));
        }
        /// Workers that are named.
        const NAMED_MAX: usize = 3;
        let offers = serving.iter().take(NAMED_MAX).filter_map(|seat| match &seat.room {
            Room::Resources(budget) => Some(format!("'{}' has {}", seat.name, budget.offered())),
            _ => None,
        });
        let offers: Vec<String> = offers.collect();
        let more = if serving.len() > NAMED_MAX { " and others no more" } else { "" };
        Some(format!(
            "No connected worker is large enough: it asks for {}, but {}{more}.",
            lane.demand,
            offers.join(", ")
        ))
    }
}

/// That no worker takes runs of a lane.
fn nobody(lane: &Lane) -> String {
    if !lane.pinned.is_empty() {
        return format!("The worker '{}' is not connected, or does not take it now.", lane.pinned);
    }
    let mut text = format!("No connected worker takes such work from queue '{}'", lane.queue);
    if !lane.requires.is_empty() {
        let labels = lane.requires.iter().map(|(name, value)| format!("{name}={value}"));
        text.push_str(" and has the labels ");
        text.push_str(&labels.collect::<Vec<_>>().join(", "));
    }
    text.push('.');
    text
}

/// How many other namespaces wait for what a lane wants.
fn other_namespaces(hungry: &Hungry, lane: &Lane) -> usize {
    let waiting: BTreeSet<&str> = hungry
        .keys()
        .filter(|other| other.queue == lane.queue && other.work == lane.work)
        .filter(|other| other.namespace != lane.namespace)
        .map(|other| other.namespace.as_str())
        .collect();
    waiting.len()
}

#[cfg(test)]
mod tests {
    use bellwether_core::id::{JobId, RunId};
    use bellwether_core::time::Time;
    use bellwether_core::turn::{Offer, Work};
    use tokio::sync::mpsc;

    use super::*;
    use crate::work::budget::{Budget, Offered};

    /// A run of its own demand, which differs from all others.
    fn lane(n: usize) -> Lane {
        Lane {
            queue: "default".to_owned(),
            namespace: format!("team-{}", n % 3),
            work: Work::Command,
            requires: BTreeMap::new(),
            pinned: String::new(),
            demand: Demand { cpu_milli: 1_000 + n as u64, memory_bytes: 0 },
        }
    }

    fn place(n: usize) -> Turnstile {
        let run = RunId { job: JobId(n as u64), n: 1 };
        Turnstile { rank: 0, scheduled: Time(n as i64), run }
    }

    /// Workers with so much of a processor each.
    fn table(workers: usize, cpu_milli: u64) -> Table {
        let mut table = Table::default();
        for n in 0..workers {
            let offered = Offered { cpu_milli: Some(cpu_milli), memory_bytes: None };
            let room = Room::Resources(Budget::new(offered, Demand::NONE));
            let offer = Offer { commands: true, ..Offer::default() };
            let (orders, _) = mpsc::unbounded_channel();
            let name = format!("w{n}").into();
            table.sit(Seat { name, offer, room, closed: false, orders });
        }
        table
    }

    /// What a turn does: all lanes ask in their order. How many were granted.
    fn turn(table: &mut Table, shard: Shard, lanes: usize) -> usize {
        let mut all = 0;
        for n in 0..lanes {
            let granted = table.grant(shard, &lane(n), place(n), 1).map_or(0, |r| r.slots);
            table.note(shard, &lane(n), place(n), 1, granted);
            all += granted;
        }
        all
    }

    #[test]
    fn a_turn_of_many_demands_costs_no_more_than_their_square() {
        const LANES: usize = 200;
        const WORKERS: usize = 20;
        let mut table = table(WORKERS, 4_000);
        let granted = turn(&mut table, 0, LANES);
        assert_eq!(granted, 3 * WORKERS, "those that come first");
        // Nobody has room for any: nobody looks at who is ahead.
        table.looked = 0;
        assert_eq!((turn(&mut table, 0, LANES), table.looked), (0, 0));
        // All have room for any, and have to leave it to one that needs more and came before.
        for seat in &mut table.workers {
            seat.room.put(&lane(0), 2);
        }
        let large = Lane { demand: Demand { cpu_milli: 4_000, memory_bytes: 0 }, ..lane(0) };
        table.note(1, &large, Turnstile { rank: -1, ..place(0) }, WORKERS, 0);
        assert_eq!(turn(&mut table, 0, LANES), 0);
        assert!(table.looked > 0 && table.looked <= LANES * 2 * (LANES + WORKERS));
    }
}
