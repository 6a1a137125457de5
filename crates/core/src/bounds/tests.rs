//! Shards and keepers that are replaced at any time, and messages that are lost, doubled and late.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::id::{JobId, RunId};
use crate::record::Definition;
use crate::turn::{Lane, Ready, Turnstile};

const SHARDS: Shard = 4;
const QUEUE: &str = "default";

fn lane(namespace: u8) -> Lane {
    let namespace = format!("team-{namespace}");
    Lane::of(&Definition { namespace, ..Definition::default() }, "")
}

/// Whoever acts for a shard, or believes to.
struct Leader {
    shard: Shard,
    term: Term,
    shares: Shares,
    ready: Ready,
    /// The keeper that it speaks to.
    keeper: Option<usize>,
}

/// What is stored of a shard: what waits, and what is with workers.
#[derive(Clone, Default)]
struct Stored {
    waiting: BTreeMap<RunId, (u8, Turnstile)>,
    under_way: BTreeMap<RunId, u8>,
    done: usize,
}

/// The last of the leaders of a shard is the one who leads; so with keepers.
struct World {
    limits: Arc<Limits>,
    bound: u64,
    stored: Vec<Stored>,
    leaders: Vec<Vec<Leader>>,
    keepers: Vec<(Keeper, BTreeMap<Shard, Term>)>,
    asks: Vec<(usize, Ask)>,
    answers: Vec<Answer>,
    made: u64,
    launched: u64,
    now: Time,
}

impl World {
    fn new(limit: Limit) -> World {
        let limits = Limits::from([(QUEUE.to_owned(), limit)]);
        let mut world = World {
            bound: limit.concurrency.unwrap_or(u64::MAX),
            limits: Arc::new(limits),
            stored: vec![Stored::default(); usize::from(SHARDS)],
            leaders: (0..SHARDS).map(|_| Vec::new()).collect(),
            keepers: Vec::new(),
            asks: Vec::new(),
            answers: Vec::new(),
            made: 0,
            launched: 0,
            now: Time(0),
        };
        world.new_keeper();
        (0..SHARDS).for_each(|shard| world.elect(shard));
        world
    }

    fn now_ms(&self) -> u64 {
        self.now.since_ms(Time(0))
    }

    fn new_keeper(&mut self) {
        let keeper = Keeper::new(SHARDS, (*self.limits).clone(), self.now_ms());
        self.keepers.push((keeper, BTreeMap::new()));
    }

    /// Somebody takes a shard over: it knows what is stored, and nothing else.
    fn elect(&mut self, shard: Shard) {
        let stored = &self.stored[usize::from(shard)];
        let (mut shares, mut ready) = (Shares::default(), Ready::default());
        for (run, namespace) in &stored.under_way {
            shares.found(*run, &lane(*namespace));
        }
        for (namespace, place) in stored.waiting.values() {
            ready.put_back(&lane(*namespace), *place);
        }
        shares.set_limits(&self.limits);
        let leaders = &mut self.leaders[usize::from(shard)];
        let term = leaders.len() as u64 + 1;
        leaders.push(Leader { shard, term, shares, ready, keeper: None });
    }

    fn arrive(&mut self, shard: Shard, namespace: u8, rank: i32) {
        self.made += 1;
        let run = RunId { job: JobId(self.made), n: 1 };
        let place = Turnstile { rank, scheduled: self.now, run };
        self.stored[usize::from(shard)].waiting.insert(run, (namespace, place));
        if let Some(leader) = self.leaders[usize::from(shard)].last_mut() {
            leader.ready.put_back(&lane(namespace), place);
        }
    }

    /// A leader claims what it may. If it leads no more nothing comes of that, and it stops.
    fn claim(&mut self, shard: Shard, which: usize) {
        let stored = &mut self.stored[usize::from(shard)];
        let leaders = &mut self.leaders[usize::from(shard)];
        let last = leaders.len() - 1;
        let leader = &mut leaders[which.min(last)];
        for namespace in 0..2 {
            let lane = lane(namespace);
            while leader.shares.room(&lane) > 0
                && let Some(place) = leader.ready.pop(&lane)
            {
                leader.shares.claimed(place.run, &lane);
                if which >= last {
                    stored.waiting.remove(&place.run);
                    stored.under_way.insert(place.run, namespace);
                    self.launched += 1;
                }
            }
        }
    }

    fn end(&mut self, shard: Shard) {
        let stored = &mut self.stored[usize::from(shard)];
        if let Some((run, _)) = stored.under_way.pop_first() {
            stored.done += 1;
            if let Some(leader) = self.leaders[usize::from(shard)].last_mut() {
                leader.shares.ended(run);
            }
        }
    }

