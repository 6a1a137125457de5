//! A request as a value, which can be sent to one server after another.
//!
//! What is sent is the same for all of them; only the base of the URL differs. Which are asked, and
//! whether another may be, is decided in `servers`.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::stream;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, Method, RequestBuilder, Url};
use serde::Serialize;

use crate::ClientError;
use crate::client::Query;

type AnyError = Box<dyn std::error::Error + Send + Sync>;
type Stretch = Pin<Box<dyn Stream<Item = Result<Bytes, AnyError>> + Send>>;

/// A request that is yet to be sent.
pub(crate) struct Request {
    method: Method,
    path: Vec<String>,
    query: Query,
    headers: HeaderMap,
    payload: Payload,
    /// How long it may take, with all the servers that are asked.
    pub(crate) timeout: Option<Duration>,
}

/// What a request carries.
enum Payload {
    Nothing,
    Whole(Bytes),
    /// Taken by the connection that asks for the first piece. It does so when it is made, so until then
    /// nothing is lost by trying another server.
    Stream(Arc<Mutex<Option<Stretch>>>),
}

impl Request {
    /// A request without a body.
    ///
    /// # Errors
    /// If a segment of the path is none.
    pub(crate) fn new(method: Method, path: &[&str], query: &Query) -> Result<Self, ClientError> {
        for segment in path {
            // URLs drop these, and what is left would name something else.
            if segment.is_empty() || matches!(*segment, "." | "..") {
                return Err(ClientError::Setup(format!("'{segment}' is not the name of anything")));
            }
        }
        Ok(Request {
            method,
            path: path.iter().map(|segment| (*segment).to_owned()).collect(),
            query: query.clone(),
            headers: HeaderMap::new(),
            payload: Payload::Nothing,
            timeout: None,
        })
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &'static str) -> Request {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    pub(crate) fn timeout(mut self, timeout: Duration) -> Request {
        self.timeout = Some(timeout);
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Request {
        self.payload = Payload::Whole(body.into());
        self
    }

    pub(crate) fn json(self, body: &impl Serialize) -> Result<Request, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| {
            ClientError::Setup(format!("the request cannot be written: {error}"))
        })?;
        Ok(self.header(CONTENT_TYPE, "application/json").body(body))
    }

    /// A body that is made while it is sent.
    pub(crate) fn stream<S, E>(mut self, pieces: S) -> Request
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<AnyError> + 'static,
    {
        let pieces = futures::TryStreamExt::map_err(pieces, Into::into);
        self.payload = Payload::Stream(Arc::new(Mutex::new(Some(Box::pin(pieces)))));
        self
    }

    /// Whether it changes nothing, so that it may be sent again although it may have arrived.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }

    /// The request as it goes to one server.
    pub(crate) fn to(
        &self,
        http: &reqwest::Client,
        base: &Url,
    ) -> Result<RequestBuilder, ClientError> {
        let request =
            http.request(self.method.clone(), self.url(base)?).headers(self.headers.clone());
        Ok(match &self.payload {
            Payload::Nothing => request,
            Payload::Whole(body) => request.body(body.clone()),
            Payload::Stream(pieces) => request.body(taken_when_asked_for(pieces.clone())),
        })
    }

    /// Its URL, each segment of the path escaped.
    fn url(&self, base: &Url) -> Result<Url, ClientError> {
        let mut url = base.clone();
        url.path_segments_mut()
            .map_err(|()| ClientError::Setup("the server's address can have no path".into()))?
            .pop_if_empty()
            .extend(&self.path);
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        Ok(url)
    }
}

/// A body that takes its pieces from where they are kept, once somebody reads it.
fn taken_when_asked_for(kept: Arc<Mutex<Option<Stretch>>>) -> Body {
    let mut pieces = None;
    Body::wrap_stream(stream::poll_fn(move |context| {
        let take = || kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let pieces: &mut Stretch = pieces.get_or_insert_with(|| {
            take().unwrap_or_else(|| Box::pin(stream::iter([Err("it was sent before".into())])))
        });
        pieces.as_mut().poll_next(context)
    }))
}
