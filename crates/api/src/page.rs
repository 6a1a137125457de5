//! Lists.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The header of every list that says how many milliseconds it may be behind, at most.
pub const STALENESS_HEADER: &str = "bellwether-staleness-ms";

/// Part of a list. If there is a cursor, there may be more: ask again with it. A page may have
/// fewer items than the limit, or none, and still not be the last.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where to go on.
    pub next_cursor: Option<String>,
}

/// A list that all nodes of a cluster have a part of. It has everything at once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Gathered<T> {
    /// The items.
    pub items: Vec<T>,
    /// Always absent: there is no more.
    pub next_cursor: Option<String>,
    /// The names of nodes that did not answer within a second: what only they know is not in the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_nodes: Vec<String>,
}
