//! Groups: names that jobs share, and the switches that hold for all of them.
//!
//! A group is there as soon as a job names it or somebody throws its switches. Its jobs are spread
//! over the shards, each of which knows the switches, so that no shard has to ask another.

use std::collections::BTreeSet;

use crate::key::{self, TagKind};
use crate::record::{self, GroupRow};
use crate::waist::{Family, Shard, StoreError, View};

/// The most jobs of a group that are counted in a shard.
const COUNT_MAX: usize = 1_000;

/// A group with its switches and with how many jobs it has, counted up to a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredGroup {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How many jobs were counted.
    pub jobs: u64,
    /// Whether counting was stopped.
    pub jobs_is_minimum: bool,
    /// Its switches, if they were ever thrown.
    pub row: Option<GroupRow>,
}

/// Namespace and name.
type Name = (String, String);

/// Groups in the order of namespace and name, after one, at most `limit`.
///
/// # Errors
/// When the store cannot be read.
pub fn groups(
    view: &dyn View,
    shards: &[Shard],
    namespace: Option<&str>,
    after: Option<(&str, &str)>,
    limit: usize,
) -> Result<Vec<StoredGroup>, StoreError> {
    let mut names: BTreeSet<Name> = BTreeSet::new();
    for shard in shards {
        names.extend(named_by_jobs(view, *shard, namespace, after, limit)?);
        names.extend(switched(view, *shard, namespace, after, limit)?);
    }
    names
        .into_iter()
        .take(limit)
        .map(|(namespace, name)| count(view, shards, namespace, name))
        .collect()
}

/// Groups that jobs of a shard name.
fn named_by_jobs(
    view: &dyn View,
    shard: Shard,
    namespace: Option<&str>,
    after: Option<(&str, &str)>,
    limit: usize,
) -> Result<Vec<Name>, StoreError> {
    let (mut from, to) = key::tags(shard, TagKind::Group, namespace);
    if let Some((namespace, name)) = after {
        from = from.max(key::after_tag(shard, TagKind::Group, namespace, name));
    }
    let mut found = Vec::new();
    while found.len() < limit
        && from < to
        && let Some(first) = view.scan(Family::Tag, &from, &to).next()
    {
        let (namespace, name, _) = key::read_tag(&first?.0)?;
        from = key::after_tag(shard, TagKind::Group, &namespace, &name);
        found.push((namespace, name));
    }
    Ok(found)
}

/// Groups whose switches were thrown.
fn switched(
    view: &dyn View,
    shard: Shard,
    namespace: Option<&str>,
    after: Option<(&str, &str)>,
    limit: usize,
) -> Result<Vec<Name>, StoreError> {
    let (mut from, to) = key::groups(shard, namespace);
    if let Some((namespace, name)) = after {
        from = from.max(key::after_group(shard, namespace, name));
    }
    if from >= to {
        return Ok(Vec::new());
    }
    view.scan(Family::Meta, &from, &to).take(limit).map(|row| key::read_group(&row?.0)).collect()
}

fn count(
    view: &dyn View,
    shards: &[Shard],
    namespace: String,
    name: String,
) -> Result<StoredGroup, StoreError> {
    let mut group = StoredGroup { namespace, name, jobs: 0, jobs_is_minimum: false, row: None };
    for shard in shards {
        let (namespace, name) = (&group.namespace, &group.name);
        let (from, to) = key::tagged(*shard, TagKind::Group, namespace, name, None);
        let jobs = view.scan(Family::Tag, &from, &to).take(COUNT_MAX + 1).count();
        if let Some(row) = view.get(Family::Meta, &key::group(*shard, namespace, name))? {
            group.row = Some(record::decode("group", row)?);
        }
        group.jobs += jobs.min(COUNT_MAX) as u64;
        group.jobs_is_minimum |= jobs > COUNT_MAX;
    }
    Ok(group)
}
