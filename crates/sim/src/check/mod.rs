//! What must hold once everything has come to rest.

mod asked;
mod batches;

use std::collections::BTreeSet;
use std::sync::Arc;

use bellwether_core::id::{JobId, RunId};
use bellwether_core::key::{self, DueKey, Place};
use bellwether_core::read::{self, StoredJob};
use bellwether_core::record::{
    self, Definition, Delivery, Hold, RunRow, RunStatus, Tick, TickFate,
};
use bellwether_core::run::is_with_worker;
use bellwether_core::time::Time;
use bellwether_core::waist::{Family, Row, Shard, View};

use crate::nemesis::Nemesis;
use crate::node::metrics;
use crate::record::Record;
use crate::steer::replicas;
use crate::world::World;

/// Something that is due or open for longer than this after everything was mended is stuck.
const STUCK_MS: u64 = 40_000;
/// A due entry may be taken so late.
const LATE_MS: u64 = 10_000;

/// Looks at everything.
pub fn check(world: &Arc<World>, nemesis: &Nemesis) {
    let mut found = Vec::new();
    for shard in 0..world.shards {
        match replicas(world, shard) {
            None => found.push(format!("nobody leads shard {shard}, though all is well")),
            Some((leader, members)) => {
                check_replicas(world, shard, &members, &mut found);
                check_rest(&*leader.view(), shard, world.now(0), &mut found);
            }
        }
    }
    check_groups(world, &mut found);
    if nemesis.misses_one() {
        found.push("R36: nobody has taken the place of a node that is lost".to_owned());
    }
    let mut record = world.record.lock();
    for what in found {
        record.wrong(what);
    }
    record.check_terms();
    check_starts(&mut record);
    if let Some(views) = views(world) {
        check_jobs(&mut record, &views);
        check_succeeded(&mut record, &views);
        asked::check(&mut record, &views);
        batches::check(&mut record, &views);
    }
}

/// Every shard as its leader has it.
fn views(world: &World) -> Option<Vec<Arc<dyn View>>> {
    (0..world.shards).map(|shard| Some(replicas(world, shard)?.0.view())).collect()
}

/// Whether everything that was there at some time has come to its end: then nothing is gained by
/// waiting for longer.
pub fn has_settled(world: &Arc<World>, nemesis: &Nemesis, since: Time) -> bool {
    let Some(views) = views(world) else { return false };
    let stuck_ms = world.now(0).since_ms(since);
    let mut found = Vec::new();
    for (shard, view) in views.iter().enumerate() {
        check_open(&**view, shard as Shard, world.now(0), stuck_ms, &mut found);
    }
    let record = world.record.lock();
    let mut all = record.wishes.batches.keys().map(|id| batches::gather(&views, *id));
    let over = all.all(|batch| batch.is_some_and(|batch| batches::is_over(&batch)));
    found.is_empty() && over && !nemesis.misses_one()
}

/// No group has given up, by an error or by a panic.
fn check_groups(world: &World, found: &mut Vec<String>) {
    for node in world.nodes() {
        for shard in 0..world.shards {
            match node.group(shard).map(|group| metrics(&group)) {
                Some(metrics) if metrics.running_state.is_ok() => {
                    if metrics.purged.is_some() {
                        world.saw("a log was purged");
                    }
                }
                Some(metrics) => {
                    let error = metrics.running_state.err();
                    let error = error.map(|error| error.to_string()).unwrap_or_default();
                    found.push(format!("node {}, shard {shard} has stopped: {error}", node.id));
                }
                None => found.push(format!("node {} has no shard {shard}", node.id)),
            }
        }
    }
}

/// R69: the replicas of a shard are equal.
fn check_replicas(world: &World, shard: Shard, members: &BTreeSet<u64>, found: &mut Vec<String>) {
    let mut first: Option<(u64, Vec<(Family, Row)>)> = None;
    for id in members {
        let Some(node) = world.node(*id) else {
            found.push(format!("R69: node {id} takes part in shard {shard}, and is not there"));
            continue;
        };
        let applied = node.group(shard).and_then(|group| metrics(&group).last_applied);
        let view = node.view();
        let (from, to) = key::shard_range(shard);
        let mut rows = Vec::new();
        for family in Family::ALL {
            rows.extend(view.scan(family, &from, &to).flatten().map(|row| (family, row)));
        }
        match &first {
            None => first = Some((*id, rows)),
            Some((other, expected)) if *expected != rows => {
                let differs = expected.iter().zip(&rows).find(|(one, two)| one != two);
                found.push(format!(
                    "R69: the replicas of shard {shard} on nodes {other} and {id} differ, which has \
                     applied {applied:?}: {differs:?}"
                ));
            }
            Some(_) => {}
        }
    }
}

/// R36, R71: nothing is stuck.
fn check_rest(view: &dyn View, shard: Shard, now: Time, found: &mut Vec<String>) {
    let (from, to) = key::shard_range(shard);
    if let Some(Ok((key, _))) = view.scan(Family::Due, &from, &to).next()
        && let Ok(due) = DueKey::read(&key)
        && due.time < now.minus_ms(LATE_MS)
    {
        found.push(format!("R71: {due:?} is due since {}, and is not taken", due.time));
    }
    check_open(view, shard, now, STUCK_MS, found);
}

