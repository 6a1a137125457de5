//! Finding jobs, in either of their forms, and storing the full form.

use std::sync::Arc;

use bytes::Bytes;

use super::{Halt, Rejection, Turn, namespace_name};
use crate::id::{BatchId, JobId, RunId};
use crate::key::{self, DueKey, DueKind, Place, TagKind};
use crate::record::{self, Definition, Filed, JobRow, JobState, OneOff, RunRow};
use crate::schedule::{Schedule, ScheduleError, jitter_ms};
use crate::settings::class_of;
use crate::spec;
use crate::time::Time;
use crate::waist::{Family, StoreError};

/// A job in full form.
#[derive(Clone, Debug)]
pub(super) struct FullJob {
    pub id: JobId,
    pub row: JobRow,
    pub definition: Definition,
    pub state: JobState,
}

impl FullJob {
    /// The instant of a one-off job.
    pub fn once(&self) -> Option<Time> {
        spec::once(self.definition.schedule.as_ref()?, Time(self.row.anchor_ms))
    }

    /// When a tick is to fire: the schedule's jitter after it.
    pub fn due_time(&self, tick: Time) -> Time {
        match self.definition.schedule.as_ref().map_or(0, |schedule| schedule.jitter_ms) {
            0 => tick,
            most_ms => {
                let identity = identity(&self.definition, self.id);
                tick.plus_ms(jitter_ms(most_ms, &identity, tick))
            }
        }
    }
}

/// A compact job, by where its one record is.
#[derive(Clone, Debug)]
pub(super) enum Compact {
    /// In the due index.
    Waiting(DueKey, OneOff),
    /// Among the open runs.
    Open(RunRow),
    /// In history.
    Ended(Place, RunRow),
}

impl Compact {
    /// The job itself, wherever it is.
    pub fn one_off(&self) -> Option<&OneOff> {
        match self {
            Compact::Waiting(_, job) => Some(job),
            Compact::Open(row) | Compact::Ended(_, row) => row.job.as_ref(),
        }
    }

    /// Hash of the request that created it.
    pub fn hash(&self) -> Bytes {
        self.one_off().map(|job| job.hash.clone()).unwrap_or_default()
    }
}

/// What is stored of a job.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Nothing,
    Compact(Box<Compact>),
    Full(Box<FullJob>),
}

/// The stable text from which hashed fields and jitter of a job's schedule come.
pub(crate) fn identity(definition: &Definition, id: JobId) -> String {
    if definition.key.is_empty() {
        id.text()
    } else {
        format!("{}/{}", namespace_name(definition), definition.key)
    }
}

/// Whether a place in history has been pruned.
pub(crate) fn is_pruned(row: &record::ShardRow, place: &Place) -> bool {
    row.classes.get(&u32::from(place.class)).is_some_and(|upto| place.time.0 < *upto)
}

