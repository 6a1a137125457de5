//! Lists over many jobs and runs, over all shards, newest first.
//!
//! Each shard is asked for candidates in descending order of id (or of place in history), the
//! candidates of all shards are merged, and each is looked at until the page is full or enough has
//! been looked at. A cursor is the last candidate looked at, so going on never repeats or skips.

use bytes::Bytes;

use super::jobs::{JobStatus, StoredJob, job};
use super::runs::{StoredRun, run, with_definition};
use super::{LOOK_MAX, ahead, shard_row};
use crate::id::{JobId, RunId};
use crate::key::{self, Place, TagKind};
use crate::record::{self, RunStatus};
use crate::time::Time;
use crate::turn;
use crate::waist::{Family, Rows, Shard, StoreError, View};

/// Which jobs are wanted. Empty texts mean any.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Namespace.
    pub namespace: Option<String>,
    /// Group; needs a namespace.
    pub group: Option<String>,
    /// Owner; needs a namespace.
    pub owner: Option<String>,
    /// Label as `name=value`; needs a namespace.
    pub label: Option<String>,
    /// Status.
    pub status: Option<JobStatus>,
    /// Start of the key.
    pub key_prefix: Option<String>,
}

/// Part of a list: the rows, and where to go on if there may be more.
#[derive(Clone, Debug)]
pub struct Found<T, C> {
    /// The rows.
    pub items: Vec<T>,
    /// The last row looked at, if there may be more.
    pub cursor: Option<C>,
}

impl JobFilter {
    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    /// The narrowest list that holds all wanted jobs.
    fn tag(&self) -> Option<(TagKind, &str)> {
        if let Some(label) = &self.label {
            return Some((TagKind::Label, label));
        }
        if let Some(owner) = &self.owner {
            return Some((TagKind::Owner, owner));
        }
        if let Some(group) = &self.group {
            return Some((TagKind::Group, group));
        }
        self.namespace.as_deref().filter(|ns| *ns != "default").map(|_| (TagKind::Namespace, ""))
    }

    fn matches(&self, job: &StoredJob) -> bool {
        let definition = &job.definition;
        let label_matches = |label: &String| {
            label.split_once('=').is_some_and(|(name, value)| {
                definition.labels.get(name).is_some_and(|found| found == value)
            })
        };
        self.namespace.as_ref().is_none_or(|ns| turn::namespace_name(definition) == ns)
            && self.group.as_ref().is_none_or(|group| definition.group == *group)
            && self.owner.as_ref().is_none_or(|owner| definition.owner == *owner)
            && self.label.as_ref().is_none_or(label_matches)
            && self.key_prefix.as_ref().is_none_or(|p| definition.key.starts_with(p.as_str()))
            && self.status.is_none_or(|status| job.status() == status)
    }
}

/// Jobs of the given shards, newest first, with ids below `before`.
///
/// # Errors
/// When the store cannot be read.
pub fn jobs(
    view: &dyn View,
    shards: &[Shard],
    filter: &JobFilter,
    before: Option<JobId>,
    limit: usize,
) -> Result<Found<StoredJob, JobId>, StoreError> {
    let mut sources: Vec<Rows<'_>> = Vec::new();
    for shard in shards {
        match filter.tag() {
            Some((kind, value)) => {
                let (from, to) = key::tagged(*shard, kind, filter.namespace(), value, before);
                sources.push(view.scan_back(Family::Tag, &from, &to));
            }
            None => {
                let (from, to) = key::ids_below(*shard, before);
                sources.push(view.scan_back(Family::Index, &from, &to));
                sources.push(view.scan_back(Family::Job, &from, &to));
            }
        }
    }
    let id_of = |key: &Bytes| -> Result<JobId, StoreError> {
        // In all three families the id stands last.
        key::read_held(key)
    };
    let mut merged = Merged::new(sources, id_of);
    let mut items = Vec::new();
    let (mut last, mut looked) = (None, 0);
    while looked < LOOK_MAX && items.len() < limit {
        let ids: Vec<JobId> = merged.some(limit - items.len())?.into_iter().map(|r| r.0).collect();
        if ids.is_empty() {
            return Ok(Found { items, cursor: None });
        }
        looked += ids.len();
        last = ids.last().copied();
        ahead::jobs(view, &ids)?;
        for id in ids {
            items.extend(job(view, id)?.filter(|found| filter.matches(found)));
        }
    }
    Ok(Found { items, cursor: last })
}

