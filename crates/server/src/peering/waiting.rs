//! What a node says on the port for other nodes while it has yet to become one: that it wants to join as
//! well. It does nothing else for anybody.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bellwether_protocol::node::v1::join_answer::Answer;
use bellwether_protocol::node::v1::{JoinAnswer, JoinRequest};
use tonic::Status;
use tonic::server::Grpc;
use tonic_prost::ProstCodec;

use super::ASKED_OF_ANY;
use crate::cluster::Waiting;

/// Answers whoever asks to join, and refuses everything else.
pub fn router(own: &Waiting) -> Router {
    let answer = JoinAnswer { answer: Some(Answer::Waiting(own.encode())) };
    Router::new()
        .route(ASKED_OF_ANY, post(move |request: Request| respond(answer, request)))
        .fallback(not_yet)
}

async fn respond(answer: JoinAnswer, request: Request) -> Response {
    let service = tower::service_fn(move |_: tonic::Request<JoinRequest>| {
        let answer = answer.clone();
        async move { Ok::<_, Status>(tonic::Response::new(answer)) }
    });
    let mut grpc = Grpc::new(ProstCodec::<JoinAnswer, JoinRequest>::default());
    grpc.unary(service, request).await.map(Body::new)
}

async fn not_yet() -> Response {
    let status = Status::unavailable("this node has yet to join a cluster");
    status.into_http::<Body>().into_response()
}
