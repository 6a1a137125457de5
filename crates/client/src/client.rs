//! The client, and how all of its calls are made.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bellwether_api::{Problem, STALENESS_HEADER};
use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{ClientBuilder, ClientError};

/// How much of an answer that is no problem document is shown in an error.
const SHOWN_MAX: usize = 200;

/// A client of one server. Cheap to clone; connections are shared and kept.
#[derive(Clone)]
pub struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) base: Url,
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
            .field("server", &self.base.as_str())
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server at `HOST:PORT` or a URL, without a token.
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

    /// The address requests go to.
    #[must_use]
    pub fn server(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
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

    /// The URL of a path, each segment escaped.
    pub(crate) fn url(&self, path: &[&str], query: &Query) -> Result<Url, ClientError> {
        let mut url = self.base.clone();
        for segment in path {
            // URLs drop these, and what is left would name something else.
            if segment.is_empty() || matches!(*segment, "." | "..") {
                return Err(ClientError::Setup(format!("'{segment}' is not the name of anything")));
            }
        }
        url.path_segments_mut()
            .map_err(|()| ClientError::Setup("the server's address can have no path".into()))?
            .pop_if_empty()
            .extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    pub(crate) fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &Query,
    ) -> Result<RequestBuilder, ClientError> {
        Ok(self.http.request(method, self.url(path, query)?))
    }

    /// Sends a request and gives the answer back if it is a success.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.failed(&error))?;
        if response.status().is_success() {
            self.note_staleness(&response);
            return Ok(response);
        }
        Err(self.refusal(response).await)
    }

    pub(crate) fn failed(&self, error: &reqwest::Error) -> ClientError {
        ClientError::from_http(self.server(), error)
    }

    /// What an answer says that is no success.
    async fn refusal(&self, response: Response) -> ClientError {
        let (status, url) = (response.status(), response.url().to_string());
        let body = match response.bytes().await {
            Ok(body) => body,
            Err(error) => return self.failed(&error),
        };
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

    /// Sends a request and gives back the status and the body as it is.
    pub(crate) async fn bytes(&self, request: RequestBuilder) -> Result<(u16, Bytes), ClientError> {
        let response = self.send(request.timeout(self.timeout)).await?;
        let status = response.status().as_u16();
        Ok((status, response.bytes().await.map_err(|error| self.failed(&error))?))
    }

    /// Sends a request and reads the JSON of the answer.
    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<(u16, T), ClientError> {
        self.json_however_long(request.timeout(self.timeout)).await
    }

    /// The same for a request that may take any time, such as one with very much to send.
    pub(crate) async fn json_however_long<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<(u16, T), ClientError> {
        let response = self.send(request).await?;
        let (status, url) = (response.status().as_u16(), response.url().to_string());
        let body = response.bytes().await.map_err(|error| self.failed(&error))?;
        let value = serde_json::from_slice(&body)
            .map_err(|error| ClientError::Answer { url, reason: error.to_string() })?;
        Ok((status, value))
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
        let request = with_json(self.request(Method::POST, path, query)?, body)?;
        Ok(self.json(request).await?.1)
    }

    pub(crate) async fn delete(&self, path: &[&str], query: &Query) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, path, query)?;
        self.bytes(request).await.map(|_| ())
    }
}

/// Gives a request a JSON body.
pub(crate) fn with_json(
    request: RequestBuilder,
    body: &impl Serialize,
) -> Result<RequestBuilder, ClientError> {
    let body = serde_json::to_vec(body)
        .map_err(|error| ClientError::Setup(format!("the request cannot be written: {error}")))?;
    Ok(request.header(CONTENT_TYPE, "application/json").body(body))
}