    /// A leader hears of a keeper, and both have their lead confirmed: those that lead no more fail.
    fn meet(&mut self, shard: Shard, which: usize, keeper: usize) {
        let leaders = &mut self.leaders[usize::from(shard)];
        let (which, keeper) = (which.min(leaders.len() - 1), keeper.min(self.keepers.len() - 1));
        let both_lead = which + 1 == leaders.len() && keeper + 1 == self.keepers.len();
        let leader = &mut leaders[which];
        if both_lead && leader.keeper.is_none_or(|known| known < keeper) {
            leader.keeper = Some(keeper);
            leader.shares.unheard(None);
            self.keepers[keeper].1.insert(shard, leader.term);
        }
    }

    fn tell(&mut self, shard: Shard, which: usize) {
        let leaders = &mut self.leaders[usize::from(shard)];
        let which = which.min(leaders.len() - 1);
        let Leader { shard, term, shares, ready, keeper } = &mut leaders[which];
        let Some(keeper) = *keeper else { return };
        let asks = shares.tell((*shard, *term), ready, self.now, &|_| true);
        self.asks.extend(asks.into_iter().map(|ask| (keeper, ask)));
    }

    fn hear(&mut self, at: usize, keep: bool) {
        if self.asks.is_empty() {
            return;
        }
        let at = at % self.asks.len();
        let (keeper, ask) = if keep { self.asks[at].clone() } else { self.asks.remove(at) };
        let now_ms = self.now_ms();
        let (keeper, met) = &mut self.keepers[keeper];
        if met.get(&ask.shard) == Some(&ask.term) {
            self.answers.extend(keeper.hear(ask, now_ms));
        }
    }

    fn take(&mut self, at: usize, keep: bool) {
        if self.answers.is_empty() {
            return;
        }
        let at = at % self.answers.len();
        let answer = if keep { self.answers[at].clone() } else { self.answers.remove(at) };
        for leader in &mut self.leaders[usize::from(answer.shard)] {
            if answer.term == leader.term || (answer.term == 0 && leader.keeper.is_some()) {
                leader.shares.take(&answer);
            }
        }
    }

    fn tick(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        let now_ms = self.now_ms();
        for (keeper, _) in &mut self.keepers {
            self.answers.extend(keeper.tick(now_ms));
        }
    }

    fn step(&mut self, what: u8, shard: Shard, which: usize) {
        match what {
            0..=3 => self.arrive(shard, which as u8 % 2, -(which as i32 % 3)),
            4..=9 => self.claim(shard, usize::MAX),
            10 => self.claim(shard, which),
            11..=14 => self.end(shard),
            15..=20 => self.tell(shard, usize::MAX),
            21 => self.tell(shard, which),
            22..=29 => self.hear(which, what == 29),
            30..=37 => self.take(which, what == 37),
            38 if !self.asks.is_empty() => {
                // Whoever sent it hears that, at some time.
                let (_, ask) = self.asks.remove(which % self.asks.len());
                let leaders = &mut self.leaders[usize::from(ask.shard)];
                let sender = leaders.iter_mut().find(|leader| leader.term == ask.term);
                sender.into_iter().for_each(|sender| sender.shares.unheard(Some(&ask.queue)));
            }
            39 if !self.answers.is_empty() => {
                self.answers.remove(which % self.answers.len());
            }
            40 => self.elect(shard),
            41 => self.new_keeper(),
            42..=45 => self.meet(shard, usize::MAX, usize::MAX),
            46 => self.meet(shard, which, which / 2),
            47 => self.tick(which as u64 * 50),
            _ => {}
        }
    }

    fn under_way(&self) -> u64 {
        self.stored.iter().map(|stored| stored.under_way.len() as u64).sum()
    }

    /// From here on nothing fails, and what is under way ends. Whether all that waits is launched.
    fn all_is_launched_in_the_end(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..2_000 {
            if self.stored.iter().all(|stored| stored.waiting.is_empty()) {
                return Ok(());
            }
            self.tick(100);
            for shard in 0..SHARDS {
                self.meet(shard, usize::MAX, usize::MAX);
                self.end(shard);
                self.claim(shard, usize::MAX);
                self.tell(shard, usize::MAX);
            }
            while !self.asks.is_empty() || !self.answers.is_empty() {
                self.hear(0, false);
                self.take(0, false);
            }
            prop_assert!(self.under_way() <= self.bound);
        }
        let waiting: Vec<usize> = self.stored.iter().map(|stored| stored.waiting.len()).collect();
        prop_assert!(false, "{waiting:?} wait for ever");
        Ok(())
    }
}

