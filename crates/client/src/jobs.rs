//! Jobs: `/v1/jobs`.
//!
//! Where a method takes a `job`, that is an id, or a key of the client's namespace.

use bellwether_api::{
    Instant, Job, JobSpec, MaintenanceRequest, NextTimes, Page, PauseRequest, Run, RunAnswer, Tick,
    Why,
};
use futures::Stream;
use reqwest::Method;

use crate::{Client, ClientError, JobFilter, PageFilter, pages};

/// A job that was to be created.
#[derive(Clone, Debug)]
pub struct Created {
    /// Whether it was created now; false if it was there already, with the same key and body.
    pub new: bool,
    /// The job.
    pub job: Job,
}

/// A job that was to be created or replaced.
#[derive(Clone, Debug)]
pub struct Put {
    /// Whether it was created now; false if there was one with this key.
    pub new: bool,
    /// The job.
    pub job: Job,
}

impl Client {
    /// Creates a job. With a key this can be repeated: the same body again changes nothing.
    ///
    /// # Errors
    /// A problem with the code `key_exists` if there is a job with this key and another body.
    pub async fn create_job(&self, spec: JobSpec) -> Result<Created, ClientError> {
        let spec = self.placed(spec);
        let request = self.request(Method::POST, &["v1", "jobs"], &Vec::new())?.json(&spec)?;
        let (status, job) = self.json(request).await?;
        Ok(Created { new: status == 201, job })
    }

    /// Creates the job with a key, or replaces it.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn put_job(&self, key: &str, spec: JobSpec) -> Result<Put, ClientError> {
        let spec = self.placed(spec);
        let query = spec.namespace.iter().map(|name| ("namespace", name.clone())).collect();
        let request = self.request(Method::PUT, &["v1", "jobs", key], &query)?.json(&spec)?;
        let (status, job) = self.json(request).await?;
        Ok(Put { new: status == 201, job })
    }

    /// Changes parts of a job: a JSON merge patch (RFC 7396), in which `null` takes a field away.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn patch_job(
        &self,
        job: &str,
        patch: &serde_json::Value,
    ) -> Result<Job, ClientError> {
        let request = self.request(Method::PATCH, &["v1", "jobs", job], &self.scope())?;
        Ok(self.json(request.json(patch)?).await?.1)
    }

    /// A job.
    ///
    /// # Errors
    /// A problem with status 404 if there is none.
    pub async fn job(&self, job: &str) -> Result<Job, ClientError> {
        self.get(&["v1", "jobs", job], &self.scope()).await
    }

    /// Deletes a job with all that belongs to it.
    ///
    /// # Errors
    /// A problem with status 404 if there is none.
    pub async fn delete_job(&self, job: &str) -> Result<(), ClientError> {
        self.delete(&["v1", "jobs", job], &self.scope()).await
    }

    /// A page of jobs.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn jobs(&self, filter: &JobFilter) -> Result<Page<Job>, ClientError> {
        self.get(&["v1", "jobs"], &filter.query(self.namespace())).await
    }

    /// All jobs, fetched page by page.
    pub fn jobs_all(
        &self,
        filter: JobFilter,
    ) -> impl Stream<Item = Result<Job, ClientError>> + Send + use<> {
        let client = self.clone();
        pages::all(filter, move |filter| {
            let client = client.clone();
            async move { client.jobs(&filter).await }
        })
    }

    /// Keeps a job from being launched until it is resumed.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such job.
    pub async fn pause_job(&self, job: &str, request: &PauseRequest) -> Result<Job, ClientError> {
        self.post(&["v1", "jobs", job, "pause"], &self.scope(), request).await
    }

    /// Ends a job's pause and its maintenance.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such job.
    pub async fn resume_job(&self, job: &str) -> Result<Job, ClientError> {
        self.post(&["v1", "jobs", job, "resume"], &self.scope(), &serde_json::json!({})).await
    }

    /// Puts a job into maintenance: nothing is launched, and nobody is alarmed.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such job.
    pub async fn maintain_job(
        &self,
        job: &str,
        request: &MaintenanceRequest,
    ) -> Result<Job, ClientError> {
        self.post(&["v1", "jobs", job, "maintenance"], &self.scope(), request).await
    }

    /// Runs a job now, besides its schedule. The run's id.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such job, 409 if it cannot run now.
    pub async fn trigger_job(&self, job: &str) -> Result<String, ClientError> {
        Ok(self.trigger(job).await?.run_id)
    }

    /// Runs a job now, besides its schedule. The ids of all its runs: several if it runs on all
    /// workers.
    ///
    /// # Errors
    /// As with [`Client::trigger_job`].
    pub async fn trigger_job_runs(&self, job: &str) -> Result<Vec<String>, ClientError> {
        let answer = self.trigger(job).await?;
        Ok(if answer.run_ids.is_empty() { vec![answer.run_id] } else { answer.run_ids })
    }

    async fn trigger(&self, job: &str) -> Result<RunAnswer, ClientError> {
        let path = ["v1", "jobs", job, "trigger"];
        self.post(&path, &self.scope(), &serde_json::json!({})).await
    }

    /// The next times of a job.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such job.
    pub async fn next_times(&self, job: &str, count: u32) -> Result<NextTimes, ClientError> {
        let mut query = self.scope();
        query.push(("count", count.to_string()));
        self.get(&["v1", "jobs", job, "next"], &query).await
    }

    /// A page of a job's runs, newest first.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such job.
    pub async fn job_runs(&self, job: &str, filter: &PageFilter) -> Result<Page<Run>, ClientError> {
        self.get(&["v1", "jobs", job, "runs"], &filter.query(self.namespace())).await
    }

    /// All runs of a job, newest first, fetched page by page.
    pub fn job_runs_all(
        &self,
        job: &str,
        filter: PageFilter,
    ) -> impl Stream<Item = Result<Run, ClientError>> + Send + use<> {
        let (client, job) = (self.clone(), job.to_owned());
        pages::all(filter, move |filter| {
            let (client, job) = (client.clone(), job.clone());
            async move { client.job_runs(&job, &filter).await }
        })
    }

    /// A page of a job's ledger: what became of its ticks.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such job.
    pub async fn ticks(&self, job: &str, filter: &PageFilter) -> Result<Page<Tick>, ClientError> {
        self.get(&["v1", "jobs", job, "ticks"], &filter.query(self.namespace())).await
    }

    /// A job's whole ledger, fetched page by page.
    pub fn ticks_all(
        &self,
        job: &str,
        filter: PageFilter,
    ) -> impl Stream<Item = Result<Tick, ClientError>> + Send + use<> {
        let (client, job) = (self.clone(), job.to_owned());
        pages::all(filter, move |filter| {
            let (client, job) = (client.clone(), job.clone());
            async move { client.ticks(&job, &filter).await }
        })
    }

    /// Why a job did or did not run, lately or around an instant, in words.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such job.
    pub async fn why(&self, job: &str, at: Option<Instant>) -> Result<Why, ClientError> {
        let mut query = self.scope();
        query.extend(at.map(|at| ("at", at.to_string())));
        self.get(&["v1", "jobs", job, "why"], &query).await
    }

    /// A job in the client's namespace, unless it says another.
    pub(crate) fn placed(&self, mut spec: JobSpec) -> JobSpec {
        if spec.namespace.is_none() {
            spec.namespace.clone_from(&self.namespace);
        }
        spec
    }
}
