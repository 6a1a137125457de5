//! What happens to runs, as it happens: `/v1/events`, server-sent events.

use bellwether_api::LiveEvent;
use futures::{Stream, StreamExt};
use reqwest::Method;
use reqwest::header::ACCEPT;

use crate::lines::Lines;
use crate::{Client, ClientError, EventFilter};

impl Client {
    /// What happens from now on. The stream ends when the server stops; a listener that is too
    /// slow misses events.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached; within the stream, if the connection breaks or
    /// an event is not understood.
    pub async fn events(
        &self,
        filter: &EventFilter,
    ) -> Result<impl Stream<Item = Result<LiveEvent, ClientError>> + Send + use<>, ClientError>
    {
        let query = filter.query(self.namespace());
        let request = self
            .request(Method::GET, &["v1", "events"], &query)?
            .header(ACCEPT, "text/event-stream");
        let response = self.send(request).await?;
        let url = response.url().to_string();
        let client = self.clone();
        let lines = Lines::new(response.bytes_stream());
        let parser = Parser { url, data: String::new() };
        Ok(lines
            .scan(parser, |parser, line| futures::future::ready(Some(parser.line(line))))
            .filter_map(move |event| {
                let event = match event {
                    Ok(event) => event.map(Ok),
                    Err(Fault::Http(error)) => Some(Err(client.failed(&error))),
                    Err(Fault::Answer(error)) => Some(Err(error)),
                };
                futures::future::ready(event)
            }))
    }
}

/// What can be wrong with a stream of events.
enum Fault {
    Http(reqwest::Error),
    Answer(ClientError),
}

/// Puts the lines of server-sent events together.
struct Parser {
    url: String,
    data: String,
}

impl Parser {
    /// Takes a line; an empty one ends an event. Comments and fields other than `data` are passed.
    fn line(&mut self, line: Result<String, reqwest::Error>) -> Result<Option<LiveEvent>, Fault> {
        let line = line.map_err(Fault::Http)?;
        if let Some(data) = line.strip_prefix("data:") {
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
            return Ok(None);
        }
        if !line.is_empty() || self.data.is_empty() {
            return Ok(None);
        }
        let data = std::mem::take(&mut self.data);
        serde_json::from_str(&data).map(Some).map_err(|error| {
            let reason = error.to_string();
            Fault::Answer(ClientError::Answer { url: self.url.clone(), reason })
        })
    }
}
