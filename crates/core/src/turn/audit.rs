//! The audit log: who changed what, written in the same batch as the change.

use super::Turn;
use crate::id::JobId;
use crate::key;
use crate::record::{self, Audit};
use crate::waist::Family;

impl Turn<'_> {
    /// Notes a change.
    pub(super) fn note(&mut self, entry: Audit) {
        let (time, sequence) = self.memory.audit_sequence;
        let (time, sequence) = if self.now > time { (self.now, 0) } else { (time, sequence + 1) };
        self.memory.audit_sequence = (time, sequence);
        let key = key::audit(self.memory.shard, time, sequence);
        self.store.put(Family::Audit, key, record::encode(&entry));
    }

    /// Notes a change of one job.
    pub(super) fn note_job(
        &mut self,
        actor: &str,
        action: &str,
        job: JobId,
        ns: &str,
        detail: &str,
    ) {
        self.note(Audit {
            actor: actor.to_owned(),
            action: action.to_owned(),
            subject: job.to_string(),
            namespace: ns.to_owned(),
            detail: detail.to_owned(),
            jobs: Vec::new(),
        });
    }
}
