//! Batches: what is asked about them, and what must hold of their figures after every turn.

use bellwether_core::id::{BatchId, JobId, RunId};
use bellwether_core::key;
use bellwether_core::record::{BatchRow, Count, PartRow, RunStatus};
use bellwether_core::turn::{BatchInput, Input, Rejection, Reply};
use bellwether_core::waist::{Family, View};

use super::consistency::Picture;
use super::job::Job;
use super::{SHARD, World, ZERO};

/// A batch that is at home here or elsewhere: parts know only its id.
pub fn batch_id(n: u16) -> BatchId {
    BatchId(JobId::new(ZERO, SHARD, n).0)
}

/// Asks for members of a batch.
pub fn members(batch: BatchId, chunk: u32, jobs: Vec<Job>) -> Input {
    let definitions = jobs.into_iter().map(|job| job.0).collect();
    Input::Batch { batch, input: Box::new(BatchInput::Members { chunk, definitions }) }
}

impl World {
    pub fn batch(&mut self, batch: BatchId, input: BatchInput) -> Result<Reply, Rejection> {
        self.ask(Input::Batch { batch, input: Box::new(input) })
    }

    pub fn part(&self, batch: BatchId) -> Option<PartRow> {
        self.store.read(Family::Batch, &key::batch_part(SHARD, batch))
    }

    pub fn batch_row(&self, batch: BatchId) -> Option<BatchRow> {
        self.store.read(Family::Batch, &key::batch(batch))
    }

    /// The members of a batch, oldest first.
    pub fn members_of(&self, batch: BatchId) -> Vec<JobId> {
        let (from, to) = key::batch_members(SHARD, batch, None);
        let rows = self.store.scan(Family::Tag, &from, &to);
        rows.map(|row| key::read_held(&row.unwrap().0).unwrap()).collect()
    }
}

/// Figures are those of the runs. Members that were deleted or pruned are still counted.
pub fn check(world: &World, picture: &Picture) {
    for batch in (0..4).map(batch_id) {
        let Some(part) = world.part(batch) else { continue };
        let open = |wanted: &[RunStatus]| {
            let of_batch = picture.open.values().filter(|(run, _)| run.batch == batch.0);
            of_batch.filter(|(run, _)| wanted.contains(&run.status())).count() as u64
        };
        let unmade = picture.members.iter().filter(|(job, its)| {
            let full = picture.full.get(job);
            **its == batch
                && full.is_some_and(|job| {
                    job.state.runs == 0 && !job.state.ended && !job.state.deleted
                })
        });
        assert_eq!(part.running, open(&[RunStatus::Claimed, RunStatus::Running]), "{batch}");
        assert_eq!(part.retrying, open(&[RunStatus::Retrying]), "{batch}");
        let ended = part.succeeded + part.failed + part.canceled + part.lost + part.skipped;
        let waiting = open(&[RunStatus::Queued]) + unmade.count() as u64;
        assert_eq!(
            part.members,
            waiting + part.running + part.retrying + ended,
            "{batch}: {part:?}"
        );
        for (status, counted) in [
            (RunStatus::Succeeded, part.succeeded),
            (RunStatus::Failed, part.failed),
            (RunStatus::Canceled, part.canceled),
            (RunStatus::Lost, part.lost),
            (RunStatus::Skipped, part.skipped),
        ] {
            let of_batch = picture.ended.values().filter(|(_, run, _)| run.batch == batch.0);
            let known = of_batch.filter(|(_, run, _)| run.status() == status).count() as u64;
            assert!(known <= counted, "{batch}: {known} {status:?}, but {counted} counted");
        }
        let runs = picture.open.iter().map(|(id, (run, _))| (id, run));
        for (id, run) in runs.chain(picture.ended.iter().map(|(id, (_, run, _))| (id, run))) {
            let RunId { job, n } = *id;
            let its = picture.members.get(&job).map_or(0, |batch| batch.0);
            assert_eq!(run.batch, if n == 1 { its } else { 0 }, "{id}");
            let counted = bellwether_core::batch::count_of(run.status());
            assert!(run.batch == 0 || run.counted() == counted || counted == Count::Waiting);
        }
    }
}
