//! What happens to runs, as it happens: `/v1/events`, server-sent events.

use bellwether_api::LiveEvent;
use futures::{Stream, StreamExt, TryStreamExt};
use reqwest::Method;
use reqwest::header::ACCEPT;

use crate::lines::Lines;
use crate::{Client, ClientError, EventFilter};

/// What a listener hears.
#[derive(Clone, Debug)]
pub enum Heard {
    /// Something happened to a run.
    Event(Box<LiveEvent>),
    /// So many events were not heard, because the listener was too slow; 0 if a node of the cluster
    /// could not be heard for a while, and nobody knows how many.
    Missed(u64),
}

impl Client {
    /// What happens from now on. The stream ends when the server stops.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached; within the stream, if the connection breaks or
    /// an event is not understood.
    pub async fn events(
        &self,
        filter: &EventFilter,
    ) -> Result<impl Stream<Item = Result<Heard, ClientError>> + Send + use<>, ClientError> {
        let query = filter.query(self.namespace());
        let request = self.request(Method::GET, &["v1", "events"], &query)?;
        let response = self.send(request.header(ACCEPT, "text/event-stream")).await?;
        let mut parser =
            Parser { url: response.url().to_string(), name: String::new(), data: String::new() };
        let server = self.server().to_owned();
        let lines = Lines::new(response.bytes_stream());
        let lines = lines.map_err(move |error| ClientError::from_http(&server, &error));
        Ok(lines.filter_map(move |line| {
            let heard = line.and_then(|line| parser.line(&line)).transpose();
            futures::future::ready(heard)
        }))
    }
}

/// Puts the lines of server-sent events together.
struct Parser {
    url: String,
    name: String,
    data: String,
}

impl Parser {
    /// Takes a line; an empty one ends an event. Comments and other fields are passed over.
    fn line(&mut self, line: &str) -> Result<Option<Heard>, ClientError> {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                Ok(None)
            }
            "event" => {
                value.clone_into(&mut self.name);
                Ok(None)
            }
            "" if line.is_empty() => self.end(),
            _ => Ok(None),
        }
    }

    fn end(&mut self) -> Result<Option<Heard>, ClientError> {
        let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        if data.is_empty() {
            return Ok(None);
        }
        let heard = if name == "missed" {
            serde_json::from_str(&data).map(Heard::Missed)
        } else {
            serde_json::from_str(&data).map(Heard::Event)
        };
        heard.map(Some).map_err(|error| {
            let reason = format!("event '{name}': {error}");
            ClientError::Answer { url: self.url.clone(), reason }
        })
    }
}
