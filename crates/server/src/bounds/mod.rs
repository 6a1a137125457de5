//! Where shards of this node and whoever keeps the bounds of queues leave what they have to say to one
//! another.
//!
//! ```text
//!   shard's thread ─ ask ─┬─► keeper, if it is here ──┬─► shard's thread, if it acts here
//!                         └─► asks, for another node  └─► answers, for other nodes
//! ```
//! Who keeps, who has been confirmed to lead, and what goes to other nodes is for `cluster::bounding`;
//! what is decided is `bellwether_core::bounds`. A queue without bounds never comes here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bellwether_core::bounds::{Answer, Ask, Keeper, Limits};
use bellwether_core::waist::{Shard, Term};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::shard::ShardHandle;

/// A node that keeps the bounds, and the term under which it does: that of shard 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptBy {
    /// The node.
    pub node: u64,
    /// The term.
    pub term: Term,
}

/// Whether a shard is known to act here since it speaks to the keeper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It is.
    Confirmed,
    /// It is not, and somebody is seeing to it.
    InDoubt,
    /// It is not.
    Unknown,
}

/// Asks and answers of this node.
pub struct Desk {
    shards: Vec<ShardHandle>,
    limits: RwLock<Arc<Limits>>,
    state: Mutex<State>,
    asked: Notify,
    answered: Notify,
    begun: Instant,
}

#[derive(Default)]
struct State {
    /// The keeper, while it is here.
    keeper: Option<Here>,
    /// Whom the shards of this node speak to.
    kept_by: Option<KeptBy>,
    /// Under which terms shards of this node have been confirmed to act since they speak to it.
    confirmed: BTreeMap<Shard, Term>,
    /// Those that are being confirmed.
    confirming: BTreeSet<(Shard, Term)>,
    /// What has yet to be heard, the newest of each.
    asks: BTreeMap<(Shard, String), Ask>,
    /// What shards elsewhere have yet to hear.
    answers: Vec<Answer>,
}

/// A keeper on this node.
struct Here {
    term: Term,
    keeper: Keeper,
    /// The terms of the shards that it hears.
    met: BTreeMap<Shard, Term>,
}

