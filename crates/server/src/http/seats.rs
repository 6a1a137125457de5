//! Requests of workers by plain HTTP, brought to the node that has the worker's seat.
//!
//! Behind a load balancer each request of a worker may come to another node. The one at which it first
//! asked for work keeps what it holds; all others pass on what they get. If that node is gone, the one
//! that is asked takes its place, once all leaders have said what the worker has. So no request has to
//! find the right node, and a run is not given up while the heartbeats of its worker are answered.

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use bellwether_api::{Problem, Role};
use bytes::Bytes;
use futures::future::join_all;
use serde::Deserialize;
use tokio::time::Instant;

use super::answer::{Answer, Refusal};
use super::{BATCH_BODY_MAX, BODY_MAX};
use crate::access::Caller;
use crate::live::Relayed;
use crate::node::Node;
use crate::work::check_worker_name;

/// How long it is tried to find the node of a worker, or to become it.
const WITHIN: Duration = Duration::from_secs(8);
/// How long to wait before it is tried again.
const AGAIN: Duration = Duration::from_millis(200);
/// How long the node of a worker may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long it may take if the worker waits for work: longer than any may wait.
const LEASE_WITHIN: Duration = Duration::from_secs(75);

/// What a worker may ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Lease,
    Heartbeat,
    Complete,
}

impl What {
    fn of(request: &Request) -> Option<What> {
        let path = request.uri().path().strip_prefix("/v1/queues/")?;
        let (_, what) = path.split_once('/').filter(|_| request.method() == Method::POST)?;
        match what {
            "lease" => Some(What::Lease),
            "heartbeat" => Some(What::Heartbeat),
            "complete" => Some(What::Complete),
            _ => None,
        }
    }
}

/// Who asks.
#[derive(Deserialize)]
struct Named {
    worker: String,
}

/// Sees to it, for all handlers: either it has been answered, or it is to be handled here.
pub async fn at_its_seat(node: &Node, request: Request) -> ControlFlow<Response, Request> {
    let what = What::of(&request);
    let relayed = request.extensions().get::<Relayed>().is_some();
    let caller = request.extensions().get::<Caller>().cloned();
    let caller = caller.filter(|caller| caller.need(Role::Operator).is_ok());
    let (Some(what), Some(caller)) = (what, caller) else { return Continue(request) };
    let (parts, body) = request.into_parts();
    let most = if what == What::Lease { BODY_MAX } else { BATCH_BODY_MAX };
    let Ok(body) = to_bytes(body, most).await else {
        let detail = "the body is larger than is taken here; see /docs for the limits";
        let problem = Problem::new(413, "body_too_large", detail);
        return Break(Refusal::from(problem).into_response());
    };
    let named = serde_json::from_slice::<Named>(&body).map(|named| named.worker);
    // What makes no sense is refused by whoever reads it.
    if let Ok(worker) = named
        && check_worker_name(&worker).is_ok()
    {
        let asked = Asked { node, caller, worker, what, uri: &parts.uri, body: &body };
        match asked.find(relayed).await {
            Ok(Some(response)) => return Break(response),
            Ok(None) => {}
            Err(refusal) => return Break(refusal.into_response()),
        }
    }
    Continue(Request::from_parts(parts, Body::from(body)))
}

/// A request of a worker.
struct Asked<'a> {
    node: &'a Node,
    caller: Caller,
    worker: String,
    what: What,
    uri: &'a Uri,
    body: &'a Bytes,
}

/// Nobody can answer the worker now: it must not believe that its lease goes on.
pub fn out_of_reach() -> Refusal {
    let detail = "the node that the worker is connected to cannot be reached, or not all leaders of \
                  what it has can be; try again in a moment";
    Problem::new(503, "no_leader", detail).into()
}

/// Where the seat of a worker is.
enum Seat {
    Here,
    At(u64),
    Nowhere,
    /// Whoever should have it does not answer.
    Unknown,
}

impl Asked<'_> {
    /// The answer of the node with the worker's seat; `None` if that is this one. What another node
    /// has passed on is not passed on again.
    async fn find(&self, relayed: bool) -> Answer<Option<Response>> {
        if relayed {
            let is_here = self.node.remotes.has_seat(&self.worker);
            return if is_here { Ok(None) } else { Err(out_of_reach()) };
        }
        let until = Instant::now() + WITHIN;
        loop {
            match self.seat().await {
                Seat::Here => return Ok(None),
                Seat::At(node) => {
                    if let Some(response) = self.pass_on(node).await {
                        return Ok(Some(response));
                    }
                }
                // Whatever it says is judged by the leaders of the runs.
                Seat::Nowhere if self.what == What::Complete => return Ok(None),
                Seat::Nowhere => {
                    if self.node.remotes.look_up(&self.worker).await {
                        self.sit().await;
                        return Ok(None);
                    }
                }
                Seat::Unknown => {}
            }
            if Instant::now() >= until {
                return Err(out_of_reach());
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Where the worker is, as the nodes say that should have it, else as any says.
    async fn seat(&self) -> Seat {
        let (node, worker) = (self.node, self.worker.as_str());
        let own = node.cluster.identity.node;
        let is_here = node.remotes.has_seat(worker);
        if let Some(known) = node.cluster.book.seat_of(worker) {
            if is_here && own < known {
                return Seat::Here;
            }
            match node.cluster.has_at(known, worker).await {
                Some(true) => return Seat::At(known),
                Some(false) => {}
                None if is_here => return Seat::Here,
                None => return Seat::Unknown,
            }
        }
        if is_here {
            return Seat::Here;
        }
        // It may have come to one so lately that nobody has heard of it.
        let staying = node.cluster.book.all().into_iter().filter(|known| known.stays());
        let asked = staying.map(|known| async move {
            let number = known.row.node;
            (node.cluster.has_at(number, worker).await == Some(true)).then_some(number)
        });
        let found = join_all(asked).await.into_iter().flatten().next();
        found.map_or(Seat::Nowhere, Seat::At)
    }

    async fn pass_on(&self, to: u64) -> Option<Response> {
        let uri = self.uri.path_and_query().map_or("", |uri| uri.as_str());
        let post = (&Method::POST, uri);
        let within = if self.what == What::Lease { LEASE_WITHIN } else { ANSWER_WITHIN };
        let relayed = self.node.relay(to, &self.caller, post, self.body.clone(), within);
        Some(relayed.await?.into_response())
    }

    /// Gives the worker a seat here, and tells all nodes before it gets anything.
    async fn sit(&self) {
        let remotes = &self.node.remotes;
        let wants = self.what == What::Lease || remotes.holds_any(&self.worker);
        // Whoever may not have it is refused by whoever handles the request.
        if wants && remotes.seat(&self.worker, self.caller.namespace.clone()).is_ok() {
            self.node.cluster.tell_all().await;
        }
    }
}
