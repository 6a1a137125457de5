//! What is asked of a shard.
//!
//! An entry that has come due and pruning are not among it: a shard brings them up itself.

use bellwether_core::id::JobId;
use bellwether_core::record;
use bellwether_core::time::Time;
use bellwether_core::turn::{GroupChange, Input, NewJob, NodeChange, QueueChange};
use bellwether_protocol::node::v1::{self, group, input::What, node};

use super::{WireError, batch, decode_run, encode_run, job, report, required, stored, time};

/// An input as a message.
///
/// # Errors
/// For an input that a shard makes for itself.
pub fn encode(input: &Input) -> Result<v1::Input, WireError> {
    let what = match input {
        Input::Create { actor, jobs } => What::Create(v1::Create {
            actor: Some(actor.clone()),
            jobs: jobs.iter().map(encode_new_job).collect(),
        }),
        Input::NewId => What::NewId(v1::Nothing {}),
        Input::ReserveKey { namespace, key, job, replace } => What::ReserveKey(v1::ReserveKey {
            namespace: Some(namespace.clone()),
            key: Some(key.clone()),
            job: Some(job.0),
            replace: replace.map(|job| job.0),
        }),
        Input::FreeKey { namespace, key, job } => What::FreeKey(v1::FreeKey {
            namespace: Some(namespace.clone()),
            key: Some(key.clone()),
            job: Some(job.0),
        }),
        Input::Replace { actor, job, definition, hash, enabled, expected_revision } => {
            What::Replace(v1::Replace {
                actor: Some(actor.clone()),
                job: Some(job.0),
                definition: Some(record::encode(definition.as_ref())),
                hash: Some(hash.clone()),
                enabled: *enabled,
                expected_revision: *expected_revision,
            })
        }
        Input::Delete { actor, job } => What::Delete(about_job(actor, *job)),
        Input::Pause { actor, job, note } => What::Pause(v1::Pause {
            actor: Some(actor.clone()),
            job: Some(job.0),
            note: Some(note.clone()),
        }),
        Input::Resume { actor, job } => What::Resume(about_job(actor, *job)),
        Input::Maintenance { actor, job, until, note } => What::Maintenance(v1::Maintenance {
            actor: Some(actor.clone()),
            job: Some(job.0),
            until_ms: until.map(|until| until.0),
            note: Some(note.clone()),
        }),
        Input::Trigger { actor, job } => What::Trigger(about_job(actor, *job)),
        Input::Group { actor, namespace, group, change } => What::Group(v1::Group {
            actor: Some(actor.clone()),
            namespace: Some(namespace.clone()),
            group: Some(group.clone()),
            change: Some(encode_change(change)),
        }),
        Input::Cancel { actor, run } => {
            What::Cancel(v1::AboutRun { actor: Some(actor.clone()), run: Some(encode_run(*run)) })
        }
        Input::Retry { actor, run } => {
            What::Retry(v1::AboutRun { actor: Some(actor.clone()), run: Some(encode_run(*run)) })
        }
        Input::Due { .. } => return Err(WireError::NotSent("what has come due")),
        Input::Report(said) => What::Report(report::encode(said)),
        Input::Lost { run, token, detail } => What::Lost(v1::Lost {
            run: Some(encode_run(*run)),
            token: Some(*token),
            detail: Some(detail.clone()),
        }),
        Input::Prune => return Err(WireError::NotSent("pruning")),
        Input::Batch { batch, input } => What::Batch(batch::encode(*batch, input)),
        Input::PutToken { actor, token } => What::PutToken(v1::PutToken {
            actor: Some(actor.clone()),
            token: Some(record::encode(token)),
        }),
        Input::PutQueue { actor, name, change } => What::PutQueue(v1::PutQueue {
            actor: Some(actor.clone()),
            name: Some(name.clone()),
            concurrency: change.concurrency,
            rate_milli: change.rate_milli,
            paused: change.paused,
            note: Some(change.note.clone()),
        }),
        Input::Node { actor, change } => {
            What::Node(v1::Node { actor: Some(actor.clone()), change: Some(encode_node(change)) })
        }
        Input::RevokeToken { actor, name, keep_admin } => What::RevokeToken(v1::RevokeToken {
            actor: Some(actor.clone()),
            name: Some(name.clone()),
            keep_admin: Some(*keep_admin),
        }),
    };
    Ok(v1::Input { what: Some(what) })
}

