//! Histories that can have happened, and some that cannot.

use std::time::{Duration, Instant};

use super::*;
use crate::random::Random;

const fn seen(owner: u32, label: u32, revision: u32) -> Told {
    Told::Like(Seen { owner, label, revision })
}

/// What was done, and when it began and ended; it did not if that is 0.
type Line = (Told, Change, u64, u64);

fn look(told: Told, begun: u64, ended: u64) -> Line {
    (told, Change::None, begun, ended)
}

/// A change that was acknowledged.
fn done(change: Change, begun: u64, ended: u64) -> Line {
    (Told::Nothing, change, begun, ended)
}

/// One that was not answered.
fn unknown(change: Change, begun: u64) -> Line {
    (Told::Nothing, change, begun, 0)
}

fn history(lines: &[Line]) -> Vec<Call<Step>> {
    let call = |(told, change, begun, ended): &Line| Call {
        operation: Step { told: *told, change: *change },
        begun: Duration::from_millis(*begun),
        ended: (*ended > 0).then(|| Duration::from_millis(*ended)),
        behind: None,
        words: format!("{change:?}, {told:?}"),
    };
    lines.iter().map(call).collect()
}

#[track_caller]
fn possible(lines: &[Line]) {
    check(&history(lines)).unwrap();
}

/// The words of those that are shown if there is no order.
#[track_caller]
fn impossible(lines: &[Line]) -> Vec<String> {
    let story = check(&history(lines)).unwrap_err();
    let shown = story.lines().skip(1).map(|line| line.split(" s  ").nth(1).unwrap().to_owned());
    shown.collect()
}

#[test]
fn r69_one_after_the_other() {
    possible(&[]);
    possible(&[
        look(Told::Absent, 1, 2),
        (Told::Absent, Change::Put(1), 3, 4),
        look(seen(1, 1, 1), 5, 6),
        (Told::There, Change::Label(2), 7, 8),
        look(seen(1, 2, 2), 9, 10),
        (Told::There, Change::Delete, 11, 12),
        look(Told::Absent, 13, 14),
        done(Change::Put(3), 15, 16),
        look(seen(3, 3, 1), 17, 18),
    ]);
}

#[test]
fn r69_what_happens_at_the_same_time_may_happen_in_any_order() {
    possible(&[
        done(Change::Put(1), 1, 10),
        done(Change::Put(2), 1, 10),
        look(seen(2, 2, 1), 2, 9),
        look(seen(1, 1, 2), 2, 9),
        look(Told::Absent, 3, 9),
    ]);
    // Both saw it, but one of them saw what came later, and the other one began after that.
    let lines = [
        done(Change::Put(1), 1, 10),
        done(Change::Put(2), 1, 10),
        look(seen(2, 2, 1), 2, 3),
        look(seen(1, 1, 1), 4, 5),
    ];
    assert!(impossible(&lines).contains(&lines_words(&lines[3])));
}

fn lines_words(line: &Line) -> String {
    history(&[*line]).remove(0).words
}

#[test]
fn r69_a_stale_read_is_found_and_shown_with_what_it_missed() {
    let lines = [
        done(Change::Put(1), 1, 2),
        look(seen(1, 1, 1), 3, 4),
        done(Change::Put(2), 5, 6),
        look(seen(2, 2, 2), 7, 8),
        look(seen(1, 1, 1), 7, 9),
        done(Change::Put(3), 10, 11),
        look(seen(3, 3, 3), 12, 13),
    ];
    let words = [&lines[0], &lines[2], &lines[4]].map(lines_words);
    assert_eq!(impossible(&lines), words, "not what others saw, nor what came later");
}

