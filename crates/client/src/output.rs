//! What runs print, as it is or as it comes: `/v1/runs/{run}/output`.

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use reqwest::Method;

use crate::{Client, ClientError, OutputFilter};

impl Client {
    /// What a run has printed, in pieces of bytes. With `follow` the stream goes on while the run
    /// does, and ends when it has ended.
    ///
    /// # Errors
    /// A problem with status 404 if there is no such run; within the stream, if the connection
    /// breaks.
    pub async fn output(
        &self,
        run: &str,
        filter: OutputFilter,
    ) -> Result<impl Stream<Item = Result<Bytes, ClientError>> + Send + use<>, ClientError> {
        let request = self.request(Method::GET, &["v1", "runs", run, "output"], &filter.query())?;
        let response = self.send(request).await?;
        let server = self.server().to_owned();
        let pieces = response.bytes_stream();
        Ok(pieces.map_err(move |error| ClientError::from_http(&server, &error)))
    }
}