fn steps() -> impl Strategy<Value = Vec<(u8, Shard, usize)>> {
    prop::collection::vec((0u8..48, 0..SHARDS, 0usize..12), 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whoever fails and whatever is lost, no more is under way than may be, and all gets its turn.
    #[test]
    fn a_bound_is_never_exceeded_and_everything_is_launched_in_the_end(
        bound in 1u64..6,
        steps in steps(),
    ) {
        let mut world = World::new(Limit { concurrency: Some(bound), ..Limit::default() });
        for (what, shard, which) in steps {
            world.step(what, shard, which);
            prop_assert!(world.under_way() <= bound, "{} are under way", world.under_way());
        }
        world.all_is_launched_in_the_end()?;
    }

    /// No more is launched than time allows for. A keeper that is replaced may have given out a
    /// second's worth that is used later.
    #[test]
    fn a_rate_is_never_exceeded_and_everything_is_launched_in_the_end(
        rate in 1u64..20,
        bound in prop::option::of(1u64..6),
        steps in steps(),
    ) {
        let limit = Limit { concurrency: bound, rate_milli: rate * 1_000, paused: false };
        let mut world = World::new(limit);
        for (what, shard, which) in steps {
            world.step(what, shard, which);
            let allowed = world.now_ms() * rate / 1_000 + rate * world.keepers.len() as u64;
            prop_assert!(world.launched <= allowed, "{} of {allowed}", world.launched);
            prop_assert!(world.under_way() <= world.bound);
        }
        world.all_is_launched_in_the_end()?;
    }
}

/// What the keeper leaves a shard of which it hears this.
fn heard(keeper: &mut Keeper, shard: Shard, seq: u64, want: Want) -> Vec<(Shard, Left)> {
    let wants = BTreeMap::from([("a".to_owned(), want)]);
    let answers = keeper.hear(Ask { shard, term: 1, queue: QUEUE.into(), seq, wants }, 0);
    let left = |answer: Answer| Some((answer.shard, *answer.left.get("a")?));
    answers.into_iter().filter_map(left).collect()
}

#[test]
fn nobody_gets_anything_before_all_have_been_heard() {
    let limit = Limit { concurrency: Some(5), ..Limit::default() };
    let mut keeper = Keeper::new(2, Limits::from([(QUEUE.to_owned(), limit)]), 0);
    let one = Want { waiting: 9, ..Want::default() };
    assert_eq!(heard(&mut keeper, 0, 1, one), [(0, Left::default())]);
    let again = keeper.tick(1_000);
    assert_eq!(again.iter().map(|a| (a.shard, a.seq)).collect::<Vec<_>>(), [(1, None)]);
    assert!(!keeper.knows(QUEUE));
    let left = |ceiling| Left { ceiling, launches: 0 };
    let busy = Want { under_way: 3, ..Want::default() };
    assert_eq!(heard(&mut keeper, 1, 1, busy), [(0, left(2)), (1, left(0))]);
    assert!(keeper.knows(QUEUE));
    // One of its runs has ended. What it said before is not heard again.
    let less = Want { under_way: 2, ..Want::default() };
    assert_eq!(heard(&mut keeper, 1, 2, less), [(0, left(3)), (1, left(0))]);
    assert!(heard(&mut keeper, 1, 1, busy).is_empty());
    assert_eq!(keeper.tick(500), []);
    let lost = keeper.tick(2_000);
    assert_eq!(lost.iter().map(|answer| answer.shard).collect::<Vec<_>>(), [0], "said again");
}

#[test]
fn what_is_not_used_is_left_to_others_for_a_while() {
    let limit = Limit { concurrency: Some(1), ..Limit::default() };
    let mut world = World::new(limit);
    world.arrive(0, 0, 0);
    world.now = Time(1);
    world.arrive(1, 0, 0);
    let mut launched = [false; 2];
    for _ in 0..40 {
        world.tick(50);
        for shard in 0..SHARDS {
            world.meet(shard, usize::MAX, usize::MAX);
            if shard > 0 {
                world.claim(shard, usize::MAX); // Nobody takes what waits in the first.
            }
            world.tell(shard, usize::MAX);
        }
        while !world.asks.is_empty() || !world.answers.is_empty() {
            world.hear(0, false);
            world.take(0, false);
        }
        launched[1] |= !world.stored[1].under_way.is_empty();
    }
    assert!(launched[1], "it does not wait for ever for one that nobody takes");
}

#[test]
fn what_was_taken_back_before_it_was_used_goes_to_others() {
    for lost in [false, true] {
        let mut world = World::new(Limit { concurrency: Some(1), ..Limit::default() });
        world.arrive(0, 0, 0);
        world.tick(100);
        for shard in [2, 3, 0, 1] {
            world.meet(shard, usize::MAX, usize::MAX);
            world.tell(shard, usize::MAX);
        }
        (0..4).for_each(|_| world.hear(0, false));
        let given = world.answers.iter().position(|answer| {
            answer.shard == 0 && answer.left.values().any(|left| left.ceiling == 1)
        });
        let given = world.answers.remove(given.unwrap());
        (0..world.answers.len()).for_each(|_| world.take(0, false));
        // Before it has that, or says so, one comes that goes first.
        world.arrive(2, 1, -1);
        world.tell(2, usize::MAX);
        world.hear(0, false);
        if !lost {
            world.answers.insert(0, given);
        }
        world.all_is_launched_in_the_end().unwrap();
    }
}