/// Jobs whose key starts with a prefix, in the order of their keys, after the key `after`.
///
/// # Errors
/// When the store cannot be read.
pub fn jobs_by_key(
    view: &dyn View,
    shards: &[Shard],
    filter: &JobFilter,
    after: Option<&str>,
    limit: usize,
) -> Result<Found<StoredJob, String>, StoreError> {
    let prefix = filter.key_prefix.as_deref().unwrap_or("");
    let mut rows = Vec::new();
    let mut cut = false;
    for shard in shards {
        let (from, to) = key::caller_keys(*shard, filter.namespace(), prefix, after);
        let before = rows.len();
        for row in view.scan(Family::Key, &from, &to).take(limit) {
            let (key, value) = row?;
            let (_, name) = key::read_caller_key(&key)?;
            let row: record::KeyRow = record::decode("key", value)?;
            rows.push((name, JobId(row.job)));
        }
        cut |= rows.len() - before == limit;
    }
    rows.sort_unstable();
    cut |= rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().map(|(name, _)| name.clone());
    ahead::jobs(view, &rows.iter().map(|(_, id)| *id).collect::<Vec<_>>())?;
    let mut items = Vec::new();
    for (_, id) in rows {
        if let Some(found) = job(view, id)?
            && filter.matches(&found)
        {
            items.push(found);
        }
    }
    Ok(Found { items, cursor: last.filter(|_| cut) })
}

/// Which runs are wanted.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// Status; any if empty.
    pub statuses: Vec<RunStatus>,
    /// Queue.
    pub queue: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Group.
    pub group: Option<String>,
}

impl RunFilter {
    fn matches(&self, found: &StoredRun) -> bool {
        let definition = &found.definition;
        (self.statuses.is_empty() || self.statuses.contains(&found.run.status()))
            && self.queue.as_ref().is_none_or(|queue| turn::queue_name(definition) == queue)
            && self.namespace.as_ref().is_none_or(|ns| turn::namespace_name(definition) == ns)
            && self.group.as_ref().is_none_or(|group| definition.group == *group)
    }

    fn wants(&self, statuses: &[RunStatus]) -> bool {
        self.statuses.is_empty() || self.statuses.iter().any(|status| statuses.contains(status))
    }
}

/// Where a list of runs goes on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RunCursor {
    /// Among the open runs, below this one.
    Open(RunId),
    /// Among the ended ones, filed before this.
    Ended(Time, RunId),
}

const OPEN: [RunStatus; 4] =
    [RunStatus::Queued, RunStatus::Claimed, RunStatus::Running, RunStatus::Retrying];
const DEAD: [RunStatus; 2] = [RunStatus::Failed, RunStatus::Lost];
const DONE: [RunStatus; 3] = [RunStatus::Succeeded, RunStatus::Canceled, RunStatus::Skipped];

