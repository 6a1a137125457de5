//! Which of the runs that wait in a shard are claimed, and in which order.
//!
//! Lanes are served in the order of their first runs: by priority, then by time. A lane is asked
//! for as much as it has, with one exception: lanes that differ only in their demand are one line to
//! whoever stands in it, so of each only those go that are not behind the first of another.
//!
//! Not decided here: who gets how much, which is for [`Slots`] to say, and how much a queue may have,
//! which is for [`crate::bounds`].

use std::collections::BTreeSet;

use super::Slots;
use crate::id::{JobId, RunId};
use crate::time::Time;
use crate::turn::{Lane, Turn, Turnstile};
use crate::waist::{Shard, StoreError};

/// Runs claimed in one turn. A flood of requests does not keep runs from being launched.
const TURN_CLAIMS_MAX: usize = 4_096;

/// Claims waiting runs for workers with free slots. What is claimed is committed with the turn.
/// Whether the turn was full before all was claimed that could be.
pub(super) fn claim(
    turn: &mut Turn<'_>,
    shard: Shard,
    slots: &dyn Slots,
) -> Result<bool, StoreError> {
    let mut budget = TURN_CLAIMS_MAX;
    let mut lines = Lines::new(turn.heads().into_iter().map(|(lane, first, _)| (lane, first)));
    while budget > 0
        && let Some(Next { line, lane, first, until }) = lines.next()
    {
        let last = until.unwrap_or(LAST);
        let want = turn.not_after(&lane, last, budget.min(turn.room(&lane)));
        if want == 0 {
            continue; // Its queue has as much as it may.
        }
        let claimed = claim_some(turn, shard, slots, (&lane, first), want)?;
        budget -= claimed;
        // One that did not get all it wanted gets nothing more.
        if claimed >= want
            && let Some(first) = turn.first_of(&lane)
        {
            lines.put(line, lane, first);
        }
    }
    slots.declare(shard, turn.open_heads());
    Ok(budget == 0 || turn.is_full_of_claims())
}

/// Claims the first runs of a lane, as many as workers have slots for. How many.
fn claim_some(
    turn: &mut Turn<'_>,
    shard: Shard,
    slots: &dyn Slots,
    (lane, first): (&Lane, Turnstile),
    want: usize,
) -> Result<usize, StoreError> {
    let mut left = want;
    let mut left_to_others = 0;
    while left > 0
        && let Some(reserved) = slots.reserve(shard, lane, first, left)
    {
        // Each worker may pass runs on once; then whoever is there takes them.
        let others = reserved.others > left_to_others;
        let claims = turn.claim(lane, &reserved.worker, reserved.slots, others)?;
        left -= claims.claimed;
        if claims.claimed < reserved.slots {
            slots.put_back(&reserved.worker, lane, reserved.slots - claims.claimed);
            if claims.left_to_others == 0 {
                break;
            }
            left_to_others += 1;
        }
    }
    Ok(want - left)
}

/// Comes after every run.
const LAST: Turnstile = Turnstile {
    rank: i32::MAX,
    scheduled: Time(i64::MAX),
    run: RunId { job: JobId(u64::MAX), n: u32::MAX },
};

/// A lane whose turn it is.
#[derive(Debug, PartialEq, Eq)]
struct Next {
    /// The line that it stands in.
    line: usize,
    lane: Lane,
    /// Its first run.
    first: Turnstile,
    /// The first run of the next lane in the line.
    until: Option<Turnstile>,
}

/// The lanes in which runs wait, by their first runs. Those that are alike form a line.
#[derive(Default)]
struct Lines {
    lines: Vec<BTreeSet<(Turnstile, Lane)>>,
    /// Lines that are not empty, by their first runs.
    order: BTreeSet<(Turnstile, usize)>,
}

impl Lines {
    /// Lanes in their order, in which those that are alike are neighbours.
    fn new(lanes: impl Iterator<Item = (Lane, Turnstile)>) -> Lines {
        let mut lines: Vec<BTreeSet<(Turnstile, Lane)>> = Vec::new();
        for (lane, first) in lanes {
            let alike =
                lines.last_mut().filter(|line| line.iter().any(|(_, of)| of.is_like(&lane)));
            match alike {
                Some(line) => {
                    line.insert((first, lane));
                }
                None => lines.push(BTreeSet::from([(first, lane)])),
            }
        }
        let firsts = lines.iter().enumerate();
        let order = firsts.filter_map(|(at, line)| Some((line.first()?.0, at))).collect();
        Lines { lines, order }
    }

    /// Takes the lane whose first run comes first.
    fn next(&mut self) -> Option<Next> {
        let (_, line) = self.order.pop_first()?;
        let (first, lane) = self.lines[line].pop_first()?;
        let until = self.lines[line].first().map(|(first, _)| *first);
        if let Some(first) = until {
            self.order.insert((first, line));
        }
        Some(Next { line, lane, first, until })
    }

    /// Puts a lane back into its line.
    fn put(&mut self, line: usize, lane: Lane, first: Turnstile) {
        if let Some((before, _)) = self.lines[line].first() {
            self.order.remove(&(*before, line));
        }
        self.lines[line].insert((first, lane));
        if let Some((now, _)) = self.lines[line].first() {
            self.order.insert((*now, line));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::turn::{Demand, Work};

    use super::*;

    fn lane(queue: &str, cpu_milli: u64) -> Lane {
        Lane {
            queue: queue.to_owned(),
            namespace: "default".to_owned(),
            work: Work::Command,
            requires: Default::default(),
            pinned: String::new(),
            demand: Demand { cpu_milli, memory_bytes: 0 },
        }
    }

    fn place(priority: i32, scheduled: i64) -> Turnstile {
        Turnstile {
            rank: -priority,
            scheduled: Time(scheduled),
            run: RunId { job: JobId(1), n: 1 },
        }
    }

    #[test]
    fn lanes_that_differ_only_in_their_demand_take_turns_by_priority() {
        let (a, b, c) = (lane("q", 1), lane("q", 2), lane("r", 1));
        let heads = [(a.clone(), place(10, 1)), (b.clone(), place(5, 1)), (c.clone(), place(7, 1))];
        let mut lines = Lines::new(heads.into_iter());
        let mut next = || {
            let next = lines.next()?;
            Some((next.line, next.lane, next.until))
        };
        assert_eq!(next(), Some((0, a.clone(), Some(place(5, 1)))));
        assert_eq!(next(), Some((1, c, None)), "another queue is another line");
        lines.put(0, a.clone(), place(0, 1));
        let mut next = || lines.next().map(|next| (next.lane, next.until));
        assert_eq!(next(), Some((b, Some(place(0, 1)))));
        assert_eq!(next(), Some((a, None)));
        assert_eq!(next(), None);
    }
}
