//! Which backups there are in a place, and which may go.
//!
//! A backup's name says when it was begun and of which cluster: `backup-<time>-<id>`, so names sort
//! by time. Only what a cluster has made itself is ever removed by it: several may share a place,
//! and a restored cluster, which has an id of its own, leaves those of the old one alone.

use std::time::Duration;

use bellwether_core::time::Time;
use futures::{StreamExt, TryStreamExt, stream};

use crate::{BackupError, Manifest, Place, Result};

/// Characters of a cluster's id that are part of the name.
const ID_CHARS: usize = 8;
/// A backup without a manifest to which nothing was added for so long was interrupted. A younger one
/// may be under way: of several nodes each may take one.
const ABANDONED_AFTER: Duration = Duration::from_secs(3_600);
/// Manifests that are read at the same time: storage may be far away.
const AT_ONCE: usize = 16;

/// A backup in a place.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// What it consists of; `None` if it was not completed or is damaged.
    pub manifest: Option<Manifest>,
    /// What is wrong with it, if it is damaged.
    pub problem: Option<String>,
}

/// A name for a backup that is begun now.
pub(crate) fn name_of(cluster: &str, begun: Time) -> String {
    let time = jiff::Timestamp::from_millisecond(begun.0).unwrap_or_default();
    format!("backup-{}-{}", time.strftime("%Y%m%dT%H%M%S%.3fZ"), short(cluster))
}

fn short(cluster: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric();
    cluster.chars().filter(plain).take(ID_CHARS).collect()
}

async fn names(place: &Place) -> Result<Vec<String>> {
    let all = place.directories().await?;
    Ok(all.into_iter().filter(|name| name.starts_with("backup-")).collect())
}

async fn names_of(place: &Place, cluster: &str) -> Result<Vec<String>> {
    let ending = format!("-{}", short(cluster));
    Ok(names(place).await?.into_iter().filter(|name| name.ends_with(&ending)).collect())
}

/// What there is, newest first; no more than `limit`.
///
/// # Errors
/// When the place cannot be read.
pub async fn list(place: &Place, limit: usize) -> Result<Vec<Listed>> {
    let names = names(place).await?.into_iter().rev().take(limit);
    let looking = names.map(|name| async move { listed(place, name).await });
    stream::iter(looking).buffered(AT_ONCE).try_collect().await
}

async fn listed(place: &Place, name: String) -> Result<Listed> {
    let (manifest, problem) = match Manifest::read(place, &name).await {
        Ok(manifest) => (manifest, None),
        Err(error @ (BackupError::Damaged(_) | BackupError::TooNew { .. })) => {
            (None, Some(error.to_string()))
        }
        Err(error) => return Err(error),
    };
    Ok(Listed { name, manifest, problem })
}

/// What there is under a name, complete or not; `None` if there is nothing.
///
/// # Errors
/// When the place cannot be read.
pub async fn look(place: &Place, name: &str) -> Result<Option<Listed>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if !name.starts_with("backup-") || !name.chars().all(plain) {
        return Ok(None);
    }
    let found = listed(place, name.to_owned()).await?;
    let is_there = found.manifest.is_some()
        || found.problem.is_some()
        || place.last_written(name).await?.is_some();
    Ok(is_there.then_some(found))
}

/// The ends of the names, by which clusters are told apart, newest first.
fn clusters(names: &[String]) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for end in names.iter().rev().filter_map(|name| Some(name.rsplit_once('-')?.1)) {
        if !found.contains(&end) {
            found.push(end);
        }
    }
    found
}

/// A backup by its name.
///
/// # Errors
/// When there is none, or it cannot be read.
pub async fn find(place: &Place, name: &str) -> Result<Manifest> {
    let missing = || BackupError::NotFound { name: name.to_owned(), place: place.to_string() };
    Manifest::read(place, name).await?.ok_or_else(missing)
}

/// The newest complete backup of a cluster, or that was begun before a certain time. Which cluster
/// need not be said if all are of one: with several, nobody can guess which is meant.
///
/// # Errors
/// When there is none, it cannot be read, or there are several clusters.
pub async fn newest(
    place: &Place,
    cluster: Option<&str>,
    before: Option<Time>,
) -> Result<Manifest> {
    let names = match cluster {
        Some(cluster) => names_of(place, cluster).await?,
        None => names(place).await?,
    };
    if let [one, another, ..] = clusters(&names)[..] {
        let (one, another, place) = (one.to_owned(), another.to_owned(), place.to_string());
        return Err(BackupError::Several { one, another, place });
    }
    for name in names.into_iter().rev() {
        // One whose manifest is damaged is not passed over in silence: an older one may be wanted.
        let manifest = Manifest::read(place, &name).await?;
        let in_time = |manifest: &Manifest| before.is_none_or(|time| manifest.begun_ms <= time.0);
        if let Some(manifest) = manifest.filter(in_time) {
            return Ok(manifest);
        }
    }
    Err(BackupError::None(place.to_string()))
}

/// The newest complete backup of a cluster whose manifest can be read.
///
/// # Errors
/// When the place cannot be read.
pub async fn newest_readable(place: &Place, cluster: &str) -> Result<Option<Manifest>> {
    for name in names_of(place, cluster).await?.into_iter().rev() {
        match Manifest::read(place, &name).await {
            Ok(Some(manifest)) => return Ok(Some(manifest)),
            Ok(None) | Err(BackupError::Damaged(_) | BackupError::TooNew { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Removes what interrupted backups of a cluster have left. How many there were.
///
/// # Errors
/// When the place cannot be read or written.
pub async fn remove_abandoned(place: &Place, cluster: &str, now: Time) -> Result<usize> {
    let mut removed = 0;
    for name in names_of(place, cluster).await? {
        if place.get(&format!("{name}/{}", crate::manifest::NAME)).await?.is_some() {
            continue;
        }
        let Some(written) = place.last_written(&name).await? else { continue };
        if u128::from(now.since_ms(written)) > ABANDONED_AFTER.as_millis() {
            place.remove(&name).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes all but the newest `keep` complete backups of a cluster. The names of those removed.
///
/// # Errors
/// When the place cannot be read or written.
pub async fn prune(place: &Place, cluster: &str, keep: usize) -> Result<Vec<String>> {
    let mut complete = Vec::new();
    for name in names_of(place, cluster).await? {
        // What cannot be read does not count as one to keep, and is not ours to throw away.
        if let Ok(Some(_)) = Manifest::read(place, &name).await {
            complete.push(name);
        }
    }
    let old = complete.len().saturating_sub(keep.max(1));
    complete.truncate(old);
    for name in &complete {
        place.remove(name).await?;
    }
    Ok(complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time() {
        let early = name_of("0a1b2c3d4e5f", Time(1_767_225_600_000));
        assert_eq!(early, "backup-20260101T000000.000Z-0a1b2c3d");
        assert!(name_of("0", Time(1_767_225_600_001)) > early);
    }
}
