//! Policies of a job, their ranges, and what a caller should know about them.

use bellwether_api::{
    Cpus, Delivery, JobSpec, Misfire, MisfirePolicy, OnFailure, Overlap, OverlapPolicy, Problem,
    Resources, Size, Span, TargetWorkers, TextOr,
};
use bellwether_core::record::{self, Definition, Target};
use bellwether_core::time::DURATION_MAX_MS;
use bytes::Bytes;
use serde_json::value::RawValue;

use super::json;
use super::limits::{
    EXPIRES_AFTER_MIN_MS, MEMORY_LIMIT_MAX_BYTES, MEMORY_LIMIT_MIN_BYTES, NOTIFY_BYTES_MAX,
    POLICY_MAX, PRIORITY_MAX, RETENTION_AGE_MAX_MS, RETENTION_AGE_MIN_MS, RETENTION_RUNS_MAX,
    TIMEOUT_MAX_MS,
};
use super::problem::{
    count_within, invalid, nearest, out_of_range, quoted, size_within, span_within, too_long,
};

const MISFIRE: [(&str, MisfirePolicy); 3] =
    [("once", MisfirePolicy::Once), ("skip", MisfirePolicy::Skip), ("all", MisfirePolicy::All)];

const OVERLAP: [(&str, OverlapPolicy); 4] = [
    ("skip", OverlapPolicy::Skip),
    ("queue", OverlapPolicy::Queue),
    ("replace", OverlapPolicy::Replace),
    ("allow", OverlapPolicy::Allow),
];

/// Checks the policies of a spec and writes them into the definition.
pub(super) fn apply(spec: &mut JobSpec, definition: &mut Definition) -> Result<(), Problem> {
    if let Some(priority) = spec.priority {
        if !(-PRIORITY_MAX..=PRIORITY_MAX).contains(&priority) {
            let range = format!("from -{PRIORITY_MAX} to {PRIORITY_MAX}");
            return Err(out_of_range("priority", priority, range));
        }
        definition.priority = priority;
    }
    definition.delivery = match spec.delivery {
        None => record::Delivery::Default,
        Some(Delivery::AtMostOnce) => record::Delivery::AtMostOnce,
        Some(Delivery::AtLeastOnce) => record::Delivery::AtLeastOnce,
    } as i32;
    definition.on_failure = match spec.on_failure {
        None | Some(OnFailure::Block) => record::OnFailure::Block,
        Some(OnFailure::Continue) => record::OnFailure::Continue,
    } as i32;
    definition.misfire = spec.misfire.take().map(misfire).transpose()?;
    definition.overlap = spec.overlap.take().map(overlap).transpose()?;
    if let Some(timeout) = spec.timeout {
        definition.timeout_ms = span_within("timeout", timeout, 1, TIMEOUT_MAX_MS)?;
    }
    if let Some(limit) = spec.memory_limit {
        definition.memory_limit_bytes =
            size_within("memory_limit", limit, MEMORY_LIMIT_MIN_BYTES, MEMORY_LIMIT_MAX_BYTES)?;
    }
    if let Some(expiry) = spec.expires_after {
        definition.expires_after_ms =
            span_within("expires_after", expiry, EXPIRES_AFTER_MIN_MS, DURATION_MAX_MS)?;
    }
    definition.target_workers = target_workers(spec.target_workers, definition)? as i32;
    definition.resources = resources(spec.resources.take());
    definition.retention = retention(spec.retention)?;
    definition.notify = spec.notify.take().map(notify).transpose()?.unwrap_or_default();
    Ok(())
}

