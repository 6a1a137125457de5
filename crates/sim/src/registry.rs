//! The workers as the leader of a shard knows them: who is there, who has what, and for how long.
//!
//! The rules are those of decision 0004, for workers that any node may be the way to:
//! - a lease is between a worker and the leader of a shard. The worker counts from when it sent what
//!   the leader has heard, the leader from when it heard it;
//! - a leader tells a worker that it was heard only after a quorum has confirmed that it leads. So the
//!   leases that its successor grants begin after the last one that it granted;
//! - a worker takes nothing from a leader older than one it has heard of. So what it says it has can
//!   be relied upon by a leader that it knows: nothing older can reach it any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::id::RunId;
use bellwether_core::shard::{Reserved, Slots, StillHeld};
use bellwether_core::turn::{Assignment, Demand, Lane, Offer, Roster, Turnstile};
use bellwether_core::waist::{Shard, Term};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::links::{Place, WORKERS};
use crate::message::Beat;

/// How often a worker is to be heard.
pub const BEAT: Duration = Duration::from_secs(1);
/// How long a worker may be silent.
pub const LEASE: Duration = Duration::from_secs(6);
/// How long a worker itself relies on having been heard.
pub const OWN_LEASE: Duration = Duration::from_millis(4_500);
/// A worker that was not heard for so long gets nothing new.
const THERE: Duration = Duration::from_millis(2_500);
/// How long an attempt may be on its way before it is sent again.
const ON_THE_WAY: Duration = Duration::from_millis(1_500);

/// A worker.
struct Worker {
    instance: u64,
    /// When what was heard last was sent, by its own count.
    sent: Instant,
    heard: Instant,
    slots: usize,
    reserved: usize,
    /// Whether it has heard of this leader's term.
    knows: bool,
}

/// A run that is with a worker.
struct Held {
    worker: Place,
    token: u64,
    /// The process that has it, if that is known.
    instance: Option<u64>,
    /// What it was sent and when, if it was this leader that sent it.
    sent: Option<(Assignment, Instant)>,
}

/// What a leader does about a sign of life.
#[derive(Default)]
pub struct Reaction {
    /// Nobody can say what became of these.
    pub lost: Vec<(RunId, u64)>,
    /// The worker has these and should not.
    pub stop: Vec<(RunId, u64)>,
    /// These did not reach it.
    pub again: Vec<Assignment>,
}

/// The workers of a shard.
pub struct Registry {
    term: Term,
    lease: Duration,
    state: Mutex<State>,
}

struct State {
    workers: BTreeMap<Place, Worker>,
    held: BTreeMap<RunId, Held>,
    since: Instant,
}

/// The name of a worker.
#[must_use]
pub fn name(worker: Place) -> String {
    format!("w{worker}")
}

/// The worker of a name.
fn place(name: &str) -> Place {
    name.strip_prefix('w').and_then(|number| number.parse().ok()).unwrap_or(WORKERS)
}

impl Registry {
    /// What a new leader knows: what is with workers, who all get a fresh lease.
    #[must_use]
    pub fn new(term: Term, lease: Duration, still_held: Vec<StillHeld>) -> Registry {
        let held = still_held.into_iter().map(|held| {
            let worker = place(&held.worker);
            (held.run, Held { worker, token: held.token, instance: None, sent: None })
        });
        let state = State { workers: BTreeMap::new(), held: held.collect(), since: Instant::now() };
        Registry { term, lease, state: Mutex::new(state) }
    }

    /// A worker was heard.
    pub fn heard(&self, beat: &Beat) -> Reaction {
        let now = Instant::now();
        let mut state = self.state.lock();
        let known = state.workers.get(&beat.worker).map(|worker| (worker.instance, worker.sent));
        if known.is_some_and(|known| known > (beat.instance, beat.sent)) {
            return Reaction::default(); // It was overtaken by a newer one.
        }
        let knows = beat.fence == self.term;
        let Beat { instance, sent, slots, .. } = *beat;
        let worker = Worker { instance, sent, heard: now, slots, reserved: 0, knows };
        state.workers.insert(beat.worker, worker);
        if !knows {
            return Reaction::default(); // What an older leader has sent it may still arrive.
        }
        let mut reaction = Reaction::default();
        let mut gone = Vec::new();
        for (run, held) in state.held.iter_mut().filter(|(_, held)| held.worker == beat.worker) {
            if beat.has.contains(&(*run, held.token)) {
                held.instance = Some(beat.instance);
                continue;
            }
            match &mut held.sent {
                Some((assignment, sent)) if held.instance == Some(beat.instance) => {
                    if sent.elapsed() > ON_THE_WAY {
                        *sent = now;
                        reaction.again.push(assignment.clone());
                    }
                }
                _ => gone.push((*run, held.token)),
            }
        }
        for (run, token) in &beat.has {
            let own = state.held.get(run).is_some_and(|held| held.token == *token);
            if !own {
                reaction.stop.push((*run, *token));
            }
        }
        for (run, _) in &gone {
            state.held.remove(run);
        }
        reaction.lost = gone;
        reaction
    }

