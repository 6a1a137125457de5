//! Which rows of a shard are taken when.

use bellwether_core::key;
use bellwether_core::record::{self, KeyRow};
use bellwether_core::waist::Family;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A part of a shard that is taken at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// Rows about batches as wholes: taken of all shards before anything else.
    Batches,
    /// All others.
    Rows,
    /// Callers' keys that are reserved for jobs of other shards: taken of all shards last. A key is
    /// reserved before its job is made, so that of every job that was copied is there.
    Keys,
}

impl Section {
    /// All, in the order in which they are taken.
    pub const ALL: [Section; 3] = [Section::Batches, Section::Rows, Section::Keys];

    /// As it stands in names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Section::Batches => "batches",
            Section::Rows => "rows",
            Section::Keys => "keys",
        }
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Section::Batches => 1,
            Section::Rows => 2,
            Section::Keys => 3,
        }
    }

    /// The families with rows of this section.
    pub(crate) fn families(self) -> &'static [Family] {
        match self {
            Section::Batches => &[Family::Batch],
            Section::Rows => &Family::ALL,
            Section::Keys => &[Family::Key],
        }
    }

    /// Whether a row is in it. What belongs to the store's machinery is in none.
    pub(crate) fn has(self, family: Family, key: &[u8], value: &Bytes) -> bool {
        let of = match family {
            Family::Meta if key.get(2) == Some(&0) => return false,
            Family::Batch if key::is_of_whole_batch(key) => Section::Batches,
            Family::Key if is_reserved(value) => Section::Keys,
            _ => Section::Rows,
        };
        of == self
    }
}

fn is_reserved(value: &Bytes) -> bool {
    record::decode::<KeyRow>("key", value.clone()).is_ok_and(|row| row.reserved_ms != 0)
}
