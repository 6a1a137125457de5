//! Replacing a job's definition.

use bytes::Bytes;

use super::broken::still_broken;
use super::job::identity;
use super::{Halt, Rejection, RejectionKind, Reply, Turn, namespace_name};
use crate::id::{BatchId, JobId, RunId};
use crate::record::{self, Definition, OnFailure};
use crate::schedule::Schedule;
use crate::spec;
use crate::time::Time;

impl Turn<'_> {
    /// Refuses an edit of a revision that is no longer the job's.
    pub(super) fn expect_revision(&self, id: JobId, expected: Option<u32>) -> Result<(), Halt> {
        let now = self.full(id)?.map_or(1, |job| job.row.revision);
        match expected {
            Some(expected) if expected != now => Err(Rejection {
                kind: RejectionKind::Conflict,
                code: "changed_meanwhile".into(),
                message: format!("the job was changed meanwhile: it is at revision {now}"),
            }
            .into()),
            _ => Ok(()),
        }
    }

    pub(super) fn replace(
        &mut self,
        actor: &str,
        id: JobId,
        definition: Definition,
        hash: Bytes,
        enabled: Option<bool>,
    ) -> Result<Reply, Halt> {
        let mut job = self.full_or_promoted(id)?;
        if job.row.batch != 0 {
            let detail = format!("it belongs to {}; cancel it instead", BatchId(job.row.batch));
            return Err(Rejection::conflict("batch_member", detail).into());
        }
        for (field, old, new) in [
            ("namespace", namespace_name(&job.definition), namespace_name(&definition)),
            ("key", job.definition.key.as_str(), definition.key.as_str()),
            (
                "ordering_key",
                job.definition.ordering_key.as_str(),
                definition.ordering_key.as_str(),
            ),
        ] {
            if old != new {
                return Err(Rejection::conflict(
                    "field_fixed",
                    format!("'{field}' cannot be changed; delete the job and create it anew"),
                )
                .into());
            }
        }
        let new_schedule = definition.schedule != job.definition.schedule;
        // One that is kept may have no tick left, and is not to be refused for that.
        let compiled = match new_schedule {
            true => Some(self.compile_new(&definition, id)?),
            false => None,
        };
        let resumes = enabled == Some(true) && job.state.paused.is_some();
        if resumes && !new_schedule && job.once().is_none() {
            self.schedule_of(&job).map_err(|error| still_broken(&error))?;
        }
        if new_schedule {
            self.skip_replaced(&mut job)?;
        }
        self.delete_tags(&job.definition, 0, id);
        self.put_tags(&definition, 0, id);
        // Its group may be another one now: what the old one holds back is looked at again.
        let was_held = job.state.held;
        self.let_go(&mut job);
        let mut parked = self.parked_by_group_of(&job.definition, id);
        self.class_for(&definition);
        job.row.definition = record::encode(&definition);
        job.row.updated_ms = self.now.0;
        job.row.revision += 1;
        job.row.hash = hash;
        job.definition = definition;
        if let Some(compiled) = &compiled {
            if std::mem::take(&mut job.state.broken) {
                job.state.paused = None; // That was because of the old one.
            }
            // The phase of the old schedule has no meaning for the new one.
            job.row.anchor_ms = self.now.0;
            job.state.scheduled_runs = 0;
            self.unplan_tick(&mut job);
            // If the clock went back, what has been dealt with is not due again.
            let after = self.now.max(job.state.handled_ms.map_or(self.now, Time));
            job.state.next_ms =
                compiled.is_once().or_else(|| compiled.next_after(after)).map(|t| t.0);
            job.state.ended = job.state.next_ms.is_none();
        } else {
            job.state.held = was_held;
        }
        match (enabled, job.state.paused.is_some()) {
            (Some(false), false) => {
                job.state.paused = Some(self.mark(actor, None, "disabled by an edit"));
                self.unplan_tick(&mut job);
            }
            (Some(false), true) => job.state.broken = false, // From now on it is somebody's wish.
            (Some(true), true) => self.unpause(&mut job)?,
            (_, false) if new_schedule || was_held => {
                let next = job.state.next_ms.map(Time);
                self.plan_tick(&mut job, next);
            }
            _ => {}
        }
        self.put_job(&job);
        self.put_state(&job);
        self.note_job(actor, "job.replace", id, namespace_name(&job.definition), "");
        if job.state.paused.is_none() {
            parked.extend(self.memory.parked_by_job.remove(&id).into_iter().flatten());
        }
        self.unpark(Some(parked))?;
        if !job.definition.ordering_key.is_empty()
            && job.definition.on_failure() == OnFailure::Continue
        {
            self.unblock_order(&job.definition, id)?;
        }
        Ok(Reply::Done)
    }

    /// Takes out the job's runs that its group's pause has put out of the way.
    fn parked_by_group_of(&mut self, definition: &Definition, id: JobId) -> Vec<RunId> {
        let group = (namespace_name(definition).to_owned(), definition.group.clone());
        let Some(parked) = self.memory.parked_by_group.get_mut(&group) else {
            return Vec::new();
        };
        let (of_job, others) = parked.drain(..).partition(|run| run.job == id);
        *parked = others;
        of_job
    }

    fn compile_new(&self, definition: &Definition, id: JobId) -> Result<Schedule, Rejection> {
        let spec = spec::schedule_spec(definition);
        Schedule::compile(&spec, &identity(definition, id), self.now).map_err(|error| Rejection {
            kind: RejectionKind::Invalid,
            code: error.code.into(),
            message: error.message,
        })
    }
}
