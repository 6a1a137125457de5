//! What every request goes through before its handler.
//!
//! One layer for all of it: each layer of its own costs every request an allocation or two, and a
//! node that is alone needs the first step only.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{extract, fresh, seats};
use crate::access::Caller;
use crate::node::Node;

/// For requests of anybody: who asks is found out first.
pub async fn of_anybody(
    State(node): State<Arc<Node>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Break(refused) = extract::identify(&node, &mut request) {
        return refused;
    }
    of_node(State(node), request, next).await
}

/// For requests that another node passes on: it has found out who asks.
pub async fn of_node(State(node): State<Arc<Node>>, request: Request, next: Next) -> Response {
    if node.is_alone() {
        return next.run(request).await;
    }
    Box::pin(among_nodes(node, request, next)).await
}

async fn among_nodes(node: Arc<Node>, request: Request, next: Next) -> Response {
    let (uri, caller) = (request.uri().clone(), request.extensions().get::<Caller>().cloned());
    if let Err(refusal) = fresh::see_to(&node, &uri, caller.as_ref()).await {
        return refusal.into_response();
    }
    match seats::at_its_seat(&node, request).await {
        Continue(request) => next.run(request).await,
        Break(answered) => answered,
    }
}
