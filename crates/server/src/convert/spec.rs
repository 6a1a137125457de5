//! From a stored definition to the JSON that a caller would have written, secrets masked.

use std::collections::BTreeMap;

use bellwether_api::{
    BasicAuth, Delivery, HttpAuth, HttpTarget, JobSpec, MASK, OnFailure, Retention, Size, Span,
    TargetWorkers, TextOr, TextOrList,
};
use bellwether_core::record::{self, Definition, Target};
use serde_json::value::RawValue;

use super::name::DEFAULT;
use super::secret::Pieces;
use super::{policy, publish, retry, schedule_back, success};

/// What a caller would have written to get this definition. Secrets are masked, namespace and
/// queue are named even if they are the default ones, other defaults are left out.
#[must_use]
pub fn spec(definition: &Definition, enabled: bool) -> JobSpec {
    let mut spec = JobSpec {
        key: text(&definition.key),
        namespace: Some(or_default(&definition.namespace)),
        group: text(&definition.group),
        owner: text(&definition.owner),
        labels: definition.labels.clone(),
        description: text(&definition.description),
        queue: Some(or_default(&definition.queue)),
        requires: definition.requires.clone(),
        ordering_key: text(&definition.ordering_key),
        enabled: Some(enabled),
        ..JobSpec::default()
    };
    if let Some(stored) = &definition.schedule {
        spec.schedule = Some(TextOr::Object(schedule_back::object(stored)));
        spec.schedule_time = schedule_back::plain_at(stored);
    }
    match &definition.target {
        Some(Target::Command(target)) => command(target, &mut spec),
        Some(Target::Http(target)) => spec.http = Some(http(target)),
        Some(Target::Handler(target)) => {
            spec.job_type = Some(target.job_type.clone());
            spec.payload = raw(&target.payload);
        }
        Some(Target::Publish(target)) => publish::back(target, &mut spec),
        None => {}
    }
    policies(definition, &mut spec);
    spec
}

fn policies(definition: &Definition, spec: &mut JobSpec) {
    spec.priority = (definition.priority != 0).then_some(definition.priority);
    if let Some(stored) = &definition.retry {
        (spec.retries, spec.retry) = retry::back(stored);
    }
    spec.delivery = match definition.delivery() {
        record::Delivery::Default => None,
        record::Delivery::AtMostOnce => Some(Delivery::AtMostOnce),
        record::Delivery::AtLeastOnce => Some(Delivery::AtLeastOnce),
    };
    spec.on_failure = match definition.on_failure() {
        record::OnFailure::Block => None,
        record::OnFailure::Continue => Some(OnFailure::Continue),
    };
    spec.misfire = definition.misfire.as_ref().map(policy::misfire_short);
    spec.overlap = definition.overlap.as_ref().map(policy::overlap_short);
    spec.target_workers = match definition.target_workers() {
        record::TargetWorkers::Any => None,
        record::TargetWorkers::All => Some(TargetWorkers::All),
    };
    spec.resources = definition.resources.as_ref().map(policy::resources_back);
    spec.timeout = span(definition.timeout_ms);
    let limit = definition.memory_limit_bytes;
    spec.memory_limit = (limit > 0).then_some(Size(limit));
    spec.expires_after = span(definition.expires_after_ms);
    spec.success = definition.success.as_ref().map(success::back);
    spec.retention = definition.retention.as_ref().map(|stored| Retention {
        runs: (stored.runs > 0).then_some(stored.runs),
        age: span(stored.age_ms),
    });
    spec.notify = raw(&definition.notify);
}

fn command(target: &record::CommandTarget, spec: &mut JobSpec) {
    spec.command = Some(match target.argv.is_empty() {
        true => TextOrList::Text(target.line.clone()),
        false => TextOrList::List(target.argv.clone()),
    });
    spec.env = target
        .env
        .iter()
        .map(|(name, value)| (name.clone(), Pieces::of_value(name, value).masked()))
        .collect();
    spec.cwd = text(&target.cwd);
    spec.user = text(&target.user);
    spec.stdin =
        (!target.stdin.is_empty()).then(|| String::from_utf8_lossy(&target.stdin).into_owned());
    spec.shell = text(&target.shell);
    spec.grace = span(target.grace_ms);
}

fn http(target: &record::HttpTarget) -> HttpTarget {
    let masked = |secret: &str| if secret.is_empty() { "" } else { MASK }.to_owned();
    let basic = target.basic.as_ref().map(|basic| BasicAuth {
        username: basic.username.clone(),
        password: masked(&basic.password),
    });
    let bearer = (!target.bearer.is_empty()).then(|| MASK.to_owned());
    HttpTarget {
        url: Pieces::of_url(&target.url).masked(),
        method: text(&target.method),
        headers: headers(&target.headers),
        body: body(&target.body, target.body_is_json),
        auth: (basic.is_some() || bearer.is_some()).then_some(HttpAuth { basic, bearer }),
        follow_redirects: target.follow_redirects.then_some(true),
        connect_timeout: span(target.connect_timeout_ms),
    }
}

/// Headers, secrets masked.
pub(super) fn headers(headers: &[record::Header]) -> BTreeMap<String, String> {
    let masked = |header: &record::Header| {
        (header.name.clone(), Pieces::of_value(&header.name, &header.value).masked())
    };
    headers.iter().map(masked).collect()
}

/// A body as it was written.
pub(super) fn body(body: &[u8], is_json: bool) -> Option<Box<RawValue>> {
    if is_json {
        return raw(body);
    }
    if body.is_empty() {
        return None;
    }
    serde_json::value::to_raw_value(&String::from_utf8_lossy(body)).ok()
}

/// JSON as it was written. Stored bytes that are not JSON any more are left out rather than
/// breaking the answer they would stand in.
pub(super) fn raw(json: &[u8]) -> Option<Box<RawValue>> {
    if json.is_empty() {
        return None;
    }
    serde_json::from_slice(json).ok()
}

pub(super) fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn or_default(name: &str) -> String {
    if name.is_empty() { DEFAULT.to_owned() } else { name.to_owned() }
}

fn span(ms: u64) -> Option<Span> {
    (ms > 0).then_some(Span(ms))
}
