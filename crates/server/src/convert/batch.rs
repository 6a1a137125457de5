//! Batches: what is done for each item, and what an item may be.

use bellwether_api::{Instant, JobSpec, NewBatch, Problem};
use bellwether_core::batch::ITEM_VARIABLE;
use bellwether_core::record::{self, BatchRow, Definition, Item, Target};
use bellwether_core::time::Time;
use bytes::Bytes;
use serde_json::value::RawValue;

use super::limits::{ENV_BYTES_MAX, PAYLOAD_BYTES_MAX};
use super::problem::{invalid, too_large, too_long};
use super::target::stored_json;
use super::{definition, from_json, json, name};

/// What a batch is, but for its items.
#[derive(Debug)]
pub struct BatchHead {
    /// What is to be stored.
    pub row: BatchRow,
    /// What is done for each item; `None` if items are whole jobs.
    pub template: Option<Definition>,
    /// The job to trigger at the end: id or key.
    pub on_complete: Option<String>,
}

/// Checks everything about a batch but its items.
///
/// # Errors
/// A problem that names the field and says what to write instead.
pub fn batch_head(request: NewBatch, now: Time) -> Result<BatchHead, Problem> {
    let namespace = name::tenant("namespace", request.namespace)?;
    let key = name::free("key", request.key, super::limits::KEY_CHARS_MAX)?;
    if key.starts_with("batch_") {
        let detail = "`key` cannot start with 'batch_': it would be taken for an id";
        return Err(invalid("invalid_name", "key", detail));
    }
    let template = match request.template {
        Some(spec) => {
            Some(template(*spec, &namespace, now).map_err(|problem| within("template", problem))?)
        }
        None => None,
    };
    let begin_ms = request.schedule_time.map_or(0, |Instant(time)| time.0);
    let row = BatchRow {
        key,
        description: name::description(request.description)?,
        template: template.as_ref().map(record::encode).unwrap_or_default(),
        begin_ms,
        namespace,
        ..BatchRow::default()
    };
    Ok(BatchHead { row, template, on_complete: request.on_complete })
}

/// What is wrong with a part, as something that is wrong with the whole.
fn within(field: &str, mut problem: Problem) -> Problem {
    problem.field = Some(match problem.field.take() {
        Some(inner) => format!("{field}.{inner}"),
        None => field.to_owned(),
    });
    problem
}

/// A template: a job whose time and place the batch decides, and whose item is yet to come.
fn template(spec: JobSpec, namespace: &str, now: Time) -> Result<Definition, Problem> {
    let filled = match () {
        () if spec.payload.is_some() => Some("payload"),
        () if spec.http.as_ref().is_some_and(|http| http.body.is_some()) => Some("http.body"),
        () if spec.publish.as_ref().is_some_and(|target| target.body.is_some()) => {
            Some("publish.body")
        }
        () if spec.env.contains_key(ITEM_VARIABLE) => Some("env"),
        () => None,
    };
    if let Some(field) = filled {
        let detail = "this is where each item goes; leave it out of the template";
        return Err(invalid("field_not_applicable", field, detail));
    }
    member(spec, namespace, now)
}

/// A job of a batch, which has no time and no name of its own.
fn member(mut spec: JobSpec, namespace: &str, now: Time) -> Result<Definition, Problem> {
    for (field, given) in [
        ("key", spec.key.is_some()),
        ("schedule", spec.schedule.is_some()),
        ("schedule_time", spec.schedule_time.is_some()),
        ("ordering_key", spec.ordering_key.is_some()),
        ("enabled", spec.enabled.is_some()),
        ("target_workers", spec.target_workers.is_some()),
    ] {
        if given {
            let detail = format!(
                "`{field}` cannot be given in a batch, whose items run once each, at once and in \
                 any order; use POST /v1/jobs:batch for jobs with times and names of their own"
            );
            return Err(invalid("field_not_applicable", field, detail));
        }
    }
    let own = name::tenant("namespace", spec.namespace.take())?;
    if !own.is_empty() && own != namespace {
        let detail = "all of a batch is in one namespace; give it for the batch as a whole";
        return Err(invalid("field_not_applicable", "namespace", detail));
    }
    spec.schedule_time = Some(Instant(now));
    let checked = definition(spec, now)?;
    Ok(Definition { namespace: namespace.to_owned(), schedule: None, ..checked.definition })
}

/// An item as it is stored: what goes into the template, or a whole job.
///
/// # Errors
/// A problem that says what is wrong with it.
pub fn batch_item(head: &BatchHead, json: &[u8], now: Time) -> Result<Item, Problem> {
    let Some(template) = &head.template else {
        let spec: JobSpec = from_json(json)?;
        let job = member(spec, &head.row.namespace, now)?;
        return Ok(Item { data: record::encode(&job), is_text: false });
    };
    let raw: Box<RawValue> = from_json(json)?;
    if matches!(template.target, Some(Target::Handler(_))) {
        let text = stored_json("item", raw)?;
        return Ok(Item { data: Bytes::from(text.into_string().into_bytes()), is_text: false });
    }
    let (data, is_text) = match raw.get().starts_with('"') {
        false => (stored_json("item", raw)?.into_string(), false),
        true => {
            let text: String = serde_json::from_str(raw.get()).map_err(|_| {
                json::check_stored("item", raw.get())
                    .err()
                    .unwrap_or_else(|| invalid("invalid_value", "item", "the text is not valid"))
            })?;
            (text, true)
        }
    };
    if data.len() > PAYLOAD_BYTES_MAX {
        return Err(too_large("item", data.len(), PAYLOAD_BYTES_MAX));
    }
    if matches!(template.target, Some(Target::Command(_))) {
        if data.len() > ENV_BYTES_MAX {
            return Err(too_long("item", ENV_BYTES_MAX, "bytes"));
        }
        if data.contains('\0') {
            let detail = "the item contains a NUL character, which a variable cannot";
            return Err(invalid("invalid_env", "item", detail));
        }
    }
    Ok(Item { data: Bytes::from(data.into_bytes()), is_text })
}