    /// What was held under leases that have run out.
    pub fn run_out(&self) -> Vec<(RunId, u64)> {
        let mut state = self.state.lock();
        let State { workers, held, since } = &mut *state;
        let alive = |worker: &Place| {
            let heard = workers.get(worker).map_or(*since, |worker| worker.heard.max(*since));
            heard.elapsed() <= self.lease
        };
        let gone: Vec<(RunId, u64)> = held
            .iter()
            .filter(|(_, held)| !alive(&held.worker))
            .map(|(run, held)| (*run, held.token))
            .collect();
        held.retain(|_, held| alive(&held.worker));
        gone
    }

    /// A turn begins: nothing is reserved.
    pub fn begin_turn(&self) {
        self.state.lock().workers.values_mut().for_each(|worker| worker.reserved = 0);
    }

    /// An attempt was promised to a worker: its process.
    pub fn promised(&self, assignment: &Assignment) -> (Place, u64) {
        let mut state = self.state.lock();
        let worker = place(&assignment.worker);
        let instance = state.workers.get(&worker).map_or(0, |worker| worker.instance);
        let sent = Some((assignment.clone(), Instant::now()));
        let held = Held { worker, token: assignment.token, instance: Some(instance), sent };
        state.held.insert(assignment.run, held);
        (worker, instance)
    }

    /// A worker has an attempt no longer.
    pub fn ended(&self, run: RunId, token: u64) {
        let mut state = self.state.lock();
        if state.held.get(&run).is_some_and(|held| held.token == token) {
            state.held.remove(&run);
        }
    }

    /// Where a worker is to be found.
    #[must_use]
    pub fn place_of(&self, worker: &str) -> Place {
        place(worker)
    }
}

impl State {
    fn free(&self, number: Place, lane: &Lane) -> usize {
        let Some(worker) = self.workers.get(&number) else { return 0 };
        let pinned = !lane.pinned.is_empty() && lane.pinned != name(number);
        if pinned || !worker.knows || worker.heard.elapsed() > THERE {
            return 0;
        }
        let held = self.held.values().filter(|held| held.worker == number).count();
        worker.slots.saturating_sub(held + worker.reserved)
    }
}

impl Slots for Registry {
    fn roster(&self) -> Arc<Roster> {
        let state = self.state.lock();
        let there = state.workers.iter().filter(|(_, worker)| worker.heard.elapsed() <= THERE);
        let offer = || Offer { commands: true, ..Offer::default() };
        Arc::new(there.map(|(place, _)| (name(*place).into(), offer(), Demand::MOST)).collect())
    }

    fn reserve(&self, _: Shard, lane: &Lane, _: Turnstile, want: usize) -> Option<Reserved> {
        let mut state = self.state.lock();
        let free = |place: &Place| (state.free(*place, lane), *place);
        let with_room: Vec<(usize, Place)> =
            state.workers.keys().map(free).filter(|(free, _)| *free > 0).collect();
        let (free, place) = with_room.iter().copied().max()?;
        let slots = free.min(want);
        state.workers.get_mut(&place)?.reserved += slots;
        Some(Reserved { worker: name(place).into(), slots, others: with_room.len() - 1 })
    }

    fn put_back(&self, worker: &str, _: &Lane, slots: usize) {
        let mut state = self.state.lock();
        if let Some(worker) = state.workers.get_mut(&place(worker)) {
            worker.reserved = worker.reserved.saturating_sub(slots);
        }
    }

    fn declare(&self, _: Shard, _: Vec<(Lane, Turnstile, usize)>) {}
}