#[test]
fn r69_a_write_that_is_lost_is_found() {
    let put = done(Change::Put(1), 1, 2);
    impossible(&[put, look(Told::Absent, 3, 4)]);
    impossible(&[put, done(Change::Label(2), 3, 4), look(seen(1, 1, 1), 5, 6)]);
    impossible(&[put, (Told::There, Change::Delete, 3, 4), look(seen(1, 1, 1), 5, 6)]);
    // A change of a part undoes what another one did to the other part.
    impossible(&[
        put,
        done(Change::Owner(2), 3, 9),
        done(Change::Label(3), 3, 9),
        look(seen(1, 3, 3), 10, 11),
    ]);
    possible(&[
        put,
        done(Change::Owner(2), 3, 9),
        done(Change::Label(3), 3, 9),
        look(seen(2, 3, 3), 10, 11),
    ]);
}

#[test]
fn r69_a_write_that_is_made_twice_is_found() {
    let twice = [done(Change::Put(1), 1, 2), done(Change::Put(2), 3, 9)];
    impossible(&[twice[0], twice[1], look(seen(2, 2, 3), 10, 11)]);
    // There is one job, and two were told that they have created it.
    let created = (Told::Absent, Change::Put(1), 1, 9);
    impossible(&[created, (Told::Absent, Change::Put(2), 1, 9)]);
    possible(&[created, (Told::There, Change::Put(2), 1, 9)]);
}

#[test]
fn r69_values_do_not_go_back_and_forth() {
    let writes = [done(Change::Put(1), 1, 2), done(Change::Put(2), 3, 20)];
    let (old, new) = (seen(1, 1, 1), seen(2, 2, 2));
    possible(&[writes[0], writes[1], look(old, 4, 5), look(new, 6, 7), look(new, 8, 9)]);
    impossible(&[writes[0], writes[1], look(new, 4, 5), look(old, 6, 7), look(new, 8, 9)]);
    // Nor if nobody knows whether the second was ever made.
    let unsure = unknown(Change::Put(2), 3);
    impossible(&[writes[0], unsure, look(new, 4, 5), look(old, 6, 7)]);
}

#[test]
fn r69_what_was_not_answered_may_happen_late_or_never() {
    let (put, late) = (done(Change::Put(1), 1, 2), unknown(Change::Put(2), 3));
    possible(&[put, late, look(seen(1, 1, 1), 4, 5)]);
    possible(&[put, late, look(seen(1, 1, 1), 4, 5), look(seen(2, 2, 2), 60, 61)]);
    // But not before it was asked for, nor more than once.
    impossible(&[put, look(seen(2, 2, 2), 2, 2), late]);
    impossible(&[put, late, look(seen(2, 2, 3), 4, 5)]);
    // One that nobody saw may explain that something else is missing, and each only one thing.
    let gone = unknown(Change::Delete, 3);
    possible(&[put, gone, look(Told::Absent, 8, 9)]);
    impossible(&[
        put,
        gone,
        look(Told::Absent, 8, 9),
        done(Change::Put(4), 10, 11),
        look(Told::Absent, 12, 13),
    ]);
    possible(&[
        put,
        unknown(Change::Put(8), 3),
        done(Change::Put(4), 10, 11),
        look(seen(4, 4, 3), 12, 13),
    ]);
    impossible(&[
        put,
        unknown(Change::Put(8), 14),
        done(Change::Put(4), 10, 11),
        look(seen(4, 4, 3), 12, 13),
    ]);
}

#[test]
fn r69_an_answer_to_a_change_does_not_show_what_was_before() {
    let mut calls = history(&[
        done(Change::Put(1), 1, 2),
        done(Change::Put(2), 3, 9),
        look(seen(1, 1, 1), 3, 9),
    ]);
    check(&calls).unwrap();
    calls[2].behind = Some(1);
    check(&calls).unwrap_err();
}

