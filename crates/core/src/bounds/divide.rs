//! Who is left how much of a queue's bound.
//!
//! What is free goes one by one: to the namespace that has least, there to the highest priority, and
//! there round by round to the shard whose run has waited longest. What is under way stays; but who
//! would not get what it has again, once that has ended, is left less, so that it goes to whoever
//! comes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::Want;
use crate::time::Time;

/// One who wants something of a queue: a namespace of it in a shard.
pub(super) struct Claimant<'a> {
    pub namespace: &'a str,
    pub want: &'a Want,
}

/// Where somebody stands in the line.
type Place = (bool, u64, i32, Time);

/// How many are under way in each namespace, together with what they have been given.
type Loads<'a> = BTreeMap<&'a str, u64>;

/// What each claimant is to have under way at most, of a bound.
pub(super) fn seats(bound: u64, claimants: &[Claimant<'_>]) -> Vec<u64> {
    let under_way: u64 = claimants.iter().map(|claimant| claimant.want.under_way).sum();
    let needs: Vec<u64> = claimants.iter().map(|claimant| claimant.want.waiting).collect();
    let mut loads = Loads::new();
    for Claimant { namespace, want } in claimants {
        *loads.entry(*namespace).or_default() += want.under_way;
    }
    let free = bound.saturating_sub(under_way);
    let given = hand_out(free, claimants, &needs, &mut loads);
    let unserved: Vec<u64> = needs.iter().zip(&given).map(|(need, given)| need - given).collect();
    let line = Line::new(claimants, &unserved, &loads);
    let seat = |(claimant, given): (&Claimant<'_>, &u64)| {
        let want = claimant.want;
        let stays = want.under_way.saturating_sub(line.before(claimant, &loads)) + given;
        // Who has nothing that waits needs no more than it has.
        if want.waiting == 0 { stays.min(want.ceiling) } else { stays }
    };
    claimants.iter().zip(&given).map(seat).collect()
}

/// Hands an amount out to those who need some: how much each gets.
pub(super) fn hand_out<'a>(
    mut amount: u64,
    claimants: &[Claimant<'a>],
    needs: &[u64],
    loads: &mut Loads<'a>,
) -> Vec<u64> {
    let mut given = vec![0; claimants.len()];
    let in_need = needs.iter().filter(|need| **need > 0).count() as u64;
    if amount == 0 || in_need == 0 {
        return given;
    }
    let place = |at: usize, given: u64, loads: &Loads<'_>| {
        let Claimant { namespace, want } = &claimants[at];
        let load = loads.get(namespace).copied().unwrap_or(0);
        Reverse((want.stuck, load, want.first.0, given, want.first.1, at))
    };
    let waiting = (0..claimants.len()).filter(|at| needs[*at] > 0);
    let mut heap: BinaryHeap<_> = waiting.map(|at| place(at, 0, loads)).collect();
    while amount > 0
        && let Some(Reverse((_, load, .., at))) = heap.pop()
    {
        let now = loads.entry(claimants[at].namespace).or_default();
        if *now != load {
            // Others of its namespace were given something since.
            heap.push(place(at, given[at], loads));
            continue;
        }
        // One by one while there is little, so that all get some; in larger parts while there is
        // much.
        let part = (amount / (2 * in_need)).clamp(1, needs[at] - given[at]);
        *now += part;
        given[at] += part;
        amount -= part;
        if given[at] < needs[at] {
            heap.push(place(at, given[at], loads));
        }
    }
    given
}

/// Those who got nothing for some that wait, in order.
struct Line<'a> {
    all: Vec<(Place, u64)>,
    by_namespace: BTreeMap<&'a str, Vec<(Place, u64)>>,
}

impl<'a> Line<'a> {
    fn new(claimants: &[Claimant<'a>], unserved: &[u64], loads: &Loads<'_>) -> Line<'a> {
        let mut line = Line { all: Vec::new(), by_namespace: BTreeMap::new() };
        for (Claimant { namespace, want }, count) in claimants.iter().zip(unserved) {
            if *count > 0 {
                let load = loads.get(namespace).copied().unwrap_or(0);
                line.all.push(((want.stuck, load, want.first.0, want.first.1), *count));
                let own = line.by_namespace.entry(namespace).or_default();
                own.push(((want.stuck, 0, want.first.0, want.first.1), *count));
            }
        }
        for places in line.by_namespace.values_mut().chain([&mut line.all]) {
            places.sort_unstable();
            let mut sum = 0;
            for (_, count) in places {
                sum += *count;
                *count = sum;
            }
        }
        line
    }

