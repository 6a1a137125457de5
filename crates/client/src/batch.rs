//! Creating many jobs with one request: `/v1/jobs:batch`.

use bellwether_api::{BatchAnswer, JobSpec};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;

use crate::{Client, ClientError};

/// The most jobs a server takes with one request.
pub(crate) const BATCH_MAX: usize = 10_000;

impl Client {
    /// Creates many jobs, each accepted or refused on its own: the answer has a result per job, in
    /// order. Sent as NDJSON; at most 10,000 at once.
    ///
    /// # Errors
    /// If the batch as a whole is refused or the server cannot be reached.
    pub async fn create_jobs(&self, specs: &[JobSpec]) -> Result<BatchAnswer, ClientError> {
        if specs.len() > BATCH_MAX {
            return Err(ClientError::Setup(format!(
                "a batch of {} jobs is too large; send at most {BATCH_MAX} at once",
                specs.len()
            )));
        }
        let mut body = Vec::new();
        for spec in specs {
            let spec = self.placed(spec.clone());
            serde_json::to_writer(&mut body, &spec).map_err(|error| {
                ClientError::Setup(format!("the request cannot be written: {error}"))
            })?;
            body.push(b'\n');
        }
        self.create_jobs_ndjson(body).await
    }

    /// Creates many jobs from NDJSON as it stands: one job per line. For callers that have it at
    /// hand or want to save themselves the types.
    ///
    /// # Errors
    /// If the batch as a whole is refused or the server cannot be reached.
    pub async fn create_jobs_ndjson(
        &self,
        lines: impl Into<bytes::Bytes>,
    ) -> Result<BatchAnswer, ClientError> {
        let request = self
            .request(Method::POST, &["v1", "jobs:batch"], &Vec::new())?
            .header(CONTENT_TYPE, "application/x-ndjson")
            .body(lines);
        Ok(self.json(request).await?.1)
    }
}
