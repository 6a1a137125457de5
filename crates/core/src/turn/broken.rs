//! Jobs whose stored schedule no longer compiles.
//!
//! Every schedule compiled when it was stored. A later version may know one zone less or be
//! stricter about a rule. That is the trouble of this one job: it is paused with a mark that says
//! why, and the shard goes on. Its next tick is not forgotten. A new schedule ends the pause; so
//! does resuming, once a version runs under which the old schedule compiles again.

use super::job::FullJob;
use super::{Effect, HeldJob, Rejection, Turn, namespace_name, queue_name};
use crate::schedule::ScheduleError;

/// The word for it, in refusals and events.
const BROKEN: &str = "schedule_broken";
/// By whom such a pause is.
const SYSTEM: &str = "system";

/// What is wrong, for marks, logs and answers.
pub(crate) fn broken_in_words(error: &ScheduleError) -> String {
    format!("its schedule no longer compiles: {}", error.message)
}

/// Why a job cannot be resumed.
pub(super) fn still_broken(error: &ScheduleError) -> Rejection {
    let words = broken_in_words(error);
    Rejection::conflict(BROKEN, format!("{words}; give the job a new schedule"))
}

impl Turn<'_> {
    /// Pauses a job because its schedule does not compile. A pause that is there already stands.
    /// The state is not stored yet.
    pub(super) fn hold_broken(&mut self, job: &mut FullJob, error: &ScheduleError) {
        if job.state.paused.is_some() {
            return;
        }
        let why = broken_in_words(error);
        self.unplan_tick(job);
        job.state.paused = Some(self.mark(SYSTEM, None, &why));
        job.state.broken = true;
        self.note_job(SYSTEM, "job.hold", job.id, namespace_name(&job.definition), &why);
        self.effects.push(Effect::Held(Box::new(HeldJob {
            at: self.now,
            job: job.id,
            namespace: namespace_name(&job.definition).to_owned(),
            key: job.definition.key.clone(),
            queue: queue_name(&job.definition).to_owned(),
            reason: BROKEN.into(),
            why,
        })));
    }
}