/// Runs of the given shards: the open ones, then the ended ones, each newest first.
///
/// # Errors
/// When the store cannot be read.
pub fn runs(
    view: &dyn View,
    shards: &[Shard],
    filter: &RunFilter,
    cursor: Option<RunCursor>,
    limit: usize,
) -> Result<Found<StoredRun, RunCursor>, StoreError> {
    let mut items = Vec::new();
    let mut looked = 0;
    if filter.wants(&OPEN) && matches!(cursor, None | Some(RunCursor::Open(_))) {
        let before = match cursor {
            Some(RunCursor::Open(id)) => Some(id),
            _ => None,
        };
        let mut merged = Merged::new(open_sources(view, shards, before), |key| {
            let (job, n) = key::read_run(key)?;
            Ok(RunId { job, n: n.unwrap_or(1) })
        });
        loop {
            let rows = merged.some(limit - items.len())?;
            let Some((last, _)) = rows.last() else { break };
            let last = *last;
            looked += rows.len();
            ahead::definitions(view, rows.iter().map(|(id, _)| *id))?;
            for (id, value) in rows {
                let row = record::decode("active", value)?;
                items.extend(with_definition(view, id, row)?.filter(|run| filter.matches(run)));
            }
            if items.len() >= limit || looked >= LOOK_MAX {
                return Ok(Found { items, cursor: Some(RunCursor::Open(last)) });
            }
        }
    }
    if !filter.wants(&DEAD) && !filter.wants(&DONE) {
        return Ok(Found { items, cursor: None });
    }
    let before = match cursor {
        Some(RunCursor::Ended(time, id)) => Some((time, id)),
        _ => None,
    };
    let rest = limit - items.len();
    let only_dead = !filter.wants(&DONE);
    let mut ended = if only_dead {
        dead_runs(view, shards, filter, before, rest)?
    } else {
        ended_runs(view, shards, filter, before, rest)?
    };
    items.append(&mut ended.items);
    Ok(Found { items, cursor: ended.cursor })
}

fn open_sources<'a>(view: &'a dyn View, shards: &[Shard], before: Option<RunId>) -> Vec<Rows<'a>> {
    shards
        .iter()
        .map(|shard| {
            let (from, to) = key::shard_range(*shard);
            // Keys of one shard sort as runs do; those of others compare by the id's time.
            let to = match before {
                Some(id) if id.job.shard() == *shard => key::run(id),
                Some(id) => key::ids_below(*shard, Some(id.job)).1,
                None => to,
            };
            view.scan_back(Family::Active, &from, &to)
        })
        .collect()
}

/// The next instant. The time of a cursor may be any number, so it is held at the last one.
fn just_after(time: Time) -> Time {
    Time(time.0.saturating_add(1))
}

/// Runs that failed or were lost, from their own list.
fn dead_runs(
    view: &dyn View,
    shards: &[Shard],
    filter: &RunFilter,
    before: Option<(Time, RunId)>,
    limit: usize,
) -> Result<Found<StoredRun, RunCursor>, StoreError> {
    let sources = shards
        .iter()
        .map(|shard| {
            let (from, mut to) = key::deads(*shard, Time(i64::MIN), Time(i64::MAX));
            if let Some((time, id)) = before {
                to = if id.job.shard() == *shard {
                    key::dead(time, id)
                } else if *shard > id.job.shard() {
                    key::deads(*shard, time, just_after(time)).1
                } else {
                    key::deads(*shard, time, time).0
                };
            }
            view.scan_back(Family::Dead, &from, &to)
        })
        .collect();
    let mut merged = Merged::new(sources, |key| {
        let (time, id) = key::read_dead(key)?;
        Ok((time, std::cmp::Reverse(id.job.shard()), id))
    });
    let mut items = Vec::new();
    let mut looked = 0;
    loop {
        let rows = merged.some(limit - items.len())?;
        let ids: Vec<RunId> = rows.iter().map(|((_, _, id), _)| *id).collect();
        let Some(((time, _, last), _)) = rows.last() else {
            return Ok(Found { items, cursor: None });
        };
        looked += ids.len();
        ahead::runs(view, &ids)?;
        for id in ids {
            items.extend(run(view, id)?.filter(|run| filter.matches(run)));
        }
        if items.len() >= limit || looked >= LOOK_MAX {
            return Ok(Found { items, cursor: Some(RunCursor::Ended(*time, *last)) });
        }
    }
}

