//! The part of a batch that a shard has: members made, canceled, over.

use bytes::Bytes;

use super::super::{Halt, Reply, Turn};
use crate::id::{BatchId, JobId, RunId};
use crate::key::{self, DueKey, DueKind};
use crate::record::{self, Definition, Filed, OneOff, Rule, RuleForm, Schedule};
use crate::waist::{Family, StoreError};

/// Members that are canceled in one step.
const STEP: usize = 500;

impl Turn<'_> {
    /// Makes the members of a chunk, unless that has been done. They wait for a worker at once.
    pub(super) fn members(
        &mut self,
        batch: BatchId,
        chunk: u32,
        definitions: Vec<Definition>,
    ) -> Result<Reply, Halt> {
        let part = self.part(batch)?;
        if part.closed || chunk < part.next_chunk {
            return Ok(Reply::Done);
        }
        part.next_chunk = chunk + 1;
        part.members += definitions.len() as u64;
        self.memory.tally.created += definitions.len() as u64;
        for definition in definitions {
            self.make_member(batch, definition)?;
        }
        Ok(Reply::Done)
    }

    fn make_member(
        &mut self,
        batch: BatchId,
        mut definition: Definition,
    ) -> Result<(), StoreError> {
        let id = self.memory.ids.next(self.now);
        // No caller can say that of a batch: it came out of a backup.
        let held = std::mem::take(&mut definition.disabled);
        let now = Rule { form: Some(RuleForm::AtMs(self.now.0)) };
        definition.schedule = Some(Schedule { any: vec![now], ..Schedule::default() });
        let class = self.class_for(&definition);
        let job = OneOff {
            definition: record::encode(&definition),
            scheduled_ms: self.now.0,
            created_ms: self.now.0,
            class: u32::from(class),
            hash: Bytes::new(),
            batch: batch.0,
        };
        let filed = Filed { time_ms: self.now.0, class: u32::from(class) };
        self.store.put(Family::Index, key::job(id), record::encode(&filed));
        self.put_tags(&definition, batch.0, id);
        let entry = DueKey { time: self.now, kind: DueKind::OneOff, job: id, n: 0 };
        if held { self.make_held_member(entry, job) } else { self.due_one_off(entry, job) }
    }

    pub(super) fn cancel_members(&mut self, batch: BatchId, actor: &str) -> Result<Reply, Halt> {
        let part = self.part(batch)?;
        part.closed = true;
        let after = JobId(part.canceled_upto);
        let range = key::batch_members_above(self.memory.shard, batch, after);
        let members = self.store.scan(Family::Tag, &range, STEP)?;
        let mut last = after;
        for (key, _) in &members {
            last = key::read_held(key)?;
            match self.cancel_run(RunId { job: last, n: 1 }, actor) {
                // One that has ended stays as it is.
                Ok(()) | Err(Halt::Rejected(_)) => {}
                Err(error @ Halt::Store(_)) => return Err(error),
            }
        }
        let more = members.len() == STEP;
        let part = self.part(batch)?;
        part.canceled_upto = last.0;
        part.canceled_all = !more;
        Ok(Reply::More(more))
    }

    pub(super) fn end_part(&mut self, batch: BatchId, keep_ms: u64) -> Result<Reply, Halt> {
        let now = self.now.0;
        let part = self.part(batch)?;
        if part.ended_ms == 0 {
            part.ended_ms = now;
            self.plan_forgetting(batch, keep_ms);
        }
        Ok(Reply::Done)
    }

    /// Triggers a job because a batch is over, unless that has been done.
    pub(super) fn complete(&mut self, batch: BatchId, job: JobId) -> Result<Reply, Halt> {
        let done = self.part(batch)?.completion;
        if done != 0 {
            return Ok(Reply::Run(RunId { job, n: done }));
        }
        let reply = self.trigger(&batch.to_string(), job)?;
        if let Reply::Run(run) | Reply::Runs(run, _) = reply {
            self.part(batch)?.completion = run.n;
        }
        Ok(reply)
    }
}
