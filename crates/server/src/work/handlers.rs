//! Handlers that every server has.

use std::collections::BTreeMap;

/// Does nothing, at once, and succeeds: for trying things out and for measuring.
pub const NOOP: &str = "bellwether.noop";

/// How many of them may be under way: enough that handing over, not waiting, is the limit.
const NOOP_SLOTS: usize = 16_384;

/// The built-in handlers with their slots.
#[must_use]
pub fn slots() -> BTreeMap<String, usize> {
    BTreeMap::from([(NOOP.to_owned(), NOOP_SLOTS)])
}
