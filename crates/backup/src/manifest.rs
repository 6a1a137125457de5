//! The manifest: what a backup consists of. It is written last, and makes it a backup.
//!
//! It is JSON, `{"sha256":"…","manifest":{…}}`, so that people can read it too; the hash is that of
//! the inner text as it stands there.

use bellwether_core::waist::Shard;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{BackupError, Place, Result, Section};

/// The newest format this program knows.
pub const FORMAT: u32 = 1;
/// Its name within the backup.
pub(crate) const NAME: &str = "manifest.json";

/// What a backup consists of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The format.
    pub format: u32,
    /// The backup's name.
    pub name: String,
    /// The id of the cluster it was taken of.
    pub cluster: String,
    /// The version of the program that took it.
    pub program: String,
    /// When it was begun, in milliseconds since 1970. All that was acknowledged before is in it.
    pub begun_ms: i64,
    /// When it was complete.
    pub ended_ms: i64,
    /// The shards, in order; all of them.
    pub shards: Vec<ShardEntry>,
}

/// A shard of a backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShardEntry {
    /// Its number.
    pub shard: Shard,
    /// Its term at that moment.
    pub term: u64,
    /// The moment at which its rows were as they are here.
    pub taken_ms: i64,
    /// Rows of batches as wholes, which were taken before.
    pub batches: SectionEntry,
    /// All others.
    pub rows: SectionEntry,
    /// Keys that are reserved for jobs of other shards, which were taken after that.
    pub keys: SectionEntry,
}

impl ShardEntry {
    pub(crate) fn section(&self, section: Section) -> &SectionEntry {
        match section {
            Section::Batches => &self.batches,
            Section::Rows => &self.rows,
            Section::Keys => &self.keys,
        }
    }
}

/// A section of a shard.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SectionEntry {
    /// Its objects, in order.
    pub parts: Vec<PartEntry>,
}

/// An object of a backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartEntry {
    /// Its name within the backup.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Bytes of the object.
    pub stored_bytes: u64,
    /// The object's SHA-256, in hexadecimal.
    pub sha256: String,
}

/// A hash as it is written.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Manifest {
    pub(crate) fn parts(&self) -> impl Iterator<Item = &PartEntry> {
        let sections =
            self.shards.iter().flat_map(|shard| [&shard.batches, &shard.rows, &shard.keys]);
        sections.flat_map(|section| &section.parts)
    }

    /// Rows of all shards.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.parts().map(|part| part.rows).sum()
    }

    /// Bytes of their keys and values.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts().map(|part| part.bytes).sum()
    }

    /// Bytes of all objects.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.parts().map(|part| part.stored_bytes).sum()
    }

    pub(crate) fn encode(&self) -> Result<Bytes> {
        let inner = serde_json::to_string(self)
            .map_err(|error| BackupError::damaged(format!("the manifest: {error}")))?;
        let hash = sha256(inner.as_bytes());
        Ok(Bytes::from(format!("{{\"sha256\":\"{hash}\",\"manifest\":{inner}}}\n")))
    }

    pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Manifest> {
        let damaged = |why: &str| BackupError::damaged(format!("the manifest of {name} {why}"));
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("is no text"))?;
        let inner = text.strip_prefix("{\"sha256\":\"").and_then(|rest| rest.strip_suffix("}\n"));
        let (hash, inner) = inner
            .and_then(|rest| rest.split_once("\",\"manifest\":"))
            .ok_or_else(|| damaged("is not what was written"))?;
        if sha256(inner.as_bytes()) != hash {
            return Err(damaged("is not what was written"));
        }
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let wrong = |error: serde_json::Error| damaged(&format!("cannot be read: {error}"));
        let Format { format } = serde_json::from_str(inner).map_err(wrong)?;
        if format > FORMAT {
            let name = name.to_owned();
            return Err(BackupError::TooNew { name, found: format, known: FORMAT });
        }
        let manifest: Manifest = serde_json::from_str(inner).map_err(wrong)?;
        if manifest.name != name {
            return Err(damaged(&format!("is that of {}", manifest.name)));
        }
        if !manifest.shards.iter().map(|entry| entry.shard).eq(0..manifest.shards.len() as Shard) {
            return Err(damaged("lacks shards"));
        }
        Ok(manifest)
    }

    /// The manifest of a backup; `None` if it has none, and so is no backup.
    pub(crate) async fn read(place: &Place, name: &str) -> Result<Option<Manifest>> {
        match place.get(&format!("{name}/{NAME}")).await? {
            Some(bytes) => Manifest::decode(name, &bytes).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) async fn write(&self, place: &Place) -> Result<()> {
        place.put(&format!("{}/{NAME}", self.name), self.encode()?).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            format: FORMAT,
            name: "backup-x".to_owned(),
            cluster: "c".to_owned(),
            program: "1".to_owned(),
            begun_ms: 1,
            ended_ms: 2,
            shards: Vec::new(),
        }
    }

    #[test]
    fn every_byte_of_a_manifest_counts() {
        let encoded = manifest().encode().unwrap();
        assert_eq!(Manifest::decode("backup-x", &encoded).unwrap(), manifest());
        for at in 0..encoded.len() {
            for bit in 0..8 {
                let mut damaged = encoded.to_vec();
                damaged[at] ^= 1 << bit;
                assert!(Manifest::decode("backup-x", &damaged).is_err(), "byte {at}, bit {bit}");
            }
            assert!(Manifest::decode("backup-x", &encoded[..at]).is_err());
        }
        assert!(Manifest::decode("backup-y", &encoded).is_err(), "it is of another");
    }

    #[test]
    fn a_later_format_is_named() {
        let later = Manifest { format: 2, ..manifest() }.encode().unwrap();
        let error = Manifest::decode("backup-x", &later).unwrap_err().to_string();
        assert!(error.contains("use a later version"), "{error}");
    }
}
