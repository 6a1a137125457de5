//! Batches: `/v1/batches`.
//!
//! Where a method takes a `batch`, that is an id, or a key of the client's namespace. Creating many
//! jobs of which each has a time of its own is another thing: see [`Client::create_jobs`].

use bellwether_api::{Batch, CancelRequest, NewBatch, Page, Run};
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;

use crate::{BatchRunFilter, Client, ClientError, PageFilter, pages};

/// A batch that was to be created.
#[derive(Clone, Debug)]
pub struct CreatedBatch {
    /// Whether it was created now; false if it was there already, with the same key and content.
    pub new: bool,
    /// The batch.
    pub batch: Batch,
}

impl Client {
    /// Creates a batch whose items are at hand. All of them are accepted, or none. However long it
    /// takes to send them, it is waited for.
    ///
    /// # Errors
    /// A problem with the code `key_exists` if there is a batch with this key and other content; one
    /// that names the item if an item is not valid.
    pub async fn create_batch(&self, batch: NewBatch) -> Result<CreatedBatch, ClientError> {
        let request = self.request(Method::POST, &["v1", "batches"], &Vec::new())?;
        let request = request.json(&self.placed_batch(batch))?;
        let (status, batch) = self.json_however_long(request).await?;
        Ok(CreatedBatch { new: status == 201, batch })
    }

    /// Creates a batch whose items come as lines (NDJSON), an item each, or whole jobs if `head` has
    /// no template. They are sent as they come, so that a million of them need little memory; where
    /// one piece ends and the next begins does not matter. In problems, `head` is line 1.
    ///
    /// # Errors
    /// As for [`Client::create_batch`]; [`ClientError::Interrupted`] with the reason that the stream
    /// gave, if it ends with an error. Then nothing is created.
    pub async fn create_batch_lines<S, E>(
        &self,
        head: NewBatch,
        lines: S,
    ) -> Result<CreatedBatch, ClientError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    {
        let mut first = serde_json::to_vec(&self.placed_batch(head)).map_err(|error| {
            ClientError::Setup(format!("the request cannot be written: {error}"))
        })?;
        first.push(b'\n');
        let body = stream::iter([Ok(Bytes::from(first))]).chain(lines);
        let request = self
            .request(Method::POST, &["v1", "batches"], &Vec::new())?
            .header(CONTENT_TYPE, "application/x-ndjson")
            .stream(body);
        let (status, batch) = self.json_however_long(request).await?;
        Ok(CreatedBatch { new: status == 201, batch })
    }

    /// A batch and how far it is.
    ///
    /// # Errors
    /// A problem with status 404 if there is none.
    pub async fn batch(&self, batch: &str) -> Result<Batch, ClientError> {
        self.get(&["v1", "batches", batch], &self.scope()).await
    }

    /// A page of batches, newest first.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn batches(&self, filter: &PageFilter) -> Result<Page<Batch>, ClientError> {
        self.get(&["v1", "batches"], &filter.query(self.namespace())).await
    }

    /// All batches, newest first, fetched page by page.
    pub fn batches_all(
        &self,
        filter: PageFilter,
    ) -> impl Stream<Item = Result<Batch, ClientError>> + Send + use<> {
        let client = self.clone();
        pages::all(filter, move |filter| {
            let client = client.clone();
            async move { client.batches(&filter).await }
        })
    }

    /// Cancels a batch: what has not begun never does, what is with workers is stopped. The batch
    /// as it is now; it may take a while until all has stopped.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such batch, 409 if it is over.
    pub async fn cancel_batch(
        &self,
        batch: &str,
        request: &CancelRequest,
    ) -> Result<Batch, ClientError> {
        self.post(&["v1", "batches", batch, "cancel"], &self.scope(), request).await
    }

    /// A page of a batch's runs, newest first. Items that have yet to be begun have none.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such batch.
    pub async fn batch_runs(
        &self,
        batch: &str,
        filter: &BatchRunFilter,
    ) -> Result<Page<Run>, ClientError> {
        self.get(&["v1", "batches", batch, "runs"], &filter.query(self.namespace())).await
    }

    /// All runs of a batch, newest first, fetched page by page.
    pub fn batch_runs_all(
        &self,
        batch: &str,
        filter: BatchRunFilter,
    ) -> impl Stream<Item = Result<Run, ClientError>> + Send + use<> {
        let (client, batch) = (self.clone(), batch.to_owned());
        pages::all(filter, move |filter| {
            let (client, batch) = (client.clone(), batch.clone());
            async move { client.batch_runs(&batch, &filter).await }
        })
    }

    /// A batch in the client's namespace, unless it says another.
    fn placed_batch(&self, mut batch: NewBatch) -> NewBatch {
        if batch.namespace.is_none() {
            batch.namespace.clone_from(&self.namespace);
        }
        batch
    }
}
