//! Whether what several clients did to one thing, and were told of it, can have happened one after the other:
//! each at some moment between its beginning and its end, and each told what was true at that moment.
//!
//! This is the search of Wing and Gong with the memory that Lowe added: it goes from position to position, where a
//! position is the set of calls that have happened and the state they have led to, and never twice to the same.
//! What the thing is, and what can be done to it, is for an [`Operation`] to say. Nothing here reads a clock or
//! talks to anybody, and nothing is known of jobs.
//!
//! A call that was never answered may have happened at any time since it began, or never. Such calls last for ever,
//! and each could double the positions. Three things keep these few, and lose no order that could be found:
//! - whoever only looks, and may be told what is true right now, looks now;
//! - of two calls without an answer that would do the same, the one that began first goes first;
//! - nobody goes on from where somebody is left who was told what will never be true again.
//!
//! Written by hand, since none of the crates that do this fits: `stateright`'s tester has no memory, and so takes for
//! ever from a few dozen concurrent calls on; `todc-utils` wants an answer to every call; `porcupine-rs` brings a framework
//! for benchmarks along, and says only whether there is an order, not where none is left.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

/// What somebody did to a thing, with what they were told.
pub trait Operation: PartialEq {
    /// How the thing stands.
    type State: Clone + Eq + Hash;

    /// How it stands after that; `None` if what they were told cannot be told in this state.
    fn after(&self, state: &Self::State) -> Option<Self::State>;

    /// Whether it leaves everything as it is.
    fn only_looks(&self) -> bool;

    /// Whether what they were told was still possible before a change, and never will be after it.
    fn is_past(&self, before: &Self::State, after: &Self::State) -> bool;
}

/// A call, by one clock for all of them.
#[derive(Clone, Debug)]
pub struct Call<O> {
    pub operation: O,
    pub begun: Duration,
    /// When it was answered. Without an answer nobody knows when it happened, or whether.
    pub ended: Option<Duration>,
    /// The call that it came after, by its place in the history, although both have the same times.
    pub behind: Option<usize>,
    /// What it was, for people.
    pub words: String,
}

/// What came of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// There is an order. It was found after so many positions.
    InOrder { positions: usize },
    /// There is none: by the time that this call was answered, somebody was told something that was not true.
    Impossible { stuck: usize },
    /// There are too many positions.
    TooHard,
}

/// More positions than any history has that makes sense. They have to fit into memory.
const POSITIONS_MAX: usize = 1_000_000;

/// Looks for an order of calls to a thing that stood like this when they began.
pub fn search<O: Operation>(first: &O::State, calls: &[Call<O>]) -> Verdict {
    let by = |until| Search::new(calls, until, |_| true).run(first, &mut { POSITIONS_MAX });
    match by(Duration::MAX) {
        Ok(positions) => Verdict::InOrder { positions },
        Err(NotFound::TooMany) => Verdict::TooHard,
        Err(NotFound::NoOrder) => {
            // If there is none by the time of some answer, there is none later.
            let ended = |at: usize| calls[at].ended.map(|ended| (ended, at));
            let mut ends: Vec<(Duration, usize)> = (0..calls.len()).filter_map(ended).collect();
            ends.sort_unstable();
            let well = ends.partition_point(|(end, _)| by(*end) != Err(NotFound::NoOrder));
            ends.get(well)
                .map_or(Verdict::TooHard, |(_, stuck)| Verdict::Impossible { stuck: *stuck })
        }
    }
}

/// The calls that matter if there is no order by the time that one of them was answered: what began before that, without
/// what was told to others and makes no difference.
pub fn smallest<O: Operation>(first: &O::State, calls: &[Call<O>], stuck: usize) -> Vec<usize> {
    let until = calls[stuck].ended.unwrap_or(Duration::MAX);
    let mut kept: Vec<bool> = calls.iter().map(|call| call.begun <= until).collect();
    let mut budget = POSITIONS_MAX;
    for at in 0..calls.len() {
        if kept[at] && calls[at].operation.only_looks() {
            kept[at] = false;
            let without = Search::new(calls, until, |other| kept[other]).run(first, &mut budget);
            kept[at] = without != Err(NotFound::NoOrder);
        }
    }
    (0..calls.len()).filter(|at| kept[*at]).collect()
}

/// Why no order was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NotFound {
    NoOrder,
    TooMany,
}

