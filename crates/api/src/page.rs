//! Lists.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Part of a list. If there is a cursor, there may be more: ask again with it. A page may have
/// fewer items than the limit, or none, and still not be the last.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where to go on.
    pub next_cursor: Option<String>,
}
