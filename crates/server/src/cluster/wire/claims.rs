//! What waits for workers, what is claimed for them, and what they hold.

use bellwether_core::id::RunId;
use bellwether_core::shard::StillHeld;
use bellwether_core::turn::{Assignment, Lane, Turnstile};
use bellwether_core::waist::Shard;
use bellwether_protocol::node::v1;

use super::ask::decode_shard;
use super::work::{
    decode_assignment, decode_lane, decode_turnstile, encode_assignment, encode_lane,
    encode_turnstile,
};
use super::{WireError, decode_run, encode_run, required};
use crate::shard::{Claimed, Grant};

/// The first waiting run of a lane, and how many wait.
pub type Head = (Lane, Turnstile, usize);

/// What waits in a shard that acts elsewhere.
#[derive(Clone, PartialEq, Debug)]
pub struct Hint {
    /// The shard.
    pub shard: Shard,
    /// The term under which it acts.
    pub term: u64,
    /// What waits.
    pub heads: Vec<Head>,
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn count(field: &'static str, number: Option<u64>) -> Result<usize, WireError> {
    Ok(usize::try_from(required(field, number)?).unwrap_or(usize::MAX))
}

fn encode_head((lane, first, waiting): &Head) -> v1::Head {
    v1::Head {
        lane: Some(encode_lane(lane)),
        first: Some(encode_turnstile(*first)),
        count: Some(number(*waiting)),
    }
}

fn decode_head(head: v1::Head) -> Result<Head, WireError> {
    let lane = decode_lane(required("Head.lane", head.lane)?)?;
    let first = decode_turnstile(required("Head.first", head.first)?)?;
    Ok((lane, first, count("Head.count", head.count)?))
}

/// Hints as a message.
#[must_use]
pub fn encode_hints(hints: &[Hint]) -> v1::HintRequest {
    let shards = hints.iter().map(|hint| v1::ShardHint {
        shard: Some(u32::from(hint.shard)),
        term: Some(hint.term),
        heads: hint.heads.iter().map(encode_head).collect(),
    });
    v1::HintRequest { shards: shards.collect() }
}

/// Hints that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode_hints(request: v1::HintRequest) -> Result<Vec<Hint>, WireError> {
    let hint = |hint: v1::ShardHint| {
        Ok(Hint {
            shard: decode_shard("ShardHint.shard", hint.shard)?,
            term: required("ShardHint.term", hint.term)?,
            heads: hint.heads.into_iter().map(decode_head).collect::<Result<_, _>>()?,
        })
    };
    request.shards.into_iter().map(hint).collect()
}

/// A wish to claim as a message.
#[must_use]
pub fn encode_claim(shard: Shard, grants: &[Grant]) -> v1::ClaimRequest {
    let grants = grants.iter().map(|grant| v1::Grant {
        lane: Some(encode_lane(&grant.lane)),
        worker: Some(grant.worker.to_string()),
        slots: Some(number(grant.slots)),
        others: Some(grant.others),
    });
    v1::ClaimRequest { shard: Some(u32::from(shard)), grants: grants.collect() }
}

/// A wish to claim that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode_claim(request: v1::ClaimRequest) -> Result<(Shard, Vec<Grant>), WireError> {
    let grant = |grant: v1::Grant| {
        Ok(Grant {
            lane: decode_lane(required("Grant.lane", grant.lane)?)?,
            worker: required("Grant.worker", grant.worker)?.into(),
            slots: count("Grant.slots", grant.slots)?,
            others: required("Grant.others", grant.others)?,
        })
    };
    let grants = request.grants.into_iter().map(grant).collect::<Result<_, _>>()?;
    Ok((decode_shard("ClaimRequest.shard", request.shard)?, grants))
}

/// What was claimed as a message.
#[must_use]
pub fn encode_claimed(claimed: &Claimed) -> v1::Claimed {
    v1::Claimed {
        assignments: claimed.assignments.iter().map(encode_assignment).collect(),
        heads: claimed.heads.iter().map(encode_head).collect(),
        term: Some(claimed.term),
    }
}

/// What was claimed, as a message says.
///
/// # Errors
/// When it is not understood.
pub fn decode_claimed(claimed: v1::Claimed) -> Result<Claimed, WireError> {
    let assignments: Result<Vec<Assignment>, _> =
        claimed.assignments.into_iter().map(decode_assignment).collect();
    let heads: Result<Vec<Head>, _> = claimed.heads.into_iter().map(decode_head).collect();
    let term = required("Claimed.term", claimed.term)?;
    Ok(Claimed { assignments: assignments?, heads: heads?, term })
}

/// What is with workers as a message.
#[must_use]
pub fn encode_held(term: u64, held: &[StillHeld]) -> v1::AllHeld {
    let runs = held.iter().map(|held| v1::HeldRun {
        worker: Some(held.worker.clone()),
        run: Some(encode_run(held.run)),
        token: Some(held.token),
        stop: Some(held.stop),
        lane: Some(encode_lane(&held.lane)),
    });
    v1::AllHeld { term: Some(term), runs: runs.collect() }
}

/// What is with workers, as a message says, and under which term.
///
/// # Errors
/// When it is not understood.
pub fn decode_held(held: v1::AllHeld) -> Result<(u64, Vec<StillHeld>), WireError> {
    let run = |held: v1::HeldRun| {
        Ok(StillHeld {
            worker: required("HeldRun.worker", held.worker)?,
            run: decode_run("HeldRun.run", held.run)?,
            token: required("HeldRun.token", held.token)?,
            stop: required("HeldRun.stop", held.stop)?,
            lane: decode_lane(required("HeldRun.lane", held.lane)?)?,
        })
    };
    let runs = held.runs.into_iter().map(run).collect::<Result<_, _>>()?;
    Ok((required("AllHeld.term", held.term)?, runs))
}

/// An attempt that is to be stopped.
pub type ToStop = (String, RunId, u64);

/// Attempts that are to be stopped as a message.
#[must_use]
pub fn encode_stops(stops: &[ToStop]) -> v1::StopRequest {
    let runs = stops.iter().map(|(worker, run, token)| v1::StopRun {
        worker: Some(worker.clone()),
        run: Some(encode_run(*run)),
        token: Some(*token),
    });
    v1::StopRequest { runs: runs.collect() }
}

/// Attempts that are to be stopped, as a message says.
///
/// # Errors
/// When it is not understood.
pub fn decode_stops(request: v1::StopRequest) -> Result<Vec<ToStop>, WireError> {
    let stop = |stop: v1::StopRun| {
        let worker = required("StopRun.worker", stop.worker)?;
        let token = required("StopRun.token", stop.token)?;
        Ok((worker, decode_run("StopRun.run", stop.run)?, token))
    };
    request.runs.into_iter().map(stop).collect()
}