/// The input that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode(input: v1::Input) -> Result<Input, WireError> {
    Ok(match input.what.ok_or(WireError::UnknownKind("Input.what"))? {
        What::Create(create) => Input::Create {
            actor: required("Create.actor", create.actor)?,
            jobs: create.jobs.into_iter().map(decode_new_job).collect::<Result<_, _>>()?,
        },
        What::NewId(_) => Input::NewId,
        What::ReserveKey(reserve) => Input::ReserveKey {
            namespace: required("ReserveKey.namespace", reserve.namespace)?,
            key: required("ReserveKey.key", reserve.key)?,
            job: job("ReserveKey.job", reserve.job)?,
            replace: reserve.replace.map(JobId),
        },
        What::FreeKey(free) => Input::FreeKey {
            namespace: required("FreeKey.namespace", free.namespace)?,
            key: required("FreeKey.key", free.key)?,
            job: job("FreeKey.job", free.job)?,
        },
        What::Replace(replace) => Input::Replace {
            actor: required("Replace.actor", replace.actor)?,
            job: job("Replace.job", replace.job)?,
            definition: Box::new(stored("Replace.definition", replace.definition)?),
            hash: required("Replace.hash", replace.hash)?,
            enabled: replace.enabled,
            expected_revision: replace.expected_revision,
        },
        What::Delete(about) => {
            let (actor, job) = job_of(about)?;
            Input::Delete { actor, job }
        }
        What::Pause(pause) => Input::Pause {
            actor: required("Pause.actor", pause.actor)?,
            job: job("Pause.job", pause.job)?,
            note: required("Pause.note", pause.note)?,
        },
        What::Resume(about) => {
            let (actor, job) = job_of(about)?;
            Input::Resume { actor, job }
        }
        What::Maintenance(maintenance) => Input::Maintenance {
            actor: required("Maintenance.actor", maintenance.actor)?,
            job: job("Maintenance.job", maintenance.job)?,
            until: maintenance.until_ms.map(Time),
            note: required("Maintenance.note", maintenance.note)?,
        },
        What::Trigger(about) => {
            let (actor, job) = job_of(about)?;
            Input::Trigger { actor, job }
        }
        What::Group(group) => Input::Group {
            actor: required("Group.actor", group.actor)?,
            namespace: required("Group.namespace", group.namespace)?,
            group: required("Group.group", group.group)?,
            change: decode_change(group.change)?,
        },
        What::Cancel(about) => Input::Cancel {
            actor: required("AboutRun.actor", about.actor)?,
            run: decode_run("AboutRun.run", about.run)?,
        },
        What::Retry(about) => Input::Retry {
            actor: required("AboutRun.actor", about.actor)?,
            run: decode_run("AboutRun.run", about.run)?,
        },
        What::Report(said) => Input::Report(report::decode(said)?),
        What::Lost(lost) => Input::Lost {
            run: decode_run("Lost.run", lost.run)?,
            token: required("Lost.token", lost.token)?,
            detail: required("Lost.detail", lost.detail)?,
        },
        What::Batch(asked) => {
            let (batch, input) = batch::decode(asked)?;
            Input::Batch { batch, input: Box::new(input) }
        }
        What::PutToken(put) => Input::PutToken {
            actor: required("PutToken.actor", put.actor)?,
            token: stored("PutToken.token", put.token)?,
        },
        What::PutQueue(put) => Input::PutQueue {
            actor: required("PutQueue.actor", put.actor)?,
            name: required("PutQueue.name", put.name)?,
            change: QueueChange {
                concurrency: put.concurrency,
                rate_milli: put.rate_milli,
                paused: put.paused,
                note: required("PutQueue.note", put.note)?,
            },
        },
        What::Node(asked) => Input::Node {
            actor: required("Node.actor", asked.actor)?,
            change: decode_node(asked.change)?,
        },
        What::RevokeToken(revoke) => Input::RevokeToken {
            actor: required("RevokeToken.actor", revoke.actor)?,
            name: required("RevokeToken.name", revoke.name)?,
            keep_admin: required("RevokeToken.keep_admin", revoke.keep_admin)?,
        },
    })
}

