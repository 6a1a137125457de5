//! Handlers, whatever they take and return, behind one type.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use crate::{Failure, Run};

type Outcome = Result<Vec<u8>, Failure>;
type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A handler: a run in, JSON or a failure out.
pub(crate) type Handler = Arc<dyn Fn(Run) -> Work + Send + Sync>;

/// Handlers by job type.
pub(crate) type Handlers = BTreeMap<String, Handler>;

/// Puts any async function behind the one type.
pub(crate) fn handler<F, Fut, T>(function: F) -> Handler
where
    F: Fn(Run) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    T: Serialize,
{
    Arc::new(move |run| {
        let work = function(run);
        Box::pin(async move { encode(&work.await?) })
    })
}

/// Nothing is kept of a handler that returns nothing.
fn encode<T: Serialize>(value: &T) -> Outcome {
    let json = serde_json::to_vec(value)
        .map_err(|error| Failure::for_good(format!("the result cannot be written: {error}")))?;
    Ok(if json == b"null" { Vec::new() } else { json })
}
