//! Creating jobs.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::job::{Found, FullJob, identity};
use super::{Created, Halt, NewJob, Rejection, RejectionKind, Reply, Turn, namespace_name};
use crate::id::{JobId, RunId};
use crate::key::{self, DueKey, DueKind};
use crate::record::{self, Audit, Filed, JobRow, JobState, KeyRow, Mark, OneOff, TargetWorkers};
use crate::schedule::Schedule;
use crate::spec;
use crate::time::Time;
use crate::waist::{Family, StoreError};

/// For how long a key reserved in another shard keeps others from taking it.
const RESERVATION_MS: u64 = 30_000;

fn took_too_long() -> Rejection {
    Rejection {
        kind: RejectionKind::Busy,
        code: "try_again".into(),
        message: "creating the job took too long; send the request again".to_owned(),
    }
}

fn key_exists(key: &str, id: JobId) -> Rejection {
    Rejection::conflict(
        "key_exists",
        format!(
            "the key '{key}' belongs to {id}, which was created with another body; \
             use PUT to replace it or choose another key"
        ),
    )
}

impl Turn<'_> {
    pub(super) fn create(&mut self, actor: &str, jobs: Vec<NewJob>) -> Result<Reply, Halt> {
        let mut results = Vec::with_capacity(jobs.len());
        let mut made: BTreeMap<String, Vec<JobId>> = BTreeMap::new();
        for job in jobs {
            let namespace = namespace_name(&job.definition).to_owned();
            let result = match self.create_one(actor, job) {
                Ok(created) => Ok(created),
                Err(Halt::Rejected(rejection)) => Err(rejection),
                Err(Halt::Store(error)) => return Err(error.into()),
            };
            if let Ok(Created { job, new: true }) = result {
                self.memory.tally.created += 1;
                made.entry(namespace).or_default().push(job);
            }
            results.push(result);
        }
        for (namespace, jobs) in made {
            self.note_created(actor, namespace, &jobs);
        }
        Ok(Reply::Created(results))
    }

    fn note_created(&mut self, actor: &str, namespace: String, jobs: &[JobId]) {
        if let [one] = jobs {
            return self.note_job(actor, "job.create", *one, &namespace, "");
        }
        self.note(Audit {
            actor: actor.to_owned(),
            action: "job.create".to_owned(),
            subject: format!("{} jobs", jobs.len()),
            namespace,
            detail: String::new(),
            jobs: jobs.iter().map(|id| id.0).collect(),
        });
    }

    fn create_one(&mut self, actor: &str, new: NewJob) -> Result<Created, Halt> {
        if let Some(existing) = self.existing(&new)? {
            // A key may outlive its job: then, as with a reserved id, there is nothing yet.
            let hash = match self.find(existing)? {
                Found::Nothing => None,
                Found::Compact(compact) => Some(compact.hash()),
                Found::Full(job) => Some(job.row.hash),
            };
            match hash {
                None if self.is_spoken_for(&new, existing)? => return Err(took_too_long().into()),
                None => {}
                Some(hash) if hash == new.hash => return Ok(Created { job: existing, new: false }),
                Some(_) => return Err(key_exists(&new.definition.key, existing).into()),
            }
        }
        let id = match new.reserved {
            Some((_, until)) if self.now > until => return Err(took_too_long().into()),
            Some((id, _)) => id,
            None => self.memory.ids.next(self.now),
        };
        let definition = &new.definition;
        let once = definition.schedule.as_ref().and_then(|s| spec::plain_once(s, self.now));
        match once {
            Some(at)
                if !definition.disabled
                    && definition.ordering_key.is_empty()
                    && definition.target_workers() == TargetWorkers::Any =>
            {
                self.put_compact(id, at, &new);
            }
            _ => self.put_full(actor, id, &new)?,
        }
        if !definition.key.is_empty() && new.reserved.is_none() {
            let key =
                key::caller_key(self.memory.shard, namespace_name(definition), &definition.key);
            let row = KeyRow { job: id.0, reserved_ms: 0 };
            self.store.put(Family::Key, key, record::encode(&row));
        }
        self.put_tags(definition, 0, id);
        Ok(Created { job: id, new: true })
    }

    /// Whether a job that is not to be found has a claim all the same: its key was reserved a
    /// moment ago and it is about to be created in another shard, or it has the reserved id, was
    /// deleted, and is not quite gone.
    fn is_spoken_for(&self, new: &NewJob, existing: JobId) -> Result<bool, StoreError> {
        if new.reserved.is_some() {
            let run = RunId { job: existing, n: 1 };
            return Ok(
                self.full_even_deleted(existing)?.is_some() || self.peek_open(run)?.is_some()
            );
        }
        let namespace = namespace_name(&new.definition);
        let key = key::caller_key(self.memory.shard, namespace, &new.definition.key);
        let row = self.read::<KeyRow>(Family::Key, &key)?.unwrap_or_default();
        let age_ms = self.now.since_ms(Time(row.reserved_ms));
        Ok(row.reserved_ms != 0 && age_ms <= RESERVATION_MS)
    }

    /// The job that has the new one's key or reserved id already, if it still exists.
    fn existing(&self, new: &NewJob) -> Result<Option<JobId>, StoreError> {
        if let Some((id, _)) = new.reserved {
            return Ok(Some(id));
        }
        let definition = &new.definition;
        if definition.key.is_empty() {
            return Ok(None);
        }
        let key = key::caller_key(self.memory.shard, namespace_name(definition), &definition.key);
        Ok(self.read::<KeyRow>(Family::Key, &key)?.map(|row| JobId(row.job)))
    }

    fn put_compact(&mut self, id: JobId, at: Time, new: &NewJob) {
        let class = self.class_for(&new.definition);
        let time = at.max(self.now);
        let job = OneOff {
            definition: record::encode(&new.definition),
            scheduled_ms: at.0,
            created_ms: self.now.0,
            class: u32::from(class),
            hash: new.hash.clone(),
            batch: 0,
        };
        let filed = Filed { time_ms: time.0, class: u32::from(class) };
        self.store.put(Family::Index, key::job(id), record::encode(&filed));
        let entry = DueKey { time, kind: DueKind::OneOff, job: id, n: 0 };
        self.plan(entry, record::encode(&job));
    }

    fn put_full(&mut self, actor: &str, id: JobId, new: &NewJob) -> Result<(), Halt> {
        self.class_for(&new.definition);
        let row = JobRow {
            definition: record::encode(&new.definition),
            created_ms: self.now.0,
            updated_ms: self.now.0,
            revision: 1,
            anchor_ms: self.now.0,
            hash: new.hash.clone(),
            batch: 0,
        };
        let definition = new.definition.clone();
        let mut job = FullJob { id, row, definition, state: JobState::default() };
        let spec = spec::schedule_spec(&job.definition);
        let compiled = Schedule::compile(&spec, &identity(&job.definition, id), self.now).map_err(
            |error| Rejection {
                kind: RejectionKind::Invalid,
                code: error.code.into(),
                message: error.message,
            },
        )?;
        // A one-off whose time has passed is due at once; a recurring job looks ahead only.
        let first = match compiled.is_once() {
            Some(at) => Some(at),
            None => compiled.next_after(self.now),
        };
        if job.definition.disabled {
            job.state.paused = Some(Mark {
                at_ms: self.now.0,
                by: actor.to_owned(),
                until_ms: None,
                note: "created disabled".to_owned(),
            });
            job.state.next_ms = first.map(|time| time.0);
        } else {
            self.plan_tick(&mut job, first);
        }
        job.state.handled_ms = Some(self.now.0);
        self.put_job(&job);
        self.put_state(&job);
        Ok(())
    }

    /// Sets the next tick of a job, or notes that there is none. The state is not stored yet.
    pub(super) fn plan_tick(&mut self, job: &mut FullJob, next: Option<Time>) {
        self.unplan_tick(job);
        job.state.next_ms = next.map(|time| time.0);
        job.state.ended = next.is_none();
        if let Some(tick) = next {
            self.plan_tick_at(job, tick, job.due_time(tick));
        }
    }

    /// Lets a tick, for which nothing is planned, come up at a time. The state is not stored yet.
    pub(super) fn plan_tick_at(&mut self, job: &mut FullJob, tick: Time, time: Time) {
        job.state.next_ms = Some(tick.0);
        job.state.due_ms = Some(time.0);
        let entry = DueKey { time, kind: DueKind::Tick, job: job.id, n: 0 };
        self.plan(entry, Bytes::new());
    }

    /// Takes the entry for the next tick out of the due index. The state is not stored yet.
    pub(super) fn unplan_tick(&mut self, job: &mut FullJob) {
        if let Some(ms) = job.state.due_ms.take() {
            self.unplan(DueKey { time: Time(ms), kind: DueKind::Tick, job: job.id, n: 0 });
        }
    }

    pub(super) fn reserve_key(
        &mut self,
        namespace: &str,
        name: &str,
        job: JobId,
        replace: Option<JobId>,
    ) -> Result<Reply, Halt> {
        let key = key::caller_key(self.memory.shard, namespace, name);
        let row = self.read::<KeyRow>(Family::Key, &key)?;
        if let Some(row) = row {
            let held = JobId(row.job);
            let age_ms = self.now.since_ms(Time(row.reserved_ms));
            let replaceable = replace == Some(held) && age_ms > RESERVATION_MS;
            if held != job && !replaceable {
                return Ok(Reply::Created(vec![Ok(Created { job: held, new: false })]));
            }
        }
        let row = KeyRow { job: job.0, reserved_ms: self.now.0 };
        self.store.put(Family::Key, key, record::encode(&row));
        Ok(Reply::Created(vec![Ok(Created { job, new: true })]))
    }

    pub(super) fn free_key(
        &mut self,
        namespace: &str,
        name: &str,
        job: JobId,
    ) -> Result<Reply, Halt> {
        let key = key::caller_key(self.memory.shard, namespace, name);
        let row = self.read::<KeyRow>(Family::Key, &key)?;
        if row.is_some_and(|row| row.job == job.0) {
            self.store.delete(Family::Key, key);
        }
        Ok(Reply::Done)
    }
}