/// Ended runs from history, over all retention classes.
fn ended_runs(
    view: &dyn View,
    shards: &[Shard],
    filter: &RunFilter,
    before: Option<(Time, RunId)>,
    limit: usize,
) -> Result<Found<StoredRun, RunCursor>, StoreError> {
    let mut sources = Vec::new();
    for shard in shards {
        let row = shard_row(view, *shard)?;
        for (class, upto_ms) in &row.classes {
            let class = *class as u16;
            let (from, mut to) = key::class_range(*shard, class, Time(*upto_ms), Time(i64::MAX));
            if let Some((time, id)) = before {
                to = if id.job.shard() == *shard {
                    Place { class, time, run: id }.history()
                } else if *shard > id.job.shard() {
                    key::class_range(*shard, class, time, just_after(time)).1
                } else {
                    key::class_range(*shard, class, time, time).0
                };
            }
            if from < to {
                sources.push(view.scan_back(Family::History, &from, &to));
            }
        }
    }
    let mut merged = Merged::new(sources, |key| {
        let place = Place::read(key)?;
        Ok((place.time, std::cmp::Reverse(place.run.job.shard()), place.run))
    });
    let mut items = Vec::new();
    let mut looked = 0;
    loop {
        let rows = merged.some(limit - items.len())?;
        let Some(((time, _, last), _)) = rows.last() else {
            return Ok(Found { items, cursor: None });
        };
        let cursor = RunCursor::Ended(*time, *last);
        looked += rows.len();
        ahead::definitions(view, rows.iter().map(|((_, _, id), _)| *id))?;
        for ((_, _, id), value) in rows {
            let row = record::decode("history", value)?;
            items.extend(with_definition(view, id, row)?.filter(|run| filter.matches(run)));
        }
        if items.len() >= limit || looked >= LOOK_MAX {
            return Ok(Found { items, cursor: Some(cursor) });
        }
    }
}

/// Several descending scans as one. Rows of the same time come in the order of their shards.
pub(super) struct Merged<'a, K, F> {
    sources: Vec<Rows<'a>>,
    heads: Vec<Option<(K, Bytes)>>,
    key_of: F,
    started: bool,
}

impl<'a, K: Ord + Copy, F: Fn(&Bytes) -> Result<K, StoreError>> Merged<'a, K, F> {
    pub(super) fn new(sources: Vec<Rows<'a>>, key_of: F) -> Merged<'a, K, F> {
        let heads = sources.iter().map(|_| None).collect();
        Merged { sources, heads, key_of, started: false }
    }

    fn fill(&mut self, source: usize) -> Result<(), StoreError> {
        self.heads[source] = match self.sources[source].next() {
            Some(row) => {
                let (key, value) = row?;
                Some(((self.key_of)(&key)?, value))
            }
            None => None,
        };
        Ok(())
    }

    /// Some of the next rows, as many as are looked at together and `most` of them. There are no more
    /// if it is empty.
    pub(super) fn some(&mut self, most: usize) -> Result<Vec<(K, Bytes)>, StoreError> {
        let mut rows = Vec::new();
        while rows.len() < most.clamp(1, ahead::AHEAD)
            && let Some(row) = self.next()?
        {
            rows.push(row);
        }
        Ok(rows)
    }

    fn next(&mut self) -> Result<Option<(K, Bytes)>, StoreError> {
        if !self.started {
            self.started = true;
            for source in 0..self.sources.len() {
                self.fill(source)?;
            }
        }
        let highest = (0..self.heads.len())
            .filter(|source| self.heads[*source].is_some())
            .max_by_key(|source| self.heads[*source].as_ref().map(|(key, _)| *key));
        let Some(source) = highest else {
            return Ok(None);
        };
        let taken = self.heads[source].take();
        self.fill(source)?;
        Ok(taken)
    }
}
