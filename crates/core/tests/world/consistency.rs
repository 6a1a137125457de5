//! What must hold of the stored state after every turn: every row points to something that exists,
//! and everything that exists is pointed to.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::id::{BatchId, JobId, RunId};
use bellwether_core::key::{self, DueKey, DueKind, Place, TagKind};
use bellwether_core::record::{
    self, Definition, Filed, Hold, JobRow, JobState, KeyRow, OnFailure, OneOff, OverlapPolicy, Run,
    RunRow, RunStatus,
};
use bellwether_core::run::{is_ended, rebuild};
use bellwether_core::schedule::{Schedule, ScheduleError};
use bellwether_core::spec::schedule_spec;
use bellwether_core::time::Time;
use bellwether_core::turn::{Lane, namespace_name};
use bellwether_core::waist::Family;
use bytes::Bytes;

use super::{SHARD, World, batches};

/// A job in full form.
pub struct Full {
    pub row: JobRow,
    pub definition: Definition,
    pub state: JobState,
}

/// The whole store, decoded.
pub struct Picture {
    pub full: BTreeMap<JobId, Full>,
    /// Compact jobs and where they are filed.
    pub compact: BTreeMap<JobId, (Filed, Definition)>,
    pub open: BTreeMap<RunId, (Run, bool)>,
    pub ended: BTreeMap<RunId, (Place, Run, bool)>,
    pub due: BTreeMap<DueKey, Bytes>,
    /// Members of batches.
    pub members: BTreeMap<JobId, BatchId>,
}

/// Reads everything; whatever is filed must be where it is said to be.
pub fn picture(world: &World) -> Picture {
    let mut picture = rows(world);
    check_index(world, &mut picture);
    picture
}

fn rows(world: &World) -> Picture {
    let store = &world.store;
    let mut picture = Picture {
        full: BTreeMap::new(),
        compact: BTreeMap::new(),
        open: BTreeMap::new(),
        ended: BTreeMap::new(),
        due: BTreeMap::new(),
        members: BTreeMap::new(),
    };
    for (key, value) in store.rows(Family::Job) {
        let id = key::read_run(&key).unwrap().0;
        let row: JobRow = record::decode("job", value).unwrap();
        let state = store.read(Family::State, &key).expect("every job has a state");
        let definition = record::decode("definition", row.definition.clone()).unwrap();
        if row.batch != 0 {
            picture.members.insert(id, BatchId(row.batch));
        }
        picture.full.insert(id, Full { row, definition, state });
    }
    for (key, value) in store.rows(Family::Due) {
        picture.due.insert(DueKey::read(&key).unwrap(), value);
    }
    for (key, value) in store.rows(Family::Active) {
        let (job, n) = key::read_run(&key).unwrap();
        let row: RunRow = record::decode("active", value).unwrap();
        let id = RunId { job, n: n.unwrap() };
        picture.open.insert(id, (row.run.unwrap(), row.job.is_some()));
    }
    for (key, value) in store.rows(Family::History) {
        let place = Place::read(&key).unwrap();
        if !world.is_pruned(&place) {
            let row: RunRow = record::decode("history", value).unwrap();
            let run = row.run.unwrap();
            let twice = picture.ended.insert(place.run, (place, run, row.job.is_some()));
            assert!(twice.is_none(), "{} is in history twice", place.run);
        }
    }
    picture
}

/// Looks at everything.
pub fn check(world: &World) {
    let picture = picture(world);
    check_runs(world, &picture);
    check_due(world, &picture);
    check_jobs(&picture);
    check_names(world, &picture);
    check_order(world, &picture);
    check_memory(world, &picture);
    batches::check(world, &picture);
}

