//! Making the server's jobs what a list says, by key: for `apply` and `crontab import`.
//!
//! First a plan (which jobs are new, changed or as wanted), then its execution. A job that is as
//! wanted is not sent, so that doing it twice changes nothing. Nothing here deletes.

use anyhow::{Context as _, Result};
use bellwether_api::{Job, JobSpec};
use bellwether_client::{Client, ClientError};
use futures::{StreamExt, TryStreamExt, stream};

use crate::show::{now, progress};
use crate::spec::{Change, Difference, canonical, difference};
use crate::words;

/// Requests under way at once.
const AT_ONCE: usize = 16;

/// A job that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What it is looked for by: its key, or the id of one that has none.
    pub name: String,
    /// Where it was read, for messages.
    pub place: String,
    /// What it should be.
    pub spec: JobSpec,
}

/// A job that is wanted, and how it stands to what is there.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its key, or the id of one that has none.
    pub name: String,
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

/// Compares wanted jobs with the server's. All must have different names.
///
/// # Errors
/// If a job is not valid or the server cannot be asked.
pub async fn plan(client: &Client, wanted: Vec<Wanted>) -> Result<Vec<Planned>> {
    let bar = progress(wanted.len(), "comparing");
    let planned: Vec<Planned> = stream::iter(wanted)
        .map(|wanted| async {
            let planned = plan_one(client, wanted).await;
            bar.inc(1);
            planned
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    bar.finish_and_clear();
    Ok(planned)
}

async fn plan_one(client: &Client, wanted: Wanted) -> Result<Planned> {
    let Wanted { name, place, mut spec } = wanted;
    if spec.namespace.is_none() {
        spec.namespace = client.namespace().map(str::to_owned);
    }
    let mut canonical = canonical(&spec, now()).context(place)?;
    let there = match client.in_namespace(spec.namespace.as_deref()).job(&name).await {
        Ok(job) => Some(job),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    if let (None, Some(there)) = (&spec.namespace, &there) {
        // Nobody named a namespace: the server took the token's, or the default one.
        canonical.namespace.clone_from(&there.spec.namespace);
    }
    let difference = difference(&canonical, there.as_ref())?;
    Ok(Planned { name, spec, difference, there })
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
    match client.put_job(&planned.name, planned.spec.clone()).await {
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
            Difference::Changed(_) => ("change", self.changes()),
            Difference::SameButSecrets => {
                ("unchanged", "secrets cannot be compared and are sent again".to_owned())
            }
            Difference::Same => ("unchanged", String::new()),
        }
    }

    /// What differs, in a line.
    fn changes(&self) -> String {
        let changes: &[Change] = match &self.difference {
            Difference::Changed(changes) => changes,
            _ => &[],
        };
        changes.iter().map(Change::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl Outcome {
    /// What happened, in a word and a remark.
    pub fn words(&self, planned: &Planned) -> (&'static str, String) {
        match self {
            Outcome::Created => ("created", String::new()),
            Outcome::Changed => ("changed", planned.changes()),
            Outcome::Unchanged => ("unchanged", String::new()),
            Outcome::Refused(error) => ("refused", words::of(error)),
        }
    }
}
