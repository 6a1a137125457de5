//! Puts what can go wrong with a request into words, without the request's secrets.

use std::error::Error;
use std::io;

use crate::executor::Ending;
use crate::finished::{Failure, Outcome, ReasonCode};

/// The end of an attempt whose request failed. `url` is the public part of the target's URL.
pub(super) fn ending(error: &reqwest::Error, url: &str) -> Ending {
    let causes = causes(error);
    let code = classify(error, &causes);
    // The innermost cause says most; outer ones only say where it happened. None of them
    // contains headers, and the outermost, which contains the full URL, is left out.
    let detail = causes.last().map_or("no reason was given".to_owned(), ToString::to_string);
    let what = match code {
        ReasonCode::DnsError => "the host's name could not be resolved",
        ReasonCode::TlsError => "no secure connection could be made",
        ReasonCode::ConnectTimeout => "connecting took too long",
        ReasonCode::ConnectError => "no connection could be made",
        ReasonCode::RedirectError => "a redirect was not followed",
        ReasonCode::InvalidTarget => "the request makes no sense",
        _ => "the connection failed before the response was complete",
    };
    let message = if code == ReasonCode::ConnectTimeout {
        format!("{what} ({url})")
    } else {
        format!("{what} ({url}): {detail}")
    };
    let started = !(error.is_connect() || error.is_builder());
    let retryable = code != ReasonCode::InvalidTarget;
    Ending { started, retryable, ..Ending::new(Outcome::Failed(Failure::new(code, message))) }
}

fn classify(error: &reqwest::Error, causes: &[&(dyn Error + 'static)]) -> ReasonCode {
    if error.is_builder() {
        return ReasonCode::InvalidTarget;
    }
    if error.is_redirect() {
        return ReasonCode::RedirectError;
    }
    if causes.iter().any(|cause| cause.is::<rustls::Error>()) {
        return ReasonCode::TlsError;
    }
    if !error.is_connect() {
        return ReasonCode::HttpProtocol;
    }
    if error.is_timeout() {
        return ReasonCode::ConnectTimeout;
    }
    // The connector has no type for this that could be asked.
    if causes.iter().any(|cause| cause.to_string().starts_with("dns error")) {
        return ReasonCode::DnsError;
    }
    ReasonCode::ConnectError
}

/// All causes of an error from the outside in. An I/O error wraps another without naming it as
/// its source, so it is opened here.
fn causes(error: &reqwest::Error) -> Vec<&(dyn Error + 'static)> {
    let mut causes: Vec<&(dyn Error + 'static)> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause);
        next = match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => cause.source(),
        };
    }
    causes
}
