//! What clients have asked for and were told: what of it must be found at the end.
//!
//! A request may arrive late or twice, and one without an answer may have been done or not. So what is
//! kept here is only what is certain all the same.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_core::id::{BatchId, JobId, RunId};
use bellwether_core::waist::Shard;

/// What was asked for about jobs, groups and batches.
#[derive(Default)]
pub struct Asked {
    edits: BTreeMap<JobId, Edits>,
    /// Jobs of which it was acknowledged that they are deleted.
    pub deleted: BTreeSet<JobId>,
    /// Switches of jobs.
    pub jobs: BTreeMap<JobId, Switch>,
    /// Switches of groups, by shard.
    pub groups: BTreeMap<(Shard, String), Switch>,
    /// Runs that somebody was told to exist.
    pub runs: BTreeSet<RunId>,
    /// Batches that were accepted.
    pub batches: BTreeMap<BatchId, KnownBatch>,
}

/// Something that can be paused.
#[derive(Clone, Copy, Default)]
pub struct Switch {
    /// Somebody was told that it is paused.
    pub paused: bool,
    /// Somebody has asked for the end of a pause, at whatever time.
    pub resumed: bool,
}

impl Switch {
    /// Whether it must be paused, whatever was late or came twice.
    #[must_use]
    pub fn must_be_paused(self) -> bool {
        self.paused && !self.resumed
    }
}

/// A batch that was accepted.
#[derive(Clone, Copy)]
pub struct KnownBatch {
    /// How many items it has.
    pub items: u64,
    /// Whether somebody has asked to cancel it.
    pub canceled: bool,
}

/// Edits of a job. Each is of a revision, so of several only one can succeed.
#[derive(Default)]
struct Edits {
    /// The newest revision that is known to exist, from 1.
    newest: u32,
    /// What the revisions may say.
    tried: BTreeMap<u32, BTreeSet<String>>,
    /// What they are known to say.
    done: BTreeMap<u32, String>,
}

impl Asked {
    /// The newest revision of a job that is known.
    #[must_use]
    pub fn revision(&self, job: JobId) -> u32 {
        self.edits.get(&job).map_or(1, |edits| edits.newest.max(1))
    }

    /// An edit is tried that would lead to this revision.
    pub fn try_edit(&mut self, job: JobId, revision: u32, says: &str) {
        let edits = self.edits.entry(job).or_default();
        edits.tried.entry(revision).or_default().insert(says.to_owned());
    }

    /// The revision is there, and says this if it is known what it says. An error if it is known to
    /// say something else.
    pub fn edited(&mut self, job: JobId, revision: u32, says: Option<&str>) -> Result<(), String> {
        let edits = self.edits.entry(job).or_default();
        edits.newest = edits.newest.max(revision);
        let Some(says) = says else { return Ok(()) };
        match edits.done.insert(revision, says.to_owned()) {
            Some(other) if other != says => Err(format!(
                "two changes of {job} to revision {revision} were acknowledged: {other} and {says}"
            )),
            _ => Ok(()),
        }
    }

    /// Whether a job may be at this revision and say this.
    pub fn check_edit(&self, job: JobId, revision: u32, says: &str) -> Result<(), String> {
        let newest = self.revision(job);
        if revision < newest {
            return Err(format!("R70: {job} is at revision {revision}, but was at {newest}"));
        }
        let Some(edits) = self.edits.get(&job).filter(|_| revision > 1) else { return Ok(()) };
        let expected = edits.done.get(&revision);
        let possible = edits.tried.get(&revision).is_some_and(|tried| tried.contains(says));
        if !possible || expected.is_some_and(|expected| expected != says) {
            return Err(format!(
                "R70: revision {revision} of {job} says '{says}', acknowledged was {expected:?}"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(7);

    #[test]
    fn an_edit_that_was_acknowledged_must_be_there_unless_a_newer_one_is() {
        let mut asked = Asked::default();
        assert_eq!(asked.revision(JOB), 1);
        asked.check_edit(JOB, 1, "").unwrap();
        asked.try_edit(JOB, 2, "one");
        asked.check_edit(JOB, 1, "").unwrap();
        asked.check_edit(JOB, 2, "one").unwrap();
        asked.edited(JOB, 2, Some("one")).unwrap();
        asked.check_edit(JOB, 1, "").unwrap_err();
        asked.check_edit(JOB, 2, "two").unwrap_err();
        asked.try_edit(JOB, 2, "two");
        asked.check_edit(JOB, 2, "two").unwrap_err();
        asked.edited(JOB, 2, Some("two")).unwrap_err();
        asked.try_edit(JOB, 3, "three");
        asked.check_edit(JOB, 3, "three").unwrap();
        asked.check_edit(JOB, 3, "one").unwrap_err();
        asked.edited(JOB, 3, None).unwrap();
        assert_eq!(asked.revision(JOB), 3);
    }

    #[test]
    fn a_pause_is_certain_only_if_nobody_ever_asked_for_its_end() {
        let mut switch = Switch { paused: true, resumed: false };
        assert!(switch.must_be_paused());
        switch.resumed = true;
        assert!(!switch.must_be_paused());
    }
}