/// A history of a register that really is one: each call takes effect at a moment between its beginning and
/// its end. Some are not answered, and of these some never happen.
fn real(random: &mut Random, clients: u64, calls: usize) -> Vec<Call<Step>> {
    let mut free_at = vec![0; clients as usize];
    let mut planned = Vec::new();
    for number in 1..=calls {
        let client = random.below(clients) as usize;
        let begun = free_at[client] + random.below(20);
        let (moment, ended) = (begun + random.below(20), begun + 20 + random.below(20));
        free_at[client] = ended + 1;
        let number = u32::try_from(number).unwrap();
        let change = match random.below(10) {
            0..=4 => Change::None,
            5 | 6 => Change::Put(number),
            7 => Change::Owner(number),
            8 => Change::Label(number),
            _ => Change::Delete,
        };
        let unanswered = change != Change::None && random.below(12) == 0;
        // Some happen only much later, and some never.
        let moment = match random.below(3) {
            0 if unanswered => u64::MAX,
            1 if unanswered => moment + 200,
            _ => moment,
        };
        planned.push((moment, change, begun, if unanswered { 0 } else { ended }));
    }
    planned.sort_by_key(|(moment, ..)| *moment);
    let mut state = None;
    let mut lines = Vec::new();
    for (moment, change, begun, ended) in planned {
        let told = match (change, state) {
            (Change::None, None) => Told::Absent,
            (Change::None, Some(seen)) => Told::Like(seen),
            _ => Told::Nothing,
        };
        if moment < u64::MAX {
            state = Step { told, change }.after(&state).unwrap();
        }
        lines.push((told, change, begun + 1, if ended == 0 { 0 } else { ended + 1 }));
    }
    history(&lines)
}

#[test]
fn r69_many_calls_of_many_clients_are_put_in_order_soon() {
    let (mut random, begun) = (Random::new(69), Instant::now());
    for _ in 0..10 {
        let calls = real(&mut random, 6, 600);
        let positions = check(&calls).unwrap();
        assert!(positions < 1_000_000, "{positions}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn r69_one_stale_read_among_many_calls_is_found_soon() {
    let mut random = Random::new(96);
    for _ in 0..6 {
        let mut calls = real(&mut random, 6, 250);
        // Somebody late is told what somebody else was told long before.
        let looks = |call: &&mut Call<Step>| matches!(call.operation.told, Told::Like(_));
        let mut looks: Vec<&mut Call<Step>> = calls.iter_mut().filter(looks).collect();
        let old = looks[looks.len() / 4].operation.told;
        let stale = looks.len() * 3 / 4;
        looks[stale].operation.told = old;
        looks[stale].words = "the stale one".to_owned();
        let story = check(&calls).unwrap_err();
        let marked = |line: &str| line.starts_with('>') && line.ends_with("the stale one");
        assert!(story.lines().any(marked), "{story}");
    }
}

/// Whether there is an order, by trying all of them.
fn in_any_order(calls: &[Call<Step>], left: &[usize], state: Option<Seen>) -> bool {
    if left.iter().all(|at| calls[*at].ended.is_none()) {
        return true;
    }
    left.iter().any(|at| {
        let first = |other: &usize| calls[*other].ended.is_none_or(|end| end >= calls[*at].begun);
        let rest: Vec<usize> = left.iter().copied().filter(|other| other != at).collect();
        let after = calls[*at].operation.after(&state);
        rest.iter().all(first) && after.is_some_and(|after| in_any_order(calls, &rest, after))
    })
}

#[test]
fn r69_the_search_says_what_trying_all_orders_says() {
    let (mut random, mut wrong) = (Random::new(7), 0);
    for round in 0..3_000 {
        let mut calls = real(&mut random, 3, 7);
        // Half of them are spoiled: somebody is told what somebody else was told, or was not.
        let looks: Vec<usize> =
            (0..calls.len()).filter(|at| calls[*at].operation.change == Change::None).collect();
        if round % 2 == 0 && looks.len() > 1 {
            let pick = |random: &mut Random| looks[random.below(looks.len() as u64) as usize];
            let (one, other) = (pick(&mut random), pick(&mut random));
            calls[one].operation.told = calls[other].operation.told;
        }
        let all: Vec<usize> = (0..calls.len()).collect();
        let possible = in_any_order(&calls, &all, None);
        assert_eq!(check(&calls).is_ok(), possible, "{calls:#?}");
        wrong += usize::from(!possible);
    }
    assert!(wrong > 200, "{wrong}");
}