/// Finds a policy by its name.
fn by_name<T: Copy>(
    code: &str,
    field: &str,
    text: &str,
    known: &[(&'static str, T)],
) -> Result<T, Problem> {
    if let Some((_, policy)) = known.iter().find(|(name, _)| *name == text) {
        return Ok(*policy);
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let hint = match nearest(text, names.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("use one of {}", names.join(", ")),
    };
    Err(invalid(code, field, format!("{} is not possible here; {hint}", quoted(text))))
}

fn misfire(misfire: TextOr<Misfire>) -> Result<record::Misfire, Problem> {
    let misfire = match misfire {
        TextOr::Object(misfire) => misfire,
        TextOr::Text(text) => {
            let policy = by_name("invalid_misfire", "misfire", &text, &MISFIRE)?;
            Misfire { policy: Some(policy), window: None, max: None }
        }
    };
    let policy = match misfire.policy.unwrap_or(MisfirePolicy::Once) {
        MisfirePolicy::Once => record::MisfirePolicy::Once,
        MisfirePolicy::Skip => record::MisfirePolicy::Skip,
        MisfirePolicy::All => record::MisfirePolicy::All,
    };
    let max = misfire.max.map(|max| count_within("misfire.max", max, POLICY_MAX)).transpose()?;
    Ok(record::Misfire {
        policy: policy as i32,
        window_ms: misfire.window.map(|window| window.0),
        max: max.unwrap_or(0),
    })
}

/// The policy for missed ticks as a caller would write it.
pub(super) fn misfire_back(stored: &record::Misfire) -> Misfire {
    Misfire {
        policy: Some(match stored.policy() {
            record::MisfirePolicy::Once => MisfirePolicy::Once,
            record::MisfirePolicy::Skip => MisfirePolicy::Skip,
            record::MisfirePolicy::All => MisfirePolicy::All,
        }),
        window: stored.window_ms.map(Span),
        max: (stored.max > 0).then_some(stored.max),
    }
}

/// The same, by its name if there is nothing else to say.
pub(super) fn misfire_short(stored: &record::Misfire) -> TextOr<Misfire> {
    let misfire = misfire_back(stored);
    let name = MISFIRE.iter().find(|(_, policy)| Some(*policy) == misfire.policy);
    match name {
        Some((name, _)) if misfire.window.is_none() && misfire.max.is_none() => {
            TextOr::Text((*name).to_owned())
        }
        _ => TextOr::Object(misfire),
    }
}

fn overlap(overlap: TextOr<Overlap>) -> Result<record::Overlap, Problem> {
    let overlap = match overlap {
        TextOr::Object(overlap) => overlap,
        TextOr::Text(text) => {
            let policy = by_name("invalid_overlap", "overlap", &text, &OVERLAP)?;
            Overlap { policy, max: None }
        }
    };
    let policy = match overlap.policy {
        OverlapPolicy::Skip => record::OverlapPolicy::Skip,
        OverlapPolicy::Queue => record::OverlapPolicy::Queue,
        OverlapPolicy::Replace => record::OverlapPolicy::Replace,
        OverlapPolicy::Allow => record::OverlapPolicy::Allow,
    };
    let max = overlap.max.map(|max| count_within("overlap.max", max, POLICY_MAX)).transpose()?;
    Ok(record::Overlap { policy: policy as i32, max: max.unwrap_or(0) })
}

/// The policy for overlapping runs as a caller would write it.
pub(super) fn overlap_back(stored: &record::Overlap) -> Overlap {
    Overlap {
        policy: match stored.policy() {
            record::OverlapPolicy::Skip => OverlapPolicy::Skip,
            record::OverlapPolicy::Queue => OverlapPolicy::Queue,
            record::OverlapPolicy::Replace => OverlapPolicy::Replace,
            record::OverlapPolicy::Allow => OverlapPolicy::Allow,
        },
        max: (stored.max > 0).then_some(stored.max),
    }
}

/// The same, by its name if there is nothing else to say.
pub(super) fn overlap_short(stored: &record::Overlap) -> TextOr<Overlap> {
    let overlap = overlap_back(stored);
    match OVERLAP.iter().find(|(_, policy)| *policy == overlap.policy) {
        Some((name, _)) if overlap.max.is_none() => TextOr::Text((*name).to_owned()),
        _ => TextOr::Object(overlap),
    }
}

/// Several runs at once and one after another exclude each other.
fn target_workers(
    given: Option<TargetWorkers>,
    definition: &Definition,
) -> Result<record::TargetWorkers, Problem> {
    match given {
        None | Some(TargetWorkers::Any) => Ok(record::TargetWorkers::Any),
        Some(TargetWorkers::All) if !definition.ordering_key.is_empty() => {
            let detail = "runs on all workers start together, those of an `ordering_key` one after \
                          another; leave one of the two out";
            Err(invalid("conflicting_fields", "target_workers", detail))
        }
        Some(TargetWorkers::All) => Ok(record::TargetWorkers::All),
    }
}

/// What is declared, if anything is.
fn resources(resources: Option<Resources>) -> Option<record::Resources> {
    let Resources { cpu, memory } = resources?;
    let stored = record::Resources {
        cpu_milli: cpu.map(|cpu| cpu.0),
        memory_bytes: memory.map(|memory| memory.0),
    };
    (stored != record::Resources::default()).then_some(stored)
}

/// What is declared as a caller would write it.
pub(super) fn resources_back(stored: &record::Resources) -> Resources {
    Resources { cpu: stored.cpu_milli.map(Cpus), memory: stored.memory_bytes.map(Size) }
}

fn retention(
    retention: Option<bellwether_api::Retention>,
) -> Result<Option<record::Retention>, Problem> {
    let Some(retention) = retention else {
        return Ok(None);
    };
    let runs = |runs| count_within("retention.runs", runs, RETENTION_RUNS_MAX);
    let age = |age| span_within("retention.age", age, RETENTION_AGE_MIN_MS, RETENTION_AGE_MAX_MS);
    let stored = record::Retention {
        runs: retention.runs.map(runs).transpose()?.unwrap_or(0),
        age_ms: retention.age.map(age).transpose()?.unwrap_or(0),
    };
    Ok((stored != record::Retention::default()).then_some(stored))
}

/// Notices are kept as they were written. An empty list is stored as nothing.
fn notify(raw: Box<RawValue>) -> Result<Bytes, Problem> {
    let text: Box<str> = raw.into();
    if text.len() > NOTIFY_BYTES_MAX {
        return Err(too_long("notify", NOTIFY_BYTES_MAX, "bytes"));
    }
    json::check_stored("notify", &text)?;
    let wrong = |field: String, detail: &str| Err(invalid("invalid_notify", field, detail));
    let Ok(notices) = serde_json::from_str::<Vec<serde_json::Value>>(&text) else {
        return wrong("notify".to_owned(), "`notify` must be a list of objects");
    };
    if let Some(index) = notices.iter().position(|notice| !notice.is_object()) {
        return wrong(format!("notify[{index}]"), "a notice must be an object");
    }
    if notices.is_empty() {
        return Ok(Bytes::new());
    }
    Ok(Bytes::from(text.into_string().into_bytes()))
}

/// What is accepted but has no effect, or not the one that may be expected.
pub(super) fn warn(definition: &Definition, warnings: &mut Vec<String>) {
    let mut say = |text: &str| warnings.push(text.to_owned());
    if !definition.notify.is_empty() {
        say("notify is stored, but this version sends no notices");
    }
    if definition.on_failure() == record::OnFailure::Continue && definition.ordering_key.is_empty()
    {
        say("on_failure has no effect without an ordering_key");
    }
    if definition
        .misfire
        .as_ref()
        .is_some_and(|misfire| misfire.max > 0 && misfire.policy() != record::MisfirePolicy::All)
    {
        say("misfire.max has an effect only under the policy all");
    }
    if definition
        .overlap
        .as_ref()
        .is_some_and(|overlap| overlap.max > 0 && overlap.policy() != record::OverlapPolicy::Queue)
    {
        say("overlap.max has an effect only under the policy queue");
    }
    let Some(success) = &definition.success else {
        return;
    };
    match &definition.target {
        Some(Target::Command(_)) if !success.status_codes.is_empty() => {
            say("success.status_codes has no effect on a command");
        }
        Some(Target::Http(_)) if !success.exit_codes.is_empty() => {
            say("success.exit_codes has no effect on a request");
        }
        Some(Target::Publish(_)) => {
            say("success has no effect on a message: the broker's confirmation decides");
        }
        Some(Target::Handler(_)) => {
            say("success has no effect on a job_type: the handler says how it went");
        }
        _ => {}
    }
}