fn check_index(world: &World, picture: &mut Picture) {
    for (key, _) in world.store.rows(Family::State) {
        let job = key::read_run(&key).unwrap().0;
        assert!(picture.full.contains_key(&job), "every state has a job");
    }
    let mut pointed = BTreeSet::new();
    let index = world.store.rows(Family::Index).into_iter();
    let states = world.store.rows(Family::State).into_iter();
    for (key, value) in index.chain(states.filter(|(key, _)| key.len() > 10)) {
        let (job, n) = key::read_run(&key).unwrap();
        let filed: Filed = record::decode("index", value).unwrap();
        let time = Time(filed.time_ms);
        let run = RunId { job, n: n.unwrap_or(1) };
        let place = Place { class: filed.class as u16, time, run };
        if let Some(n) = n {
            assert!(picture.full.contains_key(&job), "{run} is filed but has no job");
            let ended = picture.ended.get(&run).is_some_and(|found| found.0 == place);
            let open = picture.open.get(&run).is_some_and(|(run, compact)| {
                run.filed_ms == filed.time_ms && run.class == filed.class && !compact
            });
            assert!(open ^ ended, "{job} run {n} is filed; open {open}, ended {ended}");
            pointed.insert(run);
            continue;
        }
        let entry = DueKey { time, kind: DueKind::OneOff, job, n: 0 };
        let waiting = picture
            .due
            .get(&entry)
            .map(|value| record::decode::<OneOff>("due", value.clone()).unwrap());
        let row: Option<RunRow> = if picture.open.contains_key(&run) {
            world.store.read(Family::Active, &key::run(run))
        } else if picture.ended.get(&run).is_some_and(|found| found.0 == place) {
            world.store.read(Family::History, &place.history())
        } else {
            None
        };
        let other = row.and_then(|row| row.job);
        assert!(waiting.is_some() ^ other.is_some(), "{job} is in one place: waiting or as a run");
        pointed.insert(run);
        let one_off = waiting.or(other).unwrap();
        let definition = record::decode("definition", one_off.definition).unwrap();
        if one_off.batch != 0 {
            picture.members.insert(job, BatchId(one_off.batch));
        }
        picture.compact.insert(job, (filed, definition));
    }
    for run in picture.open.keys().chain(picture.ended.keys()) {
        assert!(pointed.contains(run), "{run} can be found by its id");
    }
}

fn check_runs(world: &World, picture: &Picture) {
    let ended = picture.ended.iter().map(|(id, (_, run, compact))| (id, run, *compact));
    let open = picture.open.iter().map(|(id, (run, compact))| (id, run, *compact));
    for (id, run, compact) in open.chain(ended) {
        assert_eq!(compact, picture.compact.contains_key(&id.job), "{id} has the form of its job");
        let plain =
            Run { hold: Hold::None as i32, forget: false, results: Vec::new(), ..run.clone() };
        assert_eq!(rebuild(run), plain, "{id} can be rebuilt from its events");
    }
    for (id, (run, _)) in &picture.open {
        assert!(!is_ended(run.status()), "{id} is open");
        assert!(run.hold() == Hold::None || run.status() == RunStatus::Queued, "{id} is held");
        if run.status() == RunStatus::Retrying {
            let time = Time(run.retry_ms);
            let entry = DueKey { time, kind: DueKind::Retry, job: id.job, n: id.n };
            assert!(picture.due.contains_key(&entry), "{id} will be retried");
        }
    }
    let mut dead = BTreeSet::new();
    for (key, _) in world.store.rows(Family::Dead) {
        let (time, id) = key::read_dead(&key).unwrap();
        let (place, run, _) = picture.ended.get(&id).expect("a dead letter is in history");
        assert_eq!(place.time, time);
        assert!(matches!(run.status(), RunStatus::Failed | RunStatus::Lost), "{id} is dead");
        dead.insert(id);
    }
    for (id, (place, run, _)) in &picture.ended {
        assert!(is_ended(run.status()), "{id} has ended");
        assert_eq!((place.time.0, u32::from(place.class)), (run.filed_ms, run.class));
        let is_dead = matches!(run.status(), RunStatus::Failed | RunStatus::Lost);
        assert_eq!(is_dead, dead.contains(id), "{id} is a dead letter");
    }
    for (key, _) in world.store.rows(Family::Output) {
        let place = Place::read(&key).unwrap();
        let open =
            picture.open.get(&place.run).is_some_and(|(run, _)| run.filed_ms == place.time.0);
        let ended = picture.ended.get(&place.run).is_some_and(|found| found.0 == place);
        assert!(open || ended || world.is_pruned(&place), "output of {} has a run", place.run);
    }
}

