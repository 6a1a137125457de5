//! What is there, for whoever asks for one thing, and what has become of a job by a change.
//!
//! Rows of another node's replica are not all from one moment, so what moves in between is looked for again.
//!
//! A change has been made by the time its job is shown. A node whose replica is behind, that reaches none, or that finds that somebody
//! else has deleted the job meanwhile, must not answer as if it had not: `job_not_found` and `no_leader` say that
//! nothing has happened. If it cannot show the job, it says `outcome_unknown`. It changes nothing itself.

use bellwether_api::Job;
use bellwether_core::id::JobId;
use bellwether_core::read::{self, StoredJob};
use bellwether_core::waist::{StoreError, View};

use super::answer::Answer;
use super::present;
use crate::node::Node;
use crate::shard::Failure;

/// How often one thing is looked for in replicas of other nodes.
const LOOKS: usize = 3;

/// What `look` finds. A one-off job that is changed for the first time while rows of another node are read, or a run that
/// ends, is found neither where it was stored before nor where it is stored now. That happens to one thing once or
/// twice, so whoever looks again finds it.
pub fn looked_for<T>(
    node: &Node,
    look: impl Fn(&dyn View) -> Result<Option<T>, StoreError>,
) -> Result<Option<T>, StoreError> {
    for _ in 1..LOOKS {
        let view = node.view();
        let found = look(&*view)?;
        if found.is_some() || !view.is_far() {
            return Ok(found);
        }
    }
    look(&*node.view())
}

/// The job after a change, which it shows if it is what `shows` says.
pub async fn changed(
    node: &Node,
    job: JobId,
    shows: impl Fn(&StoredJob) -> bool,
    warnings: Vec<String>,
) -> Answer<Job> {
    let look = |view: &dyn View| match seen(view, job, &shows, &warnings) {
        Ok(seen) => seen,
        Err(error) => {
            tracing::debug!(%job, %error, "a job that was changed cannot be read");
            None
        }
    };
    if let Some(job) = look(&*node.view()) {
        return Ok(job);
    }
    if let Ok(view) = node.view_of(job.shard()).await
        && let Some(job) = look(&*view)
    {
        return Ok(job);
    }
    Err(Failure::Unknown(job.shard()).into())
}

fn seen(
    view: &dyn View,
    job: JobId,
    shows: impl Fn(&StoredJob) -> bool,
    warnings: &[String],
) -> Result<Option<Job>, StoreError> {
    let stored = read::job(view, job)?.filter(shows);
    stored.map(|job| present::job(view, &job, warnings.to_vec())).transpose()
}