impl Desk {
    /// The desk of a node with these shards, wherever they act.
    #[must_use]
    pub fn new(shards: Vec<ShardHandle>) -> Desk {
        Desk {
            shards,
            limits: RwLock::default(),
            state: Mutex::default(),
            asked: Notify::new(),
            answered: Notify::new(),
            begun: Instant::now(),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The bounds of all queues that have any.
    #[must_use]
    pub fn limits(&self) -> Arc<Limits> {
        self.limits.read().clone()
    }

    /// Sets the bounds of all queues. Whether they have changed.
    pub fn set_limits(&self, limits: Limits) -> bool {
        if **self.limits.read() == limits {
            return false;
        }
        *self.limits.write() = Arc::new(limits.clone());
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        if let Some(here) = &mut state.keeper {
            let answers = here.keeper.set_limits(limits, now_ms);
            self.route(&mut state, answers);
        }
        true
    }

    /// Takes what a shard of this node has to say.
    pub fn ask(&self, asks: Vec<Ask>) {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        for ask in asks {
            let State { keeper, kept_by, .. } = &mut *state;
            let spoken_to = kept_by.map(|by| by.term);
            let here = keeper.as_mut().filter(|here| {
                Some(here.term) == spoken_to && here.met.get(&ask.shard) == Some(&ask.term)
            });
            match here {
                Some(here) => {
                    let answers = here.keeper.hear(ask, now_ms);
                    self.route(&mut state, answers);
                }
                None => {
                    state.asks.insert((ask.shard, ask.queue.clone()), ask);
                    self.asked.notify_one();
                }
            }
        }
    }

    /// Brings answers to the shards that act here, and lays out the rest for other nodes.
    fn route(&self, state: &mut State, answers: Vec<Answer>) {
        for answer in answers {
            let handle = self.shards.get(usize::from(answer.shard));
            if let Some(answer) = handle.and_then(|handle| handle.left_of_bounds(answer)) {
                state.answers.push(answer);
                self.answered.notify_one();
            }
        }
    }

    /// Waits for something to be asked that the keeper here does not hear, and takes it.
    pub async fn asks(&self) -> Vec<Ask> {
        loop {
            let asks = std::mem::take(&mut self.state.lock().asks);
            if !asks.is_empty() {
                return asks.into_values().collect();
            }
            self.asked.notified().await;
        }
    }

    /// Waits for answers to shards elsewhere, and takes them.
    pub async fn answers(&self) -> Vec<Answer> {
        loop {
            let answers = std::mem::take(&mut self.state.lock().answers);
            if !answers.is_empty() {
                return answers;
            }
            self.answered.notified().await;
        }
    }

    /// Keeps the bounds here, under a term, or does not.
    pub fn keep(&self, term: Option<Term>) {
        let mut state = self.state.lock();
        if state.keeper.as_ref().map(|here| here.term) != term {
            let shards = Shard::try_from(self.shards.len()).unwrap_or(Shard::MAX);
            state.keeper = term.map(|term| {
                let keeper = Keeper::new(shards, (**self.limits.read()).clone(), self.now_ms());
                Here { term, keeper, met: BTreeMap::new() }
            });
        }
    }

    /// Speaks to this keeper from now on, unless it is known that there was a newer one.
    pub fn speak_to(&self, by: KeptBy) {
        let mut state = self.state.lock();
        if state.kept_by.is_none_or(|known| known.term < by.term) {
            tracing::debug!(node = by.node, term = by.term, "keeps the bounds of queues");
            state.kept_by = Some(by);
            state.confirmed.clear();
            drop(state);
            self.shards.iter().for_each(ShardHandle::say_bounds_again);
        }
    }

    /// Who keeps the bounds, as far as is known.
    #[must_use]
    pub fn kept_by(&self) -> Option<KeptBy> {
        self.state.lock().kept_by
    }

    /// How a shard of this node stands. Whoever hears that it is unknown has it confirmed.
    pub fn standing(&self, shard: Shard, term: Term) -> Standing {
        let mut state = self.state.lock();
        if state.confirmed.get(&shard) == Some(&term) {
            return Standing::Confirmed;
        }
        match state.confirming.insert((shard, term)) {
            true => Standing::Unknown,
            false => Standing::InDoubt,
        }
    }

    /// A shard of this node was confirmed, or not, to act under a term since this keeper is known.
    pub fn confirmed(&self, shard: Shard, term: Term, by: KeptBy, acts: bool) {
        let mut state = self.state.lock();
        state.confirming.remove(&(shard, term));
        if acts && state.kept_by == Some(by) {
            state.confirmed.insert(shard, term);
            drop(state);
            if let Some(handle) = self.shards.get(usize::from(shard)) {
                handle.say_bounds_again();
            }
        }
    }

    /// Which of these shards the keeper here, of this term, has yet to meet. `None` if it is not here.
    #[must_use]
    pub fn to_meet(&self, keeper: Term, asks: &[Ask]) -> Option<BTreeMap<Shard, Term>> {
        let state = self.state.lock();
        let here = state.keeper.as_ref().filter(|here| here.term == keeper)?;
        let known = |ask: &&Ask| here.met.get(&ask.shard).is_none_or(|known| *known < ask.term);
        Some(asks.iter().filter(known).map(|ask| (ask.shard, ask.term)).collect())
    }

    /// The keeper here hears these shards from now on: it has been confirmed to lead since they first
    /// spoke to it.
    pub fn meet(&self, keeper: Term, shards: BTreeMap<Shard, Term>) {
        let mut state = self.state.lock();
        let here = state.keeper.as_mut().filter(|here| here.term == keeper);
        if let Some(here) = here {
            for (shard, term) in shards {
                let known = here.met.entry(shard).or_insert(term);
                *known = term.max(*known);
            }
        }
    }

    /// Has the keeper here hear shards of another node. The answers to these; others are told as well.
    #[must_use]
    pub fn hear(&self, keeper: Term, asks: Vec<Ask>) -> Option<Vec<Answer>> {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        let here = state.keeper.as_mut().filter(|here| here.term == keeper)?;
        let asking: BTreeSet<(Shard, Term)> =
            asks.iter().map(|ask| (ask.shard, ask.term)).collect();
        let met: Vec<Ask> =
            asks.into_iter().filter(|ask| here.met.get(&ask.shard) == Some(&ask.term)).collect();
        let answers: Vec<Answer> =
            met.into_iter().flat_map(|ask| here.keeper.hear(ask, now_ms)).collect();
        let is_asking = |answer: &Answer| asking.contains(&(answer.shard, answer.term));
        let (own, others) = answers.into_iter().partition(is_asking);
        self.route(&mut state, others);
        Some(own)
    }

    /// Brings answers of a keeper elsewhere to the shards that act here.
    pub fn tell(&self, answers: Vec<Answer>) {
        for answer in answers {
            if let Some(handle) = self.shards.get(usize::from(answer.shard)) {
                let _ = handle.left_of_bounds(answer);
            }
        }
    }

    /// Says what the keeper here has to say as time goes by.
    pub fn tick(&self) {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        if let Some(here) = &mut state.keeper {
            let answers = here.keeper.tick(now_ms);
            self.route(&mut state, answers);
        }
    }
}
