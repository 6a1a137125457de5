//! Tests of the conversion, one file for each thing it promises.

mod bad_input;
mod bad_json;
mod examples;
mod patches;
mod previews;
mod properties;
mod publish;
mod secrets;

use bellwether_api::{JobSpec, Problem};
use bellwether_core::time::Time;

use super::{Checked, definition, from_json};

/// 2026-06-01T00:00:00Z, the present in these tests.
const NOW: Time = Time(1_780_272_000_000);

/// Reads and checks a body as the server does.
fn check(body: &str) -> Result<Checked, Problem> {
    definition(from_json::<JobSpec>(body.as_bytes())?, NOW)
}

/// Checks a body that is known to be good.
fn checked(body: &str) -> Checked {
    check(body).unwrap_or_else(|problem| panic!("{problem}: {body}"))
}
