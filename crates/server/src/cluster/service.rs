//! What other nodes may ask of this one.

use std::sync::Arc;

use bellwether_core::record::{self, NodeState};
use bellwether_core::turn::{Input, NodeChange, Rejection, RejectionKind, Reply};
use bellwether_protocol::node::v1;
use bellwether_protocol::node::v1::nodes_server::{Nodes, NodesServer};
use tonic::{Request, Response, Status};

use super::wire::ask::decode_shard;
use super::wire::{WireError, attend, bounds, claims, input, reply};
use super::{Cluster, MESSAGE_MAX};
use crate::shard::Failure;

/// What other nodes may ask of this one.
#[must_use]
pub fn service(cluster: Arc<Cluster>) -> NodesServer<Service> {
    NodesServer::new(Service(cluster))
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Answers other nodes.
pub struct Service(Arc<Cluster>);

fn malformed(error: WireError) -> Status {
    Status::invalid_argument(error.to_string())
}

impl Service {
    /// Why a node does not fit that takes the cluster to have so many shards. It is told before it is let in.
    fn wrong_shards(&self, shards: u32) -> Option<v1::Rejection> {
        let have = u32::from(self.0.identity.shards);
        let message = format!(
            "it has {have} shards, which cannot be changed; start without --shards, or with --shards {have}"
        );
        let rejection =
            Rejection { kind: RejectionKind::Conflict, code: "wrong_shards".into(), message };
        (shards != have).then(|| reply::encode_rejection(&rejection))
    }
}

#[tonic::async_trait]
impl Nodes for Service {
    async fn pass(
        &self,
        request: Request<v1::PassRequest>,
    ) -> Result<Response<v1::PassAnswer>, Status> {
        let request = request.into_inner();
        let shard = decode_shard("PassRequest.shard", request.shard).map_err(malformed)?;
        let inputs = request.inputs.into_iter().map(input::decode);
        let inputs = inputs.collect::<Result<Vec<_>, _>>().map_err(malformed)?;
        let answers = self.0.take(shard, inputs).await;
        let seen_at = self.0.engine.standing(shard).map(|standing| standing.last);
        Ok(Response::new(v1::PassAnswer { answers, seen_at }))
    }

    async fn read_point(
        &self,
        request: Request<v1::ReadPointRequest>,
    ) -> Result<Response<v1::ReadPointAnswer>, Status> {
        use v1::read_point_answer::Answer;
        let shard = decode_shard("ReadPointRequest.shard", request.into_inner().shard);
        let shard = shard.map_err(malformed)?;
        let answer = match self.0.engine.read_point(shard).await {
            Ok(index) => Answer::Index(index),
            Err(_) => Answer::NotLeader(v1::NotLeader { leader: self.0.leader(shard) }),
        };
        Ok(Response::new(v1::ReadPointAnswer { answer: Some(answer) }))
    }

    async fn attend(
        &self,
        request: Request<v1::Attendance>,
    ) -> Result<Response<v1::Attendance>, Status> {
        let said = attend::decode(request.into_inner()).map_err(malformed)?;
        let node = said.row.node;
        let removed = !self.0.book.heard(said);
        let known = self.0.book.get(node);
        let leaving = known.is_some_and(|known| known.row.state() == NodeState::Leaving);
        Ok(Response::new(attend::encode(&attend::Said { removed, leaving, ..self.0.says() })))
    }

    async fn join(
        &self,
        request: Request<v1::JoinRequest>,
    ) -> Result<Response<v1::JoinAnswer>, Status> {
        use v1::join_answer::Answer;
        let request = request.into_inner();
        if let Some(wrong) = request.shards.and_then(|shards| self.wrong_shards(shards)) {
            return Ok(Response::new(v1::JoinAnswer { answer: Some(Answer::Rejection(wrong)) }));
        }
        let row = request.node.and_then(|bytes| record::decode("node", bytes).ok());
        let row = row.ok_or_else(|| Status::invalid_argument("who wants to join?"))?;
        let change = NodeChange::Join(row);
        let asked = Input::Node { actor: "join".to_owned(), change };
        let answer = match self.0.shards[0].ask(asked).await {
            Ok(Reply::Node(node, _)) => {
                self.0.read_nodes().map_err(|error| Status::internal(error.to_string()))?;
                let others = self.0.book.all().into_iter().map(|known| known.row);
                let nodes = std::iter::once(self.0.row()).chain(others);
                Answer::Welcome(v1::Welcome {
                    cluster: Some(self.0.identity.cluster.clone()),
                    shards: Some(u32::from(self.0.identity.shards)),
                    node: Some(node),
                    nodes: nodes.map(|row| record::encode(&row)).collect(),
                })
            }
            // What it hears otherwise is final.
            Err(Failure::Rejected(rejection)) if rejection.kind != RejectionKind::Busy => {
                Answer::Rejection(reply::encode_rejection(&rejection))
            }
            Ok(_) | Err(_) => Answer::NotLeader(v1::NotLeader { leader: self.0.leader(0) }),
        };
        Ok(Response::new(v1::JoinAnswer { answer: Some(answer) }))
    }

    async fn replica(
        &self,
        request: Request<v1::ReplicaRequest>,
    ) -> Result<Response<v1::ReplicaAnswer>, Status> {
        let request = request.into_inner();
        let shard = decode_shard("ReplicaRequest.shard", request.shard).map_err(malformed)?;
        let wanted = request.wanted.ok_or_else(|| Status::invalid_argument("wanted or not?"))?;
        let (cluster, without) = (self.0.clone(), request.without.unwrap_or(0));
        // To its end, also if whoever asks waits no more.
        let doing = tokio::spawn(async move {
            match wanted {
                true => cluster.have_replica(shard).await,
                false => cluster.drop_replica(shard, without).await,
            }
        });
        let done = doing.await.map_err(|error| Status::internal(error.to_string()))?;
        done.map_err(|error| Status::internal(format!("{error:#}")))?;
        Ok(Response::new(v1::ReplicaAnswer {}))
    }

    async fn hint(
        &self,
        request: Request<v1::HintRequest>,
    ) -> Result<Response<v1::HintAnswer>, Status> {
        self.0.hinted(claims::decode_hints(request.into_inner()).map_err(malformed)?);
        Ok(Response::new(v1::HintAnswer {}))
    }

    async fn claim(
        &self,
        request: Request<v1::ClaimRequest>,
    ) -> Result<Response<v1::ClaimAnswer>, Status> {
        use v1::claim_answer::Answer;
        let (shard, grants) = claims::decode_claim(request.into_inner()).map_err(malformed)?;
        let handle = self.0.shards.get(usize::from(shard)).filter(|handle| handle.acts_here());
        let Some(handle) = handle else {
            let answer = Answer::NotLeader(v1::NotLeader { leader: self.0.leader(shard) });
            return Ok(Response::new(v1::ClaimAnswer { answer: Some(answer) }));
        };
        let claimed = handle.claim(grants).await;
        let claimed = claimed.ok_or_else(|| Status::unavailable("the shard has stopped"))?;
        let answer = Answer::Claimed(claims::encode_claimed(&claimed));
        Ok(Response::new(v1::ClaimAnswer { answer: Some(answer) }))
    }

    async fn held(
        &self,
        request: Request<v1::HeldRequest>,
    ) -> Result<Response<v1::HeldAnswer>, Status> {
        use v1::held_answer::Answer;
        let request = request.into_inner();
        let shard = decode_shard("HeldRequest.shard", request.shard).map_err(malformed)?;
        if usize::from(shard) >= self.0.shards.len() {
            return Err(Status::not_found("there is no such shard"));
        }
        let answer = match self.0.held_here(shard, request.workers).await {
            Some((term, held)) => Answer::Held(claims::encode_held(term, &held)),
            None => Answer::NotLeader(v1::NotLeader { leader: self.0.leader(shard) }),
        };
        Ok(Response::new(v1::HeldAnswer { answer: Some(answer) }))
    }

    async fn stop(
        &self,
        request: Request<v1::StopRequest>,
    ) -> Result<Response<v1::StopAnswer>, Status> {
        let stops = claims::decode_stops(request.into_inner()).map_err(malformed)?;
        if let Some(hands) = self.0.hands.get() {
            for (worker, run, token) in stops {
                hands.remotes.stop_attempt(&worker, run, token);
            }
        }
        Ok(Response::new(v1::StopAnswer {}))
    }

    async fn bound(
        &self,
        request: Request<v1::BoundRequest>,
    ) -> Result<Response<v1::BoundAnswer>, Status> {
        let (keeper, asks) = bounds::decode_asks(request.into_inner()).map_err(malformed)?;
        let answers = self.0.hear_shards(keeper, asks).await?;
        Ok(Response::new(v1::BoundAnswer { answers: bounds::encode_answers(&answers) }))
    }

    async fn left(
        &self,
        request: Request<v1::LeftRequest>,
    ) -> Result<Response<v1::LeftAnswer>, Status> {
        let answers = bounds::decode_answers(request.into_inner().answers).map_err(malformed)?;
        self.0.desk.tell(answers);
        Ok(Response::new(v1::LeftAnswer {}))
    }

    async fn change(
        &self,
        request: Request<v1::ChangeRequest>,
    ) -> Result<Response<v1::ChangeAnswer>, Status> {
        let request = request.into_inner();
        let shard = decode_shard("ChangeRequest.shard", request.shard).map_err(malformed)?;
        let what = request.what.ok_or_else(|| Status::invalid_argument("what is to change?"))?;
        let planned = request.voters.into_iter().collect();
        let changed = self.0.change(shard, what, planned).await;
        let refused = changed.err().map(|error| format!("{error:#}"));
        Ok(Response::new(v1::ChangeAnswer { refused: Some(refused.unwrap_or_default()) }))
    }
}
