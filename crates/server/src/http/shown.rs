//! What has become of a job by a change, for whoever asked for it.
//!
//! The change has been made by then. A node whose replica is behind, that reaches none, or that finds that somebody
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
