//! What must hold once everything has come to rest.

use std::sync::Arc;

use bellwether_core::id::{JobId, RunId};
use bellwether_core::key::{self, DueKey};
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
use crate::world::World;

/// Something that is due or open for longer than this after everything was mended is stuck.
const STUCK_MS: u64 = 40_000;
/// A due entry may be taken so late.
const LATE_MS: u64 = 10_000;

/// Looks at everything.
pub fn check(world: &Arc<World>, nemesis: &Nemesis) {
    let mut found = Vec::new();
    for shard in 0..world.shards {
        match nemesis.replicas(shard) {
            None => found.push(format!("nobody leads shard {shard}, though all is well")),
            Some((leader, members)) => {
                check_replicas(world, shard, &members, &mut found);
                check_rest(&*leader.view(), shard, world.now(0), &mut found);
            }
        }
    }
    check_groups(world, &mut found);
    let mut record = world.record.lock();
    for what in found {
        record.wrong(what);
    }
    record.check_terms();
    check_starts(&mut record);
    let views: Vec<Arc<dyn View>> =
        (0..world.shards).filter_map(|shard| Some(nemesis.replicas(shard)?.0.view())).collect();
    if views.len() == usize::from(world.shards) {
        check_jobs(&mut record, &views);
    }
}

/// No group has given up, by an error or by a panic.
fn check_groups(world: &World, found: &mut Vec<String>) {
    for node in world.nodes() {
        for shard in 0..world.shards {
            match node.group(shard).map(|group| metrics(&group).running_state) {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    found.push(format!("node {}, shard {shard} has stopped: {error}", node.id));
                }
                None => found.push(format!("node {} has no shard {shard}", node.id)),
            }
        }
    }
}

/// R67: the replicas of a shard are equal.
fn check_replicas(world: &World, shard: Shard, members: &[u64], found: &mut Vec<String>) {
    let mut first: Option<(u64, Vec<(Family, Row)>)> = None;
    for id in members {
        let Some(node) = world.node(*id) else { continue };
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
                    "R67: the replicas of shard {shard} on nodes {other} and {id} differ, which has \
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
    for (key, value) in view.scan(Family::Active, &from, &to).flatten() {
        let Ok((job, n)) = key::read_run(&key) else { continue };
        let id = RunId { job, n: n.unwrap_or(1) };
        let Ok(row) = record::decode::<RunRow>("active", value) else { continue };
        let Some(run) = row.run else { continue };
        let since = Time(run.events.last().map_or(0, |event| event.at_ms));
        let waits = run.status() == RunStatus::Queued && run.hold() == Hold::None;
        let paused =
            read::job(view, job).is_ok_and(|job| job.is_some_and(|job| job.state.paused.is_some()));
        if (waits && !paused || is_with_worker(run.status())) && since < now.minus_ms(STUCK_MS) {
            found.push(format!("R36: {id} is stuck since {since}: {:?}", run.status()));
        }
    }
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
