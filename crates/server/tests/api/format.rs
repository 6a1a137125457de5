//! Data directories of earlier formats.

use std::fs;

use bellwether_api::{JobStatus, RunStatus, TickFate};
use bellwether_client::PageFilter;
use bellwether_core::id::{JobId, RunId};
use bellwether_core::key;
use bellwether_core::record::{
    self, Definition, HandlerTarget, Rule, RuleForm, Schedule, StoreRow, Target,
};
use bellwether_core::settings::Settings;
use bellwether_core::time::Time;
use bellwether_core::turn::{
    self, Effect, Ending, Finished, Input, Memory, NewJob, Reply, Report, Reported, Turn,
};
use bellwether_core::waist::{Batch, Family, Op, Shard};
use bellwether_server::Config;
use bellwether_store::{DiskEngine, DiskOptions, Engine};
use bytes::Bytes;

use crate::world::{World, config};

const SHARDS: u16 = 4;

/// A server of the time when a store was one database, whose journal was the truth.
struct Old {
    engine: DiskEngine,
    memory: Vec<Memory>,
    /// What is due, by shard.
    due: Vec<(Shard, Input)>,
}

impl Old {
    fn new(config: &Config, now: Time) -> Old {
        let engine = DiskEngine::open(DiskOptions::new(&config.data_dir)).unwrap();
        let format = fs::read_to_string(config.data_dir.join("FORMAT")).unwrap();
        assert_eq!(format, "bellwether store 1\n");
        let memory = (0..SHARDS).map(|shard| {
            let term = engine.acquire(shard).unwrap();
            turn::load(&*engine.view(), shard, term, Settings::default()).unwrap()
        });
        let memory: Vec<Memory> = memory.collect();
        let store = StoreRow { id: "old".to_owned(), shards: SHARDS.into(), created_ms: now.0 };
        let (family, key) = (Family::Meta, key::store_row());
        let put = Op::Put { family, key, value: record::encode(&store) };
        engine.commit(Batch { shard: 0, term: memory[0].term, ops: vec![put] }).unwrap();
        Old { engine, memory, due: Vec::new() }
    }

    /// One turn of a shard. What it answered, and to whom runs were assigned.
    fn turn<T>(
        &mut self,
        shard: Shard,
        now: Time,
        decide: impl FnOnce(&mut Turn<'_>) -> T,
    ) -> (T, Vec<(RunId, u64)>) {
        let view = self.engine.view();
        let memory = &mut self.memory[usize::from(shard)];
        let term = memory.term;
        let mut turn = Turn::new(&*view, memory, now);
        let answer = decide(&mut turn);
        let decided = turn.finish();
        self.engine.commit(Batch { shard, term, ops: decided.ops }).unwrap();
        let mut assigned = Vec::new();
        for effect in decided.effects {
            match effect {
                Effect::Plan(entry, value) => self.due.push((shard, Input::Due { entry, value })),
                Effect::Assign(given) => assigned.push((given.run, given.token)),
                _ => {}
            }
        }
        (answer, assigned)
    }

    fn create(&mut self, shard: Shard, now: Time, form: RuleForm) -> JobId {
        let handler =
            HandlerTarget { job_type: "bellwether.noop".to_owned(), ..Default::default() };
        let schedule = Schedule { any: vec![Rule { form: Some(form) }], ..Schedule::default() };
        let definition = Definition {
            target: Some(Target::Handler(handler)),
            schedule: Some(schedule),
            ..Definition::default()
        };
        let job = NewJob { definition, hash: Bytes::from_static(b"hash"), reserved: None };
        let input = Input::Create { actor: "old".to_owned(), jobs: vec![job] };
        let (reply, _) = self.turn(shard, now, |turn| turn.decide(input).unwrap());
        let Reply::Created(created) = reply else { panic!("{reply:?}") };
        created[0].clone().unwrap().job
    }

    /// Runs everything that is due at an instant.
    fn run_all(&mut self, now: Time) {
        let is_due = |input: &Input| matches!(input, Input::Due { entry, .. } if entry.time <= now);
        let (due, later) = std::mem::take(&mut self.due).into_iter().partition(|(_, i)| is_due(i));
        self.due = later;
        let due: Vec<(Shard, Input)> = due;
        for (shard, input) in due {
            self.turn(shard, now, |turn| turn.decide(input).unwrap());
            let (_, assigned) = self.turn(shard, now, |turn| {
                for (lane, count) in turn.waiting() {
                    turn.claim(&lane, "host@server", count, false).unwrap();
                }
            });
            for (run, token) in assigned {
                let what = Reported::Finished(Box::new(Finished::at(now, Ending::Succeeded)));
                let report = Input::Report(Report { run, token, what });
                self.turn(shard, now, |turn| turn.decide(report).unwrap());
            }
        }
    }
}

fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Time(i64::try_from(since.as_millis()).unwrap())
}

#[tokio::test]
async fn r70_a_store_from_before_there_was_a_log_is_taken_over_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let settings = config(&dir);
    let begun = Time(now().0 - 60_000);
    let jobs = tokio::task::spawn_blocking(move || {
        let mut old = Old::new(&settings, begun);
        let mut jobs = Vec::new();
        for shard in 0..SHARDS {
            let done = old.create(shard, begun, RuleForm::DelayMs(10_000));
            let waiting = old.create(shard, begun, RuleForm::DelayMs(3_600_000));
            let often = old.create(shard, begun, RuleForm::EveryMs(20_000));
            jobs.push((done, waiting, often));
        }
        old.run_all(begun.plus_ms(20_000));
        old.run_all(begun.plus_ms(40_000));
        old.engine.close().unwrap();
        jobs
    });
    let jobs = jobs.await.unwrap();
    let server = bellwether_server::start(config(&dir)).await.unwrap();
    assert_eq!(server.cluster_id(), "old", "it is what it was");
    let client = bellwether_client::Client::new(&server.local_addr().to_string()).unwrap();
    let mut world = World { server, client, dir };
    let format = fs::read_to_string(world.dir.path().join("data/FORMAT")).unwrap();
    assert_eq!(format, "bellwether store 2\n", "earlier versions leave it alone");
    for again in [false, true] {
        if again {
            world = world.restart().await;
        }
        assert_eq!(world.client.jobs(&Default::default()).await.unwrap().items.len(), 12);
        for (done, waiting, often) in &jobs {
            let (done, waiting, often) = (done.to_string(), waiting.to_string(), often.to_string());
            let job = world.client.job(&done).await.unwrap();
            assert_eq!(job.info.status, JobStatus::Completed);
            let runs = world.client.job_runs(&done, &PageFilter::default()).await.unwrap().items;
            assert_eq!((runs.len(), runs[0].status), (1, RunStatus::Succeeded));
            let job = world.client.job(&waiting).await.unwrap();
            let time = job.info.execution_time.unwrap().0;
            assert_eq!((job.info.status, time), (JobStatus::Scheduled, begun.plus_ms(3_600_000)));
            world
                .until("it goes on", async || {
                    let runs = world.client.job_runs(&often, &PageFilter::default()).await.unwrap();
                    let all = runs.items.iter().all(|run| run.status == RunStatus::Succeeded);
                    runs.items.len() >= 3 && all
                })
                .await;
            let ticks = world.client.ticks(&often, &PageFilter::default()).await.unwrap().items;
            for at in [20_000, 40_000] {
                let at = begun.plus_ms(at);
                let tick = ticks.iter().find(|tick| tick.at.0 == at).unwrap();
                assert_eq!(tick.fate, TickFate::Fired, "{ticks:?}");
            }
        }
    }
    world.server.shutdown().await.unwrap();
}
