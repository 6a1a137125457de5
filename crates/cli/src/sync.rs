//! Making the server's jobs what a list says, by key: for `apply` and `crontab import`.
//!
//! First a plan (which jobs are new, changed or as wanted), then its execution. A job that is as
//! wanted is not sent, so that doing it twice changes nothing. Nothing here deletes.

use anyhow::{Context as _, Result};
use bellwether_api::{Job, JobSpec};
use bellwether_client::{Client, ClientError};
use futures::{StreamExt, TryStreamExt, stream};

use crate::exit::usage;
use crate::show::{now, progress};
use crate::spec::{Difference, canonical, difference};

/// Requests under way at once.
const AT_ONCE: usize = 16;

/// A job that is wanted, and how it stands to what is there.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its key.
    pub key: String,
    /// What is wanted.
    pub spec: JobSpec,
    /// How that differs.
    pub difference: Difference,
    /// What is there.
    pub there: Option<Job>,
}

/// What became of a job.
#[derive(Debug)]
pub enum Outcome {
    /// It was created.
    Created,
    /// It was replaced.
    Changed,
    /// It is as it was.
    Unchanged,
    /// It was refused.
    Refused(ClientError),
}

/// Compares wanted jobs with the server's. All must have different keys.
///
/// # Errors
/// If a job is not valid or the server cannot be asked.
pub async fn plan(client: &Client, specs: Vec<JobSpec>) -> Result<Vec<Planned>> {
    let bar = progress(specs.len(), "comparing");
    let planned: Vec<Planned> = stream::iter(specs)
        .map(|spec| async {
            let planned = plan_one(client, spec).await;
            bar.inc(1);
            planned
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    bar.finish_and_clear();
    Ok(planned)
}

async fn plan_one(client: &Client, mut spec: JobSpec) -> Result<Planned> {
    let key = spec.key.clone().ok_or_else(|| usage("every job needs a key"))?;
    if spec.namespace.is_none() {
        spec.namespace = client.namespace().map(str::to_owned);
    }
    let wanted = canonical(&spec, now()).with_context(|| format!("job '{key}'"))?;
    let there = match client.in_namespace(spec.namespace.as_deref()).job(&key).await {
        Ok(job) => Some(job),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    let difference = difference(&wanted, there.as_ref())?;
    Ok(Planned { key, spec, difference, there })
}

/// Carries a plan out; the outcomes are in its order.
pub async fn execute(client: &Client, planned: &[Planned]) -> Result<Vec<Outcome>> {
    let bar = progress(planned.len(), "applying");
    let outcomes = stream::iter(planned)
        .map(|planned| async {
            let outcome = execute_one(client, planned).await;
            bar.inc(1);
            outcome
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await;
    bar.finish_and_clear();
    outcomes
}

async fn execute_one(client: &Client, planned: &Planned) -> Result<Outcome> {
    if planned.difference == Difference::Same {
        return Ok(Outcome::Unchanged);
    }
    match client.put_job(&planned.key, planned.spec.clone()).await {
        Ok(put) if put.new => Ok(Outcome::Created),
        Ok(_) if planned.difference == Difference::SameButSecrets => Ok(Outcome::Unchanged),
        Ok(_) => Ok(Outcome::Changed),
        // What is wrong with one job is told in its place; without a server there is no point
        // in going on.
        Err(error @ ClientError::Problem(_)) if error.status() != Some(401) => {
            Ok(Outcome::Refused(error))
        }
        Err(error) => Err(error.into()),
    }
}

impl Planned {
    /// What would happen, in a word and a remark.
    pub fn words(&self) -> (&'static str, String) {
        match &self.difference {
            Difference::New => ("create", String::new()),
            Difference::Changed(fields) => ("change", fields.join(", ")),
            Difference::SameButSecrets => {
                ("unchanged", "secrets cannot be compared and are sent again".to_owned())
            }
            Difference::Same => ("unchanged", String::new()),
        }
    }
}

impl Outcome {
    /// What happened, in a word and a remark.
    pub fn words(&self) -> (&'static str, String) {
        match self {
            Outcome::Created => ("created", String::new()),
            Outcome::Changed => ("changed", String::new()),
            Outcome::Unchanged => ("unchanged", String::new()),
            Outcome::Refused(error) => ("refused", error.to_string()),
        }
    }
}