fn check_due(world: &World, picture: &Picture) {
    let cursor = Time(world.memory.row.due_from_ms);
    let earliest = world.agenda.earliest(world.now);
    for entry in picture.due.keys() {
        assert!(entry.time >= cursor, "{entry:?} is behind the cursor {cursor}");
        assert!(entry.time >= earliest, "{entry:?} is before what is known as the earliest");
        match entry.kind {
            DueKind::OneOff => {
                let (filed, _) = picture.compact.get(&entry.job).expect("an entry has its job");
                assert_eq!(filed.time_ms, entry.time.0);
            }
            DueKind::Tick => {
                let job = picture.full.get(&entry.job).expect("a tick has its job");
                assert_eq!(job.state.due_ms, Some(entry.time.0), "{} knows its tick", entry.job);
            }
            DueKind::Retry => {
                let id = RunId { job: entry.job, n: entry.n };
                let (run, _) = picture.open.get(&id).expect("a retry has its run");
                assert_eq!((run.status(), run.retry_ms), (RunStatus::Retrying, entry.time.0));
            }
            DueKind::Expire | DueKind::Release | DueKind::Sweep | DueKind::Forget => {}
        }
    }
}

fn has_due(picture: &Picture, job: JobId, kind: DueKind) -> bool {
    picture.due.keys().any(|entry| entry.job == job && entry.kind == kind)
}

fn check_jobs(picture: &Picture) {
    for (id, job) in &picture.full {
        let state = &job.state;
        let mut open: Vec<u32> =
            picture.open.keys().filter(|run| run.job == *id).map(|run| run.n).collect();
        let mut known = state.open.clone();
        open.sort_unstable();
        known.sort_unstable();
        assert_eq!(open, known, "{id} knows its open runs");
        if let Some(ms) = state.due_ms {
            let entry = DueKey { time: Time(ms), kind: DueKind::Tick, job: *id, n: 0 };
            assert!(picture.due.contains_key(&entry), "{id} has its tick planned");
        }
        if state.deleted {
            assert!(state.due_ms.is_none(), "{id} is deleted");
            assert!(has_due(picture, *id, DueKind::Sweep), "{id} will be swept");
            continue;
        }
        assert!(!state.broken || state.paused.is_some(), "{id} is held because of its schedule");
        let Ok(schedule) = try_compiled(*id, job) else {
            assert!(state.paused.is_none() || state.due_ms.is_none(), "{id} is paused");
            continue;
        };
        assert!(!state.ended || state.next_ms.is_none(), "{id} has ended");
        let max_runs = job.definition.schedule.as_ref().map_or(0, |schedule| schedule.max_runs);
        let handled = Time(state.handled_ms.unwrap_or(0));
        let more = if schedule.counts_from_finish() {
            schedule.next_after_finish(handled)
        } else {
            schedule.next_after(handled)
        };
        assert!(
            !state.ended || max_runs > 0 || schedule.is_once().is_some() || more.is_none(),
            "R5: {id} has ended, though its schedule has not"
        );
        if schedule.is_once().is_some() && state.ended && open.is_empty() {
            assert!(has_due(picture, *id, DueKind::Sweep), "{id} will be swept");
        }
        let waits = state.paused.is_some()
            || state.held
            || state.ended
            || (schedule.counts_from_finish() && !open.is_empty());
        assert!(waits || state.due_ms.is_some(), "{id} has a next tick");
        let overlap = job.definition.overlap.unwrap_or_default().policy();
        let under_way: Vec<&Run> = open
            .iter()
            .map(|n| &picture.open[&RunId { job: *id, n: *n }].0)
            .filter(|run| run.hold() == Hold::None)
            .collect();
        let workers: BTreeSet<&str> = under_way.iter().map(|run| run.pinned.as_str()).collect();
        let instants: BTreeSet<u32> = under_way.iter().map(|run| run.first_n).collect();
        let one_each = workers.len() == under_way.len() && instants.len() <= 1;
        assert!(
            overlap == OverlapPolicy::Allow || job.row.revision > 1 || one_each,
            "{id} has one run under way at a time, or one on each worker"
        );
    }
}

/// The schedule of a job.
pub fn compiled(id: JobId, job: &Full) -> Schedule {
    try_compiled(id, job).unwrap()
}

fn try_compiled(id: JobId, job: &Full) -> Result<Schedule, ScheduleError> {
    let identity = if job.definition.key.is_empty() {
        id.text()
    } else {
        format!("{}/{}", namespace_name(&job.definition), job.definition.key)
    };
    Schedule::compile(&schedule_spec(&job.definition), &identity, Time(job.row.anchor_ms))
}

