//! Runs: `/v1/runs`.

use bellwether_api::{Page, Run, RunAnswer, RunEvent};
use futures::Stream;

use crate::{Client, ClientError, RunFilter, pages};

impl Client {
    /// A run.
    ///
    /// # Errors
    /// A problem with status 404 if there is none.
    pub async fn run(&self, run: &str) -> Result<Run, ClientError> {
        self.get(&["v1", "runs", run], &Vec::new()).await
    }

    /// A page of runs across jobs, newest first.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn runs(&self, filter: &RunFilter) -> Result<Page<Run>, ClientError> {
        self.get(&["v1", "runs"], &filter.query(self.namespace())).await
    }

    /// All runs across jobs, fetched page by page.
    pub fn runs_all(
        &self,
        filter: RunFilter,
    ) -> impl Stream<Item = Result<Run, ClientError>> + Send + use<> {
        let client = self.clone();
        pages::all(filter, move |filter| {
            let client = client.clone();
            async move { client.runs(&filter).await }
        })
    }

    /// What happened to a run, oldest first.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such run.
    pub async fn run_events(&self, run: &str) -> Result<Page<RunEvent>, ClientError> {
        self.get(&["v1", "runs", run, "events"], &Vec::new()).await
    }

    /// Cancels a run: it is not started, or its whole process tree is stopped.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such run, 409 if it has ended.
    pub async fn cancel_run(&self, run: &str) -> Result<String, ClientError> {
        let path = ["v1", "runs", run, "cancel"];
        let answer: RunAnswer = self.post(&path, &Vec::new(), &serde_json::json!({})).await?;
        Ok(answer.run_id)
    }

    /// Gives a run that has ended badly another go. The run's id.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such run, 409 if it cannot be retried.
    pub async fn retry_run(&self, run: &str) -> Result<String, ClientError> {
        let path = ["v1", "runs", run, "retry"];
        let answer: RunAnswer = self.post(&path, &Vec::new(), &serde_json::json!({})).await?;
        Ok(answer.run_id)
    }
}
