//! Answers that say what is wrong.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bellwether_api::Problem;
use bellwether_core::turn::{Rejection, RejectionKind};
use bellwether_core::waist::StoreError;

use crate::shard::Failure;

/// The one refusal with status 503 after which the change may have been made.
pub const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// A problem as an answer.
#[derive(Debug)]
pub struct Refusal(pub Box<Problem>);

/// What handlers return.
pub type Answer<T> = Result<T, Refusal>;

/// Runs what reads much or computes for long where nobody else waits for it: the threads that
/// serve requests are few.
///
/// # Errors
/// What it says; and a problem if it panics.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(_) => Err(Problem::new(500, "bug", "the answer could not be made").into()),
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        Refusal(Box::new(problem))
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        if let StoreError::Unreachable { shard } = error {
            return Failure::NoLeader(shard).into();
        }
        tracing::error!(%error, "the store could not be read");
        Problem::new(500, "store_failed", "the store could not be read; see the server's log")
            .into()
    }
}

/// The problem that a rejection is.
#[must_use]
pub fn rejected(rejection: &Rejection) -> Problem {
    let status = match rejection.kind {
        RejectionKind::NotFound => 404,
        RejectionKind::Conflict => 409,
        RejectionKind::Invalid => 422,
        RejectionKind::Busy => 503,
    };
    Problem::new(status, rejection.code.as_ref(), rejection.message.clone())
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        match failure {
            Failure::Rejected(rejection) => rejected(&rejection).into(),
            Failure::Overloaded => Problem::new(503, "overloaded", failure.to_string()).into(),
            Failure::Stopped => Problem::new(503, "stopping", failure.to_string()).into(),
            Failure::NoLeader(_) => Problem::new(503, "no_leader", failure.to_string()).into(),
            Failure::Unknown(_) => Problem::new(503, OUTCOME_UNKNOWN, failure.to_string()).into(),
            Failure::Store(error) => {
                tracing::error!(%error, "the store has failed");
                let detail = "the store has failed; it is not known whether the change was made";
                Problem::new(500, "store_failed", detail).into()
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&*self.0)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        // Whoever reads that it may ask again takes it that nothing has happened.
        if status == StatusCode::SERVICE_UNAVAILABLE && self.0.code != OUTCOME_UNKNOWN {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// For paths that are none.
pub async fn no_such_path(uri: axum::http::Uri) -> Refusal {
    let path: String = uri.path().chars().take(200).collect();
    Problem::new(404, "no_such_path", format!("there is nothing at {path}; see /docs")).into()
}

/// For methods that a path does not have.
pub async fn no_such_method() -> Refusal {
    Problem::new(405, "no_such_method", "this path does not take that method; see /docs").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_certainly_not_happened_is_to_be_sent_again() {
        let after = |failure: Failure| {
            let response = Refusal::from(failure).into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            response.headers().get(header::RETRY_AFTER).cloned()
        };
        for undone in [Failure::Overloaded, Failure::Stopped, Failure::NoLeader(3)] {
            assert!(after(undone).is_some());
        }
        for late in [Failure::Overloaded, Failure::Stopped, Failure::NoLeader(3)] {
            assert_eq!(after(late.after_part(3)), None, "part of it has happened");
        }
        assert_eq!(after(Failure::Unknown(3)), None);
    }
}