    /// How many would get what a claimant has under way, once that has ended, before itself.
    fn before(&self, claimant: &Claimant<'_>, loads: &Loads<'_>) -> u64 {
        let want = claimant.want;
        let load = loads.get(claimant.namespace).copied().unwrap_or(0);
        let nothing_waits = want.waiting == 0;
        let (stuck, rank, since) = match nothing_waits {
            true => (true, i32::MAX, Time(i64::MAX)),
            false => (want.stuck, want.first.0, want.first.1),
        };
        let load = if nothing_waits { u64::MAX } else { load.saturating_sub(1) };
        let own = self.by_namespace.get(claimant.namespace);
        // Those of the own namespace have its load, and are not among these.
        let others = up_to(&self.all, (stuck, load, rank, since));
        let own = own.map_or(0, |own| up_to(own, (stuck, 0, rank, since)));
        if nothing_waits { others } else { others + own }
    }
}

/// How many stand before a place, of places with running sums.
fn up_to(places: &[(Place, u64)], place: Place) -> u64 {
    let before = places.partition_point(|(other, _)| *other < place);
    before.checked_sub(1).map_or(0, |last| places[last].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(under_way: u64, waiting: u64, rank: i32, since: i64) -> Want {
        let first = (rank, Time(since));
        Want { under_way, ceiling: under_way, waiting, first, ..Want::default() }
    }

    #[track_caller]
    fn check(bound: u64, wants: &[(&str, Want)], expected: &[u64]) {
        let of = |(namespace, want)| Claimant { namespace, want };
        let claimants: Vec<_> = wants.iter().map(|(n, want)| of((*n, want))).collect();
        assert_eq!(seats(bound, &claimants), expected);
    }

    #[test]
    fn what_is_free_goes_to_the_highest_priority_and_then_to_the_oldest() {
        check(1, &[("a", want(0, 5, 0, 2)), ("a", want(0, 5, 0, 1))], &[0, 1]);
        check(1, &[("a", want(0, 5, -1, 2)), ("a", want(0, 5, 0, 1))], &[1, 0]);
        check(3, &[("a", want(0, 5, 0, 2)), ("a", want(0, 5, 0, 1))], &[1, 2]);
        check(100, &[("a", want(0, 5, 0, 2)), ("a", want(1, 5, 0, 1))], &[5, 6]);
    }

    #[test]
    fn what_is_under_way_is_left_to_whoever_comes_first() {
        let old = want(0, 1, 0, 1);
        check(1, &[("a", want(1, 5, 0, 2)), ("a", old)], &[0, 0]);
        check(1, &[("a", want(1, 5, 0, 0)), ("a", old)], &[1, 0]);
        check(1, &[("a", want(1, 0, 0, 0)), ("a", old)], &[0, 0]);
        check(5, &[("a", want(5, 5, 0, 2)), ("a", old)], &[4, 0]);
    }

    #[test]
    fn r57_a_namespace_that_has_little_comes_before_one_that_has_much() {
        check(4, &[("loud", want(4, 9, 0, 1)), ("quiet", want(0, 2, 0, 2))], &[2, 0]);
        check(4, &[("loud", want(3, 9, 0, 1)), ("quiet", want(0, 2, 0, 2))], &[2, 1]);
        check(4, &[("loud", want(2, 9, 0, 1)), ("quiet", want(2, 2, 0, 2))], &[2, 2]);
    }

    #[test]
    fn one_that_cannot_use_it_comes_last() {
        let stuck = Want { stuck: true, ..want(0, 5, 0, 1) };
        check(1, &[("a", stuck), ("a", want(0, 1, 0, 2))], &[0, 1]);
        check(2, &[("a", stuck), ("a", want(0, 1, 0, 2))], &[1, 1]);
    }
}