impl Turn<'_> {
    pub(super) fn find(&self, id: JobId) -> Result<Found, StoreError> {
        if let Some(job) = self.full(id)? {
            return Ok(Found::Full(Box::new(job)));
        }
        Ok(match self.compact(id)? {
            Some(compact) => Found::Compact(Box::new(compact)),
            None => Found::Nothing,
        })
    }

    fn compact(&self, id: JobId) -> Result<Option<Compact>, StoreError> {
        let Some(filed) = self.read::<Filed>(Family::Index, &key::job(id))? else {
            return Ok(None);
        };
        let time = Time(filed.time_ms);
        let entry = DueKey { time, kind: DueKind::OneOff, job: id, n: 0 };
        if let Some(job) = self.read::<OneOff>(Family::Due, &entry.key(id.shard()))? {
            return Ok(Some(Compact::Waiting(entry, job)));
        }
        let run = RunId { job: id, n: 1 };
        if let Some(row) = self.peek_open(run)? {
            return Ok((!row.run.as_ref().is_some_and(|r| r.forget)).then_some(Compact::Open(row)));
        }
        let place = Place { class: filed.class as u16, time, run };
        if is_pruned(&self.memory.row, &place) {
            return Ok(None);
        }
        let row = self.read::<RunRow>(Family::History, &place.history())?;
        Ok(row.map(|row| Compact::Ended(place, row)))
    }

    /// A job in full form that has not been deleted.
    pub(super) fn full(&self, id: JobId) -> Result<Option<FullJob>, StoreError> {
        Ok(self.full_even_deleted(id)?.filter(|job| !job.state.deleted))
    }

    pub(super) fn full_even_deleted(&self, id: JobId) -> Result<Option<FullJob>, StoreError> {
        let key = key::job(id);
        let Some(row) = self.read::<JobRow>(Family::Job, &key)? else {
            return Ok(None);
        };
        let state = self.read::<JobState>(Family::State, &key)?.unwrap_or_default();
        let definition = record::decode("definition", row.definition.clone())?;
        Ok(Some(FullJob { id, row, definition, state }))
    }

    /// A job in full form, promoted to it if need be.
    pub(super) fn full_or_promoted(&mut self, id: JobId) -> Result<FullJob, Halt> {
        match self.find(id)? {
            Found::Nothing => Err(Rejection::no_job().into()),
            Found::Full(job) => Ok(*job),
            Found::Compact(compact) => Ok(self.promote(id, *compact)?),
        }
    }

    pub(super) fn put_state(&mut self, job: &FullJob) {
        self.store.put(Family::State, key::job(job.id), record::encode(&job.state));
    }

    pub(super) fn put_job(&mut self, job: &FullJob) {
        self.store.put(Family::Job, key::job(job.id), record::encode(&job.row));
    }

    /// A job's schedule, compiled. It compiled when it was created, so it does so now, unless the
    /// zone database of this version has lost a zone or its rules have become stricter; `broken`
    /// says what then.
    pub(super) fn schedule_of(&mut self, job: &FullJob) -> Result<Arc<Schedule>, ScheduleError> {
        if let Some(found) = self.memory.compiled.get(job.id, job.row.revision) {
            return Ok(found);
        }
        let spec = spec::schedule_spec(&job.definition);
        let anchor = Time(job.row.anchor_ms);
        let compiled = Schedule::compile(&spec, &identity(&job.definition, job.id), anchor)?;
        let compiled = Arc::new(compiled);
        self.memory.compiled.put(job.id, job.row.revision, compiled.clone());
        Ok(compiled)
    }

    /// The retention class of a job, which is from now on known to be in use.
    pub(super) fn class_for(&mut self, definition: &Definition) -> u16 {
        let own_ms = definition.retention.map_or(0, |retention| retention.age_ms);
        let age_ms = if own_ms == 0 { self.memory.settings.retention_age_ms } else { own_ms };
        let class = class_of(age_ms);
        let known = &mut self.memory.row.classes;
        if let std::collections::btree_map::Entry::Vacant(slot) = known.entry(u32::from(class)) {
            slot.insert(0);
            self.memory.row_changed = true;
        }
        class
    }

    /// Lists the job by what it says about itself.
    pub(super) fn put_tags(&mut self, definition: &Definition, batch: u64, id: JobId) {
        for key in tag_keys(definition, batch, id) {
            self.store.put(Family::Tag, key, Bytes::new());
        }
    }

    pub(super) fn delete_tags(&mut self, definition: &Definition, batch: u64, id: JobId) {
        for key in tag_keys(definition, batch, id) {
            self.store.delete(Family::Tag, key);
        }
    }
}

fn tag_keys(definition: &Definition, batch: u64, id: JobId) -> Vec<Bytes> {
    let namespace = namespace_name(definition);
    let mut keys = Vec::new();
    if batch != 0 {
        keys.push(key::batch_member(BatchId(batch), id));
    }
    if namespace != "default" {
        keys.push(key::tag(TagKind::Namespace, namespace, "", id));
    }
    if !definition.group.is_empty() {
        keys.push(key::tag(TagKind::Group, namespace, &definition.group, id));
    }
    if !definition.owner.is_empty() {
        keys.push(key::tag(TagKind::Owner, namespace, &definition.owner, id));
    }
    for (name, value) in &definition.labels {
        keys.push(key::tag(TagKind::Label, namespace, &format!("{name}={value}"), id));
    }
    keys
}
