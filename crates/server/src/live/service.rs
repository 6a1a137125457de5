//! What is live here, for other nodes.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http;
use bellwether_api::Role;
use bellwether_protocol::node::v1;
use bellwether_protocol::node::v1::live_server::{Live, LiveServer};
use futures::stream::{self, BoxStream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tower::ServiceExt;

use super::Relayed;
use crate::access::Caller;
use crate::cluster::MESSAGE_MAX;
use crate::cluster::wire::live::{decode_give_up, encode_news};
use crate::http::by_itself;
use crate::node::Node;

/// What is live on a node, until told to stop.
#[must_use]
pub fn service(node: Arc<Node>, stop: CancellationToken) -> LiveServer<Service> {
    let router = by_itself(node.clone());
    LiveServer::new(Service { node, router, stop })
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Answers other nodes.
pub struct Service {
    node: Arc<Node>,
    /// The HTTP API of this node alone.
    router: Router,
    stop: CancellationToken,
}

fn missing(field: &str) -> Status {
    Status::invalid_argument(format!("{field} is missing, or not known to this version"))
}

fn decode_caller(caller: Option<v1::Caller>) -> Result<Caller, Status> {
    let caller = caller.ok_or_else(|| missing("RelayRequest.caller"))?;
    let role = caller.role.as_deref().and_then(Role::of);
    Ok(Caller {
        name: caller.name.ok_or_else(|| missing("Caller.name"))?,
        role: role.ok_or_else(|| missing("Caller.role"))?,
        namespace: caller.namespace,
    })
}

fn decode_request(request: v1::RelayRequest) -> Result<http::Request<Body>, Status> {
    let caller = decode_caller(request.caller)?;
    let method = request.method.ok_or_else(|| missing("RelayRequest.method"))?;
    let uri = request.uri.ok_or_else(|| missing("RelayRequest.uri"))?;
    let body = request.body.ok_or_else(|| missing("RelayRequest.body"))?;
    let made = http::Request::builder().method(method.as_str()).uri(uri).body(Body::from(body));
    let mut made = made.map_err(|error| Status::invalid_argument(error.to_string()))?;
    made.extensions_mut().insert(caller);
    made.extensions_mut().insert(Relayed(true));
    Ok(made)
}

#[tonic::async_trait]
impl Live for Service {
    type ListenStream = BoxStream<'static, Result<v1::News, Status>>;
    type RelayStream = BoxStream<'static, Result<v1::RelayPart, Status>>;

    async fn listen(
        &self,
        _: Request<v1::ListenRequest>,
    ) -> Result<Response<Self::ListenStream>, Status> {
        let news = stream::unfold(self.node.listen_here(), |mut listening| async {
            let news = listening.next().await?;
            Some((Ok(encode_news(&news)), listening))
        });
        Ok(Response::new(news.take_until(self.stop.clone().cancelled_owned()).boxed()))
    }

    async fn relay(
        &self,
        request: Request<v1::RelayRequest>,
    ) -> Result<Response<Self::RelayStream>, Status> {
        use v1::relay_part::Part;
        let request = decode_request(request.into_inner())?;
        let answer = self.router.clone().oneshot(request);
        let answer = tokio::select! {
            () = self.stop.cancelled() => return Err(Status::unavailable("stopping")),
            answer = answer => answer.unwrap_or_else(|never| match never {}),
        };
        let stated = |name: http::HeaderName| {
            let value = answer.headers().get(name)?;
            value.to_str().ok().map(ToOwned::to_owned)
        };
        let head = v1::RelayHead {
            status: Some(u32::from(answer.status().as_u16())),
            content_type: stated(http::header::CONTENT_TYPE),
            retry_after: stated(http::header::RETRY_AFTER),
        };
        let head = stream::once(async { Ok(v1::RelayPart { part: Some(Part::Head(head)) }) });
        let body = answer.into_body().into_data_stream().map(|chunk| match chunk {
            Ok(bytes) => Ok(v1::RelayPart { part: Some(Part::Body(bytes)) }),
            Err(error) => Err(Status::aborted(error.to_string())),
        });
        let stopping = stream::once(self.stop.clone().cancelled_owned())
            .map(|()| Err(Status::unavailable("stopping")));
        let body =
            stream::select(body.map(Some).chain(stream::once(async { None })), stopping.map(Some));
        // The end of the body is the end of it all; being stopped is not to look like it.
        let body = body
            .take_while(|part| std::future::ready(part.is_some()))
            .filter_map(std::future::ready);
        Ok(Response::new(head.chain(body).boxed()))
    }

    async fn whereabouts(
        &self,
        request: Request<v1::WhereaboutsRequest>,
    ) -> Result<Response<v1::WhereaboutsAnswer>, Status> {
        let workers = self.node.cluster.all_whereabouts(request.into_inner().workers);
        Ok(Response::new(v1::WhereaboutsAnswer { workers }))
    }

    async fn give_up(
        &self,
        request: Request<v1::GiveUpRequest>,
    ) -> Result<Response<v1::GiveUpAnswer>, Status> {
        let silent = decode_give_up(request.into_inner());
        let silent = silent.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let taken = self.node.cluster.given_up(silent);
        Ok(Response::new(v1::GiveUpAnswer { taken: Some(taken) }))
    }
}
