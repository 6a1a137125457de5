//! Queues and workers: `/v1/queues`, `/v1/workers`.

use bellwether_api::{Gathered, Queue, QueueSpec};
use reqwest::Method;

use crate::{Client, ClientError};

impl Client {
    /// Queues that have bounds, or runs that wait or are under way.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn queues(&self) -> Result<Gathered<Queue>, ClientError> {
        self.get(&["v1", "queues"], &Vec::new()).await
    }

    /// Sets bounds of a queue. What is absent stays as it is.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn put_queue(&self, queue: &str, spec: &QueueSpec) -> Result<Queue, ClientError> {
        let path = ["v1", "queues", queue];
        let request = self.request(Method::PUT, &path, &Vec::new())?.json(spec)?;
        Ok(self.json(request).await?.1)
    }

    /// Makes a worker take nothing more, finish what it has, and end.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn drain_worker(&self, worker: &str) -> Result<(), ClientError> {
        let request =
            self.request(Method::POST, &["v1", "workers", worker, "drain"], &Vec::new())?;
        self.bytes(request).await.map(|_| ())
    }
}
