//! What was acknowledged is there: deletions, changes, pauses and runs (R70).

use std::sync::Arc;

use bellwether_core::key;
use bellwether_core::read;
use bellwether_core::record::{self, GroupRow};
use bellwether_core::waist::{Family, Shard, View};

use crate::record::Record;

/// The switches of a group in a shard.
#[must_use]
pub fn group(view: &dyn View, shard: Shard, name: &str) -> Option<GroupRow> {
    let row = view.get(Family::Meta, &key::group(shard, "default", name)).ok()??;
    record::decode("group", row).ok()
}

/// Looks at everything that was acknowledged, but for jobs and batches themselves.
pub fn check(record: &mut Record, views: &[Arc<dyn View>]) {
    let mut found = Vec::new();
    let asked = &record.wishes;
    for (id, known) in &record.jobs {
        let view = &*views[usize::from(id.shard())];
        let Ok(job) = read::job(view, *id) else { continue };
        let there = job.as_ref().filter(|job| !job.state.deleted);
        if asked.deleted.contains(id) {
            found.extend(there.map(|_| format!("R70: {id} is there, though it was deleted")));
        }
        let Some(job) = there.filter(|_| !known.deleted) else { continue };
        found.extend(asked.check_edit(*id, job.revision, &job.definition.description).err());
        let must = asked.jobs.get(id).is_some_and(|switch| switch.must_be_paused());
        if must && job.state.paused.is_none() {
            found.push(format!("R70: {id} is not paused, though that was acknowledged"));
        }
    }
    for ((shard, name), _) in asked.groups.iter().filter(|(_, switch)| switch.must_be_paused()) {
        let row = group(&*views[usize::from(*shard)], *shard, name);
        if row.is_none_or(|row| row.paused.is_none()) {
            found.push(format!("R70: group {name} is not paused in shard {shard}"));
        }
    }
    for run in &asked.runs {
        let deleted = record.jobs.get(&run.job).is_none_or(|known| known.deleted);
        let view = &*views[usize::from(run.job.shard())];
        if !deleted && !matches!(read::run(view, *run), Ok(Some(_))) {
            found.push(format!("R70: {run} was acknowledged"));
        }
    }
    for what in found {
        record.wrong(what);
    }
}