fn about_job(actor: &str, job: JobId) -> v1::AboutJob {
    v1::AboutJob { actor: Some(actor.to_owned()), job: Some(job.0) }
}

fn job_of(about: v1::AboutJob) -> Result<(String, JobId), WireError> {
    Ok((required("AboutJob.actor", about.actor)?, job("AboutJob.job", about.job)?))
}

fn encode_new_job(new: &NewJob) -> v1::NewJob {
    v1::NewJob {
        definition: Some(record::encode(&new.definition)),
        hash: Some(new.hash.clone()),
        reserved: new
            .reserved
            .map(|(job, until)| v1::Reservation { job: Some(job.0), until_ms: Some(until.0) }),
    }
}

fn decode_new_job(new: v1::NewJob) -> Result<NewJob, WireError> {
    let reserved = match new.reserved {
        None => None,
        Some(reserved) => Some((
            job("Reservation.job", reserved.job)?,
            time("Reservation.until_ms", reserved.until_ms)?,
        )),
    };
    Ok(NewJob {
        definition: stored("NewJob.definition", new.definition)?,
        hash: required("NewJob.hash", new.hash)?,
        reserved,
    })
}

fn encode_change(change: &GroupChange) -> group::Change {
    match change {
        GroupChange::Pause { note } => {
            group::Change::Pause(v1::GroupPause { note: Some(note.clone()) })
        }
        GroupChange::Resume => group::Change::Resume(v1::Nothing {}),
        GroupChange::Maintenance { until, note } => {
            group::Change::Maintenance(v1::GroupMaintenance {
                until_ms: until.map(|until| until.0),
                note: Some(note.clone()),
            })
        }
    }
}

fn decode_change(change: Option<group::Change>) -> Result<GroupChange, WireError> {
    Ok(match change.ok_or(WireError::UnknownKind("Group.change"))? {
        group::Change::Pause(pause) => {
            GroupChange::Pause { note: required("GroupPause.note", pause.note)? }
        }
        group::Change::Resume(_) => GroupChange::Resume,
        group::Change::Maintenance(maintenance) => GroupChange::Maintenance {
            until: maintenance.until_ms.map(Time),
            note: required("GroupMaintenance.note", maintenance.note)?,
        },
    })
}

fn encode_node(change: &NodeChange) -> node::Change {
    match change {
        NodeChange::Join(row) => node::Change::Join(record::encode(row)),
        NodeChange::Introduce(row) => node::Change::Introduce(record::encode(row)),
        NodeChange::Leave(node) => node::Change::Leave(*node),
        NodeChange::Forget(node) => node::Change::Forget(*node),
    }
}

fn decode_node(change: Option<node::Change>) -> Result<NodeChange, WireError> {
    Ok(match change.ok_or(WireError::UnknownKind("Node.change"))? {
        node::Change::Join(row) => NodeChange::Join(stored("Node.join", Some(row))?),
        node::Change::Introduce(row) => NodeChange::Introduce(stored("Node.introduce", Some(row))?),
        node::Change::Leave(node) => NodeChange::Leave(node),
        node::Change::Forget(node) => NodeChange::Forget(node),
    })
}
