//! Replacing a job's definition.

use bytes::Bytes;

use super::job::identity;
use super::{Halt, Rejection, RejectionKind, Reply, Turn, namespace_name};
use crate::id::JobId;
use crate::record::{self, Definition};
use crate::schedule::Schedule;
use crate::spec;

impl Turn<'_> {
    pub(super) fn replace(
        &mut self,
        actor: &str,
        id: JobId,
        definition: Definition,
        hash: Bytes,
        enabled: Option<bool>,
    ) -> Result<Reply, Halt> {
        let mut job = self.full_or_promoted(id)?;
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
        let compiled = Schedule::compile(
            &spec::schedule_spec(&definition),
            &identity(&definition, id),
            self.now,
        )
        .map_err(|error| Rejection {
            kind: RejectionKind::Invalid,
            code: error.code,
            message: error.message,
        })?;
        let new_schedule = definition.schedule != job.definition.schedule;
        self.delete_tags(&job.definition.clone(), id);
        self.put_tags(&definition, id);
        self.class_for(&definition);
        job.row.definition = record::encode(&definition);
        job.row.updated_ms = self.now.0;
        job.row.revision += 1;
        job.row.hash = hash;
        job.definition = definition;
        if new_schedule {
            // The phase of the old schedule has no meaning for the new one.
            job.row.anchor_ms = self.now.0;
            job.state.scheduled_runs = 0;
            job.state.held = false;
            self.unplan_tick(&mut job);
            job.state.next_ms =
                compiled.is_once().or_else(|| compiled.next_after(self.now)).map(|t| t.0);
            job.state.ended = job.state.next_ms.is_none();
        }
        match (enabled, job.state.paused.is_some()) {
            (Some(false), false) => {
                job.state.paused = Some(self.mark(actor, None, "disabled by an edit"));
                self.unplan_tick(&mut job);
            }
            (Some(true), true) => self.unpause(&mut job)?,
            (_, false) if new_schedule => {
                let next = job.state.next_ms.map(crate::time::Time);
                self.plan_tick(&mut job, next, &compiled);
            }
            _ => {}
        }
        self.put_job(&job);
        self.put_state(&job);
        self.note_job(actor, "job.replace", id, namespace_name(&job.definition), "");
        if job.state.paused.is_none() {
            let parked = self.memory.parked_by_job.remove(&id);
            self.unpark(parked)?;
        }
        Ok(Reply::Done)
    }
}
