//! Makes an HTTP request and keeps what came back, within bounds.
//!
//! The request is sent once: nothing here retries, since only the job's owner may allow a second
//! start. A response body is read up to its limit and no further, so an endless answer ends too.
//! Whatever the target echoes of the credentials it was sent is masked before it is kept.

mod client;
mod error;
mod mask;

use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Request, Response};
use tokio::time::sleep;

use crate::attempt::{Attempt, Auth, HttpTarget, parse_header, parse_method, public_url};
use crate::control::Requests;
use crate::executor::{Ending, Shared, stopped};
use crate::finished::{Failure, HttpResponse, Outcome, ReasonCode};
use crate::output::{LiveOutput, Stream};
use crate::rules::Judge;

pub(crate) use client::Clients;
use mask::Mask;

/// How much is kept of a response's headers: names and values together.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// How many headers are kept.
const HEADERS_MAX: usize = 100;

/// Makes the request of an attempt.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    attempt: &Arc<Attempt>,
    target: &HttpTarget,
    judge: Judge,
    mut requests: Requests,
    output: &LiveOutput,
) -> Ending {
    let limit = attempt.timeout.unwrap_or(shared.options.http_timeout);
    tokio::select! {
        biased;
        ending = exchange(shared, attempt, target, judge, output) => ending,
        stop = requests.next() => Ending::new(stopped(stop.reason)),
        () = sleep(limit) => {
            let message = format!("no complete response came within {limit:?}");
            Ending::new(Outcome::TimedOut(Failure::new(ReasonCode::Timeout, message)))
        }
    }
}

async fn exchange(
    shared: &Arc<Shared>,
    attempt: &Attempt,
    target: &HttpTarget,
    judge: Judge,
    output: &LiveOutput,
) -> Ending {
    let client = match shared.http.get(shared, target).await {
        Ok(client) => client,
        Err(failure) => return not_started(failure, true),
    };
    let request = match build(&client, attempt, target) {
        Ok(request) => request,
        Err(error) => {
            return not_started(Failure::new(ReasonCode::InvalidTarget, error), false);
        }
    };
    let url = public_url(request.url());
    let mask = Mask::new(target, &request);
    let response = match client.execute(request).await {
        Ok(response) => response,
        Err(error) => return error::ending(&error, &url),
    };
    let status = response.status().as_u16();
    let (headers, headers_truncated) = keep_headers(response.headers(), &mask);
    let (raw, body_truncated) = match read_body(response, target.body_limit, &mask).await {
        Ok(body) => body,
        Err(error) => {
            let http = HttpResponse {
                status,
                headers,
                headers_truncated,
                body: Bytes::new(),
                body_truncated: true,
            };
            return Ending { http: Some(http), ..error::ending(&error, &url) };
        }
    };
    let mut body = mask.bytes(&raw);
    body.truncate(target.body_limit);
    output.push(Stream::Body, &body);
    let outcome = match judged(judge, status, &raw, body_truncated) {
        Ok(()) => Outcome::Succeeded,
        Err(failure) => Outcome::Failed(failure),
    };
    let retryable = outcome.failure().is_some_and(|failure| {
        failure.code != ReasonCode::HttpStatus || status >= 500 || matches!(status, 408 | 425 | 429)
    });
    let body = Bytes::from(body);
    let http = HttpResponse { status, headers, headers_truncated, body, body_truncated };
    Ending { http: Some(http), retryable, ..Ending::new(outcome) }
}

fn not_started(failure: Failure, retryable: bool) -> Ending {
    Ending { started: false, retryable, ..Ending::new(Outcome::Failed(failure)) }
}

fn judged(mut judge: Judge, status: u16, body: &[u8], cut: bool) -> Result<(), Failure> {
    judge.status(status)?;
    judge.observe(Stream::Body, body);
    judge.content(&[body.to_vec()], (!cut).then_some(body))
}

/// Puts the request together. What the attempt says about itself overrides the job's headers.
fn build(
    client: &reqwest::Client,
    attempt: &Attempt,
    target: &HttpTarget,
) -> Result<Request, String> {
    let mut url = target.validate()?;
    if target.auth.is_some() {
        // Explicit credentials win over those in the URL, which would be sent otherwise.
        let _ = url.set_username("");
        let _ = url.set_password(None);
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &target.headers {
        let (name, value) = parse_header(name, value)?;
        headers.append(name, value);
    }
    for (_, name, value) in attempt.identity() {
        let printable: String =
            value.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let value = HeaderValue::from_bytes(printable.as_bytes())
            .map_err(|_| format!("the header {name} cannot be sent"))?;
        headers.insert(name, value);
    }
    let request = client
        .request(parse_method(&target.method)?, url)
        .headers(headers)
        .body(target.body.clone());
    let request = match &target.auth {
        None => request,
        Some(Auth::Basic { username, password }) => request.basic_auth(username, Some(password)),
        Some(Auth::Bearer { token }) => request.bearer_auth(token),
    };
    request.build().map_err(|error| format!("the request makes no sense: {}", error.without_url()))
}

fn keep_headers(headers: &HeaderMap, mask: &Mask) -> (Vec<(String, String)>, bool) {
    let mut kept = Vec::new();
    let mut bytes = 0;
    for (name, value) in headers {
        bytes += name.as_str().len() + value.len();
        if bytes > HEADER_BYTES_MAX || kept.len() == HEADERS_MAX {
            return (kept, true);
        }
        let value = if name == reqwest::header::SET_COOKIE {
            "***".to_owned()
        } else {
            String::from_utf8_lossy(&mask.bytes(value.as_bytes())).into_owned()
        };
        kept.push((name.as_str().to_owned(), value));
    }
    (kept, false)
}

/// Reads the body up to the limit, and as much more as is needed to recognise a credential that
/// lies across it. The flag says whether the limit cut something off.
async fn read_body(
    mut response: Response,
    limit: usize,
    mask: &Mask,
) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let enough = limit + mask.longest().max(1);
    let mut body = Vec::new();
    while body.len() < enough {
        let Some(chunk) = response.chunk().await? else { break };
        let take = chunk.len().min(enough - body.len());
        body.extend_from_slice(&chunk[..take]);
    }
    let cut = body.len() > limit;
    Ok((body, cut))
}
