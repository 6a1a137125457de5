//! Work: what waits, who is there to do it, and what is handed over.

use std::sync::Arc;

use bellwether_core::record;
use bellwether_core::turn::{Assignment, Demand, Lane, Offer, Turnstile, Work};
use bellwether_protocol::node::v1::{self, lane};

use super::{WireError, decode_run, encode_run, required, stored, time};

/// A demand as a message.
#[must_use]
pub fn encode_demand(demand: Demand) -> v1::Demand {
    v1::Demand { cpu_milli: Some(demand.cpu_milli), memory_bytes: Some(demand.memory_bytes) }
}

/// The demand that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode_demand(demand: v1::Demand) -> Result<Demand, WireError> {
    Ok(Demand {
        cpu_milli: required("Demand.cpu_milli", demand.cpu_milli)?,
        memory_bytes: required("Demand.memory_bytes", demand.memory_bytes)?,
    })
}

/// A lane as a message.
#[must_use]
pub fn encode_lane(lane: &Lane) -> v1::Lane {
    let work = match &lane.work {
        Work::Command => lane::Work::Command(v1::Nothing {}),
        Work::Http => lane::Work::Http(v1::Nothing {}),
        Work::Handler(name) => lane::Work::Handler(name.clone()),
    };
    v1::Lane {
        queue: Some(lane.queue.clone()),
        namespace: Some(lane.namespace.clone()),
        work: Some(work),
        requires: lane.requires.clone(),
        pinned: Some(lane.pinned.clone()),
        demand: Some(encode_demand(lane.demand)),
    }
}

/// The lane that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode_lane(lane: v1::Lane) -> Result<Lane, WireError> {
    let work = match lane.work.ok_or(WireError::UnknownKind("Lane.work"))? {
        lane::Work::Command(_) => Work::Command,
        lane::Work::Http(_) => Work::Http,
        lane::Work::Handler(name) => Work::Handler(name),
    };
    Ok(Lane {
        queue: required("Lane.queue", lane.queue)?,
        namespace: required("Lane.namespace", lane.namespace)?,
        work,
        requires: lane.requires,
        pinned: required("Lane.pinned", lane.pinned)?,
        demand: decode_demand(required("Lane.demand", lane.demand)?)?,
    })
}

/// The place of a run in its lane as a message.
#[must_use]
pub fn encode_turnstile(place: Turnstile) -> v1::Turnstile {
    v1::Turnstile {
        rank: Some(place.rank),
        scheduled_ms: Some(place.scheduled.0),
        run: Some(encode_run(place.run)),
    }
}

/// The place that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode_turnstile(place: v1::Turnstile) -> Result<Turnstile, WireError> {
    Ok(Turnstile {
        rank: required("Turnstile.rank", place.rank)?,
        scheduled: time("Turnstile.scheduled_ms", place.scheduled_ms)?,
        run: decode_run("Turnstile.run", place.run)?,
    })
}

/// An offer as a message.
#[must_use]
pub fn encode_offer(offer: &Offer) -> v1::Offer {
    v1::Offer {
        namespace: offer.namespace.clone(),
        queues: offer.queues.iter().cloned().collect(),
        labels: offer.labels.clone(),
        commands: Some(offer.commands),
        http: Some(offer.http),
        job_types: offer.job_types.iter().cloned().collect(),
    }
}

/// The offer that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode_offer(offer: v1::Offer) -> Result<Offer, WireError> {
    Ok(Offer {
        namespace: offer.namespace,
        queues: offer.queues.into_iter().collect(),
        labels: offer.labels,
        commands: required("Offer.commands", offer.commands)?,
        http: required("Offer.http", offer.http)?,
        job_types: offer.job_types.into_iter().collect(),
    })
}

/// A worker that is there as a message: its name, what it takes, and how much one run may ask for.
#[must_use]
pub fn encode_roster_entry(name: &str, offer: &Offer, most: Demand) -> v1::RosterEntry {
    v1::RosterEntry {
        name: Some(name.to_owned()),
        offer: Some(encode_offer(offer)),
        most: Some(encode_demand(most)),
    }
}

/// The worker that a message stands for, as a roster is made from.
///
/// # Errors
/// When it is not understood.
pub fn decode_roster_entry(entry: v1::RosterEntry) -> Result<(Arc<str>, Offer, Demand), WireError> {
    Ok((
        required("RosterEntry.name", entry.name)?.into(),
        decode_offer(required("RosterEntry.offer", entry.offer)?)?,
        decode_demand(required("RosterEntry.most", entry.most)?)?,
    ))
}

/// An attempt as a message.
#[must_use]
pub fn encode_assignment(assignment: &Assignment) -> v1::Assignment {
    v1::Assignment {
        run: Some(encode_run(assignment.run)),
        attempt: Some(assignment.attempt),
        token: Some(assignment.token),
        worker: Some(assignment.worker.clone()),
        scheduled_ms: Some(assignment.scheduled.0),
        due_ms: Some(assignment.due.0),
        pinned: Some(assignment.pinned.clone()),
        definition: Some(record::encode(&assignment.definition)),
    }
}

/// The attempt that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode_assignment(assignment: v1::Assignment) -> Result<Assignment, WireError> {
    Ok(Assignment {
        run: decode_run("Assignment.run", assignment.run)?,
        attempt: required("Assignment.attempt", assignment.attempt)?,
        token: required("Assignment.token", assignment.token)?,
        worker: required("Assignment.worker", assignment.worker)?,
        scheduled: time("Assignment.scheduled_ms", assignment.scheduled_ms)?,
        due: time("Assignment.due_ms", assignment.due_ms)?,
        pinned: required("Assignment.pinned", assignment.pinned)?,
        definition: stored("Assignment.definition", assignment.definition)?,
    })
}
