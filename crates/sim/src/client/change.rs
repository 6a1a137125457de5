//! Changing jobs and groups.

use bellwether_core::id::{JobId, RunId};
use bellwether_core::record;
use bellwether_core::turn::{GroupChange, Input, Reply};

use super::{Client, TRIES};
use crate::jobs::{GROUPS, some_schedule};

/// How long maintenance lasts at most.
const MAINTENANCE_MS: u64 = 10_000;

impl Client {
    pub(super) async fn change(&mut self, job: JobId) {
        match self.chance.below(15) {
            0 => self.delete(job).await,
            1 | 2 => self.pause(job).await,
            3..5 => self.resume(job).await,
            5..8 => self.trigger(job).await,
            8 => self.maintain(job).await,
            9 => self.cancel(job).await,
            10 | 11 => self.retry(job).await,
            _ => self.edit(job).await,
        }
    }

    /// Asks for a change of a job. Whether it was acknowledged, and with which answer.
    async fn done(&mut self, job: JobId, input: Input, what: &'static str) -> Option<Reply> {
        let reply = self.ask(job.shard(), input).await?.ok()?;
        self.world.saw(what);
        Some(reply)
    }

    async fn delete(&mut self, job: JobId) {
        self.record(|record| {
            if let Some(known) = record.jobs.get_mut(&job) {
                known.deleted = true;
            }
        });
        let input = Input::Delete { actor: "ana".to_owned(), job };
        if self.done(job, input, "a job was deleted").await.is_some() {
            self.record(|record| record.wishes.deleted.insert(job));
        }
    }

    async fn pause(&mut self, job: JobId) {
        let input = Input::Pause { actor: "ana".to_owned(), job, note: String::new() };
        if self.done(job, input, "a job was paused").await.is_some() {
            self.record(|record| record.wishes.jobs.entry(job).or_default().paused = true);
        }
    }

    async fn resume(&mut self, job: JobId) {
        self.record(|record| record.wishes.jobs.entry(job).or_default().resumed = true);
        let input = Input::Resume { actor: "ana".to_owned(), job };
        self.done(job, input, "a job was resumed").await;
    }

    async fn maintain(&mut self, job: JobId) {
        let ms = self.chance.below(MAINTENANCE_MS);
        let until = Some(self.world.now(self.place).plus_ms(ms));
        let (actor, note) = ("ana".to_owned(), String::new());
        let input = Input::Maintenance { actor, job, until, note };
        self.done(job, input, "a job was put into maintenance").await;
    }

    async fn trigger(&mut self, job: JobId) {
        let input = Input::Trigger { actor: "ana".to_owned(), job };
        if let Some(Reply::Run(run)) = self.done(job, input, "a job was triggered").await {
            self.record(|record| record.wishes.runs.insert(run));
        }
    }

    async fn cancel(&mut self, job: JobId) {
        let input = Input::Cancel { actor: "ana".to_owned(), run: self.some_run(job) };
        self.done(job, input, "a run was canceled").await;
    }

    async fn retry(&mut self, job: JobId) {
        let run = self.some_run(job);
        // It may be done as often as it is asked for.
        self.record(|record| *record.asked.entry(run).or_default() += TRIES as u32 * 2);
        let input = Input::Retry { actor: "ana".to_owned(), run };
        self.done(job, input, "a run was retried by hand").await;
    }

    /// Changes the newest revision that is known: if there is a newer one, that is refused.
    async fn edit(&mut self, job: JobId) {
        let says = self.fresh_name();
        let now = self.world.now(self.place);
        let (known, before) = self.record(|record| {
            let known = record.jobs.get(&job).map(|known| known.definition.clone());
            (known, record.wishes.revision(job))
        });
        let old = before > 1 && self.chance.one_in(6);
        let before = if old { before - 1 } else { before };
        let Some(mut definition) = known else { return };
        definition.description.clone_from(&says);
        definition.schedule = Some(some_schedule(&mut self.chance, now));
        self.record(|record| record.wishes.try_edit(job, before + 1, &says));
        let input = Input::Replace {
            actor: "ana".to_owned(),
            job,
            hash: record::encode(&definition),
            definition: Box::new(definition),
            enabled: None,
            expected_revision: Some(before),
        };
        let known = match self.ask(job.shard(), input).await {
            Some(Ok(_)) => {
                self.world.saw("a job was changed");
                self.record(|record| record.wishes.edited(job, before + 1, Some(&says)))
            }
            Some(Err(rejection)) if rejection.code == "changed_meanwhile" => {
                self.world.saw("a change of an old revision was refused");
                self.record(|record| record.wishes.edited(job, before + 1, None))
            }
            _ => Ok(()),
        };
        if let Err(error) = known {
            self.wrong(error);
        }
    }

    fn some_run(&mut self, job: JobId) -> RunId {
        let started: Vec<RunId> = self
            .record(|record| record.starts.keys().filter(|run| run.job == job).copied().collect());
        self.chance.of(&started).copied().unwrap_or(RunId { job, n: 1 })
    }

    /// Throws the switches of a group, in all shards.
    pub(super) async fn switch_group(&mut self) {
        let group = GROUPS[self.chance.below(2) as usize].to_owned();
        let pause = self.chance.one_in(3);
        for shard in 0..self.world.shards {
            let switch = (shard, group.clone());
            if !pause {
                self.record(|r| r.wishes.groups.entry(switch.clone()).or_default().resumed = true);
            }
            loop {
                let change = match pause {
                    true => GroupChange::Pause { note: String::new() },
                    false => GroupChange::Resume,
                };
                let (actor, namespace) = ("ana".to_owned(), "default".to_owned());
                let input = Input::Group { actor, namespace, group: group.clone(), change };
                match self.ask(shard, input).await {
                    Some(Ok(Reply::More(true))) => {}
                    Some(Ok(_)) => break,
                    _ => return,
                }
            }
            if pause {
                self.world.saw("a group was paused");
                self.record(|record| record.wishes.groups.entry(switch).or_default().paused = true);
            } else {
                self.world.saw("a group was resumed");
            }
        }
    }
}
