//! The gRPC service that workers dial.

use std::pin::Pin;
use std::sync::Arc;

use bellwether_api::Role;
use bellwether_protocol::v1 as wire;
use bellwether_protocol::v1::workers_server::{Workers, WorkersServer};
use futures::Stream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::Remotes;
use super::registry::NotLetIn;
use crate::access::Caller;

/// Largest message of a worker: hundreds of reports, each with some output.
const MESSAGE_MAX: usize = 64 * 1024 * 1024;
/// Messages on their way to a worker.
const OUT: usize = 64;

struct Service {
    remotes: Arc<Remotes>,
}

/// The service, to be put behind whatever finds out who calls.
pub fn service(remotes: Arc<Remotes>) -> axum::Router {
    let workers = WorkersServer::new(Service { remotes })
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX);
    tonic::service::Routes::new(workers).prepare().into_axum_router()
}

#[tonic::async_trait]
impl Workers for Service {
    type WorkStream = Pin<Box<dyn Stream<Item = Result<wire::ToWorker, Status>> + Send>>;

    async fn work(
        &self,
        request: Request<Streaming<wire::FromWorker>>,
    ) -> Result<Response<Self::WorkStream>, Status> {
        let caller = request.extensions().get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| Status::unauthenticated("a worker needs a token"))?;
        caller.need(Role::Operator).map_err(|problem| Status::permission_denied(problem.detail))?;
        let mut said = request.into_inner();
        let first = said.message().await?.and_then(|message| message.message);
        let Some(wire::from_worker::Message::Hello(hello)) = first else {
            return Err(Status::invalid_argument("the first message of a worker is hello"));
        };
        let holds = |held: &wire::Held| Some((held.run.parse().ok()?, held.token));
        let holds: Vec<_> = hello.held.iter().filter_map(holds).collect();
        // It may have been at another node meanwhile, and have got something there.
        if !self.remotes.look_up(&hello.name).await
            || !self.remotes.take_up_named(&hello.name, &holds).await
        {
            let detail = "not all leaders of shards can be reached; try again in a moment";
            return Err(Status::unavailable(detail));
        }
        let session = self.remotes.hello(hello, caller.namespace.as_deref());
        let session = session.map_err(|refusal| match refusal {
            NotLetIn::Invalid(detail) => Status::invalid_argument(detail),
            NotLetIn::NameTaken(name) => Status::already_exists(format!(
                "another worker is called '{name}'; give this one another name with --name"
            )),
        })?;
        let (out, told) = mpsc::channel(OUT);
        tokio::spawn(session.run(said, out));
        Ok(Response::new(Box::pin(ReceiverStream::new(told))))
    }
}