/// Which calls have happened.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Done(Vec<u64>);

impl Done {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    fn with(&self, at: usize) -> Done {
        let mut more = self.clone();
        more.0[at / 64] |= 1 << (at % 64);
        more
    }
}

struct Search<'a, O> {
    calls: &'a [Call<O>],
    /// Those that were answered, by when they began.
    answered: Vec<usize>,
    /// The others, by when they began.
    unanswered: Vec<usize>,
    /// Whether a call was answered by the end of what is looked at, and when.
    ended: Vec<Option<Duration>>,
    /// What has to happen before a call.
    behind: Vec<Option<usize>>,
}

impl<'a, O: Operation> Search<'a, O> {
    /// A search among some calls, as things were at some time.
    fn new(calls: &'a [Call<O>], until: Duration, among: impl Fn(usize) -> bool) -> Self {
        let ended = |call: &Call<O>| call.ended.filter(|ended| *ended <= until);
        let ended: Vec<Option<Duration>> = calls.iter().map(ended).collect();
        let mut places: Vec<usize> = (0..calls.len()).filter(|at| among(*at)).collect();
        places.sort_by_key(|at| calls[*at].begun);
        let (answered, unanswered): (Vec<usize>, Vec<usize>) =
            places.into_iter().partition(|at| ended[*at].is_some());
        let mut behind: Vec<Option<usize>> = calls.iter().map(|call| call.behind).collect();
        for (n, at) in unanswered.iter().enumerate() {
            let same = |other: &&usize| calls[**other].operation == calls[*at].operation;
            behind[*at] = unanswered[..n].iter().rev().find(same).copied().or(behind[*at]);
        }
        Search { calls, answered, unanswered, ended, behind }
    }

    /// How many positions it went through until it found an order. It goes through no more than it may.
    fn run(&self, first: &O::State, budget: &mut usize) -> Result<usize, NotFound> {
        let start = (Done(vec![0; self.calls.len().div_ceil(64)]), first.clone());
        let mut known = HashSet::from([start.clone()]);
        let mut ahead = vec![start];
        while let Some((done, state)) = ahead.pop() {
            let Some(deadline) = self.deadline(&done) else { return Ok(known.len()) };
            let next = self.next(&done, deadline);
            let is_true = |at: &usize| self.calls[*at].operation.after(&state).is_some();
            let looks = |at: &usize| self.calls[*at].operation.only_looks() && is_true(at);
            if let Some(at) = next.iter().copied().find(looks) {
                ahead.push((done.with(at), state));
                continue;
            }
            // The last one is tried first: the one that began first, and those without an answer at last.
            for at in next {
                let Some(after) = self.calls[at].operation.after(&state) else { continue };
                if after == state && self.ended[at].is_none() {
                    continue;
                }
                let position = (done.with(at), after);
                if !self.leaves_behind(&position.0, &state, &position.1)
                    && known.insert(position.clone())
                {
                    *budget = budget.checked_sub(1).ok_or(NotFound::TooMany)?;
                    ahead.push(position);
                }
            }
        }
        Err(NotFound::NoOrder)
    }

    /// Whether somebody is left who was told what was possible before a change, and never will be after it.
    fn leaves_behind(&self, done: &Done, before: &O::State, after: &O::State) -> bool {
        let mut left = self.answered.iter().filter(|at| !done.has(**at));
        left.any(|at| self.calls[*at].operation.is_past(before, after))
    }

    /// When the first of the calls that are left was answered: all that happens next began before.
    fn deadline(&self, done: &Done) -> Option<Duration> {
        let mut first = None;
        for at in self.answered.iter().filter(|at| !done.has(**at)) {
            if first.is_some_and(|first| self.calls[*at].begun > first) {
                break;
            }
            first = first.into_iter().chain(self.ended[*at]).min();
        }
        first
    }

    /// What may happen next, the likeliest last.
    fn next(&self, done: &Done, deadline: Duration) -> Vec<usize> {
        let places = [&self.unanswered, &self.answered].into_iter().flat_map(|some| {
            let begun = some.iter().take_while(|at| self.calls[**at].begun <= deadline);
            begun.collect::<Vec<_>>().into_iter().rev()
        });
        let free = |at: &usize| self.behind[*at].is_none_or(|before| done.has(before));
        places.copied().filter(|at| !done.has(*at) && free(at)).collect()
    }
}