/// R36: no run waits or is with a worker for longer than `stuck_ms`, unless somebody wants it to.
fn check_open(view: &dyn View, shard: Shard, now: Time, stuck_ms: u64, found: &mut Vec<String>) {
    let (from, to) = key::shard_range(shard);
    for (key, value) in view.scan(Family::Active, &from, &to).flatten() {
        let Ok((job, n)) = key::read_run(&key) else { continue };
        let id = RunId { job, n: n.unwrap_or(1) };
        let Ok(row) = record::decode::<RunRow>("active", value) else { continue };
        let Some(run) = row.run else { continue };
        let since = Time(run.events.last().map_or(0, |event| event.at_ms));
        let waits = run.status() == RunStatus::Queued && run.hold() == Hold::None;
        if since < now.minus_ms(stuck_ms)
            && (waits && !is_switched_off(view, job) || is_with_worker(run.status()))
        {
            found.push(format!("R36: {id} is stuck since {since}: {:?}", run.status()));
        }
    }
}

/// Whether a job is paused, or its group is.
fn is_switched_off(view: &dyn View, job: JobId) -> bool {
    let Ok(Some(job)) = read::job(view, job) else { return false };
    let group = || asked::group(view, job.id.shard(), &job.definition.group);
    job.state.paused.is_some() || group().is_some_and(|group| group.paused.is_some())
}

/// R64: nothing is started more often than its owner allowed.
fn check_starts(record: &mut Record) {
    let mut found = Vec::new();
    for (run, count) in &record.starts {
        let Some(definition) = record.definitions.get(run) else { continue };
        let asked = record.asked.get(run).copied().unwrap_or(0);
        let failed = record.failed.get(run).copied().unwrap_or(0);
        let retries = definition.retry.map_or(0, |retry| retry.max);
        let allowed = 1 + asked + failed.min(retries * (1 + asked));
        if at_most_once(definition) && *count > allowed {
            found.push(format!(
                "R64: {run} was started {count} times, {failed} of which failed, with {retries} \
                 retries and {asked} asked for"
            ));
        }
    }
    for what in found {
        record.wrong(what);
    }
}

/// R26: what counts as succeeded has really been started.
fn check_succeeded(record: &mut Record, views: &[Arc<dyn View>]) {
    let mut found = Vec::new();
    for (shard, view) in views.iter().enumerate() {
        let (from, to) = key::shard_range(shard as Shard);
        for (key, value) in view.scan(Family::History, &from, &to).flatten() {
            let place = Place::read(&key);
            let (Ok(place), Ok(row)) = (place, record::decode::<RunRow>("history", value)) else {
                found.push(format!("a row of the history of shard {shard} cannot be read"));
                continue;
            };
            let succeeded = row.run.is_some_and(|run| run.status() == RunStatus::Succeeded);
            if succeeded && !record.starts.contains_key(&place.run) {
                found.push(format!("R26: {} has succeeded and was never started", place.run));
            }
        }
    }
    for what in found {
        record.wrong(what);
    }
}

fn at_most_once(definition: &Definition) -> bool {
    match definition.delivery() {
        Delivery::AtMostOnce => true,
        Delivery::AtLeastOnce => false,
        Delivery::Default => definition.retry.is_none_or(|retry| retry.max == 0),
    }
}

/// R70: whatever was acknowledged is there. R71: every tick is in the ledger, once.
fn check_jobs(record: &mut Record, views: &[Arc<dyn View>]) {
    let mut found = Vec::new();
    for (id, known) in record.jobs.iter().filter(|(_, known)| !known.deleted) {
        let view = &*views[usize::from(id.shard())];
        match read::job(view, *id) {
            Ok(Some(job)) if record.went_back && job.revision > 1 => {}
            Ok(Some(job)) => found.extend(check_ledger(view, *id, &job).err()),
            Ok(None) => {
                found.push(format!("R70: {id} ({}) was acknowledged", known.definition.key))
            }
            Err(error) => found.push(format!("{id} cannot be read: {error}")),
        }
    }
    for what in found {
        record.wrong(what);
    }
}

fn check_ledger(view: &dyn View, id: JobId, job: &StoredJob) -> Result<(), String> {
    let schedule = job.schedule().map_err(|error| error.to_string())?;
    if schedule.counts_from_finish() || schedule.is_once().is_some() {
        return Ok(());
    }
    let mut expected = schedule.next_after(job.anchor);
    let (from, to) = key::runs(id);
    for (key, value) in view.scan(Family::Tick, &from, &to).flatten() {
        let time = key::read_tick(&key).map_err(|error| error.to_string())?;
        let row: Tick = record::decode("tick", value).map_err(|error| error.to_string())?;
        if time <= job.anchor || row.fate() == TickFate::Triggered || row.reason == "trigger" {
            continue;
        }
        if Some(time) != expected {
            return Err(format!("R71: the ledger of {id} has {time}, but {expected:?} is next"));
        }
        let mut last = time;
        if row.count_is_minimum {
            last = Time(row.until_ms);
        } else {
            for _ in 1..row.count {
                last = schedule
                    .next_after(last)
                    .ok_or_else(|| format!("R71: the ledger of {id} has more rows than ticks"))?;
            }
        }
        expected = schedule.next_after(last);
    }
    if !job.state.ended && job.state.next_ms != expected.map(|time| time.0) {
        let next = job.state.next_ms;
        return Err(format!("R5: the next tick of {id} is {next:?}, expected was {expected:?}"));
    }
    Ok(())
}
