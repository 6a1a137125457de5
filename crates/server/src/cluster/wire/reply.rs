//! What shards answer.

use bellwether_core::id::BatchId;
use bellwether_core::turn::{Created, Rejection, RejectionKind, Reply};
use bellwether_protocol::node::v1::{self, created_one, reply::What};

use super::{WireError, decode_run, encode_run, job, required};

/// A reply as a message.
#[must_use]
pub fn encode(reply: &Reply) -> v1::Reply {
    let what = match reply {
        Reply::Done => What::Done(v1::Nothing {}),
        Reply::Created(jobs) => {
            What::Created(v1::Created { jobs: jobs.iter().map(encode_created).collect() })
        }
        Reply::Run(run) => What::Run(encode_run(*run)),
        Reply::Runs(first, count) => {
            What::Runs(v1::Runs { first: Some(encode_run(*first)), count: Some(*count) })
        }
        Reply::More(more) => What::More(*more),
        Reply::Batch { batch, new } => {
            What::Batch(v1::BatchFound { batch: Some(batch.0), is_new: Some(*new) })
        }
        Reply::Stale => What::Stale(v1::Nothing {}),
        Reply::Node(node, name) => {
            What::Node(v1::NodeFound { node: Some(*node), name: Some(name.clone()) })
        }
    };
    v1::Reply { what: Some(what) }
}

/// The reply that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode(reply: v1::Reply) -> Result<Reply, WireError> {
    Ok(match reply.what.ok_or(WireError::UnknownKind("Reply.what"))? {
        What::Done(_) => Reply::Done,
        What::Created(created) => {
            Reply::Created(created.jobs.into_iter().map(decode_created).collect::<Result<_, _>>()?)
        }
        What::Run(run) => Reply::Run(decode_run("Reply.run", Some(run))?),
        What::Runs(runs) => {
            Reply::Runs(decode_run("Runs.first", runs.first)?, required("Runs.count", runs.count)?)
        }
        What::More(more) => Reply::More(more),
        What::Batch(found) => Reply::Batch {
            batch: required("BatchFound.batch", found.batch).map(BatchId)?,
            new: required("BatchFound.is_new", found.is_new)?,
        },
        What::Stale(_) => Reply::Stale,
        What::Node(found) => Reply::Node(
            required("NodeFound.node", found.node)?,
            required("NodeFound.name", found.name)?,
        ),
    })
}

fn encode_created(result: &Result<Created, Rejection>) -> v1::CreatedOne {
    let what = match result {
        Ok(created) => created_one::What::Job(v1::JobFound {
            job: Some(created.job.0),
            is_new: Some(created.new),
        }),
        Err(rejection) => created_one::What::Rejection(encode_rejection(rejection)),
    };
    v1::CreatedOne { what: Some(what) }
}

fn decode_created(one: v1::CreatedOne) -> Result<Result<Created, Rejection>, WireError> {
    match one.what.ok_or(WireError::UnknownKind("CreatedOne.what"))? {
        created_one::What::Job(found) => Ok(Ok(Created {
            job: job("JobFound.job", found.job)?,
            new: required("JobFound.is_new", found.is_new)?,
        })),
        created_one::What::Rejection(rejection) => decode_rejection(rejection).map(Err),
    }
}

/// A rejection as a message.
#[must_use]
pub fn encode_rejection(rejection: &Rejection) -> v1::Rejection {
    let kind = match rejection.kind {
        RejectionKind::NotFound => v1::RejectionKind::NotFound,
        RejectionKind::Conflict => v1::RejectionKind::Conflict,
        RejectionKind::Invalid => v1::RejectionKind::Invalid,
        RejectionKind::Busy => v1::RejectionKind::Busy,
    };
    v1::Rejection {
        kind: kind.into(),
        code: Some(rejection.code.clone().into_owned()),
        message: Some(rejection.message.clone()),
    }
}

/// The rejection that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode_rejection(rejection: v1::Rejection) -> Result<Rejection, WireError> {
    let field = "Rejection.kind";
    let unknown = WireError::UnknownValue { field, value: i64::from(rejection.kind) };
    let kind = match v1::RejectionKind::try_from(rejection.kind).map_err(|_| unknown)? {
        v1::RejectionKind::Unspecified => return Err(WireError::Missing(field)),
        v1::RejectionKind::NotFound => RejectionKind::NotFound,
        v1::RejectionKind::Conflict => RejectionKind::Conflict,
        v1::RejectionKind::Invalid => RejectionKind::Invalid,
        v1::RejectionKind::Busy => RejectionKind::Busy,
    };
    Ok(Rejection {
        kind,
        code: required("Rejection.code", rejection.code)?.into(),
        message: required("Rejection.message", rejection.message)?,
    })
}
