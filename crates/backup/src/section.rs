//! Which rows of a shard are taken when.

use bellwether_core::key;
use bellwether_core::waist::Family;
use serde::{Deserialize, Serialize};

/// A part of a shard that is taken at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// Rows about batches as wholes: taken of all shards before anything else.
    Batches,
    /// All others.
    Rows,
}

impl Section {
    /// Both, in the order in which they are taken.
    pub const ALL: [Section; 2] = [Section::Batches, Section::Rows];

    /// As it stands in names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Section::Batches => "batches",
            Section::Rows => "rows",
        }
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Section::Batches => 1,
            Section::Rows => 2,
        }
    }

    /// The families with rows of this section.
    pub(crate) fn families(self) -> &'static [Family] {
        match self {
            Section::Batches => &[Family::Batch],
            Section::Rows => &Family::ALL,
        }
    }

    /// Whether a row is in it. What belongs to the store's machinery is in none.
    pub(crate) fn has(self, family: Family, key: &[u8]) -> bool {
        if family == Family::Meta && key.get(2) == Some(&0) {
            return false;
        }
        let of_whole_batch = family == Family::Batch && key::is_of_whole_batch(key);
        of_whole_batch == (self == Section::Batches)
    }
}
