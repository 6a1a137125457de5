//! The client, and how all of its calls are made.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bellwether_api::{Problem, STALENESS_HEADER};
use bytes::Bytes;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Failed;
use crate::request::Request;
use crate::servers::{self, Round, Servers};
use crate::{ClientBuilder, ClientError};

/// How much of an answer that is no problem document is shown in an error.
const SHOWN_MAX: usize = 200;

/// A client of one server, or of several nodes of a cluster. Cheap to clone; connections are shared and
/// kept.
#[derive(Clone)]
pub struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) servers: Arc<Servers>,
    pub(crate) namespace: Option<String>,
    pub(crate) timeout: Duration,
    /// The most that a list was behind, in milliseconds, of all that were got.
    pub(crate) behind_ms: Arc<AtomicU64>,
}

/// Parameters of a request, as they stand in its URL.
pub(crate) type Query = Vec<(&'static str, String)>;

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token stays out.
        f.debug_struct("Client")
            .field("server", &self.server())
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server at `HOST:PORT` or a URL, without a token. Of a cluster several may be
    /// given, with commas between them: see [`ClientBuilder::server`].
    ///
    /// # Errors
    /// [`ClientError::Setup`] if that is no address.
    pub fn new(server: &str) -> Result<Client, ClientError> {
        Client::builder().server(server).build()
    }

    /// A client with more settings.
    #[must_use]
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The address requests go to; of several, the one that is asked first.
    #[must_use]
    pub fn server(&self) -> &str {
        servers::name(self.servers.first())
    }

    /// The namespace set for this client.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The same client for another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: Option<&str>) -> Client {
        Client { namespace: namespace.map(str::to_owned), ..self.clone() }
    }

    /// How far the lists that this client and its clones have got may be behind, at most: lists are made
    /// from what the replicas of a cluster show, and say how old that may be. Zero for all else.
    #[must_use]
    pub fn staleness(&self) -> Duration {
        Duration::from_millis(self.behind_ms.load(Ordering::Relaxed))
    }

    fn note_staleness(&self, response: &Response) {
        let stated = response.headers().get(STALENESS_HEADER);
        let stated = stated.and_then(|value| value.to_str().ok()?.parse().ok());
        self.behind_ms.fetch_max(stated.unwrap_or(0), Ordering::Relaxed);
    }

    /// The namespace as a parameter, if one is set.
    pub(crate) fn scope(&self) -> Query {
        self.namespace.iter().map(|namespace| ("namespace", namespace.clone())).collect()
    }

    pub(crate) fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &Query,
    ) -> Result<Request, ClientError> {
        Request::new(method, path, query)
    }

    /// Sends a request and gives the answer back, whose body is yet to come, if it is a success. The
    /// body may take any time, but not its beginning.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, ClientError> {
        let mut round = self.servers.round();
        let response = loop {
            let sending = self.send_to(&request, &round)?.send();
            let within = round.share(&request, self.timeout);
            match tokio::time::timeout(within, sending).await {
                Ok(Ok(response)) => break response,
                Ok(Err(error)) => round.failed(&request, Failed::from(&error))?,
                Err(_) => round.failed(&request, Failed::silent())?,
            }
        };
        round.answered();
        if response.status().is_success() {
            self.note_staleness(&response);
            return Ok(response);
        }
        let server = servers::name(round.server());
        let whole = Whole::read(response).await;
        Err(whole.map_or_else(|error| ClientError::from_http(server, &error), Whole::refusal))
    }

    /// Sends a request and gives the answer back when all of it is there, also if it is a refusal.
    pub(crate) async fn whole(&self, request: Request) -> Result<Whole, ClientError> {
        let mut round = self.servers.round();
        loop {
            let answer = match self.send_to(&request, &round)?.send().await {
                Ok(response) => {
                    self.note_staleness(&response);
                    Whole::read(response).await
                }
                Err(error) => Err(error),
            };
            match answer {
                Ok(whole) => {
                    round.answered();
                    return Ok(whole);
                }
                Err(error) => round.failed(&request, Failed::from(&error))?,
            }
        }
    }

    /// A request to the server whose turn it is, with the time that it may take.
    fn send_to(&self, request: &Request, round: &Round) -> Result<RequestBuilder, ClientError> {
        let builder = request.to(&self.http, round.server())?;
        Ok(match request.timeout {
            Some(timeout) => builder.timeout(round.share(request, timeout)),
            None => builder,
        })
    }

    /// Sends a request and gives back the status and the body as it is.
    pub(crate) async fn bytes(&self, request: Request) -> Result<(u16, Bytes), ClientError> {
        let whole = self.whole(request.timeout(self.timeout)).await?.if_success()?;
        Ok((whole.status.as_u16(), whole.body))
    }

    /// Sends a request and reads the JSON of the answer.
    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        request: Request,
    ) -> Result<(u16, T), ClientError> {
        self.json_however_long(request.timeout(self.timeout)).await
    }

    /// The same for a request that may take any time, such as one with very much to send.
    pub(crate) async fn json_however_long<T: DeserializeOwned>(
        &self,
        request: Request,
    ) -> Result<(u16, T), ClientError> {
        let Whole { status, url, body } = self.whole(request).await?.if_success()?;
        let value = serde_json::from_slice(&body)
            .map_err(|error| ClientError::Answer { url, reason: error.to_string() })?;
        Ok((status.as_u16(), value))
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query,
    ) -> Result<T, ClientError> {
        let request = self.request(Method::GET, path, query)?;
        Ok(self.json(request).await?.1)
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let request = self.request(Method::POST, path, query)?.json(body)?;
        Ok(self.json(request).await?.1)
    }

    pub(crate) async fn delete(&self, path: &[&str], query: &Query) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, path, query)?;
        self.bytes(request).await.map(|_| ())
    }
}

/// An answer, all of it.
pub(crate) struct Whole {
    pub(crate) status: StatusCode,
    url: String,
    pub(crate) body: Bytes,
}

impl Whole {
    async fn read(response: Response) -> Result<Whole, reqwest::Error> {
        let (status, url) = (response.status(), response.url().to_string());
        Ok(Whole { status, url, body: response.bytes().await? })
    }

    fn if_success(self) -> Result<Whole, ClientError> {
        if self.status.is_success() { Ok(self) } else { Err(self.refusal()) }
    }

    /// What an answer says that is no success.
    fn refusal(self) -> ClientError {
        let Whole { status, url, body } = self;
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => ClientError::Problem(Box::new(problem)),
            Err(_) => {
                let text = String::from_utf8_lossy(&body);
                let shown: String = text.trim().chars().take(SHOWN_MAX).collect();
                let reason = if shown.is_empty() {
                    format!("status {status}")
                } else {
                    format!("status {status}, '{shown}'")
                };
                ClientError::Answer { url, reason }
            }
        }
    }
}
