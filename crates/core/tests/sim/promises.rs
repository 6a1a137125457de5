//! What a shard promises, checked against what is known from outside.

use std::collections::BTreeMap;

use bellwether_core::id::{JobId, RunId};
use bellwether_core::key;
use bellwether_core::record::{Definition, Delivery, Retry, Run, TickFate};
use bellwether_core::time::{Time, parse_duration_ms};
use bellwether_core::waist::Family;

use crate::life::Life;
use crate::pick::SHORT;
use crate::world::Start;
use crate::world::consistency::{Full, Picture, compiled, picture};

/// When something is really started: nothing that must not run beside it is running.
pub fn check_start(life: &Life, start: &Start) {
    assert!(!life.alive.contains_key(&start.run), "{} is started while it runs", start.run);
    let ordering_key = &start.definition.ordering_key;
    for other in life.alive.keys() {
        let begun = life.begun.iter().rev().find(|begun| begun.run == *other);
        let other_key = begun.map_or("", |begun| begun.definition.ordering_key.as_str());
        assert!(
            ordering_key.is_empty() || ordering_key != other_key,
            "R72: {} and {other} of one ordering key run at the same time",
            start.run
        );
        let allows = start.definition.overlap.is_some_and(|o| o.policy == 3);
        let is_sibling = |begun: &Start| {
            begun.scheduled == start.scheduled
                && !start.pinned.is_empty()
                && begun.pinned != start.pinned
        };
        let elsewhere = begun.is_some_and(is_sibling);
        let edited = life.jobs.get(&start.run.job).is_none_or(|known| known.edited);
        assert!(
            allows || edited || elsewhere || other.job != start.run.job,
            "R34: {} is started while {other} runs",
            start.run
        );
    }
}

/// At any time between two turns.
pub fn check(life: &Life) {
    check_starts(life);
    let picture = picture(&life.world);
    check_jobs(life, &picture);
    for (id, job) in &picture.full {
        if !(job.state.deleted || life.went_back && job.row.revision > 1) {
            check_ledger(life, *id, job);
        }
    }
}

/// R72: when a run of an ordering key gets its turn, no earlier one has been waiting for it.
pub fn check_turns(life: &mut Life) {
    let mut current = BTreeMap::new();
    let mut waiting: Vec<(Vec<u8>, RunId, Run)> = Vec::new();
    for (key, value) in life.world.store.rows(Family::Order) {
        let name = |len: usize| [&key[..2], &key[3..len]].concat();
        match (key[2], key::read_order(&key), key::read_order(&value)) {
            (1, Ok(id), _) => {
                waiting.extend(life.world.find_run(id).map(|run| (name(key.len() - 20), id, run)));
            }
            (3, _, Ok(id)) => {
                current.insert(name(key.len()), id);
            }
            _ => {}
        }
    }
    for (key, id) in &current {
        let Some(run) = life.world.find_run(*id) else { continue };
        if life.current.get(key) == Some(id) {
            continue;
        }
        for (_, other, waits) in waiting.iter().filter(|(of, _, _)| of == key) {
            let since = waits.events.last().map_or(0, |event| event.at_ms);
            let earlier = (waits.scheduled_ms, *other) < (run.scheduled_ms, *id);
            assert!(!earlier || since >= life.now().0, "R72: {id} goes before {other}");
        }
    }
    life.current = current;
}

/// R64, R65, R59: nothing is started more often than its owner allowed.
fn check_starts(life: &Life) {
    let mut starts: BTreeMap<RunId, u32> = BTreeMap::new();
    for start in &life.begun {
        *starts.entry(start.run).or_default() += 1;
    }
    for (run, count) in starts {
        let Some(known) = life.jobs.get(&run.job).filter(|known| !known.edited) else { continue };
        let definition = &known.job.0;
        let asked = life.asked.get(&run).copied().unwrap_or(0);
        let failed = life.failed.get(&run).copied().unwrap_or(0);
        let retries = definition.retry.map_or(0, |Retry { max, .. }| max);
        if at_most_once(definition) {
            let allowed = 1 + asked + failed.min(retries * (1 + asked));
            assert!(
                count <= allowed,
                "R64: {run} was started {count} times; {asked} retries were asked for, \
                 {failed} failures reported, {retries} retries allowed"
            );
        } else {
            let most = (1 + asked) * (1 + retries + 10);
            assert!(count <= most, "R59: {run} was started {count} times");
        }
    }
}

fn at_most_once(definition: &Definition) -> bool {
    match definition.delivery() {
        Delivery::AtMostOnce => true,
        Delivery::AtLeastOnce => false,
        Delivery::Default => definition.retry.is_none_or(|retry| retry.max == 0),
    }
}

/// R70: whatever was acknowledged is there.
fn check_jobs(life: &Life, picture: &Picture) {
    let short_ms = parse_duration_ms(SHORT).unwrap_or(0);
    for (job, known) in &life.jobs {
        let age_ms = known.job.0.retention.map_or(0, |retention| retention.age_ms);
        if known.edited || age_ms == short_ms {
            continue; // Its history may have run out, and a one-off goes with its history.
        }
        let full = picture.full.get(job).is_some_and(|job| !job.state.deleted);
        assert!(full || picture.compact.contains_key(job), "R70: {job} was acknowledged");
    }
}

/// R71: every tick of a recurring job is in the ledger, once, and nothing else is.
fn check_ledger(life: &Life, id: JobId, job: &Full) {
    let schedule = compiled(id, job);
    if schedule.counts_from_finish() || schedule.is_once().is_some() {
        return;
    }
    let anchor = Time(job.row.anchor_ms);
    let mut expected = schedule.next_after(anchor);
    for (time, row) in life.world.ledger(id) {
        let of_trigger = row.fate() == TickFate::Triggered || row.reason == "trigger";
        if time <= anchor || of_trigger {
            continue;
        }
        assert_eq!(Some(time), expected, "R71: the next row of {id}'s ledger");
        let mut last = time;
        if row.count_is_minimum {
            last = Time(row.until_ms);
        } else {
            for _ in 1..row.count {
                last = schedule.next_after(last).expect("R71: no more rows than ticks");
            }
        }
        assert!(row.count <= 1 || last.0 == row.until_ms, "R71: a stretch of {id} ends at a tick");
        if row.fate() == TickFate::Merged {
            assert!(row.into_ms >= last.0, "merged into a later tick");
        }
        expected = schedule.next_after(last);
    }
    if !job.state.ended {
        assert_eq!(job.state.next_ms, expected.map(|t| t.0), "R5: the next tick of {id}");
    }
}
