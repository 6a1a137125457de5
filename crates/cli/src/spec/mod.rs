//! Jobs as people describe them: by flags, and in files.
//!
//! Flags become fields of a [`bellwether_api::JobSpec`] and nothing else: what is valid is decided
//! by the server, whose words are better than a second set of rules here.

mod compare;
mod flags;
mod policy;
mod read;
mod schedule;
mod target;
mod value;

pub use compare::{Change, Difference, apply_patch, canonical, difference, merge_patch};
pub use flags::{SpecFlags, TemplateFlags};
pub use read::{Described, name_of, read_specs, read_text};
pub use schedule::{is_once, schedule_object};
pub use value::{parse_count, parse_lasting, parse_span, typed_time};
