//! What happens, as it happens, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use bellwether_api::{LiveEvent, Problem, Role};
use futures::stream::{self, Stream};
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::Answer;
use super::extract::{Params, lengths};
use super::present_run;
use crate::access::Caller;
use crate::node::Node;

/// Which events.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventParams {
    /// Only of this namespace.
    #[param(max_length = 128)]
    namespace: Option<String>,
    /// Only of this queue.
    #[param(max_length = 128)]
    queue: Option<String>,
}

/// What happens to runs, and jobs that the rules themselves have paused (`held`), as it happens:
/// server-sent events named after the event, with JSON data. Whichever node of a cluster is asked, it
/// tells of all. A reader that is too slow gets an event `missed` with the number of events it missed;
/// that number is 0 when a node could not be heard for a while and nobody knows.
#[utoipa::path(get, path = "/v1/events", tag = "operations", operation_id = "listenToEvents",
    params(EventParams),
    responses(
        (status = 200, description = "Events without end", body = LiveEvent, content_type = "text/event-stream"),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn events(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Params(params): Params<EventParams>,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    caller.need(Role::Viewer)?;
    lengths([
        ("namespace", params.namespace.as_deref(), 128),
        ("queue", params.queue.as_deref(), 128),
    ])?;
    let namespace = caller.narrowed(params.namespace)?;
    let queue = params.queue;
    let listening = node.listen().await;
    let events = stream::unfold(listening, move |mut listening| {
        let (namespace, queue) = (namespace.clone(), queue.clone());
        async move {
            loop {
                let news = listening.next().await?;
                if !news.is_about(namespace.as_deref(), queue.as_deref()) {
                    continue;
                }
                let (name, data) = match present_run::news(&news) {
                    Ok(live) => (live.event.clone(), serde_json::to_string(&live)),
                    Err(missed) => ("missed".to_owned(), Ok(missed.to_string())),
                };
                let event = Event::default().event(name).data(data.unwrap_or_default());
                return Some((Ok(event), listening));
            }
        }
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}
