//! What handlers take from requests, with problems instead of plain texts when it is wrong.

use std::ops::ControlFlow::{self, Break, Continue};

use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bellwether_api::Problem;
use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::BODY_MAX;
use super::answer::Refusal;
use crate::access::Caller;
use crate::clock;
use crate::convert;
use crate::node::Node;

/// Paths that need no token.
const OPEN: [&str; 6] = ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/"];

/// Finds out who makes a request, for all handlers.
pub fn identify(node: &Node, request: &mut Request) -> ControlFlow<Response> {
    let path = request.uri().path();
    if OPEN.contains(&path) || path.starts_with("/docs/") {
        return Continue(());
    }
    let header = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let secret = header.and_then(|text| {
        let (scheme, secret) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim())
    });
    if secret.is_none()
        && let Some(problem) = from_elsewhere(request, node)
    {
        return Break(refuse(problem, request));
    }
    match node.tokens.caller(secret, clock::now()) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            Continue(())
        }
        Err(problem) => Break(refuse(problem, request)),
    }
}

/// Says no in the language of whoever asks.
fn refuse(problem: Problem, request: &Request) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("application/grpc")) {
        let status = match problem.status {
            401 => tonic::Status::unauthenticated(problem.detail),
            503 => tonic::Status::unavailable(problem.detail),
            _ => tonic::Status::permission_denied(problem.detail),
        };
        return status.into_http();
    }
    Refusal::from(problem).into_response()
}

/// Refuses requests without a token that a web page of somebody else has made a browser send.
///
/// A server on loopback asks for no token, and any page can make a browser post to it. Browsers
/// say where such a request comes from (`Origin`, `Sec-Fetch-Site`); and a name that was pointed
/// at this machine to get around that shows in `Host`.
fn from_elsewhere(request: &Request, node: &Node) -> Option<Problem> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let host = header("host").or_else(|| request.uri().host()).unwrap_or("");
    let refuse = |detail: &str| Some(Problem::new(403, "cross_site", detail));
    if header("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site") {
        return refuse("requests from other sites' pages need a token");
    }
    if let Some(origin) = header("origin")
        && origin.split_once("://").is_none_or(|(_, from)| from != host)
    {
        return refuse("requests from other sites' pages need a token");
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let literal = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    if !node.config.insecure && !host.is_empty() && !literal && name != "localhost" {
        return refuse("without a token, ask for this server by its address or as localhost");
    }
    None
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Refusal> {
        parts.extensions.get::<Caller>().cloned().ok_or_else(|| {
            Problem::new(401, "token_missing", "send a token as 'Authorization: Bearer …'").into()
        })
    }
}

/// Query parameters.
pub struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Params<T>, Refusal> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Params(params)),
            Err(rejection) => {
                let detail = rejection.body_text();
                let detail =
                    detail.strip_prefix("Failed to deserialize query string: ").unwrap_or(&detail);
                Err(Problem::new(400, "invalid_parameter", detail).into())
            }
        }
    }
}

/// The body as bytes, at most so many.
pub struct Body<const MAX: usize = BODY_MAX>(pub Bytes);

impl<S: Send + Sync, const MAX: usize> FromRequest<S> for Body<MAX> {
    type Rejection = Refusal;

    async fn from_request(mut request: Request, state: &S) -> Result<Body<MAX>, Refusal> {
        DefaultBodyLimit::max(MAX).apply(&mut request);
        match Bytes::from_request(request, state).await {
            Ok(bytes) => Ok(Body(bytes)),
            Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                let detail = "the body is larger than is taken here; see /docs for the limits";
                Err(Problem::new(413, "body_too_large", detail).into())
            }
            Err(rejection) => {
                Err(Problem::new(400, "body_unreadable", rejection.body_text()).into())
            }
        }
    }
}

/// A JSON body.
pub struct JsonBody<T, const MAX: usize = BODY_MAX>(pub T);

impl<S: Send + Sync, T: DeserializeOwned, const MAX: usize> FromRequest<S> for JsonBody<T, MAX> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<JsonBody<T, MAX>, Refusal> {
        let Body(bytes) = Body::<MAX>::from_request(request, state).await?;
        parse(&bytes).map(JsonBody)
    }
}

/// A JSON body that may be left out.
pub struct OptionalBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<OptionalBody<T>, Refusal> {
        let Body(bytes) = Body::<BODY_MAX>::from_request(request, state).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(OptionalBody(T::default()));
        }
        parse(&bytes).map(OptionalBody)
    }
}

/// Reads JSON.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    convert::from_json(bytes).map_err(Refusal::from)
}

/// How many items a page may have.
pub const LIMIT_MAX: u32 = 1_000;
/// How many it has if the request does not say.
const LIMIT: u32 = 100;

/// Checks the `limit` of a list.
pub fn limit(wanted: Option<u32>) -> Result<usize, Refusal> {
    match wanted.unwrap_or(LIMIT) {
        0 => Err(Problem::new(400, "invalid_parameter", "limit must be at least 1")
            .at("limit")
            .into()),
        n if n > LIMIT_MAX => {
            let detail = format!("limit must be at most {LIMIT_MAX}");
            Err(Problem::new(400, "invalid_parameter", detail).at("limit").into())
        }
        n => Ok(n as usize),
    }
}

/// Checks the lengths of names in a query: name of the parameter, its value, the most characters.
pub fn lengths<const N: usize>(names: [(&str, Option<&str>, usize); N]) -> Result<(), Refusal> {
    for (name, value, max) in names {
        if value.is_some_and(|value| value.chars().count() > max) {
            let detail = format!("{name} has at most {max} characters");
            return Err(Problem::new(400, "invalid_parameter", detail).at(name).into());
        }
    }
    Ok(())
}

/// The problem with a cursor that is none.
pub fn bad_cursor() -> Refusal {
    let detail = "the cursor is not one of this list; take it from next_cursor, or leave it out";
    Problem::new(400, "invalid_cursor", detail).at("cursor").into()
}
