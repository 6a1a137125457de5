//! From the JSON of the API to stored definitions and back.
//!
//! Everything that can be said against a job without looking at the store is said here, with a
//! stable code and the field that is wrong; `docs/errors.md` lists the codes, `docs/limits.md` the
//! limits. What comes out is canonical: the same body always gives the same definition and the
//! same hash, `default` names are stored as nothing, and defaults are not written out.
//!
//! ```text
//!  body ──from_json──► JobSpec ──definition──► Checked { definition, hash, … } ──► store
//!                        ▲  ▲                                │
//!             patched ───┘  └─── unmask ◄── spec (masked) ◄──┘
//! ```
//!
//! Invariants:
//! - `definition(spec(d))` is `d` for every definition made here, once masked secrets are put back;
//! - no secret leaves through [`spec()`] or through a problem, neither its text nor its `Debug`;
//! - a plain one-off job passes without compiling anything, since tens of thousands of them come
//!   through here in a second.
//!
//! What it does not do: look anything up, decide who may do what, or bound the size of a request.
//! Where to start reading: [`definition()`] below, then `schedule`, `target`, `request` and `policy`
//! for its parts, `secret` for what is masked and how a mask is resolved.

#![allow(
    clippy::result_large_err,
    reason = "a problem is the answer itself; it is made once and moved a few times"
)]

mod batch;
mod json;
mod limits;
mod name;
mod objects;
mod patch;
mod policy;
mod preview;
mod problem;
mod publish;
mod request;
mod retry;
mod schedule;
mod schedule_back;
mod secret;
mod spec;
mod success;
mod target;
mod unmask;

#[cfg(test)]
mod tests;

use bellwether_api::{JobSpec, Problem};
use bellwether_core::record::{self, Definition};
use bellwether_core::time::Time;
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;

pub use batch::{BatchHead, batch_head, batch_item};
pub use json::{from_json, json_problem};
pub use patch::patched;
pub use preview::{preview, preview_spec};
pub use schedule::schedule_problem;
pub use spec::spec;
pub use unmask::unmask;

/// A job that has been checked.
#[derive(Clone)]
pub struct Checked {
    /// What is to be stored.
    pub definition: Definition,
    /// Sixteen bytes that are the same for the same request.
    pub hash: Bytes,
    /// Whether the caller said that the job is to run, or is not to.
    pub enabled: Option<bool>,
    /// Things the caller should know.
    pub warnings: Vec<String>,
}

/// Definitions hold secrets, so only what is harmless is shown.
impl std::fmt::Debug for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checked")
            .field("namespace", &self.definition.namespace)
            .field("key", &self.definition.key)
            .field("enabled", &self.enabled)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

/// Checks everything that can be checked without the store, and normalises.
///
/// # Errors
/// A problem with a stable code that names the field and says what to write instead.
pub fn definition(mut spec: JobSpec, now: Time) -> Result<Checked, Problem> {
    let mut warnings = Vec::new();
    let mut definition = Definition {
        namespace: name::tenant("namespace", spec.namespace.take())?,
        key: name::key(spec.key.take())?,
        group: name::free("group", spec.group.take(), limits::NAME_CHARS_MAX)?,
        owner: name::free("owner", spec.owner.take(), limits::NAME_CHARS_MAX)?,
        labels: name::labels("labels", std::mem::take(&mut spec.labels))?,
        description: name::description(spec.description.take())?,
        queue: name::tenant("queue", spec.queue.take())?,
        ordering_key: name::free("ordering_key", spec.ordering_key.take(), limits::KEY_CHARS_MAX)?,
        requires: name::labels("requires", std::mem::take(&mut spec.requires))?,
        disabled: spec.enabled == Some(false),
        ..Definition::default()
    };
    definition.target = Some(target::target(&mut spec)?);
    definition.schedule = Some(schedule::stored(&mut spec)?);
    definition.retry = retry::retry(spec.retries, spec.retry)?;
    definition.success = success::success(spec.success.take())?;
    policy::apply(&mut spec, &mut definition)?;
    schedule::check(&definition, now)?;
    policy::warn(&definition, &mut warnings);
    let hash = Bytes::copy_from_slice(&xxh3_128(&record::encode(&definition)).to_be_bytes());
    Ok(Checked { definition, hash, enabled: spec.enabled, warnings })
}
