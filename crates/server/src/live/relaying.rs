//! Having requests of the HTTP API answered by another node, which alone knows the answer.
//!
//! The request travels with who makes it, as this node has found out; nodes trust one another in
//! that. The node that answers does so by itself and passes nothing on.

use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bellwether_protocol::node::v1;
use bytes::{Bytes, BytesMut};
use futures::future::join_all;
use futures::stream;
use serde::de::DeserializeOwned;

use crate::access::Caller;
use crate::cluster::{ANSWER_WITHIN, Other};
use crate::node::Node;

/// Whether another node has passed a request on to this one: then it answers by itself.
#[derive(Clone, Copy, Debug)]
pub struct Relayed(pub bool);

impl<S: Send + Sync> FromRequestParts<S> for Relayed {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Relayed, Self::Rejection> {
        Ok(parts.extensions.get::<Relayed>().copied().unwrap_or(Relayed(false)))
    }
}

/// What other nodes have answered, and the names of those that did not.
pub struct Gathered<T> {
    /// The answers.
    pub answers: Vec<(Other, T)>,
    /// Who is missing.
    pub missing: Vec<String>,
}

/// The answer of another node.
pub struct Relay {
    head: v1::RelayHead,
    body: tonic::Streaming<v1::RelayPart>,
}

impl Node {
    /// Has a request answered by another node; `None` if it does not begin to within this time.
    pub async fn relay(
        &self,
        to: u64,
        caller: &Caller,
        (method, uri): (&Method, &str),
        body: Bytes,
        within: Duration,
    ) -> Option<Relay> {
        let request = v1::RelayRequest {
            caller: Some(v1::Caller {
                name: Some(caller.name.clone()),
                role: Some(caller.role.name().to_owned()),
                namespace: caller.namespace.clone(),
            }),
            method: Some(method.as_str().to_owned()),
            uri: Some(uri.to_owned()),
            body: Some(body),
        };
        let (head, body) = self.cluster.relay(to, request, within).await?;
        Some(Relay { head, body })
    }

    /// Asks all other nodes the same.
    pub async fn gather<T: DeserializeOwned>(&self, caller: &Caller, uri: &str) -> Gathered<T> {
        let (up, down) = self.cluster.others();
        let asking = up.iter().map(|other| async move {
            let get = (&Method::GET, uri);
            let asked = self.relay(other.node, caller, get, Bytes::new(), ANSWER_WITHIN);
            asked.await?.json().await
        });
        let mut gathered = Gathered { answers: Vec::new(), missing: Vec::new() };
        let answers = join_all(asking).await;
        for (other, answer) in up.into_iter().zip(answers) {
            match answer {
                Some(answer) => gathered.answers.push((other, answer)),
                None => gathered.missing.push(other.name),
            }
        }
        gathered.missing.extend(down.into_iter().map(|other| other.name));
        gathered.missing.sort_unstable();
        gathered
    }
}

impl Relay {
    /// The next piece of the body.
    ///
    /// # Errors
    /// When the other node is gone before the body is.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, tonic::Status> {
        let part = self.body.message().await?.and_then(|part| part.part);
        Ok(part.and_then(|part| match part {
            v1::relay_part::Part::Body(bytes) => Some(bytes),
            v1::relay_part::Part::Head(_) => None,
        }))
    }

    /// Whether the answer is what was asked for.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.head.status == Some(200)
    }

    /// The body as JSON; `None` if it is a refusal, breaks off or takes too long.
    async fn json<T: DeserializeOwned>(mut self) -> Option<T> {
        let reading = async {
            let mut body = BytesMut::new();
            while let Some(chunk) = self.chunk().await.ok()? {
                body.extend_from_slice(&chunk);
            }
            serde_json::from_slice(&body).ok()
        };
        let read = tokio::time::timeout(ANSWER_WITHIN, reading).await.ok()?;
        read.filter(|_| self.head.status == Some(200))
    }

    /// The answer as that of this node.
    #[must_use]
    pub fn into_response(self) -> Response {
        let status = self.head.status.and_then(|status| u16::try_from(status).ok());
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        let stated = [
            (header::CONTENT_TYPE, self.head.content_type.clone()),
            (header::RETRY_AFTER, self.head.retry_after.clone()),
        ];
        let body = stream::try_unfold(self, |mut relay| async move {
            let chunk = relay.chunk().await.map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>(chunk.map(|chunk| (chunk, relay)))
        });
        let mut response = Response::new(Body::from_stream(body));
        *response.status_mut() = status.unwrap_or(StatusCode::BAD_GATEWAY);
        for (name, value) in stated {
            if let Some(Ok(value)) = value.map(HeaderValue::try_from) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}