fn check_names(world: &World, picture: &Picture) {
    let mut tags = BTreeSet::new();
    let mut keys = BTreeMap::new();
    let full = picture.full.iter().filter(|(_, job)| !job.state.deleted);
    let full = full.map(|(id, job)| (*id, &job.definition));
    let compact = picture.compact.iter().filter(|(id, _)| {
        let run = RunId { job: **id, n: 1 };
        !picture.open.get(&run).is_some_and(|(run, _)| run.forget)
    });
    for (id, definition) in full.chain(compact.map(|(id, (_, definition))| (*id, definition))) {
        let namespace = namespace_name(definition);
        if let Some(batch) = picture.members.get(&id) {
            tags.insert(key::batch_member(*batch, id));
        }
        if namespace != "default" {
            tags.insert(key::tag(TagKind::Namespace, namespace, "", id));
        }
        if !definition.group.is_empty() {
            tags.insert(key::tag(TagKind::Group, namespace, &definition.group, id));
        }
        if !definition.owner.is_empty() {
            tags.insert(key::tag(TagKind::Owner, namespace, &definition.owner, id));
        }
        for (name, value) in &definition.labels {
            tags.insert(key::tag(TagKind::Label, namespace, &format!("{name}={value}"), id));
        }
        if !definition.key.is_empty() {
            keys.insert(key::caller_key(SHARD, namespace, &definition.key), id);
        }
    }
    let stored: BTreeSet<Bytes> =
        world.store.rows(Family::Tag).into_iter().map(|(key, _)| key).collect();
    assert_eq!(stored, tags, "tags are those of the jobs");
    let mut found = BTreeMap::new();
    for (key, value) in world.store.rows(Family::Key) {
        let row: KeyRow = record::decode("key", value).unwrap();
        if row.reserved_ms == 0 {
            found.insert(key, JobId(row.job));
        }
    }
    keys.retain(|key, _| found.contains_key(key) || !world.keys_elsewhere);
    assert_eq!(found, keys, "keys are those of the jobs");
    for (key, _) in world.store.rows(Family::Tick) {
        let job = key::read_run(&key[..10]).unwrap().0;
        assert!(picture.full.contains_key(&job), "a row of the ledger has its job");
    }
}

fn check_order(world: &World, picture: &Picture) {
    let mut waiting = BTreeSet::new();
    let mut current = BTreeSet::new();
    for (key, value) in world.store.rows(Family::Order) {
        match key[2] {
            1 => {
                waiting.insert(key::read_order(&key).unwrap());
            }
            2 => {
                let job = key::read_held(&key).unwrap();
                let job = picture.full.get(&job).expect("a job that is held back exists");
                assert!(job.state.held && !job.state.deleted, "it is held back");
            }
            _ => {
                let run = key::read_order(&value).unwrap();
                let job = picture.full.get(&run.job).expect("whose turn it is exists");
                let blocks = !picture.open.contains_key(&run);
                assert!(!blocks || !job.state.deleted, "{run} of a deleted job blocks its key");
                let block = job.definition.on_failure() == OnFailure::Block;
                assert!(!blocks || block, "{run} has ended and does not block its key");
                assert!(
                    !blocks
                        || picture.ended.get(&run).is_none_or(|(_, run, _)| matches!(
                            run.status(),
                            RunStatus::Failed | RunStatus::Lost
                        )),
                    "{run} did not fail, yet it blocks"
                );
                current.insert(run);
            }
        }
    }
    for (id, (run, compact)) in &picture.open {
        let ordered = !compact && !picture.full[&id.job].definition.ordering_key.is_empty();
        assert_eq!(run.hold() == Hold::Order, waiting.contains(id), "{id} waits for its key");
        if ordered && run.hold() != Hold::Order {
            assert!(current.contains(id), "{id} goes ahead only if it is its turn");
        }
    }
    for id in &waiting {
        assert!(picture.open.contains_key(id), "{id} waits for its key and exists");
    }
}

fn check_memory(world: &World, picture: &Picture) {
    assert_eq!(world.memory.open_runs, picture.open.len() as u64, "open runs are counted");
    let ready = picture
        .open
        .values()
        .filter(|(run, _)| run.status() == RunStatus::Queued && run.hold() == Hold::None)
        .count();
    let parked = world.memory.parked_by_job.values().chain(world.memory.parked_by_group.values());
    let parked: usize = parked.map(Vec::len).sum();
    assert!(world.memory.ready.len() + parked >= ready, "every queued run waits somewhere");
    let lanes: Vec<&Lane> = world.memory.ready.lanes().map(|(lane, _)| lane).collect();
    assert!(lanes.len() <= 64);
}
